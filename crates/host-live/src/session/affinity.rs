//! CPU affinity of one job: the mask without evenkeel, the mask that a plan set, and earlier masks that threads of the
//! job may have inherited.
//!
//! A mask is *assigned* if evenkeel set it. A mask that another program set is never overwritten, so a mask counts as
//! assigned only if it is the last recorded mask of the thread. A new thread copies the mask of its parent at fork.
//! Until the mask of the new thread has been read once, the mask may be any earlier mask of the job.

use std::sync::Arc;

use base::{CpuSet, JobId};
use sched::{CauseAndDetail, RejectCause};

/// Maximum number of recorded masks per job. If there are more, the oldest is dropped.
const MASKS_MAX: usize = 16;

/// CPU affinity of a running job. The affinity of the main thread determines whether the job is managed.
#[derive(Debug)]
pub(crate) struct AffinityState {
    pub job: JobId,
    /// Name of the job in the undo record.
    pub name: String,
    /// Main process of the job.
    pub pid: u32,
    /// The mask that the job has without evenkeel.
    pub base: Arc<CpuSet>,
    /// The mask that a plan set; `None` while the job is not placed.
    pub placed: Option<Arc<CpuSet>>,
    /// Masks that threads of the job may have: first `base`, then masks that evenkeel set.
    pub masks: Vec<Arc<CpuSet>>,
    /// Whether another program changed the affinity, or the kernel rejected a change.
    pub is_unmanaged: bool,
    /// Whether a plan placed threads separately from the job.
    pub has_placed_threads: bool,
}

impl AffinityState {
    pub(crate) fn new(
        job: JobId,
        name: String,
        pid: u32,
        base: Arc<CpuSet>,
        placed: Option<Arc<CpuSet>>,
    ) -> Self {
        let masks = std::iter::once(Arc::clone(&base)).chain(placed.clone()).collect();
        let (is_unmanaged, has_placed_threads) = (false, false);
        AffinityState { job, name, pid, base, placed, masks, is_unmanaged, has_placed_threads }
    }

    /// Returns whether evenkeel ever set a mask of the job.
    pub(crate) fn was_ever_placed(&self) -> bool {
        1 < self.masks.len()
    }

    /// Returns the mask that a new process of the job inherits at fork.
    pub(crate) fn inherited_mask(&self) -> &Arc<CpuSet> {
        self.placed.as_ref().unwrap_or(&self.base)
    }

    /// Returns the current and earlier masks that plans set.
    pub(crate) fn assigned_masks(&self) -> impl Iterator<Item = &Arc<CpuSet>> {
        self.masks.iter().skip(1)
    }

    /// Adds a mask that evenkeel is about to set.
    pub(crate) fn add_assigned_mask(&mut self, target: &Arc<CpuSet>) {
        self.masks.retain(|mask| mask != target);
        self.masks.push(Arc::clone(target));
        if MASKS_MAX < self.masks.len() {
            self.masks.remove(1); // The first mask is `base`.
        }
    }
}

pub(crate) fn exited() -> CauseAndDetail {
    (RejectCause::Exited, "it has exited".to_owned())
}
