//! Who hurts others and who is hurt: groups by what was counted in a period.
//!
//! ```text
//!   each thread      sq = cycles with a full queue, ref = references, in a second of CPU time
//!     by limits      sq > th_sq: 1      else ref > th_ref: 2      else 3
//!     by rank        k = threads / 3:   1 the k with most sq,  2 of the rest the k with most ref,  3 the rest
//!     approximately  1 by bandwidth and by prefetches or misses;  2 as above
//!   each job         the group of most of its threads                 ties: the lower group
//!   holds            once `repeat` periods in a row have come to it
//! ```
//!
//! In the rank version some are of Group 1 even where nobody does harm; so none is that has less than a
//! small share of the largest rate seen so far (`floor`). A thread that hardly ran tells nothing, and one
//! of which nothing was counted keeps what it had.

use std::cmp::Reverse;

use base::{JobId, Nanos};
use sched::{
    CounterEvent, JobState, PerJob, Plan, Reason, ReasonCode, SignalTier, Snapshot, TaskView,
};

use super::config::{Config, Version};
use super::place::Member;
use crate::common::{self, MILLION};
use crate::places::Guest;

/// What programs do to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// It hurts others, and is hurt by its like.
    One,
    /// It is hurt.
    Two,
    /// Neither.
    Three,
}

/// A thread that ran for less of a period than this, in thousandths, has no vote. Guessed.
const RAN_MIN_PERMILLE: u128 = 10;
/// Bytes that a miss moves.
const LINE_BYTES: u64 = 64;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The groups of all jobs.
#[derive(Debug)]
pub(super) struct Classes {
    config: Config,
    /// The largest rate of full queues of a thread so far.
    sq_max: u64,
    lives: PerJob<Life>,
    said: Option<Footing>,
}

/// What groups stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Footing {
    Queues,
    Bandwidth,
    Nothing,
}

/// What is remembered of a job.
#[derive(Clone, Debug, Default)]
struct Life {
    group: Option<Group>,
    candidate: Option<Group>,
    n_same: u64,
    told: Told,
}

/// The figures of the last period that a job's group rested on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Full queues of all of its threads.
    pub sq: u64,
    /// What was counted and what it was held against, in words.
    pub words: String,
    /// What the last period came to.
    pub group: Option<Group>,
    /// How many of its threads came to its group, and how many there were.
    pub n_votes: u64,
    pub n_threads: u64,
}

/// A thread's figures of a period.
#[derive(Clone, Copy, Debug)]
struct Row {
    job: JobId,
    sq: Option<u64>,
    refs: Option<u64>,
    /// Megabytes in a second, and the larger of prefetches to demands and misses per 1000
    /// instructions, in millionths.
    traffic: Option<(u64, u64)>,
}

impl Row {
    fn of(task: &TaskView) -> Row {
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
        Row {
            job: task.job,
            sq: get(CounterEvent::QueueFull).map(rate),
            refs: get(CounterEvent::LlcReferences).map(rate),
            traffic: bandwidth.zip(mpki.max(prefetches)),
        }
    }
}

impl Classes {
    pub fn new(config: &Config) -> Self {
        Classes { config: *config, sq_max: 0, lives: PerJob::default(), said: None }
    }

    /// Forgets who ended, and what an earlier life of a job has shown.
    pub fn forget(&mut self, seen: &Snapshot<'_>) {
        self.lives.forget_ended(seen);
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Due) {
            *self.lives.of(job.job.id) = Life::default();
        }
    }

    /// A guest with what is known of it.
    pub fn member<'s>(&self, guest: &Guest<'s>) -> Member<'s> {
        let life = self.lives.get(guest.job.job.id).cloned().unwrap_or_default();
        Member { guest: *guest, group: life.group, told: life.told }
    }

    /// Takes a period in.
    pub fn learn(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        let ran = |task: &&TaskView| {
            let least = u128::from(seen.interval.0) * RAN_MIN_PERMILLE / 1000;
            task.cpu_time != Nanos::ZERO && least <= u128::from(task.cpu_time.0)
        };
        let rows: Vec<Row> = seen.tasks.iter().filter(ran).map(Row::of).collect();
        let footing = footing(seen, &rows);
        self.say(footing, !rows.is_empty(), plan);
        let groups = match footing {
            Footing::Nothing => return,
            Footing::Queues => self.by_queues(&rows),
            Footing::Bandwidth => self.by_bandwidth(&rows),
        };
        let basis = self.basis(footing, groups.iter().flatten().count());
        let mut from = 0;
        for of_job in rows.chunk_by(|a, b| a.job == b.job) {
            let votes = &groups[from..from + of_job.len()];
            from += of_job.len();
            if let Some((group, told)) = majority(of_job, votes, footing, &basis) {
                self.lives.of(of_job[0].job).take(group, told, self.config.repeat);
            }
        }
    }

    /// The group of each row; `None` where nothing was counted.
    fn by_queues(&mut self, rows: &[Row]) -> Vec<Option<Group>> {
        let most = rows.iter().filter_map(|row| row.sq).max().unwrap_or(0);
        self.sq_max = self.sq_max.max(most);
        let known: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].sq.is_some()).collect();
        let sq = |at: usize| rows[at].sq.unwrap_or(0);
        let first: Vec<usize> = match self.config.version {
            Version::Threshold { th_sq, .. } => {
                known.iter().copied().filter(|&at| th_sq < sq(at)).collect()
            }
            Version::Rank => {
                let mut top = top(&known, known.len() / 3, sq);
                top.retain(|&at| self.is_loud(sq(at)));
                top
            }
        };
        self.with_second(rows, &known, &first)
    }

    /// The same where full queues are not counted.
    fn by_bandwidth(&self, rows: &[Row]) -> Vec<Option<Group>> {
        let known: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].traffic.is_some()).collect();
        let moves_much = |&at: &usize| {
            let (bandwidth, ratio) = rows[at].traffic.unwrap_or_default();
            self.config.bandwidth < bandwidth && self.config.ratio < ratio
        };
        let first: Vec<usize> = known.iter().copied().filter(moves_much).collect();
        self.with_second(rows, &known, &first)
    }

    /// Parts those that are not of Group 1.
    fn with_second(&self, rows: &[Row], known: &[usize], first: &[usize]) -> Vec<Option<Group>> {
        let mut is_first = vec![false; rows.len()];
        first.iter().for_each(|&at| is_first[at] = true);
        let rest = known.iter().copied().filter(|&at| !is_first[at]);
        let rest: Vec<usize> = rest.filter(|&at| rows[at].refs.is_some()).collect();
        let refs = |at: usize| rows[at].refs.unwrap_or(0);
        let second: Vec<usize> = match self.config.version {
            Version::Threshold { th_ref, .. } => {
                rest.into_iter().filter(|&at| th_ref < refs(at)).collect()
            }
            Version::Rank => top(&rest, known.len() / 3, refs),
        };
        let mut groups = vec![None; rows.len()];
        known.iter().for_each(|&at| groups[at] = Some(Group::Three));
        second.iter().for_each(|&at| groups[at] = Some(Group::Two));
        first.iter().for_each(|&at| groups[at] = Some(Group::One));
        groups
    }

    /// Whether a rate is above the floor.
    fn is_loud(&self, sq: u64) -> bool {
        let floor = u128::from(self.sq_max) * u128::from(self.config.floor);
        self.config.floor == 0 || sq != 0 && floor <= u128::from(sq) * u128::from(MILLION)
    }

    /// What figures were held against.
    fn basis(&self, footing: Footing, n_threads: usize) -> String {
        let k = n_threads / 3;
        match (footing, self.config.version) {
            (Footing::Queues, Version::Threshold { th_sq, th_ref }) => {
                format!("limits {th_sq} and {th_ref}")
            }
            (Footing::Queues, Version::Rank) => {
                let floor = u128::from(self.sq_max) * u128::from(self.config.floor);
                let floor = floor / u128::from(MILLION);
                format!(
                    "ranked among {n_threads} threads, {k} to a group, at least {floor} for Group 1"
                )
            }
            (_, version) => {
                let first =
                    format!("limits {} MB and {}", self.config.bandwidth, self.ratio_text());
                match version {
                    Version::Threshold { th_ref, .. } => format!("{first}, then {th_ref}"),
                    Version::Rank => {
                        format!("{first}, then ranked among {n_threads} threads, {k} to Group 2")
                    }
                }
            }
        }
    }

    fn ratio_text(&self) -> String {
        (self.config.ratio as f64 / MILLION as f64).to_string()
    }

    /// What groups stand on, when that is not as good as it could be; once each.
    fn say(&mut self, footing: Footing, has_run: bool, plan: &mut Plan) {
        if !has_run || self.said.replace(footing) == Some(footing) {
            return;
        }
        match footing {
            Footing::Queues => {}
            Footing::Nothing => plan.note(Reason::new(ReasonCode::GroupsUnknown)),
            Footing::Bandwidth => plan.note(
                Reason::new(ReasonCode::GroupsApproximate)
                    .with("bandwidth", self.config.bandwidth)
                    .with("ratio", self.ratio_text()),
            ),
        }
    }
}

impl Life {
    fn take(&mut self, group: Group, told: Told, repeat: u64) {
        self.n_same = if self.candidate == Some(group) { self.n_same + 1 } else { 1 };
        self.candidate = Some(group);
        if repeat <= self.n_same {
            self.group = Some(group);
        }
        self.told = told;
    }
}

fn footing(seen: &Snapshot<'_>, rows: &[Row]) -> Footing {
    if seen.tiers.get(CounterEvent::QueueFull) != SignalTier::None {
        Footing::Queues
    } else if rows.iter().any(|row| row.traffic.is_some()) {
        Footing::Bandwidth
    } else {
        Footing::Nothing
    }
}

/// The `k` of some rows with the largest figure; of equals the first.
fn top(among: &[usize], k: usize, figure: impl Fn(usize) -> u64) -> Vec<usize> {
    let mut sorted = among.to_vec();
    sorted.sort_by_key(|&at| (Reverse(figure(at)), at));
    sorted.truncate(k);
    sorted
}

/// The group of most of a job's threads, and the figures of them all.
fn majority(
    rows: &[Row],
    votes: &[Option<Group>],
    footing: Footing,
    basis: &str,
) -> Option<(Group, Told)> {
    let n_of = |group: Group| votes.iter().filter(|&&vote| vote == Some(group)).count() as u64;
    let groups = [Group::Three, Group::Two, Group::One];
    let group = groups.into_iter().max_by_key(|&group| n_of(group))?;
    let n_votes = n_of(group);
    let sum = |figure: fn(&Row) -> Option<u64>| {
        rows.iter().filter_map(figure).fold(0, u64::saturating_add)
    };
    let (sq, refs) = (sum(|row| row.sq), sum(|row| row.refs));
    let queues = match footing {
        Footing::Queues => format!("{sq} cycles with a full queue of requests"),
        Footing::Bandwidth | Footing::Nothing => {
            let traffic = sum(|row| row.traffic.map(|(bandwidth, _)| bandwidth));
            let ratio = rows.iter().filter_map(|row| row.traffic).map(|(_, ratio)| ratio).max();
            let ratio = common::permille_text(ratio.unwrap_or(0) / 1000);
            format!(
                "{traffic} MB of cache misses, up to {ratio} prefetches to a miss or misses in 1000 instructions,"
            )
        }
    };
    let words = format!(
        "{queues} and {refs} references to the last-level cache in a second of CPU time; {basis}"
    );
    let n_threads = votes.iter().flatten().count() as u64;
    (n_votes != 0).then_some((group, Told { sq, words, group: Some(group), n_votes, n_threads }))
}
