//! Rows of the job table: the state of each job, and the order of the rows.

use base::{JobId, Nanos};
use journal::{JobPhase, JobProgress};
use sched::JobEnd;

/// State of a job as displayed. The order is the order of the sort by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowState {
    Failed,
    Running,
    Waiting,
    Stopped,
    Done,
    /// A process that a watch no longer manages. Such processes have no row.
    Detached,
}

impl RowState {
    /// States with a row and a count, in the order of the counts.
    pub const SHOWN: [RowState; 5] =
        [RowState::Waiting, RowState::Running, RowState::Done, RowState::Failed, RowState::Stopped];

    pub fn of(job: &JobProgress) -> Self {
        match (job.phase, &job.ended) {
            (JobPhase::Running, _) => RowState::Running,
            (JobPhase::NotStarted, _) => RowState::Failed,
            (JobPhase::Detached, _) => RowState::Detached,
            (JobPhase::Ended, Some((_, exit))) if exit.restarts => RowState::Waiting,
            (JobPhase::Ended, Some((_, exit))) => match exit.end() {
                JobEnd::Stopped | JobEnd::TimedOut => RowState::Stopped,
                end if end.is_failure() => RowState::Failed,
                _ => RowState::Done,
            },
            (JobPhase::Ended, None) => RowState::Done,
            (JobPhase::Waiting, _) => RowState::Waiting,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RowState::Failed => "failed",
            RowState::Running => "running",
            RowState::Waiting => "waiting",
            RowState::Stopped => "stopped",
            RowState::Done => "done",
            RowState::Detached => "detached",
        }
    }
}

/// Returns the time since the start of a running job, or the run time of an ended job.
pub fn elapsed(job: &JobProgress, at: Nanos) -> Option<Nanos> {
    match (job.phase, &job.ended) {
        (JobPhase::Running, _) => job.started.map(|started| at.saturating_sub(started)),
        (JobPhase::Ended, Some((_, exit))) => Some(exit.wall),
        _ => None,
    }
}

/// Sort key of the job table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    State,
    Number,
    Name,
    Domain,
    CpusBusy,
    Elapsed,
}

impl Sort {
    pub fn next(self) -> Self {
        match self {
            Sort::State => Sort::Number,
            Sort::Number => Sort::Name,
            Sort::Name => Sort::Domain,
            Sort::Domain => Sort::CpusBusy,
            Sort::CpusBusy => Sort::Elapsed,
            Sort::Elapsed => Sort::State,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Sort::State => "state",
            Sort::Number => "number",
            Sort::Name => "name",
            Sort::Domain => "domain",
            Sort::CpusBusy => "CPUs busy",
            Sort::Elapsed => "elapsed time",
        }
    }
}

/// A job as the sort reads it.
#[derive(Debug)]
pub struct JobKey<'a> {
    pub id: JobId,
    pub state: RowState,
    pub name: &'a str,
    pub first_cpu: Option<u32>,
    pub cpus_busy: f64,
    pub elapsed: Nanos,
}

/// Returns the jobs in the order of the table. Equal jobs are sorted by number.
pub fn sorted(mut keys: Vec<JobKey<'_>>, sort: Sort) -> Vec<JobId> {
    let order = |one: &JobKey<'_>, other: &JobKey<'_>| match sort {
        Sort::State => one.state.cmp(&other.state),
        Sort::Number => one.id.cmp(&other.id),
        Sort::Name => one.name.cmp(other.name),
        Sort::Domain => (one.first_cpu.is_none(), one.first_cpu)
            .cmp(&(other.first_cpu.is_none(), other.first_cpu)),
        Sort::CpusBusy => other.cpus_busy.total_cmp(&one.cpus_busy),
        Sort::Elapsed => other.elapsed.cmp(&one.elapsed),
    };
    keys.sort_by(|one, other| order(one, other).then(one.id.cmp(&other.id)));
    keys.into_iter().map(|key| key.id).collect()
}
