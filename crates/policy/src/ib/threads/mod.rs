//! Threads of parallel programs as units, for the parameters `tlp`, `lrt` and `cosched`.
//!
//! ```text
//!   program   thread 1  ████████ ████ ████████      fast     serial phase: the only runnable thread
//!             thread 2  ········ ████ ········      slow     ·  sleeps, for example at a join
//!             thread 3  ········ █··· ········      slow     finished: its work estimates that of its siblings
//! ```
//!
//! With one of these parameters, each thread of a job with two or more threads has its own behaviour and its own place in
//! the queues; jobs with one thread are placed as before. A thread is runnable if it ran or waited in the last interval.
//! A fork begins when the number of runnable threads of a program rises from at most one to two or more. The work of a
//! thread is the number of its instructions, or its CPU time in nanoseconds if they are not counted.

mod coscheduling;
#[cfg(test)]
mod invariants;

use std::collections::BTreeMap;

use base::{CpuSet, JobId, Nanos, TaskId};
use sched::{Action, Cause, CounterEvent, JobState, JobView, Plan, Reason, Snapshot, TaskView};

use super::declaration::Balance;
use super::monitor::{self, Monitor, Phase};
use super::queues::{Member, Queues, Unit};
use super::thread_reasons::{IB_PARALLEL, IB_SERIAL, IB_THREAD_PHASE, IB_THREAD_STARTED};
use super::{Decision, IntegratedBehaviour, by_unit, integrated, share};
use crate::core_kinds::{CoreKinds, KIND_CPUS_CHANGED, KindJob, is_interval, speed};
use crate::placement::cpus_label;

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
    possible: Vec<usize>,
    /// Number of threads that were runnable in the last interval.
    n_runnable: u64,
    /// Intervals in a row with one runnable thread.
    n_serial: u64,
    /// The thread of a serial phase that counts as computing.
    serial: Option<TaskId>,
    /// Work of the threads that exited in the current fork.
    exited: Vec<u64>,
    /// Intervals until the program may be co-scheduled again.
    rest: u64,
    /// Global behaviour from the profile, in millionths.
    profiled: Option<u64>,
}

/// State of a thread.
#[derive(Debug, Default)]
struct Thread {
    monitor: Monitor,
    /// Integrated behaviour, in millionths.
    ib: u64,
    /// Order of arrival in its queue.
    arrived: u64,
    /// The CPUs that the thread is bound to, and their kind.
    placed: Option<CpuSet>,
    kind: Option<usize>,
    is_runnable: bool,
    /// Work in the current fork.
    done: u64,
    is_new: bool,
}

impl Threads {
    /// Returns whether the threads of a job are placed one by one. A job that starts with several threads is not placed.
    pub fn manages(&self, job: &JobView<'_>) -> bool {
        self.programs.contains_key(&job.job.id) || job.state == JobState::Due && 1 < job.job.threads
    }

    /// Returns whether a fork began in this interval, so that threads woke on the kinds on which they slept.
    pub fn take_forked(&mut self) -> bool {
        std::mem::take(&mut self.forked)
    }

    /// Reads the threads of all programs. Exited threads are removed at the end of an interval.
    fn update(&mut self, snapshot: &Snapshot<'_>, kinds: &CoreKinds) {
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
            for thread in program.threads.values_mut() {
                thread.kind = thread.placed.as_ref().and_then(|cpus| kinds.of_cpus(cpus));
            }
        }
        self.programs.retain(|_, program| !program.possible.is_empty());
    }

    /// Adds the threads that are placed on a kind to the queues.
    fn enqueue(&self, queues: &mut Queues, config: &super::Config) {
        for (&job, program) in &self.programs {
            for (&task, thread) in &program.threads {
                if let Some(kind) = thread.kind {
                    queues.insert(kind, program.member(job, task, config));
                }
            }
        }
    }
}

impl Program {
    /// Adds the last interval. Returns whether a fork began.
    fn record(&mut self, job: &JobView<'_>, tasks: &[TaskView]) -> bool {
        let exited: Vec<TaskId> = (self.threads.keys().copied())
            .filter(|id| !tasks.iter().any(|view| view.task == *id))
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
            self.threads.values_mut().for_each(|thread| thread.done = 0);
        }
        self.n_runnable = n_runnable;
        self.n_serial = if n_runnable == 1 { self.n_serial + 1 } else { 0 };
        for view in tasks {
            let thread = self.threads.entry(view.task).or_insert_with(|| Thread {
                // A thread inherits the CPUs of a job that was placed while it had one thread.
                placed: job.placed.cloned(),
                is_new: true,
                ..Thread::default()
            });
            let instructions = view.counters.get(CounterEvent::Instructions);
            thread.done = thread.done.saturating_add(instructions.unwrap_or(view.cpu_time.0));
            thread.is_runnable = is_runnable(view);
        }
        forks
    }

    /// Returns the remaining work of a thread: the mean work of the finished threads of the fork, or the largest work of
    /// its siblings, without its own.
    fn remaining(&self, task: TaskId) -> u64 {
        let of_task = self.threads.get(&task).map_or(0, |thread| thread.done);
        let asleep = self.threads.values().filter(|thread| !thread.is_runnable && thread.done != 0);
        let finished: Vec<u64> =
            self.exited.iter().copied().chain(asleep.map(|thread| thread.done)).collect();
        let largest = || self.threads.values().map(|thread| thread.done).max().unwrap_or(0);
        let total = match finished.len() as u64 {
            0 => largest(),
            n => finished.iter().fold(0u64, |sum, done| sum.saturating_add(*done)) / n,
        };
        total.saturating_sub(of_task)
    }

    fn member(&self, job: JobId, task: TaskId, config: &super::Config) -> Member {
        let unit = Unit { job, thread: Some(task) };
        let thread = &self.threads[&task];
        let is_serial = self.serial == Some(task);
        let n_kinds = if is_serial { 1 } else { self.possible.len() };
        let counts = config.balance == Balance::Always || thread.is_runnable;
        Member {
            unit,
            ib: if is_serial { 0 } else { thread.ib },
            arrived: thread.arrived,
            n_tasks: u64::from(counts),
            possible: self.possible[..n_kinds].to_vec(),
            remaining: config.lrt.then(|| self.remaining(task)),
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
    /// Returns the jobs that are placed as a whole, and reads the threads of the other jobs.
    pub(super) fn whole_jobs<'s>(&mut self, snapshot: &'s Snapshot<'_>) -> Vec<KindJob<'s>> {
        let mut jobs = self.kinds.jobs(snapshot);
        if self.config.uses_threads() {
            self.threads.update(snapshot, &self.kinds);
            jobs.retain(|job| !self.threads.manages(job.view));
        }
        jobs
    }

    pub(super) fn enqueue_threads(&self, queues: &mut Queues) {
        self.threads.enqueue(queues, &self.config);
    }

    /// Starts new threads, adds the behaviour of the interval, and handles serial phases.
    pub(super) fn sample_threads(
        &mut self,
        snapshot: &Snapshot<'_>,
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) {
        if !is_interval(snapshot) {
            return;
        }
        let mut threads = std::mem::take(&mut self.threads);
        for (&job, program) in &mut threads.programs {
            let Some(view) = snapshot.job(job) else { continue };
            program.profiled = self.profiled(snapshot, view);
            for task in snapshot.tasks_of(job) {
                let reason = match program.threads.get(&task.task) {
                    Some(thread) if thread.is_new || thread.kind.is_none() => {
                        self.start_thread(program, task.task)
                    }
                    Some(_) => match self.sample_thread(program, task) {
                        Some(reason) => reason,
                        None => continue,
                    },
                    None => continue,
                };
                if program.serial != Some(task.task) {
                    self.reschedule_thread((job, program), task.task, reason, queues, decisions);
                }
            }
        }
        if self.config.tlp {
            self.serial_phases(&mut threads, queues, decisions);
        }
        self.threads = threads;
    }

    fn start_thread(&mut self, program: &mut Program, task: TaskId) -> Reason {
        let ib = self.start_value(program.profiled);
        let arrived = self.next_arrival();
        let thread = program.threads.entry(task).or_default();
        (thread.ib, thread.arrived, thread.is_new) = (ib, arrived, false);
        thread.monitor.skip_next();
        Reason::new(IB_THREAD_STARTED)
            .with("ib", share(ib))
            .with("global", if program.profiled.is_some() { "known" } else { "unknown" })
    }

    /// Returns the reason to reschedule a thread whose new phase is stable.
    fn sample_thread(&mut self, program: &mut Program, task: &TaskView) -> Option<Reason> {
        let value = self.behaviour_of(speed::task_counts(task)?)?;
        let profiled = program.profiled;
        let thread = program.threads.get_mut(&task.task)?;
        let (local, phase) = match thread.monitor.record(value, &self.config) {
            Phase::Continues | Phase::Changed(..) | Phase::TooShort(_) | Phase::Unchecked(_) => {
                return None;
            }
            Phase::Stable(local) => (local, "stable"),
            Phase::Unstable(local) => (local, "unstable"),
        };
        let global = profiled.or_else(|| thread.monitor.global());
        thread.ib = integrated(self.config.alpha.0, global, local);
        Some(
            Reason::new(IB_THREAD_PHASE)
                .with("phase", phase)
                .with("n_intervals", monitor::UNSTABLE_AFTER)
                .with("local", share(local))
                .with("global", global.map_or("unknown".to_owned(), share))
                .with("ib", share(thread.ib)),
        )
    }

    fn reschedule_thread(
        &mut self,
        (job, program): (JobId, &Program),
        task: TaskId,
        reason: Reason,
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) {
        let member = program.member(job, task, &self.config);
        let unit = member.unit;
        let was = queues.remove(unit).map(|(kind, _)| kind);
        let before = queues.n_tasks();
        let (to, rule, moves) = queues.reschedule(member, was);
        let reason = self.with_rule(reason, rule, (&before, &queues.n_tasks()));
        decisions.push(Decision { unit, to, reason });
        self.balanced(moves, decisions);
    }

    /// Makes the threads of serial phases count as computing, at most one for each of the fastest cores: those with the
    /// lowest behaviour of their own.
    fn serial_phases(
        &mut self,
        threads: &mut Threads,
        queues: &mut Queues,
        decisions: &mut Vec<Decision>,
    ) {
        let candidates = threads.programs.iter().filter_map(|(&job, program)| {
            let task = program.serial_candidate()?;
            Some((program.threads[&task].ib, job, task))
        });
        let mut candidates: Vec<(u64, JobId, TaskId)> = candidates.collect();
        candidates.sort();
        candidates.truncate(self.kinds.get(0).n_cores as usize);
        for (&job, program) in &mut threads.programs {
            let now = candidates.iter().find(|(_, of, _)| *of == job).map(|(.., task)| *task);
            let was = std::mem::replace(&mut program.serial, now);
            if was == now {
                continue;
            }
            if let Some(task) = was.filter(|task| program.threads.contains_key(task)) {
                let ib = program.threads[&task].ib;
                let reason = Reason::new(IB_PARALLEL)
                    .with("n_threads", program.n_runnable)
                    .with("ib", share(ib));
                self.reschedule_thread((job, program), task, reason, queues, decisions);
            }
            if let Some(task) = now {
                let reason = Reason::new(IB_SERIAL)
                    .with("n_intervals", SERIAL_INTERVALS)
                    .with("ib", share(program.threads[&task].ib));
                self.reschedule_thread((job, program), task, reason, queues, decisions);
            }
        }
    }

    /// Requests the last decision about each thread, if the thread changes its kind.
    pub(super) fn request_threads(
        &mut self,
        snapshot: &Snapshot<'_>,
        decisions: &[Decision],
        plan: &mut Plan,
    ) {
        let of_units = by_unit(decisions);
        let mut threads = std::mem::take(&mut self.threads);
        let has_changed = snapshot.turn.causes.contains(&Cause::CpusChanged);
        for (&job, program) in &mut threads.programs {
            let Some(view) = snapshot.job(job) else { continue };
            for (&task, thread) in &mut program.threads {
                let unit = Unit { job, thread: Some(task) };
                let of_thread = || of_units.get(&unit).into_iter().flatten();
                let (first, last) = (of_thread().next(), of_thread().next_back());
                let reason = if thread.kind.is_none() { first } else { last };
                let (kind, reason) = match last.zip(reason) {
                    Some((last, decision)) if thread.kind != Some(last.to) => {
                        thread.arrived = self.next_arrival();
                        thread.monitor.skip_next();
                        (last.to, decision.reason.clone())
                    }
                    _ => match thread.kind.filter(|_| has_changed) {
                        Some(kind) => (kind, Reason::new(KIND_CPUS_CHANGED)),
                        None => continue,
                    },
                };
                let cpus = self.kinds.get(kind).cpus.and(view.allowed);
                if thread.placed.as_ref() == Some(&cpus) {
                    continue;
                }
                let from = thread.kind.map(|from| self.kinds.get(from).name.clone());
                let reason = reason
                    .with("kind", self.kinds.get(kind).name.clone())
                    .with_some("from", from)
                    .with("cpus", cpus_label(&cpus));
                thread.placed = Some(cpus.clone());
                plan.request(task, Action::Place(cpus), reason);
            }
        }
        self.threads = threads;
    }
}
