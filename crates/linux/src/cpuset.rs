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

use std::path::{Path, PathBuf};

use base::CpuSet;

use crate::fault;
use crate::glance::parse_cgroups;

/// Deeper hierarchies than this are given up on.
const DEPTH_MAX: usize = 64;

/// The CPUs that the cpuset of a thread gives it; `None` where that cannot be told.
pub fn given_to(root: &Path, tid: u32) -> Option<CpuSet> {
    fault::refuse("open").ok()?;
    let text = std::fs::read_to_string(root.join(format!("proc/{tid}/cgroup"))).ok()?;
    let groups = parse_cgroups(&text);
    let of_its_own = groups.iter().find_map(|group| group.strip_prefix("cpuset:"));
    let (mount, path, file) = match of_its_own {
        Some(path) => ("sys/fs/cgroup/cpuset", path, "cpuset.effective_cpus"),
        None => ("sys/fs/cgroup", groups.first()?.as_str(), "cpuset.cpus.effective"),
    };
    let top = root.join(mount);
    let folder: PathBuf = top.join(path.trim_start_matches('/'));
    // Where the controller is not switched on, what is above holds.
    let above = folder.ancestors().take_while(|folder| folder.starts_with(&top)).take(DEPTH_MAX);
    let text = above.filter_map(|folder| std::fs::read_to_string(folder.join(file)).ok()).next()?;
    text.trim().parse().ok()
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

    #[test]
    fn the_nearest_group_with_the_controller_tells() {
        let of = ("proc/7/cgroup", "0::/a/b\n");
        let top = ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
        check(&[of, top], Some("0-7"));
        check(&[of, top, ("sys/fs/cgroup/a/cpuset.cpus.effective", "2-3\n")], Some("2-3"));
        check(&[of], None);
        check(&[top], None);
    }

    #[test]
    fn a_cpuset_hierarchy_of_its_own_is_asked_where_there_is_one() {
        let of = ("proc/7/cgroup", "3:cpuset:/x\n0::/y\n");
        let unified = ("sys/fs/cgroup/y/cpuset.cpus.effective", "0-7\n");
        let own = ("sys/fs/cgroup/cpuset/x/cpuset.effective_cpus", "1\n");
        check(&[of, unified, own], Some("1"));
        check(&[of, unified], None);
    }
}
