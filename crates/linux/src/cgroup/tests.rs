//! Finding our group, deciding whether it is ours to divide, and groups in a tree that stands for the
//! kernel's.

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

fn told(version: Version, cgroup: &str, mountinfo: &str) -> String {
    match find(version, cgroup, mountinfo) {
        Ok(CgroupPath { folder, is_top, .. }) => {
            format!("{}{}\n", folder.display(), if is_top { " (top)" } else { "" })
        }
        Err(why) => format!("none: {why}\n"),
    }
}

fn check_find(cgroup: &str, mountinfo: &str, expected: &Expect) {
    expected.assert_eq(
        &[Version::V2, Version::V1].map(|version| told(version, cgroup, mountinfo)).concat(),
    );
}

#[test]
fn our_group_is_found_below_the_mount_that_shows_it() {
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
fn a_container_sees_its_own_part_and_a_path_may_have_blanks() {
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
            none: the group /../other lies outside of what is mounted here
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

fn seen(version: Version, folder: &str) -> CgroupState {
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
        hands_down: "cpu".to_owned(),
        strangers: Vec::new(),
    }
}

fn check_decide(mut seen: CgroupState, change: impl FnOnce(&mut CgroupState), expected: &Expect) {
    change(&mut seen);
    let home = |home: DelegatedCgroup| {
        let enables = if home.enables { ", hands down" } else { "" };
        let moves_in = if home.moves_in { ", moves in" } else { "" };
        format!("{}{enables}{moves_in}", home.folder.display())
    };
    expected.assert_eq(&decide(&seen).map_or_else(|why| format!("none: {why}"), home));
}

const TOP: &str = "/sys/fs/cgroup";
const SCOPE: &str = "/sys/fs/cgroup/system.slice/run-1.scope";
const OURS: &str = "/sys/fs/cgroup/slurm/job7";

#[test]
fn the_top_is_roots_unless_systemd_runs_it() {
    let top = || seen(Version::V2, TOP);
    check_decide(top(), |_| {}, &expect!["/sys/fs/cgroup, hands down"]);
    check_decide(top(), |s| s.hands_down.push_str(" cpuset"), &expect!["/sys/fs/cgroup"]);
    // Everybody lives in the root of all, and that is no hindrance.
    check_decide(
        top(),
        |s| s.strangers.push((1, "init".to_owned())),
        &expect!["/sys/fs/cgroup, hands down"],
    );
    check_decide(
        top(),
        |s| s.has_systemd = true,
        &expect![
            "none: /sys/fs/cgroup is systemd's and was not delegated: systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        top(),
        |s| s.uid = 1000,
        &expect![
            "none: /sys/fs/cgroup is not ours to make groups in: systemd-run --user --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        top(),
        |s| s.controllers = "hugetlb".to_owned(),
        &expect![
            "none: /sys/fs/cgroup: the controller cpuset belongs to another hierarchy (--cgroups v1)"
        ],
    );
    // systemd keeps out of v1's.
    check_decide(seen(Version::V1, TOP), |s| s.has_systemd = true, &expect!["/sys/fs/cgroup"]);
}

#[test]
fn a_unit_of_systemds_is_ours_when_it_was_delegated_and_we_are_alone_in_it() {
    let scope = || seen(Version::V2, SCOPE);
    check_decide(
        scope(),
        |_| {},
        &expect![
            "none: /sys/fs/cgroup/system.slice/run-1.scope is systemd's and was not delegated: systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        scope(),
        |s| s.is_delegated = true,
        &expect!["/sys/fs/cgroup/system.slice/run-1.scope, hands down, moves in"],
    );
    // A unit of one's own manager belongs to oneself, and is that manager's all the same.
    check_decide(
        scope(),
        |s| (s.uid, s.owner) = (1000, Some(1000)),
        &expect![
            "none: /sys/fs/cgroup/system.slice/run-1.scope is systemd's and was not delegated: systemd-run --user --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        scope(),
        |s| (s.is_delegated, s.strangers) = (true, vec![(41, "bash".to_owned())]),
        &expect![
            "none: processes that are not ours live in /sys/fs/cgroup/system.slice/run-1.scope (number 41, bash): start evenkeel in a group of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check_decide(
        scope(),
        |s| (s.is_delegated, s.controllers) = (true, "memory pids".to_owned()),
        &expect![
            "none: /sys/fs/cgroup/system.slice/run-1.scope: the controller cpuset is not handed down to it (systemd: Delegate=cpuset)"
        ],
    );
}

#[test]
fn a_group_that_was_given_to_a_user_is_his_and_one_of_somebody_else_is_nobodys() {
    let group = || seen(Version::V2, OURS);
    let user = |s: &mut CgroupState| (s.uid, s.owner) = (65534, Some(65534));
    check_decide(group(), user, &expect!["/sys/fs/cgroup/slurm/job7, hands down, moves in"]);
    check_decide(
        group(),
        |s| s.uid = 65534,
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 is not ours to make groups in: systemd-run --user --scope -p Delegate=yes evenkeel run …"
        ],
    );
    // Root could write it, and it is somebody's all the same.
    check_decide(
        group(),
        |_| {},
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 is not ours to make groups in: systemd-run --scope -p Delegate=yes evenkeel run …"
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
        seen(Version::V2, "/sys/fs/cgroup/evenkeel-3f/0-sort"),
        user,
        &expect!["none: /sys/fs/cgroup/evenkeel-3f/0-sort is a group of another evenkeel"],
    );
}

#[test]
fn where_only_threads_could_go_no_groups_are_tried() {
    let check = |kind: &str, hands_down: &str, expected: &Expect| {
        let change = |s: &mut CgroupState| {
            (s.is_delegated, s.kind, s.hands_down) = (true, kind.into(), hands_down.into());
        };
        check_decide(seen(Version::V2, OURS), change, expected);
    };
    check("domain", "cpu", &expect!["/sys/fs/cgroup/slurm/job7, hands down, moves in"]);
    check(
        "domain threaded",
        "cpu pids",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 hands cpu pids down to threads while processes live in it, and no groups for processes can be made there: start evenkeel in a group of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check(
        "domain threaded",
        "",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 has groups of threads in it, and no groups for processes can be made there: start evenkeel in a group of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check(
        "threaded",
        "",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 is a group of threads, and no groups for processes can be made there: start evenkeel in a group of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check(
        "domain invalid",
        "",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 stands below a group of threads, and no groups for processes can be made there: start evenkeel in a group of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    check(
        "",
        "",
        &expect![
            "none: /sys/fs/cgroup/slurm/job7 does not tell whether it is a group of processes or of threads, and no groups for processes can be made there: start evenkeel in a group of its own, systemd-run --scope -p Delegate=yes evenkeel run …"
        ],
    );
    // The root of all hands to threads and to processes alike, and tells no kind.
    check_decide(
        seen(Version::V2, TOP),
        |s| s.hands_down = "cpuset".into(),
        &expect!["/sys/fs/cgroup"],
    );
}

/// A tree whose own group is the top of a hierarchy, with a group of somebody else in it.
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

/// The groups of a run in a tree where an ordinary user or root may make some.
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

fn there(root: &Path) -> Vec<String> {
    files::groups_in(&root.join("sys/fs/cgroup")).expect("there")
}

fn text(root: &Path, path: &str) -> String {
    files::read(&root.join("sys/fs/cgroup").join(path)).expect(path)
}

#[test]
fn a_run_makes_its_folder_and_groups_and_takes_back_all_of_it() {
    let nodes = "1".parse().expect("a list");
    for version in [Version::V2, Version::V1] {
        let tree = tree(version);
        let (root, groups) = (tree.path(), groups(tree.path(), version));
        // What the kernel makes with a folder stands there already.
        let folder = root.join("sys/fs/cgroup/evenkeel-3f-ab");
        assert!(!groups.is_there().expect("nothing is in the way"));
        if version == Version::V2 {
            // Nobody makes its files here: what is missing is refused, and taken back.
            groups.prepare().expect_err("no cgroup.subtree_control");
            assert_eq!(text(root, "cgroup.subtree_control"), "+cpuset");
            std::fs::write(folder.join("cgroup.subtree_control"), "cpuset\n").expect("ours");
        } else {
            groups.prepare().expect("made");
            assert_eq!(text(root, "evenkeel-3f-ab/cpuset.cpus"), "0-3");
        }
        let group = groups.make(0, "sort it/é", &nodes).expect("made");
        assert_eq!(group.path(), folder.join("0-sortit"));
        assert_eq!(group.nodes().expect("read"), nodes);
        groups.take_back().expect("taken back");
        groups.take_back().expect("gone already");
        assert_eq!(there(root), ["theirs"]);
    }
}

#[test]
fn a_home_that_is_given_over_to_threads_meanwhile_is_left_as_it_was() {
    let tree = tree(Version::V2);
    let home =
        DelegatedCgroup { moves_in: true, ..groups(tree.path(), Version::V2).home().clone() };
    let groups = RunCgroups::new(tree.path(), home, "3f").expect("a name");
    let folder = tree.path().join("sys/fs/cgroup/evenkeel-3f");
    // The kernel makes this file with the folder.
    std::fs::create_dir(&folder).expect("ours");
    std::fs::write(folder.join("cgroup.type"), "domain invalid\n").expect("ours");
    let why = groups.prepare_made().expect_err("nobody could go there");
    assert!(why.contains("among threads (domain invalid)"), "{why}");
    groups.take_back().expect("taken back");
    assert_eq!(there(tree.path()), ["theirs"]);
    assert_eq!(text(tree.path(), "cgroup.subtree_control"), "");
}

#[test]
fn who_has_no_number_here_is_not_sent_home_in_our_own_person() {
    let tree = tree(Version::V1);
    let groups = groups(tree.path(), Version::V1);
    groups.prepare().expect("made");
    let group = groups.make(0, "sort", &"1".parse().expect("a list")).expect("made");
    std::fs::write(group.path().join("cgroup.procs"), "0\n").expect("ours");
    let why = groups.take_back().expect_err("nobody can be named");
    assert!(why.contains("another pid namespace"), "{why}");
    assert_eq!(text(tree.path(), "cgroup.procs"), "");
}

#[test]
fn the_controller_is_taken_back_unless_somebody_else_uses_it_by_now() {
    let check = |file: &str, value: &str, expected: &str| {
        let tree = tree(Version::V2);
        let at = |path: &str| tree.path().join("sys/fs/cgroup").join(path);
        std::fs::write(at("cgroup.subtree_control"), "cpuset cpu\n").expect("ours");
        std::fs::write(at("theirs").join(file), value).expect("ours");
        groups(tree.path(), Version::V2).take_back().expect("taken back");
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
fn what_no_folder_may_be_called_is_left_out_of_names() {
    assert_eq!(run_folder("3f-a/../b"), Some("evenkeel-3f-ab".to_owned()));
    assert_eq!(run_folder("../é"), None);
    assert_eq!([job_folder(0, "a b/.."), job_folder(1, "ä")], ["0-ab", "1-"]);
}

#[test]
fn whatever_call_fails_everything_can_be_taken_back_later() {
    let nodes = "0-1".parse().expect("a list");
    for (seed, version) in (0..60).zip([Version::V2, Version::V1].into_iter().cycle()) {
        let tree = tree(version);
        let groups = groups(tree.path(), version);
        fault::with_errors(fault::FaultPlan { seed, permille: 200 }, || {
            let _ = groups.prepare();
            for nr in 0..3 {
                let group = groups.make(nr, "sort", &nodes);
                let _ = group.map(|group| (group.open_procs(), group.set_nodes(&nodes, true)));
            }
            let _ = groups.take_back();
        });
        groups.take_back().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(there(tree.path()), ["theirs"], "seed {seed}");
    }
}

#[test]
fn nothing_is_wanted_nothing_is_looked_for() {
    let nowhere = PathBuf::from("/nonexistent");
    assert_eq!(choose(&nowhere, CgroupMode::None).to_string(), "none");
    let choice = choose(&nowhere, CgroupMode::Auto).to_string();
    assert!(choice.starts_with("none: v2: /proc/self/cgroup cannot be read"), "{choice}");
}
