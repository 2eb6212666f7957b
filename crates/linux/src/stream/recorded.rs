//! Replay of a stream as a source, turn by turn.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use topology::Machine;

use super::lines::{EventLine, StreamHeader, StreamLine, VERSION, from_hex};
use crate::fault;
use crate::perf::{CounterGroup, CounterTarget, GroupBuffer, GroupSpec};
use crate::source::Source;

/// Maximum length of a line, in bytes: ten times the size of `/proc/schedstat` with a thousand
/// CPUs.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Error while a stream is read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum StreamError {
    #[error("cannot read the stream {path}: name a file of evenkeel record", path = .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}:{line}: {problem}", path = .path.display())]
    Line { path: PathBuf, line: u64, problem: String },
}

/// Content, or the recorded error number.
type ReadResult<T> = Result<T, i32>;

/// Number of a group, and the ids of its counters.
type OpenedGroup = (u32, Vec<u64>);

/// All reads of the setup or of one turn.
#[derive(Clone, Debug, Default)]
struct Reads {
    lists: BTreeMap<String, ReadResult<Vec<String>>>,
    files: BTreeMap<String, ReadResult<Vec<u8>>>,
    groups: BTreeMap<u32, ReadResult<Vec<u8>>>,
}

/// An open stream: the setup and one turn at a time.
#[derive(Debug)]
pub struct Recorded {
    /// The header of the stream.
    pub header: StreamHeader,
    /// The recorded machine.
    pub machine: Machine,
    setup: Reads,
    current: Reads,
    /// Groups in the order in which they were opened.
    opened: Vec<(GroupSpec, ReadResult<OpenedGroup>)>,
    /// Number and time of the next turn. The first line of this turn has been read.
    next: Option<(u64, u64)>,
    lines: Lines,
}

#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: BufReader<std::fs::File>,
    number: u64,
}

/// Returns whether a file begins like a stream; false if it cannot be read.
pub fn is_stream(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct VersionLine {
        #[serde(rename = "evenkeel_stream")]
        _version: u32,
    }
    let first = Lines::open(path).and_then(|mut lines| lines.next());
    matches!(first, Ok(Some(line)) if serde_json::from_str::<VersionLine>(&line).is_ok())
}

/// Opens a stream and reads its setup.
///
/// # Errors
/// The file cannot be read, is not a stream, or has another version.
pub fn read(path: &Path) -> Result<Recorded, StreamError> {
    let mut lines = Lines::open(path)?;
    let Some(first) = lines.next()? else {
        return Err(lines.wrong("the file is empty: name a file of evenkeel record"));
    };
    check_version(&first).map_err(|newer| lines.wrong(newer))?;
    let header: StreamHeader = lines.parse(&first)?;
    let machine = topology::file::parse_toml(&header.machine, "machine");
    let machine = machine.map_err(|error| lines.wrong(format!("the machine: {error}")))?;
    let mut recorded = Recorded {
        header,
        machine,
        setup: Reads::default(),
        current: Reads::default(),
        opened: Vec::new(),
        next: None,
        lines,
    };
    recorded.read_turn()?;
    recorded.setup = std::mem::take(&mut recorded.current);
    Ok(recorded)
}

/// Checks the version before other fields, which may differ in another version.
fn check_version(line: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct VersionFields {
        evenkeel_stream: u32,
    }
    match serde_json::from_str(line) {
        Ok(VersionFields { evenkeel_stream: found }) if found != VERSION => {
            Err(base::suggest::other_format("stream", found, VERSION))
        }
        _ => Ok(()),
    }
}

impl Recorded {
    /// Proceeds to the next turn. Returns number and time of the turn, or `None` at the end of the stream.
    ///
    /// # Errors
    /// A line is invalid.
    pub fn next_turn(&mut self) -> Result<Option<(u64, u64)>, StreamError> {
        let Some(turn) = self.next.take() else { return Ok(None) };
        self.current = Reads::default();
        self.read_turn()?;
        Ok(Some(turn))
    }

    /// Reads lines up to the next turn or the end.
    fn read_turn(&mut self) -> Result<(), StreamError> {
        while let Some(text) = self.lines.next()? {
            let line: StreamLine = self.lines.parse(&text)?;
            if let StreamLine::Turn { turn, at_ns } = line {
                self.next = Some((turn, at_ns));
                return Ok(());
            }
            self.add(line).map_err(|problem| self.lines.wrong(problem))?;
        }
        Ok(())
    }

    fn add(&mut self, line: StreamLine) -> Result<(), String> {
        match line {
            StreamLine::Turn { .. } => {}
            StreamLine::List { list, names, errno } => {
                self.current.lists.insert(list, answer(names, errno)?);
            }
            StreamLine::File { file, text, hex, errno } => {
                let bytes = match (text, hex) {
                    (Some(text), None) => Some(text.into_bytes()),
                    (None, Some(hex)) => {
                        Some(from_hex(&hex).ok_or("hex has no pairs of hexadecimal digits")?)
                    }
                    (None, None) => None,
                    (Some(_), Some(_)) => return Err("the line has both text and hex".to_owned()),
                };
                self.current.files.insert(file, answer(bytes, errno)?);
            }
            StreamLine::Open { open, task, cpu, events, errno } => {
                self.add_group(open, target(task, cpu)?, &events, errno);
            }
            StreamLine::Group { group, hex, errno } => {
                let hex =
                    hex.map(|hex| from_hex(&hex).ok_or("hex has no pairs of hexadecimal digits"));
                self.current.groups.insert(group, answer(hex.transpose()?, errno)?);
            }
        }
        Ok(())
    }

    fn add_group(
        &mut self,
        nr: u32,
        target: CounterTarget,
        events: &[EventLine],
        errno: Option<i32>,
    ) {
        let named = |event: &EventLine| (event.name.clone(), event.attr());
        let spec = GroupSpec { target, events: events.iter().map(named).collect() };
        let ids = events.iter().map(|event| event.number).collect();
        self.opened.push((spec, errno.map_or(Ok((nr, ids)), Err)));
    }
}

fn target(task: Option<u32>, cpu: Option<u32>) -> Result<CounterTarget, String> {
    match (task, cpu) {
        (Some(tid), None) => Ok(CounterTarget::Task(tid)),
        (None, Some(cpu)) => Ok(CounterTarget::Cpu(cpu)),
        _ => Err("a group needs either a task or a cpu".to_owned()),
    }
}

fn answer<T>(read: Option<T>, errno: Option<i32>) -> Result<ReadResult<T>, String> {
    match (read, errno) {
        (Some(read), None) => Ok(Ok(read)),
        (None, Some(errno)) => Ok(Err(errno)),
        _ => Err("the line needs either content or errno".to_owned()),
    }
}

/// Returns the types and config words of the events of a group.
fn counts(spec: &GroupSpec) -> Vec<(u32, [u64; 3])> {
    spec.events.iter().map(|(_, attr)| (attr.kind, attr.config)).collect()
}

/// Finds the requested events in a larger recorded group.
fn in_larger_group(
    known: &GroupSpec,
    answer: &ReadResult<OpenedGroup>,
    requested: &[(u32, [u64; 3])],
) -> Option<CounterGroup> {
    let (counted, (nr, ids)) = (counts(known), answer.as_ref().ok()?);
    let id = |event| ids.get(counted.iter().position(|counted| counted == event)?).copied();
    Some(CounterGroup::recorded(*nr, requested.iter().map(id).collect::<Option<_>>()?))
}

fn found<T: Clone>(
    current: Option<&ReadResult<T>>,
    setup: Option<&ReadResult<T>>,
) -> io::Result<T> {
    let answer = current.or(setup).cloned().unwrap_or(Err(libc::ENOENT));
    answer.map_err(io::Error::from_raw_os_error)
}

impl Source for Recorded {
    fn list(&mut self, dir: &str) -> io::Result<Vec<String>> {
        found(self.current.lists.get(dir), self.setup.lists.get(dir))
    }

    fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
        found(self.current.files.get(path), self.setup.files.get(path))
    }

    /// Finds the group by target and events. If several groups match, the last one is used, because TIDs are reused.
    /// The mode of counting is ignored: the recorder used the permitted mode.
    ///
    /// The events of a task may be part of a larger recorded group. If the events are in several recorded groups, the
    /// result is EINVAL, as for a group that is too large: the caller then divides the group into the recorded groups.
    /// An event that the recorder did not open gives an error with its name.
    fn open(&mut self, spec: &GroupSpec) -> io::Result<CounterGroup> {
        let requested = counts(spec);
        let known: Vec<_> =
            self.opened.iter().rev().filter(|(known, _)| known.target == spec.target).collect();
        if let Some((_, answer)) = known.iter().find(|(known, _)| counts(known) == requested) {
            return found(Some(answer), None).map(|(nr, ids)| CounterGroup::recorded(nr, ids));
        }
        if !matches!(spec.target, CounterTarget::Task(_)) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        if let Some(opened) =
            known.iter().find_map(|(known, answer)| in_larger_group(known, answer, &requested))
        {
            return Ok(opened);
        }
        let is_known =
            known.iter().any(|(known, _)| counts(known).iter().any(|e| requested.contains(e)));
        if !is_known && !known.is_empty() {
            let names: Vec<&str> = spec.events.iter().map(|(name, _)| &**name).collect();
            let text = format!("the recording has no {}", names.join(", "));
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let errno = if is_known && 1 < requested.len() { libc::EINVAL } else { libc::ENOENT };
        Err(io::Error::from_raw_os_error(errno))
    }

    fn group<'a>(
        &mut self,
        group: &CounterGroup,
        buffer: &'a mut GroupBuffer,
    ) -> io::Result<&'a [u8]> {
        let bytes = found(self.current.groups.get(&group.nr), None)?;
        let read = buffer.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
        read.copy_from_slice(&bytes);
        Ok(read)
    }
}

impl Lines {
    fn open(path: &Path) -> Result<Self, StreamError> {
        let cannot_read = |source| StreamError::Read { path: path.to_owned(), source };
        let file = fault::retry("open", || files::open_input(path)).map_err(cannot_read)?;
        if file.metadata().map_err(cannot_read)?.is_dir() {
            return Err(cannot_read(io::ErrorKind::IsADirectory.into()));
        }
        Ok(Lines { path: path.to_owned(), file: BufReader::new(file), number: 0 })
    }

    /// Reads the next line without its newline. A last line without newline is an error, because it was truncated.
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
            let error = base::toml_reader::plain_json_message(&error.to_string());
            let problem = error.split(" at line ").next().unwrap_or(&error);
            let is_unknown = problem.contains("has an unknown format");
            let problem = if is_unknown { "unknown line" } else { problem };
            self.wrong(format!("{problem}: the stream was damaged or edited"))
        })
    }

    fn wrong(&self, problem: impl Into<String>) -> StreamError {
        StreamError::Line {
            path: self.path.clone(),
            line: self.number.max(1),
            problem: problem.into(),
        }
    }
}
