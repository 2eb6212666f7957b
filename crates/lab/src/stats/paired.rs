//! Whether two things that ran on the same seeds differ: Wilcoxon's signed-rank test.
//!
//! Each seed gives a difference. Without their signs they are ranked, the largest highest; the ranks of
//! those below zero are added up. If nothing distinguished the two, each sign would fall like a coin, so
//! the sum's distribution is known exactly: every one of 2ⁿ ways to set the signs is as likely.
//!
//! ```text
//!   differences   -0.3  -0.2  +0.1  -0.4        sum of the ranks below zero: 3 + 2 + 4 = 9
//!   ranks           3     2     1     4         sums of 9 or 10, or 0 or 1:  4 of 16 ways, p = 0.25
//! ```
//!
//! Differences of zero say nothing and are left out; equal ones share their ranks.

use super::distributions::normal;

/// Up to so many pairs all ways are counted; beyond it the sum is as good as normal.
const N_EXACT: usize = 100;

/// How likely chance alone leans so far to either side; 1 where no pair differs.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let mut sizes: Vec<(f64, bool)> = differences
        .iter()
        .filter(|difference| **difference != 0.0 && difference.is_finite())
        .map(|difference| (difference.abs(), *difference < 0.0))
        .collect();
    if sizes.is_empty() {
        return 1.0;
    }
    sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ranks = doubled_ranks(&sizes);
    let below: u64 =
        ranks.iter().zip(&sizes).filter(|(_, (_, is))| *is).map(|(rank, _)| rank).sum();
    if sizes.len() <= N_EXACT { exact(&ranks, below) } else { about(&ranks, below) }
}

/// Ranks from 1, times two so that shared ones are whole.
fn doubled_ranks(sorted: &[(f64, bool)]) -> Vec<u64> {
    let mut ranks = Vec::with_capacity(sorted.len());
    while ranks.len() < sorted.len() {
        let first = ranks.len();
        let n_equal =
            sorted[first..].iter().take_while(|(size, _)| *size == sorted[first].0).count();
        // Places first+1 … first+n share their middle.
        let shared = (2 * first + n_equal + 1) as u64;
        ranks.resize(first + n_equal, shared);
    }
    ranks
}

fn exact(ranks: &[u64], below: u64) -> f64 {
    let total: u64 = ranks.iter().sum();
    let mut ways = vec![0.0f64; total as usize + 1];
    ways[0] = 1.0;
    let mut reach = 0usize;
    for rank in ranks {
        let rank = *rank as usize;
        for sum in (0..=reach).rev() {
            ways[sum] /= 2.0;
            ways[sum + rank] += ways[sum];
        }
        reach += rank;
    }
    let least = below.min(total - below) as usize;
    let tail: f64 = ways[..=least].iter().sum();
    (2.0 * tail).min(1.0)
}

fn about(ranks: &[u64], below: u64) -> f64 {
    let total: f64 = ranks.iter().map(|rank| *rank as f64).sum();
    let squares: f64 = ranks.iter().map(|rank| (*rank * *rank) as f64).sum();
    let off = (below as f64 - total / 2.0).abs();
    // Sums are whole, in steps of two.
    let z = ((off - 1.0) / (libm::sqrt(squares) / 2.0)).max(0.0);
    2.0 * normal(-z)
}

/// The same questions asked at once: each probability as large as it must be so that in only one of 20
/// comparisons of this size anything at all is claimed by chance (Holm 1979).
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|one, other| ps[*one].total_cmp(&ps[*other]).then(one.cmp(other)));
    let mut mended = vec![1.0; ps.len()];
    let mut most = 0.0f64;
    for (place, idx) in order.into_iter().enumerate() {
        most = most.max(ps[idx] * (ps.len() - place) as f64);
        mended[idx] = most.min(1.0);
    }
    mended
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    #[test]
    fn all_on_one_side_is_what_two_of_all_ways_do() {
        for n in 1..=20 {
            let differences: Vec<f64> = (1..=n).map(f64::from).collect();
            let expected = 2.0 / 2f64.powi(n);
            assert!(close(signed_rank(&differences), expected.min(1.0)), "{n}");
        }
    }

    #[test]
    fn the_example_above_is_reckoned_by_hand() {
        assert!(close(signed_rank(&[-0.3, -0.2, 0.1, -0.4]), 0.25));
    }

    #[test]
    fn a_published_table_is_met() {
        // The largest sum that is still below two-sided 5 %: 0 of 6, 2 of 7, 3 of 8, 8 of 10, 52 of 20.
        for (n, critical) in [(6usize, 0u64), (7, 2), (8, 3), (10, 8), (20, 52)] {
            let ranks: Vec<u64> = (1..=n as u64).map(|rank| 2 * rank).collect();
            assert!(exact(&ranks, 2 * critical) <= 0.05, "{n}");
            assert!(0.05 < exact(&ranks, 2 * (critical + 1)), "{n}");
        }
    }

    #[test]
    fn what_is_equal_shares_ranks_and_zeros_say_nothing() {
        // Ranks 1.5, 1.5, 3; the one below zero has 1.5: sums of 1.5 or less, 3 of 8 ways.
        assert!(close(signed_rank(&[-1.0, 1.0, 2.0]), 0.75));
        assert!(close(signed_rank(&[0.0, 0.0, 1.0, 2.0]), 0.5));
        assert!(close(signed_rank(&[0.0; 4]), 1.0));
        assert!(close(signed_rank(&[]), 1.0));
    }

    #[test]
    fn beyond_what_is_counted_the_normal_form_says_the_same() {
        let mut rng = Rng::new(3);
        for _ in 0..20 {
            let differences: Vec<f64> = (0..100).map(|_| rng.unit() - 0.55).collect();
            let mut sizes: Vec<(f64, bool)> =
                differences.iter().map(|value| (value.abs(), *value < 0.0)).collect();
            sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
            let ranks = doubled_ranks(&sizes);
            let below =
                ranks.iter().zip(&sizes).filter(|(_, (_, is))| *is).map(|(rank, _)| rank).sum();
            assert!((exact(&ranks, below) - about(&ranks, below)).abs() < 0.005);
        }
    }

    #[test]
    fn nothing_is_claimed_too_often_where_nothing_differs() {
        let mut rng = Rng::new(5);
        let trial = |_: &usize| {
            let differences: Vec<f64> = (0..12).map(|_| rng.unit() - 0.5).collect();
            signed_rank(&differences) < 0.05
        };
        let n_claimed = (0..2000).filter(trial).count();
        assert!(n_claimed <= 120, "{n_claimed} of 2000, and 100 may be");
    }

    #[test]
    fn holm_asks_more_of_the_smallest_and_keeps_the_order() {
        let mended = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(mended.iter().zip(expected).all(|(one, other)| close(*one, other)), "{mended:?}");
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
