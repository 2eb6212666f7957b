//! The journal writer: one line per turn. A turn with an event is flushed immediately. Turns without an event are
//! buffered until the next event, but at most eight turns.

use std::io::{self, Write};
use std::path::PathBuf;

use base::Bytes;
use engine::{Sink, TurnRecord};
use files::NewFile;
use sched::Cause;
use serde::Serialize;

use crate::part_files;
use crate::wire::{CheckpointLine, Encoded, EndLine, HeaderLine, PartNumber, TurnLine};
use crate::{Checkpoint, Header, RunEnd};

/// Size limits of a journal.
///
/// A thousand busy tasks write about 100 KB per turn. With the defaults (1 GiB) and four turns per second the
/// journal contains the last 45 minutes of such a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLimits {
    /// Size at which the journal continues in a new part.
    pub part: Bytes,
    /// Number of parts to keep, including the current part; at least 1. The oldest part is removed first, and the
    /// header of the new part contains the number of removed parts.
    pub n_parts: u32,
}

impl Default for JournalLimits {
    fn default() -> Self {
        JournalLimits { part: Bytes::from_mib(64), n_parts: 16 }
    }
}

/// Maximum number of buffered turns without an event. With sleeping jobs, one write per turn would be a fifth of the
/// CPU time of evenkeel.
const BUFFERED_TURNS_MAX: u32 = 8;

/// Sink that writes the journal of a run.
#[derive(Debug)]
pub struct JournalWriter {
    file: NewFile,
    buffer: Vec<u8>,
    n_buffered: u32,
    header: Header,
    limits: JournalLimits,
    checkpoint: Checkpoint,
    part: PartNumber,
    part_bytes: u64,
    /// Size of the first lines of the part.
    header_bytes: u64,
    /// Whether the run has ended or a write has failed. Nothing is written afterwards.
    is_closed: bool,
}

impl JournalWriter {
    /// Writes the header to a new file. Further parts are created in the same directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(file: NewFile, header: &Header, limits: JournalLimits) -> io::Result<Self> {
        let mut writer = JournalWriter {
            file,
            buffer: Vec::new(),
            n_buffered: 0,
            header: header.clone(),
            limits,
            checkpoint: Checkpoint::new(header),
            part: PartNumber { part: 1, n_removed: 0 },
            part_bytes: 0,
            header_bytes: 0,
            is_closed: false,
        };
        writer.write_header()?;
        Ok(writer)
    }

    /// Returns the path of the newest part.
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// Returns the number of parts that were removed because of the limits.
    pub fn n_parts_removed(&self) -> u32 {
        self.part.n_removed
    }

    /// Writes the last line. Later turns and ends are ignored.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self, end: &RunEnd) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        self.add_line(&Encoded::<EndLine>::encode(end))?;
        self.flush()?;
        self.is_closed = true;
        Ok(())
    }

    /// Writes the header. The buffer must be empty.
    fn write_header(&mut self) -> io::Result<()> {
        base::json::append_line(&mut self.buffer, &HeaderLine::new(&self.header, self.part))?;
        if 1 < self.part.part {
            base::json::append_line(&mut self.buffer, &CheckpointLine::from(&self.checkpoint))?;
        }
        (self.part_bytes, self.header_bytes) = (0, self.buffer.len() as u64);
        self.flush()
    }

    fn add_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        base::json::append_line(&mut self.buffer, line)?;
        self.n_buffered += 1;
        Ok(())
    }

    /// Writes the buffered lines in one call. A failed write closes the journal: the reader would join a truncated line
    /// and the next line.
    fn flush(&mut self) -> io::Result<()> {
        let written = self.file.file.write_all(&self.buffer);
        self.is_closed |= written.is_err();
        self.part_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        self.n_buffered = 0;
        written
    }

    /// Continues the journal in a new part. The first lines are written before the part gets the base name.
    fn rotate(&mut self) -> io::Result<()> {
        let full = self.part.part;
        let n_kept = self.limits.n_parts.max(1);
        self.part = PartNumber { part: full + 1, n_removed: (full + 1).saturating_sub(n_kept) };
        let NewFile { dir, name, .. } = &self.file;
        let (dir, name) = (dir.clone(), name.clone());
        self.file.file = dir.create_temporary(part_files::unfinished(&name))?;
        self.write_header()?;
        part_files::exchange(&dir, &name, full)?;
        match (full + 1).checked_sub(n_kept).filter(|&part| 0 < part) {
            Some(oldest) => dir.remove(part_files::numbered(name.as_ref(), oldest)),
            None => Ok(()),
        }
    }
}

impl Sink for JournalWriter {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        self.checkpoint.observe(record);
        self.header.add_attached_jobs(record.sample);
        self.add_line(&TurnLine::from(record))?;
        if has_no_event(record) && self.n_buffered < BUFFERED_TURNS_MAX {
            return Ok(());
        }
        self.flush()?;
        // The first lines of a large run can exceed the limit. A part with twice their size is then permitted: without
        // this rule, every turn would write the first lines again.
        if self.limits.part.0.max(2 * self.header_bytes) < self.part_bytes {
            self.rotate()?;
        }
        Ok(())
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        // Flushes the lines of an unfinished run. An earlier error has already been returned.
        let _ = self.flush();
    }
}

/// Returns whether a turn has no event: no task ran, and the plan is empty.
fn has_no_event(record: &TurnRecord<'_>) -> bool {
    let sample = record.sample;
    record.turn.causes == [Cause::Interval]
        && sample.jobs.is_empty()
        && sample.tasks.is_empty()
        && sample.exited.is_empty()
        && sample.usable_cpus.is_none()
        && sample.degraded.is_empty()
        && sample.host_notes.is_empty()
        && record.plan.is_empty()
        && record.rejected.is_empty()
        && record.outcomes.is_empty()
}
