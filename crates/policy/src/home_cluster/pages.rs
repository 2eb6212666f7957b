//! Placement of pages: allocation at home, or migration home.
//!
//! A page migration is requested again while private pages of the job are outside home, at most every `t_rehome` and at
//! most five times, because some pages cannot migrate. Memory policies and page migrations require that clusters are
//! nodes.

use base::{Nanos, NodeId, NodeSet};
use program::MemoryPolicy;
use sched::{Action, JobState, JobView, Plan, Reason, Snapshot};
use topology::Level;

use super::HomeCluster;
use super::declaration::{MEMORY_AT_HOME, PAGES_MIGRATE_HOME, Pages};
use crate::notes::MEMORY_NOT_BOUND;
use crate::placement;

/// Maximum number of requests after one migration. The value is `BOUNCING_LIMIT` of Clavis 6.5.5, as for DINO.
const REQUESTS_MAX: u32 = 5;

/// Pages that migrate home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingPages {
    /// Word of the sentence template.
    cause: &'static str,
    requested_at: Option<Nanos>,
    n_requests: u32,
}

impl PendingPages {
    /// Creates the state of a job that changed clusters.
    pub fn migrated() -> Self {
        PendingPages { cause: "migrated", requested_at: None, n_requests: 0 }
    }

    /// Creates the state of a job whose home changed.
    pub fn new_home() -> Self {
        PendingPages { cause: "new-home", requested_at: None, n_requests: 0 }
    }
}

impl HomeCluster {
    /// Adds a note if pages cannot follow because clusters are not nodes.
    pub(super) fn note_pages(&self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let level = snapshot.domains.level();
        let matters =
            placement::can_place(snapshot) && 2 <= placement::n_nodes_with_memory(snapshot);
        if matters && level != Level::Node && self.config.pages != Pages::FirstTouch {
            plan.note(Reason::new(MEMORY_NOT_BOUND).with("level", level.to_string()));
        }
    }

    /// Sets the memory policy of a job that starts.
    pub(super) fn bind_pages(
        &self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        home: usize,
        plan: &mut Plan,
    ) {
        let is_free = job.job.memory.is_none() && snapshot.domains.level() == Level::Node;
        if self.config.pages != Pages::AtHome || !is_free {
            return;
        }
        let nodes = NodeSet::from_iter([NodeId(snapshot.domains.get(home).number)]);
        let reason = Reason::new(MEMORY_AT_HOME).with("home", snapshot.domains.label(home));
        plan.request(job.job.id, Action::MemoryPolicy(MemoryPolicy::Preferred(nodes)), reason);
    }

    /// Requests the migration of the pending pages of each job to the home of the job.
    pub(super) fn move_pages(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if snapshot.domains.level() != Level::Node {
            return;
        }
        let is_movable = |job: &&JobView<'_>| {
            job.state == JobState::Running && job.movable && job.job.memory.is_none()
        };
        for job in snapshot.jobs.iter().filter(is_movable) {
            let Some(home) = self.home(snapshot, job.job.id) else { continue };
            let to = NodeId(snapshot.domains.get(home).number);
            let state = self.homes.get_or_default(job.job.id);
            let Some(pending) = &mut state.pending else { continue };
            let Some(memory) = job.memory.filter(|_| job.active_page_migration.is_none()) else {
                continue;
            };
            let remaining = memory.private_bytes_to_move(None, to);
            if remaining == base::Bytes::ZERO || REQUESTS_MAX <= pending.n_requests {
                state.pending = None;
                continue;
            }
            let is_early = pending
                .requested_at
                .is_some_and(|at| snapshot.turn.at.saturating_sub(at) < self.config.t_rehome);
            if is_early {
                continue;
            }
            (pending.requested_at, pending.n_requests) =
                (Some(snapshot.turn.at), pending.n_requests + 1);
            let reason = Reason::new(PAGES_MIGRATE_HOME)
                .with("rest", remaining.to_string())
                .with("private", memory.private_bytes().to_string())
                .with("home", snapshot.domains.label(home))
                .with("cause", pending.cause);
            let limit = Action::NO_LIMIT;
            plan.request(job.job.id, Action::MovePages { from: None, to, limit }, reason);
        }
    }
}
