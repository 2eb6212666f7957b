//! Builds a profile from the values of a program.
//!
//! ```text
//!   misses │╲                 mpki(c) = MPKI + (APKI − MPKI) × f(c)      below C = 20 MiB; MPKI from there on
//!          │ ╲__              f(c) = (exp(−c/s) − exp(−C/s)) ÷ (1 − exp(−C/s))
//!          │    ╲______
//!          └──────────┴──► c
//!                     C
//! ```
//!
//! A traced program has the curve of its trace. A program with printed hit ratios has a curve through these ratios. Traffic beyond the missed lines is divided into prefetches and
//! write-backs.

use base::{Bytes, Nanos};
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};
use program::{Class, Profile};

use super::program_values::{
    CACHE, CORE_CYCLES_MIN, DrawPosition, MissSource, PRINTED_CACHE, ProfileDraw, ProgramValues,
};
use super::tables::ProfileSet;
use host_sim::copy_scaling::{CACHE_MIB, CLOCK, mpki_with_cache};

/// Points of a curve below [`CACHE`]: two for each doubling, down to 20 KiB.
const N_POINTS: i32 = 20;
/// Private cache whose misses are the counted accesses: the second-level cache of server cores until 2017.
const PRIVATE: Bytes = Bytes(256 << 10);
/// Bytes of a line.
const LINE: f64 = base::LINE_BYTES as f64;

/// Returns the profile of a program, with `factor` times the instructions.
pub(super) fn build_profile(
    name: &str,
    values: &ProgramValues,
    draw: ProfileDraw,
    factor: f64,
) -> Profile {
    let curve = curve(values);
    let lines_per_s = CLOCK / values.cycles * lines_per_1000(&curve) / 1000.0;
    let instructions = values.instructions * factor;
    Profile {
        name: name.to_owned(),
        build_id: None,
        tool: tool(values, draw),
        command: Vec::new(),
        class: Some((Class::of_rate(lines_per_s / 1000.0), ValueSource::Estimated)),
        class_cache: Some(CACHE),
        cpu_time: Some(Nanos((instructions * values.cycles / CLOCK * 1e9) as u64)),
        covered: None,
        phases: vec![phase(values, curve, libm::round(instructions), lines_per_s)],
    }
}

/// Returns the sources of a profile, and its clamped value.
fn tool(values: &ProgramValues, draw: ProfileDraw) -> String {
    let ranges = match draw.position {
        DrawPosition::Middle => "the middle of each range",
        DrawPosition::Seed(_) => "a draw from the ranges",
    };
    let clamped = values.overlap_before_clamp.map(|overlap| {
        format!("; overlap {overlap:.1} of the published stalls clamped to {}", values.overlap)
    });
    let clamped = clamped.unwrap_or_default();
    let set = if draw.set == ProfileSet::Printed { ", profiles = printed" } else { "" };
    format!("shipped: benchmarks.csv, and {ranges} of profiles.csv{set}{clamped}")
}

fn phase(
    values: &ProgramValues,
    curve: MissRatioCurve,
    instructions: f64,
    lines_per_s: f64,
) -> Phase {
    let speed = if values.is_measured { ValueSource::Counters } else { ValueSource::Declared };
    // Cycles without memory stalls, but with hits in the last-level cache. This value is equal on other machines with
    // similar cores.
    let core_cycles = values.core_cycles().max(CORE_CYCLES_MIN);
    // Accesses to the last-level cache per 1000 instructions.
    let accesses = match &values.misses {
        MissSource::Falling { apki, .. } | MissSource::All { apki, .. } => *apki,
        MissSource::Traced(_) => curve.misses_at(PRIVATE).unwrap_or(0.0),
    };
    Phase {
        share: ProfileValue::default(),
        instructions: ProfileValue::new(instructions, ValueSource::Estimated),
        cycles_per_instruction: ProfileValue::new(values.cycles, speed),
        core_cycles_per_instruction: ProfileValue::new(core_cycles, ValueSource::Estimated),
        overlap: ProfileValue::new(values.overlap, ValueSource::Estimated),
        footprint_bytes: ProfileValue::new(values.footprint, ValueSource::Declared),
        llc_accesses: ProfileValue::new(accesses, speed),
        l1_misses: ProfileValue::new(accesses * values.l1_per_access, ValueSource::Declared),
        private_cache: Some(PRIVATE),
        bandwidth: ProfileValue::new(lines_per_s * LINE, ValueSource::Estimated),
        curve,
        ..Phase::default()
    }
}

/// Returns the lines between [`CACHE`] and memory per 1000 instructions.
fn lines_per_1000(curve: &MissRatioCurve) -> f64 {
    curve.misses_at(CACHE).unwrap_or(0.0)
        + curve.write_backs_at(CACHE).unwrap_or(0.0)
        + curve.prefetches_at(CACHE).unwrap_or(0.0)
}

fn curve(values: &ProgramValues) -> MissRatioCurve {
    let extra_lines = (values.bytes_per_miss / LINE - 1.0).max(0.0);
    let point = |cache: Bytes, misses: f64| CurvePoint {
        cache,
        misses,
        prefetches: Some(misses * extra_lines * values.prefetched),
        write_backs: Some(misses * extra_lines * (1.0 - values.prefetched)),
        error: None,
    };
    let (source, points) = match (&values.misses, values.printed_hits) {
        // Hits that a paper prints for two cache sizes. More cache has no effect: nothing is printed on it.
        (MissSource::Falling { apki, .. }, Some(hits)) => {
            let at = |(cache, hits): (Bytes, f64)| point(cache, apki * (1.0 - hits));
            let [whole, half] = [0, 1].map(|size| at((PRINTED_CACHE[size], hits[size])));
            (ValueSource::Declared, vec![point(PRIVATE, *apki), half, whole])
        }
        (MissSource::Falling { apki, mpki, c_over_s }, None) => {
            let at = |cache| {
                point(cache, mpki_with_cache(*apki, *mpki, mib(cache), CACHE_MIB / c_over_s))
            };
            (ValueSource::Estimated, grid().map(at).collect())
        }
        (MissSource::All { apki, ratio }, _) => {
            let buffer = Bytes(values.footprint as u64);
            let at = |cache| point(cache, if cache < buffer { apki * ratio } else { 0.0 });
            let sizes = [Bytes(16 << 10), Bytes(buffer.0.saturating_sub(1)), buffer];
            (ValueSource::Declared, sizes.map(at).to_vec())
        }
        // The trace contains misses and write-backs. Prefetches are estimated, as for other programs.
        (MissSource::Traced(traced), _) => {
            (ValueSource::Traced, average(traced, values.prefetched * extra_lines))
        }
    };
    MissRatioCurve::new(source, points).unwrap_or_default()
}

fn mib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / 1048576.0
}

/// Returns the cache sizes up to [`CACHE`], in ascending order.
fn grid() -> impl Iterator<Item = Bytes> {
    (0..=N_POINTS).rev().map(|at| {
        let halves = libm::exp2(-f64::from(at) / 2.0);
        Bytes(libm::round(CACHE.0 as f64 * halves) as u64)
    })
}

/// Returns the average curve of a traced run, with this number of prefetched lines for each miss.
fn average(traced: &Profile, prefetches: f64) -> Vec<CurvePoint> {
    let mut sizes: Vec<Bytes> =
        traced.phases.iter().flat_map(|phase| phase.curve.points()).map(|at| at.cache).collect();
    sizes.sort();
    sizes.dedup();
    let point = |cache: Bytes| {
        let misses = traced.average(|phase| phase.curve.misses_at(cache))?;
        let write_backs = traced.average(|phase| phase.curve.write_backs_at(cache));
        Some(CurvePoint {
            cache,
            misses,
            write_backs,
            prefetches: Some(misses * prefetches),
            error: None,
        })
    };
    sizes.into_iter().filter_map(point).collect()
}
