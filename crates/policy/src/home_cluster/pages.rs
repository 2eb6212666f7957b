//! Where pages lie: they come from home, or go there.
//!
//! Pages are asked for again while some of the program's own are elsewhere, but no more often than every
//! `t_rehome`, and five times at the most: some cannot be moved at all. Memory is bound and moved only
//! where clusters are nodes.

use base::{Nanos, NodeId, NodeSet};
use program::MemoryPolicy;
use sched::{Action, JobState, JobView, Plan, Reason, ReasonCode, Snapshot};
use topology::Level;

use super::HomeCluster;
use super::config::Pages;
use crate::common;

/// So often pages are asked for after one migration; the limit that DINO's authors use for theirs.
const ASKS_MAX: u32 = 5;

/// Pages that are to go home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    why: &'static str,
    asked_at: Option<Nanos>,
    n_asks: u32,
}

impl Wanted {
    /// The program has come to other clusters.
    pub fn migrated() -> Self {
        Wanted { why: "its processors have come to other clusters", asked_at: None, n_asks: 0 }
    }

    /// Its home is another.
    pub fn new_home() -> Self {
        Wanted { why: "that has become its home", asked_at: None, n_asks: 0 }
    }
}

impl HomeCluster {
    /// Says that pages do not follow where clusters are no nodes.
    pub(super) fn say_pages(&self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let level = seen.domains.level();
        let matters = common::can_place(seen) && 2 <= common::n_nodes_with_memory(seen);
        if matters && level != Level::Node && self.config.pages != Pages::FirstTouch {
            plan.note(Reason::new(ReasonCode::MemoryNotBound).with("level", level.to_string()));
        }
    }

    /// A job that starts gets its memory from home.
    pub(super) fn bind_pages(
        &self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        home: usize,
        plan: &mut Plan,
    ) {
        let is_free = job.job.memory.is_none() && seen.domains.level() == Level::Node;
        if self.config.pages != Pages::AtHome || !is_free {
            return;
        }
        let nodes = NodeSet::from_iter([NodeId(seen.domains.get(home).number)]);
        let reason = Reason::new(ReasonCode::MemoryAtHome).with("home", seen.domains.label(home));
        plan.request(job.job.id, Action::MemoryPolicy(MemoryPolicy::Preferred(nodes)), reason);
    }

    /// Asks for the pages that are to go home.
    pub(super) fn move_pages(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if seen.domains.level() != Level::Node {
            return;
        }
        let ours = |job: &&JobView<'_>| {
            job.state == JobState::Running && job.movable && job.job.memory.is_none()
        };
        for job in seen.jobs.iter().filter(ours) {
            let Some(home) = self.home(seen, job.job.id) else { continue };
            let to = NodeId(seen.domains.get(home).number);
            let life = self.lives.of(job.job.id);
            let Some(wanted) = &mut life.wanted else { continue };
            let Some(memory) = job.memory.filter(|_| job.active_page_move.is_none()) else {
                continue;
            };
            let rest = memory.own_to_move(None, to);
            if rest == base::Bytes::ZERO || ASKS_MAX <= wanted.n_asks {
                life.wanted = None;
                continue;
            }
            let is_early = wanted
                .asked_at
                .is_some_and(|at| seen.turn.at.saturating_sub(at) < self.config.t_rehome);
            if is_early {
                continue;
            }
            (wanted.asked_at, wanted.n_asks) = (Some(seen.turn.at), wanted.n_asks + 1);
            let reason = Reason::new(ReasonCode::PagesGoHome)
                .with("rest", rest.to_string())
                .with("own", memory.own().to_string())
                .with("home", seen.domains.label(home))
                .with("why", wanted.why.to_owned());
            let limit = Action::NO_LIMIT;
            plan.request(job.job.id, Action::MovePages { from: None, to, limit }, reason);
        }
    }
}
