//! Estimated cost of a migration, and of a job on a domain.
//!
//! With `gain=FACTOR` a job migrates only if the estimated gain exceeds the cost:
//!
//! ```text
//!   gain = time left × share of the domain's load × slope
//!   cost = pages that follow × time per page + time to refill the caches
//!   migrate only if  gain > FACTOR × cost
//! ```
//!
//! The time left of a job with a declared duration is the remaining part of the duration. The expected time left of any
//! other job is the time that it has run. This rule fits the lifetimes of UNIX processes (M. Harchol-Balter, A. B.
//! Downey, Exploiting Process Lifetime Distributions for Dynamic Load Balancing, ACM TOCS 15(3), 1997). The slope is
//! the share of run time that a job loses if the job causes all the load of an overloaded domain. The slope is guessed.
//! The time per page is guessed until page migrations have been measured.
//!
//! With `placement=sens` the criterion is the sum of the predicted slowdowns. A job p that shares a domain with a job q
//! is slowed down by `sens(p, class of q)`, and it slows q down by `sens(q, class of p)`. Adding p to a domain N
//! therefore adds
//!
//! ```text
//!   cost(p, N) = Σ over q on N of  sens(p, class q) + sens(q, class p)
//! ```
//!
//! Both terms depend only on the number of jobs of each class on N, and on the sum of their sensitivities to each
//! class. Unit: permille of a job's time alone.

use base::{Bytes, Nanos};
use program::{Class, Ending};
use sched::{JobState, JobView, Snapshot};
use topology::Level;

use super::classes::Classes;
use super::declaration::PageFollowing;
use super::{Dfs, page_following};
use crate::declaration::Millionths;

/// Bytes of a base page.
const PAGE_BYTES: u64 = 4096;
/// Minimum number of migrated pages for a measured time per page.
const MEASURED_PAGES_MIN: u128 = 256;

/// Estimated gain and cost of a migration, in time of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GainAndCost {
    pub gain: Nanos,
    pub cost: Nanos,
}

/// Measured cost of page migrations.
#[derive(Debug, Default)]
pub(super) struct PageTime {
    pages: u128,
    nanos: u128,
}

impl PageTime {
    /// Returns the time per page; `None` until enough pages have been measured.
    fn measured(&self) -> Option<Nanos> {
        let mean =
            self.nanos.checked_div(self.pages).filter(|_| MEASURED_PAGES_MIN <= self.pages)?;
        u64::try_from(mean).ok().map(Nanos)
    }
}

impl Dfs {
    /// Adds the page migrations that ended since the last poll.
    pub(super) fn measure_page_time(&mut self, snapshot: &Snapshot<'_>) {
        for job in snapshot.jobs {
            let Some((at, moved)) = job.last_page_migration else { continue };
            if self.measured_move_at.get_or_default(job.job.id).replace(at) != Some(at) {
                self.page_time.pages += u128::from(moved.moved.0 / PAGE_BYTES);
                self.page_time.nanos += u128::from(moved.in_kernel.0);
            }
        }
    }

    /// Estimates gain and cost of migrating a job away from a domain with this load.
    pub(super) fn estimate(
        &self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        load: u64,
        to: usize,
    ) -> GainAndCost {
        let left = u128::from(time_left(snapshot, job).0);
        let share = u128::from(job.load.min(load));
        let slope = u128::from(self.config.slope.permille());
        let gain = (left * share * slope / 1000).checked_div(u128::from(load)).unwrap_or(0);
        let pages = u128::from(self.following_bytes(snapshot, job, to).0 / PAGE_BYTES);
        let page_time = self.page_time.measured().unwrap_or(self.config.page_migration);
        let cost = pages * u128::from(page_time.0) + u128::from(self.config.refill.0);
        let nanos = |time: u128| Nanos(u64::try_from(time).unwrap_or(u64::MAX));
        GainAndCost { gain: nanos(gain), cost: nanos(cost) }
    }

    /// Returns whether the gain of a migration is large enough; always true with `gain=off`.
    pub(super) fn is_worth(&self, estimate: GainAndCost) -> bool {
        let Some(factor) = self.config.gain.map(Millionths::permille) else { return true };
        u128::from(estimate.cost.0) * u128::from(factor) < u128::from(estimate.gain.0) * 1000
    }

    /// Returns the size of the private pages that follow a job to a domain.
    fn following_bytes(&self, snapshot: &Snapshot<'_>, job: &JobView<'_>, to: usize) -> Bytes {
        let follows =
            self.config.memory == PageFollowing::Follow && snapshot.domains.level() == Level::Node;
        let node = base::NodeId(snapshot.domains.get(to).number);
        let memory = job.memory.filter(|_| follows);
        memory.map_or(Bytes::ZERO, |memory| memory.private_bytes_to_move(None, node))
    }

    /// Returns the share of a job's pages that would be remote on a domain, in permille. 0 if pages follow, if domains
    /// are not nodes, or if the share is unknown.
    pub(super) fn remote_permille(
        &self,
        snapshot: &Snapshot<'_>,
        job: &JobView<'_>,
        idx: usize,
    ) -> u64 {
        let stays =
            self.config.memory == PageFollowing::Stay && snapshot.domains.level() == Level::Node;
        let node = base::NodeId(snapshot.domains.get(idx).number);
        let memory = job.memory.filter(|_| stays);
        memory.map_or(0, |memory| 1000 - page_following::permille_on(memory, node).min(1000))
    }
}

fn time_left(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Nanos {
    let started = job.started.unwrap_or(snapshot.turn.at);
    let so_far = snapshot.turn.at.saturating_sub(started);
    match job.job.ending {
        Ending::After(time) => time.saturating_sub(so_far),
        Ending::Exit | Ending::RestartUntilOthersDone | Ending::RestartUntilAllDone => so_far,
    }
}

const N_CLASSES: usize = Class::MAX as usize + 1;

/// Jobs on each domain, counted for the prediction of slowdowns.
#[derive(Debug, Default)]
pub(super) struct CorunCosts {
    in_domain: Vec<DomainSlowdowns>,
}

/// The jobs on one domain.
#[derive(Clone, Copy, Debug, Default)]
struct DomainSlowdowns {
    n_of_class: [u64; N_CLASSES],
    /// Sum of the slowdowns of all jobs of the domain by one further job, for each class of the further job.
    slowdown_by_class: [u64; N_CLASSES],
}

impl CorunCosts {
    /// Counts all running jobs, including unmanaged jobs.
    pub fn count(&mut self, snapshot: &Snapshot<'_>, classes: &Classes) {
        self.in_domain.clear();
        self.in_domain.resize(snapshot.domains.len(), DomainSlowdowns::default());
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Running) {
            if let Some(idx) = job.domain {
                self.add(job, classes.class(job), idx);
            }
        }
    }

    pub fn add(&mut self, job: &JobView<'_>, class: Class, idx: usize) {
        self.change(job, class, idx, |sum, part| sum.saturating_add(part));
    }

    pub fn remove(&mut self, job: &JobView<'_>, class: Class, idx: usize) {
        self.change(job, class, idx, |sum, part| sum.saturating_sub(part));
    }

    fn change(&mut self, job: &JobView<'_>, class: Class, idx: usize, update: fn(u64, u64) -> u64) {
        let Some(domain) = self.in_domain.get_mut(idx) else { return };
        let n_jobs = &mut domain.n_of_class[usize::from(class.number())];
        *n_jobs = update(*n_jobs, 1);
        for other in all_classes() {
            let sum = &mut domain.slowdown_by_class[usize::from(other.number())];
            *sum = update(*sum, slowdown(job, other));
        }
    }

    /// Returns the slowdowns that a job would add on a domain where it does not run.
    pub fn cost(&self, job: &JobView<'_>, class: Class, idx: usize) -> u64 {
        let Some(domain) = self.in_domain.get(idx) else { return 0 };
        let of_job = all_classes().map(|other| {
            let n_jobs = domain.n_of_class[usize::from(other.number())];
            n_jobs.saturating_mul(slowdown(job, other))
        });
        let of_job = of_job.fold(0, u64::saturating_add);
        of_job.saturating_add(domain.slowdown_by_class[usize::from(class.number())])
    }

    /// Returns the slowdowns that a job adds on the domain where it runs.
    pub fn cost_of_staying(&self, job: &JobView<'_>, class: Class, idx: usize) -> u64 {
        // The sums of the domain include the job twice: as the slowed-down job and as the cause.
        self.cost(job, class, idx).saturating_sub(2 * slowdown(job, class))
    }
}

fn all_classes() -> impl Iterator<Item = Class> {
    (0..=Class::MAX).filter_map(Class::new)
}

/// Returns the slowdown of a job by one job of a class.
fn slowdown(job: &JobView<'_>, class: Class) -> u64 {
    job.job.sensitivity.as_ref().map_or(0, |sens| u64::from(sens.slowdown_next_to(class)))
}

/// Returns the slowdown of a job while all of its pages are on another node.
pub(super) fn remote_slowdown(job: &JobView<'_>) -> u64 {
    job.job.sensitivity.as_ref().map_or(0, |sens| u64::from(sens.remote()))
}
