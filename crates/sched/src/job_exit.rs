//! The exit of a job: status, resource usage, and how it ended.
//!
//! ```text
//!   exit status, signal sent by evenkeel, OOM kill of the kernel  ──►  JobEnd  ──►  failed or not
//! ```

use std::fmt;

use base::{Bytes, Nanos};
use program::Ending;

use crate::Counters;

/// Exit of a job. Times and memory include the children that the main process waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobExit {
    /// Exit status of the main process.
    pub status: ExitStatus,
    /// Whether the host terminated the job, because the workload declares it or because the run stops. Such an exit
    /// is not a failure.
    pub stopped_by_host: bool,
    /// Whether the kernel OOM-killed a process of the job.
    pub oom_killed: bool,
    /// Whether the job is due again immediately, because it restarts until other jobs have ended.
    pub restarts: bool,
    /// Time from start to exit.
    pub wall: Nanos,
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in kernel mode.
    pub system: Nanos,
    /// Largest maximum resident set size of a process of the job.
    pub max_resident: Bytes,
    /// Wait time (runnable and not running) of the job's tasks.
    pub wait: Option<Nanos>,
    /// Time in which tasks of the job slept because they waited for other tasks of the job, summed over the tasks. Only a
    /// simulated host knows it.
    pub blocked: Option<Nanos>,
    /// Number of migrations of the job's tasks to another CPU.
    pub n_migrations: Option<u64>,
    /// Raw counters, summed over all tasks. Page faults and context switches include only the main process and the
    /// children that it waited for (wait4(2)).
    pub counters: Counters,
    /// Bytes between the last-level caches and memory, from the resctrl monitoring groups of the job.
    pub traffic: Option<Bytes>,
    /// Number of remaining processes when the main process exited.
    pub n_remaining: u32,
}

impl JobExit {
    /// Returns how the job ended, as far as the exit shows it.
    pub fn end(&self) -> JobEnd {
        match self.status {
            _ if self.stopped_by_host => JobEnd::Stopped,
            ExitStatus::Exited(0) => JobEnd::Succeeded,
            _ if self.oom_killed => JobEnd::OomKilled,
            ExitStatus::UNKNOWN => JobEnd::Lost,
            ExitStatus::Exited(status) => JobEnd::Failed(status),
            ExitStatus::Signaled(signal) => JobEnd::Killed(signal),
        }
    }

    /// Returns an exit without resource usage, in which the host did not terminate the job.
    pub fn new(status: ExitStatus, wall: Nanos) -> Self {
        JobExit {
            status,
            stopped_by_host: false,
            oom_killed: false,
            restarts: false,
            wall,
            user: Nanos::ZERO,
            system: Nanos::ZERO,
            max_resident: Bytes::ZERO,
            wait: None,
            blocked: None,
            n_migrations: None,
            counters: Counters::NONE,
            traffic: None,
            n_remaining: 0,
        }
    }
}

/// Exit status of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The process exited with this status.
    Exited(i32),
    /// A signal with this number terminated the process.
    Signaled(i32),
}

impl ExitStatus {
    /// The status of a process that was reaped without evenkeel.
    pub const UNKNOWN: ExitStatus = ExitStatus::Exited(-1);
}

/// Returns the name of a signal (`SIGINT`), or its number if it has no name of its own.
pub fn signal_name(signal: i32) -> String {
    /// Signals from 1 that end a program by default, on all architectures of evenkeel.
    const NAMES: [&str; 15] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM",
    ];
    let idx = usize::try_from(signal).ok().and_then(|signal| signal.checked_sub(1));
    match idx.and_then(|idx| NAMES.get(idx)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

named_enum! {
    /// Cause for which a run stopped before all jobs had ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    StopCause {
        /// A signal.
        Signal "signal",
        /// The time limit of the run was reached.
        TimeLimit "time-limit",
        /// A job failed, and a failed job stops the run.
        FailedJob "failed-job",
        /// The policy aborted the run, or a sink failed.
        Error "error",
        /// SIGHUP: a watch ends, and another watch starts with the new configuration.
        Reload "reload",
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// It exited with status 0.
    Succeeded,
    /// It exited with this status.
    Failed(i32),
    /// A signal with this number, which evenkeel did not send, terminated it.
    Killed(i32),
    /// The kernel OOM-killed it.
    OomKilled,
    /// It ended with an unknown status.
    Lost,
    /// evenkeel stopped it, because the workload declares it or because the run stopped.
    Stopped,
    /// The time limit of the run stopped it.
    TimedOut,
}

impl JobEnd {
    /// Returns the end in a run that `stopped_by` stopped. Only a stop of the run ends a job early whose
    /// program decides when it exits.
    #[must_use]
    pub fn in_run(self, stopped_by: Option<StopCause>, ending: Ending) -> Self {
        let is_cut = self == JobEnd::Stopped && ending.is_program_exit();
        if is_cut && stopped_by == Some(StopCause::TimeLimit) { JobEnd::TimedOut } else { self }
    }

    /// Returns whether the job failed. A job that evenkeel stopped did not fail.
    pub fn is_failure(self) -> bool {
        match self {
            JobEnd::Failed(_) | JobEnd::Killed(_) | JobEnd::OomKilled | JobEnd::Lost => true,
            JobEnd::Succeeded | JobEnd::Stopped | JobEnd::TimedOut => false,
        }
    }
}

impl fmt::Display for JobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobEnd::Succeeded => write!(f, "exit status 0"),
            JobEnd::Failed(status) => write!(f, "exit status {status}"),
            JobEnd::Killed(signal) => write!(f, "ended by {}", signal_name(*signal)),
            JobEnd::OomKilled => write!(f, "OOM-killed"),
            JobEnd::Lost => write!(f, "exit status unknown"),
            JobEnd::Stopped => write!(f, "stopped by evenkeel"),
            JobEnd::TimedOut => write!(f, "time limit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_exit_has_one_end() {
        let end = |status, stopped_by_host, oom_killed| {
            let exit = JobExit::new(status, Nanos::ZERO);
            JobExit { stopped_by_host, oom_killed, ..exit }.end()
        };
        let (status, signal) = (ExitStatus::Exited, ExitStatus::Signaled);
        assert_eq!(end(status(0), false, false), JobEnd::Succeeded);
        assert_eq!(end(status(3), false, false), JobEnd::Failed(3));
        assert_eq!(end(signal(11), false, false), JobEnd::Killed(11));
        assert_eq!(end(signal(9), false, true), JobEnd::OomKilled);
        assert_eq!(end(status(137), false, true), JobEnd::OomKilled);
        assert_eq!(end(ExitStatus::UNKNOWN, false, false), JobEnd::Lost);
        assert_eq!(end(signal(15), true, false), JobEnd::Stopped);
    }

    #[test]
    fn a_time_limit_times_out_only_jobs_without_a_declared_end() {
        let limit = Some(StopCause::TimeLimit);
        let in_run = |end: JobEnd, cause, ending| end.in_run(cause, ending);
        assert_eq!(in_run(JobEnd::Stopped, limit, Ending::Exit), JobEnd::TimedOut);
        assert_eq!(in_run(JobEnd::Stopped, limit, Ending::RestartUntilAllDone), JobEnd::TimedOut);
        assert_eq!(in_run(JobEnd::Stopped, limit, Ending::RestartUntilOthersDone), JobEnd::Stopped);
        assert_eq!(in_run(JobEnd::Stopped, Some(StopCause::Signal), Ending::Exit), JobEnd::Stopped);
        assert_eq!(in_run(JobEnd::Failed(1), limit, Ending::Exit), JobEnd::Failed(1));
    }
}
