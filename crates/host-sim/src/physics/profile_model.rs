//! Computes the CPI model of a program from its profile.
//!
//! | the profile has | core cycles | overlap |
//! | --- | --- | --- |
//! | core cycles and overlap | from the profile | from the profile |
//! | core cycles | from the profile | the default |
//! | cycles and overlap | cycles without the stalls | from the profile |
//! | cycles | from a fit | from the fit, near the default |
//!
//! The cycles per instruction of a profile are measured with one cache size. It is the cache size of the profile's
//! class, else the cache size of the simulated machine. The measured cycles are used as cycles of the simulated
//! machine.

use base::Bytes;
use program::Profile;
use program::profile::{MissRatioCurve, Phase, ProfileValue};

use super::profile_counts::{CountContradiction, check_counts};
use super::{Channel, CpiModel, CpiParameters, MissCurve, MissCurveError, MissPoint};

/// An error in a profile from which no CPI model can be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ProfileError {
    #[error("it has neither core_cycles_per_instruction nor cycles_per_instruction; set one")]
    NoCycles,
    #[error("its {key} is {found}: no core needs fewer than {CYCLES_MIN} cycles per instruction")]
    TooFast { key: &'static str, found: String },
    #[error(
        "its core_cycles_per_instruction are {core}, more than its cycles_per_instruction {cycles}; correct one of them"
    )]
    CoreCycles { core: String, cycles: String },
    #[error("it has no curve of misses by cache size; set curve")]
    NoCurve,
    #[error(
        "its stalls on memory exceed its cycles: {} misses per 1000 instructions x {REFERENCE_CYCLES} cycles / overlap {} are {} cycles per instruction, cycles_per_instruction is {}; correct one of them", .0.misses, .0.overlap, .0.stalls, .0.cycles
    )]
    Stalls(Box<StallCycles>),
    #[error(transparent)]
    Counts(#[from] Box<CountContradiction>),
    #[error("burst_instructions and sleep_ns belong together; set both or none")]
    LoneSleepKey,
    #[error("burst_instructions must be 1 or more")]
    ShortBursts,
    #[error(transparent)]
    Character(#[from] MissCurveError),
    #[error("phase {number}: {problem}")]
    Phase { number: usize, problem: Box<ProfileError> },
}

/// Values of a profile with more stall cycles than cycles, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub struct StallCycles {
    pub misses: String,
    pub overlap: String,
    pub stalls: String,
    pub cycles: String,
}

/// Returns the model of a complete program, which is the average of its phases, weighted by instructions. Only the
/// phases are checked: the averages of phases with different private caches, or different overlap, seem to contradict
/// each other.
///
/// # Errors
/// Returns the errors of [`of_phase`] for any phase.
pub fn of_profile(
    profile: &Profile,
    bytes: f64,
    channel: &Channel,
    parameters: CpiParameters,
) -> Result<CpiModel, ProfileError> {
    if let [only] = profile.phases.as_slice() {
        return of_phase(only, profile.class_cache, bytes, channel, parameters);
    }
    for (number, phase) in (1..).zip(&profile.phases) {
        of_phase(phase, profile.class_cache, bytes, channel, parameters)
            .map_err(|problem| ProfileError::Phase { number, problem: Box::new(problem) })?;
    }
    model_of(&average(profile), profile.class_cache, bytes, channel, parameters)
}

/// Returns the model of a phase on a machine with a last-level cache of `bytes`. `measured_at` is the cache size for
/// which the phase's cycles per instruction were measured, if known.
///
/// # Errors
/// Returns an error if the phase has no curve, an invalid curve or no cycles, or if its values contradict each other.
pub fn of_phase(
    phase: &Phase,
    measured_at: Option<Bytes>,
    bytes: f64,
    channel: &Channel,
    parameters: CpiParameters,
) -> Result<CpiModel, ProfileError> {
    check(phase, measured_at)?;
    model_of(phase, measured_at, bytes, channel, parameters)
}

/// Returns the model of a phase whose values have been checked.
fn model_of(
    phase: &Phase,
    measured_at: Option<Bytes>,
    bytes: f64,
    channel: &Channel,
    parameters: CpiParameters,
) -> Result<CpiModel, ProfileError> {
    let overlap = overlap(phase);
    let (rows, none) = rows(phase)?;
    let private = private_curve(phase, parameters.core.private_bytes)?;
    let with_private = |model: CpiModel| match private.clone() {
        Some(curve) => model.with_private_curve(curve),
        None => model,
    };
    if let Some(core) = value(phase.core_cycles_per_instruction) {
        let character = MissCurve::new(rows, none)?;
        let overlap = overlap.unwrap_or(parameters.overlap);
        return Ok(with_private(CpiModel::from_core_cycles(&character, core, overlap, parameters)));
    }
    let cycles = value(phase.cycles_per_instruction).ok_or(ProfileError::NoCycles)?;
    let measured_bytes = measured_at.map_or(bytes, |size| size.0 as f64);
    let character = measured(rows, none, measured_bytes, cycles)?;
    let model = match overlap {
        Some(overlap) => {
            CpiModel::fit_with_overlap(&character, measured_bytes, channel, parameters, overlap)
        }
        None => CpiModel::fit(&character, measured_bytes, channel, parameters),
    };
    model.map(with_private).ok_or(ProfileError::NoCycles)
}

/// Exponent of the misses of a cache over its size, for sizes below all points of a curve: half the size, 1.41 times
/// the misses. Published for many programs (A. Hartstein, V. Srinivasan, T. R. Puzak, P. G. Emma, "Cache miss behavior:
/// is it √2?", Computing Frontiers 2006).
const SMALL_CACHE_EXPONENT: f64 = -0.5;
/// Number of halvings of the private caches for which the curve has points.
const N_HALVINGS: i32 = 6;

/// Returns the accesses of a phase to the last-level cache by size of the private caches; `None` if neither the profile
/// nor the machine has the size of the private caches. `own_bytes` is that of the machine's fastest core.
///
/// A private cache is a cache: larger private caches have the misses of the profile's curve at their size. Smaller ones
/// have its misses in proportion to those at the measured size. Below the first point of the curve, the misses grow
/// with [`SMALL_CACHE_EXPONENT`]. At any size they are at most the misses of the first-level cache.
fn private_curve(phase: &Phase, own_bytes: Option<f64>) -> Result<Option<MissCurve>, ProfileError> {
    let measured = phase.private_cache.map(|bytes| bytes.0 as f64).filter(|bytes| 1.0 <= *bytes);
    let Some(measured) = measured.or(own_bytes) else { return Ok(None) };
    let points: Vec<(f64, f64)> =
        phase.curve.points().iter().map(|at| (at.cache.0 as f64, at.misses)).collect();
    let Some(&(first_bytes, first)) = points.first() else { return Ok(None) };
    let accesses = phase.llc_accesses.map_or(first, ProfileValue::value);
    let most = phase.l1_misses.map_or(f64::INFINITY, ProfileValue::value).max(accesses);
    let at_measured = phase.curve.misses_at(Bytes(measured as u64)).unwrap_or(first);
    let scale = if 0.0 < at_measured { accesses / at_measured } else { 0.0 };
    // The first size from which on the misses are extrapolated, and the misses there.
    let (known_bytes, known) = match first_bytes < measured {
        true => (first_bytes, scale * first),
        false => (measured, accesses),
    };
    let extrapolated = (1..=N_HALVINGS).map(|n| {
        let bytes = known_bytes * libm::exp2(-f64::from(n));
        (bytes, known * libm::pow(bytes / known_bytes, SMALL_CACHE_EXPONENT))
    });
    let below = points.iter().filter(|(bytes, _)| *bytes < measured);
    let below = below.map(|&(bytes, misses)| (bytes, scale * misses));
    let above = points.iter().filter(|(bytes, _)| measured < *bytes);
    let above = above.map(|&(bytes, misses)| (bytes, misses.min(accesses)));
    let all = extrapolated.chain(below).chain([(measured, accesses)]).chain(above);
    let mut all: Vec<(f64, f64)> = all.map(|(bytes, misses)| (bytes, misses.min(most))).collect();
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut least = 0.0f64;
    let rows = all.into_iter().map(|(bytes, misses)| {
        least = least.max(misses); // Noise of the measurement is removed: smaller caches have no fewer misses.
        MissPoint::of_demand(bytes, least)
    });
    let rows: Vec<MissPoint> = rows.collect();
    let none = rows.last().map_or(0.0, |row| row.demand_misses);
    let none = if most.is_finite() { most.max(none) } else { none };
    Ok(Some(MissCurve::new(rows, MissPoint::of_demand(0.0, none))?))
}

/// Minimum plausible cycles per instruction, for 20 instructions per cycle. The widest cores retire about 10.
const CYCLES_MIN: f64 = 0.05;

/// Latency of a miss in cycles for [`check_stalls`]. The latency of the machine on which a profile was measured is not
/// known; most servers have 200 to 300 cycles.
const REFERENCE_CYCLES: f64 = 200.0;

/// Largest plausible memory-level parallelism of a profile without one.
const PARALLELISM_MAX: f64 = 16.0;

fn value(value: Option<ProfileValue>) -> Option<f64> {
    value.map(ProfileValue::value)
}

fn overlap(phase: &Phase) -> Option<f64> {
    value(phase.overlap).filter(|overlap| 1.0 <= *overlap)
}

/// Checks that the values of a phase do not contradict each other.
fn check(phase: &Phase, measured_at: Option<Bytes>) -> Result<(), ProfileError> {
    let core = value(phase.core_cycles_per_instruction);
    let cycles = value(phase.cycles_per_instruction);
    check_cycles("core_cycles_per_instruction", core)?;
    check_cycles("cycles_per_instruction", cycles)?;
    check_counts(phase, measured_at)?;
    check_stalls(phase, measured_at, cycles)?;
    if let Some((core, cycles)) = core.zip(cycles).filter(|(core, cycles)| cycles < core) {
        let [core, cycles] = [core, cycles].map(|value| value.to_string());
        return Err(ProfileError::CoreCycles { core, cycles });
    }
    match (value(phase.burst_instructions), phase.sleep_ns) {
        (Some(burst), Some(_)) if burst < 1.0 => Err(ProfileError::ShortBursts),
        (Some(_), None) | (None, Some(_)) => Err(ProfileError::LoneSleepKey),
        _ => Ok(()),
    }
}

/// Checks that the stalls on memory are not longer than the cycles of a phase. Unknown values are those with the fewest
/// stalls: the largest size of the curve, and the largest parallelism.
fn check_stalls(
    phase: &Phase,
    measured_at: Option<Bytes>,
    cycles: Option<f64>,
) -> Result<(), ProfileError> {
    let size = measured_at.or_else(|| phase.curve.points().last().map(|point| point.cache));
    let Some((cycles, size)) = cycles.zip(size) else { return Ok(()) };
    let misses = phase.curve.misses_at(size).unwrap_or(0.0);
    let overlap = overlap(phase).unwrap_or(PARALLELISM_MAX);
    let stalls = misses * REFERENCE_CYCLES / 1000.0 / overlap;
    if stalls <= cycles {
        return Ok(());
    }
    let [misses, overlap, stalls, cycles] =
        [misses, overlap, stalls, cycles].map(|value| format!("{value:.3}"));
    Err(ProfileError::Stalls(Box::new(StallCycles { misses, overlap, stalls, cycles })))
}

fn check_cycles(key: &'static str, cycles: Option<f64>) -> Result<(), ProfileError> {
    match cycles.filter(|cycles| *cycles < CYCLES_MIN) {
        Some(found) => Err(ProfileError::TooFast { key, found: found.to_string() }),
        None => Ok(()),
    }
}

/// Returns the curve, with the measured cycles at one of its points.
fn measured(
    mut rows: Vec<MissPoint>,
    none: MissPoint,
    at: f64,
    cycles: f64,
) -> Result<MissCurve, MissCurveError> {
    let point = MissCurve::new(rows.clone(), none)?.at(at);
    rows.retain(|row| row.bytes != at);
    rows.push(MissPoint { cycles: Some(cycles), ..point });
    MissCurve::new(rows, none)
}

/// Returns the points of the curve, and the values without a cache.
fn rows(phase: &Phase) -> Result<(Vec<MissPoint>, MissPoint), ProfileError> {
    let row = |point: &program::profile::CurvePoint| MissPoint {
        bytes: point.cache.0 as f64,
        cycles: None,
        demand_misses: point.misses,
        misses: point.misses + point.prefetches.unwrap_or(0.0),
        reads: point.misses + point.prefetches.unwrap_or(0.0),
        writes: point.write_backs.unwrap_or(0.0),
    };
    let rows: Vec<MissPoint> = phase.curve.points().iter().map(row).collect();
    let first = *rows.first().ok_or(ProfileError::NoCurve)?;
    let accesses = phase.llc_accesses.map_or(first.demand_misses, ProfileValue::value);
    // It is negative if the first point is smaller than the private caches.
    let more = accesses - first.demand_misses;
    let none = MissPoint {
        bytes: 0.0,
        cycles: None,
        demand_misses: first.demand_misses + more,
        misses: first.misses + more,
        reads: first.reads + more,
        writes: first.writes,
    };
    Ok((rows, none))
}

/// Returns a phase with the average values of all phases. A value is absent if any phase lacks it.
fn average(profile: &Profile) -> Phase {
    let average_of = |value_of: fn(&Phase) -> Option<ProfileValue>| {
        let value = profile.average(|phase| Some(value_of(phase)?.value()))?;
        ProfileValue::new(value, Default::default())
    };
    let mut sizes: Vec<Bytes> =
        profile.phases.iter().flat_map(|phase| phase.curve.points()).map(|at| at.cache).collect();
    sizes.sort();
    sizes.dedup();
    let point = |cache: Bytes| {
        Some(program::profile::CurvePoint {
            cache,
            misses: profile.average(|phase| phase.curve.misses_at(cache))?,
            write_backs: profile.average(|phase| phase.curve.write_backs_at(cache)),
            prefetches: profile.average(|phase| phase.curve.prefetches_at(cache)),
            error: None,
        })
    };
    let points = sizes.into_iter().filter_map(point).collect();
    Phase {
        cycles_per_instruction: average_of(|phase| phase.cycles_per_instruction),
        core_cycles_per_instruction: average_of(|phase| phase.core_cycles_per_instruction),
        overlap: average_of(|phase| phase.overlap),
        llc_accesses: average_of(|phase| phase.llc_accesses),
        l1_misses: average_of(|phase| phase.l1_misses),
        private_cache: profile.phases.first().and_then(|phase| phase.private_cache),
        curve: MissRatioCurve::new(Default::default(), points).unwrap_or_default(),
        ..Phase::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use program::profile::parse_profile;

    use super::*;
    use crate::physics::{Calibration, CoreSpeed, FillTable};

    const MIB: f64 = 1048576.0;

    fn model_of(phases: &str) -> Result<CpiModel, ProfileError> {
        let text = format!("name = \"x\"\n{phases}");
        let profile = parse_profile(&text, Path::new("x")).expect("a profile");
        let fitted = Calibration::default();
        of_profile(
            &profile,
            MIB,
            &fitted.channel(45.0, 12.8),
            fitted.parameters(CoreSpeed::new(4.0)),
        )
    }

    const CURVE: &str = "curve = { cache_bytes = [131072, 1048576], misses_per_1000 = [9, 3], prefetches_per_1000 = [2, 1] }";

    #[test]
    fn core_cycles_and_overlap_are_taken_from_the_profile() {
        let keys = "core_cycles_per_instruction = 0.8\noverlap = 3\n";
        let model = model_of(&format!("[[phase]]\nshare = 1\n{keys}{CURVE}")).unwrap();
        let demand = model.demand(MIB);
        assert!((model.overlap() - 3.0).abs() < 1e-9 && (demand.core_ns - 200.0).abs() < 1e-9);
        assert!((demand.bytes - 256.0).abs() < 1e-9, "3 misses and a prefetch: {demand:?}");
    }

    #[test]
    fn without_core_cycles_they_are_the_measured_cycles_minus_the_stalls() {
        let model =
            model_of(&format!("[[phase]]\nshare = 1\ncycles_per_instruction = 1.5\n{CURVE}"))
                .unwrap();
        let parameters = Calibration::default().parameters(CoreSpeed::new(4.0));
        assert!((model.overlap() / parameters.overlap - 1.0).abs() < 1e-6, "{}", model.overlap());
        let alone =
            Calibration::default().channel(45.0, 12.8).load(&[model.demand(MIB)]).each_ns[0];
        assert!((alone - 375.0).abs() < 1e-6, "{alone}");
    }

    #[test]
    fn an_overlap_in_the_profile_is_used_together_with_cycles() {
        let keys = "cycles_per_instruction = 1.5\noverlap = 2\n";
        let model = model_of(&format!("[[phase]]\nshare = 1\n{keys}{CURVE}")).unwrap();
        assert!((model.overlap() - 2.0).abs() < 1e-9, "{}", model.overlap());
    }

    #[test]
    fn phases_are_averaged_over_their_instructions() {
        let phase = |share: f64, core: f64| {
            format!("[[phase]]\nshare = {share}\ncore_cycles_per_instruction = {core}\n{CURVE}\n")
        };
        let model = model_of(&(phase(0.25, 1.0) + &phase(0.75, 2.0))).unwrap();
        assert!((model.demand(MIB).core_ns - 437.5).abs() < 1e-9, "{:?}", model.demand(MIB));
    }

    #[test]
    fn accesses_follow_the_curve_by_size_of_the_private_caches() {
        let accesses = |keys: &str, curve: &str, kib: f64| {
            let keys = format!("core_cycles_per_instruction = 1\n{keys}\n");
            let model = model_of(&format!("[[phase]]\nshare = 1\n{keys}{curve}")).unwrap();
            let core = CoreSpeed { private_bytes: Some(kib * 1024.0), ..CoreSpeed::new(4.0) };
            let counts = model.counts_on(&core, 16.0 * MIB);
            assert!(counts.demand_misses <= counts.accesses);
            counts.accesses
        };
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
        let keys = "llc_accesses_per_1000 = 20\nprivate_cache_bytes = 262144";
        let curve = "curve = { cache_bytes = [1048576, 4194304], misses_per_1000 = [10, 2] }";
        close(accesses(keys, curve, 256.0), 20.0);
        close(accesses(keys, curve, 1024.0), 10.0);
        close(accesses(keys, curve, 2048.0), 6.0);
        // Below the curve, half the size has 1.41 times the accesses.
        close(accesses(keys, curve, 64.0), 40.0);
        // At most the misses of the first-level cache.
        close(accesses(&format!("{keys}\nl1_misses_per_1000 = 30"), curve, 64.0), 30.0);
        // A curve that has smaller sizes is used in proportion.
        let curve =
            "curve = { cache_bytes = [65536, 262144, 1048576], misses_per_1000 = [24, 16, 10] }";
        close(accesses(keys, curve, 64.0), 30.0);
        close(accesses(keys, curve, 256.0), 20.0);
        close(accesses(keys, curve, 1024.0), 10.0);
        // Without the measured size, the accesses are those of the reference core, which has no known size here.
        close(accesses("llc_accesses_per_1000 = 20", curve, 1024.0), 20.0);
    }

    #[test]
    fn points_below_the_private_caches_do_not_change_the_accesses() {
        let points = "cache_bytes = [262144, 1048576, 4194304], misses_per_1000 = [20, 10, 2]";
        let more = points.replace("[262144", "[16384, 262144").replace("[20", "[100, 20");
        let keys = "core_cycles_per_instruction = 1\nllc_accesses_per_1000 = 20\nprivate_cache_bytes = 262144";
        let model = |points: &str| {
            model_of(&format!("[[phase]]\nshare = 1\n{keys}\ncurve = {{ {points} }}")).unwrap()
        };
        let (short, long) = (model(points), model(&more));
        let slow = CoreSpeed { hit_ns: 50.0, ..CoreSpeed::new(4.0) };
        let measured = CoreSpeed { private_bytes: Some(262144.0), ..slow };
        let table = FillTable::new(long.miss_curve(), 4.0 * MIB);
        for kib in [256.0, 512.0, 1024.0, 4096.0] {
            let bytes = kib * 1024.0;
            assert_eq!(long.counts(bytes).accesses, 20.0);
            assert_eq!(long.demand_on(&slow, bytes), short.demand_on(&slow, bytes));
            assert_eq!(long.demand_on(&slow, bytes), long.demand_on(&measured, bytes));
        }
        // An occupancy smaller than the private caches has the misses of the curve, and no hits.
        for kib in [16.0, 64.0, 200.0] {
            let counts = long.counts(kib * 1024.0);
            assert!(
                20.0 < counts.accesses && counts.accesses == counts.demand_misses,
                "{counts:?}"
            );
        }
        for step in 0..=4096 {
            let counts = table.events(f64::from(step) * 1024.0, &mut 0);
            assert!(counts.demand_misses <= counts.accesses, "{step} KiB: {counts:?}");
            assert!(step < 512 || counts.accesses == 20.0, "{step} KiB: {counts:?}");
        }
    }

    #[test]
    fn cycles_that_unknown_values_cannot_explain_are_an_error() {
        let message = |keys: &str, misses: u32| {
            let curve =
                format!("curve = {{ cache_bytes = [1048576], misses_per_1000 = [{misses}] }}");
            let model = model_of(&format!("[[phase]]\nshare = 1\n{keys}\n{curve}"));
            model.err().map(|error| error.to_string())
        };
        let cycles = "cycles_per_instruction = 2";
        assert_eq!(message(cycles, 100), None);
        assert!(message(cycles, 400).expect("5 cycles").starts_with("its stalls on memory"));
        let both = format!("{cycles}\ncore_cycles_per_instruction = 9");
        assert!(message(&both, 1).expect("9 cycles").starts_with("its core_cycles"));
    }

    #[test]
    fn a_profile_with_more_stall_cycles_than_cycles_is_an_error() {
        let phase = |overlap: f64| {
            let keys = format!("cycles_per_instruction = 0.5\noverlap = {overlap}\n");
            model_of(&format!("class_cache_bytes = \"1M\"\n[[phase]]\nshare = 1\n{keys}{CURVE}"))
        };
        assert!(phase(1.3).is_ok());
        let error = phase(1.1).expect_err("3 misses of 200 cycles are more than 0.5 cycles");
        assert!(error.to_string().starts_with(
            "its stalls on memory exceed its cycles: 3.000 misses per 1000 instructions x 200 cycles / overlap 1.100 are 0.545 cycles"
        ), "{error}");
    }

    #[test]
    fn every_phase_of_a_profile_is_checked() {
        let profile = |second: &str| {
            let phase = |keys: &str| {
                let curve = "curve = { cache_bytes = [1048576], misses_per_1000 = [12.5] }";
                format!(
                    "[[phase]]\nshare = 0.5\ncore_cycles_per_instruction = 1\n{keys}\n{curve}\n"
                )
            };
            let both = phase("llc_accesses_per_1000 = 50") + &phase(second);
            model_of(&format!("class_cache_bytes = \"1M\"\n{both}"))
        };
        assert!(profile("llc_accesses_per_1000 = 13").is_ok());
        let message = |second: &str| profile(second).expect_err("a contradiction").to_string();
        assert_eq!(
            message("llc_accesses_per_1000 = 5"),
            "phase 2: its misses of a cache of 1.0 MiB are 12.500 per 1000 instructions, more than its llc_accesses_per_1000 of 5.000; correct one of them"
        );
        let stalls = message("cycles_per_instruction = 1.1\noverlap = 1");
        assert!(stalls.starts_with("phase 2: its stalls on memory"), "{stalls}");
        assert_eq!(
            message("sleep_ns = 5"),
            "phase 2: burst_instructions and sleep_ns belong together; set both or none"
        );
        assert_eq!(
            message("sleep_ns = 5\nburst_instructions = 0"),
            "phase 2: burst_instructions must be 1 or more"
        );
    }

    #[test]
    fn phases_without_a_contradiction_have_none_on_average() {
        let phase = |private: u32, accesses: u32, misses: &str| {
            let curve = format!(
                "curve = {{ cache_bytes = [262144, 4194304], misses_per_1000 = {misses} }}"
            );
            let keys =
                format!("private_cache_bytes = {private}\nllc_accesses_per_1000 = {accesses}");
            format!("[[phase]]\nshare = 0.5\ncore_cycles_per_instruction = 1\n{keys}\n{curve}\n")
        };
        let phases = phase(262144, 20, "[20, 5]") + &phase(4194304, 5, "[60, 5]");
        assert!(model_of(&phases).is_ok());
    }

    #[test]
    fn a_profile_without_cycles_or_without_a_curve_is_an_error() {
        let error = model_of(&format!("[[phase]]\nshare = 1\n{CURVE}")).expect_err("no cycles");
        assert_eq!(error, ProfileError::NoCycles);
        let error = model_of("[[phase]]\nshare = 1\ncycles_per_instruction = 1\n");
        assert_eq!(error.expect_err("no curve"), ProfileError::NoCurve);
    }
}
