//! Who is where: the `pid_set` of the published scheduler, counted anew from each snapshot.
//!
//! Counting anew costs little and never drifts from what the engine knows: a job that ended or was
//! refused is simply not counted any more. One that was taken out of our hands is no managed program
//! of its domain any more, but it takes room on the CPUs where it is.

use base::CpuSet;
use sched::{JobState, JobView, Snapshot};

use super::classes::Classes;
use crate::common::{Crowd, is_stretched};

/// Programs per CPU and per domain.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub crowd: Crowd,
    in_domain: Vec<InDomain>,
}

/// The jobs in one domain that are ours to place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InDomain {
    pub n_jobs: u64,
    pub class_sum: u64,
    /// Those of them that a move may concern.
    pub n_movable: u64,
}

impl Table {
    pub fn count(&mut self, seen: &Snapshot<'_>, classes: &Classes) {
        self.crowd.count(seen.jobs);
        self.in_domain.clear();
        self.in_domain.resize(seen.domains.len(), InDomain::default());
        let ours = |job: &&JobView<'_>| job.state == JobState::Running && job.movable;
        for job in seen.jobs.iter().filter(ours) {
            let Some(there) = job.domain.and_then(|idx| self.in_domain.get_mut(idx)) else {
                continue;
            };
            there.n_jobs += 1;
            there.class_sum += u64::from(classes.of(job));
            there.n_movable += u64::from(!is_stretched(seen, job));
        }
    }

    pub fn in_domain(&self, idx: usize) -> InDomain {
        self.in_domain[idx]
    }

    /// A job is put on these CPUs of a domain.
    pub fn enter(&mut self, class: u8, idx: usize, cpus: &CpuSet) {
        self.crowd.add(cpus);
        let there = &mut self.in_domain[idx];
        there.n_jobs += 1;
        there.class_sum += u64::from(class);
        there.n_movable += 1;
    }

    /// A job goes away from where it was put.
    pub fn leave(&mut self, job: &JobView<'_>, class: u8) {
        if let Some(cpus) = job.placed {
            self.crowd.remove(cpus);
        }
        let Some(there) = job.domain.and_then(|idx| self.in_domain.get_mut(idx)) else { return };
        there.n_jobs = there.n_jobs.saturating_sub(1);
        there.class_sum = there.class_sum.saturating_sub(u64::from(class));
        there.n_movable = there.n_movable.saturating_sub(1);
    }
}
