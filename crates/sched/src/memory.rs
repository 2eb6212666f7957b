//! Memory of processes and jobs by node, and page migrations.
//!
//! The host migrates pages in batches, outside the loop of turns. A later sample reports the end of the migration.
//! After each batch the host queries the node of each page (move_pages(2) without a target). Only pages on the target
//! count as moved.
//!
//! ```text
//!   request ─► guard ─► started ─ ─ ─ batches ─ ─ ─ completed: requested = moved + failed + not_attempted
//!                        │                            │
//!              JobView::active_page_migration     JobView::last_page_migration
//! ```
//!
//! Amounts are bytes, in whole pages. A huge page counts with its full size, because it migrates as a whole.

use base::{Bytes, JobId, Nanos, NodeId, TaskId};

use crate::Target;

/// Memory of one process by node. Written by the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// The job of the process.
    pub job: JobId,
    /// The main thread of the process.
    pub process: TaskId,
    /// Memory per node, in the order of node ids. Nodes without memory of the process are omitted.
    pub nodes: Vec<NodeMemory>,
    /// Sampled share of the memory, in permille. Below 1000, the values are scaled up from a sample of the
    /// mappings.
    pub sampled_permille: u16,
    /// Time of the sample.
    pub at: Nanos,
}

/// Memory on one node. The four parts do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// The node.
    pub node: NodeId,
    /// Private memory (anonymous, mapped by one process) in pages of the base size.
    pub small: Bytes,
    /// Private memory in mappings with huge pages (transparent or hugetlb).
    pub huge: Bytes,
    /// File pages.
    pub file: Bytes,
    /// Memory shared with other processes.
    pub shared: Bytes,
}

impl NodeMemory {
    /// Returns the sum of the four parts.
    pub fn total(&self) -> Bytes {
        sum([self.small, self.huge, self.file, self.shared])
    }

    fn add(&mut self, other: &NodeMemory) {
        self.small = self.small.saturating_add(other.small);
        self.huge = self.huge.saturating_add(other.huge);
        self.file = self.file.saturating_add(other.file);
        self.shared = self.shared.saturating_add(other.shared);
    }

    /// Returns the private memory, which is the part that can migrate.
    pub fn private_bytes(&self) -> Bytes {
        self.small.saturating_add(self.huge)
    }
}

/// Memory of a job by node: the sum over its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobMemory {
    /// Memory per node, in the order of node ids.
    pub nodes: Vec<NodeMemory>,
    /// Smallest `sampled_permille` of the processes.
    pub sampled_permille: u16,
    /// Number of sampled processes.
    pub n_processes: u32,
    /// Time of the oldest sample.
    pub at: Nanos,
}

impl JobMemory {
    /// Returns the sum over processes; `None` if there is no process.
    pub fn of<'a>(processes: impl IntoIterator<Item = &'a ProcessMemory>) -> Option<JobMemory> {
        let mut sum: Option<JobMemory> = None;
        for memory in processes {
            let begin = || JobMemory { sampled_permille: 1000, at: memory.at, ..Self::default() };
            sum.get_or_insert_with(begin).add(memory);
        }
        sum
    }

    fn add(&mut self, memory: &ProcessMemory) {
        self.n_processes += 1;
        self.sampled_permille = self.sampled_permille.min(memory.sampled_permille);
        self.at = self.at.min(memory.at);
        for on_node in &memory.nodes {
            let at = self.nodes.partition_point(|known| known.node < on_node.node);
            if self.nodes.get(at).is_none_or(|known| known.node != on_node.node) {
                self.nodes.insert(at, NodeMemory { node: on_node.node, ..NodeMemory::default() });
            }
            self.nodes[at].add(on_node);
        }
    }

    /// Returns the memory on a node.
    pub fn on_node(&self, node: NodeId) -> NodeMemory {
        let found = self.nodes.iter().find(|memory| memory.node == node);
        found.copied().unwrap_or(NodeMemory { node, ..NodeMemory::default() })
    }

    /// Returns the memory on all nodes.
    pub fn total(&self) -> Bytes {
        sum(self.nodes.iter().map(NodeMemory::total))
    }

    /// Returns the mean of a value over the nodes, by their memory; `None` without memory.
    pub fn mean(&self, value: impl Fn(NodeId) -> f64) -> Option<f64> {
        let total = self.total().0 as f64;
        let parts = self.nodes.iter().map(|memory| memory.total().0 as f64 * value(memory.node));
        (total != 0.0).then(|| parts.sum::<f64>() / total)
    }

    /// Returns the private memory on all nodes.
    pub fn private_bytes(&self) -> Bytes {
        sum(self.nodes.iter().map(NodeMemory::private_bytes))
    }

    /// Returns the private memory that a migration to `to` would include: the memory on `from`, or, if `from` is
    /// `None`, the memory on all nodes except `to`.
    pub fn private_bytes_to_move(&self, from: Option<NodeId>, to: NodeId) -> Bytes {
        let is_source = |node: NodeId| node != to && from.is_none_or(|from| from == node);
        sum(self
            .nodes
            .iter()
            .filter(|memory| is_source(memory.node))
            .map(NodeMemory::private_bytes))
    }

    /// Returns the node with the most private memory; of several such nodes, the node with the lowest id. `None`
    /// without private memory.
    pub fn home(&self) -> Option<NodeId> {
        let with_memory = self.nodes.iter().filter(|memory| memory.private_bytes() != Bytes::ZERO);
        with_memory
            .min_by_key(|memory| (std::cmp::Reverse(memory.private_bytes()), memory.node))
            .map(|m| m.node)
    }
}

/// A page migration that has started and not completed. Written by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivePageMigration {
    /// The job, or a task of the process that owns the memory.
    pub target: Target,
    /// The source node; `None`: all nodes except `to`.
    pub from: Option<NodeId>,
    /// The target node.
    pub to: NodeId,
    /// Maximum number of bytes.
    pub limit: Bytes,
    /// Start of the migration.
    pub since: Nanos,
}

/// Result of a page migration. `requested` = `moved` + `failed` + `not_attempted`. Written by the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPageMigration {
    /// The job, or a task of the process that owns the memory.
    pub target: Target,
    /// The job of the target.
    pub job: JobId,
    /// The source node; `None`: all nodes except `to`.
    pub from: Option<NodeId>,
    /// The target node.
    pub to: NodeId,
    /// Maximum number of bytes.
    pub limit: Bytes,
    /// Bytes found on the source nodes, at most `limit`.
    pub requested: Bytes,
    /// Bytes of `requested` that were on the target node after the migration.
    pub moved: Bytes,
    /// Bytes that the kernel did not move.
    pub failed: FailedPages,
    /// Bytes that were not passed to the kernel, because the migration stopped earlier.
    pub not_attempted: Bytes,
    /// Time from start to end, pauses included.
    pub duration: Nanos,
    /// Time in the system calls that migrate pages.
    pub in_kernel: Nanos,
    /// Cause of the end.
    pub stopped_by: PageMigrationEnd,
    /// Error message; empty without an error.
    pub detail: String,
}

/// Bytes that did not migrate, by cause. Most causes are a status that the kernel returned for the
/// page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedPages {
    /// The page was in use (EBUSY).
    pub busy: Bytes,
    /// The target node had no free memory (ENOMEM).
    pub no_memory: Bytes,
    /// No page is mapped at the address (ENOENT, EFAULT): it was unmapped or swapped out.
    pub not_present: Bytes,
    /// The page is mapped by several processes (EACCES), or the migration is not permitted (EPERM).
    pub not_permitted: Bytes,
    /// The kernel reported success, but the page was on another node after the call.
    pub elsewhere: Bytes,
    /// The process exited before the nodes of the pages could be queried.
    pub exited: Bytes,
    /// Any other status.
    pub other: Bytes,
}

impl FailedPages {
    /// Returns the sum over all causes.
    pub fn total(&self) -> Bytes {
        sum(self.named().map(|(_, bytes)| bytes))
    }

    /// Returns the bytes of each cause, with the name of the cause in journals and reports.
    pub fn named(&self) -> [(&'static str, Bytes); 7] {
        [
            ("busy", self.busy),
            ("no-memory", self.no_memory),
            ("not-present", self.not_present),
            ("not-permitted", self.not_permitted),
            ("elsewhere", self.elsewhere),
            ("exited", self.exited),
            ("other", self.other),
        ]
    }
}

named_enum! {
    /// Cause of the end of a page migration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    PageMigrationEnd {
        /// Migration of all pages was attempted.
        Done "done",
        /// The limit was reached, and pages remained on the source nodes.
        Limit "limit",
        /// The maximum duration of a migration was reached.
        TimeLimit "time-limit",
        /// The target node has no free memory.
        Full "full",
        /// All processes of the target exited, or executed another program.
        Exited "exited",
        /// The run or the job is stopping.
        Stopped "stopped",
        /// The kernel returned an error for the whole call.
        Error "error",
    }
}

/// Computes a saturating sum, because sizes from journals may have any value.
fn sum(sizes: impl IntoIterator<Item = Bytes>) -> Bytes {
    sizes.into_iter().fold(Bytes::ZERO, Bytes::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory_on(node: u32, small_mib: u64, huge_mib: u64) -> NodeMemory {
        NodeMemory {
            node: NodeId(node),
            small: Bytes::from_mib(small_mib),
            huge: Bytes::from_mib(huge_mib),
            file: Bytes::from_mib(100),
            shared: Bytes::ZERO,
        }
    }

    #[test]
    fn the_home_node_has_the_most_private_memory_and_ties_break_by_the_lowest_id() {
        let home = |nodes: &[NodeMemory]| {
            JobMemory { nodes: nodes.to_vec(), ..JobMemory::default() }.home().map(|node| node.0)
        };
        assert_eq!(home(&[memory_on(0, 1, 0), memory_on(1, 0, 2)]), Some(1));
        assert_eq!(home(&[memory_on(0, 2, 0), memory_on(1, 0, 2)]), Some(0));
        assert_eq!(home(&[memory_on(0, 0, 0)]), None, "file pages do not count");
    }

    #[test]
    fn a_page_migration_includes_the_private_memory_of_its_source_nodes() {
        let nodes = vec![memory_on(0, 1, 2), memory_on(1, 4, 0), memory_on(2, 8, 0)];
        let memory = JobMemory { nodes, ..JobMemory::default() };
        let mib = |from: Option<u32>, to| {
            memory.private_bytes_to_move(from.map(NodeId), NodeId(to)).0 >> 20
        };
        assert_eq!(mib(None, 2), 7);
        assert_eq!(mib(Some(0), 2), 3);
        assert_eq!(mib(Some(2), 2), 0);
    }
}
