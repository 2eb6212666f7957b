//! Pages of a job that changes its node, in DI-Migrate.
//!
//! ```text
//!   placed on another node               migrate all private pages from the old node to the new one
//!     while pages of the job migrate     wait, then migrate the pages that are on another node
//!   bound after a release                also migrate the pages that the next sample has on another node
//! ```
//!
//! The guard rejects a second migration of the pages of a job, and a released job can allocate memory on any node.
//! Without the wait, a job that stays on its node would access remote memory until it migrates again.

use base::{Bytes, CpuSet, Nanos, NodeId};
use sched::{JobMemory, JobState, JobView, PerJob, Plan, Snapshot};

use crate::memory_intensity::page_migrations::{self, NodeChange, node_of};
use crate::placement;

/// Jobs whose pages wait for the end of a migration or for a sample.
#[derive(Debug, Default)]
pub(super) struct WaitingPages(PerJob<Option<Wait>>);

#[derive(Clone, Copy, Debug)]
struct Wait {
    to: NodeId,
    /// Samples of the memory before this time are too old.
    since: Nanos,
}

impl WaitingPages {
    /// Removes jobs that ended.
    pub(super) fn remove_old(&mut self, snapshot: &Snapshot<'_>) {
        placement::remove_old_state(&mut self.0, snapshot);
    }

    /// Requests the migration of the pages of a job that is bound to CPUs, if it changes its node.
    pub(super) fn follow(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        cpus: &CpuSet,
        plan: &mut Plan,
    ) {
        let change = page_migrations::node_change(snapshot, job, cpus);
        let is_active = job.active_page_migration.is_some();
        let was_released = job.state == JobState::Running && job.placed.is_none();
        let waits = change.is_some() && is_active || was_released && job.memory.is_some();
        if waits || change.is_some() {
            let to = node_of(snapshot, cpus).filter(|_| waits);
            *self.0.get_or_default(job.job.id) = to.map(|to| Wait { to, since: snapshot.turn.at });
        }
        if let Some(change) = change.filter(|_| !is_active) {
            request(snapshot, job, change, plan);
        }
    }

    /// Requests the migrations that waited. A sample that is older than the wait or the last migration does not have the
    /// pages on their present nodes.
    pub(super) fn request_waiting(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let running =
            snapshot.jobs.iter().filter(|job| job.state == JobState::Running && job.movable);
        for job in running.filter(|job| job.active_page_migration.is_none()) {
            let Some(Wait { to, since }) = self.0.get(job.job.id).copied().flatten() else {
                continue;
            };
            let since = job.last_page_migration.map_or(since, |(at, _)| since.max(at));
            let is_old = |memory: &JobMemory| memory.at < since;
            let Some(cpus) = job.placed.filter(|_| !job.memory.is_some_and(is_old)) else {
                continue;
            };
            if plan.requests.iter().any(|request| request.target == job.job.id.into()) {
                continue;
            }
            *self.0.get_or_default(job.job.id) = None;
            let nodes = job.memory.into_iter().flat_map(|memory| &memory.nodes);
            let others = nodes.filter(|of| of.node != to && of.private_bytes() != Bytes::ZERO);
            let others: Vec<_> = others.collect();
            if node_of(snapshot, cpus) == Some(to) && (job.memory.is_none() || !others.is_empty()) {
                let from = if let [only] = others[..] { Some(only.node) } else { None };
                request(snapshot, job, NodeChange { from, to }, plan);
            }
        }
    }
}

fn request(snapshot: &Snapshot<'_>, job: &JobView<'_>, change: NodeChange, plan: &mut Plan) {
    if let Some(action) = page_migrations::action(snapshot, job, change) {
        plan.request(job.job.id, action, page_migrations::reason(change, job));
    }
}
