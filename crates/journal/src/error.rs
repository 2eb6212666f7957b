//! Errors of reading a journal, with file and line.

use std::io;
use std::path::PathBuf;

/// A journal that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened or read.
    #[error("cannot read the journal {path}: name the file journal.jsonl of a run", path = .path.display())]
    Read {
        /// The journal file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A line is invalid.
    #[error("{path}:{line}: {cause}", path = .path.display())]
    Line {
        /// The journal file.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// The defect.
        cause: LineError,
    },
}

/// The defect of a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The file has no line.
    #[error("the file is empty: this is not a journal")]
    Empty,
    /// The first line has no journal version; with the parser's message.
    #[error("not an evenkeel journal: the first line has no journal version ({0})")]
    NoHeader(String),
    /// The journal has another format version, older or newer.
    #[error(
        "the journal has format {found}, this evenkeel reads format {supported} only: use the version that wrote it ({tool})"
    )]
    OtherFormat {
        /// Version of the journal.
        found: u32,
        /// Version that this code reads.
        supported: u32,
        /// Version of the evenkeel that wrote the journal.
        tool: String,
    },
    /// Invalid JSON, a missing field or a field of the wrong type; with the parser's message.
    #[error("{0}: the line is damaged or was edited")]
    Broken(String),
    /// A field has an impossible value.
    #[error("the field {field} is {found}: expected {expected}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The valid values, as a noun phrase.
        expected: &'static str,
    },
    /// The machine in the header is invalid.
    #[error("the machine: {0}")]
    Machine(topology::file::FileError),
    /// The line exceeds the length limit, in bytes.
    #[error("the line is longer than {0} bytes: this is not a journal")]
    TooLong(u64),
    /// A line follows the end of the run.
    #[error("a turn follows the end of the run")]
    AfterEnd,
}

impl LineError {
    pub(crate) fn value(field: &'static str, found: impl ToString, expected: &'static str) -> Self {
        LineError::Value { field, found: found.to_string(), expected }
    }

    /// Names the field, if the error has no field.
    pub(crate) fn of_field(self, name: &'static str) -> Self {
        match self {
            LineError::Value { field: "", found, expected } => {
                LineError::Value { field: name, found, expected }
            }
            error => error,
        }
    }
}
