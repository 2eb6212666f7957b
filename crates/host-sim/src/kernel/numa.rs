//! Which CPU a task gets that the kernel wants to bring to its memory.
//!
//! ```text
//!   memory's node has a CPU idle, and would not be the fuller one by too much ─► that CPU
//!   it has none, but both nodes together would be no less even               ─► its least busy CPU
//!   else                                                                     ─► only in exchange for another
//! ```
//!
//! Rules as in `task_numa_find_cpu`, `task_numa_compare` and `load_too_imbalanced` of `kernel/sched/fair.c`.

use super::select::{numa_imbalance, numa_room};
use super::{Allowed, Kernel, Load, Version};
use crate::hardware::Hardware;

impl Kernel {
    /// The CPU of the node `home` for a task that runs on `from`; `None` where it would do the balance
    /// between the nodes harm, or where it may not run.
    pub fn numa_cpu(
        &self,
        hardware: &Hardware,
        load: &Load,
        (from, home): (usize, usize),
        allowed: Allowed<'_>,
    ) -> Option<usize> {
        let (src, dst) = (load.nodes[hardware.cpus[from].node], load.nodes[home]);
        let has_spare = self.version == Version::V6_18 && dst.running < dst.cpus;
        let may_move = if has_spare {
            let more = (dst.running + 1).saturating_sub(src.running.saturating_sub(1));
            numa_imbalance(more, dst.running + 1, numa_room(hardware, home)) == 0
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
