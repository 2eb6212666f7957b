//! From figures to a profile, by the formulas of the specification (8.3).
//!
//! ```text
//!   misses │╲                 mpki(c) = MPKI + (APKI − MPKI) × f(c)      below C = 20 MiB, MPKI from there on
//!          │ ╲__              f(c) = (exp(−c/s) − exp(−C/s)) ÷ (1 − exp(−C/s))
//!          │    ╲______
//!          └──────────┴──► c
//!                     C
//! ```
//!
//! A program that was traced has the curve of its trace instead. Beside each miss so many bytes are moved;
//! what is beyond its own line is split between prefetches and write-backs.

use base::{Bytes, Nanos};
use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};
use program::{Class, Profile};

use super::figures::{Draw, Figures, Misses};
use host_sim::copy_scaling::{CACHE_MIB, CLOCK, MEMORY_CYCLES, mpki_with_cache};

/// The last-level cache of the machine that the table's figures come from; guessed (spec 8.1). Cycles per
/// instruction, class and bandwidth of every profile here are with this one.
pub(super) const CACHE: Bytes = Bytes(20 << 20);
/// Points of a curve below [`CACHE`]: two for each doubling, down to 20 KiB.
const N_POINTS: i32 = 20;
/// A core's own caches that accesses were counted behind: the second-level cache of server cores until 2017.
const PRIVATE: Bytes = Bytes(256 << 10);
/// Bytes of a line.
const LINE: f64 = 64.0;

/// The profile of these figures, so many times as long.
pub(super) fn profile(name: &str, figures: &Figures, draw: Draw, factor: f64) -> Profile {
    let curve = curve(figures);
    let moved = |point: &CurvePoint| {
        point.misses + point.write_backs.unwrap_or(0.0) + point.prefetches.unwrap_or(0.0)
    };
    // The curve's figures at the cache that everything else is told for.
    let at = |of: fn(&MissRatioCurve, Bytes) -> Option<f64>| of(&curve, CACHE);
    let here = CurvePoint {
        cache: CACHE,
        misses: at(MissRatioCurve::misses_at).unwrap_or(0.0),
        write_backs: at(MissRatioCurve::write_backs_at),
        prefetches: at(MissRatioCurve::prefetches_at),
        error: None,
    };
    let lines_per_s = CLOCK / figures.cycles * moved(&here) / 1000.0;
    let accesses = accesses(figures, &curve);
    let speed = if figures.is_counted { ValueSource::Counters } else { ValueSource::Declared };
    let instructions = figures.instructions * factor;
    Profile {
        name: name.to_owned(),
        build_id: None,
        made_by: match draw {
            Draw::Middle => "shipped: benchmarks.csv, and the middle of each range of profiles.csv",
            Draw::Seed(_) => "shipped: benchmarks.csv, and a draw from the ranges of profiles.csv",
        }
        .to_owned(),
        command: Vec::new(),
        class: Some((Class::of_rate(lines_per_s / 1000.0), ValueSource::Estimated)),
        class_cache: Some(CACHE),
        cpu_time: Some(Nanos((instructions * figures.cycles / CLOCK * 1e9) as u64)),
        covered: None,
        phases: vec![Phase {
            share: ProfileValue::default(),
            instructions: ProfileValue::new(libm::round(instructions), ValueSource::Estimated),
            cycles_per_instruction: ProfileValue::new(figures.cycles, speed),
            core_cycles_per_instruction: ProfileValue::new(
                core_cycles(figures, &curve),
                ValueSource::Estimated,
            ),
            overlap: ProfileValue::new(figures.overlap, ValueSource::Estimated),
            footprint_bytes: ProfileValue::new(figures.footprint, ValueSource::Declared),
            llc_accesses: ProfileValue::new(accesses, speed),
            l1_misses: ProfileValue::new(accesses * figures.l1_per_access, ValueSource::Declared),
            private_cache: Some(PRIVATE),
            bandwidth: ProfileValue::new(lines_per_s * LINE, ValueSource::Estimated),
            curve,
            ..Phase::default()
        }],
    }
}

/// What is left for the core at the least: four instructions a cycle are the most that it does. Spec 8.3 has
/// 0.05, with which the hog would do twenty where its buffer fits the cache.
const CORE_CYCLES_MIN: f64 = 0.25;

/// Cycles per instruction that do not wait for memory: what other machines with cores like these keep (spec
/// 8.3). Hits in the last-level cache are left in them.
fn core_cycles(figures: &Figures, curve: &MissRatioCurve) -> f64 {
    let misses = curve.misses_at(CACHE).unwrap_or(0.0);
    (figures.cycles - misses * MEMORY_CYCLES / 1000.0 / figures.overlap).max(CORE_CYCLES_MIN)
}

/// What passes a core's own caches, per 1000 instructions.
fn accesses(figures: &Figures, curve: &MissRatioCurve) -> f64 {
    match &figures.misses {
        Misses::Falling { apki, .. } | Misses::All { apki, .. } => *apki,
        Misses::Traced(_) => curve.misses_at(PRIVATE).unwrap_or(0.0),
    }
}

fn curve(figures: &Figures) -> MissRatioCurve {
    let more = (figures.bytes_per_miss / LINE - 1.0).max(0.0);
    let point = |cache: Bytes, misses: f64| CurvePoint {
        cache,
        misses,
        prefetches: Some(misses * more * figures.prefetched),
        write_backs: Some(misses * more * (1.0 - figures.prefetched)),
        error: None,
    };
    let (source, points) = match &figures.misses {
        Misses::Falling { apki, mpki, c_over_s } => {
            let at = |cache| {
                point(cache, mpki_with_cache(*apki, *mpki, mib(cache), CACHE_MIB / c_over_s))
            };
            (ValueSource::Estimated, grid().map(at).collect())
        }
        Misses::All { apki, ratio } => {
            let buffer = Bytes(figures.footprint as u64);
            let at = |cache| point(cache, if cache < buffer { apki * ratio } else { 0.0 });
            let sizes = [Bytes(16 << 10), Bytes(buffer.0.saturating_sub(1)), buffer];
            (ValueSource::Declared, sizes.map(at).to_vec())
        }
        // Its misses and write-backs were seen; prefetchers were not, and are taken as above.
        Misses::Traced(traced) => (ValueSource::Traced, average(traced, figures.prefetched * more)),
    };
    MissRatioCurve::new(source, points).unwrap_or_default()
}

fn mib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / 1048576.0
}

/// Sizes up to [`CACHE`], rising.
fn grid() -> impl Iterator<Item = Bytes> {
    (0..=N_POINTS).rev().map(|at| {
        let halves = libm::exp2(-f64::from(at) / 2.0);
        Bytes(libm::round(CACHE.0 as f64 * halves) as u64)
    })
}

/// The curve of a whole traced run, with so many prefetched lines for each miss.
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

/// A file of `workloads/data/traced` with its name.
macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        &[$((
            $name,
            include_str!(concat!("../../../../workloads/data/traced/", $name, ".profile.toml")),
        )),+]
    };
}

/// The traces that ship, by program.
const TRACED: &[(&str, &str)] =
    shipped!["bitcount", "dijkstra", "jpeg_c", "patricia", "tiff2bw", "tiff2rgba"];

/// What a program did when it was traced, if it was.
pub(super) fn traced(program: &str) -> Option<Profile> {
    let (name, text) = TRACED.iter().find(|(name, _)| *name == program)?;
    let path = std::path::Path::new("workloads/data/traced").join(name);
    let profile = program::profile::parse_profile(text, &path);
    Some(profile.unwrap_or_else(|error| panic!("a shipped trace: {error}")))
}
