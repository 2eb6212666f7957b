//! CPU selection for a task that NUMA balancing migrates to its memory.
//!
//! ```text
//!   a CPU of the memory's node is idle, and the imbalance is tolerated      ─► that CPU
//!   none is idle, but the imbalance between the nodes does not grow         ─► its least busy CPU
//!   otherwise                                                               ─► only by swapping two tasks
//! ```
//!
//! The rules are those of `task_numa_find_cpu`, `task_numa_compare` and `load_too_imbalanced` in
//! `kernel/sched/fair.c`.

use super::cpu_selection::{numa_imbalance, numa_imbalance_limit};
use super::{Allowed, KernelModel, KernelVersion, RunQueueLoads};
use crate::hardware::Hardware;

impl KernelModel {
    /// The CPU of node `home` for a task on CPU `from`. `None` if the imbalance would grow, or if the task may not run
    /// there.
    pub fn numa_cpu(
        &self,
        hardware: &Hardware,
        load: &RunQueueLoads,
        (from, home): (usize, usize),
        allowed: Allowed<'_>,
    ) -> Option<usize> {
        let (src, dst) = (load.nodes[hardware.cpus[from].node], load.nodes[home]);
        let has_spare = self.version == KernelVersion::V6_18 && dst.running < dst.cpus;
        let may_move = if has_spare {
            let more = (dst.running + 1).saturating_sub(src.running.saturating_sub(1));
            numa_imbalance(more, dst.running + 1, numa_imbalance_limit(hardware, home)) == 0
        } else {
            let apart = |src_tasks: u32, dst_tasks: u32| {
                (u64::from(dst_tasks) * u64::from(src.cpus))
                    .abs_diff(u64::from(src_tasks) * u64::from(dst.cpus))
            };
            apart(src.running.saturating_sub(1), dst.running + 1) <= apart(src.running, dst.running)
        };
        let open = hardware.nodes[home].cpus.iter().copied();
        let open = open.filter(|&cpu| self.may(allowed, cpu));
        open.min_by_key(|&cpu| (load.running[cpu], cpu)).filter(|_| may_move)
    }
}
