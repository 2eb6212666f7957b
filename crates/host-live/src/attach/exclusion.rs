//! Why a selected process is not managed.

use std::fmt;

use crate::session::memory::OWN_POLICY;

/// Why a selected process is not managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExclusionReason {
    /// A kernel thread.
    KernelThread,
    /// The init process.
    FirstProcess,
    /// This evenkeel.
    Ourselves,
    /// Another evenkeel started it or placed it.
    OtherEvenkeel,
    /// Its name is excluded.
    ExcludedName,
    /// Its user is excluded.
    ExcludedUser,
    /// Its cgroup is excluded.
    ExcludedCgroup,
    /// It has a real-time or deadline class (FIFO, RR, DEADLINE).
    RealTime,
    /// Its affinity or cpuset differs from that of the init process.
    OwnAffinity,
    /// It set a memory policy: its pages stay, and its threads are placed.
    OwnMemoryPolicy,
    /// The kernel does not permit a change.
    NotPermitted,
}

impl ExclusionReason {
    /// All reasons.
    pub const ALL: &[ExclusionReason] = &[
        ExclusionReason::KernelThread,
        ExclusionReason::FirstProcess,
        ExclusionReason::Ourselves,
        ExclusionReason::OtherEvenkeel,
        ExclusionReason::ExcludedName,
        ExclusionReason::ExcludedUser,
        ExclusionReason::ExcludedCgroup,
        ExclusionReason::RealTime,
        ExclusionReason::OwnAffinity,
        ExclusionReason::OwnMemoryPolicy,
        ExclusionReason::NotPermitted,
    ];

    /// The name in status files.
    pub fn name(self) -> &'static str {
        self.name_and_text().0
    }

    fn name_and_text(self) -> (&'static str, &'static str) {
        match self {
            ExclusionReason::KernelThread => ("kernel-thread", "a kernel thread"),
            ExclusionReason::FirstProcess => ("first-process", "the init process"),
            ExclusionReason::Ourselves => ("ourselves", "this evenkeel itself"),
            ExclusionReason::OtherEvenkeel => ("other-evenkeel", "managed by another evenkeel"),
            ExclusionReason::ExcludedName => ("excluded-name", "its name is excluded"),
            ExclusionReason::ExcludedUser => ("excluded-user", "its user is excluded"),
            ExclusionReason::ExcludedCgroup => ("excluded-cgroup", "its cgroup is excluded"),
            ExclusionReason::RealTime => ("real-time", "it has a real-time or deadline class"),
            ExclusionReason::OwnAffinity => {
                ("own-affinity", "it has an affinity or cpuset of its own")
            }
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
