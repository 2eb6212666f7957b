//! Counts requests and outcomes of page migrations and placements of a run.
//!
//! ```text
//!   plan ── request to migrate pages ─┬─ the guard rejects it: a migration is active, ping-pong, over budget …
//!                                     └─ started ─► completed: bytes moved
//! ```
//!
//! A rejected request may be repeated in every interval. Consecutive requests of the same job for the same node
//! therefore count once.

use std::collections::BTreeMap;
use std::io;

use base::{JobId, Nanos, NodeId, TaskId};
use engine::{Sink, TurnRecord};
use sched::{Action, Cause, CounterEvent, JobEvent, OutcomeResult, Target};
use topology::Machine;

/// Counts of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct ActionCounts {
    /// From the start to the end of the last job.
    pub whole: Counts,
    /// From [`STEADY_FROM`] to the end of the first job: no job starts or ends.
    pub steady: Counts,
    n_caches: usize,
    has_ended: bool,
    last_request: BTreeMap<JobId, NodeId>,
    placed_at: BTreeMap<JobId, Nanos>,
    counts: BTreeMap<TaskId, (u64, u64)>,
    cache_of: BTreeMap<JobId, usize>,
}

/// Counts of a part of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Requests to migrate pages; consecutive ones for one node count once.
    pub n_requested: u64,
    /// Page migrations that passed the guard and were started by the host.
    pub n_started: u64,
    /// The same by job.
    pub n_started_of: BTreeMap<JobId, u64>,
    /// Bytes that migrated to another node.
    pub bytes: u64,
    /// Placements of running jobs.
    pub n_placed: u64,
    /// Migrations between caches if ranks were assigned by the rates of the last interval alone.
    pub n_undamped: u64,
    /// Length of the part.
    pub time: Nanos,
}

/// Twice the window of DI and DINO: their reaction to the start of the programs is over.
pub(super) const STEADY_FROM: Nanos = Nanos::from_secs(20);

impl Counts {
    /// A count as a rate per hour.
    pub fn per_hour(&self, n: u64) -> f64 {
        match self.time {
            Nanos::ZERO => 0.0,
            time => n as f64 / time.as_secs_f64() * 3600.0,
        }
    }

    fn add(&mut self, other: &Counts) {
        self.n_requested += other.n_requested;
        self.n_started += other.n_started;
        self.bytes += other.bytes;
        self.n_placed += other.n_placed;
        self.n_undamped += other.n_undamped;
        for (job, n) in &other.n_started_of {
            *self.n_started_of.entry(*job).or_default() += n;
        }
    }
}

impl ActionCounts {
    pub fn new(machine: &Machine) -> Self {
        ActionCounts { n_caches: machine.llcs().len(), ..ActionCounts::default() }
    }

    fn count_requests(&mut self, record: &TurnRecord<'_>, now: &mut Counts) {
        for request in &record.plan.requests {
            let (Target::Job(job), Action::MovePages { to, .. }) =
                (request.target, &request.action)
            else {
                continue;
            };
            let is_new = self.last_request.insert(job, *to) != Some(*to);
            now.n_requested += u64::from(is_new);
        }
    }

    fn count_outcomes(&mut self, record: &TurnRecord<'_>, now: &mut Counts) {
        for outcome in record.outcomes {
            let Target::Job(job) = outcome.target else { continue };
            match (&outcome.action, &outcome.result) {
                (Some(Action::MovePages { .. }), OutcomeResult::InProgress) => {
                    now.n_started += 1;
                    *now.n_started_of.entry(job).or_default() += 1;
                }
                (Some(Action::Place(_)), OutcomeResult::Done { .. }) => {
                    let before = self.placed_at.insert(job, record.turn.at);
                    now.n_placed += u64::from(before.is_some());
                }
                _ => {}
            }
        }
        now.bytes +=
            record.sample.page_moves_completed.iter().map(|moved| moved.moved.0).sum::<u64>();
    }

    /// Assigns ranks by the misses of this interval alone to caches, rounded as in the released code.
    fn count_undamped(&mut self, record: &TurnRecord<'_>, now: &mut Counts) {
        let mut fresh: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
        for task in &record.sample.tasks {
            let of = |event| Some(task.counters.get(event)?.value);
            let (Some(misses), Some(done)) =
                (of(CounterEvent::LlcMisses), of(CounterEvent::Instructions))
            else {
                continue;
            };
            let before = self.counts.insert(task.task, (misses, done)).unwrap_or_default();
            let sum = fresh.entry(task.job).or_default();
            sum.0 += misses.saturating_sub(before.0);
            sum.1 += done.saturating_sub(before.1);
        }
        let mut ranked: Vec<(std::cmp::Reverse<u64>, JobId)> = fresh
            .iter()
            .filter_map(|(job, (misses, done))| {
                let per_1000 = (misses * 1000 + done / 2).checked_div(*done)?;
                Some((std::cmp::Reverse(per_1000), *job))
            })
            .collect();
        ranked.sort_unstable();
        for (rank, (_, job)) in ranked.into_iter().enumerate() {
            let cache = rank % self.n_caches.max(1);
            let before = self.cache_of.insert(job, cache);
            now.n_undamped += u64::from(before.is_some_and(|before| before != cache));
        }
    }
}

impl Sink for ActionCounts {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let mut now = Counts::default();
        self.count_requests(record, &mut now);
        self.count_outcomes(record, &mut now);
        if record.turn.causes.contains(&Cause::Interval) {
            self.count_undamped(record, &mut now);
        }
        let (at, ended) = (record.turn.at, |event: &JobEvent| matches!(event, JobEvent::Ended(..)));
        let ends = record.sample.jobs.iter().any(ended);
        self.whole.add(&now);
        if ends {
            self.whole.time = at;
            if !self.has_ended {
                self.steady.time = at.saturating_sub(STEADY_FROM);
            }
            self.has_ended = true;
        }
        if STEADY_FROM <= at && !self.has_ended {
            self.steady.add(&now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::{Bytes, CpuSet};
    use sched::{Outcome, Plan, Reason, ReasonCode, Sample, Turn};

    use super::*;

    /// A turn with a request to migrate a job's pages, which is started or not.
    fn turn(counts: &mut ActionCounts, second: u64, to: u32, is_started: bool) {
        let (job, to) = (JobId(0), NodeId(to));
        let pages = Action::MovePages { from: None, to, limit: Action::NO_LIMIT };
        let mut plan = Plan::default();
        plan.request(
            job,
            pages.clone(),
            Reason::new(ReasonCode::new("memory-moves-with-job", "a test")),
        );
        let result = OutcomeResult::InProgress;
        let started = Outcome { target: job.into(), action: Some(pages.clone()), result };
        let outcomes = if is_started { vec![started] } else { Vec::new() };
        let turn =
            Turn { number: second, at: Nanos::from_secs(second), causes: vec![Cause::Interval] };
        let record = TurnRecord {
            turn: &turn,
            sample: &Sample::default(),
            loads: None,
            load_basis: None,
            signals: None,
            plan: &plan,
            rejected: &[],
            outcomes: &outcomes,
        };
        counts.record(&record).expect("counting cannot fail");
    }

    fn counts() -> ActionCounts {
        ActionCounts::new(&Machine::synthetic("nodes=2 cores=2").expect("a machine"))
    }

    #[test]
    fn a_request_that_is_repeated_until_it_starts_counts_once() {
        let mut counts = counts();
        (1..=9).for_each(|second| turn(&mut counts, second, 1, second == 9));
        turn(&mut counts, 10, 0, false);
        assert_eq!((counts.whole.n_requested, counts.whole.n_started), (2, 1));
    }

    #[test]
    fn actions_of_the_first_seconds_are_not_steady() {
        let mut counts = counts();
        [5, 19, 20, 30].into_iter().for_each(|second| {
            turn(&mut counts, second, u32::from(second % 10 == 0), true);
        });
        assert_eq!((counts.whole.n_started, counts.steady.n_started), (4, 2));
    }

    #[test]
    fn a_rate_of_no_time_is_zero() {
        let counts = Counts { n_requested: 3, time: Nanos::from_secs(1800), ..Counts::default() };
        assert_eq!((counts.per_hour(3), Counts::default().per_hour(3)), (6.0, 0.0));
    }

    #[test]
    fn a_start_is_not_a_placement_of_a_running_job() {
        let mut counts = counts();
        let mut now = Counts::default();
        for second in 0..2 {
            let at = Turn { number: 0, at: Nanos::from_secs(second), causes: Vec::new() };
            let action = Action::Place(CpuSet::from_iter([base::CpuId(second as u32)]));
            let result = OutcomeResult::Done { n: 1 };
            let outcome = Outcome { target: JobId(0).into(), action: Some(action), result };
            let record = TurnRecord {
                turn: &at,
                sample: &Sample::default(),
                loads: None,
                load_basis: None,
                signals: None,
                plan: &Plan::default(),
                rejected: &[],
                outcomes: &[outcome],
            };
            counts.count_outcomes(&record, &mut now);
        }
        assert_eq!((now.n_placed, Bytes(now.bytes)), (1, Bytes::ZERO));
    }
}
