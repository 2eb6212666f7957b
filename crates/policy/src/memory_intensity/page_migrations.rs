//! Migration of a job's pages when the job changes its node.
//!
//! All private pages migrate to the new node: from the old node or, if the threads were on several nodes, from all
//! other nodes. The migration requires that all threads of the job are now on one node, because a job with threads on
//! several nodes uses memory of all these nodes.
//!
//! If the target has less free memory than the job has pages, only as many pages migrate as fit. The job migrates in
//! any case.

use base::{Bytes, CpuSet, NodeId};
use sched::{Action, JobMemory, JobState, JobView, Reason, Snapshot};

use super::parameters::MEMORY_MOVES_WITH_JOB;

/// Share of a node's memory that stays free, in permille. Guessed. The value is above the 20 permille that the guard
/// keeps free, so that the guard accepts the requests.
const RESERVE_PERMILLE: u128 = 25;

/// A change of the node of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeChange {
    /// The old node; `None`: several nodes.
    pub from: Option<NodeId>,
    pub to: NodeId,
}

/// Returns the node of these CPUs; `None`: they are on several nodes.
pub(crate) fn node_of(snapshot: &Snapshot<'_>, cpus: &CpuSet) -> Option<NodeId> {
    let node = |cpu| snapshot.machine.cpu(cpu).and_then(|cpu| cpu.node);
    let first = node(cpus.first()?)?;
    cpus.iter().all(|cpu| node(cpu) == Some(first)).then_some(first)
}

/// Returns the node change of a running job that is placed on these CPUs. `None`: the job stays on its node, the new
/// node has no memory, or the workload declares the memory policy.
pub(crate) fn node_change(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    cpus: &CpuSet,
) -> Option<NodeChange> {
    if job.state != JobState::Running || job.job.memory.is_some() {
        return None;
    }
    let to = node_of(snapshot, cpus)?;
    let from = match (job.placed, job.memory, job.domain) {
        (Some(placed), ..) => node_of(snapshot, placed),
        // The kernel may have migrated the job. Most pages of the job are on the node from which the job migrated.
        (None, Some(memory), _) if 0 < memory.private_bytes().0 => {
            Some(node_of_most_pages(memory)?)
        }
        (None, _, Some(idx)) => Some(snapshot.domains.get(idx).node?),
        (None, _, None) => return None, // The node of the job is unknown.
    };
    let has_memory = snapshot.machine.nodes_with_memory().contains(to);
    (from != Some(to) && has_memory).then_some(NodeChange { from, to })
}

/// Returns the node with most of a job's private pages; ties: the lowest number.
fn node_of_most_pages(memory: &JobMemory) -> Option<NodeId> {
    let most = memory
        .nodes
        .iter()
        .max_by_key(|node| (node.private_bytes(), std::cmp::Reverse(node.node)))?;
    Some(most.node)
}

/// Returns the migration of a job's pages, limited to the free memory of the target. `None`: the target is full, or no
/// page has to migrate.
pub(crate) fn action(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    change: NodeChange,
) -> Option<Action> {
    let known = job.memory.map(|memory| memory.private_bytes_to_move(change.from, change.to));
    let limit = match (known, free(snapshot, change.to)) {
        (Some(known), _) if known < PAGE => return None,
        (_, Some(free)) if free < PAGE => return None,
        (Some(known), Some(free)) if free < known => free,
        // The size is unknown. The guard rejects a request without a limit.
        (None, Some(free)) => free,
        _ => Action::NO_LIMIT,
    };
    Some(Action::MovePages { from: change.from, to: change.to, limit })
}

/// Smallest size of a page migration.
const PAGE: Bytes = Bytes::from_kib(4);

/// Returns the free memory of a node above the reserve; `None`: unknown.
fn free(snapshot: &Snapshot<'_>, node: NodeId) -> Option<Bytes> {
    let node = snapshot.nodes.iter().find(|view| view.node == node)?;
    let total = u128::from(node.memory_total.unwrap_or_default().0);
    let reserve = u64::try_from(total * RESERVE_PERMILLE / 1000).unwrap_or(u64::MAX);
    let free = node.memory_free?.saturating_add(node.memory_reclaimable.unwrap_or_default());
    Some(free.saturating_sub(Bytes(reserve)))
}

/// Returns the reason of the migration.
pub(crate) fn reason(change: NodeChange, job: &JobView<'_>) -> Reason {
    let label = |node: NodeId| format!("node {}", node.0);
    let origin = if change.from.is_some() { "node" } else { "several" };
    let size =
        job.memory.map(|memory| memory.private_bytes_to_move(change.from, change.to).to_string());
    Reason::new(MEMORY_MOVES_WITH_JOB)
        .with("origin", origin)
        .with_some("from", change.from.map(label))
        .with("to", label(change.to))
        .with_some("size", size)
}
