//! Writing: a line per turn; what happened is written at once, what did not with the next.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base::Bytes;
use engine::{Sink, TurnRecord};
use sched::Cause;
use serde::Serialize;

use crate::parts;
use crate::wire::{EndLine, HeaderLine, Place, SoFarLine, TurnOut};
use crate::{Header, RunEnd, SoFar};

/// How large a journal may become.
///
/// A thousand busy tasks write about 100 KB a turn. With the defaults the last hour of such a run
/// stays on disk, and a run of sixteen jobs is kept for weeks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A part that has grown beyond this is continued in a new one.
    pub part: Bytes,
    /// How many parts are kept, the one being written among them; at least 1. The oldest go first,
    /// and the new part says how many are gone.
    pub n_parts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { part: Bytes::from_mib(64), n_parts: 16 }
    }
}

/// Turns in which nothing happened wait for the next in which something does, at most so many: beside
/// sleeping jobs a write of its own for each would be a fifth of all that evenkeel costs.
const QUIET_TURNS_MAX: u32 = 8;

/// Writes a journal; takes part in a run as a sink.
#[derive(Debug)]
pub struct JournalWriter {
    path: PathBuf,
    file: File,
    line: Vec<u8>,
    n_waiting: u32,
    header: Header,
    limits: Limits,
    so_far: SoFar,
    place: Place,
    part_bytes: u64,
    /// The run has ended, or the file could not be written: nothing comes after that.
    ended: bool,
}

impl JournalWriter {
    /// Creates the file (an old one of that name is overwritten) and writes the header.
    ///
    /// # Errors
    /// What the system says when it cannot be created or written.
    pub fn create(path: &Path, header: &Header, limits: Limits) -> io::Result<Self> {
        let mut writer = JournalWriter {
            path: path.to_owned(),
            file: File::create(path)?,
            line: Vec::new(),
            n_waiting: 0,
            header: header.clone(),
            limits,
            so_far: SoFar::new(header),
            place: Place { part: 1, dropped: 0 },
            part_bytes: 0,
            ended: false,
        };
        writer.write_header()?;
        Ok(writer)
    }

    /// Where the newest part lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many parts have been removed because of the limits.
    pub fn n_parts_dropped(&self) -> u32 {
        self.place.dropped
    }

    /// Writes the last line. Further turns and ends are ignored: a run ends once.
    ///
    /// # Errors
    /// What the system says when it cannot be written.
    pub fn finish(&mut self, end: &RunEnd) -> io::Result<()> {
        if self.ended {
            return Ok(());
        }
        self.add_line(&EndLine::from(end))?;
        self.flush()?;
        self.ended = true;
        Ok(())
    }

    /// Nothing waits when this is called.
    fn write_header(&mut self) -> io::Result<()> {
        add_line(&mut self.line, &HeaderLine::new(&self.header, self.place))?;
        if 1 < self.place.part {
            add_line(&mut self.line, &SoFarLine::from(&self.so_far))?;
        }
        self.part_bytes = 0;
        self.flush()
    }

    fn add_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        add_line(&mut self.line, line)?;
        self.n_waiting += 1;
        Ok(())
    }

    /// Writes the lines that wait, in one piece. A piece of which only a part could be written stays
    /// the last one: after it, whole lines would be taken for the rest of a torn one.
    fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.line);
        self.ended |= written.is_err();
        self.part_bytes += self.line.len() as u64;
        self.line.clear();
        self.n_waiting = 0;
        written
    }

    /// Continues in a new part. Its first lines are complete before it takes the name.
    fn rotate(&mut self) -> io::Result<()> {
        let full = self.place.part;
        let kept = self.limits.n_parts.max(1);
        self.place = Place { part: full + 1, dropped: (full + 1).saturating_sub(kept) };
        self.file = File::create(parts::unfinished(&self.path))?;
        self.write_header()?;
        parts::exchange(&self.path, full)?;
        if let Some(oldest) = (full + 1).checked_sub(kept).filter(|&part| 0 < part) {
            std::fs::remove_file(parts::numbered(&self.path, oldest))?;
        }
        Ok(())
    }
}

impl Sink for JournalWriter {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if self.ended {
            return Ok(());
        }
        self.so_far.observe(record);
        self.header.take_in(record.sample);
        self.add_line(&TurnOut(record))?;
        if is_quiet(record) && self.n_waiting < QUIET_TURNS_MAX {
            return Ok(());
        }
        self.flush()?;
        if self.limits.part.0 < self.part_bytes {
            self.rotate()?;
        }
        Ok(())
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        // Only what a run leaves that never came to its end; an error was told where it arose.
        let _ = self.flush();
    }
}

/// Whether nothing came of a turn and nothing ran: only time went by.
fn is_quiet(record: &TurnRecord<'_>) -> bool {
    let sample = record.sample;
    record.turn.causes == [Cause::Interval]
        && sample.jobs.is_empty()
        && sample.tasks.is_empty()
        && sample.exited.is_empty()
        && sample.usable_cpus.is_none()
        && sample.degraded.is_empty()
        && record.plan.is_empty()
        && record.rejected.is_empty()
        && record.outcomes.is_empty()
}

fn add_line(buffer: &mut Vec<u8>, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *buffer, line)?;
    buffer.push(b'\n');
    Ok(())
}
