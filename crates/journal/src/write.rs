//! Writing: a line per turn, one write per line.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base::Bytes;
use engine::{Sink, TurnRecord};
use serde::Serialize;

use crate::parts;
use crate::wire::{EndLine, HeaderLine, Place, SoFarLine, TurnLine};
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

/// Writes a journal; takes part in a run as a sink.
#[derive(Debug)]
pub struct JournalWriter {
    path: PathBuf,
    file: File,
    line: Vec<u8>,
    header: Header,
    limits: Limits,
    so_far: SoFar,
    place: Place,
    part_bytes: u64,
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
            header: header.clone(),
            limits,
            so_far: SoFar::new(&header.jobs),
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
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        self.write_line(&EndLine::from(end))
    }

    fn write_header(&mut self) -> io::Result<()> {
        self.line.clear();
        add_line(&mut self.line, &HeaderLine::new(&self.header, self.place))?;
        if 1 < self.place.part {
            add_line(&mut self.line, &SoFarLine::from(&self.so_far))?;
        }
        self.file.write_all(&self.line)?;
        self.part_bytes = self.line.len() as u64;
        Ok(())
    }

    fn write_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        add_line(&mut self.line, line)?;
        self.file.write_all(&self.line)?;
        self.part_bytes += self.line.len() as u64;
        Ok(())
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
    fn turn(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if self.ended {
            return Ok(());
        }
        self.so_far.observe(record);
        self.write_line(&TurnLine::from(record))?;
        if self.limits.part.0 < self.part_bytes {
            self.rotate()?;
        }
        Ok(())
    }
}

fn add_line(buffer: &mut Vec<u8>, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *buffer, line)?;
    buffer.push(b'\n');
    Ok(())
}
