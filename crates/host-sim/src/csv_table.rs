//! CSV tables of measured values, with a header and columns selected by name.
//!
//! ```text
//!   program,llc_kib,ipc      columns in any order; other columns are ignored
//!   sort,1024,0.93           errors have FILE:LINE:COLUMN
//! ```
//!
//! The caller reads the file. Numbers are finite and not negative.

use std::fmt;

/// A table.
#[derive(Clone, Debug)]
pub struct CsvTable<'a> {
    file: &'a str,
    text: &'a str,
    header: Vec<String>,
    lines: Vec<CsvRow>,
}

/// A row below the header.
#[derive(Clone, Debug)]
pub struct CsvRow {
    cells: Vec<String>,
    /// Line number in the file, from 1.
    number: u64,
    /// Byte offset in the text.
    begin: usize,
}

/// An error in a table, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvError {
    place: String,
    what: String,
}

impl std::error::Error for CsvError {}

impl fmt::Display for CsvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl CsvRow {
    /// The line number in the file, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl<'a> CsvTable<'a> {
    /// Parses a table; `file` is only used in errors.
    ///
    /// # Errors
    /// No header, a duplicate column, or a row with another number of cells than the header.
    pub fn read(text: &'a str, file: &'a str) -> Result<Self, CsvError> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let at = |line: u64, what: String| CsvError { place: format!("{file}:{line}:1"), what };
        let header = reader.headers().map_err(|error| at(1, error.to_string()))?;
        let header: Vec<String> = header.iter().map(|cell| cell.trim().to_owned()).collect();
        if header.iter().all(String::is_empty) {
            return Err(at(1, "the header is missing; write the names of the columns".to_owned()));
        }
        if let Some(idx) = (1..header.len()).find(|&idx| header[..idx].contains(&header[idx])) {
            return Err(at(1, format!("the column \"{}\" is defined twice", header[idx])));
        }
        let mut lines = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| at(1, error.to_string()))?;
            if record.iter().all(|cell| cell.trim().is_empty()) {
                continue; // Spreadsheets append empty rows.
            }
            let (number, begin) = place(text, record.position());
            if record.len() != header.len() {
                let what = format!("{} cells, {} in the header", record.len(), header.len());
                return Err(at(number, what));
            }
            let cells = record.iter().map(|cell| cell.trim().to_owned()).collect();
            lines.push(CsvRow { cells, number, begin });
        }
        Ok(CsvTable { file, text, header, lines })
    }

    /// The rows.
    pub fn rows(&self) -> &[CsvRow] {
        &self.lines
    }

    /// The names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The index of a column, if it exists.
    pub fn find_column(&self, column: &str) -> Option<usize> {
        self.header.iter().position(|cell| cell == column)
    }

    /// The index of a required column.
    ///
    /// # Errors
    /// The column is missing.
    pub fn column(&self, column: &str) -> Result<usize, CsvError> {
        self.find_column(column).ok_or_else(|| {
            let columns = self.header.join(", ");
            let what = format!("there is no column \"{column}\"; the columns are {columns}");
            CsvError { place: format!("{}:1:1", self.file), what }
        })
    }

    /// The text of a cell.
    pub fn text<'l>(&self, line: &'l CsvRow, column: usize) -> &'l str {
        line.cells.get(column).map_or("", String::as_str)
    }

    /// The number in a cell; `None` if the cell is empty.
    ///
    /// # Errors
    /// Not a number, infinite or negative.
    pub fn number(&self, line: &CsvRow, column: usize) -> Result<Option<f64>, CsvError> {
        let text = self.text(line, column);
        if text.is_empty() {
            return Ok(None);
        }
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && 0.0 <= *value);
        let what = || format!("{} is \"{text}\"; write a number from 0", self.header[column]);
        value.map(Some).ok_or_else(|| self.error_at(line, column, what()))
    }

    /// The number in a cell.
    ///
    /// # Errors
    /// See [`CsvTable::number`], or the cell is empty.
    pub fn require_number(&self, line: &CsvRow, column: usize) -> Result<f64, CsvError> {
        let what = || format!("{} is empty; write a number from 0", self.header[column]);
        self.number(line, column)?.ok_or_else(|| self.error_at(line, column, what()))
    }

    /// An error at a cell.
    pub fn error_at(&self, line: &CsvRow, column: usize, what: String) -> CsvError {
        let place = format!("{}:{}:{}", self.file, line.number, self.column_of(line, column));
        CsvError { place, what }
    }

    /// An error of a row.
    pub fn row_error(&self, line: &CsvRow, what: String) -> CsvError {
        CsvError { place: format!("{}:{}:1", self.file, line.number), what }
    }

    /// The column, from 1 in characters, at which a cell begins.
    fn column_of(&self, line: &CsvRow, column: usize) -> usize {
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

/// The line, from 1, and the byte offset at which a record begins. The CSV reader counts preceding empty lines as
/// part of the record.
fn place(text: &str, position: Option<&csv::Position>) -> (u64, usize) {
    let begin = position.map_or(0, |at| at.byte() as usize).min(text.len());
    let rest = text.get(begin..).unwrap_or_default();
    let begin = begin + rest.len() - rest.trim_start_matches(['\r', '\n']).len();
    let before = text.get(..begin).unwrap_or_default();
    (1 + before.matches('\n').count() as u64, begin)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const TEXT: &str = "name,\"a, b\",c\nx,1.5,\n\n\"y, z\",\"2\",-1\n";

    #[test]
    fn cells_are_found_by_the_names_of_columns() {
        let sheet = CsvTable::read(TEXT, "t.csv").unwrap();
        let (both, last) = (sheet.column("a, b").unwrap(), sheet.column("c").unwrap());
        assert_eq!(sheet.number(&sheet.rows()[0], both), Ok(Some(1.5)));
        assert_eq!(sheet.number(&sheet.rows()[0], last), Ok(None));
        assert_eq!(sheet.text(&sheet.rows()[1], 0), "y, z");
        assert_eq!(sheet.require_number(&sheet.rows()[1], both), Ok(2.0));
    }

    #[test]
    fn empty_lines_and_other_line_endings_are_ignored() {
        let plain = CsvTable::read("a,b\n1,2\n3,4\n", "t.csv").unwrap();
        let cells = |text| {
            let sheet = CsvTable::read(text, "t.csv").unwrap();
            sheet.rows().iter().map(|line| line.cells.clone()).collect::<Vec<_>>()
        };
        let expected: Vec<_> = plain.rows().iter().map(|line| line.cells.clone()).collect();
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
    fn every_error_has_its_position() {
        let sheet = CsvTable::read(TEXT, "t.csv").unwrap();
        let (first, second) = (&sheet.rows()[0], &sheet.rows()[1]);
        let read = |text| CsvTable::read(text, "t.csv").expect_err("the table is invalid");
        let errors = [
            sheet.column("d").expect_err("no column"),
            sheet.number(second, 2).expect_err("negative"),
            sheet.require_number(first, 2).expect_err("empty"),
            sheet.number(first, 0).expect_err("no number"),
            read(""),
            read("a,b,a\n"),
            read("a,b\n1,2\n1\n"),
        ];
        expect![[r#"
            t.csv:1:1: there is no column "d"; the columns are name, a, b, c
            t.csv:4:12: c is "-1"; write a number from 0
            t.csv:2:7: c is empty; write a number from 0
            t.csv:2:1: name is "x"; write a number from 0
            t.csv:1:1: the header is missing; write the names of the columns
            t.csv:1:1: the column "a" is defined twice
            t.csv:3:1: 1 cells, 2 in the header"#]]
        .assert_eq(&errors.map(|error| error.to_string()).join("\n"));
    }
}
