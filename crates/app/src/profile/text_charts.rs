//! Text charts: the miss-ratio curve and the addresses of a segment.

use std::collections::BTreeSet;

use base::Bytes;
use profiler::AccessPattern;
use program::profile::{MissRatioCurve, Phase, ProfileValue};

/// Width of the text.
const WIDTH: usize = 80;
/// Width of a bar.
const BAR: usize = 34;
/// Size of the address chart.
const COLUMNS: usize = 72;
const ROWS: usize = 12;

/// One line with a bar of misses per doubling of the cache size.
pub(super) fn curve(curve: &MissRatioCurve) -> String {
    let top = curve.points().iter().map(|point| point.misses).fold(0.0, f64::max);
    let mut text = "     cache   misses      ±   write-backs   of 1000 instructions\n".to_owned();
    for point in curve.points().iter().filter(|point| point.cache.0.is_power_of_two()) {
        let bar = if top <= 0.0 { 0 } else { (point.misses / top * BAR as f64).round() as usize };
        let absent = |value: Option<f64>| value.map_or("-".to_owned(), |n| format!("{n:.2}"));
        text += &format!(
            "{:>10} {:>8.2} {:>6} {:>13}   {}\n",
            point.cache.to_string(),
            point.misses,
            absent(point.error),
            absent(point.write_backs),
            "#".repeat(bar)
        );
    }
    text
}

/// One line per phase.
pub(super) fn phases(phases: &[Phase]) -> String {
    let size = |value: Option<ProfileValue>| {
        value.map_or("-".to_owned(), |value| Bytes(value.value() as u64).to_string())
    };
    let mut text =
        "\n   phase  share  footprint   work. set  LLC accesses /1000       bandwidth\n".to_owned();
    for (idx, phase) in phases.iter().enumerate() {
        let accesses = phase.llc_accesses.map_or("-".to_owned(), |n| format!("{:.2}", n.value()));
        let traffic = phase.bandwidth.map_or("-".to_owned(), |_| size(phase.bandwidth) + "/s");
        text += &format!(
            "{:>8} {:>4.0} % {:>10} {:>10} {:>19}  {:>14}\n",
            idx + 1,
            phase.share.value() * 100.0,
            size(phase.footprint_bytes),
            size(phase.working_set_bytes),
            accesses,
            traffic
        );
    }
    text
}

/// Data references of the segment: time to the right, touched lines upwards without gaps.
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

/// Wraps a text at 80 columns and indents all lines but the first.
pub(super) fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("has at least one line");
        match last.chars().count() + 1 + word.chars().count() {
            _ if last.is_empty() => last.push_str(word),
            width if width <= WIDTH => *last += &format!(" {word}"),
            _ => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn long_notes_are_wrapped() {
        let text = wrapped(&"word ".repeat(60));
        assert!(
            text.lines().all(|line| line.len() <= WIDTH) && text.lines().count() == 4,
            "{text}"
        );
    }
}
