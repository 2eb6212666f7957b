//! Tables with a header, as they are embedded: comma, quotation marks where needed, columns by name.
//!
//! The tables are ours, so that a mistake in one is a broken assumption: it ends the program with its line.

use std::collections::BTreeMap;

/// A line of a table: its cells by the names of their columns.
#[derive(Clone, Debug)]
pub(super) struct Line<'t> {
    number: usize,
    cells: BTreeMap<&'t str, String>,
}

impl Line<'_> {
    /// A cell's text.
    pub fn text(&self, column: &str) -> &str {
        let cell = self.cells.get(column);
        cell.unwrap_or_else(|| panic!("line {}: no column {column}", self.number))
    }

    /// A cell's number; none where it is empty.
    pub fn number(&self, column: &str) -> Option<f64> {
        let text = self.text(column);
        let wrong = || panic!("line {}: {column} is {text:?}, no number", self.number);
        (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| wrong()))
    }
}

/// All lines below the header.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut rows = text.lines().enumerate();
    let header: Vec<&str> =
        rows.next().map(|(_, row)| row.split(',').collect()).unwrap_or_default();
    let line = |(idx, row): (usize, &str)| {
        let (number, cells) = (idx + 1, cells(row));
        assert_eq!(cells.len(), header.len(), "line {number}: another number of cells");
        Line { number, cells: header.iter().copied().zip(cells).collect() }
    };
    rows.map(line).collect()
}

/// The cells of a row. Inside quotation marks a comma is none, and two of the marks are one.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut letters = row.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                push(&mut cells, '"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            letter => push(&mut cells, letter),
        }
    }
    cells
}

fn push(cells: &mut [String], letter: char) {
    if let Some(last) = cells.last_mut() {
        last.push(letter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotation_marks_keep_commas_and_are_doubled() {
        let table = lines("a,b\n\"x, \"\"y\"\"\",2.5\n,");
        assert_eq!((table[0].text("a"), table[0].number("b")), ("x, \"y\"", Some(2.5)));
        assert_eq!((table[1].text("a"), table[1].number("b")), ("", None));
    }

    #[test]
    #[should_panic(expected = "line 2: another number of cells")]
    fn a_row_with_a_cell_too_few_is_a_mistake() {
        lines("a,b\n1");
    }
}
