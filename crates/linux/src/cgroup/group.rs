//! The cgroup of one job, which binds the memory of the job to nodes.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base::NodeSet;

use super::{HierarchyVersion, files};
use crate::fault;

/// A cgroup of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    pub(super) version: HierarchyVersion,
    pub(super) root: PathBuf,
    pub(super) path: PathBuf,
}

impl Cgroup {
    /// Returns the path of the cgroup.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the nodes of `cpuset.mems`.
    pub fn nodes(&self) -> io::Result<NodeSet> {
        parse(&files::read(&self.path.join("cpuset.mems"))?)
    }

    /// Binds new memory to `nodes`. The kernel migrates existing memory before the call returns (v2: always, v1: if
    /// `migrates` is set), which may take seconds.
    ///
    /// # Errors
    /// The kernel rejects the nodes, or the effective nodes differ (a node may be offline).
    pub fn set_nodes(&self, nodes: &NodeSet, migrates: bool) -> io::Result<()> {
        if self.version == HierarchyVersion::V1 {
            let migrate = if migrates { "1" } else { "0" };
            files::write(&self.path.join("cpuset.memory_migrate"), migrate)?;
        }
        files::write(&self.path.join("cpuset.mems"), &nodes.to_string())?;
        let effective = match self.version {
            HierarchyVersion::V2 => "cpuset.mems.effective",
            HierarchyVersion::V1 => "cpuset.effective_mems",
        };
        match files::read(&self.path.join(effective)) {
            Ok(text) if parse(&text)? != *nodes => {
                let mismatch = format!("the effective nodes are {text}, not {nodes}");
                Err(io::Error::other(mismatch))
            }
            // The file is missing on old kernels and in tests.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Opens `cgroup.procs`. A child process that writes `0` to this file moves itself to the cgroup; its future
    /// children start there.
    pub fn open_procs(&self) -> io::Result<OwnedFd> {
        fault::inject("openat")?;
        let file = OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))?;
        Ok(file.into())
    }

    /// Removes the cgroup. Fails while the cgroup has processes. A missing cgroup is no error.
    pub fn remove(&self) -> io::Result<()> {
        files::rmdir(&self.root, &self.path)
    }
}

fn parse(text: &str) -> io::Result<NodeSet> {
    text.trim().parse().map_err(|_| io::Error::other(format!("{text:?} is not a list of nodes")))
}
