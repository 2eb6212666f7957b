//! When a difference is claimed.
//!
//! Both must say so: the interval of the ratio leaves out 1, and the signed-rank test, mended for the
//! number of policies that are asked about (Holm), falls below 5 %. Either alone claims too much: the
//! interval knows nothing of how many were compared, the test nothing of how large the difference is.
//! Whatever is not claimed is inconclusive, which is not the same as equal.

use super::Interval;

/// A test that says less is believed.
pub const P_MAX: f64 = 0.05;

/// What may be said of a policy beside the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes less time.
    Better,
    /// It takes more time.
    Worse,
    /// These runs do not tell.
    Inconclusive,
}

impl Verdict {
    /// From the interval of the ratio to the baseline and the mended probability.
    pub fn of(ratio: Option<Interval>, p: f64) -> Self {
        match ratio {
            Some(interval) if p < P_MAX && interval.high < 1.0 => Verdict::Better,
            Some(interval) if p < P_MAX && 1.0 < interval.low => Verdict::Worse,
            _ => Verdict::Inconclusive,
        }
    }
}

/// From how many pairs on a difference can be claimed at all when so many policies are compared with the
/// baseline: below, even pairs that all lean one way are too few.
pub fn pairs_needed(n_compared: usize) -> usize {
    let n = n_compared.max(1) as f64;
    (1..64).find(|pairs| n * libm::exp2(1.0 - f64::from(*pairs)) < P_MAX).map_or(64, |n| n as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_the_interval_and_the_test_must_say_so() {
        let below = Some(Interval { low: 0.8, high: 0.9 });
        let above = Some(Interval { low: 1.1, high: 1.2 });
        let across = Some(Interval { low: 0.9, high: 1.01 });
        assert_eq!(Verdict::of(below, 0.01), Verdict::Better);
        assert_eq!(Verdict::of(above, 0.01), Verdict::Worse);
        for (interval, p) in [(below, 0.05), (above, 0.2), (across, 0.001), (None, 0.0)] {
            assert_eq!(Verdict::of(interval, p), Verdict::Inconclusive);
        }
    }

    #[test]
    fn six_pairs_tell_of_one_policy_and_more_are_needed_for_more() {
        assert_eq!([1, 2, 3, 11].map(pairs_needed), [6, 7, 7, 9]);
    }
}
