//! A chart with a horizontal and a vertical axis.

use super::axis::Axis;
use super::svg::{Marks, Position};

/// A chart under construction.
pub(crate) struct Plot {
    name: String,
    across: Axis,
    up: Axis,
    marks: Marks,
}

impl Plot {
    /// Creates a chart with grid lines at the ticks of the vertical axis.
    pub fn new(name: &str, across: Axis, up: Axis) -> Self {
        let mut plot = Plot { name: name.to_owned(), across, up, marks: Marks::default() };
        plot.labels();
        plot
    }

    fn labels(&mut self) {
        let Plot { across, up, marks, .. } = self;
        for (value, label) in &up.ticks {
            let y = 1.0 - up.share(*value);
            marks.line("grid", (0.0, y), (1.0, y));
            marks.text("tick", "end", (0.0, y), (-7, 4), label);
        }
        for (idx, (value, label)) in across.ticks.iter().enumerate() {
            let class = if idx % 2 == 0 { "tick" } else { "tick odd" };
            marks.text(class, "middle", (across.share(*value), 1.0), (0, 19), label);
        }
        marks.text("title", "start", (0.0, 0.0), (-44, -16), &up.title);
        marks.text("title", "end", (1.0, 1.0), (0, 40), &across.title);
    }

    /// Returns the position of a point.
    pub fn position(&self, x: f64, y: f64) -> Position {
        (self.across.share(x), 1.0 - self.up.share(y))
    }

    /// Returns the positions of points.
    pub fn positions(&self, points: impl IntoIterator<Item = (f64, f64)>) -> Vec<Position> {
        points.into_iter().map(|(x, y)| self.position(x, y)).collect()
    }

    pub fn marks(&mut self) -> &mut Marks {
        &mut self.marks
    }

    pub fn to_html(&self) -> String {
        let axes = format!(
            "Horizontal axis: {}. Vertical axis: {}.",
            self.across.description(),
            self.up.description()
        );
        format!("<div class=\"frame\">{}</div>", self.marks.image("plot", &self.name, &axes))
    }
}
