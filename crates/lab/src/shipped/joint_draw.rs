//! Draws of all values of a program together.
//!
//! Speed, misses and memory-level parallelism are independent ranges, but not every combination exists. A draw in which
//! the stalls of the misses take more cycles than the program has is repeated.
//!
//! The set `printed` replaces values of nine programs by what the paper on divided scheduling prints of these programs
//! alone on its machine. A draw that contradicts a printed value is repeated, too.

use std::sync::LazyLock;

use base::Rng;
use host_sim::hardware::Hardware;

use super::alone::alone;
use super::build_profile::build_profile;
use super::files::machine;
use super::program_values::{
    CORE_CYCLES_MIN, DrawPosition, PRINTED_CACHE, ProfileDraw, ProgramValues, at_positions,
};
use super::tables::{self, ProfileSet, printed};

/// Step in which the middle moves until the combination exists, as a share of the ranges.
const MIDDLE_STEP: f64 = 0.01;
/// Number of combinations of which the one closest to the middle is used, if printed values exclude the middle.
const N_MIDDLE_CANDIDATES: u64 = 200;
/// The machine of the printed values.
static PRINTED_MACHINE: LazyLock<Hardware> =
    LazyLock::new(|| Hardware::new(&machine("xeon-2x4").expect("it ships")));
/// Maximum number of repetitions of a draw. The least likely program needs four on average.
const N_ATTEMPTS: u64 = 1000;

/// Returns the values of a known program.
pub(super) fn drawn(program: &str, draw: ProfileDraw) -> ProgramValues {
    let has_print = draw.set == ProfileSet::Printed && tables::has_print(program);
    let set = if has_print { ProfileSet::Printed } else { ProfileSet::Table };
    let is_possible = |values: &ProgramValues| {
        CORE_CYCLES_MIN <= values.core_cycles()
            && agrees_with_print(values, program, ProfileDraw { set, ..draw })
    };
    let drawn = |seed: u64, nth: u64| {
        move |quantity: &str| {
            let repetition = nth.wrapping_mul(REPEATED);
            Rng::new(seed ^ name_hash(program, quantity) ^ repetition).unit()
        }
    };
    let shifted = |nth: u64| {
        let shift = (nth as f64 * MIDDLE_STEP).min(0.5);
        move |quantity: &str| match quantity {
            "ipc" | "llc_apki" | "llc_miss_ratio" => 0.5 - shift,
            "overlap" => 0.5 + shift,
            _ => 0.5,
        }
    };
    let middle = || at_positions(program, set, |_| 0.5);
    let possible = match draw.position {
        DrawPosition::Seed(seed) => (0..N_ATTEMPTS)
            .map(|nth| at_positions(program, set, drawn(seed, nth)))
            .find(is_possible),
        DrawPosition::Middle if has_print && !is_possible(&middle()) => {
            let distance = |nth: u64| -> f64 {
                let own = tables::quantities(program, set);
                own.map(|quantity| (drawn(0, nth)(quantity) - 0.5).powi(2)).sum()
            };
            let mut nearest: Vec<u64> = (0..N_MIDDLE_CANDIDATES).collect();
            nearest.sort_by(|one, other| distance(*one).total_cmp(&distance(*other)));
            let values = |nth: u64| at_positions(program, set, drawn(0, nth));
            nearest.into_iter().map(values).find(is_possible)
        }
        DrawPosition::Middle => {
            (0..N_ATTEMPTS).map(|nth| at_positions(program, set, shifted(nth))).find(is_possible)
        }
    };
    possible.unwrap_or_else(middle)
}

/// Factor that separates the random numbers of repeated draws.
const REPEATED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns whether a program with these values has the printed values of its program alone.
fn agrees_with_print(values: &ProgramValues, program: &str, draw: ProfileDraw) -> bool {
    if draw.set == ProfileSet::Table {
        return true;
    }
    let profile = build_profile(program, values, draw, 1.0);
    let Ok(alone) = alone(&profile, &PRINTED_MACHINE) else { return false };
    let is_within = |quantity: &str, value: f64| {
        printed(program, quantity).is_none_or(|range| (range.low..=range.high).contains(&value))
    };
    let misses = |cache| profile.average(|phase| phase.curve.misses_at(cache)).unwrap_or(0.0);
    let [whole, half] = PRINTED_CACHE.map(misses);
    is_within("bandwidth_mb_s", alone.bandwidth / 1e6)
        && is_within("misses_half_cache", half / whole)
}

/// Returns the hash of the name of a value (FNV-1a, 64 bits), equal on every machine and in every version.
fn name_hash(program: &str, quantity: &str) -> u64 {
    let bytes = program.bytes().chain(*b"/").chain(quantity.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
