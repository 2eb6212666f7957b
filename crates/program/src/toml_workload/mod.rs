//! Workloads as TOML.
//!
//! ```toml
//! version = 1                    # optional
//! name = "pictures"              # default: the name of the file
//!
//! [defaults]                     # for every job that does not set the key
//! dir = "input"
//!
//! [[job]]
//! name = "small"                 # default: the program's file name, made unique
//! command = ["cjpeg", "-quality", "90", "photo.ppm"]
//! output = "/dev/null"
//! start = "250ms"                # or seconds as a number
//! copies = 3                     # small, small.2, small.3; {copy} in a string becomes 1, 2, 3
//! every = 0.5                    # time between the starts of two copies
//! class = 7
//! ```
//!
//! A job has exactly one of `command` (a program and its arguments, no shell), `shell` (a line for
//! `/bin/sh -c`) and `load` (a built-in synthetic program).

pub(crate) mod job_table;

use std::path::{Path, PathBuf};

use base::toml_reader::{SourceText, Table, Value};

use crate::assemble::{self, FileHeader};
use crate::error::WorkloadFault;
use crate::{Workload, WorkloadError, values};
use job_table::SharedKeys;

/// The keys of a workload.
const KNOWN: &[&str] = &["version", "name", "defaults", "job", "read_only"];

/// Printed when a workload has no job.
const EXAMPLE: &str = "[[job]] command = [\"sort\", \"words.txt\"]";

/// Reads a workload in TOML. `path` gives its name and folder; no file is opened.
pub fn parse_toml(text: &str, path: &Path) -> Result<Workload, WorkloadError> {
    let text = SourceText::new(text, path);
    let document = text.parse("version")?;
    let top = Table::new(&text, document.get_ref(), 0, "the workload", KNOWN, job_table::KNOWN)?;
    let name = top.get("name", values::name)?;
    let read_only = top.get("read_only", paths)?.unwrap_or_default();
    let defaults = top.table("defaults", "the defaults", job_table::SHARED, job_table::KNOWN)?;
    let defaults = defaults.map(|table| SharedKeys::read(&table)).transpose()?.unwrap_or_default();
    let jobs = top.tables("job", "a job", job_table::KNOWN)?;
    let lines = jobs.iter().map(|table| job_table::read(&text, table, &defaults));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    assemble::workload(&text, FileHeader { name, read_only, example: EXAMPLE }, lines)
}

fn paths(key: &'static str, value: &Value<'_>) -> Result<Vec<PathBuf>, WorkloadFault> {
    Ok(values::strings(key, value)?.into_iter().map(PathBuf::from).collect())
}
