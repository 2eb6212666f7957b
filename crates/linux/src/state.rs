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
        let fresh = self.fresh();
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC;
        let flags = flags | OFlags::NOFOLLOW;
        let at = &self.folder.file;
        let mode = Mode::RUSR | Mode::WUSR;
        let open = || Ok(rustix::fs::openat(at, &fresh, flags, mode)?);
        let file = fault::retry("openat", open)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let n_written = fault::retry("write", || Ok(rustix::io::write(&file, rest)?))?;
            rest = &rest[n_written..];
        }
        fault::retry("renameat", || Ok(rustix::fs::renameat(at, &fresh, at, &self.name)?))
    }

    fn fresh(&self) -> String {
        format!("{}{FRESH_SUFFIX}", self.name)
    }

    /// What stays says itself that its owner is gone.
    fn remove(&self, name: &str) {
        let unlink = || Ok(rustix::fs::unlinkat(&self.folder.file, name, AtFlags::empty())?);
        let _ = fault::retry("unlinkat", unlink);
    }

    /// Where it lies.
    pub fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        self.remove(&self.fresh()); // There is one if its removal was refused.
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

/// All state files in these places: where each lies, and its text. A place that cannot be listed stands
/// for those in it.
pub fn read_all(places: &[PathBuf]) -> Vec<(PathBuf, io::Result<String>)> {
    let mut found = Vec::new();
    for place in places {
        // A folder that others may enter tells nothing that could be believed ([`unusable`]).
        let Ok(folder) = Folder::open(place) else { continue };
        let list = || std::fs::read_dir(&folder.path)?.collect::<io::Result<Vec<_>>>();
        let entries = match fault::retry("getdents64", list) {
            Ok(entries) => entries,
            Err(error) => {
                found.push((folder.path, Err(error)));
                continue;
            }
        };
        let is_state = |path: &PathBuf| path.to_string_lossy().ends_with(SUFFIX);
        let mut paths: Vec<PathBuf> =
            entries.into_iter().map(|entry| entry.path()).filter(is_state).collect();
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
    // There is one if it was killed at that very moment.
    let _ = fault::retry("unlink", || std::fs::remove_file(&fresh));
    fault::retry("unlink", || std::fs::remove_file(path))
}

fn read(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = fault::retry("open", || std::fs::File::open(path))?;
    fault::retry("read", || Ok(()))?; // Reading to the end goes on by itself when interrupted.
    file.take(BYTES_MAX).read_to_string(&mut text)?;
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
    fn whatever_the_kernel_refuses_no_half_made_file_is_told_or_stays() {
        let world = tempfile::tempdir().expect("a folder");
        let places = vec![world.path().join("state")];
        let file = StateFile::create("r", &places).expect("a place");
        for seed in 0..100 {
            let wish = fault::FaultPlan { seed, permille: 300 };
            let _ = fault::with_errors(wish, || file.write("text"));
            for (_, told) in read_all(&places) {
                assert_eq!(told.expect("ours"), "text");
            }
        }
        let n_files = || std::fs::read_dir(&places[0]).expect("ours").count();
        file.write("text").expect("room");
        assert_eq!((n_files(), read_all(&places).len()), (1, 1));
        file.write("text").expect("room");
        std::fs::write(places[0].join(file.fresh()), "half").expect("ours"); // It was not removed.
        drop(file);
        assert_eq!(n_files(), 0);
    }
}
