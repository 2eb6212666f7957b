//! Phases and miss-ratio curves from windows, with error estimates.
//!
//! The error has two sources. First, lines are sampled: the lines are divided into eight groups by hash, and the
//! difference between groups gives a standard error of the mean. This error is scaled by the square root of the share
//! of lines that were not sampled. Second, the run is sampled: the difference between windows gives a second standard
//! error. The second error is scaled by the square root of the share of instructions that were not traced. The reported
//! error is twice the root of the sum of squares. The reported error does not include the correlation between adjacent
//! windows and is therefore too small.

use program::profile::{CurvePoint, MissRatioCurve, Phase, ProfileValue, ValueSource};

use crate::cache_sizes::{N_SIZES, size_bytes};
use crate::sampler::N_GROUPS;
use crate::windows::Window;

/// Miss-ratio curve with its error.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveEstimate {
    /// Misses and write-backs per 1000 instructions.
    pub curve: MissRatioCurve,
    /// Largest error of all points, relative to the misses of the smallest cache.
    pub error_share: Option<f64>,
}

/// Computes the miss-ratio curve of windows that cover `share_covered` of the instructions of the run. Returns `None`
/// without windows.
pub fn curve(windows: &[Window], share_covered: f64) -> Option<CurveEstimate> {
    let n_instructions: u64 = windows.iter().map(|window| window.n_instructions).sum();
    let points: Vec<CurvePoint> =
        (0..N_SIZES).map(|idx| point(windows, idx, n_instructions, share_covered)).collect();
    let top = points.first().map(|point| point.misses).filter(|misses| 0.0 < *misses);
    let worst = points.iter().map(|point| point.error).collect::<Option<Vec<f64>>>();
    let worst = worst.and_then(|errors| errors.into_iter().max_by(f64::total_cmp));
    let points = shortened(points);
    let curve = MissRatioCurve::new(ValueSource::Traced, points).filter(|_| 0 < n_instructions)?;
    Some(CurveEstimate { curve, error_share: worst.zip(top).map(|(error, top)| error / top) })
}

fn point(windows: &[Window], idx: usize, n_instructions: u64, share_covered: f64) -> CurvePoint {
    let per_1000 = 1000.0 / (n_instructions as f64).max(1.0);
    let misses: f64 = windows.iter().map(|window| window.misses_of(idx)).sum();
    let write_backs: f64 = windows.iter().map(|window| window.write_backs[idx]).sum();
    let by_lines = error_by_lines(windows, idx) * per_1000;
    let error = error_by_windows(windows, idx, share_covered)
        .map(|by_windows| 2.0 * (by_lines * by_lines + by_windows * by_windows).sqrt());
    CurvePoint {
        prefetches: None,
        cache: size_bytes(idx),
        misses: misses * per_1000,
        write_backs: Some(write_backs * per_1000),
        error,
    }
}

/// Removes the largest sizes while their values are equal.
fn shortened(mut points: Vec<CurvePoint>) -> Vec<CurvePoint> {
    let same =
        |a: &CurvePoint, b: &CurvePoint| a.misses == b.misses && a.write_backs == b.write_backs;
    while 2 < points.len() && same(&points[points.len() - 1], &points[points.len() - 2]) {
        points.pop();
    }
    points
}

/// Returns the standard error of the misses due to line sampling.
fn error_by_lines(windows: &[Window], idx: usize) -> f64 {
    let of_group = |group: usize| windows.iter().map(|window| window.misses[group][idx]).sum();
    let groups: Vec<f64> = (0..N_GROUPS).map(of_group).collect();
    let left_out = windows.last().map_or(0.0, |window| 1.0 - window.rate);
    (N_GROUPS as f64 * variance(&groups) * left_out).sqrt()
}

/// Returns the standard error of the misses per 1000 instructions due to tracing a part of the run. Returns `None` for
/// one window that does not cover the run.
fn error_by_windows(windows: &[Window], idx: usize, share_covered: f64) -> Option<f64> {
    let left_out = (1.0 - share_covered).clamp(0.0, 1.0);
    if left_out == 0.0 {
        return Some(0.0);
    }
    let rates: Vec<f64> = windows.iter().map(|window| window.mpki(idx)).collect();
    (1 < rates.len()).then(|| (variance(&rates) / rates.len() as f64 * left_out).sqrt())
}

fn variance(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    numbers.iter().map(|number| (number - mean) * (number - mean)).sum::<f64>() / (n - 1.0).max(1.0)
}

/// Returns the smallest cache size that saves at least 95 % of the misses that the largest size saves.
pub fn working_set(curve: &MissRatioCurve) -> Option<base::Bytes> {
    let (first, last) = (curve.points().first()?, curve.points().last()?);
    let enough = last.misses + (first.misses - last.misses) / 20.0;
    curve.points().iter().find(|point| point.misses <= enough).map(|point| point.cache)
}

/// Computes the values of a phase that do not depend on times. `share` is the share of the phase in the instructions.
pub fn phase_from_windows(windows: &[Window], share: f64, share_covered: f64) -> Option<Phase> {
    let curve = curve(windows, share_covered)?.curve;
    let traced = |value: f64| ProfileValue::new(value, ValueSource::Traced);
    let footprint: f64 = footprint_lines(windows);
    Some(Phase {
        share: traced(share.clamp(0.0, 1.0))?,
        footprint_bytes: traced((footprint * base::LINE_BYTES as f64).round()),
        working_set_bytes: working_set(&curve)
            .and_then(|size| ProfileValue::new(size.0 as f64, ValueSource::Traced)),
        curve,
        ..Phase::default()
    })
}

/// Returns the number of lines used in the windows: the lines of the first window and the first uses in later windows.
/// If an earlier phase used a line and this phase uses the line only in a later window, the line is missing.
fn footprint_lines(windows: &[Window]) -> f64 {
    let first = windows.first().map_or(0.0, |window| window.n_lines);
    let more: f64 = windows.iter().skip(1).map(|window| window.n_first_uses).sum();
    windows.iter().map(|window| window.n_lines).fold(first + more, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::ReuseTally;

    fn window(misses: f64) -> Window {
        let tally = ReuseTally::default();
        let mut window = Window::between(&tally, &tally);
        window.n_instructions = 1000;
        // A working set of 32 KiB misses in smaller caches only.
        window.misses = [[0.0; N_SIZES]; N_GROUPS];
        for group in &mut window.misses {
            group[0] = misses / N_GROUPS as f64;
            group[1] = misses / N_GROUPS as f64;
        }
        window
    }

    #[test]
    fn a_curve_ends_where_it_becomes_flat() {
        let found = curve(&[window(8.0), window(8.0)], 1.0).unwrap();
        let points: Vec<(u64, f64)> =
            found.curve.points().iter().map(|point| (point.cache.0 >> 10, point.misses)).collect();
        assert_eq!(points, [(16, 8.0), (24, 8.0), (32, 0.0)]);
        assert_eq!(working_set(&found.curve), Some(base::Bytes::from_kib(32)));
        assert_eq!(found.error_share, Some(0.0));
    }

    #[test]
    fn different_windows_cause_an_error_unless_the_whole_run_was_traced() {
        let windows = [window(4.0), window(8.0), window(6.0), window(6.0)];
        let error = |share| curve(&windows, share).unwrap().curve.points()[0].error;
        assert_eq!(error(1.0), Some(0.0));
        let half = error(0.5).unwrap();
        let none = error(0.0).unwrap();
        assert!((none / half - 2f64.sqrt()).abs() < 1e-9, "{none} {half}");
        // The standard deviation is 1.633. With four windows, the error is twice 0.816.
        assert!((none - 1.633).abs() < 1e-3, "{none}");
        assert_eq!(curve(&windows[..1], 0.5).unwrap().curve.points()[0].error, None);
    }

    #[test]
    fn different_line_groups_cause_an_error_only_if_lines_were_sampled() {
        let mut one = window(8.0);
        one.misses[0][0] = 3.0;
        let error = |rate| {
            let windows = [Window { rate, ..one.clone() }];
            curve(&windows, 1.0).unwrap().curve.points()[0].error.unwrap()
        };
        assert_eq!(error(1.0), 0.0);
        assert!(1.0 < error(0.25));
    }

    #[test]
    fn no_curve_without_windows() {
        assert_eq!(curve(&[], 1.0), None);
        assert_eq!(phase_from_windows(&[], 1.0, 1.0), None);
    }
}
