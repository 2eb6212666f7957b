//! The interface between collectors and their source: the live kernel or a recording.
//!
//! ```text
//!   uncore  resctrl  pressure  schedstat  tasks          the same code for both
//!       └──────┴────────┴──────────┴────────┘
//!                   trait Source                         paths in, bytes out
//!              ┌────────┴─────────┐
//!            Live              stream::Recorded
//!              └── stream::Tee, which records every read
//! ```
//!
//! Paths are relative to the root, without a leading slash. Errors have the error number of the kernel, in recordings
//! too. The caller owns the opened groups and closes a group by dropping it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::perf::{CounterGroup, GroupBuffer, GroupSpec};
use crate::{fault, procfs};

/// Buffer size, in bytes, from which the buffer for an open file is not enlarged further.
const FILE_BYTES_MAX: usize = 8 << 20;
/// Maximum number of files that stay open.
const OPEN_FILES_MAX: usize = 64;

/// A source of raw values.
pub trait Source {
    /// Lists the names in a directory, sorted.
    fn list(&mut self, dir: &str) -> io::Result<Vec<String>>;
    /// Reads the content of a file.
    fn file(&mut self, path: &str) -> io::Result<Vec<u8>>;
    /// Opens a group of counters.
    fn open(&mut self, spec: &GroupSpec) -> io::Result<CounterGroup>;
    /// Reads the bytes of one read(2) of a group.
    fn group<'a>(
        &mut self,
        group: &CounterGroup,
        buffer: &'a mut GroupBuffer,
    ) -> io::Result<&'a [u8]>;
}

/// Returns the content of a file without surrounding white space.
pub fn text(source: &mut dyn Source, path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&source.file(path)?).trim().to_owned())
}

/// This machine, or the tree of a recorded machine.
#[derive(Debug)]
pub struct Live {
    root: PathBuf,
    /// Number of opened groups.
    n_groups: u32,
    open_files: BTreeMap<String, OwnedFd>,
    buffer: Vec<u8>,
}

impl Live {
    /// Creates a source for the machine below a root; `/` is this machine.
    pub fn new(root: &Path) -> Self {
        Live {
            root: root.to_owned(),
            n_groups: 0,
            open_files: BTreeMap::new(),
            buffer: vec![0; 4096],
        }
    }

    /// Closes the open files below a directory. Must be called before the directory is removed, because a new directory
    /// with the same name contains other files.
    pub fn close_below(&mut self, dir: &str) {
        self.open_files.retain(|path, _| !Path::new(path).starts_with(dir));
    }

    fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Reads an open file from its start. The buffer is enlarged until the file fits; a file that
    /// is too large is rejected.
    fn read_open_file(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let file = self.open_files.get(path).ok_or(io::ErrorKind::NotFound)?;
        loop {
            let read = || Ok(rustix::io::pread(file, &mut self.buffer, 0)?);
            let n_read = fault::retry("pread", read)?;
            if n_read < self.buffer.len() {
                return Ok(self.buffer[..n_read].to_vec());
            }
            if FILE_BYTES_MAX <= self.buffer.len() {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.buffer.resize(self.buffer.len() * 4, 0);
        }
    }
}

impl Default for Live {
    /// Creates a source for this machine.
    fn default() -> Self {
        Live::new(Path::new("/"))
    }
}

impl Source for Live {
    fn list(&mut self, dir: &str) -> io::Result<Vec<String>> {
        let path = self.root.join(dir);
        let entries = fault::retry("getdents64", || std::fs::read_dir(&path))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
        // Only files that are read in every turn stay open. Files of tasks do not stay open, because tasks exit.
        let stays_open = ["proc/pressure", "proc/schedstat", "sys/fs/resctrl"];
        if stays_open.iter().any(|start| path.starts_with(start))
            && self.open_files.len() < OPEN_FILES_MAX
        {
            if !self.open_files.contains_key(path) {
                let file = procfs::open(&self.root.join(path))?;
                self.open_files.insert(path.to_owned(), file);
            }
            let read = self.read_open_file(path);
            if read.is_err() {
                self.open_files.remove(path);
            }
            return read;
        }
        procfs::read_whole(&self.root.join(path))
    }

    fn open(&mut self, spec: &GroupSpec) -> io::Result<CounterGroup> {
        if !self.is_this_machine() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let group = CounterGroup::open(spec, self.n_groups)?;
        self.n_groups += 1;
        Ok(group)
    }

    fn group<'a>(
        &mut self,
        group: &CounterGroup,
        buffer: &'a mut GroupBuffer,
    ) -> io::Result<&'a [u8]> {
        group.read(buffer)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Files in memory. A counter group can be opened, but reading it fails.
    #[derive(Debug, Default)]
    pub(crate) struct FakeSource {
        pub(crate) files: BTreeMap<String, String>,
        /// Number of events of each group that was opened.
        pub(crate) n_events: Vec<usize>,
    }

    impl FakeSource {
        pub(crate) fn write(&mut self, path: impl Into<String>, text: impl Into<String>) {
            self.files.insert(path.into(), text.into());
        }
    }

    impl Source for FakeSource {
        fn list(&mut self, dir: &str) -> io::Result<Vec<String>> {
            let below = self.files.keys().filter_map(|path| path.strip_prefix(dir));
            let names = below.filter_map(|rest| rest.strip_prefix('/')?.split('/').next());
            let mut names: Vec<String> = names.map(str::to_owned).collect();
            names.dedup();
            if names.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(names) }
        }

        fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
            let text = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(text.clone().into_bytes())
        }

        fn open(&mut self, spec: &GroupSpec) -> io::Result<CounterGroup> {
            self.n_events.push(spec.events.len());
            let ids = (0..spec.events.len() as u64).collect();
            Ok(CounterGroup::recorded(self.n_events.len() as u32, ids))
        }

        fn group<'a>(&mut self, _: &CounterGroup, _: &'a mut GroupBuffer) -> io::Result<&'a [u8]> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}
