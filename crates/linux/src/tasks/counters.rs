//! Counters of the threads of jobs, which are opened when a thread is found and read when the thread has run.
//!
//! The main thread of a job has groups that its descendants inherit, so that children that start and exit between two
//! samples are counted. Every other thread has its own groups. The values are returned unchanged. The engine subtracts
//! the values of the other threads from the inherited values (`engine::derive`).
//!
//! Files that stay open have priority over counters: the counters of a thread are opened only while a quarter of the
//! descriptor budget is free. A descendant without its own counters is included in the inherited values.

use std::collections::BTreeMap;
use std::io;

use base::{JobId, TaskId};
use sched::Counters;

use super::descriptors::DescriptorReservation;
use super::{SampledTasks, TaskFiles, TaskGroups, TaskReader};
use crate::perf::PmuGroups;
use crate::source::Source;

/// Selection of the counters of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CounterMode {
    /// The hardware and software events of each task. Without hardware events, only totals are counted: one group of
    /// software events per job of a run, or per thread of a watched program, which is read when the job or the thread
    /// ends. Samples contain CPU time, wait time and migrations from `/proc`, so reading software events in every
    /// sample is not worth its cost.
    #[default]
    Auto,
    /// The hardware events of each task, if available, and the software events of each task in
    /// every sample.
    All,
    /// No counters.
    Off,
}

/// Counters of the threads of all jobs.
#[derive(Debug, Default)]
pub struct TaskCounters {
    events: Vec<PmuGroups>,
    /// Whether the counters of the main thread of a job include its descendants.
    pub inherits: bool,
    /// Whether groups are read only once, at the end of their thread or job. If counters are inherited, only the main
    /// thread of the job has a group.
    only_totals: bool,
    main_threads: BTreeMap<JobId, MainThread>,
    /// Sums over exited threads of jobs without inherited counters.
    past: BTreeMap<JobId, Counters>,
    /// The first error of perf_event_open(2) that was not reported yet.
    pub rejected: Option<io::Error>,
    /// Whether a group was enabled and never ran: another program occupies its counters.
    pub is_occupied: bool,
}

/// The main thread of a job, which has inherited counters.
#[derive(Debug)]
struct MainThread {
    task: TaskId,
    /// The counters of the thread after its exit, which still count its descendants.
    exited: Option<Box<ThreadCounters>>,
}

/// The open groups of a thread.
#[derive(Debug)]
pub struct ThreadCounters {
    groups: TaskGroups,
    last: Counters,
    only_totals: bool,
    pub(super) includes_children: bool,
    _reservation: DescriptorReservation,
}

impl TaskCounters {
    /// Creates inherited counters for the jobs of a run. Without hardware events no decision depends on the counters,
    /// so one group per job is read when the job ends. Reading this group in every sample would increase the cost of a
    /// sample of 100 busy jobs by a third.
    pub fn of_run(events: Vec<PmuGroups>, mode: CounterMode) -> Self {
        TaskCounters { inherits: true, ..TaskCounters::of_watch(events, mode) }
    }

    /// Creates counters for programs that evenkeel did not start. The counters are not inherited, because the children
    /// of such a program do not belong to its job. Without hardware events the counters are read when the thread or its
    /// job ends.
    pub fn of_watch(events: Vec<PmuGroups>, mode: CounterMode) -> Self {
        let only_totals = events.iter().all(PmuGroups::is_software) && mode == CounterMode::Auto;
        TaskCounters { events, only_totals, ..TaskCounters::default() }
    }

    /// Opens the groups of a newly discovered thread.
    pub(super) fn open(
        &mut self,
        job: JobId,
        id: TaskId,
        files: &mut TaskFiles<impl Source>,
    ) -> Option<Box<ThreadCounters>> {
        let is_first = self.inherits && !self.main_threads.contains_key(&job);
        if self.events.is_empty() || self.only_totals && self.inherits && !is_first {
            return None;
        }
        let n_counters = self.events.iter().flat_map(|pmu| &pmu.groups).map(Vec::len).sum();
        let reservation = files.descriptors.reserve(n_counters)?;
        let (groups, rejected) =
            TaskGroups::open(&mut files.source, id.tid, &self.events, is_first);
        if let Some(error) = rejected {
            files.descriptors.note_shortage(&error);
            if error.raw_os_error() != Some(crate::perf::TASK_EXITED) && self.rejected.is_none() {
                self.rejected = Some(error);
            }
        }
        if groups.is_empty() {
            return None;
        }
        if is_first {
            self.main_threads.insert(job, MainThread { task: id, exited: None });
        }
        Some(Box::new(ThreadCounters {
            groups,
            last: Counters::NONE,
            only_totals: self.only_totals,
            includes_children: is_first,
            _reservation: reservation,
        }))
    }

    /// Stores the counters of a thread that has exited.
    pub(super) fn retire(
        &mut self,
        source: &mut impl Source,
        (job, id): (JobId, TaskId),
        mut counters: Box<ThreadCounters>,
    ) {
        if !self.inherits {
            let past = self.past.entry(job).or_default();
            *past = past.plus(&counters.total(source));
        } else if let Some(first) = self.main_threads.get_mut(&job).filter(|t| t.task == id) {
            first.exited = Some(counters);
        }
    }

    /// Removes a job that has ended.
    pub(super) fn remove_job(&mut self, job: JobId) {
        self.main_threads.remove(&job);
        self.past.remove(&job);
    }
}

impl ThreadCounters {
    /// Reads the groups, unless only totals are needed. Returns whether a group never ran.
    pub(super) fn sample(&mut self, source: &mut impl Source) -> bool {
        if self.only_totals {
            return false;
        }
        self.read(source);
        self.last.iter().any(|(_, raw)| raw.never_ran())
    }

    /// Returns the raw counters of the last sample.
    pub(super) fn sampled(&self) -> Counters {
        if self.only_totals { Counters::NONE } else { self.last }
    }

    /// Reads the final counter values of an exited or released thread. The groups of the thread are readable until
    /// their descriptors are closed.
    fn total(&mut self, source: &mut impl Source) -> Counters {
        if self.only_totals {
            self.read(source);
        }
        self.last
    }

    /// Reads the groups, one system call each. The values of a group that cannot be read do not change.
    fn read(&mut self, source: &mut impl Source) {
        self.last.update(&self.groups.read(source));
    }
}

impl<S: Source> TaskReader<S> {
    /// Adds the counters of the main thread of a job to the sample, even if the thread did not run, because its
    /// descendants may have run.
    pub(super) fn sample_main_thread(&mut self, job: JobId, sampled: &mut SampledTasks) {
        let Some(first) = self.counters.main_threads.get(&job).map(|first| first.task) else {
            return;
        };
        let only_totals = self.counters.only_totals;
        if !only_totals && sampled.tasks.iter().any(|sample| sample.task == first) {
            return; // The main thread was sampled in this turn.
        }
        for (&(_, pid), process) in self.processes.range_mut((job, 0)..=(job, u32::MAX)) {
            let unseen = process.unseen.credited();
            let Some(thread) = process.threads.iter_mut().find(|t| t.id == first) else { continue };
            let Some(counters) = &mut thread.counters else { return };
            let before = counters.last;
            counters.read(&mut self.files.source);
            if counters.last != before && !only_totals {
                sampled.tasks.push(thread.sample(job, pid, unseen));
            }
            return;
        }
    }

    /// Returns the inherited counters of a job that has ended.
    pub(super) fn inherited_counters_of(&mut self, job: JobId) -> Counters {
        let Some(first) = self.counters.main_threads.get_mut(&job) else { return Counters::NONE };
        if let Some(counters) = &mut first.exited {
            counters.read(&mut self.files.source);
            return counters.last;
        }
        let task = first.task;
        let threads = self.processes_of(job).flat_map(|(_, process)| &process.threads);
        let mut firsts = threads.filter(|thread| thread.id == task);
        firsts.find_map(|thread| Some(thread.counters.as_ref()?.last)).unwrap_or_default()
    }

    /// Returns the counters of a detached job: the sum over its threads.
    pub fn take_counters_of(&mut self, job: JobId) -> Counters {
        let past = self.counters.past.get(&job).copied().unwrap_or_default();
        self.counters.remove_job(job);
        let processes = self.processes.range_mut((job, 0)..=(job, u32::MAX));
        let threads = processes.flat_map(|(_, process)| &mut process.threads);
        threads.filter_map(|thread| thread.counters.as_mut()).fold(past, |sum, counters| {
            counters.read(&mut self.files.source);
            sum.plus(&counters.last)
        })
    }
}
