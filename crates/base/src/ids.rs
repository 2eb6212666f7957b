//! Typed ids of CPUs, nodes, LLC domains, cores, jobs and tasks.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the id as an index into a table with one entry per id.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                Self(number)
            }
        }
    };
}

id! {
    /// A logical CPU, with the number that the kernel uses. Numbers can have gaps.
    CpuId, "cpu"
}
id! {
    /// A NUMA node, with the number that the kernel uses. Numbers can have gaps.
    NodeId, "node"
}
id! {
    /// An LLC domain: CPUs that share one last-level cache. evenkeel numbers the domains in the order of their lowest
    /// CPUs.
    LlcId, "llc"
}
id! {
    /// A physical core. evenkeel numbers the cores in the order of their lowest CPUs.
    CoreId, "core"
}
id! {
    /// A job of a workload, or a process of a watch. Each copy of a workload entry is a separate job. evenkeel numbers
    /// the jobs of a workload in the order of their start times.
    JobId, "job"
}

/// Type of the ids in a [`crate::IdSet`].
pub trait SetId: Copy + From<u32> {
    /// Returns the id as a number.
    fn number(self) -> u32;
}

impl SetId for CpuId {
    fn number(self) -> u32 {
        self.0
    }
}

impl SetId for NodeId {
    fn number(self) -> u32 {
        self.0
    }
}

/// A thread that the kernel schedules.
///
/// The kernel reuses thread ids. Together with the start time, a thread id is unique until the next reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// Thread id (TID) of the kernel.
    pub tid: u32,
    /// Start time in clock ticks since boot (field 22 of `/proc/TID/stat`).
    pub start_time_ticks: u64,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task{}", self.tid)
    }
}
