//! CSV tables of measured values, with a header and columns selected by name.
//!
//! ```text
//!   program,llc_kib,ipc      columns in any order; other columns are ignored
//!   sort,1024,0.93           errors have FILE:LINE:COLUMN
//! ```
//!
//! The caller reads the file. Numbers are finite and not negative.

/// A CSV table with a header.
#[derive(Clone, Debug)]
pub struct CsvTable<'a> {
    file: &'a str,
    text: &'a str,
    header: Vec<String>,
    records: Vec<CsvRecord>,
}

#[derive(Clone, Debug)]
struct CsvRecord {
    cells: Vec<String>,
    /// Line number in the file, from 1.
    line: u64,
    /// Byte offset in the text.
    begin: usize,
}

/// A row of a table, without the header.
#[derive(Clone, Copy, Debug)]
pub struct CsvRow<'t> {
    table: &'t CsvTable<'t>,
    record: &'t CsvRecord,
}

/// An error in a table, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {problem}")]
pub struct CsvError {
    position: String,
    problem: String,
}

impl CsvError {
    /// Cells of the file in the message are escaped.
    fn new(position: String, problem: &str) -> Self {
        CsvError { position, problem: base::printable(problem) }
    }
}

impl<'a> CsvTable<'a> {
    /// Parses a table. `file` is used only in errors.
    ///
    /// # Errors
    /// Returns an error if the header is missing, if two columns have the same name, or if a row and the header have
    /// different numbers of cells.
    pub fn read(text: &'a str, file: &'a str) -> Result<Self, CsvError> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let error_at =
            |line: u64, problem: String| CsvError::new(format!("{file}:{line}:1"), &problem);
        let header = reader.headers().map_err(|error| error_at(1, error.to_string()))?;
        let header: Vec<String> = header.iter().map(|cell| cell.trim().to_owned()).collect();
        if header.iter().all(String::is_empty) {
            let problem = "the header is missing; write the names of the columns";
            return Err(error_at(1, problem.to_owned()));
        }
        if let Some(idx) = (1..header.len()).find(|&idx| header[..idx].contains(&header[idx])) {
            let problem = format!("column {} has the name of an earlier column", idx + 1);
            return Err(error_at(1, problem));
        }
        let mut records = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| error_at(1, error.to_string()))?;
            if record.iter().all(|cell| cell.trim().is_empty()) {
                continue; // Spreadsheet programs append empty rows.
            }
            let (line, begin) = line_and_offset(text, record.position());
            if record.len() != header.len() {
                let problem = format!("{} cells, {} in the header", record.len(), header.len());
                return Err(error_at(line, problem));
            }
            let cells = record.iter().map(|cell| cell.trim().to_owned()).collect();
            records.push(CsvRecord { cells, line, begin });
        }
        Ok(CsvTable { file, text, header, records })
    }

    /// Returns the rows in the order of the file.
    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.records.iter().map(|record| CsvRow { table: self, record })
    }

    /// Returns whether the table has a column with this name.
    pub fn has_column(&self, column: &str) -> bool {
        self.header.iter().any(|cell| cell == column)
    }

    /// Checks that the table has these columns. A table without rows is checked too.
    ///
    /// # Errors
    /// Returns an error for the first missing column.
    pub fn require_columns(&self, columns: &[&str]) -> Result<(), CsvError> {
        if !columns.iter().any(|column| self.has_column(column)) {
            // The file is not such a table, and the error does not quote its content.
            let problem = format!("this is not a table with the columns {}", columns.join(", "));
            return Err(CsvError::new(format!("{}:1:1", self.file), &problem));
        }
        columns.iter().try_for_each(|column| self.column(column).map(|_| ()))
    }

    fn column(&self, column: &str) -> Result<usize, CsvError> {
        self.header.iter().position(|cell| cell == column).ok_or_else(|| {
            let columns = self.header.join(", ");
            let problem = format!("there is no column \"{column}\"; the columns are {columns}");
            CsvError::new(format!("{}:1:1", self.file), &problem)
        })
    }
}

impl<'t> CsvRow<'t> {
    /// Returns the line number in the file, from 1.
    pub fn line(self) -> u64 {
        self.record.line
    }

    /// Returns the table of the row.
    pub fn table(self) -> &'t CsvTable<'t> {
        self.table
    }

    /// Returns the text of a cell.
    ///
    /// # Errors
    /// Returns an error if the table has no such column.
    pub fn text(self, column: &str) -> Result<&'t str, CsvError> {
        Ok(&self.record.cells[self.table.column(column)?])
    }

    /// Returns the number in a cell; `None` if the cell is empty.
    ///
    /// # Errors
    /// Returns an error if the table has no such column, or if the cell is not a number or is infinite or negative.
    pub fn number(self, column: &str) -> Result<Option<f64>, CsvError> {
        let text = self.text(column)?;
        if text.is_empty() {
            return Ok(None);
        }
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && 0.0 <= *value);
        let problem = || format!("{column} is \"{text}\"; write a number from 0");
        value.map(Some).ok_or_else(|| self.error(column, problem()))
    }

    /// Returns the number in a cell.
    ///
    /// # Errors
    /// Returns the errors of [`CsvRow::number`], and an error if the cell is empty.
    pub fn require_number(self, column: &str) -> Result<f64, CsvError> {
        let problem = || format!("{column} is empty; write a number from 0");
        self.number(column)?.ok_or_else(|| self.error(column, problem()))
    }

    /// Returns the number in a cell; `None` if the table has no such column.
    ///
    /// # Errors
    /// Returns the errors of [`CsvRow::require_number`].
    pub fn number_of_optional_column(self, column: &str) -> Result<Option<f64>, CsvError> {
        self.table.has_column(column).then(|| self.require_number(column)).transpose()
    }

    /// Returns an error with the position of a cell.
    pub fn error(self, column: &str, problem: String) -> CsvError {
        let column = self.table.column(column).map_or(1, |column| self.char_of_column(column));
        CsvError::new(format!("{}:{}:{column}", self.table.file, self.record.line), &problem)
    }

    /// Returns the position at which a cell begins, in characters from 1.
    fn char_of_column(self, column: usize) -> usize {
        let rest = self.table.text.get(self.record.begin..).unwrap_or_default();
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

/// Returns the line, from 1, and the byte offset at which a record begins. The CSV reader counts preceding empty
/// lines as part of the record, so they are skipped here.
fn line_and_offset(text: &str, position: Option<&csv::Position>) -> (u64, usize) {
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
        let table = CsvTable::read(TEXT, "t.csv").unwrap();
        let [first, second] = &table.rows().collect::<Vec<_>>()[..] else { panic!("two rows") };
        assert_eq!(first.number("a, b"), Ok(Some(1.5)));
        assert_eq!(first.number("c"), Ok(None));
        assert_eq!(second.text("name"), Ok("y, z"));
        assert_eq!(second.require_number("a, b"), Ok(2.0));
        assert_eq!(second.number_of_optional_column("d"), Ok(None));
    }

    #[test]
    fn empty_lines_and_other_line_endings_are_ignored() {
        let cells = |text| {
            let table = CsvTable::read(text, "t.csv").unwrap();
            table.rows().map(|row| row.record.cells.clone()).collect::<Vec<_>>()
        };
        let expected = cells("a,b\n1,2\n3,4\n");
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
        let table = CsvTable::read(TEXT, "t.csv").unwrap();
        let [first, second] = &table.rows().collect::<Vec<_>>()[..] else { panic!("two rows") };
        let read = |text| CsvTable::read(text, "t.csv").expect_err("the table is invalid");
        let errors = [
            table.require_columns(&["c", "d"]).expect_err("no column"),
            second.number("c").expect_err("negative"),
            first.require_number("c").expect_err("empty"),
            first.number("name").expect_err("no number"),
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
            t.csv:1:1: column 3 has the name of an earlier column
            t.csv:3:1: 1 cells, 2 in the header"#]]
        .assert_eq(&errors.map(|error| error.to_string()).join("\n"));
    }
}
