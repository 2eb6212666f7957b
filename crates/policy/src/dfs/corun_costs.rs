//! Predicted slowdowns of jobs that share a domain (`placement=sens`).
//!
//! A job p that shares a domain with a job q is slowed down by `sens(p, class of q)`, and it slows q down by
//! `sens(q, class of p)`. Adding p to a domain N therefore adds
//!
//! ```text
//!   cost(p, N) = Σ over q on N of  sens(p, class q) + sens(q, class p)
//! ```
//!
//! to the sum of slowdowns. Both terms need only the number of jobs of each class on N, and the sum of their
//! sensitivities to each class. Unit: permille of a job's time alone.

use program::Class;
use sched::{JobState, JobView, Snapshot};

use super::classes::Classes;

const N_CLASSES: usize = Class::MAX as usize + 1;

/// Jobs on each domain, as predictions need them.
#[derive(Debug, Default)]
pub(super) struct CorunCosts {
    in_domain: Vec<DomainJobs>,
}

/// The jobs on one domain.
#[derive(Clone, Copy, Debug, Default)]
struct DomainJobs {
    n_of_class: [u64; N_CLASSES],
    /// Sum of the slowdowns of these jobs by one job of each class.
    slowdown_by_class: [u64; N_CLASSES],
}

impl CorunCosts {
    /// Counts all running jobs, unmanaged ones included.
    pub fn count(&mut self, seen: &Snapshot<'_>, classes: &Classes) {
        self.in_domain.clear();
        self.in_domain.resize(seen.domains.len(), DomainJobs::default());
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            if let Some(idx) = job.domain {
                self.add(job, classes.class_of(job), idx);
            }
        }
    }

    /// Adds a job to a domain.
    pub fn add(&mut self, job: &JobView<'_>, class: Class, idx: usize) {
        self.change(job, class, idx, |sum, part| sum.saturating_add(part));
    }

    /// Removes a job from a domain.
    pub fn remove(&mut self, job: &JobView<'_>, class: Class, idx: usize) {
        self.change(job, class, idx, |sum, part| sum.saturating_sub(part));
    }

    fn change(&mut self, job: &JobView<'_>, class: Class, idx: usize, by: fn(u64, u64) -> u64) {
        let Some(there) = self.in_domain.get_mut(idx) else { return };
        let n_there = &mut there.n_of_class[usize::from(class.number())];
        *n_there = by(*n_there, 1);
        for other in all() {
            let sum = &mut there.slowdown_by_class[usize::from(other.number())];
            *sum = by(*sum, slowdown(job, other));
        }
    }

    /// The slowdowns that a job would add on a domain where it is not.
    pub fn cost(&self, job: &JobView<'_>, class: Class, idx: usize) -> u64 {
        let Some(there) = self.in_domain.get(idx) else { return 0 };
        let own = all().map(|other| {
            let n = there.n_of_class[usize::from(other.number())];
            n.saturating_mul(slowdown(job, other))
        });
        let own = own.fold(0, u64::saturating_add);
        own.saturating_add(there.slowdown_by_class[usize::from(class.number())])
    }

    /// The slowdowns that a job adds on the domain where it is.
    pub fn cost_of_staying(&self, job: &JobView<'_>, class: Class, idx: usize) -> u64 {
        // The job counts itself: once as the slowed-down job, once as the cause.
        self.cost(job, class, idx).saturating_sub(2 * slowdown(job, class))
    }
}

fn all() -> impl Iterator<Item = Class> {
    (0..=Class::MAX).filter_map(Class::new)
}

/// Slowdown of a job beside one of a class.
fn slowdown(job: &JobView<'_>, class: Class) -> u64 {
    job.job.sensitivity.as_ref().map_or(0, |sens| u64::from(sens.beside(class)))
}

/// Slowdown of a job while all of its pages are on another node.
pub(super) fn remote_slowdown(job: &JobView<'_>) -> u64 {
    job.job.sensitivity.as_ref().map_or(0, |sens| u64::from(sens.remote()))
}
