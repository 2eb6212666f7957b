//! Measured intervals by job, and the comparison of intervals before and after migrations.
//!
//! ```text
//!             before                          after
//!   job a     . . . . . . . .   migrations    . . . . . . . .    compared
//!   job b     . . . . . . . .                 . . .              ended: omitted from both
//!   job c             . . . .                 . . . . . . . .    started late: omitted from both
//! ```
//!
//! Only jobs that ran during both measurements are compared, and each job is compared with itself. On most machines
//! processes start and end all the time, so no two intervals have the same jobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{JobId, Nanos};
use sched::{CounterEvent, JobState, JobView, SignalTier, Snapshot};

use super::TrialGoal;
use super::verdict::{self, Comparison, TrialMetric};

/// Job number and start time: numbers are reused.
pub(super) type JobRun = (JobId, Option<Nanos>);

/// Returns the number and the start time of a job.
pub(super) fn run_of(job: &JobView<'_>) -> JobRun {
    (job.job.id, job.started)
}

/// Returns whether the jobs of the newest interval ran in the oldest interval too, except a quarter of them. While many
/// jobs start, the speeds of the first intervals are those of other jobs.
pub(super) fn is_settled(intervals: &VecDeque<MeasuredInterval>) -> bool {
    let (Some(first), Some(last)) = (intervals.front(), intervals.back()) else { return false };
    let n_started = last.runs().filter(|run| first.activity(run).is_none()).count();
    4 * n_started <= last.jobs.len()
}

/// Returns whether a run of a job continues.
pub(super) fn is_running(snapshot: &Snapshot<'_>, run: JobRun) -> bool {
    snapshot.job(run.0).is_some_and(|job| run_of(job) == run)
}

/// Measured values of an interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MeasuredInterval {
    /// Running jobs, by run.
    jobs: Vec<(JobRun, JobActivity)>,
    /// Excess of the largest load over the mean.
    imbalance: Option<f64>,
}

/// Activity of a job in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct JobActivity {
    /// CPU time and wait time; both 0 if the wait time is unknown.
    ran: Nanos,
    waited: Nanos,
    /// Number of instructions.
    instructions: u64,
    /// CPU time of the tasks whose instructions were counted.
    counted: Nanos,
}

/// Jobs that ran during both measurements, and the numbers of jobs that ended and of jobs that started. A job that
/// started and ended is in both numbers.
pub(super) struct ComparedJobs {
    /// Instructions per second of CPU time of each compared job before the migrations, if counted.
    speeds_before: BTreeMap<JobRun, Option<f64>>,
    pub n_ended: usize,
    pub n_started: usize,
}

impl MeasuredInterval {
    pub(super) fn of(snapshot: &Snapshot<'_>) -> Self {
        let running = snapshot.jobs.iter().filter(|job| job.state == JobState::Running);
        let mut jobs: Vec<(JobRun, JobActivity)> = running
            .map(|job| {
                let (ran, waited) =
                    job.wait.map_or_else(Default::default, |wait| (job.cpu_time, wait));
                (run_of(job), JobActivity { ran, waited, ..JobActivity::default() })
            })
            .collect();
        jobs.sort_unstable_by_key(|(run, _)| *run);
        for task in snapshot.tasks {
            let Some(count) = task.counters.get(CounterEvent::Instructions) else { continue };
            let Ok(at) = jobs.binary_search_by_key(&task.job, |((job, _), _)| *job) else {
                continue;
            };
            let activity = &mut jobs[at].1;
            activity.instructions = activity.instructions.saturating_add(count);
            activity.counted = activity.counted.saturating_add(task.cpu_time);
        }
        MeasuredInterval { jobs, imbalance: imbalance(snapshot) }
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = JobRun> {
        self.jobs.iter().map(|(run, _)| *run)
    }

    fn activity(&self, run: &JobRun) -> Option<&JobActivity> {
        let at = self.jobs.binary_search_by_key(run, |(run, _)| *run).ok()?;
        Some(&self.jobs[at].1)
    }

    fn value(&self, jobs: &ComparedJobs, metric: TrialMetric) -> Option<f64> {
        match metric {
            TrialMetric::Instructions => self.relative_speed(jobs),
            TrialMetric::Waiting => sum(self.activities(jobs).map(|(_, one)| one)).waiting(),
            // The loads include all jobs, also jobs that started or ended.
            TrialMetric::Imbalance => self.imbalance.filter(|_| jobs.is_unchanged()),
        }
    }

    /// Returns the activity of the compared jobs.
    fn activities(&self, jobs: &ComparedJobs) -> impl Iterator<Item = (&JobRun, &JobActivity)> {
        let all = self.jobs.iter().map(|(run, activity)| (run, activity));
        all.filter(|(run, _)| jobs.speeds_before.contains_key(run))
    }

    /// Returns the mean speed of the jobs, each relative to its own speed before the migrations, weighted by CPU time.
    /// A sum of instructions would be the speed of the few jobs with the most instructions per cycle.
    fn relative_speed(&self, jobs: &ComparedJobs) -> Option<f64> {
        let (mut weighted, mut counted_s) = (0.0, 0.0);
        for (run, activity) in self.activities(jobs) {
            let before = jobs.speeds_before.get(run).copied().flatten();
            let Some((speed, before)) = activity.speed().zip(before) else { continue };
            weighted += activity.counted.as_secs_f64() * speed / before;
            counted_s += activity.counted.as_secs_f64();
        }
        (0.0 < counted_s).then(|| weighted / counted_s)
    }
}

impl JobActivity {
    fn plus(self, other: &JobActivity) -> JobActivity {
        JobActivity {
            ran: self.ran.saturating_add(other.ran),
            waited: self.waited.saturating_add(other.waited),
            instructions: self.instructions.saturating_add(other.instructions),
            counted: self.counted.saturating_add(other.counted),
        }
    }

    /// Returns the instructions per second of CPU time; `None` if no instruction was counted.
    fn speed(&self) -> Option<f64> {
        let is_counted = self.counted != Nanos::ZERO && self.instructions != 0;
        is_counted.then(|| self.instructions as f64 / self.counted.as_secs_f64())
    }

    fn waiting(&self) -> Option<f64> {
        let all = self.waited.0.saturating_add(self.ran.0);
        (all != 0).then(|| self.waited.0 as f64 / all as f64)
    }
}

impl ComparedJobs {
    fn of(before: &[MeasuredInterval], after: &[MeasuredInterval]) -> Option<Self> {
        let first: BTreeSet<JobRun> = before.first()?.runs().collect();
        let last: BTreeSet<JobRun> = after.last()?.runs().collect();
        let all: BTreeSet<JobRun> =
            before.iter().chain(after).flat_map(MeasuredInterval::runs).collect();
        Some(ComparedJobs {
            n_ended: all.difference(&last).count(),
            n_started: all.difference(&first).count(),
            speeds_before: (first.intersection(&last))
                .map(|run| (*run, sum(before.iter().filter_map(|one| one.activity(run))).speed()))
                .collect(),
        })
    }

    /// Returns the number of jobs that ended, relative to the compared jobs.
    fn ended_share(&self) -> f64 {
        self.n_ended as f64 / self.speeds_before.len().max(1) as f64
    }

    fn is_unchanged(&self) -> bool {
        self.n_ended == 0 && self.n_started == 0
    }
}

fn sum<'a>(activities: impl Iterator<Item = &'a JobActivity>) -> JobActivity {
    activities.fold(JobActivity::default(), |sum, activity| sum.plus(activity))
}

fn imbalance(snapshot: &Snapshot<'_>) -> Option<f64> {
    let loads = &snapshot.loads.loads;
    let is_counted = matches!(snapshot.loads.tier, SignalTier::Bandwidth | SignalTier::Counters);
    let max = loads.iter().max().filter(|_| is_counted && snapshot.loads.readable)?;
    let mean = loads.iter().map(|&load| load as f64).sum::<f64>() / loads.len() as f64;
    (0.0 < mean).then(|| *max as f64 / mean - 1.0)
}

/// Compares intervals before and after; `None`: no value was measured for jobs that ran during both measurements.
pub(super) fn compare(
    before: &[MeasuredInterval],
    after: &[MeasuredInterval],
    goal: TrialGoal,
) -> Option<(Comparison, ComparedJobs)> {
    let jobs = ComparedJobs::of(before, after)?;
    let values = |all: &[MeasuredInterval], metric: TrialMetric| -> Vec<f64> {
        all.iter().filter_map(|interval| interval.value(&jobs, metric)).collect()
    };
    let compared: Vec<Comparison> = (TrialMetric::ALL.iter())
        .filter_map(|&metric| {
            verdict::compare((metric, goal), &values(before, metric), &values(after, metric))
        })
        .map(|one| match goal {
            TrialGoal::AnyMetric => one,
            TrialGoal::Speed => one.with_bias(jobs.ended_share()),
        })
        .collect();
    Some((verdict::combine(&compared, goal)?, jobs))
}
