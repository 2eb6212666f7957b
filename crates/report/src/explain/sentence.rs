//! What happened, as a sentence.
//!
//! In a replay a sentence tells first what the policy would have done and why, and then what the
//! recorded run did; neither is ever given as the other.

use base::{Bytes, CpuSet, NodeId};
use journal::JobSoFar;
use program::MemoryPolicy;
use sched::Action;

use super::teller::Event;
use crate::places::PlaceNames;
use crate::units::seconds;
use crate::words::{action_words, end_words, memory_words, pages_words, usage_words};

/// What a sentence is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sentence {
    /// Itself.
    Said(String),
    /// What was before the first part that is left; where the job was put, if it is told why.
    Before(String, Option<CpuSet>),
    /// What was done, and what had been asked for.
    Done { done: Done, asked: Option<Action> },
    /// What the recorded run did, and what the policy would have done.
    Replayed { done: Done, wish: Option<Action> },
    /// What the policy would have done where the recorded run did nothing.
    Wished { action: Action, from: Option<CpuSet> },
    /// What was wanted and not done.
    Refused { action: Action, by: &'static str, detail: String },
}

/// What was done to a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Done {
    Start(Option<CpuSet>),
    Move {
        from: Option<CpuSet>,
        to: CpuSet,
    },
    Keep(CpuSet),
    Memory(MemoryPolicy),
    Release,
    /// A move of memory was begun: from where, where to, at most how much.
    Pages(Option<NodeId>, NodeId, Bytes),
}

impl Event {
    /// The whole sentence.
    pub fn text(&self, places: &PlaceNames) -> String {
        let because = self.reason.as_ref().map_or(String::new(), |reason| match self.what {
            Sentence::Refused { .. } => format!(". It was wanted because {reason}"),
            Sentence::Before(..) => format!(": {reason}"),
            _ => format!(" because {reason}"),
        });
        let (before, after) = self.what.parts(places);
        let again = match self.n {
            1 => String::new(),
            n => format!("; wanted {n} times, the last at {} s", seconds(self.last_at.0)),
        };
        format!("{before}{because}{after}{again}")
    }
}

impl Sentence {
    /// What stands before the reason and what after it.
    fn parts(&self, places: &PlaceNames) -> (String, String) {
        let alone = |text: String| (text, String::new());
        match self {
            Sentence::Said(text) | Sentence::Before(text, None) => alone(text.clone()),
            Sentence::Before(text, Some(cpus)) => {
                alone(format!("{text}, and was put on {} for this reason", places.place(cpus)))
            }
            Sentence::Done { done, asked } => {
                (done.passive(places), done.narrowed(asked.as_ref(), places))
            }
            Sentence::Replayed { done, wish: None } => {
                let text = format!("{} by the recorded run", done.passive(places));
                alone(text + "; the policy here asked for nothing")
            }
            Sentence::Replayed { done, wish: Some(wish) } if done.is(wish) => alone(
                would(wish, done.from(), done.is_start(), places) + ", as in the recorded run,",
            ),
            Sentence::Replayed { done, wish: Some(wish) } => {
                let wished = would(wish, done.from(), done.is_start(), places);
                (wished, format!("; the recorded run {}", done.active(places)))
            }
            Sentence::Wished { action, from } => alone(would(action, from.as_ref(), false, places)),
            Sentence::Refused { action, by, detail } => {
                let wanted = action_words(action, |cpus| places.place(cpus));
                alone(format!("not done: {wanted}; {by} refused: {detail}"))
            }
        }
    }
}

impl Done {
    /// `moved from core 0 to core 1`.
    fn passive(&self, places: &PlaceNames) -> String {
        let place = |cpus: &CpuSet| places.place(cpus);
        match self {
            Done::Start(None) => "started wherever the kernel puts it".to_owned(),
            Done::Start(Some(cpus)) => format!("started on {}", place(cpus)),
            Done::Move { from: None, to } => format!("bound to {}", place(to)),
            Done::Move { from: Some(from), to } => {
                format!("moved from {} to {}", place(from), place(to))
            }
            Done::Keep(cpus) => {
                format!("nothing had to be changed: it was bound to {} already;", place(cpus))
                    + " that was wanted"
            }
            Done::Memory(policy) => format!("set to {}", memory_words(policy)),
            Done::Release => {
                "released: it may run where it could before evenkeel placed it".to_owned()
            }
            Done::Pages(from, to, limit) => {
                format!("a move of {} was begun", pages_words((*from, *to, *limit)))
            }
        }
    }

    /// `moved it from core 0 to core 1`.
    fn active(&self, places: &PlaceNames) -> String {
        let place = |cpus: &CpuSet| places.place(cpus);
        match self {
            Done::Start(None) => "started it wherever the kernel put it".to_owned(),
            Done::Start(Some(cpus)) => format!("started it on {}", place(cpus)),
            Done::Move { from: None, to } => format!("bound it to {}", place(to)),
            Done::Move { from: Some(from), to } => {
                format!("moved it from {} to {}", place(from), place(to))
            }
            Done::Keep(cpus) => format!("kept it on {}", place(cpus)),
            Done::Memory(policy) => format!("set it to {}", memory_words(policy)),
            Done::Release => "released it".to_owned(),
            Done::Pages(from, to, limit) => {
                format!("began to move {}", pages_words((*from, *to, *limit)))
            }
        }
    }

    fn is_start(&self) -> bool {
        matches!(self, Done::Start(_))
    }

    fn from(&self) -> Option<&CpuSet> {
        match self {
            Done::Move { from, .. } => from.as_ref(),
            Done::Keep(cpus) => Some(cpus),
            Done::Start(_) | Done::Memory(_) | Done::Release | Done::Pages(..) => None,
        }
    }

    /// Where the job is bound by it.
    fn cpus(&self) -> Option<&CpuSet> {
        match self {
            Done::Start(cpus) => cpus.as_ref(),
            Done::Move { to, .. } => Some(to),
            Done::Keep(cpus) => Some(cpus),
            Done::Memory(_) | Done::Release | Done::Pages(..) => None,
        }
    }

    /// Whether it is exactly this that was done.
    fn is(&self, action: &Action) -> bool {
        match (self, action) {
            (Done::Release, Action::Release) => true,
            (Done::Memory(done), Action::MemoryPolicy(wanted)) => done == wanted,
            (Done::Pages(a, b, c), Action::MovePages { from, to, limit }) => {
                (a, b, c) == (from, to, limit)
            }
            (_, Action::Place(wanted)) => self.cpus() == Some(wanted),
            _ => false,
        }
    }

    /// What had been asked for, where less was possible.
    fn narrowed(&self, asked: Option<&Action>, places: &PlaceNames) -> String {
        let asked = asked.filter(|asked| !self.is(asked));
        match (self, asked) {
            (Done::Memory(_), Some(Action::MemoryPolicy(asked))) => {
                format!("; it was asked to {}, and narrowed to this", memory_words(asked))
            }
            (Done::Pages(_, _, limit), Some(Action::MovePages { limit: asked, .. })) => {
                let asked = match *asked {
                    Action::NO_LIMIT => "all of it".to_owned(),
                    asked => asked.to_string(),
                };
                format!("; {asked} was asked for, and narrowed to {limit}")
            }
            (_, Some(Action::Place(asked))) if self.cpus().is_some() => {
                let done = self.cpus().map_or(String::new(), |cpus| places.place(cpus));
                format!("; {} was asked for, and narrowed to {done}", places.place(asked))
            }
            _ => String::new(),
        }
    }
}

/// `would have been moved from core 0 to core 1`.
fn would(action: &Action, from: Option<&CpuSet>, starts: bool, places: &PlaceNames) -> String {
    let place = |cpus: &CpuSet| places.place(cpus);
    let what = match (action, from) {
        (Action::Place(to), _) if starts => format!("started on {}", place(to)),
        (Action::Place(to), Some(from)) => format!("moved from {} to {}", place(from), place(to)),
        (Action::Place(to), None) => format!("bound to {}", place(to)),
        (Action::MemoryPolicy(policy), _) => format!("set to {}", memory_words(policy)),
        (Action::Release, _) => "released".to_owned(),
        (Action::MovePages { from, to, limit }, _) => {
            format!("given a move of {}", pages_words((*from, *to, *limit)))
        }
    };
    format!("would have been {what}")
}

/// What is known of a job at the beginning of the first part that is left.
pub(super) fn before_words(job: &JobSoFar) -> Option<String> {
    use journal::LifeState::{Ended, Left, NotStarted, Running, Waiting};
    let moves = format!("{} {}", job.n_moves, if job.n_moves == 1 { "move" } else { "moves" });
    match (job.state, &job.ended, job.started) {
        (Waiting, ..) => None,
        (Left, ..) => Some("watched no longer".to_owned()),
        (NotStarted, ..) => {
            let detail = job.cannot_start.as_ref().map_or("", |(_, detail)| detail);
            Some(format!("could not be started: {detail}"))
        }
        (Ended, Some((at, end)), _) => {
            Some(format!("{} at {} s: {}", end_words(end), seconds(at.0), usage_words(end)))
        }
        (Ended | Running, _, started) => {
            let since = started.map_or(String::new(), |at| format!(" since {} s", seconds(at.0)));
            Some(format!("running{since}, {moves} before"))
        }
    }
}
