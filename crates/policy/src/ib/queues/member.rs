//! The entries of the queues.

use base::CpuSet;

use super::unit::Unit;
use crate::core_kinds::KindSet;

/// A job or thread in a queue.
#[derive(Clone, Debug)]
pub(in crate::ib) struct Member {
    pub unit: Unit,
    /// Integrated behaviour in millionths.
    pub ib: u64,
    /// Integrated behaviour at its start, in millionths.
    pub start: u64,
    /// Whether `ib` contains a counted phase.
    pub is_counted: bool,
    /// Order of arrival. Of equal jobs, the earlier one is nearer to the head.
    pub arrived: u64,
    /// Mean number of runnable tasks in the last interval, rounded up; as printed, the number of all tasks.
    pub n_tasks: u64,
    /// Kinds on which the job may run; at least one.
    pub possible: KindSet,
    /// The kinds of which the job may use some CPUs only, with these CPUs.
    pub restricted: Vec<(usize, CpuSet)>,
    /// Share of memory time of the job alone on the fastest kind.
    pub memory_share: f64,
    /// Share of its time alone on the fastest kind in which a task waits for a saturated memory controller, in
    /// millionths: while it does not run, others get its bandwidth.
    pub waiting: u64,
    /// LLC misses per millisecond of CPU time in the interval of the last reschedule for a phase; 0 before.
    pub misses_per_ms: u64,
    /// Remaining work of a thread, with `lrt` only.
    pub remaining: Option<u64>,
    /// The job came back from idle slower cores: for some time it migrates to them for a predicted gain only.
    pub is_held: bool,
    /// Co-scheduled in one of the last intervals: the thread does not migrate for balance.
    pub is_fixed: bool,
}

impl Member {
    /// Returns the CPUs of a kind that the job may use, if they are not all.
    pub(super) fn restricted_to(&self, kind: usize) -> Option<&CpuSet> {
        self.restricted.iter().find(|(of, _)| *of == kind).map(|(_, cpus)| cpus)
    }
}

/// A kind and a slower kind on which a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub fast: usize,
    pub slow: usize,
}

impl Pair {
    /// Returns the migration to the slower kind.
    pub fn down(self) -> Step {
        Step { from: self.fast, to: self.slow }
    }

    /// Returns the migration to the faster kind.
    pub fn up(self) -> Step {
        Step { from: self.slow, to: self.fast }
    }
}

/// A migration between the kinds of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ib) struct Step {
    pub from: usize,
    pub to: usize,
}

impl Step {
    /// Returns whether the migration is to a slower kind.
    pub fn is_down(self) -> bool {
        self.from < self.to
    }

    pub(super) fn pair(self) -> Pair {
        Pair { fast: self.from.min(self.to), slow: self.from.max(self.to) }
    }
}
