//! Declaration of DINO: parameters, reasons and source.

use sched::reasons;

use super::Dino;
use super::classes::{Hysteresis, Limits};
use crate::declaration::{Param, READING, Values, names};
use crate::memory_intensity::parameters::{
    self as common, BUSY, Common, DOMAINS, FAILURES, INTERVAL, MISSES_PER_INSTRUCTION,
};
use crate::memory_intensity::rates::Rate;
use crate::{Params, PolicyInfo, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "dino",
    summary: "Distributes classes of threads over caches, migrates threads only when classes change, and \
              migrates the pages of a job that changes its node.",
    source: "S. Blagodurov, S. Zhuravlev, M. Dashti, A. Fedorova, A Case for NUMA-aware Contention Management \
             on Multicore Systems, USENIX ATC 2011; as released in their scheduler Clavis 6.5.5",
    signals: MISSES_PER_INSTRUCTION,
    params: &[
        READING,
        DOMAINS,
        INTERVAL,
        Param::new(
            "limits",
            Limits::VALUES,
            "released",
            "misses per 1000 instructions that make a devil and a super-devil: as in the released code (1.5 \
             and 50.5), or as in the article (2 and 100)",
        )
        .published(),
        Param::new(
            "hyst_hits",
            Values::whole("", 1, 10),
            "7",
            "number of the last 10 intervals that must be in a class before a thread changes to it; the same \
             share of fewer intervals",
        ),
        Param::new(
            "hyst_min_delta_mpki",
            Values::whole("misses per 1000 instructions", 0, 1000),
            "0",
            "minimum distance of the mean from the mean at the last class change",
        ),
        Param::new(
            "memory",
            Memory::VALUES,
            "whole",
            "pages of a job that changes its node migrate with it, and pages of devils left behind are \
             requested again; or stay; partial is for 4096 pages around sampled addresses, which are not \
             sampled here, and acts as whole",
        ),
        Param::new(
            "keep",
            Keep::VALUES,
            "cache",
            "a thread stays if its cache is to have another thread of its class, or only if its core is, and \
             neither had another class before",
        )
        .paper("core"),
        BUSY,
        FAILURES,
    ],
    reasons: &[notes::REASONS, common::REASONS, REASONS],
    build: Some(|params, _seed| Ok(Box::new(Dino::new(Config::new(params))))),
};

reasons! {
    /// A job gets slots of its class.
    DEALT_BY_CLASS = "dealt-by-class":
        "the job is a {class} ({basis}); threads are distributed over {n_domains} caches class by class (super-devils {n_super_devils}, devils {n_devils}, turtles {n_turtles}): it gets {cpus} on {domain}[; some of its CPUs ({lost}) became unusable]";
    /// Pages that a migration left behind.
    MEMORY_CALLED_AGAIN = "memory-called-again":
        "{from} still holds {there} of the job's own pages, more than {percent} % of the {here} on {to}, its node: attempt {n_again} of {n_max}";
    /// Note: memory=partial acts as memory=whole.
    NO_ADDRESS_SAMPLING = "no-address-sampling":
        "memory=partial requires the addresses of memory accesses, which are not sampled: all pages migrate, as with memory=whole";
}

names! {
    /// Pages of a job that changes its node.
    pub(super) enum Memory {
        /// All own pages migrate.
        Whole = "whole",
        /// No page migrates.
        Stay = "none",
        /// Pages around sampled addresses; acts as `Whole`, as addresses are not sampled.
        Partial = "partial",
    }
}

names! {
    /// Condition for a thread to stay.
    pub(super) enum Keep {
        /// Its cache is to have another thread of its class.
        Cache = "cache",
        /// Its core had its class and is to have it again.
        Core = "core",
    }
}

/// Configuration of DINO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub common: Common,
    pub limits: Limits,
    pub hysteresis: Hysteresis,
    pub memory: Memory,
    pub keep: Keep,
    pub failures: u64,
}

impl Config {
    pub fn new(params: &Params<'_>) -> Self {
        Config {
            common: Common::new(params),
            limits: params.named("limits"),
            hysteresis: Hysteresis {
                hits: params.whole("hyst_hits"),
                min_delta: Rate::per_10_000(params.whole("hyst_min_delta_mpki") * 10),
            },
            memory: params.named("memory"),
            keep: params.named("keep"),
            failures: params.whole("failures"),
        }
    }
}
