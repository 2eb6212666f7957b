//! Whether moves helped: figures before and after, compared with what chance alone makes of them.
//!
//! ```text
//!   before  0.31 0.29 0.30 0.33      median 0.305, mostly within 0.01 of it
//!   after   0.12 0.14 0.11 0.12      median 0.12     the difference is many times that: better
//! ```
//!
//! Medians, so that one odd interval decides nothing. A difference counts when it is larger than
//! three times the spread (the median distance from the median, as a standard error would be of
//! figures with normal noise) of whichever side spreads more, and than a share that nobody would
//! care about. Several measures may be there at once: harm by one outweighs a gain by another.

use std::fmt;

/// What can tell whether moves helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// Instructions per CPU second of the jobs that are looked after, in millions: more is better.
    Instructions,
    /// Time that their tasks were runnable and did not run, as a share of that and their CPU time.
    Waiting,
    /// How far the most loaded place is above the mean, as a share of the mean; only where loads are
    /// counted, since estimates would only confirm whoever made them.
    Imbalance,
}

impl Measure {
    pub(super) const ALL: [Measure; 3] =
        [Measure::Instructions, Measure::Waiting, Measure::Imbalance];

    fn more_is_better(self) -> bool {
        self == Measure::Instructions
    }

    /// A difference that nobody would care about, beside medians of this size: 2 % of instructions,
    /// two hundredths of the time, a twentieth of the mean load. Guessed.
    fn indifferent(self, median: f64) -> f64 {
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
            Measure::Instructions => "millions of instructions per CPU second",
            Measure::Waiting => "the share of time spent waiting for a CPU",
            Measure::Imbalance => "how far the most loaded place is above the mean",
        })
    }
}

/// What came of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Worse,
    Inconclusive,
    Better,
}

/// One measure before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    pub measure: Measure,
    pub before: f64,
    pub after: f64,
    /// What chance alone makes.
    pub tolerance: f64,
    pub verdict: Verdict,
}

/// The median of a distance between normal noise and its median, to the standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;
/// So many standard errors are no chance.
const SIGMAS: f64 = 3.0;

/// Compares figures of a measure; `None` when there are none on a side.
pub(super) fn compare(measure: Measure, before: &[f64], after: &[f64]) -> Option<Compared> {
    let (was, is) = (median(before)?, median(after)?);
    let error = |figures: &[f64], middle: f64| -> Option<f64> {
        let distances: Vec<f64> = figures.iter().map(|figure| (figure - middle).abs()).collect();
        Some(MAD_TO_SIGMA * median(&distances)? / (figures.len() as f64).sqrt())
    };
    let spread = error(before, was)?.max(error(after, is)?);
    let tolerance = (SIGMAS * spread).max(measure.indifferent(was));
    let gain = if measure.more_is_better() { is - was } else { was - is };
    let verdict = match gain {
        gain if tolerance < gain => Verdict::Better,
        gain if gain < -tolerance => Verdict::Worse,
        _ => Verdict::Inconclusive,
    };
    Some(Compared { measure, before: was, after: is, tolerance, verdict })
}

/// What several measures say together: the one that tells of harm, or else of a gain, or else the
/// first.
pub(super) fn together(compared: &[Compared]) -> Option<Compared> {
    let of = |verdict| compared.iter().find(move |one| one.verdict == verdict);
    of(Verdict::Worse).or(of(Verdict::Better)).or(compared.first()).copied()
}

fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.iter().copied().filter(|f| f.is_finite()).collect();
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

    /// A line each: a measure, figures before, figures after.
    fn check(text: &str, expected: Expect) {
        let mut told = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let measure = match parts[0] {
                "instructions" => Measure::Instructions,
                "waiting" => Measure::Waiting,
                _ => Measure::Imbalance,
            };
            let figures = |text: &str| -> Vec<f64> {
                text.split_whitespace().map(|word| word.parse().expect("a figure")).collect()
            };
            let said = match compare(measure, &figures(parts[1]), &figures(parts[2])) {
                None => "nothing to compare".to_owned(),
                Some(c) => {
                    let Compared { before, after, tolerance, verdict, .. } = c;
                    format!("{verdict:?}: {before:.3} -> {after:.3}, chance {tolerance:.3}")
                }
            };
            told.push_str(&said);
            told.push('\n');
        }
        expected.assert_eq(&told);
    }

    #[test]
    fn a_difference_counts_when_it_is_more_than_chance_and_than_nothing_much() {
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
                Better: 0.305 -> 0.120, chance 0.022
                Worse: 0.120 -> 0.305, chance 0.022
                Inconclusive: 0.100 -> 0.110, chance 0.020
                Inconclusive: 0.500 -> 0.250, chance 0.778
                Better: 902.500 -> 1202.500, chance 18.050
                Worse: 902.500 -> 802.500, chance 18.050
                Inconclusive: 902.500 -> 907.500, chance 18.050
                Better: 1.000 -> 0.200, chance 0.050
            "#]],
        );
    }

    #[test]
    fn one_odd_interval_decides_nothing() {
        check(
            "waiting | 0.1 0.1 0.1 0.1 0.1 | 0.1 0.1 0.99 0.1 0.1",
            expect![[r#"
                Inconclusive: 0.100 -> 0.100, chance 0.020
            "#]],
        );
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
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
        let gain = compare(Measure::Imbalance, &[1.0], &[0.0]).expect("figures");
        let harm = compare(Measure::Waiting, &[0.0], &[0.5]).expect("figures");
        let nothing = compare(Measure::Instructions, &[5.0], &[5.0]).expect("figures");
        let verdict = |all: &[Compared]| together(all).map(|one| one.verdict);
        assert_eq!(verdict(&[gain, harm, nothing]), Some(Verdict::Worse));
        assert_eq!(verdict(&[nothing, gain]), Some(Verdict::Better));
        assert_eq!(verdict(&[nothing]), Some(Verdict::Inconclusive));
        assert_eq!(verdict(&[]), None);
    }
}
