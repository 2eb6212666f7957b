//! What people should know about the ground that decisions stand on, said when it is so, and again
//! when it is otherwise.

use sched::{Cause, Code, JobSeen, JobState, Plan, Reason, SignalTier, Snapshot};
use topology::Level;

use super::config::{ClassBasis, Config, Memory, Start};
use crate::common;

/// What was said already.
#[derive(Debug, Default)]
pub(super) struct Notes {
    ground: Option<Ground>,
    said_tier: Option<SignalTier>,
    said_classes: bool,
}

/// What the first notes are about. When it changes they are said anew; the engine passes on those
/// that it has not passed on before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ground {
    can_place: bool,
    level: Level,
    one_memory: bool,
}

impl Notes {
    pub fn say(&mut self, config: &Config, seen: &Snapshot<'_>, plan: &mut Plan) {
        let ground = Ground {
            can_place: common::can_place(seen),
            level: seen.domains.level(),
            one_memory: common::n_nodes_with_memory(seen) < 2,
        };
        if self.ground != Some(ground) {
            let is_first = self.ground.replace(ground).is_none();
            say_ground(ground, is_first, seen, plan);
            say_follow(config, ground, plan);
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
        let without = |job: &&JobSeen<'_>| job.state == JobState::Due && job.job.class.is_none();
        if self.said_classes || !seen.jobs.iter().any(|job| without(&job)) {
            return;
        }
        self.said_classes = true;
        let names = seen.jobs.iter().filter(without).map(|job| job.job.name.as_str());
        let jobs = common::some_names(names);
        plan.say(Reason::new(Code::NoClass).with("jobs", jobs));
    }
}

fn say_ground(ground: Ground, is_first: bool, seen: &Snapshot<'_>, plan: &mut Plan) {
    if let Some(note) = common::nothing_to_place(seen) {
        plan.say(note);
        return;
    }
    let level = ground.level.to_string();
    if !is_first {
        plan.say(Reason::new(Code::PlacesChanged).with("level", level.clone()));
    }
    if ground.one_memory {
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

/// A key that does nothing here.
fn say_follow(config: &Config, ground: Ground, plan: &mut Plan) {
    if ground.can_place && config.memory == Memory::Follow && ground.level != Level::Node {
        let level = ground.level.to_string();
        plan.say(Reason::new(Code::MemoryCannotFollow).with("level", level));
    }
}

fn say_tier(config: &Config, tier: SignalTier, plan: &mut Plan) {
    match tier {
        SignalTier::Bandwidth => {}
        SignalTier::Counters => plan.say(Reason::new(Code::LoadsAreMisses)),
        SignalTier::None => plan.say(Reason::new(match config.start {
            Start::Estimate => Code::LoadsUnknown,
            Start::Plain => Code::LoadsUnknownLowest,
        })),
        SignalTier::Declared => {
            plan.say(Reason::new(Code::LoadsDeclared));
            if config.class_basis == ClassBasis::Total {
                plan.say(Reason::new(Code::TotalsAsRates));
            }
        }
    }
}
