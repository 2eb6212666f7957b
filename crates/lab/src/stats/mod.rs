//! Statistics of a few repeated runs: means, confidence intervals, and verdicts on differences.
//!
//! ```text
//!   times by seed ────────► mean, median, coefficient of variation
//!                     └───► bootstrap: seeds drawn with replacement ─► 95 % confidence interval
//!   pairs of equal seed ──► ratio of the means, with a bootstrap over pairs
//!                     └───► Wilcoxon's signed-rank test ─► p-value
//!                             └───► Holm's correction for the number of policies ─► better · worse · equal · inconclusive
//! ```
//!
//! Two runs with the same seed have the same random variation, so the difference is computed within each pair. No
//! distribution of the times is assumed. The seeds are assumed to be a random sample of all seeds.
//!
//! Out of scope: inference about other workloads. A verdict is valid for the workloads that ran.

mod bootstrap;
mod distributions;
mod paired;

pub use bootstrap::{ConfidenceInterval, N_RESAMPLES, interval};
pub use paired::{P_MAX, PairedVerdict, holm, pairs_needed, signed_rank};

/// Returns the arithmetic mean; 0 for no values.
pub fn mean(values: &[f64]) -> f64 {
    match values.len() {
        0 => 0.0,
        n => values.iter().sum::<f64>() / n as f64,
    }
}

/// Returns the arithmetic mean; `None` for no values.
pub fn mean_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    (!values.is_empty()).then(|| mean(&values))
}

/// Returns the median; if the number of values is even, the mean of the two middle values; 0 for no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Returns the quantile for a `fraction` from 0 to 1, interpolated linearly between two values; 0 for no values.
pub fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted_quantile(&sorted, fraction)
}

/// Returns the quantile of values in ascending order.
fn sorted_quantile(sorted: &[f64], fraction: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = fraction.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

/// Returns the sample standard deviation, with the divisor n - 1; `None` for fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    Some(libm::sqrt(squares / (n - 1) as f64))
}

/// Returns the coefficient of variation: standard deviation over mean; `None` for fewer than two values.
pub fn variation(values: &[f64]) -> Option<f64> {
    deviation(values).map(|deviation| deviation / mean(values))
}

/// Returns the largest slowdown divided by the smallest; `None` for fewer than two values.
pub fn unfairness(slowdowns: &[f64]) -> Option<f64> {
    let most = slowdowns.iter().copied().max_by(f64::total_cmp)?;
    let least = slowdowns.iter().copied().min_by(f64::total_cmp)?;
    (2 <= slowdowns.len() && 0.0 < least).then_some(most / least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[])), (2.0, 0.0));
        assert_eq!(quantile(&[10.0, 20.0, 30.0], 0.25), 15.0);
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        // 2, 4, 4, 4, 5, 5, 7, 9: the squares around 5 sum to 32, divided by 7.
        let deviation_of_8 =
            deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("two or more values");
        assert!((deviation_of_8 - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(deviation(&[1.0]), None);
    }

    #[test]
    fn unfairness_needs_two_slowdowns_and_is_at_least_one() {
        assert_eq!(unfairness(&[1.5, 3.0, 2.0]), Some(2.0));
        assert_eq!((unfairness(&[1.5]), unfairness(&[])), (None, None));
        assert_eq!(unfairness(&[1.2, 1.2]), Some(1.0));
    }
}
