//! Effective CPUs of the cpuset of a thread.
//!
//! ```text
//!   mask that the kernel returns  =  requested mask  ∩  CPUs of the cpuset
//!                                    (all CPUs of the cpuset if the intersection is empty)
//! ```
//!
//! Since Linux 6.2 the kernel stores the requested mask of a thread but does not return it: if the thread is moved to
//! another cpuset and back, the requested mask applies again. A mask equal to all CPUs of the cpuset may therefore hide
//! an earlier request.

use std::path::Path;

use base::CpuSet;

use crate::cgroup::{HierarchyVersion, of_thread};
use crate::fault;

/// Maximum number of cgroups that are searched, from the cgroup of the thread upwards.
const DEPTH_MAX: usize = 64;

/// Reads the effective CPUs of the cpuset of a thread; `None` if they are unknown.
pub fn effective_cpus(root: &Path, tid: u32) -> Option<CpuSet> {
    // A controller belongs to one hierarchy at a time: a hierarchy of its own (v1) or the unified hierarchy (v2).
    let kinds = [
        (HierarchyVersion::V1, "cpuset.effective_cpus"),
        (HierarchyVersion::V2, "cpuset.cpus.effective"),
    ];
    let find = |(version, file)| Some((of_thread(root, tid, version).ok()?, file));
    let (cgroup, file) = kinds.into_iter().find_map(find)?;
    // If the controller is not enabled in a cgroup, the values of the nearest ancestor with the controller apply.
    let is_visible = |dir: &&Path| dir.starts_with(&cgroup.mount);
    let above = cgroup.dir.ancestors().take_while(is_visible).take(DEPTH_MAX);
    fault::inject("open").ok()?;
    let read = |dir: &Path| {
        let below_root = dir.strip_prefix("/").unwrap_or(dir);
        std::fs::read_to_string(root.join(below_root).join(file)).ok()
    };
    above.filter_map(read).next()?.trim().parse().ok()
}

/// Returns whether `before` may still be the requested mask of a thread: the current mask `mask` contains all CPUs of
/// the cpuset and is a subset of `before`.
pub fn hides_requested_mask(root: &Path, tid: u32, mask: &CpuSet, before: &CpuSet) -> bool {
    mask.minus(before).is_empty() && effective_cpus(root, tid).is_some_and(|all| all == *mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes files below a root and checks the effective CPUs of thread 7.
    fn check(files: &[(&str, &str)], expected: Option<&str>) {
        let test_dir = crate::test_support::dir_of(files.iter().copied());
        let expected = expected.map(|cpus| cpus.parse().expect("a list"));
        assert_eq!(effective_cpus(test_dir.path(), 7), expected, "{files:?}");
    }

    /// A mount of the unified hierarchy in `/proc/self/mountinfo`.
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_nearest_ancestor_with_the_controller_is_read() {
        let (cgroup, mounts) = (("proc/7/cgroup", "0::/a/b\n"), ("proc/self/mountinfo", V2));
        let top = ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
        check(&[cgroup, mounts, top], Some("0-7"));
        check(
            &[cgroup, mounts, top, ("sys/fs/cgroup/a/cpuset.cpus.effective", "2-3\n")],
            Some("2-3"),
        );
        check(&[cgroup, mounts], None);
        check(&[mounts, top], None);
        check(&[cgroup, top], None);
    }

    #[test]
    fn a_v1_cpuset_hierarchy_is_preferred() {
        let cgroup = ("proc/7/cgroup", "3:cpuset:/x\n0::/y\n");
        let v1 = "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let mounts = format!("{}{v1}", V2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"));
        let mounts = ("proc/self/mountinfo", &*mounts);
        let unified = ("sys/fs/cgroup/unified/y/cpuset.cpus.effective", "0-7\n");
        let cpus_v1 = ("sys/fs/cgroup/cpuset/x/cpuset.effective_cpus", "1\n");
        check(&[cgroup, mounts, unified, cpus_v1], Some("1"));
        check(&[cgroup, mounts, unified], None);
    }

    #[test]
    fn hierarchies_are_read_at_their_mount_point_below_the_mounted_root() {
        let cgroup = ("proc/7/cgroup", "4:cpu,cpuset:/jobs/x\n");
        let v1 = "31 23 0:27 /jobs /dev/sets rw - cgroup cgroup rw,cpu,cpuset\n";
        let mounts = ("proc/self/mountinfo", v1);
        check(&[cgroup, mounts, ("dev/sets/x/cpuset.effective_cpus", "1\n")], Some("1"));
        check(&[cgroup, mounts, ("dev/sets/cpuset.effective_cpus", "0-3\n")], Some("0-3"));
        let outside = ("proc/7/cgroup", "4:cpu,cpuset:/others\n");
        check(&[outside, mounts, ("dev/sets/cpuset.effective_cpus", "0-3\n")], None);
    }
}
