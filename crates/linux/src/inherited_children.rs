//! Child processes that existed before this process started its first child.
//!
//! A process keeps its children across execve(2), and a shell may execute the last command of a line without a fork.
//! Background jobs of the user may therefore be children of evenkeel. evenkeel records these children at the start and
//! never sends a signal to them.

use std::collections::BTreeSet;

use crate::procfs;

/// PID and start time in clock ticks since boot.
pub type ProcessKey = (u32, u64);

/// The descendants of this process at the time of [`InheritedChildren::now`].
#[derive(Clone, Debug, Default)]
pub struct InheritedChildren(BTreeSet<ProcessKey>);

impl InheritedChildren {
    /// Records all current descendants.
    pub fn now() -> Self {
        InheritedChildren(InheritedChildren::default().new_descendants().into_iter().collect())
    }

    /// Returns whether this process had no child.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the descendants of this process that were not inherited, parents first.
    pub fn new_descendants(&self) -> Vec<ProcessKey> {
        let mut found: Vec<ProcessKey> = Vec::new();
        let mut parents = vec![std::process::id()];
        while let Some(parent) = parents.pop() {
            for child in self.new_children_of(parent) {
                if found.iter().all(|known| known.0 != child.0) {
                    found.push(child);
                    parents.push(child.0);
                }
            }
        }
        found
    }

    /// Returns the direct children of this process that were not inherited.
    pub fn new_children(&self) -> Vec<ProcessKey> {
        self.new_children_of(std::process::id())
    }

    fn new_children_of(&self, parent: u32) -> Vec<ProcessKey> {
        let all = procfs::all_children("/".as_ref(), parent).unwrap_or_default();
        let with_start = |pid| Some((pid, procfs::stat("/".as_ref(), pid).ok()?.start_time_ticks));
        all.into_iter().filter_map(with_start).filter(|child| !self.0.contains(child)).collect()
    }
}
