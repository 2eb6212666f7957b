//! Text charts: the miss-ratio curve and the addresses of a segment.

use std::collections::BTreeSet;

use profiler::AccessPattern;
use program::profile::{MissRatioCurve, Phase, ProfileValue};
use report::format::{bandwidth, bytes, or_absent, per_instruction, percent};
use report::table::Align::{Left, Right};
use report::table::ReportTable;

/// Width of the text, in columns.
pub(super) const WIDTH: usize = 80;
/// Width of a bar, in columns.
const BAR: usize = 34;
/// Size of the address chart, in characters.
const COLUMNS: usize = 72;
const ROWS: usize = 12;

/// Draws the miss-ratio curve: one row with a bar for each doubling of the cache size.
pub(super) fn curve(curve: &MissRatioCurve) -> String {
    let top = curve.points().iter().map(|point| point.misses).fold(0.0, f64::max);
    let mut table = ReportTable::new([
        ("cache", Right),
        ("misses", Right),
        ("±", Right),
        ("write-backs", Right),
        ("of 1000 instructions", Left),
    ]);
    for point in curve.points().iter().filter(|point| point.cache.0.is_power_of_two()) {
        let bar = if top <= 0.0 { 0 } else { (point.misses / top * BAR as f64).round() as usize };
        table.row([
            point.cache.to_string(),
            per_instruction(point.misses),
            or_absent(point.error, per_instruction),
            or_absent(point.write_backs, per_instruction),
            "#".repeat(bar),
        ]);
    }
    table.to_text(WIDTH)
}

pub(super) fn phases(phases: &[Phase]) -> String {
    let size = |value: Option<ProfileValue>| or_absent(value, |value| bytes(value.value() as u64));
    let heads = ["phase", "share", "footprint", "work. set", "LLC accesses /1000", "bandwidth"];
    let mut table = ReportTable::new(heads.map(|head| (head, Right)));
    for (idx, phase) in phases.iter().enumerate() {
        table.row([
            (idx + 1).to_string(),
            percent(phase.share.value()),
            size(phase.footprint_bytes),
            size(phase.working_set_bytes),
            or_absent(phase.llc_accesses, |n| per_instruction(n.value())),
            or_absent(phase.bandwidth, |value| bandwidth(value.value())),
        ]);
    }
    format!("\n{}", table.to_text(WIDTH))
}

/// Draws the data references of the segment: time on the horizontal axis, touched lines without gaps on the vertical
/// axis.
pub(super) fn addresses(pattern: &AccessPattern) -> String {
    let dots = pattern.data_references();
    let lines: BTreeSet<u64> = dots.iter().map(|dot| dot.line).collect();
    let lines: Vec<u64> = lines.into_iter().collect();
    let mut grid = vec![vec![' '; COLUMNS]; ROWS];
    for (idx, dot) in dots.iter().enumerate() {
        let rank = lines.partition_point(|line| *line < dot.line);
        let row = ROWS - 1 - (rank * ROWS / lines.len().max(1)).min(ROWS - 1);
        let cell = &mut grid[row][idx * COLUMNS / dots.len()];
        *cell = if dot.writes || *cell == 'w' { 'w' } else { '.' };
    }
    let rows: String = grid
        .into_iter()
        .map(|row| format!("  |{}\n", row.into_iter().collect::<String>().trim_end()))
        .collect();
    format!(
        "addresses of {} consecutive data references, {} lines (. read, w written)\n{rows}  +{}\n",
        dots.len(),
        lines.len(),
        "-".repeat(COLUMNS)
    )
}

#[cfg(test)]
mod tests {
    use base::Bytes;
    use profiler::{Reference, ReferenceKind, Sampling, WindowMeter, WindowPlan};
    use program::profile::{CurvePoint, ValueSource};

    use super::*;

    #[test]
    fn a_curve_has_one_bar_per_doubling() {
        let point = |kib, misses| CurvePoint {
            cache: Bytes::from_kib(kib),
            misses,
            write_backs: Some(misses / 4.0),
            prefetches: None,
            error: None,
        };
        let points = vec![point(16, 20.0), point(24, 15.0), point(32, 10.0), point(64, 0.0)];
        let found = MissRatioCurve::new(ValueSource::Traced, points).expect("misses fall");
        let drawn = curve(&found);
        let rows: Vec<Vec<&str>> =
            drawn.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
        let (whole, half) = ("#".repeat(BAR), "#".repeat(BAR / 2));
        assert_eq!(rows[0], ["16.0", "KiB", "20.00", "-", "5.00", &whole]);
        assert_eq!(rows[1], ["32.0", "KiB", "10.00", "-", "2.50", &half]);
        assert_eq!(rows[2], ["64.0", "KiB", "0.00", "-", "0.00"]);
        assert_eq!(rows.len(), 3, "24 KiB is not a doubling");
    }

    #[test]
    fn a_sequential_access_pattern_is_a_diagonal() {
        let plan = WindowPlan { window: 200, n_windows: 1, ..WindowPlan::default() };
        let mut meter = WindowMeter::new(plan, Sampling::FixedRate(0));
        for nr in 0..200 {
            let kind = if nr % 50 == 0 { ReferenceKind::Store } else { ReferenceKind::Load };
            meter.take(Reference { kind, address: 64 * nr, size: 8 });
        }
        let drawn = addresses(meter.access_pattern());
        assert!(drawn.lines().all(|line| line.chars().count() <= WIDTH), "{drawn}");
        let rows: Vec<&str> = drawn.lines().skip(1).take(ROWS).collect();
        let ends: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        assert!(ends.windows(2).all(|pair| pair[1] < pair[0]), "{drawn}");
        assert!(drawn.contains('w') && drawn.contains('.'));
    }
}
