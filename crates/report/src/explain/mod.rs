//! Why jobs ran where they did, in plain sentences. Nothing is told but what a journal holds.

mod text;

use std::collections::BTreeMap;

use base::{CpuSet, JobId, Nanos};
use engine::TurnRecord;
use journal::{Header, JournalError, Recording};
use sched::{
    Action, Ask, Deed, HandsOff, JobEvent, Outcome, OutcomeResult, Reason, Refusal, Target,
};
use topology::Level;

use crate::describe::{record, words};
use crate::places::PlaceNames;
use crate::units::seconds;
use crate::words::{
    action_words, command_line, end_words, hands_off_words, memory_words, usage_words,
};

record! {
    /// What a journal tells of its run.
    Explanation {
        format: u32, "Format", Plain, "The version of this format.";
        run: String, "Run", Plain, "What the run is called.";
        policy: String, "Policy", Plain, "Who decided, with its parameters.";
        replay_of: Option<String>, "Replay of", Plain, "The run that this is a replay of: its decisions were never carried out.";
        end: Option<String>, "Ended", Plain, "How the run ended; absent if evenkeel was killed or still runs.";
        notes: Vec<Told>, "Notes", Plain, "What the policy and the host said of the whole.";
        jobs: Vec<JobStory>, "Jobs", Plain, "What happened to each job, in start order.";
    }
}

record! {
    /// What happened to a job.
    JobStory {
        id: u32, "Number", Plain, "Its number.";
        name: String, "Job", Plain, "Its name.";
        command: String, "Command", Plain, "What it runs.";
        class: Option<u32>, "Class", Plain, "Its declared memory class; absent counts as 0.";
        events: Vec<Told>, "Events", Plain, "What happened, in order.";
    }
}

record! {
    /// One thing that happened.
    Told {
        at_ns: u64, "When", Nanos, "When.";
        kind: EventWord, "Kind", Plain, "What kind of thing.";
        text: String, "Sentence", Plain, "The whole of it in words, the reason among it.";
        code: Option<String>, "Code", Plain, "The code of the reason, if there was one.";
    }
}

words! {
    /// What kind of thing happened.
    EventWord {
        Before "before" "It happened in a part of the journal that is gone.";
        Note "note" "Somebody said something of the whole run.";
        Start "start" "The job was started.";
        NotStarted "not-started" "The job could not be started.";
        Move "move" "The job was bound to other CPUs.";
        Memory "memory" "It was told where its memory comes from.";
        Release "release" "The job got back what it had.";
        Refused "refused" "Something was wanted and not done.";
        HandsOff "hands-off" "The job is left alone from here on.";
        End "end" "The job ended.";
    }
}

/// Reads a journal to its end and tells of all jobs, or of one.
///
/// # Errors
/// A line of it cannot be read or understood.
pub fn explain(mut recording: Recording, only: Option<JobId>) -> Result<Explanation, JournalError> {
    let mut teller = Teller::new(recording.header(), only);
    if let Some(so_far) = recording.so_far() {
        teller.before(so_far);
    }
    for turn in &mut recording {
        teller.turn(&turn?.record());
    }
    if let Some(place) = recording.torn() {
        let text = format!("the last line of the journal is torn and was left out: {place}");
        teller.note(text, None);
    }
    let end = recording.end().map(|end| {
        let error = end.error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
        format!("{} after {} s{error}", end.how.name(), seconds(end.wall.0))
    });
    Ok(teller.finish(end))
}

/// Goes through the turns and keeps what happened to whom.
struct Teller {
    header: Header,
    only: Option<JobId>,
    level: Option<Level>,
    usable: CpuSet,
    at: Nanos,
    notes: Vec<Told>,
    events: BTreeMap<JobId, Vec<Event>>,
    placed: BTreeMap<JobId, CpuSet>,
    started_at: BTreeMap<JobId, Nanos>,
}

/// Something that happened. Its sentence is made at the end, when the domains are known.
struct Event {
    at: Nanos,
    kind: EventWord,
    what: What,
    reason: Option<Reason>,
}

enum What {
    Said(String),
    Started(Option<CpuSet>),
    Moved { from: Option<CpuSet>, to: CpuSet },
    Refused { action: Action, by: &'static str, detail: String },
}

impl Teller {
    fn new(header: &Header, only: Option<JobId>) -> Self {
        Teller {
            header: header.clone(),
            only,
            level: None,
            usable: header.machine.allowed().clone(),
            at: Nanos::ZERO,
            notes: Vec::new(),
            events: BTreeMap::new(),
            placed: BTreeMap::new(),
            started_at: BTreeMap::new(),
        }
    }

    /// What parts that are gone have left of what happened in them.
    fn before(&mut self, so_far: &journal::SoFar) {
        self.at = so_far.at;
        self.note(
            "the first parts of the journal are gone: of what happened before, only this is known"
                .to_owned(),
            None,
        );
        so_far.notes.iter().for_each(|note| self.note(note.to_string(), Some(note)));
        for (id, job) in (0u32..).map(JobId).zip(&so_far.jobs) {
            self.placed.extend(job.placed.clone().map(|cpus| (id, cpus)));
            if let Some(text) = before_words(job) {
                self.tell(id, EventWord::Before, What::Said(text), job.reason.as_ref());
            }
        }
    }

    fn turn(&mut self, record: &TurnRecord<'_>) {
        self.at = record.turn.at;
        if let Some(loads) = record.loads {
            self.level = Some(loads.level);
        }
        if let (0, Some(usable)) = (record.turn.number, &record.sample.usable) {
            self.usable = usable.clone();
        }
        record.sample.jobs.iter().for_each(|event| self.job_event(event));
        record.sample.degraded.iter().for_each(|text| self.note(text.clone(), None));
        record.plan.notes.iter().for_each(|note| self.note(note.to_string(), Some(note)));
        if let Some(reason) = &record.plan.give_up {
            self.note(format!("the policy gave up: {reason}"), Some(reason));
        }
        record.refused.iter().for_each(|refusal| self.refused(refusal));
        // A start is told with where it was bound, and so after that.
        let starts = |outcome: &&Outcome| outcome.deed == Deed::Start;
        for outcome in record.outcomes.iter().filter(starts) {
            self.started(outcome, record);
        }
        for outcome in record.outcomes.iter().filter(|outcome| !starts(outcome)) {
            self.acted(outcome, &record.plan.asks);
        }
    }

    fn job_event(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Due(_) => {}
            JobEvent::HandsOff(id, why) => {
                let text = format!("left alone from here on: {}", hands_off_words(why));
                if let HandsOff::AffinityChanged(cpus) = why {
                    self.placed.insert(*id, cpus.clone());
                }
                self.tell(*id, EventWord::HandsOff, What::Said(text), None);
            }
            JobEvent::Ended(id, end) => {
                let (how, used) = (end_words(end), usage_words(end));
                let text = format!("{how} after {} s: {used}", seconds(end.wall.0));
                self.placed.remove(id);
                self.tell(*id, EventWord::End, What::Said(text), None);
            }
        }
    }

    fn started(&mut self, outcome: &Outcome, record: &TurnRecord<'_>) {
        let Target::Job(id) = outcome.target else { return };
        if let OutcomeResult::Refused { detail, .. } = &outcome.result {
            let text = format!("could not be started: {detail}");
            self.tell(id, EventWord::NotStarted, What::Said(text), None);
            return;
        }
        let bound = record.outcomes.iter().find_map(|other| match (&other.deed, &other.result) {
            (Deed::Place(cpus), OutcomeResult::Done { .. }) if other.target == outcome.target => {
                Some(cpus.clone())
            }
            _ => None,
        });
        let wanted = bound.clone().map(Action::Place);
        let reason = reason_for(&record.plan.asks, outcome.target, wanted.as_ref());
        self.started_at.insert(id, self.at);
        self.placed.extend(bound.clone().map(|cpus| (id, cpus)));
        self.tell(id, EventWord::Start, What::Started(bound), reason);
    }

    fn acted(&mut self, outcome: &Outcome, asks: &[Ask]) {
        let Target::Job(id) = outcome.target else { return };
        let action = match &outcome.deed {
            Deed::Start => return,
            Deed::Place(cpus) => Action::Place(cpus.clone()),
            Deed::MemoryPolicy(policy) => Action::MemoryPolicy(policy.clone()),
            Deed::Release => Action::Release,
        };
        let reason = reason_for(asks, outcome.target, Some(&action));
        if let OutcomeResult::Refused { why, detail } = &outcome.result {
            let detail = if detail.is_empty() { why.name().to_owned() } else { detail.clone() };
            let what = What::Refused { action, by: "the kernel", detail };
            self.tell(id, EventWord::Refused, what, reason);
            return;
        }
        match action {
            Action::Place(to) => {
                let from = self.placed.insert(id, to.clone());
                let part_of_start = self.started_at.get(&id) == Some(&self.at);
                if !part_of_start {
                    self.tell(id, EventWord::Move, What::Moved { from, to }, reason);
                }
            }
            Action::MemoryPolicy(policy) => {
                let text = format!("set to {}", memory_words(&policy));
                self.tell(id, EventWord::Memory, What::Said(text), reason);
            }
            Action::Release => {
                self.placed.remove(&id);
                let text = "released: it may run where it could before evenkeel placed it";
                self.tell(id, EventWord::Release, What::Said(text.to_owned()), reason);
            }
        }
    }

    fn refused(&mut self, refusal: &Refusal) {
        let Target::Job(id) = refusal.ask.target else { return };
        let why = refusal.why.name();
        let detail =
            if refusal.detail.is_empty() { why.to_owned() } else { refusal.detail.clone() };
        let action = refusal.ask.action.clone();
        let what = What::Refused { action, by: "evenkeel's guard", detail };
        self.tell(id, EventWord::Refused, what, Some(&refusal.ask.reason));
    }

    fn tell(&mut self, id: JobId, kind: EventWord, what: What, reason: Option<&Reason>) {
        if self.only.is_none_or(|only| only == id) {
            let event = Event { at: self.at, kind, what, reason: reason.cloned() };
            self.events.entry(id).or_default().push(event);
        }
    }

    fn note(&mut self, text: String, reason: Option<&Reason>) {
        let code = reason.map(|reason| reason.code.name().to_owned());
        self.notes.push(Told { at_ns: self.at.0, kind: EventWord::Note, text, code });
    }

    fn finish(mut self, end: Option<String>) -> Explanation {
        let places = PlaceNames::new(&self.header.machine, self.level, &self.usable);
        let told = |job: &&program::Job| self.only.is_none_or(|only| only == job.id);
        let story = |job: &program::Job| JobStory {
            id: job.id.0,
            name: job.name.clone(),
            command: command_line(&job.command),
            class: job.class.map(|class| u32::from(class.number())),
            events: self
                .events
                .remove(&job.id)
                .unwrap_or_default()
                .into_iter()
                .map(|event| event.told(&places))
                .collect(),
        };
        let jobs = self.header.jobs.iter().filter(told).map(story).collect();
        Explanation {
            format: crate::FORMAT,
            run: self.header.run_id,
            policy: self.header.policy.spec,
            replay_of: self.header.replay_of,
            end,
            notes: self.notes,
            jobs,
        }
    }
}

impl Event {
    fn told(self, places: &PlaceNames) -> Told {
        let place = |cpus: &CpuSet| places.place(cpus);
        let what = match self.what {
            What::Said(text) => text,
            What::Started(None) => "started wherever the kernel puts it".to_owned(),
            What::Started(Some(cpus)) => format!("started on {}", place(&cpus)),
            What::Moved { from: None, to } => format!("bound to {}", place(&to)),
            What::Moved { from: Some(from), to } => {
                format!("moved from {} to {}", place(&from), place(&to))
            }
            What::Refused { action, by, detail } => {
                format!("not done: {}; {by} refused: {detail}", action_words(&action, place))
            }
        };
        let text = match &self.reason {
            Some(reason) if self.kind == EventWord::Refused => {
                format!("{what}. It was wanted because {reason}")
            }
            Some(reason) => format!("{what} because {reason}"),
            None => what,
        };
        let code = self.reason.map(|reason| reason.code.name().to_owned());
        Told { at_ns: self.at.0, kind: self.kind, text, code }
    }
}

/// Why this was done to the target.
fn reason_for<'a>(asks: &'a [Ask], target: Target, action: Option<&Action>) -> Option<&'a Reason> {
    let wanted = asks.iter().find(|ask| ask.target == target && Some(&ask.action) == action);
    wanted.map(|ask| &ask.reason)
}

/// What is known of a job at the beginning of the first part that is left.
fn before_words(job: &journal::JobSoFar) -> Option<String> {
    use journal::LifeState::{Ended, NotStarted, Running, Waiting};
    let moves = format!("{} {}", job.n_moves, if job.n_moves == 1 { "move" } else { "moves" });
    match (job.state, &job.ended, job.started) {
        (Waiting, ..) => None,
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
