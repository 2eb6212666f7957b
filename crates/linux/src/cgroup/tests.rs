//! Search of the own cgroup, the decision whether it may have children, and cgroups in a folder of files.

use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};

use super::find::find;
use super::*;
use crate::fault;

const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
const HYBRID: &str = "
31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
34 31 0:31 / /sys/fs/cgroup/cpu,cpuset rw - cgroup cgroup rw,cpu,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

fn found(version: Version, cgroup: &str, mountinfo: &str) -> String {
    match find(version, cgroup, mountinfo) {
        Ok(CgroupPath { folder, is_top, .. }) => {
            format!("{}{}\n", folder.display(), if is_top { " (top)" } else { "" })
        }
        Err(why) => format!("none: {why}\n"),
    }
}

fn check_find(cgroup: &str, mountinfo: &str, expected: &Expect) {
    expected.assert_eq(
        &[Version::V2, Version::V1].map(|version| found(version, cgroup, mountinfo)).concat(),
    );
}

#[test]
fn the_own_cgroup_is_found_below_its_mount_point() {
    check_find(
        "0::/user.slice/a b.scope\n",
        V2,
        &expect![[r#"
            /sys/fs/cgroup/user.slice/a b.scope
            none: no hierarchy with the controller cpuset is mounted
        "#]],
    );
    check_find(
        "3:cpu,cpuset:/jobs/7\n1:name=systemd:/x\n0::/\n",
        HYBRID,
        &expect![[r#"
            /sys/fs/cgroup/unified (top)
            /sys/fs/cgroup/cpu,cpuset/jobs/7
        "#]],
    );
}

#[test]
fn a_mount_may_show_a_part_of_the_hierarchy_and_a_path_may_have_blanks() {
    check_find(
        "0::/docker/7/in\n",
        "9 8 0:26 /docker/7 /sys/fs/c\\040g rw - cgroup2 cgroup rw",
        &expect![[r#"
            /sys/fs/c g/in
            none: no hierarchy with the controller cpuset is mounted
        "#]],
    );
    check_find(
        "0::/../other\n",
        V2,
        &expect![[r#"
            none: the cgroup /../other is below no mount point
            none: no hierarchy with the controller cpuset is mounted
        "#]],
    );
    check_find(
        "nonsense\n0:\n::\n",
        "x - cgroup2\n- cgroup2 a b",
        &expect![[r#"
            none: no unified hierarchy is mounted
            none: no hierarchy with the controller cpuset is mounted
        "#]],
    );
}

fn state(version: Version, folder: &str) -> CgroupState {
    CgroupState {
        own: CgroupPath {
            version,
            folder: folder.into(),
            mount: "/sys/fs/cgroup".into(),
            is_top: folder == "/sys/fs/cgroup",
        },
        uid: 0,
        owner: Some(0),
        unwritable: None,
        is_delegated: false,
        has_systemd: false,
        is_root: folder == "/sys/fs/cgroup",
        kind: if folder == "/sys/fs/cgroup" { "" } else { "domain" }.to_owned(),
        controllers: "cpuset cpu memory".to_owned(),
        enabled: "cpu".to_owned(),
        foreign: Vec::new(),
    }
}

fn check_decide(mut state: CgroupState, change: impl FnOnce(&mut CgroupState), expected: &Expect) {
    change(&mut state);
    let home = |home: DelegatedCgroup| {
        let enables = if home.enables { ", enables" } else { "" };
        let moves_in = if home.moves_in { ", moves" } else { "" };
        format!("{}{enables}{moves_in}", home.folder.display())
    };
    expected.assert_eq(&decide(&state).map_or_else(|why| format!("none: {why}"), home));
}

const TOP: &str = "/sys/fs/cgroup";
const SCOPE: &str = "/sys/fs/cgroup/system.slice/run-1.scope";
const OURS: &str = "/sys/fs/cgroup/slurm/job7";

#[test]
fn root_may_use_the_topmost_cgroup_unless_systemd_manages_it() {
    let top = || state(Version::V2, TOP);
    check_decide(top(), |_| {}, &expect!["/sys/fs/cgroup, enables"]);
    check_decide(top(), |s| s.enabled.push_str(" cpuset"), &expect!["/sys/fs/cgroup"]);
    // The root cgroup may have processes and children.
    check_decide(
        top(),
        |s| s.foreign.push((1, "init".to_owned())),
        &expect!["/sys/fs/cgroup, enables"],
    );
    check_decide(
        top(),
        |s| s.has_systemd = true,
        &expect![
            "none: /sys/fs/cgroup is managed by systemd and not delegated: systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        top(),
        |s| s.uid = 1000,
        &expect![
            "none: /sys/fs/cgroup is managed by another program: systemd-run --user --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        top(),
        |s| s.controllers = "hugetlb".to_owned(),
        &expect![
            "none: /sys/fs/cgroup: the controller cpuset belongs to a v1 hierarchy (--cgroups v1)"
        ],
    );
    // systemd does not manage the v1 hierarchy.
    check_decide(state(Version::V1, TOP), |s| s.has_systemd = true, &expect!["/sys/fs/cgroup"]);
}

#[test]
fn a_systemd_unit_may_be_used_if_it_is_delegated_and_has_no_other_processes() {
    let scope = || state(Version::V2, SCOPE);
    check_decide(
        scope(),
        |_| {},
        &expect![
            "none: /sys/fs/cgroup/system.slice/run-1.scope is managed by systemd and not delegated: systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        scope(),
        |s| s.is_delegated = true,
        &expect!["/sys/fs/cgroup/system.slice/run-1.scope, enables, moves"],
    );
    // A unit of the user manager belongs to the user, and is managed by that manager.
    check_decide(
        scope(),
        |s| (s.uid, s.owner) = (1000, Some(1000)),
        &expect![
            "none: /sys/fs/cgroup/system.slice/run-1.scope is managed by systemd and not delegated: systemd-run --user --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        scope(),
        |s| (s.is_delegated, s.foreign) = (true, vec![(41, "bash".to_owned())]),
        &expect![
            "none: processes that evenkeel did not start are in /sys/fs/cgroup/system.slice/run-1.scope (PID 41, bash): start evenkeel in a cgroup of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        scope(),
        |s| (s.is_delegated, s.controllers) = (true, "memory pids".to_owned()),
        &expect![
            "none: /sys/fs/cgroup/system.slice/run-1.scope: the controller cpuset is not enabled for it (systemd: Delegate=cpuset)"
        ],
    );
}

#[test]
fn a_cgroup_of_the_user_may_be_used_and_one_of_another_user_may_not() {
    let group = || state(Version::V2, OURS);
    let user = |s: &mut CgroupState| (s.uid, s.owner) = (65534, Some(65534));
    check_decide(group(), user, &expect!["/sys/fs/cgroup/slurm/job7, enables, moves"]);
    check_decide(
        group(),
        |s| s.uid = 65534,
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 is managed by another program: systemd-run --user --scope -p Delegate=yes evenkeel run …"
        ],
    );
    // Root could write it, but another program manages it.
    check_decide(
        group(),
        |_| {},
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 is managed by another program: systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        group(),
        |s| {
            user(s);
            s.unwritable = Some("/x/cgroup.procs cannot be written: denied".to_owned());
        },
        &expect!["none: /x/cgroup.procs cannot be written: denied"],
    );
    check_decide(
        state(Version::V2, "/sys/fs/cgroup/evenkeel-3f/0-sort"),
        user,
        &expect!["none: /sys/fs/cgroup/evenkeel-3f/0-sort is a cgroup of another evenkeel"],
    );
}

#[test]
fn a_cgroup_whose_children_cannot_have_processes_is_not_used() {
    let check = |kind: &str, enabled: &str, expected: &Expect| {
        let change = |s: &mut CgroupState| {
            (s.is_delegated, s.kind, s.enabled) = (true, kind.into(), enabled.into());
        };
        check_decide(state(Version::V2, OURS), change, expected);
    };
    check("domain", "cpu", &expect!["/sys/fs/cgroup/slurm/job7, enables, moves"]);
    check(
        "domain threaded",
        "cpu pids",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 has processes and enables cpu pids for threads, so its children cannot have processes: start evenkeel in a cgroup of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check(
        "domain threaded",
        "",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 has threaded children, so its children cannot have processes: start evenkeel in a cgroup of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check(
        "threaded",
        "",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 is threaded, so its children cannot have processes: start evenkeel in a cgroup of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check(
        "domain invalid",
        "",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 is below a threaded cgroup, so its children cannot have processes: start evenkeel in a cgroup of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check(
        "",
        "",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 has no readable cgroup.type, so its children cannot have processes: start evenkeel in a cgroup of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    // The root cgroup has no cgroup.type.
    check_decide(
        state(Version::V2, TOP),
        |s| s.enabled = "cpuset".into(),
        &expect!["/sys/fs/cgroup"],
    );
}

/// Files of a hierarchy whose root is the own cgroup, with a cgroup of another program in it.
fn tree(version: Version) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    let mounts = match version {
        Version::V2 => V2.to_owned(),
        Version::V1 => HYBRID.replace("/sys/fs/cgroup/cpu,cpuset", "/sys/fs/cgroup"),
    };
    write("proc/self/mountinfo", &mounts);
    write("proc/self/cgroup", "3:cpuset:/\n0::/\n");
    write("sys/fs/cgroup/cgroup.procs", "");
    write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n");
    write("sys/fs/cgroup/cgroup.subtree_control", "");
    write("sys/fs/cgroup/cpuset.cpus", "0-3\n");
    write("sys/fs/cgroup/cpuset.mems", "0-1\n");
    write("sys/fs/cgroup/theirs/cgroup.procs", "");
    root
}

/// The cgroups of a run in such a folder.
fn groups(root: &Path, version: Version) -> RunCgroups {
    let own = own(root, version).expect("it is mounted");
    let home = DelegatedCgroup {
        version,
        folder: own.folder,
        enables: version == Version::V2,
        moves_in: false,
    };
    RunCgroups::new(root, home, "3f-a/../b").expect("a name")
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
    for version in [Version::V2, Version::V1] {
        let tree = tree(version);
        let (root, groups) = (tree.path(), groups(tree.path(), version));
        // The kernel would create these files.
        let folder = root.join("sys/fs/cgroup/evenkeel-3f-ab");
        assert!(!groups.is_present().expect("readable"));
        if version == Version::V2 {
            // No kernel creates its files here: the missing one is an error, after which all is removed.
            groups.prepare().expect_err("no cgroup.subtree_control");
            assert_eq!(text(root, "cgroup.subtree_control"), "+cpuset");
            std::fs::write(folder.join("cgroup.subtree_control"), "cpuset\n")
                .expect("a resource of the test");
        } else {
            groups.prepare().expect("made");
            assert_eq!(text(root, "evenkeel-3f-ab/cpuset.cpus"), "0-3");
        }
        let group = groups.create(0, "sort it/é", &nodes).expect("made");
        assert_eq!(group.path(), folder.join("0-sortit"));
        assert_eq!(group.nodes().expect("read"), nodes);
        groups.remove_all().expect("removed");
        groups.remove_all().expect("missing already");
        assert_eq!(children(root), ["theirs"]);
    }
}

#[test]
fn a_home_that_became_threaded_is_not_changed() {
    let tree = tree(Version::V2);
    let home =
        DelegatedCgroup { moves_in: true, ..groups(tree.path(), Version::V2).home().clone() };
    let groups = RunCgroups::new(tree.path(), home, "3f").expect("a name");
    let folder = tree.path().join("sys/fs/cgroup/evenkeel-3f");
    // The kernel creates this file with the folder.
    std::fs::create_dir(&folder).expect("a resource of the test");
    std::fs::write(folder.join("cgroup.type"), "domain invalid\n").expect("a resource of the test");
    let why = groups.prepare_made().expect_err("no process can be moved to it");
    assert!(why.contains("since it is threaded (domain invalid)"), "{why}");
    groups.remove_all().expect("removed");
    assert_eq!(children(tree.path()), ["theirs"]);
    assert_eq!(text(tree.path(), "cgroup.subtree_control"), "");
}

#[test]
fn a_process_of_another_pid_namespace_is_not_confused_with_this_one() {
    let tree = tree(Version::V1);
    let groups = groups(tree.path(), Version::V1);
    groups.prepare().expect("made");
    let group = groups.create(0, "sort", &"1".parse().expect("a list")).expect("made");
    std::fs::write(group.path().join("cgroup.procs"), "0\n").expect("a resource of the test");
    let why = groups.remove_all().expect_err("it has no PID here");
    assert!(why.contains("another PID namespace"), "{why}");
    assert_eq!(text(tree.path(), "cgroup.procs"), "");
}

#[test]
fn the_controller_is_disabled_unless_another_cgroup_uses_it() {
    let check = |file: &str, value: &str, expected: &str| {
        let tree = tree(Version::V2);
        let at = |path: &str| tree.path().join("sys/fs/cgroup").join(path);
        std::fs::write(at("cgroup.subtree_control"), "cpuset cpu\n")
            .expect("a resource of the test");
        std::fs::write(at("theirs").join(file), value).expect("a resource of the test");
        groups(tree.path(), Version::V2).remove_all().expect("removed");
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
fn characters_that_are_not_permitted_are_left_out_of_names() {
    assert_eq!(run_folder("3f-a/../b"), Some("evenkeel-3f-ab".to_owned()));
    assert_eq!(run_folder("../é"), None);
    assert_eq!([job_folder(0, "a b/.."), job_folder(1, "ä")], ["0-ab", "1-"]);
}

#[test]
fn after_every_injected_error_all_cgroups_can_be_removed() {
    let nodes = "0-1".parse().expect("a list");
    for (seed, version) in (0..60).zip([Version::V2, Version::V1].into_iter().cycle()) {
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
        groups.remove_all().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(children(tree.path()), ["theirs"], "seed {seed}");
    }
}

#[test]
fn without_cgroups_nothing_is_read() {
    let nowhere = PathBuf::from("/nonexistent");
    assert_eq!(choose(&nowhere, CgroupMode::None).to_string(), "none");
    let choice = choose(&nowhere, CgroupMode::Auto).to_string();
    assert!(choice.starts_with("none: v2: /proc/self/cgroup cannot be read"), "{choice}");
}
