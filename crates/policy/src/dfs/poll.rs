//! Whether something has to move: once an interval.
//!
//! ```text
//!   S = sum of loads, nothing to do if it is 0
//!   H = domain with the largest load, L = with the smallest          ties: number
//!   too uneven?   load[H] > factor × S/n    or    load[H] >= 2 × load[L]
//!   v = job on H with the highest class                              ties: started last, number
//!   v goes to the CPU of L with the fewest programs
//! ```
//!
//! Everything in whole numbers. Only jobs that are ours to move and may run on L are looked at, and
//! (with `reading=ours`) none that was moved lately, none that is alone on H, and nothing at all
//! when there is too little load to matter.

use std::cmp::Reverse;

use sched::{Action, Code, JobSeen, JobState, Plan, Reason, Snapshot};

use super::Dfs;
use super::config::{Factor, MILLION, MinLoad, OnlyJob, Trigger};
use super::table::{class_of, is_stretched};
use crate::common::cpus_label;

/// The two ends of an imbalance that is too much.
#[derive(Clone, Copy)]
struct Uneven {
    most: usize,
    least: usize,
    total: u128,
}

/// How many times the smallest load the largest must be with `trigger=ratio` [published].
const RATIO: u64 = 2;

impl Dfs {
    /// Looks at the loads of the interval that went by and moves what has to move.
    pub(super) fn poll(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        self.n_polls += seen.n_intervals.max(1);
        if !seen.loads.readable {
            self.could_not_read(plan);
            return;
        }
        self.n_failures = 0;
        self.expected.reset(seen.domains.len());
        self.shown.learn(seen);
        let mut loads = seen.loads.loads.clone();
        for _ in 0..self.config.migrations_per_poll {
            let Some(uneven) = self.uneven(&loads) else { return };
            let Some(victim) = self.victim(seen, uneven, plan) else { return };
            self.move_away(seen, victim, uneven, &loads, plan);
            // For a second move in the same poll the first counts as done.
            let carried = victim.load.min(loads[uneven.most]);
            loads[uneven.most] -= carried;
            loads[uneven.least] = loads[uneven.least].saturating_add(carried);
        }
    }

    fn could_not_read(&mut self, plan: &mut Plan) {
        self.n_failures += 1;
        if self.config.failures <= self.n_failures {
            let reason = Reason::new(Code::CountersUnreadable);
            plan.give_up = Some(reason.with("n_failures", self.n_failures));
        }
    }

    fn uneven(&self, loads: &[u64]) -> Option<Uneven> {
        let total: u128 = loads.iter().copied().map(u128::from).sum();
        if total == 0 || total < self.min_load() {
            return None;
        }
        let most = (0..loads.len()).rev().max_by_key(|&idx| loads[idx])?;
        let least = (0..loads.len()).min_by_key(|&idx| loads[idx])?;
        let (highest, n) = (u128::from(loads[most]), loads.len() as u128);
        let too_much = match self.config.trigger {
            Trigger::Ratio => u128::from(RATIO) * u128::from(loads[least]) <= highest,
            Trigger::MeanFactor => {
                let (num, den) = self.factor(loads.len() as u64);
                total * u128::from(num) < highest * n * u128::from(den)
            }
        };
        (too_much && most != least).then_some(Uneven { most, least, total })
    }

    fn min_load(&self) -> u128 {
        match self.config.min_load {
            MinLoad::Ops(ops) => u128::from(ops),
            MinLoad::OfPeak(millionths) => {
                u128::from(self.shown.peak()) * u128::from(millionths) / u128::from(MILLION)
            }
        }
    }

    pub(super) fn factor(&self, n_domains: u64) -> (u64, u64) {
        match self.config.factor {
            Factor::Auto => (2 * n_domains, n_domains + 1),
            Factor::Fixed { num, den } => (num, den),
        }
    }

    /// The job with the highest class on the busiest domain, among those that may be moved from it
    /// to the other.
    fn victim<'s>(
        &self,
        seen: &'s Snapshot<'_>,
        uneven: Uneven,
        plan: &Plan,
    ) -> Option<&'s JobSeen<'s>> {
        let alone = self.table.in_domain(uneven.most).n_movable < 2;
        if alone && self.config.only_job == OnlyJob::Stay {
            return None;
        }
        let target = &seen.domains.get(uneven.least).cpus;
        let on_it = seen.jobs.iter().filter(|job| {
            let ours = job.state == JobState::Running && job.movable;
            ours && !is_stretched(seen, job)
                && job.domain == Some(uneven.most)
                && job.allowed.intersects(target)
        });
        let free = on_it.filter(|job| {
            let moved_now = plan.asks.iter().any(|ask| ask.target == job.job.id.into());
            !moved_now && !self.rests(job.job.id)
        });
        free.max_by_key(|job| (class_of(job), job.started, Reverse(job.job.id)))
    }

    fn move_away(
        &mut self,
        seen: &Snapshot<'_>,
        victim: &JobSeen<'_>,
        uneven: Uneven,
        loads: &[u64],
        plan: &mut Plan,
    ) {
        self.table.leave(victim);
        let cpus = self.take_cpus(seen, victim, uneven.least);
        *self.moved_at.of(victim.job.id) = Some(self.n_polls);
        let reason = self.tell_move(seen, victim, uneven, loads);
        plan.ask(
            victim.job.id,
            Action::Place(cpus.clone()),
            reason.with("cpus", cpus_label(&cpus)),
        );
    }

    fn tell_move(
        &self,
        seen: &Snapshot<'_>,
        victim: &JobSeen<'_>,
        Uneven { most, least, total }: Uneven,
        loads: &[u64],
    ) -> Reason {
        let n_domains = loads.len() as u64;
        let mean = u64::try_from(total / u128::from(n_domains)).unwrap_or(u64::MAX);
        let (code, limit) = match self.config.trigger {
            Trigger::Ratio => (Code::LoadDouble, RATIO.to_string()),
            Trigger::MeanFactor => (Code::LoadUneven, rational(self.factor(n_domains))),
        };
        Reason::new(code)
            .with("from", seen.domains.label(most))
            .with("load_from", loads[most])
            .with("to", seen.domains.label(least))
            .with("load_to", loads[least])
            .with("factor", limit)
            .with("mean", mean)
            .with("class", u64::from(class_of(victim)))
            .with("basis", self.config.class_basis.name().to_owned())
            .with("tier", seen.loads.tier.to_string())
    }
}

/// A rational for people: `4/3`, `2`, `1.5`.
fn rational((num, den): (u64, u64)) -> String {
    let common = greatest_divisor(num, den);
    match (num / common, den / common) {
        (whole, 1) => whole.to_string(),
        (num, den) => format!("{num}/{den}"),
    }
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { greatest_divisor(b, a % b) }
}
