//! What is measured around tasks: the traffic of caches and groups, pressure, and waiting on CPUs.
//!
//! ```text
//!   LLC domain    bytes from memory, those from its own node, what it holds     resctrl
//!   job           the same, of its monitoring group in each LLC domain          resctrl
//!   system        time in which work waited for CPU, memory, storage            PSI
//!   CPU           time run, and time waited for it                              schedstat
//! ```
//!
//! Samples are cumulative, since whenever the kernel began to count; what is seen is the growth of the
//! last interval. What a cache holds is no counter: it is as it was found.

use base::{Bytes, CpuId, JobId, LlcId, Nanos};

use crate::Measured;

/// The traffic of one LLC domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlcSample {
    /// Which.
    pub llc: LlcId,
    /// What resctrl counted there.
    pub traffic: Traffic,
}

/// What a job did in one LLC domain, by its monitoring group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonGroupSample {
    /// Which job.
    pub job: JobId,
    /// Where.
    pub llc: LlcId,
    /// What resctrl counted of it there.
    pub traffic: Traffic,
}

/// What resctrl counts in one LLC domain: of everybody, or of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes between the cache and all memory, cumulative.
    pub total_bytes: Measured,
    /// Bytes between the cache and the memory of its own node, cumulative.
    pub local_bytes: Measured,
    /// What the cache holds of theirs now.
    pub occupancy: Option<Bytes>,
}

/// The growth of a [`Traffic`] in the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficDelta {
    /// Bytes between the cache and all memory.
    pub total_bytes: Option<u64>,
    /// Bytes between the cache and the memory of its own node.
    pub local_bytes: Option<u64>,
    /// What the cache holds of theirs now.
    pub occupancy: Option<Bytes>,
}

/// An LLC domain in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlcView {
    /// Which.
    pub llc: LlcId,
    /// Its traffic.
    pub traffic: TrafficDelta,
}

/// A job in an LLC domain in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonGroupView {
    /// Which job.
    pub job: JobId,
    /// Where.
    pub llc: LlcId,
    /// Its traffic there.
    pub traffic: TrafficDelta,
}

/// Time in which work stood still for want of something, cumulative or in the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallTimes {
    /// In which at least one task waited.
    pub some: Option<Nanos>,
    /// In which all that were not idle waited.
    pub full: Option<Nanos>,
}

/// Pressure on the whole system (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// For a CPU.
    pub cpu: StallTimes,
    /// For memory: reclaim, swapping, pages read again.
    pub memory: StallTimes,
    /// For storage.
    pub io: StallTimes,
}

/// What the scheduler's books tell of a CPU, cumulative or in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// Which.
    pub cpu: CpuId,
    /// Time that tasks ran on it.
    pub ran: Nanos,
    /// Time that tasks were runnable on it and did not run.
    pub waited: Nanos,
}

impl StallTimes {
    /// Growth between two readings.
    pub fn since(self, earlier: StallTimes) -> StallTimes {
        let grown = |now: Option<Nanos>, before: Option<Nanos>| Some(now?.saturating_sub(before?));
        StallTimes { some: grown(self.some, earlier.some), full: grown(self.full, earlier.full) }
    }
}

impl Pressure {
    /// Growth between two readings.
    pub fn since(self, earlier: Pressure) -> Pressure {
        Pressure {
            cpu: self.cpu.since(earlier.cpu),
            memory: self.memory.since(earlier.memory),
            io: self.io.since(earlier.io),
        }
    }
}
