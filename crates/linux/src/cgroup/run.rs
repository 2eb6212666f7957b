//! The cgroup of a run, which is created before the first cgroup of a job and removed together with its children.
//!
//! The removal needs three values: the delegated cgroup, the name of the run, and whether the run enabled the
//! controller. `restore` can therefore remove the cgroups of a run that was killed at any point:
//!
//! ```text
//!   disable the controller in evenkeel-RUN ─► and in DELEGATED, if the run enabled it and no other child uses it
//!      ─► move all processes to DELEGATED ─► remove the cgroups of jobs ─► remove evenkeel-RUN
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{CpuSet, NodeSet};

use super::decide::is_descendant;
use super::group::Cgroup;
use super::{DelegatedCgroup, HierarchyVersion, files};
use crate::{affinity, fault, procfs};

/// Name of the cgroup of evenkeel itself.
const OWN_DIR: &str = "own";
/// Interval between attempts to remove a cgroup with exiting processes.
const EXIT_POLL: Duration = Duration::from_millis(5);
/// Maximum number of attempts to move all processes (processes may fork between attempts) or to remove a cgroup.
const ROUNDS_MAX: u32 = 100;

/// The cgroups of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCgroups {
    root: PathBuf,
    delegated: DelegatedCgroup,
    dir: PathBuf,
}

/// Returns the name of the cgroup of a run, without characters that are not permitted; `None` if no character remains.
pub fn run_dir(run: &str) -> Option<String> {
    let name = plain(run, 36);
    (!name.is_empty()).then(|| format!("evenkeel-{name}"))
}

/// Returns the name of the cgroup of a job. Different job numbers give different names.
pub fn job_dir(nr: u32, name: &str) -> String {
    format!("{nr}-{}", plain(name, 40))
}

fn plain(text: &str, n_max: usize) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    text.chars().filter(is_plain).take(n_max).collect()
}

impl RunCgroups {
    /// Describes the cgroups of a run in a delegated cgroup below `root` (`/` except in tests). Creates nothing.
    /// Returns `None` if no character of the run's name is permitted.
    pub fn new(root: &Path, delegated: DelegatedCgroup, run: &str) -> Option<Self> {
        let dir = files::below(root, &delegated.dir).join(run_dir(run)?);
        Some(RunCgroups { root: root.to_owned(), delegated, dir })
    }

    /// Returns the delegated cgroup.
    pub fn delegated(&self) -> &DelegatedCgroup {
        &self.delegated
    }

    /// Returns whether the cgroup of the run exists.
    pub fn is_present(&self) -> io::Result<bool> {
        files::exists(&self.dir)
    }

    fn in_delegated(&self, file: &str) -> PathBuf {
        files::below(&self.root, &self.delegated.dir).join(file)
    }

    /// Creates the cgroup of the run and moves this process into it if necessary. The caller has to write the cgroup to
    /// the undo record first, and to call [`RunCgroups::remove_all`] after an error.
    ///
    /// # Errors
    /// The operation that failed, with its error.
    pub fn prepare(&self) -> Result<(), String> {
        let made = files::mkdir(&self.dir).map_err(|error| cannot("create", &self.dir, &error))?;
        if !made {
            return Err(format!("{} exists already", self.dir.display()));
        }
        self.prepare_made()
    }

    /// Prepares the cgroup after the directory was created.
    pub(super) fn prepare_made(&self) -> Result<(), String> {
        match self.delegated.version {
            HierarchyVersion::V2 => self.prepare_v2(),
            HierarchyVersion::V1 => {
                let parent = self.in_delegated("");
                copy_limits(&parent, &self.dir).map_err(|error| cannot("set up", &self.dir, &error))
            }
        }
    }

    fn prepare_v2(&self) -> Result<(), String> {
        self.check_kind()?;
        if self.delegated.moves_in {
            let target = self.dir.join(OWN_DIR);
            files::mkdir(&target).map_err(|error| cannot("create", &target, &error))?;
            fault::point();
            self.move_processes(&target)?;
        }
        fault::point();
        if self.delegated.enables {
            enable(&self.in_delegated(""), true).map_err(|error| {
                let delegated = self.delegated.dir.display();
                format!("{delegated} cannot enable the controller cpuset for its children: {error}")
            })?;
        }
        fault::point();
        enable(&self.dir, true)
            .map_err(|error| cannot("enable the controller cpuset in", &self.dir, &error))
    }

    /// Rejects a threaded cgroup: the delegated cgroup may have become threaded after `decide`. No process has been
    /// moved yet.
    fn check_kind(&self) -> Result<(), String> {
        match files::read(&self.dir.join("cgroup.type")) {
            Ok(kind) if kind == "domain" => Ok(()),
            Ok(kind) => Err(format!(
                "cgroups in {} cannot have processes, since this cgroup is threaded ({kind})",
                self.delegated.dir.display()
            )),
            // The file is missing on old kernels and in tests.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(cannot("read cgroup.type of", &self.dir, &error)),
        }
    }

    /// Moves all processes of the delegated cgroup to `target`. Fails if a process is not a descendant of this process.
    fn move_processes(&self, target: &Path) -> Result<(), String> {
        let this = std::process::id();
        let delegated = self.in_delegated("");
        for _ in 0..ROUNDS_MAX {
            let inside =
                files::processes(&delegated).map_err(|error| cannot("read", &delegated, &error))?;
            if inside.is_empty() {
                break;
            }
            for pid in inside {
                if !is_descendant(&self.root, pid, this) {
                    return Err(format!(
                        "process {pid}, which evenkeel did not start, is in {}",
                        delegated.display()
                    ));
                }
                move_to(&self.root, target, pid)
                    .map_err(|error| cannot("move to", target, &error))?;
            }
        }
        Ok(())
    }

    /// Creates the cgroup of a job, or uses the existing one, and binds it to `nodes`.
    pub fn create(&self, nr: u32, name: &str, nodes: &NodeSet) -> Result<Cgroup, String> {
        let path = self.dir.join(job_dir(nr, name));
        let made = files::mkdir(&path).map_err(|error| cannot("create", &path, &error))?;
        let group = Cgroup { version: self.delegated.version, root: self.root.clone(), path };
        fault::point();
        let limited = match self.delegated.version {
            HierarchyVersion::V1 if made => copy_limits(&self.dir, &group.path),
            _ => Ok(()),
        };
        limited.and_then(|()| group.set_nodes(nodes, false)).map_err(|error| {
            // The cgroup has no processes yet.
            let _ = made.then(|| group.remove());
            format!("{} cannot use nodes {nodes}: {error}", group.path.display())
        })?;
        Ok(group)
    }

    /// Moves all processes to the delegated cgroup and removes all cgroups of the run. Missing cgroups are no error.
    ///
    /// # Errors
    /// A cgroup could not be removed; the call can be repeated.
    pub fn remove_all(&self) -> Result<(), String> {
        let mut problem = None;
        if self.delegated.version == HierarchyVersion::V2 {
            problem = self.disable_controller().err();
        }
        match self.empty() {
            Ok(()) => problem.map_or(Ok(()), Err),
            Err(cause) => Err(problem.unwrap_or(cause)),
        }
    }

    fn disable_controller(&self) -> Result<(), String> {
        let disable = |path: &Path| {
            let done = enable(path, false);
            done.map_err(|error| cannot("disable the controller cpuset in", path, &error))
        };
        if self.is_present().map_err(|error| cannot("inspect", &self.dir, &error))? {
            disable(&self.dir)?;
        }
        fault::point();
        let delegated = self.in_delegated("");
        let delegated_exists =
            || files::exists(&delegated).map_err(|error| cannot("inspect", &delegated, &error));
        if self.delegated.enables && delegated_exists()? && !self.is_used_by_others() {
            disable(&delegated)?;
        }
        fault::point();
        Ok(())
    }

    /// Returns whether another child of the delegated cgroup uses the controller.
    fn is_used_by_others(&self) -> bool {
        let delegated = self.in_delegated("");
        let uses = |name: &String| {
            let path = delegated.join(name);
            let has = |file: &str, plain: &str| {
                files::read(&path.join(file)).is_ok_and(|text| !text.is_empty() && text != plain)
            };
            let enables = files::read(&path.join("cgroup.subtree_control"))
                .is_ok_and(|text| text.split_whitespace().any(|name| name == "cpuset"));
            let is_run = name.starts_with("evenkeel-");
            let is_bound = has("cpuset.cpus", "") || has("cpuset.mems", "");
            path != self.dir
                && (enables || is_run || is_bound || has("cpuset.cpus.partition", "member"))
        };
        // If the children cannot be listed, the controller counts as used.
        files::groups_in(&delegated).map_or(true, |names| names.iter().any(uses))
    }

    /// Moves all processes to the delegated cgroup and removes the cgroups.
    fn empty(&self) -> Result<(), String> {
        if !self.is_present().map_err(|error| cannot("inspect", &self.dir, &error))? {
            return Ok(());
        }
        let names = files::groups_in(&self.dir);
        let names = names.map_err(|error| cannot("read", &self.dir, &error))?;
        let groups = names.iter().map(|name| self.dir.join(name)).chain([self.dir.clone()]);
        for path in groups {
            self.move_back(&path)?;
            fault::point();
            self.remove(&path).map_err(|error| cannot("remove", &path, &error))?;
            fault::point();
        }
        Ok(())
    }

    /// Removes an empty cgroup. An exiting process is not listed but keeps the cgroup busy (EBUSY) until the exit is
    /// complete.
    fn remove(&self, path: &Path) -> io::Result<()> {
        for _ in 0..ROUNDS_MAX {
            match files::rmdir(&self.root, path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(EXIT_POLL);
                }
                done => return done,
            }
        }
        files::rmdir(&self.root, path)
    }

    fn move_back(&self, from: &Path) -> Result<(), String> {
        let delegated = self.in_delegated("");
        for _ in 0..ROUNDS_MAX {
            let inside = match files::processes(from) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                inside => inside.map_err(|error| cannot("read", from, &error))?,
            };
            if inside.is_empty() {
                return Ok(());
            }
            for pid in inside {
                if pid == 0 {
                    // Writing 0 would move this process.
                    return Err(format!(
                        "{} has a process of another PID namespace; move this process to another cgroup",
                        from.display()
                    ));
                }
                move_to(&self.root, &delegated, pid).map_err(|error| {
                    format!(
                        "process {pid} cannot be moved back to {}: {error}",
                        delegated.display()
                    )
                })?;
            }
        }
        Ok(()) // If a process remains, the removal of the cgroup fails.
    }
}

/// Moves a process and restores the affinity of its threads: before Linux 6.2, a thread that changes its cpuset
/// receives all CPUs of the new cpuset.
fn move_to(root: &Path, group: &Path, pid: u32) -> io::Result<()> {
    let threads = procfs::threads(root, pid).unwrap_or_default();
    let masks: BTreeMap<u32, CpuSet> =
        threads.into_iter().filter_map(|tid| Some((tid, affinity::get(tid).ok()?))).collect();
    match files::write(&group.join("cgroup.procs"), &pid.to_string()) {
        // The process exited before it was moved.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
        done => done?,
    }
    for (tid, mask) in masks {
        if affinity::get(tid).is_ok_and(|now| now != mask) {
            let _ = affinity::set(tid, &mask); // Fails if the new cpuset has none of these CPUs.
        }
    }
    Ok(())
}

/// Enables or disables the controller for the children of a cgroup.
fn enable(group: &Path, target: bool) -> io::Result<()> {
    let path = group.join("cgroup.subtree_control");
    let now = match files::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !target => return Ok(()),
        now => now?,
    };
    let is_enabled = now.split_whitespace().any(|name| name == "cpuset");
    match (is_enabled, target) {
        (false, true) => files::write(&path, "+cpuset"),
        (true, false) => files::write(&path, "-cpuset"),
        _ => Ok(()),
    }
}

/// Copies `cpuset.cpus` and `cpuset.mems` of a v1 cgroup: both are empty in a new cgroup.
fn copy_limits(from: &Path, to: &Path) -> io::Result<()> {
    for name in ["cpus", "mems"] {
        // The effective sets, if available, contain no offline CPUs and nodes.
        let text = files::read(&from.join(format!("cpuset.effective_{name}")))
            .or_else(|_| files::read(&from.join(format!("cpuset.{name}"))))?;
        files::write(&to.join(format!("cpuset.{name}")), &text)?;
    }
    Ok(())
}

fn cannot(operation: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {operation} {}: {error}", path.display())
}
