//! Where a job's memory goes when the job goes to another node.
//!
//! Memory is moved whole, from the node that the job left to the node that it goes to. That asks for a
//! job that was on one node and is on one node: one whose threads sit on several uses memory from all
//! of them, and no single move would be right for it.
//!
//! Where the target has less free than the job has to move, what fits is moved and the job goes all the
//! same (spec 2.2).

use base::{Bytes, CpuSet, NodeId};
use sched::{Action, JobMemory, JobState, JobView, Reason, ReasonCode, Snapshot};

/// A part of a node's memory that is left free, in thousandths: more than what guards keep
/// (20), so that what is asked for comes through. Guessed.
const RESERVE_PERMILLE: u128 = 25;

/// A job's way from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Where it was; `None`: on several.
    pub from: Option<NodeId>,
    pub to: NodeId,
}

/// The one node of all these CPUs.
pub(crate) fn node_of(seen: &Snapshot<'_>, cpus: &CpuSet) -> Option<NodeId> {
    let node = |cpu| seen.machine.cpu(cpu).and_then(|cpu| cpu.node);
    let first = node(cpus.first()?)?;
    cpus.iter().all(|cpu| node(cpu) == Some(first)).then_some(first)
}

/// The way of a job that runs and is placed on these CPUs; `None` when it does not come to another node
/// that has memory, and when the workload says where its memory comes from.
pub(crate) fn way(seen: &Snapshot<'_>, job: &JobView<'_>, cpus: &CpuSet) -> Option<Way> {
    if job.state != JobState::Running || job.job.memory.is_some() {
        return None;
    }
    let to = node_of(seen, cpus)?;
    let from = match (job.placed, job.memory, job.domain) {
        (Some(placed), ..) => node_of(seen, placed),
        // The kernel may have taken it anywhere meanwhile; what it left tells where it comes from.
        (None, Some(memory), _) if 0 < memory.own().0 => Some(most(memory)?),
        (None, _, Some(idx)) => Some(seen.domains.get(idx).node?),
        (None, _, None) => return None, // Nobody knows where it ran.
    };
    let has_memory = seen.machine.nodes_with_memory().contains(to);
    (from != Some(to) && has_memory).then_some(Way { from, to })
}

/// The node with most of a job's own memory, of equal ones the first.
fn most(memory: &JobMemory) -> Option<NodeId> {
    let most = memory.nodes.iter().max_by_key(|node| (node.own(), std::cmp::Reverse(node.node)))?;
    Some(most.node)
}

/// The move of a job's memory along a way, as far as there is room; `None` where there is none, or
/// where it is known that nothing has to go.
pub(crate) fn pages(seen: &Snapshot<'_>, job: &JobView<'_>, way: Way) -> Option<Action> {
    let known = job.memory.map(|memory| memory.own_to_move(way.from, way.to));
    let limit = match (known, room(seen, way.to)) {
        (Some(known), _) if known < PAGE => return None,
        (_, Some(room)) if room < PAGE => return None,
        (Some(known), Some(room)) if room < known => room,
        // Nobody has looked at it yet: as much as fits, since a guard takes no limit for too much.
        (None, Some(room)) => room,
        _ => Action::NO_LIMIT,
    };
    Some(Action::MovePages { from: way.from, to: way.to, limit })
}

/// Nothing smaller moves.
pub(crate) const PAGE: Bytes = Bytes::from_kib(4);

/// What fits on a node; `None` when that is not known.
fn room(seen: &Snapshot<'_>, node: NodeId) -> Option<Bytes> {
    let node = seen.nodes.iter().find(|seen| seen.node == node)?;
    let total = u128::from(node.memory_total.unwrap_or_default().0);
    let reserve = u64::try_from(total * RESERVE_PERMILLE / 1000).unwrap_or(u64::MAX);
    let free = node.memory_free?.saturating_add(node.memory_reclaimable.unwrap_or_default());
    Some(free.saturating_sub(Bytes(reserve)))
}

/// Why memory goes along.
pub(crate) fn reason(way: Way, job: &JobView<'_>) -> Reason {
    let from = way.from.map_or("several nodes".to_owned(), |from| format!("node {}", from.0));
    let reason = Reason::new(ReasonCode::MemoryGoesAlong)
        .with("from", from)
        .with("to", format!("node {}", way.to.0));
    match job.memory {
        Some(memory) => reason.with("size", memory.own_to_move(way.from, way.to).to_string()),
        None => reason,
    }
}
