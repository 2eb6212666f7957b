//! Occupancy of a shared cache by each program.
//!
//! A program inserts lines into the cache at the rate of its misses. The miss rate of a program decreases as the
//! occupancy of the program increases. In an LRU cache, all lines have the same residence time `T`. The occupancy of a
//! program is therefore the amount that the program fills in the time `T`, starting with an empty cache. `T` is the
//! time in which all programs together fill the cache:
//!
//! ```text
//!   size │            ╭─── a        d size / d t = misses(size) per instruction ÷ time per instruction
//!        │      ╭─────╯
//!        │  ╭───╯   ╭────── b       a(T) + b(T) = cache size
//!        └──┴───────┴──┴─► t
//!                      T
//! ```
//!
//! See X. Xiang, C. Ding, H. Luo, B. Bao, "HOTL: A Higher Order Theory of Locality", ASPLOS 2013, sections 2 and 3.
//! For independent references, the result equals Che's approximation.
//!
//! The filled amount per instruction does not depend on the speed of the program. It is computed once, in a
//! [`FillTable`]. The speed only scales the time.

use super::MissCurve;
use super::miss_curve::ALL_MISS;

/// Bytes of a cache line.
pub(crate) const LINE: f64 = base::LINE_BYTES as f64;
/// Number of steps in which a cache is filled.
const N_STEPS: usize = 128;
/// Lower bound of misses per 1000 instructions. A program at this bound gets only space that no other program fills.
const MISSES_MIN: f64 = 1e-9;
/// Maximum empty share of a full cache. It is below the rounding error of sums.
const EMPTY_SHARE_MAX: f64 = 1e-12;

/// Instructions that a program needs to fill a cache, by step.
#[derive(Clone, Debug, PartialEq)]
pub struct FillTable {
    /// Thousands of instructions after which 0, 1, 2, … steps are filled. The values and their increments increase.
    spent: Vec<f64>,
    steps: Vec<FillStep>,
    /// Sum of all steps in bytes.
    bytes: f64,
}

/// A part of a cache that is filled at a constant rate, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FillStep {
    begin: f64,
    width: f64,
}

impl FillStep {
    fn middle(&self) -> f64 {
        self.begin + 0.5 * self.width
    }

    fn halves(&self) -> [FillStep; 2] {
        let width = self.width / 2.0;
        [FillStep { width, ..*self }, FillStep { begin: self.begin + width, width }]
    }

    /// Returns whether the misses decrease by more than [`MISS_RATIO_MAX`] in the first half of the step. In a large
    /// cache, the working set of a small program fits into one step; without refinement, the program would never occupy
    /// this step.
    fn hides_a_knee(&self, character: &MissCurve) -> bool {
        let misses = |bytes| character.at(bytes).misses;
        ALL_MISS < self.width && misses(self.middle()) * MISS_RATIO_MAX < misses(self.begin)
    }
}

/// A step is halved if its misses decrease by more than this factor (guessed).
const MISS_RATIO_MAX: f64 = 16.0;

impl FillTable {
    /// Computes how a program fills a cache of `bytes`.
    pub fn new(character: &MissCurve, bytes: f64) -> Self {
        let width = bytes / N_STEPS as f64;
        // The steps are a stack: the next step is the last element.
        let even = (0..N_STEPS).rev().map(|idx| FillStep { begin: idx as f64 * width, width });
        let mut ahead: Vec<FillStep> = even.collect();
        let mut table =
            FillTable { spent: vec![0.0], steps: Vec::new(), bytes: width * N_STEPS as f64 };
        let (mut so_far, mut misses) = (0.0, f64::INFINITY);
        while let Some(step) = ahead.pop() {
            if step.hides_a_knee(character) {
                ahead.extend(step.halves().into_iter().rev());
                continue;
            }
            // Measurements are noisy, so misses are limited to the misses at the next smaller size.
            misses = character.at(step.middle()).misses.clamp(MISSES_MIN, misses);
            so_far += step.width / LINE / misses;
            table.spent.push(so_far);
            table.steps.push(step);
        }
        table
    }

    /// Returns the bytes filled after `thousands` of instructions, and the bytes per thousand instructions at this
    /// point.
    fn filled_after(&self, thousands: f64) -> (f64, f64) {
        let next = self.spent.partition_point(|&spent| spent <= thousands);
        let (Some(&end), Some(step)) = (self.spent.get(next), self.steps.get(next - 1)) else {
            return (self.bytes, 0.0);
        };
        let begin = self.spent[next - 1];
        let slope = step.width / (end - begin);
        (step.begin + slope * (thousands - begin), slope)
    }
}

/// Additional misses of a program whose occupancy grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Refill {
    /// Misses beyond those at the final occupancy.
    pub lines: f64,
    /// Thousands of instructions in which they occur.
    pub thousands: f64,
}

/// A refill ends where the misses exceed those at the final occupancy by less than this share.
const FILLED: f64 = 0.02;

impl FillTable {
    /// Returns the additional misses while the occupancy grows.
    pub fn refill(&self, from: f64, to: f64) -> Refill {
        let misses_at =
            |idx: usize| self.steps[idx].width / LINE / (self.spent[idx + 1] - self.spent[idx]);
        let Some(last) = self.steps.partition_point(|step| step.begin < to).checked_sub(1) else {
            return Refill::default();
        };
        // Misses do not increase with the occupancy.
        let misses = misses_at(last);
        let limit = misses * (1.0 + FILLED) + 2.0 * MISSES_MIN;
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = low.midpoint(high);
            if misses_at(middle) <= limit { high = middle } else { low = middle + 1 }
        }
        let end = self.steps[low].begin.min(to);
        if end <= from {
            return Refill::default();
        }
        let thousands = self.spent_at(end) - self.spent_at(from);
        Refill { lines: ((end - from) / LINE - misses * thousands).max(0.0), thousands }
    }

    /// Returns the thousands of instructions after which `bytes` are filled.
    fn spent_at(&self, bytes: f64) -> f64 {
        let next = self.steps.partition_point(|step| step.begin < bytes);
        let Some(idx) = next.checked_sub(1) else { return 0.0 };
        let (step, begin, end) = (self.steps[idx], self.spent[idx], self.spent[idx + 1]);
        begin + ((bytes - step.begin) / step.width).min(1.0) * (end - begin)
    }
}

/// Returns the occupancy of each program in bytes. Each program has a fill table for a cache of at least `bytes` and
/// a time per instruction in a common unit. A program that does not run (infinite time) has no occupancy.
pub fn occupancies(programs: &[(&FillTable, f64)], bytes: f64) -> Vec<f64> {
    let mut occupancies = vec![0.0; programs.len()];
    compute_occupancies(programs, bytes, 0.0, &mut occupancies);
    occupancies
}

/// Writes the result of [`occupancies`] into a slice of the same length. Returns the residence time of a line, in the
/// time unit of the programs for 1000 instructions; it is infinite if the programs do not fill the cache. `guess` is an
/// estimate of the residence time, for example that of the last solution.
pub fn compute_occupancies(
    programs: &[(&FillTable, f64)],
    bytes: f64,
    guess: f64,
    occupancies: &mut [f64],
) -> f64 {
    // The total filled amount is a concave function of time. Newton's method from the left therefore never
    // overshoots, and reaches the step in which the cache is full. From the right, the first iteration ends on the left.
    let mut time = if guess.is_finite() { guess } else { 0.0 };
    let n_steps = programs.iter().map(|(table, _)| table.steps.len()).sum::<usize>();
    for _ in 0..n_steps.max(N_STEPS) {
        let (mut sum, mut slope) = (0.0, 0.0);
        for ((table, takes), occupancy) in programs.iter().zip(occupancies.iter_mut()) {
            let (full, grows) = table.filled_after(time / takes);
            *occupancy = full.min(bytes);
            sum += *occupancy;
            slope += if full < bytes { grows / takes } else { 0.0 };
        }
        if libm::fabs(bytes - sum) <= bytes * EMPTY_SHARE_MAX {
            return time;
        }
        if slope <= 0.0 && sum < bytes {
            return f64::INFINITY;
        }
        time = (time + (bytes - sum) / slope).max(0.0);
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physics::MissPoint;

    const MIB: f64 = 1048576.0;

    /// Returns a table for misses at ..., 1/4, 1/2 and 1 MiB, in this order.
    fn table(misses: &[f64]) -> FillTable {
        let row = |(idx, &misses): (usize, &f64)| MissPoint {
            bytes: MIB / f64::from(1u32 << idx),
            misses,
            ..MissPoint::default()
        };
        let rows = misses.iter().rev().enumerate().map(row).collect();
        FillTable::new(&MissCurve::new(rows, MissPoint::default()).expect("a valid curve"), MIB)
    }

    #[test]
    fn one_program_occupies_the_whole_cache() {
        assert!((occupancies(&[(&table(&[5.0]), 1.0)], MIB)[0] - MIB).abs() < 1.0);
    }

    #[test]
    fn a_refill_reads_the_working_set_once() {
        let row = |bytes, misses| MissPoint { bytes, misses, ..MissPoint::default() };
        // No misses from 256 KiB on.
        let rows = vec![row(MIB / 8.0, 30.0), row(MIB / 4.0, 0.0)];
        let curve = MissCurve::new(rows, row(0.0, 30.0)).expect("a valid curve");
        for size in [1.0, 8.0, 256.0].map(|mib| mib * MIB) {
            let table = FillTable::new(&curve, size);
            let Refill { lines, thousands } = table.refill(0.0, size);
            assert!((3800.0..=4100.0).contains(&lines), "{size}: {lines} of 4096 lines");
            assert!(lines / 30.0 <= thousands * 1.001 && thousands < 1e6, "{size}: {thousands}");
            assert_eq!(table.refill(size / 2.0, size), Refill::default());
            let parts = table.refill(0.0, MIB / 8.0).lines + table.refill(MIB / 8.0, size).lines;
            assert!(parts <= lines + 1.0, "lines that miss at both sizes are no refill");
        }
        let stream = FillTable::new(
            &MissCurve::new(vec![row(MIB, 30.0)], row(0.0, 30.0)).expect("a valid curve"),
            MIB,
        );
        assert!(stream.refill(0.0, MIB).lines < 1.0, "a stream never hits");
    }

    #[test]
    fn two_programs_without_hits_share_the_cache_in_proportion_to_their_miss_rates() {
        let (one, other) = (table(&[20.0]), table(&[10.0]));
        let filled = occupancies(&[(&one, 1.0), (&other, 2.0)], MIB);
        assert!((filled[0] / filled[1] - 4.0).abs() < 1e-6, "{filled:?}");
        assert!((filled.iter().sum::<f64>() - MIB).abs() < 1.0, "{filled:?}");
    }

    #[test]
    fn a_program_that_does_not_run_occupies_nothing() {
        let one = table(&[20.0]);
        let filled = occupancies(&[(&one, 1.0), (&one, f64::INFINITY)], MIB);
        assert!((filled[0] - MIB).abs() < 1.0 && filled[1] == 0.0, "{filled:?}");
        assert_eq!(occupancies(&[(&one, f64::INFINITY)], MIB), [0.0]);
    }

    #[test]
    fn a_small_working_set_stays_resident_next_to_a_streaming_program() {
        // The small program has no misses from 512 KiB on.
        let (small, stream) = (table(&[30.0, 0.0, 0.0]), table(&[30.0]));
        let filled = occupancies(&[(&small, 1.0), (&stream, 1.0)], MIB);
        assert!(0.2 * MIB < filled[0] && filled[0] < 0.5 * MIB, "{filled:?}");
    }

    #[test]
    fn a_small_working_set_stays_resident_in_a_cache_of_any_size() {
        // The small program has no misses from 128 KiB on.
        let row = |bytes, misses| MissPoint { bytes, misses, ..MissPoint::default() };
        let all = MissCurve::new(vec![row(MIB / 8.0, 0.0)], row(0.0, 30.0)).expect("a valid curve");
        let stream =
            MissCurve::new(vec![row(MIB, 30.0)], MissPoint::default()).expect("a valid curve");
        for mib in [8.0, 32.0, 64.0, 1024.0] {
            let [small, stream] = [&all, &stream].map(|curve| FillTable::new(curve, mib * MIB));
            let filled = occupancies(&[(&small, 1.0), (&stream, 1.0)], mib * MIB);
            assert!(MIB / 8.0 * 0.95 < filled[0] && filled[0] < MIB / 4.0, "{mib} MiB: {filled:?}");
            assert!((filled[0] + filled[1] - mib * MIB).abs() < 1.0, "{mib} MiB: {filled:?}");
        }
    }

    #[test]
    fn a_cache_that_no_program_fills_is_shared_equally() {
        let quiet = table(&[0.0]);
        let filled = occupancies(&[(&quiet, 1.0), (&quiet, 1.0)], MIB);
        assert!((filled[0] - MIB / 2.0).abs() < 1.0 && filled[0] == filled[1], "{filled:?}");
    }
}
