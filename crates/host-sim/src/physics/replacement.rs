//! Occupancy of a shared cache by the replacement of its lines.
//!
//! With LRU replacement, hits protect lines: the occupancy is what a program fills during the residence time
//! ([`super::occupancies`]). With random replacement, hits protect nothing: every line is evicted after the same
//! mean residence time `T`, whatever its program does. By Little's law the occupancy is the rate of insertions times `T`:
//!
//! ```text
//!   occupancy = misses(occupancy) per instruction ÷ time per instruction × T,    sum of all = cache size
//! ```
//!
//! A program without hits has the same occupancy with both. A program whose misses fall as its occupancy grows has less
//! with random replacement. See E. Gelenbe, "A Unified Approach to the Evaluation of a Class of Replacement Algorithms",
//! IEEE Transactions on Computers, 1973. The misses at an occupancy are those of the profile with both (assumed).

use topology::Replacement;

use super::cache_sharing::{FillTable, lru_occupancies};

/// Number of bisections of the residence time. The result is exact to rounding.
const N_BISECTIONS: usize = 120;

/// Writes the occupancy of each program, and returns the residence time, as [`super::residence_time`].
pub fn occupancies_with(
    replacement: Replacement,
    programs: &[(&FillTable, f64)],
    bytes: f64,
    guess: f64,
    occupancies: &mut [f64],
) -> f64 {
    match replacement {
        Replacement::Lru => lru_occupancies(programs, bytes, guess, occupancies),
        Replacement::Random => random_occupancies(programs, bytes, occupancies),
    }
}

/// Returns the thousands of instructions for which lines stay in a cache that one program fills alone.
pub fn residence_if_alone(replacement: Replacement, table: &FillTable) -> f64 {
    match replacement {
        Replacement::Lru => table.thousands_to_fill(),
        Replacement::Random => table.thousands_held(),
    }
}

/// Returns the share of lines that are not yet replaced after a number of residence times. Ages are evenly distributed
/// with LRU replacement; a random line survives each insertion with the same probability.
pub fn remaining_share(replacement: Replacement, turnovers: f64) -> f64 {
    match replacement {
        Replacement::Lru => (1.0 - turnovers).max(0.0),
        Replacement::Random => libm::exp(-turnovers),
    }
}

fn random_occupancies(programs: &[(&FillTable, f64)], bytes: f64, occupancies: &mut [f64]) -> f64 {
    let mut fill = |time: f64| {
        for ((table, takes), occupancy) in programs.iter().zip(occupancies.iter_mut()) {
            *occupancy = table.held_for(time / takes).min(bytes);
        }
        occupancies.iter().sum::<f64>()
    };
    // The program that fills the cache alone in the shortest time does so in at most this time.
    let alone = programs.iter().map(|(table, takes)| table.thousands_held() * takes);
    let mut high = alone.fold(f64::INFINITY, f64::min);
    if !high.is_finite() {
        fill(0.0);
        return f64::INFINITY;
    }
    let mut low = 0.0;
    for _ in 0..N_BISECTIONS {
        let middle = 0.5 * (low + high);
        if fill(middle) < bytes { low = middle } else { high = middle }
    }
    let sum = fill(high);
    occupancies.iter_mut().for_each(|occupancy| *occupancy *= bytes / sum);
    high
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::physics::{MissCurve, MissPoint};

    const MIB: f64 = 1048576.0;

    /// Returns a table for a cache of 1 MiB from misses at 1 MiB, 512 KiB, 256 KiB, …
    pub(in crate::physics) fn table(misses: &[f64]) -> FillTable {
        let row = |(idx, misses): (usize, &f64)| {
            MissPoint::of_demand(MIB / f64::from(1u32 << idx), *misses)
        };
        let rows = misses.iter().enumerate().map(row).collect();
        let last = misses.last().copied().unwrap_or(0.0);
        FillTable::new(&MissCurve::new(rows, MissPoint::of_demand(0.0, last)).expect("valid"), MIB)
    }

    fn shares(replacement: Replacement, programs: &[(&FillTable, f64)]) -> Vec<f64> {
        let mut occupancies = vec![0.0; programs.len()];
        occupancies_with(replacement, programs, MIB, 0.0, &mut occupancies);
        occupancies
    }

    #[test]
    fn programs_without_hits_have_the_same_shares_with_both_replacements() {
        let (one, other) = (table(&[20.0]), table(&[10.0]));
        let programs = [(&one, 1.0), (&other, 2.0)];
        let [lru, random] =
            [Replacement::Lru, Replacement::Random].map(|kind| shares(kind, &programs));
        assert!(lru.iter().zip(&random).all(|(lru, random)| (lru - random).abs() < 1.0));
        assert!((random[0] / random[1] - 4.0).abs() < 1e-6, "{random:?}");
    }

    #[test]
    fn hits_do_not_protect_lines_from_random_replacement() {
        let (reuses, stream) = (table(&[0.5, 10.0, 30.0]), table(&[30.0]));
        let programs = [(&reuses, 1.0), (&stream, 1.0)];
        let [lru, random] =
            [Replacement::Lru, Replacement::Random].map(|kind| shares(kind, &programs)[0]);
        assert!(random < 0.95 * lru, "{random} {lru}");
        assert_eq!(remaining_share(Replacement::Lru, 1.0), 0.0);
        assert!(0.3 < remaining_share(Replacement::Random, 1.0));
        for kind in [Replacement::Lru, Replacement::Random] {
            assert_eq!(remaining_share(kind, 0.0), 1.0);
        }
    }

    #[test]
    fn programs_that_do_not_run_occupy_nothing() {
        let one = table(&[20.0]);
        assert_eq!(shares(Replacement::Random, &[(&one, f64::INFINITY)]), [0.0]);
        let both = shares(Replacement::Random, &[(&one, 1.0), (&one, f64::INFINITY)]);
        assert!((both[0] - MIB).abs() < 1.0 && both[1] == 0.0, "{both:?}");
        assert!(shares(Replacement::Random, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn random_replacement_fills_the_cache_and_an_additional_program_takes_from_all(
            curves in proptest::collection::vec(
                (0.0..30.0f64, 1.0..3.0f64, 1.0..3.0f64, 0.1..10.0f64), 2..6),
        ) {
            let tables: Vec<FillTable> =
                curves.iter().map(|(low, x, y, _)| table(&[*low, low * x, low * x * y])).collect();
            let programs: Vec<(&FillTable, f64)> =
                tables.iter().zip(&curves).map(|(table, curve)| (table, curve.3)).collect();
            let all = shares(Replacement::Random, &programs);
            prop_assert!((all.iter().sum::<f64>() - MIB).abs() < 1.0, "{all:?}");
            prop_assert!(all.iter().all(|occupancy| (0.0..=MIB).contains(occupancy)), "{all:?}");
            let fewer = shares(Replacement::Random, &programs[1..]);
            for (with, without) in all[1..].iter().zip(&fewer) {
                prop_assert!(*with <= without + 1.0, "{with} {without}");
            }
        }
    }
}
