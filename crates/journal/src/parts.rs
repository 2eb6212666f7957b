//! The files of one journal.
//!
//! ```text
//!   journal.1.jsonl   journal.2.jsonl   journal.jsonl
//!   oldest            …                 the one being written
//! ```
//!
//! The name that people know always is the newest part. A full one keeps its content under the
//! next number, and the new one takes its name in one step, so that there is no instant without it.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where the part with this number lies once it is full.
pub(crate) fn numbered(path: &Path, part: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}.{part}.{}", extension.to_string_lossy()),
        None => format!("{stem}.{part}"),
    };
    path.with_file_name(name)
}

/// Where the next part is made before it takes the name.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// Puts the finished part under its number and the new one in its place.
pub(crate) fn exchange(path: &Path, part: u32) -> io::Result<()> {
    let full = numbered(path, part);
    match fs::remove_file(&full) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A second name first, so that the content is never without one. Some file systems have no
    // second names: there the journal is away for the blink between two renames.
    if fs::hard_link(path, &full).is_err() {
        fs::rename(path, &full)?;
    }
    fs::rename(unfinished(path), path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_before_the_extension() {
        let of = |path: &str, part| numbered(Path::new(path), part).display().to_string();
        assert_eq!(of("out/journal.jsonl", 3), "out/journal.3.jsonl");
        assert_eq!(of("j", 1), "j.1");
    }
}
