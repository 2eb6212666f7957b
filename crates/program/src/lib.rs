//! What runs: jobs, their programs and the files that list them.
//!
//! Text in, values out. Whether a program is there and can be run is asked by the host that runs it.
//!
//! ```text
//!   workload.toml ──parse_toml──┐
//!                               ├──► Workload ──► a host
//!   workload.txt ─parse_classic─┘       ▲
//!   program list + seed ──generate──────┘
//!
//!   NAME.profile.toml ──parse_profile──► Profile ──► a job's class, and its counters where none can be read
//! ```

mod assemble;
mod classic;
mod error;
mod generate;
mod job;
pub mod profile;
mod program_list;
mod sensitivity;
mod time;
mod toml_workload;
mod write;

use std::path::Path;

pub use classic::parse_classic;
pub use error::{N_JOBS_MAX, N_THREADS_MAX, WorkloadError, WorkloadFault};
pub use generate::{GenerateError, GeneratorOptions, generate};
pub use job::{Class, Command, Ending, Job, MemoryPolicy, Origin, Workload};
pub use profile::Profile;
pub use program_list::{Program, ProgramList};
pub use sensitivity::{SLOWDOWN_MAX_PERMILLE, Sensitivity};
pub use time::{TIME_MAX, parse_time};
pub use toml_workload::parse_toml;
pub use write::{WriteError, to_classic, to_toml};

/// The built-in synthetic programs: the first argument of `evenkeel load`.
pub const LOADS: &[&str] = &["hog", "compute", "rows", "columns", "sleep", "fork", "phases"];

/// Whether a workload of that name is read as TOML: it ends in `.toml`, in letters of either size.
pub fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"))
}

/// Reads a workload: TOML if [`is_toml`] says so of `path`, else the classic form.
///
/// `path` names the workload, gives its folder and stands in messages; nothing is opened.
pub fn parse(text: &str, path: &Path) -> Result<Workload, WorkloadError> {
    match is_toml(path) {
        true => parse_toml(text, path),
        false => parse_classic(text, path),
    }
}

/// Reads a workload from the bytes of a file, which need not be text.
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
