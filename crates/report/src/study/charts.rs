//! Charts of the tables of a study. A chart plots the cells of the table below it and nothing else.

use super::{ChartKind, StudyCell, StudyTable, StudyValue};
use crate::chart::{Axis, Chart, RowLayout, heat, heat_table, panels};
use crate::page::{escape, legend};

/// Width of the row names, in pixels.
const NAMES: f64 = 130.0;
const WIDTH: f64 = 720.0;
/// Layout of a panel of bars.
const BARS: RowLayout =
    RowLayout { width: WIDTH / 1.5, left: NAMES, n_letters: 18, top: 0.0, row: 22.0 };
/// Height of an interval.
const INTERVAL: f64 = 15.0;
/// Height of a line chart without its labels.
const LINES: f64 = 220.0;

/// Draws the chart of a table; empty for a table without a chart.
pub(super) fn chart(table: &StudyTable, kind: ChartKind) -> String {
    let plot = Plot { table, columns: value_columns(table) };
    match kind {
        ChartKind::None => String::new(),
        ChartKind::Heat => plot.heat_map(),
        ChartKind::Bars => plot.bars(),
        ChartKind::Intervals => plot.intervals(),
        ChartKind::Lines => plot.lines(),
    }
}

/// Returns the columns with values, without the first column.
fn value_columns(table: &StudyTable) -> Vec<usize> {
    let has_values = |column: &usize| table.rows.iter().any(|row| value(row, *column).is_some());
    (1..table.columns.len()).filter(has_values).collect()
}

/// Returns the value of a cell, if the cell has exactly one value.
fn value(row: &[StudyCell], column: usize) -> Option<&StudyValue> {
    match row.get(column)?.values.as_slice() {
        [value] => Some(value),
        _ => None,
    }
}

/// A table with its columns of values: the series of the chart.
struct Plot<'a> {
    table: &'a StudyTable,
    columns: Vec<usize>,
}

impl Plot<'_> {
    /// Returns row, series, column and value of each cell with a value.
    fn values(&self) -> impl Iterator<Item = (usize, usize, usize, &StudyValue)> {
        self.table.rows.iter().enumerate().flat_map(move |(idx, row)| {
            let columns = self.columns.iter().enumerate();
            columns.filter_map(move |(series, &column)| {
                Some((idx, series, column, value(row, column)?))
            })
        })
    }

    fn ends(&self) -> impl Iterator<Item = f64> {
        self.values().flat_map(|(.., value)| value.ends())
    }

    fn name(&self, row: usize) -> &str {
        self.table.rows[row].first().map_or("", |cell| &cell.text)
    }

    fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.table.rows.len()).map(|row| self.name(row))
    }

    fn tooltip(&self, row: usize, column: usize) -> String {
        format!("{}: {}", self.table.columns[column].head, self.table.rows[row][column].text)
    }

    /// Draws the table with each cell coloured by its value. All values have one unit.
    fn heat_map(&self) -> String {
        let highest = self.values().map(|(.., value)| value.middle().abs()).fold(1e-9, f64::max);
        let cell = |row: &[StudyCell], column: usize| {
            let text = escape(&row[column].text);
            let Some(value) = value(row, column).map(StudyValue::middle) else {
                return format!("<td class=\"none\">{text}</td>");
            };
            format!("<td style=\"{}\">{text}</td>", heat(value.abs() / highest, value < 0.0))
        };
        let row = |(idx, row): (usize, &Vec<StudyCell>)| {
            (self.name(idx), (1..row.len()).map(|column| cell(row, column)).collect())
        };
        let heads = self.table.columns.iter().map(|column| column.head.as_str());
        heat_table("heat small", heads, self.table.rows.iter().enumerate().map(row))
    }

    /// Draws a panel of bars per column, each with its own unit.
    fn bars(&self) -> String {
        let panel = |(series, column): (usize, &usize)| {
            let head = &self.table.columns[*column].head;
            let values = || self.values().filter(|(_, of, ..)| *of == series);
            let middles = values().map(|(.., value)| value.middle());
            let axis = Axis::covering(middles, Some(0.0), (NAMES, BARS.width - 60.0));
            let mut chart = BARS.chart(head, self.names());
            chart.grid(&axis, (0.0, BARS.bottom(self.table.rows.len())), 4, "");
            for (row, _, column, value) in values() {
                let y = BARS.y(row);
                let (zero, end) = (axis.coordinate(0.0), axis.coordinate(value.middle()));
                chart.rect("bar s0", (zero.min(end), y - 7.0), ((end - zero).abs(), 14.0));
                let text = &self.table.rows[row][column].text;
                chart.label("tick", "start", (zero.max(end) + 5.0, y + 4.0), text);
            }
            (head.clone(), chart.end())
        };
        panels(self.columns.iter().enumerate().map(panel))
    }

    /// Draws the values of each row on one axis: for each column, a range or a mean with its confidence interval.
    fn intervals(&self) -> String {
        let group = self.columns.len() as f64 * INTERVAL + 8.0;
        let layout = RowLayout { width: WIDTH, row: group, ..BARS };
        let height = layout.bottom(self.table.rows.len());
        let axis = Axis::covering(self.ends(), Some(0.0), (NAMES, WIDTH - 20.0));
        let mut chart = layout.chart(&self.table.title, self.names());
        chart.grid(&axis, (0.0, height), 7, "");
        chart.line("one", (axis.coordinate(0.0), 0.0), (axis.coordinate(0.0), height));
        for (row, series, column, value) in self.values() {
            let y = row as f64 * group + 4.0 + (series as f64 + 0.5) * INTERVAL;
            let [low, high] = value.ends().map(|end| axis.coordinate(end));
            if value.value.is_none() {
                chart.rect("published", (low, y - 5.0), (high - low, 10.0));
                continue;
            }
            chart.line(&format!("line s{}", series % 8), (low, y), (high, y));
            mark(
                &mut chart,
                series,
                (axis.coordinate(value.middle()), y),
                &self.tooltip(row, column),
            );
        }
        self.legend() + &chart.end_wide()
    }

    /// Draws a line per column; the first column is the horizontal axis.
    fn lines(&self) -> String {
        let rows = &self.table.rows;
        let x_value = |row: usize| value(&rows[row], 0).map_or(row as f64, StudyValue::middle);
        let across = Axis::covering((0..rows.len()).map(x_value), None, (60.0, WIDTH - 20.0));
        let up = Axis::covering(self.ends(), Some(0.0), (LINES, 0.0));
        let mut chart = Chart::new(&self.table.title, WIDTH, LINES + 28.0);
        chart.levels(&up, (60.0, WIDTH - 20.0), 5, "");
        chart.line("one", (60.0, up.coordinate(0.0)), (WIDTH - 20.0, up.coordinate(0.0)));
        for row in 0..rows.len() {
            let at = (across.coordinate(x_value(row)), LINES + 18.0);
            chart.label("tick", "middle", at, self.name(row));
        }
        for series in 0..self.columns.len() {
            let points = || self.values().filter(|(_, of, ..)| *of == series);
            let place =
                |row: usize, value: f64| (across.coordinate(x_value(row)), up.coordinate(value));
            let class = format!("line s{}", series % 8);
            let line: Vec<(f64, f64)> =
                points().map(|(row, .., value)| place(row, value.middle())).collect();
            chart.polyline(&class, &line);
            for (row, _, column, value) in points() {
                let [low, high] = value.ends().map(|end| place(row, end));
                chart.line(&class, low, high);
                let tooltip = self.tooltip(row, column);
                mark(&mut chart, series, place(row, value.middle()), &tooltip);
            }
        }
        self.legend() + &chart.end_wide()
    }

    fn legend(&self) -> String {
        let is_range = |series: usize| {
            self.values().any(|(_, of, _, value)| of == series && value.value.is_none())
        };
        legend(self.columns.iter().enumerate().map(|(series, &column)| {
            let (class, shape) = match is_range(series) {
                true => ("r".to_owned(), "▬"),
                false => ((series % 8).to_string(), SHAPES[series % SHAPES.len()]),
            };
            let head = escape(&self.table.columns[column].head);
            format!("<span class=\"key k{class}\">{shape}</span> {head}")
        }))
    }
}

/// A shape per series, so that no colour is needed.
const SHAPES: [&str; 4] = ["●", "◆", "■", "○"];

fn mark(chart: &mut Chart, series: usize, (x, y): (f64, f64), tooltip: &str) {
    let class = format!("mark s{}", series % 8);
    match series % SHAPES.len() {
        0 => chart.dot(&class, (x, y), 4.0, tooltip),
        1 => chart.diamond(&class, (x, y), 5.0),
        2 => chart.titled_rect(&class, (x - 3.5, y - 3.5), (7.0, 7.0), tooltip),
        _ => chart.dot(&format!("ring s{}", series % 8), (x, y), 4.0, tooltip),
    }
}
