//! Tests of the search for the own cgroup, of the decision, and of cgroups that are ordinary directories.

use std::path::{Path, PathBuf};

use super::find::find;
use super::*;
use crate::fault;
use crate::test_support::dir_of;

/// Returns the result of a case in `cases/cgroup.txt`: the own cgroups, or the decision about one cgroup.
fn result(input: &str) -> String {
    if !input.starts_with("cgroup ") {
        return decision(input);
    }
    let with = |word: &str| -> String {
        input.lines().filter_map(|line| line.strip_prefix(word)).map(|l| format!("{l}\n")).collect()
    };
    let (cgroup, mountinfo) = (with("cgroup "), with("mount "));
    let found = [HierarchyVersion::V2, HierarchyVersion::V1]
        .map(|version| find(version, &cgroup, &mountinfo));
    let lines = found.map(|found| match found {
        Ok(cgroup) if cgroup.is_top => format!("{} (top)\n", cgroup.dir.display()),
        Ok(cgroup) => format!("{}\n", cgroup.dir.display()),
        Err(error) => format!("none: {error}\n"),
    });
    lines.concat()
}

/// Parses `VERSION DIR; FIELD=VALUE; …` and returns the decision.
fn decision(input: &str) -> String {
    let mut parts = input.split("; ");
    let (version, dir) = parts.next().and_then(|cgroup| cgroup.split_once(' ')).expect("a cgroup");
    let version = if version == "v1" { HierarchyVersion::V1 } else { HierarchyVersion::V2 };
    let mut state = state(version, dir);
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let number = || value.parse().expect("a number");
        match key {
            "uid" => state.uid = number(),
            "owner" => state.owner = Some(number()),
            "systemd" => state.has_systemd = true,
            "delegated" => state.is_delegated = true,
            "kind" => state.kind = value.to_owned(),
            "controllers" => state.controllers = value.to_owned(),
            "enabled" => state.enabled = value.to_owned(),
            "unwritable" => state.unwritable = Some(value.to_owned()),
            "foreign" => {
                let (pid, name) = value.split_once(' ').expect("PID NAME");
                state.foreign.push((pid.parse().expect("a number"), name.to_owned()));
            }
            _ => panic!("{key} is no field"),
        }
    }
    match decide(&state) {
        Ok(delegated) => {
            let enables = if delegated.enables { ", enables" } else { "" };
            let moves_in = if delegated.moves_in { ", moves" } else { "" };
            format!("{}{enables}{moves_in}", delegated.dir.display())
        }
        Err(error) => format!("none: {error}"),
    }
}

#[test]
fn the_own_cgroup_is_found_and_used_only_if_evenkeel_is_its_writer() {
    let recorded = include_str!("../../cases/cgroup.txt");
    expect_test::expect_file!["../../cases/cgroup.txt"]
        .assert_eq(&base::transcript(recorded, result));
}

fn state(version: HierarchyVersion, dir: &str) -> CgroupState {
    CgroupState {
        cgroup: CgroupPath {
            version,
            dir: dir.into(),
            mount: "/sys/fs/cgroup".into(),
            is_top: dir == "/sys/fs/cgroup",
        },
        uid: 0,
        owner: Some(0),
        unwritable: None,
        is_delegated: false,
        has_systemd: false,
        is_root: dir == "/sys/fs/cgroup",
        kind: if dir == "/sys/fs/cgroup" { "" } else { "domain" }.to_owned(),
        controllers: "cpuset cpu memory".to_owned(),
        enabled: "cpu".to_owned(),
        foreign: Vec::new(),
    }
}

/// Creates the files of a hierarchy: the root is the own cgroup, and a cgroup of another program is its child.
fn tree(version: HierarchyVersion) -> tempfile::TempDir {
    let mount = match version {
        HierarchyVersion::V2 => "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        HierarchyVersion::V1 => "34 31 0:31 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu,cpuset",
    };
    dir_of([
        ("proc/self/mountinfo", mount),
        ("proc/self/cgroup", "3:cpuset:/\n0::/\n"),
        ("sys/fs/cgroup/cgroup.procs", ""),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
        ("sys/fs/cgroup/cgroup.subtree_control", ""),
        ("sys/fs/cgroup/cpuset.cpus", "0-3\n"),
        ("sys/fs/cgroup/cpuset.mems", "0-1\n"),
        ("sys/fs/cgroup/other/cgroup.procs", ""),
    ])
}

/// Returns the cgroups of a run in the directory of [`tree`].
fn groups(root: &Path, version: HierarchyVersion) -> RunCgroups {
    let cgroup = own_cgroup(root, version).expect("the hierarchy is mounted");
    let delegated = DelegatedCgroup {
        version,
        dir: cgroup.dir,
        enables: version == HierarchyVersion::V2,
        moves_in: false,
    };
    RunCgroups::new(root, delegated, "3f-a/../b").expect("a name")
}

fn children(root: &Path) -> Vec<String> {
    files::groups_in(&root.join("sys/fs/cgroup")).expect("there")
}

fn text(root: &Path, path: &str) -> String {
    files::read(&root.join("sys/fs/cgroup").join(path)).expect(path)
}

#[test]
fn a_run_creates_its_cgroups_and_removes_all_of_them() {
    let nodes = "1".parse().expect("a list");
    for version in [HierarchyVersion::V2, HierarchyVersion::V1] {
        let tree = tree(version);
        let (root, groups) = (tree.path(), groups(tree.path(), version));
        // The kernel would create these files.
        let dir = root.join("sys/fs/cgroup/evenkeel-3f-ab");
        assert!(!groups.is_present().expect("readable"));
        if version == HierarchyVersion::V2 {
            // In a plain directory `cgroup.subtree_control` is missing. This error removes all cgroups.
            groups.prepare().expect_err("no cgroup.subtree_control");
            assert_eq!(text(root, "cgroup.subtree_control"), "+cpuset");
            std::fs::write(dir.join("cgroup.subtree_control"), "cpuset\n")
                .expect("the directory is writable");
        } else {
            groups.prepare().expect("made");
            assert_eq!(text(root, "evenkeel-3f-ab/cpuset.cpus"), "0-3");
        }
        let group = groups.create(0, "sort it/é", &nodes).expect("the cgroup is created");
        assert_eq!(group.path(), dir.join("0-sortit"));
        assert_eq!(group.nodes().expect("read"), nodes);
        groups.remove_all().expect("removed");
        groups.remove_all().expect("missing cgroups are no error");
        assert_eq!(children(root), ["other"]);
    }
}

#[test]
fn a_delegated_cgroup_that_became_threaded_is_not_changed() {
    let tree = tree(HierarchyVersion::V2);
    let delegated = DelegatedCgroup {
        moves_in: true,
        ..groups(tree.path(), HierarchyVersion::V2).delegated().clone()
    };
    let groups = RunCgroups::new(tree.path(), delegated, "3f").expect("a name");
    let dir = tree.path().join("sys/fs/cgroup/evenkeel-3f");
    // The kernel creates this file with the directory.
    std::fs::create_dir(&dir).expect("the directory is writable");
    std::fs::write(dir.join("cgroup.type"), "domain invalid\n").expect("the directory is writable");
    let error = groups.prepare_made().expect_err("no process can be moved to the cgroup");
    assert!(error.contains("since this cgroup is threaded (domain invalid)"), "{error}");
    groups.remove_all().expect("removed");
    assert_eq!(children(tree.path()), ["other"]);
    assert_eq!(text(tree.path(), "cgroup.subtree_control"), "");
}

#[test]
fn a_process_of_another_pid_namespace_is_not_moved() {
    let tree = tree(HierarchyVersion::V1);
    let groups = groups(tree.path(), HierarchyVersion::V1);
    groups.prepare().expect("made");
    let group = groups.create(0, "sort", &"1".parse().expect("a list")).expect("made");
    std::fs::write(group.path().join("cgroup.procs"), "0\n").expect("the directory is writable");
    let error = groups.remove_all().expect_err("the process has no PID in this namespace");
    assert!(error.contains("another PID namespace"), "{error}");
    assert_eq!(text(tree.path(), "cgroup.procs"), "");
}

#[test]
fn the_controller_is_disabled_unless_another_cgroup_uses_it() {
    let check = |file: &str, value: &str, expected: &str| {
        let tree = tree(HierarchyVersion::V2);
        let at = |path: &str| tree.path().join("sys/fs/cgroup").join(path);
        std::fs::write(at("cgroup.subtree_control"), "cpuset cpu\n")
            .expect("the directory is writable");
        std::fs::write(at("other").join(file), value).expect("the directory is writable");
        groups(tree.path(), HierarchyVersion::V2).remove_all().expect("removed");
        assert_eq!(text(tree.path(), "cgroup.subtree_control"), expected, "{file} {value}");
    };
    check("cpuset.mems", "\n", "-cpuset");
    check("cpuset.cpus.partition", "member\n", "-cpuset");
    check("cpuset.mems", "0\n", "cpuset cpu");
    check("cpuset.cpus", "2-3\n", "cpuset cpu");
    check("cpuset.cpus.partition", "isolated\n", "cpuset cpu");
    check("cgroup.subtree_control", "memory cpuset\n", "cpuset cpu");
}

#[test]
fn names_omit_characters_that_are_not_permitted() {
    assert_eq!(run_dir("3f-a/../b"), Some("evenkeel-3f-ab".to_owned()));
    assert_eq!(run_dir("../é"), None);
    assert_eq!([job_dir(0, "a b/.."), job_dir(1, "ä")], ["0-ab", "1-"]);
}

#[test]
fn after_every_injected_error_all_cgroups_can_be_removed() {
    let nodes = "0-1".parse().expect("a list");
    for (seed, version) in
        (0..60).zip([HierarchyVersion::V2, HierarchyVersion::V1].into_iter().cycle())
    {
        let tree = tree(version);
        let groups = groups(tree.path(), version);
        fault::with_errors(fault::FaultPlan { seed, permille: 200 }, || {
            let _ = groups.prepare();
            for nr in 0..3 {
                let group = groups.create(nr, "sort", &nodes);
                let _ = group.map(|group| (group.open_procs(), group.set_nodes(&nodes, true)));
            }
            let _ = groups.remove_all();
        });
        groups.remove_all().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(children(tree.path()), ["other"], "seed {seed}");
    }
}

#[test]
fn mode_none_reads_nothing_and_auto_reports_an_unreadable_cgroup_file() {
    let nowhere = PathBuf::from("/proc/nonexistent");
    assert_eq!(choose(&nowhere, CgroupMode::None).to_string(), "none");
    let choice = choose(&nowhere, CgroupMode::Auto).to_string();
    assert!(choice.starts_with("none: v2: /proc/self/cgroup cannot be read"), "{choice}");
}
