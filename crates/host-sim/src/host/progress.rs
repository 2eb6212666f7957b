//! Progress of the jobs of a simulated run, for a view.
//!
//! The view requests the values, and the host stores them in the next turn. A run without requests does no additional
//! work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::SimHost;

/// Progress that a host and a view share.
#[derive(Clone, Debug, Default)]
pub struct SharedProgress(Arc<Values>);

#[derive(Debug, Default)]
struct Values {
    is_requested: AtomicBool,
    /// Executed share of the instructions of each job, by number; absent for a job that does not run.
    done: Mutex<Vec<Option<f64>>>,
}

impl SharedProgress {
    /// Returns the values of the last request, by job number, and requests new values. Before the first values the list
    /// is empty.
    pub fn take(&self) -> Vec<Option<f64>> {
        self.0.is_requested.store(true, Ordering::Relaxed);
        std::mem::take(&mut self.0.done.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SimHost {
    /// Returns the progress of the jobs of this run.
    pub fn progress(&self) -> SharedProgress {
        self.progress.clone()
    }

    /// Stores the progress if it was requested.
    pub(super) fn store_progress(&self) {
        if self.progress.0.is_requested.swap(false, Ordering::Relaxed) {
            let done = (0..self.slots.len()).map(|idx| self.machine.done_share(idx)).collect();
            *self.progress.0.done.lock().unwrap_or_else(PoisonError::into_inner) = done;
        }
    }
}
