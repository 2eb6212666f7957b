//! Invariants of a simulated run, checked throughout.
//!
//! | invariant | checked |
//! | --- | --- |
//! | every task is on an online CPU of its affinity | each turn |
//! | no CPU is idle while a task that may run there has waited longer than [`WAIT_MAX`] | each turn |
//! | used and free memory of each node add up to its size | each turn |
//! | total CPU time is at most the existing CPU time | each turn |
//! | the results of a page migration add up to the attempted bytes, within its limit | each migration |
//! | every job ends | at the end |
//!
//! A violation is a bug of the simulator, not of a policy. It ends the run with an error.

use base::{CpuId, Nanos};

use super::{Fluid, JobPageMigration, Task, TaskState};

/// Maximum wait of a task while a CPU that it may use is idle: load balancing between the nodes of a large machine takes some
/// attempts of 64 ms each.
pub const WAIT_MAX: Nanos = Nanos::from_secs(1);

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulator violated an invariant at {at}: {what} (this is a bug of evenkeel)")]
pub struct InvariantViolation {
    /// Simulated time.
    pub at: Nanos,
    /// The invariant and the violating values.
    pub what: String,
}

impl Fluid {
    /// Checks the invariants of the present state.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn check_invariants(&self) -> Result<(), InvariantViolation> {
        let violation = |what| InvariantViolation { at: Nanos(self.now()), what };
        self.check_affinities().map_err(violation)?;
        self.check_pages().map_err(violation)?;
        self.check_cpu_time().map_err(violation)?;
        match self.waiting_next_to_idle().filter(|(.., ns)| WAIT_MAX.0 < *ns) {
            Some((task, cpu, ns)) => {
                let ms = ns / 1_000_000;
                Err(violation(format!(
                    "thread {task} has waited for {ms} ms next to the idle {cpu}"
                )))
            }
            None => Ok(()),
        }
    }

    /// Checks the result of a page migration.
    ///
    /// # Errors
    /// The result does not add up, or is above the limit.
    pub fn check_move(&self, done: &JobPageMigration) -> Result<(), InvariantViolation> {
        let JobPageMigration { requested, limit, moved, no_memory, busy, .. } = *done;
        if moved + no_memory + busy == requested && requested <= limit {
            return Ok(());
        }
        let failed = no_memory + busy;
        let what = format!(
            "a page migration of {requested} bytes with a limit of {limit}: {moved} moved, {failed} failed"
        );
        Err(InvariantViolation { at: Nanos(self.now()), what })
    }

    /// Checks that every task is on a CPU that it may use.
    pub(super) fn check_affinities(&self) -> Result<(), String> {
        for (cpu, state) in self.cpus.iter().enumerate() {
            let id = self.hardware.cpus[cpu].id;
            if !state.tasks.is_empty() && !self.kernel.online[cpu] {
                return Err(format!("a task is on {id}, which is offline"));
            }
            for task in state.tasks.iter().map(|&idx| &self.tasks[idx]) {
                // If no allowed CPU is online, the task runs on any other CPU, as in the kernel.
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

    /// Checks that the tasks got at most the existing CPU time.
    pub(super) fn check_cpu_time(&self) -> Result<(), String> {
        let given = self.cpu_ns_given;
        let existing = self.now as f64 * self.cpus.len() as f64;
        match given <= existing * (1.0 + 1e-9) + 1.0 {
            true => Ok(()),
            false => Err(format!("{given} ns of CPU time of {existing}")),
        }
    }

    /// Nanoseconds per 1000 instructions of a task, including its wait time.
    pub fn ns_each(&self, task: &Task) -> f64 {
        let weight = self.cpus[task.cpu].weight;
        1000.0 / task.speed.max(1e-12) * weight / task.weight
    }

    /// A task that waits although a CPU that it may use is idle, that CPU, and the wait in nanoseconds. Load balancing
    /// follows every change, so an imbalance that remains has existed since the last attempt.
    fn waiting_next_to_idle(&self) -> Option<(u32, CpuId, u64)> {
        let since = self.waiting_since?;
        let (task, cpu) = self.waits_next_to_idle()?;
        Some((task, cpu, self.now - since))
    }

    /// A task that waits although a CPU that it may use is idle, and that CPU.
    pub(super) fn waits_next_to_idle(&self) -> Option<(u32, CpuId)> {
        let idle: Vec<usize> = (0..self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].tasks.is_empty() && self.kernel.online[cpu])
            .collect();
        if idle.is_empty() {
            return None;
        }
        let crowded = self.cpus.iter().filter(|state| 2 <= state.tasks.len());
        crowded.flat_map(|state| &state.tasks).find_map(|&task| {
            let task = &self.tasks[task];
            let is_allowed = |cpu: usize| task.allowed.as_ref().is_none_or(|allowed| allowed[cpu]);
            let cpu = idle.iter().copied().find(|&cpu| is_allowed(cpu))?;
            Some((task.tid, self.hardware.cpus[cpu].id))
        })
    }
}
