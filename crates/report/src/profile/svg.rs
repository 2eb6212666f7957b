//! A chart's frame: a drawing with axes, in its own units.

use std::fmt::Write;

/// Units of a drawing: it is scaled to the page.
pub(super) const WIDTH: f64 = 1000.0;
/// See [`WIDTH`].
pub(super) const HEIGHT: f64 = 320.0;
/// Room left, right, above and below for labels.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BELOW: f64 = 34.0;

/// A drawing that grows; places in it are parts of the plane, 0 to 1, from the lower left.
pub(super) struct Drawing {
    text: String,
}

impl Drawing {
    pub fn new(label: &str) -> Self {
        let text = format!(
            "<div class=\"wide\" tabindex=\"0\"><svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">"
        );
        Drawing { text }
    }

    pub fn x(part: f64) -> f64 {
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    pub fn y(part: f64) -> f64 {
        HEIGHT - BELOW - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BELOW)
    }

    /// A line across with its label on the left.
    pub fn level(&mut self, part: f64, label: &str) {
        let (from, to, y) = (Self::x(0.0), Self::x(1.0), Self::y(part));
        let _ = write!(
            self.text,
            "<path class=\"grid\" d=\"M{from:.1} {y:.1}H{to:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            from - 8.0,
            y + 4.0
        );
    }

    /// A label below.
    pub fn below(&mut self, part: f64, label: &str) {
        let (x, y) = (Self::x(part), HEIGHT - BELOW + 20.0);
        let _ = write!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>"
        );
    }

    /// A line through places, in one of the page's colours. The page's style takes the colour of a line
    /// from `--c`, and a style goes before an attribute `stroke`.
    pub fn line(&mut self, places: &[(f64, f64)], colour: usize, dashed: bool) {
        let dash = if dashed { " stroke-dasharray=\"5 5\"" } else { "" };
        let path = path(places);
        let _ = write!(
            self.text,
            "<path class=\"line\" style=\"--c:var(--c{})\"{dash} d=\"{path}\"/>",
            colour % 8
        );
    }

    /// The plane between two lines.
    pub fn band(&mut self, upper: &[(f64, f64)], lower: &[(f64, f64)], colour: usize) {
        let around: Vec<(f64, f64)> = upper.iter().chain(lower.iter().rev()).copied().collect();
        let path = path(&around);
        let _ = write!(
            self.text,
            "<path class=\"band\" fill=\"var(--c{})\" d=\"{path}Z\"/>",
            colour % 8
        );
    }

    /// Small squares, all in one path: thousands of them must stay a small file.
    pub fn dots(&mut self, places: &[(f64, f64)], class: &str, size: f64) {
        let mut path = String::new();
        for (x, y) in places {
            let (x, y) = (Self::x(*x) - size / 2.0, Self::y(*y) - size / 2.0);
            let _ = write!(path, "M{x:.1} {y:.1}h{size}v{size}h-{size}z");
        }
        let _ = write!(self.text, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// A bar from the ground, between two parts of the width.
    pub fn bar(&mut self, from: f64, to: f64, height: f64, label: &str) {
        let (x, y) = (Self::x(from), Self::y(height));
        let (width, ground) = (Self::x(to) - x, Self::y(0.0));
        let _ = write!(
            self.text,
            "<rect class=\"bar0\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\"><title>{label}</title></rect>",
            ground - y
        );
    }

    pub fn end(mut self) -> String {
        self.text.push_str("</svg></div>");
        self.text
    }
}

fn path(places: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (idx, (x, y)) in places.iter().enumerate() {
        let pen = if idx == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{pen}{:.1} {:.1}", Drawing::x(*x), Drawing::y(*y));
    }
    path
}
