//! What a report keeps of one job beyond where it is in its life.

use std::collections::BTreeMap;

use base::{Bytes, CpuSet, Nanos, TaskId};
use sched::{
    Action, Counters, JobExit, JobMemory, Measured, ProcessMemory, Reason, Request, UnmanagedCause,
};

use super::timeline::Timeline;

/// One job.
#[derive(Debug)]
pub(crate) struct Track {
    pub timeline: Timeline,
    /// The first time.
    pub started: Option<Nanos>,
    /// How it was started, the last time.
    pub start: Start,
    /// Whoever left it alone once did so for a reason that people should know, though it may have been
    /// started again since.
    pub hands_off: Option<UnmanagedCause>,
    pub used: Option<Used>,
    /// What was counted of it, in all its starts or while it was watched.
    pub counters: Counters,
    /// Where its memory lay when that was looked at last.
    pub memory: Option<JobMemory>,
    processes: BTreeMap<TaskId, ProcessMemory>,
}

/// Where a job was started, and by which wish.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    pub cpus: Option<CpuSet>,
    pub wish: Option<Wish>,
}

/// What was asked for and why; in a replay, by the policy that decided again.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub action: Action,
    pub reason: Reason,
}

/// What a job used, all its starts together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub wall: Nanos,
    pub user: Nanos,
    pub system: Nanos,
    pub wait: Sum,
    pub n_migrations: Sum,
    pub traffic: Sum,
    pub max_resident: Bytes,
    pub n_left_behind: u64,
}

/// A sum of which something is known, and whether all of it was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub value: Option<u64>,
    pub is_estimate: bool,
}

impl Track {
    /// A timeline of so many stretches at most.
    pub fn new(room: usize) -> Self {
        Track {
            timeline: Timeline::new(room),
            started: None,
            start: Start::default(),
            hands_off: None,
            used: None,
            counters: Counters::NONE,
            memory: None,
            processes: BTreeMap::new(),
        }
    }

    /// Where the memory of one of its processes lies. What was seen last stays when all have ended.
    pub fn memory(&mut self, seen: &ProcessMemory) {
        match seen.nodes.is_empty() {
            true => self.processes.remove(&seen.process),
            false => self.processes.insert(seen.process, seen.clone()),
        };
        self.memory = JobMemory::of(self.processes.values()).or(self.memory.take());
    }

    /// A process ended.
    pub fn process_gone(&mut self, process: TaskId) {
        self.processes.remove(&process);
    }

    pub fn end(&mut self, at: Nanos, end: &JobExit) {
        self.timeline.end(at);
        self.processes.clear();
        self.used.get_or_insert_default().add(end);
        self.counters = self.counters.plus(&end.counters);
    }

    /// It is watched no longer. What it used nobody is told but what was counted.
    pub fn leave(&mut self, at: Nanos, counted: &Counters) {
        self.timeline.end(at);
        self.counters = self.counters.plus(counted);
    }
}

impl Wish {
    /// The CPUs that were asked for, if CPUs were.
    pub fn cpus(&self) -> Option<&CpuSet> {
        match &self.action {
            Action::Place(cpus) => Some(cpus),
            Action::MemoryPolicy(_) | Action::Release | Action::MovePages { .. } => None,
        }
    }
}

impl From<&Request> for Wish {
    fn from(ask: &Request) -> Self {
        Wish { action: ask.action.clone(), reason: Reason::clone(&ask.reason) }
    }
}

impl Used {
    pub fn add(&mut self, end: &JobExit) {
        self.wall = self.wall.saturating_add(end.wall);
        self.user = self.user.saturating_add(end.user);
        self.system = self.system.saturating_add(end.system);
        self.wait.add(end.wait);
        self.n_migrations.add(end.n_migrations);
        self.traffic.add(end.traffic);
        self.max_resident = self.max_resident.max(end.max_resident);
        self.n_left_behind += u64::from(end.n_orphans);
    }
}

impl Sum {
    fn add(&mut self, more: Measured) {
        if let Some(value) = more.value() {
            self.value = Some(self.value.unwrap_or(0).saturating_add(value));
        }
        self.is_estimate |= matches!(more, Measured::Scaled { .. });
    }
}
