//! Misses per instruction of jobs. Each interval adds a sample; the last ten samples are stored.
//!
//! Rates are integers, misses per million instructions, so that comparisons are exact. Clavis counts per 10 000
//! instructions; reasons print misses per 1000 (MPKI):
//!
//! ```text
//!   12 300 per million   =   123 per 10 000   =   12.3 per 1000
//! ```

use sched::{CounterEvent, JobView, Snapshot};

use crate::placement::permille_text;

/// Misses (or accesses) per million instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rate(pub u64);

const MILLION: u128 = 1_000_000;

impl Rate {
    /// Returns a rate per 10 000 instructions, the unit of Clavis.
    pub const fn per_10_000(count: u64) -> Rate {
        Rate(count * 100)
    }

    /// Returns the rate of events; `None` without instructions.
    pub fn of(events: u64, instructions: u64) -> Option<Rate> {
        let rate = (u128::from(events) * MILLION).checked_div(u128::from(instructions))?;
        Some(Rate(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    /// Returns the rate, rounded to whole misses per 1000 instructions as in Clavis 6.5.5. Small changes of rates then
    /// do not change the order of jobs.
    pub fn rounded(self) -> Rate {
        Rate(self.0.saturating_add(500) / 1000 * 1000)
    }
}

impl std::fmt::Display for Rate {
    /// Prints the rate per 1000 instructions: `12.300`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&permille_text(self.0))
    }
}

/// Returns the rate of events of a job in the last interval, over its tasks for which both values are known.
pub(crate) fn rate_of(
    snapshot: &Snapshot<'_>,
    job: &JobView<'_>,
    events: impl Fn(&sched::CounterDeltas) -> Option<u64>,
) -> Option<Rate> {
    let both = snapshot.tasks_of(job.job.id).iter().filter_map(|task| {
        Some((events(&task.counters)?, task.counters.get(CounterEvent::Instructions)?))
    });
    let (events, instructions) = both.fold((0u64, 0u64), |sum, (events, instructions)| {
        (sum.0.saturating_add(events), sum.1.saturating_add(instructions))
    });
    Rate::of(events, instructions)
}

/// Returns the misses per instruction of a job in the last interval.
pub(crate) fn misses_of(snapshot: &Snapshot<'_>, job: &JobView<'_>) -> Option<Rate> {
    rate_of(snapshot, job, sched::CounterDeltas::misses)
}

/// Number of stored samples, as in Clavis 6.5.5.
pub(crate) const N_SAMPLES: usize = 10;

/// The last samples of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentRates {
    samples: [Rate; N_SAMPLES],
    len: usize,
    next: usize,
}

impl RecentRates {
    pub fn push(&mut self, sample: Rate) {
        self.samples[self.next] = sample;
        self.next = (self.next + 1) % N_SAMPLES;
        self.len = (self.len + 1).min(N_SAMPLES);
    }

    pub fn iter(&self) -> impl Iterator<Item = Rate> + '_ {
        self.samples[..self.len].iter().copied()
    }

    /// Returns the mean; `None` before the first sample.
    pub fn mean(&self) -> Option<Rate> {
        let sum: u128 = self.iter().map(|rate| u128::from(rate.0)).sum();
        let mean = sum.checked_div(self.len as u128)?;
        Some(Rate(u64::try_from(mean).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_printed_per_thousand_and_rounded_to_whole_misses() {
        let rate = Rate::of(123, 10_000).expect("instructions");
        assert_eq!((rate, rate.to_string()), (Rate::per_10_000(123), "12.300".to_owned()));
        assert_eq!(rate.rounded(), Rate(12_000));
        assert_eq!(Rate::per_10_000(15).rounded(), Rate(2_000), "a half is rounded up");
        assert_eq!(Rate::of(1, 0), None);
        assert_eq!(Rate::of(u64::MAX, 1), Some(Rate(u64::MAX)));
    }

    #[test]
    fn the_last_ten_samples_are_kept() {
        let mut ring = RecentRates::default();
        assert_eq!(ring.mean(), None);
        (1..=12).for_each(|n| ring.push(Rate(n)));
        assert_eq!(
            (ring.iter().count(), ring.mean()),
            (10, Some(Rate(7))),
            "75 / 10: from 3 to 12"
        );
    }
}
