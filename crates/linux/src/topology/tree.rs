//! Small files below a root. The root is `/`, or a directory with the recorded `/sys` and `/proc` of another machine.
//!
//! Recorded trees are untrusted input. A file is read up to a bound and without blocking (a named pipe would block
//! forever). A missing or unreadable file is `None`.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base::{Bytes, IdSet, SetId};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::fault;

/// Size, in bytes, from which a file is rejected. `/proc/cpuinfo` of a thousand CPUs has 1.5 MB.
/// Other files are shorter.
const FILE_BYTES_MAX: usize = 8 << 20;
/// Initial size of the buffer, in bytes. Most files of sysfs fit and are read with one call. A machine has
/// thousands of such files.
const FILE_BYTES_USUAL: usize = 4096;

/// Maximum plausible value (1 EiB for a size). Larger values are damaged and ignored.
pub(super) const VALUE_MAX: u64 = 1 << 60;

/// A root directory.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    /// Descriptor of the root. Paths relative to a descriptor are resolved faster.
    dir: OwnedFd,
}

impl Tree {
    /// Opens a root. Fails if the root cannot be read or no descriptor is free, because otherwise every file would
    /// count as missing.
    pub(super) fn new(root: &Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = fault::retry("openat", || Ok(openat(CWD, root, flags, Mode::empty())?))?;
        let reading = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        drop(fault::retry("openat", || Ok(openat(&dir, ".", reading, Mode::empty())?))?);
        Ok(Tree { root: root.to_owned(), dir })
    }

    /// Returns whether the root is the live machine.
    pub(super) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns whether a file or directory exists.
    pub(super) fn has(&self, path: &str) -> bool {
        fault::retry("stat", || self.root.join(path).try_exists()).unwrap_or(false)
    }

    /// Reads a file without surrounding white space and NULs (some recordings end in a NUL).
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned())
    }

    fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let file = self.open(path)?;
        let mut bytes = vec![0; FILE_BYTES_USUAL];
        let mut filled = 0;
        loop {
            let read = || Ok(rustix::io::read(&file, &mut bytes[filled..])?);
            let n_read = fault::retry("read", read).ok()?;
            filled += n_read;
            // A read of sysfs returns the whole file if the buffer is large enough. A read of proc may be short.
            let is_all = filled < bytes.len() && !path.starts_with("proc/");
            if n_read == 0 || is_all {
                bytes.truncate(filled);
                return Some(bytes);
            }
            if FILE_BYTES_MAX <= filled {
                return None;
            }
            bytes.resize(filled.max(FILE_BYTES_USUAL) * 2, 0);
        }
    }

    fn open(&self, path: &str) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        fault::retry("openat", || Ok(openat(&self.dir, path, flags, Mode::empty())?)).ok()
    }

    /// Reads the number at the start of a file, without its suffix (`1024K`).
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        leading_number(&self.text(path)?).filter(|&number| number <= VALUE_MAX)
    }

    /// Reads a size: `32768K`, rarely `32M`; zero if unknown.
    pub(super) fn size(&self, path: &str) -> Option<Bytes> {
        self.text(path)?.parse().ok().filter(|size: &Bytes| size.0 <= VALUE_MAX)
    }

    /// Reads a set from list text.
    pub(super) fn list<T: SetId>(&self, path: &str) -> Option<IdSet<T>> {
        self.text(path)?.parse().ok()
    }

    /// Reads a non-empty set from list text. If the file exists and has other content, a warning is added. `fallback`
    /// is the end of the warning.
    pub(super) fn list_or_warn<T: SetId>(
        &self,
        path: &str,
        fallback: &str,
        warnings: &mut Vec<String>,
    ) -> Option<IdSet<T>> {
        let text = self.text(path)?;
        match text.parse() {
            Ok(set) if !IdSet::is_empty(&set) => Some(set),
            _ => {
                warnings.push(format!("{path} contains no list; {fallback}"));
                None
            }
        }
    }

    /// Reads a set from mask text, or from list text of the second file. Old kernels have only masks.
    pub(super) fn mask_or_list<T: SetId>(&self, mask: &str, list: &str) -> Option<IdSet<T>> {
        let masked = self.text(mask).and_then(|text| IdSet::from_mask_text(&text).ok());
        masked.or_else(|| self.list(list))
    }

    /// Returns the numbers N of the entries `<prefix>N` of a directory, ascending.
    pub(super) fn numbered(&self, dir: &str, prefix: &str) -> BTreeSet<u32> {
        let entries = fault::retry("getdents64", || fs::read_dir(self.root.join(dir)));
        let entries = entries.into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = names.filter_map(|name| whole_number(name.strip_prefix(prefix)?));
        numbers.filter(|&number| number <= NUMBER_MAX).collect()
    }
}

/// Maximum id of an [`base::IdSet`], which bounds the memory of the set. Larger numbers are
/// ignored.
const NUMBER_MAX: u32 = 65_535;

/// Parses a text that consists only of digits.
pub(super) fn whole_number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn leading_number(text: &str) -> Option<u64> {
    let n_digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..n_digits].parse().ok()
}
