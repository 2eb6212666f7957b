//! Charts of the tables of a study. A chart plots the cells of the table below it and nothing else.

use super::{ChartKind, StudyCell, StudyTable, StudyValue};
use crate::chart::{Axis, ChartRow, Marks, N_COLOURS, Plot, RowChart, Shape, heat_table, panels};
use crate::page::{escape, legend};

/// Draws the chart of a table; empty for a table without a chart.
pub(super) fn chart(table: &StudyTable, kind: ChartKind) -> String {
    let chart = TableChart { table, columns: value_columns(table) };
    match kind {
        ChartKind::None => String::new(),
        ChartKind::Heat => chart.heat_map(),
        ChartKind::Bars => chart.bars(),
        ChartKind::Intervals => chart.intervals(),
        ChartKind::Lines => chart.lines(),
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
struct TableChart<'a> {
    table: &'a StudyTable,
    columns: Vec<usize>,
}

impl TableChart<'_> {
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

    /// Returns the number of columns that label a row: the first column, and the columns of words next to it if rows
    /// have the same first column.
    fn n_label_columns(&self) -> usize {
        let mut names: Vec<&str> = (0..self.table.rows.len()).map(|row| self.name(row)).collect();
        names.sort_unstable();
        let is_repeated = names.windows(2).any(|pair| pair[0] == pair[1]);
        let first_value = self.columns.first().copied().unwrap_or(1);
        if is_repeated { first_value } else { 1 }
    }

    /// Returns the label of a row: `hd1, gamess`.
    fn label(&self, row: usize) -> String {
        let cells = self.table.rows[row].iter().take(self.n_label_columns());
        let texts: Vec<&str> =
            cells.map(|cell| &*cell.text).filter(|text| !text.is_empty()).collect();
        texts.join(", ")
    }

    /// Returns the head of the labels: `set, program`.
    fn label_head(&self) -> String {
        let heads = self.table.columns.iter().take(self.n_label_columns());
        heads.map(|column| &*column.head).collect::<Vec<&str>>().join(", ")
    }

    fn tooltip(&self, row: usize, column: usize) -> String {
        format!("{}: {}", self.table.columns[column].head, self.table.rows[row][column].text)
    }

    /// Returns the title of an axis with the values of these columns: the quantity, and the unit if all have the same.
    fn title(&self, subject: &str, columns: &[usize]) -> String {
        let ends = [": ", " against ", ", in "].iter().filter_map(|end| subject.find(end));
        let subject = &subject[..ends.min().unwrap_or(subject.len())];
        let mut units = columns.iter().map(|column| &*self.table.columns[*column].unit);
        let first = units.next().unwrap_or_default();
        match units.all(|unit| unit == first) && !matches!(first, "" | "1" | "count") {
            true if !subject.contains(first) => format!("{subject} ({first})"),
            _ => subject.to_owned(),
        }
    }

    /// Draws the table with each cell coloured by its value, in one colour: a value is no verdict. All values have one
    /// unit.
    fn heat_map(&self) -> String {
        /// Percentage of the colour of the largest value. The text keeps its contrast up to this percentage.
        const FULL_PERCENT: f64 = 45.0;
        let highest = self.values().map(|(.., value)| value.middle().abs()).fold(1e-9, f64::max);
        let cell = |row: &[StudyCell], column: usize| {
            let text = escape(&row[column].text);
            let Some(value) = value(row, column).map(StudyValue::middle) else {
                return format!("<td class=\"none\">{text}</td>");
            };
            let (percent, colour) =
                (FULL_PERCENT * value.abs() / highest, if value < 0.0 { 1 } else { 0 });
            format!("<td style=\"--h:{percent:.0}%;--s:var(--c{colour})\">{text}</td>")
        };
        let row = |(idx, row): (usize, &Vec<StudyCell>)| {
            (self.name(idx), (1..row.len()).map(|column| cell(row, column)).collect())
        };
        let heads = self.table.columns.iter().map(|column| column.head.as_str());
        let rows = self.table.rows.iter().enumerate().map(row);
        heat_table("heat small", &self.table.title, heads, rows)
    }

    /// Draws a panel of bars per column, each with its own unit.
    fn bars(&self) -> String {
        panels(self.columns.iter().enumerate().map(|(series, column)| {
            let head = &self.table.columns[*column].head;
            let values = || self.values().filter(|(_, of, ..)| *of == series);
            let middles = values().map(|(.., value)| value.middle());
            let axis = Axis::covering(self.title(head, &[*column]), middles, Some(0.0));
            let row = |(row, _, column, value): (usize, usize, usize, &StudyValue)| {
                let mut marks = Marks::default();
                marks.bar("bar plain", (axis.share(0.0), axis.share(value.middle())), 0.5, "");
                ChartRow {
                    name: self.label(row),
                    marks,
                    value: escape(&self.table.rows[row][column].text),
                }
            };
            let heads = (&*self.label_head(), "Value");
            (head.clone(), row_chart(head, heads, &axis, 1).to_html(values().map(row)))
        }))
    }

    /// Draws the values of each row on one axis: for each column, a range or a mean with its confidence interval.
    fn intervals(&self) -> String {
        let title = self.title(&self.table.title, &self.columns);
        let axis = Axis::covering(title, self.ends(), Some(0.0));
        let rows = (0..self.table.rows.len()).map(|row| ChartRow {
            name: self.label(row),
            marks: self.interval_row(row, &axis),
            value: String::new(),
        });
        let heads = (&*self.label_head(), "");
        let chart = row_chart(&self.table.title, heads, &axis, self.columns.len());
        self.legend() + &chart.to_html(rows)
    }

    fn interval_row(&self, row: usize, axis: &Axis) -> Marks {
        let mut marks = Marks::default();
        for (_, series, column, value) in self.values().filter(|(of, ..)| *of == row) {
            let y = (series as f64 + 0.5) / self.columns.len() as f64;
            let [low, high] = value.ends().map(|end| axis.share(end));
            let (class, tooltip) = (self.class(series), self.tooltip(row, column));
            if value.value.is_none() {
                marks.bar(&format!("range {class}"), (low, high), y, &tooltip);
                continue;
            }
            marks.line(&format!("line {class}"), (low, y), (high, y));
            let at = (axis.share(value.middle()), y);
            marks.mark(&format!("mark {class}"), shape(series), at, &tooltip);
        }
        marks
    }

    /// Draws a line per column; the first column is the horizontal axis.
    fn lines(&self) -> String {
        let rows = &self.table.rows;
        let x = |row: usize| value(&rows[row], 0).map_or(row as f64, StudyValue::middle);
        let (low, high) = (0..rows.len())
            .map(x)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let ends = if low < high { (low, high) } else { (0.0, 1.0) };
        let head = self.table.columns.first().map_or("", |column| &column.head);
        let ticks = (0..rows.len()).map(|row| (x(row), self.name(row).to_owned()));
        let across = Axis::new(head, ends).with_ticks(ticks);
        let title = self.title(&self.table.title, &self.columns);
        let up = Axis::covering(title, self.ends(), Some(0.0));
        let mut plot = Plot::new(&self.table.title, across, up);
        let zero = plot.positions([(ends.0, 0.0), (ends.1, 0.0)]);
        plot.marks().polyline("one", &zero);
        for series in 0..self.columns.len() {
            self.draw_line(&mut plot, series, x);
        }
        self.legend() + &plot.to_html()
    }

    fn draw_line(&self, plot: &mut Plot, series: usize, x: impl Fn(usize) -> f64) {
        let points = || self.values().filter(|(_, of, ..)| *of == series);
        let class = self.class(series);
        let line = plot.positions(points().map(|(row, .., value)| (x(row), value.middle())));
        plot.marks().polyline(&format!("line {class}"), &line);
        for ((row, _, column, value), at) in points().zip(line) {
            let [low, high] = value.ends().map(|end| plot.position(x(row), end));
            let tooltip = self.tooltip(row, column);
            plot.marks().line(&format!("line {class}"), low, high);
            plot.marks().mark(&format!("mark {class}"), shape(series), at, &tooltip);
        }
    }

    /// Returns the classes of a series: its colour, and whether its values are from the publication.
    fn class(&self, series: usize) -> String {
        let is_published = self.table.columns[self.columns[series]].is_published;
        let published = if is_published { " published" } else { "" };
        format!("s{}{published}", series % N_COLOURS)
    }

    fn legend(&self) -> String {
        let is_range = |series: usize| {
            self.values().any(|(_, of, _, value)| of == series && value.value.is_none())
        };
        legend(self.columns.iter().enumerate().map(|(series, &column)| {
            let class = self.class(series);
            let key = match is_range(series) {
                true => format!("<i class=\"range-key {class}\"></i>"),
                false => shape(series).key(&format!("mark {class}")),
            };
            key + &escape(&self.table.columns[column].head)
        }))
    }
}

fn shape(series: usize) -> Shape {
    Shape::ALL[series % Shape::ALL.len()]
}

fn row_chart<'a>(
    label: &'a str,
    heads: (&'a str, &'a str),
    axis: &'a Axis,
    n_lines: usize,
) -> RowChart<'a> {
    RowChart { label, heads, axis, reference: Some(0.0), n_lines }
}
