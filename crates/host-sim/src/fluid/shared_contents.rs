//! Data that the threads of a job share in a cache ([`crate::physics::SharedFills`]): what a thread finds there, and what
//! it reads.
//!
//! ```text
//!   thread that runs    │ private ████ │ common ██████ │
//!   thread that wakes   │ private █    │ common ██████ │   its own lines are partly replaced, the common ones are not
//! ```

use super::cache_solution::CacheMember;
use super::{Fluid, Task, TaskState};
use crate::physics::{CacheEntries, remaining_share};

impl Fluid {
    /// Returns the bytes of common data that a thread finds in a cache beyond its own lines, because other threads of the
    /// job have read them.
    pub(super) fn shared_bytes_found(&self, idx: usize, cache: usize) -> f64 {
        let Some(shared) = &self.phase_of(idx).shared else { return 0.0 };
        let task = &self.tasks[idx];
        let others = self.tasks_of(task.job).filter(|other| {
            other.cached.cache == Some(cache) && other.phase == task.phase && other.tid != task.tid
        });
        let kept = others.map(|other| other.occupancy() * self.kept_share(other));
        shared.share * (kept.fold(0.0, f64::max) - task.cached.bytes).max(0.0)
    }

    /// Returns the entries of tasks in a cache with this index of its fill tables.
    pub(super) fn entries_of<'a>(
        &self,
        fill_index: usize,
        members: impl Iterator<Item = &'a CacheMember>,
    ) -> CacheEntries<'_> {
        let mut entries = CacheEntries::default();
        for member in members {
            let (phase, task) = (self.phase_of(member.task), &self.tasks[member.task]);
            entries.add(&phase.fills, phase.shared.as_deref(), fill_index, (task.job, task.phase));
        }
        entries
    }

    /// Divides the common part of refills among the threads of a job that read it at the same time: those whose occupancy
    /// grows too. A thread with a larger occupancy has the common part already. Surpluses are divided as refills.
    pub(super) fn divide_common_parts(&self, members: &mut [CacheMember]) {
        for nth in 0..members.len() {
            let CacheMember { task, bytes, .. } = members[nth];
            let Some(shared) = &self.phase_of(task).shared else { continue };
            let before = |idx: usize| self.tasks[idx].cached.bytes;
            let program = |idx: usize| (self.tasks[idx].job, self.tasks[idx].phase);
            let is_growing = before(task) < bytes;
            let (mut n_changing, mut largest) = (0, 0.0f64);
            for other in members.iter().filter(|other| program(other.task) == program(task)) {
                largest = largest.max(before(other.task));
                n_changing += u32::from((before(other.task) < other.bytes) == is_growing);
            }
            let change = libm::fabs(bytes - before(task));
            let common = if is_growing { (bytes - largest).max(0.0) } else { change };
            if 0.0 < common {
                let read_by_others = 1.0 - 1.0 / f64::from(n_changing);
                members[nth].read_share = 1.0 - shared.share * common / change * read_by_others;
            }
        }
    }

    /// Returns the share of a task's lines that other tasks have not replaced since it ran.
    pub(super) fn kept_share(&self, task: &Task) -> f64 {
        match (task.state, task.cached.cache) {
            (TaskState::Sleeping, Some(cache)) => {
                let turnovers = self.solver.turnovers(cache, self.now) - task.cached.turnovers;
                remaining_share(self.hardware.replacement, turnovers)
            }
            (TaskState::Runnable, _) => 1.0,
            _ => 0.0,
        }
    }
}
