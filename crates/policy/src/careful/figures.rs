//! What every interval came to, job by job, and two stretches of intervals beside each other.
//!
//! ```text
//!             before                     after
//!   job a     . . . . . . . .   moves    . . . . . . . .    compared
//!   job b     . . . . . . . .            . . .              ended: left out of both
//!   job c             . . . .            . . . . . . . .    came late: left out of both
//! ```
//!
//! Only jobs that were there all the time are compared, with themselves: on a machine where programs
//! come and go all the time there would be no two stretches with the same ones.

use std::collections::BTreeSet;

use base::{JobId, Nanos};
use sched::{CounterEvent, JobState, JobView, SignalTier, Snapshot};

use super::judge::{self, Compared, Measure};

/// A job in one of its lives: numbers are used again.
pub(super) type Life = (JobId, Option<Nanos>);

/// The life that a job is in.
pub(super) fn life(job: &JobView<'_>) -> Life {
    (job.job.id, job.started)
}

/// Whether a job is still in this life.
pub(super) fn lives(seen: &Snapshot<'_>, life: Life) -> bool {
    seen.job(life.0).is_some_and(|job| self::life(job) == life)
}

/// What an interval came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interval {
    /// Every job that ran, by life.
    jobs: Vec<(Life, Did)>,
    /// How far the most loaded place was above the mean.
    imbalance: Option<f64>,
}

/// What a job did in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Did {
    /// CPU time, as far as the time spent waiting is known, and that.
    ran: Nanos,
    waited: Nanos,
    /// Instructions, and the CPU time of the tasks of which they were counted.
    instructions: u64,
    counted: Nanos,
}

/// Who is compared of those who ran before and after, and how many are not: who was not there at the
/// end, and who was not there at the beginning. Who came and went is counted in both.
pub(super) struct Company {
    stayed: BTreeSet<Life>,
    pub n_left: usize,
    pub n_came: usize,
}

impl Interval {
    pub(super) fn of(seen: &Snapshot<'_>) -> Self {
        let running = seen.jobs.iter().filter(|job| job.state == JobState::Running);
        let mut jobs: Vec<(Life, Did)> = running
            .map(|job| {
                let (ran, waited) =
                    job.wait.map_or_else(Default::default, |wait| (job.cpu_time, wait));
                (life(job), Did { ran, waited, ..Did::default() })
            })
            .collect();
        jobs.sort_unstable_by_key(|(life, _)| *life);
        for task in seen.tasks {
            let Some(count) = task.counters.get(CounterEvent::Instructions) else { continue };
            let Ok(at) = jobs.binary_search_by_key(&task.job, |((job, _), _)| *job) else {
                continue;
            };
            let did = &mut jobs[at].1;
            did.instructions = did.instructions.saturating_add(count);
            did.counted = did.counted.saturating_add(task.cpu_time);
        }
        Interval { jobs, imbalance: imbalance(seen) }
    }

    pub(super) fn lives(&self) -> impl Iterator<Item = Life> {
        self.jobs.iter().map(|(life, _)| *life)
    }

    fn of_those(&self, company: &Company, measure: Measure) -> Option<f64> {
        let did = self.jobs.iter().filter(|(life, _)| company.stayed.contains(life));
        let sum = did.fold(Did::default(), |sum, (_, did)| sum.plus(did));
        match measure {
            Measure::Instructions => sum.instructions_per_second(),
            Measure::Waiting => sum.waiting(),
            // The loads are those of all, also of those that came and went.
            Measure::Imbalance => self.imbalance.filter(|_| company.is_unchanged()),
        }
    }
}

impl Did {
    fn plus(self, more: &Did) -> Did {
        Did {
            ran: self.ran.saturating_add(more.ran),
            waited: self.waited.saturating_add(more.waited),
            instructions: self.instructions.saturating_add(more.instructions),
            counted: self.counted.saturating_add(more.counted),
        }
    }

    /// Millions of instructions per CPU second.
    fn instructions_per_second(&self) -> Option<f64> {
        let is_counted = self.counted != Nanos::ZERO;
        is_counted.then(|| self.instructions as f64 / self.counted.as_secs_f64() / 1e6)
    }

    fn waiting(&self) -> Option<f64> {
        let all = self.waited.0.saturating_add(self.ran.0);
        (all != 0).then(|| self.waited.0 as f64 / all as f64)
    }
}

impl Company {
    fn of(before: &[Interval], after: &[Interval]) -> Option<Self> {
        let first: BTreeSet<Life> = before.first()?.lives().collect();
        let last: BTreeSet<Life> = after.last()?.lives().collect();
        let all: BTreeSet<Life> = before.iter().chain(after).flat_map(Interval::lives).collect();
        Some(Company {
            n_left: all.difference(&last).count(),
            n_came: all.difference(&first).count(),
            stayed: first.intersection(&last).copied().collect(),
        })
    }

    fn is_unchanged(&self) -> bool {
        self.n_left == 0 && self.n_came == 0
    }
}

fn imbalance(seen: &Snapshot<'_>) -> Option<f64> {
    let loads = &seen.loads.loads;
    let is_counted = matches!(seen.loads.tier, SignalTier::Bandwidth | SignalTier::Counters);
    let most = loads.iter().max().filter(|_| is_counted && seen.loads.readable)?;
    let mean = loads.iter().map(|&load| load as f64).sum::<f64>() / loads.len() as f64;
    (0.0 < mean).then(|| *most as f64 / mean - 1.0)
}

/// Compares two stretches; `None` when nothing was measured of anybody who was there all the time.
pub(super) fn compare(before: &[Interval], after: &[Interval]) -> Option<(Compared, Company)> {
    let company = Company::of(before, after)?;
    let of = |all: &[Interval], measure: Measure| -> Vec<f64> {
        all.iter().filter_map(|interval| interval.of_those(&company, measure)).collect()
    };
    let compared: Vec<Compared> = (Measure::ALL.iter())
        .filter_map(|&measure| judge::compare(measure, &of(before, measure), &of(after, measure)))
        .collect();
    Some((judge::together(&compared)?, company))
}
