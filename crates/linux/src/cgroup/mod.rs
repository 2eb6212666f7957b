//! Control groups: a folder of ours for jobs whose memory is to stay on certain nodes.
//!
//! A memory policy binds the thread that sets it, and a program may set another. What stands in a
//! group's `cpuset.mems` binds whoever is in the group, what they start and what they read from files,
//! and it can be changed while they run.
//!
//! ```text
//!   HOME/                    the group that we were started in; ours by one of the rules in `decide`
//!     evenkeel-RUN/          ours, made when the first job needs it
//!       own/                 we ourselves, where HOME may not hold processes beside groups
//!       0-sort/              cpuset.mems = 1
//! ```
//!
//! Two kinds of hierarchies do this, `v2` (unified) and `v1` (the one with the controller cpuset).
//! Everything that we change stands below `evenkeel-RUN`, but for one thing: in v2 HOME has to hand the
//! controller down (`cgroup.subtree_control`). All of it is taken back by one function, which is
//! the same for our own end and for `restore`.
//!
//! Not here: shares of CPU time, and CPUs. Masks are set thread by thread ([`crate::affinity`]).

mod decide;
mod files;
mod find;
mod group;
mod run;

use std::fmt;
use std::path::{Path, PathBuf};

pub use decide::{CgroupState, decide};
pub use find::{CgroupPath, of_thread, own};
pub use group::Cgroup;
pub use run::{RunCgroups, job_folder, run_folder};

/// The two kinds of hierarchies.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    /// The unified one.
    V2,
    /// One of its own for the controller cpuset.
    V1,
}

/// Which kind is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CgroupMode {
    /// v2, or else v1, or else none.
    #[default]
    Auto,
    /// This one and no other.
    Only(Version),
    /// No groups.
    None,
}

/// The group that we were started in and may make groups in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedCgroup {
    /// Its kind.
    pub version: Version,
    /// Its folder, as a path from `/` on.
    pub folder: PathBuf,
    /// The controller has to be handed down first (v2).
    pub enables: bool,
    /// Whoever is in it has to go into a group below first (v2, but for the root of all groups).
    pub moves_in: bool,
}

/// What was chosen, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupChoice {
    /// The home; absent where there are to be no groups.
    pub home: Option<DelegatedCgroup>,
    /// Why it is this one, or why there is none and what would help; empty when there is nothing to say.
    pub why: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Version::V2 => "v2",
            Version::V1 => "v1",
        })
    }
}

/// In one line: `v2 below /sys/fs/cgroup`, `none: why`.
impl fmt::Display for CgroupChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.home {
            Some(home) => write!(f, "{} below {}", home.version, home.folder.display())?,
            None => f.write_str("none")?,
        }
        match self.why.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.why),
        }
    }
}

/// Chooses by looking at what is below a root (`/` but for tests). Changes nothing.
pub fn choose(root: &Path, wish: CgroupMode) -> CgroupChoice {
    let look = |version| own(root, version).and_then(|own| decide(&CgroupState::look(root, own)));
    let only = |version| match look(version) {
        Ok(home) => CgroupChoice { home: Some(home), why: String::new() },
        Err(why) => CgroupChoice { home: None, why: format!("{version}: {why}") },
    };
    match wish {
        CgroupMode::None => CgroupChoice { home: None, why: String::new() },
        CgroupMode::Only(version) => only(version),
        CgroupMode::Auto => match (only(Version::V2), only(Version::V1)) {
            (v2, _) if v2.home.is_some() => v2,
            (v2, v1) if v1.home.is_some() => {
                CgroupChoice { home: v1.home, why: format!("not {}", v2.why) }
            }
            (v2, v1) => CgroupChoice { home: None, why: format!("{}; {}", v2.why, v1.why) },
        },
    }
}

#[cfg(test)]
mod tests;
