//! Progress events: starts, moves, ends, rejected requests and notes, one line each.

use base::printable;
use base::{CpuSet, Nanos};
use engine::TurnRecord;
use journal::{Header, JobChange, JobHistory, JobProgress, JobRecord};
use report::DomainNames;
use report::format::seconds;
use report::phrases::{
    action_phrase, completed_page_migration_phrase, detached_phrase, exit_phrase, unmanaged_phrase,
};
use sched::{Action, JobEvent, RejectCause, Rejection, Request, Target};
use topology::{DomainChoice, Domains, Level, Machine};

use crate::print::Priority;

#[derive(Clone, Debug, PartialEq)]
pub struct ProgressEvent {
    /// Time since the start of the run.
    pub at: Nanos,
    /// Kind of event: `start`, `move`, `pages`, `unchanged`, `released`, `end`, `failed`, `rejected`, `dry-run` (not
    /// performed), `note`, `attached` and `detached` (processes of a watch), or `unmanaged`.
    pub kind: &'static str,
    /// Whether the event is an error.
    pub is_bad: bool,
    /// Name of the job; empty for an event of the whole run.
    pub job: String,
    pub text: String,
}

impl ProgressEvent {
    /// Returns the event as a line: `   12.250 s  move       hog.2  core 0 -> core 1  because …`.
    pub fn line(&self) -> String {
        let job = if self.job.is_empty() { String::new() } else { format!("{}  ", self.job) };
        format!("{:>9} s  {:<9}  {job}{}", seconds(self.at.0), self.kind, self.text)
    }

    /// Returns the event without its time, for a log that stores times.
    pub fn text_line(&self) -> String {
        let job = if self.job.is_empty() { String::new() } else { format!("{}: ", self.job) };
        format!("{}: {job}{}", self.kind, self.text)
    }

    pub fn priority(&self) -> Priority {
        match (self.is_bad, self.kind) {
            (true, _) => Priority::Warning,
            (false, "note") => Priority::Notice,
            (false, _) => Priority::Info,
        }
    }
}

/// Converts turns to events.
#[derive(Debug)]
pub struct ProgressReporter {
    names: Vec<String>,
    machine: Machine,
    level: Option<Level>,
    usable: CpuSet,
    domain_names: DomainNames,
    history: JobHistory,
}

impl ProgressReporter {
    /// Creates a reporter. The domain level is automatic until the first turn reports the level.
    pub fn new(header: &Header) -> Self {
        let machine = &header.machine;
        let auto = Domains::select(machine, DomainChoice::Auto, machine.allowed()).level();
        ProgressReporter {
            names: header.jobs.iter().map(|job| job.name.clone()).collect(),
            domain_names: DomainNames::new(machine, Some(auto), machine.allowed()),
            machine: machine.clone(),
            level: Some(auto),
            usable: machine.allowed().clone(),
            history: JobHistory::new(header),
        }
    }

    pub fn domain_names(&self) -> &DomainNames {
        &self.domain_names
    }

    /// Returns the state of all jobs, by number.
    pub fn jobs(&self) -> &[JobProgress] {
        self.history.jobs()
    }

    /// Returns the name of the job with this number. The name is not escaped.
    pub fn name(&self, idx: usize) -> &str {
        self.names.get(idx).map_or("", String::as_str)
    }

    pub fn events(&mut self, record: &TurnRecord<'_>) -> Vec<ProgressEvent> {
        self.update_domain_names(record);
        self.update_names(record);
        let at = record.turn.at;
        let mut all = Vec::new();
        let events = self.history.apply_events(record);
        all.extend(events.iter().filter_map(|record| self.job_event(at, record)));
        let note = |text: String| progress_event(at, "note", String::new(), text);
        let host = record.sample.degraded.iter().chain(&record.sample.host_notes);
        all.extend(host.cloned().map(note));
        all.extend(record.plan.notes.iter().map(|reason| note(reason.to_string())));
        all.extend(record.rejected.iter().map(|rejection| self.rejected(at, rejection)));
        let outcomes = self.history.apply_outcomes(record);
        all.extend(outcomes.iter().filter_map(|record| self.job_event(at, record)));
        all
    }

    fn update_domain_names(&mut self, record: &TurnRecord<'_>) {
        let level = record.current_load_basis().map(|basis| basis.level);
        let is_new = level.is_some_and(|level| self.level != Some(level));
        if is_new || record.sample.usable_cpus.as_ref().is_some_and(|usable| *usable != self.usable)
        {
            self.level = level.or(self.level);
            self.usable = record.sample.usable_cpus.as_ref().unwrap_or(&self.usable).clone();
            self.domain_names = DomainNames::new(&self.machine, self.level, &self.usable);
        }
    }

    fn update_names(&mut self, record: &TurnRecord<'_>) {
        for event in &record.sample.jobs {
            let JobEvent::Attached(job) = event else { continue };
            match self.names.get_mut(job.id.index()) {
                Some(name) => name.clone_from(&job.name),
                None => self.names.push(job.name.clone()),
            }
        }
    }

    fn job_event(&self, at: Nanos, record: &JobRecord<'_>) -> Option<ProgressEvent> {
        let job = self.job(record.target);
        let place = |cpus: &CpuSet| self.domain_names.label(cpus);
        let because = because(record.request);
        let (kind, text) = match &record.change {
            JobChange::Ended(end) => {
                (if end.end().is_failure() { "failed" } else { "end" }, exit_phrase(end))
            }
            JobChange::Unmanaged(cause) => {
                ("unmanaged", format!("no longer placed: {}", unmanaged_phrase(cause)))
            }
            JobChange::Attached(job) => {
                let class = job.class.map_or(String::new(), |c| format!(", class {}", c.number()));
                ("attached", format!("busy, managed from now on{class}"))
            }
            JobChange::Detached { cause, was_placed, .. } => {
                ("detached", detached_phrase(*cause, *was_placed))
            }
            JobChange::Rejected(action, RejectCause::DryRun, _) => {
                ("dry-run", format!("{}{because}", self.action_text(action)))
            }
            JobChange::Started(None) => ("start", "unbound".to_owned()),
            JobChange::Started(Some(cpus)) => ("start", format!("on {}{because}", place(cpus))),
            JobChange::StartFailed(cause, detail) => {
                ("failed", format!("start failed: {}", detail_or_cause(detail, cause.name())))
            }
            JobChange::Moved { from, to, .. } => {
                let from = from.as_ref().map_or("unbound".to_owned(), place);
                ("move", format!("{from} -> {}{because}", place(to)))
            }
            JobChange::Unchanged(cpus) => ("unchanged", format!("already on {}", place(cpus))),
            JobChange::Released { .. } => ("released", "original CPUs restored".to_owned()),
            JobChange::Rejected(action, cause, detail) => {
                let cause = detail_or_cause(detail, cause.name());
                ("rejected", format!("{}: failed, {cause}", self.action_text(action)))
            }
            JobChange::PageMigrationStarted(action) => {
                ("pages", format!("{} started{because}", self.action_text(action)))
            }
            JobChange::PageMigrationEnded(moved) => {
                ("pages", completed_page_migration_phrase(moved))
            }
            JobChange::MemoryPolicySet(_) | JobChange::NotCarriedOut(_) => return None,
        };
        Some(progress_event(at, kind, job, text))
    }

    fn action_text(&self, action: &Action) -> String {
        action_phrase(action, |cpus: &CpuSet| self.domain_names.label(cpus))
    }

    fn rejected(&self, at: Nanos, rejection: &Rejection) -> ProgressEvent {
        let action = self.action_text(&rejection.request.action);
        let cause = detail_or_cause(&rejection.detail, rejection.cause.name());
        let text = format!("{action}: rejected, {cause}");
        progress_event(at, "rejected", self.job(rejection.request.target), text)
    }

    fn job(&self, target: Target) -> String {
        match target {
            Target::Job(id) => {
                self.names.get(id.index()).cloned().unwrap_or_else(|| id.to_string())
            }
            Target::Task(task) => {
                let job = self.history.job_of(task.into());
                let job = job.map_or(String::new(), |job| self.name(job.index()).to_owned() + " ");
                format!("{job}thread {}", task.tid)
            }
        }
    }
}

fn progress_event(at: Nanos, kind: &'static str, job: String, text: String) -> ProgressEvent {
    let is_bad = matches!(kind, "failed" | "rejected");
    ProgressEvent { at, kind, is_bad, job: printable(&job), text: printable(&text) }
}

fn detail_or_cause<'a>(detail: &'a str, cause: &'a str) -> &'a str {
    if detail.is_empty() { cause } else { detail }
}

fn because(request: Option<&Request>) -> String {
    request.map_or(String::new(), |request| format!("  because {}", request.reason))
}
