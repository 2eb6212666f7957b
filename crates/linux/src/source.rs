//! The one seam between those who read and what they read from: the live kernel, or a recording.
//!
//! ```text
//!   uncore  resctrl  pressure  schedstat  tasks          the same code for both
//!       └──────┴────────┴──────────┴────────┘
//!                   trait Source                         names in, bytes out
//!              ┌────────┴─────────┐
//!            Live              stream::Recorded
//!              └── stream::Tee, which writes down what passes
//! ```
//!
//! Paths are below the root and begin without a slash. What cannot be read is an error with the
//! kernel's number, in a recording too.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::perf::{Group, GroupSpec};
use crate::{fault, procfs};

/// Longer than any file that is read through here.
const FILE_BYTES_MAX: usize = 8 << 20;
/// So many files stay open to be read again.
const KEPT_MAX: usize = 64;

/// A group of counters that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What it is called from now on.
    pub nr: u32,
    /// The number by which a read names each counter, in the order of the spec.
    pub numbers: Vec<u64>,
}

/// Something to read from.
pub trait Source {
    /// The names in a folder, sorted.
    fn list(&mut self, folder: &str) -> io::Result<Vec<String>>;
    /// What a file holds now.
    fn file(&mut self, path: &str) -> io::Result<Vec<u8>>;
    /// Opens a group of counters.
    fn open(&mut self, spec: &GroupSpec) -> io::Result<Opened>;
    /// What a group has counted, as the kernel gives it.
    fn group(&mut self, nr: u32) -> io::Result<Vec<u8>>;
    /// Closes a group.
    fn close(&mut self, nr: u32);
}

/// The text of a file without white space at its ends.
pub fn text(source: &mut dyn Source, path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&source.file(path)?).trim().to_owned())
}

/// This machine, or the folder of a recorded one.
#[derive(Debug)]
pub struct Live {
    root: PathBuf,
    groups: BTreeMap<u32, Group>,
    next: u32,
    kept: BTreeMap<String, OwnedFd>,
    buffer: Vec<u8>,
}

impl Live {
    /// What is below a root folder; `/` is this machine.
    pub fn new(root: &Path) -> Self {
        Live {
            root: root.to_owned(),
            groups: BTreeMap::new(),
            next: 0,
            kept: BTreeMap::new(),
            buffer: vec![0; 4096],
        }
    }

    /// Closes the files that were kept open below a folder, which is about to go. Read again under
    /// the same name they would be those of a folder that is no longer there.
    pub fn forget(&mut self, folder: &str) {
        self.kept.retain(|path, _| !Path::new(path).starts_with(folder));
    }

    fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Reads a kept file from its start, with more room until it fits.
    fn read_kept(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let file = self.kept.get(path).ok_or(io::ErrorKind::NotFound)?;
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

impl Source for Live {
    fn list(&mut self, folder: &str) -> io::Result<Vec<String>> {
        let path = self.root.join(folder);
        let entries = fault::retry("getdents64", || std::fs::read_dir(&path))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
        // Files of tasks come and go; the others are read again and again.
        let stays = ["proc/pressure", "proc/schedstat", "sys/fs/resctrl"];
        if stays.iter().any(|start| path.starts_with(start)) && self.kept.len() < KEPT_MAX {
            if !self.kept.contains_key(path) {
                let file = procfs::open(&self.root.join(path))?;
                self.kept.insert(path.to_owned(), file);
            }
            let read = self.read_kept(path);
            if read.is_err() {
                self.kept.remove(path);
            }
            return read;
        }
        let path = self.root.join(path);
        fault::retry("read", || std::fs::read(&path))
    }

    fn open(&mut self, spec: &GroupSpec) -> io::Result<Opened> {
        if !self.is_this_machine() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let group = Group::open(spec)?;
        let (nr, numbers) = (self.next, group.numbers().to_vec());
        self.next += 1;
        self.groups.insert(nr, group);
        Ok(Opened { nr, numbers })
    }

    fn group(&mut self, nr: u32) -> io::Result<Vec<u8>> {
        let group = self.groups.get(&nr).ok_or(io::ErrorKind::NotFound)?;
        let mut buffer = [0; Group::BYTES_MAX];
        Ok(group.read(&mut buffer)?.to_vec())
    }

    fn close(&mut self, nr: u32) {
        self.groups.remove(&nr);
    }
}
