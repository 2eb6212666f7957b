//! Marks in a drawing whose coordinates are shares of its width and height.
//!
//! The drawing has the width of its column, and the sizes of text, circles and lines do not scale with it. SVG allows
//! percentages for circles, lines, rectangles and texts. Paths have no percentages: their drawing is stretched, but not
//! the width of their lines (`vector-effect`).

use std::fmt::Write;

use crate::page::escape;

/// A position: shares of the width, from the left, and of the height, from the top.
pub(crate) type Position = (f64, f64);

/// Marks of a drawing.
#[derive(Default)]
pub(crate) struct Marks {
    svg: String,
}

fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').to_owned() + "%"
}

impl Marks {
    pub fn line(&mut self, class: &str, (x1, y1): Position, (x2, y2): Position) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(percent);
        let _ = write!(
            self.svg,
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        );
    }

    /// Draws a bar of 14 pixels between two positions of a row.
    pub fn bar(&mut self, class: &str, (from, to): (f64, f64), y: f64, tooltip: &str) {
        let (left, width, y) = (percent(from.min(to)), percent((to - from).abs()), percent(y));
        let _ = write!(
            self.svg,
            "<rect class=\"{class}\" x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"14\" transform=\"translate(0 -7)\">{}</rect>",
            title(tooltip)
        );
    }

    /// Draws a mark of a shape around a position.
    pub fn mark(&mut self, class: &str, shape: Shape, (x, y): Position, tooltip: &str) {
        let [x, y] = [x, y].map(percent);
        let (path, title) = (shape.path(), title(tooltip));
        let _ = write!(
            self.svg,
            "<svg class=\"at\" x=\"{x}\" y=\"{y}\"><path class=\"{class}\" d=\"{path}\">{title}</path></svg>"
        );
    }

    /// Draws a line through points.
    pub fn polyline(&mut self, class: &str, points: &[Position]) {
        self.scaled_path(class, &path(points));
    }

    /// Draws the area between two lines.
    pub fn area(&mut self, class: &str, upper: &[Position], lower: &[Position]) {
        let outline: Vec<Position> = upper.iter().chain(lower.iter().rev()).copied().collect();
        self.scaled_path(class, &(path(&outline) + "Z"));
    }

    /// Draws small squares as one path of short lines with square caps, so that thousands of squares need few bytes.
    pub fn squares(&mut self, class: &str, points: &[Position]) {
        let dot = |(x, y): &Position| format!("M{:.0} {:.0}h1", 10_000.0 * x, 10_000.0 * y);
        self.scaled_path(class, &points.iter().map(dot).collect::<String>());
    }

    /// Draws a path with coordinates up to 10 000.
    fn scaled_path(&mut self, class: &str, path: &str) {
        let _ = write!(
            self.svg,
            "<svg class=\"scaled\" viewBox=\"0 0 10000 10000\" preserveAspectRatio=\"none\"><path class=\"{class}\" d=\"{path}\"/></svg>"
        );
    }

    /// Draws a text, moved by some pixels. `anchor` is start, middle or end.
    pub fn text(
        &mut self,
        class: &str,
        anchor: &str,
        (x, y): Position,
        (dx, dy): (i32, i32),
        text: &str,
    ) {
        let ([x, y], text) = ([x, y].map(percent), escape(text));
        let _ = write!(
            self.svg,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" dx=\"{dx}\" dy=\"{dy}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// Adds other marks above these.
    #[must_use]
    pub fn append(mut self, other: Marks) -> Self {
        self.svg.push_str(&other.svg);
        self
    }

    /// Returns a drawing that is hidden from screen readers, because a text next to it has the same values.
    pub fn hidden(&self, class: &str) -> String {
        format!("<svg class=\"{class}\" aria-hidden=\"true\">{}</svg>", self.svg)
    }

    /// Returns a drawing with a name and a description.
    pub fn image(&self, class: &str, name: &str, description: &str) -> String {
        let (name, description) = (escape(name), escape(description));
        format!(
            "<svg class=\"{class}\" role=\"img\" aria-label=\"{name}. {description}\"><title>{name}</title><desc>{description}</desc>{}</svg>",
            self.svg
        )
    }
}

/// Shape of a mark, so that no colour is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Circle,
    Diamond,
    Square,
    Triangle,
}

impl Shape {
    pub const ALL: [Shape; 4] = [Shape::Circle, Shape::Diamond, Shape::Square, Shape::Triangle];

    fn path(self) -> &'static str {
        match self {
            Shape::Circle => "M-4.5 0a4.500 4.500 0 1 0 9 0a4.500 4.500 0 1 0-9 0z",
            Shape::Diamond => "M0-6L6 0L0 6L-6 0z",
            Shape::Square => "M-4-4h8v8h-8z",
            Shape::Triangle => "M0-5.500L5.500 4h-11z",
        }
    }

    /// Returns the shape as an entry of a legend.
    pub fn key(self, class: &str) -> String {
        let path = self.path();
        format!(
            "<svg class=\"key\" viewBox=\"-7 -7 14 14\" aria-hidden=\"true\"><path class=\"{class}\" d=\"{path}\"/></svg>"
        )
    }
}

fn title(tooltip: &str) -> String {
    if tooltip.is_empty() {
        return String::new();
    }
    format!("<title>{}</title>", escape(tooltip))
}

fn path(points: &[Position]) -> String {
    let mut path = String::new();
    for (idx, (x, y)) in points.iter().enumerate() {
        let command = if idx == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.0} {:.0}", 10_000.0 * x, 10_000.0 * y);
    }
    path
}
