//! Signals outside of tasks: traffic of LLC domains and monitoring groups, pressure, times of CPUs.
//!
//! ```text
//!   LLC domain          bytes from memory, bytes from the local node, occupancy    resctrl
//!   monitoring group    these values for the tasks of one job                      resctrl
//!   system              time in which tasks waited for CPU, memory or I/O          PSI
//!   CPU                 time running, time waiting                                 schedstat
//! ```
//!
//! Samples (`…Sample`) are cumulative. Views (`…View`, `…Delta`) contain the delta of the last interval. Occupancy is
//! not cumulative: it is the value at the time of the sample.

use base::{Bytes, CpuId, JobId, LlcId, Nanos};

use crate::RawCounter;

/// Traffic of one LLC domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlcSample {
    /// The LLC domain.
    pub llc: LlcId,
    /// The resctrl counters of the LLC domain.
    pub traffic: Traffic,
}

/// Traffic of one job in one LLC domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonGroupSample {
    /// The job.
    pub job: JobId,
    /// The LLC domain.
    pub llc: LlcId,
    /// The resctrl counters of the job's monitoring group in the LLC domain.
    pub traffic: Traffic,
}

/// The resctrl counters of one LLC domain, of all tasks or of one monitoring group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes between the cache and all memory (`mbm_total_bytes`).
    pub total_bytes: Option<RawCounter>,
    /// Bytes between the cache and the memory of the cache's node (`mbm_local_bytes`).
    pub local_bytes: Option<RawCounter>,
    /// Occupancy of the cache (`llc_occupancy`).
    pub occupancy: Option<Bytes>,
}

/// Delta of a [`Traffic`] in the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficDelta {
    /// Bytes between the cache and all memory.
    pub total_bytes: Option<u64>,
    /// Bytes between the cache and the memory of the cache's node.
    pub local_bytes: Option<u64>,
    /// Occupancy of the cache.
    pub occupancy: Option<Bytes>,
}

/// Traffic of one LLC domain in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlcView {
    /// The LLC domain.
    pub llc: LlcId,
    /// The traffic of the LLC domain.
    pub traffic: TrafficDelta,
}

/// Traffic of one job in one LLC domain in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonGroupView {
    /// The job.
    pub job: JobId,
    /// The LLC domain.
    pub llc: LlcId,
    /// The traffic of the job in the LLC domain.
    pub traffic: TrafficDelta,
}

/// Stall times of one resource, cumulative or in the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallTimes {
    /// Time in which at least one task was stalled on the resource.
    pub some: Option<Nanos>,
    /// Time in which all non-idle tasks were stalled on the resource at the same time.
    pub full: Option<Nanos>,
}

/// Pressure stall information (PSI) of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Stalls on a CPU.
    pub cpu: StallTimes,
    /// Stalls on memory: reclaim, swap-in, refaults.
    pub memory: StallTimes,
    /// Stalls on I/O.
    pub io: StallTimes,
}

/// Run and wait time of a CPU (`/proc/schedstat`), cumulative or in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// The CPU.
    pub cpu: CpuId,
    /// Time in which a task was running on the CPU.
    pub run: Nanos,
    /// Time in which tasks were runnable on the CPU and not running, summed over the tasks.
    pub wait: Nanos,
}

impl StallTimes {
    /// Returns the delta since an earlier sample.
    pub fn since(self, earlier: StallTimes) -> StallTimes {
        let delta = |now: Option<Nanos>, before: Option<Nanos>| Some(now?.saturating_sub(before?));
        StallTimes { some: delta(self.some, earlier.some), full: delta(self.full, earlier.full) }
    }
}

impl Pressure {
    /// Returns the delta since an earlier sample.
    pub fn since(self, earlier: Pressure) -> Pressure {
        Pressure {
            cpu: self.cpu.since(earlier.cpu),
            memory: self.memory.since(earlier.memory),
            io: self.io.since(earlier.io),
        }
    }
}
