//! Who is left alone although chosen, and why.

use std::fmt;

/// Why a process is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftAlone {
    /// It is part of the kernel.
    KernelThread,
    /// It is the first process of the system.
    FirstProcess,
    /// It is this evenkeel.
    Ourselves,
    /// Another evenkeel started it or placed it.
    OtherEvenkeel,
    /// Its name is excluded.
    ExcludedName,
    /// Its user is excluded.
    ExcludedUser,
    /// Its cgroup is excluded.
    ExcludedCgroup,
    /// FIFO, RR or DEADLINE: somebody has planned its times.
    RealTime,
    /// An affinity or a cpuset that is not what processes here have.
    OwnAffinity,
    /// It said itself where its memory is to come from: that memory is left alone, while its threads
    /// are placed like those of others.
    OwnMemoryPolicy,
    /// The kernel does not let us change it.
    NotPermitted,
}

impl LeftAlone {
    /// All.
    pub const ALL: &[LeftAlone] = &[
        LeftAlone::KernelThread,
        LeftAlone::FirstProcess,
        LeftAlone::Ourselves,
        LeftAlone::OtherEvenkeel,
        LeftAlone::ExcludedName,
        LeftAlone::ExcludedUser,
        LeftAlone::ExcludedCgroup,
        LeftAlone::RealTime,
        LeftAlone::OwnAffinity,
        LeftAlone::OwnMemoryPolicy,
        LeftAlone::NotPermitted,
    ];

    /// The name in status files.
    pub fn name(self) -> &'static str {
        match self {
            LeftAlone::KernelThread => "kernel-thread",
            LeftAlone::FirstProcess => "first-process",
            LeftAlone::Ourselves => "ourselves",
            LeftAlone::OtherEvenkeel => "other-evenkeel",
            LeftAlone::ExcludedName => "excluded-name",
            LeftAlone::ExcludedUser => "excluded-user",
            LeftAlone::ExcludedCgroup => "excluded-cgroup",
            LeftAlone::RealTime => "real-time",
            LeftAlone::OwnAffinity => "own-affinity",
            LeftAlone::OwnMemoryPolicy => "own-memory-policy",
            LeftAlone::NotPermitted => "not-permitted",
        }
    }
}

impl fmt::Display for LeftAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftAlone::KernelThread => "part of the kernel",
            LeftAlone::FirstProcess => "the first process of the system",
            LeftAlone::Ourselves => "this evenkeel itself",
            LeftAlone::OtherEvenkeel => "another evenkeel's",
            LeftAlone::ExcludedName => "its name is excluded",
            LeftAlone::ExcludedUser => "its user is excluded",
            LeftAlone::ExcludedCgroup => "its cgroup is excluded",
            LeftAlone::RealTime => "it has a real-time or deadline class",
            LeftAlone::OwnAffinity => "it has an affinity or cpuset of its own",
            LeftAlone::OwnMemoryPolicy => {
                "it has a memory policy of its own, so its memory stays where it is"
            }
            LeftAlone::NotPermitted => "the kernel does not permit it (needs CAP_SYS_NICE)",
        })
    }
}
