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

use super::miss_curve::{ALL_MISS, EventsPer1000, MissCurve, MissPoint};

/// Bytes of a cache line.
pub(crate) const LINE: f64 = base::LINE_BYTES as f64;
/// Number of steps in which a cache is filled.
const N_STEPS: usize = 128;
/// Lower bound of misses per 1000 instructions. A program at this bound gets only space that no other program fills.
const MISSES_MIN: f64 = 1e-9;
/// Maximum empty share of a full cache. It is below the rounding error of sums.
const EMPTY_SHARE_MAX: f64 = 1e-12;

/// How a program fills a cache, and its events at each occupancy, by step.
///
/// ```text
///   spent │         ╱ step 2     a step has a constant rate of insertions
///         │     ╱╱╱              and event counts that change linearly with the occupancy
///         └╱╱────────► occupancy
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FillTable {
    /// Begins of the steps in ascending order. The last element is the end of the last step.
    steps: Vec<FillStep>,
}

/// The begin of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FillStep {
    /// Occupancy in bytes.
    begin: f64,
    /// Thousands of instructions after which the occupancy is reached.
    spent: f64,
    /// Event counts at the occupancy, on a core with a prefetcher.
    events: EventsPer1000,
}

/// A linear function within one step of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepLine {
    /// Begin and end of the step.
    from: f64,
    to: f64,
    /// Value at the begin.
    value: f64,
    /// Change per unit.
    pub slope: f64,
}

impl StepLine {
    /// Returns the function through two points.
    pub fn through([from, to]: [(f64, f64); 2]) -> Self {
        let slope = (to.1 - from.1) / (to.0 - from.0);
        StepLine { from: from.0, to: to.0, value: from.1, slope }
    }

    /// Returns whether the function is that of the step of a point.
    pub fn contains(&self, at: f64) -> bool {
        self.from <= at && at < self.to
    }

    /// Returns the value at a point of the step.
    pub fn at(&self, at: f64) -> f64 {
        if self.slope == 0.0 { self.value } else { self.value + self.slope * (at - self.from) }
    }
}

/// A step is halved if the misses in its middle differ from the average of both ends by more than this share. The
/// interpolation then adds less than a thousandth to the error of a miss-ratio curve.
const BEND_MAX: f64 = 2e-3;

/// Returns whether the misses between two sizes are not a straight line. In a large cache, the working set of a small
/// program fits into one step; without refinement, the program would never occupy this step.
fn bends(curve: &MissCurve, begin: f64, end: f64) -> bool {
    let [low, middle, high] = [begin, begin.midpoint(end), end].map(|bytes| curve.at(bytes));
    let bend = |of: fn(&MissPoint) -> f64| {
        let difference = of(&middle) - of(&low).midpoint(of(&high));
        BEND_MAX * of(&low) < libm::fabs(difference)
    };
    ALL_MISS < end - begin && (bend(|row| row.misses) || bend(|row| row.demand_misses))
}

impl FillTable {
    /// Computes how a program fills a cache of `bytes`.
    pub fn new(curve: &MissCurve, bytes: f64) -> Self {
        let at = |idx: usize| bytes * idx as f64 / N_STEPS as f64;
        // The parts are a stack: the next part is the last element.
        let mut ahead: Vec<(f64, f64)> =
            (0..N_STEPS).rev().map(|idx| (at(idx), at(idx + 1))).collect();
        let step = |begin, spent| FillStep { begin, spent, events: curve.events(begin) };
        let mut steps = vec![step(0.0, 0.0)];
        let (mut spent, mut misses) = (0.0, f64::INFINITY);
        while let Some((begin, end)) = ahead.pop() {
            let middle = begin.midpoint(end);
            if bends(curve, begin, end) {
                ahead.extend([(middle, end), (begin, middle)]);
                continue;
            }
            // Measurements are noisy, so misses are limited to the misses at the next smaller size.
            misses = curve.at(middle).misses.clamp(MISSES_MIN, misses);
            spent += (end - begin) / LINE / misses;
            steps.push(step(end, spent));
        }
        FillTable { steps }
    }

    /// Returns both ends of the step that contains a value. `hint` is the index of a near step, and becomes that of the
    /// step.
    #[inline]
    fn step_of(
        &self,
        value: f64,
        of: impl Fn(&FillStep) -> f64,
        hint: &mut usize,
    ) -> (&FillStep, &FillStep) {
        let last = self.steps.len() - 2;
        let mut at = (*hint).min(last);
        for _ in 0..N_NEAR_STEPS {
            let (from, to) = (&self.steps[at], &self.steps[at + 1]);
            if value < of(from) && 0 < at {
                at -= 1;
            } else if of(to) <= value && at < last {
                at += 1;
            } else {
                *hint = at;
                return (from, to);
            }
        }
        *hint = self.steps.partition_point(|step| of(step) <= value).saturating_sub(1).min(last);
        (&self.steps[*hint], &self.steps[*hint + 1])
    }

    /// Returns the bytes filled after `thousands` of instructions, and the bytes per thousand instructions at this
    /// point. `hint` is as in [`FillTable::events`].
    pub fn filled_after(&self, thousands: f64, hint: &mut usize) -> (f64, f64) {
        let line = self.line_of_fill(thousands, hint);
        (line.at(thousands), line.slope)
    }

    /// Returns the bytes over the thousands of instructions near a point. `hint` is as in [`FillTable::events`].
    pub fn line_of_fill(&self, thousands: f64, hint: &mut usize) -> StepLine {
        let (from, to) = self.step_of(thousands, |step| step.spent, hint);
        if to.spent <= thousands {
            return StepLine { from: to.spent, to: f64::INFINITY, value: to.begin, slope: 0.0 };
        }
        StepLine::through([(from.spent, from.begin), (to.spent, to.begin)])
    }

    /// Returns the thousands of instructions after which the cache is full.
    pub fn thousands_to_fill(&self) -> f64 {
        self.steps[self.steps.len() - 1].spent
    }

    /// Returns the event counts at an occupancy. `hint` is an index that speeds up the next call for a near
    /// occupancy; any value is correct.
    pub fn events(&self, bytes: f64, hint: &mut usize) -> EventsPer1000 {
        let (from, to) = self.step_of(bytes, |step| step.begin, hint);
        let part = ((bytes - from.begin) / (to.begin - from.begin)).clamp(0.0, 1.0);
        from.events.mixed(&to.events, part)
    }

    /// Returns both ends of the step of an occupancy: bytes, and event counts. `hint` is as in [`FillTable::events`].
    pub fn ends_of_step(&self, bytes: f64, hint: &mut usize) -> [(f64, &EventsPer1000); 2] {
        let (from, to) = self.step_of(bytes, |step| step.begin, hint);
        [from, to].map(|step| (step.begin, &step.events))
    }
}

impl FillTable {
    /// Returns how a share of the data fills the cache.
    pub(super) fn scaled(&self, share: f64) -> Self {
        let scaled = |step: &FillStep| FillStep { begin: step.begin * share, ..*step };
        FillTable { steps: self.steps.iter().map(scaled).collect() }
    }

    /// Returns the bytes that the program holds if every line stays for `thousands` of instructions: insertions per
    /// instruction at this occupancy, multiplied by the residence time.
    pub(super) fn held_for(&self, thousands: f64) -> f64 {
        let (mut low, mut high) = (0, self.n_steps());
        while low < high {
            let middle = low.midpoint(high);
            let is_passed = self.steps[middle + 1].begin <= self.slope_of(middle) * thousands;
            if is_passed { low = middle + 1 } else { high = middle }
        }
        match low < self.n_steps() {
            true => self.steps[low].begin.max(self.slope_of(low) * thousands),
            false => self.steps[low].begin,
        }
    }

    /// Returns the thousands of instructions for which every line stays if the program fills the cache alone, as in
    /// [`FillTable::held_for`].
    pub(super) fn thousands_held(&self) -> f64 {
        self.steps[self.n_steps()].begin / self.slope_of(self.n_steps() - 1)
    }

    fn n_steps(&self) -> usize {
        self.steps.len() - 1
    }

    /// Returns the bytes per thousand instructions that the program inserts in a step.
    fn slope_of(&self, step: usize) -> f64 {
        let (from, to) = (&self.steps[step], &self.steps[step + 1]);
        (to.begin - from.begin) / (to.spent - from.spent)
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

impl Refill {
    /// Returns a share of the refill.
    pub fn scaled(&self, share: f64) -> Self {
        Refill { lines: self.lines * share, thousands: self.thousands * share }
    }
}

/// Number of steps from the hint after which a step is searched in the whole table.
const N_NEAR_STEPS: usize = 8;
/// A refill ends where the misses exceed those at the final occupancy by less than this share.
const FILLED: f64 = 0.02;

impl FillTable {
    /// Returns the additional misses while the occupancy grows. `hint` is the index of the step by occupancy, as in
    /// [`FillTable::events`].
    pub fn refill(&self, from: f64, to: f64, hint: usize) -> Refill {
        let misses_at = |idx: usize| {
            let (step, next) = (&self.steps[idx], &self.steps[idx + 1]);
            (next.begin - step.begin) / LINE / (next.spent - step.spent)
        };
        let (mut first, mut last) = (hint, hint);
        self.step_of(from, |step| step.begin, &mut first);
        self.step_of(to, |step| step.begin, &mut last);
        if to <= self.steps[last].begin {
            let Some(before) = last.checked_sub(1) else { return Refill::default() };
            last = before;
        }
        // Misses do not increase with the occupancy.
        let misses = misses_at(last);
        let limit = misses * (1.0 + FILLED) + 2.0 * MISSES_MIN;
        // Steps before the first occupancy add nothing.
        let (mut low, mut high) = (first.min(last), last);
        while low < high {
            let middle = low.midpoint(high);
            if misses_at(middle) <= limit { high = middle } else { low = middle + 1 }
        }
        let end = self.steps[low].begin.min(to);
        if end <= from {
            return Refill::default();
        }
        let thousands = self.spent_at(end, low) - self.spent_at(from, first);
        Refill { lines: ((end - from) / LINE - misses * thousands).max(0.0), thousands }
    }

    /// Returns the thousands of instructions after which `bytes` are filled, near a step.
    fn spent_at(&self, bytes: f64, mut hint: usize) -> f64 {
        let (from, to) = self.step_of(bytes, |step| step.begin, &mut hint);
        let part = ((bytes - from.begin) / (to.begin - from.begin)).clamp(0.0, 1.0);
        from.spent + part * (to.spent - from.spent)
    }
}

/// Returns the occupancy of each program in bytes. Each program has a fill table for a cache of at least `bytes` and
/// a time per 1000 instructions in a common unit. A program that does not run (infinite time) has no occupancy.
pub fn occupancies(programs: &[(&FillTable, f64)], bytes: f64) -> Vec<f64> {
    let mut occupancies = vec![0.0; programs.len()];
    lru_occupancies(programs, bytes, 0.0, &mut occupancies);
    occupancies
}

/// Writes the result of [`occupancies`] into a slice of the same length. Returns the residence time, as
/// [`residence_time`].
pub(super) fn lru_occupancies(
    programs: &[(&FillTable, f64)],
    bytes: f64,
    guess: f64,
    occupancies: &mut [f64],
) -> f64 {
    let time = residence_time(programs, bytes, guess);
    for ((table, takes), occupancy) in programs.iter().zip(occupancies) {
        let thousands = if takes.is_finite() { time / takes } else { 0.0 };
        *occupancy = table.filled_after(thousands, &mut 0).0.min(bytes);
    }
    time
}

/// Returns the residence time of a line in the unit of the programs ([`occupancies`]); it is infinite if the programs do
/// not fill the cache. `guess` is an estimate, for example the last solution.
pub fn residence_time(programs: &[(&FillTable, f64)], bytes: f64, guess: f64) -> f64 {
    // The total filled amount is a concave function of time. Newton's method from the left therefore never
    // overshoots, and reaches the step in which the cache is full. From the right, the first iteration ends on the left.
    let mut time = if guess.is_finite() { guess } else { 0.0 };
    let n_steps = programs.iter().map(|(table, _)| table.steps.len()).sum::<usize>();
    let mut hints = vec![0; programs.len()];
    for _ in 0..n_steps.max(N_STEPS) {
        let (mut sum, mut slope) = (0.0, 0.0);
        for ((table, takes), hint) in programs.iter().zip(&mut hints) {
            let (full, grows) = table.filled_after(time / takes, hint);
            sum += full.min(bytes);
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
    fn the_events_of_the_table_are_those_of_the_curve() {
        let row = |kib: f64, misses| MissPoint::of_demand(1024.0 * kib, misses);
        let rows = [(64.0, 30.0), (256.0, 29.0), (512.0, 4.0), (8192.0, 3.5), (16384.0, 0.0)];
        let curve =
            MissCurve::new(rows.map(|(kib, misses)| row(kib, misses)).to_vec(), row(0.0, 40.0));
        let curve = curve.expect("a valid curve");
        for mib in [1.0, 8.0, 32.0, 1024.0] {
            let table = FillTable::new(&curve, mib * MIB);
            let mut hint = 0;
            for idx in 0..=5000 {
                let bytes = mib * MIB * f64::from(idx) / 5000.0;
                let (found, expected) = (table.events(bytes, &mut hint), curve.events(bytes));
                let ends = table.ends_of_step(bytes, &mut 0);
                let other = StepLine::through(ends.map(|(at, events)| (at, events.demand_misses)));
                let other = other.at(bytes);
                assert_eq!(other.max(0.0), found.demand_misses.max(0.0), "both ends of the step");
                let off = (found.demand_misses - expected.demand_misses).abs();
                // A step is at least as long as the smallest cache.
                let near = curve.events((bytes - ALL_MISS).max(0.0)).demand_misses
                    - curve.events(bytes + ALL_MISS).demand_misses;
                assert!(
                    off <= 2.0 * BEND_MAX * expected.demand_misses + near,
                    "{mib} MiB, {bytes}: {off}"
                );
            }
        }
    }

    #[test]
    fn a_refill_reads_the_working_set_once() {
        let row = |bytes, misses| MissPoint { bytes, misses, ..MissPoint::default() };
        // No misses from 256 KiB on.
        let rows = vec![row(MIB / 8.0, 30.0), row(MIB / 4.0, 0.0)];
        let curve = MissCurve::new(rows, row(0.0, 30.0)).expect("a valid curve");
        for size in [1.0, 8.0, 256.0].map(|mib| mib * MIB) {
            let table = FillTable::new(&curve, size);
            let Refill { lines, thousands } = table.refill(0.0, size, 0);
            assert!((3800.0..=4100.0).contains(&lines), "{size}: {lines} of 4096 lines");
            assert!(lines / 30.0 <= thousands * 1.001 && thousands < 1e6, "{size}: {thousands}");
            assert_eq!(table.refill(size / 2.0, size, 0), Refill::default());
            let parts =
                table.refill(0.0, MIB / 8.0, 0).lines + table.refill(MIB / 8.0, size, 0).lines;
            for (from, to) in [(0.0, 0.3), (0.2, 0.21), (0.5, 1.0)] {
                let near = |hint| table.refill(from * size, to * size, hint);
                assert!((0..table.steps.len() + 2).all(|hint| near(hint) == near(0)));
            }
            assert!(parts <= lines + 1.0, "lines that miss at both sizes are no refill");
        }
        let stream = FillTable::new(
            &MissCurve::new(vec![row(MIB, 30.0)], row(0.0, 30.0)).expect("a valid curve"),
            MIB,
        );
        assert!(stream.refill(0.0, MIB, 0).lines < 1.0, "a stream never hits");
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
