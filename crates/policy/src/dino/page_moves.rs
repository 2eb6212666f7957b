//! Pages of a job that changes its node, and repeated migrations of devils' pages.
//!
//! ```text
//!   placed on another node     migrate all own pages from the old node to the new one
//!   later, a devil             another node holds more than 10 % of what this one holds:
//!                              migrate these too, at most five times
//! ```
//!
//! Only devils, since jobs with few misses hardly benefit from local pages [confirmed: Clavis]. An attempt requires
//! a sample of the pages after the last migration: older samples include pages that have migrated since.

use base::{Nanos, NodeId};
use sched::{Action, JobState, JobView, Plan, Reason, Snapshot};

use super::Dino;
use super::classes::Class;
use super::declaration::{MEMORY_CALLED_AGAIN, Memory};
use crate::memory_intensity::page_moves::{self, NodeChange, PAGE};

/// Maximum number of attempts after a migration [confirmed: Clavis, `BOUNCING_LIMIT`].
const N_AGAIN: u64 = 5;
/// Maximum share of pages on another node, relative to those on its own, in percent [confirmed: Clavis].
const ELSEWHERE_PERCENT: u128 = 10;

/// Page migrations of a job that changed its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedPages {
    to: NodeId,
    n_again: u64,
    requested_at: Nanos,
}

impl Dino {
    /// Migrates the pages of a job that is placed on the CPUs of another node.
    pub(super) fn move_pages(
        &mut self,
        seen: &Snapshot<'_>,
        job: &JobView<'_>,
        cpus: &base::CpuSet,
        plan: &mut Plan,
    ) {
        if self.config.memory == Memory::Stay {
            return;
        }
        let Some(change) = page_moves::node_change(seen, job, cpus) else { return };
        let requested_at = seen.turn.at;
        *self.moved.of(job.job.id) = Some(MovedPages { to: change.to, n_again: 0, requested_at });
        if let Some(action) = page_moves::action(seen, job, change) {
            plan.request(job.job.id, action, page_moves::reason(change, job));
        }
    }

    /// Requests the migration of pages that the last migration left behind.
    pub(super) fn request_remaining(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if self.config.memory == Memory::Stay {
            return;
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running && job.movable) {
            let Some(moved) = self.moved.get(job.job.id).copied().flatten() else { continue };
            let is_requested =
                plan.requests.iter().any(|request| request.target == job.job.id.into());
            if is_requested || N_AGAIN <= moved.n_again || self.class(job) == Class::Turtle {
                continue;
            }
            if let Some((action, reason)) = remaining(seen, job, moved) {
                plan.request(job.job.id, action, reason);
                let requested_at = seen.turn.at;
                let n_again = moved.n_again + 1;
                *self.moved.of(job.job.id) = Some(MovedPages { n_again, requested_at, ..moved });
            }
        }
    }
}

/// The migration of pages on another node, if these are too many.
fn remaining(
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    moved: MovedPages,
) -> Option<(Action, Reason)> {
    let is_there = job.placed.and_then(|cpus| page_moves::node_of(seen, cpus)) == Some(moved.to);
    let known = job.memory.filter(|_| is_there && job.active_page_move.is_none())?;
    let moved_at = job.last_page_move.map_or(Nanos::ZERO, |(at, _)| at);
    if known.at <= moved.requested_at || known.at < moved_at {
        return None;
    }
    let others = known.nodes.iter().filter(|node| node.node != moved.to);
    let most = others.max_by_key(|node| (node.private_bytes(), std::cmp::Reverse(node.node)))?;
    let (there, here) = (most.private_bytes(), known.on_node(moved.to).private_bytes());
    let is_much = u128::from(here.0) * ELSEWHERE_PERCENT < u128::from(there.0) * 100;
    if !is_much || there < PAGE {
        return None;
    }
    let action = page_moves::action(seen, job, NodeChange { from: Some(most.node), to: moved.to })?;
    let reason = Reason::new(MEMORY_CALLED_AGAIN)
        .with("from", format!("node {}", most.node.0))
        .with("to", format!("node {}", moved.to.0))
        .with("there", there.to_string())
        .with("here", here.to_string())
        .with("percent", ELSEWHERE_PERCENT as u64)
        .with("n_again", moved.n_again + 1)
        .with("n_max", N_AGAIN);
    Some((action, reason))
}
