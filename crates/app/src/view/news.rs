//! What is worth a line: starts, moves, ends, what was refused, what was said.

use std::collections::BTreeMap;

use base::{CpuSet, JobId, Nanos};
use engine::TurnRecord;
use program::Job;
use report::PlaceNames;
use report::units::seconds;
use report::words::{action_words, end_words, hands_off_words};
use sched::{Action, Ask, Deed, End, ExitStatus, JobEvent, Outcome, OutcomeResult, Reason, Target};
use topology::{DomainChoice, Domains, Level, Machine};

/// One line of news.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// When.
    pub at: Nanos,
    /// `start`, `move`, `end`, `fail`, `no` (refused), `free`, `alone`, `note`.
    pub kind: &'static str,
    /// Whether something went wrong.
    pub bad: bool,
    /// The job; empty for the run as a whole.
    pub whom: String,
    /// The rest.
    pub text: String,
}

impl News {
    /// `   12.250 s  move   hog.2  core 0 -> core 1  because …`.
    pub fn line(&self) -> String {
        let whom = if self.whom.is_empty() { String::new() } else { format!("{}  ", self.whom) };
        format!("{:>9} s  {:<5}  {whom}{}", seconds(self.at.0), self.kind, self.text)
    }
}

/// Turns turns into news.
#[derive(Debug)]
pub struct Reporter {
    names: Vec<String>,
    machine: Machine,
    level: Option<Level>,
    places: PlaceNames,
    placed: BTreeMap<JobId, CpuSet>,
}

impl Reporter {
    /// Until loads tell the level of the domains, it is taken to be the automatic one.
    pub fn new(machine: &Machine, jobs: &[Job]) -> Self {
        let auto = Domains::of(machine, DomainChoice::Auto, machine.allowed()).level();
        Reporter {
            names: jobs.iter().map(|job| job.name.clone()).collect(),
            places: PlaceNames::new(machine, Some(auto), machine.allowed()),
            machine: machine.clone(),
            level: None,
            placed: BTreeMap::new(),
        }
    }

    /// What domains are called.
    pub fn places(&self) -> &PlaceNames {
        &self.places
    }

    /// The news of a turn.
    pub fn news(&mut self, record: &TurnRecord<'_>) -> Vec<News> {
        self.learn_level(record);
        let at = record.turn.at;
        let mut news = Vec::new();
        for event in &record.sample.jobs {
            news.extend(self.event(at, event));
        }
        let about_all = |text: String| one(at, "note", String::new(), text);
        news.extend(record.sample.degraded.iter().cloned().map(about_all));
        news.extend(record.plan.notes.iter().map(|note| about_all(note.to_string())));
        for refusal in record.refused {
            let what = action_words(&refusal.ask.action, |cpus| self.places.place(cpus));
            let text = format!("{what}: refused, {}", said(&refusal.detail, refusal.why.name()));
            news.push(bad(one(at, "no", self.whom(refusal.ask.target), text)));
        }
        for outcome in record.outcomes {
            news.extend(self.outcome(at, outcome, record));
        }
        news
    }

    fn learn_level(&mut self, record: &TurnRecord<'_>) {
        let Some(loads) = record.loads.filter(|loads| self.level != Some(loads.level)) else {
            return;
        };
        self.level = Some(loads.level);
        self.places = PlaceNames::new(&self.machine, self.level, self.machine.allowed());
    }

    fn event(&mut self, at: Nanos, event: &JobEvent) -> Option<News> {
        match event {
            JobEvent::Due(_) => None,
            JobEvent::Ended(id, end) => {
                self.placed.remove(id);
                let text = format!("{} after {} s", end_words(end), seconds(end.wall.0));
                let whom = self.whom(Target::Job(*id));
                Some(match went_wrong(end) {
                    true => bad(one(at, "fail", whom, text)),
                    false => one(at, "end", whom, text),
                })
            }
            JobEvent::HandsOff(id, why) => {
                let text = format!("left alone from here on: {}", hands_off_words(why));
                Some(one(at, "alone", self.whom(Target::Job(*id)), text))
            }
        }
    }

    fn outcome(&mut self, at: Nanos, outcome: &Outcome, record: &TurnRecord<'_>) -> Option<News> {
        let whom = self.whom(outcome.target);
        if let OutcomeResult::Refused { why, detail } = &outcome.result {
            let what = match &outcome.deed {
                Deed::Start => "start".to_owned(),
                Deed::Place(cpus) => format!("place on {}", self.places.place(cpus)),
                Deed::MemoryPolicy(policy) => report::words::memory_words(policy),
                Deed::Release => "release".to_owned(),
            };
            let text = format!("{what}: not done, {}", said(detail, why.name()));
            let kind = if outcome.deed == Deed::Start { "fail" } else { "no" };
            return Some(bad(one(at, kind, whom, text)));
        }
        match (&outcome.deed, outcome.target) {
            (Deed::Start, Target::Job(id)) => Some(self.started(at, id, whom, record)),
            (Deed::Place(cpus), Target::Job(id)) => {
                let starts = is_started(outcome.target, record.outcomes);
                let from = self.placed.insert(id, cpus.clone());
                let why = reason(&record.plan.asks, outcome.target, cpus);
                (!starts).then(|| self.moved(at, whom, from, cpus, why))
            }
            (Deed::Release, Target::Job(id)) => {
                self.placed.remove(&id);
                Some(one(at, "free", whom, "it got back what it had".to_owned()))
            }
            _ => None,
        }
    }

    fn started(&self, at: Nanos, id: JobId, whom: String, record: &TurnRecord<'_>) -> News {
        let bound = record.outcomes.iter().find_map(|other| match (&other.deed, &other.result) {
            (Deed::Place(cpus), OutcomeResult::Done { .. }) if other.target == Target::Job(id) => {
                Some(cpus)
            }
            _ => None,
        });
        let text = match bound {
            None => "wherever the kernel puts it".to_owned(),
            Some(cpus) => {
                let why = reason(&record.plan.asks, Target::Job(id), cpus);
                format!("on {}{}", self.places.place(cpus), because(why))
            }
        };
        one(at, "start", whom, text)
    }

    fn moved(
        &self,
        at: Nanos,
        whom: String,
        from: Option<CpuSet>,
        to: &CpuSet,
        why: Option<&Reason>,
    ) -> News {
        let from = from.map_or("anywhere".to_owned(), |cpus| self.places.place(&cpus));
        one(at, "move", whom, format!("{from} -> {}{}", self.places.place(to), because(why)))
    }

    fn whom(&self, target: Target) -> String {
        match target {
            Target::Job(id) => {
                self.names.get(id.index()).cloned().unwrap_or_else(|| id.to_string())
            }
            Target::Task(task) => format!("thread {}", task.tid),
        }
    }
}

fn one(at: Nanos, kind: &'static str, whom: String, text: String) -> News {
    News { at, kind, bad: false, whom: harmless(&whom), text: harmless(&text) }
}

/// Without anything that a terminal would obey: jobs are called whatever a file says.
fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn bad(news: News) -> News {
    News { bad: true, ..news }
}

fn said<'a>(detail: &'a str, why: &'a str) -> &'a str {
    if detail.is_empty() { why } else { detail }
}

fn because(reason: Option<&Reason>) -> String {
    reason.map_or(String::new(), |reason| format!("  because {reason}"))
}

fn reason<'a>(asks: &'a [Ask], target: Target, cpus: &CpuSet) -> Option<&'a Reason> {
    let wanted =
        |ask: &&Ask| ask.target == target && matches!(&ask.action, Action::Place(to) if to == cpus);
    asks.iter().find(wanted).map(|ask| &ask.reason)
}

fn is_started(target: Target, outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| outcome.target == target && outcome.deed == Deed::Start)
}

/// Whether a job ended otherwise than it should have.
pub fn went_wrong(end: &End) -> bool {
    !end.by_us && end.status != ExitStatus::Exited(0)
}
