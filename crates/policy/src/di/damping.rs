//! Damping of miss rates: a job changes its rate only if several samples agree.
//!
//! ```text
//!   old rate above DEVIL   │ band: 70 % to 130 % of the old rate
//!   old rate up to DEVIL   │ band: 0 to DEVIL
//!
//!   5 of the last 10 samples outside the band, and the mean more than 3 misses per 1000 instructions away
//!                           ─► the mean is the new rate
//! ```
//!
//! The rule and its constants are from Clavis 6.5.5. The rate of a thread with few misses may vary below the limit, and
//! a single deviating interval causes no migration. The source does not define the first rate: evenkeel uses the first
//! sample.

use crate::memory_intensity::rates::{Rate, RecentRates};

/// Number of samples outside the band that change the rate.
const N_OUTSIDE: usize = 5;
/// Half the width of the band, in percent of the rate.
const BAND_PERCENT: u64 = 30;
/// Minimum change of the rate.
const STEP_MIN: Rate = Rate::per_10_000(30);

/// The samples of a job and its damped rate.
#[derive(Clone, Debug, Default)]
pub(super) struct DampedRate {
    ring: RecentRates,
    rate: Option<Rate>,
}

impl DampedRate {
    /// Returns the damped rate; `None` before the first sample.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    pub fn add(&mut self, sample: Rate, devil: Rate) {
        self.ring.push(sample);
        let (Some(old), Some(mean)) = (self.rate, self.ring.mean()) else {
            self.rate = Some(sample);
            return;
        };
        let n_outside = self.ring.iter().filter(|&sample| is_outside(sample, old, devil)).count();
        if N_OUTSIDE <= n_outside && STEP_MIN < Rate(mean.0.abs_diff(old.0)) {
            self.rate = Some(mean);
        }
    }
}

fn is_outside(sample: Rate, old: Rate, devil: Rate) -> bool {
    if old <= devil {
        return devil < sample;
    }
    let width = old.0.saturating_mul(BAND_PERCENT) / 100;
    sample.0 < old.0 - width || old.0.saturating_add(width) < sample.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVIL: Rate = Rate::per_10_000(15);

    /// Returns the rates per 10 000 after each sample.
    fn rates(samples: &[u64]) -> Vec<u64> {
        let mut damped = DampedRate::default();
        let after = samples.iter().map(|&sample| {
            damped.add(Rate::per_10_000(sample), DEVIL);
            damped.rate().expect("one sample").0 / 100
        });
        after.collect()
    }

    #[test]
    fn the_first_sample_is_the_first_rate() {
        assert_eq!(rates(&[200]), [200]);
    }

    #[test]
    fn five_samples_outside_the_band_change_the_rate_to_their_mean() {
        assert_eq!(rates(&[200, 270, 270, 270, 270, 270]), [200, 200, 200, 200, 200, 258]);
        assert_eq!(rates(&[200, 260, 260, 260, 260, 260])[5], 200, "30 % is still in the band");
    }

    #[test]
    fn the_rate_of_a_job_with_few_misses_may_vary_below_the_limit() {
        assert_eq!(rates(&[1, 15, 2, 15, 3, 14, 15, 15, 15, 15])[9], 1);
    }

    #[test]
    fn a_step_of_three_misses_per_thousand_is_too_small() {
        assert_eq!(rates(&[10, 40, 40, 40, 40, 40])[5], 10, "the mean is 35: a step of 25");
        assert_eq!(rates(&[10, 60, 60, 60, 60, 60])[5], 51);
    }

    #[test]
    fn a_single_deviating_sample_changes_nothing() {
        assert_eq!(rates(&[200, 200, 900, 200, 200, 1, 200]), [200; 7]);
    }
}
