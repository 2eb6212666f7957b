//! The end of jobs and of the run.
//!
//! ```text
//!   exit request ── SIGTERM to all processes ── grace period ── SIGKILL
//!   main process exits ── final sample ── remaining processes terminated ── reaped ── JobEvent::Ended
//! ```

use std::sync::Arc;

use base::{Bytes, JobId, Nanos};
use linux::child_exit::{self, ChildExit, ChildStatus, ChildUsage};
use linux::procfs;
use linux::tasks::{SampledTasks, TaskTotals};
use program::RESTART_MIN;
use rustix::process::Signal;
use sched::{
    Cause, CounterEvent, Counters, ExitStatus, JobEvent, JobExit, PageMigrationEnd, RawCounter,
    StopCause, UnmanagedCause,
};

use super::jobs::{JobRunState, JobTable, RunningJob};
use super::memory_cgroups::MemoryCgroups;
use super::mon_groups::MonGroups;
use super::oom_kills::OomKills;
use super::remaining_processes::{EXEC_WAIT, RemainingProcesses, RunParts};
use super::supervisor::Supervisor;
use super::timer_queue::{POLL_EVERY, TimedEvent, TimerQueue};
use crate::process_signals;
use crate::session::{JobAffinities, Session};

/// Stage of the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunStop {
    No,
    Requested,
    /// All jobs are killed without a grace period.
    Killed,
}

/// All jobs of a run, with timers, groups and remaining processes.
pub(super) struct Lifecycle {
    pub jobs: JobTable,
    pub timers: TimerQueue,
    pub mon_groups: MonGroups,
    pub cgroups: MemoryCgroups,
    pub supervisor: Option<Supervisor>,
    pub remaining: RemainingProcesses,
    pub stopping: RunStop,
    /// The first cause of the stop.
    pub stopped_by: Option<StopCause>,
    pub oom_kills: OomKills,
    pub grace: Nanos,
    /// Whether a failed job stops the run.
    pub fail_fast: bool,
}

impl Lifecycle {
    /// Borrows the remaining processes separately from the parts of the run that their methods
    /// change.
    pub(super) fn split<'a>(
        &'a mut self,
        session: &'a mut Session,
    ) -> (&'a mut RemainingProcesses, RunParts<'a>) {
        let Lifecycle { jobs, timers, supervisor, remaining, .. } = self;
        (remaining, RunParts { session, jobs, timers, supervisor })
    }

    pub(super) fn handle(&mut self, session: &mut Session, item: TimedEvent, now: Nanos) {
        match item {
            TimedEvent::Start(job) => {
                if matches!(self.jobs.entry(job).state, JobRunState::Waiting) {
                    self.jobs.make_due(job, session);
                }
            }
            TimedEvent::StopAfter(job, n_run) if self.jobs.n_runs(job) == n_run => {
                self.request_exit(session, job, now);
            }
            TimedEvent::TakeExit(job, n_run) if self.jobs.n_runs(job) == n_run => {
                self.take_exit(session, job);
            }
            // A timer of an earlier run of the job is ignored.
            TimedEvent::StopAfter(..) | TimedEvent::TakeExit(..) => {}
            TimedEvent::Kill { requested_at } => self.kill(session, requested_at, now),
            TimedEvent::PollExits => self.poll_exits(session, now),
            TimedEvent::TakeOrphans => self.take_orphans(session),
            TimedEvent::TimeLimit => self.request_stop(session, StopCause::TimeLimit, now),
        }
    }

    /// Ends the run: all jobs get an exit request, and no further job starts.
    pub(super) fn request_stop(&mut self, session: &mut Session, cause: StopCause, now: Nanos) {
        session.turn.causes.insert(Cause::Stopping);
        self.stopped_by.get_or_insert(cause);
        if self.stopping == RunStop::No {
            self.stopping = RunStop::Requested;
            self.timers.remove(|item| matches!(item, TimedEvent::TimeLimit));
            self.cancel_starts(session);
        }
        for job in self.jobs.running_ids() {
            self.request_exit(session, job, now);
        }
    }

    /// Ends the run without a grace period.
    pub(super) fn request_immediate_stop(&mut self, session: &mut Session, now: Nanos) {
        self.request_stop(session, StopCause::Signal, now);
        self.stopping = RunStop::Killed;
        self.remaining.skips_grace_period = true;
        self.kill(session, now, now);
    }

    fn cancel_starts(&mut self, session: &mut Session) {
        self.timers.remove(|item| matches!(item, TimedEvent::Start(_)));
        self.jobs.cancel_starts(session);
    }

    /// Sends one exit request (SIGTERM) to a job, and schedules SIGKILL.
    fn request_exit(&mut self, session: &mut Session, job: JobId, now: Nanos) {
        let running = self.jobs.running(job).filter(|running| running.exit_requested.is_none());
        let Some(running) = running else { return };
        running.exit_requested = Some(now);
        let (pid, has_exited) = (running.pid, running.exited.is_some());
        self.jobs.signal(job, Signal::TERM, session);
        if !process_signals::is_permitted(pid) {
            let (remaining, mut parts) = self.split(session);
            remaining.warn_not_permitted(&mut parts, Some(job), pid);
        }
        self.timers.add(now + self.grace, TimedEvent::Kill { requested_at: now });
        if has_exited {
            // The exit is handled now, and the scheduled restart is cancelled.
            self.timers.add(now, TimedEvent::TakeExit(job, self.jobs.n_runs(job)));
        }
    }

    /// Kills every process with an exit request at `requested_at` or earlier.
    fn kill(&mut self, session: &mut Session, requested_at: Nanos, now: Nanos) {
        let mut any = false;
        for job in self.jobs.running_ids() {
            let Some(running) = self.jobs.running(job) else { continue };
            let is_requested = running.exit_requested.is_some_and(|at| at <= requested_at);
            if is_requested && running.exited.is_none() {
                self.kill_job(session, job);
                any = true;
            }
        }
        let (remaining, mut parts) = self.split(session);
        any |= remaining.kill(&mut parts, requested_at);
        if any {
            // A process in uninterruptible sleep exits later. The kill is repeated, because the process may fork before
            // its exit.
            let next_kill = now + self.grace.saturating_add(POLL_EVERY);
            self.timers.add(next_kill, TimedEvent::Kill { requested_at });
        }
    }

    /// Kills all processes of a job. If the main process belongs to another user, evenkeel stops waiting for it,
    /// because it may never exit. The end of the job is then not reported, because it is running.
    fn kill_job(&mut self, session: &mut Session, job: JobId) {
        let Some(pid) = self.refresh(session, job) else { return };
        self.jobs.signal(job, Signal::KILL, session);
        if !process_signals::is_permitted(pid) {
            let (remaining, mut parts) = self.split(session);
            remaining.warn_not_permitted(&mut parts, Some(job), pid);
            self.abandon(session, job, pid);
        }
    }

    /// Stops waiting for a job whose main process cannot be killed. Its other processes are terminated. Its entry in
    /// the undo record stays.
    fn abandon(&mut self, session: &mut Session, job: JobId, pid: u32) {
        session.memory.stop_page_migrations_of(job, PageMigrationEnd::Stopped);
        let now = session.now();
        let (remaining, mut parts) = self.split(session);
        let start_time_ticks =
            procfs::stat("/".as_ref(), pid).map_or(0, |stat| stat.start_time_ticks);
        remaining.abandon(&mut parts, (pid, start_time_ticks), Some(job));
        remaining.terminate_remaining_of(&mut parts, job, pid, now);
        let Some(running) = self.jobs.running(job) else { return };
        if !std::mem::replace(&mut running.affinity.is_unmanaged, true) {
            session.report(JobEvent::Unmanaged(job, UnmanagedCause::NotPermitted));
        }
        if let Some(pidfd) = &running.pidfd {
            session.wakeups.unwatch(pidfd);
        }
        self.remove_job_groups(session, job);
        self.jobs.by_pid.remove(&pid);
        session.turn.causes.insert(Cause::Ended);
        self.set_finished(session, job);
    }

    /// Lists the processes of a running job again. Returns the PID of the main process.
    fn refresh(&mut self, session: &mut Session, job: JobId) -> Option<u32> {
        let state = self.jobs.affinity(job)?;
        let mask = Arc::clone(state.inherited_mask());
        session.tasks.refresh(job, &mask);
        Some(state.pid)
    }

    /// Handles the exit of a process, reported by its pidfd.
    pub(super) fn process_exited(&mut self, session: &mut Session, pid: u32, now: Nanos) {
        if self.remaining.contains(pid) {
            let (remaining, mut parts) = self.split(session);
            remaining.exited(&mut parts, pid);
        } else if let Some(&job) = self.jobs.by_pid.get(&pid) {
            self.main_process_exited(session, job, now);
        }
    }

    fn main_process_exited(&mut self, session: &mut Session, job: JobId, now: Nanos) {
        let restarts = self.restarts(job);
        let Some(running) = self.jobs.running(job) else { return };
        running.exited = Some(now);
        let soonest = running.started + RESTART_MIN;
        if restarts && now < soonest {
            self.timers.add(soonest, TimedEvent::TakeExit(job, self.jobs.n_runs(job)));
        } else {
            self.take_exit(session, job);
        }
    }

    fn restarts(&self, job: JobId) -> bool {
        self.stopping == RunStop::No && self.jobs.restarts(job)
    }

    /// Handles the exit of the main process of a job. The process is readable in /proc until it is reaped.
    fn take_exit(&mut self, session: &mut Session, job: JobId) {
        let restarts = self.restarts(job);
        if self.refresh(session, job).is_none() {
            return;
        }
        self.take_orphans(session);
        if self.remaining.any_in_exec() {
            // The job of an orphan in execve(2) is unknown until execve(2) is complete.
            let now = session.now();
            self.timers.add(now + EXEC_WAIT, TimedEvent::TakeExit(job, self.jobs.n_runs(job)));
            return;
        }
        self.end_run(session, job, restarts);
    }

    pub(super) fn take_orphans(&mut self, session: &mut Session) {
        let (remaining, mut parts) = self.split(session);
        remaining.take_orphans(&mut parts);
    }

    /// Ends a run of a job, and starts the job again if it restarts.
    fn end_run(&mut self, session: &mut Session, job: JobId, restarts: bool) {
        let Some((pid, exit)) = self.final_report(session, job, restarts) else { return };
        session.memory.stop_page_migrations_of(job, PageMigrationEnd::Exited);
        self.remove_job_groups(session, job);
        let pids: Vec<u32> = session.tasks.processes_of(job).map(|(pid, _)| pid).collect();
        pids.into_iter().for_each(|pid| session.remove_process(pid));
        self.jobs.by_pid.remove(&pid);
        if let Some(supervisor) = self.supervisor.as_mut().filter(|_| exit.n_remaining == 0) {
            supervisor.remove_group(pid);
        }
        self.free_if_done(session, job);
        let has_failed = exit.end().is_failure() && self.jobs.is_result(job);
        session.report(JobEvent::Ended(job, Box::new(exit)));
        session.turn.causes.insert(Cause::Ended);
        match restarts {
            true => {
                self.jobs.end_run(job);
                self.jobs.make_due(job, session);
            }
            false => self.set_finished(session, job),
        }
        if has_failed {
            self.job_failed(session);
        }
    }

    pub(super) fn remove_job_groups(&mut self, session: &mut Session, job: JobId) {
        self.mon_groups.end(job, &mut session.undo);
        self.cgroups.end(job);
    }

    pub(super) fn free_if_done(&mut self, session: &mut Session, job: JobId) {
        let (remaining, mut parts) = self.split(session);
        remaining.free_if_done(&mut parts, job);
    }

    /// Takes the final sample of a job, reports its exit and terminates its remaining processes.
    fn final_report(
        &mut self,
        session: &mut Session,
        job: JobId,
        restarts: bool,
    ) -> Option<(u32, JobExit)> {
        let now = session.now();
        let pid = self.jobs.running(job)?.pid;
        let mut sampled = SampledTasks::default();
        let (totals, counters) = session.tasks.final_sample(job, now, &mut sampled);
        let traffic = self.mon_groups.traffic_of(job);
        let (remaining, mut parts) = self.split(session);
        let n_remaining = remaining.terminate_remaining_of(&mut parts, job, pid, now);
        let child = child_exit::try_reap(pid).ok().flatten();
        let state = std::mem::replace(&mut self.jobs.entry(job).state, JobRunState::Finished);
        let JobRunState::Running(running) = state else { return None };
        if let Some(pidfd) = &running.pidfd {
            session.wakeups.unwatch(pidfd);
        }
        let values = FinalValues { totals, counters, traffic, n_remaining };
        let mut exit = job_exit(&running, child, values, restarts, now);
        exit.oom_killed = !exit.stopped_by_host && self.oom_kills.explains(exit.status);
        let used = exit.user + exit.system;
        session.tasks.credit_unsampled((job, pid), &totals, used, &mut sampled);
        session.turn.pending.tasks.append(&mut sampled.tasks);
        session.turn.pending.exited.append(&mut sampled.exited);
        Some((pid, exit))
    }

    /// Marks a job as finished. After the last job that the run waits for, jobs that restart get an exit request.
    pub(super) fn set_finished(&mut self, session: &mut Session, job: JobId) {
        if self.jobs.set_finished(job) {
            let now = session.now();
            self.cancel_starts(session);
            for job in self.jobs.running_ids() {
                self.request_exit(session, job, now);
            }
        }
    }

    /// Stops the run after a failed job if `fail_fast` is set.
    pub(super) fn job_failed(&mut self, session: &mut Session) {
        if self.fail_fast && self.stopping == RunStop::No {
            let now = session.now();
            self.request_stop(session, StopCause::FailedJob, now);
        }
    }

    fn poll_exits(&mut self, session: &mut Session, now: Nanos) {
        let mut any_left = false;
        for job in self.jobs.running_ids() {
            let running = self.jobs.running(job).filter(|running| running.pidfd.is_none());
            let Some(running) = running else { continue };
            let (pid, is_known) = (running.pid, running.exited.is_some());
            match procfs::stat("/".as_ref(), pid) {
                Ok(stat) if !stat.has_exited() => any_left = true,
                // The state is unknown, so the process is polled again.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => any_left = true,
                _ if is_known => {}
                _ => self.main_process_exited(session, job, now),
            }
        }
        let (remaining, mut parts) = self.split(session);
        any_left |= remaining.poll(&mut parts);
        if any_left {
            self.timers.add(now + POLL_EVERY, TimedEvent::PollExits);
        }
    }

    /// Returns whether all jobs and all their remaining processes have ended.
    pub(super) fn is_over(&self) -> bool {
        self.jobs.are_all_finished() && self.remaining.is_empty()
    }

    /// Restores the affinity that a job had before it was placed. Returns the number of threads that changed.
    pub(super) fn release(&mut self, session: &mut Session, job: JobId) -> u32 {
        // The record is kept if processes of an earlier run, which may have an assigned mask, are running.
        let removes_job = !self.remaining.has_processes_of(job);
        let is_tracked = |pid| self.remaining.contains(pid);
        match self.jobs.affinity_mut(job) {
            Some(state) => session.binder().release(state, removes_job, is_tracked).0,
            None => 0,
        }
    }
}

/// Final values of a job: sums over all its tasks.
struct FinalValues {
    totals: TaskTotals,
    counters: Counters,
    traffic: Option<Bytes>,
    n_remaining: u32,
}

fn job_exit(
    running: &RunningJob,
    child: Option<ChildExit>,
    values: FinalValues,
    restarts: bool,
    now: Nanos,
) -> JobExit {
    let mut used = running.orphans_used;
    child.iter().for_each(|child| used.add(child));
    let ChildUsage { user, system, max_resident, n_faults, n_switches } = used;
    let FinalValues { totals, counters, traffic, n_remaining } = values;
    let counters = match used == ChildUsage::default() {
        true => counters, // No process was reaped.
        false => counters
            .with(CounterEvent::PageFaults, RawCounter::unmultiplexed(n_faults))
            .with(CounterEvent::ContextSwitches, RawCounter::unmultiplexed(n_switches)),
    };
    JobExit {
        status: match child.map(|child| child.status) {
            Some(ChildStatus::Exited(status)) => ExitStatus::Exited(status),
            Some(ChildStatus::Killed(signal)) => ExitStatus::Signaled(signal),
            // Another thread of evenkeel reaped the process; its status is unknown.
            None => ExitStatus::UNKNOWN,
        },
        stopped_by_host: running.exit_requested.is_some(),
        oom_killed: false,
        restarts,
        wall: running.exited.unwrap_or(now).saturating_sub(running.started),
        user,
        system,
        max_resident,
        wait: totals.wait(user + system),
        blocked: None,
        // Inherited counters include tasks that exited between two samples; /proc does not.
        n_migrations: totals
            .n_migrations(user + system)
            .or_else(|| Some(counters.get(CounterEvent::CpuMigrations)?.value)),
        counters,
        traffic,
        n_remaining,
    }
}
