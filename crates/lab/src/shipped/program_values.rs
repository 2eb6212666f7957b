//! The values of a program in one draw: a published value if it exists, otherwise a position in the range of the value.
//!
//! The position depends only on the seed of the draw, the program and the name of the value. It depends neither on the
//! order of the calls nor on ranges of other programs.
//!
//! The ranges of a program are drawn jointly: a draw in which the stalls of the misses take more cycles than the program
//! has is repeated. Speed, misses and memory-level parallelism are independent ranges, but not every combination exists.
//!
//! The set `printed` replaces values of eight programs by what the paper on divided scheduling prints of these programs
//! alone on its machine. A draw that contradicts a printed value is repeated, too.

use std::sync::LazyLock;

use base::{Bytes, Rng};
use host_sim::copy_scaling::{CLOCK, MEMORY_CYCLES, SoloCounters};
use host_sim::hardware::Hardware;
use program::Profile;

use super::build_profile::build_profile;
use super::tables::{self, Range, measured, printed, range};

/// Name of the synthetic program whose accesses are uniformly distributed over a buffer larger than any cache.
pub(super) const HOG: &str = "memory-hog";

/// Sources of the values of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileSet {
    /// Counter tables, traces, and ranges with a reason.
    #[default]
    Table,
    /// As `Table`, with the values that the paper on divided scheduling prints of a program alone on `xeon-2x4`. The set is
    /// valid on this machine only.
    Printed,
}

impl ProfileSet {
    /// Returns the name of the set.
    pub fn name(self) -> &'static str {
        match self {
            ProfileSet::Table => "table",
            ProfileSet::Printed => "printed",
        }
    }
}

/// Source of the values of all programs, and the position of the values in their ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileDraw {
    /// Source of the values.
    pub set: ProfileSet,
    /// Position of all values in their ranges.
    pub position: DrawPosition,
}

impl ProfileDraw {
    /// The middle of every range of the set `table`.
    pub const MIDDLE: ProfileDraw =
        ProfileDraw { set: ProfileSet::Table, position: DrawPosition::Middle };

    /// Returns a draw from the ranges of the set `table`.
    pub const fn seed(seed: u64) -> Self {
        ProfileDraw { set: ProfileSet::Table, position: DrawPosition::Seed(seed) }
    }
}

/// Position of all values in their ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DrawPosition {
    /// The middle of every range. If this combination does not exist, the nearest one with a lower speed, fewer misses and
    /// a higher parallelism. Of a program with printed values: the combination closest to the middle, of
    /// [`N_MIDDLE_CANDIDATES`] drawn ones.
    #[default]
    Middle,
    /// A uniformly distributed position in every range, from this seed.
    Seed(u64),
}

/// Last-level cache of the machine on which the published values were measured; guessed. Cycles per instruction, class
/// and bandwidth of every profile are values with this cache.
pub(super) const CACHE: Bytes = Bytes(20 << 20);
/// Step in which the middle moves until the combination exists, as a share of the ranges.
const MIDDLE_STEP: f64 = 0.01;
/// Number of combinations of which the one closest to the middle is used, if printed values exclude the middle.
const N_MIDDLE_CANDIDATES: u64 = 200;
/// The machine of the printed values.
static PRINTED_MACHINE: LazyLock<Hardware> =
    LazyLock::new(|| Hardware::new(&super::machine("xeon-2x4").expect("it ships")));
/// Cache of that machine, and half of it: the share next to one equal competitor.
pub(super) const PRINTED_CACHE: [Bytes; 2] = [Bytes(8 << 20), Bytes(4 << 20)];
/// Maximum number of repetitions of a draw. The least likely program needs four on average.
const N_ATTEMPTS: u64 = 1000;
/// Minimum cycles per instruction: a core retires at most four instructions per cycle. With a smaller minimum, the hog
/// would retire up to twenty instructions per cycle while its buffer fits into the cache.
pub(super) const CORE_CYCLES_MIN: f64 = 0.25;

/// The values of a program from which a profile is built.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProgramValues {
    /// Instructions of a run.
    pub instructions: f64,
    /// Cycles per instruction alone, with 20 MiB of last-level cache.
    pub cycles: f64,
    /// Memory-level parallelism: outstanding misses at a time.
    pub overlap: f64,
    /// The memory-level parallelism that follows from published stalls, if it is outside the possible range.
    pub overlap_before_clamp: Option<f64>,
    /// Bytes between cache and memory for each miss.
    pub bytes_per_miss: f64,
    /// Share of prefetches in the traffic beyond the missed lines. The other traffic is write-backs.
    pub prefetched: f64,
    /// First-level misses per access to the last-level cache.
    pub l1_per_access: f64,
    /// Bytes of memory.
    pub footprint: f64,
    /// Misses by cache size.
    pub misses: MissSource,
    /// Hits per access with each size of [`PRINTED_CACHE`], if they are printed.
    pub printed_hits: Option<[f64; 2]>,
    /// Whether instructions per cycle are a published counter value.
    pub is_measured: bool,
}

/// Source of a program's misses by cache size.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MissSource {
    /// An exponential curve ([`mod@super::build_profile`]).
    Falling {
        /// Misses per 1000 instructions without a cache.
        apki: f64,
        /// Misses per 1000 instructions with 20 MiB.
        mpki: f64,
        /// 20 MiB divided by the decay length s of the curve, see [`mod@super::build_profile`].
        c_over_s: f64,
    },
    /// A traced run.
    Traced(Box<Profile>),
    /// A constant ratio in every cache that is smaller than the buffer.
    All {
        /// Accesses to the last-level cache per 1000 instructions.
        apki: f64,
        /// Misses per access.
        ratio: f64,
    },
}

/// Returns the names of all programs with a known source of misses.
pub(super) fn programs() -> Vec<String> {
    measured().keys().filter(|name| is_known(name)).cloned().collect()
}

fn is_known(program: &str) -> bool {
    let is_measured = measured().get(program).is_some_and(|known| known.apki.is_some());
    is_measured
        || tables::traced(program).is_some()
        || range(program, "llc_apki", ProfileSet::Table).is_some()
}

/// Returns the full name of a program. The number of a SPEC program may be omitted.
pub(super) fn full_name(name: &str) -> Option<String> {
    let is_equal = |known: &&String| -> bool {
        known.as_str() == name
            || known.split_once('.').is_some_and(|(number, rest)| {
                rest == name && number.bytes().all(|byte| byte.is_ascii_digit())
            })
    };
    measured().keys().filter(|name| is_known(name)).find(is_equal).cloned()
}

impl ProgramValues {
    /// Returns whether a program with these values has the printed values of its program alone.
    fn agrees_with_print(&self, program: &str, draw: ProfileDraw) -> bool {
        if draw.set == ProfileSet::Table {
            return true;
        }
        let profile = build_profile(program, self, draw, 1.0);
        let Ok(alone) = super::alone(&profile, &PRINTED_MACHINE) else { return false };
        let is_within = |quantity: &str, value: f64| {
            printed(program, quantity).is_none_or(|range| (range.low..=range.high).contains(&value))
        };
        let misses = |cache| profile.average(|phase| phase.curve.misses_at(cache)).unwrap_or(0.0);
        let [whole, half] = PRINTED_CACHE.map(misses);
        is_within("bandwidth_mb_s", alone.bandwidth / 1e6)
            && is_within("misses_half_cache", half / whole)
    }

    /// Returns the cycles per instruction that are not stalls on memory, on the machine of the published values.
    pub fn core_cycles(&self) -> f64 {
        let mpki = match &self.misses {
            MissSource::Falling { mpki, .. } => *mpki,
            MissSource::All { apki, ratio } => apki * ratio,
            MissSource::Traced(profile) => {
                profile.average(|phase| phase.curve.misses_at(CACHE)).unwrap_or(0.0)
            }
        };
        self.cycles - mpki * MEMORY_CYCLES / 1000.0 / self.overlap
    }
}

/// Returns the values of a known program.
pub(super) fn drawn(program: &str, draw: ProfileDraw) -> ProgramValues {
    let has_print = draw.set == ProfileSet::Printed && tables::has_print(program);
    let set = if has_print { ProfileSet::Printed } else { ProfileSet::Table };
    let is_possible = |values: &ProgramValues| {
        CORE_CYCLES_MIN <= values.core_cycles()
            && values.agrees_with_print(program, ProfileDraw { set, ..draw })
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

/// Returns the values of a known program at these positions of its ranges, by the name of the value.
fn at_positions(program: &str, set: ProfileSet, position: impl Fn(&str) -> f64) -> ProgramValues {
    let value_of = |quantity: &str| {
        let Range { low, high, .. } = range(program, quantity, set)?;
        Some(low + position(quantity) * (high - low))
    };
    let need = |quantity: &str| {
        value_of(quantity)
            .unwrap_or_else(|| panic!("{program}: neither table nor range of {quantity}"))
    };
    let known = measured().get(program).copied().unwrap_or_default();
    let ipc = known.ipc.unwrap_or_else(|| need("ipc"));
    let misses = match tables::traced(program) {
        Some(profile) => MissSource::Traced(Box::new(profile)),
        None if program == HOG => {
            MissSource::All { apki: need("llc_apki"), ratio: need("llc_miss_ratio") }
        }
        None => {
            let apki = known.apki.unwrap_or_else(|| need("llc_apki"));
            let mpki = known.mpki.unwrap_or_else(|| need("llc_miss_ratio") * apki);
            let c_over_s =
                value_of("c_over_s").or(known.c_over_s).unwrap_or_else(|| need("c_over_s"));
            MissSource::Falling { apki, mpki, c_over_s }
        }
    };
    let alone = known.apki.zip(known.mpki).map(|(apki, mpki)| SoloCounters {
        ipc,
        mpki,
        apki,
        bandwidth: known.bandwidth.unwrap_or(0.0),
        stall_share: known.stall_share.unwrap_or(0.0),
    });
    let counted = alone.filter(|_| known.stall_share.is_some());
    let (overlap, unclamped) =
        (counted.map(|alone| alone.overlap()), counted.map(|alone| alone.overlap_before_clamp()));
    let bytes_per_miss =
        alone.filter(|_| known.bandwidth.is_some()).map(|alone| alone.bytes_per_miss());
    let seconds = known.runtime_s.or_else(|| value_of("runtime_s"));
    let instructions = seconds.map(|seconds| seconds * CLOCK * ipc);
    ProgramValues {
        instructions: instructions.unwrap_or_else(|| need("giga_instructions") * 1e9),
        cycles: 1.0 / ipc,
        overlap: overlap.unwrap_or_else(|| need("overlap")),
        overlap_before_clamp: unclamped.filter(|unclamped| Some(*unclamped) != overlap),
        bytes_per_miss: bytes_per_miss.unwrap_or_else(|| need("bytes_per_miss")),
        prefetched: need("pf_share"),
        l1_per_access: need("l1_per_apki"),
        footprint: need("footprint_mib") * 1048576.0,
        is_measured: known.ipc.is_some(),
        printed_hits: value_of("hits_8mib").zip(value_of("hits_4mib")).map(<[f64; 2]>::from),
        misses,
    }
}

/// Returns the hash of the name of a value (FNV-1a, 64 bits), equal on every machine and in every version.
fn name_hash(program: &str, quantity: &str) -> u64 {
    let bytes = program.bytes().chain(*b"/").chain(quantity.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
