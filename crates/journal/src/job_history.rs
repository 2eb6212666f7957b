//! History of every job, turn by turn: its phase, its CPUs, and the request that caused each change.
//!
//! ```text
//!   TurnRecord ─► JobHistory ─► JobRecord: ended, unmanaged, started, moved, …   each with its request
//!                     │
//!                     └───────► JobProgress: the state of each job
//! ```
//!
//! `explain`, the report, the progress view and the checkpoints of a journal all use this module, so that their results
//! agree. A request is matched with the outcome of the same turn, target and kind of action, even if the guard reduced
//! the limit of a page migration.
//!
//! In a replay the outcomes are those of the recorded run, and the requests are those of the replayed policy. These
//! requests were not carried out. A request without a matching outcome has a separate record.

use std::collections::BTreeMap;

use base::{Bytes, CpuSet, JobId, Nanos, TaskId};
use engine::TurnRecord;
use program::Ending;
use sched::{
    Action, ActionKind, ActivePageMigration, CompletedPageMigration, JobEvent, JobExit, Outcome,
    OutcomeResult, Reason, RejectCause, Request, Sample, Target, UnmanagedCause,
};
use serde::{Deserialize, Serialize};

use crate::Header;
use crate::job_record::{ApprovedRequests, JobChange, JobRecord};
use crate::thread_bindings::ThreadBindings;

/// State of all jobs of a run, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobHistory {
    jobs: Vec<JobProgress>,
    /// Ending of each job of the workload. Attached jobs have none.
    endings: Vec<Ending>,
    threads: ThreadBindings,
    n_running: u64,
    is_replay: bool,
}

/// State of a job after the last turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobProgress {
    /// Phase of the job.
    pub phase: JobPhase,
    /// Time of the last start.
    pub started: Option<Nanos>,
    /// Time of the last end, and the exit that is the result of the job. If that is the first of several exits,
    /// `restarts` is that of the last.
    pub ended: Option<(Nanos, JobExit)>,
    /// Number of starts.
    pub n_starts: u32,
    /// Number of moves of the running job and of its threads.
    pub n_moves: u32,
    /// CPUs to which evenkeel or another program bound the job. The field is absent while the job is not bound. Threads
    /// that evenkeel bound one by one have CPUs of their own: [`JobHistory::bound_cpus`].
    pub placed: Option<CpuSet>,
    /// Reason of the last placement by evenkeel.
    pub reason: Option<Reason>,
    /// Reason why evenkeel no longer places the job. The field is absent while evenkeel manages the job.
    pub unmanaged: Option<UnmanagedCause>,
    /// Cause and detail of a failed start.
    pub start_failure: Option<(RejectCause, String)>,
    /// The page migration in progress.
    pub active_page_migration: Option<ActivePageMigration>,
    /// Time and result of the last page migration.
    pub last_page_migration: Option<(Nanos, CompletedPageMigration)>,
    /// Sums over the completed page migrations of all starts.
    pub page_migrations: PageMigrationTotals,
}

/// Sums over the completed page migrations of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageMigrationTotals {
    /// Number of migrations.
    pub n: u32,
    /// Bytes that were found on the source nodes.
    pub requested: Bytes,
    /// Bytes that were on the target node after the migration.
    pub moved: Bytes,
}

/// Phase of a job, from waiting to ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobPhase {
    /// The job has not been started.
    #[default]
    Waiting,
    /// The job is running.
    Running,
    /// The job has ended.
    Ended,
    /// The job could not be started.
    NotStarted,
    /// The job was started by another program and is no longer managed.
    Detached,
}

impl JobHistory {
    /// Creates the state before the first turn.
    pub fn new(header: &Header) -> Self {
        Self::resume(Vec::new(), header)
    }

    /// Creates the state at a checkpoint.
    pub(crate) fn resume(mut jobs: Vec<JobProgress>, header: &Header) -> Self {
        jobs.resize(header.jobs.len(), JobProgress::default());
        let n_running = jobs.iter().filter(|job| job.phase == JobPhase::Running).count() as u64;
        let endings = header.jobs.iter().map(|job| job.ending).collect();
        let (threads, is_replay) = (ThreadBindings::default(), header.replay_of.is_some());
        JobHistory { jobs, endings, threads, n_running, is_replay }
    }

    /// Adds the threads at a checkpoint: all running threads, and those that are bound one by one.
    pub(crate) fn resume_threads(&mut self, sample: &Sample, bound: Vec<(TaskId, CpuSet)>) {
        self.threads.observe(sample);
        for (task, cpus) in bound {
            self.threads.bind(task, Some(cpus));
        }
    }

    /// Returns the threads that are bound one by one.
    pub(crate) fn bound_threads(&self) -> Vec<(TaskId, CpuSet)> {
        self.threads.all_bound()
    }

    /// Returns all jobs, by number.
    pub fn jobs(&self) -> &[JobProgress] {
        &self.jobs
    }

    /// Returns the job with this number.
    pub fn job(&self, id: JobId) -> Option<&JobProgress> {
        self.jobs.get(id.index())
    }

    /// Returns the job of a target; of a thread, if the thread was sampled.
    pub fn job_of(&self, target: Target) -> Option<JobId> {
        match target {
            Target::Job(id) => Some(id),
            Target::Task(task) => self.threads.job_of(task),
        }
    }

    /// Returns the CPUs to which evenkeel bound a job. If its threads are bound one by one, these are the CPUs of all
    /// its bound threads.
    pub fn bound_cpus(&self, id: JobId) -> Option<CpuSet> {
        let job = self.job(id)?;
        let is_foreign = matches!(job.unmanaged, Some(UnmanagedCause::AffinityChanged(_)));
        let of_job = job.placed.as_ref().filter(|_| !is_foreign);
        let threads = self.threads.threads(id).map(|(_, own)| own);
        match threads.clone().any(|own| own.is_some()) {
            true => {
                let cpus = threads.filter_map(|own| own.or(of_job)).cloned();
                cpus.reduce(|all, own| all.or(&own))
            }
            false => of_job.cloned(),
        }
    }

    /// Returns the CPUs to which a job or thread is bound, by evenkeel or another program.
    pub fn cpus_of(&self, target: Target) -> Option<&CpuSet> {
        match target {
            Target::Job(id) => self.job(id)?.placed.as_ref(),
            Target::Task(task) => self.cpus_of_thread(self.threads.job_of(task)?, task),
        }
    }

    /// Returns the CPUs to which a thread is bound, by evenkeel or with its job by another program.
    pub fn cpus_of_thread(&self, id: JobId, task: TaskId) -> Option<&CpuSet> {
        self.threads.own(id, task).or(self.job(id)?.placed.as_ref())
    }

    /// Returns the number of jobs that failed or could not be started.
    pub fn n_failed(&self) -> usize {
        let has_failed = |job: &&JobProgress| match &job.ended {
            Some((_, exit)) => exit.end().is_failure(),
            None => job.phase == JobPhase::NotStarted,
        };
        self.jobs.iter().filter(has_failed).count()
    }

    /// Returns the number of running jobs.
    pub fn n_running(&self) -> u64 {
        self.n_running
    }

    /// Returns whether this is a replay. The requests of a replay were not carried out.
    pub fn is_replay(&self) -> bool {
        self.is_replay
    }

    /// Applies the events in the sample of a turn, which precede the plan.
    pub fn apply_events<'a>(&mut self, record: &TurnRecord<'a>) -> Vec<JobRecord<'a>> {
        let (at, sample) = (record.turn.at, record.sample);
        let page_migrations = sample.page_migrations_completed.iter();
        let mut records: Vec<_> =
            page_migrations.filter_map(|ended| self.page_migration_ended(at, ended)).collect();
        records.extend(sample.jobs.iter().filter_map(|event| self.apply_event(at, event)));
        self.threads.observe(sample);
        records
    }

    fn page_migration_ended<'a>(
        &mut self,
        at: Nanos,
        ended: &'a CompletedPageMigration,
    ) -> Option<JobRecord<'a>> {
        let job = self.jobs.get_mut(ended.job.index())?;
        job.active_page_migration = None;
        job.last_page_migration = Some((at, ended.clone()));
        let totals = &mut job.page_migrations;
        totals.n = totals.n.saturating_add(1);
        totals.requested = totals.requested.saturating_add(ended.requested);
        totals.moved = totals.moved.saturating_add(ended.moved);
        let (target, change) = (Target::Job(ended.job), JobChange::PageMigrationEnded(ended));
        Some(JobRecord { target, change, request: None })
    }

    /// Applies the outcomes of a turn. Starts are applied first: the CPUs of a started job are part of its start.
    pub fn apply_outcomes<'a>(&mut self, record: &TurnRecord<'a>) -> Vec<JobRecord<'a>> {
        let has_requests = self.is_replay && !record.plan.requests.is_empty();
        if record.outcomes.is_empty() && !has_requests {
            return Vec::new();
        }
        let mut approved = ApprovedRequests::new(record.plan, record.rejected);
        let (mut records, started) = self.apply_starts(record, &mut approved);
        for outcome in record.outcomes {
            records.extend(self.apply_outcome(record.turn.at, outcome, &started, &mut approved));
        }
        if self.is_replay {
            records.extend(approved.unmatched().map(|request| self.not_carried_out(request)));
        }
        records
    }

    fn apply_event<'a>(&mut self, at: Nanos, event: &'a JobEvent) -> Option<JobRecord<'a>> {
        let (id, change) = match event {
            JobEvent::Due(_) => return None,
            JobEvent::Ended(id, exit) => (*id, JobChange::Ended(exit)),
            JobEvent::Unmanaged(id, cause) => (*id, JobChange::Unmanaged(cause)),
            JobEvent::Attached(job) => {
                self.attach(job.id, at)?;
                (job.id, JobChange::Attached(job))
            }
            JobEvent::Detached(id, cause, counters) => {
                let job = self.jobs.get(id.index())?;
                let was_placed = job.unmanaged.is_none() && self.bound_cpus(*id).is_some();
                (*id, JobChange::Detached { cause: *cause, was_placed, counters })
            }
        };
        let job = self.jobs.get_mut(id.index())?;
        match event {
            JobEvent::Due(_) | JobEvent::Attached(_) => {}
            JobEvent::Detached(..) => {
                self.threads.remove_job(id);
                self.n_running -= u64::from(job.phase == JobPhase::Running);
                (job.phase, job.placed) = (JobPhase::Detached, None);
            }
            JobEvent::Ended(_, exit) => {
                self.threads.remove_job(id);
                self.n_running -= u64::from(job.phase == JobPhase::Running);
                (job.phase, job.placed) = (JobPhase::Ended, None);
                job.active_page_migration = None;
                let ending = self.endings.get(id.index()).copied().unwrap_or_default();
                let result = match job.ended.take().filter(|_| !ending.is_result(true)) {
                    Some((_, first)) => JobExit { restarts: exit.restarts, ..first },
                    None => JobExit::clone(exit),
                };
                job.ended = Some((at, result));
            }
            JobEvent::Unmanaged(_, cause) => {
                job.unmanaged = Some(cause.clone());
                if let UnmanagedCause::AffinityChanged(cpus) = cause {
                    self.threads.unbind_all(id);
                    (job.placed, job.reason) = (Some(cpus.clone()), None);
                }
            }
        }
        Some(JobRecord { target: Target::Job(id), change, request: None })
    }

    /// Adds an attached job. The job has the next free number or the number of a detached job.
    fn attach(&mut self, id: JobId, at: Nanos) -> Option<()> {
        let attached = JobProgress {
            phase: JobPhase::Running,
            started: Some(at),
            n_starts: 1,
            ..JobProgress::default()
        };
        let n_jobs = self.jobs.len();
        match self.jobs.get_mut(id.index()) {
            Some(job) => {
                self.n_running -= u64::from(job.phase == JobPhase::Running);
                *job = attached;
            }
            None if id.index() == n_jobs => self.jobs.push(attached),
            None => return None,
        }
        self.n_running += 1;
        Some(())
    }

    /// Applies the starts of a turn. Returns the records and the started jobs, sorted.
    fn apply_starts<'a>(
        &mut self,
        record: &TurnRecord<'a>,
        approved: &mut ApprovedRequests<'a>,
    ) -> (Vec<JobRecord<'a>>, Vec<JobId>) {
        let (mut started, mut records) = (Vec::new(), Vec::new());
        for outcome in record.outcomes.iter().filter(|outcome| outcome.action.is_none()) {
            let Target::Job(id) = outcome.target else { continue };
            let Some(job) = self.jobs.get_mut(id.index()) else { continue };
            let request = approved.matching(outcome.target, ActionKind::Cpus);
            self.n_running -= u64::from(job.phase == JobPhase::Running);
            let change = job.start(&outcome.result, record.turn.at);
            if job.phase == JobPhase::Running {
                self.n_running += 1;
                started.push(id);
            }
            records.push(JobRecord { target: outcome.target, change, request });
        }
        started.sort_unstable();
        self.add_cpus_of_starts(record.outcomes, &started, &mut records);
        (records, started)
    }

    fn add_cpus_of_starts<'a>(
        &mut self,
        outcomes: &'a [Outcome],
        started: &[JobId],
        records: &mut [JobRecord<'a>],
    ) {
        let mut placed: BTreeMap<Target, &CpuSet> = BTreeMap::new();
        for outcome in outcomes {
            let (Target::Job(id), Some(Action::Place(cpus))) = (outcome.target, &outcome.action)
            else {
                continue;
            };
            let is_done = matches!(outcome.result, OutcomeResult::Done { .. });
            if is_done && started.binary_search(&id).is_ok() {
                placed.insert(outcome.target, cpus);
            }
        }
        for record in records {
            let (Target::Job(id), JobChange::Started(cpus)) = (record.target, &mut record.change)
            else {
                continue;
            };
            *cpus = placed.get(&record.target).copied();
            if let Some((job, cpus)) = self.jobs.get_mut(id.index()).zip(*cpus) {
                let request = record.request.filter(|_| !self.is_replay);
                (job.placed, job.reason) =
                    (Some(cpus.clone()), request.map(|request| Reason::clone(&request.reason)));
            }
        }
    }

    fn apply_outcome<'a>(
        &mut self,
        at: Nanos,
        outcome: &'a Outcome,
        started: &[JobId],
        approved: &mut ApprovedRequests<'a>,
    ) -> Option<JobRecord<'a>> {
        let action = outcome.action.as_ref()?;
        let target = outcome.target;
        let request = approved.matching(target, action.kind());
        let change = match (&outcome.result, target) {
            (OutcomeResult::Rejected { cause, detail }, _) => {
                JobChange::Rejected(action, *cause, detail)
            }
            (OutcomeResult::Done { n }, Target::Job(id)) => {
                let reason = request.filter(|_| !self.is_replay).map(|request| &*request.reason);
                if let Action::Place(_) | Action::Release = action {
                    self.threads.unbind_all(id);
                }
                let job = self.jobs.get_mut(id.index())?;
                job.apply_action(action, *n, reason, started.binary_search(&id).is_ok())?
            }
            (OutcomeResult::Done { n }, Target::Task(task)) => {
                let job = self.jobs.get_mut(self.threads.job_of(task)?.index())?;
                let to = match action {
                    Action::Place(cpus) => Some(cpus),
                    Action::Release => None,
                    Action::MemoryPolicy(_) | Action::MovePages { .. } => return None,
                };
                let from = self.threads.bind(task, to.cloned()).or_else(|| job.placed.clone());
                job.change_of_binding(from, to, *n)
            }
            (OutcomeResult::InProgress, Target::Job(id)) => {
                let job = self.jobs.get_mut(id.index())?;
                if let Action::MovePages { from, to, limit } = *action {
                    job.active_page_migration =
                        Some(ActivePageMigration { target, from, to, limit, since: at });
                }
                JobChange::PageMigrationStarted(action)
            }
            (OutcomeResult::InProgress, Target::Task(_)) => return None,
        };
        Some(JobRecord { target, change, request })
    }

    fn not_carried_out<'a>(&self, request: &'a Request) -> JobRecord<'a> {
        let change = JobChange::NotCarriedOut(self.cpus_of(request.target).cloned());
        JobRecord { target: request.target, change, request: Some(request) }
    }
}

impl JobProgress {
    /// Applies a start. Resets the placement and the page migrations of an earlier start.
    fn start<'a>(&mut self, result: &'a OutcomeResult, at: Nanos) -> JobChange<'a> {
        (self.placed, self.reason, self.unmanaged) = (None, None, None);
        (self.active_page_migration, self.last_page_migration) = (None, None);
        match result {
            OutcomeResult::Done { .. } => {
                (self.phase, self.started) = (JobPhase::Running, Some(at));
                self.n_starts += 1;
                JobChange::Started(None)
            }
            OutcomeResult::Rejected { cause, detail } => {
                self.phase = JobPhase::NotStarted;
                self.start_failure = Some((*cause, detail.clone()));
                JobChange::StartFailed(*cause, detail)
            }
            // No host reports a start in progress.
            OutcomeResult::InProgress => JobChange::Started(None),
        }
    }

    /// Applies a completed action. Returns `None` if the action was part of a start, or is a page migration.
    fn apply_action<'a>(
        &mut self,
        action: &'a Action,
        n_tasks: u32,
        reason: Option<&Reason>,
        is_start: bool,
    ) -> Option<JobChange<'a>> {
        match action {
            Action::MovePages { .. } => None,
            Action::MemoryPolicy(policy) => Some(JobChange::MemoryPolicySet(policy)),
            Action::Place(_) if is_start => None,
            Action::Place(to) => {
                let from = self.placed.replace(to.clone());
                self.reason = reason.cloned();
                Some(self.change_of_binding(from, Some(to), n_tasks))
            }
            Action::Release => {
                let from = self.placed.take();
                Some(self.change_of_binding(from, None, n_tasks))
            }
        }
    }

    /// Returns the change of the CPUs of the job or of one of its threads, and counts moves.
    fn change_of_binding<'a>(
        &mut self,
        from: Option<CpuSet>,
        to: Option<&'a CpuSet>,
        n_tasks: u32,
    ) -> JobChange<'a> {
        match to {
            None => JobChange::Released { from, n_tasks },
            Some(to) if n_tasks == 0 => JobChange::Unchanged(to),
            Some(to) => {
                self.n_moves += 1;
                JobChange::Moved { from, to, n_tasks }
            }
        }
    }
}
