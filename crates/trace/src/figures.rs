//! From windows to the figures of a profile, with their errors.
//!
//! Two things make a figure uncertain, and both are seen in the data: which lines were looked at (lines
//! fall into eight groups by their hash, and groups differ), and which part of the run was (windows
//! differ). Each gives a standard error of the mean; only what was left out counts, so the first is
//! scaled by the root of the share of lines that was not looked at, the second by that of instructions.
//! The error that is told is twice the root of the sum of their squares. What neither can tell: windows of
//! one stretch are more alike than the rest of the run is.

use program::profile::{Curve, Figure, Phase, Point, Source};

use crate::sampler::N_GROUPS;
use crate::sizes::{LINE_BYTES, N_SIZES, size_bytes};
use crate::windows::Window;

/// A curve with what else the windows tell of all sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveFound {
    /// Misses and write-backs per 1000 instructions.
    pub curve: Curve,
    /// The largest error of a point above the smallest sizes, as a part of the misses of the smallest.
    pub error_share: Option<f64>,
}

/// The miss-ratio curve of some windows, which are so large a share of the run's instructions; `None`
/// without windows.
pub fn curve(windows: &[Window], share_covered: f64) -> Option<CurveFound> {
    let n_instructions: u64 = windows.iter().map(|window| window.n_instructions).sum();
    let points: Vec<Point> =
        (0..N_SIZES).map(|idx| point(windows, idx, n_instructions, share_covered)).collect();
    let top = points.first().map(|point| point.misses).filter(|misses| 0.0 < *misses);
    let worst = points.iter().map(|point| point.error).collect::<Option<Vec<f64>>>();
    let worst = worst.and_then(|errors| errors.into_iter().max_by(f64::total_cmp));
    let points = shortened(points);
    let curve = Curve::new(Source::Traced, points).filter(|_| 0 < n_instructions)?;
    Some(CurveFound { curve, error_share: worst.zip(top).map(|(error, top)| error / top) })
}

fn point(windows: &[Window], idx: usize, n_instructions: u64, share_covered: f64) -> Point {
    let per_1000 = 1000.0 / (n_instructions as f64).max(1.0);
    let misses: f64 = windows.iter().map(|window| window.misses_of(idx)).sum();
    let write_backs: f64 = windows.iter().map(|window| window.write_backs[idx]).sum();
    let by_lines = error_by_lines(windows, idx) * per_1000;
    let error = error_by_windows(windows, idx, share_covered)
        .map(|by_windows| 2.0 * (by_lines * by_lines + by_windows * by_windows).sqrt());
    Point {
        prefetches: None,
        cache: size_bytes(idx),
        misses: misses * per_1000,
        write_backs: Some(write_backs * per_1000),
        error,
    }
}

/// Sizes behind which nothing changes any more are left out, but for one.
fn shortened(mut points: Vec<Point>) -> Vec<Point> {
    let same = |a: &Point, b: &Point| a.misses == b.misses && a.write_backs == b.write_backs;
    while 2 < points.len() && same(&points[points.len() - 1], &points[points.len() - 2]) {
        points.pop();
    }
    points
}

/// The standard error of all misses that comes of looking at a part of the lines.
fn error_by_lines(windows: &[Window], idx: usize) -> f64 {
    let of_group = |group: usize| windows.iter().map(|window| window.misses[group][idx]).sum();
    let groups: Vec<f64> = (0..N_GROUPS).map(of_group).collect();
    let left_out = windows.last().map_or(0.0, |window| 1.0 - window.rate);
    (N_GROUPS as f64 * variance(&groups) * left_out).sqrt()
}

/// The standard error of misses per 1000 instructions that comes of looking at a part of the run; `None`
/// if one window alone was looked at and more was left out.
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

/// The smallest size from which on a larger cache saves less than a twentieth of what the largest saves.
pub fn working_set(curve: &Curve) -> Option<base::Bytes> {
    let (first, last) = (curve.points().first()?, curve.points().last()?);
    let enough = last.misses + (first.misses - last.misses) / 20.0;
    curve.points().iter().find(|point| point.misses <= enough).map(|point| point.cache)
}

/// What windows tell of a phase: all but what needs times. `share` is its part of the instructions.
pub fn phase_figures(windows: &[Window], share: f64, share_covered: f64) -> Option<Phase> {
    let curve = curve(windows, share_covered)?.curve;
    let traced = |value: f64| Figure::new(value, Source::Traced);
    let footprint: f64 = footprint_lines(windows);
    Some(Phase {
        share: traced(share.clamp(0.0, 1.0))?,
        footprint_bytes: traced((footprint * LINE_BYTES as f64).round()),
        working_set_bytes: working_set(&curve)
            .and_then(|size| Figure::new(size.0 as f64, Source::Traced)),
        curve,
        ..Phase::default()
    })
}

/// Lines that the windows touch: those of the first one, and what is new in the others. Lines of an
/// earlier phase that are used again in a later window of this one only are missing.
fn footprint_lines(windows: &[Window]) -> f64 {
    let first = windows.first().map_or(0.0, |window| window.n_lines);
    let more: f64 = windows.iter().skip(1).map(|window| window.n_new).sum();
    windows.iter().map(|window| window.n_lines).fold(first + more, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::Tally;

    fn window(misses: f64) -> Window {
        let tally = Tally::default();
        let mut window = Window::between(&tally, &tally);
        window.n_instructions = 1000;
        // What fits 32 KiB misses in smaller caches only.
        window.misses = [[0.0; N_SIZES]; N_GROUPS];
        for group in &mut window.misses {
            group[0] = misses / N_GROUPS as f64;
            group[1] = misses / N_GROUPS as f64;
        }
        window
    }

    #[test]
    fn a_curve_ends_where_nothing_changes_any_more() {
        let found = curve(&[window(8.0), window(8.0)], 1.0).unwrap();
        let told: Vec<(u64, f64)> =
            found.curve.points().iter().map(|point| (point.cache.0 >> 10, point.misses)).collect();
        assert_eq!(told, [(16, 8.0), (24, 8.0), (32, 0.0)]);
        assert_eq!(working_set(&found.curve), Some(base::Bytes::from_kib(32)));
        assert_eq!(found.error_share, Some(0.0));
    }

    #[test]
    fn windows_that_differ_make_an_error_unless_all_was_seen() {
        let windows = [window(4.0), window(8.0), window(6.0), window(6.0)];
        let error = |share| curve(&windows, share).unwrap().curve.points()[0].error;
        assert_eq!(error(1.0), Some(0.0));
        let half = error(0.5).unwrap();
        let none = error(0.0).unwrap();
        assert!((none / half - 2f64.sqrt()).abs() < 1e-9, "{none} {half}");
        // Standard deviation 1.633, four windows: twice 0.816.
        assert!((none - 1.633).abs() < 1e-3, "{none}");
        assert_eq!(curve(&windows[..1], 0.5).unwrap().curve.points()[0].error, None);
    }

    #[test]
    fn groups_of_lines_that_differ_make_an_error_only_where_lines_were_left_out() {
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
    fn without_windows_there_is_no_curve() {
        assert_eq!(curve(&[], 1.0), None);
        assert_eq!(phase_figures(&[], 1.0, 1.0), None);
    }
}
