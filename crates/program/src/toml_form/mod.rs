//! Workloads as TOML.
//!
//! ```toml
//! version = 1                    # may be left out
//! name = "pictures"              # else the file's own name
//!
//! [defaults]                     # for every job that says nothing else
//! dir = "input"
//!
//! [[job]]
//! name = "small"                 # else the program's file name, made unique
//! command = ["cjpeg", "-quality", "90", "photo.ppm"]
//! output = "/dev/null"
//! start = "250ms"                # or seconds as a number
//! copies = 3                     # small, small.2, small.3; {copy} in a text becomes 1, 2, 3
//! every = 0.5                    # the time between the starts of the copies
//! class = 7
//! ```
//!
//! A job runs one of `command` (a program and its arguments, no shell), `shell` (a line for
//! `/bin/sh -c`) or `load` (a built-in synthetic program).

pub(crate) mod fields;
pub(crate) mod line;

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use crate::assemble::{self, Frame};
use crate::error::{Text, WorkloadFault};
use crate::{Workload, WorkloadError};
use fields::Fields;
use line::Common;

/// The keys that a workload knows.
const KNOWN: &[&str] = &["version", "name", "defaults", "job", "read_only"];

/// What to add when there is no job.
const EXAMPLE: &str = "[[job]] command = [\"sort\", \"words.txt\"]";

/// Reads a workload in TOML. `path` names it and gives its folder; nothing is opened.
pub fn parse_toml(text: &str, path: &Path) -> Result<Workload, WorkloadError> {
    let text = Text::new(text, path);
    let document = fields::document(&text)?;
    let top = Fields::new(&text, document.get_ref(), 0, "the workload", KNOWN, line::KNOWN)?;
    let name = top.get("name", line::name)?;
    let read_only = top.get("read_only", paths)?.unwrap_or_default();
    let defaults = top.table("defaults", line::COMMON, line::KNOWN)?;
    let defaults = defaults.map(|table| Common::read(&table)).transpose()?.unwrap_or_default();
    let jobs = top.tables("job", "a job", line::KNOWN)?;
    let lines = jobs.iter().map(|table| line::read(&text, table, &defaults));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    assemble::workload(&text, Frame { name, read_only, example: EXAMPLE }, lines)
}

fn paths(key: &'static str, value: &DeValue<'_>) -> Result<Vec<PathBuf>, WorkloadFault> {
    Ok(fields::strings(key, value)?.into_iter().map(PathBuf::from).collect())
}
