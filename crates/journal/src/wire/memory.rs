//! Memory per node, and page migrations.

use base::Bytes;
use sched::{
    Action, ActivePageMigration, CompletedPageMigration, FailedPages, NodeMemory, ProcessMemory,
    ReasonCode,
};

use super::fields::{Encoded, Name, TargetField, TaskField, line_types};
use crate::LineError;

line_types! {
    /// Memory of one process per node.
    ProcessMemoryLine for ProcessMemory {
        job: u32 = job,
        process: TaskField = process,
        nodes?: Vec<NodeMemoryField> = nodes,
        #[serde(skip_serializing_if = "is_complete", default = "complete")]
        sampled_permille: u16 = sampled_permille,
        at_ns: u64 = at,
    }

    NodeMemoryField for NodeMemory {
        node: u32 = node,
        small_bytes?: u64 = small,
        huge_bytes?: u64 = huge,
        file_bytes?: u64 = file,
        shared_bytes?: u64 = shared,
    }

    /// A page migration in progress, in a checkpoint. Without `from`, all nodes except the target are sources. Without
    /// `limit_bytes` there is no limit.
    ActivePageMigrationField for ActivePageMigration {
        flatten target: TargetField = target,
        from?: Option<u32> = from,
        to: u32 = to,
        limit_bytes?: Option<u64> = limit,
        since_ns: u64 = since,
    }

    /// A completed page migration. `owner` is the job that owns the memory.
    CompletedPageMigrationLine for CompletedPageMigration {
        flatten target: TargetField = target,
        owner: u32 = job,
        from?: Option<u32> = from,
        to: u32 = to,
        limit_bytes?: Option<u64> = limit,
        requested_bytes: u64 = requested,
        moved_bytes: u64 = moved,
        failed?: FailedPagesField = failed,
        not_attempted_bytes?: u64 = not_attempted,
        duration_ns: u64 = duration,
        in_kernel_ns: u64 = in_kernel,
        stopped_by: Name = stopped_by,
        detail?: String = detail,
    }

    /// Bytes that were not moved, by the result that the kernel reported.
    #[derive(Default)]
    #[serde(rename_all = "kebab-case")]
    FailedPagesField for FailedPages {
        busy?: u64 = busy,
        no_memory?: u64 = no_memory,
        not_present?: u64 = not_present,
        not_permitted?: u64 = not_permitted,
        elsewhere?: u64 = elsewhere,
        exited?: u64 = exited,
        other?: u64 = other,
    }
}

fn complete() -> u16 {
    1000
}

fn is_complete(permille: &u16) -> bool {
    *permille == complete()
}

/// Encoding of the limit of a page migration. No limit is encoded as an absent field.
impl Encoded<Option<u64>> for Bytes {
    fn encode(&self) -> Option<u64> {
        (*self != Action::NO_LIMIT).then_some(self.0)
    }
    fn decode(field: Option<u64>, _: &[ReasonCode]) -> Result<Self, LineError> {
        Ok(field.map_or(Action::NO_LIMIT, Bytes))
    }
}
