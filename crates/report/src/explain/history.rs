//! Collects the events of each job from the turns of a journal.

use std::collections::BTreeMap;

use base::{CpuSet, JobId, Nanos};
use engine::TurnRecord;
use journal::{Checkpoint, Header, JobChange, JobHistory, JobProgress, JobRecord};
use program::Job;
use sched::{
    Action, JobEvent, Observation, Reason, ReasonValue, RejectCause, Rejection, Request, Sample,
    Target,
};

use super::sentence::{DoneAction, ExplainedEvent, Sentence, checkpoint_text};
use super::{
    EventRow, Explanation, FORMAT, JobEventKind, JobEvents, PHASE_CHANGED, PHASE_FILTERED,
    PHASE_RESCHEDULED, ReasonNumber,
};
use crate::domain_names::{EpochNames, Epochs};
use crate::phrases::{
    command_line, completed_page_migration_phrase, detached_phrase, exit_phrase,
    parts_missing_phrase, unmanaged_phrase, usage_phrase,
};

/// A job, and the TID of the thread of it that an event is about; `None`: the whole job.
type Subject = (JobId, Option<u32>);

pub(super) struct Explainer {
    header: Header,
    only: Option<JobId>,
    jobs: JobHistory,
    epochs: Epochs,
    at: Nanos,
    n_parts_missing: u32,
    notes: Vec<EventRow>,
    events: BTreeMap<JobId, Vec<ExplainedEvent>>,
    /// Index of the last event of each job or thread in `events`.
    last: BTreeMap<Subject, usize>,
    /// Detached jobs whose number has been reused.
    detached: Vec<(Job, Vec<ExplainedEvent>)>,
}

impl Explainer {
    pub fn new(header: &Header, only: Option<JobId>) -> Self {
        Explainer {
            header: header.clone(),
            only,
            jobs: JobHistory::new(header),
            epochs: Epochs::new(&header.machine),
            at: Nanos::ZERO,
            n_parts_missing: 0,
            notes: Vec::new(),
            events: BTreeMap::new(),
            last: BTreeMap::new(),
            detached: Vec::new(),
        }
    }

    /// Starts from the checkpoint of a journal whose first parts are missing.
    pub fn resume(&mut self, checkpoint: &Checkpoint, n_parts_missing: u32) {
        self.n_parts_missing = n_parts_missing;
        self.at = checkpoint.at;
        let level = checkpoint.load_basis.map(|basis| basis.level);
        self.epochs.update(level, checkpoint.sample().usable_cpus.as_ref());
        self.jobs = checkpoint.jobs.clone();
        self.add_note(
            format!("{}: this is the state at its end", parts_missing_phrase(n_parts_missing)),
            None,
        );
        checkpoint.notes.iter().for_each(|note| self.add_note(note.to_string(), Some(note)));
        for (id, job) in (0u32..).map(JobId).zip(checkpoint.jobs.jobs()) {
            self.add_checkpoint(id, job);
        }
    }

    fn add_checkpoint(&mut self, id: JobId, job: &JobProgress) {
        if let Some(text) = checkpoint_text(job) {
            let placed = job.placed.clone().filter(|_| job.reason.is_some());
            let sentence = Sentence::Checkpoint(text, placed);
            self.add((id, None), JobEventKind::Checkpoint, sentence, job.reason.as_ref());
        }
    }

    pub fn observe(&mut self, record: &TurnRecord<'_>) {
        self.at = record.turn.at;
        self.epochs.observe(record);
        self.observe_attached(record.sample);
        for job in self.jobs.apply_events(record) {
            self.observe_job(&job);
        }
        let host = record.sample.degraded.iter().chain(&record.sample.host_notes);
        host.for_each(|text| self.add_note(text.clone(), None));
        record.plan.notes.iter().for_each(|note| self.add_note(note.to_string(), Some(note)));
        for observation in &record.plan.observations {
            let Observation { target, reason } = observation;
            if let Some(subject) = self.subject(*target) {
                self.add(subject, JobEventKind::Observed, Sentence::Observed, Some(reason));
            }
        }
        if let Some(reason) = &record.plan.abort {
            self.add_note(format!("the policy aborted the run: {reason}"), Some(reason));
        }
        record.rejected.iter().for_each(|rejection| self.rejected_by_guard(rejection));
        for job in self.jobs.apply_outcomes(record) {
            self.observe_job(&job);
        }
    }

    /// Stores the events of a detached job before its number is reused.
    fn observe_attached(&mut self, sample: &Sample) {
        for event in &sample.jobs {
            let JobEvent::Attached(job) = event else { continue };
            if let Some(before) = self.header.jobs.get(job.id.index()) {
                let events = self.events.remove(&job.id).unwrap_or_default();
                self.last.retain(|(id, _), _| *id != job.id);
                self.detached.push((before.clone(), events));
            }
        }
        self.header.add_attached_jobs(sample);
    }

    /// Returns the job of a target with the TID of its thread; `None`: the thread has exited.
    fn subject(&self, target: Target) -> Option<Subject> {
        Some((self.jobs.job_of(target)?, target.task().map(|task| task.tid)))
    }

    fn observe_job(&mut self, record: &JobRecord<'_>) {
        let request = record.request;
        let Some(subject) = self.subject(record.target) else { return };
        match &record.change {
            JobChange::Unmanaged(cause) => {
                let text = format!("no longer managed: {}", unmanaged_phrase(cause));
                self.add_text(subject, JobEventKind::Unmanaged, text);
            }
            JobChange::Attached(_) => {
                self.add_text(
                    subject,
                    JobEventKind::Attached,
                    "attached: it was running already".into(),
                );
            }
            JobChange::Detached { cause, was_placed, .. } => {
                self.add_text(
                    subject,
                    JobEventKind::Detached,
                    detached_phrase(*cause, *was_placed),
                );
            }
            JobChange::Rejected(_, RejectCause::DryRun, _) => {
                let from = self.jobs.cpus_of(record.target).cloned();
                self.not_carried_out(subject, from, request);
            }
            JobChange::Ended(exit) => {
                let text = format!("{}: {}", exit_phrase(exit), usage_phrase(exit));
                self.add_text(subject, JobEventKind::End, text);
            }
            JobChange::StartFailed(_, detail) => {
                self.add_text(
                    subject,
                    JobEventKind::NotStarted,
                    format!("could not be started: {detail}"),
                );
            }
            JobChange::Rejected(action, cause, detail) => {
                let reason = request.filter(|_| !self.jobs.is_replay());
                let reason = reason.map(|request| &*request.reason);
                self.rejected(subject, (action, "the kernel"), (*cause, detail), reason);
            }
            JobChange::PageMigrationEnded(moved) => {
                self.add_text(
                    subject,
                    JobEventKind::PageMigrationEnded,
                    completed_page_migration_phrase(moved),
                );
            }
            JobChange::NotCarriedOut(from) => self.not_carried_out(subject, from.clone(), request),
            change => {
                if let Some((kind, done)) = done_action(change) {
                    self.add_done(subject, kind, done, request);
                }
            }
        }
    }

    /// Adds an action that was carried out; in a replay, by the recorded run.
    fn add_done(
        &mut self,
        subject: Subject,
        kind: JobEventKind,
        done: DoneAction,
        request: Option<&Request>,
    ) {
        let requested = request.map(|request| request.action.clone());
        let sentence = match self.jobs.is_replay() {
            true => Sentence::Replayed { done, requested },
            false => Sentence::Done { done, requested },
        };
        self.add(subject, kind, sentence, request.map(|request| &*request.reason));
    }

    /// Adds a request that was not carried out. The policy repeats such a request in every turn. Repetitions without
    /// another event of the job or thread in between are one event.
    fn not_carried_out(
        &mut self,
        subject: Subject,
        from: Option<CpuSet>,
        request: Option<&Request>,
    ) {
        let Some(request) = request else { return };
        let sentence = Sentence::NotCarriedOut { action: request.action.clone(), from };
        let events = self.events.get_mut(&subject.0);
        let last = self.last.get(&subject).and_then(|last| events?.get_mut(*last));
        match last.filter(|event| event.sentence == sentence) {
            Some(event) => (event.last_at, event.n) = (self.at, event.n + 1),
            None => self.add(subject, JobEventKind::NotCarriedOut, sentence, Some(&request.reason)),
        }
    }

    fn rejected_by_guard(&mut self, rejection: &Rejection) {
        let Rejection { request, cause, detail } = rejection;
        let Some(subject) = self.subject(request.target) else { return };
        let rejected_action = (&request.action, "evenkeel's guard");
        self.rejected(subject, rejected_action, (*cause, detail), Some(&request.reason));
    }

    fn rejected(
        &mut self,
        subject: Subject,
        (action, by): (&Action, &'static str),
        (cause, detail): (RejectCause, &str),
        reason: Option<&Reason>,
    ) {
        let detail = if detail.is_empty() { cause.name() } else { detail }.to_owned();
        let sentence = Sentence::Rejected { action: action.clone(), by, detail };
        self.add(subject, JobEventKind::Rejected, sentence, reason);
    }

    fn add_text(&mut self, subject: Subject, kind: JobEventKind, text: String) {
        self.add(subject, kind, Sentence::Text(text), None);
    }

    fn add(
        &mut self,
        (id, tid): Subject,
        kind: JobEventKind,
        sentence: Sentence,
        reason: Option<&Reason>,
    ) {
        if self.only.is_none_or(|only| only == id) {
            let (at, epoch, reason) = (self.at, self.epochs.current(), reason.cloned());
            let event =
                ExplainedEvent { at, last_at: at, n: 1, kind, tid, sentence, reason, epoch };
            let events = self.events.entry(id).or_default();
            self.last.insert((id, tid), events.len());
            events.push(event);
        }
    }

    pub fn add_note(&mut self, text: String, reason: Option<&Reason>) {
        let (at_ns, kind) = (self.at.0, JobEventKind::Note);
        let (code, values) = code_and_values(reason);
        self.notes.push(EventRow {
            at_ns,
            last_at_ns: at_ns,
            n: 1,
            kind,
            text,
            tid: None,
            code,
            values,
        });
    }

    /// Returns the number of failed jobs; `None` if no job failed.
    pub fn failed_jobs(&self) -> Option<String> {
        let (n, n_jobs) = (self.jobs.n_failed(), self.jobs.jobs().len());
        (n != 0).then(|| format!("{n} of {} failed", base::counted_noun(n_jobs, "job")))
    }

    pub fn finish(mut self, end: Option<String>) -> Explanation {
        let domain_names = self.epochs.names(&self.header.machine);
        let mut all = std::mem::take(&mut self.detached);
        for job in std::mem::take(&mut self.header.jobs) {
            let events = self.events.remove(&job.id).unwrap_or_default();
            all.push((job, events));
        }
        all.retain(|(job, _)| self.only.is_none_or(|only| only == job.id));
        let jobs = all.into_iter().map(|(job, events)| job_events(&job, events, &domain_names));
        Explanation {
            format: FORMAT,
            run: self.header.run_id,
            policy: self.header.policy.spec,
            replay_of: self.header.replay_of,
            n_journal_parts_missing: self.n_parts_missing,
            end,
            notes: self.notes,
            jobs: jobs.collect(),
        }
    }
}

/// Returns the action, if the change is an action that was carried out.
fn done_action(change: &JobChange<'_>) -> Option<(JobEventKind, DoneAction)> {
    Some(match change {
        JobChange::Started(cpus) => (JobEventKind::Start, DoneAction::Start(cpus.cloned())),
        JobChange::Moved { from, to, .. } => {
            (JobEventKind::Move, DoneAction::Move { from: from.clone(), to: (*to).clone() })
        }
        JobChange::Unchanged(cpus) => {
            (JobEventKind::Unchanged, DoneAction::Unchanged((*cpus).clone()))
        }
        JobChange::MemoryPolicySet(policy) => {
            (JobEventKind::MemoryPolicy, DoneAction::MemoryPolicy((*policy).clone()))
        }
        JobChange::Released { .. } => (JobEventKind::Release, DoneAction::Release),
        JobChange::PageMigrationStarted(Action::MovePages { from, to, limit }) => {
            (JobEventKind::PageMigrationStarted, DoneAction::PageMigration(*from, *to, *limit))
        }
        _ => return None,
    })
}

fn job_events(job: &Job, events: Vec<ExplainedEvent>, domain_names: &EpochNames) -> JobEvents {
    let count = |has: &dyn Fn(&ExplainedEvent) -> bool| {
        events.iter().filter(|event| has(event)).count() as u64
    };
    let n_with_code = |codes: &[&str]| {
        let is_one = |reason: &Reason| codes.contains(&reason.code.name());
        count(&|event| event.reason.as_ref().is_some_and(is_one))
    };
    JobEvents {
        id: job.id.0,
        name: job.name.clone(),
        command: command_line(&job.command),
        class: job.class.map(|class| u32::from(class.number())),
        n_phases: n_with_code(&[PHASE_CHANGED]),
        n_phases_filtered: n_with_code(&[PHASE_FILTERED]),
        n_reschedules: n_with_code(&PHASE_RESCHEDULED),
        n_moves: count(&|event| event.kind == JobEventKind::Move),
        events: events.into_iter().map(|event| event_row(event, domain_names)).collect(),
    }
}

fn event_row(event: ExplainedEvent, domain_names: &EpochNames) -> EventRow {
    let text = event.text(domain_names.of(event.epoch));
    let (code, values) = code_and_values(event.reason.as_ref());
    EventRow {
        at_ns: event.at.0,
        last_at_ns: event.last_at.0,
        n: event.n,
        kind: event.kind,
        text,
        tid: event.tid,
        code,
        values,
    }
}

fn code_and_values(reason: Option<&Reason>) -> (Option<String>, Vec<ReasonNumber>) {
    let number = |value: &ReasonValue| match *value {
        ReasonValue::Count(count) => Some(count as f64),
        ReasonValue::Number(number) => Some(number).filter(|number| number.is_finite()),
        ReasonValue::Text(_) => None,
    };
    let values = reason.into_iter().flat_map(|reason| &reason.values);
    let values = values.filter_map(|(name, value)| {
        Some(ReasonNumber { name: name.clone().into_owned(), value: number(value)? })
    });
    (reason.map(|reason| reason.code.name().to_owned()), values.collect())
}
