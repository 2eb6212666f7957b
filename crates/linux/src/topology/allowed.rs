//! CPUs and nodes that this process may use: its affinity within its cpuset.
//!
//! ```text
//!   version 2   <mount>/<cgroup>/cpuset.cpus.effective     includes the limits of ancestors
//!   version 1   <mount>/<cgroup>/cpuset.cpus               or without the prefix: mount option
//!               <mount>/<cgroup>/cpus                      noprefix, and the old file system cpuset
//! ```
//!
//! In a container the path of the cgroup may start above the mount point. In this case the nearest existing directory
//! is used. On this machine sched_getaffinity(2) returns the affinity, restricted to the cpuset. In a recording the
//! affinity is read from `/proc/self/status`, if that file was recorded.

use ::topology::Node;
use base::{CpuSet, IdSet, NodeSet, SetId};

use super::tree::Tree;

/// Reads the allowed CPUs and nodes.
pub(super) fn read(tree: &Tree, online: &CpuSet, nodes: &[Node]) -> (CpuSet, NodeSet) {
    let status = tree.text("proc/self/status").unwrap_or_default();
    let cpusets = cpusets(tree);
    let mut cpus = affinity(tree, &status).unwrap_or_else(|| online.clone()).and(online);
    let mut mems: NodeSet = nodes.iter().map(|node| node.id).collect();
    if let Some(listed) = status_list(&status, "Mems_allowed_list:") {
        mems = mems.and(&listed);
    }
    for cpuset in &cpusets {
        cpus = restricted(cpus, cpuset.list(tree, "cpus"));
        mems = restricted(mems, cpuset.list(tree, "mems"));
    }
    (cpus, mems)
}

/// Restricts a set. An empty limit is ignored, because it means that the cpuset is not initialized.
fn restricted<T: SetId>(set: IdSet<T>, limit: Option<IdSet<T>>) -> IdSet<T> {
    match limit {
        Some(limit) if !limit.is_empty() => set.and(&limit),
        _ => set,
    }
}

fn affinity(tree: &Tree, status: &str) -> Option<CpuSet> {
    let current = tree.is_live().then(|| crate::affinity::get(0).ok()).flatten();
    current.or_else(|| status_list(status, "Cpus_allowed_list:"))
}

fn status_list<T: SetId>(status: &str, key: &str) -> Option<IdSet<T>> {
    status.lines().find_map(|line| line.strip_prefix(key))?.parse().ok()
}

/// A mounted cpuset hierarchy, and the cgroup of this process in the hierarchy.
struct Cpuset {
    mount: String,
    group: String,
    hierarchy: CpusetHierarchy,
}

#[derive(Clone, Copy, PartialEq)]
enum CpusetHierarchy {
    V2,
    V1,
    NoPrefix,
}

impl Cpuset {
    /// Reads `cpus` or `mems` of the cgroup, or of the nearest ancestor that has the file.
    fn list<T: SetId>(&self, tree: &Tree, resource: &str) -> Option<IdSet<T>> {
        let file = match self.hierarchy {
            CpusetHierarchy::V2 => format!("cpuset.{resource}.effective"),
            CpusetHierarchy::V1 => format!("cpuset.{resource}"),
            CpusetHierarchy::NoPrefix => resource.to_owned(),
        };
        let mut group = self.group.as_str();
        loop {
            if let Some(list) = tree.list(&format!("{}/{group}/{file}", self.mount)) {
                return Some(list);
            }
            group = match group.rsplit_once('/') {
                Some((above, _)) => above,
                None if group.is_empty() => return None,
                None => "",
            };
        }
    }
}

/// Returns the hierarchies that may have the cpuset controller. A hierarchy without the controller does not have its
/// files.
fn cpusets(tree: &Tree) -> Vec<Cpuset> {
    let groups = tree.text("proc/self/cgroup").unwrap_or_default();
    let old = tree.text("proc/self/cpuset").map(|path| relative(&path));
    let v2 = group_of(&groups, |controllers| controllers.is_empty()).or(old.clone());
    let v1 = group_of(&groups, |controllers| controllers.split(',').any(|c| c == "cpuset")).or(old);
    let cpuset = |(mount, hierarchy): (String, CpusetHierarchy)| {
        let group = if hierarchy == CpusetHierarchy::V2 { v2.clone() } else { v1.clone() };
        Some(Cpuset { mount, group: group?, hierarchy })
    };
    mounts(tree).into_iter().filter_map(cpuset).collect()
}

/// Returns the mounted hierarchies, or the usual mount points if mounts were not recorded.
fn mounts(tree: &Tree) -> Vec<(String, CpusetHierarchy)> {
    let text = tree.text("proc/self/mounts").or_else(|| tree.text("proc/mounts"));
    let found: Vec<_> = text.unwrap_or_default().lines().filter_map(mount).collect();
    if !found.is_empty() {
        return found;
    }
    let usual = [
        ("sys/fs/cgroup", CpusetHierarchy::V2),
        ("sys/fs/cgroup/cpuset", CpusetHierarchy::V1),
        ("dev/cpuset", CpusetHierarchy::NoPrefix),
    ];
    usual.map(|(mount, hierarchy)| (mount.to_owned(), hierarchy)).to_vec()
}

fn mount(line: &str) -> Option<(String, CpusetHierarchy)> {
    let mut words = line.split(' ').skip(1);
    let (path, kind, options) = (words.next()?, words.next()?, words.next()?);
    let has = |is_match: &str| options.split(',').any(|option| option == is_match);
    let hierarchy = match kind {
        "cgroup2" => CpusetHierarchy::V2,
        "cpuset" => CpusetHierarchy::NoPrefix,
        "cgroup" if has("cpuset") && has("noprefix") => CpusetHierarchy::NoPrefix,
        "cgroup" if has("cpuset") => CpusetHierarchy::V1,
        _ => return None,
    };
    Some((relative(&path.replace("\\040", " ")), hierarchy))
}

/// Returns the path in the line of `/proc/self/cgroup` with matching controllers.
fn group_of(groups: &str, is_match: impl Fn(&str) -> bool) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        is_match(controllers).then(|| relative(path))
    })
}

/// Returns a path without leading slash, `.` and `..`, so that a path in a recording stays below the root.
fn relative(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != "." && *part != "..");
    parts.collect::<Vec<_>>().join("/")
}
