//! What people should know about the ground that decisions stand on, said when it is so, and again
//! when it is otherwise.

use sched::{Cause, JobState, JobView, Plan, Reason, ReasonCode, SignalTier, Snapshot};
use topology::Level;

use super::config::{ClassBasis, Config, Memory, Start};
use crate::common;
use crate::ground::Ground;

/// What was said already.
#[derive(Debug, Default)]
pub(super) struct Notes {
    ground: Ground,
    said_tier: Option<SignalTier>,
    said_classes: bool,
}

impl Notes {
    pub fn say(&mut self, config: &Config, seen: &Snapshot<'_>, plan: &mut Plan) {
        if self.ground.say(seen, plan) {
            say_follow(config, seen, plan);
        }
        // Between two polls the signal may be only what is expected.
        if seen.turn.causes.contains(&Cause::Interval) && self.said_tier != Some(seen.loads.tier) {
            self.said_tier = Some(seen.loads.tier);
            say_tier(config, seen.loads.tier, plan);
        }
        self.say_classes(seen, plan);
    }

    /// Once a run, in the turn in which the first such job is due.
    fn say_classes(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let without = |job: &&JobView<'_>| job.state == JobState::Due && job.job.class.is_none();
        if self.said_classes || !seen.jobs.iter().any(|job| without(&job)) {
            return;
        }
        self.said_classes = true;
        let names = seen.jobs.iter().filter(without).map(|job| job.job.name.as_str());
        let jobs = common::some_names(names);
        plan.note(Reason::new(ReasonCode::NoClass).with("jobs", jobs));
    }
}

/// A key that does nothing here.
fn say_follow(config: &Config, seen: &Snapshot<'_>, plan: &mut Plan) {
    let level = seen.domains.level();
    if common::can_place(seen) && config.memory == Memory::Follow && level != Level::Node {
        plan.note(Reason::new(ReasonCode::MemoryCannotFollow).with("level", level.to_string()));
    }
}

fn say_tier(config: &Config, tier: SignalTier, plan: &mut Plan) {
    match tier {
        SignalTier::Bandwidth => {}
        SignalTier::Counters => plan.note(Reason::new(ReasonCode::LoadsAreMisses)),
        SignalTier::None => plan.note(Reason::new(match config.start {
            Start::Estimate => ReasonCode::LoadsUnknown,
            Start::Plain => ReasonCode::LoadsUnknownLowest,
        })),
        SignalTier::Declared => {
            plan.note(Reason::new(ReasonCode::LoadsDeclared));
            if config.class_basis == ClassBasis::Total {
                plan.note(Reason::new(ReasonCode::TotalsAsRates));
            }
        }
    }
}
