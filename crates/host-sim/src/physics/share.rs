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

/// Bytes of a line.
pub(super) const LINE: f64 = 64.0;
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
    step: f64,
}

impl FillTable {
    /// How `character` fills a cache of so many bytes.
    pub fn new(character: &Character, bytes: f64) -> Self {
        let step = bytes / N_STEPS as f64;
        let (mut spent, mut so_far, mut misses) = (vec![0.0], 0.0, f64::INFINITY);
        for idx in 0..N_STEPS {
            let middle = (idx as f64 + 0.5) * step;
            // What was measured scatters; a cache that holds more never misses more often.
            misses = character.at(middle).misses.clamp(MISSES_MIN, misses);
            so_far += step / LINE / misses;
            spent.push(so_far);
        }
        FillTable { spent, step }
    }

    /// Bytes that are full after so many thousand instructions, and bytes that each thousand adds there.
    fn after(&self, thousands: f64) -> (f64, f64) {
        let next = self.spent.partition_point(|&spent| spent <= thousands);
        let Some(&end) = self.spent.get(next) else {
            return (self.step * N_STEPS as f64, 0.0);
        };
        let begin = self.spent[next - 1];
        let slope = self.step / (end - begin);
        (self.step * (next - 1) as f64 + slope * (thousands - begin), slope)
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
    for _ in 0..N_STEPS * programs.len().max(1) {
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
    fn a_cache_that_nobody_fills_is_shared_all_the_same() {
        let quiet = table(&[0.0]);
        let held = shares(&[(&quiet, 1.0), (&quiet, 1.0)], MIB);
        assert!((held[0] - MIB / 2.0).abs() < 1.0 && held[0] == held[1], "{held:?}");
    }
}
