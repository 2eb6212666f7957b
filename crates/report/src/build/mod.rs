//! From turns to a report, in bounded memory.
//!
//! Everything is kept as values of `base` and `sched` while the run goes on; sentences and labels are
//! made at the end. Moves and refusals are kept up to a limit, the last ones win; timelines and load
//! curves get coarser instead of longer. A turn in which nothing happened costs next to nothing.

mod acts;
mod finish;
mod loads;
mod signals;
mod timeline;
mod track;
mod unbound;

use std::io;

use base::{CpuSet, JobId, Nanos};
use engine::{LoadBasis, Sink, TurnRecord};
use journal::{Header, JobHistory, JobRecord, LifeState, SoFar, What};
use sched::{Action, Cause, Reason, RejectCause, Rejection, Request, Target, UnmanagedCause};

use crate::eras::Eras;
use crate::model::{MoveWord, NoteWord, RefusedBy, Report};
use acts::{Acts, Move, Refused, Wanted};
use loads::Curves;
use signals::Signals;
use timeline::Sets;
use track::{Start, Track, Wish};
use unbound::Unbound;

/// Stretches of all timelines together, 24 bytes each.
const N_STRETCHES_MAX: usize = 64 * 1024;
/// Stretches of a job that nobody knew of at the beginning. A thousand may be there at once.
const N_STRETCHES_APPEARED: usize = 64;

/// Builds a report while a run goes on, or from its journal.
#[derive(Debug)]
pub struct ReportBuilder {
    header: Header,
    lives: JobHistory,
    tracks: Vec<Track>,
    sets: Sets,
    curves: Curves,
    acts: Acts,
    unbound: Unbound,
    eras: Eras,
    footing: Option<LoadBasis>,
    signals: Signals,
    counts: Counts,
    at: Nanos,
    n_parts_missing: u32,
}

#[derive(Debug, Default)]
struct Counts {
    turns: u64,
    moves: u64,
    running_max: u64,
    /// Wishes for CPUs, met or not: without any, nothing stands on the footing of the loads.
    placements: u64,
}

impl ReportBuilder {
    /// Before the first turn.
    pub fn new(header: &Header) -> Self {
        let room = (N_STRETCHES_MAX / header.jobs.len().max(1)).clamp(16, 2000);
        ReportBuilder {
            header: header.clone(),
            lives: JobHistory::new(header),
            tracks: header.jobs.iter().map(|_| Track::new(room)).collect(),
            sets: Sets::default(),
            curves: Curves::default(),
            acts: Acts::default(),
            unbound: Unbound::default(),
            eras: Eras::new(&header.machine),
            footing: None,
            signals: Signals::default(),
            counts: Counts::default(),
            at: Nanos::ZERO,
            n_parts_missing: 0,
        }
    }

    /// Begins where the first part of a journal that is still there does.
    pub fn resume(&mut self, so_far: &SoFar, n_parts_missing: u32) {
        self.n_parts_missing = n_parts_missing;
        self.at = so_far.at;
        self.footing = so_far.footing;
        self.signals.see(so_far.signals.as_ref());
        self.counts.turns = so_far.number + 1;
        self.curves.begin_at(so_far.at);
        let sample = so_far.sample();
        self.eras.set(so_far.footing.map(|footing| footing.level), sample.usable_cpus.as_ref());
        self.lives = so_far.lives.clone();
        for idx in 0..self.tracks.len().min(self.lives.jobs().len()) {
            self.resume_job(idx);
        }
        self.counts.running_max = self.lives.n_running();
        for note in &so_far.notes {
            self.acts.say_reason(self.at, NoteWord::Note, note);
        }
        self.see_sample(&sample);
    }

    fn resume_job(&mut self, idx: usize) {
        let (track, before) = (&mut self.tracks[idx], &self.lives.jobs()[idx]);
        self.counts.moves += u64::from(before.n_moves);
        track.started = before.started;
        track.hands_off = before.hands_off.clone();
        if let Some((at, end)) = &before.ended {
            track.end(*at, end);
        }
        if before.state == LifeState::Running {
            let from = before.started.unwrap_or(self.at);
            let is_foreign = matches!(before.hands_off, Some(UnmanagedCause::AffinityChanged(_)));
            let is_ours = before.placed.is_some() && !is_foreign;
            track.timeline.be(&mut self.sets, from, before.placed.as_ref(), is_ours);
            let action = before.placed.clone().map(Action::Place);
            let wish = action.zip(before.reason.clone());
            let wish = wish.map(|(action, reason)| Wish { action, reason });
            track.start = Start { cpus: before.placed.clone(), wish };
        }
    }

    /// Adds a remark about the record itself: a torn line, say.
    pub fn remark(&mut self, text: String) {
        self.acts.say(self.at, NoteWord::Record, text);
    }

    /// The report, once everything has been told.
    pub fn finish(&self, end: Option<&journal::RunEnd>) -> Report {
        finish::report(self, end)
    }

    /// Takes a turn in.
    pub fn observe(&mut self, record: &TurnRecord<'_>) {
        self.at = record.turn.at;
        self.counts.turns += 1;
        self.eras.see(record);
        self.footing = record.current_load_basis().or(self.footing);
        self.signals.see(record.signals.as_ref());
        self.header.take_in(record.sample);
        for happened in self.lives.events(record) {
            self.see(&happened);
        }
        self.see_sample(record.sample);
        if let Some(loads) = record.loads {
            self.curves.add(self.at, loads, self.eras.now());
        }
        self.see_plan(record);
        for happened in self.lives.deeds(record) {
            self.see(&happened);
        }
        self.counts.running_max = self.counts.running_max.max(self.lives.n_running());
        if record.turn.causes.contains(&Cause::Interval) {
            self.see_where_unbound();
        }
    }

    fn see_sample(&mut self, sample: &sched::Sample) {
        for task in &sample.tasks {
            let job = self.lives.job(task.job);
            let is_single = |cpus: &CpuSet| cpus.len() == 1;
            let runs = job.filter(|job| job.state == LifeState::Running);
            if runs.is_some_and(|job| !job.placed.as_ref().is_some_and(is_single)) {
                self.unbound.see(task.job, task.task, task.last_cpu);
            }
        }
        for memory in &sample.memory {
            if let Some(track) = self.tracks.get_mut(memory.job.index()) {
                track.memory(memory);
            }
        }
        for &task in &sample.exited {
            self.tracks.iter_mut().for_each(|track| track.process_gone(task));
            self.unbound.gone(task);
        }
        for text in &sample.degraded {
            self.acts.say(self.at, NoteWord::Degraded, text.clone());
        }
    }

    fn see_plan(&mut self, record: &TurnRecord<'_>) {
        let (at, plan) = (self.at, record.plan);
        let is_place = |ask: &&Request| matches!(ask.action, Action::Place(_));
        self.counts.placements += plan.requests.iter().filter(is_place).count() as u64;
        for note in &plan.notes {
            self.acts.say_reason(at, NoteWord::Note, note);
        }
        if let Some(reason) = &plan.abort {
            self.acts.say_reason(at, NoteWord::GaveUp, reason);
        }
        for Rejection { request: ask, cause: why, detail } in record.rejected {
            let what = Wanted::Do(ask.action.clone());
            self.refuse(ask.target, what, (RefusedBy::Guard, *why, detail));
        }
    }

    fn see(&mut self, happened: &JobRecord<'_>) {
        let (wish, at) = (happened.wish, self.at);
        if let What::Refused(deed, why, detail) = happened.what {
            let refused = (RefusedBy::Kernel, why, detail);
            return self.refuse(happened.target, Wanted::Do(deed.clone()), refused);
        }
        let Target::Job(id) = happened.target else { return };
        match &happened.what {
            What::Ended(end) => {
                self.unbound.forget(id);
                self.tracks[id.index()].end(at, end);
            }
            What::HandsOff(why) => self.left_alone(id, why),
            What::Appeared(_) => self.appeared(id),
            What::Left(_, counted) => {
                self.unbound.forget(id);
                self.tracks[id.index()].leave(at, counted);
            }
            What::Started(cpus) => self.started(id, *cpus, wish),
            What::NotStarted(why, detail) => {
                self.refuse(happened.target, Wanted::Start, (RefusedBy::Kernel, *why, detail));
            }
            What::Moved { from, to, n_tasks } => {
                self.counts.moves += 1;
                self.is_at(id, Some(to));
                self.moved(id, (from.as_ref(), Some(to)), *n_tasks, wish);
            }
            What::Released { from, n_tasks } => {
                self.is_at(id, None);
                self.moved(id, (from.as_ref(), None), *n_tasks, wish);
            }
            What::Kept(cpus) => {
                self.is_at(id, Some(cpus));
                self.wished(id, Some(cpus), wish);
            }
            What::OnlyWished(from) => self.wished(id, from.as_ref(), wish),
            What::Memory(_) | What::PagesBegun(_) | What::PagesMoved(_) | What::Refused(..) => {}
        }
    }

    /// A job that ran already. One that had its number before it is told of no longer.
    fn appeared(&mut self, id: JobId) {
        let mut track = Track::new(N_STRETCHES_APPEARED);
        track.started = Some(self.at);
        track.timeline.be(&mut self.sets, self.at, None, false);
        match self.tracks.get_mut(id.index()) {
            Some(before) => *before = track,
            None => self.tracks.push(track),
        }
        self.unbound.forget(id);
    }

    fn left_alone(&mut self, id: JobId, why: &UnmanagedCause) {
        let track = &mut self.tracks[id.index()];
        track.hands_off = Some(why.clone());
        if let UnmanagedCause::AffinityChanged(cpus) = why {
            track.timeline.be(&mut self.sets, self.at, Some(cpus), false);
            self.unbound.look_again(id);
        }
    }

    fn started(&mut self, id: JobId, cpus: Option<&CpuSet>, wish: Option<&Request>) {
        let track = &mut self.tracks[id.index()];
        track.started.get_or_insert(self.at);
        track.timeline.be(&mut self.sets, self.at, cpus, cpus.is_some());
        track.start = Start { cpus: cpus.cloned(), wish: wish.map(Wish::from) };
    }

    /// It is bound there now, or nowhere.
    fn is_at(&mut self, id: JobId, cpus: Option<&CpuSet>) {
        let track = &mut self.tracks[id.index()];
        if track.timeline.is_open() {
            track.timeline.be(&mut self.sets, self.at, cpus, cpus.is_some());
        }
        match cpus {
            Some(cpus) if cpus.len() == 1 => self.unbound.forget(id),
            _ => self.unbound.look_again(id),
        }
    }

    /// The list of a replay holds its wishes; what was done stands in the recorded run's.
    fn moved(
        &mut self,
        id: JobId,
        (from, to): (Option<&CpuSet>, Option<&CpuSet>),
        n_tasks: u32,
        wish: Option<&Request>,
    ) {
        if self.lives.is_replay() {
            return self.wished(id, from, wish);
        }
        let what = if to.is_some() { MoveWord::Move } else { MoveWord::Release };
        let mut moved = self.act(id, what, (from, to), wish);
        moved.n_tasks = n_tasks;
        self.acts.moved(moved);
    }

    fn wished(&mut self, id: JobId, from: Option<&CpuSet>, wish: Option<&Request>) {
        let Some(ask) = wish.filter(|_| self.lives.is_replay()) else { return };
        let (what, to) = match &ask.action {
            Action::Place(cpus) => (MoveWord::WouldMove, Some(cpus)),
            Action::Release => (MoveWord::WouldRelease, None),
            Action::MemoryPolicy(_) | Action::MovePages { .. } => return,
        };
        let wished = self.act(id, what, (from, to), wish);
        self.acts.wished(wished);
    }

    fn act(
        &self,
        job: JobId,
        what: MoveWord,
        (from, to): (Option<&CpuSet>, Option<&CpuSet>),
        wish: Option<&Request>,
    ) -> Move {
        let (at, last_at, era) = (self.at, self.at, self.eras.now());
        let (from, to, wish) = (from.cloned(), to.cloned(), wish.map(Wish::from));
        Move { at, last_at, n: 1, job, what, from, to, n_tasks: 0, wish, era }
    }

    fn refuse(
        &mut self,
        target: Target,
        what: Wanted,
        (by, why, detail): (RefusedBy, RejectCause, &str),
    ) {
        let (at, last_at, era, detail) = (self.at, self.at, self.eras.now(), detail.to_owned());
        self.acts.refused(Refused { at, last_at, n: 1, target, what, by, why, detail, era });
    }

    /// Jobs that may run on several CPUs were seen on some of them.
    fn see_where_unbound(&mut self) {
        for (id, cpus) in self.unbound.news() {
            let Some(track) = self.tracks.get_mut(id.index()) else { continue };
            if track.timeline.is_open() {
                track.timeline.be(&mut self.sets, self.at, Some(&cpus), false);
            }
        }
    }
}

impl Sink for ReportBuilder {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.observe(record);
        Ok(())
    }
}

/// The code of a reason, as in journals.
fn code(reason: &Reason) -> String {
    reason.code.name().to_owned()
}
