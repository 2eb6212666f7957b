//! Pages follow a job that migrated (`memory=follow`).
//!
//! ```text
//!   at the migration, and every `cooldown` polls after it while the job stays on its new node:
//!     too few of its pages there?      less than 90 %
//!     enough free memory?              free on the node > 1.2 × its memory
//!     then request the migration of the others
//! ```
//!
//! The guard limits repeated attempts, the bytes per second, and migrations back and forth.
//!
//! Pages follow only where domains are nodes. If the pages of a job were not sampled yet, the next poll tries
//! again: they are sampled every few seconds only. While pages are migrating, no further job migrates because of
//! loads: the loads still include accesses to the old node.

use base::{Bytes, NodeId};
use sched::{Action, JobMemory, JobState, JobView, Plan, Reason, Snapshot};
use topology::Level;

use super::Dfs;
use super::declaration::{MEMORY_FOLLOWS, Memory};

/// The node that the pages of a job follow to.
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
    /// Notes that the pages of a job follow it to a domain.
    pub(super) fn follow_with_pages(&mut self, seen: &Snapshot<'_>, job: &JobView<'_>, idx: usize) {
        if self.config.memory == Memory::Follow && seen.domains.level() == Level::Node {
            let to = NodeId(seen.domains.get(idx).number);
            *self.following.of(job.job.id) = Some(FollowTarget { to, requested_at: None });
        }
    }

    /// Requests page migrations for jobs that migrated and have too few of their pages on their node.
    pub(super) fn move_memory(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if self.config.memory == Memory::Stay || seen.domains.level() != Level::Node {
            return;
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            let Some(follow) = self.following.get(job.job.id).copied().flatten() else { continue };
            if self.is_due(seen, job, follow)
                && let Some(page_move) = page_move(seen, job, follow.to)
            {
                plan.request(job.job.id, page_move.action(), page_move.reason());
                let requested_at = Some(self.n_polls);
                *self.following.of(job.job.id) = Some(FollowTarget { requested_at, ..follow });
            }
        }
    }

    /// Whether pages that follow a job are migrating, or not requested yet. Until then the loads are those of the
    /// old node, and another migration would correct the same imbalance twice.
    pub(super) fn has_pending_page_moves(&self, seen: &Snapshot<'_>) -> bool {
        let mut running = seen.jobs.iter().filter(|job| job.state == JobState::Running);
        running.any(|job| {
            let followed = self.following.get(job.job.id).copied().flatten();
            followed.is_some_and(|follow| {
                job.active_page_move.is_some() || self.is_unrequested(seen, job, follow)
            })
        })
    }

    /// Whether the pages of a managed job should follow and were not requested yet.
    fn is_unrequested(&self, seen: &Snapshot<'_>, job: &JobView<'_>, follow: FollowTarget) -> bool {
        job.movable
            && follow.requested_at.is_none()
            && self.is_on_target(seen, job, follow)
            && page_move(seen, job, follow.to).is_some()
    }

    /// Whether a job is on the node that its pages follow to. It may have been released since.
    fn is_on_target(&self, seen: &Snapshot<'_>, job: &JobView<'_>, follow: FollowTarget) -> bool {
        let migrates_now = self.moved_at.get(job.job.id).copied().flatten() == Some(self.n_polls);
        let is_to = |idx: usize| seen.domains.get(idx).number == follow.to.0;
        migrates_now || job.placed.is_some() && job.domain.is_some_and(is_to)
    }

    fn is_due(&self, seen: &Snapshot<'_>, job: &JobView<'_>, follow: FollowTarget) -> bool {
        let is_cooling_down =
            follow.requested_at.is_some_and(|poll| self.n_polls - poll < self.config.cooldown);
        job.movable
            && job.active_page_move.is_none()
            && !is_cooling_down
            && self.is_on_target(seen, job, follow)
    }
}

/// A page migration to request.
struct FollowingPages {
    to: NodeId,
    local_permille: u64,
    size: Bytes,
    rest: Bytes,
    free: Bytes,
}

/// The page migration for a job on a node; `None`: its pages are there, the node is full, or one of both is
/// unknown.
fn page_move(seen: &Snapshot<'_>, job: &JobView<'_>, to: NodeId) -> Option<FollowingPages> {
    let memory = job.memory?;
    let node = seen.nodes.iter().find(|node| node.node == to)?;
    let free = node.memory_free?;
    let (size, rest) = (memory.total(), memory.private_bytes_to_move(None, to));
    let local_permille = permille_on(memory, to);
    let fits = u128::from(size.0) * FREE_PERMILLE < u128::from(free.0) * 1000;
    let is_needed = local_permille < LOCAL_PERMILLE && rest != Bytes::ZERO;
    (is_needed && fits).then_some(FollowingPages { to, local_permille, size, rest, free })
}

/// Share of a job's pages that are on a node, in permille; all if it has none.
pub(super) fn permille_on(memory: &JobMemory, node: NodeId) -> u64 {
    let total = u128::from(memory.total().0);
    let there = u128::from(memory.on_node(node).total().0) * 1000;
    there.checked_div(total).map_or(1000, |share| u64::try_from(share).unwrap_or(1000))
}

impl FollowingPages {
    fn action(&self) -> Action {
        Action::MovePages { from: None, to: self.to, limit: Action::NO_LIMIT }
    }

    fn reason(&self) -> Reason {
        let percent = format!("{}.{}", self.local_permille / 10, self.local_permille % 10);
        Reason::new(MEMORY_FOLLOWS)
            .with("to", format!("node {}", self.to.0))
            .with("there", percent)
            .with("size", self.size.to_string())
            .with("rest", self.rest.to_string())
            .with("free", self.free.to_string())
    }
}
