//! Where memory lies, and moves of it.

use base::{Bytes, JobId, Nanos, NodeId};
use sched::{
    Action, ActivePageMove, CompletedPageMove, FailedPages, NodeMemory, PageMoveEnd, ProcessMemory,
    Target,
};
use serde::{Deserialize, Serialize};

use super::basic::{TargetField, TaskField, task_in, task_out};
use super::is_default;
use crate::LineError;

/// Which pages go where: `{"from":0,"to":2,"limit_bytes":…}`; without `from` from everywhere else,
/// without a limit all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PagesField {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<u32>,
    pub to: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit_bytes: Option<u64>,
}

/// What lies where of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemoryLine {
    pub job: u32,
    pub process: TaskField,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub nodes: Vec<NodeMemoryField>,
    #[serde(skip_serializing_if = "is_whole", default = "whole")]
    pub looked_permille: u16,
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeMemoryField {
    pub node: u32,
    #[serde(skip_serializing_if = "is_default", default)]
    pub small_bytes: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub huge_bytes: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub file_bytes: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub shared_bytes: u64,
}

/// A move that is under way, in what went before a part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct UnderWayField {
    #[serde(flatten)]
    pub target: TargetField,
    #[serde(flatten)]
    pub pages: PagesField,
    pub since_ns: u64,
}

/// How a move ended. `of` is the job that the memory belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MovedLine {
    #[serde(flatten)]
    pub target: TargetField,
    pub of: u32,
    #[serde(flatten)]
    pub pages: PagesField,
    pub requested_bytes: u64,
    pub moved_bytes: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub refused: RefusedField,
    #[serde(skip_serializing_if = "is_default", default)]
    pub left_bytes: u64,
    pub took_ns: u64,
    pub in_kernel_ns: u64,
    pub stopped_by: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub detail: String,
}

/// Bytes by the kernel's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct RefusedField {
    #[serde(skip_serializing_if = "is_default")]
    pub busy: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub no_memory: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub not_there: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub not_permitted: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub elsewhere: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub gone: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub other: u64,
}

fn whole() -> u16 {
    1000
}

fn is_whole(permille: &u16) -> bool {
    *permille == whole()
}

/// From where, where to, at most how much.
pub(crate) type Pages = (Option<NodeId>, NodeId, Bytes);

impl From<Pages> for PagesField {
    fn from((from, to, limit): Pages) -> Self {
        let limit_bytes = (limit != Action::NO_LIMIT).then_some(limit.0);
        PagesField { from: from.map(|node| node.0), to: to.0, limit_bytes }
    }
}

impl From<PagesField> for Pages {
    fn from(field: PagesField) -> Self {
        let limit = field.limit_bytes.map_or(Action::NO_LIMIT, Bytes);
        (field.from.map(NodeId), NodeId(field.to), limit)
    }
}

impl From<&ProcessMemory> for MemoryLine {
    fn from(memory: &ProcessMemory) -> Self {
        MemoryLine {
            job: memory.job.0,
            process: task_out(memory.process),
            nodes: memory.nodes.iter().map(NodeMemoryField::from).collect(),
            looked_permille: memory.sampled_permille,
            at_ns: memory.at.0,
        }
    }
}

impl From<MemoryLine> for ProcessMemory {
    fn from(line: MemoryLine) -> Self {
        ProcessMemory {
            job: JobId(line.job),
            process: task_in(line.process),
            nodes: line.nodes.into_iter().map(NodeMemory::from).collect(),
            sampled_permille: line.looked_permille,
            at: Nanos(line.at_ns),
        }
    }
}

impl From<&NodeMemory> for NodeMemoryField {
    fn from(memory: &NodeMemory) -> Self {
        NodeMemoryField {
            node: memory.node.0,
            small_bytes: memory.small.0,
            huge_bytes: memory.huge.0,
            file_bytes: memory.file.0,
            shared_bytes: memory.shared.0,
        }
    }
}

impl From<NodeMemoryField> for NodeMemory {
    fn from(field: NodeMemoryField) -> Self {
        NodeMemory {
            node: NodeId(field.node),
            small: Bytes(field.small_bytes),
            huge: Bytes(field.huge_bytes),
            file: Bytes(field.file_bytes),
            shared: Bytes(field.shared_bytes),
        }
    }
}

impl From<&ActivePageMove> for UnderWayField {
    fn from(moving: &ActivePageMove) -> Self {
        UnderWayField {
            target: moving.target.into(),
            pages: (moving.from, moving.to, moving.limit).into(),
            since_ns: moving.since.0,
        }
    }
}

impl From<UnderWayField> for ActivePageMove {
    fn from(field: UnderWayField) -> Self {
        let (from, to, limit) = field.pages.into();
        ActivePageMove {
            target: field.target.into(),
            from,
            to,
            limit,
            since: Nanos(field.since_ns),
        }
    }
}

impl From<&CompletedPageMove> for MovedLine {
    fn from(moved: &CompletedPageMove) -> Self {
        MovedLine {
            target: moved.target.into(),
            of: moved.job.0,
            pages: (moved.from, moved.to, moved.limit).into(),
            requested_bytes: moved.requested.0,
            moved_bytes: moved.moved.0,
            refused: moved.failed.into(),
            left_bytes: moved.not_attempted.0,
            took_ns: moved.duration.0,
            in_kernel_ns: moved.in_kernel.0,
            stopped_by: moved.stopped_by.name().to_owned(),
            detail: moved.detail.clone(),
        }
    }
}

impl MovedLine {
    pub(crate) fn ended(self) -> Result<CompletedPageMove, LineError> {
        let stopped_by = PageMoveEnd::ALL.into_iter().find(|known| known.name() == self.stopped_by);
        let stopped_by = stopped_by.ok_or_else(|| {
            let found = format!("{:?}", self.stopped_by);
            LineError::value("stopped_by", found, "known way for a move to end")
        })?;
        let (from, to, limit) = self.pages.into();
        Ok(CompletedPageMove {
            target: Target::from(self.target),
            job: JobId(self.of),
            from,
            to,
            limit,
            requested: Bytes(self.requested_bytes),
            moved: Bytes(self.moved_bytes),
            failed: self.refused.into(),
            not_attempted: Bytes(self.left_bytes),
            duration: Nanos(self.took_ns),
            in_kernel: Nanos(self.in_kernel_ns),
            stopped_by,
            detail: self.detail,
        })
    }
}

impl From<FailedPages> for RefusedField {
    fn from(refused: FailedPages) -> Self {
        RefusedField {
            busy: refused.busy.0,
            no_memory: refused.no_memory.0,
            not_there: refused.not_present.0,
            not_permitted: refused.not_permitted.0,
            elsewhere: refused.elsewhere.0,
            gone: refused.exited.0,
            other: refused.other.0,
        }
    }
}

impl From<RefusedField> for FailedPages {
    fn from(field: RefusedField) -> Self {
        FailedPages {
            busy: Bytes(field.busy),
            no_memory: Bytes(field.no_memory),
            not_present: Bytes(field.not_there),
            not_permitted: Bytes(field.not_permitted),
            elsewhere: Bytes(field.elsewhere),
            exited: Bytes(field.gone),
            other: Bytes(field.other),
        }
    }
}
