//! Charts as SVG: axes with round ticks, marks and labels.
//!
//! A chart has pixel coordinates of its own and is scaled to the page. Its classes are styled by [`CSS`].
//! Each colour is accompanied by a shape, a value or a word.

use std::fmt::Write;

use crate::page::escape;

/// Styles of charts, heat maps and panels, in addition to the styles of a run's page.
pub(crate) const CSS: &str = include_str!("chart.css");

/// A chart under construction.
pub(crate) struct Chart {
    svg: String,
}

/// A linear scale from values to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// Creates an axis that covers all values with a margin, and the value `included`. Values that are not finite are
    /// ignored.
    pub fn covering(
        values: impl Iterator<Item = f64>,
        included: Option<f64>,
        pixels: (f64, f64),
    ) -> Self {
        let (from, to) = range(values.chain(included));
        let margin = if from == to { (from.abs() / 10.0).max(0.05) } else { (to - from) * 0.04 };
        Axis { from: from - margin, to: to + margin, start: pixels.0, end: pixels.1 }
    }

    /// Creates an axis from one value to another value.
    pub fn new((from, to): (f64, f64), pixels: (f64, f64)) -> Self {
        Axis { from, to, start: pixels.0, end: pixels.1 }
    }

    /// Creates an axis from zero to the first tick that no value exceeds.
    pub fn from_zero(
        values: impl Iterator<Item = f64>,
        n_ticks: usize,
        pixels: (f64, f64),
    ) -> Self {
        let (_, highest) = range(values.chain([0.0]));
        let highest = if highest == 0.0 { 1.0 } else { highest };
        let step = round_step(highest / n_ticks.max(1) as f64);
        Axis { from: 0.0, to: step * (highest / step).ceil(), start: pixels.0, end: pixels.1 }
    }

    /// Returns the coordinate of a value. Values outside the axis are drawn at its ends.
    pub fn coordinate(&self, value: f64) -> f64 {
        let share = (value - self.from) / (self.to - self.from);
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Returns about `n` round values, and their number of digits after the point.
    pub fn ticks(&self, n: usize) -> (Vec<f64>, usize) {
        let step = round_step((self.to - self.from) / n.max(1) as f64);
        let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        // Rounding errors of huge values would give billions of ticks.
        if 100 < last.saturating_sub(first) {
            return (Vec::new(), 0);
        }
        ((first..=last).map(|nr| nr as f64 * step).collect(), digits)
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

/// Returns the smallest number that is at least `min` and is 1, 2 or 5 times a power of ten.
fn round_step(min: f64) -> f64 {
    let power = 10f64.powi(min.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| min <= *step).unwrap_or(10.0 * power)
}

impl Chart {
    pub fn new(label: &str, width: f64, height: f64) -> Self {
        let label = escape(label);
        let svg = format!(
            "<svg class=\"plot\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{label}\">"
        );
        Chart { svg }
    }

    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.polyline(class, &[from, to]);
    }

    /// Draws a line through points.
    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let path = path(points);
        let _ = write!(self.svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// Draws the area between two lines.
    pub fn area(&mut self, class: &str, upper: &[(f64, f64)], lower: &[(f64, f64)]) {
        let outline: Vec<(f64, f64)> = upper.iter().chain(lower.iter().rev()).copied().collect();
        let path = path(&outline);
        let _ = write!(self.svg, "<path class=\"{class}\" d=\"{path}Z\"/>");
    }

    pub fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64)) {
        self.titled_rect(class, corner, size, "");
    }

    /// Draws a rectangle with a tooltip.
    pub fn titled_rect(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        tooltip: &str,
    ) {
        let (width, title) = (width.max(0.0), title(tooltip));
        let _ = write!(
            self.svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{title}</rect>"
        );
    }

    /// Draws a circle with a tooltip.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, tooltip: &str) {
        let title = title(tooltip);
        let _ = write!(
            self.svg,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\">{title}</circle>"
        );
    }

    /// Draws small squares as one path, so that thousands of squares need few bytes.
    pub fn squares(&mut self, class: &str, points: &[(f64, f64)], size: f64) {
        let mut path = String::new();
        for (x, y) in points {
            let (x, y) = (x - size / 2.0, y - size / 2.0);
            let _ = write!(path, "M{x:.1} {y:.1}h{size}v{size}h-{size}z");
        }
        let _ = write!(self.svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    pub fn diamond(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let corners = [(x - radius, y), (x, y - radius), (x + radius, y), (x, y + radius)];
        self.area(class, &corners, &[]);
    }

    /// Draws a text. `anchor` is start, middle or end.
    pub fn label(&mut self, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        let _ = write!(
            self.svg,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// Draws a right-aligned name, truncated to `n_letters`. The tooltip contains the whole name.
    pub fn name(&mut self, (x, y): (f64, f64), text: &str, n_letters: usize) {
        let (name, title) = (escape(&crate::table::cut(text, n_letters)), title(text));
        let _ = write!(
            self.svg,
            "<text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{name}{title}</text>"
        );
    }

    /// Draws vertical grid lines at the ticks of an axis, with labels below.
    pub fn grid(&mut self, axis: &Axis, (top, bottom): (f64, f64), n: usize, unit: &str) {
        let (ticks, digits) = axis.ticks(n);
        for tick in ticks {
            let x = axis.coordinate(tick);
            self.line("grid", (x, top), (x, bottom));
            self.label("tick", "middle", (x, bottom + 15.0), &format!("{tick:.digits$}{unit}"));
        }
    }

    /// Draws horizontal grid lines at the ticks of a vertical axis, with labels on the left.
    pub fn levels(&mut self, axis: &Axis, (left, right): (f64, f64), n: usize, unit: &str) {
        let (ticks, digits) = axis.ticks(n);
        for tick in ticks {
            let y = axis.coordinate(tick);
            self.line("grid", (left, y), (right, y));
            self.label("tick", "end", (left - 6.0, y + 4.0), &format!("{tick:.digits$}{unit}"));
        }
    }

    pub fn end(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }

    /// Returns the chart in a box that scrolls on narrow screens.
    pub fn end_wide(self) -> String {
        format!("<div class=\"wide\" tabindex=\"0\">{}</div>", self.end())
    }
}

/// Layout of a chart with one row per name: the names on the left, and headers above the columns.
pub(crate) struct RowLayout {
    pub width: f64,
    /// Width of the names in pixels and in letters.
    pub left: f64,
    pub n_letters: usize,
    /// Height of the headers.
    pub top: f64,
    pub row: f64,
}

impl RowLayout {
    pub fn chart<'a>(&self, label: &str, names: impl ExactSizeIterator<Item = &'a str>) -> Chart {
        let mut chart = Chart::new(label, self.width, self.bottom(names.len()) + 24.0);
        for (row, name) in names.enumerate() {
            chart.name((self.left - 10.0, self.y(row) + 4.0), name, self.n_letters);
        }
        chart
    }

    /// Returns the vertical position of the middle of a row.
    pub fn y(&self, row: usize) -> f64 {
        self.top + self.row * (row as f64 + 0.5)
    }

    pub fn bottom(&self, n_rows: usize) -> f64 {
        self.top + self.row * n_rows as f64
    }
}

/// Draws a table of cells coloured by value; the cells are `td` elements.
pub(crate) fn heat_table<'a>(
    class: &str,
    heads: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = (&'a str, String)>,
) -> String {
    let head = |name: &str| format!("<th scope=\"col\">{}</th>", escape(name));
    let heads: String = heads.into_iter().map(head).collect();
    let row = |(name, cells): (&str, String)| {
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(name))
    };
    let rows: String = rows.into_iter().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"{class}\"><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )
}

/// Returns the style of a cell of a heat map. `share` is the share of the full colour, from 0 to 1; larger values count
/// as 1.
pub(crate) fn heat(share: f64, is_good: bool) -> String {
    /// Percentage of the colour if `share` is 1. The text keeps its contrast up to this percentage.
    const FULL_PERCENT: f64 = 60.0;
    let side = if is_good { "good" } else { "bad" };
    format!("--h:{:.0}%;--s:var(--{side})", share.min(1.0) * FULL_PERCENT)
}

/// Draws charts with captions, next to each other.
pub(crate) fn panels(panels: impl Iterator<Item = (String, String)>) -> String {
    let panels: String = panels.map(|(caption, chart)| captioned(&caption, &chart)).collect();
    format!("<div class=\"panels\">{panels}</div>")
}

fn captioned(caption: &str, chart: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>{chart}</figure>", escape(caption))
}

fn title(tooltip: &str) -> String {
    if tooltip.is_empty() {
        return String::new();
    }
    format!("<title>{}</title>", escape(tooltip))
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (idx, (x, y)) in points.iter().enumerate() {
        let command = if idx == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{x:.1} {y:.1}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: Axis) -> Vec<String> {
        let (ticks, digits) = axis.ticks(5);
        ticks.iter().map(|tick| format!("{tick:.digits$}")).collect()
    }

    #[test]
    fn an_axis_covers_its_values_and_its_ticks_are_round() {
        let axis = Axis::covering([0.83, 1.27].into_iter(), Some(1.0), (0.0, 100.0));
        assert_eq!(ticks(axis), ["0.9", "1.0", "1.1", "1.2"]);
        assert!(0.0 < axis.coordinate(0.83) && axis.coordinate(1.27) < 100.0);
    }

    #[test]
    fn an_axis_from_zero_ends_at_the_first_tick_that_no_value_exceeds() {
        let check = |highest: f64, expected: &[&str]| {
            assert_eq!(ticks(Axis::from_zero([highest].into_iter(), 5, (100.0, 0.0))), expected);
        };
        check(28.3, &["0", "10", "20", "30"]);
        check(25.0, &["0", "5", "10", "15", "20", "25"]);
        check(9.9, &["0", "2", "4", "6", "8", "10"]);
        check(0.07, &["0.00", "0.02", "0.04", "0.06", "0.08"]);
        check(0.0, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        check(f64::NAN, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn axes_of_equal_or_no_values_are_valid() {
        for values in [vec![], vec![1.0], vec![f64::NAN], vec![0.0, 0.0]] {
            let axis = Axis::covering(values.into_iter(), None, (0.0, 10.0));
            assert!(axis.coordinate(0.5).is_finite());
            assert!(axis.ticks(4).0.len() < 20);
        }
    }
}
