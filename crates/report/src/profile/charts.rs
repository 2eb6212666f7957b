//! The charts of a profile.

use std::collections::{BTreeMap, BTreeSet};

use profiler::{AccessPattern, Window};
use program::Profile;
use program::profile::CurvePoint;

use crate::chart::{Axis, ChartRow, Marks, N_COLOURS, Plot, RowChart};
use crate::format;
use crate::page::{empty, legend};

/// Draws misses and write-backs over cache size, with a colour per phase.
pub(super) fn misses(profile: &Profile) -> String {
    let points = || profile.phases.iter().flat_map(|phase| phase.curve.points());
    let low = points().map(log_size).fold(f64::INFINITY, f64::min);
    let high = points().map(log_size).fold(low + 1.0, f64::max);
    if !low.is_finite() {
        return empty("The profile has no miss-ratio curve.");
    }
    let ticks = (low.ceil() as u32..=high as u32).step_by(2).map(|exponent| {
        let size = base::Bytes(1 << exponent.min(63)).to_string().replace(".0 ", " ");
        (f64::from(exponent), size)
    });
    let across = Axis::new("cache size", (low, high)).with_ticks(ticks);
    let up = Axis::from_zero(
        "misses per 1000 instructions",
        points().map(|point| point.misses + error(point)),
    );
    let mut plot = Plot::new("Misses per 1000 instructions over cache size", across, up);
    for (idx, phase) in profile.phases.iter().enumerate() {
        miss_curve(&mut plot, phase.curve.points(), idx % N_COLOURS);
    }
    phase_legend(profile.phases.len()) + &plot.to_html()
}

fn log_size(point: &CurvePoint) -> f64 {
    (point.cache.0.max(1) as f64).log2()
}

fn error(point: &CurvePoint) -> f64 {
    point.error.unwrap_or(0.0)
}

/// Draws the misses of a phase with their error, and its write-backs.
fn miss_curve(plot: &mut Plot, points: &[CurvePoint], series: usize) {
    let mut line = |class: &str, value: &dyn Fn(&CurvePoint) -> f64| {
        let line = plot.positions(points.iter().map(|point| (log_size(point), value(point))));
        if !class.is_empty() {
            plot.marks().polyline(&format!("{class} s{series}"), &line);
        }
        line
    };
    let upper = line("", &|point| point.misses + error(point));
    let lower = line("", &|point| (point.misses - error(point)).max(0.0));
    line("line", &|point| point.misses);
    if points.iter().all(|point| point.write_backs.is_some()) {
        line("line dashed", &|point| point.write_backs.unwrap_or(0.0));
    }
    plot.marks().area(&format!("band s{series}"), &upper, &lower);
}

/// Returns the colours of the phases. A single phase needs no legend.
fn phase_legend(n_phases: usize) -> String {
    let swatch = |idx: usize| {
        let (colour, nr) = (idx % N_COLOURS, idx + 1);
        format!("<i class=\"swatch\" style=\"--c:var(--c{colour})\"></i>phase {nr}")
    };
    if n_phases < 2 { String::new() } else { legend((0..n_phases).map(swatch)) }
}

/// Returns the rank of each line in address order, so that gaps between lines are omitted.
fn ranks(lines: BTreeSet<u64>) -> BTreeMap<u64, f64> {
    lines.into_iter().enumerate().map(|(idx, line)| (line, idx as f64)).collect()
}

/// Returns an axis over the ranks of cache lines.
fn rank_axis(ranks: &BTreeMap<u64, f64>) -> Axis {
    let last = ranks.len().saturating_sub(1).max(1) as f64;
    let ticks = [(0.0, "1".to_owned()), (last, format::count(ranks.len() as u64))];
    Axis::new("cache line, by address", (0.0, last)).with_ticks(ticks)
}

/// Draws all data references of a short interval.
pub(super) fn pattern(pattern: &AccessPattern) -> String {
    let references = pattern.data_references();
    if references.is_empty() {
        return empty("No data reference was measured.");
    }
    let ranks = ranks(references.iter().map(|reference| reference.line).collect());
    let n = references.len();
    let ticks = [(0.0, "1".to_owned()), (n as f64, format::count(n as u64))];
    let across = Axis::new("data reference", (0.0, n as f64)).with_ticks(ticks);
    let mut plot = Plot::new("Cache lines of consecutive references", across, rank_axis(&ranks));
    for (class, writes) in [("read", false), ("write", true)] {
        let of_kind = references.iter().enumerate().filter(|(_, one)| one.writes == writes);
        let points = plot.positions(of_kind.map(|(idx, one)| (idx as f64, ranks[&one.line])));
        plot.marks().squares(class, &points);
    }
    let key = |(colour, text): (usize, &str)| {
        format!("<i class=\"swatch\" style=\"--c:var(--c{colour})\"></i>{text}")
    };
    legend([(0, "read"), (5, "written")].map(key)) + &plot.to_html()
}

pub(super) fn lines_by_window(windows: &[Window]) -> String {
    let ranks = ranks(windows.iter().flat_map(|window| window.lines.iter().copied()).collect());
    if ranks.is_empty() {
        return empty("No line was used.");
    }
    let step = windows.len().div_ceil(12);
    let ticks = (0..windows.len()).step_by(step).map(|idx| (idx as f64, (idx + 1).to_string()));
    let ends = (-0.5, windows.len() as f64 - 0.5);
    let across = Axis::new("window, in the order of the run", ends).with_ticks(ticks);
    let mut plot = Plot::new("Cache lines of each window", across, rank_axis(&ranks));
    let used = windows
        .iter()
        .enumerate()
        .flat_map(|(idx, window)| window.lines.iter().map(move |line| (idx as f64, line)));
    let points = plot.positions(used.map(|(idx, line)| (idx, ranks[line])));
    plot.marks().squares("read", &points);
    plot.to_html()
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
    let n_uses = (octaves.iter().sum::<u64>() as f64).max(1.0);
    // Bars beyond the longest distance are omitted; first uses are the last bar.
    let last = octaves[..n - 1].iter().rposition(|uses| *uses != 0).map_or(0, |idx| idx + 1);
    let bars = octaves[..last].iter().copied().chain([octaves[n - 1]]);
    let shares: Vec<f64> = bars.map(|uses| uses as f64 / n_uses).collect();
    let axis = Axis::from_zero("share of uses (%)", shares.iter().map(|share| 100.0 * share));
    let row = |(idx, share): (usize, &f64)| {
        let mut marks = Marks::default();
        marks.bar("bar plain", (0.0, axis.share(100.0 * share)), 0.5, "");
        ChartRow { name: distance(idx, shares.len()), marks, value: format::percent(*share) }
    };
    let chart = RowChart {
        label: "Share of uses by reuse distance",
        heads: ("Distance (lines)", "Share"),
        axis: &axis,
        reference: None,
        n_lines: 1,
    };
    chart.to_html(shares.iter().enumerate().map(row))
}

/// Returns the name of a bar: the smallest distance of its octave.
fn distance(idx: usize, n_bars: usize) -> String {
    match idx {
        _ if idx + 1 == n_bars => "first use".to_owned(),
        0 => "0".to_owned(),
        idx => power_of_two(1u64 << (idx - 1)),
    }
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
        super::super::page(
            &profile,
            meter.windows(),
            meter.access_pattern(),
            &["<i>".to_owned()],
            Some("profile -- '<i>'"),
        )
    }

    #[test]
    fn a_page_is_complete_and_its_text_is_escaped() {
        for n_references in [0, 1, 3000] {
            let page = page(n_references);
            assert!(!page.contains("<script>") && !page.contains("<b>&<") && !page.contains("<i>"));
            assert!(!page.contains("NaN") && !page.contains("inf"), "{n_references} references");
            assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
            assert!(page.ends_with("</html>\n"));
        }
        assert_eq!(page(3000).matches("<svg class=\"plot\" role=\"img\"").count(), 3);
    }

    #[test]
    fn every_line_has_a_colour_that_the_styles_define() {
        let page = page(3000);
        assert!(page.contains(".plot .line { fill: none; stroke: var(--s);"), "the style of lines");
        assert!(page.contains(".s0 { --s: var(--c0); }"), "the style of the first series");
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
