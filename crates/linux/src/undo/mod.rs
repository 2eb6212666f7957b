//! The undo record. Every change is written to a file before it is made, so that the change can be reverted even after
//! a kill.
//!
//! ```text
//!   record ─► change ─► confirm            normal end: restore, remove the file
//!      └── killed at any point ──►         the next evenkeel: restore, remove the file
//! ```
//!
//! Each run has one file, which is locked (flock) while the run is active; the kernel releases the lock when the
//! process exits. A line contains the previous mask of a thread, the mask that evenkeel set, and the job. The first
//! line contains the boot id, the namespaces of PIDs and start times, and the user: after a reboot or in another namespace the same PIDs
//! belong to other processes.
//!
//! A setting is restored only if it is unchanged since evenkeel set it. A mask that another program set is not changed.
//! Settings of a run with a locked file are not changed either.
//!
//! A child is recorded before the fork, and its PID after the fork. Between the two records only the environment
//! identifies the child ([`RUN_VARIABLE`], [`JOB_VARIABLE`]). The child holds the lock until exec, so no other process
//! restores masks before this environment is visible.

mod dir;
mod log;
mod mask_index;
mod record;
mod restore;

use std::io;
use std::path::PathBuf;

pub use crate::environ::{JOB_VARIABLE, RUN_VARIABLE};
pub(crate) use dir::Dir;
pub use dir::{STATE_VARIABLE, check_variable, dirs, planted_dir};
pub use log::Log;
pub use record::{MaskOrigin, Records, ThreadChange, UndoHeader, UndoLine};
pub use restore::{
    Entry, FileReport, KernelGroupEntry, KernelGroupKind, KernelGroupRestoreAction, MonotonicClock,
    RestoreAction, RestoreClock, RestoreControl, RestoreLimits, RestoreProgress, RestoreVerdict,
    Restored, UnfinishedCause, UnfinishedRestore, has_changes, restore, restore_with,
};

/// Error with an undo record or its directory.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum UndoError {
    #[error(
        "cannot use {path} for undo records: set {STATE_VARIABLE} to a directory that this user owns"
    )]
    Dir { path: PathBuf, source: io::Error },
    #[error("{STATE_VARIABLE} is {path}: set it to an absolute path")]
    Relative { path: PathBuf },
    #[error(
        "the directory {path} is not safe for undo records and state files: it belongs to another user; set {STATE_VARIABLE} to a directory that this user owns"
    )]
    OtherOwner { path: PathBuf },
    #[error(
        "the directory {path} is not safe for undo records and state files: other users have access (mode {mode:04o}); set {STATE_VARIABLE} to a new directory, or run chmod 700 {path} if nothing else uses it"
    )]
    OpenToOthers { path: PathBuf, mode: u32 },
    #[error("cannot write the undo record {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read the boot id and the namespaces")]
    System(#[source] io::Error),
}
