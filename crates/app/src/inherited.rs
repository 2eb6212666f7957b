//! Children that were there before we started anything.
//!
//! A process keeps its children when it becomes another program, and a shell becomes the last command
//! of its line. So children of ours may be jobs that the user put into the background: they are not ours
//! to end.

use std::collections::BTreeSet;

use linux::procfs;

/// A process, by number and birth in clock ticks since boot.
pub(crate) type Process = (u32, u64);

/// Them, and what they had started by then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited(BTreeSet<Process>);

impl Inherited {
    /// Whoever is below us now.
    pub(crate) fn now() -> Self {
        Inherited(Inherited::default().others().into_iter().collect())
    }

    /// Everybody below us who is none of them, parents first.
    pub(crate) fn others(&self) -> Vec<Process> {
        let mut found: Vec<Process> = Vec::new();
        let mut parents = vec![std::process::id()];
        while let Some(parent) = parents.pop() {
            for child in self.others_of(parent) {
                if found.iter().all(|known| known.0 != child.0) {
                    found.push(child);
                    parents.push(child.0);
                }
            }
        }
        found
    }

    /// Our own children that are none of them.
    pub(crate) fn own_others(&self) -> Vec<Process> {
        self.others_of(std::process::id())
    }

    fn others_of(&self, parent: u32) -> Vec<Process> {
        let all = procfs::all_children("/".as_ref(), parent).unwrap_or_default();
        let whole = |pid| Some((pid, procfs::stat("/".as_ref(), pid).ok()?.born_ticks));
        all.into_iter().filter_map(whole).filter(|child| !self.0.contains(child)).collect()
    }
}
