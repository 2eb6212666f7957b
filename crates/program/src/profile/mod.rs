//! A program's measured character: what it asks of caches and memory, wherever it runs.
//!
//! Where no counter can be read, a program's counters are its profile × its CPU time. So a profile must
//! serve machines of every cache size, and tells misses as a curve:
//!
//! ```text
//!   misses per 1000 instructions
//!     20 ┤●──●─╮
//!        │     ╰●──●──╮                  a cache of this size would miss so often;
//!      5 ┤            ╰──●──●──●         below what fits the working set it is steep
//!        └─┬──┬──┬──┬──┬──┬──┬──┬
//!         16K        1M        64M  bytes of cache
//! ```
//!
//! Every figure says where it comes from ([`Source`]) and, where that is known, how far it may be off.
//! A figure that nobody knows is absent, never zero. One program has one or several phases; shares are
//! parts of its instructions.
//!
//! Left out: how the program changes with its input (a profile is of one command), and what prefetchers
//! add to its traffic.

mod find;
mod rates;
mod read;
mod write;

use base::{Bytes, Nanos};

use crate::Class;

pub use find::{Fit, ProfileFile, SUFFIX, file_name, fit, load_name};
pub use rates::Rates;
pub use read::parse_profile;

/// What is known of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The program's name: the last part of what was started.
    pub name: String,
    /// The build id of its ELF file, hexadecimal; absent for scripts and files without one.
    pub build_id: Option<String>,
    /// What measured it, in words.
    pub made_by: String,
    /// The command that was measured.
    pub command: Vec<String>,
    /// Its class for policies that want one, at [`Profile::class_cache`].
    pub class: Option<(Class, Source)>,
    /// The cache size that the class was taken at.
    pub class_cache: Option<Bytes>,
    /// CPU time of the whole command when it ran by itself.
    pub cpu_time: Option<Nanos>,
    /// The share of its instructions that was measured, 0 to 1.
    pub covered: Option<Figure>,
    /// What it does, in order; at least one.
    pub phases: Vec<Phase>,
}

/// A stretch in which a program keeps its character.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Its part of the program's instructions; all parts add up to 1.
    pub share: Figure,
    /// Instructions in it.
    pub instructions: Option<Figure>,
    /// Processor cycles per instruction as it ran, misses included.
    pub cycles_per_instruction: Option<Figure>,
    /// The part of them that does not wait for anything beyond the core's own caches.
    pub core_cycles_per_instruction: Option<Figure>,
    /// How many misses are under way at a time, on average.
    pub overlap: Option<Figure>,
    /// Bytes that it touches in all.
    pub footprint_bytes: Option<Figure>,
    /// Bytes of cache from which on more cache hardly helps.
    pub working_set_bytes: Option<Figure>,
    /// Threads that it keeps busy.
    pub threads: Option<Figure>,
    /// What passes a core's own caches, per 1000 instructions: the last-level cache's accesses.
    pub llc_accesses: Option<Figure>,
    /// Data accesses that the core's first cache could not serve, per 1000 instructions.
    pub l1_misses: Option<Figure>,
    /// Instructions of a thread between two sleeps; absent: it never sleeps.
    pub burst_instructions: Option<Figure>,
    /// Nanoseconds that each of those sleeps lasts.
    pub sleep_ns: Option<Figure>,
    /// The size of the core's own caches that [`Phase::llc_accesses`] was taken behind.
    pub private_cache: Option<Bytes>,
    /// Bytes between cache and memory for each second of CPU time, at [`Profile::class_cache`].
    pub bandwidth: Option<Figure>,
    /// Misses and write-backs by cache size.
    pub curve: Curve,
}

/// A number with where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    value: f64,
    /// Where it comes from.
    pub source: Source,
    error: Option<f64>,
}

/// Finite by construction, so every figure equals itself.
impl Eq for Figure {}

impl Default for Figure {
    fn default() -> Self {
        Figure { value: 1.0, source: Source::Declared, error: None }
    }
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The processor counted it.
    Counters,
    /// Seen in a trace of the program's memory references.
    Traced,
    /// Somebody wrote it down.
    #[default]
    Declared,
    /// Reckoned from other figures, some of them assumed.
    Estimated,
}

impl Figure {
    /// A number; `None` unless it is finite and not negative.
    pub fn new(value: f64, source: Source) -> Option<Self> {
        (value.is_finite() && 0.0 <= value).then_some(Figure { value, source, error: None })
    }

    /// The same with its error: half the width of the range that holds the true value in 19 of 20
    /// cases, in the figure's own unit. An error that is no number is left out.
    pub fn with_error(self, error: Option<f64>) -> Self {
        Figure { error: error.filter(|error| error.is_finite() && 0.0 <= *error), ..self }
    }

    /// The number; finite, not negative.
    pub fn value(self) -> f64 {
        self.value
    }

    /// How far it may be off, see [`Figure::with_error`].
    pub fn error(self) -> Option<f64> {
        self.error
    }
}

impl Source {
    /// All of them, the surest first.
    pub const ALL: [Source; 4] =
        [Source::Counters, Source::Traced, Source::Declared, Source::Estimated];

    /// Its word in files and for people.
    pub fn word(self) -> &'static str {
        match self {
            Source::Counters => "counters",
            Source::Traced => "traced",
            Source::Declared => "declared",
            Source::Estimated => "estimated",
        }
    }
}

/// Misses and write-backs per 1000 instructions over cache sizes, sizes rising.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Where all of it comes from.
    pub source: Source,
    points: Vec<Point>,
}

/// Finite by construction, so every curve equals itself.
impl Eq for Curve {}

/// What a cache of one size would do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// The cache's size.
    pub cache: Bytes,
    /// Misses per 1000 instructions.
    pub misses: f64,
    /// Changed lines written to memory per 1000 instructions; absent if nobody knows.
    pub write_backs: Option<f64>,
    /// Lines that prefetchers read from memory per 1000 instructions, not among the misses; absent if
    /// nobody knows.
    pub prefetches: Option<f64>,
    /// How far the misses may be off, as in [`Figure::with_error`].
    pub error: Option<f64>,
}

impl Curve {
    /// A curve; `None` unless sizes rise and every number is finite and not negative.
    pub fn new(source: Source, points: Vec<Point>) -> Option<Self> {
        let fine = |number: f64| number.is_finite() && 0.0 <= number;
        let all_fine = points.iter().all(|point| {
            [Some(point.misses), point.write_backs, point.prefetches, point.error]
                .into_iter()
                .flatten()
                .all(fine)
        });
        let rises = points.windows(2).all(|pair| pair[0].cache < pair[1].cache);
        (all_fine && rises).then_some(Curve { source, points })
    }

    /// Its points, sizes rising.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Misses per 1000 instructions in a cache of this size; `None` without any point.
    ///
    /// Between two points it goes straight over the logarithm of the size, as they are spaced; beyond
    /// the ends it stays as there.
    pub fn misses_at(&self, cache: Bytes) -> Option<f64> {
        self.at(cache, |point| Some(point.misses))
    }

    /// Write-backs per 1000 instructions from a cache of this size, as [`Curve::misses_at`].
    pub fn write_backs_at(&self, cache: Bytes) -> Option<f64> {
        self.at(cache, |point| point.write_backs)
    }

    /// Lines that prefetchers read per 1000 instructions, as [`Curve::misses_at`].
    pub fn prefetches_at(&self, cache: Bytes) -> Option<f64> {
        self.at(cache, |point| point.prefetches)
    }

    fn at(&self, cache: Bytes, figure: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
        let above = self.points.partition_point(|point| point.cache < cache);
        match (above.checked_sub(1).and_then(|idx| self.points.get(idx)), self.points.get(above)) {
            (None, Some(only)) | (Some(only), None) => figure(only),
            (None, None) => None,
            (Some(low), Some(high)) => {
                let log = |size: Bytes| libm::log2(size.0.max(1) as f64);
                let way = (log(cache) - log(low.cache)) / (log(high.cache) - log(low.cache));
                Some(figure(low)? + way * (figure(high)? - figure(low)?))
            }
        }
    }
}

impl Class {
    /// The class of so many memory controller operations per millisecond of CPU time (spec 1.1).
    pub fn of_rate(ops_per_ms: f64) -> Class {
        let whole = ops_per_ms.clamp(0.0, 1e9) as u64;
        let number = (1 + whole).ilog2().min(u32::from(Class::MAX));
        Class::new(number as u8).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
