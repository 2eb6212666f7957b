//! Notes about the source of loads and classes, given when a condition holds and again when it changed.

use sched::{Cause, JobState, JobView, Plan, Reason, SignalTier, Snapshot};
use topology::Level;

use super::declaration::{
    ClassBasis, Config, LOADS_ARE_MISSES, LOADS_DECLARED, MEMORY_CANNOT_FOLLOW, Memory, NO_CLASS,
    Start, TOTALS_AS_RATES,
};
use crate::notes::{LOADS_UNKNOWN, LOADS_UNKNOWN_LOWEST, MachineNotes};
use crate::placement;

/// Notes given so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    machine: MachineNotes,
    tier: Option<SignalTier>,
    no_class: bool,
}

impl Notes {
    pub fn add(&mut self, config: &Config, seen: &Snapshot<'_>, plan: &mut Plan) {
        let level = seen.domains.level();
        let cannot_follow = config.memory == Memory::Follow && level != Level::Node;
        if self.machine.add(seen, plan) && placement::can_place(seen) && cannot_follow {
            plan.note(Reason::new(MEMORY_CANNOT_FOLLOW).with("level", level.to_string()));
        }
        // Between two polls the tier may be that of expected loads.
        if seen.turn.causes.contains(&Cause::Interval) && self.tier != Some(seen.loads.tier) {
            self.tier = Some(seen.loads.tier);
            add_tier(config, seen.loads.tier, plan);
        }
        self.add_no_class(seen, plan);
    }

    /// Once a run, in the first turn with a due job without a class.
    fn add_no_class(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let without = |job: &&JobView<'_>| job.state == JobState::Due && job.job.class.is_none();
        if self.no_class || !seen.jobs.iter().any(|job| without(&job)) {
            return;
        }
        self.no_class = true;
        let names = seen.jobs.iter().filter(without).map(|job| job.job.name.as_str());
        plan.note(Reason::new(NO_CLASS).with("jobs", placement::some_names(names)));
    }
}

fn add_tier(config: &Config, tier: SignalTier, plan: &mut Plan) {
    match tier {
        SignalTier::Bandwidth => {}
        SignalTier::Counters => plan.note(Reason::new(LOADS_ARE_MISSES)),
        SignalTier::None => plan.note(Reason::new(match config.start {
            Start::Estimate => LOADS_UNKNOWN,
            Start::Plain => LOADS_UNKNOWN_LOWEST,
        })),
        SignalTier::Declared => {
            plan.note(Reason::new(LOADS_DECLARED));
            if config.class_basis == ClassBasis::Total {
                plan.note(Reason::new(TOTALS_AS_RATES));
            }
        }
    }
}
