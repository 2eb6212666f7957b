//! Common parts of the policies that distribute memory-hungry threads over caches: DI, DIO, DI-Migrate, DINO
//! and the animal classes.
//!
//! ```text
//!   rates          misses per instruction of a job in each interval, the last ten of them
//!   activity       which jobs are placed: those whose threads use a CPU nearly all the time
//!   cache_slots    CPUs by cache, with the number of threads on each
//!   page_moves     migration of a job's pages when the job changes its node
//! ```
//!
//! These policies are published for threads. Here a job is placed instead of each of its threads, so that a
//! placement also holds for children that start later. A job with n threads counts as n threads of one miss rate
//! (the sum over its tasks), takes n slots, and is bound to all of them; the kernel selects the slot of each
//! task. So its threads may be on several caches and nodes, as in the published schedulers.
//!
//! A cache is a placement domain: an LLC domain where there are at least two (`domains=auto`), else a node, else
//! a core, whose SMT siblings share the caches that are left.

pub(crate) mod activity;
pub(crate) mod cache_slots;
mod orders;
pub(crate) mod page_moves;
pub(crate) mod parameters;
pub(crate) mod rates;

use std::collections::BTreeSet;

use base::CpuSet;
use sched::{JobView, Reason, Snapshot};

use crate::placement::{cpus_label, has_lost_cpus};

/// Adds to a reason the domains and CPUs of a job, and the CPUs that became unusable.
pub(crate) fn with_slots(
    reason: Reason,
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    cpus: &CpuSet,
) -> Reason {
    let lost = job.placed.filter(|_| has_lost_cpus(job, snapshot.usable_cpus));
    reason
        .with("domain", domains_label(snapshot, cpus))
        .with("cpus", cpus_label(cpus))
        .with_some("lost", lost.map(ToString::to_string))
}

/// `llc 0`, `llc 0, llc 2`.
fn domains_label(snapshot: &Snapshot<'_>, cpus: &CpuSet) -> String {
    if let Some(only) = snapshot.domains.of_set(cpus) {
        return snapshot.domains.label(only);
    }
    let touched: BTreeSet<usize> =
        cpus.iter().filter_map(|cpu| snapshot.domains.of_cpu(cpu)).collect();
    touched.into_iter().map(|idx| snapshot.domains.label(idx)).collect::<Vec<_>>().join(", ")
}
