//! A session: state and sources of a live run, shared by both job sources.
//!
//! ```text
//!   launch   jobs that evenkeel starts ──────────┐
//!   attach   running processes ──────────────────┴─► JobAffinities (CPU mask of each job)
//!                                                      │
//!   Session ── wakeups      epoll: timer, exits, signals, overflows: the only blocking call
//!           ├─ tasks        processes and threads of each job, and their counters
//!           ├─ undo         the record of every change, written first
//!           ├─ binder       sched_setaffinity for a whole job
//!           ├─ memory       page migrations and memory samples, in a helper thread
//!           ├─ collectors   nodes, memory controllers, caches, pressure
//!           └─ turn         causes and events of the next turn
//! ```
//!
//! One thread does all work except page migrations and memory samples. The thread sleeps until the next event.

mod affinity;
mod binder;
mod collectors;
mod interval_ends;
pub(crate) mod memory;
mod undo_record;
mod wakeups;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use base::{CpuSet, JobId, Nanos, TaskId};
use linux::cgroup::Cgroup;
use linux::source::Live;
use linux::system::DescriptorLimit;
use linux::tasks::{
    CounterMode, DescriptorBudget, KeptFile, SampleTime, SampledTasks, TaskCounters, TaskReader,
};
use linux::{fork_latency, mempolicy, procfs, system};
use sched::{
    Action, Cause, CauseAndDetail, JobEvent, NumaSettings, Outcome, OutcomeResult,
    PageMigrationEnd, RejectCause, Request, Sample, Target, Turn,
};
use topology::Machine;

use crate::errors::Warnings;
pub(crate) use affinity::{AffinityState, exited};
pub(crate) use binder::Binder;
pub(crate) use collectors::Collectors;
pub(crate) use interval_ends::IntervalEnds;
pub(crate) use memory::{MemoryConfig, PageMigrationParameters, SessionMemory};
pub(crate) use undo_record::UndoRecord;
pub use wakeups::{Console, block_signals};
pub(crate) use wakeups::{Wakeup, Wakeups};

/// Period of the slow samples: node memory, memory by process, pressure.
const SLOW_EVERY: Nanos = Nanos::from_secs(1);

/// Source of the jobs of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobSource {
    /// evenkeel starts the jobs.
    Launched,
    /// evenkeel did not start the processes. Their real-time threads, and memory with its own policy, are not
    /// changed.
    Attached,
}

/// Access to the affinity of all running jobs. Both job sources implement this trait.
pub(crate) trait JobAffinities {
    fn affinity(&self, job: JobId) -> Option<&AffinityState>;
    fn affinity_mut(&mut self, job: JobId) -> Option<&mut AffinityState>;
}

/// The CPUs that this process may use.
#[derive(Clone, Debug)]
pub(crate) struct UsableCpus {
    pub own: Arc<CpuSet>,
    /// CPUs among which masks are compared: the CPUs of evenkeel and, in a watch, the CPUs of the init process.
    pub compared: Arc<CpuSet>,
}

impl UsableCpus {
    /// Sets both fields to these CPUs.
    pub(crate) fn set(&mut self, own: CpuSet) {
        self.own = Arc::new(own);
        self.compared = Arc::clone(&self.own);
    }
}

/// Causes and events of the next turn.
#[derive(Default)]
pub(crate) struct NextTurn {
    number: u64,
    pub causes: BTreeSet<Cause>,
    /// Events since the last turn.
    pub pending: Sample,
    woken: Vec<Wakeup>,
    had_first_sample: bool,
}

pub(crate) struct SessionConfig<'a> {
    /// Name of the run, unique on the machine.
    pub run: String,
    pub machine: &'a Machine,
    /// The machine with the controllers, caches and pressure files to read, if any.
    pub measured: Option<&'a Machine>,
    pub own_cpus: CpuSet,
    pub counters: CounterMode,
    pub memory: MemoryConfig,
    pub limit: DescriptorLimit,
    /// Number of jobs; each needs a pidfd.
    pub n_jobs: u64,
}

/// State of a live run that both job sources share.
pub(crate) struct Session {
    pub run: String,
    pub wakeups: Wakeups,
    pub tasks: TaskReader,
    pub undo: UndoRecord,
    pub cpus: UsableCpus,
    pub memory: SessionMemory,
    pub collectors: Collectors,
    pub turn: NextTurn,
    slow_at: Nanos,
    source: JobSource,
    limit: DescriptorLimit,
    warned: Warnings,
    noted: Warnings,
}

impl Session {
    /// Opens all sources. Changes no setting.
    pub(crate) fn open(config: SessionConfig<'_>, wakeups: Wakeups, undo: UndoRecord) -> Self {
        let SessionConfig { run, machine, measured, own_cpus, counters, memory, .. } = config;
        let source = memory.source;
        let descriptors = DescriptorBudget::new(config.limit.now, config.n_jobs);
        let (collectors, groups, warnings) = Collectors::open(machine, measured, counters);
        let counters = match source {
            JobSource::Attached => TaskCounters::of_watch(groups, counters),
            JobSource::Launched => TaskCounters::of_run(groups, counters),
        };
        let mut tasks = TaskReader::new(Live::default(), descriptors, counters, run.clone());
        tasks.follows_children = source == JobSource::Launched;
        let own = Arc::new(own_cpus);
        let pending = Sample { degraded: warnings, ..Sample::default() };
        Session {
            run,
            wakeups,
            tasks,
            undo,
            cpus: UsableCpus { compared: Arc::clone(&own), own },
            memory: SessionMemory::new(machine, memory),
            collectors,
            turn: NextTurn { pending, ..NextTurn::default() },
            slow_at: if source == JobSource::Attached { Nanos::ZERO } else { SLOW_EVERY },
            source,
            limit: config.limit,
            warned: Warnings::default(),
            noted: Warnings::default(),
        }
    }

    pub(crate) fn now(&mut self) -> Nanos {
        self.wakeups.now()
    }

    /// Reports in the next turn that a source or a function is not available.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.turn.pending.degraded.push(text.into());
    }

    /// Reports a warning. Each text is reported once.
    pub(crate) fn warn_once(&mut self, text: impl Into<String>) {
        self.warned.add(text);
        self.turn.pending.degraded.append(&mut self.warned.take());
    }

    /// Reports a note that is not about a function that does not work. Each text is reported once.
    pub(crate) fn note_once(&mut self, text: impl Into<String>) {
        self.noted.add(text);
        self.turn.pending.host_notes.append(&mut self.noted.take());
    }

    /// Reports an event of a job in the next turn.
    pub(crate) fn report(&mut self, event: JobEvent) {
        self.turn.pending.jobs.push(event);
    }

    /// Waits for the next wake-ups, at most until an instant.
    pub(crate) fn wait(&mut self, until: Option<Nanos>) -> Result<Vec<Wakeup>, crate::LiveError> {
        let mut woken = std::mem::take(&mut self.turn.woken);
        woken.clear();
        self.wakeups.wait(until, &mut woken)?;
        Ok(woken)
    }

    /// Returns the pending wake-ups.
    pub(crate) fn poll(&mut self) -> Result<Vec<Wakeup>, crate::LiveError> {
        let mut woken = std::mem::take(&mut self.turn.woken);
        woken.clear();
        self.wakeups.poll(&mut woken)?;
        Ok(woken)
    }

    /// Stores the buffer of [`Session::wait`] and [`Session::poll`] for reuse.
    pub(crate) fn recycle(&mut self, woken: Vec<Wakeup>) {
        self.turn.woken = woken;
    }

    /// Returns the next turn with all causes since the last turn.
    pub(crate) fn new_turn(&mut self) -> Turn {
        self.take_memory_results();
        let causes = std::mem::take(&mut self.turn.causes).into_iter().collect();
        let turn = Turn { number: self.turn.number, at: self.now(), causes };
        self.turn.number += 1;
        turn
    }

    pub(crate) fn take_memory_results(&mut self) {
        let now = self.now();
        if self.memory.take_results(&self.tasks, &mut self.turn.pending, now) {
            self.turn.causes.insert(Cause::PageMigrationCompleted);
        }
    }

    /// Starts the sample of a turn. The first sample contains the settings of the machine.
    pub(crate) fn begin_sample(&mut self, usable_cpus: impl FnOnce() -> CpuSet) -> Sample {
        let mut sample = std::mem::take(&mut self.turn.pending);
        if !std::mem::replace(&mut self.turn.had_first_sample, true) {
            sample.usable_cpus.get_or_insert_with(usable_cpus);
            let interleaves = mempolicy::thread_policy().is_ok_and(|(interleaves, _)| interleaves);
            let numa_balancing = system::numa_balancing("/".as_ref());
            sample.numa_settings = Some(NumaSettings { numa_balancing, interleaves });
            sample.nodes = self.collectors.sample_nodes();
            self.collectors.sample_slow(&mut sample);
            self.collectors.sample_loads(&mut sample);
        }
        sample
    }

    pub(crate) fn had_first_sample(&self) -> bool {
        self.turn.had_first_sample
    }

    /// Samples the due threads of all jobs.
    pub(crate) fn sample_threads(
        &mut self,
        time: SampleTime,
        jobs: &impl JobAffinities,
        sample: &mut Sample,
    ) -> SampledTasks {
        let mut sampled = SampledTasks::default();
        let own = &self.cpus.own;
        let mask = |job: JobId| Arc::clone(jobs.affinity(job).map_or(own, |a| a.inherited_mask()));
        self.tasks.sample(time, mask, &mut sampled);
        sample.tasks.append(&mut sampled.tasks);
        sample.exited.append(&mut sampled.exited);
        sampled
    }

    /// Binds new threads that [`Session::sample_threads`] found, and verifies the masks of sampled threads.
    pub(crate) fn check_affinity(&mut self, jobs: &mut impl JobAffinities, sampled: SampledTasks) {
        for job in sampled.changed_jobs {
            self.bind_new_threads(jobs, job);
        }
        for (job, task) in sampled.masks_to_verify {
            if let Some(state) = jobs.affinity_mut(job) {
                self.binder().verify(state, task);
            }
        }
    }

    /// Binds threads of a job that inherited an earlier mask, because they were forked during a placement.
    pub(crate) fn bind_new_threads(&mut self, jobs: &mut impl JobAffinities, job: JobId) {
        if let Some(state) = jobs.affinity_mut(job) {
            self.binder().bind_new_threads(state);
        }
    }

    pub(crate) fn is_slow_sample_due(&self, at: Nanos) -> bool {
        self.slow_at <= at
    }

    /// Takes the slow samples. Before the call, all threads must have been read, so that changes can be confirmed.
    pub(crate) fn sample_slow(&mut self, at: Nanos, running: &[JobId], sample: &mut Sample) {
        self.slow_at = at + SLOW_EVERY;
        self.undo.confirm_all();
        sample.nodes = self.collectors.sample_nodes();
        if self.memory.is_sample_due(at) && !running.is_empty() {
            let running = running.iter().copied();
            let warning = self.memory.sample((&self.wakeups, &self.tasks), running, at);
            self.turn.pending.degraded.extend(warning);
        }
        self.collectors.sample_slow(sample);
    }

    /// Returns warnings about tasks without counters. Each warning is returned once.
    pub(crate) fn counter_warnings(&mut self) -> Vec<String> {
        self.collectors.counter_warnings(&mut self.tasks.counters)
    }

    /// Adds the events that occurred during sampling to the sample of a turn.
    pub(crate) fn finish_sample(&mut self, sample: &mut Sample) {
        sample.merge_events(std::mem::take(&mut self.turn.pending));
        for event in &sample.jobs {
            if let JobEvent::Unmanaged(job, _) = event {
                self.memory.stop_page_migrations_of(*job, PageMigrationEnd::Stopped);
            }
        }
    }

    pub(crate) fn binder(&mut self) -> Binder<'_> {
        Binder {
            tasks: &mut self.tasks,
            undo: &mut self.undo,
            cpus: self.cpus.clone(),
            events: &mut self.turn.pending.jobs,
            source: self.source,
        }
    }

    /// Places a job or a thread, or releases a thread. Returns the number of threads that changed.
    pub(crate) fn place(
        &mut self,
        jobs: &mut impl JobAffinities,
        target: Target,
        action: &Action,
    ) -> Result<u32, CauseAndDetail> {
        let job = self.job_of(target).ok_or_else(exited)?;
        if matches!(action, Action::Place(_)) {
            self.memory.resample(job);
        }
        let state = jobs.affinity_mut(job).ok_or_else(exited)?;
        let mut binder = self.binder();
        match (target, action) {
            (Target::Job(_), Action::Place(cpus)) => binder.place(state, cpus),
            (Target::Task(task), Action::Place(cpus)) => binder.place_task(state, task, Some(cpus)),
            (Target::Task(task), Action::Release) => binder.place_task(state, task, None),
            _ => {
                let text =
                    "it is running, and a memory policy applies to new pages only".to_owned();
                Err((RejectCause::AlreadyStarted, text))
            }
        }
    }

    pub(crate) fn job_of(&self, target: Target) -> Option<JobId> {
        match target {
            Target::Job(job) => Some(job),
            Target::Task(task) => self.tasks.job_of_task(task),
        }
    }

    pub(crate) fn move_pages(
        &mut self,
        jobs: &impl JobAffinities,
        target: Target,
        page_migration: PageMigrationParameters,
        cgroup_of: impl FnOnce(JobId) -> Option<Arc<Cgroup>>,
    ) -> Result<(), CauseAndDetail> {
        let is_managed = |job| jobs.affinity(job).map(|state| !state.is_unmanaged);
        let order = memory::order(&mut self.tasks, is_managed, target, page_migration, cgroup_of)?;
        self.memory.start_page_migration(&self.wakeups, order)
    }

    /// Registers a wake-up at the exit of a process. Returns `None` if no descriptor is free.
    pub(crate) fn watch_exit(&mut self, pid: u32) -> Option<KeptFile> {
        let pidfd = self.tasks.files.descriptors.keep_pidfd(pid).ok().flatten();
        pidfd.filter(|file| self.wakeups.watch(file, pid).is_ok())
    }

    /// Removes a process, and reports the threads of the process as exited.
    pub(crate) fn remove_process(&mut self, pid: u32) {
        let mut exited = self.tasks.remove_process(pid);
        self.turn.pending.exited.append(&mut exited);
    }

    /// Lowers RLIMIT_NOFILE to the value at the start.
    pub(crate) fn lower_descriptor_limit(&self) {
        system::lower_descriptors(self.limit);
    }
}

/// Calls `step` repeatedly for the estimated maximum duration of a fork of `parents`, so that every fork in progress
/// at the start of the call has finished. The function blocks the event loop and is called only after the last turn.
pub(crate) fn while_forks_are_hidden(
    parents: impl IntoIterator<Item = u32>,
    mut step: impl FnMut(),
) {
    let until = Instant::now() + fork_latency::max_fork_latency("/".as_ref(), parents);
    while Instant::now() < until {
        std::thread::sleep(fork_latency::POLL_INTERVAL);
        step();
    }
}

pub(crate) fn outcome(request: &Request, result: Result<OutcomeResult, CauseAndDetail>) -> Outcome {
    let result = result.unwrap_or_else(|(cause, detail)| OutcomeResult::Rejected { cause, detail });
    Outcome { target: request.target, action: Some(request.action.clone()), result }
}

/// Restores the threads of a process. `mask_before` returns the mask to restore, or `None` for an unchanged thread.
/// Returns whether all calls succeeded for every thread that has not exited.
pub(crate) fn restore_threads(
    pid: u32,
    mask_before: impl Fn(u32) -> io::Result<Option<CpuSet>>,
) -> bool {
    let Ok(tids) = procfs::threads("/".as_ref(), pid) else { return has_exited(pid) };
    let restored = tids.into_iter().map(|tid| match mask_before(tid) {
        Ok(Some(before)) => linux::affinity::set(tid, &before).is_ok() || has_exited(tid),
        Ok(None) => true,
        Err(_) => has_exited(tid), // The thread may have exited while the process is running.
    });
    // After an error the remaining threads are also restored.
    restored.fold(true, |all, restored| all & restored)
}

fn has_exited(tid: u32) -> bool {
    match procfs::stat("/".as_ref(), tid) {
        Ok(stat) => stat.has_exited(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns the id of a process or thread.
pub(crate) fn task_id(tid: u32, start_time_ticks: u64) -> TaskId {
    TaskId { tid, start_time_ticks }
}
