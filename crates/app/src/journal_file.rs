//! The journal of a run or of a watch. A failed write, for example on a full disk, does not end the run: the run
//! continues without its journal, and the report is based on the values in memory.

use std::io;

use engine::{Sink, TurnRecord};
use files::NewFile;
use journal::{Header, JournalLimits, JournalWriter, RunEnd};

/// A journal whose first failed write is printed as one note.
pub struct JournalFile {
    writer: JournalWriter,
    has_failed: bool,
}

impl JournalFile {
    /// Writes the header to a new file.
    pub fn create(file: NewFile, header: &Header, limits: JournalLimits) -> io::Result<Self> {
        Ok(JournalFile { writer: JournalWriter::create(file, header, limits)?, has_failed: false })
    }

    /// Writes the last line. Returns whether the journal is complete.
    pub fn finish(&mut self, end: &RunEnd) -> bool {
        let written = self.writer.finish(end);
        self.check(written);
        !self.has_failed
    }

    /// Returns the number of parts that the size limit removed.
    pub fn n_parts_removed(&self) -> u32 {
        self.writer.n_parts_removed()
    }

    fn check(&mut self, written: io::Result<()>) {
        // The writer returns only the first error.
        let Err(error) = written else { return };
        self.has_failed = true;
        crate::print::warning(format_args!(
            "cannot write the journal {}: {error}; the run continues without it",
            self.writer.path().display()
        ));
    }
}

impl Sink for JournalFile {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        let written = self.writer.record(record);
        self.check(written);
        Ok(())
    }
}
