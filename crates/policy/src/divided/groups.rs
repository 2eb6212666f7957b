//! The group of each job, from the counters of an interval.
//!
//! ```text
//!   each thread      sq = queue-full cycles, ref = references, per second of CPU time
//!     by thresholds  sq > th_sq: 1      else ref > th_ref: 2      else 3
//!     by rank        k = threads / 3:   1 the k with most sq,  2 the k others with most ref,  3 all others
//!     approximately  1 by bandwidth and by prefetches or misses;  2 as by thresholds or by rank
//!   each job         the group of most of its threads                 ties: the lower group
//!   changes          after `repeat` polls in a row with the same result
//! ```
//!
//! By rank, some threads would be in Group 1 even if no thread causes contention. A thread in Group 1 therefore needs a
//! minimum share of the largest rate so far (`min_share`). A thread that ran for less than 1 % of the interval is not
//! counted. A job without counted events keeps its group.

use std::cmp::Reverse;

use base::{JobId, LINE_BYTES, Nanos};
use sched::{
    CounterEvent, JobState, PerJob, Plan, Reason, ReasonValue, SignalTier, Snapshot, TaskView,
};

use super::declaration::{Config, GROUPS_APPROXIMATE, GROUPS_UNKNOWN, Grouping};
use crate::declaration::MILLION;
use crate::placement;
use crate::slots::MovableJob;

/// Behaviour of a job under contention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ContentionGroup {
    /// The job causes contention and is slowed down by contention.
    One,
    /// The job is slowed down by contention.
    Two,
    /// The job neither causes contention nor is slowed down by contention.
    Three,
}

/// Minimum share of an interval that a thread must run to be counted, in permille. Guessed.
const RAN_MIN_PERMILLE: u128 = 10;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The groups of all jobs.
#[derive(Debug)]
pub(super) struct Groups {
    config: Config,
    /// The largest rate of queue-full cycles of a thread so far.
    sq_max: u64,
    history: PerJob<GroupHistory>,
    noted: Option<GroupBasis>,
}

/// Events that groups are based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupBasis {
    Queues,
    Bandwidth,
    Nothing,
}

/// Group of a job, and its groups in the last intervals.
#[derive(Clone, Debug, Default)]
struct GroupHistory {
    group: Option<ContentionGroup>,
    candidate: Option<ContentionGroup>,
    n_same: u64,
    counters: GroupCounters,
}

/// Values of a reason, by name.
type ReasonValues = Vec<(&'static str, ReasonValue)>;

/// Counters of a job in the last interval with counted events, and the group derived from them.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupCounters {
    /// Queue-full cycles of all threads.
    pub queue_full: u64,
    /// The values and the criterion, for the reasons.
    pub values: ReasonValues,
    /// Group of the job in the last interval.
    pub group: Option<ContentionGroup>,
    /// Number of threads in that group.
    pub n_votes: u64,
    pub n_threads: u64,
}

/// A job and its group.
#[derive(Clone, Debug)]
pub(super) struct GroupedJob<'s> {
    pub job: MovableJob<'s>,
    /// Group of the job; `None`: unknown.
    pub group: Option<ContentionGroup>,
    pub counters: GroupCounters,
}

/// Rates of a thread in an interval.
#[derive(Clone, Copy, Debug)]
struct ThreadRates {
    job: JobId,
    queue_full: Option<u64>,
    refs: Option<u64>,
    /// Traffic in MB per second, and the larger of prefetches per demand miss and misses per 1000 instructions, in
    /// millionths.
    traffic: Option<(u64, u64)>,
}

impl ThreadRates {
    fn of(task: &TaskView) -> ThreadRates {
        let rate = |count: u64| {
            let rate = u128::from(count) * NANOS_PER_SECOND / u128::from(task.cpu_time.0.max(1));
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let get = |event| task.counters.get(event);
        let ratio = |of: Option<u64>, to: Option<u64>, scale: u64| {
            let part = u128::from(of?) * u128::from(scale);
            Some(u64::try_from(part.checked_div(u128::from(to?))?).unwrap_or(u64::MAX))
        };
        let misses = task.counters.misses();
        let mpki = ratio(misses, get(CounterEvent::Instructions), 1000 * MILLION);
        let demands = [CounterEvent::LlcLoadMisses, CounterEvent::LlcStoreMisses].map(get);
        let demands = demands.into_iter().flatten().reduce(u64::saturating_add);
        let prefetches = ratio(get(CounterEvent::LlcPrefetchMisses), demands, MILLION);
        let bandwidth = misses.map(|misses| rate(misses).saturating_mul(LINE_BYTES) / MILLION);
        ThreadRates {
            job: task.job,
            queue_full: get(CounterEvent::QueueFull).map(rate),
            refs: get(CounterEvent::LlcReferences).map(rate),
            traffic: bandwidth.zip(mpki.max(prefetches)),
        }
    }
}

impl Groups {
    pub fn new(config: &Config) -> Self {
        Groups { config: *config, sq_max: 0, history: PerJob::default(), noted: None }
    }

    /// Discards the state of ended jobs and of earlier runs of a job.
    pub fn remove_state(&mut self, snapshot: &Snapshot<'_>) {
        self.history.forget_ended(snapshot);
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Due) {
            *self.history.get_or_default(job.job.id) = GroupHistory::default();
        }
    }

    /// Returns a job with its group.
    pub fn grouped<'s>(&self, job: &MovableJob<'s>) -> GroupedJob<'s> {
        let history = self.history.get(job.job.job.id).cloned().unwrap_or_default();
        GroupedJob { job: *job, group: history.group, counters: history.counters }
    }

    /// Groups the threads by their counters in the last interval, and updates the groups of the jobs.
    pub fn add(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        let ran = |task: &&TaskView| {
            let min = u128::from(snapshot.interval.0) * RAN_MIN_PERMILLE / 1000;
            task.cpu_time != Nanos::ZERO && min <= u128::from(task.cpu_time.0)
        };
        let rows: Vec<ThreadRates> =
            snapshot.tasks.iter().filter(ran).map(ThreadRates::of).collect();
        let basis = basis(snapshot, &rows);
        self.add_note(basis, !rows.is_empty(), plan);
        let groups = match basis {
            GroupBasis::Nothing => return,
            GroupBasis::Queues => self.by_queues(&rows),
            GroupBasis::Bandwidth => self.by_bandwidth(&rows),
        };
        let criterion = self.criterion(basis, groups.iter().flatten().count());
        let mut from = 0;
        for of_job in rows.chunk_by(|a, b| a.job == b.job) {
            let votes = &groups[from..from + of_job.len()];
            from += of_job.len();
            if let Some((group, counters)) = majority(of_job, votes, basis, &criterion) {
                self.history.get_or_default(of_job[0].job).update(
                    group,
                    counters,
                    self.config.repeat,
                );
            }
        }
    }

    /// Returns the group of each thread; `None`: the queue-full cycles of the thread were not counted.
    fn by_queues(&mut self, rows: &[ThreadRates]) -> Vec<Option<ContentionGroup>> {
        let max = rows.iter().filter_map(|row| row.queue_full).max().unwrap_or(0);
        self.sq_max = self.sq_max.max(max);
        let known: Vec<usize> =
            (0..rows.len()).filter(|&row| rows[row].queue_full.is_some()).collect();
        let queue_full = |row: usize| rows[row].queue_full.unwrap_or(0);
        let first: Vec<usize> = match self.config.grouping() {
            Grouping::Threshold { th_sq, .. } => {
                known.iter().copied().filter(|&row| th_sq < queue_full(row)).collect()
            }
            Grouping::Rank => {
                let mut top = top(&known, known.len() / 3, queue_full);
                top.retain(|&row| self.has_minimum_share(queue_full(row)));
                top
            }
        };
        self.with_second(rows, &known, &first)
    }

    /// Returns the group of each thread if queue-full cycles are not counted.
    fn by_bandwidth(&self, rows: &[ThreadRates]) -> Vec<Option<ContentionGroup>> {
        let known: Vec<usize> =
            (0..rows.len()).filter(|&row| rows[row].traffic.is_some()).collect();
        let has_traffic = |&row: &usize| {
            let (bandwidth, ratio) = rows[row].traffic.unwrap_or_default();
            self.config.bandwidth < bandwidth && self.config.ratio.0 < ratio
        };
        let first: Vec<usize> = known.iter().copied().filter(has_traffic).collect();
        self.with_second(rows, &known, &first)
    }

    /// Returns the group of each known thread: Group 1 for the threads in `first`, else Group 2 or 3.
    fn with_second(
        &self,
        rows: &[ThreadRates],
        known: &[usize],
        first: &[usize],
    ) -> Vec<Option<ContentionGroup>> {
        let mut is_first = vec![false; rows.len()];
        first.iter().for_each(|&row| is_first[row] = true);
        let outside_group_1 = known.iter().copied().filter(|&row| !is_first[row]);
        let candidates: Vec<usize> =
            outside_group_1.filter(|&row| rows[row].refs.is_some()).collect();
        let refs = |row: usize| rows[row].refs.unwrap_or(0);
        let second: Vec<usize> = match self.config.grouping() {
            Grouping::Threshold { th_ref, .. } => {
                candidates.into_iter().filter(|&row| th_ref < refs(row)).collect()
            }
            Grouping::Rank => top(&candidates, known.len() / 3, refs),
        };
        let mut groups = vec![None; rows.len()];
        known.iter().for_each(|&row| groups[row] = Some(ContentionGroup::Three));
        second.iter().for_each(|&row| groups[row] = Some(ContentionGroup::Two));
        first.iter().for_each(|&row| groups[row] = Some(ContentionGroup::One));
        groups
    }

    /// Returns whether a rate is at least the minimum share of the largest rate.
    fn has_minimum_share(&self, queue_full: u64) -> bool {
        let minimum = u128::from(self.sq_max) * u128::from(self.config.min_share.0);
        self.config.min_share.0 == 0
            || queue_full != 0 && minimum <= u128::from(queue_full) * u128::from(MILLION)
    }

    /// Returns the criterion of the groups, for the reasons.
    fn criterion(&self, basis: GroupBasis, n_threads: usize) -> ReasonValues {
        let word = match (basis, self.config.grouping()) {
            (GroupBasis::Queues, Grouping::Threshold { .. }) => "thresholds",
            (GroupBasis::Queues, Grouping::Rank) => "rank",
            (_, Grouping::Threshold { .. }) => "traffic-thresholds",
            (_, Grouping::Rank) => "traffic-rank",
        };
        let mut values: ReasonValues = vec![("criterion", word.into())];
        match self.config.grouping() {
            Grouping::Threshold { th_sq, th_ref } => {
                values.extend([("th_sq", th_sq.into()), ("th_ref", th_ref.into())]);
            }
            Grouping::Rank => {
                let minimum = u128::from(self.sq_max) * u128::from(self.config.min_share.0);
                let minimum = u64::try_from(minimum / u128::from(MILLION)).unwrap_or(u64::MAX);
                let (n_threads, k) = (n_threads as u64, n_threads as u64 / 3);
                values.extend([("n_ranked", n_threads.into()), ("n_per_group", k.into())]);
                values.push(("sq_rank_min", minimum.into()));
            }
        }
        if basis != GroupBasis::Queues {
            values.push(("th_traffic", self.config.bandwidth.into()));
            values.push(("th_ratio", self.ratio_text().into()));
        }
        values
    }

    fn ratio_text(&self) -> String {
        (self.config.ratio.0 as f64 / MILLION as f64).to_string()
    }

    /// Adds a note if groups are not based on queue-full cycles, at the first use and after a change of the basis.
    fn add_note(&mut self, basis: GroupBasis, has_run: bool, plan: &mut Plan) {
        if !has_run || self.noted.replace(basis) == Some(basis) {
            return;
        }
        match basis {
            GroupBasis::Queues => {}
            GroupBasis::Nothing => plan.note(Reason::new(GROUPS_UNKNOWN)),
            GroupBasis::Bandwidth => plan.note(
                Reason::new(GROUPS_APPROXIMATE)
                    .with("bandwidth", self.config.bandwidth)
                    .with("ratio", self.ratio_text()),
            ),
        }
    }
}

impl GroupHistory {
    fn update(&mut self, group: ContentionGroup, counters: GroupCounters, repeat: u64) {
        self.n_same = if self.candidate == Some(group) { self.n_same + 1 } else { 1 };
        self.candidate = Some(group);
        if repeat <= self.n_same {
            self.group = Some(group);
        }
        self.counters = counters;
    }
}

fn basis(snapshot: &Snapshot<'_>, rows: &[ThreadRates]) -> GroupBasis {
    if snapshot.tiers.get(CounterEvent::QueueFull) != SignalTier::None {
        GroupBasis::Queues
    } else if rows.iter().any(|row| row.traffic.is_some()) {
        GroupBasis::Bandwidth
    } else {
        GroupBasis::Nothing
    }
}

/// Returns the `k` threads with the largest value; ties: the first.
fn top(among: &[usize], k: usize, value: impl Fn(usize) -> u64) -> Vec<usize> {
    let mut sorted = among.to_vec();
    sorted.sort_by_key(|&row| (Reverse(value(row)), row));
    sorted.truncate(k);
    sorted
}

/// Returns the group of most threads of a job, and the values of all its threads.
fn majority(
    rows: &[ThreadRates],
    votes: &[Option<ContentionGroup>],
    basis: GroupBasis,
    criterion: &[(&'static str, ReasonValue)],
) -> Option<(ContentionGroup, GroupCounters)> {
    let n_of =
        |group: ContentionGroup| votes.iter().filter(|&&vote| vote == Some(group)).count() as u64;
    let groups = [ContentionGroup::Three, ContentionGroup::Two, ContentionGroup::One];
    let group = groups.into_iter().max_by_key(|&group| n_of(group))?;
    let n_votes = n_of(group);
    let sum = |value: fn(&ThreadRates) -> Option<u64>| {
        rows.iter().filter_map(value).fold(0, u64::saturating_add)
    };
    let (queue_full, refs) = (sum(|row| row.queue_full), sum(|row| row.refs));
    let mut values = criterion.to_vec();
    values.push(("references", refs.into()));
    if basis == GroupBasis::Queues {
        values.push(("queue_full", queue_full.into()));
    } else {
        let ratio = rows.iter().filter_map(|row| row.traffic).map(|(_, ratio)| ratio).max();
        let ratio = placement::permille_text(ratio.unwrap_or(0) / 1000);
        let traffic = sum(|row| row.traffic.map(|(bandwidth, _)| bandwidth));
        values.extend([("traffic", traffic.into()), ("ratio", ratio.into())]);
    }
    let n_threads = votes.iter().flatten().count() as u64;
    (n_votes != 0).then_some((
        group,
        GroupCounters { queue_full, values, group: Some(group), n_votes, n_threads },
    ))
}
