//! Pages of a job that changes its node, in DI-Migrate.
//!
//! ```text
//!   placed on another node               migrate all private pages from the old node to the new one
//!     while pages of the job migrate     wait, then migrate the pages that are on another node
//! ```
//!
//! The guard rejects a second migration of the pages of a job. Without the wait, a job that stays on its new node would
//! access remote memory until it migrates again.

use base::{Bytes, CpuSet, NodeId};
use sched::{JobMemory, JobState, JobView, PerJob, Plan, Snapshot};

use crate::memory_intensity::page_migrations::{self, NodeChange, node_of};
use crate::placement;

/// The nodes of jobs whose pages wait for the end of a migration.
#[derive(Debug, Default)]
pub(super) struct WaitingPages(PerJob<Option<NodeId>>);

impl WaitingPages {
    /// Removes jobs that ended.
    pub(super) fn remove_old(&mut self, snapshot: &Snapshot<'_>) {
        placement::remove_old_state(&mut self.0, snapshot);
    }

    /// Requests the migration of the pages of a job that changes its node.
    pub(super) fn follow(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        cpus: &CpuSet,
        plan: &mut Plan,
    ) {
        let Some(change) = page_migrations::node_change(snapshot, job, cpus) else { return };
        let is_active = job.active_page_migration.is_some();
        *self.0.get_or_default(job.job.id) = is_active.then_some(change.to);
        if !is_active {
            request(snapshot, job, change, plan);
        }
    }

    /// Requests the migrations that waited. A sample that is older than the last migration includes pages that have
    /// migrated since.
    pub(super) fn request_waiting(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let running =
            snapshot.jobs.iter().filter(|job| job.state == JobState::Running && job.movable);
        for job in running.filter(|job| job.active_page_migration.is_none()) {
            let Some(to) = self.0.get(job.job.id).copied().flatten() else { continue };
            let moved_at = job.last_page_migration.map(|(at, _)| at);
            let is_old = |memory: &JobMemory| moved_at.is_some_and(|at| memory.at < at);
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
