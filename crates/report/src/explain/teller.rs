//! Goes through the turns of a journal and keeps what happened to whom.

use std::collections::BTreeMap;

use base::{CpuSet, JobId, Nanos};
use engine::TurnRecord;
use journal::{Header, JobHistory, JobRecord, JobSoFar, What};
use program::Job;
use sched::{Action, JobEvent, Reason, RejectCause, Rejection, Request, Sample, Target};

use super::sentence::{Done, Sentence, before_words};
use super::{EventWord, Explanation, JobStory, Told};
use crate::eras::{Era, EraNames, Eras};
use crate::words::{
    command_line, end_words, hands_off_words, leaving_words, moved_words, usage_words,
};

pub(super) struct Teller {
    header: Header,
    only: Option<JobId>,
    lives: JobHistory,
    eras: Eras,
    at: Nanos,
    notes: Vec<Told>,
    events: BTreeMap<JobId, Vec<Event>>,
    /// Jobs whose number another has by now.
    earlier: Vec<(Job, Vec<Event>)>,
}

/// Something that happened. Its sentence is made at the end, when places have names.
#[derive(Debug)]
pub(super) struct Event {
    pub at: Nanos,
    pub last_at: Nanos,
    pub n: u64,
    pub kind: EventWord,
    pub what: Sentence,
    pub reason: Option<Reason>,
    pub era: Era,
}

impl Teller {
    pub fn new(header: &Header, only: Option<JobId>) -> Self {
        Teller {
            header: header.clone(),
            only,
            lives: JobHistory::new(header),
            eras: Eras::new(&header.machine),
            at: Nanos::ZERO,
            notes: Vec::new(),
            events: BTreeMap::new(),
            earlier: Vec::new(),
        }
    }

    /// What parts that are gone have left of what happened in them.
    pub fn before(&mut self, so_far: &journal::SoFar) {
        self.at = so_far.at;
        let level = so_far.footing.map(|footing| footing.level);
        self.eras.set(level, so_far.sample().usable_cpus.as_ref());
        self.lives = so_far.lives.clone();
        self.note(
            "the first parts of the journal are gone: of what happened before, only this is known"
                .to_owned(),
            None,
        );
        so_far.notes.iter().for_each(|note| self.note(note.to_string(), Some(note)));
        for (id, job) in (0u32..).map(JobId).zip(so_far.lives.jobs()) {
            self.before_of(id, job);
        }
    }

    fn before_of(&mut self, id: JobId, job: &JobSoFar) {
        if let Some(text) = before_words(job) {
            let placed = job.placed.clone().filter(|_| job.reason.is_some());
            self.tell(id, EventWord::Before, Sentence::Before(text, placed), job.reason.as_ref());
        }
    }

    pub fn turn(&mut self, record: &TurnRecord<'_>) {
        self.at = record.turn.at;
        self.eras.see(record);
        self.meet(record.sample);
        for happened in self.lives.events(record) {
            self.happened(&happened);
        }
        record.sample.degraded.iter().for_each(|text| self.note(text.clone(), None));
        record.plan.notes.iter().for_each(|note| self.note(note.to_string(), Some(note)));
        if let Some(reason) = &record.plan.abort {
            self.note(format!("the policy gave up: {reason}"), Some(reason));
        }
        record.rejected.iter().for_each(|refusal| self.refused_by_guard(refusal));
        for happened in self.lives.deeds(record) {
            self.happened(&happened);
        }
    }

    /// Jobs that appeared. One that had the number of such a job before has its story already.
    fn meet(&mut self, sample: &Sample) {
        for event in &sample.jobs {
            let JobEvent::Attached(job) = event else { continue };
            if let Some(before) = self.header.jobs.get(job.id.index()) {
                let events = self.events.remove(&job.id).unwrap_or_default();
                self.earlier.push((before.clone(), events));
            }
        }
        self.header.take_in(sample);
    }

    fn happened(&mut self, happened: &JobRecord<'_>) {
        let Target::Job(id) = happened.target else { return };
        let wish = happened.wish;
        match &happened.what {
            What::HandsOff(why) => {
                let text = format!("left alone from here on: {}", hands_off_words(why));
                self.tell(id, EventWord::HandsOff, Sentence::Said(text), None);
            }
            What::Appeared(_) => {
                let text = "ran already when evenkeel noticed it".to_owned();
                self.tell(id, EventWord::Appeared, Sentence::Said(text), None);
            }
            What::Left(why, _) => {
                let text = leaving_words(*why).to_owned();
                self.tell(id, EventWord::Left, Sentence::Said(text), None);
            }
            What::Refused(_, RejectCause::DryRun, _) => {
                let from = self.lives.job(id).and_then(|job| job.placed.clone());
                self.only_wished(id, from, wish);
            }
            What::Ended(end) => {
                let text = format!("{}: {}", end_words(end), usage_words(end));
                self.tell(id, EventWord::End, Sentence::Said(text), None);
            }
            What::NotStarted(_, detail) => {
                let text = format!("could not be started: {detail}");
                self.tell(id, EventWord::NotStarted, Sentence::Said(text), None);
            }
            What::Refused(deed, why, detail) => self.refused(id, deed, (*why, detail), wish),
            What::Started(cpus) => {
                self.done(id, EventWord::Start, Done::Start(cpus.cloned()), wish);
            }
            What::Moved { from, to, .. } => {
                let done = Done::Move { from: from.clone(), to: (*to).clone() };
                self.done(id, EventWord::Move, done, wish);
            }
            What::Kept(cpus) => {
                self.done(id, EventWord::Kept, Done::Keep((*cpus).clone()), wish);
            }
            What::Memory(policy) => {
                self.done(id, EventWord::Memory, Done::Memory((*policy).clone()), wish);
            }
            What::Released { .. } => self.done(id, EventWord::Release, Done::Release, wish),
            What::PagesBegun(deed) => {
                if let Action::MovePages { from, to, limit } = **deed {
                    self.done(id, EventWord::Pages, Done::Pages(from, to, limit), wish);
                }
            }
            What::PagesMoved(moved) => {
                self.tell(id, EventWord::PagesMoved, Sentence::Said(moved_words(moved)), None);
            }
            What::OnlyWished(from) => self.only_wished(id, from.clone(), wish),
        }
    }

    /// Something was done. In a replay it was the recorded run that did it.
    fn done(&mut self, id: JobId, kind: EventWord, done: Done, wish: Option<&Request>) {
        let action = wish.map(|wish| wish.action.clone());
        let what = match self.lives.is_replay() {
            true => Sentence::Replayed { done, wish: action },
            false => Sentence::Done { done, asked: action },
        };
        self.tell(id, kind, what, wish.map(|wish| &*wish.reason));
    }

    /// A wish that is not carried out comes again with the next turn: that is told once.
    fn only_wished(&mut self, id: JobId, from: Option<CpuSet>, wish: Option<&Request>) {
        let Some(wish) = wish else { return };
        let what = Sentence::Wished { action: wish.action.clone(), from };
        let last = self.events.get_mut(&id).and_then(|events| events.last_mut());
        match last.filter(|event| event.what == what) {
            Some(event) => (event.last_at, event.n) = (self.at, event.n + 1),
            None => self.tell(id, EventWord::Wish, what, Some(&wish.reason)),
        }
    }

    fn refused(
        &mut self,
        id: JobId,
        deed: &Action,
        told: (RejectCause, &str),
        wish: Option<&Request>,
    ) {
        let what =
            Sentence::Refused { action: deed.clone(), by: "the kernel", detail: detail(told) };
        let reason = wish.filter(|_| !self.lives.is_replay()).map(|wish| &*wish.reason);
        self.tell(id, EventWord::Refused, what, reason);
    }

    fn refused_by_guard(&mut self, refusal: &Rejection) {
        let Target::Job(id) = refusal.request.target else { return };
        let (action, detail) =
            (refusal.request.action.clone(), detail((refusal.cause, &refusal.detail)));
        let what = Sentence::Refused { action, by: "evenkeel's guard", detail };
        self.tell(id, EventWord::Refused, what, Some(&refusal.request.reason));
    }

    fn tell(&mut self, id: JobId, kind: EventWord, what: Sentence, reason: Option<&Reason>) {
        if self.only.is_none_or(|only| only == id) {
            let (at, last_at, era) = (self.at, self.at, self.eras.now());
            let event = Event { at, last_at, n: 1, kind, what, reason: reason.cloned(), era };
            self.events.entry(id).or_default().push(event);
        }
    }

    pub fn note(&mut self, text: String, reason: Option<&Reason>) {
        let code = reason.map(|reason| reason.code.name().to_owned());
        let (at_ns, last_at_ns, kind) = (self.at.0, self.at.0, EventWord::Note);
        self.notes.push(Told { at_ns, last_at_ns, n: 1, kind, text, code });
    }

    pub fn finish(mut self, end: Option<String>) -> Explanation {
        let places = self.eras.names(&self.header.machine);
        let jobs = std::mem::take(&mut self.header.jobs);
        let mut all = std::mem::take(&mut self.earlier);
        for job in jobs {
            let events = self.events.remove(&job.id).unwrap_or_default();
            all.push((job, events));
        }
        all.retain(|(job, _)| self.only.is_none_or(|only| only == job.id));
        let tell = |(job, events): (Job, _)| story(&job, events, &places);
        let stories = all.into_iter().map(tell).collect();
        Explanation {
            format: crate::FORMAT,
            run: self.header.run_id,
            policy: self.header.policy.spec,
            replay_of: self.header.replay_of,
            end,
            notes: self.notes,
            jobs: stories,
        }
    }
}

fn story(job: &Job, events: Vec<Event>, places: &EraNames) -> JobStory {
    JobStory {
        id: job.id.0,
        name: job.name.clone(),
        command: command_line(&job.command),
        class: job.class.map(|class| u32::from(class.number())),
        events: events.into_iter().map(|event| told(event, places)).collect(),
    }
}

fn told(event: Event, places: &EraNames) -> Told {
    let text = event.text(places.of(event.era));
    Told {
        at_ns: event.at.0,
        last_at_ns: event.last_at.0,
        n: event.n,
        kind: event.kind,
        text,
        code: event.reason.map(|reason| reason.code.name().to_owned()),
    }
}

fn detail((why, detail): (RejectCause, &str)) -> String {
    if detail.is_empty() { why.name().to_owned() } else { detail.to_owned() }
}
