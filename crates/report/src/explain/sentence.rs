//! One event as a sentence.
//!
//! In a replay a sentence first states the request of the policy with its reason, then the action of the recorded run.

use base::{CpuSet, Nanos, NodeId, counted_noun};
use journal::{JobPhase, JobProgress};
use program::MemoryPolicy;
use sched::{Action, Reason};

use super::JobEventKind;
use crate::domain_names::{DomainNames, Epoch};
use crate::format::seconds;
use crate::phrases::{
    action_phrase, exit_phrase, memory_policy_phrase, page_migration_phrase, usage_phrase,
};

/// An event. The sentence is created at the end, when the domains of all turns are known.
#[derive(Debug)]
pub(super) struct ExplainedEvent {
    pub at: Nanos,
    pub last_at: Nanos,
    pub n: u64,
    pub kind: JobEventKind,
    /// TID of the thread that the event is about; `None`: the whole job.
    pub tid: Option<u32>,
    pub sentence: Sentence,
    pub reason: Option<Reason>,
    pub epoch: Epoch,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sentence {
    /// A complete sentence.
    Text(String),
    /// The reason is the whole sentence.
    Observed,
    /// State at a checkpoint; with the CPUs that the job was placed on, if the reason is known.
    Checkpoint(String, Option<CpuSet>),
    /// An action that was carried out, and the request.
    Done {
        done: DoneAction,
        requested: Option<Action>,
    },
    /// The action of the recorded run, and the request of the replayed policy.
    Replayed {
        done: DoneAction,
        requested: Option<Action>,
    },
    NotCarriedOut {
        action: Action,
        from: Option<CpuSet>,
    },
    Rejected {
        action: Action,
        by: &'static str,
        detail: String,
    },
}

/// A completed action on a job or thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DoneAction {
    Start(Option<CpuSet>),
    Move {
        from: Option<CpuSet>,
        to: CpuSet,
    },
    Unchanged(CpuSet),
    MemoryPolicy(MemoryPolicy),
    Release,
    /// The start of a page migration: source, target, limit.
    PageMigration(Option<NodeId>, NodeId, base::Bytes),
}

impl ExplainedEvent {
    /// Returns the whole sentence.
    pub fn text(&self, domain_names: &DomainNames) -> String {
        let reason = self.reason.as_ref().map_or(String::new(), |reason| match self.sentence {
            Sentence::Observed => reason.to_string(),
            Sentence::Rejected { .. } => format!(". It was requested because {reason}"),
            _ => format!(" because {reason}"),
        });
        let (before, after) = self.sentence.parts(domain_names);
        let repeated = match self.n {
            1 => String::new(),
            n => format!("; requested {n} times, the last time at {} s", seconds(self.last_at.0)),
        };
        let thread = self.tid.map_or(String::new(), |tid| format!("thread {tid}: "));
        format!("{thread}{before}{reason}{after}{repeated}")
    }
}

impl Sentence {
    /// Returns the parts before and after the reason.
    fn parts(&self, domain_names: &DomainNames) -> (String, String) {
        let only = |text: String| (text, String::new());
        match self {
            Sentence::Observed => only(String::new()),
            Sentence::Text(text) | Sentence::Checkpoint(text, None) => only(text.clone()),
            Sentence::Checkpoint(text, Some(cpus)) => {
                only(format!("{text}, placed on {}", domain_names.label(cpus)))
            }
            Sentence::Done { done, requested } => {
                (done.passive(domain_names), done.narrowed(requested.as_ref(), domain_names))
            }
            Sentence::Replayed { done, requested: None } => {
                let text = format!("{} in the recorded run", done.passive(domain_names));
                only(text + "; this policy requested nothing")
            }
            Sentence::Replayed { done, requested: Some(action) } if done.equals(action) => {
                let would = would_have_been(action, done.from(), done.is_start(), domain_names);
                only(would + ", as in the recorded run,")
            }
            Sentence::Replayed { done, requested: Some(action) } => {
                let would = would_have_been(action, done.from(), done.is_start(), domain_names);
                (would, format!("; the recorded run {}", done.active(domain_names)))
            }
            Sentence::NotCarriedOut { action, from } => {
                only(would_have_been(action, from.as_ref(), false, domain_names))
            }
            Sentence::Rejected { action, by, detail } => {
                let action = action_phrase(action, |cpus| domain_names.label(cpus));
                only(format!("rejected by {by}: {action}: {detail}"))
            }
        }
    }
}

impl DoneAction {
    /// Returns the action in the passive voice: `moved from core 0 to core 1`.
    fn passive(&self, domain_names: &DomainNames) -> String {
        let place = |cpus: &CpuSet| domain_names.label(cpus);
        match self {
            DoneAction::Start(None) => "started without a CPU binding".to_owned(),
            DoneAction::Start(Some(cpus)) => format!("started on {}", place(cpus)),
            DoneAction::Move { from: None, to } => format!("bound to {}", place(to)),
            DoneAction::Move { from: Some(from), to } => {
                format!("moved from {} to {}", place(from), place(to))
            }
            DoneAction::Unchanged(cpus) => {
                format!("unchanged: already bound to {}, which was requested", place(cpus))
            }
            DoneAction::MemoryPolicy(policy) => {
                format!("memory policy set: {},", memory_policy_phrase(policy))
            }
            DoneAction::Release => "released: its earlier affinity was restored".to_owned(),
            DoneAction::PageMigration(from, to, limit) => {
                format!("migration of {} started", page_migration_phrase((*from, *to, *limit)))
            }
        }
    }

    /// Returns the action in the active voice: `moved it from core 0 to core 1`.
    fn active(&self, domain_names: &DomainNames) -> String {
        let place = |cpus: &CpuSet| domain_names.label(cpus);
        match self {
            DoneAction::Start(None) => "started it without a CPU binding".to_owned(),
            DoneAction::Start(Some(cpus)) => format!("started it on {}", place(cpus)),
            DoneAction::Move { from: None, to } => format!("bound it to {}", place(to)),
            DoneAction::Move { from: Some(from), to } => {
                format!("moved it from {} to {}", place(from), place(to))
            }
            DoneAction::Unchanged(cpus) => format!("kept it on {}", place(cpus)),
            DoneAction::MemoryPolicy(policy) => {
                format!("set its memory policy: {}", memory_policy_phrase(policy))
            }
            DoneAction::Release => "released it".to_owned(),
            DoneAction::PageMigration(from, to, limit) => {
                format!("started to migrate {}", page_migration_phrase((*from, *to, *limit)))
            }
        }
    }

    fn is_start(&self) -> bool {
        matches!(self, DoneAction::Start(_))
    }

    fn from(&self) -> Option<&CpuSet> {
        match self {
            DoneAction::Move { from, .. } => from.as_ref(),
            DoneAction::Unchanged(cpus) => Some(cpus),
            DoneAction::Start(_)
            | DoneAction::MemoryPolicy(_)
            | DoneAction::Release
            | DoneAction::PageMigration(..) => None,
        }
    }

    /// Returns the CPUs that the job is bound to afterwards.
    fn cpus(&self) -> Option<&CpuSet> {
        match self {
            DoneAction::Start(cpus) => cpus.as_ref(),
            DoneAction::Move { to, .. } => Some(to),
            DoneAction::Unchanged(cpus) => Some(cpus),
            DoneAction::MemoryPolicy(_) | DoneAction::Release | DoneAction::PageMigration(..) => {
                None
            }
        }
    }

    /// Returns whether the action is exactly the requested action.
    fn equals(&self, requested: &Action) -> bool {
        match (self, requested) {
            (DoneAction::Release, Action::Release) => true,
            (DoneAction::MemoryPolicy(done), Action::MemoryPolicy(policy)) => done == policy,
            (DoneAction::PageMigration(a, b, c), Action::MovePages { from, to, limit }) => {
                (a, b, c) == (from, to, limit)
            }
            (_, Action::Place(cpus)) => self.cpus() == Some(cpus),
            _ => false,
        }
    }

    /// Returns the requested CPUs or nodes as text, if the guard or the host narrowed the request.
    fn narrowed(&self, requested: Option<&Action>, domain_names: &DomainNames) -> String {
        let requested = requested.filter(|requested| !self.equals(requested));
        match (self, requested) {
            (DoneAction::MemoryPolicy(_), Some(Action::MemoryPolicy(policy))) => {
                format!("; narrowed from the request to {}", memory_policy_phrase(policy))
            }
            (
                DoneAction::PageMigration(_, _, limit),
                Some(Action::MovePages { limit: all, .. }),
            ) => {
                let all = match *all {
                    Action::NO_LIMIT => "all its pages".to_owned(),
                    limit => limit.to_string(),
                };
                format!("; narrowed from the requested {all} to {limit}")
            }
            (_, Some(Action::Place(requested))) if self.cpus().is_some() => {
                let cpus = self.cpus().map_or(String::new(), |cpus| domain_names.label(cpus));
                format!("; narrowed from the requested {} to {cpus}", domain_names.label(requested))
            }
            _ => String::new(),
        }
    }
}

/// Returns a request as `would have been moved from core 0 to core 1`.
fn would_have_been(
    action: &Action,
    from: Option<&CpuSet>,
    is_start: bool,
    domain_names: &DomainNames,
) -> String {
    let place = |cpus: &CpuSet| domain_names.label(cpus);
    let change = match (action, from) {
        (Action::Place(to), _) if is_start => format!("started on {}", place(to)),
        (Action::Place(to), Some(from)) => format!("moved from {} to {}", place(from), place(to)),
        (Action::Place(to), None) => format!("bound to {}", place(to)),
        (Action::MemoryPolicy(policy), _) => {
            format!("given a memory policy: {},", memory_policy_phrase(policy))
        }
        (Action::Release, _) => "released".to_owned(),
        (Action::MovePages { from, to, limit }, _) => {
            format!("subject to a migration of {}", page_migration_phrase((*from, *to, *limit)))
        }
    };
    format!("would have been {change}")
}

pub(super) fn checkpoint_text(job: &JobProgress) -> Option<String> {
    match (job.phase, &job.ended, job.started) {
        (JobPhase::Waiting, ..) => None,
        (JobPhase::Detached, ..) => Some("no longer managed".to_owned()),
        (JobPhase::NotStarted, ..) => {
            let detail = job.start_failure.as_ref().map_or("", |(_, detail)| detail);
            Some(format!("could not be started: {detail}"))
        }
        (JobPhase::Ended, Some((at, exit)), _) => {
            let at = seconds(at.0);
            Some(format!("{} at {at} s: {}", exit_phrase(exit), usage_phrase(exit)))
        }
        (JobPhase::Ended | JobPhase::Running, _, started) => {
            let since = started.map_or(String::new(), |at| format!(" since {} s", seconds(at.0)));
            Some(format!("running{since}, {} before", counted_noun(job.n_moves, "move")))
        }
    }
}
