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

/// Opens an input file that may be a pipe with a writer, such as that of `<(COMMAND)` in a shell. A FIFO without a
/// writer is empty: neither the open nor a read waits for one.
///
/// # Errors
/// The file cannot be opened.
pub fn open_input(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    rustix::fs::fcntl_setfl(&file, OFlags::RDONLY)?;
    Ok(file)
}

/// Returns an error with a message in place of the message of the kernel.
fn error(kind: io::ErrorKind, message: &str) -> io::Error {
    io::Error::new(kind, message)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_fifo_without_a_writer_is_empty_and_a_pipe_with_a_slow_writer_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .expect("a FIFO");
        let mut text = String::new();
        open_input(&fifo).expect("opened").read_to_string(&mut text).expect("read");
        assert_eq!(text, "");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let slow = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            writer.write_all(b"text").expect("written");
        });
        open_input(path.as_ref()).expect("opened").read_to_string(&mut text).expect("read");
        slow.join().expect("it ends");
        assert_eq!(text, "text");
    }
}
