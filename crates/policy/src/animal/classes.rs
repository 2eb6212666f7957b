//! The animal class of a job, and the penalty of each pair of classes on one cache.
//!
//! ```text
//!   accesses to the LLC per 1000 instructions
//!      ▲            │                     │
//!      │  rabbit    │                     │           depends on cache hits: every other thread evicts its lines
//!    8 ┤────────────┤  devil              │  strong
//!      │  sheep     │  (intermediate)     │  devil    evicts lines of other threads, few cache hits
//!    2 ┤────────────┤                     │
//!      │  turtle    │                     │           few cache accesses
//!      └────────────┴─────────────────────┴────────►  misses per 1000 instructions
//!                  1.5                    10
//! ```
//!
//! The classes and their penalties are from Clavis 6.5.5. The limits between classes are not published. The first limit
//! of misses is the limit between turtles and devils in Clavis (`DEVIL_HORIZON`). The other limits are guessed. They
//! are in gaps between the values of SPEC CPU2006 programs that run alone on a large cache. The limits of 2 and 8
//! accesses separate cache-sensitive programs from other programs. The limit of 10 misses separates devils that
//! tolerate a second copy of the same program from other devils.

use sched::Reason;

use super::declaration::Config;
use crate::memory_intensity::rates::{Rate, RecentRates};

/// Behaviour of a thread on a shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Animal {
    Turtle,
    StrongDevil,
    Devil,
    Rabbit,
    Sheep,
}

pub(super) const N_ANIMALS: usize = 5;

/// Penalty of each pair on one cache, in the order of [`Animal`]; from Clavis 6.5.5.
const PENALTIES: [[u64; N_ANIMALS]; N_ANIMALS] =
    [[0, 0, 1, 3, 1], [0, 20, 14, 16, 8], [1, 14, 8, 9, 4], [3, 16, 9, 8, 6], [1, 8, 4, 6, 2]];

impl Animal {
    pub fn name(self) -> &'static str {
        match self {
            Animal::Turtle => "turtle",
            Animal::StrongDevil => "strong devil",
            Animal::Devil => "devil",
            Animal::Rabbit => "rabbit",
            Animal::Sheep => "sheep",
        }
    }
}

impl Config {
    /// Returns the class of a thread with these rates of misses and accesses. If accesses are not counted, a thread
    /// with few misses counts as a sheep, the class between turtle and rabbit.
    fn animal(&self, misses: Rate, accesses: Option<Rate>) -> Animal {
        if self.strong < misses {
            return Animal::StrongDevil;
        }
        if self.devil < misses {
            return Animal::Devil;
        }
        match accesses {
            Some(accesses) if accesses < self.quiet => Animal::Turtle,
            Some(accesses) if self.rabbit < accesses => Animal::Rabbit,
            Some(_) | None => Animal::Sheep,
        }
    }
}

/// Rates of a job in its last ten intervals.
#[derive(Clone, Debug, Default)]
pub(super) struct RateHistory {
    misses: RecentRates,
    accesses: RecentRates,
}

impl RateHistory {
    pub fn add(&mut self, misses: Rate, accesses: Option<Rate>) {
        self.misses.push(misses);
        accesses.into_iter().for_each(|accesses| self.accesses.push(accesses));
    }

    /// Returns the class of the mean rates; before the first interval the class is devil.
    pub fn animal(&self, config: &Config) -> Animal {
        let misses = self.misses.mean();
        misses.map_or(Animal::Devil, |misses| config.animal(misses, self.accesses.mean()))
    }

    /// Adds the rates that the class is based on.
    pub fn with_basis(&self, reason: Reason) -> Reason {
        let (misses, accesses) = (self.misses.mean(), self.accesses.mean());
        let basis = match (misses, accesses) {
            (None, _) => "assumed",
            (Some(_), None) => "misses",
            (Some(_), Some(_)) => "accesses",
        };
        reason
            .with("basis", basis)
            .with_some("misses", misses.map(|rate| rate.to_string()))
            .with_some("accesses", accesses.map(|rate| rate.to_string()))
    }

    pub fn is_known(&self) -> bool {
        self.misses.mean().is_some()
    }
}

/// Number of threads of each class on each cache.
#[derive(Clone, Debug)]
pub(super) struct AnimalCounts {
    n_of: Vec<[u64; N_ANIMALS]>,
}

impl AnimalCounts {
    pub fn new(n_caches: usize) -> Self {
        AnimalCounts { n_of: vec![[0; N_ANIMALS]; n_caches] }
    }

    pub fn add(&mut self, cache: usize, animal: Animal) {
        self.n_of[cache][animal as usize] += 1;
    }

    pub fn remove(&mut self, cache: usize, animal: Animal) {
        let n = &mut self.n_of[cache][animal as usize];
        *n = n.saturating_sub(1);
    }

    /// Returns the penalty of a thread if the thread is added to a cache.
    pub fn penalty(&self, cache: usize, animal: Animal) -> u64 {
        let counts = self.n_of[cache].iter().zip(PENALTIES[animal as usize]);
        counts.map(|(n, penalty)| n * penalty).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;

    #[test]
    fn penalties_are_symmetric() {
        for (row, penalties) in PENALTIES.iter().enumerate() {
            for (column, penalty) in penalties.iter().enumerate() {
                assert_eq!(*penalty, PENALTIES[column][row]);
            }
        }
        let penalty = |one: Animal, other: Animal| PENALTIES[one as usize][other as usize];
        assert_eq!(penalty(Animal::StrongDevil, Animal::Rabbit), 16);
        assert_eq!(penalty(Animal::Turtle, Animal::StrongDevil), 0);
    }

    #[test]
    fn misses_define_devils_and_accesses_define_the_other_classes() {
        let params = Params::parse(&super::super::INFO, "animal").expect("the defaults");
        let config = Config::new(&params);
        // Misses and accesses per million instructions.
        let animal =
            |misses, accesses: Option<u64>| config.animal(Rate(misses), accesses.map(Rate)).name();
        assert_eq!(animal(10_001, None), "strong devil");
        assert_eq!(animal(10_000, Some(100_000)), "devil");
        assert_eq!(animal(1_501, Some(0)), "devil");
        assert_eq!(animal(1_500, Some(8_001)), "rabbit");
        assert_eq!(animal(1_500, Some(8_000)), "sheep");
        assert_eq!(animal(0, Some(2_000)), "sheep");
        assert_eq!(animal(0, Some(1_999)), "turtle");
        assert_eq!(animal(0, None), "sheep");
    }
}
