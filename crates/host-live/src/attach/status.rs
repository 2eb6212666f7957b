//! The status of a watch: managed processes, changes, excluded processes with reasons.

use std::collections::BTreeMap;
use std::fmt;

use base::{CpuSet, JobId, Nanos};

use crate::session::memory::OWN_POLICY;

/// Limit of examples per exclusion reason.
const EXAMPLES: usize = 4;

/// The status of a watch at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchStatus {
    /// Source of new processes: `events`, `cgroups` or `pids`.
    pub discovery: String,
    /// Known processes, selected or not.
    pub n_known: u64,
    /// Selected processes that are neither excluded nor busy.
    pub n_idle: u64,
    /// Busy processes, which are jobs.
    pub managed: Vec<ManagedProcess>,
    /// Selected processes that are excluded.
    pub excluded: BTreeMap<ExclusionReason, ExcludedProcesses>,
    /// Child processes that inherited an assigned mask and are not jobs.
    pub n_inherited: u64,
    /// The CPUs that programs are placed on.
    pub targets: CpuSet,
    /// The CPUs that programs would be placed on if evenkeel could use all CPUs that are online and not isolated.
    pub all_targets: CpuSet,
}

/// A managed process.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedProcess {
    /// Id of the job.
    pub job: JobId,
    /// Name of the process.
    pub name: String,
    /// PID of the process.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot.
    pub start_time_ticks: u64,
    /// Time at which the process became a job.
    pub since: Nanos,
    /// Affinity before the first placement.
    pub before: CpuSet,
    /// Affinity that evenkeel set.
    pub placed: Option<CpuSet>,
    /// Whether another program changed the affinity, or the kernel rejected a change.
    pub is_unmanaged: bool,
}

/// Processes that are excluded for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcludedProcesses {
    /// Number of the processes.
    pub n: u64,
    /// PID and name of some of the processes.
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

/// The reason why a selected process is not managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExclusionReason {
    /// A kernel thread.
    KernelThread,
    /// The init process.
    FirstProcess,
    /// This evenkeel process.
    EvenkeelItself,
    /// Another evenkeel started the process.
    OtherEvenkeel,
    /// Only a name, a command line or `--all` selects the process, and it belongs to another user.
    OtherUser,
    /// The name or the command line of the process is excluded.
    ExcludedName,
    /// The user of the process is excluded.
    ExcludedUser,
    /// The cgroup of the process is excluded.
    ExcludedCgroup,
    /// The process has a real-time or deadline class (FIFO, RR, DEADLINE).
    RealTime,
    /// The affinity or cpuset of the process differs from that of the init process.
    OwnAffinity,
    /// The process set a memory policy. The pages of the process do not migrate; its threads are placed.
    OwnMemoryPolicy,
    /// The kernel does not permit a change.
    NotPermitted,
}

impl ExclusionReason {
    /// All reasons.
    pub const ALL: &[ExclusionReason] = &[
        ExclusionReason::KernelThread,
        ExclusionReason::FirstProcess,
        ExclusionReason::EvenkeelItself,
        ExclusionReason::OtherEvenkeel,
        ExclusionReason::OtherUser,
        ExclusionReason::ExcludedName,
        ExclusionReason::ExcludedUser,
        ExclusionReason::ExcludedCgroup,
        ExclusionReason::RealTime,
        ExclusionReason::OwnAffinity,
        ExclusionReason::OwnMemoryPolicy,
        ExclusionReason::NotPermitted,
    ];

    /// Returns the name in status files.
    pub fn name(self) -> &'static str {
        self.name_and_text().0
    }

    fn name_and_text(self) -> (&'static str, &'static str) {
        match self {
            ExclusionReason::KernelThread => ("kernel-thread", "a kernel thread"),
            ExclusionReason::FirstProcess => ("first-process", "the init process"),
            ExclusionReason::EvenkeelItself => ("evenkeel-itself", "this evenkeel process"),
            ExclusionReason::OtherEvenkeel => ("other-evenkeel", "managed by another evenkeel"),
            ExclusionReason::OtherUser => {
                ("other-user", "it belongs to another user (select it with --all-users or --user)")
            }
            ExclusionReason::ExcludedName => ("excluded-name", "its name is excluded"),
            ExclusionReason::ExcludedUser => ("excluded-user", "its user is excluded"),
            ExclusionReason::ExcludedCgroup => ("excluded-cgroup", "its cgroup is excluded"),
            ExclusionReason::RealTime => ("real-time", "it has a real-time or deadline class"),
            ExclusionReason::OwnAffinity => ("own-affinity", "it has its own affinity or cpuset"),
            ExclusionReason::OwnMemoryPolicy => ("own-memory-policy", OWN_POLICY),
            ExclusionReason::NotPermitted => {
                ("not-permitted", "the kernel does not permit it (needs CAP_SYS_NICE)")
            }
        }
    }
}

impl fmt::Display for ExclusionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name_and_text().1)
    }
}
