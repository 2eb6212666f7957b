//! Effect of migrations: values before and after, compared with noise.
//!
//! ```text
//!   before  0.31 0.29 0.30 0.33      median 0.305, median deviation about 0.01
//!   after   0.12 0.14 0.11 0.12      median 0.12     the difference is many times larger: better
//! ```
//!
//! Medians are robust against a single deviating interval. A difference counts if it is larger than three standard
//! errors (from the median absolute deviation, scaled for normal noise) of the noisier side, and larger than a
//! minimum relevant difference. If several measures exist, harm by one outweighs a gain by another.

use std::fmt;

/// Measures of the effect of migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// Instructions per second of CPU time of the managed jobs, in millions: more is better.
    Instructions,
    /// Wait time of their tasks as a share of wait time plus CPU time.
    Waiting,
    /// Excess of the largest load over the mean, as a share of the mean. Only for counted loads: estimated loads
    /// would confirm the estimate.
    Imbalance,
}

impl Measure {
    pub(super) const ALL: [Measure; 3] =
        [Measure::Instructions, Measure::Waiting, Measure::Imbalance];

    fn more_is_better(self) -> bool {
        self == Measure::Instructions
    }

    /// Minimum relevant difference: 2 % of instructions, 0.02 of the time, 0.05 of the mean load. Guessed.
    fn relevant(self, median: f64) -> f64 {
        match self {
            Measure::Instructions => 0.02 * median.abs(),
            Measure::Waiting => 0.02,
            Measure::Imbalance => 0.05,
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::Instructions => "millions of instructions per second of CPU time",
            Measure::Waiting => "the share of wait time",
            Measure::Imbalance => "the excess of the largest load over the mean",
        })
    }
}

/// Effect of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Worse,
    Inconclusive,
    Better,
}

/// One measure before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comparison {
    pub measure: Measure,
    pub before: f64,
    pub after: f64,
    /// Difference up to which a change is noise.
    pub tolerance: f64,
    pub verdict: Verdict,
}

/// Standard deviation of normal noise over its median absolute deviation.
const MAD_TO_SIGMA: f64 = 1.4826;
/// Standard errors above which a difference is not noise.
const SIGMAS: f64 = 3.0;

/// Compares the values of a measure; `None`: one side has none.
pub(super) fn compare(measure: Measure, before: &[f64], after: &[f64]) -> Option<Comparison> {
    let (was, is) = (median(before)?, median(after)?);
    let error = |values: &[f64], middle: f64| -> Option<f64> {
        let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        Some(MAD_TO_SIGMA * median(&distances)? / (values.len() as f64).sqrt())
    };
    let spread = error(before, was)?.max(error(after, is)?);
    let tolerance = (SIGMAS * spread).max(measure.relevant(was));
    let gain = if measure.more_is_better() { is - was } else { was - is };
    let verdict = match gain {
        gain if tolerance < gain => Verdict::Better,
        gain if gain < -tolerance => Verdict::Worse,
        _ => Verdict::Inconclusive,
    };
    Some(Comparison { measure, before: was, after: is, tolerance, verdict })
}

/// The decisive of several measures: the first with harm, else the first with a gain, else the first.
pub(super) fn combine(compared: &[Comparison]) -> Option<Comparison> {
    let of = |verdict| compared.iter().find(move |one| one.verdict == verdict);
    of(Verdict::Worse).or(of(Verdict::Better)).or(compared.first()).copied()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|f| f.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// One line each: a measure, values before, values after.
    fn check(text: &str, expected: Expect) {
        let mut output = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let measure = match parts[0] {
                "instructions" => Measure::Instructions,
                "waiting" => Measure::Waiting,
                _ => Measure::Imbalance,
            };
            let values = |text: &str| -> Vec<f64> {
                text.split_whitespace().map(|word| word.parse().expect("a value")).collect()
            };
            let line = match compare(measure, &values(parts[1]), &values(parts[2])) {
                None => "nothing to compare".to_owned(),
                Some(c) => {
                    let Comparison { before, after, tolerance, verdict, .. } = c;
                    format!("{verdict:?}: {before:.3} -> {after:.3}, noise {tolerance:.3}")
                }
            };
            output.push_str(&line);
            output.push('\n');
        }
        expected.assert_eq(&output);
    }

    #[test]
    fn a_difference_counts_if_it_exceeds_noise_and_the_relevant_minimum() {
        check(
            "
            waiting | 0.31 0.29 0.30 0.33 | 0.12 0.14 0.11 0.12
            waiting | 0.12 0.14 0.11 0.12 | 0.31 0.29 0.30 0.33
            waiting | 0.10 0.10 0.10 0.10 | 0.11 0.11 0.11 0.11
            waiting | 0.1 0.9 0.2 0.8 | 0.3 0.4 0.1 0.2
            instructions | 900 910 905 899 | 1200 1190 1210 1205
            instructions | 900 910 905 899 | 800 790 810 805
            instructions | 900 910 905 899 | 905 899 915 910
            imbalance | 1 1 1 | 0.2 0.2 0.2
            ",
            expect![[r#"
                Better: 0.305 -> 0.120, noise 0.022
                Worse: 0.120 -> 0.305, noise 0.022
                Inconclusive: 0.100 -> 0.110, noise 0.020
                Inconclusive: 0.500 -> 0.250, noise 0.778
                Better: 902.500 -> 1202.500, noise 18.050
                Worse: 902.500 -> 802.500, noise 18.050
                Inconclusive: 902.500 -> 907.500, noise 18.050
                Better: 1.000 -> 0.200, noise 0.050
            "#]],
        );
    }

    #[test]
    fn a_single_deviating_interval_decides_nothing() {
        check(
            "waiting | 0.1 0.1 0.1 0.1 0.1 | 0.1 0.1 0.99 0.1 0.1",
            expect![[r#"
                Inconclusive: 0.100 -> 0.100, noise 0.020
            "#]],
        );
    }

    #[test]
    fn missing_values_are_not_compared() {
        check(
            "
            waiting | | 0.1
            waiting | 0.1 | NaN
            ",
            expect![[r#"
                nothing to compare
                nothing to compare
            "#]],
        );
    }

    #[test]
    fn harm_by_one_measure_outweighs_a_gain_by_another() {
        let gain = compare(Measure::Imbalance, &[1.0], &[0.0]).expect("values");
        let harm = compare(Measure::Waiting, &[0.0], &[0.5]).expect("values");
        let nothing = compare(Measure::Instructions, &[5.0], &[5.0]).expect("values");
        let verdict = |all: &[Comparison]| combine(all).map(|one| one.verdict);
        assert_eq!(verdict(&[gain, harm, nothing]), Some(Verdict::Worse));
        assert_eq!(verdict(&[nothing, gain]), Some(Verdict::Better));
        assert_eq!(verdict(&[nothing]), Some(Verdict::Inconclusive));
        assert_eq!(verdict(&[]), None);
    }
}
