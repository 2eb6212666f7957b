//! Contents of caches: the occupancy of each task as a state.
//!
//! The occupancy of the tasks in a cache tends to the equilibrium of their insertion rates
//! ([`crate::physics::occupancies`]). A task whose occupancy grows reads the missing lines: a refill, with its own
//! demand on memory. Until its end, the occupancy is between both values. The occupancy of a task that sleeps or
//! migrates falls to zero during the next turnover, which is the time in which all insertions replace the contents of
//! the cache once. If the occupancy of a running task falls, the difference is a surplus, which is lost in one turnover
//! too and is subtracted from the next refill.

use super::Fluid;
use super::solver::{CacheMember, CacheState};
use super::tasks::CacheContents;
use crate::hardware::{Hardware, HardwareCpu};
use crate::physics::{FillTable, compute_occupancies};

/// Maximum number of iterations between occupancies and speeds.
const N_ROUNDS: usize = 24;
/// Relaxation factor, which is used when the iteration oscillates.
const DAMPING: f64 = 0.5;
/// Relative change of speeds at which the iteration has converged, in units of the precision.
const CONVERGED: f64 = 0.25;
/// Largest relative change of its speed with which a steady task keeps its demand, in units of the precision.
const STEADY_CHANGE_MAX: f64 = 0.5;
/// Refills of fewer lines are ignored: their time is below a tenth of a microsecond.
const REFILL_LINES_MIN: f64 = 1.0;

/// Returns the share of lines that are not yet replaced after a number of turnovers. In an LRU cache, the ages of lines
/// are evenly distributed up to one turnover.
fn remaining_share(turnovers: f64) -> f64 {
    (1.0 - turnovers).max(0.0)
}

impl Fluid {
    /// Returns a task as a member of its cache. A steady task keeps its state until its speed changes.
    pub(super) fn enter_cache(
        &mut self,
        idx: usize,
        (cpu, cache): (usize, usize),
        smt_share: f64,
    ) -> CacheMember {
        let duty = self.tasks[idx].weight / self.cpus[cpu].weight;
        let is_steady = self.tasks[idx].is_steady_in(cache, (duty, smt_share));
        if !is_steady {
            self.refresh_contents(idx, (cpu, cache));
        }
        let HardwareCpu { node, .. } = self.hardware.cpus[cpu];
        let (job, mut miss_ns, mut overload) = (self.tasks[idx].job, 0.0, 1.0f64);
        self.hardware.for_each_path((node, cache), self.pages.parts(job), |channel, share| {
            let state = &self.solver.channels[channel];
            miss_ns += share * state.latency;
            overload = overload.max(state.overload);
        });
        let fixed_ns = self.hardware.path_ns(node, self.pages.parts(job));
        let port = self.hardware.caches[cache].port.map(|port| &self.solver.channels[port]);
        let port_ns = port.map_or(0.0, |port| port.latency);
        overload = overload.max(port.map_or(1.0, |port| port.overload));
        let miss_ns = miss_ns + fixed_ns;
        let bytes = self.tasks[idx].cached.bytes;
        let ns = if is_steady { self.ns_at_latencies(idx) } else { 0.0 };
        CacheMember {
            task: idx,
            cpu,
            is_steady,
            duty,
            smt_share,
            miss_ns,
            port_ns,
            overload,
            bytes,
            ns,
            ns_before: ns,
        }
    }

    /// Counts the progress of a task, and makes its current occupancy the beginning of a new solution.
    fn refresh_contents(&mut self, idx: usize, (cpu, cache): (usize, usize)) {
        self.update_cpu(cpu);
        self.flush_counts(idx);
        let turnovers = self.solver.turnovers(cache, self.now);
        let task = &mut self.tasks[idx];
        let is_here = task.cached.cache == Some(cache);
        let bytes = if is_here { task.occupancy() } else { 0.0 };
        let left = remaining_share(turnovers - task.cached.turnovers);
        let surplus_lines = if is_here { task.cached.surplus_lines * left } else { 0.0 };
        let before = task.cached;
        task.cached =
            CacheContents { cache: Some(cache), bytes, surplus_lines, turnovers, ..before };
        if !is_here || task.left.refill_instructions <= 0.0 {
            task.end_refill();
        }
        task.activity = task.left.activity();
    }

    /// Records the occupancy of a task that sleeps or migrates.
    pub(super) fn leave_cache(&mut self, idx: usize) {
        self.flush_counts(idx);
        let bytes = self.tasks[idx].occupancy();
        if let Some(cache) = self.tasks[idx].cached.cache {
            let turnovers = self.solver.turnovers(cache, self.now);
            let task = &mut self.tasks[idx];
            task.left.refill_instructions = 0.0;
            task.cached = CacheContents {
                cache: Some(cache),
                bytes,
                refill_from: bytes,
                turnovers,
                ..CacheContents::default()
            };
        }
    }

    /// Computes the remaining occupancy of a task that becomes runnable.
    pub(super) fn return_to_cache(&mut self, idx: usize, cache: usize) {
        let turnovers = self.solver.turnovers(cache, self.now);
        let cached = &mut self.tasks[idx].cached;
        if cached.cache == Some(cache) {
            cached.bytes *= remaining_share(turnovers - cached.turnovers);
            cached.refill_from = cached.bytes;
        } else {
            *cached = CacheContents { cache: Some(cache), turnovers, ..CacheContents::default() };
        }
    }

    /// Iterates occupancies and speeds at the current latencies, from the current occupancies.
    pub(super) fn solve_occupancies(
        &mut self,
        hardware: &Hardware,
        cache: usize,
        members: &mut [CacheMember],
    ) {
        let bytes = hardware.caches[cache].bytes;
        let kind = hardware.cache_size_index(cache);
        let mut occupancies = std::mem::take(&mut self.solver.occupancies);
        let speed = |member: &CacheMember, occupancy: f64| {
            let model = &self.phase_of(member.task).behaviour;
            member.ns_with(model, &hardware.cpus[member.cpu].speed, occupancy)
        };
        occupancies.clear();
        occupancies.resize(members.len(), 0.0);
        let precision = self.settings.precision * CONVERGED;
        let (mut relaxation, mut previous_change) = (1.0, f64::INFINITY);
        for member in members.iter_mut().filter(|member| !member.is_steady) {
            member.ns = speed(member, member.bytes);
        }
        let mut turnover_ns = self.solver.caches[cache].turnover_ns;
        let fills = |member: &CacheMember| (&self.phase_of(member.task).fills[kind], 0.0);
        let mut filling: Vec<(&FillTable, f64)> = members.iter().map(fills).collect();
        for _ in 0..N_ROUNDS {
            for ((_, takes), member) in filling.iter_mut().zip(members.iter()) {
                *takes = member.ns / member.duty;
            }
            turnover_ns = compute_occupancies(&filling, bytes, turnover_ns, &mut occupancies);
            let mut change = 0.0f64;
            for (member, fit) in members.iter_mut().zip(&occupancies) {
                member.bytes += relaxation * (fit - member.bytes);
                let ns = speed(member, member.bytes);
                change = change.max(libm::fabs(ns / member.ns - 1.0));
                member.ns = ns;
            }
            if change < precision || members.len() < 2 {
                break;
            }
            if previous_change < 2.0 * change {
                relaxation = DAMPING;
            }
            previous_change = change;
        }
        self.solver.occupancies = occupancies;
        let turnovers = self.solver.turnovers(cache, self.now);
        let ratios = self.solver.caches[cache].ratios;
        self.solver.caches[cache] = CacheState { turnover_ns, turnovers, at: self.now, ratios };
    }

    /// Sets the new occupancy of a task: a refill or a surplus covers the difference to its current occupancy. Returns
    /// whether the demand of the task changes.
    pub(super) fn settle_occupancy(&mut self, member: &CacheMember, cache: usize) -> bool {
        if member.is_steady {
            let change = libm::fabs(member.ns / member.ns_before - 1.0);
            if change <= STEADY_CHANGE_MAX * self.settings.precision {
                // The speed is that of nearly the same number of misses.
                let cached = &mut self.tasks[member.task].cached;
                (cached.bytes, cached.refill_from) = (member.bytes, member.bytes);
                return false;
            }
            self.refresh_contents(member.task, (member.cpu, cache));
        }
        let kind = self.hardware.cache_size_index(cache);
        let now = self.tasks[member.task].cached.bytes;
        let fills = &self.phase_of(member.task).fills[kind];
        let CacheContents { refill_from, refill_instructions, .. } = self.tasks[member.task].cached;
        let is_refilling = 0.0 < refill_instructions && refill_from < member.bytes;
        // A refill in progress continues to the new occupancy with the same share of its instructions left.
        let from = if is_refilling { refill_from } else { now.min(member.bytes) };
        let refill = fills.refill(from, now.max(member.bytes));
        let task = &mut self.tasks[member.task];
        task.cached.bytes = member.bytes;
        if member.bytes <= now {
            task.end_refill();
            task.cached.surplus_lines += if is_refilling { 0.0 } else { refill.lines };
        } else if is_refilling {
            let share = task.left.refill_instructions / refill_instructions;
            task.begin_refill(refill_from, &refill, 1.0);
            task.left.refill_instructions *= share;
        } else {
            // The surplus shortens the refill.
            let lines = (refill.lines - task.cached.surplus_lines).max(0.0);
            task.cached.surplus_lines = (task.cached.surplus_lines - refill.lines).max(0.0);
            match lines < REFILL_LINES_MIN {
                true => task.end_refill(),
                false => task.begin_refill(now, &refill, lines / refill.lines),
            }
        }
        task.activity = task.left.activity();
        task.is_changed = false;
        true
    }
}
