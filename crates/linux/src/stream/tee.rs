//! A source that records every read of another source.

use std::io::{self, Write};

use base::json;
use serde::Serialize;

use super::lines::{StreamHeader, StreamLine, to_hex};
use crate::perf::{CounterGroup, GroupBuffer, GroupSpec};
use crate::source::Source;

/// Records every read of a source as a stream.
pub struct Tee<'a> {
    from: &'a mut dyn Source,
    to: &'a mut dyn Write,
    /// The first write error. No line is written after this error.
    failed: Option<io::Error>,
    next_failed: u32,
}

impl<'a> Tee<'a> {
    /// Writes the header.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new(
        header: &StreamHeader,
        from: &'a mut dyn Source,
        to: &'a mut dyn Write,
    ) -> io::Result<Self> {
        write_line(to, header)?;
        // Groups that failed to open are numbered from 2^30, so that their numbers differ from those of open groups.
        Ok(Tee { from, to, failed: None, next_failed: 1 << 30 })
    }

    /// Flushes the previous turn and begins the next one.
    ///
    /// # Errors
    /// A line could not be written.
    pub fn turn(&mut self, turn: u64, at_ns: u64) -> io::Result<()> {
        self.write(&StreamLine::Turn { turn, at_ns });
        self.finish()
    }

    /// Flushes the stream.
    ///
    /// # Errors
    /// A line could not be written.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.to.flush(),
        }
    }

    fn write(&mut self, line: &StreamLine) {
        if self.failed.is_none() {
            self.failed = write_line(self.to, line).err();
        }
    }
}

fn write_line(to: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = Vec::new();
    json::append_line(&mut text, line)?;
    to.write_all(&text)
}

/// Returns the error number; ENOENT for errors without a number.
fn errno(error: &io::Error) -> Option<i32> {
    Some(error.raw_os_error().unwrap_or(libc::ENOENT))
}

impl Source for Tee<'_> {
    fn list(&mut self, dir: &str) -> io::Result<Vec<String>> {
        let listed = self.from.list(dir);
        self.write(&StreamLine::List {
            list: dir.to_owned(),
            names: listed.as_ref().ok().cloned(),
            errno: listed.as_ref().err().and_then(errno),
        });
        listed
    }

    fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let read = self.from.file(path);
        let bytes = read.as_ref().ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes.clone()).ok());
        let hex = if text.is_some() { None } else { bytes.map(|bytes| to_hex(bytes)) };
        let errno = read.as_ref().err().and_then(errno);
        self.write(&StreamLine::File { file: path.to_owned(), text, hex, errno });
        read
    }

    fn open(&mut self, spec: &GroupSpec) -> io::Result<CounterGroup> {
        let opened = self.from.open(spec);
        match &opened {
            Ok(group) => self.write(&StreamLine::opened(spec, group.nr, &group.ids, None)),
            Err(error) => {
                self.write(&StreamLine::opened(spec, self.next_failed, &[], errno(error)));
                self.next_failed += 1;
            }
        }
        opened
    }

    fn group<'a>(
        &mut self,
        group: &CounterGroup,
        buffer: &'a mut GroupBuffer,
    ) -> io::Result<&'a [u8]> {
        let read = self.from.group(group, buffer);
        let hex = read.as_ref().ok().map(|bytes| to_hex(bytes));
        let errno = read.as_ref().err().and_then(errno);
        self.write(&StreamLine::Group { group: group.nr, hex, errno });
        read
    }
}
