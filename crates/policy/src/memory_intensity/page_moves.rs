//! Migration of a job's pages when the job changes its node.
//!
//! All own pages migrate from the old node to the new one. That requires a job that was on one node and is on one
//! node: a job whose threads are on several nodes uses memory of all of them, and no single migration fits it.
//!
//! Where the target has less free memory than the job has pages, as much as fits migrates, and the job migrates
//! anychange.

use base::{Bytes, CpuSet, NodeId};
use sched::{Action, JobMemory, JobState, JobView, Reason, Snapshot};

use super::parameters::MEMORY_MOVES_WITH_JOB;

/// Share of a node's memory that stays free, in permille. Guessed; more than the 20 permille that guards
/// keep, so that they pass the requests.
const RESERVE_PERMILLE: u128 = 25;

/// A change of the node of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeChange {
    /// The old node; `None`: several nodes.
    pub from: Option<NodeId>,
    pub to: NodeId,
}

/// The node of these CPUs, if it is the same for all.
pub(crate) fn node_of(seen: &Snapshot<'_>, cpus: &CpuSet) -> Option<NodeId> {
    let node = |cpu| seen.machine.cpu(cpu).and_then(|cpu| cpu.node);
    let first = node(cpus.first()?)?;
    cpus.iter().all(|cpu| node(cpu) == Some(first)).then_some(first)
}

/// The node change of a running job that is placed on these CPUs. `None`: it stays on its node, the new node
/// has no memory, or the workload declares the memory policy.
pub(crate) fn node_change(
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    cpus: &CpuSet,
) -> Option<NodeChange> {
    if job.state != JobState::Running || job.job.memory.is_some() {
        return None;
    }
    let to = node_of(seen, cpus)?;
    let from = match (job.placed, job.memory, job.domain) {
        (Some(placed), ..) => node_of(seen, placed),
        // The kernel may have migrated it since: most of its pages are on the node that it left.
        (None, Some(memory), _) if 0 < memory.private_bytes().0 => Some(most(memory)?),
        (None, _, Some(idx)) => Some(seen.domains.get(idx).node?),
        (None, _, None) => return None, // Its node is unknown.
    };
    let has_memory = seen.machine.nodes_with_memory().contains(to);
    (from != Some(to) && has_memory).then_some(NodeChange { from, to })
}

/// The node with most of a job's own pages; the first of equal ones.
fn most(memory: &JobMemory) -> Option<NodeId> {
    let most = memory
        .nodes
        .iter()
        .max_by_key(|node| (node.private_bytes(), std::cmp::Reverse(node.node)))?;
    Some(most.node)
}

/// The migration of a job's pages, limited to the free memory of the target. `None`: the target is full, or no
/// page has to migrate.
pub(crate) fn action(seen: &Snapshot<'_>, job: &JobView<'_>, change: NodeChange) -> Option<Action> {
    let known = job.memory.map(|memory| memory.private_bytes_to_move(change.from, change.to));
    let limit = match (known, free(seen, change.to)) {
        (Some(known), _) if known < PAGE => return None,
        (_, Some(free)) if free < PAGE => return None,
        (Some(known), Some(free)) if free < known => free,
        // The size is unknown: as much as fits, since a guard rejects a request without a limit.
        (None, Some(free)) => free,
        _ => Action::NO_LIMIT,
    };
    Some(Action::MovePages { from: change.from, to: change.to, limit })
}

/// Smaller sizes do not migrate.
pub(crate) const PAGE: Bytes = Bytes::from_kib(4);

/// Free memory of a node above the reserve; `None`: unknown.
fn free(seen: &Snapshot<'_>, node: NodeId) -> Option<Bytes> {
    let node = seen.nodes.iter().find(|seen| seen.node == node)?;
    let total = u128::from(node.memory_total.unwrap_or_default().0);
    let reserve = u64::try_from(total * RESERVE_PERMILLE / 1000).unwrap_or(u64::MAX);
    let free = node.memory_free?.saturating_add(node.memory_reclaimable.unwrap_or_default());
    Some(free.saturating_sub(Bytes(reserve)))
}

/// The reason of the migration.
pub(crate) fn reason(change: NodeChange, job: &JobView<'_>) -> Reason {
    let from = change.from.map_or("several nodes".to_owned(), |from| format!("node {}", from.0));
    let size =
        job.memory.map(|memory| memory.private_bytes_to_move(change.from, change.to).to_string());
    Reason::new(MEMORY_MOVES_WITH_JOB)
        .with("from", from)
        .with("to", format!("node {}", change.to.0))
        .with_some("size", size)
}
