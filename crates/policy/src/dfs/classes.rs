//! The class of each job: as declared, or from the cache misses of its tasks.
//!
//! ```text
//!   classes=declared   the class of the workload file
//!   classes=online     class = min(15, floor(log2(1 + misses / ms)))       over the last 8 polls
//!                      a job changes its class after 4 polls in a row with the same result
//! ```
//!
//! Misses and declared classes are per millisecond of CPU time, so a sleeping job keeps its class. A job keeps its
//! class while its misses are not counted.

use program::Class;
use sched::{CounterEvent, JobState, JobView, PerJob, SignalTier, Snapshot};

use super::declaration::{Classification, Config};

/// Polls per moving average.
const N_POLLS: usize = 8;
/// Number of equal results in a row that change a class.
const N_EQUAL: u32 = 4;
const NANOS_PER_MILLI: u128 = 1_000_000;

/// The class of every job.
#[derive(Debug, Default)]
pub(super) struct Classes {
    online: bool,
    by_job: PerJob<MissHistory>,
}

/// Recent misses of a job, and the class computed from these misses.
#[derive(Clone, Debug, Default)]
struct MissHistory {
    /// Ring buffer of the last polls: misses, and CPU time in nanoseconds.
    polls: [(u64, u64); N_POLLS],
    next: usize,
    candidate: u8,
    n_equal: u32,
    class: Option<u8>,
}

impl Classes {
    pub fn new(config: &Config) -> Self {
        Classes { online: config.classes == Classification::Online, by_job: PerJob::default() }
    }

    /// Returns the class of a job; an unknown class counts as 0.
    pub fn class(&self, job: &JobView<'_>) -> Class {
        let counted = self.by_job.get(job.job.id).and_then(|history| history.class);
        Class::new(counted.unwrap_or_else(|| declared(job))).unwrap_or_default()
    }

    /// Returns whether the class of a job comes from counted misses.
    pub fn is_counted(&self, job: &JobView<'_>) -> bool {
        self.by_job.get(job.job.id).is_some_and(|history| history.class.is_some())
    }

    /// Adds the misses of the last interval.
    pub fn update(&mut self, snapshot: &Snapshot<'_>) {
        if !self.online {
            return;
        }
        for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Running) {
            if let Some(misses) = misses_of(snapshot, job) {
                self.by_job.get_or_default(job.job.id).add(misses, job.cpu_time.0, declared(job));
            }
        }
    }

    /// Discards the counted misses of a job that starts: the job has its declared class again.
    pub fn reset(&mut self, job: &JobView<'_>) {
        *self.by_job.get_or_default(job.job.id) = MissHistory::default();
    }

    pub fn remove_ended(&mut self, snapshot: &Snapshot<'_>) {
        self.by_job.forget_ended(snapshot);
    }
}

impl MissHistory {
    fn add(&mut self, misses: u64, cpu_ns: u64, declared: u8) {
        self.polls[self.next] = (misses, cpu_ns);
        self.next = (self.next + 1) % N_POLLS;
        let Some(class) = class_of_rate(&self.polls) else { return };
        if self.n_equal != 0 && self.candidate == class {
            self.n_equal = self.n_equal.saturating_add(1);
        } else {
            (self.candidate, self.n_equal) = (class, 1);
        }
        if N_EQUAL <= self.n_equal && self.class.unwrap_or(declared) != class {
            self.class = Some(class);
        }
    }
}

/// Returns the class of a mean rate; `None`: less than a millisecond of CPU time.
fn class_of_rate(polls: &[(u64, u64)]) -> Option<u8> {
    let sum = |part: fn(&(u64, u64)) -> u64| polls.iter().map(part).map(u128::from).sum::<u128>();
    let (misses, cpu_ns) = (sum(|poll| poll.0), sum(|poll| poll.1));
    if cpu_ns < NANOS_PER_MILLI {
        return None;
    }
    let per_ms = misses.saturating_mul(NANOS_PER_MILLI) / cpu_ns;
    let class = (per_ms + 1).ilog2().min(u32::from(Class::MAX));
    u8::try_from(class).ok()
}

/// Returns the cache misses of all tasks of a job in the last interval; `None`: misses are not counted. Declared values
/// are ignored.
pub(super) fn misses_of(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<u64> {
    let tier = snapshot.tiers.get(CounterEvent::LlcMisses);
    if !matches!(tier, SignalTier::Counters | SignalTier::Bandwidth) {
        return None;
    }
    let counted = snapshot.tasks_of(job.job.id).iter();
    let counted = counted.filter_map(|task| task.counters.misses());
    counted.fold(None, |sum, misses| Some(sum.unwrap_or(0).saturating_add(misses)))
}

fn declared(job: &JobView<'_>) -> u8 {
    job.job.class.unwrap_or_default().number()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the class after each poll. Each poll has this number of misses in 10 ms of CPU time.
    fn classes(declared: u8, polls: &[u64]) -> Vec<u8> {
        let mut history = MissHistory::default();
        let after = polls.iter().map(|&misses| {
            history.add(misses, 10_000_000, declared);
            history.class.unwrap_or(declared)
        });
        after.collect()
    }

    #[test]
    fn a_class_changes_after_four_equal_results_of_the_moving_average() {
        // 70 misses in 10 ms are 7 per millisecond: class 3.
        assert_eq!(classes(9, &[70; 5]), [9, 9, 9, 3, 3]);
    }

    #[test]
    fn a_single_deviating_poll_changes_no_class() {
        let polls = [70, 70, 70, 70, 70, 70, 70, 90, 70, 70, 70, 70];
        assert_eq!(classes(3, &polls), [3; 12]);
    }

    #[test]
    fn a_job_that_becomes_memory_hungry_changes_its_class_within_the_average() {
        let polls: Vec<u64> = [vec![70; 8], vec![10_000; 16]].concat();
        let classes = classes(3, &polls);
        assert_eq!(classes[8..12], [3, 3, 3, 3], "the average still rises");
        assert_eq!(*classes.last().expect("some"), 9, "1000 per millisecond");
    }

    #[test]
    fn a_sleeping_job_keeps_its_class() {
        let mut history = MissHistory::default();
        (0..20).for_each(|_| history.add(0, 0, 5));
        assert_eq!(history.class, None);
    }

    #[test]
    fn counted_rates_give_the_same_classes_as_declared_ones() {
        for (per_ms, class) in [(0, 0), (1, 1), (2, 1), (3, 2), (32_767, 15), (u64::MAX >> 24, 15)]
        {
            assert_eq!(class_of_rate(&[(per_ms, 1_000_000)]), Some(class), "{per_ms}");
        }
    }
}
