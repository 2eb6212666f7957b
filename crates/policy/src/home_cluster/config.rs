//! What the home-cluster policy can be told, and how `evenkeel policies` tells it.

use base::Nanos;
use topology::DomainChoice;

use crate::common::{self, INTERVAL};
use crate::spec::Given;
use crate::{Origin, ParamInfo, PolicyError, PolicyInfo};

/// Everything that it can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub domains: DomainChoice,
    pub interval: Nanos,
    pub processors: Processors,
    pub pages: Pages,
    pub t_rehome: Nanos,
}

/// Where processors come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processors {
    /// From home first, then from near it.
    Home,
    /// From where most are free.
    Free,
}

/// Where pages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// All at home.
    AtHome,
    /// Where they are first touched.
    FirstTouch,
    /// There too, and they go home when the program migrates.
    ReturnHome,
    /// As the last, with read-only pages copied.
    Copied,
}

/// How long most processors may be outside. The simulated form has 50 executions of a page, which is
/// about a quarter of what moving all pages costs there; a process of 8 GiB moves in about four seconds
/// if a page takes 2 us, which is guessed too.
const T_REHOME: Nanos = Nanos::from_secs(1);

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "home-cluster",
    does: "Gives each program a home when it starts, where most processors are free, and takes its \
           processors and its pages from there.",
    source: "after Koita, Katayama, Saisho and Fukuda, Memory conscious scheduling for cluster-based \
             NUMA multiprocessors, J. Supercomputing 16(3), 2000; only its idea is public, the rules \
             are ours",
    needs: &[],
    params: &[
        ParamInfo {
            name: "domains",
            takes: common::DOMAINS_TAKES,
            default: "auto",
            default_paper: None,
            meaning: "what counts as a cluster; auto is the coarsest level with two of them",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "processors",
            takes: "home or free",
            default: "home",
            default_paper: None,
            meaning: "processors come from home, then from the nearest cluster; or from the one with \
                      the most free ones, wherever home is",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "pages",
            takes: "h0, h1 or h2",
            default: "h0",
            default_paper: None,
            meaning: "pages come first from home (h0), lie where they are first touched (h1), or that \
                      and go home when the program comes to other clusters (h2); h3, copies of \
                      read-only pages, comes with two-level scheduling",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "t_rehome",
            takes: common::INTERVAL_TAKES,
            default: "1s",
            default_paper: None,
            meaning: "when more than half of its processors have been outside for so long, home is \
                      where most of them are (guessed)",
            origin: Origin::OurChoice,
        },
        ParamInfo {
            name: "interval",
            takes: common::INTERVAL_TAKES,
            default: "250ms",
            default_paper: None,
            meaning: "time between two looks at who is outside; whatever starts or ends is looked at \
                      at once",
            origin: Origin::OurChoice,
        },
    ],
};

impl Config {
    pub fn read(given: &Given<'_>) -> Result<Self, PolicyError> {
        let config = Config {
            domains: given.get("domains", DomainChoice::Auto, common::domains)?,
            interval: given.get("interval", INTERVAL, common::interval)?,
            processors: given.choice("processors", Processors::Home, PROCESSORS)?,
            pages: given.choice("pages", Pages::AtHome, PAGES)?,
            t_rehome: given.get("t_rehome", T_REHOME, common::interval)?,
        };
        match config.pages {
            Pages::Copied => Err(PolicyError::NotYet {
                policy: INFO.name,
                written: "pages=h3",
                why: "needs copies of read-only pages, and nobody can copy the memory of a running \
                      program: it comes with two-level scheduling, which copies files that nobody \
                      writes; write h0, h1 or h2",
            }),
            _ => Ok(config),
        }
    }
}

const PROCESSORS: &[(&str, Processors)] = &[("home", Processors::Home), ("free", Processors::Free)];
const PAGES: &[(&str, Pages)] = &[
    ("h0", Pages::AtHome),
    ("h1", Pages::FirstTouch),
    ("h2", Pages::ReturnHome),
    ("h3", Pages::Copied),
];
