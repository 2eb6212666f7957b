//! Contents of caches: the occupancy of each task as a state.
//!
//! The occupancy of the tasks in a cache tends to the equilibrium of their insertion rates
//! ([`crate::physics::occupancies`]). A task whose occupancy grows reads the missing lines: a refill, with its own
//! demand on memory. Until its end, the occupancy is between both values. The occupancy of a task that sleeps or
//! migrates falls to zero during the next turnover, which is the time in which all insertions replace the contents of
//! the cache once (with random replacement, exponentially). If the occupancy of a running task falls, the difference is
//! a surplus, which is lost in one turnover too and is subtracted from the next refill.

use super::Fluid;
use super::cache_solution::CacheMember;
use super::tasks::CacheContents;
use crate::physics::{LINE, StepLine, remaining_share};

/// Largest relative change of its speed with which a steady task keeps its demand, in units of the precision.
const STEADY_CHANGE_MAX: f64 = 0.5;
/// A task reads the lines of smaller refills with its next refill, so that a refill is at least this share of the cache,
/// in units of the precision. The lines of the last small refills of a job are not read.
const REFILL_SHARE_MIN: f64 = 4.0;

impl Fluid {
    /// Adds a task to the members of its cache. A steady task keeps its state until its speed changes.
    pub(super) fn enter_cache(
        &mut self,
        idx: usize,
        (cpu, cache): (usize, usize),
        smt_share: f64,
        members: &mut Vec<CacheMember>,
    ) {
        let duty = self.average_share(idx, cpu);
        let is_steady = self.tasks[idx].is_steady_in(cache, (duty, smt_share));
        if is_steady && self.continue_in_cache(idx, cache, members) {
            return;
        }
        if !is_steady {
            self.refresh_contents(idx, (cpu, cache));
        }
        let node = self.hardware.cpus[cpu].node;
        let path_ns = self.hardware.path_ns(node, &self.memory_parts(self.tasks[idx].job, node));
        let (miss_ns, port_ns, overload) = self.latencies_in(idx, (cpu, cache));
        let core = self.core_of(idx, cpu);
        members.push(CacheMember {
            task: idx,
            cpu,
            class: members.len(),
            n_like: 1.0,
            is_steady,
            duty,
            smt_share,
            terms: self.phase_of(idx).behaviour.terms_on(&core),
            core,
            path_ns,
            latencies: (miss_ns + path_ns, port_ns),
            slower: overload / smt_share,
            // With two equilibria, the current contents decide. A steady task has the occupancy of the last solution.
            bytes: self.tasks[idx].cached.bytes,
            ns: 1.0,
            ns_per_byte: 0.0,
            step: 0.0,
            gain: 0.0,
            sensitivity: 0.0,
            filled: StepLine::default(),
            takes: StepLine::default(),
            ends: Default::default(),
            is_damped: false,
            hints: self.tasks[idx].cached.hints,
            ns_before: if is_steady { self.ns_at_latencies(&self.tasks[idx]) } else { 0.0 },
            elsewhere: 0.0,
            cluster_elsewhere: self.tasks[idx].cached.cluster_elsewhere,
            read_share: 1.0,
        });
    }

    /// Returns the latencies of the memory of a task without the paths, and of the port of its cache, and the largest
    /// overload of these channels.
    fn latencies_in(&self, idx: usize, (cpu, cache): (usize, usize)) -> (f64, f64, f64) {
        let (node, job) = (self.hardware.cpus[cpu].node, self.tasks[idx].job);
        let (mut miss_ns, mut overload) = (0.0, 1.0f64);
        self.hardware.for_each_path(
            (node, cache),
            &self.memory_parts(job, node),
            |channel, share| {
                let state = &self.solver.channels[channel];
                miss_ns += share * state.latency;
                overload = overload.max(state.overload);
            },
        );
        let port = self.hardware.caches[cache].port.map(|port| &self.solver.channels[port]);
        let port_ns = port.map_or(0.0, |port| port.latency);
        (miss_ns, port_ns, overload.max(port.map_or(1.0, |port| port.overload)))
    }

    /// Adds a steady task as the member that it was at the last solution of its cache, with the current latencies, if it
    /// was one.
    fn continue_in_cache(&self, idx: usize, cache: usize, members: &mut Vec<CacheMember>) -> bool {
        let task = &self.tasks[idx];
        let Some(nth) = task.cached.member.filter(|_| 0.0 < task.demand.exposed) else {
            return false;
        };
        let (mut miss_ns, mut port_ns, mut overload) = (0.0, 0.0, 1.0f64);
        for of in &task.demand.uses {
            let state = &self.solver.channels[of.channel];
            match of.is_port {
                true => port_ns = state.latency,
                false => miss_ns += of.stalls * state.latency,
            }
            overload = overload.max(state.overload);
        }
        let class = members.len();
        members.push(self.solver.members[cache][nth]);
        let Some(member) = members.last_mut() else { return false };
        (member.class, member.n_like, member.is_steady) = (class, 1.0, true);
        member.slower = overload / member.smt_share;
        member.bytes = task.cached.bytes;
        member.sensitivity = 0.0;
        member.ns_before = self.ns_at_latencies(&self.tasks[idx]);
        (member.elsewhere, member.read_share) = (0.0, 1.0);
        member.set_latencies((miss_ns / task.demand.exposed + member.path_ns, port_ns));
        true
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
        self.post_counts(idx);
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
        let refill = fills.refill(from, now.max(member.bytes), member.hints.1);
        let refill = refill.scaled(member.read_share);
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
