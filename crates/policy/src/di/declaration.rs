//! Declarations of DI, DIO and DI-Migrate: parameters, reasons and source.

use sched::reasons;

use super::{Di, DiVariant};
use crate::declaration::{Values, names, params};
use crate::memory_intensity::parameters::{
    self as common, COMMON_PARAMS, FAILURES, FIRST_PARAMS, MISSES_PER_INSTRUCTION,
};
use crate::memory_intensity::rates::Rate;
use crate::{IfMissing, PolicyInfo, RequiredSignal, Signal, notes};

const SOURCE: &str = "S. Zhuravlev, S. Blagodurov, A. Fedorova, Addressing Shared Resource Contention in \
                      Multicore Processors via Scheduling, ASPLOS 2010; as released in their scheduler Clavis \
                      6.5.5";

pub(crate) const DI: PolicyInfo = PolicyInfo {
    name: "di",
    summary: "Assigns jobs to caches round robin, in descending order of the miss rates of their profiles.",
    source: SOURCE,
    signals: &[RequiredSignal {
        signal: Signal::MissCurve,
        if_missing: IfMissing::Degrades(
            "a program without this signal counts as a devil at the limit",
        ),
    }],
    params: &[FIRST_PARAMS, PARAMS, COMMON_PARAMS],
    reasons: &[notes::REASONS, common::REASONS, REASONS],
    work_conserving: true,
    needs_core_kinds: false,
    rules: Some(|params, _seed| Box::new(Di::new(params, DiVariant::Offline))),
};

pub(crate) const DIO: PolicyInfo = PolicyInfo {
    name: "dio",
    summary: "Assigns jobs to caches round robin, in descending order of their counted miss rates.",
    signals: MISSES_PER_INSTRUCTION,
    params: &[FIRST_PARAMS, PARAMS, COMMON_PARAMS, &[FAILURES]],
    rules: Some(|params, _seed| Box::new(Di::new(params, DiVariant::Online))),
    ..DI
};

pub(crate) const DI_MIGRATE: PolicyInfo = PolicyInfo {
    name: "di-migrate",
    summary: "As dio; the pages of a job that changes its node migrate with it.",
    source: "the variant of DI with memory migration that DINO is compared with in S. Blagodurov, S. \
             Zhuravlev, M. Dashti, A. Fedorova, A Case for NUMA-aware Contention Management on Multicore \
             Systems, USENIX ATC 2011",
    rules: Some(|params, _seed| Box::new(Di::new(params, DiVariant::Migrate))),
    ..DIO
};

params! {
    /// Configuration of DI and its variants.
    pub(super) struct Config from PARAMS {
        // The default is `DEVIL_HORIZON` of Clavis.
        devil: Rate [Values::integer("misses per 10000 instructions", 1, 10_000)] = "15",
            "misses above which a thread is a devil; a thread with unknown misses is assigned this rate".published();
        oversubscribed: Oversubscribed = "share", "with more threads than CPUs: threads share CPUs as evenly as \
            possible, or threads without a free CPU keep their placement".paper("leave");
        keep: KeepCpu = "cpu", "a thread that stays in its cache keeps its CPU, or gets the first free CPU, as \
            all other threads".paper("none");
    }
}

names! {
    /// Placement of more threads than CPUs.
    pub(super) enum Oversubscribed {
        /// Threads share CPUs.
        Share = "share",
        /// Surplus threads keep their placement.
        Leave = "leave",
    }
}

names! {
    /// CPU of a thread that stays in its cache.
    pub(super) enum KeepCpu {
        /// The thread keeps its CPU.
        Cpu = "cpu",
        /// The thread gets the first free CPU.
        Nothing = "none",
    }
}

reasons! {
    /// All jobs are assigned to caches at the end of an interval.
    ASSIGNED_BY_MISSES = "assigned-by-misses":
        "the job has rank {rank} of {n_jobs} by misses per 1000 instructions ({misses}, [basis=assumed: assumed, because it is unknown][basis=profile: from its profile][basis=counted: as counted]), and jobs are assigned round robin to {n_domains} caches in descending order of misses: it gets {cpus} on {domain}[; some of its CPUs ({lost}) became unusable]";
    /// A job starts between two intervals.
    FEWEST_THREADS = "fewest-threads":
        "{domain} had the fewest threads when the job was placed, with rank {rank} of {n_jobs} by misses per 1000 instructions ({misses}, [basis=assumed: assumed, because it is unknown][basis=profile: from its profile][basis=counted: as counted]); {cpus} had the fewest there[; some of its CPUs ({lost}) became unusable]";
    /// Note: jobs without a miss-ratio curve.
    NO_MISS_CURVE = "no-miss-curve":
        "jobs without a profile of misses over cache sizes ({jobs}) count as programs with {devil} misses per 1000 instructions";
}
