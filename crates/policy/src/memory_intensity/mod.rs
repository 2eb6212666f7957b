//! Common parts of the policies that distribute memory-hungry threads over caches: DI, DIO, DI-Migrate, DINO
//! and the animal classes.
//!
//! ```text
//!   rates          misses per instruction of a job in each of the last ten intervals
//!   utilization    selects the jobs that are placed: their threads use a CPU nearly all the time
//!   cache_slots    CPUs by cache, with the number of threads on each
//!   page_migrations  migration of a job's pages when the job changes its node
//! ```
//!
//! These policies are published for threads. evenkeel places jobs instead of threads, so that a placement also applies
//! to children that start later. A job with n threads counts as n threads of one miss rate (the sum over its tasks),
//! takes n slots, and is bound to all of its slots. The kernel selects the slot of each task. The threads of a job may
//! therefore be on several caches and nodes, as in the published schedulers.
//!
//! A cache is a placement domain: with `domains=auto` an LLC domain if there are at least two, else a node, else a
//! core, whose SMT siblings share its caches.
//!
//! Clavis 6.5.5 reads `top` once a second, unbinds each thread that uses less than 90 % of a CPU, and schedules the
//! other threads. Two threads that share a CPU use half of the CPU each, so Clavis unbinds both threads. This is
//! harmless if surplus threads are released to the kernel. With `oversubscribed=share` every thread has a slot, so wait
//! time counts as used if the kernel reports it.

pub(crate) mod cache_slots;
mod orders;
pub(crate) mod page_migrations;
pub(crate) mod parameters;
pub(crate) mod rates;

use std::collections::BTreeSet;

use base::CpuSet;
use sched::{Action, JobState, JobView, Plan, Reason, Snapshot};

use crate::placement::{cpus_label, has_lost_cpus};
use cache_slots::CacheSlots;
use parameters::{BusyTime, Common, NOT_BUSY};

/// Minimum utilization of the CPUs of a job, in percent; the value of Clavis 6.5.5.
const USED_PERCENT_MIN: u64 = 90;
/// A job that started less than this fraction of an interval ago (a tenth) counts as busy. Guessed.
const RUN_SHARE_MIN: u64 = 10;

/// Whether a job gets slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Utilization {
    /// The job starts or lost CPUs, and gets slots in this turn.
    New,
    /// The job uses its CPUs, and is scheduled.
    Busy,
    /// The job uses this percentage of its CPUs, less than the minimum: the kernel schedules it.
    Idle(u64),
    /// The job is not managed, or may use none of the CPUs.
    Unmanaged,
}

/// Returns the jobs of a snapshot with their utilization in the last interval.
pub(crate) fn utilizations<'s>(
    snapshot: &'s Snapshot<'_>,
    slots: &CacheSlots,
    common: &Common,
) -> Vec<(&'s JobView<'s>, Utilization)> {
    snapshot.jobs.iter().map(|job| (job, utilization(snapshot, slots, job, common))).collect()
}

fn utilization(
    snapshot: &Snapshot<'_>,
    slots: &CacheSlots,
    job: &JobView<'_>,
    common: &Common,
) -> Utilization {
    let n_slots = slots.n_for(job);
    if !job.movable || n_slots == 0 {
        return Utilization::Unmanaged;
    }
    if job.state == JobState::Due {
        return Utilization::New;
    }
    match used_percent(snapshot, job, common.busy, n_slots) {
        Some(used) if used < USED_PERCENT_MIN => Utilization::Idle(used),
        _ if has_lost_cpus(job, snapshot.usable_cpus) => Utilization::New,
        _ => Utilization::Busy,
    }
}

/// Returns the share of the time of its slots that a job used, in percent; `None`: the job started too late in the
/// interval.
fn used_percent(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    busy: BusyTime,
    n_slots: usize,
) -> Option<u64> {
    let age = job.started.map(|started| snapshot.turn.at.saturating_sub(started));
    let time = age.map_or(snapshot.interval, |age| age.min(snapshot.interval));
    if time.0 == 0 || time.0 < snapshot.interval.0 / RUN_SHARE_MIN {
        return None;
    }
    let waited = job.wait.filter(|_| busy == BusyTime::Runnable).unwrap_or_default();
    let used = u128::from(job.cpu_time.saturating_add(waited).0) * 100;
    let percent = used / (u128::from(time.0) * n_slots as u128);
    Some(u64::try_from(percent).unwrap_or(u64::MAX))
}

/// Releases a placed job to the kernel.
pub(crate) fn release(job: &JobView<'_>, used: u64, plan: &mut Plan) {
    if job.placed.is_some() {
        let reason = Reason::new(NOT_BUSY)
            .with("used", used)
            .with("limit", USED_PERCENT_MIN)
            .with("n_threads", u64::from(job.job.threads));
        plan.request(job.job.id, Action::Release, reason);
    }
}

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

/// Returns the labels of the domains of some CPUs: `llc 0`, `llc 0, llc 2`.
fn domains_label(snapshot: &Snapshot<'_>, cpus: &CpuSet) -> String {
    if let Some(only) = snapshot.domains.of_set(cpus) {
        return snapshot.domains.label(only);
    }
    let touched: BTreeSet<usize> =
        cpus.iter().filter_map(|cpu| snapshot.domains.of_cpu(cpu)).collect();
    touched.into_iter().map(|idx| snapshot.domains.label(idx)).collect::<Vec<_>>().join(", ")
}
