//! Jobs and threads as the units that policies place.

use std::collections::BTreeMap;

use base::{JobId, TaskId};
use sched::Target;

use crate::core_kinds::KindJob;

/// A whole job, or one thread of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::ib) struct Unit {
    pub job: JobId,
    /// `None`: the whole job.
    pub thread: Option<TaskId>,
}

impl Unit {
    /// The first unit in the order.
    pub const FIRST: Unit = Unit { job: JobId(0), thread: None };

    /// Returns the word for the unit in a sentence.
    pub fn noun(self) -> &'static str {
        if self.thread.is_some() { "thread" } else { "job" }
    }
}

impl From<JobId> for Unit {
    fn from(job: JobId) -> Self {
        Unit { job, thread: None }
    }
}

impl From<Unit> for Target {
    fn from(unit: Unit) -> Self {
        unit.thread.map_or(Target::Job(unit.job), Target::Task)
    }
}

impl From<&KindJob<'_>> for Unit {
    fn from(job: &KindJob<'_>) -> Self {
        Unit { job: job.view.job.id, thread: job.target.task() }
    }
}

/// A value for each of some units. Those of whole jobs are found by their number, because each of thousands of jobs is
/// searched several times in each turn.
#[derive(Clone, Debug)]
pub(in crate::ib) struct Units<T> {
    /// By the number of the job.
    jobs: Vec<Option<T>>,
    threads: BTreeMap<Unit, T>,
}

impl<T> Default for Units<T> {
    fn default() -> Self {
        Units { jobs: Vec::new(), threads: BTreeMap::new() }
    }
}

impl<T> Units<T> {
    pub fn get(&self, unit: Unit) -> Option<&T> {
        match unit.thread {
            None => self.jobs.get(unit.job.index())?.as_ref(),
            Some(_) => self.threads.get(&unit),
        }
    }

    pub fn get_mut(&mut self, unit: Unit) -> Option<&mut T> {
        match unit.thread {
            None => self.jobs.get_mut(unit.job.index())?.as_mut(),
            Some(_) => self.threads.get_mut(&unit),
        }
    }

    pub fn insert(&mut self, unit: Unit, value: T) {
        let (idx, is_thread) = (unit.job.index(), unit.thread.is_some());
        if is_thread {
            self.threads.insert(unit, value);
            return;
        }
        if self.jobs.len() <= idx {
            self.jobs.resize_with(idx + 1, || None);
        }
        self.jobs[idx] = Some(value);
    }

    pub fn remove(&mut self, unit: Unit) -> Option<T> {
        match unit.thread {
            None => self.jobs.get_mut(unit.job.index())?.take(),
            Some(_) => self.threads.remove(&unit),
        }
    }

    /// Keeps the values of the units for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(Unit) -> bool) {
        for (job, value) in (0..).map(JobId).zip(&mut self.jobs) {
            if value.is_some() && !keep(job.into()) {
                *value = None;
            }
        }
        self.threads.retain(|unit, _| keep(*unit));
    }

    /// Returns all values: those of whole jobs, then those of threads.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.jobs.iter().flatten().chain(self.threads.values())
    }
}
