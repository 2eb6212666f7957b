//! The cgroup of a task and its directory.
//!
//! ```text
//!   /proc/PID/cgroup        0::/a/b                  path in the hierarchy, from the cgroup namespace root
//!   /proc/self/mountinfo    … /a /sys/fs/cgroup … - cgroup2 …     the mount shows the part below /a
//!                           ──► /sys/fs/cgroup/b
//! ```
//!
//! The paths in both files refer to the namespaces of this process, even if the task is in other namespaces.

use std::path::{Component, Path, PathBuf};

use super::HierarchyVersion;
use super::files;

/// Location of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupPath {
    /// Version of the hierarchy.
    pub version: HierarchyVersion,
    /// Path of the cgroup from `/`.
    pub dir: PathBuf,
    /// Mount point of the hierarchy: the topmost visible directory.
    pub mount: PathBuf,
    /// Whether no parent of the cgroup is visible.
    pub is_top: bool,
}

/// Returns the cgroup of this process, or the reason why there is none.
pub fn own_cgroup(root: &Path, version: HierarchyVersion) -> Result<CgroupPath, String> {
    cgroup_of(root, "self", version)
}

/// Returns the cgroup of a thread, or the reason why there is none.
pub fn of_thread(root: &Path, tid: u32, version: HierarchyVersion) -> Result<CgroupPath, String> {
    cgroup_of(root, &tid.to_string(), version)
}

fn cgroup_of(root: &Path, task: &str, version: HierarchyVersion) -> Result<CgroupPath, String> {
    let text = |path: &str| {
        files::read(&root.join(path)).map_err(|error| format!("/{path} cannot be read: {error}"))
    };
    find(version, &text(&format!("proc/{task}/cgroup"))?, &text("proc/self/mountinfo")?)
}

/// Finds the cgroup of a task in the content of `/proc/PID/cgroup` and `/proc/self/mountinfo`.
pub(super) fn find(
    version: HierarchyVersion,
    cgroup: &str,
    mountinfo: &str,
) -> Result<CgroupPath, String> {
    let group = cgroup.lines().find_map(|line| group_of(version, line));
    let group = group.ok_or_else(|| absent(version))?;
    let mut mounts = mountinfo.lines().filter_map(|line| mount_of(version, line)).peekable();
    if mounts.peek().is_none() {
        return Err(absent(version));
    }
    let visible = |(top, at): (PathBuf, PathBuf)| {
        let below = group.strip_prefix(&top).ok()?;
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        let is_top = below.as_os_str().is_empty();
        let dir = if is_top { at.clone() } else { at.join(below) };
        is_plain.then_some(CgroupPath { version, dir, mount: at, is_top })
    };
    mounts
        .find_map(visible)
        .ok_or_else(|| format!("the cgroup {} is below no mount point", group.display()))
}

fn absent(version: HierarchyVersion) -> String {
    match version {
        HierarchyVersion::V2 => "no unified hierarchy is mounted".to_owned(),
        HierarchyVersion::V1 => "no hierarchy with the controller cpuset is mounted".to_owned(),
    }
}

/// Returns the path of the cgroup in a line of `/proc/PID/cgroup`: `7:cpu,cpuset:/path`, in v2 `0::/path`.
fn group_of(version: HierarchyVersion, line: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':');
    let (nr, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let matches = match version {
        HierarchyVersion::V2 => nr == "0" && controllers.is_empty(),
        HierarchyVersion::V1 => controllers.split(',').any(|name| name == "cpuset"),
    };
    (matches && path.starts_with('/')).then(|| path.into())
}

/// Parses the root and the mount point of a mount of this version: `31 23 0:28 ROOT MOUNT_POINT options… - cgroup
/// source superoptions`.
fn mount_of(version: HierarchyVersion, line: &str) -> Option<(PathBuf, PathBuf)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (top, at) = (mount.next()?, mount.next()?);
    let mut kind = kind.split(' ');
    let (name, options) = (kind.next()?, kind.nth(1)?);
    let matches = match version {
        HierarchyVersion::V2 => name == "cgroup2",
        HierarchyVersion::V1 => {
            name == "cgroup" && options.split(',').any(|option| option == "cpuset")
        }
    };
    matches.then(|| (plain(top).into(), plain(at).into()))
}

/// Decodes a path: the kernel writes white space as `\` and three octal digits.
fn plain(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&piece[3..]);
            }
            None => plain.push_str(&format!("\\{piece}")),
        }
    }
    plain
}
