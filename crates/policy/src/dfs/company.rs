//! What programs are predicted to cost each other where they are (`placement=sens`).
//!
//! A program p that shares a domain with a program q is slowed down by `sens(p, class of q)`, and it
//! slows q down by `sens(q, class of p)`. Adding p to a domain N therefore adds
//!
//! ```text
//!   cost(p, N) = Σ over q on N of  sens(p, class q) + sens(q, class p)
//! ```
//!
//! to the slow-downs of all, and both sums need no more than how many programs of each class are on
//! N, and how much those together suffer from each class. In thousandths of a program's time alone.

use program::Class;
use sched::{JobState, JobView, Snapshot};

use super::classes::Classes;

const N_CLASSES: usize = Class::MAX as usize + 1;

/// Who is on each domain, as far as predictions ask.
#[derive(Debug, Default)]
pub(super) struct Company {
    in_domain: Vec<There>,
}

/// The programs on one domain.
#[derive(Clone, Copy, Debug, Default)]
struct There {
    n_of_class: [u64; N_CLASSES],
    /// What those there suffer, all together, from one program of each class.
    suffering: [u64; N_CLASSES],
}

impl Company {
    /// Counts anew. Programs that are not ours to place are company too.
    pub fn count(&mut self, seen: &Snapshot<'_>, classes: &Classes) {
        self.in_domain.clear();
        self.in_domain.resize(seen.domains.len(), There::default());
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            if let Some(idx) = job.domain {
                self.enter(job, classes.class_of(job), idx);
            }
        }
    }

    /// A program comes to a domain.
    pub fn enter(&mut self, job: &JobView<'_>, class: Class, idx: usize) {
        self.change(job, class, idx, |sum, part| sum.saturating_add(part));
    }

    /// A program goes away from a domain.
    pub fn leave(&mut self, job: &JobView<'_>, class: Class, idx: usize) {
        self.change(job, class, idx, |sum, part| sum.saturating_sub(part));
    }

    fn change(&mut self, job: &JobView<'_>, class: Class, idx: usize, by: fn(u64, u64) -> u64) {
        let Some(there) = self.in_domain.get_mut(idx) else { return };
        let n_there = &mut there.n_of_class[usize::from(class.number())];
        *n_there = by(*n_there, 1);
        for other in all() {
            let suffering = &mut there.suffering[usize::from(other.number())];
            *suffering = by(*suffering, slowdown(job, other));
        }
    }

    /// What a program that is not on a domain would add to the slow-downs of all by coming to it.
    pub fn cost(&self, job: &JobView<'_>, class: Class, idx: usize) -> u64 {
        let Some(there) = self.in_domain.get(idx) else { return 0 };
        let own = all().map(|other| {
            let n = there.n_of_class[usize::from(other.number())];
            n.saturating_mul(slowdown(job, other))
        });
        let own = own.fold(0, u64::saturating_add);
        own.saturating_add(there.suffering[usize::from(class.number())])
    }

    /// The same of one that is on it: what would be gone with it.
    pub fn cost_of_staying(&self, job: &JobView<'_>, class: Class, idx: usize) -> u64 {
        // It is counted among its own company: once as the one who suffers, once as the one who hurts.
        self.cost(job, class, idx).saturating_sub(2 * slowdown(job, class))
    }
}

fn all() -> impl Iterator<Item = Class> {
    (0..=Class::MAX).filter_map(Class::new)
}

/// What a program suffers beside one of a class.
fn slowdown(job: &JobView<'_>, class: Class) -> u64 {
    job.job.sensitivity.as_ref().map_or(0, |sens| u64::from(sens.beside(class)))
}

/// What a program suffers while all of its memory lies on another node.
pub(super) fn remoteness(job: &JobView<'_>) -> u64 {
    job.job.sensitivity.as_ref().map_or(0, |sens| u64::from(sens.remote()))
}
