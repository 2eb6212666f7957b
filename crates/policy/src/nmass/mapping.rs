//! The map of jobs to processors, in three steps. The steps use numbers of slots.
//!
//! The map is computed in each turn from homes, penalties and misses, which are averages, and from the current domains,
//! which resolve ties. With equal inputs every job stays. Exception: if the second step selects a domain because of a
//! tie and the third step migrates the job away from that domain, the job can migrate in every interval.
//!
//! ```text
//!   refine:  H = most pressure, L = least, D = pressure[H] - pressure[L]  ties: number
//!            of the jobs on H, the lowest penalty first                   ties: already on L, number
//!              L has free slots       ─► the job migrates
//!              else the job on L with the fewest misses, if fewer, and if it may run on H ─► they swap
//!            if the larger of both pressures decreases; else the next job; none: done
//! ```
//!
//! Each migration of the third step lowers the larger of two pressures, so the loop terminates.

use std::cmp::Reverse;

use sched::Snapshot;
use topology::Level;

use super::declaration::Refine;
use super::history::{Home, Penalty};
use crate::slots::{DomainSlots, MovableJob, PlacementJobs};

/// A job with its home, penalty and misses.
#[derive(Clone, Debug)]
pub(super) struct NmassJob<'s> {
    pub job: MovableJob<'s>,
    pub home: Home,
    pub penalty: Penalty,
    /// Thousandths of a miss per 1000 instructions; `None`: unknown.
    pub mpki: Option<u64>,
}

/// The domain of a job, and the decision for this domain.
#[derive(Clone, Debug)]
pub(super) struct NmassAssignment {
    pub domain: usize,
    pub decision: Decision,
}

/// The decision for a domain.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// The home had this number of free slots.
    Home { free: u32, slots: u32 },
    /// The home had no free slot. The values apply to the least occupied other processor.
    HomeFull { taken: u32, slots: u32 },
    /// The job has no home, and stays.
    Stays,
    /// The job has no home and no domain yet.
    NoHome { taken: u32, slots: u32 },
    /// No processor had a free slot.
    Full { taken: u32, slots: u32 },
    /// The third step migrated the job.
    Pressure(PressureMigration),
}

/// A migration of the third step; jobs by index.
#[derive(Clone, Copy, Debug)]
pub(super) struct PressureMigration {
    pub from: usize,
    pub to: usize,
    /// The job that migrates.
    pub job_idx: usize,
    /// The job that swaps with the migrating job, if there is no free slot.
    pub swapped_with: Option<usize>,
    /// Pressures before the migration.
    pub before: PressurePair,
    /// The largest accepted penalty, in permille.
    pub penalty_max: u64,
}

/// The largest and the smallest pressure.
#[derive(Clone, Copy, Debug)]
pub(super) struct PressurePair {
    pub high: u64,
    pub low: u64,
}

/// Performs all three steps. `pressure` is the pressure of the fixed jobs on each processor.
pub(super) fn map(
    refine: Option<&Refine>,
    snapshot: &Snapshot<'_>,
    placement_jobs: &PlacementJobs<'_>,
    jobs: &[NmassJob<'_>],
    pressure: Vec<u64>,
) -> Vec<NmassAssignment> {
    let mut map = Map {
        snapshot,
        jobs,
        slots: DomainSlots::of(snapshot, placement_jobs),
        assignments: vec![None; jobs.len()],
        pressure,
    };
    for job_idx in by_penalty(jobs) {
        if let Some(assignment) = map.home_or_nearest(job_idx) {
            map.put(job_idx, assignment);
        }
    }
    if let Some(refine) = refine {
        map.refine(refine);
    }
    // Every movable job may run on some domain, so each job has an assignment.
    map.assignments.into_iter().flatten().collect()
}

/// Returns the indices of all jobs; the job with the highest penalty is first.
fn by_penalty(jobs: &[NmassJob<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&job_idx| (Reverse(jobs[job_idx].penalty.permille), job_idx));
    order
}

struct Map<'a, 's> {
    snapshot: &'a Snapshot<'a>,
    jobs: &'a [NmassJob<'s>],
    slots: DomainSlots,
    assignments: Vec<Option<NmassAssignment>>,
    pressure: Vec<u64>,
}

impl Map<'_, '_> {
    fn put(&mut self, job_idx: usize, assignment: NmassAssignment) {
        let nmass_job = &self.jobs[job_idx];
        self.slots.add(self.snapshot, &nmass_job.job, assignment.domain);
        self.pressure[assignment.domain] =
            self.pressure[assignment.domain].saturating_add(nmass_job.pressure());
        self.assignments[job_idx] = Some(assignment);
    }

    fn take(&mut self, job_idx: usize) {
        let nmass_job = &self.jobs[job_idx];
        let Some(assignment) = self.assignments[job_idx].take() else { return };
        self.slots.remove(self.snapshot, &nmass_job.job, assignment.domain);
        self.pressure[assignment.domain] =
            self.pressure[assignment.domain].saturating_sub(nmass_job.pressure());
    }

    /// Performs the second step for one job: its home, else the least occupied processor.
    fn home_or_nearest(&self, job_idx: usize) -> Option<NmassAssignment> {
        let NmassJob { job, home, .. } = &self.jobs[job_idx];
        let all = || 0..self.snapshot.domains.len();
        let is_home = |idx: &usize| {
            home.node.is_some_and(|node| self.snapshot.domains.get(*idx).node == Some(node))
        };
        let fits = |idx: &usize| self.slots.fits(self.snapshot, job, *idx);
        let is_allowed = |idx: &usize| DomainSlots::allows(self.snapshot, job, *idx);
        // If several caches are at home, the job stays on its current cache.
        let current = job.now.filter(|idx| is_home(idx) && fits(idx));
        let at_home = || self.least_occupied(job, all().filter(is_home).filter(fits));
        if let Some(to) = current.or_else(at_home) {
            let (free, slots) = (self.slots.free(to), self.slots.total(to));
            return Some(NmassAssignment { domain: to, decision: Decision::Home { free, slots } });
        }
        // A job without a home stays.
        if let Some(to) = job.now.filter(|idx| home.node.is_none() && fits(idx)) {
            return Some(NmassAssignment { domain: to, decision: Decision::Stays });
        }
        let with_free_slot = self.least_occupied(job, all().filter(fits));
        let to =
            with_free_slot.or_else(|| self.slots.least_occupied(job, all().filter(is_allowed)))?;
        let (taken, slots) = (self.slots.taken(to), self.slots.total(to));
        let decision = match (with_free_slot, home.node) {
            (None, _) => Decision::Full { taken, slots },
            (Some(_), None) => Decision::NoHome { taken, slots },
            (Some(_), Some(_)) => Decision::HomeFull { taken, slots },
        };
        Some(NmassAssignment { domain: to, decision })
    }

    /// Returns the least occupied domain of a list. Ties: the domain with the fewest unmapped running jobs, so that no
    /// job migrates while another domain is idle.
    fn least_occupied(
        &self,
        job: &MovableJob<'_>,
        among: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        if self.snapshot.domains.level() == Level::Node {
            return self.slots.least_occupied(job, among);
        }
        let among: Vec<usize> = among.collect();
        let least = among.iter().copied().min_by(|&a, &b| self.slots.compare(a, b))?;
        let equal = among.into_iter().filter(|&idx| self.slots.compare(idx, least).is_eq());
        equal.min_by_key(|&idx| (self.n_unmapped(job, idx), job.now != Some(idx), idx))
    }

    /// Returns the number of other jobs that run on a domain and are not mapped yet.
    fn n_unmapped(&self, job: &MovableJob<'_>, idx: usize) -> usize {
        let is_there = |(job_idx, assignment): &(usize, &Option<NmassAssignment>)| {
            let other = &self.jobs[*job_idx].job;
            assignment.is_none() && other.now == Some(idx) && other.job.job.id != job.job.job.id
        };
        self.assignments.iter().enumerate().filter(is_there).count()
    }

    /// Performs the third step: migrations from the processor with the largest pressure.
    fn refine(&mut self, refine: &Refine) {
        while let Some(migration) = self.next_migration(refine) {
            self.take(migration.job_idx);
            migration.swapped_with.into_iter().for_each(|other| self.take(other));
            self.put(
                migration.job_idx,
                NmassAssignment { domain: migration.to, decision: Decision::Pressure(migration) },
            );
            if let Some(other) = migration.swapped_with {
                self.put(
                    other,
                    NmassAssignment {
                        domain: migration.from,
                        decision: Decision::Pressure(migration),
                    },
                );
            }
        }
    }

    /// Returns the next migration from the processor with the largest pressure, if a migration reduces the pressure.
    fn next_migration(&self, refine: &Refine) -> Option<PressureMigration> {
        let n = self.pressure.len();
        let from = (0..n).rev().max_by_key(|&idx| self.pressure[idx])?;
        let to = (0..n).min_by_key(|&idx| self.pressure[idx])?;
        let before = PressurePair { high: self.pressure[from], low: self.pressure[to] };
        let difference = before.high - before.low;
        if difference <= refine.d_min.permille() {
            return None;
        }
        let penalty_max = refine.penalty_max(difference);
        let may_migrate = |job_idx: usize, to: usize| {
            let NmassJob { job, home, penalty, .. } = &self.jobs[job_idx];
            let is_home = home.node.is_none() || self.snapshot.domains.get(to).node == home.node;
            DomainSlots::allows(self.snapshot, job, to)
                && (is_home || penalty.permille <= penalty_max)
        };
        let mut candidates: Vec<usize> =
            self.jobs_on(from).filter(|&job_idx| may_migrate(job_idx, to)).collect();
        candidates.sort_by_key(|&job_idx| {
            let NmassJob { job, penalty, .. } = &self.jobs[job_idx];
            (penalty.permille, job.now != Some(to), job_idx)
        });
        candidates.into_iter().find_map(|job_idx| {
            let fits = self.slots.fits(self.snapshot, &self.jobs[job_idx].job, to);
            let swapped_with = match (fits, refine.swap) {
                (true, _) => None,
                (false, false) => return None,
                (false, true) => Some(self.swapped_with(job_idx, from, to, may_migrate)?),
            };
            let migration =
                PressureMigration { from, to, job_idx, swapped_with, before, penalty_max };
            let after = migration.after(self.jobs);
            (after.high.max(after.low) < before.high).then_some(migration)
        })
    }

    /// Returns the job on `to` that swaps with a job on `from`: the job with the fewest misses among the jobs that have
    /// fewer misses and may migrate.
    fn swapped_with(
        &self,
        job_idx: usize,
        from: usize,
        to: usize,
        may_migrate: impl Fn(usize, usize) -> bool,
    ) -> Option<usize> {
        let job = &self.jobs[job_idx].job;
        let fits = |other: usize| {
            let other_job = &self.jobs[other].job;
            let need =
                |job: &MovableJob<'_>, idx: usize| self.slots.needed(self.snapshot, job, idx);
            need(job, to) <= self.slots.free(to) + need(other_job, to)
                && need(other_job, from) <= self.slots.free(from) + need(job, from)
        };
        let pressure_of = |job_idx: usize| self.jobs[job_idx].pressure();
        let better = |other: &usize| pressure_of(*other) < pressure_of(job_idx) && fits(*other);
        let partners = self.jobs_on(to).filter(better).filter(|&other| may_migrate(other, from));
        partners.min_by_key(|&other| (pressure_of(other), other))
    }

    /// Returns the jobs mapped to a processor.
    fn jobs_on(&self, idx: usize) -> impl Iterator<Item = usize> + '_ {
        let is_there = move |assignment: &Option<NmassAssignment>| {
            assignment.as_ref().is_some_and(|assignment| assignment.domain == idx)
        };
        self.assignments
            .iter()
            .enumerate()
            .filter(move |(_, assignment)| is_there(assignment))
            .map(|(job_idx, _)| job_idx)
    }
}

impl NmassJob<'_> {
    /// Returns the contribution of the job to the pressure; 0 if its misses are unknown.
    fn pressure(&self) -> u64 {
        self.mpki.unwrap_or(0).saturating_mul(u64::from(self.job.threads))
    }
}

impl Refine {
    /// Returns the largest accepted penalty, 1 + k × difference, in permille.
    fn penalty_max(&self, difference_milli: u64) -> u64 {
        let penalty = u128::from(difference_milli) * u128::from(self.k.0) / 1_000_000;
        u64::try_from(penalty).unwrap_or(u64::MAX).saturating_add(1000)
    }
}

impl PressureMigration {
    /// Returns the pressures after the migration.
    pub fn after(&self, jobs: &[NmassJob<'_>]) -> PressurePair {
        let leaving = jobs[self.job_idx].pressure();
        let arriving = self.swapped_with.map_or(0, |other| jobs[other].pressure());
        PressurePair {
            high: self.before.high.saturating_sub(leaving).saturating_add(arriving),
            low: self.before.low.saturating_sub(arriving).saturating_add(leaving),
        }
    }
}
