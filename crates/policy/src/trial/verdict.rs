//! Effect of migrations: values before and after, compared with noise.
//!
//! ```text
//!   before  0.31 0.29 0.30 0.33      median 0.305, median deviation about 0.01
//!   after   0.12 0.14 0.11 0.12      median 0.12     the difference is many times larger: better
//! ```
//!
//! Medians are robust against a single deviating interval. A difference counts if it is larger than three standard
//! errors (from the median absolute deviation, scaled for normal noise) of the noisier side, and larger than a minimum
//! relevant difference. If one metric gets worse, an improvement of another metric is ignored.

use super::TrialGoal;

/// Metrics of the effect of migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TrialMetric {
    /// Instructions per second of CPU time, relative to the same job before the migrations; mean of the jobs: larger is
    /// better.
    Instructions,
    /// Wait time of the tasks of managed jobs as a share of wait time plus CPU time.
    Waiting,
    /// Excess of the largest load over the mean, as a share of the mean. This metric requires counted loads: with
    /// estimated loads it would confirm the estimate.
    Imbalance,
}

impl TrialMetric {
    pub(super) const ALL: [TrialMetric; 3] =
        [TrialMetric::Instructions, TrialMetric::Waiting, TrialMetric::Imbalance];

    /// Returns the word for the reasons.
    pub(super) fn word(self) -> &'static str {
        match self {
            TrialMetric::Instructions => "instructions",
            TrialMetric::Waiting => "wait",
            TrialMetric::Imbalance => "imbalance",
        }
    }

    fn is_better_if_larger(self) -> bool {
        self == TrialMetric::Instructions
    }

    /// Returns the minimum relevant difference: a share of the instructions, 0.02 of the time, 0.05 of the mean load.
    /// Guessed.
    fn relevant(self, goal: TrialGoal, median: f64) -> f64 {
        match self {
            TrialMetric::Instructions => goal.relevant_speed() * median.abs(),
            TrialMetric::Waiting => 0.02,
            TrialMetric::Imbalance => 0.05,
        }
    }
}

/// Effect of the migrations of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TrialVerdict {
    Worse,
    Inconclusive,
    Better,
}

/// Values of one metric before and after migrations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comparison {
    pub metric: TrialMetric,
    pub before: f64,
    pub after: f64,
    /// Difference up to which a change is noise.
    pub tolerance: f64,
    pub verdict: TrialVerdict,
}

impl Comparison {
    /// Adds an improvement that is not an effect of the migrations: jobs that ended no longer slow the others down.
    pub(super) fn with_bias(self, bias: f64) -> Self {
        let improvement = (self.after - self.before).abs();
        let tolerance = self.tolerance + bias;
        match self.verdict {
            TrialVerdict::Better if improvement <= tolerance => {
                Comparison { tolerance, verdict: TrialVerdict::Inconclusive, ..self }
            }
            _ => self,
        }
    }
}

/// Standard deviation of normal noise over its median absolute deviation.
const MAD_TO_SIGMA: f64 = 1.4826;
/// Standard errors above which a difference is not noise.
const SIGMAS: f64 = 3.0;

/// Compares the values of a metric; `None`: no values before, or no values after.
pub(super) fn compare(
    (metric, goal): (TrialMetric, TrialGoal),
    before: &[f64],
    after: &[f64],
) -> Option<Comparison> {
    let (median_before, median_after) = (median(before)?, median(after)?);
    let error = |values: &[f64], middle: f64| -> Option<f64> {
        let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
        Some(MAD_TO_SIGMA * median(&distances)? / (values.len() as f64).sqrt())
    };
    let spread = error(before, median_before)?.max(error(after, median_after)?);
    let tolerance = (SIGMAS * spread).max(metric.relevant(goal, median_before));
    let improvement = if metric.is_better_if_larger() {
        median_after - median_before
    } else {
        median_before - median_after
    };
    let verdict = match improvement {
        gain if tolerance < gain => TrialVerdict::Better,
        gain if gain < -tolerance => TrialVerdict::Worse,
        _ => TrialVerdict::Inconclusive,
    };
    Some(Comparison { metric, before: median_before, after: median_after, tolerance, verdict })
}

/// Returns the metric that decides the verdict: the first metric that got worse, else the first metric that improved,
/// else the first metric.
///
/// For speed, the result is `None` without instructions, no other metric can improve, and loads are ignored: an even load
/// shows neither gain nor loss.
pub(super) fn combine(compared: &[Comparison], goal: TrialGoal) -> Option<Comparison> {
    let needs_speed = goal == TrialGoal::Speed;
    let is_speed = |one: &&Comparison| one.metric == TrialMetric::Instructions;
    if needs_speed && !compared.iter().any(|one| is_speed(&one)) {
        return None;
    }
    let used =
        || compared.iter().filter(|one| !needs_speed || one.metric != TrialMetric::Imbalance);
    let worse = used().find(|one| one.verdict == TrialVerdict::Worse);
    let is_better = |one: &&Comparison| one.verdict == TrialVerdict::Better;
    let better = used().find(|one| is_better(one) && (!needs_speed || is_speed(one)));
    worse.or(better).or(compared.first()).copied()
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

    /// Checks the comparison of metrics. Each line of the text has a metric, values before, and values after.
    fn check(text: &str, expected: Expect) {
        let mut output = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let metric = match parts[0] {
                "instructions" => TrialMetric::Instructions,
                "waiting" => TrialMetric::Waiting,
                _ => TrialMetric::Imbalance,
            };
            let values = |text: &str| -> Vec<f64> {
                text.split_whitespace().map(|word| word.parse().expect("a value")).collect()
            };
            let line =
                match compare((metric, TrialGoal::AnyMetric), &values(parts[1]), &values(parts[2]))
                {
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
    fn a_metric_that_gets_worse_outweighs_one_that_improves() {
        let any = |metric, before: &[f64], after: &[f64]| {
            compare((metric, TrialGoal::AnyMetric), before, after)
        };
        let gain = any(TrialMetric::Imbalance, &[1.0], &[0.0]).expect("values");
        let harm = any(TrialMetric::Waiting, &[0.0], &[0.5]).expect("values");
        let nothing = any(TrialMetric::Instructions, &[5.0], &[5.0]).expect("values");
        let verdict =
            |all: &[Comparison]| combine(all, TrialGoal::AnyMetric).map(|one| one.verdict);
        assert_eq!(verdict(&[gain, harm, nothing]), Some(TrialVerdict::Worse));
        assert_eq!(verdict(&[nothing, gain]), Some(TrialVerdict::Better));
        assert_eq!(verdict(&[nothing]), Some(TrialVerdict::Inconclusive));
        assert_eq!(verdict(&[]), None);
    }
}
