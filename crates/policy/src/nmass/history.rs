//! Measurements of jobs: the home, the misses, and the remote penalty.
//!
//! ```text
//!   interval   1    2    3    4    5    6
//!   node       0    0    0→1  1    1    1        home is 0
//!   counts as  home home  –   away away away     the interval of a migration counts as neither
//!
//!   penalty = cycles per instruction away / cycles per instruction at home      never below 1
//! ```
//!
//! Both sides keep their last intervals, so the penalty of a job that returned home remains known. If a job changes
//! its behaviour, the penalty is wrong until both sides have new intervals. A penalty holds until a new one differs
//! by `np_step`, so that noise does not migrate jobs back and forth. Until both sides are counted, the declared
//! penalty holds. Declared cycles are equal on all nodes and are not used.

use std::collections::{BTreeSet, VecDeque};

use base::{Bytes, NodeId};
use sched::{CounterEvent, JobState, JobView, PerJob, Plan, SignalTier, Snapshot, Target};

use super::declaration::Config;
use crate::placement;

/// Minimum number of instructions of an interval that counts. Guessed: a core executes a thousand times as many in
/// a second.
const INSTRUCTIONS_MIN: u64 = 1_000_000;

/// Measurements of all jobs.
#[derive(Debug)]
pub(super) struct Histories {
    window: usize,
    even_permille: u64,
    step_permille: u64,
    by_job: PerJob<RemoteHistory>,
}

/// Measurements of a job.
#[derive(Clone, Debug, Default)]
struct RemoteHistory {
    at_home: RecentEvents,
    away: RecentEvents,
    misses: RecentEvents,
    /// The counted penalty, in permille.
    penalty: Option<u64>,
    /// The first node on which it was placed.
    started_on: Option<NodeId>,
    /// Its node, if it has been there since before the interval.
    stays_on: Option<NodeId>,
}

/// Events and instructions of the last intervals that count.
#[derive(Clone, Debug, Default)]
struct RecentEvents(VecDeque<(u64, u64)>);

/// The home of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    /// `None`: the job has no home.
    pub node: Option<NodeId>,
    pub source: HomeSource,
}

/// Source of the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HomeSource {
    /// The node holds `there` of its memory.
    Memory { there: Bytes, of: Bytes },
    /// The workload declares the memory node.
    Declared,
    /// The job started there, and its pages were not sampled yet.
    Start,
    /// Its pages are spread evenly.
    Even { most: Bytes, of: Bytes },
    /// It has no pages yet.
    NoPages,
}

/// Time away from home over time at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Penalty {
    pub permille: u64,
    pub by: &'static str,
}

impl RecentEvents {
    fn add(&mut self, events: u64, instructions: u64, window: usize) {
        self.0.push_back((events, instructions));
        while window < self.0.len() {
            self.0.pop_front();
        }
    }

    /// Events per this number of instructions.
    fn per(&self, instructions: u64) -> Option<u64> {
        let sum = |part: fn(&(u64, u64)) -> u64| self.0.iter().map(part).map(u128::from).sum();
        let (events, done): (u128, u128) = (sum(|p| p.0), sum(|p| p.1));
        let rate = events.saturating_mul(u128::from(instructions)).checked_div(done)?;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

impl RemoteHistory {
    /// Computes the penalty if both sides were counted; a change below the step is ignored.
    fn update_penalty(&mut self, step_permille: u64) {
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

impl Histories {
    pub fn new(config: &Config) -> Self {
        let window = usize::try_from(config.window).unwrap_or(usize::MAX);
        let Config { even_permille, step_permille, .. } = *config;
        Histories { window, even_permille, step_permille, by_job: PerJob::default() }
    }

    /// Discards ended jobs and earlier runs of a job.
    pub fn start_turn(&mut self, seen: &Snapshot<'_>) {
        self.by_job.forget_ended(seen);
        for job in seen.jobs {
            let history = self.by_job.of(job.job.id);
            if job.state == JobState::Due {
                *history = RemoteHistory::default();
            } else if history.started_on.is_none() {
                history.started_on = node_of(seen, job);
            }
        }
    }

    /// Adds an interval.
    pub fn add(&mut self, seen: &Snapshot<'_>) {
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            let Some(instructions) = sum(seen, job, CounterEvent::Instructions) else { continue };
            if instructions < INSTRUCTIONS_MIN {
                continue;
            }
            let (home, here) = (self.home(seen, job).node, node_of(seen, job));
            let history = self.by_job.of(job.job.id);
            if let Some(misses) = sum(seen, job, CounterEvent::LlcMisses) {
                history.misses.add(misses, instructions, self.window);
            }
            let stayed = here.is_some() && history.stays_on == here;
            let cycles = counted(seen, CounterEvent::Cycles)
                .then(|| sum(seen, job, CounterEvent::Cycles))
                .flatten()
                .filter(|_| counted(seen, CounterEvent::Instructions));
            if let (true, Some(home), Some(cycles)) = (stayed, home, cycles) {
                let side =
                    if here == Some(home) { &mut history.at_home } else { &mut history.away };
                side.add(cycles, instructions, self.window);
                history.update_penalty(self.step_permille);
            }
        }
    }

    /// Stores the node of each job until the next interval ends.
    pub fn end_turn(&mut self, seen: &Snapshot<'_>, plan: &Plan, is_interval: bool) {
        let requested: BTreeSet<Target> =
            plan.requests.iter().map(|request| request.target).collect();
        for job in seen.jobs {
            let migrates = requested.contains(&job.job.id.into());
            let here = node_of(seen, job);
            let history = self.by_job.of(job.job.id);
            if migrates {
                history.stays_on = None;
            } else if is_interval {
                history.stays_on = here;
            }
        }
    }

    /// The home of a job.
    pub fn home(&self, seen: &Snapshot<'_>, job: &JobView<'_>) -> Home {
        if let Some((node, there, of)) = most(job) {
            let n_nodes = placement::n_nodes_with_memory(seen).max(1) as u128;
            let is_even = 1 < n_nodes
                && u128::from(there.0) * n_nodes * 1000
                    <= u128::from(of.0) * u128::from(self.even_permille);
            return match is_even {
                true => Home { node: None, source: HomeSource::Even { most: there, of } },
                false => Home { node: Some(node), source: HomeSource::Memory { there, of } },
            };
        }
        if let Some(node) = placement::declared_node(job) {
            return Home { node: Some(node), source: HomeSource::Declared };
        }
        let started_on = self.by_job.get(job.job.id).and_then(|history| history.started_on);
        match started_on.filter(|_| job.state == JobState::Running) {
            Some(node) => Home { node: Some(node), source: HomeSource::Start },
            None => Home { node: None, source: HomeSource::NoPages },
        }
    }

    /// The remote penalty of a job; 1 without a home.
    pub fn penalty(&self, job: &JobView<'_>, home: &Home) -> Penalty {
        if home.node.is_none() {
            return Penalty { permille: 1000, by: "it has no home" };
        }
        if let Some(permille) = self.by_job.get(job.job.id).and_then(|history| history.penalty) {
            return Penalty { permille, by: "as counted" };
        }
        match &job.job.sensitivity {
            Some(sensitivity) => {
                Penalty { permille: 1000 + u64::from(sensitivity.remote()), by: "as declared" }
            }
            None => Penalty { permille: 1000, by: "unknown" },
        }
    }

    /// Misses per million instructions, that is thousandths of a miss per 1000: as counted, else from the profile
    /// for the smallest cache of the machine.
    pub fn mpki(&self, seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<u64> {
        let counted = self.by_job.get(job.job.id).and_then(|history| history.misses.per(1_000_000));
        counted.or_else(|| {
            let caches = seen.machine.llcs().iter().filter_map(|llc| llc.size);
            let cache = caches.min().unwrap_or(Bytes::ZERO);
            let misses = job.job.found.as_deref()?.average(|phase| phase.curve.misses_at(cache))?;
            Some((misses * 1000.0) as u64)
        })
    }
}

/// The node of a job, at any level of domains.
fn node_of(seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<NodeId> {
    seen.domains.get(job.domain?).node
}

/// The node with most of a job's own memory, the memory there, and all of it.
fn most(job: &JobView<'_>) -> Option<(NodeId, Bytes, Bytes)> {
    let memory = job.memory?;
    let node = memory.home()?;
    Some((node, memory.on_node(node).private_bytes(), memory.private_bytes()))
}

fn counted(seen: &Snapshot<'_>, event: CounterEvent) -> bool {
    seen.tiers.get(event) == SignalTier::Counters
}

/// Sum of an event over the tasks of a job; `None`: no task has a value.
fn sum(seen: &Snapshot<'_>, job: &JobView<'_>, event: CounterEvent) -> Option<u64> {
    let of = |counted: &sched::CounterDeltas| match event {
        CounterEvent::LlcMisses => counted.misses(),
        other => counted.get(other),
    };
    let counts = seen.tasks_of(job.job.id).iter().filter_map(|task| of(&task.counters));
    counts.reduce(u64::saturating_add)
}
