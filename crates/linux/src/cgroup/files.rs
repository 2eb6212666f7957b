//! The few calls that groups are made, filled and removed with.
//!
//! Below another root than `/` a folder stands for the kernel's: there its files are removed with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::fault;

/// A file's text without white space at its ends.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let text = fault::retry("read", || fs::read_to_string(path))?;
    Ok(text.trim().to_owned())
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fault::retry("write", || fs::write(path, text))
}

/// Whether a group is there.
pub(super) fn is_there(path: &Path) -> io::Result<bool> {
    fault::retry("stat", || path.try_exists())
}

/// Makes a folder, and tells whether it was not there before.
pub(super) fn mkdir(path: &Path) -> io::Result<bool> {
    fault::refuse("mkdir")?;
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a group; one that is gone is no error.
pub(super) fn rmdir(root: &Path, path: &Path) -> io::Result<()> {
    fault::refuse("rmdir")?;
    let is_kernels = root == Path::new("/");
    let done = if is_kernels { fs::remove_dir(path) } else { fs::remove_dir_all(path) };
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// The groups in a group, by name.
pub(super) fn groups_in(path: &Path) -> io::Result<Vec<String>> {
    fault::refuse("getdents64")?;
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?.into_iter();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> =
        folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// The processes in a group itself. Those of another numbering are 0, and nobody can name them.
pub(super) fn processes(path: &Path) -> io::Result<Vec<u32>> {
    let text = read(&path.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// A path that begins with `/`, below a root.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
