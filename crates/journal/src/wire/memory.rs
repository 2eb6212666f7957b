//! Memory per node, and page migrations.

use base::{Bytes, JobId, Nanos, NodeId};
use sched::{
    Action, ActivePageMove, CompletedPageMove, FailedPages, NodeMemory, PageMoveEnd, ProcessMemory,
    Target,
};
use serde::{Deserialize, Serialize};

use super::fields::{Encoded, TargetField, TaskField, fields_of, task_in, task_out};
use super::is_default;
use crate::LineError;

/// Source, target and limit of a page migration: `{"from":0,"to":2,"limit_bytes":…}`. Without `from`
/// the source is every other node; without `limit_bytes` there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PageMoveField {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<u32>,
    pub to: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit_bytes: Option<u64>,
}

/// Memory of one process per node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessMemoryLine {
    pub job: u32,
    pub process: TaskField,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub nodes: Vec<NodeMemoryField>,
    #[serde(skip_serializing_if = "is_complete", default = "complete")]
    pub sampled_permille: u16,
    pub at_ns: u64,
}

fields_of! {
    NodeMemoryField for NodeMemory {
        node: u32 = node,
        #[serde(skip_serializing_if = "is_default", default)]
        small_bytes: u64 = small,
        #[serde(skip_serializing_if = "is_default", default)]
        huge_bytes: u64 = huge,
        #[serde(skip_serializing_if = "is_default", default)]
        file_bytes: u64 = file,
        #[serde(skip_serializing_if = "is_default", default)]
        shared_bytes: u64 = shared,
    }
}

/// A page migration in progress, in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ActivePageMoveField {
    #[serde(flatten)]
    pub target: TargetField,
    #[serde(flatten)]
    pub pages: PageMoveField,
    pub since_ns: u64,
}

/// A completed page migration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompletedPageMoveLine {
    #[serde(flatten)]
    pub target: TargetField,
    /// The job that owns the memory.
    pub owner: u32,
    #[serde(flatten)]
    pub pages: PageMoveField,
    pub requested_bytes: u64,
    pub moved_bytes: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub failed: FailedPagesField,
    #[serde(skip_serializing_if = "is_default", default)]
    pub not_attempted_bytes: u64,
    pub duration_ns: u64,
    pub in_kernel_ns: u64,
    pub stopped_by: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub detail: String,
}

fields_of! {
    /// Bytes that were not moved, by the result that the kernel reported.
    #[derive(Default)]
    #[serde(rename_all = "kebab-case", default)]
    FailedPagesField for FailedPages {
        #[serde(skip_serializing_if = "is_default")]
        busy: u64 = busy,
        #[serde(skip_serializing_if = "is_default")]
        no_memory: u64 = no_memory,
        #[serde(skip_serializing_if = "is_default")]
        not_present: u64 = not_present,
        #[serde(skip_serializing_if = "is_default")]
        not_permitted: u64 = not_permitted,
        #[serde(skip_serializing_if = "is_default")]
        elsewhere: u64 = elsewhere,
        #[serde(skip_serializing_if = "is_default")]
        exited: u64 = exited,
        #[serde(skip_serializing_if = "is_default")]
        other: u64 = other,
    }
}

fn complete() -> u16 {
    1000
}

fn is_complete(permille: &u16) -> bool {
    *permille == complete()
}

/// Source, target and limit.
pub(crate) type PageMoveParts = (Option<NodeId>, NodeId, Bytes);

impl From<PageMoveParts> for PageMoveField {
    fn from((from, to, limit): PageMoveParts) -> Self {
        let limit_bytes = (limit != Action::NO_LIMIT).then_some(limit.0);
        PageMoveField { from: from.map(|node| node.0), to: to.0, limit_bytes }
    }
}

impl From<PageMoveField> for PageMoveParts {
    fn from(field: PageMoveField) -> Self {
        let limit = field.limit_bytes.map_or(Action::NO_LIMIT, Bytes);
        (field.from.map(NodeId), NodeId(field.to), limit)
    }
}

impl From<&ProcessMemory> for ProcessMemoryLine {
    fn from(memory: &ProcessMemory) -> Self {
        ProcessMemoryLine {
            job: memory.job.0,
            process: task_out(memory.process),
            nodes: memory.nodes.iter().map(Encoded::encode).collect(),
            sampled_permille: memory.sampled_permille,
            at_ns: memory.at.0,
        }
    }
}

impl From<ProcessMemoryLine> for ProcessMemory {
    fn from(line: ProcessMemoryLine) -> Self {
        ProcessMemory {
            job: JobId(line.job),
            process: task_in(line.process),
            nodes: line.nodes.into_iter().map(Encoded::decode).collect(),
            sampled_permille: line.sampled_permille,
            at: Nanos(line.at_ns),
        }
    }
}

impl From<&ActivePageMove> for ActivePageMoveField {
    fn from(active: &ActivePageMove) -> Self {
        ActivePageMoveField {
            target: active.target.into(),
            pages: (active.from, active.to, active.limit).into(),
            since_ns: active.since.0,
        }
    }
}

impl From<ActivePageMoveField> for ActivePageMove {
    fn from(field: ActivePageMoveField) -> Self {
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

impl From<&CompletedPageMove> for CompletedPageMoveLine {
    fn from(moved: &CompletedPageMove) -> Self {
        CompletedPageMoveLine {
            target: moved.target.into(),
            owner: moved.job.0,
            pages: (moved.from, moved.to, moved.limit).into(),
            requested_bytes: moved.requested.0,
            moved_bytes: moved.moved.0,
            failed: moved.failed.encode(),
            not_attempted_bytes: moved.not_attempted.0,
            duration_ns: moved.duration.0,
            in_kernel_ns: moved.in_kernel.0,
            stopped_by: moved.stopped_by.name().to_owned(),
            detail: moved.detail.clone(),
        }
    }
}

impl CompletedPageMoveLine {
    pub(crate) fn completed(self) -> Result<CompletedPageMove, LineError> {
        let stopped_by = PageMoveEnd::ALL.into_iter().find(|known| known.name() == self.stopped_by);
        let stopped_by = stopped_by.ok_or_else(|| {
            let found = format!("{:?}", self.stopped_by);
            LineError::value("stopped_by", found, "a known end of a page migration")
        })?;
        let (from, to, limit) = self.pages.into();
        Ok(CompletedPageMove {
            target: Target::from(self.target),
            job: JobId(self.owner),
            from,
            to,
            limit,
            requested: Bytes(self.requested_bytes),
            moved: Bytes(self.moved_bytes),
            failed: Encoded::decode(self.failed),
            not_attempted: Bytes(self.not_attempted_bytes),
            duration: Nanos(self.duration_ns),
            in_kernel: Nanos(self.in_kernel_ns),
            stopped_by,
            detail: self.detail,
        })
    }
}
