//! The ratio of a policy or a command to the baseline, with its interval and its verdict. All outputs use these texts.

use base::counted_noun;

use super::{Comparison, ComparisonVerdict, PolicyRow, SummaryRow};
use crate::format::{self, ABSENT, fixed, four_digits};

/// The verdict of the baseline.
pub(super) const BASELINE: &str = "baseline";

/// A ratio to the baseline.
pub(super) struct Ratio<'a> {
    pub ratio: Option<f64>,
    pub ci95: Option<&'a [f64]>,
    pub verdict: Option<ComparisonVerdict>,
    is_baseline: bool,
    is_identical: bool,
    is_same_as_baseline: bool,
    absent_because: Option<&'a str>,
    /// The source of the ratio, as a tooltip.
    pub source: String,
}

impl<'a> Ratio<'a> {
    /// Returns the ratio on a workload.
    pub fn of_workload(all: &Comparison, row: &'a SummaryRow) -> Self {
        let SummaryRow { column, workload, .. } = row;
        let source = row.mean_s.map_or("no finished run".to_owned(), |mean| {
            let (mean, runs) = (four_digits(mean), counted_noun(row.n_runs, "run"));
            format!("{column} on {workload}: mean {mean} s of {runs}")
        });
        Ratio {
            ratio: row.ratio_to_baseline,
            ci95: row.ratio_ci95.as_deref(),
            verdict: row.verdict,
            is_baseline: row.column == all.setting.baseline,
            is_identical: row.is_identical,
            is_same_as_baseline: row.is_same_as_baseline,
            absent_because: row.ratio_absent_because.as_deref(),
            source,
        }
    }

    /// Returns the ratio over all workloads.
    pub fn of_all(row: &'a PolicyRow) -> Self {
        let seeds = counted_noun(row.n_seeds, "seed");
        Ratio {
            ratio: row.ratio_to_baseline,
            ci95: row.ratio_ci95.as_deref(),
            verdict: row.verdict,
            is_baseline: row.is_baseline,
            is_identical: row.is_identical,
            is_same_as_baseline: row.is_same_as_baseline,
            absent_because: row.ratio_absent_because.as_deref(),
            source: format!("{} over all workloads: geometric mean, {seeds}", row.column),
        }
    }

    /// Returns the ratio, or why it is absent.
    pub fn text(&self) -> String {
        match (self.ratio, self.absent_because) {
            (Some(_), _) if self.is_baseline => "1".to_owned(),
            (Some(ratio), _) => fixed(ratio, self.digits()),
            (None, Some(reason)) => reason.to_owned(),
            (None, None) => ABSENT.to_owned(),
        }
    }

    /// Returns the two ends of the interval; absent for the baseline.
    pub fn interval(&self, separator: &str) -> Option<String> {
        format::ci(self.ci95.filter(|_| !self.is_baseline), self.digits(), separator)
    }

    /// Returns the interval for a cell of a table: empty for the baseline.
    pub fn interval_cell(&self, separator: &str) -> String {
        let absent = if self.is_baseline { "" } else { ABSENT };
        self.interval(separator).unwrap_or_else(|| absent.to_owned())
    }

    /// Returns the number of digits after the point: three, or as many as distinguish the ends of the interval from 1;
    /// without an interval, the ratio. Equal ratios are not distinguished from 1.
    fn digits(&self) -> usize {
        const DIGITS_MAX: usize = 6;
        if self.verdict == Some(ComparisonVerdict::Equal) {
            return 4;
        }
        let values = || self.ci95.unwrap_or(self.ratio.as_slice()).iter();
        let is_distinct = |digits: &usize| {
            let is_one = |value: &f64| fixed(*value, *digits) == fixed(1.0, *digits);
            values().all(|value| *value == 1.0 || !is_one(value))
        };
        (3..DIGITS_MAX).find(is_distinct).unwrap_or(DIGITS_MAX)
    }

    /// Returns the verdict as a word.
    pub fn verdict_word(&self) -> &'static str {
        match self.verdict {
            _ if self.is_baseline => BASELINE,
            Some(verdict) => verdict.name(),
            None if self.is_same_as_baseline => "same as baseline",
            None if self.is_identical => "identical runs",
            None => ABSENT,
        }
    }

    /// Returns the sign of the verdict, so that no colour is needed.
    pub fn sign(&self) -> &'static str {
        sign(self.verdict)
    }

    /// Returns the class of the verdict in the styles.
    pub fn class(&self) -> &'static str {
        class(self.verdict)
    }

    /// Returns whether the ratio differs significantly from 1.
    pub fn is_significant(&self) -> bool {
        matches!(self.verdict, Some(ComparisonVerdict::Better | ComparisonVerdict::Worse))
    }
}

pub(super) fn sign(verdict: Option<ComparisonVerdict>) -> &'static str {
    match verdict {
        Some(ComparisonVerdict::Better) => "✓",
        Some(ComparisonVerdict::Worse) => "✕",
        Some(ComparisonVerdict::Equal) => "=",
        Some(ComparisonVerdict::Inconclusive) => "~",
        None => "",
    }
}

pub(super) fn class(verdict: Option<ComparisonVerdict>) -> &'static str {
    verdict.map_or("none", ComparisonVerdict::name)
}

impl SummaryRow {
    /// Returns the mean makespan, or without a finished run why it is absent: `2 failed`.
    pub(super) fn mean_text(&self, digits: usize) -> String {
        self.mean_s.map_or_else(|| self.absent_mean(), |mean| fixed(mean, digits))
    }

    /// Returns why there is no mean: `2 failed`, or a dash if there is no run.
    pub(super) fn absent_mean(&self) -> String {
        match self.n_failed {
            0 => ABSENT.to_owned(),
            n => unfinished_phrase(n - self.n_time_limit, self.n_time_limit),
        }
    }
}

/// Returns the number of runs that failed and that the time limit stopped: `2 failed, 1 at time limit`.
pub fn unfinished_phrase(n_failed: u64, n_time_limit: u64) -> String {
    let counts = [(n_failed, "failed"), (n_time_limit, "at time limit")];
    let present = counts.into_iter().filter(|(n, _)| *n != 0);
    present.map(|(n, word)| format!("{n} {word}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn ratio(ratio: f64, ci95: &[f64]) -> Ratio<'_> {
        Ratio {
            ratio: Some(ratio),
            ci95: Some(ci95),
            verdict: Some(ComparisonVerdict::Better),
            is_baseline: false,
            is_identical: false,
            is_same_as_baseline: false,
            absent_because: None,
            source: String::new(),
        }
    }

    #[test]
    fn an_interval_that_excludes_1_does_not_round_to_1() {
        let texts = |ratio: &Ratio<'_>| (ratio.text(), ratio.interval("-"));
        let near = ratio(0.99951, &[0.9993, 0.99997]);
        assert_eq!(texts(&near), ("0.99951".to_owned(), Some("0.99930-0.99997".to_owned())));
        let around = ratio(1.00002, &[0.8, 1.2]);
        assert_eq!(texts(&around), ("1.000".to_owned(), Some("0.800-1.200".to_owned())));
    }

    #[test]
    fn the_baseline_has_neither_an_interval_nor_a_verdict() {
        let baseline = Ratio { is_baseline: true, ..ratio(1.0, &[1.0, 1.0]) };
        assert_eq!((baseline.text(), baseline.interval_cell("-")), ("1".to_owned(), String::new()));
        assert_eq!(baseline.verdict_word(), "baseline");
    }

    #[test]
    fn runs_without_a_makespan_are_counted_by_cause() {
        assert_eq!(unfinished_phrase(2, 0), "2 failed");
        assert_eq!(unfinished_phrase(1, 3), "1 failed, 3 at time limit");
    }
}
