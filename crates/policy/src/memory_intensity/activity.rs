//! Which jobs the policies place: those whose threads use a CPU nearly all the time.
//!
//! The published scheduler reads `top` once a second, unbinds a thread that uses less than 90 % of a CPU, and
//! schedules the others [confirmed: Clavis]. Two threads that share a CPU use half of it each and would both be
//! unbound, which is harmless where surplus threads are left to the kernel anyway. With `crowded=layers` every
//! thread has a slot, so wait time counts as used, where the kernel reports it.

use sched::{Action, JobState, JobView, Plan, Reason, Snapshot};

use super::cache_slots::CacheSlots;
use super::parameters::{BusyTime, Common, NOT_BUSY};
use crate::placement::has_lost_cpus;

/// Minimum use of its CPUs, in percent [confirmed: Clavis].
const LEAST_PERCENT: u128 = 90;
/// A job that ran for less than 1/YOUNG of an interval is not judged. Guessed.
const YOUNG: u64 = 10;

/// Whether a job gets slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It starts or lost CPUs: it gets slots in this turn.
    New,
    /// It runs and is scheduled.
    Busy,
    /// It uses this percentage of its CPUs, which is too little: the kernel schedules it.
    Idle(u64),
    /// It is not managed, or may use none of the CPUs.
    Unmanaged,
}

/// The activity of a job in the last interval.
pub(crate) fn activity(
    seen: &Snapshot<'_>,
    slots: &CacheSlots,
    job: &JobView<'_>,
    common: &Common,
) -> Activity {
    let n_slots = slots.n_for(job);
    if !job.movable || n_slots == 0 {
        return Activity::Unmanaged;
    }
    if job.state == JobState::Due {
        return Activity::New;
    }
    match used_percent(seen, job, common.busy, n_slots) {
        Some(used) if u128::from(used) < LEAST_PERCENT => Activity::Idle(used),
        _ if has_lost_cpus(job, seen.usable_cpus) => Activity::New,
        _ => Activity::Busy,
    }
}

/// Percentage of the time of its slots that a job used; `None`: it ran too short.
fn used_percent(
    seen: &Snapshot<'_>,
    job: &JobView<'_>,
    busy: BusyTime,
    n_slots: usize,
) -> Option<u64> {
    let age = job.started.map(|started| seen.turn.at.saturating_sub(started));
    let time = age.map_or(seen.interval, |age| age.min(seen.interval));
    if time.0 == 0 || time.0 < seen.interval.0 / YOUNG {
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
            .with("limit", LEAST_PERCENT as u64)
            .with("n_threads", u64::from(job.job.threads));
        plan.request(job.job.id, Action::Release, reason);
    }
}
