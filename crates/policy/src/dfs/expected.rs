//! What loads will be, as far as that is known between two polls.
//!
//! ```text
//!   load used = load measured
//!             - what a job carried on CPUs that it has lost since       (placed again)
//!             + what the class of each program started since has shown  (started, placed again)
//! ```
//!
//! A program that could not be started, or is over again before the next poll, is expected of nobody
//! any more. Domains are meant by index; when they become others everything is forgotten.

use base::JobId;
use sched::{JobState, Snapshot};

/// What is known beyond the loads that were measured.
#[derive(Debug, Default)]
pub(super) struct Expected {
    in_domain: Vec<Change>,
    starts: Vec<Start>,
}

/// What is to be added to a domain's load, and what is to be taken away.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    more: u64,
    less: u64,
}

/// A program that was put on a domain.
#[derive(Clone, Copy, Debug)]
struct Start {
    job: JobId,
    idx: usize,
    load: u64,
}

impl Expected {
    /// Begins anew: loads were measured, or there are so many other domains.
    pub fn reset(&mut self, n_domains: usize) {
        self.in_domain.clear();
        self.in_domain.resize(n_domains, Change::default());
        self.starts.clear();
    }

    /// A program was put on a domain and will cause so much load there.
    pub fn add(&mut self, job: JobId, idx: usize, load: u64) {
        if load != 0 {
            self.starts.push(Start { job, idx, load });
            self.in_domain[idx].more = self.in_domain[idx].more.saturating_add(load);
        }
    }

    /// A program was taken from a domain whose measured load holds so much of it.
    pub fn take(&mut self, idx: usize, load: u64) {
        self.in_domain[idx].less = self.in_domain[idx].less.saturating_add(load);
    }

    /// Forgets programs that are not where they were put.
    pub fn forget_missing(&mut self, seen: &Snapshot<'_>) {
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

    /// The load of a domain of which so much was measured.
    pub fn load(&self, idx: usize, measured: u64) -> u64 {
        let Change { more, less } = self.in_domain.get(idx).copied().unwrap_or_default();
        measured.saturating_sub(less).saturating_add(more)
    }

    /// How much of all loads is only expected.
    pub fn total(&self) -> u64 {
        self.in_domain.iter().fold(0, |sum, change| sum.saturating_add(change.more))
    }
}
