//! File operations on cgroups.
//!
//! If the root is not `/` (tests), the files of a cgroup are ordinary files and are removed with their directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::fault;

/// Reads a file without surrounding white space.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let text = fault::retry("read", || fs::read_to_string(path))?;
    Ok(text.trim().to_owned())
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fault::retry("write", || fs::write(path, text))
}

/// Returns whether a cgroup exists.
pub(super) fn exists(path: &Path) -> io::Result<bool> {
    fault::retry("stat", || path.try_exists())
}

/// Creates a directory. Returns false if it exists already.
pub(super) fn mkdir(path: &Path) -> io::Result<bool> {
    fault::inject("mkdir")?;
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a cgroup. A missing cgroup is no error.
pub(super) fn rmdir(root: &Path, path: &Path) -> io::Result<()> {
    fault::inject("rmdir")?;
    let is_kernel = root == Path::new("/");
    let done = if is_kernel { fs::remove_dir(path) } else { fs::remove_dir_all(path) };
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Lists the names of the children of a cgroup, sorted.
pub(super) fn groups_in(path: &Path) -> io::Result<Vec<String>> {
    fault::inject("getdents64")?;
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?.into_iter();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> =
        dirs.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns the PIDs of the processes of a cgroup; 0 for a process of another PID namespace.
pub(super) fn processes(path: &Path) -> io::Result<Vec<u32>> {
    let text = read(&path.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// Returns the path below `root` of an absolute path.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
