//! Declaration of DINO: parameters, reasons and source.

use sched::reasons;

use super::Dino;
use crate::declaration::{Values, names, params};
use crate::memory_intensity::parameters::{
    self as common, COMMON_PARAMS, FAILURES, FIRST_PARAMS, MISSES_PER_INSTRUCTION,
};
use crate::{PolicyInfo, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "dino",
    summary: "Distributes classes of threads over caches, migrates threads only when classes change, and \
              migrates the pages of a job that changes its node.",
    source: "S. Blagodurov, S. Zhuravlev, M. Dashti, A. Fedorova, A Case for NUMA-aware Contention Management \
             on Multicore Systems, USENIX ATC 2011; as released in their scheduler Clavis 6.5.5",
    signals: MISSES_PER_INSTRUCTION,
    params: &[FIRST_PARAMS, PARAMS, COMMON_PARAMS, &[FAILURES]],
    reasons: &[notes::REASONS, common::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, _seed| Box::new(Dino::new(params))),
};

params! {
    /// Configuration of DINO.
    pub(super) struct Config from PARAMS {
        limits: ClassLimits = "released", "misses per 1000 instructions that make a devil and a super-devil: as in the \
            released code (1.5 and 50.5), or 2 and 100 (quoted from recollection of the article, not verified)".published();
        hyst_hits: u64 [Values::integer("", 1, 10)] = "7", "number of the last 10 intervals that must be in a class \
            before a thread changes to it; the same share of fewer intervals";
        hyst_min_delta_mpki: u64 [Values::integer("misses per 1000 instructions", 0, 1000)] = "0",
            "minimum distance of the mean from the mean at the last class change";
        memory: PageMigration = "whole", "whole: pages migrate with a job that changes its node, and for devils, \
            pages that did not migrate are requested again; none: pages stay"
            .unavailable("partial", "the addresses of memory accesses, which are not sampled");
        keep: KeepSlot = "cache", "cache: a thread keeps its CPU if the new assignment has a slot of its class in the \
            same cache; core: only if the slot is on the same core and the classes of thread and core did not change".paper("core");
    }
}

names! {
    /// Page migration of a job that changes its node.
    pub(super) enum PageMigration {
        /// All private pages migrate.
        Whole = "whole",
        /// No page migrates.
        Stay = "none",
    }
}

names! {
    /// Condition for a thread to stay.
    pub(super) enum KeepSlot {
        /// The map has a slot of the class in the cache of the thread.
        Cache = "cache",
        /// The core had a slot of the thread's class, and has such a slot in the new assignment.
        Core = "core",
    }
}

reasons! {
    /// A job gets slots of its class.
    ASSIGNED_BY_CLASS = "assigned-by-class":
        "the job is a {class} ([basis=assumed: assumed until its class is known][basis=mean: {mpki} misses per 1000 instructions, intervals {n_intervals}][limits=released: , limits 1.5 and 50.5][limits=article: , limits 2 and 100]); threads are distributed over {n_domains} caches class by class (super-devils {n_super_devils}, devils {n_devils}, turtles {n_turtles}): it gets {cpus} on {domain}[; some of its CPUs ({lost}) became unusable]";
    /// Pages that the last page migration left on another node.
    PAGE_MIGRATION_REPEATED = "page-migration-repeated":
        "{from} still has {elsewhere} of the job's private pages, more than {percent} % of the {local} on {to}, its node: attempt {n_attempts} of {n_max}";
}

names! {
    /// Source of the limits between classes.
    pub(super) enum ClassLimits {
        /// The released code.
        Released = "released",
        /// The article.
        Article = "article",
    }
}
