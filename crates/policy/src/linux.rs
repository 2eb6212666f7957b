//! The empty plan: the kernel places every task. The baseline for the other policies.
//!
//! It has an interval although it decides nothing: its journal then holds the same samples, taken at the
//! same cost, as the journals of the others.

use base::Nanos;
use sched::{Plan, Policy, Snapshot};

use crate::PolicyInfo;
use crate::declaration::INTERVAL;

/// Help of `interval` for policies that decide nothing at the end of an interval.
pub(crate) const SAMPLES_ONLY: &str =
    "time between two samples; the policy decides nothing then, but journals are comparable";

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "linux",
    summary: "Changes nothing: the kernel places every task.",
    source: "the empty plan, a baseline for the other policies",
    signals: &[],
    params: &[INTERVAL.help(SAMPLES_ONLY)],
    reasons: &[],
    build: Some(|params, _seed| Ok(Box::new(Linux { interval: params.time("interval") }))),
};

#[derive(Debug)]
struct Linux {
    interval: Nanos,
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
