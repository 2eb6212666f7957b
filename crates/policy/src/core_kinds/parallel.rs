//! Jobs with more runnable tasks than declared threads.
//!
//! A job is bound to CPUs for its declared threads. A program that forks, or that has more threads than declared, would
//! wait there while cores of other kinds are idle: the job is released, and the kernel schedules it until it starts
//! again.

use base::Nanos;
use sched::{Action, JobState, JobView, PerJob, Plan, Reason, Snapshot};

use super::{MORE_TASKS_THAN_CPUS, is_interval};
use crate::placement::remove_old_state;

/// Number of intervals over which runnable tasks are averaged. Chosen: the kernel reports a wait at its end, so that one
/// interval can contain the wait of several.
const N_INTERVALS: u64 = 2;

/// Mean number of runnable tasks, above CPUs and declared threads, that is too many. Chosen: of two threads on one CPU
/// that wait for each other at joins, 1.5 are runnable.
const MORE_MIN: f64 = 0.4;

/// State of a job.
#[derive(Clone, Copy, Debug, Default)]
enum JobTasks {
    #[default]
    Fit,
    /// The number of runnable tasks of the last interval was too large.
    TooMany(f64),
    Released,
}

/// Jobs that had more runnable tasks than CPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct ParallelJobs(PerJob<JobTasks>);

impl ParallelJobs {
    /// Removes jobs that ended or start again.
    pub fn remove_old(&mut self, snapshot: &Snapshot<'_>) {
        remove_old_state(&mut self.0, snapshot);
    }

    /// Releases the jobs that had more runnable tasks than CPUs in two intervals.
    pub fn release(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        for job in snapshot.jobs.iter().filter(|_| is_interval(snapshot)) {
            if self.contains(job) {
                continue;
            }
            let state = self.0.get_or_default(job.job.id);
            let too_many = too_many(snapshot, job);
            let Some((n_runnable, n_cpus, n_max)) = too_many else {
                *state = JobTasks::Fit;
                continue;
            };
            let JobTasks::TooMany(previous) = *state else {
                *state = JobTasks::TooMany(n_runnable);
                continue;
            };
            let mean = (previous + n_runnable) / N_INTERVALS as f64;
            if mean < n_max as f64 + MORE_MIN {
                *state = JobTasks::TooMany(n_runnable);
                continue;
            }
            *state = JobTasks::Released;
            let reason = Reason::new(MORE_TASKS_THAN_CPUS)
                .with("n_runnable", (mean * 10.0).round() / 10.0)
                .with("n_intervals", N_INTERVALS)
                .with("n_cpus", n_cpus)
                .with("n_threads", u64::from(job.job.threads));
            plan.request(job.job.id, Action::Release, reason);
        }
    }

    /// Returns whether the job was released.
    pub fn contains(&self, job: &JobView<'_>) -> bool {
        job.state == JobState::Running && matches!(self.0.get(job.job.id), Some(JobTasks::Released))
    }
}

/// Returns the mean number of runnable tasks of a job in the last interval, the number of its CPUs, and the larger number
/// of CPUs and declared threads; `None` if it does not have more tasks than these, or may use no other CPU.
fn too_many(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<(f64, u64, u64)> {
    let cpus = job.placed.filter(|cpus| *cpus != job.allowed)?;
    let age = snapshot.turn.at.saturating_sub(job.started?);
    if !job.movable || snapshot.interval == Nanos::ZERO || age < snapshot.interval {
        return None;
    }
    let n_cpus = cpus.len() as u64;
    let n_max = n_cpus.max(job.job.threads.into());
    let n_runnable = job.cpu_time.saturating_add(job.wait?).0 as f64 / snapshot.interval.0 as f64;
    let is_more = (n_max as f64) < n_runnable && n_max < job.n_tasks.into();
    is_more.then_some((n_runnable, n_cpus, n_max))
}
