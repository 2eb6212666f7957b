//! What people should know about the ground that decisions stand on, said once each.

use std::collections::BTreeSet;

use base::JobId;
use sched::{Cause, Code, JobState, Plan, Reason, SignalTier, Snapshot};

use super::config::{ClassBasis, Config};
use crate::common;

/// What was said already.
#[derive(Debug, Default)]
pub(super) struct Notes {
    said_rules: bool,
    said_tier: Option<SignalTier>,
    without_class: BTreeSet<JobId>,
}

/// Names listed in one note; more would not be read.
const N_NAMES: usize = 8;

impl Notes {
    pub fn say(&mut self, config: &Config, seen: &Snapshot<'_>, plan: &mut Plan) {
        if !self.said_rules {
            self.said_rules = true;
            say_rules(seen, plan);
        }
        // Between two polls the signal may be only what is expected.
        if seen.turn.causes.contains(&Cause::Interval) && self.said_tier != Some(seen.loads.tier) {
            self.said_tier = Some(seen.loads.tier);
            say_tier(config, seen.loads.tier, plan);
        }
        self.say_classes(seen, plan);
    }

    fn say_classes(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let due = || seen.jobs.iter().filter(|job| job.state == JobState::Due);
        let names: Vec<&str> = due()
            .filter(|job| job.job.class.is_none() && self.without_class.insert(job.job.id))
            .map(|job| job.job.name.as_str())
            .collect();
        if names.is_empty() {
            return;
        }
        let mut jobs = names[..names.len().min(N_NAMES)].join(", ");
        if N_NAMES < names.len() {
            jobs.push_str(&format!(" and {} more", names.len() - N_NAMES));
        }
        let note = Reason::new(Code::NoClass)
            .with("n_jobs", names.len() as u64)
            .with("n_all", due().count() as u64)
            .with("jobs", jobs);
        plan.say(note);
    }
}

fn say_rules(seen: &Snapshot<'_>, plan: &mut Plan) {
    if !common::can_place(seen) {
        plan.say(Reason::new(Code::NothingToPlace));
        return;
    }
    if common::n_nodes_with_memory(seen) < 2 {
        let level = seen.domains.level().to_string();
        plan.say(Reason::new(Code::MemoryGainsNothing).with("level", level));
        return;
    }
    if seen.rules.numa_balancing {
        plan.say(Reason::new(Code::NumaBalancingOn));
    }
    if seen.rules.interleaves {
        plan.say(Reason::new(Code::InterleavedByDefault));
    }
}

fn say_tier(config: &Config, tier: SignalTier, plan: &mut Plan) {
    match tier {
        SignalTier::Bandwidth => {}
        SignalTier::Counters => plan.say(Reason::new(Code::LoadsAreMisses)),
        SignalTier::None => plan.say(Reason::new(Code::LoadsUnknown)),
        SignalTier::Declared => {
            plan.say(Reason::new(Code::LoadsDeclared));
            if config.class_basis == ClassBasis::Total {
                plan.say(Reason::new(Code::TotalsAsRates));
            }
        }
    }
}
