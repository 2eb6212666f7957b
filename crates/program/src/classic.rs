//! Workloads in the classic format, with one job per line.
//!
//! ```text
//! # start  class  program and arguments
//! 0        7      /usr/bin/cjpeg -quality 90 "/tmp/a photo.ppm"
//! 2.5      -      /usr/bin/sort /tmp/words
//! @ro /tmp/words                      # this file may be replicated per node
//! ```
//!
//! Fields are separated by spaces. Inside quotation marks, a space is an ordinary character, `\"` is a quotation mark
//! and `\\` a backslash; any other backslash is unchanged. A `#` starts a comment only at the start of a line or
//! after `@ro PATH`, because arguments may contain the character.

use std::path::{Path, PathBuf};

use base::toml_reader::SourceText;
use base::{JobId, Nanos};

use crate::assemble::{self, FileHeader, WorkloadLine};
use crate::error::WorkloadFault;
use crate::{Class, Command, FilePosition, Job, Workload, WorkloadError, time};

/// A valid line, which is printed in the error for a workload without jobs.
const EXAMPLE: &str = "0 - /usr/bin/sort /tmp/words";

/// Parses a workload in the classic format. Name and directory are taken from `path`; no file is opened.
pub fn parse_classic(text: &str, path: &Path) -> Result<Workload, WorkloadError> {
    let text = SourceText::new(text.strip_prefix('\u{feff}').unwrap_or(text), path);
    match toml_offset(&text) {
        Some(offset) => Err(text.error_at(offset, WorkloadFault::TomlWithoutSuffix)),
        None => read(&text, path),
    }
}

/// Returns the offset of the first TOML table header. No line of the classic format begins with such a header.
fn toml_offset(text: &SourceText<'_>) -> Option<usize> {
    let mut offset = 0;
    for line in text.text.split_inclusive('\n') {
        if ["[[job]]", "[defaults]"].iter().any(|table| line.trim_start().starts_with(table)) {
            return Some(offset);
        }
        offset += line.len();
    }
    None
}

fn read(text: &SourceText<'_>, path: &Path) -> Result<Workload, WorkloadError> {
    let mut lines = Vec::new();
    let mut read_only = Vec::new();
    let mut offset = 0;
    for raw in text.text.split_inclusive('\n') {
        let locate = |(at, fault)| text.error_at(offset + at, fault);
        let fields = split(raw.trim_end_matches(['\n', '\r'])).map_err(locate)?;
        match fields.first().map(|first| first.text.as_str()) {
            None => {}
            Some(first) if first.starts_with('@') => {
                read_only.push(directive(&fields).map_err(locate)?);
            }
            Some(_) => {
                let origin = FilePosition { file: path.to_owned(), line: text.line(offset) };
                let is_known = !lines.is_empty() || is_number(&fields);
                let unknown = |(at, fault)| match is_known {
                    true => (at, fault),
                    false => (at, WorkloadFault::NotClassic(EXAMPLE)),
                };
                let job = job(&fields, origin).map_err(unknown).map_err(locate)?;
                lines.push(WorkloadLine {
                    name: None,
                    copies: None,
                    every: Nanos::ZERO,
                    job,
                    offset,
                    name_offset: offset,
                    output_offset: offset,
                });
            }
        }
        offset += raw.len();
    }
    // Names are assigned in start order, so that a workload that is written and read has the same names.
    lines.sort_by_key(|line| line.job.start);
    assemble::workload(text, FileHeader { name: None, read_only, example: EXAMPLE }, lines)
}

/// Returns whether the first two fields of a line are like a start time and a class. If the first line of a file differs,
/// the file can be any file, and the error does not quote its content.
fn is_number(fields: &[Field]) -> bool {
    let is_number = |field: &Field| {
        let text = field.text.strip_prefix('-').unwrap_or(&field.text);
        text.is_empty() || (text.len() < 8 && text.starts_with(|c: char| c.is_ascii_digit()))
    };
    fields.iter().take(2).all(is_number)
}

/// A field of a line and its byte offset in the line.
struct Field {
    at: usize,
    text: String,
}

/// Splits a line into fields. An empty line and a comment have no fields.
fn split(line: &str) -> Result<Vec<Field>, (usize, WorkloadFault)> {
    let mut fields = Vec::new();
    let mut rest = line.char_indices().peekable();
    if line.trim_start_matches(BLANKS).starts_with('#') {
        return Ok(fields);
    }
    loop {
        while rest.next_if(|(_, c)| BLANKS.contains(c)).is_some() {}
        let Some(&(at, _)) = rest.peek() else { return Ok(fields) };
        fields.push(Field { at, text: field(&mut rest)? });
    }
}

const BLANKS: [char; 2] = [' ', '\t'];

type Chars<'l> = std::iter::Peekable<std::str::CharIndices<'l>>;

/// Reads one field, which ends at a space outside quotation marks.
fn field(rest: &mut Chars<'_>) -> Result<String, (usize, WorkloadFault)> {
    let mut text = String::new();
    while let Some((at, c)) = rest.next_if(|(_, c)| !BLANKS.contains(c)) {
        match c {
            '"' => quoted(rest, &mut text).ok_or((at, WorkloadFault::OpenQuote))?,
            _ => text.push(c),
        }
    }
    Ok(text)
}

/// Reads the text up to the closing quotation mark; `None` if the line has no closing quotation mark.
fn quoted(rest: &mut Chars<'_>, text: &mut String) -> Option<()> {
    loop {
        match rest.next()?.1 {
            '"' => return Some(()),
            '\\' => match rest.next_if(|(_, c)| matches!(c, '"' | '\\')) {
                Some((_, escaped)) => text.push(escaped),
                None => text.push('\\'),
            },
            other => text.push(other),
        }
    }
}

/// Parses `@ro PATH`.
fn directive(fields: &[Field]) -> Result<PathBuf, (usize, WorkloadFault)> {
    let [first, rest @ ..] = fields else { return Err((0, WorkloadFault::NoPath)) };
    if first.text != "@ro" {
        return Err((first.at, WorkloadFault::Directive(first.text.clone())));
    }
    if rest.is_empty() {
        return Err((first.at, WorkloadFault::NoPath));
    }
    let path = absolute(rest, "path", first.at)?;
    match rest.get(1) {
        Some(more) if !more.text.starts_with('#') => {
            Err((more.at, WorkloadFault::ExtraField(more.text.clone())))
        }
        _ => Ok(path),
    }
}

/// Parses `START CLASS PATH [ARGUMENT …]`.
fn job(fields: &[Field], origin: FilePosition) -> Result<Job, (usize, WorkloadFault)> {
    let start_at = fields.first().map_or(0, |field| field.at);
    let start = fields.first().map_or("", |field| &field.text);
    let start = time::read("start", start).map_err(|fault| (start_at, fault))?;
    let class = class(fields.get(1), start_at)?;
    let program = absolute(fields.get(2..).unwrap_or_default(), "path", start_at)?;
    let args = fields.iter().skip(3).map(|field| field.text.clone()).collect();
    if let Some(field) = fields.iter().find(|field| field.text.contains('\0')) {
        return Err((field.at, WorkloadFault::Nul("the line".into())));
    }
    Ok(Job {
        start,
        class,
        origin,
        ..Job::new(JobId(0), String::new(), Command::Program { program, args })
    })
}

fn class(field: Option<&Field>, line_at: usize) -> Result<Option<Class>, (usize, WorkloadFault)> {
    let Some(field) = field else {
        return Err((line_at, WorkloadFault::MissingField("class")));
    };
    if field.text == "-" {
        return Ok(None);
    }
    let digits = field.text.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| field.text.parse().ok()).flatten().and_then(Class::new);
    let reject = || (field.at, WorkloadFault::Class(field.text.clone()));
    number.map(Some).ok_or_else(reject)
}

/// Returns the first field as an absolute path.
fn absolute(
    fields: &[Field],
    missing: &'static str,
    line_at: usize,
) -> Result<PathBuf, (usize, WorkloadFault)> {
    let Some(field) = fields.first() else {
        return Err((line_at, WorkloadFault::MissingField(missing)));
    };
    if field.text.contains('\0') {
        return Err((field.at, WorkloadFault::Nul("the path".into())));
    }
    match Path::new(&field.text).is_absolute() {
        true => Ok(PathBuf::from(&field.text)),
        false => Err((field.at, WorkloadFault::RelativePath(field.text.clone()))),
    }
}
