//! Program profiles: cache and memory use of a program, independent of the machine.
//!
//! If hardware counters are not available, the counters of a program are computed from its profile and its CPU time.
//! A profile must therefore be valid for every cache size. For this purpose it contains a miss-ratio curve:
//!
//! ```text
//!   misses per 1000 instructions
//!     20 ┤●──●─╮
//!        │     ╰●──●──╮                  misses in a cache of this size;
//!      5 ┤            ╰──●──●──●         steep while the cache is smaller than the working set
//!        └─┬──┬──┬──┬──┬──┬──┬──┬
//!         16K        1M        64M  bytes of cache
//! ```
//!
//! Every value has a source ([`ValueSource`]) and, if available, an error. An unknown value is absent, never zero. A
//! program has one or several phases. The share of a phase is its share of the program's instructions.
//!
//! Out of scope: other inputs of the program. A profile is valid for one command line.

mod find;
mod read;
mod write;

use base::{Bytes, LINE_BYTES, Nanos};

use crate::Class;

pub use find::{Fit, ProfileFile, SUFFIX, file_name, fit, load_name};
pub use read::parse_profile;

/// The profile of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Name of the program, which is the file name of the command.
    pub name: String,
    /// The build id of the program's ELF file in hexadecimal; absent for scripts and for files without a build id.
    pub build_id: Option<String>,
    /// Name and version of the tool that measured the profile.
    pub tool: String,
    /// The measured command line.
    pub command: Vec<String>,
    /// Memory class for a cache of the size [`Profile::class_cache`].
    pub class: Option<(Class, ValueSource)>,
    /// The cache size for which the class is valid.
    pub class_cache: Option<Bytes>,
    /// CPU time of the complete command, measured alone.
    pub cpu_time: Option<Nanos>,
    /// Share of the program's instructions that were measured, 0 to 1.
    pub covered: Option<ProfileValue>,
    /// Phases in order; at least one.
    pub phases: Vec<Phase>,
}

/// A part of a program with constant characteristics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Share of the program's instructions; all shares add up to 1.
    pub share: ProfileValue,
    /// Number of instructions in the phase.
    pub instructions: Option<ProfileValue>,
    /// Cycles per instruction as measured, including the stalls on misses.
    pub cycles_per_instruction: Option<ProfileValue>,
    /// Cycles per instruction without stalls on accesses beyond the private caches.
    pub core_cycles_per_instruction: Option<ProfileValue>,
    /// Memory-level parallelism: the average number of outstanding misses.
    pub overlap: Option<ProfileValue>,
    /// Total number of bytes that the phase touches.
    pub footprint_bytes: Option<ProfileValue>,
    /// Smallest cache size in bytes above which a larger cache removes few misses.
    pub working_set_bytes: Option<ProfileValue>,
    /// Number of busy threads.
    pub threads: Option<ProfileValue>,
    /// Accesses to the last-level cache per 1000 instructions.
    pub llc_accesses: Option<ProfileValue>,
    /// Data misses of the first-level cache per 1000 instructions.
    pub l1_misses: Option<ProfileValue>,
    /// Number of instructions of a thread between two sleeps; absent if the thread does not sleep.
    pub burst_instructions: Option<ProfileValue>,
    /// Duration of each sleep in nanoseconds.
    pub sleep_ns: Option<ProfileValue>,
    /// Share of the data of each thread that all threads of the program have in common, 0 to 1.
    pub shared_footprint: Option<ProfileValue>,
    /// Size of the private caches for which [`Phase::llc_accesses`] was measured.
    pub private_cache: Option<Bytes>,
    /// Memory traffic in bytes per second of CPU time, for a cache of the size [`Profile::class_cache`].
    pub bandwidth: Option<ProfileValue>,
    /// Misses and write-backs by cache size.
    pub curve: MissRatioCurve,
}

impl Phase {
    /// Returns the optional values with their keys in profile files.
    fn values_mut(&mut self) -> [(&'static str, &mut Option<ProfileValue>); 12] {
        [
            ("instructions", &mut self.instructions),
            ("cycles_per_instruction", &mut self.cycles_per_instruction),
            ("core_cycles_per_instruction", &mut self.core_cycles_per_instruction),
            ("overlap", &mut self.overlap),
            ("footprint_bytes", &mut self.footprint_bytes),
            ("working_set_bytes", &mut self.working_set_bytes),
            ("threads", &mut self.threads),
            ("llc_accesses_per_1000", &mut self.llc_accesses),
            ("l1_misses_per_1000", &mut self.l1_misses),
            ("burst_instructions", &mut self.burst_instructions),
            ("sleep_ns", &mut self.sleep_ns),
            ("bandwidth_bytes_per_s", &mut self.bandwidth),
        ]
    }
}

/// A value with its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfileValue {
    value: f64,
    /// Source of the value.
    pub source: ValueSource,
    error: Option<f64>,
}

/// Equality is reflexive because the value is finite.
impl Eq for ProfileValue {}

impl Default for ProfileValue {
    fn default() -> Self {
        ProfileValue { value: 1.0, source: ValueSource::Declared, error: None }
    }
}

/// The source of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueSource {
    /// Hardware counters.
    Counters,
    /// A trace of the program's memory references.
    Traced,
    /// Declared by the user.
    #[default]
    Declared,
    /// Computed from other values, of which some are assumed.
    Estimated,
}

impl ProfileValue {
    /// Returns a value; `None` if the number is negative or not finite.
    pub fn new(value: f64, source: ValueSource) -> Option<Self> {
        (value.is_finite() && 0.0 <= value).then_some(ProfileValue { value, source, error: None })
    }

    /// Returns this value with an error, which is half the width of its 95 % confidence interval in the unit of the
    /// value. An error that is negative or not finite is ignored.
    pub fn with_error(self, error: Option<f64>) -> Self {
        ProfileValue { error: error.filter(|error| error.is_finite() && 0.0 <= *error), ..self }
    }

    /// Returns the number, which is finite and not negative.
    pub fn value(self) -> f64 {
        self.value
    }

    /// Returns half the width of the 95 % confidence interval, see [`ProfileValue::with_error`].
    pub fn error(self) -> Option<f64> {
        self.error
    }
}

impl ValueSource {
    /// All sources, from the most to the least reliable.
    pub const ALL: [ValueSource; 4] =
        [ValueSource::Counters, ValueSource::Traced, ValueSource::Declared, ValueSource::Estimated];

    /// Returns the name of the source in files and output.
    pub fn word(self) -> &'static str {
        match self {
            ValueSource::Counters => "counters",
            ValueSource::Traced => "traced",
            ValueSource::Declared => "declared",
            ValueSource::Estimated => "estimated",
        }
    }
}

/// Misses and write-backs per 1000 instructions by cache size (a miss-ratio curve).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MissRatioCurve {
    /// The common source of all values.
    pub source: ValueSource,
    points: Vec<CurvePoint>,
}

/// Equality is reflexive because the values are finite.
impl Eq for MissRatioCurve {}

/// The values for one cache size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CurvePoint {
    /// The cache size.
    pub cache: Bytes,
    /// Misses per 1000 instructions.
    pub misses: f64,
    /// Write-backs per 1000 instructions; absent if unknown.
    pub write_backs: Option<f64>,
    /// Lines read by prefetchers per 1000 instructions, which are not included in the misses; absent if unknown.
    pub prefetches: Option<f64>,
    /// The error of the misses, see [`ProfileValue::with_error`].
    pub error: Option<f64>,
}

impl MissRatioCurve {
    /// Returns a curve; `None` if the sizes do not increase, or if a value is negative or not finite.
    pub fn new(source: ValueSource, points: Vec<CurvePoint>) -> Option<Self> {
        let is_valid = |number: f64| number.is_finite() && 0.0 <= number;
        let all_valid = points.iter().all(|point| {
            [Some(point.misses), point.write_backs, point.prefetches, point.error]
                .into_iter()
                .flatten()
                .all(is_valid)
        });
        let is_increasing = points.windows(2).all(|pair| pair[0].cache < pair[1].cache);
        (all_valid && is_increasing).then_some(MissRatioCurve { source, points })
    }

    /// Returns the points by increasing cache size.
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// Returns the misses per 1000 instructions in a cache of this size; `None` for an empty curve.
    ///
    /// Between two points, the value is linear in the logarithm of the size. Outside the points, it is constant.
    pub fn misses_at(&self, cache: Bytes) -> Option<f64> {
        self.at(cache, |point| Some(point.misses))
    }

    /// Returns the write-backs per 1000 instructions; see [`MissRatioCurve::misses_at`].
    pub fn write_backs_at(&self, cache: Bytes) -> Option<f64> {
        self.at(cache, |point| point.write_backs)
    }

    /// Returns the lines that prefetchers read per 1000 instructions; see [`MissRatioCurve::misses_at`].
    pub fn prefetches_at(&self, cache: Bytes) -> Option<f64> {
        self.at(cache, |point| point.prefetches)
    }

    fn at(&self, cache: Bytes, value_of: impl Fn(&CurvePoint) -> Option<f64>) -> Option<f64> {
        let above = self.points.partition_point(|point| point.cache < cache);
        match (above.checked_sub(1).and_then(|idx| self.points.get(idx)), self.points.get(above)) {
            (None, Some(only)) | (Some(only), None) => value_of(only),
            (None, None) => None,
            (Some(low), Some(high)) => {
                let log = |size: Bytes| libm::log2(size.0.max(1) as f64);
                let position = (log(cache) - log(low.cache)) / (log(high.cache) - log(low.cache));
                Some(value_of(low)? + position * (value_of(high)? - value_of(low)?))
            }
        }
    }
}

/// Events per second of CPU time. A value that the profile does not contain is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProfileRates {
    /// Processor cycles.
    pub cycles: f64,
    /// Instructions.
    pub instructions: Option<f64>,
    /// Accesses to the last-level cache.
    pub llc_references: Option<f64>,
    /// Misses of the last-level cache.
    pub llc_misses: Option<f64>,
    /// Write-backs of the last-level cache.
    pub write_backs: Option<f64>,
}

impl ProfileRates {
    /// Returns memory controller operations: the sum of misses and write-backs.
    pub fn controller_ops(&self) -> Option<f64> {
        self.llc_misses.map(|misses| misses + self.write_backs.unwrap_or(0.0))
    }

    /// Returns the memory traffic in bytes.
    pub fn bandwidth(&self) -> Option<f64> {
        self.controller_ops().map(|lines| lines * LINE_BYTES as f64)
    }
}

impl Profile {
    /// Returns the rates for `cache` bytes of last-level cache and a frequency in cycles per second, averaged over
    /// the phases.
    ///
    /// The measured cycles per instruction are used for every cache size; models may correct them. Without measured
    /// cycles per instruction, only the cycles are available.
    pub fn rates_per_cpu_second(&self, cache: Bytes, frequency: f64) -> ProfileRates {
        let cpi = self.average(|phase| Some(phase.cycles_per_instruction?.value()));
        let instructions =
            cpi.filter(|cpi| 0.0 < *cpi).map(|cpi| frequency / cpi).filter(|rate| rate.is_finite());
        let per_second = |rate: Option<f64>| Some(rate? / 1000.0 * instructions?);
        ProfileRates {
            cycles: frequency,
            instructions,
            llc_references: per_second(self.average(|p| Some(p.llc_accesses?.value()))),
            llc_misses: per_second(self.average(|phase| phase.curve.misses_at(cache))),
            write_backs: per_second(self.average(|phase| phase.curve.write_backs_at(cache))),
        }
    }

    /// Returns the frequency at which the profile was measured, in cycles per second: cycles divided by CPU time.
    /// Absent if either value is unknown.
    pub fn frequency(&self) -> Option<f64> {
        let cycles = |phase: &Phase| {
            Some(phase.instructions?.value() * phase.cycles_per_instruction?.value())
        };
        let seconds = self.cpu_time?.as_secs_f64();
        let all: f64 = self.phases.iter().map(cycles).sum::<Option<f64>>()?;
        (0.0 < seconds && 0.0 < all).then(|| all / seconds).filter(|hertz| hertz.is_finite())
    }

    /// Returns the share of accesses to a last-level cache of this size that miss, over the whole run; absent if misses or
    /// accesses are unknown, or if there are no accesses.
    pub fn llc_miss_ratio(&self, cache: Bytes) -> Option<f64> {
        let misses = self.average(|phase| phase.curve.misses_at(cache))?;
        let accesses = self.average(|phase| Some(phase.llc_accesses?.value()))?;
        (0.0 < accesses).then(|| (misses / accesses).min(1.0))
    }

    /// Returns the average over all instructions; absent if a phase does not have the value.
    pub fn average(&self, value_of: impl Fn(&Phase) -> Option<f64>) -> Option<f64> {
        let mut sum = 0.0;
        let mut share = 0.0;
        for phase in &self.phases {
            sum += value_of(phase)? * phase.share.value();
            share += phase.share.value();
        }
        (0.0 < share).then(|| sum / share)
    }
}

#[cfg(test)]
mod tests;
