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
use sched::{Action, Cause, Deed, OutcomeResult, Quantity, Target, Why};
use topology::Machine;

/// The counts of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    /// Wishes to move memory, those after each other to one node once.
    pub n_wished: u64,
    /// Those that the guard let through and the host began.
    pub n_begun: u64,
    /// Wishes that the guard refused since moves are limited: to and fro, budgets, one under way.
    pub n_limited: u64,
    /// Bytes that came to another node.
    pub bytes: u64,
    /// Placements of jobs that ran already.
    pub n_placed: u64,
    /// What a deal by the last interval's rates alone would have moved between caches.
    pub n_undamped: u64,
    /// When the last job ended.
    pub end: Nanos,
    /// The first two by job.
    pub of_job: BTreeMap<JobId, (u64, u64)>,
    n_caches: usize,
    last_wish: BTreeMap<JobId, NodeId>,
    placed_at: BTreeMap<JobId, Nanos>,
    counts: BTreeMap<TaskId, (u64, u64)>,
    dealt: BTreeMap<JobId, usize>,
}

impl Counted {
    pub fn new(machine: &Machine) -> Self {
        Counted { n_caches: machine.llcs().len(), ..Counted::default() }
    }

    /// So many in an hour of the run.
    pub fn per_hour(&self, n: u64) -> f64 {
        match self.end {
            Nanos::ZERO => 0.0,
            end => n as f64 / end.as_secs_f64() * 3600.0,
        }
    }

    fn take_wishes(&mut self, record: &TurnRecord<'_>) {
        for ask in &record.plan.asks {
            let (Target::Job(job), Action::MovePages { to, .. }) = (ask.target, &ask.action) else {
                continue;
            };
            let is_new = self.last_wish.insert(job, *to) != Some(*to);
            self.n_wished += u64::from(is_new);
            self.of_job.entry(job).or_default().0 += u64::from(is_new);
        }
        let is_limit = |why: Why| matches!(why, Why::Bouncing | Why::OverBudget | Why::Busy);
        let limited = record.refused.iter().filter(|refusal| {
            matches!(refusal.ask.action, Action::MovePages { .. }) && is_limit(refusal.why)
        });
        self.n_limited += limited.count() as u64;
    }

    fn take_deeds(&mut self, record: &TurnRecord<'_>) {
        for outcome in record.outcomes {
            let Target::Job(job) = outcome.target else { continue };
            match (&outcome.deed, &outcome.result) {
                (Deed::MovePages { .. }, OutcomeResult::Begun) => {
                    self.n_begun += 1;
                    self.of_job.entry(job).or_default().1 += 1;
                }
                (Deed::Place(_), OutcomeResult::Done { .. }) => {
                    let before = self.placed_at.insert(job, record.turn.at);
                    self.n_placed += u64::from(before.is_some());
                }
                _ => {}
            }
        }
        self.bytes += record.sample.moved.iter().map(|moved| moved.moved.0).sum::<u64>();
    }

    /// Ranks by the misses of this interval alone, rounded as the released code does, dealt out to caches.
    fn deal(&mut self, record: &TurnRecord<'_>) {
        let mut fresh: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
        for task in &record.sample.tasks {
            let of = |quantity| task.counters.get(quantity).value();
            let (Some(misses), Some(done)) = (of(Quantity::LlcMisses), of(Quantity::Instructions))
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
            self.n_undamped += u64::from(before.is_some_and(|before| before != cache));
        }
    }
}

impl Sink for Counted {
    fn turn(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        self.take_wishes(record);
        self.take_deeds(record);
        if record.turn.causes.contains(&Cause::Interval) {
            self.deal(record);
        }
        let ended = |event: &sched::JobEvent| matches!(event, sched::JobEvent::Ended(..));
        if record.sample.jobs.iter().any(ended) {
            self.end = record.turn.at;
        }
        Ok(())
    }
}
