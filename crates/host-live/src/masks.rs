//! Whose mask a thread has: ours, or one that somebody else gave it.
//!
//! What somebody else set stays. A mask is ours if it is the one that we know the thread to have; of a
//! newborn, which has what its parent had at its birth, any that its job had from us.

use base::{JobId, TaskId};
pub(crate) use linux::affinity::is_same;

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
