//! Pages of a job that changes its node, and repeated migrations of the pages of devils and super-devils.
//!
//! ```text
//!   placed on another node          migrate all private pages from the old node to the new one
//!   placed on the node that it has  migrate no page now; the repeated migrations have this node as target
//!   later, except for turtles       another node has more pages of the job than 10 % of those on its new node:
//!                                   migrate these pages too, at most five times
//! ```
//!
//! The second case is a job that was released and returns before its pages have followed it. As in Clavis 6.5.5, the
//! migration is repeated only for devils and super-devils, because jobs with few misses hardly benefit from local pages.
//! An attempt requires a sample of the pages after the last migration: older samples include pages that have migrated
//! since.

use base::{Nanos, NodeId};
use sched::{Action, JobState, JobView, Plan, Reason, Snapshot};

use super::Dino;
use super::classes::MissClass;
use super::declaration::{PAGE_MIGRATION_REPEATED, PageMigration};
use crate::memory_intensity::page_migrations::{self, NodeChange};

/// Maximum number of attempts after a migration. The value is `BOUNCING_LIMIT` of Clavis 6.5.5.
const ATTEMPTS_MAX: u64 = 5;
/// Maximum number of pages on another node, in percent of the pages on the job's node; the value of Clavis 6.5.5.
const ELSEWHERE_PERCENT: u128 = 10;

/// Page migrations of a job that changed its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedPages {
    to: NodeId,
    n_attempts: u64,
    requested_at: Nanos,
}

impl Dino {
    /// Migrates the pages of a job that is placed on the CPUs of another node.
    pub(super) fn move_pages(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        cpus: &base::CpuSet,
        plan: &mut Plan,
    ) {
        if self.config.memory == PageMigration::Stay {
            return;
        }
        let requested_at = snapshot.turn.at;
        let Some(change) = page_migrations::node_change(snapshot, job, cpus) else {
            self.retarget(snapshot, job, cpus);
            return;
        };
        *self.moved.get_or_default(job.job.id) =
            Some(MovedPages { to: change.to, n_attempts: 0, requested_at });
        if let Some(action) = page_migrations::action(snapshot, job, change) {
            plan.request(job.job.id, action, page_migrations::reason(change, job));
        }
    }

    /// Makes the node of these CPUs the target of the repeated migrations: the pages of a released job can be on the way
    /// to the node that it had before.
    fn retarget(&mut self, snapshot: &Snapshot<'_>, job: &JobView<'_>, cpus: &base::CpuSet) {
        if let Some(moved) = self.moved.get_or_default(job.job.id)
            && let Some(to) = page_migrations::node_of(snapshot, cpus)
            && to != moved.to
        {
            *moved = MovedPages { to, n_attempts: 0, requested_at: snapshot.turn.at };
        }
    }

    /// Requests the migration of pages that the last migration left on another node.
    pub(super) fn request_remaining(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if self.config.memory == PageMigration::Stay {
            return;
        }
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Running && job.movable)
        {
            let Some(moved) = self.moved.get(job.job.id).copied().flatten() else { continue };
            let is_requested =
                plan.requests.iter().any(|request| request.target == job.job.id.into());
            if is_requested
                || ATTEMPTS_MAX <= moved.n_attempts
                || self.class(job) == MissClass::Turtle
            {
                continue;
            }
            if let Some((action, reason)) = remaining(snapshot, job, moved) {
                plan.request(job.job.id, action, reason);
                let requested_at = snapshot.turn.at;
                let n_attempts = moved.n_attempts + 1;
                *self.moved.get_or_default(job.job.id) =
                    Some(MovedPages { n_attempts, requested_at, ..moved });
            }
        }
    }
}

/// Returns the migration of pages on another node, if their share is above the limit.
fn remaining(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    moved: MovedPages,
) -> Option<(Action, Reason)> {
    let is_there =
        job.placed.and_then(|cpus| page_migrations::node_of(snapshot, cpus)) == Some(moved.to);
    let known = job.memory.filter(|_| is_there && job.active_page_migration.is_none())?;
    let moved_at = job.last_page_migration.map_or(Nanos::ZERO, |(at, _)| at);
    if known.at <= moved.requested_at || known.at < moved_at {
        return None;
    }
    let others = known.nodes.iter().filter(|node| node.node != moved.to);
    let most = others.max_by_key(|node| (node.private_bytes(), std::cmp::Reverse(node.node)))?;
    let (elsewhere, local) = (most.private_bytes(), known.on_node(moved.to).private_bytes());
    let is_much = u128::from(local.0) * ELSEWHERE_PERCENT < u128::from(elsewhere.0) * 100;
    if !is_much {
        return None;
    }
    let action =
        page_migrations::action(snapshot, job, NodeChange { from: Some(most.node), to: moved.to })?;
    let reason = Reason::new(PAGE_MIGRATION_REPEATED)
        .with("from", format!("node {}", most.node.0))
        .with("to", format!("node {}", moved.to.0))
        .with("elsewhere", elsewhere.to_string())
        .with("local", local.to_string())
        .with("percent", ELSEWHERE_PERCENT as u64)
        .with("n_attempts", moved.n_attempts + 1)
        .with("n_max", ATTEMPTS_MAX);
    Some((action, reason))
}
