//! Whose mask a thread has: ours, or one that somebody else gave it.
//!
//! What somebody else set stays. A mask is ours if it is the one that we know the thread to have; of a
//! newborn, which has what its parent had at its birth, any that its job had from us.

use std::sync::Arc;

use base::{CpuSet, JobId, TaskId};

use crate::family::Thread;
use crate::host::LiveHost;

impl LiveHost {
    /// Notices that somebody else bound a thread that we had bound.
    pub(crate) fn verify_masks(&mut self, threads: &[(JobId, TaskId)]) {
        for &(job, id) in threads {
            if let Some((hold, mut hands)) = self.grasp(job) {
                hands.verify(hold, id);
            }
        }
    }
}

impl Thread {
    /// Its mask is this one, as we have seen or done ourselves.
    pub(crate) fn has(&mut self, mask: &Arc<CpuSet>) {
        self.mask = Arc::clone(mask);
        self.is_confirmed = true;
    }

    /// Whether a mask is one that this thread can have from us: the one that we know it to have, or,
    /// of a newborn, any that its job had, since whoever started it may not have been moved yet.
    pub(crate) fn may_have(&self, mask: &CpuSet, of_job: &[Arc<CpuSet>], usable: &CpuSet) -> bool {
        let older = of_job.iter().filter(|_| !self.is_confirmed);
        std::iter::once(&self.mask).chain(older).any(|ours| is_same(ours, mask, usable))
    }
}

/// Masks are compared among the CPUs that can be used now; when none of a mask can, the kernel has
/// replaced it, and nobody else has set anything.
pub(crate) fn is_same(ours: &CpuSet, mask: &CpuSet, usable: &CpuSet) -> bool {
    let among_usable = ours.and(usable);
    ours == mask || among_usable == mask.and(usable) || among_usable.is_empty()
}
