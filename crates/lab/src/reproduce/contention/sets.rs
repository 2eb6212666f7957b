//! Sets of programs, drawn by seed.
//!
//! The papers' sets are not at hand in full, so ours are drawn from all SPEC CPU2006 programs that have a shipped
//! profile, each at most once in a set. Nobody chose among the draws. Four sorts:
//!
//! | sort | drawn from |
//! |---|---|
//! | any | all |
//! | mixed | half of the set devils, half turtles: what DI and DINO were made for |
//! | hungry | devils alone |
//! | calm | those that are turtles with half of an equal share of the cache too |
//!
//! A devil misses more than 1.5 times in 1000 instructions alone with the machine's smallest last-level cache, as
//! the papers' released code has it.

use base::{Bytes, Rng};
use topology::Machine;

use crate::reproduce::ReproduceError;
use crate::shipped::{self, Draw};

/// What a set is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Any,
    Mixed,
    Hungry,
    Calm,
}

/// Programs with a name for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub name: String,
    pub programs: Vec<String>,
}

/// Programs in a set.
pub(super) const N: usize = 8;
/// Above this many misses per 1000 instructions a program is a devil [confirmed: Clavis, 15 per 10 000].
const DEVIL: f64 = 1.5;
/// Where the draws begin. Any number would do; it was never changed.
const SEED: u64 = 2011;

impl Sort {
    fn word(self) -> &'static str {
        match self {
            Sort::Any => "any",
            Sort::Mixed => "mixed",
            Sort::Hungry => "hungry",
            Sort::Calm => "calm",
        }
    }
}

/// So many sets of a sort for a machine.
pub(super) fn sets(
    machine: &Machine,
    draw: Draw,
    sort: Sort,
    n_sets: u64,
) -> Result<Vec<Set>, ReproduceError> {
    let (devils, turtles) = devils_and_turtles(machine, draw)?;
    let calm = calm(machine, draw)?;
    let set = |number: u64| {
        let mut rng = Rng::new(SEED * 1000 + number);
        let programs = match sort {
            Sort::Any => drawn(&mut rng, &[&devils[..], &turtles].concat(), N),
            Sort::Hungry => drawn(&mut rng, &devils, N),
            Sort::Calm => {
                // There are few; so a set may hold one again once it holds all.
                let once = drawn(&mut rng, &calm, N);
                once.iter().cycle().take(if once.is_empty() { 0 } else { N }).cloned().collect()
            }
            Sort::Mixed => {
                let half = drawn(&mut rng, &devils, N / 2);
                // In turn, so that the order of numbers tells nothing of who is what.
                let other = drawn(&mut rng, &turtles, N / 2);
                half.into_iter().zip(other).flat_map(|(one, other)| [one, other]).collect()
            }
        };
        Set { name: format!("{} {number}", sort.word()), programs }
    };
    Ok((1..=n_sets).map(set).collect())
}

/// SPEC programs by what they miss alone with the smallest cache, in the order of their numbers.
pub(super) fn devils_and_turtles(
    machine: &Machine,
    draw: Draw,
) -> Result<(Vec<String>, Vec<String>), ReproduceError> {
    by_misses(draw, smallest(machine))
}

/// Programs that hardly miss whoever shares their cache: with half of an equal share of it.
pub(super) fn calm(machine: &Machine, draw: Draw) -> Result<Vec<String>, ReproduceError> {
    let n_cpus = machine.llcs().iter().map(|llc| llc.cpus.len() as u64).max().unwrap_or(1);
    let share = Bytes(smallest(machine).0 / n_cpus.max(1) / 2);
    Ok(by_misses(draw, share)?.1)
}

fn smallest(machine: &Machine) -> Bytes {
    machine.llcs().iter().filter_map(|llc| llc.size).min().unwrap_or(Bytes::ZERO)
}

/// Who misses more than a turtle with so much cache, and who does not.
fn by_misses(draw: Draw, cache: Bytes) -> Result<(Vec<String>, Vec<String>), ReproduceError> {
    let (mut devils, mut turtles) = (Vec::new(), Vec::new());
    let is_spec = |name: &String| name.starts_with(|first: char| first.is_ascii_digit());
    for name in shipped::profiles().into_iter().filter(is_spec) {
        let profile = shipped::profile_drawn(&name, draw)?;
        let misses = profile.average(|phase| phase.curve.misses_at(cache)).unwrap_or(0.0);
        if DEVIL < misses { devils.push(name) } else { turtles.push(name) }
    }
    Ok((devils, turtles))
}

/// So many of some, none twice, in the order of their drawing.
fn drawn(rng: &mut Rng, from: &[String], n: usize) -> Vec<String> {
    let mut left = from.to_vec();
    let n = n.min(left.len());
    (0..n).map(|_| left.remove(rng.below(left.len() as u64) as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_drawn_alike_each_time_and_hold_nobody_twice() {
        let machine = shipped::machine("xeon-x5365-4x2").expect("ships");
        for sort in [Sort::Any, Sort::Mixed, Sort::Hungry] {
            let all = sets(&machine, Draw::Middle, sort, 5).expect("profiles");
            assert_eq!(all, sets(&machine, Draw::Middle, sort, 5).expect("profiles"));
            for set in all {
                let mut names = set.programs.clone();
                names.sort();
                names.dedup();
                assert_eq!(names.len(), N, "{}: {:?}", set.name, set.programs);
            }
        }
    }

    #[test]
    fn a_mixed_set_has_devils_and_turtles_in_turn() {
        let machine = shipped::machine("xeon-e5520-2x4").expect("ships");
        let (devils, turtles) = devils_and_turtles(&machine, Draw::Middle).expect("profiles");
        for set in sets(&machine, Draw::Middle, Sort::Mixed, 5).expect("profiles") {
            assert!(set.programs.chunks(2).all(|pair| devils.contains(&pair[0])));
            assert!(set.programs.chunks(2).all(|pair| turtles.contains(&pair[1])));
        }
    }
}
