//! What is worth a line: starts, moves, ends, what was refused, what was said.

use base::{CpuSet, Nanos};
use engine::TurnRecord;
use journal::{Header, JobChange, JobHistory, JobRecord};
use report::PlaceNames;
use report::format::seconds;
use report::phrases::{
    action_phrase, completed_page_move_phrase, detached_phrase, exit_phrase, unmanaged_phrase,
};
use sched::{Action, ExitStatus, JobEvent, JobExit, RejectCause, Rejection, Request, Target};
use topology::{DomainChoice, Domains, Level, Machine};

/// One line of news.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// When.
    pub at: Nanos,
    /// `start`, `move`, `keep` (nothing to do), `end`, `fail`, `no` (refused), `free`, `alone`,
    /// `note`, `watch` and `left` (begins and ends to be looked after), `would` (only said).
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
    usable: CpuSet,
    places: PlaceNames,
    lives: JobHistory,
}

impl Reporter {
    /// Until the first turn tells the level of the domains, it is taken to be the automatic one.
    pub fn new(header: &Header) -> Self {
        let machine = &header.machine;
        let auto = Domains::of(machine, DomainChoice::Auto, machine.allowed()).level();
        Reporter {
            names: header.jobs.iter().map(|job| job.name.clone()).collect(),
            places: PlaceNames::new(machine, Some(auto), machine.allowed()),
            machine: machine.clone(),
            level: Some(auto),
            usable: machine.allowed().clone(),
            lives: JobHistory::new(header),
        }
    }

    /// What domains are called.
    pub fn places(&self) -> &PlaceNames {
        &self.places
    }

    /// The news of a turn.
    pub fn news(&mut self, record: &TurnRecord<'_>) -> Vec<News> {
        self.learn_places(record);
        self.learn_names(record);
        let at = record.turn.at;
        let mut news = Vec::new();
        let events = self.lives.apply_events(record);
        news.extend(events.iter().filter_map(|happened| self.happened(at, happened)));
        let about_all = |text: String| one(at, "note", String::new(), text);
        news.extend(record.sample.degraded.iter().cloned().map(about_all));
        news.extend(record.plan.notes.iter().map(|note| about_all(note.to_string())));
        news.extend(record.rejected.iter().map(|refusal| self.refused(at, refusal)));
        let deeds = self.lives.apply_outcomes(record);
        news.extend(deeds.iter().filter_map(|happened| self.happened(at, happened)));
        news
    }

    fn learn_places(&mut self, record: &TurnRecord<'_>) {
        let level = record.current_load_basis().map(|footing| footing.level);
        let is_new = level.is_some_and(|level| self.level != Some(level));
        if is_new || record.sample.usable_cpus.as_ref().is_some_and(|usable| *usable != self.usable)
        {
            self.level = level.or(self.level);
            self.usable = record.sample.usable_cpus.as_ref().unwrap_or(&self.usable).clone();
            self.places = PlaceNames::new(&self.machine, self.level, &self.usable);
        }
    }

    fn learn_names(&mut self, record: &TurnRecord<'_>) {
        for event in &record.sample.jobs {
            let JobEvent::Attached(job) = event else { continue };
            match self.names.get_mut(job.id.index()) {
                Some(name) => name.clone_from(&job.name),
                None => self.names.push(job.name.clone()),
            }
        }
    }

    fn happened(&self, at: Nanos, happened: &JobRecord<'_>) -> Option<News> {
        let whom = self.whom(happened.target);
        let place = |cpus: &CpuSet| self.places.place(cpus);
        let because = because(happened.request);
        let (kind, text) = match &happened.change {
            JobChange::Ended(end) if went_wrong(end) => {
                return Some(bad(one(at, "fail", whom, exit_phrase(end))));
            }
            JobChange::Ended(end) => ("end", exit_phrase(end)),
            JobChange::Unmanaged(why) => {
                ("alone", format!("left alone from here on: {}", unmanaged_phrase(why)))
            }
            JobChange::Attached(job) => {
                let class = job.class.map_or(String::new(), |c| format!(", class {}", c.number()));
                ("watch", format!("is busy: it is looked after from here on{class}"))
            }
            JobChange::Detached(why, _) => ("left", detached_phrase(*why).to_owned()),
            JobChange::Rejected(deed, RejectCause::DryRun, _) => {
                ("would", format!("{}{because}", self.action_text(deed)))
            }
            JobChange::Started(None) => ("start", "wherever the kernel puts it".to_owned()),
            JobChange::Started(Some(cpus)) => ("start", format!("on {}{because}", place(cpus))),
            JobChange::StartFailed(why, detail) => {
                let text = format!("start: not done, {}", said(detail, why.name()));
                return Some(bad(one(at, "fail", whom, text)));
            }
            JobChange::Moved { from, to, .. } => {
                let from = from.as_ref().map_or("anywhere".to_owned(), place);
                ("move", format!("{from} -> {}{because}", place(to)))
            }
            JobChange::Unchanged(cpus) => {
                ("keep", format!("nothing had to be changed, it is on {} already", place(cpus)))
            }
            JobChange::Released { .. } => ("free", "it got back what it had".to_owned()),
            JobChange::Rejected(deed, why, detail) => {
                let text =
                    format!("{}: not done, {}", self.action_text(deed), said(detail, why.name()));
                return Some(bad(one(at, "no", whom, text)));
            }
            JobChange::PageMoveStarted(deed) => {
                ("pages", format!("{} begun{because}", self.action_text(deed)))
            }
            JobChange::PageMoveEnded(moved) => ("pages", completed_page_move_phrase(moved)),
            JobChange::MemoryPolicySet(_) | JobChange::NotCarriedOut(_) => return None,
        };
        Some(one(at, kind, whom, text))
    }

    fn action_text(&self, action: &Action) -> String {
        action_phrase(action, |cpus: &CpuSet| self.places.place(cpus))
    }

    fn refused(&self, at: Nanos, refusal: &Rejection) -> News {
        let what = self.action_text(&refusal.request.action);
        let text = format!("{what}: refused, {}", said(&refusal.detail, refusal.cause.name()));
        bad(one(at, "no", self.whom(refusal.request.target), text))
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

fn because(wish: Option<&Request>) -> String {
    wish.map_or(String::new(), |wish| format!("  because {}", wish.reason))
}

/// Whether a job ended otherwise than it should have.
pub fn went_wrong(end: &JobExit) -> bool {
    !end.stopped_by_host && end.status != ExitStatus::Exited(0)
}
