//! Journal reader: [`read`] opens a journal and reads its header; an iterator reads the turns.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base::toml_reader::plain_json_message;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::part_files::numbered;
use crate::wire::{CheckpointLine, Encoded, EndLine, HeaderLine, PartNumber, TurnLine};
use crate::{Checkpoint, FORMAT, Header, JournalError, LineError, RecordedTurn, RunEnd};

/// Maximum length of a line, in bytes. Ten thousand tasks need about one megabyte.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// An open journal: the header, and an iterator over its turns.
#[derive(Debug)]
pub struct Recording {
    header: Header,
    checkpoint: Option<Checkpoint>,
    part: PartNumber,
    lines: JournalLines,
    /// Paths of the parts that follow, in reverse order.
    next_parts: Vec<PathBuf>,
    end: Option<RunEnd>,
    truncated: Option<String>,
    is_exhausted: bool,
}

/// Opens a journal with all existing parts. The path of a numbered part opens only this part.
///
/// # Errors
/// The file cannot be read, or its header is invalid or of another format version.
pub fn read(path: &Path) -> Result<Recording, JournalError> {
    let mut files = vec![path.to_owned()];
    let mut first = first_line(&mut JournalLines::open(path)?)?;
    let run = first.run.clone();
    while 1 < first.part {
        let earlier = numbered(path, first.part - 1);
        let Ok(found) = JournalLines::open(&earlier).and_then(|mut lines| first_line(&mut lines))
        else {
            break;
        };
        if found.run != run || first.part <= found.part {
            break;
        }
        first.part = found.part;
        files.push(earlier);
    }
    Recording::open(files)
}

/// The fields of a header that select the files to read.
#[derive(Deserialize)]
struct FirstLine {
    journal: Option<u32>,
    /// Format version in the first line of a stream.
    evenkeel_stream: Option<u32>,
    #[serde(default)]
    run: String,
    #[serde(default)]
    part: u32,
    #[serde(skip)]
    line: String,
}

/// Reads the first line. Rejects files that are not a journal and other format versions.
fn first_line(lines: &mut JournalLines) -> Result<FirstLine, JournalError> {
    let line = match lines.next_line()? {
        Some(line) => line.text,
        None => return Err(lines.error(LineError::Empty)),
    };
    check_version(&line).map_err(|error| lines.error(error))?;
    match serde_json::from_str::<FirstLine>(&line) {
        Ok(first) if first.journal.is_some() => {
            Ok(FirstLine { line, part: first.part.max(1), ..first })
        }
        Ok(first) if first.evenkeel_stream.is_some() => Err(lines.error(LineError::Stream)),
        _ => Err(lines.error(LineError::NoHeader)),
    }
}

/// Checks only the format version, because the other fields differ between versions.
fn check_version(line: &str) -> Result<(), LineError> {
    #[derive(Deserialize)]
    struct JournalVersion {
        journal: u32,
    }
    match serde_json::from_str(line) {
        Ok(JournalVersion { journal: found }) if found != FORMAT => {
            Err(LineError::OtherFormat { found, supported: FORMAT })
        }
        _ => Ok(()),
    }
}

impl Recording {
    /// Opens the parts of a journal. `files` contains their paths, the newest part first.
    fn open(mut files: Vec<PathBuf>) -> Result<Self, JournalError> {
        let path = files.pop().expect("the list holds the given path");
        let mut lines = JournalLines::open(&path)?;
        let first = first_line(&mut lines)?;
        let line: HeaderLine = lines.parse(&first.line)?;
        let part = line.part_number();
        let header = line.header().map_err(|cause| lines.error(cause))?;
        let mut recording = Recording {
            header,
            checkpoint: None,
            part,
            lines,
            next_parts: files,
            end: None,
            truncated: None,
            is_exhausted: false,
        };
        if 1 < part.part {
            recording.checkpoint = recording.read_checkpoint()?;
        }
        Ok(recording)
    }

    /// Returns the header of the run.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the state of the run at the start of the first part that was read; `None` if this is
    /// part 1.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// Returns the number of missing parts before the first part that was read.
    pub fn n_parts_missing(&self) -> u32 {
        self.part.part - 1
    }

    /// Returns the end of the run. `None` until all turns have been read, or if evenkeel was killed or is
    /// running.
    pub fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    /// Returns `file:line` of a truncated last line; `None` until all turns have been read. A line is truncated if
    /// evenkeel or the machine stopped during the write.
    pub fn truncated(&self) -> Option<&str> {
        self.truncated.as_deref()
    }

    fn read_checkpoint(&mut self) -> Result<Option<Checkpoint>, JournalError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let parsed: CheckpointLine = self.lines.parse(&line.text)?;
        parsed.checkpoint(&self.header).map(Some).map_err(|cause| self.lines.error(cause))
    }

    fn next_turn(&mut self) -> Result<Option<RecordedTurn>, JournalError> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                let Some(path) = self.next_parts.pop() else { return Ok(None) };
                self.lines = JournalLines::open(&path)?;
                first_line(&mut self.lines)?;
                // The next line is the checkpoint of the part. The turns before the checkpoint have been read.
                self.lines.next_line()?;
                continue;
            };
            if self.end.is_some() {
                return Err(self.lines.error(LineError::AfterEnd));
            }
            match self.parse_turn(&line.text) {
                Err(_) if !line.is_whole && self.next_parts.is_empty() => {
                    let place = format!("{}:{}", self.lines.path.display(), self.lines.number);
                    self.truncated = Some(place);
                    return Ok(None);
                }
                Ok(Some(turn)) => return Ok(Some(turn)),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Parses a turn. Returns `None` for the end of the run.
    fn parse_turn(&mut self, text: &str) -> Result<Option<RecordedTurn>, JournalError> {
        if text.starts_with("{\"end\"") {
            let line: EndLine = self.lines.parse(text)?;
            self.end = Some(Encoded::decode(line, &[]).map_err(|cause| self.lines.error(cause))?);
            return Ok(None);
        }
        let line: TurnLine = self.lines.parse(text)?;
        line.turn(&self.header.policy.reasons).map(Some).map_err(|cause| self.lines.error(cause))
    }
}

impl Iterator for Recording {
    type Item = Result<RecordedTurn, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_exhausted {
            return None;
        }
        let next = self.next_turn().transpose();
        self.is_exhausted = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The lines of a file, with path and line number for errors.
#[derive(Debug)]
struct JournalLines {
    path: PathBuf,
    file: BufReader<File>,
    number: u64,
}

struct TextLine {
    text: String,
    /// Whether the line ends with a line feed.
    is_whole: bool,
}

impl JournalLines {
    fn open(path: &Path) -> Result<Self, JournalError> {
        let error = |source| JournalError::Read { path: path.to_owned(), source };
        let file = files::open_input(path).map_err(error)?;
        if file.metadata().map_err(error)?.is_dir() {
            return Err(error(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Ok(JournalLines { path: path.to_owned(), file: BufReader::new(file), number: 0 })
    }

    fn next_line(&mut self) -> Result<Option<TextLine>, JournalError> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        read.map_err(|source| JournalError::Read { path: self.path.clone(), source })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let is_whole = bytes.last() == Some(&b'\n');
        if !is_whole && LINE_BYTES_MAX <= bytes.len() as u64 {
            return Err(self.error(LineError::TooLong(LINE_BYTES_MAX)));
        }
        let text = String::from_utf8(bytes);
        match text {
            Ok(text) => Ok(Some(TextLine { text, is_whole })),
            Err(_) if !is_whole => Ok(Some(TextLine { text: String::new(), is_whole })),
            Err(_) => Err(self.error(LineError::Broken("the line is not UTF-8".to_owned()))),
        }
    }

    fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, JournalError> {
        serde_json::from_str(text)
            .map_err(|error| self.error(LineError::Broken(json_message(&error))))
    }

    fn error(&self, cause: LineError) -> JournalError {
        JournalError::Line { path: self.path.clone(), line: self.number.max(1), cause }
    }
}

/// Returns the message without its line number: the error already contains the line of the file.
fn json_message(error: &serde_json::Error) -> String {
    let text = plain_json_message(&error.to_string());
    match text.split_once(" at line ") {
        Some((message, _)) => format!("{message} (column {})", error.column()),
        None => text,
    }
}
