//! What policies wished and what was done, counted while runs pass.
//!
//! ```text
//!   plan ── a wish to move memory ─┬─ the guard refuses it: one under way, to and fro too often, over budget …
//!                                  └─ begun ─► ended: so many bytes came over
//! ```
//!
//! A wish that is refused may be wished again in the next interval, so wishes that follow each other to the same
//! node, of the same job, count once: a policy that asks in vain ten times wanted one move.

use std::collections::BTreeMap;
use std::io;

use base::{JobId, Nanos, NodeId, TaskId};
use engine::{Sink, TurnRecord};
use sched::{Action, Cause, CounterEvent, JobEvent, OutcomeResult, Target};
use topology::Machine;

/// The counts of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    /// From the start to the end of the last job.
    pub whole: Counts,
    /// From [`STEADY_FROM`] to the end of the first job: nobody comes, and nobody goes.
    pub steady: Counts,
    n_caches: usize,
    has_ended: bool,
    last_wish: BTreeMap<JobId, NodeId>,
    placed_at: BTreeMap<JobId, Nanos>,
    counts: BTreeMap<TaskId, (u64, u64)>,
    dealt: BTreeMap<JobId, usize>,
}

/// What happened in a stretch of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Wishes to move memory, those after each other to one node once.
    pub n_wished: u64,
    /// Those that the guard let through and the host began.
    pub n_begun: u64,
    /// Of them those of each job.
    pub n_begun_of: BTreeMap<JobId, u64>,
    /// Bytes that came to another node.
    pub bytes: u64,
    /// Placements of jobs that ran already.
    pub n_placed: u64,
    /// What a deal by the last interval's rates alone would have moved between caches.
    pub n_undamped: u64,
    /// How long it was.
    pub time: Nanos,
}

/// Twice what DI and DINO remember: what they do because programs have just started is over then.
pub(super) const STEADY_FROM: Nanos = Nanos::from_secs(20);

impl Counts {
    /// So many in an hour.
    pub fn per_hour(&self, n: u64) -> f64 {
        match self.time {
            Nanos::ZERO => 0.0,
            time => n as f64 / time.as_secs_f64() * 3600.0,
        }
    }

    fn add(&mut self, other: &Counts) {
        self.n_wished += other.n_wished;
        self.n_begun += other.n_begun;
        self.bytes += other.bytes;
        self.n_placed += other.n_placed;
        self.n_undamped += other.n_undamped;
        for (job, n) in &other.n_begun_of {
            *self.n_begun_of.entry(*job).or_default() += n;
        }
    }
}

impl Counted {
    pub fn new(machine: &Machine) -> Self {
        Counted { n_caches: machine.llcs().len(), ..Counted::default() }
    }

    fn take_wishes(&mut self, record: &TurnRecord<'_>, now: &mut Counts) {
        for ask in &record.plan.requests {
            let (Target::Job(job), Action::MovePages { to, .. }) = (ask.target, &ask.action) else {
                continue;
            };
            let is_new = self.last_wish.insert(job, *to) != Some(*to);
            now.n_wished += u64::from(is_new);
        }
    }

    fn take_deeds(&mut self, record: &TurnRecord<'_>, now: &mut Counts) {
        for outcome in record.outcomes {
            let Target::Job(job) = outcome.target else { continue };
            match (&outcome.action, &outcome.result) {
                (Some(Action::MovePages { .. }), OutcomeResult::InProgress) => {
                    now.n_begun += 1;
                    *now.n_begun_of.entry(job).or_default() += 1;
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

    /// Ranks by the misses of this interval alone, rounded as the released code does, dealt out to caches.
    fn deal(&mut self, record: &TurnRecord<'_>, now: &mut Counts) {
        let mut fresh: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
        for task in &record.sample.tasks {
            let of = |event| task.counters.get(event).value();
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
            let before = self.dealt.insert(job, cache);
            now.n_undamped += u64::from(before.is_some_and(|before| before != cache));
        }
    }
}

impl Sink for Counted {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let mut now = Counts::default();
        self.take_wishes(record, &mut now);
        self.take_deeds(record, &mut now);
        if record.turn.causes.contains(&Cause::Interval) {
            self.deal(record, &mut now);
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

    /// A turn in which a job's memory is wished on a node, and that is begun or not.
    fn turn(counted: &mut Counted, second: u64, to: u32, is_begun: bool) {
        let (job, to) = (JobId(0), NodeId(to));
        let pages = Action::MovePages { from: None, to, limit: Action::NO_LIMIT };
        let mut plan = Plan::default();
        plan.request(job, pages.clone(), Reason::new(ReasonCode::MemoryGoesAlong));
        let result = OutcomeResult::InProgress;
        let begun = Outcome { target: job.into(), action: Some(pages.clone()), result };
        let outcomes = if is_begun { vec![begun] } else { Vec::new() };
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
        counted.record(&record).expect("counting cannot fail");
    }

    fn counted() -> Counted {
        Counted::new(&Machine::synthetic("nodes=2 cores=2").expect("a machine"))
    }

    #[test]
    fn a_wish_that_is_repeated_until_it_is_granted_is_one_wish() {
        let mut counted = counted();
        (1..=9).for_each(|second| turn(&mut counted, second, 1, second == 9));
        turn(&mut counted, 10, 0, false);
        assert_eq!((counted.whole.n_wished, counted.whole.n_begun), (2, 1));
    }

    #[test]
    fn what_happens_because_programs_have_just_started_is_not_steady() {
        let mut counted = counted();
        [5, 19, 20, 30].into_iter().for_each(|second| {
            turn(&mut counted, second, u32::from(second % 10 == 0), true);
        });
        assert_eq!((counted.whole.n_begun, counted.steady.n_begun), (4, 2));
    }

    #[test]
    fn a_rate_of_no_time_is_nothing() {
        let counts = Counts { n_wished: 3, time: Nanos::from_secs(1800), ..Counts::default() };
        assert_eq!((counts.per_hour(3), Counts::default().per_hour(3)), (6.0, 0.0));
    }

    #[test]
    fn a_start_is_no_placement_of_what_runs() {
        let mut counted = counted();
        let mut now = Counts::default();
        for second in 0..2 {
            let at = Turn { number: 0, at: Nanos::from_secs(second), causes: Vec::new() };
            let deed = Action::Place(CpuSet::from_iter([base::CpuId(second as u32)]));
            let result = OutcomeResult::Done { n: 1 };
            let outcome = Outcome { target: JobId(0).into(), action: Some(deed), result };
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
            counted.take_deeds(&record, &mut now);
        }
        assert_eq!((now.n_placed, Bytes(now.bytes)), (1, Bytes::ZERO));
    }
}
