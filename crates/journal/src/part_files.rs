//! The files of one journal.
//!
//! ```text
//!   journal.1.jsonl   journal.2.jsonl   journal.jsonl
//!   oldest            …                 current part
//! ```
//!
//! The file with the base name is always the newest part. A full part is renamed to its numbered name, and the next
//! part is renamed to the base name atomically, so that the base name exists at every instant, except on file
//! systems without hard links.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use files::OutputDir;

/// Returns the path of a full part.
pub(crate) fn numbered(path: &Path, part: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}.{part}.{}", extension.to_string_lossy()),
        None => format!("{stem}.{part}"),
    };
    path.with_file_name(name)
}

/// Returns the name under which the next part is created before it gets the base name.
pub(crate) fn unfinished(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(".new");
    name
}

/// Returns a file or directory with the name of a further part of a journal, which the journal would overwrite.
pub fn existing_part(dir: &OutputDir, name: &OsStr) -> Option<PathBuf> {
    let is_part = |entry: &OsString| {
        let text = entry.to_string_lossy();
        let mut numbers = text.split('.').filter_map(|word| word.parse().ok());
        unfinished(name) == *entry
            || numbers.any(|part| numbered(name.as_ref(), part).as_os_str() == entry)
    };
    let part = dir.names().ok()?.into_iter().filter(is_part).min();
    part.map(|part| dir.path().join(part))
}

/// Renames the full part to its numbered name and the next part to the base name.
pub(crate) fn exchange(dir: &OutputDir, name: &OsStr, part: u32) -> io::Result<()> {
    let full = numbered(name.as_ref(), part);
    match dir.remove(&full) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A hard link is created first, so that the full part always has a name. On file systems without hard links the
    // base name is missing between the two renames.
    if dir.link(name, &full).is_err() {
        dir.rename(name, &full)?;
    }
    dir.rename(unfinished(name), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_part_number_precedes_the_extension() {
        let numbered = |path: &str, part| numbered(Path::new(path), part).display().to_string();
        assert_eq!(numbered("out/journal.jsonl", 3), "out/journal.3.jsonl");
        assert_eq!(numbered("j", 1), "j.1");
    }

    #[test]
    fn only_names_of_further_parts_are_existing_parts() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str| dir.path().join(name);
        let existing_part = |name: &str| {
            let (dir, name) = OutputDir::of_new_file(&file(name)).expect("a directory");
            existing_part(&dir, &name)
        };
        for name in ["j.jsonl", "j.x.jsonl", "j.+1.jsonl", "k.1.jsonl", "j.1.json", "j.jsonl.newer"]
        {
            fs::write(file(name), "").expect("can be written");
        }
        assert_eq!(existing_part("j.jsonl"), None);
        for name in ["j.jsonl.new", "j.12.jsonl"] {
            fs::create_dir(file(name)).expect("can be created");
            assert_eq!(existing_part("j.jsonl"), Some(file(name)));
        }
    }
}
