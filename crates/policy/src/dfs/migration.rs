//! Migration of jobs at the end of an interval.
//!
//! ```text
//!   S = sum of loads; done if it is 0
//!   H = domain with the largest load, L = with the smallest          ties: number
//!   imbalance     load[H] > factor × S/n    or    load[H] >= 2 × load[L]
//!   v = job on H with the highest class                              ties: started last, number
//!   v migrates to the CPU of L with the fewest jobs
//! ```
//!
//! All values are integers. Candidates are the managed jobs on H that may run on L. With `reading=corrected`, a job
//! within its cool-down is not a candidate, and the only job on H is not a candidate. If the total load is below the
//! minimum, no job migrates.

use std::cmp::Reverse;

use sched::{Action, JobState, JobView, Plan, Reason, Snapshot};

use super::Dfs;
use super::classes::misses_of;
use super::cost::GainAndCost;
use super::declaration::{
    COUNTERS_UNREADABLE, Factor, LOAD_DOUBLE, LOAD_RELIEVED, LOAD_UNEVEN, Loads, MinLoad, OnlyJob,
    PlacementCriterion, Trigger,
};
use crate::declaration::MILLION;
use crate::placement::{cpus_label, permille_text, spans_domains};

/// An imbalance that causes a migration.
#[derive(Clone, Copy)]
struct Imbalance {
    busiest: usize,
    idlest: usize,
    total: u128,
}

/// A migration: the job, its target and the criterion.
struct Migration<'s> {
    victim: &'s JobView<'s>,
    to: usize,
    criterion: Criterion,
}

/// Criterion by which the victim was selected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Criterion {
    Class,
    /// The job had the most misses in the last interval.
    Misses(u64),
    /// The job reduces the sum of slowdowns most, by this value in permille.
    Relief(u64),
}

/// Minimum ratio of the largest load to the smallest with `trigger=ratio`, as published.
const RATIO: u64 = 2;

impl Dfs {
    /// Migrates jobs if the loads of the last interval are uneven.
    pub(super) fn poll(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        self.n_polls += snapshot.n_intervals.max(1);
        if !snapshot.loads.readable {
            self.count_failure(plan);
            return;
        }
        self.n_failures = 0;
        self.expected.reset(snapshot.domains.len());
        self.class_loads.update(snapshot, &self.classes);
        if self.has_pending_page_migrations(snapshot) {
            return;
        }
        let mut loads = snapshot.loads.loads.clone();
        for _ in 0..self.config.migrations_per_poll {
            let Some(imbalance) = self.imbalance(&loads) else { return };
            let Some(migration) = self.select_migration(snapshot, imbalance, &loads, plan) else {
                return;
            };
            self.migrate(snapshot, &migration, imbalance, &loads, plan);
            // Further migrations of the same poll assume that this migration is complete.
            let carried = migration.victim.load.min(loads[imbalance.busiest]);
            loads[imbalance.busiest] -= carried;
            loads[migration.to] = loads[migration.to].saturating_add(carried);
        }
    }

    fn count_failure(&mut self, plan: &mut Plan) {
        self.n_failures += 1;
        if self.config.failures <= self.n_failures {
            let reason = Reason::new(COUNTERS_UNREADABLE);
            plan.abort = Some(reason.with("n_failures", self.n_failures));
        }
    }

    fn imbalance(&self, loads: &[u64]) -> Option<Imbalance> {
        let total: u128 = loads.iter().copied().map(u128::from).sum();
        if total == 0 || total < self.min_load() {
            return None;
        }
        let busiest = (0..loads.len()).rev().max_by_key(|&idx| loads[idx])?;
        let idlest = (0..loads.len()).min_by_key(|&idx| loads[idx])?;
        let (highest, n) = (u128::from(loads[busiest]), loads.len() as u128);
        let is_imbalanced = match self.config.trigger {
            Trigger::Ratio => u128::from(RATIO) * u128::from(loads[idlest]) <= highest,
            Trigger::MeanFactor => {
                let (num, den) = self.factor(loads.len() as u64);
                total * u128::from(num) < highest * n * u128::from(den)
            }
        };
        (is_imbalanced && busiest != idlest).then_some(Imbalance { busiest, idlest, total })
    }

    fn min_load(&self) -> u128 {
        match self.config.min_load {
            MinLoad::Ops(ops) => u128::from(ops),
            MinLoad::OfPeak(millionths) => {
                u128::from(self.class_loads.peak) * u128::from(millionths) / u128::from(MILLION)
            }
        }
    }

    pub(super) fn factor(&self, n_domains: u64) -> (u64, u64) {
        match self.config.factor {
            Factor::Auto => (2 * n_domains, n_domains + 1),
            Factor::Fixed { num, den } => (num, den),
        }
    }

    /// Returns the victim on the busiest domain, and its target.
    fn select_migration<'s>(
        &self,
        snapshot: &'s Snapshot<'_>,
        imbalance: Imbalance,
        loads: &[u64],
        plan: &Plan,
    ) -> Option<Migration<'s>> {
        let alone = self.counts.in_domain[imbalance.busiest].n_movable < 2;
        if alone && self.config.only_job == OnlyJob::Stay {
            return None;
        }
        match self.config.placement {
            PlacementCriterion::Load => self.most_memory_hungry(snapshot, imbalance, loads, plan),
            PlacementCriterion::Sens => self.most_relieving(snapshot, imbalance, loads, plan),
        }
    }

    /// Returns the jobs on the busiest domain that may migrate in this turn.
    fn movable_on<'s>(
        &self,
        snapshot: &'s Snapshot<'_>,
        busiest: usize,
        plan: &Plan,
    ) -> impl Iterator<Item = &'s JobView<'s>> {
        snapshot.jobs.iter().filter(move |job| {
            let is_managed = job.state == JobState::Running && job.movable;
            let migrates =
                || plan.requests.iter().any(|request| request.target == job.job.id.into());
            is_managed
                && job.domain == Some(busiest)
                && !spans_domains(snapshot, job)
                && !migrates()
                && !self.is_cooling_down(job.job.id)
        })
    }

    /// Returns the victim among the jobs that may run on the domain with the lowest load: the job with the highest
    /// class; with `loads=both`, the job with the most misses.
    fn most_memory_hungry<'s>(
        &self,
        snapshot: &'s Snapshot<'_>,
        imbalance: Imbalance,
        loads: &[u64],
        plan: &Plan,
    ) -> Option<Migration<'s>> {
        let target = &snapshot.domains.get(imbalance.idlest).cpus;
        let by_misses = self.config.loads == Loads::Both;
        let misses = |job: &JobView<'_>| misses_of(snapshot, job).filter(|_| by_misses);
        let movable = self.movable_on(snapshot, imbalance.busiest, plan);
        let may_migrate = |job: &&JobView<'_>| {
            let estimate =
                || self.estimate(snapshot, job, loads[imbalance.busiest], imbalance.idlest);
            job.allowed.intersects(target) && self.is_worth(estimate())
        };
        let victim = movable.filter(may_migrate).max_by_key(|job| {
            (misses(job), self.classes.class(job), job.started, Reverse(job.job.id))
        })?;
        let criterion = misses(victim).map_or(Criterion::Class, Criterion::Misses);
        Some(Migration { victim, to: imbalance.idlest, criterion })
    }

    /// Returns the job and the target domain that reduce the sum of predicted slowdowns most; `None` if no pair reduces
    /// the sum. Ties: the higher class of the job, the later start, the lower number; then the smaller load of the
    /// domain.
    fn most_relieving<'s>(
        &self,
        snapshot: &'s Snapshot<'_>,
        imbalance: Imbalance,
        loads: &[u64],
        plan: &Plan,
    ) -> Option<Migration<'s>> {
        let pairs = self.movable_on(snapshot, imbalance.busiest, plan).flat_map(|job| {
            let others = snapshot.domains.iter().filter(move |(idx, domain)| {
                *idx != imbalance.busiest && job.allowed.intersects(&domain.cpus)
            });
            others.map(move |(idx, _)| (job, idx))
        });
        let with_relief = pairs.filter_map(|(job, idx)| {
            let staying = self.slowdown(snapshot, job, imbalance.busiest);
            let relief = staying.checked_sub(self.slowdown(snapshot, job, idx))?;
            let estimate = || self.estimate(snapshot, job, loads[imbalance.busiest], idx);
            (relief != 0 && self.is_worth(estimate())).then_some((relief, job, idx))
        });
        let (relief, victim, to) = with_relief.max_by_key(|&(relief, job, idx)| {
            let order = (self.classes.class(job), job.started, Reverse(job.job.id));
            (relief, order, Reverse(loads.get(idx).copied()), Reverse(idx))
        })?;
        Some(Migration { victim, to, criterion: Criterion::Relief(relief) })
    }

    fn migrate(
        &mut self,
        snapshot: &Snapshot<'_>,
        migration: &Migration<'_>,
        imbalance: Imbalance,
        loads: &[u64],
        plan: &mut Plan,
    ) {
        let victim = migration.victim;
        let reason = self.migration_reason(snapshot, migration, imbalance, loads);
        self.uncount(victim);
        let cpus = self.take_cpus(snapshot, victim, migration.to);
        *self.moved_at.get_or_default(victim.job.id) = Some(self.n_polls);
        self.follow_with_pages(snapshot, victim, migration.to);
        let reason = reason.with("cpus", cpus_label(&cpus));
        plan.request(victim.job.id, Action::Place(cpus), reason);
    }

    fn migration_reason(
        &self,
        snapshot: &Snapshot<'_>,
        migration: &Migration<'_>,
        Imbalance { busiest, idlest, total }: Imbalance,
        loads: &[u64],
    ) -> Reason {
        let n_domains = loads.len() as u64;
        let mean = u64::try_from(total / u128::from(n_domains)).unwrap_or(u64::MAX);
        let (code, limit, trigger) = match self.config.trigger {
            Trigger::Ratio => (LOAD_DOUBLE, RATIO.to_string(), "ratio"),
            Trigger::MeanFactor => (LOAD_UNEVEN, rational(self.factor(n_domains)), "mean_factor"),
        };
        let code = if migration.criterion == Criterion::Class { code } else { LOAD_RELIEVED };
        let reason = Reason::new(code)
            .with("from", snapshot.domains.label(busiest))
            .with("load_from", loads[busiest])
            .with("to", snapshot.domains.label(migration.to))
            .with("load_to", loads[idlest])
            .with("factor", limit)
            .with("mean", mean)
            .with("class", u64::from(self.classes.class(migration.victim).number()));
        let of_victim = |reason: Reason, by: &'static str| {
            let idlest = snapshot.domains.label(idlest);
            reason.with("trigger", trigger).with("idlest", idlest).with("chosen_by", by)
        };
        let reason = match migration.criterion {
            Criterion::Class => reason.with("basis", self.basis(migration.victim)),
            Criterion::Misses(n) => of_victim(reason, "misses").with("misses", n),
            Criterion::Relief(relief) => {
                of_victim(reason, "relief").with("relief", permille_text(relief))
            }
        };
        let reason = reason.with("tier", snapshot.loads.tier.to_string());
        self.with_gain(snapshot, migration, loads[busiest], reason)
    }

    /// Adds gain and cost to the reason, if a minimum ratio is configured.
    fn with_gain(
        &self,
        snapshot: &Snapshot<'_>,
        migration: &Migration<'_>,
        load: u64,
        reason: Reason,
    ) -> Reason {
        if self.config.gain.is_none() {
            return reason;
        }
        let GainAndCost { gain, cost } =
            self.estimate(snapshot, migration.victim, load, migration.to);
        reason.with("gain", gain.to_string()).with("cost", cost.to_string())
    }

    /// Returns the source of a job's class, as a word of the sentence templates.
    fn basis(&self, job: &JobView<'_>) -> &'static str {
        match self.classes.is_counted(job) {
            true => "counted",
            false => "declared",
        }
    }
}

/// Returns a rational number as text: `4/3`, `2`.
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
