//! Who holds how much of a cache that several programs share.
//!
//! Each program puts lines into the cache at the rate at which it misses, and misses the less the more it
//! holds. In a cache that forgets what was used least recently, everybody's lines stay for the same time
//! `T`; so each holds what it can fill in that time, beginning with nothing, and `T` is such that
//! together they fill the cache:
//!
//! ```text
//!   size │            ╭─── a        d size / d t = misses(size) per instruction ÷ time per instruction
//!        │      ╭─────╯
//!        │  ╭───╯   ╭────── b       a(T) + b(T) = the cache
//!        └──┴───────┴──┴─► t
//!                      T
//! ```
//!
//! (Footprint theory: Xiang, Ding, Luo, Bao, "HOTL: a higher order theory of locality", ASPLOS 2013,
//! sections 2 and 3; for independent references the same as Che's approximation.)
//!
//! Counted in instructions, how a program fills does not depend on how fast it runs. So that is worked out
//! once, in a [`FillTable`]; its speed only stretches the time.

use super::Character;
use super::character::ALL_MISS;

/// Bytes of a line.
pub(crate) const LINE: f64 = 64.0;
/// Steps in which a cache is filled.
const N_STEPS: usize = 128;
/// Who never misses never fills anything: so slow that the others are done before. Per 1000 instructions.
const MISSES_MIN: f64 = 1e-9;
/// The cache is full when no more than this part of it is empty: below the rounding of sums.
const EMPTY: f64 = 1e-12;

/// How many instructions a program needs to fill a cache, step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct FillTable {
    /// Thousands of instructions after which 0, 1, 2 … steps are full; rising, ever more slowly filled.
    spent: Vec<f64>,
    steps: Vec<Step>,
    /// All of them, in bytes.
    bytes: f64,
}

/// A part of a cache that is taken to fill evenly. Bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    begin: f64,
    width: f64,
}

impl Step {
    fn middle(&self) -> f64 {
        self.begin + 0.5 * self.width
    }

    fn halves(&self) -> [Step; 2] {
        let width = self.width / 2.0;
        [Step { width, ..*self }, Step { begin: self.begin + width, width }]
    }

    /// Whether `character` is done missing somewhere on the way to its middle. In a large cache that is where a
    /// small program has all that it needs; taken as one step it would never come to hold it.
    fn hides_a_knee(&self, character: &Character) -> bool {
        let misses = |bytes| character.at(bytes).misses;
        ALL_MISS < self.width && misses(self.middle()) * STEEP < misses(self.begin)
    }
}

/// A step in which misses fall to less than one part of so many is halved. Guessed.
const STEEP: f64 = 16.0;

impl FillTable {
    /// How `character` fills a cache of so many bytes.
    pub fn new(character: &Character, bytes: f64) -> Self {
        let width = bytes / N_STEPS as f64;
        // The next one last.
        let even = (0..N_STEPS).rev().map(|idx| Step { begin: idx as f64 * width, width });
        let mut ahead: Vec<Step> = even.collect();
        let mut table =
            FillTable { spent: vec![0.0], steps: Vec::new(), bytes: width * N_STEPS as f64 };
        let (mut so_far, mut misses) = (0.0, f64::INFINITY);
        while let Some(step) = ahead.pop() {
            if step.hides_a_knee(character) {
                ahead.extend(step.halves().into_iter().rev());
                continue;
            }
            // What was measured scatters; a cache that holds more never misses more often.
            misses = character.at(step.middle()).misses.clamp(MISSES_MIN, misses);
            so_far += step.width / LINE / misses;
            table.spent.push(so_far);
            table.steps.push(step);
        }
        table
    }

    /// Bytes that are full after so many thousand instructions, and bytes that each thousand adds there.
    fn after(&self, thousands: f64) -> (f64, f64) {
        let next = self.spent.partition_point(|&spent| spent <= thousands);
        let (Some(&end), Some(step)) = (self.spent.get(next), self.steps.get(next - 1)) else {
            return (self.bytes, 0.0);
        };
        let begin = self.spent[next - 1];
        let slope = step.width / (end - begin);
        (step.begin + slope * (thousands - begin), slope)
    }
}

/// Bytes that each holds, in their order: how it fills a cache of so many bytes or more, and how long an
/// instruction of it takes as it runs, in any unit that is the same for all. Who does not run (takes for
/// ever) holds nothing.
pub fn shares(programs: &[(&FillTable, f64)], bytes: f64) -> Vec<f64> {
    let mut held = vec![0.0; programs.len()];
    shares_into(programs, bytes, &mut held);
    held
}

/// As [`shares`], into a list of as many.
pub fn shares_into(programs: &[(&FillTable, f64)], bytes: f64, held: &mut [f64]) {
    // What all fill together grows ever more slowly. So its tangent meets the size of the cache too early,
    // never too late, and tangent after tangent comes to the very step in which the cache is full.
    let mut time = 0.0;
    let n_steps = programs.iter().map(|(table, _)| table.steps.len()).sum::<usize>();
    for _ in 0..n_steps.max(N_STEPS) {
        let (mut sum, mut slope) = (0.0, 0.0);
        for ((table, takes), held) in programs.iter().zip(held.iter_mut()) {
            let (full, grows) = table.after(time / takes);
            *held = full.min(bytes);
            sum += *held;
            slope += if full < bytes { grows / takes } else { 0.0 };
        }
        if slope <= 0.0 || bytes - sum <= bytes * EMPTY {
            return;
        }
        time += (bytes - sum) / slope;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physics::Row;

    const MIB: f64 = 1048576.0;

    /// Misses at 1 MiB last, before that at half of it, and so on.
    fn table(misses: &[f64]) -> FillTable {
        let row = |(idx, &misses): (usize, &f64)| Row {
            bytes: MIB / f64::from(1u32 << idx),
            misses,
            ..Row::default()
        };
        let rows = misses.iter().rev().enumerate().map(row).collect();
        FillTable::new(&Character::new(rows, Row::default()).expect("sound"), MIB)
    }

    #[test]
    fn alone_it_holds_everything() {
        assert!((shares(&[(&table(&[5.0]), 1.0)], MIB)[0] - MIB).abs() < 1.0);
    }

    #[test]
    fn two_that_never_hit_hold_by_their_misses_per_time() {
        let (one, other) = (table(&[20.0]), table(&[10.0]));
        let held = shares(&[(&one, 1.0), (&other, 2.0)], MIB);
        assert!((held[0] / held[1] - 4.0).abs() < 1e-6, "{held:?}");
        assert!((held.iter().sum::<f64>() - MIB).abs() < 1.0, "{held:?}");
    }

    #[test]
    fn who_does_not_run_holds_nothing() {
        let one = table(&[20.0]);
        let held = shares(&[(&one, 1.0), (&one, f64::INFINITY)], MIB);
        assert!((held[0] - MIB).abs() < 1.0 && held[1] == 0.0, "{held:?}");
        assert_eq!(shares(&[(&one, f64::INFINITY)], MIB), [0.0]);
    }

    #[test]
    fn who_needs_little_keeps_it_beside_one_who_reads_a_stream() {
        // Nothing is missed from 512 KiB on.
        let (small, stream) = (table(&[30.0, 0.0, 0.0]), table(&[30.0]));
        let held = shares(&[(&small, 1.0), (&stream, 1.0)], MIB);
        assert!(0.2 * MIB < held[0] && held[0] < 0.5 * MIB, "{held:?}");
    }

    #[test]
    fn a_small_program_keeps_what_it_needs_in_a_cache_of_any_size() {
        // Nothing is missed from 128 KiB on.
        let row = |bytes, misses| Row { bytes, misses, ..Row::default() };
        let all = Character::new(vec![row(MIB / 8.0, 0.0)], row(0.0, 30.0)).expect("sound");
        let stream = Character::new(vec![row(MIB, 30.0)], Row::default()).expect("sound");
        for mib in [8.0, 32.0, 64.0, 1024.0] {
            let [small, stream] = [&all, &stream].map(|its| FillTable::new(its, mib * MIB));
            let held = shares(&[(&small, 1.0), (&stream, 1.0)], mib * MIB);
            assert!(MIB / 8.0 * 0.95 < held[0] && held[0] < MIB / 4.0, "{mib} MiB: {held:?}");
            assert!((held[0] + held[1] - mib * MIB).abs() < 1.0, "{mib} MiB: {held:?}");
        }
    }

    #[test]
    fn a_cache_that_nobody_fills_is_shared_all_the_same() {
        let quiet = table(&[0.0]);
        let held = shares(&[(&quiet, 1.0), (&quiet, 1.0)], MIB);
        assert!((held[0] - MIB / 2.0).abs() < 1.0 && held[0] == held[1], "{held:?}");
    }
}
