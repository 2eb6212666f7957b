//! The group of one job: the nodes that its memory may come from.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base::NodeSet;

use super::{Version, files};
use crate::fault;

/// A group that we made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    pub(super) version: Version,
    pub(super) root: PathBuf,
    pub(super) path: PathBuf,
}

impl Cgroup {
    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The nodes that it names.
    pub fn nodes(&self) -> io::Result<NodeSet> {
        parse(&files::read(&self.path.join("cpuset.mems"))?)
    }

    /// Lets memory come from these nodes only, from now on. What lies elsewhere is moved by the kernel
    /// before this returns, which may take long: in v2 always, in v1 when `moves` says so.
    ///
    /// # Errors
    /// The kernel refuses, or has another idea of which nodes these are than we (one may be offline).
    pub fn set_nodes(&self, nodes: &NodeSet, moves: bool) -> io::Result<()> {
        if self.version == Version::V1 {
            let migrate = if moves { "1" } else { "0" };
            files::write(&self.path.join("cpuset.memory_migrate"), migrate)?;
        }
        files::write(&self.path.join("cpuset.mems"), &nodes.to_string())?;
        let effective = match self.version {
            Version::V2 => "cpuset.mems.effective",
            Version::V1 => "cpuset.effective_mems",
        };
        match files::read(&self.path.join(effective)) {
            Ok(text) if parse(&text)? != *nodes => {
                let said = format!("the kernel made nodes {text} of nodes {nodes}");
                Err(io::Error::other(said))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // Old, or no kernel's.
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Where a child writes `0` to come in, together with all that it starts.
    pub fn open_procs(&self) -> io::Result<OwnedFd> {
        fault::refuse("openat")?;
        let file = OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))?;
        Ok(file.into())
    }

    /// Removes it; fails as long as somebody is in it. One that is gone is no error.
    pub fn remove(&self) -> io::Result<()> {
        files::rmdir(&self.root, &self.path)
    }
}

fn parse(text: &str) -> io::Result<NodeSet> {
    text.trim().parse().map_err(|_| io::Error::other(format!("{text:?} is no list of nodes")))
}
