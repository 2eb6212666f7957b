//! Whom the policies are about: jobs whose threads use a CPU nearly all the time.
//!
//! The published scheduler looks at `top` once a second. A thread below 90 % of a CPU is unbound and left
//! to the kernel; one above is scheduled [confirmed: Clavis]. Two threads on one CPU use half of it each and
//! would be let go at once, which is no harm where more threads than CPUs are left alone anyway. We give each
//! a share (`crowded=layers`), so time that a thread waited for its CPU counts as used, where the
//! kernel tells it.

use sched::{Action, JobState, JobView, Plan, Reason, ReasonCode, Snapshot};

use super::params::{Busy, Common};
use super::seats::Seats;
use crate::common::has_lost_its_place;

/// Of the time of its CPUs, in percent [confirmed: Clavis].
const LEAST_PERCENT: u128 = 90;
/// A job that has run for less than this part of an interval has shown nothing yet. Guessed.
const YOUNG: u64 = 10;

/// Who is to have a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It starts, or has lost its place: it is placed now.
    New,
    /// It runs, and is scheduled.
    Busy,
    /// It uses too little of its CPUs, in percent: it is left to the kernel.
    Idle(u64),
    /// It is not ours, or may run nowhere.
    NotOurs,
}

/// What a job is to us in this turn.
pub(crate) fn stand(
    seen: &Snapshot<'_>,
    seats: &Seats,
    job: &JobView<'_>,
    common: &Common,
) -> Stand {
    let n_seats = seats.n_for(job);
    if !job.movable || n_seats == 0 {
        return Stand::NotOurs;
    }
    if job.state == JobState::Due {
        return Stand::New;
    }
    match used_percent(seen, job, common.busy, n_seats) {
        Some(used) if u128::from(used) < LEAST_PERCENT => Stand::Idle(used),
        _ if has_lost_its_place(job, seen.usable_cpus) => Stand::New,
        _ => Stand::Busy,
    }
}

/// How much of the time of its seats a job used; `None` when it is too young to tell.
fn used_percent(seen: &Snapshot<'_>, job: &JobView<'_>, busy: Busy, n_seats: usize) -> Option<u64> {
    let age = job.started.map(|started| seen.turn.at.saturating_sub(started));
    let time = age.map_or(seen.interval, |age| age.min(seen.interval));
    if time.0 == 0 || time.0 < seen.interval.0 / YOUNG {
        return None;
    }
    let waited = job.wait.filter(|_| busy == Busy::Runnable).unwrap_or_default();
    let used = u128::from(job.cpu_time.saturating_add(waited).0) * 100;
    let percent = used / (u128::from(time.0) * n_seats as u128);
    Some(u64::try_from(percent).unwrap_or(u64::MAX))
}

/// Gives a job back to the kernel, if we had placed it.
pub(crate) fn let_go(job: &JobView<'_>, used: u64, plan: &mut Plan) {
    if job.placed.is_some() {
        let reason = Reason::new(ReasonCode::NotBusy)
            .with("used", used)
            .with("limit", LEAST_PERCENT as u64)
            .with("n_threads", u64::from(job.job.threads));
        plan.request(job.job.id, Action::Release, reason);
    }
}
