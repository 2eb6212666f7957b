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
//! The last intervals at home and away are stored, so the penalty of a job that returned home remains known. If the
//! behaviour of a job changes, the penalty is wrong until there are new intervals of both kinds. A new penalty replaces
//! the previous penalty only if the difference is at least `np_step`, so that noise does not cause migrations back and
//! forth. Until intervals of both kinds are counted, the declared penalty is used. Declared cycles are equal on all
//! nodes and are not used.

use std::collections::{BTreeSet, VecDeque};

use base::{Bytes, NodeId};
use sched::{CounterEvent, JobState, JobView, PerJob, Plan, SignalTier, Snapshot, Target};

use super::declaration::Config;
use crate::placement;

/// Minimum number of instructions of an interval; shorter intervals are ignored. Guessed: a core executes a thousand
/// times this number in a second.
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
    remote: RecentEvents,
    misses: RecentEvents,
    /// The counted penalty, in permille.
    penalty: Option<u64>,
    /// The first node on which the job was placed.
    started_on: Option<NodeId>,
    /// Node on which the job was during the whole interval.
    stays_on: Option<NodeId>,
}

/// Events and instructions of the last intervals, the newest last.
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
    /// The node of most of the job's memory.
    Memory { on_node: Bytes, total: Bytes },
    /// The workload declares the memory node.
    Declared,
    /// The job started on the node, and its pages were not sampled yet.
    Start,
    /// The pages of the job are spread evenly.
    Even { most: Bytes, total: Bytes },
    /// The job has no pages yet.
    NoPages,
}

/// Ratio of the CPI away from home to the CPI at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Penalty {
    pub permille: u64,
    /// Word for the reasons.
    pub source: &'static str,
}

impl RecentEvents {
    fn add(&mut self, events: u64, instructions: u64, window: usize) {
        self.0.push_back((events, instructions));
        while window < self.0.len() {
            self.0.pop_front();
        }
    }

    /// Returns the events per this number of instructions.
    fn per(&self, instructions: u64) -> Option<u64> {
        let sum = |part: fn(&(u64, u64)) -> u64| self.0.iter().map(part).map(u128::from).sum();
        let (events, done): (u128, u128) = (sum(|p| p.0), sum(|p| p.1));
        let rate = events.saturating_mul(u128::from(instructions)).checked_div(done)?;
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

impl RemoteHistory {
    /// Computes the penalty if intervals of both kinds were counted. A change below the step is ignored.
    fn update_penalty(&mut self, step_permille: u64) {
        let (remote, at_home) = (self.remote.per(1_000_000), self.at_home.per(1_000_000));
        let (Some(remote), Some(at_home)) = (remote, at_home) else { return };
        let ratio = (u128::from(remote) * 1000).checked_div(u128::from(at_home));
        let Some(found) = ratio.and_then(|ratio| u64::try_from(ratio).ok()) else { return };
        let found = found.max(1000);
        if self.penalty.is_none_or(|before| step_permille <= before.abs_diff(found)) {
            self.penalty = Some(found);
        }
    }
}

impl Histories {
    pub fn new(config: &Config) -> Self {
        Histories {
            window: usize::try_from(config.window).unwrap_or(usize::MAX),
            even_permille: config.even.permille(),
            step_permille: config.np_step.permille(),
            by_job: PerJob::default(),
        }
    }

    /// Discards the state of ended jobs and of earlier runs of a job.
    pub fn start_turn(&mut self, snapshot: &Snapshot<'_>) {
        self.by_job.forget_ended(snapshot);
        for job in snapshot.jobs {
            let history = self.by_job.get_or_default(job.job.id);
            if job.state == JobState::Due {
                *history = RemoteHistory::default();
            } else if history.started_on.is_none() {
                history.started_on = node_of(snapshot, job);
            }
        }
    }

    /// Adds the counters of an interval.
    pub fn add(&mut self, snapshot: &Snapshot<'_>) {
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Running) {
            let Some(instructions) = sum(snapshot, job, CounterEvent::Instructions) else {
                continue;
            };
            if instructions < INSTRUCTIONS_MIN {
                continue;
            }
            let (home, node) = (self.home(snapshot, job).node, node_of(snapshot, job));
            let history = self.by_job.get_or_default(job.job.id);
            if let Some(misses) = sum(snapshot, job, CounterEvent::LlcMisses) {
                history.misses.add(misses, instructions, self.window);
            }
            let stayed = node.is_some() && history.stays_on == node;
            let cycles = counted(snapshot, CounterEvent::Cycles)
                .then(|| sum(snapshot, job, CounterEvent::Cycles))
                .flatten()
                .filter(|_| counted(snapshot, CounterEvent::Instructions));
            if let (true, Some(home), Some(cycles)) = (stayed, home, cycles) {
                let side =
                    if node == Some(home) { &mut history.at_home } else { &mut history.remote };
                side.add(cycles, instructions, self.window);
                history.update_penalty(self.step_permille);
            }
        }
    }

    /// Stores the node of each job until the next interval ends.
    pub fn end_turn(&mut self, snapshot: &Snapshot<'_>, plan: &Plan, is_interval: bool) {
        let requested: BTreeSet<Target> =
            plan.requests.iter().map(|request| request.target).collect();
        for job in snapshot.jobs {
            let migrates = requested.contains(&job.job.id.into());
            let node = node_of(snapshot, job);
            let history = self.by_job.get_or_default(job.job.id);
            if migrates {
                history.stays_on = None;
            } else if is_interval {
                history.stays_on = node;
            }
        }
    }

    /// Returns the home of a job.
    pub fn home(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Home {
        if let Some((node, on_node, total)) = home_by_memory(job) {
            let n_nodes = placement::n_nodes_with_memory(snapshot).max(1) as u128;
            let is_even = 1 < n_nodes
                && u128::from(on_node.0) * n_nodes * 1000
                    <= u128::from(total.0) * u128::from(self.even_permille);
            return match is_even {
                true => Home { node: None, source: HomeSource::Even { most: on_node, total } },
                false => Home { node: Some(node), source: HomeSource::Memory { on_node, total } },
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

    /// Returns the remote penalty of a job; 1 without a home.
    pub fn penalty(&self, job: &JobView<'_>, home: &Home) -> Penalty {
        if home.node.is_none() {
            return Penalty { permille: 1000, source: "no-home" };
        }
        if let Some(permille) = self.by_job.get(job.job.id).and_then(|history| history.penalty) {
            return Penalty { permille, source: "counted" };
        }
        match &job.job.sensitivity {
            Some(sensitivity) => {
                Penalty { permille: 1000 + u64::from(sensitivity.remote()), source: "declared" }
            }
            None => Penalty { permille: 1000, source: "unknown" },
        }
    }

    /// Returns the misses per million instructions, that is thousandths of an MPKI. The source is the counters, else
    /// the profile with the smallest cache of the machine.
    pub fn mpki(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<u64> {
        let counted = self.by_job.get(job.job.id).and_then(|history| history.misses.per(1_000_000));
        counted.or_else(|| {
            let caches = snapshot.machine.llcs().iter().filter_map(|llc| llc.size);
            let cache = caches.min().unwrap_or(Bytes::ZERO);
            let misses = job.job.found.as_deref()?.average(|phase| phase.curve.misses_at(cache))?;
            Some((misses * 1000.0) as u64)
        })
    }
}

/// Returns the node of a job, at any level of domains.
fn node_of(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<NodeId> {
    snapshot.domains.get(job.domain?).node
}

/// Returns the node with most of a job's private memory, the private memory on that node, and the total.
fn home_by_memory(job: &JobView<'_>) -> Option<(NodeId, Bytes, Bytes)> {
    let memory = job.memory?;
    let node = memory.home()?;
    Some((node, memory.on_node(node).private_bytes(), memory.private_bytes()))
}

fn counted(snapshot: &Snapshot<'_>, event: CounterEvent) -> bool {
    snapshot.tiers.get(event) == SignalTier::Counters
}

/// Returns the sum of an event over the tasks of a job; `None`: no task has a value.
fn sum(snapshot: &Snapshot<'_>, job: &JobView<'_>, event: CounterEvent) -> Option<u64> {
    let value = |counted: &sched::CounterDeltas| match event {
        CounterEvent::LlcMisses => counted.misses(),
        other => counted.get(other),
    };
    let counts = snapshot.tasks_of(job.job.id).iter().filter_map(|task| value(&task.counters));
    counts.reduce(u64::saturating_add)
}
