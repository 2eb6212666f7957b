//! Whose mask a thread has: ours, or one that somebody else gave it.
//!
//! What somebody else set stays. A mask is ours if it is the one that we know the thread to have; of a
//! newborn, which has what its parent had at its birth, any that its job had from us.

use std::sync::Arc;

use base::{CpuSet, JobId, TaskId};
use linux::affinity;
use sched::HandsOff;

use crate::family::Thread;
use crate::host::{LiveHost, Running};

/// More masks than this are not remembered of one job; the oldest go first.
const MASKS_MAX: usize = 16;

impl LiveHost {
    /// Notices that somebody else bound a thread that we had bound: from then on it is left alone, and
    /// its job too if it is the first thread of that.
    pub(crate) fn verify_masks(&mut self, threads: &[(JobId, TaskId)]) {
        for &(job, id) in threads {
            let own_cpus = Arc::clone(&self.own_cpus);
            let Some(running) = self.running(job) else { continue };
            if running.placed.is_none() || running.hands_off {
                continue;
            }
            let (first, masks) = (running.pid, running.masks.clone());
            let Some((_, thread)) = self.family.thread(job, id) else { continue };
            let Ok(mask) = affinity::get(id.tid) else { continue };
            if thread.is_foreign {
                continue;
            }
            if is_same(&thread.mask, &mask, &own_cpus) {
                thread.is_confirmed = true;
            } else if thread.may_have(&mask, &masks, &own_cpus) {
                self.check_newcomers(job);
            } else {
                thread.is_foreign = true;
                if id.tid == first {
                    self.hands_off(job, HandsOff::AffinityChanged(mask));
                }
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
fn is_same(ours: &CpuSet, mask: &CpuSet, usable: &CpuSet) -> bool {
    let among_usable = ours.and(usable);
    ours == mask || among_usable == mask.and(usable) || among_usable.is_empty()
}

impl Running {
    /// Tasks of the job can have this mask from us from now on.
    pub(crate) fn remember(&mut self, target: &Arc<CpuSet>) {
        self.masks.retain(|mask| mask != target);
        self.masks.push(Arc::clone(target));
        if MASKS_MAX < self.masks.len() {
            self.masks.remove(1); // The first is what the job had before us.
        }
    }
}
