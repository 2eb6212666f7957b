//! Where memory lies, and what became of moves of it.
//!
//! A move is begun and not waited for: somebody beside the loop carries it out, a batch of pages
//! at a time, and a later sample tells how it ended. What the kernel says it moved is not believed;
//! pages are looked for afterwards, and what is on the target then has been moved.
//!
//! ```text
//!   wish ─► guard ─► begun ─ ─ ─ batches ─ ─ ─ ended: requested = moved + refused + left
//!                      │                          │
//!                 JobSeen::moving            JobSeen::moved
//! ```
//!
//! Amounts are bytes, whole pages of them. A huge page counts whole, since it moves whole.

use base::{Bytes, JobId, Nanos, NodeId, TaskId};

use crate::Target;

/// Where the memory of one process lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// The job that it belongs to.
    pub job: JobId,
    /// Its first task.
    pub process: TaskId,
    /// By node, rising; nodes that hold nothing of it are left out. Empty: it has none any more.
    pub nodes: Vec<NodeMemory>,
    /// How much of it was looked at, in thousandths. Below 1000 the figures are scaled up from a
    /// sample of its mappings.
    pub sampled_permille: u16,
    /// When.
    pub at: Nanos,
}

/// What lies on one node. The four do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// Which.
    pub node: NodeId,
    /// Its own memory (anonymous, mapped by no other process) in pages of the ordinary size.
    pub small: Bytes,
    /// Its own memory in mappings that hold huge pages, transparent ones or reserved.
    pub huge: Bytes,
    /// Pages of files.
    pub file: Bytes,
    /// Memory shared with other processes.
    pub shared: Bytes,
}

impl NodeMemory {
    /// All four.
    pub fn total(&self) -> Bytes {
        sum([self.small, self.huge, self.file, self.shared])
    }

    fn add(&mut self, more: &NodeMemory) {
        self.small = self.small.saturating_add(more.small);
        self.huge = self.huge.saturating_add(more.huge);
        self.file = self.file.saturating_add(more.file);
        self.shared = self.shared.saturating_add(more.shared);
    }

    /// What a move takes along: what is its own.
    pub fn own(&self) -> Bytes {
        self.small.saturating_add(self.huge)
    }
}

/// Where the memory of a job lies: the sum over its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobMemory {
    /// By node, rising.
    pub nodes: Vec<NodeMemory>,
    /// The least of it that was looked at of one of its processes, in thousandths.
    pub sampled_permille: u16,
    /// How many processes it was looked at of.
    pub n_processes: u32,
    /// When the one of them was looked at that was not looked at for longest.
    pub at: Nanos,
}

impl JobMemory {
    /// The sum over some processes; `None` over none.
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
        for more in &memory.nodes {
            let at = self.nodes.partition_point(|known| known.node < more.node);
            if self.nodes.get(at).is_none_or(|known| known.node != more.node) {
                self.nodes.insert(at, NodeMemory { node: more.node, ..NodeMemory::default() });
            }
            self.nodes[at].add(more);
        }
    }

    /// What lies on a node.
    pub fn on(&self, node: NodeId) -> NodeMemory {
        let found = self.nodes.iter().find(|memory| memory.node == node);
        found.copied().unwrap_or(NodeMemory { node, ..NodeMemory::default() })
    }

    /// All of it.
    pub fn total(&self) -> Bytes {
        sum(self.nodes.iter().map(NodeMemory::total))
    }

    /// Its own memory, wherever it lies: what moves take along.
    pub fn own(&self) -> Bytes {
        sum(self.nodes.iter().map(NodeMemory::own))
    }

    /// Its own memory that a move to a node would take along: that of one node, or of all others.
    pub fn own_to_move(&self, from: Option<NodeId>, to: NodeId) -> Bytes {
        let leaves = |node: NodeId| node != to && from.is_none_or(|from| from == node);
        sum(self.nodes.iter().filter(|memory| leaves(memory.node)).map(NodeMemory::own))
    }

    /// The node that holds most of its own memory, the lowest of equals; `None` without any.
    pub fn home(&self) -> Option<NodeId> {
        let holding = self.nodes.iter().filter(|memory| memory.own() != Bytes::ZERO);
        holding.min_by_key(|memory| (std::cmp::Reverse(memory.own()), memory.node)).map(|m| m.node)
    }
}

/// A move that was begun and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivePageMove {
    /// Whose memory.
    pub target: Target,
    /// From where; `None`: from everywhere else.
    pub from: Option<NodeId>,
    /// Where to.
    pub to: NodeId,
    /// At most this much.
    pub limit: Bytes,
    /// When it was begun.
    pub since: Nanos,
}

/// How a move ended. `requested` = `moved` + `refused` + `left`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPageMove {
    /// Whose memory.
    pub target: Target,
    /// The job that it belongs to.
    pub job: JobId,
    /// From where; `None`: from everywhere else.
    pub from: Option<NodeId>,
    /// Where to.
    pub to: NodeId,
    /// At most this much was to be moved.
    pub limit: Bytes,
    /// What was found to be moved, within the limit.
    pub requested: Bytes,
    /// What of that was found on the target afterwards.
    pub moved: Bytes,
    /// What of that the kernel was asked for in vain.
    pub failed: FailedPages,
    /// What of that the kernel was not asked for, since the move stopped before.
    pub not_attempted: Bytes,
    /// From its beginning to its end, pauses included.
    pub duration: Nanos,
    /// Of that, inside the calls that move pages.
    pub in_kernel: Nanos,
    /// Why it ended.
    pub stopped_by: PageMoveEnd,
    /// What went wrong, in words; empty when nothing did.
    pub detail: String,
}

/// What was asked for in vain, by the kernel's answer for each page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedPages {
    /// In use by somebody at that moment (`EBUSY`).
    pub busy: Bytes,
    /// The target had no memory left (`ENOMEM`).
    pub no_memory: Bytes,
    /// No page there any more (`ENOENT`, `EFAULT`): given back, or swapped out.
    pub not_present: Bytes,
    /// Mapped by several processes (`EACCES`), or not permitted (`EPERM`).
    pub not_permitted: Bytes,
    /// Said to be moved, and found on another node afterwards.
    pub elsewhere: Bytes,
    /// Its process was gone before the pages could be looked for.
    pub exited: Bytes,
    /// Any other answer.
    pub other: Bytes,
}

impl FailedPages {
    /// All of them.
    pub fn total(&self) -> Bytes {
        sum(self.named().map(|(_, bytes)| bytes))
    }

    /// Each with its name in journals and reports.
    pub fn named(&self) -> [(&'static str, Bytes); 7] {
        [
            ("busy", self.busy),
            ("no-memory", self.no_memory),
            ("not-there", self.not_present),
            ("not-permitted", self.not_permitted),
            ("elsewhere", self.elsewhere),
            ("gone", self.exited),
            ("other", self.other),
        ]
    }
}

/// Why a move ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageMoveEnd {
    /// Everything that was to be moved was asked for.
    Done,
    /// As much as its limit allows was asked for, and there was more.
    Limit,
    /// It took longer than a move may take.
    Budget,
    /// The target filled up.
    Full,
    /// Its processes ended, or became other programs.
    Exited,
    /// The run or the job is being stopped.
    Stopped,
    /// The kernel refused the whole call.
    Error,
}

impl PageMoveEnd {
    /// All.
    pub const ALL: [PageMoveEnd; 7] = [
        PageMoveEnd::Done,
        PageMoveEnd::Limit,
        PageMoveEnd::Budget,
        PageMoveEnd::Full,
        PageMoveEnd::Exited,
        PageMoveEnd::Stopped,
        PageMoveEnd::Error,
    ];

    /// The name in journals and reports.
    pub fn name(self) -> &'static str {
        match self {
            PageMoveEnd::Done => "done",
            PageMoveEnd::Limit => "limit",
            PageMoveEnd::Budget => "budget",
            PageMoveEnd::Full => "full",
            PageMoveEnd::Exited => "ended",
            PageMoveEnd::Stopped => "stopped",
            PageMoveEnd::Error => "error",
        }
    }
}

/// What others tell may be any number.
fn sum(sizes: impl IntoIterator<Item = Bytes>) -> Bytes {
    sizes.into_iter().fold(Bytes::ZERO, Bytes::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lies(node: u32, small_mib: u64, huge_mib: u64) -> NodeMemory {
        NodeMemory {
            node: NodeId(node),
            small: Bytes::from_mib(small_mib),
            huge: Bytes::from_mib(huge_mib),
            file: Bytes::from_mib(100),
            shared: Bytes::ZERO,
        }
    }

    #[test]
    fn the_home_is_where_most_of_its_own_memory_lies_and_the_lowest_of_equals() {
        let home = |nodes: &[NodeMemory]| {
            JobMemory { nodes: nodes.to_vec(), ..JobMemory::default() }.home().map(|node| node.0)
        };
        assert_eq!(home(&[lies(0, 1, 0), lies(1, 0, 2)]), Some(1));
        assert_eq!(home(&[lies(0, 2, 0), lies(1, 0, 2)]), Some(0));
        assert_eq!(home(&[lies(0, 0, 0)]), None, "files alone make no home");
    }

    #[test]
    fn a_move_takes_along_what_is_its_own_on_the_nodes_that_it_leaves() {
        let nodes = vec![lies(0, 1, 2), lies(1, 4, 0), lies(2, 8, 0)];
        let memory = JobMemory { nodes, ..JobMemory::default() };
        let mib = |from: Option<u32>, to| memory.own_to_move(from.map(NodeId), NodeId(to)).0 >> 20;
        assert_eq!(mib(None, 2), 7);
        assert_eq!(mib(Some(0), 2), 3);
        assert_eq!(mib(Some(2), 2), 0);
    }
}
