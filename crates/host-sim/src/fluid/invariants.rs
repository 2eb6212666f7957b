//! Invariants of a simulated run, which are checked during the run.
//!
//! | invariant | checked |
//! | --- | --- |
//! | every task is on an online CPU of its affinity | each turn with changes |
//! | no CPU is idle while a task that may run there has waited longer than [`WAIT_MAX`] | each turn |
//! | used and free memory of each node add up to its size | each turn with changes |
//! | the CPU time of all tasks on a CPU is at most the time in which the CPU had tasks | each turn with changes |
//! | no controller, link or port has transferred more than its capacity since the start, or has a larger demand | each turn with changes |
//! | demand and latency of each channel are consistent | each turn with changes |
//! | speeds and occupancies of the tasks in each cache have converged, and fill it if lines are replaced | each turn with changes |
//! | no task is faster than its core without stalls | each turn with changes |
//! | the occupancies of the tasks in a cache, and in the cache of a cluster, are at most its size | each turn with changes |
//! | a job that ended has executed the instructions of its script, and had at most as many misses as accesses | each end of a job |
//! | moved and failed bytes of a page migration add up to the attempted bytes, which are within the limit | each migration |
//! | every job ends | at the end |
//!
//! A turn has changes if the machine has handled an event, computed speeds, migrated a task or moved pages since the
//! last check.
//!
//! A violation is a bug of the simulator, not of a policy. It ends the run with an error.

use base::{CpuId, Nanos};

use super::{Fluid, Task, TaskState};
use crate::frame::{InvariantViolation, TaskCounts};

/// Maximum wait time of a task while a CPU that the task may use is idle. Load balancing between the nodes of a large
/// machine takes several attempts of 64 ms each.
pub const WAIT_MAX: Nanos = Nanos::from_secs(1);

impl Fluid {
    /// Checks the invariants of the current state.
    ///
    /// # Errors
    /// Returns the first violated invariant.
    pub fn check_invariants(&self) -> Result<(), InvariantViolation> {
        let violation = |problem| InvariantViolation { at: Nanos(self.now()), problem };
        self.check_affinities().map_err(violation)?;
        self.check_pages().map_err(violation)?;
        self.check_cpu_time().map_err(violation)?;
        self.check_occupancies().map_err(violation)?;
        self.check_speeds().map_err(violation)?;
        self.check_clusters().map_err(violation)?;
        if self.settings.contention {
            let checked = self.solver.check(self.now, self.settings.precision, &self.tasks);
            checked.map_err(violation)?;
        }
        self.check_waiting()
    }

    /// Checks that no task waits too long while a CPU is idle. Time alone can violate this invariant.
    pub(super) fn check_waiting(&self) -> Result<(), InvariantViolation> {
        match self.waiting_next_to_idle().filter(|(.., ns)| WAIT_MAX.0 < *ns) {
            Some((task, cpu, ns)) => {
                let ms = ns / 1_000_000;
                let problem =
                    format!("thread {task} has waited for {ms} ms although {cpu} is idle");
                Err(InvariantViolation { at: Nanos(self.now()), problem })
            }
            None => Ok(()),
        }
    }

    /// Checks that every task is on a CPU that it may use.
    pub(super) fn check_affinities(&self) -> Result<(), String> {
        for (cpu, state) in self.cpus.iter().enumerate() {
            let id = self.hardware.cpus[cpu].id;
            if !state.tasks.is_empty() && !self.kernel.online[cpu] {
                return Err(format!("a task is on {id}, which is offline"));
            }
            for task in state.tasks.iter().map(|&idx| &self.tasks[idx]) {
                // If no allowed CPU is online, the task runs on any online CPU, as in the kernel.
                let is_allowed = |mask: &Vec<bool>| {
                    mask[cpu]
                        || !mask
                            .iter()
                            .zip(&self.kernel.online)
                            .any(|(allowed, online)| *allowed && *online)
                };
                if !task.allowed.as_ref().is_none_or(|allowed| is_allowed(allowed)) {
                    return Err(format!("thread {} runs on {id}, outside its affinity", task.tid));
                }
                if task.cpu != cpu || task.state != TaskState::Runnable {
                    return Err(format!(
                        "thread {} is in the run queue of {id}, but is not runnable or is assigned to another CPU",
                        task.tid
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the CPU time of the tasks on each CPU is not larger than the time in which the CPU had tasks.
    pub(super) fn check_cpu_time(&self) -> Result<(), String> {
        let is_over = |state: &&super::CpuState| state.busy_ns * (1.0 + 1e-9) + 1.0 < state.cpu_ns;
        match self.cpus.iter().find(is_over) {
            Some(state) => Err(format!(
                "the tasks on a CPU have {} ns of CPU time in {} ns",
                state.cpu_ns, state.busy_ns
            )),
            None => Ok(()),
        }
    }

    /// Checks that no task is faster than its core without stalls.
    pub(super) fn check_speeds(&self) -> Result<(), String> {
        let runnable = self.cpus.iter().flat_map(|state| &state.tasks).map(|&idx| &self.tasks[idx]);
        for task in runnable.filter(|task| !task.demand.uses.is_empty()) {
            let (ns, core_ns) = (self.ns_at_latencies(task), task.demand.core_ns);
            if ns < core_ns * (1.0 - 1e-6) {
                return Err(format!(
                    "thread {} takes {ns} ns for work that takes its core {core_ns} ns",
                    task.tid
                ));
            }
        }
        Ok(())
    }

    /// Checks that the tasks in each cache occupy at most its size.
    pub(super) fn check_occupancies(&self) -> Result<(), String> {
        for (cache_idx, cache) in self.hardware.caches.iter().enumerate() {
            let tasks = cache.cpus.iter().flat_map(|&cpu| &self.cpus[cpu].tasks);
            let here = tasks.map(|&idx| &self.tasks[idx]);
            let here = here.filter(|task| task.cached.cache == Some(cache_idx));
            let occupied: f64 = here.map(Task::own_occupancy).sum();
            if self.settings.contention && cache.bytes * (1.0 + 1e-6) < occupied {
                return Err(format!("tasks occupy {occupied} bytes of a cache of {}", cache.bytes));
            }
        }
        Ok(())
    }

    /// Checks that the threads of an ended job have executed the instructions of their script, and that each miss was an
    /// access.
    ///
    /// # Errors
    /// Returns an error if the numbers differ by more than rounding.
    pub fn check_instructions(&self, job: usize) -> Result<(), InvariantViolation> {
        for task in self.tasks_of(job) {
            let each = |phase, mean| self.variation.instructions(task.random_key, phase, mean);
            let phases = task.script.phases.iter().enumerate();
            let expected: f64 = match &task.script.plan {
                Some(plan) => plan.instructions(task.team.thread, each),
                None => phases.map(|(idx, phase)| each(idx, phase.instructions)).sum(),
            };
            let TaskCounts { misses, references, .. } = task.counts;
            if references * (1.0 + 1e-6) + 1.0 < misses {
                let problem =
                    format!("thread {} has {misses} misses of {references} references", task.tid);
                return Err(InvariantViolation { at: Nanos(self.now()), problem });
            }
            let found = task.counts.instructions;
            if 1e-6 * expected + 1.0 < (expected - found).abs() {
                let problem = format!(
                    "thread {} has executed {found} instructions, its script has {expected}",
                    task.tid
                );
                return Err(InvariantViolation { at: Nanos(self.now()), problem });
            }
        }
        Ok(())
    }

    /// Returns the nanoseconds per 1000 instructions of a task, including the wait time.
    pub fn ns_each(&self, task: &Task) -> f64 {
        let weight = self.cpus[task.cpu].weight;
        // Without contention, a task has no channels.
        let ns = match task.demand.uses.is_empty() {
            true => 1000.0 / task.speed.max(1e-12),
            false => self.ns_at_latencies(task),
        };
        ns * weight / task.weight
    }

    /// Returns a task that waits although an allowed CPU is idle, the CPU, and the wait time in nanoseconds. Load
    /// balancing follows every change, so an imbalance that remains has existed since the last attempt.
    fn waiting_next_to_idle(&self) -> Option<(u32, CpuId, u64)> {
        let since = self.waiting_since?;
        let (task, cpu) = self.find_task_next_to_idle(false)?;
        Some((task, cpu, self.now - since))
    }

    /// Returns a task that waits although an allowed CPU is idle, and the CPU. With `running_too`, the task may be the one
    /// that runs beside waiting tasks.
    pub(super) fn find_task_next_to_idle(&self, running_too: bool) -> Option<(u32, CpuId)> {
        let idle: Vec<usize> = (0..self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].tasks.is_empty() && self.kernel.online[cpu])
            .collect();
        if idle.is_empty() {
            return None;
        }
        let crowded = self.cpus.iter().filter(|state| 2 <= state.tasks.len());
        let waiting = crowded.flat_map(|state| {
            state.tasks.iter().filter(move |&&idx| running_too || Some(idx) != state.running)
        });
        waiting.map(|&idx| &self.tasks[idx]).find_map(|task| {
            let cpu = idle.iter().copied().find(|&cpu| task.may_use(cpu))?;
            Some((task.tid, self.hardware.cpus[cpu].id))
        })
    }
}
