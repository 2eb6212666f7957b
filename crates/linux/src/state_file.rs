//! State files: a running evenkeel writes its state to a file in the directory of its undo record, for `evenkeel
//! status`.
//!
//! Other users cannot write to the directory ([`crate::undo::dirs`]). A state file is replaced atomically (rename). The
//! content includes PID and start time of the writer, so that a reader can detect that the writer has exited.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::fault;
use crate::undo::{Dir, UndoError};

/// Suffix of state files.
const SUFFIX: &str = ".state.json";
/// Additional suffix while a file is written.
const TEMPORARY_SUFFIX: &str = ".new";
/// Upper bound of the size of a state file.
const BYTES_MAX: u64 = 16 << 20;

/// The state file of this process; removed on drop.
#[derive(Debug)]
pub struct StateFile {
    dir: Dir,
    name: String,
}

impl StateFile {
    /// Prepares the state file of a run in the first usable directory of `directories`.
    pub fn create(run: &str, directories: &[PathBuf]) -> Result<Self, UndoError> {
        Ok(StateFile { dir: Dir::for_writing(directories)?, name: format!("{run}{SUFFIX}") })
    }

    /// Replaces the content.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let written = self.replace(text);
        if written.is_err() {
            self.remove(&self.temporary_path()); // The file exists if, for example, the disk is full (ENOSPC).
        }
        written
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let temporary_path = self.temporary_path();
        let file = self.dir.create(&temporary_path, OFlags::TRUNC)?;
        let mut unwritten = text.as_bytes();
        while !unwritten.is_empty() {
            let n_written = fault::retry("write", || Ok(rustix::io::write(&file, unwritten)?))?;
            unwritten = &unwritten[n_written..];
        }
        self.dir.rename(&temporary_path, &self.name)
    }

    fn temporary_path(&self) -> String {
        format!("{}{TEMPORARY_SUFFIX}", self.name)
    }

    /// Removes a file. A file that cannot be removed becomes stale: readers detect that its writer has exited.
    fn remove(&self, name: &str) {
        let _ = self.dir.unlink(name);
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.dir.path.join(&self.name)
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        self.remove(&self.temporary_path()); // The file exists if an earlier removal failed.
        self.remove(&self.name);
    }
}

/// Returns the reasons why directories cannot be searched: not a directory, or writable by other users. A missing
/// directory is not reported.
pub fn unusable(directories: &[PathBuf]) -> Vec<String> {
    let problem = |(idx, directory): (usize, &PathBuf)| {
        Dir::for_reading(directory, 0 < idx).err().map(|error| error.to_string())
    };
    directories.iter().enumerate().filter_map(problem).collect()
}

/// Reads all state files in these directories: path and text. A directory that cannot be listed gives an entry with its
/// error.
pub fn read_all(directories: &[PathBuf]) -> Vec<(PathBuf, io::Result<String>)> {
    let mut found = Vec::new();
    for directory in directories {
        // State files in a directory that other users may write to are not trusted ([`unusable`]).
        let Ok(dir) = Dir::open(directory) else { continue };
        match dir.names() {
            Ok(names) => {
                let names = names.iter().filter(|name| name.ends_with(SUFFIX));
                found.extend(names.map(|name| (dir.path.join(name), read(&dir, name))));
            }
            Err(error) => found.push((dir.path, Err(error))),
        }
    }
    found
}

/// Removes a state file of a process that has exited, and its unfinished replacement.
pub fn remove(path: &Path) -> io::Result<()> {
    let mut temporary_path = path.as_os_str().to_owned();
    temporary_path.push(TEMPORARY_SUFFIX);
    // This file exists if the process was killed while it wrote.
    let _ = fault::retry("unlink", || std::fs::remove_file(&temporary_path));
    fault::retry("unlink", || std::fs::remove_file(path))
}

fn read(dir: &Dir, name: &str) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::from(dir.open_file(name)?);
    fault::retry("read", || Ok(()))?; // `read_to_string` repeats interrupted reads.
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_file_is_replaced_in_one_step_and_removed_by_its_owner() {
        let test_dir = tempfile::tempdir().expect("a directory");
        let directories = vec![test_dir.path().join("state")];
        let file = StateFile::create("r", &directories).expect("a directory");
        file.write("one").expect("a write");
        file.write("two").expect("a write");
        let found = read_all(&directories);
        assert_eq!(found.len(), 1, "no unfinished file is left");
        assert_eq!(found[0].1.as_deref().expect("the file is complete"), "two");
        drop(file);
        assert!(read_all(&directories).is_empty());
    }

    #[test]
    fn a_failed_write_neither_shows_nor_leaves_an_unfinished_file() {
        let test_dir = tempfile::tempdir().expect("a directory");
        let directories = vec![test_dir.path().join("state")];
        let file = StateFile::create("r", &directories).expect("a directory");
        for seed in 0..100 {
            let plan = fault::FaultPlan { seed, permille: 300 };
            let _ = fault::with_errors(plan, || file.write("text"));
            for (_, text) in read_all(&directories) {
                assert_eq!(text.expect("the file is complete"), "text");
            }
        }
        let n_files =
            || std::fs::read_dir(&directories[0]).expect("the directory is readable").count();
        file.write("text").expect("a write");
        assert_eq!((n_files(), read_all(&directories).len()), (1, 1));
        file.write("text").expect("a write");
        std::fs::write(directories[0].join(file.temporary_path()), "half")
            .expect("the directory is writable"); // The removal fails.
        drop(file);
        assert_eq!(n_files(), 0);
    }
}
