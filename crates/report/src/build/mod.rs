//! From turns to a report, in bounded memory.
//!
//! Everything is kept as values of `base` and `sched` while the run goes on; sentences and labels are
//! made at the end. Moves and refusals are kept up to a limit, the last ones win; timelines and load
//! curves get coarser instead of longer.

mod finish;
mod loads;
mod timeline;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use base::{Bytes, CpuSet, JobId, Nanos, TaskId};
use engine::{Sink, TurnRecord};
use journal::{Header, SoFar};
use sched::{
    Action, Ask, Cause, Deed, End, ExitStatus, HandsOff, JobEvent, Measured, Outcome,
    OutcomeResult, Reason, Refusal, Target, TaskSample, Why,
};

use crate::model::{NoteWord, RefusedBy, Report, StateWord};
use loads::Series;
use timeline::{Sets, Timeline};

/// More moves than anybody reads; at 4 a second they reach back 17 minutes.
const N_MOVES_MAX: usize = 4096;
/// The same refusal again and again is one entry, so these are different ones.
const N_REFUSALS_MAX: usize = 1024;
/// Stretches of all timelines together, 24 bytes each.
const N_STRETCHES_MAX: usize = 64 * 1024;

/// Builds a report while a run goes on, or from its journal.
#[derive(Debug)]
pub struct ReportBuilder {
    header: Header,
    jobs: Vec<JobSoFar>,
    sets: Sets,
    series: Series,
    moves: VecDeque<Move>,
    refusals: VecDeque<Refused>,
    notes: Vec<Note>,
    /// Which job a task belongs to and where it ran last, for jobs that are bound to several
    /// CPUs or to none.
    seen_on: BTreeMap<TaskId, (JobId, Option<base::CpuId>)>,
    counts: Counts,
    usable: Option<CpuSet>,
    at: Nanos,
    n_parts_missing: u32,
}

#[derive(Debug, Default)]
struct Counts {
    turns: u64,
    moves: u64,
    refusals: u64,
    running: u64,
    running_max: u64,
}

/// What is known of a job while the run goes on.
#[derive(Debug)]
struct JobSoFar {
    state: StateWord,
    timeline: Timeline,
    placed: Option<CpuSet>,
    start_cpus: Option<CpuSet>,
    start_reason: Option<Reason>,
    started: Option<Nanos>,
    ended: Option<Nanos>,
    status: Option<ExitStatus>,
    error: Option<String>,
    hands_off: Option<HandsOff>,
    used: Option<Used>,
    n_starts: u64,
    n_moves: u64,
}

/// What a job used, all its starts together.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    wall: Nanos,
    user: Nanos,
    system: Nanos,
    wait: Option<u64>,
    n_migrations: Option<u64>,
    max_resident: Bytes,
    n_left_behind: u64,
}

#[derive(Debug)]
struct Move {
    at: Nanos,
    job: JobId,
    from: Option<CpuSet>,
    /// `None`: released.
    to: Option<CpuSet>,
    n_tasks: u32,
    reason: Option<Reason>,
}

#[derive(Debug)]
struct Refused {
    at: Nanos,
    last_at: Nanos,
    n: u64,
    target: Target,
    what: What,
    by: RefusedBy,
    why: Why,
    detail: String,
}

/// What was wanted, a start among it.
#[derive(Clone, Debug, PartialEq)]
enum What {
    Start,
    Do(Action),
}

#[derive(Debug)]
struct Note {
    at: Nanos,
    kind: NoteWord,
    reason: Option<Reason>,
    text: String,
}

impl ReportBuilder {
    /// Before the first turn.
    pub fn new(header: &Header) -> Self {
        let room = N_STRETCHES_MAX / header.jobs.len().max(1);
        let jobs = header.jobs.iter().map(|_| JobSoFar::new(room.clamp(16, 2000))).collect();
        ReportBuilder {
            header: header.clone(),
            jobs,
            sets: Sets::default(),
            series: Series::default(),
            moves: VecDeque::new(),
            refusals: VecDeque::new(),
            notes: Vec::new(),
            seen_on: BTreeMap::new(),
            counts: Counts::default(),
            usable: None,
            at: Nanos::ZERO,
            n_parts_missing: 0,
        }
    }

    /// Begins where the first part of a journal that is still there does.
    pub fn resume(&mut self, so_far: &SoFar, n_parts_missing: u32) {
        self.n_parts_missing = n_parts_missing;
        self.at = so_far.at;
        self.counts.turns = so_far.number + 1;
        self.series.begin_at(so_far.at);
        for (job, before) in self.jobs.iter_mut().zip(&so_far.jobs) {
            job.resume(before, &mut self.sets, so_far.at);
            self.counts.moves += u64::from(before.n_moves);
            self.counts.running += u64::from(job.state == StateWord::Running);
        }
        self.counts.running_max = self.counts.running;
        so_far.notes.iter().for_each(|note| self.say(NoteWord::Note, Some(note), String::new()));
        self.see_sample(&so_far.sample());
    }

    /// Adds a remark about the record itself: a torn line, say.
    pub fn remark(&mut self, text: String) {
        self.say(NoteWord::Record, None, text);
    }

    /// The report, once everything has been told.
    pub fn finish(&self, end: Option<&journal::RunEnd>) -> Report {
        finish::report(self, end)
    }

    /// Takes a turn in.
    pub fn observe(&mut self, record: &TurnRecord<'_>) {
        self.at = record.turn.at;
        self.counts.turns += 1;
        record.sample.jobs.iter().for_each(|event| self.see_event(event));
        self.see_sample(record.sample);
        if let Some(loads) = record.loads {
            self.series.add(self.at, loads);
        }
        let plan = record.plan;
        plan.notes.iter().for_each(|note| self.say(NoteWord::Note, Some(note), String::new()));
        if let Some(reason) = &plan.give_up {
            self.say(NoteWord::GaveUp, Some(reason), String::new());
        }
        record.refused.iter().for_each(|refusal| self.see_refusal(refusal));
        self.see_outcomes(record.outcomes, &plan.asks);
        if record.turn.causes.contains(&Cause::Interval) {
            self.see_where_unbound();
        }
    }

    fn see_event(&mut self, event: &JobEvent) {
        let at = self.at;
        match event {
            JobEvent::Due(_) => {}
            JobEvent::Ended(id, end) => {
                let Some(job) = self.jobs.get_mut(id.index()) else { return };
                self.counts.running -=
                    u64::from(job.state == StateWord::Running).min(self.counts.running);
                job.end(at, end);
                self.seen_on.retain(|_, (whose, _)| whose != id);
            }
            JobEvent::HandsOff(id, why) => {
                let Some(job) = self.jobs.get_mut(id.index()) else { return };
                job.hands_off = Some(why.clone());
                if let HandsOff::AffinityChanged(cpus) = why {
                    job.placed = None;
                    job.timeline.be(&mut self.sets, at, Some(cpus), false);
                }
            }
        }
    }

    fn see_sample(&mut self, sample: &sched::Sample) {
        for task in &sample.tasks {
            self.see_task(task);
        }
        for task in &sample.gone {
            self.seen_on.remove(task);
        }
        if self.usable.is_none() {
            self.usable = sample.usable.clone();
        }
        for text in &sample.degraded {
            self.say(NoteWord::Degraded, None, text.clone());
        }
    }

    fn see_task(&mut self, task: &TaskSample) {
        let Some(job) = self.jobs.get(task.job.index()) else { return };
        if job.placed.as_ref().is_none_or(|cpus| cpus.len() != 1) {
            self.seen_on.insert(task.task, (task.job, task.last_cpu));
        }
    }

    /// Jobs that may run on several CPUs were seen on some of them.
    fn see_where_unbound(&mut self) {
        let mut where_now: BTreeMap<JobId, CpuSet> = BTreeMap::new();
        for &(job, cpu) in self.seen_on.values() {
            where_now.entry(job).or_default().extend(cpu);
        }
        for (id, cpus) in where_now {
            let Some(job) = self.jobs.get_mut(id.index()) else { continue };
            if job.timeline.is_open() && !cpus.is_empty() {
                job.timeline.be(&mut self.sets, self.at, Some(&cpus), false);
            }
        }
    }

    fn see_outcomes(&mut self, outcomes: &[Outcome], asks: &[Ask]) {
        let mut asks_of: BTreeMap<Target, Vec<&Ask>> = BTreeMap::new();
        for ask in asks {
            asks_of.entry(ask.target).or_default().push(ask);
        }
        for outcome in outcomes {
            let wanted = What::of(&outcome.deed);
            let asked = asks_of.get(&outcome.target);
            let ask = asked
                .and_then(|list| list.iter().find(|ask| What::Do(ask.action.clone()) == wanted));
            self.see_outcome(outcome, wanted, ask.map(|ask| &ask.reason));
        }
    }

    fn see_outcome(&mut self, outcome: &Outcome, wanted: What, reason: Option<&Reason>) {
        if let OutcomeResult::Refused { why, detail } = &outcome.result {
            if let (Target::Job(id), Deed::Start) = (outcome.target, &outcome.deed) {
                self.cannot_start(id, detail);
            }
            self.refuse(outcome.target, wanted, RefusedBy::Kernel, *why, detail);
            return;
        }
        let (Target::Job(id), OutcomeResult::Done { n }) = (outcome.target, &outcome.result) else {
            return;
        };
        match &outcome.deed {
            Deed::Start => self.started(id),
            Deed::Place(cpus) => self.placed(id, Some(cpus), *n, reason),
            Deed::Release => self.placed(id, None, *n, reason),
            Deed::MemoryPolicy(_) => {}
        }
    }

    fn started(&mut self, id: JobId) {
        let at = self.at;
        let Some(job) = self.jobs.get_mut(id.index()) else { return };
        job.state = StateWord::Running;
        job.started.get_or_insert(at);
        job.n_starts += 1;
        // Its placement may have been told before its start, or comes after it.
        let placed = job.placed.clone();
        job.timeline.be(&mut self.sets, at, placed.as_ref(), placed.is_some());
        self.counts.running += 1;
        self.counts.running_max = self.counts.running_max.max(self.counts.running);
    }

    fn cannot_start(&mut self, id: JobId, detail: &str) {
        let Some(job) = self.jobs.get_mut(id.index()) else { return };
        job.state = StateWord::NotStarted;
        job.error = Some(detail.to_owned());
    }

    fn placed(&mut self, id: JobId, cpus: Option<&CpuSet>, n_tasks: u32, reason: Option<&Reason>) {
        let at = self.at;
        let Some(job) = self.jobs.get_mut(id.index()) else { return };
        let starts = !job.timeline.is_open() || job.timeline.just_began(at);
        let from = std::mem::replace(&mut job.placed, cpus.cloned());
        if job.timeline.is_open() {
            job.timeline.be(&mut self.sets, at, cpus, cpus.is_some());
        }
        if cpus.is_some_and(|cpus| cpus.len() == 1) {
            self.seen_on.retain(|_, (whose, _)| *whose != id);
        }
        if starts {
            job.start_cpus = cpus.cloned();
            job.start_reason = reason.cloned();
            return;
        }
        job.n_moves += u64::from(cpus.is_some());
        self.counts.moves += u64::from(cpus.is_some());
        let to = cpus.cloned();
        let moved = Move { at, job: id, from, to, n_tasks, reason: reason.cloned() };
        push_bounded(&mut self.moves, moved, N_MOVES_MAX);
    }

    fn see_refusal(&mut self, refusal: &Refusal) {
        let wanted = What::Do(refusal.ask.action.clone());
        self.refuse(refusal.ask.target, wanted, RefusedBy::Guard, refusal.why, &refusal.detail);
    }

    fn refuse(&mut self, target: Target, what: What, by: RefusedBy, why: Why, detail: &str) {
        self.counts.refusals += 1;
        let again = self.refusals.iter_mut().rev().take(8).find(|known| {
            (known.target, known.by, known.why) == (target, by, why)
                && known.what == what
                && known.detail == detail
        });
        if let Some(known) = again {
            (known.last_at, known.n) = (self.at, known.n + 1);
            return;
        }
        let (at, last_at, detail) = (self.at, self.at, detail.to_owned());
        let refused = Refused { at, last_at, n: 1, target, what, by, why, detail };
        push_bounded(&mut self.refusals, refused, N_REFUSALS_MAX);
    }

    fn say(&mut self, kind: NoteWord, reason: Option<&Reason>, text: String) {
        let text = reason.map_or(text, Reason::to_string);
        self.notes.push(Note { at: self.at, kind, reason: reason.cloned(), text });
    }
}

impl Sink for ReportBuilder {
    fn turn(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.observe(record);
        Ok(())
    }
}

impl JobSoFar {
    fn new(room: usize) -> Self {
        JobSoFar {
            state: StateWord::Waiting,
            timeline: Timeline::new(room),
            placed: None,
            start_cpus: None,
            start_reason: None,
            started: None,
            ended: None,
            status: None,
            error: None,
            hands_off: None,
            used: None,
            n_starts: 0,
            n_moves: 0,
        }
    }

    fn resume(&mut self, before: &journal::JobSoFar, sets: &mut Sets, at: Nanos) {
        self.started = before.started;
        (self.n_starts, self.n_moves) = (u64::from(before.n_starts), u64::from(before.n_moves));
        self.placed = before.placed.clone();
        self.hands_off = before.hands_off.clone();
        if let Some((_, text)) = &before.cannot_start {
            self.error = Some(text.clone());
        }
        if let Some((ended, end)) = &before.ended {
            self.end(*ended, end);
        }
        self.state = match before.state {
            journal::LifeState::Waiting => StateWord::Waiting,
            journal::LifeState::Running => StateWord::Running,
            journal::LifeState::Ended => self.state,
            journal::LifeState::NotStarted => StateWord::NotStarted,
        };
        if self.state == StateWord::Running {
            let from = before.started.unwrap_or(at);
            self.timeline.be(sets, from, before.placed.as_ref(), before.placed.is_some());
            (self.start_cpus, self.start_reason) = (before.placed.clone(), before.reason.clone());
        }
    }

    fn end(&mut self, at: Nanos, end: &End) {
        self.ended = Some(at);
        self.status = Some(end.status);
        self.state = match end.status {
            _ if end.by_us => StateWord::Stopped,
            ExitStatus::Exited(0) => StateWord::Done,
            _ => StateWord::Failed,
        };
        self.placed = None;
        self.timeline.end(at);
        self.used.get_or_insert_default().add(end);
    }
}

impl Used {
    fn add(&mut self, end: &End) {
        self.wall = self.wall.saturating_add(end.wall);
        self.user = self.user.saturating_add(end.user);
        self.system = self.system.saturating_add(end.system);
        self.wait = plus(self.wait, end.wait);
        self.n_migrations = plus(self.n_migrations, end.n_migrations);
        self.max_resident = self.max_resident.max(end.max_resident);
        self.n_left_behind += u64::from(end.n_left_behind);
    }
}

/// A sum of which something is known.
fn plus(sum: Option<u64>, more: Measured) -> Option<u64> {
    match (sum, more.value()) {
        (sum, None) => sum,
        (sum, Some(more)) => Some(sum.unwrap_or(0).saturating_add(more)),
    }
}

impl What {
    fn of(deed: &Deed) -> Self {
        match deed {
            Deed::Start => What::Start,
            Deed::Place(cpus) => What::Do(Action::Place(cpus.clone())),
            Deed::MemoryPolicy(policy) => What::Do(Action::MemoryPolicy(policy.clone())),
            Deed::Release => What::Do(Action::Release),
        }
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, entry: T, limit: usize) {
    if list.len() == limit {
        list.pop_front();
    }
    list.push_back(entry);
}
