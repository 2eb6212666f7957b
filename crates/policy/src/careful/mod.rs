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
//! in [`judge`]. While memory is on its way nothing is measured: that is the price of a move and not what
//! it is good for. When jobs come or go in the middle nothing can be compared, and a trial ends without
//! a verdict. Where nothing may be changed, wishes are only said, each job's once a minute.
//!
//! Times are intervals of the policy within.

mod judge;

use std::collections::{BTreeMap, VecDeque};

use base::{JobId, Nanos};
use sched::{
    Action, Ask, Cause, Code, JobState, LoadSource, Plan, Policy, Quantity, Reason, SignalTier,
    Snapshot, Target,
};
use topology::DomainChoice;

use judge::{Compared, Measure, Verdict};

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
    acts: bool,
    /// Figures of the last intervals, the newest last.
    figures: VecDeque<Figures>,
    /// The jobs that they are figures of.
    jobs: Vec<JobId>,
    phase: Phase,
    n_tries: u64,
    n_setbacks: u32,
    /// When a wish was last said, of the place of each job and of its memory.
    said_at: BTreeMap<(JobId, bool), Nanos>,
}

/// Where a trial is.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// Measured before moves, as far as there are figures.
    Ready,
    /// Moves are let through.
    Moving { before: Vec<Figures>, n_moves: u64, n_intervals: u64 },
    /// Moves have been made; measured after them.
    After { before: Vec<Figures>, n_moves: u64, n_intervals: u64 },
    /// Nothing is moved until then.
    Resting { until: Nanos },
}

/// What one interval came to, measure by measure.
type Figures = [Option<f64>; Measure::ALL.len()];

impl Careful {
    pub(crate) fn new(within: Box<dyn Policy>, acts: bool) -> Self {
        Careful {
            within,
            acts,
            figures: VecDeque::new(),
            jobs: Vec::new(),
            phase: Phase::Ready,
            n_tries: 0,
            n_setbacks: 0,
            said_at: BTreeMap::new(),
        }
    }

    /// Takes an interval in; tells a verdict when a trial is over.
    fn measure(&mut self, seen: &Snapshot<'_>) -> Option<(Compared, u64)> {
        let jobs: Vec<JobId> = seen.jobs.iter().map(|job| job.job.id).collect();
        if jobs != self.jobs {
            self.jobs = jobs;
            self.begin_anew();
            return None; // This interval was part theirs.
        }
        if seen.jobs.iter().any(|job| job.moving.is_some()) {
            // Moving memory is a price too, and goes on for longer than an interval.
            self.figures.clear();
            if let Phase::After { n_intervals, .. } = &mut self.phase {
                *n_intervals = 0;
            }
            return None;
        }
        self.figures.push_back(figures(seen));
        if N_MEASURED < self.figures.len() {
            self.figures.pop_front();
        }
        self.go_on()
    }

    /// Others run than before: nothing can be compared with what was measured.
    fn begin_anew(&mut self) {
        self.figures.clear();
        if !matches!(self.phase, Phase::Resting { .. }) {
            self.phase = Phase::Ready;
        }
    }

    fn go_on(&mut self) -> Option<(Compared, u64)> {
        match &mut self.phase {
            Phase::Ready | Phase::Resting { .. } => None,
            Phase::Moving { before, n_moves, n_intervals } => {
                *n_intervals += 1;
                if N_MOVING <= *n_intervals || MOVES_MAX <= *n_moves {
                    let (before, n_moves) = (std::mem::take(before), *n_moves);
                    self.phase = Phase::After { before, n_moves, n_intervals: 0 };
                }
                None
            }
            Phase::After { before, n_moves, n_intervals } => {
                *n_intervals += 1;
                if *n_intervals == N_SETTLING {
                    self.figures.clear();
                }
                if self.figures.len() < N_MEASURED {
                    return None;
                }
                let compared = compare(before, self.figures.make_contiguous());
                let n_moves = *n_moves;
                self.phase = Phase::Ready; // What was after is before the next.
                compared.map(|compared| (compared, n_moves))
            }
        }
    }

    fn judge(&mut self, seen: &Snapshot<'_>, plan: &mut Plan, compared: Compared, n_moves: u64) {
        match compared.verdict {
            Verdict::Better => {
                (self.n_tries, self.n_setbacks) = (0, 0);
                plan.say(told(Code::JudgedBetter, &compared, n_moves));
            }
            Verdict::Worse => {
                let reason = told(Code::JudgedWorse, &compared, n_moves);
                self.put_back(seen, plan, reason);
            }
            Verdict::Inconclusive => {
                self.n_tries += 1;
                if TRIES_MAX <= self.n_tries {
                    let reason = told(Code::JudgedNoBetter, &compared, n_moves);
                    self.put_back(seen, plan, reason.with("n_tries", self.n_tries));
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
            plan.ask(job.job.id, Action::Release, reason.clone());
        }
        plan.say(reason);
    }

    fn wake(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        if let Phase::Resting { until } = self.phase
            && until <= seen.turn.at
        {
            self.phase = Phase::Ready;
            self.figures.clear();
            plan.say(Reason::new(Code::TriesAgain).with("at", seen.turn.at.to_string()));
        }
    }

    /// Which wishes of the policy within come through now.
    fn let_through(&mut self, seen: &Snapshot<'_>, asks: Vec<Ask>, plan: &mut Plan) {
        let (starts, asks): (Vec<Ask>, Vec<Ask>) =
            asks.into_iter().partition(|ask| is_start(seen, ask));
        plan.asks.extend(starts); // They have to begin somewhere.
        if asks.is_empty() {
            return;
        }
        if self.phase == Phase::Ready && self.figures.len() == N_MEASURED {
            let before = self.figures.iter().copied().collect();
            self.phase = Phase::Moving { before, n_moves: 0, n_intervals: 0 };
        }
        for ask in asks {
            match &mut self.phase {
                // What is given back harms nobody.
                _ if ask.action == Action::Release => plan.asks.push(ask),
                Phase::Moving { n_moves, .. } if *n_moves < MOVES_MAX => {
                    *n_moves += 1;
                    plan.asks.push(ask);
                }
                _ => {}
            }
        }
    }

    /// Wishes that are only said, those for a job's place and for its memory now and then each.
    fn say_only(&mut self, seen: &Snapshot<'_>, asks: Vec<Ask>, plan: &mut Plan) {
        self.said_at.retain(|(job, _), _| seen.job(*job).is_some());
        for ask in asks {
            let job = match ask.target {
                Target::Job(job) => Some(job),
                Target::Task(task) => {
                    seen.tasks.iter().find(|seen| seen.task == task).map(|seen| seen.job)
                }
            };
            let Some(job) = job else { continue };
            let is_of_memory = matches!(ask.action, Action::MovePages { .. });
            let last = self.said_at.get(&(job, is_of_memory));
            if last.is_none_or(|&at| at + SAY_EVERY <= seen.turn.at) {
                self.said_at.insert((job, is_of_memory), seen.turn.at);
                plan.asks.push(ask);
            }
        }
    }
}

impl Policy for Careful {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let mut wishes = Plan::default();
        self.within.decide(seen, &mut wishes);
        plan.notes.append(&mut wishes.notes);
        plan.give_up = wishes.give_up;
        if !self.acts {
            return self.say_only(seen, wishes.asks, plan);
        }
        if seen.turn.causes.contains(&Cause::Interval) {
            self.wake(seen, plan);
            if let Some((compared, n_moves)) = self.measure(seen) {
                self.judge(seen, plan, compared, n_moves);
            }
        }
        self.let_through(seen, wishes.asks, plan);
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

fn is_start(seen: &Snapshot<'_>, ask: &Ask) -> bool {
    let Target::Job(job) = ask.target else { return false };
    seen.job(job).is_some_and(|job| job.state == JobState::Due)
}

/// What an interval came to.
fn figures(seen: &Snapshot<'_>) -> Figures {
    Measure::ALL.map(|measure| match measure {
        Measure::Instructions => instructions(seen),
        Measure::Waiting => waiting(seen),
        Measure::Imbalance => imbalance(seen),
    })
}

/// Millions of instructions per CPU second, of those tasks that are counted.
fn instructions(seen: &Snapshot<'_>) -> Option<f64> {
    let (mut count, mut cpu) = (0u64, Nanos::ZERO);
    for task in seen.tasks {
        if let Some(more) = task.counted.get(Quantity::Instructions) {
            count = count.saturating_add(more);
            cpu = cpu.saturating_add(task.cpu_time);
        }
    }
    (cpu != Nanos::ZERO).then(|| count as f64 / cpu.as_secs_f64() / 1e6)
}

fn waiting(seen: &Snapshot<'_>) -> Option<f64> {
    let running = seen.jobs.iter().filter(|job| job.state == JobState::Running);
    let (mut wait, mut cpu) = (0u64, 0u64);
    for job in running {
        if let Some(waited) = job.wait {
            wait = wait.saturating_add(waited.0);
            cpu = cpu.saturating_add(job.cpu_time.0);
        }
    }
    let all = wait.saturating_add(cpu);
    (all != 0).then(|| wait as f64 / all as f64)
}

fn imbalance(seen: &Snapshot<'_>) -> Option<f64> {
    let loads = &seen.loads.loads;
    let is_counted = matches!(seen.loads.tier, SignalTier::Bandwidth | SignalTier::Counters);
    let most = loads.iter().max().filter(|_| is_counted && seen.loads.readable)?;
    let mean = loads.iter().map(|&load| load as f64).sum::<f64>() / loads.len() as f64;
    (0.0 < mean).then(|| *most as f64 / mean - 1.0)
}

fn compare(before: &[Figures], after: &[Figures]) -> Option<Compared> {
    let of = |all: &[Figures], idx: usize| -> Vec<f64> {
        all.iter().filter_map(|figures| figures[idx]).collect()
    };
    let compared: Vec<Compared> = Measure::ALL
        .iter()
        .enumerate()
        .filter_map(|(idx, &measure)| judge::compare(measure, &of(before, idx), &of(after, idx)))
        .collect();
    judge::together(&compared)
}

fn told(code: Code, compared: &Compared, n_moves: u64) -> Reason {
    Reason::new(code)
        .with("measure", compared.measure.to_string())
        .with("before", compared.before)
        .with("after", compared.after)
        .with("tolerance", compared.tolerance)
        .with("n_moves", n_moves)
}

#[cfg(test)]
mod tests;
