//! State of one job in addition to [`journal::JobProgress`]: timeline, usage, counters and memory.

use std::collections::BTreeMap;

use base::{Bytes, CpuSet, Nanos, TaskId};
use sched::{Action, Counters, JobExit, JobMemory, ProcessMemory, Reason, Request, UnmanagedCause};

use super::timeline::Timeline;

#[derive(Debug, Default)]
pub(crate) struct JobTrack {
    pub timeline: Timeline,
    /// Time of the first start.
    pub started: Option<Nanos>,
    /// CPUs of the last start.
    pub start_cpus: Option<CpuSet>,
    /// Request for the last start.
    pub start_request: Option<PlacementRequest>,
    /// Cause for which evenkeel stopped placing the job. A restart of the job does not reset the cause.
    pub unmanaged: Option<UnmanagedCause>,
    pub usage: Option<Usage>,
    /// Counters of all starts, or of the time in which the job was attached.
    pub counters: Counters,
    /// Memory per node at the last sample.
    pub memory: Option<JobMemory>,
    processes: BTreeMap<TaskId, ProcessMemory>,
}

/// A requested action with its reason. In a replay, the replayed policy made the request.
#[derive(Clone, Debug)]
pub(crate) struct PlacementRequest {
    pub action: Action,
    pub reason: Reason,
}

/// Resource usage of a job, summed over its starts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub wall: Nanos,
    pub user: Nanos,
    pub system: Nanos,
    pub wait: Option<Nanos>,
    pub blocked: Option<Nanos>,
    pub n_migrations: Option<u64>,
    pub traffic: Option<Bytes>,
    pub max_resident: Bytes,
    pub n_remaining: u64,
}

impl JobTrack {
    /// Creates a track with a timeline of at most `n_segments_max` segments.
    pub fn new(n_segments_max: usize) -> Self {
        JobTrack { timeline: Timeline::new(n_segments_max), ..JobTrack::default() }
    }

    /// Sets the memory of one process. When all processes of the job have ended, the last values remain.
    pub fn add_memory(&mut self, memory: &ProcessMemory) {
        match memory.nodes.is_empty() {
            true => self.processes.remove(&memory.process),
            false => self.processes.insert(memory.process, memory.clone()),
        };
        self.memory = JobMemory::of(self.processes.values()).or(self.memory.take());
    }

    pub fn process_exited(&mut self, process: TaskId) {
        self.processes.remove(&process);
    }

    pub fn end(&mut self, at: Nanos, exit: &JobExit) {
        self.timeline.end(at);
        self.processes.clear();
        self.usage.get_or_insert_default().add(exit);
        self.counters = self.counters.plus(&exit.counters);
    }

    /// Ends the track of an attached job. The counters of such a job are known, but not its usage.
    pub fn detach(&mut self, at: Nanos, counters: &Counters) {
        self.timeline.end(at);
        self.counters = self.counters.plus(counters);
    }
}

impl PlacementRequest {
    pub fn cpus(&self) -> Option<&CpuSet> {
        match &self.action {
            Action::Place(cpus) => Some(cpus),
            Action::MemoryPolicy(_) | Action::Release | Action::MovePages { .. } => None,
        }
    }
}

impl From<&Request> for PlacementRequest {
    fn from(request: &Request) -> Self {
        let (action, reason) = (request.action.clone(), Reason::clone(&request.reason));
        PlacementRequest { action, reason }
    }
}

impl Usage {
    fn add(&mut self, exit: &JobExit) {
        self.wall = self.wall.saturating_add(exit.wall);
        self.user = self.user.saturating_add(exit.user);
        self.system = self.system.saturating_add(exit.system);
        self.wait = sum(self.wait, exit.wait, Nanos::saturating_add);
        self.blocked = sum(self.blocked, exit.blocked, Nanos::saturating_add);
        self.n_migrations = sum(self.n_migrations, exit.n_migrations, u64::saturating_add);
        self.traffic =
            sum(self.traffic, exit.traffic, |one, other| Bytes(one.0.saturating_add(other.0)));
        self.max_resident = self.max_resident.max(exit.max_resident);
        self.n_remaining += u64::from(exit.n_remaining);
    }
}

/// Returns the sum of two values; an absent value is ignored.
fn sum<T>(one: Option<T>, other: Option<T>, add: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(add(one, other)),
        (one, other) => one.or(other),
    }
}
