//! Contradictory data in a tree is corrected, and each correction is a warning.

use expect_test::expect;

use super::{NODES, check, cpus, read, tree};

#[test]
fn siblings_on_two_nodes_are_cores_of_their_own() {
    let mut files = NODES.to_vec();
    files.extend([
        ("cpu0/topology/core_cpus", "5"),
        ("cpu1/topology/core_cpus", "a"),
        ("cpu2/topology/core_cpus", "5"),
        ("cpu3/topology/core_cpus", "a"),
    ]);
    check(
        &cpus(4, &files),
        expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        core2 2 uniform 1024
        core3 3 uniform 1024
        node0 0-1 [10, 21]
        node4 2-3 [21, 10]
        may use 0-3 and 0,4
        warning: CPUs 0,2 are SMT siblings on several nodes; those of each node are one core
        warning: CPUs 1,3 are SMT siblings on several nodes; those of each node are one core
    "#]],
    );
}

#[test]
fn siblings_in_two_caches_are_in_that_of_the_lower() {
    let cache = |cpu: u32, map: &'static str| {
        [
            (format!("cpu{cpu}/cache/index3/level"), "3"),
            (format!("cpu{cpu}/cache/index3/size"), "1024K"),
            (format!("cpu{cpu}/cache/index3/shared_cpu_map"), map),
        ]
    };
    let caches = [cache(0, "1"), cache(1, "6"), cache(2, "6"), cache(3, "8")].concat();
    let mut files: Vec<(&str, &str)> = caches.iter().map(|(path, text)| (&**path, *text)).collect();
    files.extend([("cpu0/topology/core_cpus", "3"), ("cpu1/topology/core_cpus", "3")]);
    files.extend([("cpu2/topology/core_cpus", "c"), ("cpu3/topology/core_cpus", "c")]);
    check(
        &cpus(4, &files),
        expect![[r#"
        core0 0-1 uniform 1024
        core1 2-3 uniform 1024
        llc0 0-1 L3
        llc1 2-3 L3
        node0 0-3 []
        may use 0-3 and 0
        warning: CPUs 1,3 have another last-level cache than their SMT siblings; they are assigned to that of the lowest sibling
    "#]],
    );
}

#[test]
fn a_node_without_a_list_of_cpus_is_ignored() {
    let mut files = NODES.to_vec();
    files.retain(|(path, _)| *path != "sys/devices/system/node/node4/cpumap");
    check(
        &cpus(4, &files),
        expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        core2 2 uniform 1024
        core3 3 uniform 1024
        node0 0-1 [10]
        may use 0-3 and 0
        warning: node4 has no list of CPUs; node4 is ignored
    "#]],
    );
    files.push(("sys/devices/system/node/node4/cpulist", "junk"));
    check(
        &cpus(4, &files),
        expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        core2 2 uniform 1024
        core3 3 uniform 1024
        node0 0-1 [10]
        may use 0-3 and 0
        warning: node4 has no list of CPUs; node4 is ignored
    "#]],
    );
}

#[test]
fn a_malformed_list_is_replaced_by_the_file_of_each_cpu() {
    for junk in ["junk", ""] {
        let root = cpus(2, &[("cpu1/online", "0")]);
        let path = root.path().join("sys/devices/system/cpu/online");
        std::fs::write(path, junk).expect("written");
        let machine = read(root.path()).expect("a machine");
        assert_eq!(machine.online().to_string(), "0");
        let warnings = machine.warnings().join("");
        let has_both = warnings.contains("cpu/online") && warnings.contains("each CPU");
        assert!(has_both, "{junk:?}: {warnings:?}");
    }
    let mut files = NODES.to_vec();
    files.push(("sys/devices/system/node/online", "junk"));
    check(
        &cpus(4, &files),
        expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        core2 2 uniform 1024
        core3 3 uniform 1024
        node0 0-1 [10, 21]
        node4 2-3 [21, 10]
        may use 0-3 and 0,4
        warning: sys/devices/system/node/online contains no list; every node with a folder is used
    "#]],
    );
    files.push(("sys/devices/system/node/online", "0,4,6"));
    check(
        &cpus(4, &files),
        expect![[r#"
        core0 0 uniform 1024
        core1 1 uniform 1024
        core2 2 uniform 1024
        core3 3 uniform 1024
        node0 0-1 [10, 21]
        node4 2-3 [21, 10]
        may use 0-3 and 0,4
        warning: nodes 6 are listed as online but do not exist; ignored
    "#]],
    );
}

#[test]
fn a_missing_list_is_no_contradiction() {
    let root = tree(&[("sys/devices/system/cpu/cpu0/online", "1")]);
    assert_eq!(read(root.path()).expect("a machine").warnings(), [""; 0]);
}

#[test]
fn a_folder_without_permission_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        eprintln!("not run: root may read every folder");
        return;
    }
    let root = cpus(1, &[]);
    let set = |mode| std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(mode));
    set(0o000).expect("set");
    check(
        &root,
        expect![[r#"
        cannot read the machine below DIR: Permission denied (os error 13)
    "#]],
    );
    set(0o700).expect("set");
}
