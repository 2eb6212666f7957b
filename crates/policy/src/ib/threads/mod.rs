//! Threads of parallel programs as units, for the parameters `tlp`, `lrt` and `cosched`.
//!
//! ```text
//!   program   thread 1  ████████ ████ ████████      fast     serial phase: the only runnable thread
//!             thread 2  ········ ████ ········      slow     ·  sleeps, for example at a join
//!             thread 3  ········ █··· ········      slow     finished: its work estimates that of its siblings
//! ```
//!
//! With one of these parameters, each thread of a job with two or more threads has its own behaviour and its own place
//! in the queues; jobs with one thread are placed as before. A thread is runnable if it ran or waited in the last
//! interval. A fork begins when the number of runnable threads of a program rises from at most one to two or more. The
//! work of a thread is the number of its instructions, or its CPU time in nanoseconds if they are not counted.

mod coscheduling;
#[cfg(test)]
mod invariants;

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::{CpuSet, JobId, Nanos, TaskId};
use sched::{CounterEvent, JobState, JobView, Reason, Snapshot, TaskView};

use super::queues::{Queues, Unit};
use super::reasons::{IB_PARALLEL, IB_SERIAL};
use super::{Decision, IntegratedBehaviour, share};
use crate::core_kinds::{CoreKinds, KindJob, KindSet, is_interval};

/// Intervals in a row with one runnable thread after which a program is in a serial phase. Chosen.
const SERIAL_INTERVALS: u64 = 2;

/// The programs whose threads are placed one by one.
#[derive(Debug, Default)]
pub(super) struct Threads {
    programs: BTreeMap<JobId, Program>,
    /// A program began a fork in this interval.
    forked: bool,
}

/// State of a program.
#[derive(Debug, Default)]
struct Program {
    threads: BTreeMap<TaskId, Thread>,
    /// Kinds with CPUs that the program may use.
    possible: KindSet,
    /// Number of threads that were runnable in the last interval.
    n_runnable: u64,
    /// Intervals in a row with one runnable thread.
    n_serial: u64,
    /// The thread of a serial phase that counts as computing.
    serial: Option<TaskId>,
    /// Work of the threads that exited in the current fork.
    exited: Vec<u64>,
    /// Estimated work of a thread in the current fork.
    work: u64,
    /// Whether the work is a number of instructions.
    counts_instructions: bool,
    /// Intervals until the program may be co-scheduled again.
    cooldown: u64,
}

/// State of a thread.
#[derive(Debug, Default)]
struct Thread {
    /// The CPUs that the thread is bound to.
    placed: Option<CpuSet>,
    is_runnable: bool,
    /// Work in the current fork.
    done: u64,
}

impl Threads {
    /// Returns whether the threads of a job are placed one by one. A job that starts with several threads is not
    /// placed.
    pub fn manages(&self, job: &JobView<'_>) -> bool {
        self.programs.contains_key(&job.job.id) || job.state == JobState::Due && 1 < job.job.threads
    }

    /// Returns whether a fork began in this interval, so that threads woke on the kinds on which they slept.
    pub fn take_forked(&mut self) -> bool {
        std::mem::take(&mut self.forked)
    }

    /// Reads the threads of all programs. Exited threads are removed at the end of an interval.
    pub fn update(&mut self, snapshot: &Snapshot<'_>, kinds: &CoreKinds) {
        let is_managed = |view: &&JobView<'_>| view.movable && view.state == JobState::Running;
        let running = || snapshot.jobs.iter().filter(is_managed);
        self.programs.retain(|job, _| snapshot.job(*job).as_ref().is_some_and(is_managed));
        for view in running().filter(|_| is_interval(snapshot)) {
            let (job, tasks) = (view.job.id, snapshot.tasks_of(view.job.id));
            if self.programs.contains_key(&job) || 1 < tasks.len() {
                self.forked |= self.programs.entry(job).or_default().record(view, tasks);
            }
        }
        for (job, program) in &mut self.programs {
            let Some(view) = snapshot.job(*job) else { continue };
            program.possible = (0..kinds.len())
                .filter(|&kind| kinds.get(kind).cpus.intersects(view.allowed))
                .collect();
        }
        self.programs.retain(|_, program| !program.possible.is_empty());
    }

    /// Returns the threads, by job and id.
    pub fn units<'s>(
        &self,
        snapshot: &'s Snapshot<'_>,
        kinds: &CoreKinds,
    ) -> impl Iterator<Item = KindJob<'s>> {
        let programs = self
            .programs
            .iter()
            .filter_map(move |(job, program)| Some((snapshot.job(*job)?, program)));
        programs.flat_map(move |(view, program)| {
            program.threads.iter().map(move |(&task, thread)| KindJob {
                view,
                target: task.into(),
                possible: program.possible,
                placed: thread.placed.clone().map(Cow::Owned),
                kind: thread.placed.as_ref().and_then(|cpus| kinds.of_cpus(cpus)),
            })
        })
    }

    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    pub fn contains(&self, unit: Unit) -> bool {
        self.thread(unit).is_some()
    }

    /// Returns whether a thread ran or waited in the last interval.
    pub fn is_runnable(&self, unit: Unit) -> bool {
        self.thread(unit).is_some_and(|(_, thread)| thread.is_runnable)
    }

    /// Returns whether a program was co-scheduled in one of the last
    /// [`COOLDOWN_INTERVALS`](coscheduling::COOLDOWN_INTERVALS).
    pub fn is_cooling_down(&self, job: JobId) -> bool {
        self.programs.get(&job).is_some_and(|program| program.cooldown != 0)
    }

    /// Returns the remaining work of a thread; `None` for a job.
    pub fn remaining(&self, unit: Unit) -> Option<u64> {
        let (program, thread) = self.thread(unit)?;
        Some(program.work.saturating_sub(thread.done))
    }

    /// Returns the unit in which the work of a thread is printed, and its size.
    pub fn work_unit(&self, unit: Unit) -> (&'static str, u64) {
        match self.thread(unit) {
            Some((program, _)) if program.counts_instructions => ("instructions", 1),
            _ => ("ms of CPU time", 1_000_000),
        }
    }

    /// Returns whether a unit is the thread of a serial phase that counts as computing.
    pub fn is_serial(&self, unit: Unit) -> bool {
        self.thread(unit).is_some_and(|(program, _)| program.serial == unit.thread)
    }

    /// Stores the CPUs that a thread is bound to; the host stores those of a job.
    pub fn bind(&mut self, unit: Unit, cpus: CpuSet) {
        let program = self.programs.get_mut(&unit.job);
        let thread =
            program.zip(unit.thread).and_then(|(program, task)| program.threads.get_mut(&task));
        if let Some(thread) = thread {
            thread.placed = Some(cpus);
        }
    }

    fn thread(&self, unit: Unit) -> Option<(&Program, &Thread)> {
        let program = self.programs.get(&unit.job)?;
        Some((program, program.threads.get(&unit.thread?)?))
    }

    /// Selects the threads of at most `n` serial phases. Returns the changed threads with the numbers of runnable
    /// threads of their programs.
    fn update_serial(&mut self, n: usize, ib: impl Fn(Unit) -> u64) -> Vec<(Unit, u64)> {
        let candidates = self.programs.iter().filter_map(|(&job, program)| {
            let unit = Unit { job, thread: Some(program.serial_candidate()?) };
            Some((ib(unit), unit))
        });
        let mut candidates: Vec<(u64, Unit)> = candidates.collect();
        candidates.sort();
        candidates.truncate(n);
        let mut changed = Vec::new();
        for (&job, program) in &mut self.programs {
            let now = candidates.iter().find(|(_, unit)| unit.job == job);
            let now = now.and_then(|(_, unit)| unit.thread);
            let was = std::mem::replace(&mut program.serial, now);
            if was != now {
                let both = was.into_iter().chain(now);
                changed.extend(
                    both.map(|task| (Unit { job, thread: Some(task) }, program.n_runnable)),
                );
            }
        }
        changed
    }
}

impl Program {
    /// Adds the last interval. Returns whether a fork began.
    fn record(&mut self, job: &JobView<'_>, tasks: &[TaskView]) -> bool {
        let exited: Vec<TaskId> = (self.threads.keys().copied())
            .filter(|id| tasks.binary_search_by_key(id, |view| view.task).is_err())
            .collect();
        for id in exited {
            let done = self.threads.remove(&id).map_or(0, |thread| thread.done);
            self.exited.extend((done != 0).then_some(done));
        }
        let is_runnable = |view: &TaskView| {
            view.cpu_time != Nanos::ZERO || view.wait.is_some_and(|wait| wait != Nanos::ZERO)
        };
        let n_runnable = tasks.iter().filter(|view| is_runnable(view)).count() as u64;
        let forks = self.n_runnable < 2 && 2 <= n_runnable;
        if forks {
            self.exited.clear();
            // Threads that wake up migrate for balance.
            self.cooldown = 0;
            self.threads.values_mut().for_each(|thread| thread.done = 0);
        }
        self.n_runnable = n_runnable;
        self.n_serial = if n_runnable == 1 { self.n_serial + 1 } else { 0 };
        self.counts_instructions =
            tasks.iter().any(|view| view.counters.get(CounterEvent::Instructions).is_some());
        for view in tasks {
            let thread = self.threads.entry(view.task).or_insert_with(|| Thread {
                // A thread inherits the CPUs of a job that was placed while it had one thread.
                placed: job.placed.cloned(),
                ..Thread::default()
            });
            let instructions = view.counters.get(CounterEvent::Instructions);
            thread.done = thread.done.saturating_add(instructions.unwrap_or(view.cpu_time.0));
            thread.is_runnable = is_runnable(view);
        }
        self.work = self.estimated_work();
        forks
    }

    /// Returns the mean work of the finished threads of the fork. If there is none: the largest work of a thread.
    fn estimated_work(&self) -> u64 {
        let asleep = self.threads.values().filter(|thread| !thread.is_runnable && thread.done != 0);
        let asleep = asleep.map(|thread| thread.done);
        let finished: Vec<u64> = self.exited.iter().copied().chain(asleep).collect();
        match finished.len() as u64 {
            0 => self.threads.values().map(|thread| thread.done).max().unwrap_or(0),
            n => finished.iter().fold(0u64, |sum, done| sum.saturating_add(*done)) / n,
        }
    }

    /// Returns the thread of a serial phase: the only one that was runnable in the last intervals.
    fn serial_candidate(&self) -> Option<TaskId> {
        let only =
            self.threads.iter().find(|(_, thread)| thread.is_runnable).map(|(task, _)| *task);
        match self.n_runnable {
            0 => self.serial.filter(|task| self.threads.contains_key(task)),
            1 if SERIAL_INTERVALS <= self.n_serial || self.serial == only => only,
            _ => None,
        }
    }
}

impl IntegratedBehaviour {
    /// Makes the threads of serial phases count as computing, at most one for each of the fastest cores: those with the
    /// lowest behaviour of their own.
    pub(super) fn serial_phases(
        &mut self,
        snapshot: &Snapshot<'_>,
        units: &[KindJob<'_>],
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) {
        let ib = |unit: Unit| self.behaviours.get(unit).map_or(0, |state| state.ib);
        let changed = self.threads.update_serial(self.kinds.get(0).n_cores() as usize, ib);
        let threads = &units[units.partition_point(|unit| Unit::from(unit).thread.is_none())..];
        for (unit, n_runnable) in changed {
            let Ok(at) = threads.binary_search_by_key(&unit, Unit::from) else {
                continue;
            };
            let reason = match self.threads.is_serial(unit) {
                true => Reason::new(IB_SERIAL).with("n_intervals", SERIAL_INTERVALS),
                false => {
                    Reason::new(IB_PARALLEL).with("n_threads", n_runnable).with("unit", unit.noun())
                }
            };
            let reason =
                reason.with("ib", share(self.behaviours.get(unit).map_or(0, |state| state.ib)));
            self.reschedule(snapshot, &threads[at], reason, queues, decisions);
        }
    }
}
