//! Contents of caches: the occupancy of each task as a state.
//!
//! The occupancy of the tasks in a cache tends to the equilibrium of their insertion rates
//! ([`crate::physics::occupancies`]). A task whose occupancy grows reads the missing lines: a refill, with its own
//! demand on memory. Until its end, the occupancy is between both values. The occupancy of a task that sleeps or
//! migrates falls to zero during the next turnover, which is the time in which all insertions replace the contents of
//! the cache once (with random replacement, exponentially). If the occupancy of a running task falls, the difference is
//! a surplus, which is lost in one turnover too and is subtracted from the next refill.

use topology::Replacement;

use super::Fluid;
use super::solver::{CacheMember, CacheState};
use super::tasks::CacheContents;
use crate::hardware::{Hardware, HardwareCpu};
use crate::physics::{
    CacheEntries, FillTable, LINE, Line, occupancies_with, remaining_share, residence_if_alone,
    residence_time,
};

/// Maximum number of iterations between occupancies and speeds.
const N_ROUNDS: usize = 200;
/// Smallest and largest assumed ratio of two successive changes.
const SHARES: (f64, f64) = (0.1, 0.9);
/// Assumed ratio of the second change to the first of Newton's method, for each unit of the first change. It is larger
/// than observed.
const NEWTON_SHARE: f64 = 30.0;
/// Largest share of the cache that may be empty or exceeded at the first residence time.
const EMPTY_MAX: f64 = 0.1;
/// Relaxation factor, which is used when the iteration oscillates.
const DAMPING: f64 = 0.5;
/// Relative change of speeds at which the iteration has converged, in units of the precision.
const CONVERGED: f64 = 0.25;
/// Largest relative change of its speed with which a steady task keeps its demand, in units of the precision.
const STEADY_CHANGE_MAX: f64 = 0.5;
/// A task reads the lines of smaller refills with its next refill, so that a refill is at least this share of the cache,
/// in units of the precision. The lines of the last small refills of a job are not read.
const REFILL_SHARE_MIN: f64 = 4.0;

impl Fluid {
    /// Returns a task as a member of its cache. A steady task keeps its state until its speed changes.
    pub(super) fn enter_cache(
        &mut self,
        idx: usize,
        (cpu, cache): (usize, usize),
        smt_share: f64,
    ) -> CacheMember {
        let duty = self.average_share(idx, cpu);
        let CacheContents { cache: before, bytes, .. } = self.tasks[idx].cached;
        let is_steady = self.tasks[idx].is_steady_in(cache, (duty, smt_share));
        if is_steady && let Some(member) = self.continue_in_cache(idx, cache) {
            return member;
        }
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
        let path_ns = self.hardware.path_ns(node, self.pages.parts(job));
        let port = self.hardware.caches[cache].port.map(|port| &self.solver.channels[port]);
        let port_ns = port.map_or(0.0, |port| port.latency);
        overload = overload.max(port.map_or(1.0, |port| port.overload));
        let core = self.core_of(idx, cpu);
        CacheMember {
            task: idx,
            cpu,
            is_steady,
            duty,
            smt_share,
            terms: self.phase_of(idx).behaviour.terms_on(&core),
            core,
            path_ns,
            latencies: (miss_ns + path_ns, port_ns),
            slower: overload / smt_share,
            // The last solution is nearer than the current occupancy, with which a refill begins.
            bytes: if before == Some(cache) { bytes } else { 0.0 },
            ns: 1.0,
            ns_per_byte: 0.0,
            step: 0.0,
            gain: 0.0,
            sensitivity: 0.0,
            fill_line: Line::default(),
            ends: Default::default(),
            speed_line: Line::default(),
            hints: self.tasks[idx].cached.hints,
            ns_before: if is_steady { self.ns_at_latencies(idx) } else { 0.0 },
            elsewhere: 0.0,
            cluster_elsewhere: self.tasks[idx].cached.cluster_elsewhere,
            read_share: 1.0,
        }
    }

    /// Returns a steady task as the member that it was at the last solution of its cache, with the current latencies.
    fn continue_in_cache(&self, idx: usize, cache: usize) -> Option<CacheMember> {
        let task = &self.tasks[idx];
        let known = self.solver.members[cache].get(task.cached.member)?;
        if known.task != idx || task.demand.exposed <= 0.0 {
            return None;
        }
        let port = self.hardware.caches[cache].port;
        let (mut miss_ns, mut port_ns, mut overload) = (0.0, 0.0, 1.0f64);
        for of in &task.demand.uses {
            let state = &self.solver.channels[of.channel];
            match port == Some(of.channel) {
                true => port_ns = state.latency,
                false => miss_ns += of.stalls * state.latency,
            }
            overload = overload.max(state.overload);
        }
        let mut member = CacheMember {
            is_steady: true,
            slower: overload / known.smt_share,
            bytes: task.cached.bytes,
            sensitivity: 0.0,
            ns_before: self.ns_at_latencies(idx),
            elsewhere: 0.0,
            read_share: 1.0,
            ..*known
        };
        member.set_latencies((miss_ns / task.demand.exposed + known.path_ns, port_ns));
        Some(member)
    }

    /// Counts the progress of a task, and makes its current occupancy the beginning of a new solution.
    fn refresh_contents(&mut self, idx: usize, (cpu, cache): (usize, usize)) {
        self.update_cpu(cpu);
        self.flush_counts(idx);
        let turnovers = self.solver.turnovers(cache, self.now);
        let task = &mut self.tasks[idx];
        let is_here = task.cached.cache == Some(cache);
        let bytes = if is_here { task.occupancy() } else { 0.0 };
        let left = remaining_share(self.hardware.replacement, turnovers - task.cached.turnovers);
        let lines = task.cached.surplus_lines;
        let surplus_lines = if is_here && 0.0 < lines { lines * left } else { lines.min(0.0) };
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
                surplus_lines: task.cached.surplus_lines.min(0.0),
                hints: task.cached.hints,
                elsewhere: task.cached.elsewhere,
                ..CacheContents::default()
            };
        }
    }

    /// Computes the remaining occupancy of a task that becomes runnable.
    pub(super) fn return_to_cache(&mut self, idx: usize, cache: usize) {
        let turnovers = self.solver.turnovers(cache, self.now);
        let cached = &mut self.tasks[idx].cached;
        if cached.cache == Some(cache) {
            let replacement = self.hardware.replacement;
            cached.bytes *= remaining_share(replacement, turnovers - cached.turnovers);
        } else {
            let surplus_lines = cached.surplus_lines.min(0.0);
            *cached = CacheContents {
                cache: Some(cache),
                turnovers,
                surplus_lines,
                ..CacheContents::default()
            };
        }
        let found = self.shared_bytes_found(idx, cache);
        let cached = &mut self.tasks[idx].cached;
        cached.bytes += found;
        cached.refill_from = cached.bytes;
    }

    /// Solves the occupancies, the speeds, and the residence time of lines together at the current latencies, from the
    /// last solution. Each iteration is one of Newton's method for all of them.
    pub(super) fn solve_occupancies(
        &mut self,
        hardware: &Hardware,
        cache: usize,
        members: &mut [CacheMember],
    ) {
        let bytes = hardware.caches[cache].bytes;
        let fill_index = hardware.caches[cache].fill_index;
        let table_of = |member: &CacheMember| &self.phase_of(member.task).fills[fill_index];
        let tables: Vec<&FillTable> = members.iter().map(table_of).collect();
        let precision = self.settings.precision * CONVERGED;
        let mut time_ns = self.solver.caches[cache].turnover_ns;
        if !time_ns.is_finite() {
            time_ns = 0.0;
        }
        let is_shared = 2 <= members.len();
        for (member, table) in members.iter_mut().zip(&tables) {
            member.bytes = if is_shared { member.bytes } else { bytes };
            member.update_speed(table);
        }
        if let ([_], [table]) = (&*members, &tables[..]) {
            self.share_clusters(hardware, cache, members, 1.0);
            members[0].update_speed(table);
            let thousands = residence_if_alone(hardware.replacement, table);
            time_ns = thousands * members[0].ns / members[0].duty;
        }
        let mut entries = self.cache_entries(hardware, cache, members);
        if is_shared && entries.is_none() {
            // The other tasks are near their solution.
            let changed = members.iter_mut().zip(&tables).filter(|(member, _)| !member.is_steady);
            changed.for_each(|(member, table)| member.approach(table, bytes, time_ns));
        }
        let (mut relaxation, mut previous_change) = (1.0, f64::INFINITY);
        for _ in 0..if is_shared { N_ROUNDS } else { 0 } {
            self.share_clusters(hardware, cache, members, relaxation);
            let change = match &mut entries {
                None => step_together(members, &tables, bytes, &mut time_ns, relaxation),
                Some(entries) => {
                    entries.set_times(members.iter().map(|member| member.ns / member.duty));
                    let mut fits = vec![0.0; entries.entries().len()];
                    let all = entries.entries();
                    let replacement = hardware.replacement;
                    time_ns = occupancies_with(replacement, all, bytes, time_ns, &mut fits);
                    step_to(members, &tables, |nth| entries.bytes_of(nth, &fits), relaxation)
                }
            };
            // The sum of all later changes, if each is the same share of the previous one. A step of Newton's method leaves
            // a share that is proportional to the step.
            let share = match (previous_change.is_finite(), &entries) {
                (true, _) => (change / previous_change).clamp(SHARES.0, SHARES.1),
                (false, None) => (NEWTON_SHARE * change).min(0.5),
                (false, Some(_)) => 0.5,
            };
            if change * share / (1.0 - share) < precision {
                break;
            }
            if change.is_finite() && previous_change < change {
                relaxation = DAMPING;
            }
            previous_change = change;
        }
        let own = |member: &CacheMember| member.bytes * (1.0 - member.elsewhere);
        let sum = members.iter().map(own).sum::<f64>();
        for member in members.iter_mut().filter(|_| bytes < sum) {
            member.bytes *= bytes / sum;
        }
        self.divide_common_parts(members);
        let turnover_ns = if members.is_empty() { f64::INFINITY } else { time_ns };
        let turnovers = self.solver.turnovers(cache, self.now);
        let ratios = self.solver.caches[cache].ratios;
        let sensitivity = members.iter().map(|member| member.sensitivity).fold(0.0, f64::max);
        self.solver.caches[cache] =
            CacheState { turnover_ns, turnovers, at: self.now, sensitivity, ratios };
    }

    /// Returns the entries of a cache that is not solved by Newton's method: one in which threads share data, or one with
    /// another replacement than LRU.
    fn cache_entries(
        &self,
        hardware: &Hardware,
        cache: usize,
        members: &[CacheMember],
    ) -> Option<CacheEntries<'_>> {
        let is_shared = |member: &CacheMember| self.phase_of(member.task).shared.is_some();
        if hardware.replacement == Replacement::Lru && !members.iter().any(is_shared) {
            return None;
        }
        Some(self.entries_of(hardware.caches[cache].fill_index, members.iter()))
    }

    /// Sets the new occupancy of a task: a refill or a surplus covers the difference to its current occupancy. Returns
    /// whether the demand of the task changes.
    pub(super) fn settle_occupancy(&mut self, member: &CacheMember, cache: usize) -> bool {
        self.tasks[member.task].cached.elsewhere = member.elsewhere;
        self.tasks[member.task].cached.cluster_bytes =
            self.hardware.cpus[member.cpu].cluster.and(member.core.private_bytes);
        self.tasks[member.task].cached.cluster_elsewhere = member.cluster_elsewhere;
        if member.is_steady {
            let change = libm::fabs(member.ns / member.ns_before - 1.0);
            if change <= STEADY_CHANGE_MAX * self.settings.precision {
                // The speed is that of nearly the same number of misses.
                let cached = &mut self.tasks[member.task].cached;
                (cached.bytes, cached.refill_from) = (member.bytes, member.bytes);
                cached.hints = member.hints;
                return false;
            }
            self.refresh_contents(member.task, (member.cpu, cache));
        }
        let fill_index = self.hardware.caches[cache].fill_index;
        let share = REFILL_SHARE_MIN * self.settings.precision;
        let lines_min = share * self.hardware.caches[cache].bytes / LINE;
        let now = self.tasks[member.task].cached.bytes;
        let fills = &self.phase_of(member.task).fills[fill_index];
        let CacheContents { refill_from, refill_instructions, .. } = self.tasks[member.task].cached;
        let is_refilling = 0.0 < refill_instructions && refill_from < member.bytes;
        // A refill in progress continues to the new occupancy with the same share of its instructions left.
        let from = if is_refilling { refill_from } else { now.min(member.bytes) };
        let refill = fills.refill(from, now.max(member.bytes)).scaled(member.read_share);
        let task = &mut self.tasks[member.task];
        (task.cached.bytes, task.cached.hints) = (member.bytes, member.hints);
        if member.bytes <= now {
            task.end_refill();
            task.cached.surplus_lines += if is_refilling { 0.0 } else { refill.lines };
        } else if is_refilling {
            let share = task.left.refill_instructions / refill_instructions;
            task.begin_refill(refill_from, &refill, 1.0);
            task.left.refill_instructions *= share;
        } else {
            // A surplus shortens the refill, lines of earlier small refills extend it.
            let lines = refill.lines - task.cached.surplus_lines;
            if lines <= lines_min || refill.lines <= 0.0 {
                task.end_refill();
                task.cached.surplus_lines = -lines;
            } else {
                task.begin_refill(now, &refill, lines / refill.lines);
                task.cached.surplus_lines = 0.0;
            }
        }
        task.activity = task.left.activity();
        task.is_changed = false;
        true
    }
}

/// Returns the fill table of each member, and its time for 1000 instructions with the waits for its CPU.
fn speeds<'a>(members: &[CacheMember], tables: &[&'a FillTable]) -> Vec<(&'a FillTable, f64)> {
    let takes = |member: &CacheMember| member.ns / member.duty;
    tables.iter().copied().zip(members.iter().map(takes)).collect()
}

/// Changes occupancies, speeds and residence time by one iteration of Newton's method for all of them. Returns the largest
/// relative change; it is infinite if the residence time was far from a solution and is the only changed value.
fn step_together(
    members: &mut [CacheMember],
    tables: &[&FillTable],
    bytes: f64,
    time_ns: &mut f64,
    relaxation: f64,
) -> f64 {
    let (mut empty, mut space, mut gain) = (bytes, bytes, 0.0);
    for (member, table) in members.iter_mut().zip(tables) {
        empty -= member.fill(table, bytes, *time_ns);
        space -= member.bytes + member.step;
        gain += member.gain;
    }
    if EMPTY_MAX * bytes < libm::fabs(empty) {
        let near_ns = residence_time(&speeds(members, tables), bytes, *time_ns);
        // If the tasks do not fill the cache, the residence time stays infinite.
        if near_ns != *time_ns {
            *time_ns = near_ns;
            return f64::INFINITY;
        }
    }
    let more_ns = if 0.0 < gain { (space / gain).max(-*time_ns) } else { 0.0 };
    *time_ns += relaxation * more_ns;
    let mut change = libm::fabs(space) / bytes;
    for (member, table) in members.iter_mut().zip(tables) {
        let step = relaxation * (member.step + member.gain * more_ns);
        member.bytes = (member.bytes + step).clamp(0.0, bytes);
        change = change.max(member.update_speed(table));
    }
    change
}

/// Changes the occupancies towards those that `fit` returns for each member, with the share that is counted for other
/// threads. Returns the largest relative change of a speed.
fn step_to(
    members: &mut [CacheMember],
    tables: &[&FillTable],
    fit: impl Fn(usize) -> (f64, f64),
    relaxation: f64,
) -> f64 {
    let mut change = 0.0f64;
    for (nth, (member, table)) in members.iter_mut().zip(tables).enumerate() {
        let (fit, elsewhere) = fit(nth);
        member.elsewhere = elsewhere;
        member.sensitivity = 1.0; // It is not known: a change of the others' speeds is assumed to act fully.
        member.bytes += relaxation * (fit - member.bytes);
        change = change.max(member.update_speed(table));
    }
    change
}
