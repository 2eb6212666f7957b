//! Groups that a killed run left: those of resctrl that count, and the folder of those that bind memory.
//!
//! Removed is what stands in the record under a name that this very run gives its groups. Nothing is
//! looked for: a group that is not named, or is named but not so, is somebody else's. Whoever lives in a
//! group that binds memory goes back to where the run had been started first.

use std::path::Path;

use super::super::record::{Header, Records};
use crate::cgroup::{RunCgroups, run_folder};
use crate::resctrl::MonGroupFolder;

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// It counts traffic (resctrl).
    Counts,
    /// It binds memory (cgroup); one entry for all of a run.
    Binds,
}

/// What became of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// What it is for.
    pub kind: GroupKind,
    /// Its folder's name.
    pub name: String,
    /// What was done.
    pub deed: GroupRestoreAction,
}

/// What was done about a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRestoreAction {
    /// It is removed (in a dry run: would be).
    Removed,
    /// There is none of this name, or none any more.
    Gone,
    /// The name is none that this run gives: left.
    NotOurs,
    /// The kernel refused, in these words.
    Refused(String),
}

/// Removes the groups that a record names, below a root that is `/` but for tests.
pub(super) fn remove(
    root: &Path,
    header: &Header,
    records: &Records,
    dry_run: bool,
) -> Vec<GroupEntry> {
    let of = |name: &str| {
        let deed = match MonGroupFolder::of_run(&header.run, name) {
            None => GroupRestoreAction::NotOurs,
            Some(group) => match group.is_there(root) {
                Ok(false) => GroupRestoreAction::Gone,
                Ok(true) if dry_run => GroupRestoreAction::Removed,
                is_there => match is_there.and_then(|_| group.remove(root)) {
                    Ok(()) => GroupRestoreAction::Removed,
                    Err(error) => GroupRestoreAction::Refused(error.to_string()),
                },
            },
        };
        GroupEntry { kind: GroupKind::Counts, name: name.to_owned(), deed }
    };
    records.mon_groups().map(of).collect()
}

/// Takes back the folder of the groups that a record names.
pub(super) fn take_back(
    root: &Path,
    header: &Header,
    records: &Records,
    dry_run: bool,
) -> Option<GroupEntry> {
    let home = records.groups_home()?;
    let name = run_folder(&header.run).unwrap_or_default();
    let name = home.folder.join(name).display().to_string();
    let entry = |deed| Some(GroupEntry { kind: GroupKind::Binds, name: name.clone(), deed });
    let Some(groups) = RunCgroups::new(root, home, &header.run) else {
        return entry(GroupRestoreAction::NotOurs);
    };
    let was_there = match groups.is_there() {
        Ok(was_there) => was_there,
        Err(error) => return entry(GroupRestoreAction::Refused(error.to_string())),
    };
    if dry_run {
        return entry(if was_there {
            GroupRestoreAction::Removed
        } else {
            GroupRestoreAction::Gone
        });
    }
    // Without the folder the controller may still be handed down.
    entry(match groups.take_back() {
        Ok(()) if was_there => GroupRestoreAction::Removed,
        Ok(()) => GroupRestoreAction::Gone,
        Err(why) => GroupRestoreAction::Refused(why),
    })
}
