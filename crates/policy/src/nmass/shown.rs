//! What programs have shown: where their memory is, how often they miss, and what being away costs.
//!
//! ```text
//!   interval   1    2    3    4    5    6
//!   node       0    0    0→1  1    1    1        home is 0
//!   counts as  home home  –   away away away     the interval of a move is of neither
//!
//!   penalty = cycles per instruction away / cycles per instruction at home      never below 1
//! ```
//!
//! Each side keeps its last intervals, so that a program that has come home is still known to suffer
//! elsewhere; one that changes its nature is misjudged until both sides have been seen anew. A penalty
//! that was found holds until another one differs by `np_step`, so that noise moves nobody to and fro.
//! Until both sides were counted it is what is declared. Cycles that were not counted but declared are
//! the same everywhere, and tell nothing of it.

use std::collections::{BTreeSet, VecDeque};

use base::{Bytes, NodeId};
use sched::{CounterEvent, JobState, JobView, PerJob, Plan, SignalTier, Snapshot, Target};

use super::config::Config;
use crate::common;

/// An interval in which a job did less than this tells nothing of its nature. Guessed: a thousandth of
/// what a core does in a second.
const INSTRUCTIONS_MIN: u64 = 1_000_000;

/// What is remembered of all jobs.
#[derive(Debug)]
pub(super) struct Shown {
    window: usize,
    even_permille: u64,
    step_permille: u64,
    by_job: PerJob<Life>,
}

/// What is remembered of one.
#[derive(Clone, Debug, Default)]
struct Life {
    at_home: Lately,
    away: Lately,
    misses: Lately,
    /// The penalty that was found, in thousandths.
    penalty: Option<u64>,
    /// The node that it was put on first.
    started_on: Option<NodeId>,
    /// The node that it is on since before this interval began.
    stays_on: Option<NodeId>,
}

/// Events and instructions of the last intervals that told something.
#[derive(Clone, Debug, Default)]
struct Lately(VecDeque<(u64, u64)>);

/// Where a job's memory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    /// Where it is at home; `None` when it is so everywhere.
    pub node: Option<NodeId>,
    pub by: HomeBy,
}

/// How the home is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HomeBy {
    /// So much of so much of its memory lies there.
    Memory { there: Bytes, of: Bytes },
    /// The workload says where its memory comes from.
    Declared,
    /// It was there first, and nobody has looked where its memory is.
    Start,
    /// Its memory is spread evenly.
    Even { most: Bytes, of: Bytes },
    /// It has none yet.
    Unborn,
}

/// What being away costs, in thousandths of the time at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Penalty {
    pub permille: u64,
    pub by: &'static str,
}

impl Lately {
    fn add(&mut self, events: u64, instructions: u64, window: usize) {
        self.0.push_back((events, instructions));
        while window < self.0.len() {
            self.0.pop_front();
        }
    }

    /// Events for so many instructions.
    fn per(&self, instructions: u64) -> Option<u64> {
        let sum = |part: fn(&(u64, u64)) -> u64| self.0.iter().map(part).map(u128::from).sum();
        let (events, done): (u128, u128) = (sum(|p| p.0), sum(|p| p.1));
        let rate = events.saturating_mul(u128::from(instructions)).checked_div(done)?;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

impl Life {
    /// Finds the penalty anew, once both sides were seen; a small difference is none.
    fn find_penalty(&mut self, step_permille: u64) {
        let (away, at_home) = (self.away.per(1_000_000), self.at_home.per(1_000_000));
        let (Some(away), Some(at_home)) = (away, at_home) else { return };
        let ratio = (u128::from(away) * 1000).checked_div(u128::from(at_home));
        let Some(found) = ratio.and_then(|ratio| u64::try_from(ratio).ok()) else { return };
        let found = found.max(1000);
        if self.penalty.is_none_or(|before| step_permille <= before.abs_diff(found)) {
            self.penalty = Some(found);
        }
    }
}

impl Shown {
    pub fn new(config: &Config) -> Self {
        let window = usize::try_from(config.window).unwrap_or(usize::MAX);
        let Config { even_permille, step_permille, .. } = *config;
        Shown { window, even_permille, step_permille, by_job: PerJob::default() }
    }

    /// Forgets who ended, and what an earlier life of a job has shown.
    pub fn begin(&mut self, seen: &Snapshot<'_>) {
        self.by_job.forget_ended(seen);
        for job in seen.jobs {
            let life = self.by_job.of(job.job.id);
            if job.state == JobState::Due {
                *life = Life::default();
            } else if life.started_on.is_none() {
                life.started_on = node_of(seen, job);
            }
        }
    }

    /// Takes an interval in.
    pub fn learn(&mut self, seen: &Snapshot<'_>) {
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            let Some(instructions) = sum(seen, job, CounterEvent::Instructions) else { continue };
            if instructions < INSTRUCTIONS_MIN {
                continue;
            }
            let (home, here) = (self.home(seen, job).node, node_of(seen, job));
            let life = self.by_job.of(job.job.id);
            if let Some(misses) = sum(seen, job, CounterEvent::LlcMisses) {
                life.misses.add(misses, instructions, self.window);
            }
            let stayed = here.is_some() && life.stays_on == here;
            let cycles = counted(seen, CounterEvent::Cycles)
                .then(|| sum(seen, job, CounterEvent::Cycles))
                .flatten()
                .filter(|_| counted(seen, CounterEvent::Instructions));
            if let (true, Some(home), Some(cycles)) = (stayed, home, cycles) {
                let side = if here == Some(home) { &mut life.at_home } else { &mut life.away };
                side.add(cycles, instructions, self.window);
                life.find_penalty(self.step_permille);
            }
        }
    }

    /// Remembers who is where until the next interval ends.
    pub fn end(&mut self, seen: &Snapshot<'_>, plan: &Plan, is_interval: bool) {
        let asked: BTreeSet<Target> = plan.requests.iter().map(|ask| ask.target).collect();
        for job in seen.jobs {
            let goes = asked.contains(&job.job.id.into());
            let here = node_of(seen, job);
            let life = self.by_job.of(job.job.id);
            if goes {
                life.stays_on = None;
            } else if is_interval {
                life.stays_on = here;
            }
        }
    }

    /// Where a job's memory is, as far as is known.
    pub fn home(&self, seen: &Snapshot<'_>, job: &JobView<'_>) -> Home {
        if let Some((node, there, of)) = most(job) {
            let n_nodes = common::n_nodes_with_memory(seen).max(1) as u128;
            let is_even = 1 < n_nodes
                && u128::from(there.0) * n_nodes * 1000
                    <= u128::from(of.0) * u128::from(self.even_permille);
            return match is_even {
                true => Home { node: None, by: HomeBy::Even { most: there, of } },
                false => Home { node: Some(node), by: HomeBy::Memory { there, of } },
            };
        }
        if let Some(node) = common::declared_node(job) {
            return Home { node: Some(node), by: HomeBy::Declared };
        }
        let started_on = self.by_job.get(job.job.id).and_then(|life| life.started_on);
        match started_on.filter(|_| job.state == JobState::Running) {
            Some(node) => Home { node: Some(node), by: HomeBy::Start },
            None => Home { node: None, by: HomeBy::Unborn },
        }
    }

    /// What being away from home costs a job. Who has no home pays nothing.
    pub fn penalty(&self, job: &JobView<'_>, home: &Home) -> Penalty {
        if home.node.is_none() {
            return Penalty { permille: 1000, by: "no home to be away from" };
        }
        if let Some(permille) = self.by_job.get(job.job.id).and_then(|life| life.penalty) {
            return Penalty { permille, by: "as counted" };
        }
        match &job.job.sensitivity {
            Some(sensitivity) => {
                Penalty { permille: 1000 + u64::from(sensitivity.remote()), by: "as declared" }
            }
            None => Penalty { permille: 1000, by: "nothing is known of it" },
        }
    }

    /// Misses in a million instructions: thousandths of a miss in 1000. As counted, and before that as
    /// its profile has it for the smallest cache of this machine.
    pub fn mpki(&self, seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<u64> {
        let shown = self.by_job.get(job.job.id).and_then(|life| life.misses.per(1_000_000));
        shown.or_else(|| {
            let caches = seen.machine.llcs().iter().filter_map(|llc| llc.size);
            let cache = caches.min().unwrap_or(Bytes::ZERO);
            let misses = job.job.found.as_deref()?.average(|phase| phase.curve.misses_at(cache))?;
            Some((misses * 1000.0) as u64)
        })
    }
}

/// The node that a job is on, whatever the places are.
fn node_of(seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<NodeId> {
    seen.domains.get(job.domain?).node
}

/// The node with most of a job's own memory, how much is there, and how much there is.
fn most(job: &JobView<'_>) -> Option<(NodeId, Bytes, Bytes)> {
    let memory = job.memory?;
    let node = memory.home()?;
    Some((node, memory.on(node).own(), memory.own()))
}

fn counted(seen: &Snapshot<'_>, event: CounterEvent) -> bool {
    seen.tiers.get(event) == SignalTier::Counters
}

/// What all tasks of a job did of a event; `None` when none of them is known to have done any.
fn sum(seen: &Snapshot<'_>, job: &JobView<'_>, event: CounterEvent) -> Option<u64> {
    let of = |counted: &sched::CounterDeltas| match event {
        CounterEvent::LlcMisses => counted.misses(),
        other => counted.get(other),
    };
    let counts = seen.tasks_of(job.job.id).iter().filter_map(|task| of(&task.counters));
    counts.reduce(u64::saturating_add)
}
