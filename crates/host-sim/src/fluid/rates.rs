//! Speeds of tasks. They are solved for the affected caches, and for everything that depends on these caches.
//!
//! ```text
//!   affected caches ─► occupancy and speed of each task at the current latencies
//!        ▲                        │ demand on each channel: memory, links, ports
//!        │                        ▼
//!   caches with tasks ◄── channels with a latency that is inconsistent with the demand:
//!   of changed speed       new latency, which their users follow ([`super::channels`])
//! ```
//!
//! Changes within [`MachineSettings::precision`] are ignored, so that the cost of an event depends on the number of
//! affected rates. Errors do not accumulate, because the current demand is always compared with the demand for which
//! the latency was solved.
//!
//! [`MachineSettings::precision`]: super::MachineSettings::precision

use topology::SmtSharing;

use super::channels::CacheResponse;
use super::demand::ChannelUse;
use super::tasks::{TaskActivity, TaskCounts, Uncounted};
use super::time_slices::CpuSharing;
use super::{Fluid, Task, TaskState};
use crate::hardware::HardwareCpu;
use crate::physics::{LINE, smt_share_beside};

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
        self.set_activity(idx);
        self.set_speed(idx);
    }

    /// Computes the demand of a task for its current activity.
    pub(super) fn set_activity(&mut self, idx: usize) {
        let task = &mut self.tasks[idx];
        task.activity = task.left.activity();
        task.cached.member = None;
        let (smt_share, cache) = (task.demand.smt_share, self.hardware.cpus[task.cpu].cache);
        self.set_demand(idx, smt_share, false);
        self.note_response(idx, cache);
        let n_tasks = self.solver.members[cache].len();
        CacheResponse::complete(&mut self.solver.responses[cache], n_tasks);
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
                self.enter_cache(task, (cpu, cache), share, &mut members);
            }
        }
        self.solve_occupancies(&hardware, cache, &mut members);
        self.solver.responses[cache].clear();
        for (nth, member) in members.iter().enumerate() {
            self.tasks[member.task].cached.member = Some(nth);
            // The memory may have changed since the task became a member.
            let has_paths = member.is_steady && !self.tasks[member.task].is_changed;
            if self.settle_occupancy(member, cache) {
                self.set_demand(member.task, member.smt_share, has_paths);
                self.set_speed(member.task);
            }
            self.note_response(member.task, cache);
        }
        CacheResponse::complete(&mut self.solver.responses[cache], members.len());
        std::mem::swap(&mut self.solver.members[cache], &mut members);
        members.clear();
        self.solver.next_members = members;
    }

    /// Computes the demand of a task for its activity, and lists the task as a user of its channels; with `has_paths`, it
    /// is a user of the same channels as before.
    pub(super) fn set_demand(&mut self, idx: usize, smt_share: f64, has_paths: bool) {
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
        let misses = (exposed, demand.bytes);
        let accesses = (accesses * refill_stall * slower, accesses * LINE);
        if !has_paths {
            let (uses, unloaded_ns) = self.channel_uses(idx);
            self.tasks[idx].demand.unloaded_ns = unloaded_ns;
            self.list_uses(idx, uses);
        }
        let (shares, l1_misses) = (self.demand_shares(idx, cpu), self.phase_of(idx).l1_misses);
        let task = &mut self.tasks[idx];
        (task.events, task.l1_misses) = (events, l1_misses);
        (task.demand.duty, task.demand.traffic_share) = shares;
        task.demand.smt_share = smt_share;
        task.demand.exposed = exposed;
        task.demand.core_ns = core_ns;
        task.demand.path_ns = exposed * task.demand.unloaded_ns - demand.hidden_ns * slower;
        for of in &mut task.demand.uses {
            let (stalls, bytes) = if of.is_port { accesses } else { misses };
            (of.stalls, of.bytes) = (stalls * of.share, bytes * of.share);
        }
    }

    /// Returns the channels of a task, and the latency of the paths to its memory without load.
    fn channel_uses(&mut self, idx: usize) -> (Vec<ChannelUse>, f64) {
        let Task { cpu, job, activity, moving_between: (from, to), .. } = self.tasks[idx];
        let HardwareCpu { node, cache, .. } = self.hardware.cpus[cpu];
        let mut uses = std::mem::take(&mut self.solver.uses);
        let parts = match activity {
            TaskActivity::Touching => self.touch_parts(job, node).into(),
            TaskActivity::Moving => vec![(from, 0.5), (to, 0.5)].into(),
            _ => self.memory_parts(job, node),
        };
        self.hardware.for_each_path((node, cache), &parts, |channel, share| {
            uses.push(ChannelUse { channel, share, ..ChannelUse::default() });
        });
        uses.extend(self.hardware.caches[cache].port.map(|channel| ChannelUse {
            channel,
            share: 1.0,
            is_port: true,
            ..ChannelUse::default()
        }));
        (uses, self.hardware.path_ns(node, &parts))
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

    /// Adds the progress of a task since the last call to its counts.
    pub(super) fn flush_counts(&mut self, idx: usize) {
        let task = &self.tasks[idx];
        let Uncounted { cpu_ns, instructions, run_ns, refilled_lines, moved_bytes, .. } =
            task.uncounted;
        if cpu_ns == 0.0 {
            return;
        }
        let speed = &self.hardware.cpus[task.cpu].speed;
        let (thousands, events) = (instructions / 1000.0, task.events);
        let stalled_ns = (run_ns - thousands * task.demand.core_ns).max(0.0);
        let references = events.accesses;
        let requests = references + events.prefetches;
        let full = task.queue_full_share(stalled_ns, speed.hit_ns);
        let reads = thousands * events.reads + refilled_lines;
        let writes = thousands * events.writes;
        let l1_misses = task.l1_misses;
        let (ghz, moving) = (speed.ghz, task.moving_between);
        let thousands_of_units = task.uncounted.units(task.activity) / 1000.0;
        for of in &mut self.tasks[idx].demand.uses {
            of.transferred += thousands_of_units * of.bytes;
        }
        let uncounted = std::mem::take(&mut self.tasks[idx].uncounted);
        self.monitor_task(idx, &uncounted, reads + writes);
        let task = &mut self.tasks[idx];
        let counts = &mut task.counts;
        *counts = TaskCounts {
            instructions: counts.instructions + instructions,
            cycles: counts.cycles + cpu_ns * ghz,
            references: counts.references + thousands * references,
            misses: counts.misses + thousands * events.demand_misses + refilled_lines,
            prefetches: counts.prefetches + thousands * events.prefetches,
            l1_misses: counts.l1_misses + thousands * l1_misses,
            queue_full: counts.queue_full + thousands * requests * full,
            stalls: counts.stalls + stalled_ns * ghz,
            reads: counts.reads + reads,
            writes: counts.writes + writes,
        };
        task.unposted_lines[0] += reads;
        task.unposted_lines[1] += writes;
        if 0.0 < moved_bytes {
            self.count_moved_lines(moving, moved_bytes / LINE);
        }
    }

    /// Adds the progress of a task to its counts, and its lines to the channels and to the memory of its pages.
    pub(super) fn post_counts(&mut self, idx: usize) {
        self.flush_counts(idx);
        self.solver.post(&mut self.tasks[idx].demand.uses);
        let task = &mut self.tasks[idx];
        let ([reads, writes], job) = (std::mem::take(&mut task.unposted_lines), task.job);
        self.count_lines(job, self.hardware.cpus[self.tasks[idx].cpu].node, reads, writes);
    }

    /// Returns the nanoseconds per 1000 units of a task's activity alone: with the whole cache and unloaded memory.
    pub(super) fn ns_alone(&mut self, idx: usize, smt_share: f64) -> f64 {
        self.set_demand(idx, smt_share, false);
        let ns = self.ns_at_latencies(&self.tasks[idx]);
        self.remove_from_channels(idx);
        ns
    }
}
