//! Virtual time of run queues without contention. A queued task needs no update until its segment ends.
//!
//! Without contention, the progress of a task depends only on weights. Each CPU therefore has a virtual clock, which
//! counts the nanoseconds that the CPU has served per unit of weight. In virtual time, the end of a task's segment
//! does not change when other tasks arrive or leave:
//!
//! ```text
//!   served ───────────────┬────────►        served += elapsed / sum of weights
//!                         │
//!   queued, by end        ▼ next
//!                    a    b         c   …   progress of a task = (served now - served then) × its weight
//! ```
//!
//! An event updates and solves only the tasks that it affects, not all tasks of the CPU. A task is not queued while it
//! touches new memory or loses CPU time to NUMA balancing. Such a task is updated together with its CPU. With
//! contention, no task is queued. The clock is the virtual time of A. K. Parekh and R. G. Gallager, "A Generalized
//! Processor Sharing Approach to Flow Control in Integrated Services Networks", IEEE/ACM Transactions on Networking,
//! 1993.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::tasks::{QueuedTask, TaskActivity};
use super::{Fluid, Task, TaskState};
use crate::hardware::HardwareCpu;
use crate::physics::{CoreSpeed, CpiModel, Demand, EventsPer1000};

/// Queued and unqueued tasks of a CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct VirtualTimeQueue {
    /// Nanoseconds served per unit of weight since the CPU was last idle.
    pub served: f64,
    /// Queued tasks, sorted by the bits of their end. No end is negative, so the bits have the same order as the
    /// ends. The entry of a task that was unqueued remains until it reaches the top.
    by_end: BinaryHeap<Reverse<(u64, usize)>>,
    /// Unqueued tasks in order of arrival.
    pub unqueued: Vec<usize>,
    /// SMT speed for which the tasks of this CPU were solved.
    smt: f64,
}

/// Number of entries below which stale entries are not removed.
const SWEPT_ENTRIES_MIN: usize = 64;

/// Solution for a program alone on a CPU, and the values on which it depends.
#[derive(Clone, Debug)]
pub(super) struct SpeedAlone {
    behaviour: Arc<CpiModel>,
    /// The core; the bytes of the cache, the latency of a miss, and the share of the core.
    key: (CoreSpeed, [f64; 3]),
    /// Nanoseconds per 1000 instructions, in total and without stalls on misses.
    ns: f64,
    core_ns: f64,
    /// Stall nanoseconds per nanosecond of miss latency.
    exposed: f64,
    events: EventsPer1000,
}

/// Capacity of the solution cache. It is larger than the usual number of pairs of program and CPU kind.
const SPEEDS_ALONE_MAX: usize = 64;

impl VirtualTimeQueue {
    /// Returns the nanoseconds until the first end of a segment.
    pub fn first_ns(&self, weight: f64) -> f64 {
        let first = self.by_end.peek().map(|Reverse((end, _))| f64::from_bits(*end));
        first.map_or(f64::INFINITY, |end| (end - self.served).max(0.0) * weight)
    }

    /// Removes stale entries from the top. If most entries are stale, removes all stale entries.
    fn drop_stale(&mut self, (cpu, n_here): (usize, usize), tasks: &[Task]) {
        let holds = |&(end, idx): &(u64, usize)| {
            let task = &tasks[idx];
            task.cpu == cpu && task.queued.is_some_and(|queued| queued.end.to_bits() == end)
        };
        while self.by_end.peek().is_some_and(|Reverse(first)| !holds(first)) {
            self.by_end.pop();
        }
        if SWEPT_ENTRIES_MIN.max(2 * n_here) < self.by_end.len() {
            self.by_end.retain(|Reverse(one)| holds(one));
        }
    }

    /// Removes an unqueued task.
    pub fn remove(&mut self, idx: usize) {
        self.unqueued.retain(|other| *other != idx);
    }
}

impl Fluid {
    /// Adds an arriving task to the unqueued tasks of a CPU.
    pub(super) fn add_unqueued(&mut self, idx: usize, cpu: usize) {
        if !self.settings.contention {
            self.cpus[cpu].virtual_time.unqueued.push(idx);
            self.solver.unsolved.push(idx);
        }
    }

    /// Updates and unqueues a task. The CPU of the task must be updated first.
    pub(super) fn unqueue(&mut self, idx: usize) {
        if self.tasks[idx].queued.is_none() {
            return;
        }
        self.update_queued(idx);
        self.tasks[idx].queued = None;
        self.cpus[self.tasks[idx].cpu].virtual_time.unqueued.push(idx);
    }

    /// Updates a queued task. The CPU of the task must be updated first.
    fn update_queued(&mut self, idx: usize) {
        let task = &self.tasks[idx];
        let Some(queued) = task.queued else { return };
        let served = self.cpus[task.cpu].virtual_time.served;
        let passed = (self.now - queued.at) as f64;
        let cpu_ns = ((served - queued.from) * task.weight).min(passed);
        self.tasks[idx].queued = Some(QueuedTask { from: served, at: self.now, ..queued });
        if 0.0 < cpu_ns {
            self.update_task(idx, (cpu_ns, passed - cpu_ns), self.tasks[idx].speed);
        }
    }

    /// Updates the queued tasks of a CPU. The CPU must be updated first.
    pub(super) fn update_all_queued(&mut self, cpu: usize) {
        if self.settings.contention {
            return;
        }
        for at in 0..self.cpus[cpu].tasks.len() {
            self.update_queued(self.cpus[cpu].tasks[at]);
        }
    }

    /// Counts the progress of a job before its pages move, and updates its queued tasks.
    pub(super) fn update_job(&mut self, job: usize) {
        let tasks = self.jobs.get(job).map(|state| state.tasks.clone()).unwrap_or_default();
        for idx in tasks {
            if self.tasks[idx].queued.is_some() {
                self.update_cpu(self.tasks[idx].cpu);
                self.update_queued(idx);
            }
            self.post_counts(idx);
        }
    }

    /// Queues the tasks of a CPU that execute instructions until the end of their segments.
    pub(super) fn queue_running(&mut self, cpu: usize) {
        if self.settings.contention || self.is_sliced() {
            return;
        }
        let (now, tasks) = (self.now, &mut self.tasks);
        let VirtualTimeQueue { served, by_end, unqueued, .. } = &mut self.cpus[cpu].virtual_time;
        unqueued.retain(|&idx| {
            let task = &mut tasks[idx];
            if task.activity != TaskActivity::Running || task.speed <= 0.0 {
                return true;
            }
            let end = *served + task.segment_ns() / task.weight;
            task.queued = Some(QueuedTask { from: *served, at: now, end });
            by_end.push(Reverse((end.to_bits(), idx)));
            false
        });
        self.drop_stale_of(cpu);
    }

    fn drop_stale_of(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        state.virtual_time.drop_stale((cpu, state.tasks.len()), &self.tasks);
    }

    /// Unqueues the tasks of a CPU after the end of their segments.
    pub(super) fn unqueue_ended(&mut self, cpu: usize) {
        self.drop_stale_of(cpu);
        while let Some(&Reverse((end, idx))) = self.cpus[cpu].virtual_time.by_end.peek()
            && f64::from_bits(end) <= self.cpus[cpu].virtual_time.served
        {
            self.unqueue(idx);
            self.drop_stale_of(cpu);
        }
    }

    /// Marks a CPU after a change of its tasks. Only tasks of the same core can change their speed.
    pub(super) fn mark_changed_without_contention(&mut self, cpu: usize) {
        self.mark_stale(cpu);
        let siblings = &self.hardware.cores[self.hardware.cpus[cpu].core];
        if 1 < siblings.len() {
            self.solver.touched_cpus.extend(siblings);
        }
        self.solver.is_dirty = true;
    }

    /// Solves tasks without contention. Each task has the complete cache and unloaded memory.
    pub(super) fn solve_without_contention(&mut self) {
        // The solution of a task starts with an update, which may mark further tasks.
        while !self.solver.unsolved.is_empty() || !self.solver.touched_cpus.is_empty() {
            let mut fresh = std::mem::take(&mut self.solver.unsolved);
            let mut touched = std::mem::take(&mut self.solver.touched_cpus);
            touched.sort_unstable();
            touched.dedup();
            for cpu in touched {
                let smt = self.smt_share(cpu);
                if std::mem::replace(&mut self.cpus[cpu].virtual_time.smt, smt) != smt {
                    fresh.extend(&self.cpus[cpu].tasks);
                }
            }
            fresh.dedup(); // A task that arrives and starts a phase is in the list twice.
            for &idx in &fresh {
                if self.tasks[idx].state == TaskState::Runnable {
                    self.solve_alone(idx);
                }
            }
            if self.solver.unsolved.is_empty() {
                fresh.clear();
                self.solver.unsolved = fresh;
            }
        }
    }

    fn solve_alone(&mut self, idx: usize) {
        let cpu = self.tasks[idx].cpu;
        self.update_cpu(cpu);
        self.unqueue(idx);
        self.mark_stale(cpu);
        self.flush_counts(idx);
        let HardwareCpu { cache, .. } = self.hardware.cpus[cpu];
        let smt = self.smt_share(cpu);
        let task = &mut self.tasks[idx];
        task.cached.bytes = self.hardware.caches[cache].bytes;
        task.cached.refill_from = task.cached.bytes;
        task.activity = task.left.activity();
        if task.activity != TaskActivity::Running {
            let ns = self.ns_alone(idx, smt);
            self.tasks[idx].speed = 1000.0 / ns;
            return;
        }
        let speed_idx = self.speed_alone(idx, cpu);
        let SpeedAlone { ns, core_ns, exposed, events, .. } = self.solver.speeds_alone[speed_idx];
        let task = &mut self.tasks[idx];
        (task.demand.ns, task.demand.core_ns, task.demand.exposed) = (ns, core_ns, exposed);
        task.events = events;
        task.speed = 1000.0 / ns;
        self.tasks[idx].l1_misses = self.phase_of(idx).l1_misses;
    }

    /// Returns the index of the solution for a task alone on a CPU. Each solution is computed once per program and
    /// kind of CPU.
    fn speed_alone(&mut self, idx: usize, cpu: usize) -> usize {
        let HardwareCpu { cache, node, speed, .. } = self.hardware.cpus[cpu];
        let bytes = self.hardware.caches[cache].bytes;
        let miss_ns = self.hardware.memory(node).unloaded_ns;
        let smt = self.smt_share(cpu);
        let behaviour = self.phase_of(idx).behaviour.clone();
        let key = (speed, [bytes, miss_ns, smt]);
        let is_it =
            |known: &SpeedAlone| Arc::ptr_eq(&known.behaviour, &behaviour) && known.key == key;
        if let Some(speed_idx) = self.solver.speeds_alone.iter().position(is_it) {
            return speed_idx;
        }
        let (demand, events) = behaviour.solve_on(&speed, bytes);
        let (core_ns, exposed) = (demand.core_ns / smt, demand.exposed / smt);
        let hidden_ns = demand.hidden_ns / smt;
        let ns = Demand { core_ns, exposed, hidden_ns, ..demand }.ns_at(miss_ns);
        if self.solver.speeds_alone.len() == SPEEDS_ALONE_MAX {
            self.solver.speeds_alone.clear();
        }
        self.solver.speeds_alone.push(SpeedAlone { behaviour, key, ns, core_ns, exposed, events });
        self.solver.speeds_alone.len() - 1
    }
}
