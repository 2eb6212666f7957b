//! The values of a program in one draw: a published value if it exists, otherwise a position in the range of the value.
//!
//! The position depends only on the seed of the draw, the program and the name of the value. It depends neither on the
//! order of the calls nor on ranges of other programs.

use base::Bytes;
use host_sim::copy_scaling::{CLOCK, CountersAlone, MEMORY_CYCLES};
use program::Profile;

use super::tables::{self, ProfileSet, Range, measured, range};

/// Name of the synthetic program whose accesses are uniformly distributed over a buffer larger than any cache.
pub(super) const HOG: &str = "memory-hog";

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
    /// 200 drawn ones.
    #[default]
    Middle,
    /// A uniformly distributed position in every range, from this seed.
    Seed(u64),
}

/// Last-level cache of the machine on which the published values were measured; guessed. Cycles per instruction, class
/// and bandwidth of every profile are values with this cache.
pub(super) const CACHE: Bytes = Bytes(20 << 20);
/// Cache of that machine, and half of it: the share next to one equal competitor.
pub(super) const PRINTED_CACHE: [Bytes; 2] = [Bytes(8 << 20), Bytes(4 << 20)];
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

/// Returns the values of a known program at these positions of its ranges, by the name of the value.
pub(super) fn at_positions(
    program: &str,
    set: ProfileSet,
    position: impl Fn(&str) -> f64,
) -> ProgramValues {
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
    let alone = known.apki.zip(known.mpki).map(|(apki, mpki)| CountersAlone {
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
