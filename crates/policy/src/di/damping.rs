//! The rate that a job is taken to have: not every sample, but what several of them agree on.
//!
//! ```text
//!   old rate above DEVIL   │ band: 70 % to 130 % of it            samples outside of the band count
//!   old rate up to DEVIL   │ band: everything up to DEVIL
//!
//!   5 of the last 10 outside, and their mean more than 3 misses per 1000 instructions away
//!                           ─► the mean is the new rate           [confirmed: Clavis]
//! ```
//!
//! So a quiet thread may wander below the limit, and one odd interval moves nobody. The first sample of all
//! is taken as it is (our choice): there is nothing yet that it could be an exception from.

use crate::intensity::rates::{Rate, Ring};

/// Samples outside of the band that make a new rate [confirmed: Clavis].
const N_OUTSIDE: usize = 5;
/// Half the width of the band, in percent of the rate [confirmed: Clavis].
const BAND_PERCENT: u64 = 30;
/// A smaller step is none: 30 per 10 000 [confirmed: Clavis].
const LEAST_STEP: Rate = Rate::per_10_000(30);

/// What a job has shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Damped {
    ring: Ring,
    rate: Option<Rate>,
}

impl Damped {
    /// The rate that it is taken to have; `None` before the first sample.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Takes a sample in.
    pub fn learn(&mut self, sample: Rate, devil: Rate) {
        self.ring.push(sample);
        let (Some(old), Some(mean)) = (self.rate, self.ring.mean()) else {
            self.rate = Some(sample);
            return;
        };
        let n_outside = self.ring.iter().filter(|&sample| is_outside(sample, old, devil)).count();
        if N_OUTSIDE <= n_outside && LEAST_STEP < Rate(mean.0.abs_diff(old.0)) {
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

    /// Rates per 10 000 after each sample.
    fn rates(samples: &[u64]) -> Vec<u64> {
        let mut damped = Damped::default();
        let after = samples.iter().map(|&sample| {
            damped.learn(Rate::per_10_000(sample), DEVIL);
            damped.rate().expect("one sample").0 / 100
        });
        after.collect()
    }

    #[test]
    fn the_first_sample_is_taken_as_it_is() {
        assert_eq!(rates(&[200]), [200]);
    }

    #[test]
    fn five_samples_outside_of_the_band_make_their_mean_the_rate() {
        assert_eq!(rates(&[200, 270, 270, 270, 270, 270]), [200, 200, 200, 200, 200, 258]);
        assert_eq!(rates(&[200, 260, 260, 260, 260, 260])[5], 200, "30 % is still in the band");
    }

    #[test]
    fn a_quiet_job_may_wander_below_the_limit() {
        assert_eq!(rates(&[1, 15, 2, 15, 3, 14, 15, 15, 15, 15])[9], 1);
    }

    #[test]
    fn a_step_of_three_misses_per_thousand_is_too_small() {
        assert_eq!(rates(&[10, 40, 40, 40, 40, 40])[5], 10, "the mean is 35: a step of 25");
        assert_eq!(rates(&[10, 60, 60, 60, 60, 60])[5], 51);
    }

    #[test]
    fn one_odd_sample_changes_nothing() {
        assert_eq!(rates(&[200, 200, 900, 200, 200, 1, 200]), [200; 7]);
    }
}
