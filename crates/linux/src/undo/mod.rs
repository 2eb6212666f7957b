//! What we changed, written down before we changed it, so that it can be put back whatever happens.
//!
//! ```text
//!   record ─► change ─► confirm            our own end: put back, remove the file
//!      └── killed anywhere here ──►        the next evenkeel: restore, remove the file
//! ```
//!
//! Each run has one file, locked for as long as the run lives (the kernel drops the lock with the
//! process, however it ended). A record is one line: what a thread had, what we set, and whose it is.
//! Its first line says for which boot, numbering of processes and user it holds; elsewhere the same
//! numbers mean other processes.
//!
//! Put back is what is still exactly as we left it. A mask that somebody else set since stays, and so
//! does whatever belongs to a run whose file is locked.
//!
//! A child is announced before it is forked and named after. Between the two only its environment
//! tells whose it is ([`RUN_VARIABLE`], [`JOB_VARIABLE`]); the lock, which a child shares until its
//! exec, keeps everybody away until that environment can be seen.

mod folder;
mod log;
mod record;
mod restore;

use std::io;
use std::path::PathBuf;

pub(crate) use folder::Folder;
pub use folder::{STATE_VARIABLE, check_variable, folders};
pub use log::Log;
pub use record::{Header, Held, Line, Records, Seen};
pub use restore::{
    Entry, FileReport, GroupEntry, GroupKind, GroupRestoreAction, RestoreAction, Restored, Verdict,
    restore, restore_below,
};

/// The variable that names the run in the environment of every job.
pub const RUN_VARIABLE: &str = "EVENKEEL_RUN";
/// The variable that names the job in the environment of every job.
pub const JOB_VARIABLE: &str = "EVENKEEL_JOB";

/// Why there is no undo record.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The folder for records cannot be made or opened.
    #[error("cannot use {path} for undo records: set {STATE_VARIABLE} to a folder of yours")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The variable names a folder whose place depends on where we are.
    #[error("{STATE_VARIABLE} is {path}: give the whole path, from / on")]
    Relative {
        /// What it says.
        path: PathBuf,
    },
    /// The folder is there, but somebody else could write to it.
    #[error(
        "{path} is not safe for undo records ({problem}): remove it, or set {STATE_VARIABLE} to a folder of yours"
    )]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The record itself cannot be written.
    #[error("cannot write the undo record {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The system does not tell what a record needs to say.
    #[error("cannot tell which boot and namespace this is")]
    System(#[source] io::Error),
}
