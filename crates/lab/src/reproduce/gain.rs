//! Paired gain of a policy over a baseline: one value for each seed.
//!
//! Each measure uses one of two definitions of a gain: the saved fraction of the baseline's time, or the ratio of
//! speeds minus 1. At 5 % the definitions differ by a quarter of a percentage point. Two gains are compared on their
//! common seeds.

use report::format::{ABSENT, fixed, signed};
use report::study::{StudyCell, StudyValue};

use super::run_pool::Series;
use crate::compare::RunMetrics;
use crate::stats::{ConfidenceInterval, interval, mean};

/// Gains by seed, their mean and its confidence interval. 0.01 is one percent.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// The gain of each pair of runs.
    pub each: Vec<f64>,
    /// The seed of each pair.
    pub seeds: Vec<u64>,
    /// Mean of the gains; 0 without a pair, see [`Gain::is_empty`].
    pub mean: f64,
    /// The 95 % confidence interval of the mean; `None` for fewer than two pairs.
    pub interval: Option<ConfidenceInterval>,
}

/// Position of the interval of a gain relative to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSide {
    /// The whole interval is in the range.
    Inside,
    /// The whole interval is outside of the range.
    Outside,
    /// The interval contains a limit of the range, or there is no pair.
    Undecided,
}

/// Returns the time of a set in seconds: the geometric mean over its programs of the mean time of their copies.
/// `copies` has the jobs of each program. `None` if a job did not exit.
pub fn set_s(run: &RunMetrics, copies: &[Vec<usize>]) -> Option<f64> {
    let program_s = |jobs: &Vec<usize>| {
        let times: Option<Vec<f64>> = jobs.iter().map(|job| run.job_s(*job)).collect();
        Some(libm::log(mean(&times?)))
    };
    let logs: Option<Vec<f64>> = copies.iter().map(program_s).collect();
    Some(libm::exp(mean(&logs?)))
}

impl Gain {
    /// Returns the gains of the seeds 1, 2, 3, …
    pub fn of_each(each: Vec<f64>) -> Self {
        Gain::by_seed((1..).zip(each).collect())
    }

    /// Returns a value without a seed and without an interval; empty if it is unknown.
    pub fn of_value(value: Option<f64>) -> Self {
        Gain::of_each(value.into_iter().collect())
    }

    /// Returns the gains with their seeds, in ascending order of the seeds.
    pub fn by_seed(gains: Vec<(u64, f64)>) -> Self {
        let (seeds, each): (Vec<u64>, Vec<f64>) = gains.into_iter().unzip();
        let resampled =
            |idxs: &[usize]| mean(&idxs.iter().map(|idx| each[*idx]).collect::<Vec<f64>>());
        let interval = interval(each.len(), resampled);
        Gain { mean: mean(&each), interval, each, seeds }
    }

    /// Creates the gains of the seeds with which both series finished; seeds for which `gain` is `None` are excluded.
    pub fn paired(
        policy: &Series,
        base: &Series,
        gain: impl Fn(&RunMetrics, &RunMetrics) -> Option<f64>,
    ) -> Self {
        let pairs = policy.pairs(base);
        let gains = pairs.filter_map(|(seed, run, base)| Some((seed, gain(run, base)?)));
        Gain::by_seed(gains.collect())
    }

    /// Returns the fraction of the baseline's makespan that a policy saves.
    pub fn time_saved(policy: &Series, base: &Series) -> Self {
        let seconds = |run: &RunMetrics| run.last_end.as_secs_f64();
        Gain::paired(policy, base, |run, base| Some(1.0 - seconds(run) / seconds(base)))
    }

    /// Returns the mean speedup of some jobs, or of all jobs: time with the baseline / time with the policy - 1.
    pub fn speedup(policy: &Series, base: &Series, jobs: Option<&[usize]>) -> Self {
        Gain::paired(policy, base, |run, base| {
            let all: Vec<usize> = (0..base.jobs.len()).collect();
            let each = jobs.unwrap_or(&all).iter();
            let each = each.map(|job| Some(base.job_s(*job)? / run.job_s(*job)? - 1.0));
            Some(mean(&each.collect::<Option<Vec<f64>>>()?))
        })
    }

    /// Returns the saved fraction of the time of a set: see [`set_s`].
    pub fn set_time(policy: &Series, base: &Series, copies: &[Vec<usize>]) -> Self {
        Gain::paired(policy, base, |run, base| {
            Some(1.0 - set_s(run, copies)? / set_s(base, copies)?)
        })
    }

    /// Returns the gain of a group of jobs: the saved fraction of the time until the last of these jobs exits.
    pub fn group_end(policy: &Series, base: &Series, jobs: &[usize]) -> Self {
        let end = |run: &RunMetrics| -> Option<f64> {
            let ends = jobs.iter().map(|job| Some(run.jobs[*job].end?.as_secs_f64()));
            Some(ends.collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max))
        };
        Gain::paired(policy, base, |run, base| Some(1.0 - end(run)? / end(base)?))
    }

    /// Returns the mean of several gains, on their common seeds.
    pub fn mean_of(all: &[Gain]) -> Self {
        let Some(first) = all.first() else { return Gain::by_seed(Vec::new()) };
        let at_seed = |seed: &u64| -> Option<(u64, f64)> {
            let each: Option<Vec<f64>> = all.iter().map(|gain| gain.of_seed(*seed)).collect();
            Some((*seed, mean(&each?)))
        };
        Gain::by_seed(first.seeds.iter().filter_map(at_seed).collect())
    }

    /// Returns the difference to another gain, on their common seeds.
    pub fn minus(&self, other: &Gain) -> Self {
        let pairs = self.seeds.iter().zip(&self.each);
        let differences =
            pairs.filter_map(|(seed, gain)| Some((*seed, gain - other.of_seed(*seed)?)));
        Gain::by_seed(differences.collect())
    }

    /// Returns the gain of a seed.
    pub fn of_seed(&self, seed: u64) -> Option<f64> {
        let idx = self.seeds.iter().position(|known| *known == seed)?;
        Some(self.each[idx])
    }

    /// Returns whether there is no pair, so that the gain is unknown.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Returns the mean in percent, with half the width of the interval: `+1.2±0.3`.
    pub fn percent_with_interval(&self) -> String {
        match self.interval {
            Some(within) => {
                let half_width = fixed((within.high - within.low) * 50.0, 1);
                format!("{}±{half_width}", signed(self.mean * 100.0, 1))
            }
            None if self.each.is_empty() => ABSENT.to_owned(),
            None => signed(self.mean * 100.0, 1),
        }
    }

    /// Returns the gain as a cell with its unrounded value.
    pub fn cell(&self) -> StudyCell {
        StudyCell::new(self.percent_with_interval(), self.study_value("").into_iter().collect())
    }

    /// Returns the mean and its interval in percent; `None` without a pair.
    pub fn study_value(&self, unit: &str) -> Option<StudyValue> {
        let within = self.interval.map(|within| [within.low * 100.0, within.high * 100.0]);
        (!self.is_empty()).then(|| StudyValue::mean(self.mean * 100.0, within, unit))
    }

    /// Returns the mean in percent with two decimals; a dash without a pair.
    pub fn percent(&self) -> String {
        if self.is_empty() { ABSENT.to_owned() } else { signed(self.mean * 100.0, 2) }
    }

    /// Returns whether the interval is above 0; `None` for fewer than two pairs.
    pub fn is_significant(&self) -> Option<bool> {
        self.interval.map(|within| 0.0 < within.low)
    }

    /// Returns whether the whole interval is between two limits in percent, inclusive, or outside of them. A gain without
    /// an interval counts as its mean.
    pub fn side(&self, low: f64, high: f64) -> RangeSide {
        let (least, most) = match self.interval {
            Some(within) => (within.low * 100.0, within.high * 100.0),
            None => (self.mean * 100.0, self.mean * 100.0),
        };
        match () {
            () if self.is_empty() => RangeSide::Undecided,
            () if low <= least && most <= high => RangeSide::Inside,
            () if most < low || high < least => RangeSide::Outside,
            () => RangeSide::Undecided,
        }
    }

    /// Returns whether the mean is between two limits in percent, inclusive.
    pub fn is_within(&self, low: f64, high: f64) -> bool {
        !self.each.is_empty() && (low..=high).contains(&(self.mean * 100.0))
    }
}
