//! Metrics of one run: start and end of each job, and the costs of the run.
//!
//! Writing a journal of every turn would take most of the time of a simulated run. A comparison needs only the values
//! of [`RunMetrics`], which are collected during the run.

use std::collections::BTreeMap;
use std::io;

use base::{JobId, Nanos, NodeId};
use engine::{Sink, TurnRecord};
use program::{Ending, Job};
use sched::{Action, JobEvent, NodeSample, Outcome, OutcomeResult, Plan, Target};
use serde::{Deserialize, Serialize};

use crate::assignment::ModelGap;

/// Metrics of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunMetrics {
    /// Completion status of the run.
    pub status: Completion,
    /// The first error of a failed run.
    pub error: Option<String>,
    /// Time from the start of the run to the last end of a job: the makespan of a finished run.
    pub last_end: Nanos,
    /// Start and end of every job, by number.
    pub jobs: Vec<JobTimes>,
    /// Number of task migrations between CPUs.
    pub n_migrations: u64,
    /// Number of moves: placements of running jobs or tasks by the policy.
    pub n_moves: u64,
    /// Bytes of memory that migrated to another node.
    pub pages_moved_bytes: u64,
    /// Traffic of the memory controllers.
    pub controllers: Vec<ControllerTraffic>,
    /// Search of the oracle, in runs of the policy `oracle`.
    pub oracle: Option<OracleSearch>,
    /// Distance to the assignment model; `None` on machines with one core kind, in runs shorter than a second, and with
    /// too many threads.
    pub model_gap: Option<ModelGap>,
    /// Note of a policy that requested nothing, if the machine is the reason ([`policy::has_nothing_to_decide`]).
    pub nothing_to_decide: Option<String>,
}

impl AsRef<RunMetrics> for RunMetrics {
    fn as_ref(&self) -> &RunMetrics {
        self
    }
}

/// Search of the oracle for the best run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OracleSearch {
    /// The best candidate, in words.
    pub candidate: String,
    /// Number of placements for the whole run that were simulated.
    pub n_placements: u64,
    /// Whether all possible placements were simulated.
    pub is_all: bool,
    /// Objective divided by its lower bound, minus 1; `None` without a bound.
    pub above_bound: Option<f64>,
    /// The jobs or the demand from which the lower bound follows; `None` without a bound.
    pub bound_term: Option<String>,
}

/// Time of each job alone, by the indexes of column, workload and draw of the profiles. Columns differ in the settings of
/// the machine. Without draws the index is 0.
pub type SoloTimes = BTreeMap<(usize, usize, usize), Vec<Option<Nanos>>>;

/// Completion status of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Completion {
    /// All jobs exited with status 0.
    #[default]
    Finished,
    /// A job failed, or the policy aborted the run.
    Failed,
    /// The time limit expired.
    Stopped,
}

/// Start, end and CPU time of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTimes {
    /// First start.
    pub start: Option<Nanos>,
    /// The end that is the result of the job ([`Ending::is_result`]).
    pub end: Option<Nanos>,
    /// CPU time in user mode, of all starts.
    pub user: Option<Nanos>,
    /// CPU time in kernel mode, of all starts.
    pub system: Option<Nanos>,
}

/// Traffic of the memory controllers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerTraffic {
    /// The node; `None` on a machine without nodes.
    pub node: Option<NodeId>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl RunMetrics {
    /// Returns the makespan; `None` if a job failed or the run was stopped.
    pub fn makespan(&self) -> Option<Nanos> {
        (self.status == Completion::Finished).then_some(self.last_end)
    }

    /// Returns the time of a job from its first start to its end, in seconds.
    pub fn job_s(&self, idx: usize) -> Option<f64> {
        let times = self.jobs.get(idx)?;
        Some(times.end?.saturating_sub(times.start?).as_secs_f64())
    }

    /// Returns the cause of the failure of a run that did not finish.
    pub fn cause(&self) -> &str {
        match (&self.error, self.status) {
            (Some(error), _) => error,
            (None, Completion::Stopped) => "the time limit expired",
            _ => "it failed",
        }
    }

    /// Returns the run time of a job; `None` for a job that restarts until the others are done or is stopped by the
    /// host.
    pub fn time_of(&self, idx: usize, job: &Job) -> Option<Nanos> {
        let times = self.jobs.get(idx).filter(|_| job.ending.is_program_exit())?;
        Some(times.end?.saturating_sub(times.start?))
    }
}

/// Collects the metrics of a run from its turns.
#[derive(Debug)]
pub struct MetricsRecorder {
    metrics: RunMetrics,
    /// Names of the jobs, for errors.
    names: Vec<String>,
    endings: Vec<Ending>,
    /// Counter values of each controller in the first sample, and the increase since that sample.
    nodes: BTreeMap<NodeId, ([u64; 2], [u64; 2])>,
    has_requested: bool,
}

impl MetricsRecorder {
    /// Creates a recorder for a run of these jobs.
    pub fn new(jobs: &[Job]) -> Self {
        let names = jobs.iter().map(|job| job.name.clone()).collect();
        let endings = jobs.iter().map(|job| job.ending).collect();
        let jobs = vec![JobTimes::default(); jobs.len()];
        let metrics = RunMetrics { jobs, ..RunMetrics::default() };
        MetricsRecorder { metrics, names, endings, nodes: BTreeMap::new(), has_requested: false }
    }

    /// Returns the metrics. Migrated memory is the memory of completed page migrations that the policy requested.
    pub fn into_metrics(self) -> RunMetrics {
        let controllers = self.nodes.into_iter().map(|(node, (_, [read_bytes, written_bytes]))| {
            ControllerTraffic { node: Some(node), read_bytes, written_bytes }
        });
        let nothing_to_decide = self.metrics.nothing_to_decide.filter(|_| !self.has_requested);
        RunMetrics { controllers: controllers.collect(), nothing_to_decide, ..self.metrics }
    }

    fn record_end(&mut self, at: Nanos, event: &JobEvent) {
        let JobEvent::Ended(job, end) = event else { return };
        self.metrics.n_migrations += end.n_migrations.unwrap_or(0);
        self.metrics.last_end = self.metrics.last_end.max(at);
        let Some(times) = self.metrics.jobs.get_mut(job.index()) else { return };
        times.user = Some(times.user.unwrap_or_default() + end.user);
        times.system = Some(times.system.unwrap_or_default() + end.system);
        if !self.endings[job.index()].is_result(times.end.is_some()) {
            return;
        }
        times.end = Some(at);
        let job_end = end.end();
        if job_end.is_failure() {
            self.record_failure(*job, &job_end.to_string());
        }
    }

    /// Records the failure of a job. Only the first error is stored. The only job of a run needs no name.
    fn record_failure(&mut self, job: JobId, error: &str) {
        self.metrics.status = Completion::Failed;
        let error = match self.names.get(job.index()).filter(|_| 1 < self.names.len()) {
            Some(name) => format!("job {name}: {error}"),
            None => error.to_owned(),
        };
        self.metrics.error.get_or_insert(error);
    }

    /// Stores the first note that the machine gives the policy nothing to decide.
    fn record_plan(&mut self, plan: &Plan) {
        self.has_requested |= !plan.requests.is_empty();
        let note = plan.notes.iter().find(|note| policy::has_nothing_to_decide(&note.code));
        if let (None, Some(note)) = (&self.metrics.nothing_to_decide, note) {
            self.metrics.nothing_to_decide = Some(note.to_string());
        }
    }

    /// Stores the traffic of a controller since the first sample. The values of the first sample were counted before
    /// the run.
    fn record_node(&mut self, node: &NodeSample) {
        let (Some(read), Some(written)) =
            (node.read_bytes.map(|r| r.value), node.written_bytes.map(|r| r.value))
        else {
            return;
        };
        let (first, last) = self.nodes.entry(node.node).or_insert(([read, written], [0, 0]));
        *last = [read.saturating_sub(first[0]), written.saturating_sub(first[1])];
    }
}

/// Returns whether a running job or task was placed. A placement in the turn of the start is not a move.
fn is_move(outcome: &Outcome, jobs: &[JobTimes], at: Nanos) -> bool {
    let is_place = matches!(outcome.action, Some(Action::Place(_)));
    let is_done = matches!(outcome.result, OutcomeResult::Done { .. });
    let was_running = match outcome.target {
        Target::Job(job) => {
            jobs.get(job.index()).and_then(|job| job.start).is_some_and(|start| start < at)
        }
        Target::Task(_) => true,
    };
    is_place && is_done && was_running
}

impl Sink for MetricsRecorder {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let at = record.turn.at;
        self.record_plan(record.plan);
        record.sample.jobs.iter().for_each(|event| self.record_end(at, event));
        for outcome in record.outcomes {
            self.metrics.n_moves += u64::from(is_move(outcome, &self.metrics.jobs, at));
            let (Target::Job(job), None) = (outcome.target, &outcome.action) else {
                continue;
            };
            if let OutcomeResult::Rejected { detail, .. } = &outcome.result {
                self.record_failure(job, &format!("could not be started: {detail}"));
            } else if let Some(times) = self.metrics.jobs.get_mut(job.index()) {
                times.start.get_or_insert(at);
            }
        }
        record.sample.nodes.iter().for_each(|node| self.record_node(node));
        let moved = record.sample.page_migrations_completed.iter().map(|moved| moved.moved.0);
        self.metrics.pages_moved_bytes += moved.sum::<u64>();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::Command;
    use sched::{ExitStatus, JobExit};

    #[test]
    fn only_the_first_exit_of_a_job_that_restarts_until_all_are_done_decides_its_success() {
        let job = |ending| Job { ending, ..Job::new(JobId(0), "a", Command::Load(Vec::new())) };
        let error = |ending, statuses: [i32; 2]| {
            let mut recorder = MetricsRecorder::new(&[job(ending)]);
            for (at, status) in [1, 2].into_iter().zip(statuses) {
                let exit = JobExit::new(ExitStatus::Exited(status), Nanos(1));
                recorder.record_end(Nanos(at), &JobEvent::Ended(JobId(0), Box::new(exit)));
            }
            recorder.into_metrics().error
        };
        let failed = Some("exit status 3".to_owned());
        assert_eq!(error(Ending::RestartUntilAllDone, [0, 3]), None);
        assert_eq!(error(Ending::RestartUntilAllDone, [3, 0]), failed);
        assert_eq!(error(Ending::RestartUntilOthersDone, [0, 3]), failed);
    }
}
