//! Data that the threads of a job share in a cache ([`crate::physics::SharedFills`]): what a thread finds there.
//!
//! ```text
//!   thread that runs    │ private ████ │ common ██████ │
//!   thread that wakes   │ private █    │ common ██████ │   its own lines are partly replaced, the common ones are not
//! ```

use super::{Fluid, Task, TaskState};
use crate::physics::remaining_share;

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
