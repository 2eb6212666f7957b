//! Monitoring groups of resctrl that a killed run left.
//!
//! Removed is what stands in the record under a name that this very run gives its groups. Nothing is
//! looked for: a group that is not named, or is named but not so, is somebody else's.

use std::path::Path;

use super::super::record::{Header, Records};
use crate::resctrl::GroupFolder;

/// What became of a monitoring group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Its folder's name.
    pub name: String,
    /// What was done.
    pub deed: GroupDeed,
}

/// What was done about a monitoring group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupDeed {
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
        let deed = match GroupFolder::of_run(&header.run, name) {
            None => GroupDeed::NotOurs,
            Some(group) if !group.path(root).is_dir() => GroupDeed::Gone,
            Some(_) if dry_run => GroupDeed::Removed,
            Some(group) => match group.remove(root) {
                Ok(()) => GroupDeed::Removed,
                Err(error) => GroupDeed::Refused(error.to_string()),
            },
        };
        GroupEntry { name: name.to_owned(), deed }
    };
    records.mon_groups().map(of).collect()
}
