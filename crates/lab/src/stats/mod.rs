//! What may be said of a few repeated runs: a middle, how sure it is, and whether two things differ.
//!
//! ```text
//!   times of the seeds ──► mean, median, spread
//!                     └──► bootstrap: draw the same number of seeds again, so often; where do 95 % lie?
//!   pairs of one seed ───► ratio of the means, with the same bootstrap over pairs
//!                     └──► signed-rank test: would chance alone lean so far to one side?
//!                             └──► Holm: the same question asked of many policies at once
//!                                     └──► better · worse · inconclusive
//! ```
//!
//! Two policies that ran on the same seeds met the same chance, so what differs between them is seen pair
//! by pair and not between two heaps. Nothing here assumes a shape of the times but the bootstrap's own:
//! that the seeds stand for all seeds.
//!
//! Left out: differences between workloads as such. What is said holds for the workloads that ran.

mod bootstrap;
mod distributions;
mod paired;
mod verdict;

pub use bootstrap::{Interval, N_RESAMPLES, interval};
pub use paired::{holm, signed_rank};
pub use verdict::{P_MAX, Verdict, pairs_needed};

/// The sum divided by the number; 0 of nothing.
pub fn mean(figures: &[f64]) -> f64 {
    match figures.len() {
        0 => 0.0,
        n => figures.iter().sum::<f64>() / n as f64,
    }
}

/// Half lie below; of an even number the middle between the two in the middle. 0 of nothing.
pub fn median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// So large a part lies below; between two figures in proportion. 0 of nothing.
pub fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted_quantile(&sorted, part)
}

/// The same of figures in order.
fn sorted_quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = part.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

/// How far figures lie from their mean (n - 1 below the line); `None` of fewer than two.
pub fn deviation(figures: &[f64]) -> Option<f64> {
    let n = figures.len();
    if n < 2 {
        return None;
    }
    let mean = mean(figures);
    let squares: f64 = figures.iter().map(|figure| (figure - mean) * (figure - mean)).sum();
    Some(libm::sqrt(squares / (n - 1) as f64))
}

/// The coefficient of variation: how far figures lie from their mean, as a part of it; `None` of fewer than two.
pub fn variation(figures: &[f64]) -> Option<f64> {
    deviation(figures).map(|deviation| deviation / mean(figures))
}

/// The largest slow-down divided by the smallest; `None` of fewer than two.
pub fn unfairness(slowdowns: &[f64]) -> Option<f64> {
    let most = slowdowns.iter().copied().max_by(f64::total_cmp)?;
    let least = slowdowns.iter().copied().min_by(f64::total_cmp)?;
    (2 <= slowdowns.len() && 0.0 < least).then_some(most / least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between_the_two_in_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[])), (2.0, 0.0));
        assert_eq!(quantile(&[10.0, 20.0, 30.0], 0.25), 15.0);
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        // 2, 4, 4, 4, 5, 5, 7, 9: squares of 32 around 5, over 7.
        let found = deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("more than two");
        assert!((found - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(deviation(&[1.0]), None);
    }

    #[test]
    fn unfairness_needs_two_and_is_never_below_one() {
        assert_eq!(unfairness(&[1.5, 3.0, 2.0]), Some(2.0));
        assert_eq!((unfairness(&[1.5]), unfairness(&[])), (None, None));
        assert_eq!(unfairness(&[1.2, 1.2]), Some(1.0));
    }
}
