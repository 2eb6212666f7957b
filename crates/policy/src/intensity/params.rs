//! What all of these policies can be told.

use base::Nanos;
use topology::DomainChoice;

use crate::common;
use crate::spec::Given;
use crate::{Origin, ParamInfo, PolicyError};

/// What all of them can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    pub domains: DomainChoice,
    pub interval: Nanos,
    pub busy: Busy,
    pub failures: u64,
}

/// What counts as using a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Running there and waiting for it.
    Runnable,
    /// Running there.
    Ran,
}

/// Who mends the published text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Ours,
    Paper,
}

/// Once a second [confirmed: Clavis].
const REFRESH: Nanos = Nanos::from_secs(1);

/// As in [`crate::dfs`], which gives up for the same reason.
pub(crate) const FAILURES: u64 = 4;

const BUSY: &[(&str, Busy)] = &[("runnable", Busy::Runnable), ("ran", Busy::Ran)];

/// The reading that was chosen.
pub(crate) fn reading(given: &Given<'_>) -> Result<Reading, PolicyError> {
    given.choice("reading", Reading::Ours, &[("ours", Reading::Ours), ("paper", Reading::Paper)])
}

impl Common {
    /// For a policy that needs counters.
    pub fn read(given: &Given<'_>, reading: Reading) -> Result<Self, PolicyError> {
        let common = Common::read_without_counters(given, reading)?;
        let failures = given.get("failures", FAILURES, |t| common::whole(t, 1, 1_000_000))?;
        Ok(Common { failures, ..common })
    }

    /// For one that can do without.
    pub fn read_without_counters(given: &Given<'_>, reading: Reading) -> Result<Self, PolicyError> {
        let busy = match reading {
            Reading::Ours => Busy::Runnable,
            Reading::Paper => Busy::Ran,
        };
        Ok(Common {
            domains: given.get("domains", DomainChoice::Caches, common::cache_domains)?,
            interval: given.get("interval", REFRESH, common::interval)?,
            busy: given.choice("busy", busy, BUSY)?,
            failures: FAILURES,
        })
    }
}

/// The parameter `reading`.
pub(crate) const READING_PARAM: ParamInfo = ParamInfo {
    name: "reading",
    takes: "ours or paper",
    default: "ours",
    default_paper: None,
    meaning: "the published rules with what we mend in them, or as printed",
    origin: Origin::OurChoice,
};

/// The parameter `domains`.
pub(crate) const DOMAINS_PARAM: ParamInfo = ParamInfo {
    name: "domains",
    takes: common::DOMAINS_TAKES,
    default: "auto",
    default_paper: None,
    meaning: "what counts as a cache; auto is LLC domains where there are two, else nodes, else cores",
    origin: Origin::OurChoice,
};

/// The parameter `interval`.
pub(crate) const INTERVAL_PARAM: ParamInfo = ParamInfo {
    name: "interval",
    takes: common::INTERVAL_TAKES,
    default: "1s",
    default_paper: None,
    meaning: "time between two looks at what threads did",
    origin: Origin::Published,
};

/// The parameter `busy`.
pub(crate) const BUSY_PARAM: ParamInfo = ParamInfo {
    name: "busy",
    takes: "runnable or ran",
    default: "runnable",
    default_paper: Some("ran"),
    meaning: "a job that uses less than 90 % of a CPU for each of its threads is left to the kernel; \
              used is the time that it ran, or also that in which it waited for a CPU",
    origin: Origin::OurChoice,
};

/// The parameter `failures`.
pub(crate) const FAILURES_PARAM: ParamInfo = ParamInfo {
    name: "failures",
    takes: "a whole number from 1 to 1000000",
    default: "4",
    default_paper: None,
    meaning: "after so many intervals in a row in which neither counters nor profiles told misses and \
              instructions the run ends",
    origin: Origin::OurChoice,
};
