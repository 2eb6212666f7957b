//! Values of gains and of run times, and their texts.

use super::Gain;
use super::definition::Bindings;
use super::finding::number;
use super::gain::RangeSide;
use super::run_pool::Series;
use crate::compare::RunMetrics;
use crate::stats::{deviation, mean, median, quantile, variation};
use report::format::{ABSENT, fixed, signed};
use report::study::StudyCell;

/// Times of the jobs of a policy and of its baseline over the seeds, by workload and job.
pub(super) type JobTimesByRun = Vec<(Vec<f64>, Vec<f64>)>;

/// A value of the policy and of its baseline; `None` if it is unknown.
pub(super) type QuantityPair = (Option<f64>, Option<f64>);

/// Returns the slowdown of every program (time over time alone), by finished run. Runs with an unknown time are
/// excluded.
pub(super) fn slowdowns(runs: &Series, alone_s: &[f64]) -> Vec<Vec<f64>> {
    let of_run = |(_, run): (u64, &RunMetrics)| {
        let known = |alone: &f64| Some(*alone).filter(|alone| 0.0 < *alone);
        let each = alone_s.iter().enumerate();
        each.map(|(job, alone)| Some(run.job_s(job)? / known(alone)?)).collect()
    };
    runs.finished_runs().filter_map(of_run).collect()
}

pub(super) fn largest(gains: &[Gain]) -> Option<Gain> {
    let is_known = gains.iter().all(|gain| !gain.is_empty());
    let by_size = |one: &&Gain, other: &&Gain| one.mean.abs().total_cmp(&other.mean.abs());
    gains.iter().max_by(by_size).filter(|_| is_known).cloned()
}

/// Returns a value of gains in percent, or a count of gains; `None` if a required gain is unknown.
pub(super) fn gain_value(gains: &[Gain], value: &str) -> Option<f64> {
    let means: Option<Vec<f64>> =
        gains.iter().map(|gain| (!gain.is_empty()).then_some(gain.mean * 100.0)).collect();
    let mean = || Some(Gain::mean_of(gains)).filter(|gain| !gain.is_empty());
    let count = |n: usize| n as f64;
    match value {
        "gain" | "percent" => mean().map(|gain| gain.mean * 100.0),
        "abs" => mean().map(|gain| gain.mean.abs() * 100.0),
        "low" => Some(Gain::mean_of(gains).interval?.low * 100.0),
        "high" => Some(Gain::mean_of(gains).interval?.high * 100.0),
        "min" => means?.into_iter().reduce(f64::min),
        "max" => means?.into_iter().reduce(f64::max),
        "abs_max" => largest(gains).map(|gain| gain.mean.abs() * 100.0),
        "n" => Some(count(gains.len())),
        "n_above" => Some(count(means?.iter().filter(|mean| 0.0 < **mean).count())),
        "n_significant" => {
            let significant: Option<Vec<bool>> = gains.iter().map(Gain::is_significant).collect();
            Some(count(significant?.iter().filter(|is| **is).count()))
        }
        "n_same_sign" => {
            let is_same =
                |gain: &&Gain| gain.each.iter().all(|one| (0.0 < *one) == (0.0 < gain.mean));
            Some(count(gains.iter().filter(is_same).count()))
        }
        _ => panic!("{value}: no such value of a measure"),
    }
}

/// Returns the cell of one gain, which an index selects, or of the mean of all gains.
pub(super) fn gains_cell(
    gains: &[Gain],
    workloads: &[String],
    (name, idx): (&str, Option<usize>),
    unit: &str,
) -> StudyCell {
    let unknown = || Gain::of_value(None);
    let one = match idx {
        Some(idx) => gains.get(idx).cloned().unwrap_or_else(unknown),
        None => Gain::mean_of(gains),
    };
    let values = |gain: &Gain| gain.study_value(unit).into_iter().collect();
    match name {
        "gain" => StudyCell::new(one.percent_with_interval(), values(&one)),
        "percent" => StudyCell::new(one.percent(), values(&one)),
        "gains" => {
            let text =
                gains.iter().map(Gain::percent_with_interval).collect::<Vec<String>>().join(" ");
            StudyCell::new(text, gains.iter().filter_map(|gain| gain.study_value(unit)).collect())
        }
        "largest" => {
            let largest = largest(gains).unwrap_or_else(unknown);
            StudyCell::new(largest.percent_with_interval(), values(&largest))
        }
        "best" => {
            let all = workloads.iter().zip(gains);
            let best = all.max_by(|(_, one), (_, other)| one.mean.total_cmp(&other.mean));
            let text = best.map(|(name, gain)| format!("{name} {}", gain.percent_with_interval()));
            StudyCell::new(text.unwrap_or_default(), Vec::new())
        }
        "same_sign" => {
            let same = one.each.iter().filter(|each| (0.0 < **each) == (0.0 < one.mean)).count();
            format!("{same} of {}", one.each.len()).into()
        }
        _ => {
            let known = gains.iter().filter(|gain| !gain.is_empty());
            summary(&known.map(|gain| gain.mean * 100.0).collect::<Vec<f64>>(), name).into()
        }
    }
}

/// Returns the number of gains in a range in percent, such as `3 to 10`: whose mean is within (`n_within`), or whose
/// whole interval is inside (`n_inside`) or outside (`n_outside`).
pub(super) fn n_in_range(gains: &[Gain], range: &str, value: &str) -> f64 {
    let range = range
        .split_once(" to ")
        .and_then(|(low, high)| Some((low.parse::<f64>().ok()?, high.parse::<f64>().ok()?)));
    let (low, high) = range.expect("within = \"LOW to HIGH\"");
    let counts = |gain: &&Gain| match value {
        "n_inside" => gain.side(low, high) == RangeSide::Inside,
        "n_outside" => gain.side(low, high) == RangeSide::Outside,
        _ => gain.is_within(low, high),
    };
    gains.iter().filter(counts).count() as f64
}

/// Returns `n_below` or `ratio_min` of a quantity; `None` if one of its values is unknown.
pub(super) fn quantity_value(pairs: Vec<QuantityPair>, value: &str) -> Option<f64> {
    let pairs = pairs.into_iter().map(|(own, base)| own.zip(base));
    let pairs = pairs.collect::<Option<Vec<(f64, f64)>>>()?;
    match value {
        "n_below" => Some(pairs.iter().filter(|(own, base)| own < base).count() as f64),
        _ => pairs.iter().filter_map(|(own, base)| ratio(*own, *base)).reduce(f64::min),
    }
}

pub(super) fn job_statistic(times: &JobTimesByRun, value: &str) -> Option<f64> {
    type Spread = fn(&[f64]) -> Option<f64>;
    let both = |of: Spread| -> Vec<(f64, f64)> {
        times.iter().filter_map(|(policy, base)| of(policy).zip(of(base))).collect()
    };
    let n_smaller = |of: Spread| both(of).iter().filter(|(policy, base)| policy < base).count();
    let (policy, base): (Vec<f64>, Vec<f64>) =
        both(if value.ends_with("deviation") { deviation } else { variation }).into_iter().unzip();
    if policy.is_empty() {
        return None;
    }
    Some(match value {
        "n_jobs" => policy.len() as f64,
        "n_smaller_deviation" => n_smaller(deviation) as f64,
        "n_smaller_variation" => n_smaller(variation) as f64,
        "deviation" => mean(&policy),
        "base_deviation" => mean(&base),
        "variation" => median(&policy) * 100.0,
        _ => median(&base) * 100.0,
    })
}

/// Returns the indexes of `job`, separated by spaces; empty: all jobs.
pub(super) fn jobs(bindings: &Bindings) -> Vec<usize> {
    let words = bindings.get("job").into_iter().flat_map(|jobs| jobs.split(' '));
    words.filter_map(|job| job.parse().ok()).collect()
}

/// Returns the ratio of two values; `None` for 0 over 0.
pub(super) fn ratio(value: f64, base: f64) -> Option<f64> {
    (value != 0.0 || base != 0.0).then(|| value / base)
}

/// Returns several values as the text of a cell: the median, or the range of 90 % of the values.
pub(super) fn summary(values: &[f64], show: &str) -> String {
    match show {
        _ if values.is_empty() => ABSENT.to_owned(),
        "median" => signed(quantile(values, 0.5), 1),
        _ => [0.05, 0.95].map(|share| signed(quantile(values, share), 1)).join(" to "),
    }
}

/// Returns the text of a number, by the name of its value; `digits` overrides the number of decimals.
pub(super) fn formatted(name: &str, value: Option<f64>, digits: Option<usize>) -> String {
    let Some(known) = value else { return ABSENT.to_owned() };
    let decimals = |default| number(value, digits.unwrap_or(default));
    match name {
        "seconds" => format!("{} s", fixed(known, 2)),
        "low" | "high" => signed(known, 2),
        "variation" | "base_variation" => decimals(2),
        "queue_full_variation" | "reference_variation" => decimals(3),
        "kind_moves_per_min" | "node_moves_per_min" => decimals(2),
        "sampling_percent"
        | "moves"
        | "response"
        | "gib"
        | "deviation"
        | "base_deviation"
        | "percent_on_several_nodes" => decimals(1),
        _ if name.contains("_per_") => decimals(1),
        _ if name.starts_with("n_") || name == "n" => decimals(0),
        _ => signed(known, 1),
    }
}
