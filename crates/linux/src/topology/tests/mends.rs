//! What contradicts itself in a tree is mended, and each mend is a warning.

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
        warning: CPUs 0,2 are called siblings of one core but lie on several nodes; those of each node are a core
        warning: CPUs 1,3 are called siblings of one core but lie on several nodes; those of each node are a core
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
        warning: CPUs 1,3 are called siblings of others but have another last-level cache; they are counted to that of the lowest sibling
    "#]],
    );
}

#[test]
fn a_node_that_does_not_tell_its_cpus_is_left_out() {
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
        warning: node4 does not tell its CPUs; node4 is left out
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
        warning: node4 does not tell its CPUs; node4 is left out
    "#]],
    );
}

#[test]
fn a_list_that_cannot_be_read_is_asked_of_each_one() {
    for junk in ["junk", ""] {
        let root = cpus(2, &[("cpu1/online", "0")]);
        let path = root.path().join("sys/devices/system/cpu/online");
        std::fs::write(path, junk).expect("written");
        let machine = read(root.path()).expect("a machine");
        assert_eq!(machine.online().to_string(), "0");
        let said = machine.warnings().join("");
        assert!(said.contains("cpu/online") && said.contains("each CPU"), "{junk:?}: {said:?}");
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
        warning: sys/devices/system/node/online holds no list; every node with a folder is taken
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
        warning: nodes 6 are called online but are not there; left out
    "#]],
    );
}

#[test]
fn a_list_that_is_not_there_is_no_contradiction() {
    let root = tree(&[("sys/devices/system/cpu/cpu0/online", "1")]);
    assert_eq!(read(root.path()).expect("a machine").warnings(), [""; 0]);
}

#[test]
fn a_folder_that_may_not_be_looked_into_is_called_so() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        eprintln!("not run: root may look into every folder");
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
