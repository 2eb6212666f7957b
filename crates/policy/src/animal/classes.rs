//! Which animal a job is, and how badly animals get on with each other.
//!
//! ```text
//!   accesses to the LLC per 1000 instructions
//!      ▲            │                     │
//!      │  rabbit    │                     │           lives on its hits: any neighbour takes some
//!    8 ┤────────────┤  devil              │  strong
//!      │  sheep     │  (intermediate)     │  devil    takes from all others and has little of it
//!    2 ┤────────────┤                     │
//!      │  turtle    │                     │           hardly comes there
//!      └────────────┴─────────────────────┴────────►  misses per 1000 instructions
//!                  1.5                    10
//! ```
//!
//! The released code has the animals and their penalties [confirmed: Clavis]; how a thread is told to be
//! one of them is not published, so the limits are our choice. The first limit of misses is the one between
//! turtles and devils in the same code. The others are guessed: they lie in gaps of what is known of SPEC CPU2006
//! alone on a large cache, between programs that are called sensitive to cache and those that are not
//! (2 and 8 accesses), and between devils of one copy that bear more copies and those that do not (10).

use crate::intensity::rates::{Rate, Ring};

/// What a thread is to its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Animal {
    Turtle,
    StrongDevil,
    Devil,
    Rabbit,
    Sheep,
}

pub(super) const N_ANIMALS: usize = 5;

/// What two of them cost each other on one cache, in the order of [`Animal`] [confirmed: Clavis].
const PENALTIES: [[u64; N_ANIMALS]; N_ANIMALS] =
    [[0, 0, 1, 3, 1], [0, 20, 14, 16, 8], [1, 14, 8, 9, 4], [3, 16, 9, 8, 6], [1, 8, 4, 6, 2]];

/// Where one kind ends and the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Misses of a devil, and of a strong one: above it.
    pub devil: Rate,
    pub strong: Rate,
    /// Accesses of a turtle: below it; of a rabbit: above it.
    pub quiet: Rate,
    pub rabbit: Rate,
}

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

impl Limits {
    /// The animal of a rate of misses and one of accesses. Where accesses are not counted, who misses
    /// little counts as a sheep, which is between the others.
    fn animal(self, misses: Rate, accesses: Option<Rate>) -> Animal {
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

/// What one job has shown in its last ten intervals.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    misses: Ring,
    accesses: Ring,
}

impl Shown {
    pub fn learn(&mut self, misses: Rate, accesses: Option<Rate>) {
        self.misses.push(misses);
        accesses.into_iter().for_each(|accesses| self.accesses.push(accesses));
    }

    /// What it is by the means of its intervals; until the first has gone by it counts as a devil.
    pub fn animal(&self, limits: Limits) -> Animal {
        let misses = self.misses.mean();
        misses.map_or(Animal::Devil, |misses| limits.animal(misses, self.accesses.mean()))
    }

    /// What that stands on, in words.
    pub fn basis(&self) -> String {
        match (self.misses.mean(), self.accesses.mean()) {
            (None, _) => "until it has shown what it is".to_owned(),
            (Some(misses), None) => {
                format!("{misses} misses per 1000 instructions, accesses not counted")
            }
            (Some(misses), Some(accesses)) => {
                format!("{misses} misses and {accesses} accesses per 1000 instructions")
            }
        }
    }

    pub fn is_known(&self) -> bool {
        self.misses.mean().is_some()
    }
}

/// How many threads of each kind are on each cache.
#[derive(Clone, Debug)]
pub(super) struct Company {
    n_of: Vec<[u64; N_ANIMALS]>,
}

impl Company {
    pub fn new(n_caches: usize) -> Self {
        Company { n_of: vec![[0; N_ANIMALS]; n_caches] }
    }

    pub fn enter(&mut self, cache: usize, animal: Animal) {
        self.n_of[cache][animal as usize] += 1;
    }

    pub fn leave(&mut self, cache: usize, animal: Animal) {
        let n = &mut self.n_of[cache][animal as usize];
        *n = n.saturating_sub(1);
    }

    /// What a thread that is not there would cost and be cost.
    pub fn penalty(&self, cache: usize, animal: Animal) -> u64 {
        let there = self.n_of[cache].iter().zip(PENALTIES[animal as usize]);
        there.map(|(n, penalty)| n * penalty).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn penalties_are_the_same_both_ways() {
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
    fn misses_make_devils_and_accesses_tell_the_others_apart() {
        let limits = Limits {
            devil: Rate::per_10_000(15),
            strong: Rate::per_10_000(100),
            quiet: Rate::per_10_000(20),
            rabbit: Rate::per_10_000(80),
        };
        // Misses and accesses per million instructions.
        let animal =
            |misses, accesses: Option<u64>| limits.animal(Rate(misses), accesses.map(Rate)).name();
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
