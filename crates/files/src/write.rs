//! Files that a user names: tables, pages, profiles, and outputs of jobs. They may be devices and FIFOs.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::{OutputDir, error};

/// Writes a file, or replaces a regular file atomically. A device or a FIFO receives the bytes.
///
/// # Errors
/// The file cannot be written. A regular file is unchanged then.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_special(path) {
        // Without a reader, the open of a FIFO fails instead of waiting.
        let mut file = open_special(path, OFlags::NONBLOCK)?;
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        return file.write_all(bytes);
    }
    let (dir, name) = OutputDir::of_file(path)?;
    dir.replace(name, bytes)
}

/// Checks that a file is writable. An existing file does not change.
///
/// # Errors
/// The file cannot be written.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if is_special(path) {
        return open_special(path, OFlags::NONBLOCK).map(drop);
    }
    let (dir, name) = OutputDir::of_file(path)?;
    if dir.contains(&name) {
        return dir.append(name).map(drop);
    }
    dir.create_new(&name)?;
    dir.remove(name)
}

/// Opens the output of a job, which is truncated or, with `appends`, extended. The descriptor has the flag O_NONBLOCK.
///
/// # Errors
/// The file cannot be opened.
pub fn open_job_output(path: &Path, appends: bool) -> io::Result<File> {
    if is_special(path) {
        return open_special(path, OFlags::NONBLOCK);
    }
    let (dir, name) = OutputDir::of_file(path)?;
    if appends {
        return dir.append(name);
    }
    let file = dir.open_or_create(name)?;
    file.set_len(0)?;
    Ok(file)
}

/// Returns whether a path names an existing file that is neither a regular file nor a directory.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Opens a device or a FIFO. The path is followed: `/dev/stdout` is a link to a pipe without a name.
fn open_special(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOCTTY;
    let file = File::options().write(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        // The path was a device when it was checked, and could now be a link to a file of this user.
        true => Err(error(io::ErrorKind::InvalidInput, "this file was replaced; try again")),
        false => Ok(file),
    }
}
