//! A policy around a policy: lets moves through a few at a time, measures whether they help, and does
//! nothing for a while when they do not.
//!
//! ```text
//!   measure ──► moves of the policy within ──► settle ──► measure again ──► better: go on
//!      ▲         (a few, for some intervals)                             └► not: once more
//!      │                                                                 └► worse, or not better
//!      └───────────── rest, twice as long each time ◄── put everything back ◄── three times
//! ```
//!
//! It is for programs that nobody asked us to run: their owner is owed that it helps. What can tell is
//! in [`judge`], and of whom in [`figures`]. While memory is on its way nothing is measured: that is the
//! price of a move and not what it is good for. Memory that goes after a job that was moved is part of
//! the same trial. A trial of which nothing can be told, because all that were moved have ended or
//! nothing is measured here, counts as one that changed nothing. Where nothing may be changed, wishes
//! are only said, each job's once a minute.
//!
//! Times are intervals of the policy within.

mod figures;
mod judge;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{JobId, Nanos};
use sched::{
    Action, Cause, JobState, LoadSource, Plan, Policy, Reason, ReasonCode, Request, Snapshot,
    Target,
};
use topology::DomainChoice;

use figures::{Company, Interval, Life};
use judge::{Compared, Verdict};
use words::Words;

/// So many intervals are measured before moves and after. Guessed: enough for a median.
const N_MEASURED: usize = 8;
/// Moves of one trial are let through for so many intervals …
const N_MOVING: u64 = 4;
/// … and not more than so many of them.
const MOVES_MAX: u64 = 8;
/// What happens in the interval after moves is their price, not their effect.
const N_SETTLING: u64 = 1;
/// After so many trials that changed nothing everything is put back.
const TRIES_MAX: u64 = 3;
/// The first rest, and the longest.
const REST_FIRST: Nanos = Nanos::from_secs(60);
const REST_MAX: Nanos = Nanos::from_secs(3600);
/// Where wishes are only said: each job's so often at the most.
const SAY_EVERY: Nanos = Nanos::from_secs(60);

/// A policy with a judge.
pub(crate) struct Careful {
    within: Box<dyn Policy>,
    words: Words,
    acts: bool,
    /// What the last intervals came to, the newest last.
    intervals: VecDeque<Interval>,
    phase: Phase,
    n_tries: u64,
    n_setbacks: u32,
    /// When a wish was last said.
    said_at: BTreeMap<(JobId, Kind), Nanos>,
}

/// What a wish is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Place,
    Memory,
}

/// Where a trial is.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// Measured before moves, as far as there are figures.
    Ready,
    /// Moves are let through.
    Moving(Trial),
    /// Moves have been made; measured after them.
    After(Trial),
    /// Nothing is moved until then.
    Resting { until: Nanos },
}

/// A few moves that are judged together.
#[derive(Clone, Debug, Default, PartialEq)]
struct Trial {
    before: Vec<Interval>,
    n_moves: u64,
    /// Intervals of this phase so far.
    n_intervals: u64,
    /// Who was moved, and whose memory was told to go.
    moved: BTreeSet<(Life, Kind)>,
}

/// How a trial ended.
enum End {
    Judged(Compared, Company),
    /// Nothing can be told.
    Untold,
}

impl Trial {
    /// Whether anybody who was moved is still there.
    fn is_of(&self, seen: &Snapshot<'_>) -> bool {
        self.moved.is_empty() || self.moved.iter().any(|(life, _)| figures::lives(seen, *life))
    }

    fn note(&mut self, wish: (Life, Kind)) {
        self.n_moves += 1;
        self.moved.insert(wish);
    }

    /// Whether a wish is for the memory of a job that this trial moved, and the first such.
    fn is_followed_by(&self, (life, kind): (Life, Kind)) -> bool {
        kind == Kind::Memory
            && self.moved.contains(&(life, Kind::Place))
            && !self.moved.contains(&(life, Kind::Memory))
    }
}

impl Careful {
    pub(crate) fn new(within: Box<dyn Policy>, acts: bool) -> Self {
        Careful {
            within,
            words: Words::default(),
            acts,
            intervals: VecDeque::new(),
            phase: Phase::Ready,
            n_tries: 0,
            n_setbacks: 0,
            said_at: BTreeMap::new(),
        }
    }

    /// Takes an interval in; tells how a trial ended when it did, with its moves.
    fn measure(&mut self, seen: &Snapshot<'_>) -> Option<(End, u64)> {
        if let Phase::Moving(trial) | Phase::After(trial) = &self.phase
            && !trial.is_of(seen)
        {
            let n_moves = trial.n_moves;
            self.phase = Phase::Ready;
            self.intervals.clear();
            return Some((End::Untold, n_moves));
        }
        if seen.jobs.iter().any(|job| job.active_page_move.is_some()) {
            self.settle_again(); // Moving memory is a price too, and goes on for longer than an interval.
            return None;
        }
        self.intervals.push_back(Interval::of(seen));
        if N_MEASURED < self.intervals.len() {
            self.intervals.pop_front();
        }
        self.go_on()
    }

    /// What was measured since the moves is not what it will be.
    fn settle_again(&mut self) {
        self.intervals.clear();
        if let Phase::After(trial) = &mut self.phase {
            trial.n_intervals = 0;
        }
    }

    fn go_on(&mut self) -> Option<(End, u64)> {
        match &mut self.phase {
            Phase::Ready | Phase::Resting { .. } => None,
            Phase::Moving(trial) => {
                trial.n_intervals += 1;
                if N_MOVING <= trial.n_intervals || MOVES_MAX <= trial.n_moves {
                    let trial = std::mem::take(trial);
                    self.phase = Phase::After(Trial { n_intervals: 0, ..trial });
                }
                None
            }
            Phase::After(trial) => {
                trial.n_intervals += 1;
                if trial.n_intervals == N_SETTLING {
                    self.intervals.clear();
                }
                if self.intervals.len() < N_MEASURED {
                    return None;
                }
                let after = self.intervals.make_contiguous();
                let end = match figures::compare(&trial.before, after) {
                    Some((compared, company)) => End::Judged(compared, company),
                    None => End::Untold,
                };
                let n_moves = trial.n_moves;
                self.phase = Phase::Ready; // What was after is before the next.
                Some((end, n_moves))
            }
        }
    }

    fn judge(&mut self, seen: &Snapshot<'_>, plan: &mut Plan, end: &End, n_moves: u64) {
        let verdict = match end {
            End::Judged(compared, _) => compared.verdict,
            End::Untold => Verdict::Inconclusive,
        };
        match verdict {
            Verdict::Better => {
                (self.n_tries, self.n_setbacks) = (0, 0);
                plan.note(told(ReasonCode::JudgedBetter, end, n_moves));
            }
            Verdict::Worse => {
                self.put_back(seen, plan, told(ReasonCode::JudgedWorse, end, n_moves))
            }
            Verdict::Inconclusive => {
                self.n_tries += 1;
                if TRIES_MAX <= self.n_tries {
                    let reason = told(ReasonCode::JudgedNoBetter, end, n_moves);
                    self.put_back(seen, plan, reason.with("n_tries", self.n_tries));
                } else if matches!(end, End::Untold) {
                    let reason = told(ReasonCode::NotJudged, end, n_moves);
                    plan.note(reason.with("n_tries", self.n_tries).with("n_max", TRIES_MAX));
                }
            }
        }
    }

    fn put_back(&mut self, seen: &Snapshot<'_>, plan: &mut Plan, reason: Reason) {
        let rest = Nanos(REST_FIRST.0.saturating_mul(1 << self.n_setbacks.min(16))).min(REST_MAX);
        self.n_setbacks += 1;
        self.n_tries = 0;
        self.phase = Phase::Resting { until: seen.turn.at + rest };
        let reason = reason.with("rest", rest.to_string());
        for job in seen.jobs.iter().filter(|job| job.placed.is_some() && job.movable) {
            plan.request(job.job.id, Action::Release, reason.clone());
        }
        plan.note(reason);
    }

    fn wake(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if let Phase::Resting { until } = self.phase
            && until <= seen.turn.at
        {
            self.phase = Phase::Ready;
            self.intervals.clear();
            plan.note(Reason::new(ReasonCode::TriesAgain).with("at", seen.turn.at.to_string()));
        }
    }

    /// Which wishes of the policy within come through now.
    fn let_through(&mut self, seen: &Snapshot<'_>, asks: Vec<Request>, plan: &mut Plan) {
        let (starts, asks): (Vec<Request>, Vec<Request>) =
            asks.into_iter().partition(|ask| is_start(seen, ask));
        plan.requests.extend(starts); // They have to begin somewhere.
        if asks.is_empty() {
            return;
        }
        if self.phase == Phase::Ready && self.intervals.len() == N_MEASURED {
            let before = self.intervals.iter().cloned().collect();
            self.phase = Phase::Moving(Trial { before, ..Trial::default() });
        }
        for ask in asks {
            // What is given back harms nobody.
            if ask.action == Action::Release || self.is_let_through(seen, &ask) {
                plan.requests.push(ask);
            }
        }
    }

    fn is_let_through(&mut self, seen: &Snapshot<'_>, ask: &Request) -> bool {
        let Some(wish) = wish_of(seen, ask) else { return false };
        match &mut self.phase {
            Phase::Moving(trial) if trial.n_moves < MOVES_MAX || trial.is_followed_by(wish) => {
                trial.note(wish);
                true
            }
            Phase::After(trial) if trial.is_followed_by(wish) => {
                trial.note(wish);
                self.settle_again();
                true
            }
            _ => false,
        }
    }

    /// Wishes that are only said, those for a job's place and for its memory now and then each.
    fn say_only(&mut self, seen: &Snapshot<'_>, asks: Vec<Request>, plan: &mut Plan) {
        self.said_at.retain(|(job, _), _| seen.job(*job).is_some());
        for ask in asks {
            let Some(((job, _), kind)) = wish_of(seen, &ask) else { continue };
            let wish = (job, kind); // It is the same wish before its start and after.
            let last = self.said_at.get(&wish);
            if last.is_none_or(|&at| at + SAY_EVERY <= seen.turn.at) {
                self.said_at.insert(wish, seen.turn.at);
                plan.requests.push(ask);
            }
        }
    }
}

impl Policy for Careful {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let mut wishes = Plan::default();
        self.within.decide(seen, &mut wishes);
        self.words.pass_on(seen, wishes.notes, plan);
        plan.abort = wishes.abort;
        if !self.acts {
            return self.say_only(seen, wishes.requests, plan);
        }
        if seen.turn.causes.contains(&Cause::Interval) {
            self.wake(seen, plan);
            if let Some((end, n_moves)) = self.measure(seen) {
                self.judge(seen, plan, &end, n_moves);
            }
        }
        self.let_through(seen, wishes.requests, plan);
    }

    fn name(&self) -> &str {
        self.within.name()
    }

    fn interval(&self) -> Option<Nanos> {
        self.within.interval()
    }

    fn domains(&self) -> DomainChoice {
        self.within.domains()
    }

    fn load_source(&self) -> LoadSource {
        self.within.load_source()
    }
}

fn is_start(seen: &Snapshot<'_>, ask: &Request) -> bool {
    let Target::Job(job) = ask.target else { return false };
    seen.job(job).is_some_and(|job| job.state == JobState::Due)
}

/// Whose wish it is, and what for; `None` when nobody knows the job or task any more.
fn wish_of(seen: &Snapshot<'_>, ask: &Request) -> Option<(Life, Kind)> {
    let job = match ask.target {
        Target::Job(job) => job,
        Target::Task(task) => seen.tasks.iter().find(|seen| seen.task == task)?.job,
    };
    let kind = match ask.action {
        Action::MovePages { .. } => Kind::Memory,
        _ => Kind::Place,
    };
    Some((figures::life(seen.job(job)?), kind))
}

fn told(code: ReasonCode, end: &End, n_moves: u64) -> Reason {
    let reason = Reason::new(code).with("n_moves", n_moves);
    let End::Judged(compared, company) = end else { return reason };
    let reason = reason
        .with("measure", compared.measure.to_string())
        .with("before", compared.before)
        .with("after", compared.after)
        .with("tolerance", compared.tolerance);
    match company {
        Company { n_left: 0, n_came: 0, .. } => reason,
        Company { n_left, n_came, .. } => {
            reason.with("others", format!("{n_left} ended meanwhile, {n_came} came"))
        }
    }
}

#[cfg(test)]
mod tests;
