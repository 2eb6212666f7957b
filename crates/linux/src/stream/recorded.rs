//! A stream as something to read from, turn by turn.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use topology::Machine;

use super::lines::{EventLine, Header, Line, VERSION, from_hex};
use crate::fault;
use crate::perf::{CounterTarget, GroupSpec};
use crate::source::{Opened, Source};

/// No line of ours is longer: a thousand CPUs of `/proc/schedstat` are a tenth of it.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Why a stream cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file cannot be read.
    #[error("cannot read the stream {path}: name a file that evenkeel record wrote", path = .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{path}:{line}: {what}", path = .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
}

type Answer<T> = Result<T, i32>;

/// Everything that was read in one stretch.
#[derive(Clone, Debug, Default)]
struct Segment {
    lists: BTreeMap<String, Answer<Vec<String>>>,
    files: BTreeMap<String, Answer<Vec<u8>>>,
    groups: BTreeMap<u32, Answer<Vec<u8>>>,
}

/// A stream that is open: its setup at once, its turns one by one.
#[derive(Debug)]
pub struct Recorded {
    /// What was recorded.
    pub header: Header,
    /// The machine.
    pub machine: Machine,
    setup: Segment,
    now: Segment,
    /// Groups by whom and what they count, in the order in which they were opened.
    opened: Vec<(GroupSpec, Answer<Opened>)>,
    /// The turn that comes next, whose line has been read.
    next: Option<(u64, u64)>,
    lines: Lines,
}

#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: BufReader<std::fs::File>,
    number: u64,
}

/// Whether a file begins as streams do; false where it cannot be read.
pub fn is_stream(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct Peek {
        #[serde(rename = "evenkeel_stream")]
        _version: u32,
    }
    let first = Lines::open(path).and_then(|mut lines| lines.next());
    matches!(first, Ok(Some(line)) if serde_json::from_str::<Peek>(&line).is_ok())
}

/// Opens a stream and reads what was set up before its first turn.
///
/// # Errors
/// The file cannot be read, or it is no stream that this evenkeel understands.
pub fn read(path: &Path) -> Result<Recorded, StreamError> {
    let mut lines = Lines::open(path)?;
    let Some(first) = lines.next()? else {
        return Err(lines.wrong("the file is empty: this is no stream"));
    };
    check_version(&first).map_err(|newer| lines.wrong(newer))?;
    let header: Header = lines.parse(&first)?;
    let machine = topology::file::parse_toml(&header.machine, "machine");
    let machine = machine.map_err(|error| lines.wrong(format!("the machine: {error}")))?;
    let mut recorded = Recorded {
        header,
        machine,
        setup: Segment::default(),
        now: Segment::default(),
        opened: Vec::new(),
        next: None,
        lines,
    };
    recorded.take_stretch()?;
    recorded.setup = std::mem::take(&mut recorded.now);
    Ok(recorded)
}

/// Another version may have other fields, so nothing else is looked at before it.
fn check_version(line: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Version {
        evenkeel_stream: u32,
        tool: Option<serde_json::Value>,
    }
    match serde_json::from_str(line) {
        Ok(Version { evenkeel_stream: found, tool }) if found != VERSION => {
            let tool = tool.as_ref().and_then(|tool| tool.as_str()).unwrap_or("of another version");
            Err(format!(
                "the stream has format {found}, this evenkeel reads {VERSION}: use the one that wrote it ({tool})"
            ))
        }
        _ => Ok(()),
    }
}

impl Recorded {
    /// Goes to the next turn: its number and time. `None` when the stream is over.
    ///
    /// # Errors
    /// A line of it is wrong.
    pub fn next_turn(&mut self) -> Result<Option<(u64, u64)>, StreamError> {
        let Some(turn) = self.next.take() else { return Ok(None) };
        self.now = Segment::default();
        self.take_stretch()?;
        Ok(Some(turn))
    }

    /// Reads lines up to the next turn, or the end.
    fn take_stretch(&mut self) -> Result<(), StreamError> {
        while let Some(text) = self.lines.next()? {
            let line: Line = self.lines.parse(&text)?;
            if let Line::Turn { turn, at_ns } = line {
                self.next = Some((turn, at_ns));
                return Ok(());
            }
            self.take(line).map_err(|what| self.lines.wrong(what))?;
        }
        Ok(())
    }

    fn take(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Turn { .. } => {}
            Line::List { list, names, errno } => {
                self.now.lists.insert(list, answer(names, errno)?);
            }
            Line::File { file, text, hex, errno } => {
                let bytes = match (text, hex) {
                    (Some(text), None) => Some(text.into_bytes()),
                    (None, Some(hex)) => {
                        Some(from_hex(&hex).ok_or("hex holds no pairs of digits")?)
                    }
                    (None, None) => None,
                    (Some(_), Some(_)) => return Err("it has both text and hex".to_owned()),
                };
                self.now.files.insert(file, answer(bytes, errno)?);
            }
            Line::Open { open, task, cpu, events, errno } => {
                self.take_open(open, whom(task, cpu)?, &events, errno);
            }
            Line::Group { group, hex, errno } => {
                let hex = hex.map(|hex| from_hex(&hex).ok_or("hex holds no pairs of digits"));
                self.now.groups.insert(group, answer(hex.transpose()?, errno)?);
            }
        }
        Ok(())
    }

    fn take_open(
        &mut self,
        nr: u32,
        whom: CounterTarget,
        events: &[EventLine],
        errno: Option<i32>,
    ) {
        let of = |event: &EventLine| (event.name.clone(), event.attr());
        let spec = GroupSpec { target: whom, events: events.iter().map(of).collect() };
        let numbers = events.iter().map(|event| event.number).collect();
        self.opened.push((spec, errno.map_or(Ok(Opened { nr, numbers }), Err)));
    }
}

fn whom(task: Option<u32>, cpu: Option<u32>) -> Result<CounterTarget, String> {
    match (task, cpu) {
        (Some(tid), None) => Ok(CounterTarget::Task(tid)),
        (None, Some(cpu)) => Ok(CounterTarget::Cpu(cpu)),
        _ => Err("a group is of a task or of a cpu".to_owned()),
    }
}

fn answer<T>(read: Option<T>, errno: Option<i32>) -> Result<Answer<T>, String> {
    match (read, errno) {
        (Some(read), None) => Ok(Ok(read)),
        (None, Some(errno)) => Ok(Err(errno)),
        _ => Err("it has neither what was read nor why it was refused, or both".to_owned()),
    }
}

/// What a group counts, without how.
fn counts(spec: &GroupSpec) -> Vec<(u32, [u64; 3])> {
    spec.events.iter().map(|(_, attr)| (attr.kind, attr.config)).collect()
}

/// Events as part of a larger group that was opened.
fn among(known: &GroupSpec, answer: &Answer<Opened>, wanted: &[(u32, [u64; 3])]) -> Option<Opened> {
    let (counted, opened) = (counts(known), answer.as_ref().ok()?);
    let number = |event| {
        let at = counted.iter().position(|counted| counted == event)?;
        opened.numbers.get(at).copied()
    };
    Some(Opened { nr: opened.nr, numbers: wanted.iter().map(number).collect::<Option<_>>()? })
}

fn found<T: Clone>(now: Option<&Answer<T>>, setup: Option<&Answer<T>>) -> io::Result<T> {
    let answer = now.or(setup).cloned().unwrap_or(Err(libc::ENOENT));
    answer.map_err(io::Error::from_raw_os_error)
}

impl Source for Recorded {
    fn list(&mut self, folder: &str) -> io::Result<Vec<String>> {
        found(self.now.lists.get(folder), self.setup.lists.get(folder))
    }

    fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
        found(self.now.files.get(path), self.setup.files.get(path))
    }

    /// Found by whom and what it counts; how is not asked, since that is what the recorder could
    /// have. Of several the one opened last, as numbers of tasks are used again.
    ///
    /// Of a task, events that were counted among others are found in the group that holds them
    /// all. Where they stand in several the answer is a kernel's to a group that is too large: whoever
    /// asks cuts it, and so reads groups as they were cut when they were recorded.
    fn open(&mut self, spec: &GroupSpec) -> io::Result<Opened> {
        let wanted = counts(spec);
        let known: Vec<_> =
            self.opened.iter().rev().filter(|(known, _)| known.target == spec.target).collect();
        if let Some((_, answer)) = known.iter().find(|(known, _)| counts(known) == wanted) {
            return found(Some(answer), None);
        }
        if !matches!(spec.target, CounterTarget::Task(_)) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        if let Some(opened) = known.iter().find_map(|(known, answer)| among(known, answer, &wanted))
        {
            return Ok(opened);
        }
        let is_known =
            known.iter().any(|(known, _)| counts(known).iter().any(|e| wanted.contains(e)));
        let errno = if is_known && 1 < wanted.len() { libc::EINVAL } else { libc::ENOENT };
        Err(io::Error::from_raw_os_error(errno))
    }

    fn group(&mut self, nr: u32) -> io::Result<Vec<u8>> {
        found(self.now.groups.get(&nr), None)
    }

    fn close(&mut self, _: u32) {}
}

impl Lines {
    fn open(path: &Path) -> Result<Self, StreamError> {
        let refused = |source| StreamError::Read { path: path.to_owned(), source };
        let file = fault::retry("open", || std::fs::File::open(path)).map_err(refused)?;
        if file.metadata().map_err(refused)?.is_dir() {
            return Err(refused(io::ErrorKind::IsADirectory.into()));
        }
        Ok(Lines { path: path.to_owned(), file: BufReader::new(file), number: 0 })
    }

    /// The next line without its end; a last line that has none was torn.
    fn next(&mut self) -> Result<Option<String>, StreamError> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        read.map_err(|source| StreamError::Read { path: self.path.clone(), source })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if bytes.pop() != Some(b'\n') {
            return Err(self.wrong("the line has no end: the recording was cut off here"));
        }
        let text = String::from_utf8(bytes).map_err(|_| self.wrong("the line is not UTF-8"))?;
        Ok(Some(text))
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, StreamError> {
        serde_json::from_str(text).map_err(|error| {
            let told = error.to_string();
            let what = told.split(" at line ").next().unwrap_or(&told);
            let what = match what.contains("untagged") {
                true => "no such line is known",
                false => what,
            };
            self.wrong(format!("{what}: the stream was damaged or edited here"))
        })
    }

    fn wrong(&self, what: impl Into<String>) -> StreamError {
        StreamError::Line { path: self.path.clone(), line: self.number.max(1), what: what.into() }
    }
}
