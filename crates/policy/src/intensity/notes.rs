//! What people should know about the ground that decisions stand on, said when it is so and again when it
//! is otherwise; and giving up where there is nothing to decide by.

use sched::{JobState, Plan, Reason, ReasonCode, Snapshot};
use topology::Level;

use super::rates;
use crate::common;

/// What was said already.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    ground: Option<(bool, Level)>,
    readable: Readable,
}

impl Notes {
    /// Notes of the machine: nothing to place, other places than before.
    pub fn say(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let ground = (common::can_place(seen), seen.domains.level());
        let before = self.ground.replace(ground);
        if before == Some(ground) {
            return;
        }
        if let Some(note) = common::nothing_to_place(seen) {
            plan.note(note);
        } else if before.is_some() {
            plan.note(Reason::new(ReasonCode::PlacesChanged).with("level", ground.1.to_string()));
        }
        if ground.0 && seen.numa_settings.numa_balancing && 2 <= common::n_nodes_with_memory(seen) {
            plan.note(Reason::new(ReasonCode::NumaBalancingOn));
        }
    }

    /// As [`Readable::check`].
    pub fn check_readable(&mut self, failures: u64, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.readable.check(failures, seen, plan);
    }
}

/// How long nothing told what a policy decides by.
#[derive(Debug, Default)]
pub(crate) struct Readable {
    n_failures: u64,
}

impl Readable {
    /// Gives up after so many intervals in a row in which somebody ran and nothing told misses and
    /// instructions: without them there is nothing to decide by (spec 0.3).
    pub fn check(&mut self, failures: u64, seen: &Snapshot<'_>, plan: &mut Plan) {
        let runs = seen.jobs.iter().any(|job| job.state == JobState::Running && job.n_tasks != 0);
        if !runs || !rates::are_unreadable(seen) {
            self.n_failures = 0;
            return;
        }
        self.n_failures += 1;
        if failures <= self.n_failures {
            let reason = Reason::new(ReasonCode::RatesUnreadable);
            plan.abort = Some(reason.with("n_failures", self.n_failures));
        }
    }
}
