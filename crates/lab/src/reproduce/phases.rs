//! Phases of programs: parts of a run with more and with fewer misses, alternating.
//!
//! ```text
//!   misses   ┌──┐   ┌─────┐  ┌─            profile × (1 + amplitude)
//!            ┤  └───┘     └──┘             profile × (1 - amplitude)
//! ```
//!
//! The phases of SPEC programs have no published source. Drawn phases come from ranges that were fixed before the first
//! run; all copies of a program have the same phases.
//!
//! | value | range | reason |
//! |---|---|---|
//! | amplitude | 0 to 0.9 | 0: no phases; with more than 0.9 a phase would have nearly no misses |
//! | mean length alone | 1 to 10 s, logarithmic | see below |
//! | length of a phase | 0.5 to 1.5 × the mean | phases of one program differ |
//! | order | begins with more or with fewer misses | not known |
//!
//! Phases shorter than the window and the check of `ib` (five intervals of 200 ms) are averages for every policy. Of
//! phases longer than 10 s, a program of 30 to 100 s has few.

use base::Rng;
use host_sim::hardware::Hardware;
use program::Profile;
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue};

use crate::shipped;

/// Range of the length of an alternating phase of a program alone, in seconds; uniformly distributed. Guessed: some
/// phases are shorter than the window of DINO (ten seconds), and some are longer.
const PHASE_S: (f64, f64) = (5.0, 30.0);

/// Largest amplitude of drawn phases.
const AMPLITUDE_MAX: f64 = 0.9;
/// Range of the mean length of drawn phases, in seconds.
const MEAN_PHASE_S: (f64, f64) = (1.0, 10.0);

/// Returns a profile with the phases of a draw.
pub(super) fn with_drawn_phases(
    profile: Profile,
    program: &str,
    draw: u64,
    hardware: &Hardware,
) -> Profile {
    let Ok(alone) = shipped::alone(&profile, hardware) else { return profile };
    let name_hash =
        program.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31) + u64::from(byte));
    let mut rng = Rng::new(draw.wrapping_mul(1_000_003) ^ name_hash);
    let amplitude = rng.unit() * AMPLITUDE_MAX;
    let (low, high) = MEAN_PHASE_S;
    let mean_s = low * libm::pow(high / low, rng.unit());
    alternating(profile, (amplitude, (0.5 * mean_s, 1.5 * mean_s)), &mut rng, alone.seconds)
}

/// Returns a profile split into phases with more and with fewer misses, alternating; the mean stays about the same.
pub(super) fn with_alternating_phases(
    profile: Profile,
    (amplitude, seed): (f64, u64),
    seconds: f64,
) -> Profile {
    alternating(profile, (amplitude, PHASE_S), &mut Rng::new(seed), seconds)
}

/// Splits a profile into phases of a random length within a range.
fn alternating(
    profile: Profile,
    (amplitude, length_range_s): (f64, (f64, f64)),
    rng: &mut Rng,
    seconds: f64,
) -> Profile {
    let Some(phase) = profile.phases.first().cloned() else { return profile };
    let (mut phases, mut left, mut is_up) = (Vec::new(), 1.0, rng.below(2) == 0);
    while 1e-6 < left {
        let length_s = length_range_s.0 + rng.unit() * (length_range_s.1 - length_range_s.0);
        let part = (length_s / seconds).min(left);
        phases.push(scaled(&phase, if is_up { 1.0 + amplitude } else { 1.0 - amplitude }, part));
        (left, is_up) = (left - part, !is_up);
    }
    Profile { phases, ..profile }
}

/// Returns a part of a phase, with its misses and accesses multiplied by a factor.
fn scaled(phase: &Phase, times: f64, part: f64) -> Phase {
    let times_factor = |value: Option<ProfileValue>, factor: f64| {
        value.and_then(|value| ProfileValue::new(value.value() * factor, value.source))
    };
    let point = |point: &CurvePoint| CurvePoint {
        misses: point.misses * times,
        write_backs: point.write_backs.map(|count| count * times),
        prefetches: point.prefetches.map(|count| count * times),
        ..*point
    };
    let points = phase.curve.points().iter().map(point).collect();
    Phase {
        share: times_factor(Some(phase.share), part).unwrap_or_default(),
        instructions: times_factor(phase.instructions, part),
        llc_accesses: times_factor(phase.llc_accesses, times),
        l1_misses: times_factor(phase.l1_misses, times),
        bandwidth: None,
        curve: MissRatioCurve::new(phase.curve.source, points).unwrap_or_default(),
        ..phase.clone()
    }
}

#[cfg(test)]
mod tests {
    use base::Bytes;

    use super::*;

    #[test]
    fn alternating_phases_add_up_to_the_program_and_differ_in_their_misses() {
        let profile = shipped::profile("470.lbm").expect("it ships");
        let all = |profile: &Profile| -> f64 {
            let instructions = profile.phases.iter().filter_map(|phase| phase.instructions);
            instructions.map(|measured| measured.value()).sum()
        };
        let phased = with_alternating_phases(profile.clone(), (0.5, 7), 300.0);
        assert!((all(&phased) / all(&profile) - 1.0).abs() < 1e-6);
        let misses = |phase: &Phase| phase.curve.misses_at(Bytes(2 << 20)).expect("a curve");
        let usual = misses(&profile.phases[0]);
        let times: Vec<String> =
            phased.phases.iter().map(|phase| format!("{:.1}", misses(phase) / usual)).collect();
        assert!(10 <= times.len(), "phases of 5 to 30 s in 300 s: {times:?}");
        assert!(times.windows(2).all(|pair| pair[0] != pair[1]), "{times:?}");
        assert!(times.iter().all(|times| times == "1.5" || times == "0.5"), "{times:?}");
    }

    #[test]
    fn drawn_phases_add_up_to_the_program_and_differ_between_draws() {
        let machine = shipped::machine("opteron-2384-uma").expect("it ships");
        let hardware = Hardware::new(&machine);
        let profile = shipped::profile("429.mcf").expect("it ships");
        let of = |draw| with_drawn_phases(profile.clone(), "429.mcf", draw, &hardware);
        let shares = |profile: &Profile| -> f64 {
            profile.phases.iter().map(|phase| phase.share.value()).sum()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1).phases.len(), of(2).phases.len());
        for draw in 1..=20 {
            assert!((shares(&of(draw)) / shares(&profile) - 1.0).abs() < 1e-6, "draw {draw}");
        }
    }
}
