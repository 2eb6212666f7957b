//! Tables of measured figures: CSV text with a header, from which columns are taken by name.
//!
//! ```text
//!   program,llc_kib,ipc      columns in any order, more of them than are asked for
//!   sort,1024,0.93           a cell that is no number is told as FILE:LINE:COLUMN
//! ```
//!
//! Text is handed in; nothing is opened. Numbers are finite and not negative.

use std::fmt;

/// A table.
#[derive(Clone, Debug)]
pub struct Sheet<'a> {
    file: &'a str,
    text: &'a str,
    header: Vec<String>,
    lines: Vec<Line>,
}

/// A row below the header.
#[derive(Clone, Debug)]
pub struct Line {
    cells: Vec<String>,
    /// Counted from 1.
    number: u64,
    /// Where it begins in the text.
    begin: usize,
}

/// What is wrong with a table, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetError {
    place: String,
    what: String,
}

impl std::error::Error for SheetError {}

impl fmt::Display for SheetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl Line {
    /// Which line of the file it is, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl<'a> Sheet<'a> {
    /// Reads a table; `file` stands in messages.
    ///
    /// # Errors
    /// No header, a column twice, or a row with more or fewer cells than the header.
    pub fn read(text: &'a str, file: &'a str) -> Result<Self, SheetError> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let at = |line: u64, what: String| SheetError { place: format!("{file}:{line}:1"), what };
        let header = reader.headers().map_err(|error| at(1, error.to_string()))?;
        let header: Vec<String> = header.iter().map(|cell| cell.trim().to_owned()).collect();
        if header.iter().all(String::is_empty) {
            return Err(at(1, "there is no header; write the names of the columns".to_owned()));
        }
        if let Some(idx) = (1..header.len()).find(|&idx| header[..idx].contains(&header[idx])) {
            return Err(at(1, format!("the column \"{}\" stands there twice", header[idx])));
        }
        let mut lines = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| at(1, error.to_string()))?;
            if record.iter().all(|cell| cell.trim().is_empty()) {
                continue; // Spreadsheets leave such lines at the end.
            }
            let (number, begin) = place(text, record.position());
            if record.len() != header.len() {
                let what = format!("{} cells, {} in the header", record.len(), header.len());
                return Err(at(number, what));
            }
            let cells = record.iter().map(|cell| cell.trim().to_owned()).collect();
            lines.push(Line { cells, number, begin });
        }
        Ok(Sheet { file, text, header, lines })
    }

    /// The rows.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Where a column stands, if it is there.
    pub fn find(&self, column: &str) -> Option<usize> {
        self.header.iter().position(|cell| cell == column)
    }

    /// Where a column stands.
    ///
    /// # Errors
    /// It is not there.
    pub fn need(&self, column: &str) -> Result<usize, SheetError> {
        self.find(column).ok_or_else(|| {
            let there = self.header.join(", ");
            let what = format!("there is no column \"{column}\"; the columns are {there}");
            SheetError { place: format!("{}:1:1", self.file), what }
        })
    }

    /// A cell's text.
    pub fn word<'l>(&self, line: &'l Line, column: usize) -> &'l str {
        line.cells.get(column).map_or("", String::as_str)
    }

    /// A cell's number; `None` where it is empty.
    ///
    /// # Errors
    /// It is no number, infinite or negative.
    pub fn number(&self, line: &Line, column: usize) -> Result<Option<f64>, SheetError> {
        let text = self.word(line, column);
        if text.is_empty() {
            return Ok(None);
        }
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && 0.0 <= *value);
        let what = || format!("{} is \"{text}\"; write a number from 0", self.header[column]);
        value.map(Some).ok_or_else(|| self.fault(line, column, what()))
    }

    /// A cell's number.
    ///
    /// # Errors
    /// As [`Sheet::number`], or the cell is empty.
    pub fn need_number(&self, line: &Line, column: usize) -> Result<f64, SheetError> {
        let what = || format!("{} is empty; write a number from 0", self.header[column]);
        self.number(line, column)?.ok_or_else(|| self.fault(line, column, what()))
    }

    /// An error at a cell.
    pub fn fault(&self, line: &Line, column: usize, what: String) -> SheetError {
        let place = format!("{}:{}:{}", self.file, line.number, self.column_of(line, column));
        SheetError { place, what }
    }

    /// An error of a row.
    pub fn fault_of(&self, line: &Line, what: String) -> SheetError {
        SheetError { place: format!("{}:{}:1", self.file, line.number), what }
    }

    /// The letter, counted from 1, at which a cell begins.
    fn column_of(&self, line: &Line, column: usize) -> usize {
        let rest = self.text.get(line.begin..).unwrap_or_default();
        let (mut n_commas, mut quoted) = (0, false);
        for (idx, letter) in rest.chars().enumerate() {
            if n_commas == column {
                return idx + 1;
            }
            match letter {
                '"' => quoted = !quoted,
                ',' if !quoted => n_commas += 1,
                _ => {}
            }
        }
        1
    }
}

/// The line, from 1, and the byte at which a record begins: the reader counts empty lines before it as
/// part of it.
fn place(text: &str, position: Option<&csv::Position>) -> (u64, usize) {
    let begin = position.map_or(0, |at| at.byte() as usize).min(text.len());
    let rest = text.get(begin..).unwrap_or_default();
    let begin = begin + rest.len() - rest.trim_start_matches(['\r', '\n']).len();
    let before = text.get(..begin).unwrap_or_default();
    (1 + before.matches('\n').count() as u64, begin)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const TEXT: &str = "name,\"a, b\",c\nx,1.5,\n\n\"y, z\",\"2\",-1\n";

    fn check(told: Result<impl fmt::Debug, SheetError>, expected: Expect) {
        expected.assert_eq(&told.expect_err("it is wrong").to_string());
    }

    #[test]
    fn cells_are_found_by_the_names_of_columns() {
        let sheet = Sheet::read(TEXT, "t.csv").unwrap();
        let (both, last) = (sheet.need("a, b").unwrap(), sheet.need("c").unwrap());
        assert_eq!(sheet.number(&sheet.lines()[0], both), Ok(Some(1.5)));
        assert_eq!(sheet.number(&sheet.lines()[0], last), Ok(None));
        assert_eq!(sheet.word(&sheet.lines()[1], 0), "y, z");
        assert_eq!(sheet.need_number(&sheet.lines()[1], both), Ok(2.0));
    }

    #[test]
    fn lines_with_nothing_in_them_and_the_marks_of_other_systems_mean_nothing() {
        let plain = Sheet::read("a,b\n1,2\n3,4\n", "t.csv").unwrap();
        let cells = |text| {
            let sheet = Sheet::read(text, "t.csv").unwrap();
            sheet.lines().iter().map(|line| line.cells.clone()).collect::<Vec<_>>()
        };
        let expected: Vec<_> = plain.lines().iter().map(|line| line.cells.clone()).collect();
        for text in [
            "a,b\r\n1,2\r\n\r\n3,4\r\n\r\n",
            "\u{feff}a,b\n1,2\n3,4",
            "\"a\",\"b\"\n\"1\", 2 \n3,\"4\"\n\n\n",
            "a,b\n1,2\n  \n3,4\n,\n\t\n",
        ] {
            assert_eq!(cells(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let sheet = Sheet::read(TEXT, "t.csv").unwrap();
        check(
            sheet.need("d"),
            expect![[r#"t.csv:1:1: there is no column "d"; the columns are name, a, b, c"#]],
        );
        check(
            sheet.number(&sheet.lines()[1], 2),
            expect![[r#"t.csv:4:12: c is "-1"; write a number from 0"#]],
        );
        check(
            sheet.need_number(&sheet.lines()[0], 2),
            expect!["t.csv:2:7: c is empty; write a number from 0"],
        );
        check(
            sheet.number(&sheet.lines()[0], 0),
            expect![[r#"t.csv:2:1: name is "x"; write a number from 0"#]],
        );
        check(
            Sheet::read("", "t.csv"),
            expect!["t.csv:1:1: there is no header; write the names of the columns"],
        );
        check(
            Sheet::read("a,b,a\n", "t.csv"),
            expect![[r#"t.csv:1:1: the column "a" stands there twice"#]],
        );
        check(
            Sheet::read("a,b\n1,2\n1\n", "t.csv"),
            expect!["t.csv:3:1: 1 cells, 2 in the header"],
        );
    }
}
