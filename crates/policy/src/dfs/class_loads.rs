//! Measured loads: the mean load of a job of each class, and the largest load of one domain.
//!
//! Only jobs that ran for a whole interval are measured. When the signal tier changes, loads have another unit,
//! and all measurements are discarded; likewise when the level of domains changes.

use program::Class;
use sched::{JobState, SignalTier, Snapshot};

use super::classes::Classes;

/// Measurements so far.
#[derive(Debug, Default)]
pub(super) struct ClassLoads {
    tier: SignalTier,
    peak: u64,
    by_class: [Mean; Class::MAX as usize + 1],
}

/// A mean of integers.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u128,
    n: u64,
}

impl ClassLoads {
    /// Adds the last interval.
    pub fn update(&mut self, seen: &Snapshot<'_>, classes: &Classes) {
        if self.tier != seen.loads.tier {
            *self = ClassLoads { tier: seen.loads.tier, ..ClassLoads::default() };
        }
        let largest = seen.loads.loads.iter().copied().max().unwrap_or(0);
        self.peak = self.peak.max(largest);
        let interval_start = seen.turn.at.saturating_sub(seen.interval);
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            if job.started.is_some_and(|started| started <= interval_start) {
                let mean = &mut self.by_class[usize::from(classes.of(job))];
                mean.sum += u128::from(job.load);
                mean.n += seen.n_intervals.max(1); // Its load was 0 in the omitted intervals.
            }
        }
    }

    /// Mean load of a job of a class per interval; 0 if none was measured.
    pub fn mean(&self, class: u8) -> u64 {
        let Mean { sum, n } = self.by_class[usize::from(class)];
        if n == 0 { 0 } else { u64::try_from(sum / u128::from(n)).unwrap_or(u64::MAX) }
    }

    /// The largest load of one domain in an interval.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}
