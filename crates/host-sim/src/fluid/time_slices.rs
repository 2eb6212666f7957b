//! Tasks that run one after the other on a CPU, for grains that select the running task.
//!
//! ```text
//!   by weight    a ─ ½ ──────────────      one task    a ████    ████    ████
//!                b ─ ½ ──────────────                  b     ████    ████    ████
//! ```
//!
//! The grain sets the running task of each CPU. Only this task progresses and uses the memory; the others wait. The
//! contents of the caches are those of all runnable tasks, with their average shares of CPU time: a slice is assumed to be
//! shorter than the turnover of the cache. So a switch changes no cache, and costs one update of the channels.

use super::{Fluid, Task, TaskState};
use crate::hardware::Hardware;

/// How the runnable tasks of a CPU share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuSharing {
    /// All run, in proportion to their weights.
    ByWeight,
    /// One runs. Each CPU has its own queue.
    OneTask,
    /// One runs. The CPUs of an LLC domain have one queue.
    OneTaskPerLlcQueue,
}

impl CpuSharing {
    /// Returns whether two CPUs have one queue. Load balancing moves no waiting task between them.
    pub fn is_one_queue(self, hardware: &Hardware, one: usize, other: usize) -> bool {
        self == CpuSharing::OneTaskPerLlcQueue
            && hardware.cpus[one].cache == hardware.cpus[other].cache
    }
}

/// A change of a run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueChange {
    /// A task became runnable on a CPU, or migrated to it.
    Arrived { task: usize, cpu: usize },
    /// A task left the run queue of a CPU.
    Left { task: usize, cpu: usize },
    /// A task of the queue of a CPU, or the CPU itself, may be used again.
    Opened { cpu: usize },
}

impl QueueChange {
    fn is_of(self, idx: usize) -> bool {
        match self {
            QueueChange::Arrived { task, .. } | QueueChange::Left { task, .. } => task == idx,
            QueueChange::Opened { .. } => false,
        }
    }
}

impl Fluid {
    /// Returns the machine with another way to share a CPU. It must have no jobs.
    pub(crate) fn with_sharing(mut self, sharing: CpuSharing) -> Self {
        self.sharing = sharing;
        self
    }

    #[cfg(test)]
    pub(crate) fn set_contention(&mut self, contention: bool) {
        self.settings.contention = contention;
    }

    /// Returns whether the tasks of a CPU run one after the other.
    pub(super) fn is_sliced(&self) -> bool {
        self.sharing != CpuSharing::ByWeight
    }

    /// Returns the share of CPU time that a task has on average over the tasks of its queue.
    pub(super) fn average_share(&self, idx: usize, cpu: usize) -> f64 {
        let task = &self.tasks[idx];
        match self.sharing {
            CpuSharing::ByWeight | CpuSharing::OneTask => task.weight / self.cpus[cpu].weight,
            CpuSharing::OneTaskPerLlcQueue => task.queue_share,
        }
    }

    /// Returns the average share of CPU time of a task, and the share of its demand that the memory has to serve.
    pub(super) fn demand_shares(&self, idx: usize, cpu: usize) -> (f64, f64) {
        let duty = self.average_share(idx, cpu);
        (duty, if self.is_sliced() { 1.0 } else { duty })
    }

    /// Returns whether a runnable task uses the memory now.
    pub(super) fn uses_memory(&self, idx: usize) -> bool {
        !self.is_sliced() || self.cpus[self.tasks[idx].cpu].running == Some(idx)
    }

    pub(super) fn note_arrival(&mut self, task: usize, cpu: usize) {
        if self.is_sliced() {
            self.queue_changes.push(QueueChange::Arrived { task, cpu });
        }
    }

    pub(super) fn note_departure(&mut self, task: usize, cpu: usize) {
        if self.is_sliced() {
            self.queue_changes.push(QueueChange::Left { task, cpu });
            self.cpus[cpu].running = self.cpus[cpu].running.filter(|running| *running != task);
        }
    }

    pub(super) fn note_opened(&mut self, cpu: usize) {
        if self.is_sliced() {
            self.queue_changes.push(QueueChange::Opened { cpu });
        }
        self.mark_queue_changed(cpu);
    }

    /// Marks the cache of a CPU to be solved again if the CPUs of the cache have one queue: the set of CPUs that a task may
    /// use has changed.
    pub(super) fn mark_queue_changed(&mut self, cpu: usize) {
        if self.settings.contention && self.sharing == CpuSharing::OneTaskPerLlcQueue {
            self.solver.touch(self.hardware.cpus[cpu].cache);
        }
    }

    /// Returns whether a run queue has changed since the last call of [`Fluid::take_queue_changes`].
    pub(crate) fn has_queue_changes(&self) -> bool {
        !self.queue_changes.is_empty()
    }

    /// Removes and returns the changes of the run queues, in order.
    pub(crate) fn take_queue_changes(&mut self) -> Vec<QueueChange> {
        std::mem::take(&mut self.queue_changes)
    }

    /// Returns a task.
    pub(crate) fn task(&self, idx: usize) -> &Task {
        &self.tasks[idx]
    }

    /// Returns whether a task may run on a CPU. If no CPU of its affinity is online, it stays on its CPU.
    pub(crate) fn may_run(&self, idx: usize, cpu: usize) -> bool {
        let task = &self.tasks[idx];
        self.kernel.online[cpu] && (task.may_use(cpu) || task.cpu == cpu)
    }

    /// Returns the runnable tasks of a CPU.
    pub(crate) fn runnable_on(&self, cpu: usize) -> &[usize] {
        &self.cpus[cpu].tasks
    }

    /// Returns the running task of a CPU.
    pub(crate) fn running_on(&self, cpu: usize) -> Option<usize> {
        self.cpus[cpu].running
    }

    /// Stops the running task of a CPU; the CPU is busy, but no task progresses.
    pub(crate) fn stop_running(&mut self, cpu: usize) {
        self.update_cpu(cpu);
        let Some(idx) = self.cpus[cpu].running.take() else { return };
        if self.settings.contention {
            self.flush_counts(idx);
            self.list_on_channels(idx, false);
        }
        self.mark_switched(cpu);
    }

    /// Runs a task of a CPU that has no running task.
    pub(crate) fn run(&mut self, idx: usize, cpu: usize) {
        self.update_cpu(cpu);
        if self.tasks[idx].state != TaskState::Runnable || self.tasks[idx].cpu != cpu {
            return; // The job of the task was OOM-killed.
        }
        self.cpus[cpu].running = Some(idx);
        // A changed cache is solved before the next event, with the demand of the task.
        if self.settings.contention && !self.solver.touched[self.hardware.cpus[cpu].cache] {
            let task = &self.tasks[idx];
            match task.activity == task.left.activity() {
                true => self.list_on_channels(idx, true),
                false => self.set_activity(idx),
            }
            self.set_speed(idx);
        }
        self.mark_switched(cpu);
    }

    /// Migrates a task that a CPU has taken from a common queue. Its departure and arrival are no changes of the queue.
    pub(crate) fn migrate_in_queue(&mut self, idx: usize, to: usize) {
        let before = self.take_queue_changes();
        self.migrate(idx, to);
        let task = &self.tasks[idx];
        let has_arrived = task.cpu == to && task.state == TaskState::Runnable;
        let during = std::mem::replace(&mut self.queue_changes, before);
        let others = during.into_iter().filter(|change| !(has_arrived && change.is_of(idx)));
        self.queue_changes.extend(others);
    }

    fn mark_switched(&mut self, cpu: usize) {
        self.solver.is_dirty = true;
        self.mark_stale(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{machine, script, start};
    use super::*;

    /// Three tasks, of which two are on one CPU.
    #[test]
    fn tasks_of_a_common_queue_have_equal_shares() {
        let shares = |sharing| {
            let mut fluid = machine("cores=2").with_sharing(sharing);
            let work = script(&fluid, 1e9, 0.0, 0);
            (0..3).for_each(|job| start(&mut fluid, job, &work, None));
            fluid.next_event();
            let share = |idx: usize| fluid.average_share(idx, fluid.tasks[idx].cpu);
            (0..3).map(|idx| (60.0 * share(idx)) as u32).collect::<Vec<_>>()
        };
        assert_eq!(shares(CpuSharing::OneTaskPerLlcQueue), [40, 40, 40]);
        assert_eq!(shares(CpuSharing::OneTask).iter().sum::<u32>(), 120);
        assert!(shares(CpuSharing::OneTask).contains(&60));
    }

    #[test]
    fn a_common_queue_gives_no_time_of_a_cpu_to_a_task_that_may_not_use_it() {
        let mut fluid = machine("cores=2").with_sharing(CpuSharing::OneTaskPerLlcQueue);
        let work = script(&fluid, 1e9, 0.0, 0);
        for (job, cpu) in [Some(1), Some(0), Some(0), Some(0)].into_iter().enumerate() {
            start(&mut fluid, job, &work, cpu);
        }
        let shares = |fluid: &mut Fluid| {
            fluid.next_event();
            let share = |idx: usize| fluid.average_share(idx, fluid.tasks[idx].cpu);
            (0..4).map(|idx| (600.0 * share(idx)).round() as u32).collect::<Vec<_>>()
        };
        assert_eq!(shares(&mut fluid), [600, 200, 200, 200]);
        // The affinity changes, but no task migrates.
        fluid.bind(0, None);
        fluid.bind(3, None);
        fluid.next_event();
        assert_eq!(shares(&mut fluid), [300, 300, 300, 300]);
    }
}
