//! Workloads: jobs, programs, program profiles, and the files that define them.
//!
//! The crate parses text and opens no file. The host checks whether a program exists and is executable.
//!
//! ```text
//!   workload.toml ──parse_toml──┐
//!                               ├──► Workload ──► a host
//!   workload.txt ─parse_classic─┤       ▲
//!   commands ──from_commands──────┘       │
//!   program list + seed ──generate──────┘
//!
//!   NAME.profile.toml ──parse_profile──► Profile ──► class of a job, and its counters without hardware counters
//! ```

mod assemble;
mod class;
mod classic;
mod command_line;
mod error;
mod generate;
mod job;
pub mod profile;
mod program_list;
mod sections;
mod sensitivity;
mod time;
mod toml_workload;
mod values;
mod write;

use std::path::Path;

pub use class::Class;
pub use classic::parse_classic;
pub use command_line::{SplitError, from_commands, split_command};
pub use error::{N_JOBS_MAX, N_THREADS_MAX, WorkloadError, WorkloadFault};
pub use generate::{GenerateError, GeneratorOptions, generate};
pub use job::{Command, Ending, FilePosition, Job, MemoryPolicy, RESTART_MIN, Workload};
pub use profile::Profile;
pub use program_list::{Program, ProgramList};
pub use sections::{Section, Sections, WorkPart};
pub use sensitivity::{SLOWDOWN_MAX_PERMILLE, Sensitivity};
pub use time::{TIME_MAX, parse_time};
pub use toml_workload::parse_toml;
pub use write::{WriteError, to_classic, to_toml};

/// The built-in synthetic programs, which are the first arguments of `evenkeel load`.
pub const LOADS: &[&str] =
    &["hog", "compute", "rows", "columns", "sleep", "fork", "phases", "forkjoin", "pipeline"];

/// Returns whether a file is parsed as TOML: its name ends in `.toml`, in upper or lower case.
pub fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"))
}

/// Parses a workload as TOML if [`is_toml`] returns true for `path`, else in the classic format.
///
/// Name and directory of the workload are taken from `path`, which is also printed in errors. No file is opened.
pub fn parse(text: &str, path: &Path) -> Result<Workload, WorkloadError> {
    match is_toml(path) {
        true => parse_toml(text, path),
        false => parse_classic(text, path),
    }
}

/// Parses a workload from bytes, which may be invalid UTF-8.
pub fn parse_bytes(bytes: &[u8], path: &Path) -> Result<Workload, WorkloadError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text, path),
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            Err(base::toml_reader::SourceText::new(&valid, path)
                .error_at(valid.len(), WorkloadFault::NotText))
        }
    }
}

#[cfg(test)]
mod tests;
