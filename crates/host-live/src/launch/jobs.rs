//! The jobs of a workload and the state of each.
//!
//! ```text
//!   Waiting ─► Due ─► Running ─► Finished
//!               ▲        │
//!               └────────┘  a job that restarts until the others, or all, are done
//! ```

use std::collections::BTreeMap;

use base::{JobId, Nanos};
use linux::child_exit::ChildUsage;
use linux::tasks::KeptFile;
use program::Job;
use rustix::process::Signal;
use sched::{Cause, JobEvent};

use crate::process_signals;
use crate::session::{AffinityState, JobAffinities, Session};

pub(super) struct WorkloadJob {
    pub job: Job,
    /// Number of starts.
    pub n_runs: u32,
    /// Whether a run of the job has ended.
    has_ended: bool,
    pub state: JobRunState,
}

impl WorkloadJob {
    /// Returns whether the run lasts at least until this job ends for the first time.
    fn is_awaited(&self) -> bool {
        self.job.ending.is_awaited() && !self.has_ended
    }
}

pub(super) enum JobRunState {
    Waiting,
    Due,
    Running(Box<RunningJob>),
    Finished,
}

pub(super) struct RunningJob {
    /// PID of the main process of the job, which is also the id of its process group.
    pub pid: u32,
    /// Descriptor that wakes the loop at the exit of the main process. `None` if no descriptor was free.
    pub pidfd: Option<KeptFile>,
    pub started: Nanos,
    pub affinity: AffinityState,
    /// Time of the exit request (SIGTERM).
    pub exit_requested: Option<Nanos>,
    /// Exit time of the main process, until the exit is handled.
    pub exited: Option<Nanos>,
    /// Resource usage of the exited orphans of the job.
    pub orphans_used: ChildUsage,
    /// Whether a stop because of terminal access has been reported.
    pub has_warned_stopped: bool,
}

impl RunningJob {
    pub(super) fn new(affinity: AffinityState, started: Nanos, pidfd: Option<KeptFile>) -> Self {
        RunningJob {
            pid: affinity.pid,
            pidfd,
            started,
            affinity,
            exit_requested: None,
            exited: None,
            orphans_used: ChildUsage::default(),
            has_warned_stopped: false,
        }
    }
}

pub(super) struct JobTable {
    pub all: Vec<WorkloadJob>,
    /// Running jobs by the PID of their main process.
    pub by_pid: BTreeMap<u32, JobId>,
    /// Jobs that the next plan starts.
    pub due: Vec<JobId>,
    /// Number of jobs that have not ended once, without jobs that restart until all others are done.
    n_awaited: usize,
}

impl JobTable {
    pub(super) fn new(jobs: Vec<Job>) -> Self {
        let n_awaited = jobs.iter().filter(|job| job.ending.is_awaited()).count();
        let entry =
            |job| WorkloadJob { job, n_runs: 0, has_ended: false, state: JobRunState::Waiting };
        let all = jobs.into_iter().map(entry).collect();
        JobTable { all, by_pid: BTreeMap::new(), due: Vec::new(), n_awaited }
    }

    pub(super) fn entry(&mut self, job: JobId) -> &mut WorkloadJob {
        &mut self.all[job.index()]
    }

    pub(super) fn job(&self, job: JobId) -> &Job {
        &self.all[job.index()].job
    }

    pub(super) fn n_runs(&self, job: JobId) -> u32 {
        self.all[job.index()].n_runs
    }

    pub(super) fn running(&mut self, job: JobId) -> Option<&mut RunningJob> {
        match &mut self.all.get_mut(job.index())?.state {
            JobRunState::Running(running) => Some(running),
            _ => None,
        }
    }

    pub(super) fn running_ids(&self) -> Vec<JobId> {
        let runs = |entry: &&WorkloadJob| matches!(entry.state, JobRunState::Running(_));
        self.all.iter().filter(runs).map(|entry| entry.job.id).collect()
    }

    pub(super) fn are_all_finished(&self) -> bool {
        self.all.iter().all(|entry| matches!(entry.state, JobRunState::Finished))
    }

    /// Returns the started job if exactly one job was ever started.
    pub(super) fn only_started(&self) -> Option<JobId> {
        let mut started = self.all.iter().filter(|entry| entry.n_runs != 0);
        match (started.next(), started.next()) {
            (Some(only), None) => Some(only.job.id),
            _ => None,
        }
    }

    /// Marks a job for a start by the next plan.
    pub(super) fn make_due(&mut self, job: JobId, session: &mut Session) {
        self.entry(job).state = JobRunState::Due;
        self.due.push(job);
        session.report(JobEvent::Due(job));
        session.turn.causes.insert(Cause::JobsDue);
    }

    /// Marks all jobs that have not been started as finished.
    pub(super) fn cancel_starts(&mut self, session: &mut Session) {
        self.due.clear();
        session.turn.pending.jobs.retain(|event| !matches!(event, JobEvent::Due(_)));
        for entry in &mut self.all {
            if matches!(entry.state, JobRunState::Waiting | JobRunState::Due) {
                entry.state = JobRunState::Finished;
            }
        }
    }

    /// Returns whether a job is started again when it exits.
    pub(super) fn restarts(&self, job: JobId) -> bool {
        let entry = &self.all[job.index()];
        let will_restart = matches!(&entry.state, JobRunState::Running(running) if running.exit_requested.is_none());
        let n_others = self.n_awaited - usize::from(entry.is_awaited());
        entry.job.ending.restarts() && 0 < n_others && will_restart
    }

    /// Returns whether the exit that ends the current run of a job is its result.
    pub(super) fn is_result(&self, job: JobId) -> bool {
        let entry = &self.all[job.index()];
        entry.job.ending.is_result(entry.has_ended)
    }

    /// Marks a job as finished. Returns whether no unfinished job remains that the run waits for. In this case jobs
    /// that restart also end.
    pub(super) fn set_finished(&mut self, job: JobId) -> bool {
        self.entry(job).state = JobRunState::Finished;
        self.end_run(job) && self.n_awaited == 0
    }

    /// Records the end of a run of a job. Returns whether the run of the workload waited for it.
    pub(super) fn end_run(&mut self, job: JobId) -> bool {
        let entry = self.entry(job);
        let was_awaited = entry.is_awaited();
        entry.has_ended = true;
        self.n_awaited -= usize::from(was_awaited);
        was_awaited
    }

    /// Sends a signal to all processes of a job: its process group, and processes that left the group.
    /// SIGCONT follows, because a stopped process cannot exit.
    pub(super) fn signal(&mut self, job: JobId, signal: Signal, session: &Session) {
        let Some(group) = self.running(job).map(|running| running.pid) else { return };
        let is_outside = |pid: &u32| {
            linux::procfs::stat("/".as_ref(), *pid).is_ok_and(|stat| stat.group != group)
        };
        let outside = session.tasks.processes_of(job).filter(|(pid, _)| is_outside(pid));
        let outside: Vec<_> = outside.map(|(pid, it)| (pid, it.start_time_ticks)).collect();
        for signal in [signal, Signal::CONT] {
            process_signals::send_to_group(group, signal);
            for &(pid, start_time_ticks) in &outside {
                process_signals::send(pid, start_time_ticks, signal);
            }
        }
    }

    /// Reports once per job that the kernel stopped the job because of an access to the terminal: evenkeel is in the
    /// foreground process group, and the job is not. Without this warning the run would seem to hang.
    pub(super) fn report_stopped(&mut self, session: &mut Session) {
        while let Some((pid, signal)) = linux::child_exit::next_stopped() {
            let verb = match signal {
                _ if signal == Signal::TTIN.as_raw() => "reads",
                _ if signal == Signal::TTOU.as_raw() => "changes",
                _ => continue, // SIGSTOP was sent by a user or program.
            };
            let Some(&job) = self.by_pid.get(&pid) else { continue };
            let has_warned = self.running(job).map(|running| &mut running.has_warned_stopped);
            if has_warned.is_some_and(|has_warned| !std::mem::replace(has_warned, true)) {
                let name = &self.job(job).name;
                session.warn(format!(
                    "{name}: stopped by the kernel because it {verb} the terminal, which jobs cannot use: \
                     set an input file, or end the job (kill -KILL {pid})"
                ));
            }
        }
    }
}

impl JobAffinities for JobTable {
    fn affinity(&self, job: JobId) -> Option<&AffinityState> {
        match &self.all.get(job.index())?.state {
            JobRunState::Running(running) => Some(&running.affinity),
            _ => None,
        }
    }

    fn affinity_mut(&mut self, job: JobId) -> Option<&mut AffinityState> {
        self.running(job).map(|running| &mut running.affinity)
    }
}
