//! A policy without requests: the kernel places every task. It is the baseline for the other policies.
//!
//! The policy has an interval although it makes no decision, so that its journal contains the same samples, taken
//! at the same cost, as the journals of the other policies.

use sched::{Plan, Snapshot};

use crate::declaration::INTERVAL;
use crate::{PolicyInfo, Rules};

/// Help of `interval` for policies that make no decision at the end of an interval.
pub(crate) const SAMPLES_ONLY: &str = "time between two samples; the policy makes no decision then: the interval determines the turns in the journal";

pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "linux",
    summary: "Changes nothing: the kernel places every task.",
    source: "evenkeel; the baseline for the other policies",
    signals: &[],
    params: &[&[INTERVAL.help(SAMPLES_ONLY)]],
    reasons: &[],
    work_conserving: true,
    needs_core_kinds: false,
    rules: Some(|_params, _seed| Box::new(Linux)),
};

struct Linux;

impl Rules for Linux {
    fn decide(&mut self, _snapshot: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = true;
    }
}
