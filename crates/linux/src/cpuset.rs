//! What the cpuset of a thread gives it, whoever bound it within that.
//!
//! ```text
//!   mask that the kernel shows  =  what was asked for  ∩  what the cpuset gives
//!                                  (all of the latter if they have nothing in common)
//! ```
//!
//! What was asked for is shown nowhere, and the kernel keeps it (since Linux 6.2): who is moved to another
//! cpuset and back is bound as before. So a mask that is all that a cpuset gives need not be anybody's
//! wish, and below it may still stand what was asked for earlier.

use std::path::Path;

use base::CpuSet;

use crate::cgroup::{Version, of_thread};
use crate::fault;

/// Deeper hierarchies than this are given up on.
const DEPTH_MAX: usize = 64;

/// The CPUs that the cpuset of a thread gives it; `None` where that cannot be told.
pub fn given_to(root: &Path, tid: u32) -> Option<CpuSet> {
    // A controller is in one hierarchy at a time: where it has one of its own, that tells.
    let kinds = [(Version::V1, "cpuset.effective_cpus"), (Version::V2, "cpuset.cpus.effective")];
    let find = |(version, file)| Some((of_thread(root, tid, version).ok()?, file));
    let (place, file) = kinds.into_iter().find_map(find)?;
    // Where the controller is not switched on, what is above holds.
    let is_seen = |folder: &&Path| folder.starts_with(&place.mount);
    let above = place.folder.ancestors().take_while(is_seen).take(DEPTH_MAX);
    fault::refuse("open").ok()?;
    let read = |folder: &Path| {
        let below_root = folder.strip_prefix("/").unwrap_or(folder);
        std::fs::read_to_string(root.join(below_root).join(file)).ok()
    };
    above.filter_map(read).next()?.trim().parse().ok()
}

/// Whether what a thread was asked to have before may be asked for again without anybody seeing it: its
/// mask is all that its cpuset gives, and part of what it had before.
pub fn hides(root: &Path, tid: u32, mask: &CpuSet, before: &CpuSet) -> bool {
    mask.minus(before).is_empty() && given_to(root, tid).is_some_and(|all| all == *mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files, and what is given to thread 7 in it.
    fn check(files: &[(&str, &str)], expected: Option<&str>) {
        let world = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = world.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("ours");
            std::fs::write(path, text).expect("ours");
        }
        let expected = expected.map(|cpus| cpus.parse().expect("a list"));
        assert_eq!(given_to(world.path(), 7), expected, "{files:?}");
    }

    /// The line of a mount in `/proc/self/mountinfo`.
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_nearest_group_with_the_controller_tells() {
        let (of, at) = (("proc/7/cgroup", "0::/a/b\n"), ("proc/self/mountinfo", V2));
        let top = ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
        check(&[of, at, top], Some("0-7"));
        check(&[of, at, top, ("sys/fs/cgroup/a/cpuset.cpus.effective", "2-3\n")], Some("2-3"));
        check(&[of, at], None);
        check(&[at, top], None);
        check(&[of, top], None);
    }

    #[test]
    fn a_cpuset_hierarchy_of_its_own_is_asked_where_there_is_one() {
        let of = ("proc/7/cgroup", "3:cpuset:/x\n0::/y\n");
        let v1 = "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let mounts = format!("{}{v1}", V2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"));
        let at = ("proc/self/mountinfo", &*mounts);
        let unified = ("sys/fs/cgroup/unified/y/cpuset.cpus.effective", "0-7\n");
        let own = ("sys/fs/cgroup/cpuset/x/cpuset.effective_cpus", "1\n");
        check(&[of, at, unified, own], Some("1"));
        check(&[of, at, unified], None);
    }

    #[test]
    fn hierarchies_are_asked_where_they_are_mounted_and_for_the_part_that_is_seen() {
        let of = ("proc/7/cgroup", "4:cpu,cpuset:/jobs/x\n");
        let v1 = "31 23 0:27 /jobs /dev/sets rw - cgroup cgroup rw,cpu,cpuset\n";
        let at = ("proc/self/mountinfo", v1);
        check(&[of, at, ("dev/sets/x/cpuset.effective_cpus", "1\n")], Some("1"));
        check(&[of, at, ("dev/sets/cpuset.effective_cpus", "0-3\n")], Some("0-3"));
        let outside = ("proc/7/cgroup", "4:cpu,cpuset:/others\n");
        check(&[outside, at, ("dev/sets/cpuset.effective_cpus", "0-3\n")], None);
    }
}
