//! The cgroup of one job: the nodes that its memory is bound to.

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
    /// Path of the cgroup.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The nodes of `cpuset.mems`.
    pub fn nodes(&self) -> io::Result<NodeSet> {
        parse(&files::read(&self.path.join("cpuset.mems"))?)
    }

    /// Binds new memory to these nodes. The kernel migrates existing memory before the call returns, which may take
    /// seconds: in v2 always, in v1 if `moves` is set.
    ///
    /// # Errors
    /// The kernel rejects the nodes, or the effective nodes differ (a node may be offline).
    pub fn set_nodes(&self, nodes: &NodeSet, moves: bool) -> io::Result<()> {
        if self.version == HierarchyVersion::V1 {
            let migrate = if moves { "1" } else { "0" };
            files::write(&self.path.join("cpuset.memory_migrate"), migrate)?;
        }
        files::write(&self.path.join("cpuset.mems"), &nodes.to_string())?;
        let effective = match self.version {
            HierarchyVersion::V2 => "cpuset.mems.effective",
            HierarchyVersion::V1 => "cpuset.effective_mems",
        };
        match files::read(&self.path.join(effective)) {
            Ok(text) if parse(&text)? != *nodes => {
                let what = format!("the effective nodes are {text}, not {nodes}");
                Err(io::Error::other(what))
            }
            // The file is missing on old kernels and in tests.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Opens `cgroup.procs`. A child that writes `0` to it joins the cgroup with its future children.
    pub fn open_procs(&self) -> io::Result<OwnedFd> {
        fault::inject("openat")?;
        let file = OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))?;
        Ok(file.into())
    }

    /// Removes the cgroup; fails while it has processes. A missing cgroup is no error.
    pub fn remove(&self) -> io::Result<()> {
        files::rmdir(&self.root, &self.path)
    }
}

fn parse(text: &str) -> io::Result<NodeSet> {
    text.trim().parse().map_err(|_| io::Error::other(format!("{text:?} is no list of nodes")))
}
