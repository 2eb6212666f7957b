//! Declaration of the home-cluster policy: parameters, reasons and source.

use base::Nanos;
use sched::reasons;
use topology::DomainChoice;

use super::HomeCluster;
use crate::declaration::{self, INTERVAL_TIMES, Param, names};
use crate::{Params, PolicyError, PolicyInfo, notes};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "home-cluster",
    summary: "Assigns each job a home cluster when it starts, the one with the most free CPUs, and takes its \
              CPUs and its pages from there.",
    source: "after T. Koita, T. Katayama, K. Saisho, A. Fukuda, Memory Conscious Scheduling for Cluster-based \
             NUMA Multiprocessors, The Journal of Supercomputing 16(3), 2000; only the idea is public, the \
             rules are our choice",
    signals: &[],
    params: &[
        declaration::DOMAINS.help(
            "level of the placement domains that count as clusters; auto is the coarsest level with at least two",
        ),
        Param::new(
            "processors",
            Processors::VALUES,
            "home",
            "CPUs come from home, then from the nearest cluster; or from the cluster with the most free CPUs",
        ),
        Param::new(
            "pages",
            Pages::VALUES,
            "h0",
            "pages are preferably allocated at home (h0), stay on the node of their first touch (h1), or that, \
             and migrate home when the job changes clusters (h2); h3, copies of read-only pages, is not \
             available",
        ),
        Param::new(
            "t_rehome",
            INTERVAL_TIMES,
            // The simulated form of two-level scheduling waits 50 executions of a page, about a quarter of the
            // cost of migrating all pages there. Here 8 GiB migrate in about four seconds at 2 us for a page.
            "1s",
            "time with more than half of its CPUs outside home after which the home of a job is the cluster of \
             most of its CPUs (guessed)",
        ),
        declaration::INTERVAL
            .help("time between two decisions; starts and ends cause a decision immediately"),
    ],
    reasons: &[notes::REASONS, REASONS],
    build: Some(|params, _seed| Ok(Box::new(HomeCluster::new(Config::new(params)?)))),
};

reasons! {
    /// A job gets its home and its CPUs.
    AT_HOME = "at-home":
        "[some of the job's CPUs ({lost}) became unusable: ]its home is {home}, {by}; it gets {cpus}[, {n_outside} of them outside home][; {n_shared} of its threads share CPUs]";
    /// CPUs became free.
    PROCESSORS_FREE = "processors-free":
        "CPUs became free: the job gets {cpus} ({n_shared} of its threads share, {n_outside} CPUs outside {home}, its home) instead of {had} ({n_shared_before} sharing, {n_outside_before} outside)";
    /// Pages are allocated at home.
    MEMORY_AT_HOME = "memory-at-home":
        "its home is {home}, so pages are allocated there while memory is free";
    /// Pages migrate home.
    PAGES_GO_HOME = "pages-go-home":
        "{rest} of its own {own} are outside {home}, and {why}";
    /// Note: the home of a job changed.
    HOME_MOVED = "home-moved":
        "the home of {job} is {home} from now on: {n_outside} of its {n_cpus} CPUs were outside {before} for {time}";
}

/// Configuration of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub domains: DomainChoice,
    pub interval: Nanos,
    pub processors: Processors,
    pub pages: Pages,
    pub t_rehome: Nanos,
}

names! {
    /// Order of clusters that CPUs come from.
    pub(super) enum Processors {
        /// Home, then the nearest.
        Home = "home",
        /// The most free CPUs first.
        Free = "free",
    }
}

names! {
    /// Placement of pages.
    pub(super) enum Pages {
        /// All at home.
        AtHome = "h0",
        /// On the node of their first touch.
        FirstTouch = "h1",
        /// The same, and they migrate home when the job migrates.
        ReturnHome = "h2",
        /// The same, with copies of read-only pages. Not available.
        Copied = "h3",
    }
}

impl Config {
    pub fn new(params: &Params<'_>) -> Result<Self, PolicyError> {
        let pages = params.named("pages");
        if pages == Pages::Copied {
            return Err(PolicyError::Unavailable {
                policy: INFO.name,
                given: "pages=h3",
                obstacle: "requires copies of read-only pages, which no host can make for a running \
                           program: write h0, h1 or h2",
            });
        }
        Ok(Config {
            domains: params.domains(),
            interval: params.time("interval"),
            processors: params.named("processors"),
            pages,
            t_rehome: params.time("t_rehome"),
        })
    }
}
