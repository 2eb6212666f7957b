//! Pages follow a job that migrated (`memory=follow`).
//!
//! ```text
//!   at the migration, and every `cooldown` polls after a request while the job stays on its new node:
//!     if less than 90 % of its pages are on the node,
//!     and the free memory of the node > 1.2 × the memory of the job:
//!     request the migration of the other pages
//! ```
//!
//! The guard limits repeated attempts, the bytes per second, and migrations back and forth.
//!
//! Pages follow only if domains are nodes. Pages are sampled every few seconds; if the pages of a job were not sampled
//! yet, the next poll tries again. While pages migrate, no further job migrates because of loads: the loads still
//! include accesses to the old node.

use base::{Bytes, NodeId};
use sched::{Action, JobMemory, JobState, JobView, Plan, Reason, Snapshot};
use topology::Level;

use super::Dfs;
use super::declaration::{MEMORY_FOLLOWS, PageFollowing};

/// The node to which the pages of a job follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FollowTarget {
    /// The node of the job.
    to: NodeId,
    /// The poll of the last request.
    requested_at: Option<u64>,
}

/// Minimum share of a job's pages on its node.
const LOCAL_PERMILLE: u64 = 900;
/// Minimum free memory of the target, relative to the memory of the job.
const FREE_PERMILLE: u128 = 1200;

impl Dfs {
    /// Records that the pages of a job follow the job to a domain.
    pub(super) fn follow_with_pages(
        &mut self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        idx: usize,
    ) {
        if self.config.memory == PageFollowing::Follow && snapshot.domains.level() == Level::Node {
            let to = NodeId(snapshot.domains.get(idx).number);
            *self.following.get_or_default(job.job.id) =
                Some(FollowTarget { to, requested_at: None });
        }
    }

    /// Requests page migrations for jobs that migrated and have too few of their pages on their node.
    pub(super) fn move_memory(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        if self.config.memory == PageFollowing::Stay || snapshot.domains.level() != Level::Node {
            return;
        }
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Running) {
            let Some(follow) = self.following.get(job.job.id).copied().flatten() else { continue };
            if self.is_due(snapshot, job, follow)
                && let Some(page_migration) = page_migration(snapshot, job, follow.to)
            {
                plan.request(job.job.id, page_migration.action(), page_migration.reason());
                let requested_at = Some(self.n_polls);
                *self.following.get_or_default(job.job.id) =
                    Some(FollowTarget { requested_at, ..follow });
            }
        }
    }

    /// Returns whether a migration of following pages is active, or not requested yet. Until the migration is complete,
    /// the loads still include accesses to the old node, and another task migration would correct the same imbalance
    /// twice.
    pub(super) fn has_pending_page_migrations(&self, snapshot: &Snapshot<'_>) -> bool {
        let mut running = snapshot.jobs.iter().filter(|job| job.state == JobState::Running);
        running.any(|job| {
            let followed = self.following.get(job.job.id).copied().flatten();
            followed.is_some_and(|follow| {
                job.active_page_migration.is_some() || self.is_unrequested(snapshot, job, follow)
            })
        })
    }

    /// Returns whether the pages of a managed job should follow and were not requested yet.
    fn is_unrequested(
        &self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        follow: FollowTarget,
    ) -> bool {
        job.movable
            && follow.requested_at.is_none()
            && self.is_on_target(snapshot, job, follow)
            && page_migration(snapshot, job, follow.to).is_some()
    }

    /// Returns whether a job is on the node to which its pages follow. A released job may be on another node.
    fn is_on_target(
        &self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        follow: FollowTarget,
    ) -> bool {
        let migrates_now = self.moved_at.get(job.job.id).copied().flatten() == Some(self.n_polls);
        let is_to = |idx: usize| snapshot.domains.get(idx).number == follow.to.0;
        migrates_now || job.placed.is_some() && job.domain.is_some_and(is_to)
    }

    fn is_due(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>, follow: FollowTarget) -> bool {
        let is_cooling_down =
            follow.requested_at.is_some_and(|poll| self.n_polls - poll < self.config.cooldown);
        job.movable
            && job.active_page_migration.is_none()
            && !is_cooling_down
            && self.is_on_target(snapshot, job, follow)
    }
}

/// A page migration to request.
struct FollowingPages {
    to: NodeId,
    local_permille: u64,
    size: Bytes,
    remaining: Bytes,
    free: Bytes,
}

/// Returns the page migration for a job on a node. `None`: enough pages are on the node, the node is full, or a
/// required value is unknown.
fn page_migration(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    to: NodeId,
) -> Option<FollowingPages> {
    let memory = job.memory?;
    let node = snapshot.nodes.iter().find(|node| node.node == to)?;
    let free = node.memory_free?;
    let (size, remaining) = (memory.total(), memory.private_bytes_to_move(None, to));
    let local_permille = permille_on(memory, to);
    let fits = u128::from(size.0) * FREE_PERMILLE < u128::from(free.0) * 1000;
    let is_needed = local_permille < LOCAL_PERMILLE && remaining != Bytes::ZERO;
    (is_needed && fits).then_some(FollowingPages { to, local_permille, size, remaining, free })
}

/// Returns the share of a job's pages that are on a node, in permille; 1000 if the job has no pages.
pub(super) fn permille_on(memory: &JobMemory, node: NodeId) -> u64 {
    let total = u128::from(memory.total().0);
    let on_node = u128::from(memory.on_node(node).total().0) * 1000;
    on_node.checked_div(total).map_or(1000, |share| u64::try_from(share).unwrap_or(1000))
}

impl FollowingPages {
    fn action(&self) -> Action {
        Action::MovePages { from: None, to: self.to, limit: Action::NO_LIMIT }
    }

    fn reason(&self) -> Reason {
        let percent = format!("{}.{}", self.local_permille / 10, self.local_permille % 10);
        Reason::new(MEMORY_FOLLOWS)
            .with("to", format!("node {}", self.to.0))
            .with("local", percent)
            .with("size", self.size.to_string())
            .with("rest", self.remaining.to_string())
            .with("free", self.free.to_string())
    }
}
