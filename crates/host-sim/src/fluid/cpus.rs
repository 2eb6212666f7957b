//! Run queues: enqueue, dequeue and migration of tasks, and their progress over time.

use super::channels::N_CHECKS;
use super::events::FluidEvent;
use super::time_slices::CpuSharing;
use super::virtual_time::VirtualTimeQueue;
use super::{Fluid, Task, TaskState};

/// The run queue of a CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuState {
    /// Runnable tasks in order of arrival.
    pub tasks: Vec<usize>,
    /// Sum of the weights of these tasks.
    pub weight: f64,
    /// Number of weights that are not whole numbers.
    n_fractional: usize,
    /// Queued tasks. Only used without contention ([`super::virtual_time`]).
    pub virtual_time: VirtualTimeQueue,
    /// Time up to which the tasks of this CPU are updated.
    pub updated: u64,
    /// The task that runs, if the tasks of a CPU run one after the other ([`super::time_slices`]).
    pub running: Option<usize>,
    /// CPU time of all tasks on this CPU in nanoseconds.
    pub cpu_ns: f64,
    /// Time in which the CPU had tasks, in nanoseconds.
    pub busy_ns: f64,
    /// Whether the run queue changed since the end of its first segment was computed.
    pub is_stale: bool,
    /// Number of times that the end of the first segment is computed again shortly before it ([`super::channels`]).
    pub n_checks: u32,
}

/// Sums of whole numbers up to this limit are exact.
const WHOLE_MAX: f64 = (1u64 << 52) as f64;

fn is_fractional(weight: f64) -> bool {
    libm::floor(weight) != weight || WHOLE_MAX < weight
}

impl CpuState {
    /// Appends a task.
    fn push(&mut self, idx: usize, weight: f64) {
        self.tasks.push(idx);
        self.weight += weight;
        self.n_fractional += usize::from(is_fractional(weight));
    }

    /// Removes a task. Sums of whole weights are exact. Other sums are recomputed, so that rounding errors do not
    /// accumulate.
    fn remove(&mut self, idx: usize, all: &[Task]) {
        let Some(at) = self.tasks.iter().position(|&other| other == idx) else { return };
        self.tasks.remove(at);
        let weight = all[idx].weight;
        self.n_fractional -= usize::from(is_fractional(weight));
        match self.n_fractional == 0 && !is_fractional(weight) && self.weight < WHOLE_MAX {
            true => self.weight -= weight,
            false => self.sum(all),
        }
    }

    /// Returns the tasks that are updated together with their CPU: all tasks; without contention, only the unqueued
    /// tasks.
    fn tasks_updated_with_cpu(&self, contention: bool) -> &[usize] {
        if contention { &self.tasks } else { &self.virtual_time.unqueued }
    }

    fn sum(&mut self, all: &[Task]) {
        self.weight = self.tasks.iter().map(|&idx| all[idx].weight).sum();
        let fractional = self.tasks.iter().filter(|&&idx| is_fractional(all[idx].weight));
        self.n_fractional = fractional.count();
    }
}

impl Fluid {
    /// Updates the tasks of a CPU to the current time.
    pub(crate) fn update_cpu(&mut self, cpu: usize) {
        let state = &mut self.cpus[cpu];
        let passed = (self.now - state.updated) as f64;
        state.updated = self.now;
        if passed == 0.0 || state.tasks.is_empty() {
            return;
        }
        state.busy_ns += passed;
        let (weight, running) = (state.weight, state.running);
        state.virtual_time.served += passed / weight;
        let updated = state.tasks_updated_with_cpu(self.settings.contention);
        // The list is copied, because a task that is OOM-killed leaves the run queue during the loop.
        let mut all = std::mem::take(&mut self.updating);
        all.extend(updated);
        for &idx in &all {
            let task = &self.tasks[idx];
            if task.state == TaskState::Runnable && task.cpu == cpu {
                let share = match self.sharing {
                    CpuSharing::ByWeight => task.weight / weight,
                    _ => f64::from(u8::from(running == Some(idx))),
                };
                let speed = self.follow_latencies(idx, passed);
                self.update_task(idx, (passed * share, passed * (1.0 - share)), speed);
            }
        }
        all.clear();
        self.updating = all;
    }

    /// Advances a task by an amount of CPU time and of wait time, in nanoseconds.
    pub(super) fn update_task(&mut self, idx: usize, (cpu_ns, wait_ns): (f64, f64), speed: f64) {
        let task = &mut self.tasks[idx];
        self.cpus[task.cpu].cpu_ns += cpu_ns;
        task.wait_ns += wait_ns;
        let touched = task.progress(cpu_ns, speed);
        if 0.0 < touched {
            let (job, cpu_node) = (task.job, self.hardware.cpus[task.cpu].node);
            self.touch(job, cpu_node, touched);
        }
    }

    /// Updates all CPUs to the current time.
    pub fn update_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.update_cpu(cpu);
            self.update_all_queued(cpu);
            for at in 0..self.cpus[cpu].tasks.len() {
                self.post_counts(self.cpus[cpu].tasks[at]);
            }
        }
    }

    /// Adds a task to the run queue of a CPU.
    pub(super) fn enqueue(&mut self, idx: usize, cpu: usize) {
        self.update_cpu(cpu);
        if self.tasks[idx].state == TaskState::Ended {
            return; // The job of the task was OOM-killed.
        }
        self.tasks[idx].cpu = cpu;
        self.tasks[idx].state = TaskState::Runnable;
        self.n_changes += 1;
        self.cpus[cpu].push(idx, self.tasks[idx].weight);
        self.add_unqueued(idx, cpu);
        self.kernel.add_task(cpu);
        self.return_to_cache(idx, self.hardware.cpus[cpu].cache);
        self.mark_changed(cpu);
        self.note_arrival(idx, cpu);
        self.schedule_balance();
        self.schedule_busy_balance(cpu);
    }

    /// Removes a task from its run queue.
    pub(super) fn dequeue(&mut self, idx: usize) {
        let cpu = self.tasks[idx].cpu;
        self.n_changes += 1;
        self.update_cpu(cpu);
        self.unqueue(idx);
        self.note_departure(idx, cpu);
        self.leave_cache(idx);
        let state = &mut self.cpus[cpu];
        state.virtual_time.remove(idx);
        state.remove(idx, &self.tasks);
        if state.tasks.is_empty() {
            state.virtual_time = VirtualTimeQueue::default();
        }
        self.remove_from_channels(idx);
        self.kernel.remove_task(cpu);
        self.mark_changed(cpu);
        self.schedule_balance();
    }

    /// Marks the cache of a CPU to be solved again. With SMT siblings, marks the caches of the siblings too.
    pub(super) fn mark_changed(&mut self, cpu: usize) {
        if !self.settings.contention {
            return self.mark_changed_without_contention(cpu);
        }
        self.cpus[cpu].is_stale = true;
        self.cpus[cpu].n_checks = N_CHECKS;
        let hardware = &self.hardware;
        self.solver.touch(hardware.cpus[cpu].cache);
        for &sibling in &hardware.cores[hardware.cpus[cpu].core] {
            self.solver.touch(hardware.cpus[sibling].cache);
        }
    }

    /// Marks a CPU whose first segment may end at another time.
    pub(super) fn mark_stale(&mut self, cpu: usize) {
        self.cpus[cpu].n_checks = N_CHECKS;
        if !std::mem::replace(&mut self.cpus[cpu].is_stale, true) {
            self.solver.stale_cpus.push(cpu);
        }
    }

    /// Migrates a task to another run queue.
    pub(super) fn migrate(&mut self, idx: usize, to: usize) {
        let from = self.tasks[idx].cpu;
        if from == to {
            return;
        }
        // Both CPUs are updated first. An update may OOM-kill a task; if it is this task, the migration stops.
        self.update_cpu(from);
        self.update_cpu(to);
        if self.tasks[idx].state == TaskState::Ended {
            return;
        }
        self.dequeue(idx);
        self.enqueue(idx, to);
        self.count_migration(idx);
        if self.cpus[from].tasks.is_empty() {
            self.balance_newly_idle(from);
        }
    }

    pub(super) fn count_migration(&mut self, idx: usize) {
        self.tasks[idx].n_migrations += 1;
        self.counts.migrations += 1;
        self.charge_migration(idx);
    }

    /// Computes the time at which the first segment on a CPU ends.
    pub(super) fn reschedule(&mut self, cpu: usize) {
        self.update_cpu(cpu);
        self.queue_running(cpu);
        let state = &self.cpus[cpu];
        let updated = state.tasks_updated_with_cpu(self.settings.contention);
        let ends = updated.iter().map(|&idx| {
            let per_cpu_ns = match self.sharing {
                CpuSharing::ByWeight => state.weight / self.tasks[idx].weight,
                _ if state.running == Some(idx) => 1.0,
                _ => return f64::INFINITY,
            };
            self.next_check_ns(idx, per_cpu_ns, 0 < state.n_checks)
        });
        let first =
            ends.fold(f64::INFINITY, f64::min).min(state.virtual_time.first_ns(state.weight));
        for &idx in updated {
            for of in &mut self.tasks[idx].demand.uses {
                of.least = self.solver.channels[of.channel].lowest(self.settings.precision);
            }
        }
        // The end is rounded up, so that the segment has ended at this time. A task without progress has no event.
        let at = (first < 1e18).then(|| self.now + (libm::ceil(first) as u64).max(1));
        self.segment_ends.set(cpu, at);
        self.cpus[cpu].is_stale = false;
    }

    /// Handles the end of the first segment on a CPU.
    pub(super) fn segment_ends(&mut self, cpu: usize) {
        self.update_cpu(cpu);
        self.unqueue_ended(cpu);
        let state = &self.cpus[cpu];
        let updated = state.tasks_updated_with_cpu(self.settings.contention);
        let mut all = std::mem::take(&mut self.ending);
        all.extend(updated);
        for &idx in &all {
            self.check_activity(idx);
            if self.tasks[idx].is_segment_over() && self.tasks[idx].state == TaskState::Runnable {
                self.task_segment_ends(idx);
            }
        }
        all.clear();
        self.ending = all;
        let state = &mut self.cpus[cpu];
        state.is_stale = true;
        state.n_checks = state.n_checks.saturating_sub(1);
        self.solver.stale_cpus.push(cpu);
    }

    /// Marks a task when its activity has ended, because this changes its demand. The equilibrium of its cache does not
    /// change, because it is that of executing tasks.
    fn check_activity(&mut self, idx: usize) {
        let task = &self.tasks[idx];
        if task.activity == task.left.activity() {
            return;
        }
        match self.settings.contention {
            true => {
                self.solver.changed_tasks.push(idx);
                self.solver.is_dirty = true;
            }
            false => self.mark_task_changed(idx),
        }
    }

    /// Marks a task to be solved again after a change of its work.
    pub(super) fn mark_task_changed(&mut self, idx: usize) {
        self.tasks[idx].is_changed = true;
        let cpu = self.tasks[idx].cpu;
        if !self.settings.contention {
            self.solver.unsolved.push(idx);
        }
        self.mark_changed(cpu);
    }

    fn task_segment_ends(&mut self, idx: usize) {
        let task = &mut self.tasks[idx];
        let is_over = task.is_phase_over();
        if is_over && task.script.plan.is_some() {
            return self.part_ends(idx);
        }
        if !is_over {
            let (burst, sleep) =
                task.script.phases[task.phase].sleeps.unwrap_or((f64::INFINITY, 0));
            task.left.burst = burst;
            self.sleep(idx, sleep);
            return;
        }
        task.phase += 1;
        if task.phase == task.script.phases.len() {
            self.task_ends(idx);
        } else {
            self.begin_phase(idx);
        }
    }

    fn sleep(&mut self, idx: usize, ns: u64) {
        let task = &mut self.tasks[idx];
        task.n_sleeps += 1;
        let ns = self.variation.sleep(task.random_key, task.n_sleeps, ns).max(1);
        self.events.add(self.now + ns, FluidEvent::Wake(idx, self.tasks[idx].generation));
        self.sleep_until_woken(idx);
    }

    pub(super) fn sleep_until_woken(&mut self, idx: usize) {
        let cpu = self.tasks[idx].cpu;
        self.dequeue(idx);
        self.tasks[idx].state = TaskState::Sleeping;
        self.balance_newly_idle(cpu);
    }

    /// Handles the end of a sleep.
    pub(super) fn wakes(&mut self, idx: usize, generation: u64) {
        let task = &self.tasks[idx];
        if task.generation != generation || task.state != TaskState::Sleeping {
            return;
        }
        let (before, allowed) = (task.cpu, task.allowed.clone());
        let allowed = allowed.as_deref().map(Vec::as_slice);
        let mut tie_breaker = self.tie_breaker(idx);
        let cpu = self.kernel.wake(before, allowed, &mut tie_breaker);
        // If no allowed CPU is online, the task runs on any online CPU, as in the kernel.
        let cpu = cpu.or_else(|| self.kernel.wake(before, None, &mut tie_breaker));
        let cpu = cpu.unwrap_or(before);
        self.enqueue(idx, cpu);
        if cpu != before {
            self.count_migration(idx);
        }
    }

    /// Takes a CPU offline or online. The tasks of an offline CPU migrate to other CPUs. If no allowed CPU is online,
    /// they migrate to CPUs outside their affinity, as in the kernel.
    pub fn set_online(&mut self, cpu: usize, online: bool) {
        if self.kernel.online[cpu] == online {
            return;
        }
        self.kernel.set_online(cpu, online);
        self.n_changes += 1;
        if online {
            self.kernel.count_cpu(cpu, true);
            self.return_to_affinity(cpu);
            self.note_opened(cpu);
            self.schedule_balance();
            return self.balance_newly_idle(cpu);
        }
        for idx in self.cpus[cpu].tasks.clone() {
            if let Some(to) = self.fork_cpu(idx, cpu) {
                self.migrate(idx, to);
            }
        }
        self.kernel.count_cpu(cpu, false);
        self.mark_queue_changed(cpu);
    }

    /// Returns tasks that run outside their affinity to a CPU that is online again (in Linux since 6.2).
    fn return_to_affinity(&mut self, cpu: usize) {
        for other in 0..self.cpus.len() {
            for idx in self.cpus[other].tasks.clone() {
                let may_return =
                    |allowed: &std::sync::Arc<Vec<bool>>| !allowed[other] && allowed[cpu];
                if self.tasks[idx].allowed.as_ref().is_some_and(may_return) {
                    self.migrate(idx, cpu);
                }
            }
        }
    }
}
