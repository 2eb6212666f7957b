//! Numbers of things. A bare integer never names a CPU, a node or a job.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index into a table that has an entry for every number.
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
    /// What the kernel schedules on; the kernel's own number, holes included.
    CpuId, "cpu"
}
id! {
    /// Memory and the CPUs near it; the kernel's own number, holes included.
    NodeId, "node"
}
id! {
    /// CPUs that share one last-level cache; numbered by us, by the lowest CPU in each.
    LlcId, "llc"
}
id! {
    /// A physical core; numbered by us, by the lowest CPU in each.
    CoreId, "core"
}
id! {
    /// One run of one line of a workload (each copy is a job of its own); numbered by us, in start order.
    JobId, "job"
}

/// Numbers that an [`crate::IdSet`] can hold.
pub trait SetId: Copy + From<u32> {
    /// The plain number.
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
/// Thread numbers are used again; together with the birth time they name one thread for as long as
/// the machine is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The kernel's thread number.
    pub tid: u32,
    /// When it was created, in clock ticks since boot (field 22 of `/proc/TID/stat`).
    pub start_time_ticks: u64,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task{}", self.tid)
    }
}
