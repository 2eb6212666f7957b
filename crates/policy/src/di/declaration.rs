//! Declarations of DI, DIO and DI-Migrate: parameters, reasons and source.

use sched::reasons;

use super::Di;
use crate::declaration::{Param, READING, Values, names};
use crate::memory_intensity::parameters::{
    self as common, BUSY, Common, DOMAINS, FAILURES, INTERVAL, MISSES_PER_INSTRUCTION,
};
use crate::memory_intensity::rates::Rate;
use crate::{IfMissing, Params, PolicyInfo, RequiredSignal, Signal, notes};

const SOURCE: &str = "S. Zhuravlev, S. Blagodurov, A. Fedorova, Addressing Shared Resource Contention in \
                      Multicore Processors via Scheduling, ASPLOS 2010; as released in their scheduler Clavis \
                      6.5.5";

pub(crate) const DI: PolicyInfo = PolicyInfo {
    name: "di",
    summary: "Assigns jobs to caches in turn by the miss rates of their profiles, highest first.",
    source: SOURCE,
    signals: &[RequiredSignal {
        signal: Signal::MissCurve,
        if_missing: IfMissing::Degrades(
            "a program without it counts as one at the limit of devils",
        ),
    }],
    params: &[READING, DOMAINS, INTERVAL, DEVIL, CROWDED, KEEP, BUSY],
    reasons: &[notes::REASONS, common::REASONS, REASONS],
    build: Some(|params, _seed| Ok(Box::new(Di::new(Config::new(params, Variant::Offline))))),
};

const ONLINE: &[Param] = &[READING, DOMAINS, INTERVAL, DEVIL, CROWDED, KEEP, BUSY, FAILURES];

pub(crate) const DIO: PolicyInfo = PolicyInfo {
    name: "dio",
    summary: "Assigns jobs to caches in turn by their counted miss rates, highest first.",
    source: SOURCE,
    signals: MISSES_PER_INSTRUCTION,
    params: ONLINE,
    reasons: &[notes::REASONS, common::REASONS, REASONS],
    build: Some(|params, _seed| Ok(Box::new(Di::new(Config::new(params, Variant::Online))))),
};

pub(crate) const DI_MIGRATE: PolicyInfo = PolicyInfo {
    name: "di-migrate",
    summary: "As dio; the pages of a job that changes its node migrate with it.",
    source: "the variant of DI with memory migration that DINO is compared with in S. Blagodurov, S. \
             Zhuravlev, M. Dashti, A. Fedorova, A Case for NUMA-aware Contention Management on Multicore \
             Systems, USENIX ATC 2011",
    build: Some(|params, _seed| Ok(Box::new(Di::new(Config::new(params, Variant::Migrate))))),
    ..DIO
};

const DEVIL: Param = Param::new(
    "devil",
    Values::whole("misses per 10000 instructions", 1, 10_000),
    "15", // [confirmed: Clavis, `DEVIL_HORIZON`]
    "a thread with more misses is a devil; a thread with unknown misses counts as one at this limit",
)
.published();

const CROWDED: Param = Param::new(
    "crowded",
    Crowded::VALUES,
    "layers",
    "with more threads than CPUs: threads share CPUs as evenly as possible, or threads without a free CPU \
     keep their placement",
)
.paper("leave");

const KEEP: Param = Param::new(
    "keep",
    Keep::VALUES,
    "cpu",
    "a thread that stays in its cache keeps its CPU, or gets the first free one like all others",
)
.paper("none");

reasons! {
    /// All jobs are assigned to caches at the end of an interval.
    ASSIGNED_BY_MISSES = "assigned-by-misses":
        "the job has rank {rank} of {n_jobs} by misses per 1000 instructions ({misses}, {basis}), and jobs are assigned to {n_domains} caches in turn, highest first: it gets {cpus} on {domain}[; some of its CPUs ({lost}) became unusable]";
    /// A job starts between two intervals.
    FEWEST_THREADS = "fewest-threads":
        "{domain} had the fewest threads when the job was placed, with rank {rank} of {n_jobs} by misses per 1000 instructions ({misses}, {basis}); {cpus} had the fewest there[; some of its CPUs ({lost}) became unusable]";
    /// Note: jobs without a miss curve.
    NO_MISS_CURVE = "no-miss-curve":
        "jobs without a profile of misses over cache sizes ({jobs}) count as programs with {devil} misses per 1000 instructions";
}

/// Source of miss rates, and page migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Rates from profiles.
    Offline,
    /// Counted rates.
    Online,
    /// Counted rates; pages migrate with jobs.
    Migrate,
}

names! {
    /// More threads than CPUs.
    enum Crowded {
        /// Threads share CPUs.
        Layers = "layers",
        /// Surplus threads keep their placement.
        Leave = "leave",
    }
}

names! {
    /// A thread that stays in its cache.
    enum Keep {
        /// It keeps its CPU.
        Cpu = "cpu",
        /// It gets the first free CPU.
        Nothing = "none",
    }
}

/// Configuration of DI and its variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub variant: Variant,
    pub common: Common,
    /// Above this rate a thread is a devil.
    pub devil: Rate,
    /// Whether threads share CPUs if there are more threads than CPUs.
    pub shares_cpus: bool,
    /// Whether a thread that stays in its cache keeps its CPU.
    pub keeps_cpu: bool,
    /// `None`: the rates are not counted.
    pub failures: Option<u64>,
}

impl Config {
    pub fn new(params: &Params<'_>, variant: Variant) -> Self {
        Config {
            variant,
            common: Common::new(params),
            devil: Rate::per_10_000(params.whole("devil")),
            shares_cpus: params.named::<Crowded>("crowded") == Crowded::Layers,
            keeps_cpu: params.named::<Keep>("keep") == Keep::Cpu,
            failures: (variant != Variant::Offline).then(|| params.whole("failures")),
        }
    }
}
