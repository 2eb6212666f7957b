//! What a running evenkeel tells of itself: a file beside its undo record, replaced in one step.
//!
//! The folder is the one that nobody else can write to ([`crate::undo::folders`]); a reader sees either
//! the file before or the one after. Who wrote it is in the file; whether it still lives is asked by
//! number and birth.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::fault;
use crate::undo::{Folder, UndoError};

/// What names state files in the folder.
const SUFFIX: &str = ".state.json";
/// What is added while a file is being made.
const FRESH_SUFFIX: &str = ".new";
/// No state of ours is larger.
const BYTES_MAX: u64 = 16 << 20;

/// A state file that is ours to replace; removed when this is dropped.
#[derive(Debug)]
pub struct StateFile {
    folder: Folder,
    name: String,
}

impl StateFile {
    /// Makes ready to write the state of a run in the first of these places that can be used.
    pub fn create(run: &str, places: &[PathBuf]) -> Result<Self, UndoError> {
        Ok(StateFile { folder: Folder::for_writing(places)?, name: format!("{run}{SUFFIX}") })
    }

    /// Replaces what it tells.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let written = self.replace(text);
        if written.is_err() {
            self.remove(&self.fresh()); // A full disk shall not keep half of it.
        }
        written
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        fault::refuse("openat")?;
        let fresh = self.fresh();
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC;
        let flags = flags | OFlags::NOFOLLOW;
        let at = &self.folder.file;
        let file = rustix::fs::openat(at, &fresh, flags, Mode::RUSR | Mode::WUSR)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            fault::refuse("write")?;
            let n_written = rustix::io::write(&file, rest)?;
            rest = &rest[n_written..];
        }
        fault::refuse("renameat")?;
        rustix::fs::renameat(at, &fresh, at, &self.name)?;
        Ok(())
    }

    fn fresh(&self) -> String {
        format!("{}{FRESH_SUFFIX}", self.name)
    }

    /// What stays says itself that its owner is gone.
    fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.folder.file, name, AtFlags::empty());
    }

    /// Where it lies.
    pub fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        self.remove(&self.name);
    }
}

/// Why these places cannot be looked through: a folder that is there and that others could write to, or that
/// is none. What is not there tells nothing, and is no problem.
pub fn unusable(places: &[PathBuf]) -> Vec<String> {
    let problem = |place: &PathBuf| match Folder::open(place) {
        Ok(_) => None,
        Err(UndoError::Folder { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    };
    places.iter().filter_map(problem).collect()
}

/// All state files in these places: where each lies, and its text.
pub fn read_all(places: &[PathBuf]) -> Vec<(PathBuf, io::Result<String>)> {
    let mut found = Vec::new();
    for place in places {
        // A folder that others may enter tells nothing that could be believed ([`unusable`]).
        let Ok(folder) = Folder::open(place) else { continue };
        let Ok(entries) = std::fs::read_dir(&folder.path) else { continue };
        let is_state = |path: &PathBuf| path.to_string_lossy().ends_with(SUFFIX);
        let mut paths: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(is_state).collect();
        paths.sort();
        found.extend(paths.into_iter().map(|path| {
            let text = read(&path);
            (path, text)
        }));
    }
    found
}

/// Removes a state file whose owner is gone, and what that was about to put in its place.
pub fn remove(path: &Path) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(FRESH_SUFFIX);
    let _ = std::fs::remove_file(fresh); // There is one if it was killed at that very moment.
    std::fs::remove_file(path)
}

fn read(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_replaced_whole_and_goes_with_its_owner() {
        let world = tempfile::tempdir().expect("a folder");
        let places = vec![world.path().join("state")];
        let file = StateFile::create("r", &places).expect("a place");
        file.write("one").expect("room");
        file.write("two").expect("room");
        let found = read_all(&places);
        assert_eq!(found.len(), 1, "no half-made file is left");
        assert_eq!(found[0].1.as_deref().expect("ours"), "two");
        drop(file);
        assert!(read_all(&places).is_empty());
    }

    #[test]
    fn whatever_the_kernel_refuses_no_half_made_file_is_left() {
        let world = tempfile::tempdir().expect("a folder");
        let places = vec![world.path().join("state")];
        let file = StateFile::create("r", &places).expect("a place");
        for seed in 0..100 {
            let wish = fault::Wish { seed, permille: 300 };
            let _ = fault::with_errors(wish, || file.write("text"));
            let names = std::fs::read_dir(&places[0]).expect("ours").flatten();
            assert!(!names.into_iter().any(|e| e.path().to_string_lossy().ends_with(".new")));
        }
        file.write("text").expect("room");
        assert_eq!(read_all(&places).len(), 1);
    }
}
