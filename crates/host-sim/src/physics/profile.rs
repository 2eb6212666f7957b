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
    /// Faster than any core.
    #[error("its {key} is {found}: no core takes less than {CYCLES_MIN} cycles for an instruction")]
    TooFast {
        /// Which figure.
        key: &'static str,
        /// What it says.
        found: String,
    },
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
    check_cycles("core_cycles_per_instruction", core)?;
    check_cycles("cycles_per_instruction", cycles)?;
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

/// No core is faster (spec 8.3): twenty instructions in a cycle, where the widest of today end ten.
const CYCLES_MIN: f64 = 0.05;

fn check_cycles(key: &'static str, cycles: Option<f64>) -> Result<(), ProfileError> {
    match cycles.filter(|cycles| *cycles < CYCLES_MIN) {
        Some(found) => Err(ProfileError::TooFast { key, found: found.to_string() }),
        None => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use program::profile::parse_profile;

    use super::*;
    use crate::physics::Fitted;

    const MIB: f64 = 1048576.0;

    fn told(phases: &str) -> Result<Behaviour, ProfileError> {
        let text = format!("name = \"x\"\n{phases}");
        let profile = parse_profile(&text, Path::new("x")).expect("a profile");
        let fitted = Fitted::default();
        of_profile(&profile, MIB, &fitted.channel(45.0, 12.8), fitted.habits(4.0))
    }

    const CURVE: &str = "curve = { cache_bytes = [131072, 1048576], misses_per_1000 = [9, 3], prefetches_per_1000 = [2, 1] }";

    #[test]
    fn core_cycles_and_overlap_are_taken_as_told() {
        let figures = "core_cycles_per_instruction = 0.8\noverlap = 3\n";
        let its = told(&format!("[[phase]]\nshare = 1\n{figures}{CURVE}")).unwrap();
        let demand = its.demand(MIB);
        assert!((its.overlap() - 3.0).abs() < 1e-9 && (demand.core_ns - 200.0).abs() < 1e-9);
        assert!((demand.bytes - 256.0).abs() < 1e-9, "3 misses and a prefetch: {demand:?}");
    }

    #[test]
    fn from_cycles_alone_the_core_is_what_waiting_leaves() {
        let its =
            told(&format!("[[phase]]\nshare = 1\ncycles_per_instruction = 1.5\n{CURVE}")).unwrap();
        let habits = Fitted::default().habits(4.0);
        assert!((its.overlap() / habits.overlap - 1.0).abs() < 1e-6, "{}", its.overlap());
        let alone = Fitted::default().channel(45.0, 12.8).load(&[its.demand(MIB)]).each_ns[0];
        assert!((alone - 375.0).abs() < 1e-6, "{alone}");
    }

    #[test]
    fn with_cycles_an_overlap_that_is_told_holds() {
        let figures = "cycles_per_instruction = 1.5\noverlap = 2\n";
        let its = told(&format!("[[phase]]\nshare = 1\n{figures}{CURVE}")).unwrap();
        assert!((its.overlap() - 2.0).abs() < 1e-9, "{}", its.overlap());
    }

    #[test]
    fn phases_are_averaged_over_their_instructions() {
        let phase = |share: f64, core: f64| {
            format!("[[phase]]\nshare = {share}\ncore_cycles_per_instruction = {core}\n{CURVE}\n")
        };
        let its = told(&(phase(0.25, 1.0) + &phase(0.75, 2.0))).unwrap();
        assert!((its.demand(MIB).core_ns - 437.5).abs() < 1e-9, "{:?}", its.demand(MIB));
    }

    #[test]
    fn a_profile_without_cycles_or_curve_tells_nothing() {
        let error = told(&format!("[[phase]]\nshare = 1\n{CURVE}")).expect_err("no cycles");
        assert_eq!(error, ProfileError::NoCycles);
        let error = told("[[phase]]\nshare = 1\ncycles_per_instruction = 1\n");
        assert_eq!(error.expect_err("no curve"), ProfileError::NoCurve);
    }
}
