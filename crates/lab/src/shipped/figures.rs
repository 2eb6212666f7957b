//! The figures of a program in one draw: the table's where it has them, else from the ranges.
//!
//! A draw is a number; each figure of each program gets a place in its range from that number and its own name, so
//! that figures do not hang on the order in which they are asked for, and a range that is added changes
//! no other.

use base::Rng;
use host_sim::copy_scaling::{CLOCK, SoloCounters};
use program::Profile;

use super::formula;
use super::ranges::{self, range};
use super::table::counted;

/// Where in their ranges the figures of programs lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// In the middle of each.
    #[default]
    Middle,
    /// Anywhere in each, alike, by this seed.
    Seed(u64),
}

/// All that the formulas need of a program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    /// Instructions of a whole run.
    pub instructions: f64,
    /// Cycles per instruction alone, with 20 MiB of last-level cache.
    pub cycles: f64,
    /// Misses under way at a time.
    pub overlap: f64,
    /// Bytes between cache and memory for each miss.
    pub bytes_per_miss: f64,
    /// Of what is beyond a miss's own line, the part that prefetchers read; the rest is written back.
    pub prefetched: f64,
    /// Misses of the first cache for each access to the last.
    pub l1_per_access: f64,
    /// Bytes of memory.
    pub footprint: f64,
    /// What misses.
    pub misses: Misses,
    /// Whether the figures of its speed were counted, by whomever.
    pub is_counted: bool,
}

/// Where a program's misses are known from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Misses {
    /// A falling curve (spec 8.3).
    Falling {
        /// With no cache at all, per 1000 instructions.
        apki: f64,
        /// With 20 MiB.
        mpki: f64,
        /// How steep: 20 MiB ÷ s.
        c_over_s: f64,
    },
    /// A traced run.
    Traced(Box<Profile>),
    /// All of a buffer, as often as it is touched, in every cache that does not hold it (a hog).
    All {
        /// Accesses to the last-level cache per 1000 instructions.
        apki: f64,
        /// The part of them that misses.
        ratio: f64,
    },
}

/// The names of all programs: those of the table whose misses are known from somewhere.
pub(super) fn programs() -> Vec<String> {
    counted().keys().filter(|name| is_known(name)).cloned().collect()
}

fn is_known(program: &str) -> bool {
    let is_counted = counted().get(program).is_some_and(|known| known.apki.is_some());
    is_counted || formula::traced(program).is_some() || range(program, "llc_apki").is_some()
}

/// A program's whole name, from it or from it without its number.
pub(super) fn full_name(name: &str) -> Option<String> {
    let is_meant = |known: &&String| -> bool {
        known.as_str() == name
            || known.split_once('.').is_some_and(|(number, rest)| {
                rest == name && number.bytes().all(|byte| byte.is_ascii_digit())
            })
    };
    counted().keys().filter(|name| is_known(name)).find(is_meant).cloned()
}

/// The figures of a program that is known.
pub(super) fn drawn(program: &str, draw: Draw) -> Figures {
    let of = |quantity: &str| drawn_from(program, quantity, draw);
    let need = |quantity: &str| {
        of(quantity).unwrap_or_else(|| panic!("{program}: neither table nor range of {quantity}"))
    };
    let known = counted().get(program).copied().unwrap_or_default();
    let ipc = known.ipc.unwrap_or_else(|| need("ipc"));
    let misses = match formula::traced(program) {
        Some(profile) => Misses::Traced(Box::new(profile)),
        None if program == super::hog::NAME => {
            Misses::All { apki: need("llc_apki"), ratio: need("llc_miss_ratio") }
        }
        None => {
            let apki = known.apki.unwrap_or_else(|| need("llc_apki"));
            let mpki = known.mpki.unwrap_or_else(|| need("llc_miss_ratio") * apki);
            let c_over_s = known.c_over_s.unwrap_or_else(|| need("c_over_s"));
            Misses::Falling { apki, mpki, c_over_s }
        }
    };
    let alone = known.apki.zip(known.mpki).map(|(apki, mpki)| SoloCounters {
        ipc,
        mpki,
        apki,
        bandwidth: known.bandwidth.unwrap_or(0.0),
        stall_share: known.stall_share.unwrap_or(0.0),
    });
    let overlap = alone.filter(|_| known.stall_share.is_some()).map(|its| its.overlap());
    let bytes_per_miss =
        alone.filter(|_| known.bandwidth.is_some()).map(|its| its.bytes_per_miss());
    let seconds = known.runtime_s.or_else(|| of("runtime_s"));
    let instructions = seconds.map(|seconds| seconds * CLOCK * ipc);
    Figures {
        instructions: instructions.unwrap_or_else(|| need("giga_instructions") * 1e9),
        cycles: 1.0 / ipc,
        overlap: overlap.unwrap_or_else(|| need("overlap")),
        bytes_per_miss: bytes_per_miss.unwrap_or_else(|| need("bytes_per_miss")),
        prefetched: need("pf_share"),
        l1_per_access: need("l1_per_apki"),
        footprint: need("footprint_mib") * 1048576.0,
        is_counted: known.ipc.is_some(),
        misses,
    }
}

/// A place in a range; none where there is no range.
fn drawn_from(program: &str, quantity: &str, draw: Draw) -> Option<f64> {
    let ranges::Range { low, high, .. } = range(program, quantity)?;
    let place = match draw {
        Draw::Middle => 0.5,
        Draw::Seed(seed) => Rng::new(seed ^ name_hash(program, quantity)).unit(),
    };
    Some(low + place * (high - low))
}

/// A number for a name (FNV-1a, 64 bits): the same on every machine and version.
fn name_hash(program: &str, quantity: &str) -> u64 {
    let bytes = program.bytes().chain(*b"/").chain(quantity.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
