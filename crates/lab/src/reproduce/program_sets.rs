//! Workloads of SPEC CPU2006 programs, drawn with a fixed seed.
//!
//! The workloads of the papers on contention are not published in full. The workloads here are drawn from all SPEC
//! CPU2006 programs with a shipped profile. A set contains a program at most once, except the sets of turtles
//! (always-turtle), for which fewer than eight programs qualify. No draw was selected by its result.
//!
//! | kind | drawn from |
//! |---|---|
//! | unrestricted | all programs |
//! | mixed | half of the set devils, half turtles, alternating |
//! | memory-hungry | devils only |
//! | always-turtle | programs that are turtles also with half of an equal share of the cache |
//!
//! *Devil* and *turtle* are the terms of Blagodurov, Zhuravlev, Dashti and Fedorova, "A Case for NUMA-aware
//! Contention Management on Multicore Systems", USENIX ATC 2011. A devil has more than 1.5 LLC misses per 1000
//! instructions alone with the smallest last-level cache of the machine, the limit of the authors' scheduler Clavis.

use base::{Bytes, Rng};
use topology::Machine;

use super::ReproduceError;
use crate::shipped::{self, ProfileDraw};

/// Programs of a set.
pub(super) const N_PROGRAMS: usize = 8;
/// Limit between turtle and devil, LLC misses per 1000 instructions. Cited: Clavis, 15 per 10 000.
const DEVIL_MPKI: f64 = 1.5;
/// Base of the seeds: a set has the seed 1000 × this value + its number. The value is arbitrary and was never changed.
const SEED: u64 = 2011;

/// Programs from which a set is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetKind {
    Unrestricted,
    Mixed,
    MemoryHungry,
    AlwaysTurtle,
}

impl SetKind {
    const ALL: [(&str, SetKind); 4] = [
        ("unrestricted", SetKind::Unrestricted),
        ("mixed", SetKind::Mixed),
        ("memory-hungry", SetKind::MemoryHungry),
        ("always-turtle", SetKind::AlwaysTurtle),
    ];
}

/// Returns the names of the first `n` sets of a kind: `mixed 1`, `mixed 2`, …
pub(super) fn names(kind: &str, n: u64) -> Vec<String> {
    (1..=n).map(|number| format!("{kind} {number}")).collect()
}

/// Returns the programs of a set such as `mixed 3`; `None` if no set has this name.
pub(super) fn by_name(
    name: &str,
    machine: &Machine,
    draw: ProfileDraw,
) -> Result<Option<Vec<String>>, ReproduceError> {
    let named = name.split_once(' ').and_then(|(kind, number)| {
        let (_, kind) = SetKind::ALL.iter().find(|(name, _)| *name == kind)?;
        Some((*kind, number.parse::<u64>().ok()?))
    });
    let Some((kind, number)) = named else { return Ok(None) };
    let (devils, turtles) = devils_and_turtles(machine, draw)?;
    let mut rng = Rng::new(SEED * 1000 + number);
    Ok(Some(match kind {
        SetKind::Unrestricted => drawn(&mut rng, &[&devils[..], &turtles].concat(), N_PROGRAMS),
        SetKind::MemoryHungry => drawn(&mut rng, &devils, N_PROGRAMS),
        SetKind::AlwaysTurtle => {
            // Fewer than eight programs qualify, so a set contains all of these programs and repeats the first
            // programs.
            let once = drawn(&mut rng, &always_turtles(machine, draw)?, N_PROGRAMS);
            once.iter()
                .cycle()
                .take(if once.is_empty() { 0 } else { N_PROGRAMS })
                .cloned()
                .collect()
        }
        SetKind::Mixed => {
            let half = drawn(&mut rng, &devils, N_PROGRAMS / 2);
            // Devils and turtles alternate, so that the order of job numbers does not separate them.
            let other = drawn(&mut rng, &turtles, N_PROGRAMS / 2);
            half.into_iter().zip(other).flat_map(|(one, other)| [one, other]).collect()
        }
    }))
}

/// Returns the devils and the turtles of SPEC, by their misses alone with the smallest cache, in the order of program
/// numbers.
pub(super) fn devils_and_turtles(
    machine: &Machine,
    draw: ProfileDraw,
) -> Result<(Vec<String>, Vec<String>), ReproduceError> {
    by_misses(draw, smallest_cache(machine))
}

/// Returns the programs with few misses even with half of an equal share of the smallest cache.
pub(super) fn always_turtles(
    machine: &Machine,
    draw: ProfileDraw,
) -> Result<Vec<String>, ReproduceError> {
    let n_cpus = machine.llcs().iter().map(|llc| llc.cpus.len() as u64).max().unwrap_or(1);
    let share = Bytes(smallest_cache(machine).0 / n_cpus.max(1) / 2);
    Ok(by_misses(draw, share)?.1)
}

/// Returns the smallest last-level cache of a machine.
pub(super) fn smallest_cache(machine: &Machine) -> Bytes {
    machine.llcs().iter().filter_map(|llc| llc.size).min().unwrap_or(Bytes::ZERO)
}

/// Returns the programs above the limit with a cache of this size, and the other programs.
fn by_misses(
    draw: ProfileDraw,
    cache: Bytes,
) -> Result<(Vec<String>, Vec<String>), ReproduceError> {
    let (mut devils, mut turtles) = (Vec::new(), Vec::new());
    let is_spec = |name: &String| name.starts_with(|first: char| first.is_ascii_digit());
    for name in shipped::profiles().into_iter().filter(is_spec) {
        let profile = shipped::profile_drawn(&name, draw)?;
        let misses = profile.average(|phase| phase.curve.misses_at(cache)).unwrap_or(0.0);
        if DEVIL_MPKI < misses { devils.push(name) } else { turtles.push(name) }
    }
    Ok((devils, turtles))
}

/// Draws `n` names without replacement, in the order of the draws.
fn drawn(rng: &mut Rng, from: &[String], n: usize) -> Vec<String> {
    let mut left = from.to_vec();
    let n = n.min(left.len());
    (0..n).map(|_| left.remove(rng.below(left.len() as u64) as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, machine: &Machine) -> Vec<String> {
        by_name(name, machine, ProfileDraw::MIDDLE).expect("profiles ship").expect("a set")
    }

    #[test]
    fn a_set_is_the_same_in_every_draw_and_contains_no_program_twice() {
        let machine = shipped::machine("xeon-x5365-4x2").expect("it ships");
        for name in
            ["unrestricted", "mixed", "memory-hungry"].iter().flat_map(|kind| names(kind, 5))
        {
            let programs = set(&name, &machine);
            assert_eq!(programs, set(&name, &machine));
            let unique: std::collections::BTreeSet<_> = programs.iter().collect();
            assert_eq!(unique.len(), N_PROGRAMS, "{name}: {programs:?}");
        }
    }

    #[test]
    fn a_mixed_set_alternates_devils_and_turtles() {
        let machine = shipped::machine("xeon-e5520-2x4").expect("it ships");
        let (devils, turtles) =
            devils_and_turtles(&machine, ProfileDraw::MIDDLE).expect("profiles ship");
        for programs in names("mixed", 5).iter().map(|name| set(name, &machine)) {
            assert!(programs.chunks(2).all(|pair| devils.contains(&pair[0])));
            assert!(programs.chunks(2).all(|pair| turtles.contains(&pair[1])));
        }
    }
}
