//! What can be wrong with a journal, with the file and the line.

use std::io;
use std::path::PathBuf;

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened or read.
    #[error("cannot read the journal {path}: name the file journal.jsonl of a run", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not what it should be.
    #[error("{path}:{line}: {what}", path = .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        what: LineError,
    },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// No line at all.
    #[error("the file is empty: this is no journal")]
    Empty,
    /// The first line is something else.
    #[error("this is no evenkeel journal: its first line has no journal version ({0})")]
    NoHeader(String),
    /// A later format.
    #[error(
        "the journal has format {found}, this evenkeel reads up to {known}: use the one that wrote it ({tool})"
    )]
    Newer {
        /// Its format.
        found: u32,
        /// Ours.
        known: u32,
        /// Who wrote it.
        tool: String,
    },
    /// No JSON, or a field of the wrong kind.
    #[error("{0}: the journal was damaged or edited here")]
    Broken(String),
    /// A field with a value that cannot be.
    #[error("the field {field} holds {found}, which is no {wanted}")]
    Value {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What should.
        wanted: &'static str,
    },
    /// The machine cannot be.
    #[error("the machine: {0}")]
    Machine(topology::file::FileError),
    /// A line of absurd length.
    #[error("the line is longer than {0} bytes: this is no journal")]
    TooLong(u64),
    /// Something after the end.
    #[error("a turn stands after the end of the run")]
    AfterEnd,
}

impl LineError {
    pub(crate) fn value(field: &'static str, found: impl ToString, wanted: &'static str) -> Self {
        LineError::Value { field, found: found.to_string(), wanted }
    }
}
