//! Cgroups for jobs whose memory is bound to nodes.
//!
//! A memory policy binds only the thread that sets it, and a program may replace it. `cpuset.mems` of a cgroup binds
//! all processes of the cgroup, their children and the page cache that they allocate. `cpuset.mems` can also be changed
//! while the processes run.
//!
//! ```text
//!   DELEGATED/               the cgroup in which evenkeel was started, if `decide` permits its use
//!     evenkeel-RUN/          created for the first job with bound memory
//!       own/                 evenkeel itself, if DELEGATED may not have both processes and child cgroups
//!       0-sort/              cpuset.mems = 1
//! ```
//!
//! There are two versions of the hierarchy, `v2` (unified) and `v1` (the hierarchy with the controller cpuset). All
//! changes are below `evenkeel-RUN`, with one exception: in v2 DELEGATED has to enable the controller for its children
//! (`cgroup.subtree_control`). One function reverts all changes, at the end of a run and in `restore`.
//!
//! Out of scope: CPU weights and CPUs. Affinity is set for each thread ([`crate::affinity`]).

mod decide;
mod files;
mod find;
mod group;
mod run;

use std::fmt;
use std::path::{Path, PathBuf};

pub use decide::{CgroupState, decide};
pub use find::{CgroupPath, of_thread, own_cgroup};
pub use group::Cgroup;
pub use run::{RunCgroups, job_dir, run_dir};

/// Versions of the cgroup hierarchy.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum HierarchyVersion {
    /// The unified hierarchy.
    V2,
    /// The hierarchy of the controller cpuset.
    V1,
}

/// Permitted versions of the cgroup hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupMode {
    /// v2 if it can be used, otherwise v1, otherwise none.
    #[default]
    Auto,
    /// Only this version.
    Only(HierarchyVersion),
    /// No cgroups.
    None,
}

/// The cgroup in which evenkeel was started and may create children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedCgroup {
    /// Version of the hierarchy.
    pub version: HierarchyVersion,
    /// Path from `/`.
    pub dir: PathBuf,
    /// Whether the controller has to be enabled for the children (v2).
    pub enables: bool,
    /// Whether the processes of the cgroup have to be moved to a child before the controller is enabled (v2, except in
    /// the root cgroup).
    pub moves_in: bool,
}

/// The chosen cgroup and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupChoice {
    /// The cgroup; `None` for no cgroups.
    pub delegated: Option<DelegatedCgroup>,
    /// Cause and remedy if the preferred version was not chosen; otherwise empty.
    pub reason: String,
}

impl fmt::Display for HierarchyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HierarchyVersion::V2 => "v2",
            HierarchyVersion::V1 => "v1",
        })
    }
}

/// Prints one line: `v2 below /sys/fs/cgroup`, `none: REASON`.
impl fmt::Display for CgroupChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.delegated {
            Some(delegated) => {
                write!(f, "{} below {}", delegated.version, delegated.dir.display())?
            }
            None => f.write_str("none")?,
        }
        match self.reason.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.reason),
        }
    }
}

/// Chooses a version from the state of the cgroups below `root` (`/` except in tests). Changes nothing.
pub fn choose(root: &Path, mode: CgroupMode) -> CgroupChoice {
    let find = |version| {
        own_cgroup(root, version).and_then(|cgroup| decide(&CgroupState::read(root, cgroup)))
    };
    let only = |version| match find(version) {
        Ok(delegated) => CgroupChoice { delegated: Some(delegated), reason: String::new() },
        Err(reason) => CgroupChoice { delegated: None, reason: format!("{version}: {reason}") },
    };
    match mode {
        CgroupMode::None => CgroupChoice { delegated: None, reason: String::new() },
        CgroupMode::Only(version) => only(version),
        CgroupMode::Auto => match (only(HierarchyVersion::V2), only(HierarchyVersion::V1)) {
            (v2, _) if v2.delegated.is_some() => v2,
            (v2, v1) if v1.delegated.is_some() => {
                CgroupChoice { delegated: v1.delegated, reason: format!("not {}", v2.reason) }
            }
            (v2, v1) => {
                CgroupChoice { delegated: None, reason: format!("{}; {}", v2.reason, v1.reason) }
            }
        },
    }
}

#[cfg(test)]
mod tests;
