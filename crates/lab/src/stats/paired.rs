//! Verdict on two policies that ran with the same seeds: Wilcoxon's signed-rank test, Holm's correction, and the
//! interval.
//!
//! Each seed gives a difference. The differences are ranked by absolute value; the statistic is the sum of the ranks of
//! negative differences. Under the null hypothesis all 2ⁿ assignments of signs have the same probability, so that the
//! distribution of the sum is known exactly.
//!
//! ```text
//!   differences   -0.3  -0.2  +0.1  -0.4        sum of negative ranks: 3 + 2 + 4 = 9
//!   ranks           3     2     1     4         sums of 9 or 10, or 0 or 1:  4 of 16 assignments, p = 0.25
//! ```
//!
//! Differences of zero are excluded. Equal absolute values share their mean rank. An infinite difference is a pair in
//! which one of the runs did not finish: it has the largest rank, which infinite differences share. Two runs that did
//! not finish are a difference of zero.
//!
//! The verdicts better and worse require two conditions: the confidence interval of the ratio excludes 1, and the
//! corrected p-value is below 5 %. The interval alone ignores the number of policies; the test alone ignores the size
//! of the difference. If a run did not finish, the ratio has no interval, and the verdict requires only the test: the
//! policy with the larger sum of ranks is slower. An interval within the tolerance is equal, whatever the test. Every
//! other comparison is inconclusive, which does not mean that both policies are equal.

use std::cmp::Ordering;

use super::ConfidenceInterval;
use super::distributions::normal;

/// Level of significance: a larger p-value is inconclusive.
pub const P_MAX: f64 = 0.05;

/// Maximum number of pairs for the exact distribution. With more pairs, the normal approximation is used.
const N_EXACT: usize = 100;

/// Verdict on a policy compared with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairedVerdict {
    /// The policy takes less time.
    Better,
    /// The policy takes more time.
    Worse,
    /// The ratio is 1 within a tolerance.
    Equal,
    /// The runs do not show a difference.
    Inconclusive,
}

impl PairedVerdict {
    /// Creates the verdict from the differences, some of which are infinite, and the corrected p-value.
    pub fn of_ranks(differences: &[f64], p: f64) -> Self {
        let (ranks, below) = ranks(differences);
        let total: u64 = ranks.iter().sum();
        match (2 * below).cmp(&total) {
            Ordering::Greater if p < P_MAX => PairedVerdict::Better,
            Ordering::Less if p < P_MAX => PairedVerdict::Worse,
            _ => PairedVerdict::Inconclusive,
        }
    }

    /// Creates the verdict from the interval of the ratio to the baseline and the corrected p-value. With a tolerance,
    /// an interval within it is equal, also if it excludes 1.
    pub fn of(ratio: Option<ConfidenceInterval>, p: f64, tolerance: Option<f64>) -> Self {
        let is_within = |ends: ConfidenceInterval, tolerance: f64| {
            1.0 - tolerance <= ends.low && ends.high <= 1.0 + tolerance
        };
        match ratio {
            Some(ends) if tolerance.is_some_and(|share| is_within(ends, share)) => {
                PairedVerdict::Equal
            }
            Some(interval) if p < P_MAX && interval.high < 1.0 => PairedVerdict::Better,
            Some(interval) if p < P_MAX && 1.0 < interval.low => PairedVerdict::Worse,
            _ => PairedVerdict::Inconclusive,
        }
    }
}

/// Returns the smallest number of pairs that can be significant when `n_compared` policies are compared with the
/// baseline: with fewer pairs, equal signs of all pairs are too probable under the null hypothesis.
pub fn pairs_needed(n_compared: usize) -> usize {
    let n = n_compared.max(1) as f64;
    (1..64).find(|pairs| n * libm::exp2(1.0 - f64::from(*pairs)) < P_MAX).map_or(64, |n| n as usize)
}

/// Returns the two-sided p-value of Wilcoxon's signed-rank test; 1 if no pair differs.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let (ranks, below) = ranks(differences);
    match differences.len() {
        _ if ranks.is_empty() => 1.0,
        _ if ranks.len() <= N_EXACT => exact(&ranks, below),
        _ => approximate(&ranks, below),
    }
}

/// Returns the doubled rank of each difference other than 0, and the sum of the doubled ranks of negative differences.
/// Doubled shared ranks are whole numbers.
fn ranks(differences: &[f64]) -> (Vec<u64>, u64) {
    let mut sizes: Vec<(f64, bool)> = differences
        .iter()
        .filter(|difference| **difference != 0.0 && !difference.is_nan())
        .map(|difference| (difference.abs(), *difference < 0.0))
        .collect();
    sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut ranks: Vec<u64> = Vec::with_capacity(sizes.len());
    while ranks.len() < sizes.len() {
        let first = ranks.len();
        let n_equal = sizes[first..].iter().take_while(|(size, _)| *size == sizes[first].0).count();
        // The mean of the ranks first + 1 to first + n_equal, doubled.
        ranks.resize(first + n_equal, (2 * first + n_equal + 1) as u64);
    }
    let negative = ranks.iter().zip(&sizes).filter(|(_, (_, is_negative))| *is_negative);
    let below = negative.map(|(rank, _)| rank).sum();
    (ranks, below)
}

fn exact(ranks: &[u64], below: u64) -> f64 {
    let total: u64 = ranks.iter().sum();
    // Probability of each sum.
    let mut probabilities = vec![0.0f64; total as usize + 1];
    probabilities[0] = 1.0;
    let mut largest = 0usize;
    for rank in ranks {
        let rank = *rank as usize;
        for sum in (0..=largest).rev() {
            probabilities[sum] /= 2.0;
            probabilities[sum + rank] += probabilities[sum];
        }
        largest += rank;
    }
    let least = below.min(total - below) as usize;
    let tail: f64 = probabilities[..=least].iter().sum();
    (2.0 * tail).min(1.0)
}

fn approximate(ranks: &[u64], below: u64) -> f64 {
    let total: f64 = ranks.iter().map(|rank| *rank as f64).sum();
    let squares: f64 = ranks.iter().map(|rank| (*rank * *rank) as f64).sum();
    let distance = (below as f64 - total / 2.0).abs();
    // Continuity correction: sums are whole, in steps of two.
    let z = ((distance - 1.0) / (libm::sqrt(squares) / 2.0)).max(0.0);
    2.0 * normal(-z)
}

/// Returns p-values that are corrected for multiple comparisons, in the order of the input (Holm, "A Simple
/// Sequentially Rejective Multiple Test Procedure", Scandinavian J. Statistics 6, 1979).
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|one, other| ps[*one].total_cmp(&ps[*other]).then(one.cmp(other)));
    let mut corrected = vec![1.0; ps.len()];
    let mut most = 0.0f64;
    for (place, idx) in order.into_iter().enumerate() {
        most = most.max(ps[idx] * (ps.len() - place) as f64);
        corrected[idx] = most.min(1.0);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn close(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-9
    }

    #[test]
    fn equal_signs_have_the_probability_of_two_of_all_assignments() {
        for n in 1..=20 {
            let differences: Vec<f64> = (1..=n).map(f64::from).collect();
            let expected = 2.0 / 2f64.powi(n);
            assert!(close(signed_rank(&differences), expected.min(1.0)), "{n}");
        }
    }

    #[test]
    fn shared_ranks_zeros_and_the_example_of_the_module_have_the_exact_p_value() {
        assert!(close(signed_rank(&[-0.3, -0.2, 0.1, -0.4]), 0.25));
        // The ranks are 1.5, 1.5 and 3; the negative difference has 1.5. Sums of 1.5 or less: 3 of 8 assignments.
        assert!(close(signed_rank(&[-1.0, 1.0, 2.0]), 0.75));
        assert!(close(signed_rank(&[0.0, 0.0, 1.0, 2.0]), 0.5));
        assert!(close(signed_rank(&[0.0; 4]), 1.0));
        assert!(close(signed_rank(&[]), 1.0));
    }

    #[test]
    fn infinite_differences_share_the_largest_rank() {
        let inf = f64::INFINITY;
        // The ranks are 1, 2.5 and 2.5. Sums of 1 or less: 2 of 8 assignments on each side.
        assert!(close(signed_rank(&[-0.1, inf, inf]), 0.5));
        assert!(close(signed_rank(&[inf; 6]), 2.0 / 64.0));
        assert_eq!(PairedVerdict::of_ranks(&[inf; 6], 0.03), PairedVerdict::Worse);
        assert_eq!(PairedVerdict::of_ranks(&[-inf; 6], 0.03), PairedVerdict::Better);
        assert_eq!(PairedVerdict::of_ranks(&[inf, -inf], 0.01), PairedVerdict::Inconclusive);
        assert_eq!(PairedVerdict::of_ranks(&[inf; 6], 0.06), PairedVerdict::Inconclusive);
    }

    #[test]
    fn at_most_5_percent_of_equal_pairs_with_failed_runs_are_significant() {
        let mut rng = Rng::new(6);
        let side = |rng: &mut Rng| if rng.unit() < 0.3 { f64::INFINITY } else { rng.unit() };
        let trial = |_: &usize| {
            let pair = |rng: &mut Rng| {
                let (one, other) = (side(rng), side(rng));
                if one == other { 0.0 } else { one - other }
            };
            let differences: Vec<f64> = (0..12).map(|_| pair(&mut rng)).collect();
            signed_rank(&differences) < 0.05
        };
        let n_significant = (0..2000).filter(trial).count();
        assert!(n_significant <= 120, "{n_significant} of 2000; 100 are expected at most");
    }

    #[test]
    fn critical_values_equal_a_published_table() {
        // The largest sum with a two-sided p-value of at most 5 %, by number of pairs.
        for (n, critical) in [(6usize, 0u64), (7, 2), (8, 3), (10, 8), (20, 52)] {
            let ranks: Vec<u64> = (1..=n as u64).map(|rank| 2 * rank).collect();
            assert!(exact(&ranks, 2 * critical) <= 0.05, "{n}");
            assert!(0.05 < exact(&ranks, 2 * (critical + 1)), "{n}");
        }
    }

    #[test]
    fn the_normal_approximation_of_100_pairs_is_close_to_the_exact_value() {
        let mut rng = Rng::new(3);
        for _ in 0..20 {
            let differences: Vec<f64> = (0..100).map(|_| rng.unit() - 0.55).collect();
            let (ranks, below) = ranks(&differences);
            assert!((exact(&ranks, below) - approximate(&ranks, below)).abs() < 0.005);
        }
    }

    #[test]
    fn at_most_5_percent_of_equal_pairs_are_significant() {
        let mut rng = Rng::new(5);
        let trial = |_: &usize| {
            let differences: Vec<f64> = (0..12).map(|_| rng.unit() - 0.5).collect();
            signed_rank(&differences) < 0.05
        };
        let n_significant = (0..2000).filter(trial).count();
        assert!(n_significant <= 120, "{n_significant} of 2000; 100 are expected");
    }

    #[test]
    fn holm_corrects_the_smallest_p_value_most_and_keeps_the_order() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(
            corrected.iter().zip(expected).all(|(p, expected)| close(*p, expected)),
            "{corrected:?}"
        );
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_verdict_needs_both_the_interval_and_the_test() {
        let below = Some(ConfidenceInterval { low: 0.8, high: 0.9 });
        let above = Some(ConfidenceInterval { low: 1.1, high: 1.2 });
        let across = Some(ConfidenceInterval { low: 0.9, high: 1.01 });
        assert_eq!(PairedVerdict::of(below, 0.01, None), PairedVerdict::Better);
        assert_eq!(PairedVerdict::of(above, 0.01, None), PairedVerdict::Worse);
        for (interval, p) in [(below, 0.05), (above, 0.2), (across, 0.001), (None, 0.0)] {
            assert_eq!(PairedVerdict::of(interval, p, None), PairedVerdict::Inconclusive);
        }
    }

    #[test]
    fn an_interval_within_the_tolerance_is_equal_regardless_of_the_test() {
        let verdict =
            |low, high, p| PairedVerdict::of(Some(ConfidenceInterval { low, high }), p, Some(0.01));
        assert_eq!(verdict(0.991, 0.999, 0.001), PairedVerdict::Equal);
        assert_eq!(verdict(0.995, 1.005, 0.5), PairedVerdict::Equal);
        assert_eq!(verdict(0.98, 0.999, 0.001), PairedVerdict::Better);
        assert_eq!(verdict(0.98, 1.001, 0.5), PairedVerdict::Inconclusive);
    }

    #[test]
    fn six_pairs_suffice_for_one_policy_and_more_policies_need_more() {
        assert_eq!([1, 2, 3, 11].map(pairs_needed), [6, 7, 7, 9]);
    }
}
