//! Declaration of the home-cluster policy: source, parameters and reasons.

use base::Nanos;
use sched::reasons;

use super::HomeCluster;
use crate::declaration::{self, names, params};
use crate::{PolicyInfo, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "home-cluster",
    summary: "Assigns each job a home cluster when it starts, the one with the most free CPUs, and takes its \
              CPUs and its pages from there.",
    source: "based on T. Koita, T. Katayama, K. Saisho, A. Fukuda, Memory Conscious Scheduling for Cluster-based \
             NUMA Multiprocessors, The Journal of Supercomputing 16(3), 2000; only the idea is public, the \
             rules are evenkeel's choice",
    signals: &[],
    params: &[
        &[declaration::DOMAINS.help(
            "level of the placement domains that count as clusters; auto is the coarsest level with at least two",
        )],
        PARAMS,
        &[declaration::INTERVAL
            .help("time between two decisions; starts and ends cause a decision immediately")],
    ],
    reasons: &[notes::REASONS, REASONS],
    work_conserving: false,
    needs_core_kinds: false,
    rules: Some(|params, _seed| Box::new(HomeCluster::new(Config::new(params)))),
};

params! {
    /// Configuration of the policy.
    pub(super) struct Config from PARAMS {
        processors: Processors = "home",
            "order of the clusters from which CPUs come: home, then the nearest; free, the cluster with the most free CPUs first";
        pages: Pages = "h0", "h0: pages are preferably allocated at home; h1: pages stay on the node of their first \
            touch; h2: as h1, and pages migrate home when the job changes clusters"
            .unavailable("h3", "copies of read-only pages, which no host can make for a running program")
            .no_effect_with(&["pages!=h1 and domains=llc", "pages!=h1 and domains=core"]);
        // The simulation of two-level scheduling waits 50 page executions, about a quarter of the cost of migrating all
        // pages. With the assumed 2 us per page, 8 GiB migrate in about four seconds.
        t_rehome: Nanos = "1s", "time with more than half of its CPUs outside home after which the home of a job is the \
            cluster of most of its CPUs (guessed)"
            .no_effect_with(&["processors=free and pages=h1", "processors=free and domains=llc", "processors=free and domains=core"]);
    }
}

names! {
    /// Order in which clusters provide CPUs.
    pub(super) enum Processors {
        /// The home cluster, then the nearest cluster.
        Home = "home",
        /// The cluster with the most free CPUs first.
        Free = "free",
    }
}

names! {
    /// Placement of pages.
    pub(super) enum Pages {
        /// All pages are allocated at home.
        AtHome = "h0",
        /// Pages stay on the node of their first touch.
        FirstTouch = "h1",
        /// Pages are allocated on the node of their first touch, and migrate home when the job migrates.
        ReturnHome = "h2",
    }
}

reasons! {
    /// A job gets its home and its CPUs.
    AT_HOME = "at-home":
        "[some of the job's CPUs ({lost}) became unusable: ]its home is {home}, [criterion=unchanged: unchanged][criterion=declared: its declared memory node][criterion=memory: the node of most of its memory][criterion=current: its current cluster][criterion=free: the cluster with the most free CPUs, {n_free} of {n_possible}][criterion=fewest: the home of the fewest jobs, {n_jobs}, because no CPU was free]; it gets {cpus}[, {n_outside} of them outside home][; {n_shared} of its threads share CPUs]";
    /// CPUs became free.
    PROCESSORS_FREE = "processors-free":
        "CPUs became free: the job gets {cpus} ({n_shared} of its threads share, {n_outside} CPUs outside {home}, its home) instead of {previous_cpus} ({n_shared_before} sharing, {n_outside_before} outside)";
    /// Pages are allocated at home.
    MEMORY_AT_HOME = "memory-at-home":
        "its home is {home}, so pages are allocated there while memory is free";
    /// Pages migrate home.
    PAGES_MIGRATE_HOME = "pages-migrate-home":
        "{rest} of its {private} private pages are outside {home}, and [cause=migrated: the job migrated to other clusters][cause=new-home: {home} became its home]";
    /// Note: the home of a job changed.
    HOME_MOVED = "home-moved":
        "the home of {job} is {home} from now on: {n_outside} of its {n_cpus} CPUs were outside {before} for {time}";
}
