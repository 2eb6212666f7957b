//! Expected changes of the loads between two polls.
//!
//! ```text
//!   load used = load measured
//!             - load of a job on CPUs that became unusable since        (placed again)
//!             + mean load of the class of each job started since        (started, placed again)
//! ```
//!
//! A job that failed to start, or ended before the next poll, is removed. Domains are identified by index; if the
//! domains change, all expected changes are discarded.

use base::JobId;
use sched::{JobState, Snapshot};

/// Changes of the measured loads.
#[derive(Debug, Default)]
pub(super) struct ExpectedLoads {
    in_domain: Vec<Change>,
    starts: Vec<Start>,
}

/// Amounts to add to and subtract from the load of a domain.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    more: u64,
    less: u64,
}

/// A job that started on a domain.
#[derive(Clone, Copy, Debug)]
struct Start {
    job: JobId,
    idx: usize,
    load: u64,
}

impl ExpectedLoads {
    /// Discards all changes: loads were measured, or the domains changed.
    pub fn reset(&mut self, n_domains: usize) {
        self.in_domain.clear();
        self.in_domain.resize(n_domains, Change::default());
        self.starts.clear();
    }

    /// Adds the load of a job that starts on a domain.
    pub fn add(&mut self, job: JobId, idx: usize, load: u64) {
        if load != 0 {
            self.starts.push(Start { job, idx, load });
            self.in_domain[idx].more = self.in_domain[idx].more.saturating_add(load);
        }
    }

    /// Subtracts the load of a job that left a domain.
    pub fn subtract(&mut self, idx: usize, load: u64) {
        self.in_domain[idx].less = self.in_domain[idx].less.saturating_add(load);
    }

    /// Removes jobs that are not where they started.
    pub fn remove_missing(&mut self, seen: &Snapshot<'_>) {
        let in_domain = &mut self.in_domain;
        self.starts.retain(|&Start { job, idx, load }| {
            let there = &seen.domains.get(idx).cpus;
            let is_there = seen.job(job).is_some_and(|job| {
                let placed = job.placed.is_some_and(|cpus| cpus.intersects(there));
                job.state == JobState::Running && placed
            });
            if !is_there {
                in_domain[idx].more = in_domain[idx].more.saturating_sub(load);
            }
            is_there
        });
    }

    /// The load of a domain with this measured load.
    pub fn load(&self, idx: usize, measured: u64) -> u64 {
        let Change { more, less } = self.in_domain.get(idx).copied().unwrap_or_default();
        measured.saturating_sub(less).saturating_add(more)
    }

    /// The sum of all added loads.
    pub fn total(&self) -> u64 {
        self.in_domain.iter().fold(0, |sum, change| sum.saturating_add(change.more))
    }
}
