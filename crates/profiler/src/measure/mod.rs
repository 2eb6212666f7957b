//! Runs of the measured program: alone, with hardware counters, or under valgrind.
//!
//! ```text
//!   counters.rs       one run with hardware counters
//!   valgrind.rs       the cache model: alone ─► instruction count ─► trace
//!   program_run.rs    one run of the program, with its time limit and its cleanup
//!   assemble.rs       windows or counter samples ─► Profile
//!   memory_speed/     latency and bandwidth between the nodes of this machine, without a program
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "this module starts programs and reads clocks; the analysis modules do not"
)]

pub mod assemble;
pub mod counters;
pub mod machine_parameters;
pub mod memory_speed;
pub mod program_run;
pub mod valgrind;

use std::ffi::OsString;
use std::path::PathBuf;

/// The program to measure.
#[derive(Clone, Debug)]
pub struct MeasuredProgram {
    /// Name of the program as the user wrote it.
    pub argv0: OsString,
    /// Path of the executable.
    pub path: PathBuf,
    /// Arguments without the name.
    pub args: Vec<OsString>,
    /// Standard input; `None` is /dev/null.
    pub input: Option<PathBuf>,
    /// Name of the profile.
    pub name: String,
    /// Build id in hexadecimal; `None` for scripts and for executables without a build id.
    pub build_id: Option<String>,
}

impl MeasuredProgram {
    /// Returns the command line as the user wrote it.
    pub fn command(&self) -> Vec<String> {
        let words = std::iter::once(&self.argv0).chain(&self.args);
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }
}
