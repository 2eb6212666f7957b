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

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Returns the path of a full part.
pub(crate) fn numbered(path: &Path, part: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}.{part}.{}", extension.to_string_lossy()),
        None => format!("{stem}.{part}"),
    };
    path.with_file_name(name)
}

/// Returns the path under which the next part is created before it gets the base name.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// Returns a file or directory with the name of a further part of a journal, which the journal would overwrite.
pub fn existing_part(path: &Path) -> Option<PathBuf> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let entries = fs::read_dir(dir.unwrap_or(Path::new("."))).ok()?;
    let is_part = |entry: &PathBuf| {
        let name = entry.file_name().unwrap_or_default();
        let text = name.to_string_lossy();
        let mut numbers = text.split('.').filter_map(|word| word.parse().ok());
        unfinished(path).file_name() == Some(name)
            || numbers.any(|part| numbered(path, part).file_name() == Some(name))
    };
    entries.flatten().map(|entry| entry.path()).filter(is_part).min()
}

/// Renames the full part to its numbered name and the next part to the base name.
pub(crate) fn exchange(path: &Path, part: u32) -> io::Result<()> {
    let full = numbered(path, part);
    match fs::remove_file(&full) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A hard link is created first, so that the full part always has a name. On file systems without hard links the
    // base name is missing between the two renames.
    if fs::hard_link(path, &full).is_err() {
        fs::rename(path, &full)?;
    }
    fs::rename(unfinished(path), path)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for name in ["j.jsonl", "j.x.jsonl", "j.+1.jsonl", "k.1.jsonl", "j.1.json", "j.jsonl.newer"]
        {
            fs::write(file(name), "").expect("can be written");
        }
        assert_eq!(existing_part(&file("j.jsonl")), None);
        for name in ["j.jsonl.new", "j.12.jsonl"] {
            fs::create_dir(file(name)).expect("can be created");
            assert_eq!(existing_part(&file("j.jsonl")), Some(file(name)));
        }
    }
}
