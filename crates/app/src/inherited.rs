//! Children that were there before we started anything.
//!
//! A process keeps its children when it becomes another program, and a shell becomes the last command
//! of its line. So children of ours may be jobs that the user put into the background: they are not ours
//! to end.

use std::collections::BTreeSet;

use linux::procfs;

/// Them, and what they had started by then, by number and birth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited(BTreeSet<(u32, u64)>);

impl Inherited {
    /// Whoever is below us now.
    pub(crate) fn now() -> Self {
        let mut found = BTreeSet::new();
        let mut parents = vec![std::process::id()];
        while let Some(parent) = parents.pop() {
            for pid in children(parent) {
                if let Ok(stat) = procfs::stat("/".as_ref(), pid)
                    && found.insert((pid, stat.born_ticks))
                {
                    parents.push(pid);
                }
            }
        }
        Inherited(found)
    }

    /// The children of a process that are none of them.
    pub(crate) fn others_of(&self, pid: u32) -> Vec<u32> {
        let is_other = |child: &u32| {
            let stat = procfs::stat("/".as_ref(), *child);
            !stat.is_ok_and(|stat| self.0.contains(&(*child, stat.born_ticks)))
        };
        children(pid).into_iter().filter(is_other).collect()
    }
}

fn children(pid: u32) -> Vec<u32> {
    procfs::all_children("/".as_ref(), pid).unwrap_or_default()
}
