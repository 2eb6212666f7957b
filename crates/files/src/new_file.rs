//! A new file that can later be renamed in its directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::OutputDir;

/// A file that this process created, with its directory.
#[derive(Debug)]
pub struct NewFile {
    /// The directory.
    pub dir: OutputDir,
    /// The name in the directory.
    pub name: OsString,
    /// The file, open for writing.
    pub file: File,
}

impl NewFile {
    /// Creates a file that must not exist.
    ///
    /// # Errors
    /// The file exists or cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (dir, name) = OutputDir::of_new_file(path)?;
        NewFile::create_in(&dir, name)
    }

    /// Creates a file that must not exist in a directory.
    ///
    /// # Errors
    /// The file exists or cannot be created.
    pub fn create_in(dir: &OutputDir, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let file = dir.create_new(name.as_ref())?;
        Ok(NewFile { dir: dir.clone(), name: name.as_ref().to_owned(), file })
    }

    /// Returns the path for messages.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }
}
