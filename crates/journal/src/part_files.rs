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
}
