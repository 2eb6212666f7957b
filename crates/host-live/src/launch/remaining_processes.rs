//! The remaining processes of jobs, which run after the exit of the main process, and orphans.
//!
//! ```text
//!   main process of a job exits ─► its remaining processes get SIGTERM ─ grace period ─► SIGKILL
//!
//!   orphan ─► known, in the process group of a job, or with the id of the run in its environment ─► that job
//!          ─► in execve(2) ─► read again after 1 ms
//!          ─► otherwise (`env -i setsid …`) ─► the only job that was ever started, or *unassigned*:
//!             not sampled, and terminated when the last job has finished. If evenkeel had children before its first
//!             job, or is PID 1, the process may be of another program and is not changed
//! ```
//!
//! Orphans are reparented to evenkeel, which is their subreaper. While a job runs, its orphans belong to the job. After
//! the end of the job they are remaining processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use base::{CpuSet, JobId, Nanos};
use linux::inherited_children::ProcessKey;
use linux::proc_stat::ProcStat;
use linux::procfs::may_be_running;
use linux::tasks::{KeptFile, OrphanOwner};
use linux::undo::MaskOrigin;
use linux::{affinity, child_exit, procfs};
use rustix::process::Signal;
use sched::Cause;

use super::jobs::{JobRunState, JobTable};
use super::supervisor::Supervisor;
use super::timer_queue::{TimedEvent, TimerQueue};
use crate::process_signals::{self, SignalResult};
use crate::session::{JobAffinities, Session, restore_threads, task_id};

/// execve(2) takes microseconds of CPU time. After this number of attempts, a process in execve(2) counts as a process
/// without an environment.
const EXEC_ATTEMPTS: u32 = 50;
/// Time between two attempts.
pub(super) const EXEC_WAIT: Nanos = Nanos::from_millis(1);

/// A process that ran after the exit of the main process of its job and received SIGTERM.
#[derive(Debug)]
struct RemainingProcess {
    /// `None` if its job is unknown.
    job: Option<JobId>,
    /// The process group of its job.
    group: u32,
    start_time_ticks: u64,
    exit_requested: Nanos,
    pidfd: Option<KeptFile>,
}

/// All remaining processes and orphans of a run.
#[derive(Debug)]
pub(super) struct RemainingProcesses {
    processes: BTreeMap<u32, RemainingProcess>,
    /// Orphans without a known job: PID and start time.
    unassigned: BTreeMap<u32, u64>,
    /// Orphans in execve(2) at the last read: start time and number of attempts.
    in_exec: BTreeMap<u32, (u64, u32)>,
    /// Processes of another user, which evenkeel has no permission to signal, with their jobs.
    abandoned: BTreeMap<u32, Option<JobId>>,
    /// Jobs whose orphans of another user have been reported.
    warned_not_permitted: BTreeSet<Option<JobId>>,
    grace: Nanos,
    /// Whether remaining processes are killed without a grace period.
    pub skips_grace_period: bool,
    /// Whether no other code of this process waits for children.
    is_sole_parent: bool,
    /// Whether this process may have children that are neither jobs nor orphans of jobs. An orphan that cannot be
    /// assigned is then neither bound nor terminated.
    pub has_other_children: bool,
}

/// The parts of a run that change when a remaining process changes.
pub(super) struct RunParts<'a> {
    pub session: &'a mut Session,
    pub jobs: &'a mut JobTable,
    pub timers: &'a mut TimerQueue,
    pub supervisor: &'a mut Option<Supervisor>,
}

impl RemainingProcesses {
    pub(super) fn new(grace: Nanos, is_sole_parent: bool) -> Self {
        RemainingProcesses {
            processes: BTreeMap::new(),
            unassigned: BTreeMap::new(),
            in_exec: BTreeMap::new(),
            abandoned: BTreeMap::new(),
            warned_not_permitted: BTreeSet::new(),
            grace,
            skips_grace_period: false,
            is_sole_parent,
            has_other_children: !is_sole_parent,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    pub(super) fn contains(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Returns whether a process of an earlier run of this job is running.
    pub(super) fn has_processes_of(&self, job: JobId) -> bool {
        self.processes.values().any(|process| process.job == Some(job))
    }

    /// Returns whether the job of an orphan is unknown because the orphan is in execve(2).
    pub(super) fn any_in_exec(&self) -> bool {
        self.in_exec.values().any(|&(_, n_attempts)| n_attempts < EXEC_ATTEMPTS)
    }

    /// Stops waiting for a process that cannot be terminated. Its affinity is recorded under its own PID, because its
    /// environment cannot be read and its parent may have exited.
    pub(super) fn abandon(
        &mut self,
        parts: &mut RunParts<'_>,
        (pid, start_time_ticks): ProcessKey,
        job: Option<JobId>,
    ) {
        self.abandoned.insert(pid, job);
        let RunParts { session, jobs, .. } = parts;
        let Some(name) = job.map(|job| &jobs.job(job).name) else { return };
        if let Ok(Some(before)) = mask_before(session, pid, Some(name))
            && let Ok(mask) = affinity::get(pid)
        {
            // If the line cannot be written, the record stays without this process.
            let entry = (pid, start_time_ticks, pid);
            let _ = session.undo.set(name, [&before, &mask, &mask], vec![entry]);
        }
    }

    /// Terminates all processes of a job except the main process. Returns the number of terminated processes.
    pub(super) fn terminate_remaining_of(
        &mut self,
        parts: &mut RunParts<'_>,
        job: JobId,
        first: u32,
        now: Nanos,
    ) -> u32 {
        let mut remaining = Vec::new();
        for (pid, process) in parts.session.tasks.processes_of(job).filter(|(pid, _)| *pid != first)
        {
            match procfs::stat("/".as_ref(), pid) {
                Ok(stat)
                    if stat.start_time_ticks != process.start_time_ticks || stat.has_exited() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // An unreadable process also receives the signal.
                Ok(_) | Err(_) => remaining.push((pid, process.start_time_ticks)),
            }
        }
        for &process in &remaining {
            self.terminate(parts, Some(job), first, process, now);
        }
        u32::try_from(remaining.len()).unwrap_or(u32::MAX)
    }

    /// Sends SIGTERM to a process, and schedules SIGKILL after the grace period.
    fn terminate(
        &mut self,
        parts: &mut RunParts<'_>,
        job: Option<JobId>,
        group: u32,
        (pid, start_time_ticks): (u32, u64),
        now: Nanos,
    ) {
        let pidfd = parts.timers.watch_exit(parts.session, pid);
        let process = RemainingProcess { job, group, start_time_ticks, exit_requested: now, pidfd };
        let sent = process.signal(pid, Signal::TERM);
        process.signal(pid, Signal::CONT);
        if sent == SignalResult::NotPermitted {
            self.warn_not_permitted(parts, job, pid);
        }
        self.processes.insert(pid, process);
        let grace = if self.skips_grace_period { Nanos::ZERO } else { self.grace };
        parts.timers.add(now + grace, TimedEvent::Kill { requested_at: now });
    }

    /// Kills the processes with an exit request at `requested_at` or earlier. Stops waiting for processes of other
    /// users. Returns whether a process was killed or abandoned.
    pub(super) fn kill(&mut self, parts: &mut RunParts<'_>, requested_at: Nanos) -> bool {
        let is_requested = |process: &RemainingProcess| process.exit_requested <= requested_at;
        let all = self.processes.iter().filter(|(_, process)| is_requested(process));
        let pids: Vec<u32> = all.map(|(&pid, _)| pid).collect();
        for &pid in &pids {
            let Some(process) = self.processes.get(&pid) else { continue };
            if process.signal(pid, Signal::KILL) == SignalResult::NotPermitted {
                let (start_time_ticks, job) = (process.start_time_ticks, process.job);
                self.abandon(parts, (pid, start_time_ticks), job);
                self.exited(parts, pid);
            }
        }
        !pids.is_empty()
    }

    /// Handles the exit of a remaining process. The children of the process have been reparented to evenkeel.
    pub(super) fn exited(&mut self, parts: &mut RunParts<'_>, pid: u32) {
        let Some(process) = self.processes.remove(&pid) else { return };
        if let Some(pidfd) = &process.pidfd {
            parts.session.wakeups.unwatch(pidfd);
        }
        // A process that is not a child of evenkeel is reaped by its parent.
        let _ = child_exit::try_reap(pid);
        self.take_orphans(parts);
        let group = process.group;
        let is_group_in_use = self.processes.values().any(|other| other.group == group);
        if let Some(supervisor) = parts.supervisor.as_mut().filter(|_| !is_group_in_use) {
            supervisor.remove_group(group);
        }
        process.job.into_iter().for_each(|job| self.free_if_done(parts, job));
    }

    /// Removes a job from the undo record if none of its processes is running. The entries of a restarted job are kept.
    pub(super) fn free_if_done(&self, parts: &mut RunParts<'_>, job: JobId) {
        let entry = parts.jobs.entry(job);
        let runs = matches!(entry.state, JobRunState::Running(_) | JobRunState::Due);
        // A process that evenkeel cannot signal keeps its entry until the end of the run.
        let is_abandoned = self.abandoned.values().any(|of| *of == Some(job));
        if !runs && !is_abandoned && !self.has_processes_of(job) {
            // If the line cannot be written, `restore` finds that no process of the job is running.
            parts.session.undo.free(&entry.job.name);
        }
    }

    /// Reports once per job that a process cannot be signalled.
    pub(super) fn warn_not_permitted(
        &mut self,
        parts: &mut RunParts<'_>,
        job: Option<JobId>,
        pid: u32,
    ) {
        if self.warned_not_permitted.insert(job) {
            let name = job.map_or("a job", |job| &parts.jobs.job(job).name);
            parts.session.warn(format!(
                "{name}: process {pid} belongs to another user; evenkeel cannot signal it without CAP_KILL. It keeps \
                 running"
            ));
        }
    }

    /// Polls processes without a pidfd. Returns whether such a process is running.
    pub(super) fn poll(&mut self, parts: &mut RunParts<'_>) -> bool {
        let without = |(pid, it): (&u32, &RemainingProcess)| it.pidfd.is_none().then_some(*pid);
        let pids: Vec<u32> = self.processes.iter().filter_map(without).collect();
        let mut any_left = false;
        for pid in pids {
            match self.processes.get(&pid).is_some_and(|process| process.may_be_running(pid)) {
                true => any_left = true,
                false => self.exited(parts, pid),
            }
        }
        any_left
    }

    /// Assigns orphans to their jobs, and reaps exited orphans.
    pub(super) fn take_orphans(&mut self, parts: &mut RunParts<'_>) {
        let own = std::process::id();
        let supervisor = parts.supervisor.as_ref().map(Supervisor::pid);
        let children = procfs::children("/".as_ref(), own, own).unwrap_or_default();
        self.in_exec.retain(|pid, _| children.contains(pid));
        for pid in children {
            let is_known = parts.jobs.by_pid.contains_key(&pid)
                || self.processes.contains_key(&pid)
                || self.abandoned.contains_key(&pid)
                || supervisor == Some(pid);
            if !is_known
                && let Ok(stat) = procfs::stat("/".as_ref(), pid)
                && (stat.state == 'Z' || !stat.has_exited())
            {
                self.take_orphan(parts, pid, &stat);
            }
        }
    }

    fn take_orphan(&mut self, parts: &mut RunParts<'_>, pid: u32, stat: &ProcStat) {
        let is_unassigned = self.unassigned.get(&pid) == Some(&stat.start_time_ticks);
        let owner = match is_unassigned {
            true => OrphanOwner::Unknown,
            false => self.owner(parts, pid, stat),
        };
        if owner != OrphanOwner::InExec {
            self.in_exec.remove(&pid);
        }
        match owner {
            OrphanOwner::Job(job) if stat.has_exited() => self.reap(parts, Some(job), pid),
            OrphanOwner::Job(job) => self.adopt(parts, job, pid, stat),
            OrphanOwner::InExec if self.is_read_again(pid, stat.start_time_ticks) => {}
            // The process may be a child of the program that uses this library.
            _ if !self.is_sole_parent => {}
            _ if stat.has_exited() => self.reap(parts, None, pid),
            _ if is_unassigned || self.has_other_children => {}
            _ => {
                self.unassigned.insert(pid, stat.start_time_ticks);
            }
        }
    }

    fn owner(&self, parts: &RunParts<'_>, pid: u32, stat: &ProcStat) -> OrphanOwner {
        let is_first = |job, group| parts.jobs.by_pid.get(&group) == Some(&job);
        match parts.session.tasks.orphan_owner(pid, stat, is_first) {
            OrphanOwner::Unknown if !self.has_other_children => {
                parts.jobs.only_started().map_or(OrphanOwner::Unknown, OrphanOwner::Job)
            }
            owner => owner,
        }
    }

    fn is_read_again(&mut self, pid: u32, start_time_ticks: u64) -> bool {
        let attempts = self.in_exec.entry(pid).or_insert((start_time_ticks, 0));
        if attempts.0 != start_time_ticks {
            *attempts = (start_time_ticks, 0);
        }
        attempts.1 += 1;
        attempts.1 < EXEC_ATTEMPTS
    }

    /// Reaps an orphan. While its job runs, the resource usage of the orphan is added to the job.
    fn reap(&mut self, parts: &mut RunParts<'_>, job: Option<JobId>, pid: u32) {
        let exit = child_exit::try_reap(pid).ok().flatten();
        self.unassigned.remove(&pid);
        parts.session.remove_process(pid);
        let running = job.and_then(|job| parts.jobs.running(job));
        if let (Some(running), Some(exit)) = (running, exit) {
            running.orphans_used.add(&exit);
        }
    }

    fn adopt(&mut self, parts: &mut RunParts<'_>, job: JobId, pid: u32, stat: &ProcStat) {
        if let Some(state) = parts.jobs.affinity(job) {
            let mask = Arc::clone(state.inherited_mask());
            if !parts.session.tasks.adopt(job, pid, &mask).is_empty() {
                parts.session.bind_new_threads(parts.jobs, job);
            }
        } else if matches!(parts.jobs.entry(job).state, JobRunState::Finished) {
            // The process was forked during or after the listing of the remaining processes.
            let now = parts.session.now();
            self.terminate(parts, Some(job), stat.group, (pid, stat.start_time_ticks), now);
        } // Otherwise the job is about to restart.
    }

    /// Reports all known processes to the supervisor.
    pub(super) fn update_supervisor(&self, parts: &mut RunParts<'_>) {
        let Some(supervisor) = parts.supervisor else { return };
        let remaining = self.processes.iter().map(|(&pid, it)| (pid, it.start_time_ticks));
        let unassigned = self.unassigned.iter().map(|(&pid, &start)| (pid, start));
        let all = parts.session.tasks.all_processes().chain(remaining).chain(unassigned);
        supervisor.set_processes(all.collect());
    }

    /// Terminates unassigned orphans after the end of the last job. Returns whether all processes have exited.
    pub(super) fn end(&mut self, parts: &mut RunParts<'_>) -> bool {
        self.take_orphans(parts);
        if self.any_in_exec() {
            let now = parts.session.now();
            parts.timers.add(now + EXEC_WAIT, TimedEvent::TakeOrphans);
            return false;
        }
        self.terminate_unassigned(parts);
        self.processes.is_empty()
    }

    fn terminate_unassigned(&mut self, parts: &mut RunParts<'_>) {
        let unassigned = std::mem::take(&mut self.unassigned);
        if unassigned.is_empty() {
            return;
        }
        let (text, owner) = match unassigned.len() {
            1 => ("1 process without a known job: it".to_owned(), "its"),
            n => (format!("{n} processes without a known job: they"), "their"),
        };
        parts.session.warn(format!(
            "terminated {text} left the process group of {owner} job and cleared the environment"
        ));
        parts.session.turn.causes.insert(Cause::Ended); // One more turn reports the warning.
        let now = parts.session.now();
        for (pid, start_time_ticks) in unassigned {
            self.terminate(parts, None, pid, (pid, start_time_ticks), now);
        }
    }

    /// Restores the affinity of the remaining processes and of unassigned orphans.
    pub(super) fn release(&self, session: &mut Session, jobs: &JobTable) {
        let name = |job: Option<JobId>| job.map(|job| jobs.job(job).name.as_str());
        let remaining =
            self.processes.iter().map(|(&pid, it)| (pid, it.start_time_ticks, name(it.job)));
        let unassigned = self.unassigned.iter().map(|(&pid, &start)| (pid, start, None));
        // `UndoRecord::close` verifies the entries of processes that evenkeel cannot signal.
        let mut any_left = !self.abandoned.is_empty();
        for (pid, start_time_ticks, job) in remaining.chain(unassigned) {
            let id = task_id(pid, start_time_ticks);
            // The affinity of a process of another user cannot be restored; a warning has reported
            // the process.
            let restore = || restore_threads(pid, |tid| mask_before(session, tid, job));
            any_left |= may_be_running(id) && !restore() && may_be_running(id);
        }
        if any_left {
            session.undo.keep();
        }
    }
}

impl RemainingProcess {
    fn may_be_running(&self, pid: u32) -> bool {
        may_be_running(task_id(pid, self.start_time_ticks))
    }

    fn signal(&self, pid: u32, signal: Signal) -> SignalResult {
        match &self.pidfd {
            Some(pidfd) => process_signals::send_through(pidfd, signal),
            None => process_signals::send(pid, self.start_time_ticks, signal),
        }
    }
}

/// Returns the mask of a thread before its placement, or `None` if the thread has no assigned mask.
fn mask_before(session: &Session, tid: u32, job: Option<&str>) -> io::Result<Option<CpuSet>> {
    let Some(records) = session.undo.records() else { return Ok(None) };
    let own = &session.cpus.own;
    let mask = affinity::get(tid)?;
    let id = task_id(tid, procfs::stat("/".as_ref(), tid)?.start_time_ticks);
    Ok(match job {
        Some(job) => match records.classify_mask(id, job, &mask, own) {
            MaskOrigin::Evenkeel(before) => Some(before),
            MaskOrigin::Original | MaskOrigin::OtherProgram => None,
        },
        None => records.has_mask(&mask, own).then(|| (**own).clone()),
    })
}
