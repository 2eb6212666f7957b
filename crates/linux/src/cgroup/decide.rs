//! Decides whether evenkeel may create cgroups in the cgroup in which it was started.
//!
//! A cgroup has a single writer (systemd, "Control Group APIs and Delegation"). evenkeel is the writer if
//!
//! 1. systemd has delegated the unit (`Delegate=yes`, which sets the extended attribute `user.delegate` or
//!    `trusted.delegate`), or
//! 2. the cgroup is the topmost visible cgroup, the user is root, and systemd does not manage it (containers, guests),
//!    or
//! 3. the cgroup belongs to the user, the user is not root, and the cgroup is not a systemd unit.
//!
//! In v2 a cgroup other than the root either has processes or enables controllers for its children. To enable a
//! controller, evenkeel would have to move all processes of the cgroup. If the cgroup contains a
//! process that is neither evenkeel nor its descendant, evenkeel creates no cgroups. A v1 cgroup may contain both
//! processes and child cgroups.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, getxattr};

use super::find::CgroupPath;
use super::{DelegatedCgroup, HierarchyVersion, files};
use crate::{fault, procfs};

/// State of the cgroup in which this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each read once")]
pub struct CgroupState {
    /// Path and hierarchy version.
    pub cgroup: CgroupPath,
    /// Effective user id of this process.
    pub uid: u32,
    /// UID of the owner of the directory; `None` if unknown.
    pub owner: Option<u32>,
    /// The file that cannot be written, with the error.
    pub unwritable: Option<String>,
    /// Whether systemd has delegated the cgroup.
    pub is_delegated: bool,
    /// Whether systemd is the init system.
    pub has_systemd: bool,
    /// Whether the cgroup is the root cgroup, not only the topmost visible one.
    pub is_root: bool,
    /// Content of `cgroup.type` (v2).
    pub kind: String,
    /// Available controllers (v2).
    pub controllers: String,
    /// Controllers enabled for the children (v2).
    pub enabled: String,
    /// PID and name of each process in the cgroup that is not a descendant of this process. Empty if no process has to
    /// be moved.
    pub foreign: Vec<(u32, String)>,
}

impl CgroupState {
    /// Reads the state of a cgroup below `root`.
    pub fn read(root: &Path, cgroup: CgroupPath) -> Self {
        let dir = files::below(root, &cgroup.dir);
        let text = |name: &str| files::read(&dir.join(name)).unwrap_or_default();
        let is_root = !files::exists(&dir.join("cgroup.type")).unwrap_or(true);
        // The processes are not read if no process has to be moved, because a cgroup may have thousands of processes.
        let must_move = cgroup.version == HierarchyVersion::V2 && !is_root;
        let meta = fault::retry("stat", || Ok(rustix::fs::stat(&dir)?)).ok();
        CgroupState {
            uid: rustix::process::geteuid().as_raw(),
            owner: meta.map(|meta| meta.st_uid),
            unwritable: unwritable(&dir, cgroup.version),
            is_delegated: is_delegated(&dir),
            // An error other than a missing file counts as "systemd is present".
            has_systemd: files::exists(&root.join("run/systemd/system")).unwrap_or(true),
            is_root,
            kind: text("cgroup.type"),
            controllers: text("cgroup.controllers"),
            enabled: text("cgroup.subtree_control"),
            foreign: if must_move { foreign(root, &dir) } else { Vec::new() },
            cgroup,
        }
    }
}

/// Returns the delegated cgroup, or the cause of its absence with the remedy.
pub fn decide(state: &CgroupState) -> Result<DelegatedCgroup, String> {
    let dir = &state.cgroup.dir;
    let has = |list: &str| list.split_whitespace().any(|name| name == "cpuset");
    check_owner(state)?;
    if let Some(cause) = &state.unwritable {
        return Err(cause.clone());
    }
    let (version, dir_buf) = (state.cgroup.version, dir.clone());
    let mut delegated = DelegatedCgroup { version, dir: dir_buf, enables: false, moves_in: false };
    if delegated.version == HierarchyVersion::V1 {
        return Ok(delegated);
    }
    if !has(&state.controllers) {
        let cause = match state.is_root {
            true => "the controller cpuset belongs to a v1 hierarchy (--cgroups v1)",
            false => {
                "the controller cpuset is not enabled for this cgroup (systemd: Delegate=cpuset)"
            }
        };
        return Err(format!("{}: {cause}", dir.display()));
    }
    if !state.is_root {
        check_kind(state)?;
    }
    (delegated.enables, delegated.moves_in) = (!has(&state.enabled), !state.is_root);
    match state.foreign.first().filter(|_| delegated.moves_in) {
        Some((pid, comm)) => Err(format!(
            "processes that evenkeel did not start are in {} (PID {pid}, {comm}): start evenkeel in \
             a separate cgroup, {}",
            dir.display(),
            remedy(state.uid)
        )),
        None => Ok(delegated),
    }
}

/// Rejects a cgroup in which child cgroups cannot have processes: mkdir(2) would succeed, and the kernel would reject
/// the processes (EOPNOTSUPP). The root cgroup may have domain and threaded children.
fn check_kind(state: &CgroupState) -> Result<(), String> {
    let cause = match &*state.kind {
        "domain" => return Ok(()),
        // "domain threaded": the cgroup has processes and enables threaded controllers.
        "domain threaded" if !state.enabled.is_empty() => {
            format!("has processes and enables {} for threads", state.enabled)
        }
        "domain threaded" => "has threaded children".to_owned(),
        "threaded" => "is threaded".to_owned(),
        "domain invalid" => "is below a threaded cgroup".to_owned(),
        "" => "has no readable cgroup.type".to_owned(),
        other => format!("has the unknown cgroup.type {other}"),
    };
    Err(format!(
        "{} {cause}, so its children cannot have processes; remedy: start evenkeel in a separate cgroup, {}",
        state.cgroup.dir.display(),
        remedy(state.uid)
    ))
}

fn check_owner(state: &CgroupState) -> Result<(), String> {
    let dir = &state.cgroup.dir;
    let name = dir.display();
    if dir.iter().any(|part| part.to_string_lossy().starts_with("evenkeel-")) {
        return Err(format!("{name} is a cgroup of another evenkeel"));
    }
    // systemd does not manage the v1 hierarchy of cpusets.
    let is_v2 = state.cgroup.version == HierarchyVersion::V2;
    let is_systemd = is_v2 && (is_unit(dir) || (state.is_root && state.has_systemd));
    let is_own = match state.uid {
        0 => state.cgroup.is_top,
        uid => state.owner == Some(uid),
    };
    match (state.is_delegated, is_systemd, is_own) {
        (true, ..) | (false, false, true) => Ok(()),
        (false, true, _) => {
            Err(format!("{name} is managed by systemd and not delegated: {}", remedy(state.uid)))
        }
        (false, false, false) => {
            Err(format!("{name} is managed by another program: {}", remedy(state.uid)))
        }
    }
}

fn remedy(uid: u32) -> &'static str {
    match uid {
        0 => "systemd-run --scope -p Delegate=yes evenkeel run …",
        _ => "systemd-run --user --scope -p Delegate=yes evenkeel run …",
    }
}

/// Returns whether the directory has the name of a systemd unit.
fn is_unit(dir: &Path) -> bool {
    let kind = dir.extension().unwrap_or_default();
    ["service", "scope", "slice", "mount", "socket", "swap"].iter().any(|unit| kind == *unit)
}

fn is_delegated(dir: &Path) -> bool {
    let is_set = |name: &str| {
        let mut value = [0u8; 8];
        let got = fault::retry("getxattr", || Ok(getxattr(dir, name, &mut value)?));
        got.is_ok_and(|n_bytes| &value[..n_bytes] == b"1")
    };
    is_set("user.delegate") || is_set("trusted.delegate")
}

fn unwritable(dir: &Path, version: HierarchyVersion) -> Option<String> {
    let files: &[&str] = match version {
        HierarchyVersion::V2 => &["", "cgroup.procs", "cgroup.subtree_control"],
        HierarchyVersion::V1 => &["", "cgroup.procs"],
    };
    files.iter().find_map(|name| {
        let path: PathBuf = if name.is_empty() { dir.into() } else { dir.join(name) };
        let may_write = || Ok(access(&path, Access::WRITE_OK)?);
        let error = fault::retry("access", may_write).err()?;
        Some(format!("{} cannot be written: {error}", path.display()))
    })
}

/// Returns the processes of a cgroup that are neither this process nor its descendants.
fn foreign(root: &Path, dir: &Path) -> Vec<(u32, String)> {
    let this_pid = std::process::id();
    let all = files::processes(dir).unwrap_or_default();
    let named =
        |pid| (pid, procfs::stat(root, pid).map_or_else(|_| "?".to_owned(), |s| s.comm_text()));
    all.into_iter().filter(|&pid| !is_descendant(root, pid, this_pid)).map(named).collect()
}

/// Returns whether a process is `ancestor` or a descendant of it. True if the process has exited since the list was
/// read.
pub(super) fn is_descendant(root: &Path, mut pid: u32, ancestor: u32) -> bool {
    // The depth is bounded, because reused PIDs could form a cycle.
    for depth in 0..1000 {
        if pid == ancestor {
            return true;
        }
        match procfs::stat(root, pid) {
            Ok(stat) if 1 < pid => pid = stat.parent,
            Ok(_) => return false,
            Err(_) => return depth == 0 && pid != 0,
        }
    }
    false
}
