//! A drawing in pixels of its own: marks, axes, labels.

use std::fmt::Write;

use crate::html::escape::escape;

/// A drawing that grows.
pub(crate) struct Plot {
    text: String,
}

/// Values along the drawing's width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    left: f64,
    right: f64,
}

impl Axis {
    /// So that all values fit, with a little room; `always` is a value that must be seen.
    pub fn over(
        values: impl Iterator<Item = f64>,
        always: Option<f64>,
        (left, right): (f64, f64),
    ) -> Self {
        let seen = values.chain(always).filter(|value| value.is_finite());
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in seen {
            (from, to) = (from.min(value), to.max(value));
        }
        if to < from {
            (from, to) = (0.0, 1.0);
        }
        let room = if from == to { (from.abs() / 10.0).max(0.05) } else { (to - from) * 0.04 };
        Axis { from: from - room, to: to + room, left, right }
    }

    pub fn x(&self, value: f64) -> f64 {
        let part = (value - self.from) / (self.to - self.from);
        self.left + part.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Round values on it, about so many, with the digits that they need.
    pub fn ticks(&self, n: usize) -> (Vec<f64>, usize) {
        let rough = (self.to - self.from) / n.max(1) as f64;
        let power = 10f64.powi(rough.log10().floor() as i32);
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| rough <= *step).unwrap_or(10.0 * power);
        let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        // Billions of steps would be endless: values so far apart have no ticks.
        if 100 < last.saturating_sub(first) {
            return (Vec::new(), 0);
        }
        ((first..=last).map(|nr| nr as f64 * step).collect(), digits)
    }
}

impl Plot {
    pub fn new(label: &str, width: f64, height: f64) -> Self {
        let text = format!(
            "<svg class=\"plot\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            escape(label)
        );
        Plot { text }
    }

    /// A line from place to place.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ =
            write!(self.text, "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>");
    }

    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = write!(
            self.text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
            width.max(0.0)
        );
    }

    /// A dot with what is said of it when it is pointed at.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, said: &str) {
        let said = if said.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escape(said))
        };
        let _ = write!(
            self.text,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\">{said}</circle>"
        );
    }

    /// A square on its corner.
    pub fn diamond(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let _ = write!(
            self.text,
            "<path class=\"{class}\" d=\"M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z\"/>",
            x - radius,
            y - radius,
            x + radius,
            y + radius
        );
    }

    /// `anchor` is start, middle or end.
    pub fn label(&mut self, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
        let _ = write!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        );
    }

    /// A name in so much room, cut where it is longer; whole when pointed at.
    pub fn name(&mut self, (x, y): (f64, f64), text: &str, n_letters: usize) {
        let _ = write!(
            self.text,
            "<text class=\"name\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            escape(&crate::table::cut(text, n_letters)),
            escape(text)
        );
    }

    /// Lines of an axis from top to bottom with their labels below.
    pub fn grid(&mut self, axis: &Axis, (top, bottom): (f64, f64), n: usize, unit: &str) {
        let (ticks, digits) = axis.ticks(n);
        for tick in ticks {
            let x = axis.x(tick);
            self.line("grid", (x, top), (x, bottom));
            self.label("tick", "middle", (x, bottom + 15.0), &format!("{tick:.digits$}{unit}"));
        }
    }

    pub fn end(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_its_values_and_ticks_are_round() {
        let axis = Axis::over([0.83, 1.27].into_iter(), Some(1.0), (0.0, 100.0));
        let (ticks, digits) = axis.ticks(5);
        let shown: Vec<String> = ticks.iter().map(|tick| format!("{tick:.digits$}")).collect();
        assert_eq!(shown, ["0.9", "1.0", "1.1", "1.2"]);
        assert!(0.0 < axis.x(0.83) && axis.x(1.27) < 100.0);
    }

    #[test]
    fn an_axis_without_width_and_one_without_values_are_drawn_too() {
        for values in [vec![], vec![1.0], vec![f64::NAN], vec![0.0, 0.0]] {
            let axis = Axis::over(values.into_iter(), None, (0.0, 10.0));
            assert!(axis.x(0.5).is_finite());
            assert!(axis.ticks(4).0.len() < 20);
        }
    }
}
