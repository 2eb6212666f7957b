//! Output files, created below a directory descriptor.
//!
//! An output directory, or one of its parents, may belong to another user. That user can replace every entry by a
//! symbolic link at any time, also between a check and the following open(2). A path is therefore resolved once. All
//! later operations use the descriptor of the directory and a single name:
//!
//! ```text
//!   /home/alice/out/jobs/a.out
//!   └── resolved once ─┘    └── openat(descriptor of jobs, "a.out", O_NOFOLLOW)
//!       (OutputDir)
//! ```
//!
//! Links in the path of a directory: root follows a link only if root owns it, because the kernel checks the owner of
//! links only in world-writable directories with the sticky bit (`fs.protected_symlinks`). For other users the kernel
//! checks the permissions of the target, and evenkeel follows all links.
//!
//! Out of scope: undo records and state files, whose directories have stricter rules (`linux::undo`).

mod dir;
mod existing;
mod new_file;
mod resolve;
mod write;

pub use dir::{ForeignDir, OutputDir};
pub use existing::{ExistingFile, FileVersion};
pub use new_file::NewFile;
pub use write::{check_writable, open_job_output, write};

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file for reading. All links are followed, and an open of a FIFO does not wait for its writer.
///
/// # Errors
/// The file cannot be opened or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(error(io::ErrorKind::InvalidInput, "this is not a regular file")),
    }
}

/// Returns an error with a message in place of the message of the kernel.
fn error(kind: io::ErrorKind, message: &str) -> io::Error {
    io::Error::new(kind, message)
}
