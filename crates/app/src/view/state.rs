//! State of the full-screen view: turns and keys in, values for the drawing out. It reads no clock and no file.

use std::collections::{BTreeMap, VecDeque};

use base::{JobId, Nanos};
use engine::TurnRecord;
use journal::{Header, JobProgress};
use program::{Ending, Job};
use sched::{Cause, HostKind, JobEvent};

use super::jobs::{JobKey, RowState, elapsed, sorted};
use super::keys::{Controls, Effect, Key};
use super::loads::{ShownLoads, cpus_busy};
use super::progress_events::{ProgressEvent, ProgressReporter};
use super::time_left::{Expected, TimeLeft, by_share};

/// Number of events that are kept for the list of moves, and for each job.
const N_EVENTS: usize = 500;

/// State from which the next frame is drawn.
#[derive(Debug)]
pub struct ViewState {
    pub policy: String,
    /// Name of the workload, or the selection of a watch.
    pub workload: String,
    /// Kind of the host.
    pub host: HostKind,
    pub at: Nanos,
    pub is_stopping: bool,
    pub loads: Option<ShownLoads>,
    pub controls: Controls,
    reporter: ProgressReporter,
    jobs: Vec<JobUse>,
    /// Moves, page migrations, rejections and notes, oldest first.
    moves: VecDeque<ProgressEvent>,
    /// Starts, ends and failures, oldest first.
    starts: VecDeque<ProgressEvent>,
    last_interval: Nanos,
}

/// Values of a job that its history does not contain.
#[derive(Clone, Copy, Debug, Default)]
struct JobUse {
    due: Nanos,
    /// CPUs that the job used in the last interval.
    cpus_busy: f64,
    /// CPU time of the sampled tasks since the last start.
    cpu_time: Nanos,
    expected: Option<Expected>,
    /// Completed share of a simulated job.
    simulated: Option<f64>,
}

/// A row of the job table.
#[derive(Debug)]
pub struct JobRow<'a> {
    pub id: JobId,
    pub name: &'a str,
    pub state: RowState,
    pub progress: &'a JobProgress,
    pub domain: Option<String>,
    pub cpus_busy: f64,
    /// Start time that the workload declares.
    pub due: Nanos,
    pub elapsed: Option<Nanos>,
    pub time_left: Option<TimeLeft>,
}

impl ViewState {
    /// Creates the state before the first turn. `last_run` contains the wall times of an earlier run, by job name.
    pub fn new(header: &Header, last_run: &BTreeMap<String, Nanos>) -> Self {
        let job_use = |job: &Job| {
            let last = last_run.get(&job.name).filter(|_| job.ending == Ending::Exit);
            let last = last.map(|wall| Expected::LastRun(*wall));
            JobUse {
                due: job.start,
                expected: last.or_else(|| Expected::declared(job)),
                ..JobUse::default()
            }
        };
        ViewState {
            policy: base::printable(&header.policy.spec),
            workload: base::printable(&header.workload),
            host: header.host,
            at: Nanos::ZERO,
            is_stopping: false,
            loads: None,
            controls: Controls::default(),
            reporter: ProgressReporter::new(header),
            jobs: header.jobs.iter().map(job_use).collect(),
            moves: VecDeque::new(),
            starts: VecDeque::new(),
            last_interval: Nanos::ZERO,
        }
    }

    /// Records a turn.
    pub fn record(&mut self, record: &TurnRecord<'_>) {
        self.at = record.turn.at;
        self.is_stopping |= record.turn.causes.contains(&Cause::Stopping);
        for event in self.reporter.events(record) {
            let is_start =
                matches!(event.kind, "start" | "end" | "failed" | "attached" | "detached");
            let list = if is_start { &mut self.starts } else { &mut self.moves };
            list.push_back(event);
            if N_EVENTS < list.len() {
                list.pop_front();
            }
        }
        self.jobs.resize(self.reporter.jobs().len(), JobUse::default());
        for outcome in record.outcomes.iter().filter(|outcome| outcome.action.is_none()) {
            if let sched::Target::Job(job) = outcome.target {
                self.forget_use(job);
            }
        }
        for event in &record.sample.jobs {
            if let JobEvent::Attached(job) = event {
                self.forget_use(job.id);
            }
        }
        if record.turn.causes.contains(&Cause::Interval) {
            self.record_interval(record);
        }
    }

    /// Sets the completed shares of the jobs of a simulated run, by number.
    pub fn set_simulated(&mut self, done: &[Option<f64>]) {
        for (job, done) in self.jobs.iter_mut().zip(done) {
            job.simulated = *done;
        }
    }

    /// Resets the measured values of a job that starts.
    fn forget_use(&mut self, job: JobId) {
        if let Some(job) = self.jobs.get_mut(job.index()) {
            (job.cpus_busy, job.cpu_time, job.simulated) = (0.0, Nanos::ZERO, None);
        }
    }

    fn record_interval(&mut self, record: &TurnRecord<'_>) {
        let interval = self.at.saturating_sub(self.last_interval);
        self.last_interval = self.at;
        let busy = cpus_busy(record, interval, self.jobs.len());
        for (job, busy) in self.jobs.iter_mut().zip(busy) {
            job.cpus_busy = busy;
        }
        for task in record.tasks {
            if let Some(job) = self.jobs.get_mut(task.job.index()) {
                job.cpu_time = job.cpu_time.saturating_add(task.cpu_time);
            }
        }
        if let Some(loads) = record.loads {
            let names = self.reporter.domain_names();
            self.loads = Some(ShownLoads::new(loads, names, interval, self.loads.as_ref()));
        }
    }

    /// Applies a key.
    pub fn press(&mut self, key: Key) -> Effect {
        let order = self.order();
        self.controls.press(key, &order)
    }

    /// Returns the jobs of the table in its order.
    pub fn order(&self) -> Vec<JobId> {
        let key = |(idx, progress): (usize, &JobProgress)| JobKey {
            id: JobId(idx as u32),
            state: RowState::of(progress),
            name: self.reporter.name(idx),
            first_cpu: progress.placed.as_ref().and_then(|cpus| cpus.first()).map(|cpu| cpu.0),
            cpus_busy: self.jobs.get(idx).map_or(0.0, |job| job.cpus_busy),
            elapsed: elapsed(progress, self.at).unwrap_or_default(),
        };
        let keys = self.reporter.jobs().iter().enumerate().map(key);
        let keys = keys.filter(|key| key.state != RowState::Detached).collect();
        sorted(keys, self.controls.sort)
    }

    /// Returns the row of a job.
    pub fn row(&self, id: JobId) -> Option<JobRow<'_>> {
        let progress = self.reporter.jobs().get(id.index())?;
        let job = self.jobs.get(id.index()).copied().unwrap_or_default();
        let state = RowState::of(progress);
        let elapsed = elapsed(progress, self.at);
        let is_running = state == RowState::Running;
        Some(JobRow {
            id,
            name: self.reporter.name(id.index()),
            state,
            progress,
            domain: progress.placed.as_ref().map(|cpus| self.reporter.domain_names().label(cpus)),
            cpus_busy: job.cpus_busy,
            due: job.due,
            elapsed,
            time_left: elapsed.filter(|_| is_running).and_then(|elapsed| job.time_left(elapsed)),
        })
    }

    /// Returns the noun of a row.
    pub fn noun(&self) -> &'static str {
        if self.host == HostKind::Watch { "processes" } else { "jobs" }
    }

    /// Returns the number of jobs in each state.
    pub fn counts(&self) -> BTreeMap<RowState, usize> {
        let mut counts = BTreeMap::new();
        for job in self.reporter.jobs() {
            *counts.entry(RowState::of(job)).or_default() += 1;
        }
        counts
    }

    /// Returns the moves with their title. Before the first move, returns the starts.
    pub fn last_moves(&self) -> (&'static str, &VecDeque<ProgressEvent>) {
        match self.moves.is_empty() {
            true => ("last starts and ends", &self.starts),
            false => ("last moves and notes", &self.moves),
        }
    }

    /// Returns all events, oldest first; only those of one job if it is given by name.
    pub fn events(&self, job: Option<&str>) -> Vec<&ProgressEvent> {
        let is_of_job = |event: &&ProgressEvent| job.is_none_or(|job| event.job == job);
        let mut events: Vec<_> = self.moves.iter().chain(&self.starts).filter(is_of_job).collect();
        events.sort_by_key(|event| event.at);
        events
    }
}

impl JobUse {
    fn time_left(&self, elapsed: Nanos) -> Option<TimeLeft> {
        if let (Some(done), None | Some(Expected::CpuTime(_) | Expected::LastRun(_))) =
            (self.simulated, self.expected)
        {
            return by_share(
                elapsed,
                done,
                "progress: exact, of the simulator; time left: estimated",
            );
        }
        self.expected?.time_left(elapsed, self.cpu_time)
    }
}
