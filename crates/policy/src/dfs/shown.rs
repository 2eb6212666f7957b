//! What programs and domains have shown so far: the mean load of a program of each class, and the
//! largest load of one domain.
//!
//! Learnt from jobs that ran through a whole interval; a job that began in it shows too little.
//! When loads come to stand on another signal they have another unit, and all is learnt anew; so it
//! is when places are of another level.

use program::Class;
use sched::{JobState, SignalTier, Snapshot};

use super::classes::Classes;

/// What was learnt.
#[derive(Debug, Default)]
pub(super) struct Shown {
    tier: SignalTier,
    peak: u64,
    by_class: [Mean; Class::MAX as usize + 1],
}

/// A mean in whole numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: u128,
    n: u64,
}

impl Shown {
    /// Looks at an interval that went by.
    pub fn learn(&mut self, seen: &Snapshot<'_>, classes: &Classes) {
        if self.tier != seen.loads.tier {
            *self = Shown { tier: seen.loads.tier, ..Shown::default() };
        }
        let largest = seen.loads.loads.iter().copied().max().unwrap_or(0);
        self.peak = self.peak.max(largest);
        let began = seen.turn.at.saturating_sub(seen.interval);
        for job in seen.jobs.iter().filter(|job| job.state == JobState::Running) {
            if job.started.is_some_and(|started| started <= began) {
                let mean = &mut self.by_class[usize::from(classes.of(job))];
                mean.sum += u128::from(job.load);
                mean.n += seen.n_intervals.max(1); // It did nothing in those left out.
            }
        }
    }

    /// The mean load that one program of a class has shown in an interval; 0 when none has run yet.
    pub fn class_load(&self, class: u8) -> u64 {
        let Mean { sum, n } = self.by_class[usize::from(class)];
        if n == 0 { 0 } else { u64::try_from(sum / u128::from(n)).unwrap_or(u64::MAX) }
    }

    /// The largest load of one domain in an interval.
    pub fn peak(&self) -> u64 {
        self.peak
    }
}
