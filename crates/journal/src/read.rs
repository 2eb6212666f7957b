//! Reading: the header at once, the turns one by one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::parts::numbered;
use crate::wire::{EndLine, HeaderLine, Place, SoFarLine, TurnLine};
use crate::{FORMAT, Header, JournalError, LineError, RecordedTurn, RunEnd, SoFar};

/// No line of ours is longer: ten thousand tasks need about a megabyte.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// A journal that is open: its header, and its turns by iterating.
#[derive(Debug)]
pub struct Recording {
    header: Header,
    so_far: Option<SoFar>,
    place: Place,
    lines: Lines,
    /// Parts still to come, the next one last.
    later: Vec<PathBuf>,
    end: Option<RunEnd>,
    torn: Option<String>,
    over: bool,
}

/// Opens a journal with all parts of it that are there.
///
/// Naming a numbered part opens that one alone.
///
/// # Errors
/// The file cannot be read, or its header is not one that this evenkeel understands.
pub fn read(path: &Path) -> Result<Recording, JournalError> {
    let mut files = vec![path.to_owned()];
    let mut place = first_line(&mut Lines::open(path)?)?;
    let run = place.run.clone();
    while 1 < place.part {
        let earlier = numbered(path, place.part - 1);
        let Ok(found) = Lines::open(&earlier).and_then(|mut lines| first_line(&mut lines)) else {
            break;
        };
        if found.run != run || place.part <= found.part {
            break;
        }
        (place.part, place.line) = (found.part, found.line);
        files.push(earlier);
    }
    Recording::open(files)
}

/// What is looked at before the rest of a header.
#[derive(Deserialize)]
struct Peek {
    journal: Option<u32>,
    #[serde(default)]
    run: String,
    #[serde(default)]
    part: u32,
    #[serde(skip)]
    line: String,
}

/// Reads the first line and refuses what is no journal, or one of the future.
fn first_line(lines: &mut Lines) -> Result<Peek, JournalError> {
    let line = match lines.next_line()? {
        Some(line) => line.text,
        None => return Err(lines.error(LineError::Empty)),
    };
    check_version(&line).map_err(|newer| lines.error(newer))?;
    let peek: Result<Peek, _> = serde_json::from_str(&line);
    let mut peek = peek.map_err(|error| lines.error(LineError::NoHeader(error.to_string())))?;
    match peek.journal {
        Some(_) => {
            peek.line = line;
            peek.part = peek.part.max(1);
            Ok(peek)
        }
        None => Err(lines.error(LineError::NoHeader("the field journal is missing".to_owned()))),
    }
}

/// Another version may have other fields, so nothing else is looked at before it.
fn check_version(line: &str) -> Result<(), LineError> {
    #[derive(Deserialize)]
    struct Version {
        journal: u32,
        tool: Option<serde_json::Value>,
    }
    match serde_json::from_str(line) {
        Ok(Version { journal: found, tool }) if found != FORMAT => {
            let tool = tool.as_ref().and_then(|tool| tool.as_str()).unwrap_or("of another version");
            Err(LineError::Newer { found, known: FORMAT, tool: tool.to_owned() })
        }
        _ => Ok(()),
    }
}

impl Recording {
    /// Opens the last of these files, and the others after it.
    fn open(mut files: Vec<PathBuf>) -> Result<Self, JournalError> {
        let path = files.pop().expect("the file that was named is among them");
        let mut lines = Lines::open(&path)?;
        let first = first_line(&mut lines)?;
        let line: HeaderLine = lines.parse(&first.line)?;
        let place = line.place();
        let header = line.header().map_err(|what| lines.error(what))?;
        let mut recording = Recording {
            header,
            so_far: None,
            place,
            lines,
            later: files,
            end: None,
            torn: None,
            over: false,
        };
        if 1 < place.part {
            recording.so_far = recording.read_so_far()?;
        }
        Ok(recording)
    }

    /// What the journal says of the run as a whole.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What the run had come to before the first turn that is here, when earlier parts are gone.
    pub fn so_far(&self) -> Option<&SoFar> {
        self.so_far.as_ref()
    }

    /// How many parts before the first that is here are missing.
    pub fn n_parts_missing(&self) -> u32 {
        self.place.part - 1
    }

    /// How the run ended: known once all turns have been read, and absent if evenkeel was killed.
    pub fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    /// Where the last line was torn (evenkeel or the machine stopped in the middle of it), once
    /// all turns have been read.
    pub fn torn(&self) -> Option<&str> {
        self.torn.as_deref()
    }

    fn read_so_far(&mut self) -> Result<Option<SoFar>, JournalError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let parsed: SoFarLine = self.lines.parse(&line.text)?;
        parsed.so_far(&self.header).map(Some).map_err(|what| self.lines.error(what))
    }

    fn next_turn(&mut self) -> Result<Option<RecordedTurn>, JournalError> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                let Some(path) = self.later.pop() else { return Ok(None) };
                self.lines = Lines::open(&path)?;
                first_line(&mut self.lines)?;
                self.lines.next_line()?; // What came before it has been read in full.
                continue;
            };
            if self.end.is_some() {
                return Err(self.lines.error(LineError::AfterEnd));
            }
            match self.understand(&line.text) {
                Err(_) if !line.whole && self.later.is_empty() => {
                    let place = format!("{}:{}", self.lines.path.display(), self.lines.number);
                    self.torn = Some(place);
                    return Ok(None);
                }
                Ok(Some(turn)) => return Ok(Some(turn)),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A turn, or `None` for the end of the run.
    fn understand(&mut self, text: &str) -> Result<Option<RecordedTurn>, JournalError> {
        if text.starts_with("{\"end\"") {
            let line: EndLine = self.lines.parse(text)?;
            self.end = Some(line.run_end().map_err(|what| self.lines.error(what))?);
            return Ok(None);
        }
        let line: TurnLine = self.lines.parse(text)?;
        line.turn().map(Some).map_err(|what| self.lines.error(what))
    }
}

impl Iterator for Recording {
    type Item = Result<RecordedTurn, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.next_turn().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// A file, line by line, that knows where it is.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    number: u64,
}

struct TextLine {
    text: String,
    /// Whether the line has its end.
    whole: bool,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, JournalError> {
        let refuse = |source| JournalError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(refuse)?;
        if file.metadata().map_err(refuse)?.is_dir() {
            return Err(refuse(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Ok(Lines { path: path.to_owned(), file: BufReader::new(file), number: 0 })
    }

    fn next_line(&mut self) -> Result<Option<TextLine>, JournalError> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        read.map_err(|source| JournalError::Read { path: self.path.clone(), source })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let whole = bytes.last() == Some(&b'\n');
        if !whole && LINE_BYTES_MAX <= bytes.len() as u64 {
            return Err(self.error(LineError::TooLong(LINE_BYTES_MAX)));
        }
        let text = String::from_utf8(bytes);
        match text {
            Ok(text) => Ok(Some(TextLine { text, whole })),
            Err(_) if !whole => Ok(Some(TextLine { text: String::new(), whole })),
            Err(_) => Err(self.error(LineError::Broken("the line is not UTF-8".to_owned()))),
        }
    }

    fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, JournalError> {
        serde_json::from_str(text).map_err(|error| self.error(LineError::Broken(in_words(&error))))
    }

    fn error(&self, what: LineError) -> JournalError {
        JournalError::Line { path: self.path.clone(), line: self.number.max(1), what }
    }
}

/// The message without "at line 1": here the line is the file's.
fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" at line ") {
        Some((what, _)) => format!("{what} (column {})", error.column()),
        None => text,
    }
}
