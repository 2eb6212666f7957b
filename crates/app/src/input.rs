//! Command inputs: files that are read completely (workloads, lists, machines), journals, and values of options.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::Read;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, anyhow, bail};
use base::{Bytes, Nanos, shell};
use journal::{JournalError, LineError, Recording};
use lab::shipped::ShippedKind;

use crate::command_result::{CommandError, OrUsageError};

/// Size limit of input files. A workload of 100,000 jobs has about a tenth of this size.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a file. `kind` is the kind of file in error messages.
pub fn bytes(kind: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let cannot_read = || format!("cannot read the {kind} {}", path.display());
    let mut bytes = Vec::new();
    let file = files::open_input(path).with_context(cannot_read)?;
    let is_fifo = file.metadata().is_ok_and(|meta| meta.file_type().is_fifo());
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(cannot_read)?;
    if is_fifo && bytes.is_empty() {
        bail!("{}: the pipe is empty, or no process has opened it for writing", cannot_read());
    }
    if FILE_BYTES_MAX < bytes.len() as u64 {
        bail!("{} is not a {kind}: it is larger than 64 MiB", path.display());
    }
    Ok(bytes)
}

/// Reads a file like [`bytes`]. If the file does not exist and the name has neither `/` nor `.`, returns the shipped file
/// of that name.
pub fn bytes_or_shipped(kind: ShippedKind, noun: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    match path.to_str() {
        Some(name) if !path.exists() && !name.contains(['/', '.']) => {
            let none = |not_shipped| anyhow!("there is no file {name}, and {not_shipped}");
            lab::shipped::text(kind, name).map(|text| text.as_bytes().to_vec()).map_err(none)
        }
        _ => bytes(noun, path),
    }
}

/// Reads a text file.
pub fn text(kind: &str, path: &Path) -> anyhow::Result<String> {
    utf8(bytes(kind, path)?, path)
}

/// Reads a text file like [`bytes_or_shipped`].
pub fn text_or_shipped(kind: ShippedKind, noun: &str, path: &Path) -> anyhow::Result<String> {
    utf8(bytes_or_shipped(kind, noun, path)?, path)
}

fn utf8(bytes: Vec<u8>, path: &Path) -> anyhow::Result<String> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            let valid =
                String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            let line = 1 + valid.matches('\n').count();
            let column = 1 + valid.rsplit('\n').next().unwrap_or_default().chars().count();
            bail!("{}:{line}:{column}: the file is not UTF-8 text", path.display())
        }
    }
}

/// Opens a journal file, or the journal in the directory of a run.
pub fn journal(path: &Path) -> Result<Recording, CommandError> {
    journal::read(&journal_path(path)).or_usage_error()
}

/// Opens a journal like [`journal`], for a command that also reads streams.
pub fn journal_or_stream(path: &Path) -> Result<Recording, CommandError> {
    let path = journal_path(path);
    let recording = journal::read(&path).map_err(|error| match error {
        JournalError::Line { cause: LineError::NoHeader, .. } => anyhow::anyhow!(
            "{}:1: neither a journal nor a stream: specify the file journal.jsonl of a run, or a \
             stream of evenkeel record",
            path.display()
        ),
        error => error.into(),
    });
    recording.or_usage_error()
}

/// Returns the path of a journal file, or of the journal in a directory.
pub fn journal_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("journal.jsonl") } else { path.to_owned() }
}

/// Checks that the program of a command is neither an option nor a complete command line.
pub fn check_program<S: AsRef<OsStr>>(command: &[S]) -> anyhow::Result<()> {
    let Some(program) = command.first().map(AsRef::as_ref) else { return Ok(()) };
    let text = program.to_string_lossy();
    if command.len() == 1 && text.trim().contains(' ') && !Path::new(program).exists() {
        bail!(
            "{} is one word, and no program has this name: omit the quotation marks, or write sh -c before it",
            shell::quote(program)
        )
    }
    if text.starts_with('-') {
        bail!("{text} is an option and not a program: options must precede --")
    }
    Ok(())
}

/// Returns whether a text that names no file is a program, or a command line that begins with one.
pub fn names_program(text: &str) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let words = program::split_command(text).unwrap_or_default();
    let is_found = |program| host_live::find_program(program, Path::new(""), &search).is_ok();
    !Path::new(text).exists() && words.first().is_some_and(|program| is_found(Path::new(program)))
}

/// Parses a duration of at most 366 days.
pub fn time(text: &str) -> Result<Nanos, String> {
    program::parse_time(text).map_err(|fault| fault.to_string())
}

/// Parses a duration greater than 0.
pub fn nonzero_time(text: &str) -> Result<Nanos, String> {
    match time(text)? {
        Nanos::ZERO => Err("it must be longer than 0".to_owned()),
        time => Ok(time),
    }
}

/// Parses a size greater than 0.
pub fn nonzero_size(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>().map_err(|error| error.to_string())? {
        Bytes::ZERO => Err("it must be more than 0".to_owned()),
        size => Ok(size),
    }
}

/// Parses a seed: any 64-bit number.
pub fn seed(text: &str) -> Result<u64, String> {
    integer(0..=u64::MAX)(text)
}

/// Returns the number of threads for parallel runs: the value of `--jobs`, or the number of CPUs.
pub fn n_threads(jobs: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    jobs.map_or_else(all, usize::from)
}

/// Parses a PID. The process need not exist.
pub fn pid(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| "write a PID".to_owned())
}

/// Parses an integer within limits. The caller names the type `N`, because clap calls the parser only at run time.
pub fn integer<N: FromStr + PartialOrd + Display>(
    within: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone
where
    RangeInclusive<N>: Clone,
{
    move |text| {
        let number = text.trim().parse().ok().filter(|number| within.contains(number));
        let (min, max) = (within.start(), within.end());
        number.ok_or_else(|| format!("write an integer from {min} to {max}"))
    }
}

/// Parses the size limit of a journal part. The first line of a part has the machine and all jobs.
pub fn journal_part_size(text: &str) -> Result<Bytes, String> {
    let size = text.parse::<Bytes>().map_err(|error| error.to_string())?;
    match PART_MIN <= size {
        true => Ok(size),
        false => Err(format!("must be at least {PART_MIN}")),
    }
}

/// Minimum size limit: smaller parts would consist mostly of their first line.
const PART_MIN: Bytes = Bytes::from_kib(64);
