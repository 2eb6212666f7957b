//! Whether groups may be made in the group that we are in.
//!
//! Every group has one writer. It is us where
//!
//! 1. systemd says so of its unit (`Delegate=yes`, which it notes at the folder as `user.delegate` or
//!    `trusted.delegate`), or
//! 2. it is the top of what can be seen, we are root, and no systemd runs it (containers, guests), or
//! 3. it belongs to us, who are an ordinary user, and is no unit of systemd's.
//!
//! v2 lets a group other than the root of all either hold processes or hand controllers down. So we
//! would have to move all that live in it, and those that are not ours we do not touch: then there
//! are no groups. In v1 nothing stands in the way of a folder of ours beside them.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, getxattr};

use super::find::CgroupPath;
use super::{DelegatedCgroup, Version, files};
use crate::{fault, procfs};

/// What was seen of our group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each asked once")]
pub struct CgroupState {
    /// Which it is.
    pub own: CgroupPath,
    /// Who we are.
    pub uid: u32,
    /// Whose folder it is; absent where that cannot be told.
    pub owner: Option<u32>,
    /// What of it cannot be written, and why; absent where all can be.
    pub unwritable: Option<String>,
    /// Whether systemd notes that it was given away.
    pub is_delegated: bool,
    /// Whether systemd is the system's manager.
    pub has_systemd: bool,
    /// Whether it is the root of all groups, not only of those that can be seen.
    pub is_root: bool,
    /// Its kind in v2: `domain`, or something of threads.
    pub kind: String,
    /// The controllers that it could hand down (v2).
    pub controllers: String,
    /// Those that it hands down (v2).
    pub hands_down: String,
    /// Processes in it that do not come from us, with the names of their programs; asked where
    /// they would have to move.
    pub strangers: Vec<(u32, String)>,
}

impl CgroupState {
    /// Looks at our group below a root.
    pub fn look(root: &Path, own: CgroupPath) -> Self {
        let folder = files::below(root, &own.folder);
        let text = |name: &str| files::read(&folder.join(name)).unwrap_or_default();
        let is_root = !files::is_there(&folder.join("cgroup.type")).unwrap_or(true);
        // Where nobody has to move nobody is asked: thousands may live there.
        let needs_room = own.version == Version::V2 && !is_root;
        let meta = fault::retry("stat", || Ok(rustix::fs::stat(&folder)?)).ok();
        CgroupState {
            uid: rustix::process::geteuid().as_raw(),
            owner: meta.map(|meta| meta.st_uid),
            unwritable: unwritable(&folder, own.version),
            is_delegated: is_delegated(&folder),
            // What cannot be told may be so.
            has_systemd: files::is_there(&root.join("run/systemd/system")).unwrap_or(true),
            is_root,
            kind: text("cgroup.type"),
            controllers: text("cgroup.controllers"),
            hands_down: text("cgroup.subtree_control"),
            strangers: if needs_room { strangers(root, &folder) } else { Vec::new() },
            own,
        }
    }
}

/// Decides: the home of our groups, or why there are none and what would help.
pub fn decide(seen: &CgroupState) -> Result<DelegatedCgroup, String> {
    let folder = &seen.own.folder;
    let has = |list: &str| list.split_whitespace().any(|name| name == "cpuset");
    is_ours(seen)?;
    if let Some(what) = &seen.unwritable {
        return Err(what.clone());
    }
    let mut home = DelegatedCgroup {
        version: seen.own.version,
        folder: folder.clone(),
        enables: false,
        moves_in: false,
    };
    if home.version == Version::V1 {
        return Ok(home);
    }
    if !has(&seen.controllers) {
        let what = match seen.is_root {
            true => "the controller cpuset belongs to another hierarchy (--cgroups v1)",
            false => "the controller cpuset is not handed down to it (systemd: Delegate=cpuset)",
        };
        return Err(format!("{}: {what}", folder.display()));
    }
    if !seen.is_root {
        is_of_processes(seen)?;
    }
    (home.enables, home.moves_in) = (!has(&seen.hands_down), !seen.is_root);
    match seen.strangers.first().filter(|_| home.moves_in) {
        Some((pid, comm)) => Err(format!(
            "processes that are not ours live in {} (number {pid}, {comm}): start evenkeel in a \
             group of its own, {}",
            folder.display(),
            remedy(seen.uid)
        )),
        None => Ok(home),
    }
}

/// Refuses a group below which none for processes can be made. The kernel would let us make folders in it,
/// and then refuse whoever goes there (EOPNOTSUPP). The root of all may have groups of both sorts.
fn is_of_processes(seen: &CgroupState) -> Result<(), String> {
    let why = match &*seen.kind {
        "domain" => return Ok(()),
        // So is whoever hands down what can be shared out among threads while processes live in it.
        "domain threaded" if !seen.hands_down.is_empty() => {
            format!("hands {} down to threads while processes live in it", seen.hands_down)
        }
        "domain threaded" => "has groups of threads in it".to_owned(),
        "threaded" => "is a group of threads".to_owned(),
        "domain invalid" => "stands below a group of threads".to_owned(),
        "" => "does not tell whether it is a group of processes or of threads".to_owned(),
        other => format!("is a group of a kind that is not known here ({other})"),
    };
    Err(format!(
        "{} {why}, and no groups for processes can be made there: start evenkeel in a group of its own, {}",
        seen.own.folder.display(),
        remedy(seen.uid)
    ))
}

fn is_ours(seen: &CgroupState) -> Result<(), String> {
    let folder = &seen.own.folder;
    let shown = folder.display();
    if folder.iter().any(|part| part.to_string_lossy().starts_with("evenkeel-")) {
        return Err(format!("{shown} is a group of another evenkeel"));
    }
    // systemd keeps out of the hierarchy that v1 has for cpusets.
    let systemds = seen.own.version == Version::V2;
    let is_systemds = systemds && (is_unit(folder) || (seen.is_root && seen.has_systemd));
    let is_mine = match seen.uid {
        0 => seen.own.is_top,
        uid => seen.owner == Some(uid),
    };
    match (seen.is_delegated, is_systemds, is_mine) {
        (true, ..) | (false, false, true) => Ok(()),
        (false, true, _) => {
            Err(format!("{shown} is systemd's and was not delegated: {}", remedy(seen.uid)))
        }
        (false, false, false) => {
            Err(format!("{shown} is not ours to make groups in: {}", remedy(seen.uid)))
        }
    }
}

fn remedy(uid: u32) -> &'static str {
    match uid {
        0 => "systemd-run --scope -p Delegate=yes evenkeel run …",
        _ => "systemd-run --user --scope -p Delegate=yes evenkeel run …",
    }
}

/// Whether a folder has a name as systemd gives its units.
fn is_unit(folder: &Path) -> bool {
    let kind = folder.extension().unwrap_or_default();
    ["service", "scope", "slice", "mount", "socket", "swap"].iter().any(|unit| kind == *unit)
}

fn is_delegated(folder: &Path) -> bool {
    let is_set = |name: &str| {
        let mut value = [0u8; 8];
        let got = fault::retry("getxattr", || Ok(getxattr(folder, name, &mut value)?));
        got.is_ok_and(|n_bytes| &value[..n_bytes] == b"1")
    };
    is_set("user.delegate") || is_set("trusted.delegate")
}

fn unwritable(folder: &Path, version: Version) -> Option<String> {
    let files: &[&str] = match version {
        Version::V2 => &["", "cgroup.procs", "cgroup.subtree_control"],
        Version::V1 => &["", "cgroup.procs"],
    };
    files.iter().find_map(|name| {
        let path: PathBuf = if name.is_empty() { folder.into() } else { folder.join(name) };
        let may_write = || Ok(access(&path, Access::WRITE_OK)?);
        let error = fault::retry("access", may_write).err()?;
        Some(format!("{} cannot be written: {error}", path.display()))
    })
}

/// Processes in a group that come neither from us nor are us.
fn strangers(root: &Path, folder: &Path) -> Vec<(u32, String)> {
    let own = std::process::id();
    let all = files::processes(folder).unwrap_or_default();
    let named =
        |pid| (pid, procfs::stat(root, pid).map_or_else(|_| "?".to_owned(), |s| s.comm_text()));
    all.into_iter().filter(|&pid| !comes_from(root, pid, own)).map(named).collect()
}

/// Whether a process is another or one of its children's children. One that ended meanwhile is nobody's
/// business.
pub(super) fn comes_from(root: &Path, mut pid: u32, from: u32) -> bool {
    // As long a line of parents as nobody has; numbers that are used again could make a circle.
    for depth in 0..1000 {
        if pid == from {
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
