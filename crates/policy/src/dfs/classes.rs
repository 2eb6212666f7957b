//! How hungry each job is taken to be: as declared, or as its tasks' cache misses show.
//!
//! ```text
//!   classes=declared   the class of the workload file, for good
//!   classes=online     class = min(15, floor(log2(1 + misses / ms)))       over the last 8 polls
//!                      a new class holds once 4 polls in a row have come to it
//! ```
//!
//! Misses are per millisecond of CPU time, as declared classes are (spec 1.1), so a job that sleeps
//! keeps its class. A job whose misses are not counted keeps what was declared.

use program::Class;
use sched::{CounterEvent, JobState, JobView, PerJob, SignalTier, Snapshot};

use super::config::Config;

/// Polls that a moving average goes over (spec 1.10).
const N_POLLS: usize = 8;
/// Equal results in a row that make a class (spec 1.10).
const N_EQUAL: u32 = 4;
const NANOS_PER_MILLI: u128 = 1_000_000;

/// The class of every job.
#[derive(Debug, Default)]
pub(super) struct Classes {
    online: bool,
    by_job: PerJob<Shown>,
}

/// What one job has shown.
#[derive(Clone, Debug, Default)]
struct Shown {
    /// Misses and nanoseconds of CPU time of the last polls, the oldest overwritten next.
    polls: [(u64, u64); N_POLLS],
    next: usize,
    candidate: u8,
    n_equal: u32,
    class: Option<u8>,
}

impl Classes {
    pub fn new(config: &Config) -> Self {
        Classes { online: config.online, by_job: PerJob::default() }
    }

    /// The class that a job is taken to have; one of which nothing is known counts as 0.
    pub fn of(&self, job: &JobView<'_>) -> u8 {
        let shown = self.by_job.get(job.job.id).and_then(|shown| shown.class);
        shown.unwrap_or_else(|| declared(job))
    }

    /// The same as a class.
    pub fn class_of(&self, job: &JobView<'_>) -> Class {
        Class::new(self.of(job)).unwrap_or_default()
    }

    /// Whether a job's class is what it has shown, not what was declared of it.
    pub fn has_shown(&self, job: &JobView<'_>) -> bool {
        self.by_job.get(job.job.id).is_some_and(|shown| shown.class.is_some())
    }

    /// Looks at an interval that went by.
    pub fn learn(&mut self, seen: &Snapshot<'_>) {
        if !self.online {
            return;
        }
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            if let Some(misses) = misses_of(seen, job) {
                self.by_job.of(job.job.id).learn(misses, job.cpu_time.0, declared(job));
            }
        }
    }

    /// One that starts again begins as it was declared.
    pub fn forget(&mut self, job: &JobView<'_>) {
        *self.by_job.of(job.job.id) = Shown::default();
    }

    pub fn forget_ended(&mut self, seen: &Snapshot<'_>) {
        self.by_job.forget_ended(seen);
    }
}

impl Shown {
    fn learn(&mut self, misses: u64, cpu_ns: u64, declared: u8) {
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

/// The class of a mean rate; `None` when there was less than a millisecond to tell by.
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

/// Cache misses of all tasks of a job in the last interval; `None` when none of them is counted: what
/// was declared is no news.
pub(super) fn misses_of(seen: &Snapshot<'_>, job: &JobView<'_>) -> Option<u64> {
    let tier = seen.tiers.get(CounterEvent::LlcMisses);
    if !matches!(tier, SignalTier::Counters | SignalTier::Bandwidth) {
        return None;
    }
    let counted = seen.tasks_of(job.job.id).iter();
    let counted = counted.filter_map(|task| task.counters.misses());
    counted.fold(None, |sum, misses| Some(sum.unwrap_or(0).saturating_add(misses)))
}

fn declared(job: &JobView<'_>) -> u8 {
    job.job.class.unwrap_or_default().number()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classes after each poll of misses in 10 ms of CPU time.
    fn classes(declared: u8, polls: &[u64]) -> Vec<u8> {
        let mut shown = Shown::default();
        let after = polls.iter().map(|&misses| {
            shown.learn(misses, 10_000_000, declared);
            shown.class.unwrap_or(declared)
        });
        after.collect()
    }

    #[test]
    fn a_class_changes_after_four_equal_results_of_the_moving_average() {
        // 70 misses in 10 ms are 7 a millisecond: class 3.
        assert_eq!(classes(9, &[70; 5]), [9, 9, 9, 3, 3]);
    }

    #[test]
    fn one_odd_poll_changes_nothing() {
        let polls = [70, 70, 70, 70, 70, 70, 70, 90, 70, 70, 70, 70];
        assert_eq!(classes(3, &polls), [3; 12]);
    }

    #[test]
    fn a_program_that_becomes_hungry_is_found_out_within_its_average() {
        let polls: Vec<u64> = [vec![70; 8], vec![10_000; 16]].concat();
        let classes = classes(3, &polls);
        assert_eq!(classes[8..12], [3, 3, 3, 3], "the average is still on its way");
        assert_eq!(*classes.last().expect("some"), 9, "1000 a millisecond");
    }

    #[test]
    fn one_that_sleeps_keeps_its_class() {
        let mut shown = Shown::default();
        (0..20).for_each(|_| shown.learn(0, 0, 5));
        assert_eq!(shown.class, None);
    }

    #[test]
    fn rates_are_classes_as_declared_ones_are() {
        for (per_ms, class) in [(0, 0), (1, 1), (2, 1), (3, 2), (32_767, 15), (u64::MAX >> 24, 15)]
        {
            assert_eq!(class_of_rate(&[(per_ms, 1_000_000)]), Some(class), "{per_ms}");
        }
    }
}
