//! Errors of reading a journal, with file and line.

use std::io;
use std::path::PathBuf;

/// A journal that cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum JournalError {
    #[error("cannot read the journal {path}", path = .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}:{line}: {}", base::printable(&.cause.to_string()), path = .path.display())]
    Line { path: PathBuf, line: u64, cause: LineError },
}

/// The defect of a line.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum LineError {
    #[error("the file is empty: this is not a journal")]
    Empty,
    #[error(
        "not a journal: the first line has no journal version; specify the file journal.jsonl of a run"
    )]
    NoHeader,
    #[error("this is a stream of evenkeel record, not a journal: evenkeel replay reads it")]
    Stream,
    #[error("{}", base::suggest::other_format("journal", *.found, *.supported))]
    OtherFormat { found: u32, supported: u32 },
    /// Invalid JSON, a missing field or a field of the wrong type. The text is the message of the parser.
    #[error("{0}: the line is damaged or was edited")]
    Broken(String),
    #[error("the field {field} is {found}: expected {expected}")]
    Value { field: &'static str, found: String, expected: &'static str },
    #[error("the machine: {0}")]
    Machine(topology::file::FileError),
    #[error("the line is longer than {0} bytes: this is not a journal")]
    TooLong(u64),
    #[error("a turn follows the end of the run")]
    AfterEnd,
}

impl LineError {
    pub(crate) fn value(field: &'static str, found: impl ToString, expected: &'static str) -> Self {
        LineError::Value { field, found: found.to_string(), expected }
    }

    /// Adds the name of the field if the error contains no name.
    pub(crate) fn of_field(self, name: &'static str) -> Self {
        match self {
            LineError::Value { field: "", found, expected } => {
                LineError::Value { field: name, found, expected }
            }
            error => error,
        }
    }
}
