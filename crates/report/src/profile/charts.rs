//! The charts of a profile.

use std::collections::{BTreeMap, BTreeSet};

use profiler::{AccessPattern, Window};
use program::Profile;
use program::profile::CurvePoint;

use crate::chart::{Axis, Chart};
use crate::format;
use crate::page::{empty, legend};

/// Size of a chart and margins for its labels, in pixels.
const SIZE: (f64, f64) = (1000.0, 320.0);
const ACROSS: (f64, f64) = (84.0, SIZE.0 - 12.0);
const UP: (f64, f64) = (SIZE.1 - 34.0, 10.0);
/// Number of intervals between ticks.
const N_TICKS: usize = 5;

fn chart(label: &str) -> Chart {
    Chart::new(label, SIZE.0, SIZE.1)
}

fn label_below(chart: &mut Chart, x: f64, text: &str) {
    chart.label("tick", "middle", (x, UP.0 + 20.0), text);
}

/// Draws misses and write-backs over cache size, with a colour per phase.
pub(super) fn misses(profile: &Profile) -> String {
    let points = || profile.phases.iter().flat_map(|phase| phase.curve.points());
    let log = |point: &CurvePoint| (point.cache.0.max(1) as f64).log2();
    let error = |point: &CurvePoint| point.error.unwrap_or(0.0);
    let low = points().map(log).fold(f64::INFINITY, f64::min);
    let high = points().map(log).fold(low + 1.0, f64::max);
    if !low.is_finite() {
        return empty("The profile has no miss-ratio curve.");
    }
    let across = Axis::new((low, high), ACROSS);
    let up = Axis::from_zero(points().map(|point| point.misses + error(point)), N_TICKS, UP);
    let mut chart = chart("misses per 1000 instructions over cache size");
    chart.levels(&up, ACROSS, N_TICKS, "");
    for exponent in (low.ceil() as u32..=high as u32).step_by(2) {
        let label = base::Bytes(1 << exponent.min(63)).to_string().replace(".0 ", " ");
        label_below(&mut chart, across.coordinate(f64::from(exponent)), &label);
    }
    for (idx, phase) in profile.phases.iter().enumerate() {
        let line = |value: &dyn Fn(&CurvePoint) -> f64| -> Vec<(f64, f64)> {
            let place =
                |point: &CurvePoint| (across.coordinate(log(point)), up.coordinate(value(point)));
            phase.curve.points().iter().map(place).collect()
        };
        let series = idx % 8;
        let upper = line(&|point| point.misses + error(point));
        let lower = line(&|point| (point.misses - error(point)).max(0.0));
        chart.area(&format!("band s{series}"), &upper, &lower);
        chart.polyline(&format!("line s{series}"), &line(&|point| point.misses));
        if phase.curve.points().iter().all(|point| point.write_backs.is_some()) {
            let write_backs = line(&|point| point.write_backs.unwrap_or(0.0));
            chart.polyline(&format!("line dashed s{series}"), &write_backs);
        }
    }
    phase_legend(profile.phases.len()) + &chart.end_wide()
}

/// Returns the colours of the phases. A single phase needs no legend.
fn phase_legend(n_phases: usize) -> String {
    let swatch = |idx: usize| {
        let (colour, nr) = (idx % 8, idx + 1);
        format!("<span class=\"swatch\" style=\"--c:var(--c{colour})\"></span>phase {nr}")
    };
    if n_phases < 2 { String::new() } else { legend((0..n_phases).map(swatch)) }
}

/// Returns the rank of each line in address order, so that gaps between lines are omitted.
fn ranks(lines: BTreeSet<u64>) -> BTreeMap<u64, f64> {
    lines.into_iter().enumerate().map(|(idx, line)| (line, idx as f64)).collect()
}

/// Returns an axis from the lowest to the highest rank.
fn rank_axis(ranks: &BTreeMap<u64, f64>) -> Axis {
    Axis::new((0.0, ranks.len().saturating_sub(1).max(1) as f64), UP)
}

/// Draws a grid line with a label at each end of the vertical axis.
fn label_ends(chart: &mut Chart, low: &str, high: &str) {
    for (y, text) in [(UP.0, low), (UP.1, high)] {
        chart.line("grid", (ACROSS.0, y), (ACROSS.1, y));
        chart.label("tick", "end", (ACROSS.0 - 6.0, y + 4.0), text);
    }
}

/// Draws all data references of a short interval.
pub(super) fn pattern(pattern: &AccessPattern) -> String {
    let references = pattern.data_references();
    if references.is_empty() {
        return empty("No data reference was measured.");
    }
    let ranks = ranks(references.iter().map(|reference| reference.line).collect());
    let up = rank_axis(&ranks);
    let across = Axis::new((0.0, references.len() as f64), ACROSS);
    let points = |writes: bool| -> Vec<(f64, f64)> {
        let of_kind = references.iter().enumerate().filter(|(_, one)| one.writes == writes);
        of_kind
            .map(|(idx, one)| (across.coordinate(idx as f64), up.coordinate(ranks[&one.line])))
            .collect()
    };
    let mut chart = chart("lines over time in a short interval");
    label_ends(&mut chart, "0", &format!("{} lines", ranks.len()));
    let n_references = format::count(references.len() as u64);
    label_below(&mut chart, 910.0, &format!("{n_references} references"));
    for (class, writes, x, label) in
        [("read", false, 111.0, "read"), ("write", true, 174.0, "written")]
    {
        chart.squares(class, &points(writes), 2.5);
        // An entry of the legend.
        chart.squares(class, &[(x, UP.0 + 16.0)], 7.0);
        chart.label("tick", "start", (x + 8.0, UP.0 + 20.0), label);
    }
    chart.end_wide()
}

pub(super) fn lines_by_window(windows: &[Window]) -> String {
    let ranks = ranks(windows.iter().flat_map(|window| window.lines.iter().copied()).collect());
    if ranks.is_empty() {
        return empty("No line was used.");
    }
    let up = rank_axis(&ranks);
    let across = Axis::new((-0.5, windows.len() as f64 - 0.5), ACROSS);
    let points: Vec<(f64, f64)> = windows
        .iter()
        .enumerate()
        .flat_map(|(idx, window)| window.lines.iter().map(move |line| (idx as f64, line)))
        .map(|(idx, line)| (across.coordinate(idx), up.coordinate(ranks[line])))
        .collect();
    let mut chart = chart("lines used by each window");
    label_ends(&mut chart, "low", "high");
    for idx in 0..windows.len() {
        if windows.len() <= 25 || idx % (windows.len() / 20) == 0 {
            label_below(&mut chart, across.coordinate(idx as f64), &(idx + 1).to_string());
        }
    }
    chart.squares("read", &points, 4.0);
    chart.end_wide()
}

/// Draws shares of uses by reuse distance, in powers of two.
pub(super) fn reuse_distances(windows: &[Window]) -> String {
    let Some(first) = windows.first() else {
        return empty("No window was measured.");
    };
    let n = first.octaves.len();
    let mut octaves = vec![0u64; n];
    for window in windows {
        octaves.iter_mut().zip(window.octaves).for_each(|(sum, uses)| *sum += uses);
    }
    let n_uses: u64 = octaves.iter().sum();
    // Bars beyond the longest distance are omitted; first uses are the last bar.
    let last = octaves[..n - 1].iter().rposition(|uses| *uses != 0).map_or(0, |idx| idx + 1);
    let bars = octaves[..last].iter().copied().chain([octaves[n - 1]]);
    let shares: Vec<f64> = bars.map(|uses| uses as f64 / (n_uses as f64).max(1.0)).collect();
    let up = Axis::from_zero(shares.iter().map(|share| 100.0 * share), N_TICKS, UP);
    let across = Axis::new((0.0, shares.len() as f64), ACROSS);
    let mut chart = chart("share of uses by reuse distance");
    chart.levels(&up, ACROSS, N_TICKS, " %");
    for (idx, share) in shares.iter().enumerate() {
        let label = match idx {
            _ if idx + 1 == shares.len() => "first".to_owned(),
            0 => "0".to_owned(),
            idx => power_of_two(1u64 << (idx - 1)),
        };
        let [left, middle, right] = [0.1, 0.5, 0.9].map(|at| across.coordinate(idx as f64 + at));
        let top = up.coordinate(100.0 * share);
        let tooltip = format!("{label}: {}", format::percent(*share));
        chart.titled_rect("bar0", (left, top), (right - left, UP.0 - top), &tooltip);
        label_below(&mut chart, middle, &label);
    }
    chart.end_wide()
}

/// Returns a power of two with a prefix: 512, 1 Ki, 64 Ki, 2 Mi.
fn power_of_two(power: u64) -> String {
    match power {
        0..1024 => power.to_string(),
        1024..1_048_576 => format!("{} Ki", power >> 10),
        _ => format!("{} Mi", power >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler::{Reference, ReferenceKind, Sampling, WindowMeter, WindowPlan};

    /// Returns a page of a streaming program with markup in its name and its command.
    fn page(n_references: u64) -> String {
        let plan = WindowPlan { window: 500, n_windows: 4, ..WindowPlan::default() };
        let mut meter = WindowMeter::new(plan, Sampling::FixedRate(0));
        for nr in 0..n_references {
            let kind = if nr % 3 == 0 { ReferenceKind::Store } else { ReferenceKind::Load };
            meter.take(Reference { kind, address: 64 * nr, size: 8 });
            meter.take(Reference { kind: ReferenceKind::Fetch, address: 4 * (nr % 8), size: 4 });
        }
        meter.finish();
        let phases = profiler::phase_from_windows(meter.windows(), 1.0, 0.5).into_iter().collect();
        let profile = program::Profile {
            name: "<b>&".to_owned(),
            command: vec!["</svg><script>".to_owned()],
            phases,
            ..program::Profile::default()
        };
        super::super::page(&profile, meter.windows(), meter.access_pattern(), &["<i>".to_owned()])
    }

    #[test]
    fn a_page_is_complete_and_its_text_is_escaped() {
        for n_references in [0, 1, 3000] {
            let page = page(n_references);
            assert!(!page.contains("<script>") && !page.contains("<b>&<") && !page.contains("<i>"));
            assert!(!page.contains("NaN") && !page.contains("inf"), "{n_references} references");
            assert_eq!(page.matches("<svg class").count(), page.matches("</svg>").count() - 1);
            assert!(page.ends_with("</html>\n"));
        }
        assert_eq!(page(3000).matches("<svg class=\"plot\"").count(), 4);
    }

    #[test]
    fn every_line_has_a_colour_that_the_styles_define() {
        let page = page(3000);
        assert!(
            page.contains("svg.plot .line { fill: none; stroke: var(--s);"),
            "the style of lines"
        );
        assert!(page.contains("svg.plot .s0 { --s: var(--c0); }"), "the style of the first series");
        let lines: Vec<&str> = page.split("<path class=\"line").skip(1).collect();
        assert!(!lines.is_empty());
        assert!(
            lines.iter().all(|line| line.starts_with([' ']) && line.contains("s0\"")),
            "{lines:?}"
        );
    }

    #[test]
    fn distances_have_short_labels() {
        assert_eq!([1, 512, 1024, 2 << 20].map(power_of_two), ["1", "512", "1 Ki", "2 Mi"]);
    }
}
