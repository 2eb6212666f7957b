//! What the policies that keep cache-hungry threads apart have in common: DI and its kin, DINO, and the
//! "animals" that came before them.
//!
//! ```text
//!   rates   misses per instruction of a job in each interval, and the last ten of them
//!   busy    whom they are about: threads that use a CPU nearly all the time
//!   seats   CPUs, cache by cache, and how many threads are on each
//!   memory  where a job's memory goes when the job goes to another node
//! ```
//!
//! All of them were published for threads. Here a job is placed, not each of its threads, so that a
//! placement holds for children born later: a job with `threads` n counts as n threads of one miss rate
//! (the sum over its tasks), takes n seats as if they were n threads, and is bound to all of its
//! seats together; which of its tasks runs on which of them is the kernel's to say. So its threads may lie
//! on several caches and nodes, as they did in the published schedulers.
//!
//! A cache is a placement domain: an LLC domain where there are two of them (`domains=auto`), else
//! a node, else a core, whose siblings share the caches that are left.

pub(crate) mod busy;
pub(crate) mod memory;
pub(crate) mod notes;
pub(crate) mod params;
mod ranks;
pub(crate) mod rates;
pub(crate) mod seats;

use std::collections::BTreeSet;

use base::CpuSet;
use sched::{JobView, Reason, Snapshot};

use crate::common::cpus_label;

/// A reason with where a job goes: its domains, its CPUs, and those that it lost.
pub(crate) fn with_seats(
    reason: Reason,
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    cpus: &CpuSet,
) -> Reason {
    let reason = reason.with("domain", domains_label(seen, cpus)).with("cpus", cpus_label(cpus));
    match crate::common::has_lost_its_place(job, seen.usable_cpus).then_some(job.placed).flatten() {
        Some(gone) => reason.with("gone", gone.to_string()),
        None => reason,
    }
}

/// `llc 0`, `llc 0, llc 2`.
fn domains_label(seen: &Snapshot<'_>, cpus: &CpuSet) -> String {
    if let Some(only) = seen.domains.of_set(cpus) {
        return seen.domains.label(only);
    }
    let touched: BTreeSet<usize> = cpus.iter().filter_map(|cpu| seen.domains.of_cpu(cpu)).collect();
    touched.into_iter().map(|idx| seen.domains.label(idx)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
