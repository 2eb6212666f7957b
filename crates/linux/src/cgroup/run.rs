//! The folder of a run: made before the first group, and taken back whole.
//!
//! Taking back needs to know no more than the home, the run and whether we had the controller handed
//! down, so that `restore` does it for a run that was killed at any moment:
//!
//! ```text
//!   our folder hands nothing down ─► HOME neither, if we made it do so and nobody else needs it
//!      ─► whoever is below goes to HOME ─► groups are removed ─► our folder is removed
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::{CpuSet, NodeSet};

use super::decide::comes_from;
use super::group::Cgroup;
use super::{DelegatedCgroup, Version, files};
use crate::{affinity, fault, procfs};

/// Where we are ourselves, if not in the home.
const OWN: &str = "own";
/// How long we wait for who is just ending, a hundred times.
const ENDING: Duration = Duration::from_millis(5);
/// Those who are moved may start others meanwhile.
const ROUNDS_MAX: u32 = 100;

/// The groups of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCgroups {
    root: PathBuf,
    home: DelegatedCgroup,
    folder: PathBuf,
}

/// The name of a run's folder. What a folder may not be called is left out of it; `None` if nothing is
/// left then.
pub fn run_folder(run: &str) -> Option<String> {
    let name = plain(run, 36);
    (!name.is_empty()).then(|| format!("evenkeel-{name}"))
}

/// The name of a job's group in it; different numbers have different names.
pub fn job_folder(nr: u32, name: &str) -> String {
    format!("{nr}-{}", plain(name, 40))
}

fn plain(text: &str, n_max: usize) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    text.chars().filter(is_plain).take(n_max).collect()
}

impl RunCgroups {
    /// Of this run, in this home below a root (`/` but for tests). Makes nothing. `None` if the run has
    /// no name that a folder could have.
    pub fn new(root: &Path, home: DelegatedCgroup, run: &str) -> Option<Self> {
        let folder = files::below(root, &home.folder).join(run_folder(run)?);
        Some(RunCgroups { root: root.to_owned(), home, folder })
    }

    /// The home.
    pub fn home(&self) -> &DelegatedCgroup {
        &self.home
    }

    /// Whether the folder is there.
    pub fn is_there(&self) -> io::Result<bool> {
        files::is_there(&self.folder)
    }

    fn at_home(&self, file: &str) -> PathBuf {
        files::below(&self.root, &self.home.folder).join(file)
    }

    /// Makes the folder and goes into it where that is needed. The caller has written into the undo
    /// record that it will. After an error it takes everything back.
    ///
    /// # Errors
    /// What the kernel refused, in words.
    pub fn prepare(&self) -> Result<(), String> {
        let made =
            files::mkdir(&self.folder).map_err(|error| cannot("make", &self.folder, &error))?;
        if !made {
            return Err(format!("{} is there already", self.folder.display()));
        }
        self.prepare_made()
    }

    /// The same with the folder made.
    pub(super) fn prepare_made(&self) -> Result<(), String> {
        match self.home.version {
            Version::V2 => self.prepare_v2(),
            Version::V1 => {
                let parent = self.at_home("");
                copy_limits(&parent, &self.folder)
                    .map_err(|error| cannot("set up", &self.folder, &error))
            }
        }
    }

    fn prepare_v2(&self) -> Result<(), String> {
        self.check_kind()?;
        if self.home.moves_in {
            let own = self.folder.join(OWN);
            files::mkdir(&own).map_err(|error| cannot("make", &own, &error))?;
            fault::point();
            self.move_ours(&own)?;
        }
        fault::point();
        if self.home.enables {
            hand_down(&self.at_home(""), true).map_err(|error| {
                let shown = self.home.folder.display();
                format!("{shown} cannot hand the controller cpuset down: {error}")
            })?;
        }
        fault::point();
        hand_down(&self.folder, true)
            .map_err(|error| cannot("hand the controller cpuset down in", &self.folder, &error))
    }

    /// Refuses a folder that only threads could go into: the home was given over to them since it was
    /// looked at. Nobody has moved yet.
    fn check_kind(&self) -> Result<(), String> {
        match files::read(&self.folder.join("cgroup.type")) {
            Ok(kind) if kind == "domain" => Ok(()),
            Ok(kind) => Err(format!(
                "no group for processes can be made in {}, which shares out among threads ({kind})",
                self.home.folder.display()
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()), // Old, or no kernel's.
            Err(error) => Err(cannot("tell the kind of", &self.folder, &error)),
        }
    }

    /// Moves all that live in the home, if they come from us.
    fn move_ours(&self, own: &Path) -> Result<(), String> {
        let this = std::process::id();
        let home = self.at_home("");
        for _ in 0..ROUNDS_MAX {
            let inside = files::processes(&home).map_err(|error| cannot("read", &home, &error))?;
            if inside.is_empty() {
                break;
            }
            for pid in inside {
                if !comes_from(&self.root, pid, this) {
                    return Err(format!(
                        "process {pid}, which is not ours, lives in {}",
                        home.display()
                    ));
                }
                move_to(&self.root, own, pid).map_err(|error| cannot("go into", own, &error))?;
            }
        }
        Ok(())
    }

    /// Makes the group of a job, or takes the one that is there, with these nodes.
    pub fn make(&self, nr: u32, name: &str, nodes: &NodeSet) -> Result<Cgroup, String> {
        let path = self.folder.join(job_folder(nr, name));
        let made = files::mkdir(&path).map_err(|error| cannot("make", &path, &error))?;
        let group = Cgroup { version: self.home.version, root: self.root.clone(), path };
        fault::point();
        let limited = match self.home.version {
            Version::V1 if made => copy_limits(&self.folder, &group.path),
            _ => Ok(()),
        };
        limited.and_then(|()| group.set_nodes(nodes, false)).map_err(|error| {
            // Nobody is in it yet.
            let _ = made.then(|| group.remove());
            format!("{} cannot have nodes {nodes}: {error}", group.path.display())
        })?;
        Ok(group)
    }

    /// Takes everything back: whoever lives in our groups is in the home again, and nothing of ours is
    /// left. What is not there is no error.
    ///
    /// # Errors
    /// What is left and why, in words; it can be tried again.
    pub fn take_back(&self) -> Result<(), String> {
        let mut problem = None;
        if self.home.version == Version::V2 {
            problem = self.stop_handing_down().err();
        }
        match self.empty() {
            Ok(()) => problem.map_or(Ok(()), Err),
            Err(why) => Err(problem.unwrap_or(why)),
        }
    }

    fn stop_handing_down(&self) -> Result<(), String> {
        if self.is_there().map_err(|error| cannot("look for", &self.folder, &error))? {
            let done = hand_down(&self.folder, false);
            done.map_err(|error| cannot("take the controller cpuset from", &self.folder, &error))?;
        }
        fault::point();
        let home = self.at_home("");
        let has_home = || files::is_there(&home).map_err(|error| cannot("look for", &home, &error));
        if self.home.enables && has_home()? && !self.is_needed_by_others() {
            let done = hand_down(&home, false);
            done.map_err(|error| cannot("take the controller cpuset from", &home, &error))?;
        }
        fault::point();
        Ok(())
    }

    /// Whether other groups in the home have begun to use what we had handed down.
    fn is_needed_by_others(&self) -> bool {
        let home = self.at_home("");
        let uses = |name: &String| {
            let path = home.join(name);
            let has = |file: &str, plain: &str| {
                files::read(&path.join(file)).is_ok_and(|text| !text.is_empty() && text != plain)
            };
            let hands_on = files::read(&path.join("cgroup.subtree_control"))
                .is_ok_and(|text| text.split_whitespace().any(|name| name == "cpuset"));
            let is_run = name.starts_with("evenkeel-");
            let is_bound = has("cpuset.cpus", "") || has("cpuset.mems", "");
            path != self.folder
                && (hands_on || is_run || is_bound || has("cpuset.cpus.partition", "member"))
        };
        // What cannot be listed may hold anything.
        files::groups_in(&home).map_or(true, |names| names.iter().any(uses))
    }

    /// Moves everybody home and removes our folders.
    fn empty(&self) -> Result<(), String> {
        if !self.is_there().map_err(|error| cannot("look for", &self.folder, &error))? {
            return Ok(());
        }
        let names = files::groups_in(&self.folder);
        let names = names.map_err(|error| cannot("read", &self.folder, &error))?;
        let groups = names.iter().map(|name| self.folder.join(name)).chain([self.folder.clone()]);
        for path in groups {
            self.send_home(&path)?;
            fault::point();
            self.remove(&path).map_err(|error| cannot("remove", &path, &error))?;
            fault::point();
        }
        Ok(())
    }

    /// Removes an empty group. Whoever is just ending is in no list, and in the group for a moment more.
    fn remove(&self, path: &Path) -> io::Result<()> {
        for _ in 0..ROUNDS_MAX {
            match files::rmdir(&self.root, path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(ENDING);
                }
                done => return done,
            }
        }
        files::rmdir(&self.root, path)
    }

    fn send_home(&self, from: &Path) -> Result<(), String> {
        let home = self.at_home("");
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
                    // Written back it would be ourselves.
                    return Err(format!(
                        "{} holds a process of another pid namespace, which has no number here: move \
                         it from outside",
                        from.display()
                    ));
                }
                move_to(&self.root, &home, pid).map_err(|error| {
                    format!("process {pid} cannot go back to {}: {error}", home.display())
                })?;
            }
        }
        Ok(()) // The removal that follows tells that somebody is left.
    }
}

/// Moves a process, with the masks of its threads as they are: kernels before 6.2 give a thread that
/// changes its cpuset all CPUs of the new one.
fn move_to(root: &Path, group: &Path, pid: u32) -> io::Result<()> {
    let threads = procfs::threads(root, pid).unwrap_or_default();
    let masks: BTreeMap<u32, CpuSet> =
        threads.into_iter().filter_map(|tid| Some((tid, affinity::get(tid).ok()?))).collect();
    match files::write(&group.join("cgroup.procs"), &pid.to_string()) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()), // It has ended.
        done => done?,
    }
    for (tid, mask) in masks {
        if affinity::get(tid).is_ok_and(|now| now != mask) {
            let _ = affinity::set(tid, &mask); // CPUs that its new group does not have.
        }
    }
    Ok(())
}

/// Has a group hand the controller down, or no longer.
fn hand_down(group: &Path, wanted: bool) -> io::Result<()> {
    let path = group.join("cgroup.subtree_control");
    let now = match files::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !wanted => return Ok(()),
        now => now?,
    };
    let does = now.split_whitespace().any(|name| name == "cpuset");
    match (does, wanted) {
        (false, true) => files::write(&path, "+cpuset"),
        (true, false) => files::write(&path, "-cpuset"),
        _ => Ok(()),
    }
}

/// A new group of v1 may use nothing: gives it what another has.
fn copy_limits(from: &Path, to: &Path) -> io::Result<()> {
    for name in ["cpus", "mems"] {
        // Where both are told, the effective ones are without what is offline.
        let text = files::read(&from.join(format!("cpuset.effective_{name}")))
            .or_else(|_| files::read(&from.join(format!("cpuset.{name}"))))?;
        files::write(&to.join(format!("cpuset.{name}")), &text)?;
    }
    Ok(())
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}
