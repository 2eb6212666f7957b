//! The behaviour of a program whose profile is known.
//!
//! | the profile tells | core cycles | overlap |
//! | --- | --- | --- |
//! | core cycles and overlap | as told | as told |
//! | core cycles | as told | the usual one |
//! | cycles and overlap | what is left of the cycles without the waiting | as told |
//! | cycles | as left by a fit | from the fit, near the usual one |
//!
//! A profile's cycles per instruction were measured at one cache size (the one that its class was taken
//! at, else that of the machine here) and are taken for cycles of this machine.

use base::Bytes;
use program::Profile;
use program::profile::{Curve, Figure, Phase};

use super::{Behaviour, Channel, Character, CharacterError, Habits, Row};

/// Why a profile tells no behaviour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Nothing says how fast it is.
    #[error("it tells neither core_cycles_per_instruction nor cycles_per_instruction")]
    NoCycles,
    /// It has no curve.
    #[error("it has no curve of misses over cache sizes")]
    NoCurve,
    /// Its figures cannot be.
    #[error(transparent)]
    Character(#[from] CharacterError),
}

/// A whole program: the average of its phases over their instructions.
///
/// # Errors
/// As [`of_phase`], of any phase.
pub fn of_profile(
    profile: &Profile,
    bytes: f64,
    channel: &Channel,
    habits: Habits,
) -> Result<Behaviour, ProfileError> {
    match profile.phases.as_slice() {
        [only] => of_phase(only, profile.class_cache, bytes, channel, habits),
        _ => of_phase(&average(profile), profile.class_cache, bytes, channel, habits),
    }
}

/// A phase on a machine with a last-level cache of so many bytes. `measured_at`: the cache that its cycles
/// per instruction were measured with, if that is known.
///
/// # Errors
/// No curve, neither of the two cycles, or a curve that cannot be.
pub fn of_phase(
    phase: &Phase,
    measured_at: Option<Bytes>,
    bytes: f64,
    channel: &Channel,
    habits: Habits,
) -> Result<Behaviour, ProfileError> {
    let value = |figure: Option<Figure>| figure.map(Figure::value);
    let core = value(phase.core_cycles_per_instruction);
    let cycles = value(phase.cycles_per_instruction);
    let overlap = value(phase.overlap).filter(|overlap| 1.0 <= *overlap);
    let (rows, none) = rows(phase)?;
    if let Some(core) = core {
        let character = Character::new(rows, none)?;
        let overlap = overlap.unwrap_or(habits.overlap);
        return Ok(Behaviour::known(&character, core, overlap, habits));
    }
    let cycles = cycles.ok_or(ProfileError::NoCycles)?;
    let at = measured_at.map_or(bytes, |size| size.0 as f64);
    let character = measured(rows, none, at, cycles)?;
    let told = match overlap {
        Some(overlap) => Behaviour::with_overlap(&character, at, channel, habits, overlap),
        None => Behaviour::of(&character, at, channel, habits),
    };
    told.ok_or(ProfileError::NoCycles)
}

/// The rows with one more, or one of them, that knows its cycles.
fn measured(
    mut rows: Vec<Row>,
    none: Row,
    at: f64,
    cycles: f64,
) -> Result<Character, CharacterError> {
    let there = Character::new(rows.clone(), none)?.at(at);
    rows.retain(|row| row.bytes != at);
    rows.push(Row { cycles: Some(cycles), ..there });
    Character::new(rows, none)
}

/// What the curve tells, and what misses without any cache.
fn rows(phase: &Phase) -> Result<(Vec<Row>, Row), ProfileError> {
    let row = |point: &program::profile::Point| Row {
        bytes: point.cache.0 as f64,
        cycles: None,
        demand_misses: point.misses,
        misses: point.misses + point.prefetches.unwrap_or(0.0),
        reads: point.misses + point.prefetches.unwrap_or(0.0),
        writes: point.write_backs.unwrap_or(0.0),
    };
    let rows: Vec<Row> = phase.curve.points().iter().map(row).collect();
    let first = *rows.first().ok_or(ProfileError::NoCurve)?;
    let accesses = phase.llc_accesses.map_or(first.demand_misses, Figure::value);
    let more = (accesses - first.demand_misses).max(0.0);
    let none = Row {
        bytes: 0.0,
        cycles: None,
        demand_misses: first.demand_misses + more,
        misses: first.misses + more,
        reads: first.reads + more,
        writes: first.writes,
    };
    Ok((rows, none))
}

/// One phase that does on average what all do; what one of them does not tell is not told.
fn average(profile: &Profile) -> Phase {
    let of = |figure: fn(&Phase) -> Option<Figure>| {
        let value = profile.average(|phase| Some(figure(phase)?.value()))?;
        Figure::new(value, Default::default())
    };
    let mut sizes: Vec<Bytes> =
        profile.phases.iter().flat_map(|phase| phase.curve.points()).map(|at| at.cache).collect();
    sizes.sort();
    sizes.dedup();
    let point = |cache: Bytes| {
        Some(program::profile::Point {
            cache,
            misses: profile.average(|phase| phase.curve.misses_at(cache))?,
            write_backs: profile.average(|phase| phase.curve.write_backs_at(cache)),
            prefetches: profile.average(|phase| phase.curve.prefetches_at(cache)),
            error: None,
        })
    };
    let points = sizes.into_iter().filter_map(point).collect();
    Phase {
        cycles_per_instruction: of(|phase| phase.cycles_per_instruction),
        core_cycles_per_instruction: of(|phase| phase.core_cycles_per_instruction),
        overlap: of(|phase| phase.overlap),
        llc_accesses: of(|phase| phase.llc_accesses),
        curve: Curve::new(Default::default(), points).unwrap_or_default(),
        ..Phase::default()
    }
}
