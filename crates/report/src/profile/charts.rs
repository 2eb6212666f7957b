//! The pictures themselves.

use std::collections::{BTreeMap, BTreeSet};

use profiler::{AccessPattern, Window};
use program::Profile;
use program::profile::CurvePoint;

use super::svg::Drawing;
use crate::format;

/// Misses and write-backs over cache size, a colour for each phase.
pub(super) fn curves(profile: &Profile) -> String {
    let all = || profile.phases.iter().flat_map(|phase| phase.curve.points());
    let log = |point: &CurvePoint| (point.cache.0.max(1) as f64).log2();
    let low = all().map(log).fold(f64::INFINITY, f64::min);
    let high = all().map(log).fold(low + 1.0, f64::max);
    let top = all().map(|point| point.misses + point.error.unwrap_or(0.0)).fold(0.0, f64::max);
    if !low.is_finite() {
        return "<p class=\"empty\">There is no curve.</p>".to_owned();
    }
    let scale = Scale::to(top);
    let top = scale.top();
    let mut drawing = Drawing::new("misses per 1000 instructions over cache size");
    scale.draw(&mut drawing, "");
    for exponent in (low.ceil() as u32..=high as u32).step_by(2) {
        let label = base::Bytes(1 << exponent.min(63)).to_string().replace(".0 ", " ");
        drawing.below((f64::from(exponent) - low) / (high - low), &label);
    }
    for (colour, phase) in profile.phases.iter().enumerate() {
        let line = |figure: &dyn Fn(&CurvePoint) -> f64| -> Vec<(f64, f64)> {
            let place =
                |point: &CurvePoint| ((log(point) - low) / (high - low), figure(point) / top);
            phase.curve.points().iter().map(place).collect()
        };
        let error = |point: &CurvePoint| point.error.unwrap_or(0.0);
        let upper = line(&|point| point.misses + error(point));
        let lower = line(&|point| (point.misses - error(point)).max(0.0));
        drawing.band(&upper, &lower, colour);
        drawing.line(&line(&|point| point.misses), colour, false);
        if phase.curve.points().iter().all(|point| point.write_backs.is_some()) {
            drawing.line(&line(&|point| point.write_backs.unwrap_or(0.0)), colour, true);
        }
    }
    format!("{}{}", legend(profile.phases.len()), drawing.end())
}

/// Which colour is which phase; one phase needs no legend.
fn legend(n_phases: usize) -> String {
    let phase = |idx: usize| {
        let nr = idx + 1;
        format!(
            "<li style=\"--c:var(--c{})\"><span class=\"swatch\"></span>phase {nr}</li>",
            idx % 8
        )
    };
    match n_phases {
        0 | 1 => String::new(),
        n => format!("<ul class=\"legend\">{}</ul>", (0..n).map(phase).collect::<String>()),
    }
}

/// Levels at round figures, from the ground to the first that nothing goes above.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// 1, 2 or 5 times a power of ten, or 2.5.
    step: f64,
    /// Three to five, with few exceptions.
    n_steps: u32,
}

impl Scale {
    fn to(highest: f64) -> Self {
        if !(highest.is_finite() && 0.0 < highest) {
            return Scale { step: 0.25, n_steps: 4 };
        }
        let least = highest / 5.0;
        let power = 10f64.powi(least.log10().floor() as i32);
        let rounds = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
        let step = rounds.into_iter().find(|round| least <= *round).unwrap_or(10.0 * power);
        Scale { step, n_steps: (highest / step).ceil().max(1.0) as u32 }
    }

    fn top(self) -> f64 {
        self.step * f64::from(self.n_steps)
    }

    fn draw(self, drawing: &mut Drawing, unit: &str) {
        // The digits of a step: 2.5 has one more than its power of ten.
        let has_digits = |&digits: &i32| is_whole(self.step * 10f64.powi(digits));
        let digits = (0..12).find(has_digits).unwrap_or(12) as usize;
        for nr in 0..=self.n_steps {
            let value = self.step * f64::from(nr);
            let part = f64::from(nr) / f64::from(self.n_steps);
            drawing.level(part, &format!("{value:.digits$}{unit}"));
        }
    }
}

fn is_whole(number: f64) -> bool {
    (number - number.round()).abs() < 1e-6
}

/// Ranks of lines: their order without the gaps, as parts of 1.
fn ranks(lines: BTreeSet<u64>) -> BTreeMap<u64, f64> {
    let last = lines.len().saturating_sub(1).max(1) as f64;
    lines.into_iter().enumerate().map(|(idx, line)| (line, idx as f64 / last)).collect()
}

/// Every data reference of the stretch.
pub(super) fn stretch(view: &AccessPattern) -> String {
    let dots = view.data_references();
    if dots.is_empty() {
        return "<p class=\"empty\">No data reference was seen.</p>".to_owned();
    }
    let ranks = ranks(dots.iter().map(|dot| dot.line).collect());
    let place = |idx: usize| {
        let height = ranks.get(&dots[idx].line).copied().unwrap_or(0.0);
        (idx as f64 / dots.len() as f64, height)
    };
    let chosen = |writes: bool| -> Vec<(f64, f64)> {
        (0..dots.len()).filter(|&idx| dots[idx].writes == writes).map(place).collect()
    };
    let mut drawing = Drawing::new("lines over time in a short stretch");
    drawing.level(0.0, "0");
    drawing.level(1.0, &format!("{} lines", ranks.len()));
    drawing.below(0.06, "read");
    drawing.below(0.14, "written");
    drawing.below(0.9, &format!("{} references", format::count(dots.len() as u64)));
    drawing.dots(&chosen(false), "read", 2.5);
    drawing.dots(&chosen(true), "write", 2.5);
    // The legend's own dots.
    drawing.dots(&[(0.03, 0.0)], "read", 7.0);
    drawing.dots(&[(0.1, 0.0)], "write", 7.0);
    drawing.end()
}

/// Lines that each window used.
pub(super) fn lines_by_window(windows: &[Window]) -> String {
    let ranks = ranks(windows.iter().flat_map(|window| window.lines.iter().copied()).collect());
    if ranks.is_empty() {
        return "<p class=\"empty\">No line was used.</p>".to_owned();
    }
    let n = windows.len() as f64;
    let places: Vec<(f64, f64)> = windows
        .iter()
        .enumerate()
        .flat_map(|(idx, window)| window.lines.iter().map(move |line| (idx, line)))
        .map(|(idx, line)| ((idx as f64 + 0.5) / n, ranks.get(line).copied().unwrap_or(0.0)))
        .collect();
    let mut drawing = Drawing::new("lines used by each window");
    drawing.level(0.0, "low");
    drawing.level(1.0, "high");
    for idx in 0..windows.len() {
        if windows.len() <= 25 || idx % (windows.len() / 20) == 0 {
            drawing.below((idx as f64 + 0.5) / n, &(idx + 1).to_string());
        }
    }
    drawing.dots(&places, "read", 4.0);
    drawing.end()
}

/// Uses by the octave of their distance.
pub(super) fn reuse(windows: &[Window]) -> String {
    let Some(first) = windows.first() else {
        return "<p class=\"empty\">Nothing was measured.</p>".to_owned();
    };
    let n = first.octaves.len();
    let mut octaves = vec![0u64; n];
    for window in windows {
        octaves.iter_mut().zip(window.octaves).for_each(|(sum, uses)| *sum += uses);
    }
    let all: u64 = octaves.iter().sum();
    // Bars behind the last distance that occurs are left out; first uses stand at the end.
    let last = octaves[..n - 1].iter().rposition(|uses| *uses != 0).map_or(0, |idx| idx + 1);
    let shown: Vec<u64> = octaves[..last].iter().copied().chain([octaves[n - 1]]).collect();
    let share = |uses: u64| uses as f64 / (all as f64).max(1.0);
    let scale = Scale::to(shown.iter().map(|uses| 100.0 * share(*uses)).fold(0.0, f64::max));
    let top = scale.top() / 100.0;
    let mut drawing = Drawing::new("share of uses by reuse distance");
    scale.draw(&mut drawing, " %");
    let width = 1.0 / shown.len() as f64;
    for (idx, uses) in shown.iter().enumerate() {
        let label = match idx {
            _ if idx + 1 == shown.len() => "first".to_owned(),
            0 => "0".to_owned(),
            idx => at_least(1u64 << (idx - 1)),
        };
        let at = idx as f64 * width;
        let said = format!("{label}: {}", format::percent(share(*uses)));
        drawing.bar(at + 0.1 * width, at + 0.9 * width, share(*uses) / top, &said);
        drawing.below(at + 0.5 * width, &label);
    }
    drawing.end()
}

/// A power of two, in few signs: 512, 1 Ki, 64 Ki, 2 Mi.
fn at_least(power: u64) -> String {
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

    /// A page of a program that streams, whose name and command want to break out.
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
    fn a_page_is_whole_and_nothing_breaks_out() {
        for n_references in [0, 1, 3000] {
            let page = page(n_references);
            assert!(!page.contains("<script>") && !page.contains("<b>&<") && !page.contains("<i>"));
            assert!(!page.contains("NaN") && !page.contains("inf"), "{n_references} references");
            assert_eq!(page.matches("<svg class").count(), page.matches("</svg>").count() - 1);
            assert!(page.ends_with("</html>\n"));
        }
        assert_eq!(page(3000).matches("<svg class=\"chart\"").count(), 4);
    }

    #[test]
    fn every_line_has_its_colour_where_the_style_looks_for_it() {
        let page = page(3000);
        assert!(page.contains(".line { fill: none; stroke: var(--c);"), "the style of lines");
        let lines: Vec<&str> = page.split("<path class=\"line\"").skip(1).collect();
        assert!(!lines.is_empty());
        assert!(lines.iter().all(|line| line.starts_with(" style=\"--c:var(--c")), "{lines:?}");
    }

    #[test]
    fn levels_are_round_numbers() {
        let check = |highest: f64, step: f64, n_steps: u32| {
            let scale = Scale::to(highest);
            assert!((scale.step - step).abs() < 1e-9 && scale.n_steps == n_steps, "{scale:?}");
        };
        check(28.3, 10.0, 3);
        check(25.0, 5.0, 5);
        check(9.9, 2.0, 5);
        check(12.0, 2.5, 5);
        check(0.07, 0.02, 4);
        check(0.0, 0.25, 4);
        check(f64::NAN, 0.25, 4);
        let mut drawing = Drawing::new("levels");
        Scale::to(12.0).draw(&mut drawing, " %");
        assert!(drawing.end().contains(">7.5 %<"));
        assert_eq!([1, 512, 1024, 2 << 20].map(at_least), ["1", "512", "1 Ki", "2 Mi"]);
    }
}
