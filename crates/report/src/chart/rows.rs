//! A chart with a row per name: a table whose middle column is a drawing.
//!
//! ```text
//!   policy │ ratio to linux            │ ratio, 95 % interval
//!          │ 0.9      1.0      1.1     │
//!   ───────┼───────────────────────────┼──────────────────────
//!   dfs    │   ├──●──┤  ┆              │ 0.95  0.93–0.98
//!   di     │        ├──○──┤            │ 1.01  0.98–1.04
//! ```
//!
//! Names and values are text of the page, so that a screen reader reads a table, text is never scaled, and the drawing
//! has the remaining width on every screen.

use super::axis::Axis;
use super::svg::Marks;
use crate::page::escape;

/// A row: its name, its drawing, and its value as escaped HTML.
pub(crate) struct ChartRow {
    pub name: String,
    pub marks: Marks,
    pub value: String,
}

/// The headers of a chart.
pub(crate) struct RowChart<'a> {
    /// Name of the chart for screen readers.
    pub label: &'a str,
    /// Headers of the names and of the values; without values the second is empty.
    pub heads: (&'a str, &'a str),
    pub axis: &'a Axis,
    /// Value with an emphasized line, for example a ratio of 1.
    pub reference: Option<f64>,
    /// Number of lines of a row.
    pub n_lines: usize,
}

impl RowChart<'_> {
    pub fn to_html(&self, rows: impl IntoIterator<Item = ChartRow>) -> String {
        let has_values = !self.heads.1.is_empty();
        let row = |row: ChartRow| {
            let value = if has_values { format!("<td>{}</td>", row.value) } else { String::new() };
            format!(
                "<tr><th scope=\"row\">{}</th><td class=\"strip\">{}</td>{value}</tr>\n",
                escape(&row.name),
                self.with_grid(row.marks)
            )
        };
        let rows: String = rows.into_iter().map(row).collect();
        format!(
            "<table class=\"strips\" style=\"--n:{}\"><caption class=\"sr\">{}</caption><thead><tr>{}</tr></thead>\n<tbody>{rows}</tbody></table>",
            self.n_lines,
            escape(self.label),
            self.head(has_values)
        )
    }

    fn head(&self, has_values: bool) -> String {
        let (name, value) = (escape(self.heads.0), escape(self.heads.1));
        let value =
            if has_values { format!("<th scope=\"col\">{value}</th>") } else { String::new() };
        format!(
            "<th scope=\"col\">{name}</th><th scope=\"col\" class=\"strip\">{}{}</th>{value}",
            escape(&self.axis.title),
            tick_labels(self.axis)
        )
    }

    /// Returns the drawing of a row above the grid lines.
    fn with_grid(&self, marks: Marks) -> String {
        let mut grid = Marks::default();
        for (value, _) in &self.axis.ticks {
            vertical(&mut grid, "grid", self.axis.share(*value));
        }
        if let Some(value) = self.reference {
            vertical(&mut grid, "one", self.axis.share(value));
        }
        grid.append(marks).hidden("plot")
    }
}

fn vertical(marks: &mut Marks, class: &str, x: f64) {
    marks.line(class, (x, 0.0), (x, 1.0));
}

fn tick_labels(axis: &Axis) -> String {
    let mut marks = Marks::default();
    for (idx, (value, label)) in axis.ticks.iter().enumerate() {
        // Every other label is hidden on narrow screens.
        let class = if idx % 2 == 0 { "tick" } else { "tick odd" };
        marks.text(class, "middle", (axis.share(*value), 1.0), (0, -3), label);
    }
    marks.hidden("plot ticks")
}
