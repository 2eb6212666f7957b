//! The map of jobs to processors: the three steps, on numbers of slots.
//!
//! The map has no state: each turn computes it from homes, penalties and misses, which are averages, and from the
//! current domains, which decide ties. With equal inputs every job stays, unless the third step migrates a job
//! away from a domain that the second step selected because of a tie: then the job can migrate in every interval.
//!
//! ```text
//!   refine:  H = most pressure, L = least, D = press[H] - press[L]        ties: number
//!            of the jobs on H, the lowest penalty first                   ties: already on L, number
//!              L has free slots       ─► it migrates
//!              else the job on L with the fewest misses, if fewer, and if it may run on H ─► they swap
//!            if the larger of both pressures decreases; else the next job; none: done
//! ```
//!
//! Each step lowers the larger of two pressures, so the loop terminates.

use std::cmp::Reverse;

use sched::Snapshot;
use topology::Level;

use super::declaration::{Config, Refine};
use super::history::{Home, Penalty};
use crate::slots::{DomainSlots, MovableJob, PlacementJobs};

/// A job with its home, penalty and misses.
#[derive(Clone, Debug)]
pub(super) struct Process<'s> {
    pub job: MovableJob<'s>,
    pub home: Home,
    pub penalty: Penalty,
    /// Thousandths of a miss per 1000 instructions; `None`: unknown.
    pub mpki: Option<u64>,
}

/// The domain of a job, and the last step that decided it.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub domain: usize,
    pub decision: Decision,
}

/// The decision for a domain.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// Its home had free slots.
    Home { free: u32, slots: u32 },
    /// Its home had no free slot; slots of the least occupied other processor.
    HomeFull { taken: u32, slots: u32 },
    /// It has no home, and stays.
    Stays,
    /// It has no home and no domain yet.
    NoHome { taken: u32, slots: u32 },
    /// No processor had a free slot.
    Full { taken: u32, slots: u32 },
    /// The third step.
    Pressure(Relief),
}

/// A migration of the third step; jobs by index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relief {
    pub from: usize,
    pub to: usize,
    /// The job that migrates.
    pub victim: usize,
    /// The job that it swaps with, if there is no free slot.
    pub partner: Option<usize>,
    /// Pressures before the migration.
    pub press: PressurePair,
    /// The largest accepted penalty, in permille.
    pub penalty_max: u64,
}

/// The largest and the smallest pressure.
#[derive(Clone, Copy, Debug)]
pub(super) struct PressurePair {
    pub high: u64,
    pub low: u64,
}

/// All three steps. `pressure` is that of the fixed jobs.
pub(super) fn map(
    config: &Config,
    seen: &Snapshot<'_>,
    jobs: &PlacementJobs<'_>,
    processes: &[Process<'_>],
    pressure: Vec<u64>,
) -> Vec<Assignment> {
    let mut map = Map {
        seen,
        processes,
        slots: DomainSlots::of(seen, jobs),
        assignments: vec![None; processes.len()],
        pressure,
    };
    for at in by_penalty(processes) {
        if let Some(assignment) = map.home_or_nearest(at) {
            map.put(at, assignment);
        }
    }
    if let Some(refine) = &config.refine {
        map.refine(refine);
    }
    // Every movable job may run on some domain, so all have an assignment.
    map.assignments.into_iter().flatten().collect()
}

/// Indices, the highest penalty first.
fn by_penalty(processes: &[Process<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..processes.len()).collect();
    order.sort_by_key(|&at| (Reverse(processes[at].penalty.permille), at));
    order
}

struct Map<'a, 's> {
    seen: &'a Snapshot<'a>,
    processes: &'a [Process<'s>],
    slots: DomainSlots,
    assignments: Vec<Option<Assignment>>,
    pressure: Vec<u64>,
}

impl Map<'_, '_> {
    fn put(&mut self, at: usize, assignment: Assignment) {
        let process = &self.processes[at];
        self.slots.add(self.seen, &process.job, assignment.domain);
        self.pressure[assignment.domain] =
            self.pressure[assignment.domain].saturating_add(process.pressure());
        self.assignments[at] = Some(assignment);
    }

    fn take(&mut self, at: usize) {
        let process = &self.processes[at];
        let Some(assignment) = self.assignments[at].take() else { return };
        self.slots.remove(self.seen, &process.job, assignment.domain);
        self.pressure[assignment.domain] =
            self.pressure[assignment.domain].saturating_sub(process.pressure());
    }

    /// The second step for one process.
    fn home_or_nearest(&self, at: usize) -> Option<Assignment> {
        let Process { job, home, .. } = &self.processes[at];
        let all = || 0..self.seen.domains.len();
        let is_home = |idx: &usize| {
            home.node.is_some_and(|node| self.seen.domains.get(*idx).node == Some(node))
        };
        let fits = |idx: &usize| self.slots.fits(self.seen, job, *idx);
        let may = |idx: &usize| DomainSlots::allows(self.seen, job, *idx);
        // Of several caches at home it stays on its own.
        let own = job.now.filter(|idx| is_home(idx) && fits(idx));
        let at_home = || self.emptiest(job, all().filter(is_home).filter(fits));
        if let Some(to) = own.or_else(at_home) {
            let (free, slots) = (self.slots.free(to), self.slots.total(to));
            return Some(Assignment { domain: to, decision: Decision::Home { free, slots } });
        }
        // A job without a home stays.
        if let Some(to) = job.now.filter(|idx| home.node.is_none() && fits(idx)) {
            return Some(Assignment { domain: to, decision: Decision::Stays });
        }
        let with_free_slot = self.emptiest(job, all().filter(fits));
        let to = with_free_slot.or_else(|| self.slots.emptiest(job, all().filter(may)))?;
        let (taken, slots) = (self.slots.taken(to), self.slots.total(to));
        let decision = match (with_free_slot, home.node) {
            (None, _) => Decision::Full { taken, slots },
            (Some(_), None) => Decision::NoHome { taken, slots },
            (Some(_), Some(_)) => Decision::HomeFull { taken, slots },
        };
        Some(Assignment { domain: to, decision })
    }

    /// The emptiest of some domains. Many caches or cores are equally empty: of these, the one that runs the fewest
    /// jobs that are not mapped yet, so that no job migrates while other domains are idle.
    fn emptiest(&self, job: &MovableJob<'_>, among: impl Iterator<Item = usize>) -> Option<usize> {
        if self.seen.domains.level() == Level::Node {
            return self.slots.emptiest(job, among);
        }
        let among: Vec<usize> = among.collect();
        let least = among.iter().copied().min_by(|&a, &b| self.slots.compare(a, b))?;
        let equal = among.into_iter().filter(|&idx| self.slots.compare(idx, least).is_eq());
        equal.min_by_key(|&idx| (self.n_unmapped(job, idx), job.now != Some(idx), idx))
    }

    /// Number of other jobs that run on a domain and are not mapped yet.
    fn n_unmapped(&self, job: &MovableJob<'_>, idx: usize) -> usize {
        let is_there = |(at, assignment): &(usize, &Option<Assignment>)| {
            let other = &self.processes[*at].job;
            assignment.is_none() && other.now == Some(idx) && other.job.job.id != job.job.job.id
        };
        self.assignments.iter().enumerate().filter(is_there).count()
    }

    /// The third step.
    fn refine(&mut self, refine: &Refine) {
        while let Some(relief) = self.next_relief(refine) {
            self.take(relief.victim);
            relief.partner.into_iter().for_each(|other| self.take(other));
            self.put(
                relief.victim,
                Assignment { domain: relief.to, decision: Decision::Pressure(relief) },
            );
            if let Some(other) = relief.partner {
                self.put(
                    other,
                    Assignment { domain: relief.from, decision: Decision::Pressure(relief) },
                );
            }
        }
    }

    /// The next migration from the processor with the most pressure, if any lowers it.
    fn next_relief(&self, refine: &Refine) -> Option<Relief> {
        let n = self.pressure.len();
        let from = (0..n).rev().max_by_key(|&idx| self.pressure[idx])?;
        let to = (0..n).min_by_key(|&idx| self.pressure[idx])?;
        let press = PressurePair { high: self.pressure[from], low: self.pressure[to] };
        let difference = press.high - press.low;
        if difference <= refine.d_min_milli {
            return None;
        }
        let penalty_max = refine.penalty_max(difference);
        let may_go = |at: usize, to: usize| {
            let Process { job, home, penalty, .. } = &self.processes[at];
            let is_home = home.node.is_none() || self.seen.domains.get(to).node == home.node;
            DomainSlots::allows(self.seen, job, to) && (is_home || penalty.permille <= penalty_max)
        };
        let mut candidates: Vec<usize> = self.on(from).filter(|&at| may_go(at, to)).collect();
        candidates.sort_by_key(|&at| {
            let Process { job, penalty, .. } = &self.processes[at];
            (penalty.permille, job.now != Some(to), at)
        });
        candidates.into_iter().find_map(|victim| {
            let fits = self.slots.fits(self.seen, &self.processes[victim].job, to);
            let partner = match (fits, refine.swap) {
                (true, _) => None,
                (false, false) => return None,
                (false, true) => Some(self.partner(victim, from, to, may_go)?),
            };
            let relief = Relief { from, to, victim, partner, press, penalty_max };
            let left = relief.after(self.processes);
            (left.high.max(left.low) < press.high).then_some(relief)
        })
    }

    /// The job on `to` that swaps with a job on `from`: of the jobs with fewer misses that may migrate, the one with
    /// the fewest misses.
    fn partner(
        &self,
        victim: usize,
        from: usize,
        to: usize,
        may_go: impl Fn(usize, usize) -> bool,
    ) -> Option<usize> {
        let job = &self.processes[victim].job;
        let fits = |other: usize| {
            let theirs = &self.processes[other].job;
            let need = |job: &MovableJob<'_>, idx: usize| self.slots.needed(self.seen, job, idx);
            need(job, to) <= self.slots.free(to) + need(theirs, to)
                && need(theirs, from) <= self.slots.free(from) + need(job, from)
        };
        let pressure_of = |at: usize| self.processes[at].pressure();
        let better = |other: &usize| pressure_of(*other) < pressure_of(victim) && fits(*other);
        let partners = self.on(to).filter(better).filter(|&other| may_go(other, from));
        partners.min_by_key(|&other| (pressure_of(other), other))
    }

    /// The jobs mapped to a processor.
    fn on(&self, idx: usize) -> impl Iterator<Item = usize> + '_ {
        let is_there = move |assignment: &Option<Assignment>| {
            assignment.as_ref().is_some_and(|assignment| assignment.domain == idx)
        };
        self.assignments
            .iter()
            .enumerate()
            .filter(move |(_, spot)| is_there(spot))
            .map(|(at, _)| at)
    }
}

impl Process<'_> {
    /// Its contribution to the pressure; 0 if unknown.
    fn pressure(&self) -> u64 {
        self.mpki.unwrap_or(0).saturating_mul(u64::from(self.job.threads))
    }
}

impl Refine {
    /// 1 + k × difference, in permille.
    fn penalty_max(&self, difference_milli: u64) -> u64 {
        let more = u128::from(difference_milli) * u128::from(self.k_millionths) / 1_000_000;
        u64::try_from(more).unwrap_or(u64::MAX).saturating_add(1000)
    }
}

impl Relief {
    /// Pressures after the migration.
    pub fn after(&self, processes: &[Process<'_>]) -> PressurePair {
        let goes = processes[self.victim].pressure();
        let comes = self.partner.map_or(0, |other| processes[other].pressure());
        PressurePair {
            high: self.press.high.saturating_sub(goes).saturating_add(comes),
            low: self.press.low.saturating_sub(comes).saturating_add(goes),
        }
    }
}
