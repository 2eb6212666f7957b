//! Speeds of tasks. They are solved for the affected caches, and for everything that depends on these caches.
//!
//! ```text
//!   affected caches ─► occupancy and speed of each task at the current latencies
//!        ▲                        │ demand on each channel: memory, links, ports
//!        │                        ▼
//!   caches with tasks ◄── channels with a latency that is inconsistent with the demand:
//!   of changed speed       new latency, and new speeds of all their users
//! ```
//!
//! Changes within [`MachineSettings::precision`] are ignored, so that the cost of an event depends on the number of
//! affected rates. Errors do not accumulate, because the current demand is always compared with the demand for which
//! the latency was solved.
//!
//! [`MachineSettings::precision`]: super::MachineSettings::precision

use topology::SmtSharing;

use super::cache_solution::NO_RATIOS;
use super::tasks::{ChannelUse, TaskActivity, TaskCounts, Uncounted};
use super::time_slices::CpuSharing;
use super::{Fluid, Task, TaskState};
use crate::hardware::HardwareCpu;
use crate::physics::{ChannelDemand, LINE, smt_share_beside};

/// Minimum relative change of a speed by the occupancy for which the cache is solved again, in units of the precision. It
/// is estimated from the change of the ratio of two speeds: if all tasks of a cache become slower by the same factor,
/// their occupancies do not change.
const RATIO_CHANGE_MIN: f64 = 1.0;
/// Minimum relative change of a task's speed for which its end is computed again, in units of the precision.
const SPEED_CHANGE_MIN: f64 = 1.0;
/// Maximum number of sweeps over caches and channels. No tested machine reaches this number.
const N_SWEEPS: usize = 64;

impl Fluid {
    /// Solves all affected domains and reschedules the ends of segments.
    pub(super) fn solve(&mut self) {
        if !self.solver.is_dirty && self.solver.stale_cpus.is_empty() {
            return;
        }
        if std::mem::take(&mut self.solver.is_dirty) {
            self.counts.solves += 1;
            match self.settings.contention {
                true => self.solve_with_contention(),
                false => self.solve_without_contention(),
            }
        }
        let mut stale = std::mem::take(&mut self.solver.stale_cpus);
        for &cpu in &stale {
            if self.cpus[cpu].is_stale {
                self.reschedule(cpu);
            }
        }
        // CPUs that become stale in this call are solved in the next call.
        stale.clear();
        stale.append(&mut self.solver.stale_cpus);
        self.solver.stale_cpus = stale;
    }

    fn solve_with_contention(&mut self) {
        let precision = self.settings.precision;
        while let Some(idx) = self.solver.changed_tasks.pop() {
            self.begin_activity(idx);
        }
        for _ in 0..N_SWEEPS {
            let mut caches = std::mem::take(&mut self.solver.queue);
            caches.sort_unstable();
            for &cache in &caches {
                self.solver.touched[cache] = false;
                self.solve_cache(cache);
            }
            let mut has_changed = false;
            for channel_idx in 0..self.solver.channels.len() {
                if self.solver.channels[channel_idx].is_inconsistent(precision) {
                    has_changed = true;
                    self.solve_channel(channel_idx);
                }
            }
            if !has_changed && self.solver.queue.is_empty() {
                break;
            }
        }
    }

    /// Computes the demand of a task that began another activity.
    fn begin_activity(&mut self, idx: usize) {
        // A task that has left its run queue, or that is not yet solved, is solved with its cache.
        if self.tasks[idx].state != TaskState::Runnable || !self.tasks[idx].demand.is_on_channels {
            return;
        }
        self.update_cpu(self.tasks[idx].cpu);
        self.flush_counts(idx);
        let task = &mut self.tasks[idx];
        task.activity = task.left.activity();
        task.cached.member = None;
        self.set_demand(idx, self.tasks[idx].demand.smt_share);
        let ns = self.ns_at_latencies(idx);
        self.tasks[idx].demand.ns_shared = ns;
        self.set_speed(idx, ns);
    }

    pub(super) fn phase_of(&self, task: usize) -> &crate::script::ScriptPhase {
        let task = &self.tasks[task];
        &task.script.phases[task.phase.min(task.script.phases.len() - 1)]
    }

    /// Solves the occupancy of a cache, and the speeds of its tasks at the current latencies.
    fn solve_cache(&mut self, cache: usize) {
        let hardware = self.hardware.clone();
        if self.sharing == CpuSharing::OneTaskPerLlcQueue {
            self.share_queue(cache);
        }
        let mut members = std::mem::take(&mut self.solver.next_members);
        for &cpu in &hardware.caches[cache].cpus {
            if self.cpus[cpu].is_stale {
                self.update_cpu(cpu);
                self.solver.stale_cpus.push(cpu);
            }
            let smt_share = self.smt_share(cpu);
            for at in 0..self.cpus[cpu].tasks.len() {
                let task = self.cpus[cpu].tasks[at];
                let share = smt_share * self.switch_share(task, cpu);
                members.push(self.enter_cache(task, (cpu, cache), share));
            }
        }
        self.solve_occupancies(&hardware, cache, &mut members);
        for (nth, member) in members.iter().enumerate() {
            self.tasks[member.task].cached.member = Some(nth);
            if !self.settle_occupancy(member, cache) {
                self.tasks[member.task].demand.ns_shared = member.ns_before;
                continue;
            }
            self.set_demand(member.task, member.smt_share);
            let ns = self.ns_at_latencies(member.task);
            self.tasks[member.task].demand.ns_shared = ns;
            self.set_speed(member.task, ns);
        }
        std::mem::swap(&mut self.solver.members[cache], &mut members);
        members.clear();
        self.solver.next_members = members;
    }

    /// Computes the demand of a task for its activity, and lists the task as a user of its channels.
    pub(super) fn set_demand(&mut self, idx: usize, smt_share: f64) {
        let task = &self.tasks[idx];
        let cpu = task.cpu;
        let speed = self.core_of(idx, cpu);
        let phase = self.phase_of(idx);
        let model = &phase.behaviour;
        let cache = &self.hardware.caches[self.hardware.cpus[cpu].cache];
        let table = &phase.fills[cache.fill_index];
        let (executing, mut events) = model
            .solve_events(&speed, table.events(task.cached.bytes, &mut { task.cached.hints.1 }));
        if task.activity == TaskActivity::Refilling {
            let misses = events.demand_misses + task.cached.refill_misses;
            events.accesses = events.accesses.max(misses); // Each miss is an access.
        }
        let refill_stall = 1.0 / model.overlap_on(&speed);
        let demand = task.activity_demand(&speed, executing, refill_stall);
        let accesses = if task.activity.executes() { events.accesses } else { 0.0 };
        let slower = 1.0 / smt_share;
        let (core_ns, exposed) = (demand.core_ns * slower, demand.exposed * slower);
        let of_accesses = (accesses * refill_stall * slower, accesses * LINE);
        let (uses, unloaded_ns) = self.channel_uses(idx, (exposed, demand.bytes), of_accesses);
        let shares = self.demand_shares(idx, cpu);
        let task = &mut self.tasks[idx];
        task.events = events;
        (task.demand.duty, task.demand.traffic_share) = shares;
        task.demand.smt_share = smt_share;
        task.demand.exposed = exposed;
        task.demand.core_ns = core_ns;
        task.demand.path_ns = exposed * unloaded_ns - demand.hidden_ns * slower;
        self.list_uses(idx, uses);
    }

    /// Returns the demand of a task on each channel, and the latency of the paths to its memory without load. `misses`
    /// and `accesses` are the stalls and bytes of the misses and of the accesses of its cache.
    fn channel_uses(
        &mut self,
        idx: usize,
        misses: (f64, f64),
        accesses: (f64, f64),
    ) -> (Vec<ChannelUse>, f64) {
        let Task { cpu, job, activity, moving_between: (from, to), .. } = self.tasks[idx];
        let HardwareCpu { node, cache, .. } = self.hardware.cpus[cpu];
        let parts = match activity {
            TaskActivity::Touching => self.touch_parts(job, node),
            TaskActivity::Moving => vec![(from, 0.5), (to, 0.5)],
            _ => Vec::new(),
        };
        let mut uses = std::mem::take(&mut self.solver.uses);
        let parts = if parts.is_empty() { self.pages.parts(job) } else { &parts[..] };
        let on_channel = |channel, (stalls, bytes): (f64, f64), share| ChannelUse {
            channel,
            stalls: stalls * share,
            bytes: bytes * share,
            bandwidth: 0.0,
        };
        self.hardware.for_each_path((node, cache), parts, |channel, share| {
            uses.push(on_channel(channel, misses, share));
        });
        let port = self.hardware.caches[cache].port;
        uses.extend(port.map(|port| on_channel(port, accesses, 1.0)));
        (uses, self.hardware.path_ns(node, parts))
    }

    /// Replaces the channels of a task.
    fn list_uses(&mut self, idx: usize, uses: Vec<ChannelUse>) {
        let is_running = self.uses_memory(idx);
        let demand = &mut self.tasks[idx].demand;
        let mut before = std::mem::replace(&mut demand.uses, uses);
        let was_listed = std::mem::replace(&mut demand.is_on_channels, is_running);
        for of in before.iter().filter(|_| was_listed) {
            self.solver.channels[of.channel].used -= of.bandwidth;
        }
        let is_same =
            before.iter().map(|of| of.channel).eq(demand.uses.iter().map(|of| of.channel));
        if was_listed != is_running || !is_same {
            for of in before.iter().filter(|_| was_listed) {
                self.solver.channels[of.channel].users.retain(|&user| user != idx);
            }
            for of in demand.uses.iter().filter(|_| is_running) {
                self.solver.channels[of.channel].users.push(idx);
            }
        }
        before.clear();
        self.solver.uses = before;
    }

    /// Adds a task with a known demand to the users of its channels, or removes it.
    pub(super) fn list_on_channels(&mut self, idx: usize, is_listed: bool) {
        let demand = &mut self.tasks[idx].demand;
        if std::mem::replace(&mut demand.is_on_channels, is_listed) == is_listed {
            return;
        }
        for of in &mut demand.uses {
            let state = &mut self.solver.channels[of.channel];
            state.used -= std::mem::take(&mut of.bandwidth);
            match is_listed {
                true => state.users.push(idx),
                false => state.users.retain(|&user| user != idx),
            }
        }
    }

    /// Removes a task from the users of its channels.
    pub(super) fn remove_from_channels(&mut self, idx: usize) {
        let demand = &mut self.tasks[idx].demand;
        let uses = std::mem::take(&mut demand.uses);
        let was_listed = std::mem::take(&mut demand.is_on_channels);
        for of in uses.iter().filter(|_| was_listed) {
            let state = &mut self.solver.channels[of.channel];
            state.used -= of.bandwidth;
            state.users.retain(|&user| user != idx);
        }
    }

    /// Returns the nanoseconds per 1000 units of the task's activity at the current latencies.
    pub(super) fn ns_at_latencies(&self, idx: usize) -> f64 {
        self.demand_on(idx, None).ns_at(0.0, 1.0)
    }

    /// Solves the latency of a channel and the speeds of all its users.
    fn solve_channel(&mut self, channel_idx: usize) {
        let users = std::mem::take(&mut self.solver.channels[channel_idx].users);
        let mut demands = std::mem::take(&mut self.solver.demands);
        demands.extend(users.iter().map(|&idx| self.demand_on(idx, Some(channel_idx))));
        let state = &mut self.solver.channels[channel_idx];
        state.channel = self.hardware.channels[channel_idx].with_streams_of(&demands);
        (state.latency, state.overload) =
            state.channel.solve(&demands, state.migrating, state.latency);
        let (latency, overload, migrating) = (state.latency, state.overload, state.migrating);
        let precision = self.settings.precision;
        // The sum is recomputed, so that rounding errors do not accumulate.
        let mut used = migrating;
        for (&idx, on_channel) in users.iter().zip(&demands) {
            let ns = on_channel.ns_at(latency, overload);
            let demand = &self.tasks[idx].demand;
            let ratio = ns / demand.ns_shared;
            if SPEED_CHANGE_MIN * precision < libm::fabs(ns / demand.ns - 1.0) {
                self.set_speed(idx, ns);
            }
            used += on_channel.bytes / self.tasks[idx].demand.ns;
            let cache = self.hardware.cpus[self.tasks[idx].cpu].cache;
            self.solver.note_ratio(cache, ratio);
        }
        demands.clear();
        self.solver.demands = demands;
        while let Some(cache) = self.solver.changed_caches.pop() {
            let state = &mut self.solver.caches[cache];
            let (low, high) = std::mem::replace(&mut state.ratios, NO_RATIOS);
            if RATIO_CHANGE_MIN * precision < (high / low - 1.0) * state.sensitivity {
                self.solver.touch(cache);
            }
        }
        let state = &mut self.solver.channels[channel_idx];
        (state.used, state.solved_for) = (used, used);
        state.users = users;
    }

    /// Returns the demand of a task on one channel at the current latencies of its other channels; without a channel,
    /// at the latencies of all.
    #[inline]
    fn demand_on(&self, idx: usize, channel_idx: Option<usize>) -> ChannelDemand {
        let demand = &self.tasks[idx].demand;
        let other_ns = demand.core_ns + demand.path_ns;
        let mut on_channel = ChannelDemand { other_ns, stalls: 0.0, bytes: 0.0, slower: 1.0 };
        for of in &demand.uses {
            if Some(of.channel) == channel_idx {
                on_channel.stalls += of.stalls;
                on_channel.bytes += of.bytes * demand.traffic_share;
                continue;
            }
            let state = &self.solver.channels[of.channel];
            on_channel.other_ns += of.stalls * state.latency;
            if 0.0 < of.bytes {
                on_channel.slower = on_channel.slower.max(state.overload);
            }
        }
        on_channel
    }

    /// Sets the speed of a task and its demand.
    pub(super) fn set_speed(&mut self, idx: usize, ns: f64) {
        let cpu = self.tasks[idx].cpu;
        self.update_cpu(cpu);
        self.mark_stale(cpu);
        let task = &mut self.tasks[idx];
        assert_eq!(task.state, TaskState::Runnable);
        task.demand.ns = ns;
        task.speed = 1000.0 / ns;
        let per_ns = task.demand.traffic_share / ns;
        let is_listed = task.demand.is_on_channels;
        for of in task.demand.uses.iter_mut().filter(|_| is_listed) {
            let bandwidth = of.bytes * per_ns;
            self.solver.channels[of.channel].used += bandwidth - of.bandwidth;
            of.bandwidth = bandwidth;
        }
    }

    /// Updates the background traffic when a page migration starts or stops.
    pub(super) fn update_moving(&mut self) {
        for (channel_idx, state) in self.solver.channels.iter_mut().enumerate() {
            let moving = self.pages.migration_bandwidth(channel_idx, &self.hardware);
            state.used += moving - state.migrating;
            state.migrating = moving;
        }
        self.solver.is_dirty = true;
    }

    /// Returns the speed of a CPU relative to its speed with idle SMT siblings.
    pub(super) fn smt_share(&self, cpu: usize) -> f64 {
        let core = self.hardware.cpus[cpu].core;
        let siblings = self.hardware.cores[core].iter().copied();
        let is_busy = |other: &usize| *other != cpu && !self.cpus[*other].tasks.is_empty();
        let busy = siblings.filter(is_busy);
        let n_busy = busy.clone().count();
        let share = self.hardware.smt_shares[core][n_busy];
        match self.hardware.smt {
            SmtSharing::ByPair if 0 < n_busy && self.settings.contention => {
                let uses = busy.map(|sibling| self.core_use(sibling)).sum::<f64>();
                smt_share_beside(uses / n_busy as f64, share)
            }
            _ => share,
        }
    }

    /// Returns the share of time in which the tasks of a CPU use their core, alone on an idle machine.
    fn core_use(&self, cpu: usize) -> f64 {
        let HardwareCpu { node, cache, speed, .. } = self.hardware.cpus[cpu];
        let (bytes, miss_ns) =
            (self.hardware.caches[cache].bytes, self.hardware.memory(node).unloaded_ns);
        let of_task = |&idx: &usize| {
            let demand = self.phase_of(idx).behaviour.demand_on(&speed, bytes);
            self.tasks[idx].weight * demand.core_ns / demand.ns_at(miss_ns)
        };
        self.cpus[cpu].tasks.iter().map(of_task).sum::<f64>() / self.cpus[cpu].weight
    }

    /// Adds the progress of a task since the last call to its counts, and its lines to the memory of its pages.
    pub(super) fn flush_counts(&mut self, idx: usize) {
        let task = &self.tasks[idx];
        let Uncounted { cpu_ns, instructions, run_ns, refilled_lines, moved_bytes, .. } =
            task.uncounted;
        if cpu_ns == 0.0 {
            return;
        }
        let (speed, cpu_node) =
            (self.hardware.cpus[task.cpu].speed, self.hardware.cpus[task.cpu].node);
        let phase = self.phase_of(idx);
        let (thousands, events) = (instructions / 1000.0, task.events);
        let stalled_ns = (run_ns - thousands * task.demand.core_ns).max(0.0);
        let references = events.accesses;
        let requests = references + events.prefetches;
        let full = task.queue_full_share(stalled_ns, speed.hit_ns);
        let reads = thousands * events.reads + refilled_lines;
        let writes = thousands * events.writes;
        let l1_misses = phase.l1_misses;
        let (job, moving) = (task.job, task.moving_between);
        let thousands_of_units = task.uncounted.units(task.activity) / 1000.0;
        for of in &self.tasks[idx].demand.uses {
            self.solver.channels[of.channel].transferred += thousands_of_units * of.bytes;
        }
        let uncounted = std::mem::take(&mut self.tasks[idx].uncounted);
        self.monitor_task(idx, &uncounted, reads + writes);
        let task = &mut self.tasks[idx];
        let counts = &mut task.counts;
        *counts = TaskCounts {
            instructions: counts.instructions + instructions,
            cycles: counts.cycles + cpu_ns * speed.ghz,
            references: counts.references + thousands * references,
            misses: counts.misses + thousands * events.demand_misses + refilled_lines,
            prefetches: counts.prefetches + thousands * events.prefetches,
            l1_misses: counts.l1_misses + thousands * l1_misses,
            queue_full: counts.queue_full + thousands * requests * full,
            stalls: counts.stalls + stalled_ns * speed.ghz,
            reads: counts.reads + reads,
            writes: counts.writes + writes,
        };
        self.count_lines(job, cpu_node, reads, writes);
        if 0.0 < moved_bytes {
            self.count_moved_lines(moving, moved_bytes / LINE);
        }
    }

    /// Returns the nanoseconds per 1000 units of a task's activity alone: with the whole cache and unloaded memory.
    pub(super) fn ns_alone(&mut self, idx: usize, smt_share: f64) -> f64 {
        self.set_demand(idx, smt_share);
        let ns = self.ns_at_latencies(idx);
        self.remove_from_channels(idx);
        ns
    }
}
