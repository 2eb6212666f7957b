//! The empty plan: every program runs where the kernel puts it.
//!
//! What the others are compared with. It has an interval although it decides nothing, so that
//! its record holds the same samples, taken at the same cost, as theirs.

use base::Nanos;
use sched::{Plan, Policy, Snapshot};

use crate::common::{self, INTERVAL};
use crate::spec::Given;
use crate::{Origin, ParamInfo, PolicyError, PolicyInfo};

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "linux",
    does: "Touches nothing: every program runs where the kernel puts it.",
    source: "the empty plan, to compare the others with",
    needs: &[],
    params: &[ParamInfo {
        name: "interval",
        takes: common::INTERVAL_TAKES,
        default: "250ms",
        default_paper: None,
        meaning: "time between two samples: nothing is decided, but the record is like the others'",
        origin: Origin::OurChoice,
    }],
};

/// Touches nothing.
#[derive(Debug, PartialEq, Eq)]
struct Linux {
    interval: Nanos,
}

pub(crate) fn build(given: &Given<'_>, _seed: u64) -> Result<Box<dyn Policy>, PolicyError> {
    let interval = given.get("interval", INTERVAL, common::interval)?;
    Ok(Box::new(Linux { interval }))
}

impl Policy for Linux {
    fn decide(&mut self, _seen: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = true;
    }

    fn name(&self) -> &str {
        INFO.name
    }

    fn interval(&self) -> Option<Nanos> {
        Some(self.interval)
    }
}
