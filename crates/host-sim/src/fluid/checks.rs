//! Invariants of the fluid model.

use base::CpuId;

use super::{Fluid, Task, TaskState};

impl Fluid {
    /// Whether every task is on a CPU that it may use.
    ///
    /// # Errors
    /// One that is not.
    pub fn check_places(&self) -> Result<(), String> {
        for (cpu, state) in self.cpus.iter().enumerate() {
            let id = self.hardware.cpus[cpu].id;
            if !state.tasks.is_empty() && !self.kernel.online[cpu] {
                return Err(format!("something runs on {id}, which is offline"));
            }
            for task in state.tasks.iter().map(|&idx| &self.tasks[idx]) {
                // If no allowed CPU is online, the task runs on any other CPU, as in the kernel.
                let may = |mask: &Vec<bool>| {
                    mask[cpu] || !mask.iter().zip(&self.kernel.online).any(|(may, on)| *may && *on)
                };
                if !task.allowed.as_ref().is_none_or(|allowed| may(allowed)) {
                    return Err(format!("thread {} runs on {id}, where it may not", task.tid));
                }
                if task.cpu != cpu || task.state != TaskState::Runnable {
                    return Err(format!("thread {} is queued on {id} by mistake", task.tid));
                }
            }
        }
        Ok(())
    }

    /// Whether no CPU has given more time than there was.
    ///
    /// # Errors
    /// How much too much.
    pub fn check_cpu_time(&self) -> Result<(), String> {
        let given = self.cpu_ns_given;
        let most = self.now as f64 * self.cpus.len() as f64;
        match given <= most * (1.0 + 1e-9) + 1.0 {
            true => Ok(()),
            false => Err(format!("{given} ns of CPU time were given, and there were {most}")),
        }
    }

    /// Nanoseconds that a thread takes for 1000 instructions now, its waiting for a CPU included.
    pub fn ns_each(&self, task: &Task) -> f64 {
        let weight = self.cpus[task.cpu].weight;
        1000.0 / task.speed.max(1e-12) * weight / task.weight
    }

    /// A thread that has been left waiting although a CPU that it may use is idle, that CPU, and for how
    /// many nanoseconds. Every change of what runs is followed by even-outs, so what those leave as it is
    /// has been so all the time.
    pub fn left_waiting(&self) -> Option<(u32, CpuId, u64)> {
        let since = self.waiting_since?;
        let (task, cpu) = self.waits_beside_idle()?;
        Some((task, cpu, self.now - since))
    }

    /// A thread that waits although a CPU that it may use is idle, and that CPU.
    pub(super) fn waits_beside_idle(&self) -> Option<(u32, CpuId)> {
        let idle: Vec<usize> = (0..self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].tasks.is_empty() && self.kernel.online[cpu])
            .collect();
        if idle.is_empty() {
            return None;
        }
        let crowded = self.cpus.iter().filter(|state| 2 <= state.tasks.len());
        crowded.flat_map(|state| &state.tasks).find_map(|&task| {
            let task = &self.tasks[task];
            let may = |cpu: usize| task.allowed.as_ref().is_none_or(|allowed| allowed[cpu]);
            let cpu = idle.iter().copied().find(|&cpu| may(cpu))?;
            Some((task.tid, self.hardware.cpus[cpu].id))
        })
    }
}
