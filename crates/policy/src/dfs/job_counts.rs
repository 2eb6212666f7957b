//! Numbers of jobs per domain and CPU: the `pid_set` of the published scheduler.
//!
//! Counted from each snapshot, so that the counts never differ from the engine's state: a job that ended or was
//! rejected is not in the snapshot. An unmanaged job does not count for its domain, but for its CPUs.

use base::CpuSet;
use sched::{JobState, JobView, Snapshot};

use super::classes::Classes;
use crate::placement::{Crowd, spans_domains};

/// Jobs per CPU and per domain.
#[derive(Debug, Default)]
pub(super) struct JobCounts {
    pub crowd: Crowd,
    in_domain: Vec<InDomain>,
}

/// The managed jobs in one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InDomain {
    pub n_jobs: u64,
    pub class_sum: u64,
    /// Those that may migrate.
    pub n_movable: u64,
}

impl JobCounts {
    pub fn count(&mut self, seen: &Snapshot<'_>, classes: &Classes) {
        self.crowd.count(seen.jobs);
        self.in_domain.clear();
        self.in_domain.resize(seen.domains.len(), InDomain::default());
        let is_managed = |job: &&JobView<'_>| job.state == JobState::Running && job.movable;
        for job in seen.jobs.iter().filter(is_managed) {
            let Some(there) = job.domain.and_then(|idx| self.in_domain.get_mut(idx)) else {
                continue;
            };
            there.n_jobs += 1;
            there.class_sum += u64::from(classes.of(job));
            there.n_movable += u64::from(!spans_domains(seen, job));
        }
    }

    pub fn in_domain(&self, idx: usize) -> InDomain {
        self.in_domain[idx]
    }

    /// Adds a job on these CPUs of a domain.
    pub fn add(&mut self, class: u8, idx: usize, cpus: &CpuSet) {
        self.crowd.add(cpus);
        let there = &mut self.in_domain[idx];
        there.n_jobs += 1;
        there.class_sum += u64::from(class);
        there.n_movable += 1;
    }

    /// Removes a job.
    pub fn remove(&mut self, job: &JobView<'_>, class: u8) {
        if let Some(cpus) = job.placed {
            self.crowd.remove(cpus);
        }
        let Some(there) = job.domain.and_then(|idx| self.in_domain.get_mut(idx)) else { return };
        there.n_jobs = there.n_jobs.saturating_sub(1);
        there.class_sum = there.class_sum.saturating_sub(u64::from(class));
        there.n_movable = there.n_movable.saturating_sub(1);
    }
}
