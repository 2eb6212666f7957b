//! Phases of a trial.

use std::collections::{BTreeMap, BTreeSet};

use base::{CpuSet, Nanos, NodeId};
use sched::{ActionKind, JobView, Request, Snapshot, Target};

use super::intervals::{self, ComparedJobs, JobRun, MeasuredInterval};
use super::verdict::Comparison;

/// Phase of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TrialPhase {
    /// Intervals before migrations are measured.
    Baseline,
    /// Migrations pass.
    Moving(Trial),
    /// Intervals after migrations are measured.
    After(Trial),
    /// No job migrates until this time.
    BackOff { until: Nanos, returned: BTreeSet<JobRun> },
}

/// Migrations that are measured together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trial {
    pub before: Vec<MeasuredInterval>,
    pub n_moves: u64,
    /// Intervals of this phase so far.
    pub n_intervals: u64,
    /// Migrated jobs, and jobs whose pages migrate.
    pub moved: BTreeSet<(JobRun, ActionKind)>,
    /// CPUs and node of each migrated job before the trial.
    pub origins: BTreeMap<JobRun, Origin>,
}

/// Place of a job before a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Origin {
    pub cpus: CpuSet,
    pub node: Option<NodeId>,
}

impl Origin {
    pub fn of(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<Self> {
        let domain = snapshot.domains.get(job.domain?);
        let cpus = job.placed.cloned().unwrap_or_else(|| domain.cpus.and(job.allowed));
        (!cpus.is_empty()).then_some(Origin { cpus, node: domain.node })
    }
}

/// Result of a trial.
pub(super) enum TrialResult {
    Measured(Comparison, ComparedJobs),
    Unknown,
}

impl Trial {
    /// Returns whether a migrated job still runs, or no job has migrated yet.
    pub fn has_running_job(&self, snapshot: &Snapshot<'_>) -> bool {
        self.moved.is_empty()
            || self.moved.iter().any(|(run, _)| intervals::is_running(snapshot, *run))
    }

    /// Returns whether a request is the first for the pages of a job that this trial migrated.
    pub fn is_followed_by(&self, (run, kind): (JobRun, ActionKind)) -> bool {
        kind == ActionKind::Pages
            && self.moved.contains(&(run, ActionKind::Cpus))
            && !self.moved.contains(&(run, ActionKind::Pages))
    }
}

/// Returns the job of a request and the kind of its action; `None`: the job or task is unknown.
pub(super) fn subject<'a>(
    snapshot: &'a Snapshot<'_>,
    request: &Request,
) -> Option<(&'a JobView<'a>, ActionKind)> {
    let job = match request.target {
        Target::Job(job) => job,
        Target::Task(task) => snapshot.tasks.iter().find(|view| view.task == task)?.job,
    };
    Some((snapshot.job(job)?, request.action.kind()))
}
