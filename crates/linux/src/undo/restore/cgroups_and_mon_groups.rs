//! Removes the resctrl monitoring groups and the cgroup of a killed run.
//!
//! A group is removed if the record contains it under a name of this run. No other group is searched or removed. Before
//! a cgroup is removed, its processes are moved to the parent of the cgroup of the run.

use std::io;
use std::path::Path;

use super::super::record::{Records, UndoHeader};
use crate::cgroup::{RunCgroups, run_dir};
use crate::fault;
use crate::resctrl::MonGroupDir;

/// Kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelGroupKind {
    /// A resctrl monitoring group.
    MonGroup,
    /// The cgroup of a run, which contains the cgroups of its jobs.
    Cgroup,
}

/// A group and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelGroupEntry {
    /// Kind of the group.
    pub kind: KernelGroupKind,
    /// Name of the directory of the group.
    pub name: String,
    /// The result.
    pub action: KernelGroupRestoreAction,
}

/// The result for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelGroupRestoreAction {
    /// The group is removed. A dry run only reports this result.
    Removed,
    /// The group does not exist.
    Absent,
    /// The run does not use this name. The group stays.
    NotCreatedByEvenkeel,
    /// A call failed with this error.
    Failed(String),
}

/// Removes the monitoring groups of a record. `root` is `/` except in tests.
pub(super) fn remove_mon_groups(
    root: &Path,
    header: &UndoHeader,
    records: &Records,
    dry_run: bool,
) -> Vec<KernelGroupEntry> {
    let removed = |name: &str| {
        let action = match MonGroupDir::of_run(&header.run, name) {
            None => KernelGroupRestoreAction::NotCreatedByEvenkeel,
            Some(group) => match group.exists(root) {
                Ok(false) => KernelGroupRestoreAction::Absent,
                Ok(true) if dry_run => KernelGroupRestoreAction::Removed,
                exists => match exists.and_then(|_| group.remove(root)) {
                    Ok(()) => KernelGroupRestoreAction::Removed,
                    Err(error) => KernelGroupRestoreAction::Failed(error.to_string()),
                },
            },
        };
        KernelGroupEntry { kind: KernelGroupKind::MonGroup, name: name.to_owned(), action }
    };
    records.mon_groups().map(removed).collect()
}

/// Removes the cgroup of a record with its children.
pub(super) fn remove_cgroup(
    root: &Path,
    header: &UndoHeader,
    records: &Records,
    dry_run: bool,
) -> Option<KernelGroupEntry> {
    let delegated = records.delegated_cgroup()?;
    let name = run_dir(&header.run).unwrap_or_default();
    let name = delegated.dir.join(name).display().to_string();
    let entry = |action| {
        Some(KernelGroupEntry { kind: KernelGroupKind::Cgroup, name: name.clone(), action })
    };
    let Some(groups) = RunCgroups::new(root, delegated, &header.run) else {
        return entry(KernelGroupRestoreAction::NotCreatedByEvenkeel);
    };
    // The removal deletes empty directories, so the path in the record must be verified first.
    match is_cgroup_or_absent(root, &groups.delegated().dir) {
        Ok(true) => {}
        Ok(false) => return entry(KernelGroupRestoreAction::NotCreatedByEvenkeel),
        Err(error) => return entry(KernelGroupRestoreAction::Failed(error.to_string())),
    }
    let existed = match groups.is_present() {
        Ok(existed) => existed,
        Err(error) => return entry(KernelGroupRestoreAction::Failed(error.to_string())),
    };
    if dry_run {
        return entry(if existed {
            KernelGroupRestoreAction::Removed
        } else {
            KernelGroupRestoreAction::Absent
        });
    }
    // The parent may still enable the controller for its children if the directory is missing.
    entry(match groups.remove_all() {
        Ok(()) if existed => KernelGroupRestoreAction::Removed,
        Ok(()) => KernelGroupRestoreAction::Absent,
        Err(cause) => KernelGroupRestoreAction::Failed(cause),
    })
}

/// Returns whether a path is in a cgroup file system or does not exist. Below another root than `/` cgroups are
/// ordinary directories.
fn is_cgroup_or_absent(root: &Path, path: &Path) -> io::Result<bool> {
    if root != Path::new("/") {
        return Ok(true);
    }
    match fault::retry("statfs", || Ok(rustix::fs::statfs(path)?)) {
        Ok(stat) => {
            Ok([libc::CGROUP_SUPER_MAGIC, libc::CGROUP2_SUPER_MAGIC].contains(&stat.f_type))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_a_cgroup_file_system_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let check = |root: &str, path: &Path| {
            is_cgroup_or_absent(root.as_ref(), path).expect("the path can be read")
        };
        assert!(!check("/", dir.path()) && !check("/", "/proc".as_ref()));
        assert!(check("/", &dir.path().join("absent")));
        assert!(check("/root-of-a-test", dir.path()));
    }
}
