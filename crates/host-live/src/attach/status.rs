//! The status of a watch: managed processes, changes, excluded processes with reasons.

use std::collections::BTreeMap;

use base::{CpuSet, JobId, Nanos};

use super::exclusion::ExclusionReason;

/// Limit of examples per exclusion reason.
const EXAMPLES: usize = 4;

/// The status of a watch at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchStatus {
    /// How new processes are discovered: `events`, `groups` or `numbers`.
    pub discovery: String,
    /// Known processes, selected or not.
    pub n_known: u64,
    /// Selected processes that are neither excluded nor busy.
    pub n_idle: u64,
    /// Processes that are busy, and therefore jobs.
    pub managed: Vec<ManagedProcess>,
    /// Selected processes that are excluded.
    pub excluded: BTreeMap<ExclusionReason, ExcludedProcesses>,
    /// Idle processes that inherited an assigned mask.
    pub n_inherited: u64,
    /// The CPUs that programs are placed on.
    pub targets: CpuSet,
    /// The same if evenkeel could use all CPUs that are online and not isolated.
    pub all_targets: CpuSet,
}

/// A managed process.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedProcess {
    /// Its job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// Its PID.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub start_time_ticks: u64,
    /// When it became a job.
    pub since: Nanos,
    /// Its affinity before.
    pub before: CpuSet,
    /// Its affinity from evenkeel.
    pub placed: Option<CpuSet>,
    /// Another program changed its affinity, or the kernel does not permit a change.
    pub is_unmanaged: bool,
}

/// Processes that are excluded for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcludedProcesses {
    /// Their number.
    pub n: u64,
    /// PID and name of some of them.
    pub examples: Vec<(u32, String)>,
}

impl ExcludedProcesses {
    pub(super) fn add(&mut self, pid: u32, name: impl FnOnce() -> String) {
        self.n += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push((pid, name()));
        }
    }
}
