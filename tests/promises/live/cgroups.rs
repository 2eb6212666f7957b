//! Jobs whose memory is bound have groups, where this machine lets us make some: as root on a machine
//! with v1, or in a container or guest with v2. Machines with several nodes are tried in the guest.

use std::path::PathBuf;

use base::Bytes;
use linux::cgroup::{CgroupMode, RunCgroups, Version, choose, run_folder};
use linux::undo;
use rustix::process::Signal;
use sched::Action;

use super::play::{Play, World, lives, machine, signal};

/// Groups that can be made here, whether or not they are of use with so few nodes.
pub fn possible() -> Option<CgroupMode> {
    let all = [CgroupMode::Only(Version::V2), CgroupMode::Only(Version::V1)];
    let found = all.into_iter().find(|&wish| choose("/".as_ref(), wish).home.is_some());
    if found.is_none() {
        println!("groups not run: {}", choose("/".as_ref(), CgroupMode::Auto).why);
    }
    found
}

/// Where the groups of a run are, if there are any.
pub fn folder(run: &str) -> Option<PathBuf> {
    let home = choose("/".as_ref(), possible()?).home?;
    Some(home.folder.join(run_folder(run)?))
}

/// A node with memory that we may use.
pub fn node() -> u32 {
    machine().nodes_with_memory().first().map_or(0, |node| node.0)
}

/// Two jobs, of which the first is bound to a node.
fn text() -> String {
    format!(
        "[[job]]\nname = \"bound\"\nmemory = \"bind:{}\"\nshell = \"sleep 600 & wait\"\n\
         [[job]]\nname = \"free\"\ncommand = [\"sleep\", \"600\"]\n",
        node()
    )
}

fn group_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives")
}

fn children(pid: u32) -> Vec<u32> {
    linux::procfs::children("/".as_ref(), pid, pid).unwrap_or_default()
}

#[test]
fn a_bound_job_is_in_a_group_with_all_that_it_starts_and_others_are_where_they_would_be() {
    let Some(groups) = possible() else { return };
    let own = group_of(std::process::id());
    let mut play = Play::with(&text(), |options| options.groups = groups);
    let (bound, free) = (play.begin("bound"), play.begin("free"));
    play.until("a child", |_| !children(bound).is_empty());
    let folder = folder(play.host().run_id()).expect("a name");
    let group = folder.join("0-bound");
    let inside = std::fs::read_to_string(group.join("cgroup.procs")).expect("a group");
    let child = children(bound)[0];
    for pid in [bound, child] {
        assert!(inside.lines().any(|line| line == pid.to_string()), "{pid} in {inside}");
    }
    let mems = std::fs::read_to_string(group.join("cpuset.mems")).expect("a cpuset");
    assert_eq!(mems.trim(), node().to_string());
    if groups == CgroupMode::Only(Version::V1) {
        assert_eq!(group_of(free), own, "a job without bound memory stays where it is");
    }
    // The group does it: the program itself has no policy.
    let maps = std::fs::read_to_string(format!("/proc/{bound}/numa_maps")).unwrap_or_default();
    assert!(!maps.contains(" bind:"), "{maps}");
    play.host_stop();
    play.finish();
    assert!(!folder.exists(), "nothing is left of {}", folder.display());
    assert_eq!(group_of(std::process::id()), own);
}

#[test]
fn who_outlives_a_run_is_back_where_it_was_started() {
    let Some(groups) = possible() else { return };
    let own = group_of(std::process::id());
    let mut play = Play::with(&text(), |options| options.groups = groups);
    let pids = [play.begin("bound"), play.begin("free")];
    let folder = folder(play.host().run_id()).expect("a name");
    assert!(folder.exists());
    play.abandon();
    assert!(!folder.exists(), "nothing is left of {}", folder.display());
    for pid in pids {
        assert!(lives(pid));
        assert_eq!(group_of(pid), own);
        children(pid).into_iter().for_each(|pid| signal(pid, Signal::KILL));
        signal(pid, Signal::KILL);
    }
    assert_eq!(std::fs::read_dir(play.world.path("state")).expect("there").count(), 0);
}

#[test]
fn without_bound_memory_or_where_groups_are_not_wanted_nothing_is_made() {
    let free = "[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n";
    let bound = text().replace("\"bound\"", "\"a\"");
    for (text, groups) in [(free, possible().unwrap_or_default()), (&bound, CgroupMode::None)] {
        let own = group_of(std::process::id());
        let mut play = Play::with(text, |options| options.groups = groups);
        let pid = play.begin("a");
        assert_eq!(group_of(pid), own);
        assert!(folder(play.host().run_id()).is_none_or(|folder| !folder.exists()));
        play.host_stop();
        play.finish();
    }
}

#[test]
fn a_folder_that_is_in_the_way_leaves_the_job_with_a_policy_of_its_own_and_that_is_said() {
    let Some(groups) = possible() else { return };
    let mut play = Play::with(&text(), |options| options.groups = groups);
    let folder = folder(play.host().run_id()).expect("a name");
    std::fs::create_dir(&folder).expect("we may");
    let pid = play.begin("bound");
    play.until("words", |play| play.story.iter().any(|scene| !scene.sample.degraded.is_empty()));
    let said = play.story.iter().flat_map(|scene| &scene.sample.degraded);
    assert!(
        said.clone().any(|text| text.contains("not by a cgroup")),
        "{:?}",
        said.collect::<Vec<_>>()
    );
    let maps = std::fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    assert!(maps.is_empty() || maps.contains(" bind:"), "{maps}");
    play.host_stop();
    play.finish();
    let _ = std::fs::remove_dir(&folder);
}

#[test]
fn a_group_that_is_not_ours_any_more_ends_a_move_with_a_word() {
    let Some(groups) = possible() else { return };
    // The policy binds it, so the policy may move it.
    let text = "[[job]]\nname = \"bound\"\ncommand = [\"sleep\", \"600\"]\n";
    let mut play = Play::with(text, |options| options.groups = groups);
    let node = base::NodeId(node());
    let bind = program::MemoryPolicy::Bind([node].into_iter().collect());
    play.wish("bound", Action::MemoryPolicy(bind));
    let pid = play.begin("bound");
    let folder = folder(play.host().run_id()).expect("a name");
    let group = folder.join("0-bound");
    // Somebody sends it home and removes the group.
    let home = folder.parent().expect("a home").join("cgroup.procs");
    std::fs::write(home, pid.to_string()).expect("we may");
    std::fs::remove_dir(&group).expect("it is empty");
    play.wish("bound", Action::MovePages { from: None, to: node, limit: Bytes::from_mib(1) });
    play.until("an answer", |play| {
        !play.refused.is_empty()
            || play.story.iter().any(|scene| !scene.sample.page_moves_completed.is_empty())
    });
    let told = play.story.iter().flat_map(|scene| &scene.sample.page_moves_completed);
    for moved in told {
        assert!(moved.detail.contains("its cgroup"), "{moved:?}");
    }
    play.host_stop();
    play.finish();
    assert!(!folder.exists());
}

#[test]
fn restore_of_a_run_without_a_folder_finds_it_gone() {
    let Some(home) = possible().and_then(|groups| choose("/".as_ref(), groups).home) else {
        return;
    };
    let world = World::new();
    let mut log = undo::Log::create_in(&world.state()).expect("a record");
    let run = log.run().to_owned();
    log.announce_cgroup(&home).expect("a record");
    drop(log);
    let groups = RunCgroups::new("/".as_ref(), home, &run).expect("a name");
    assert!(!groups.exists().expect("nothing is in the way"));
    // Its owner is this process, whose children may share the lock until their exec.
    let restored = loop {
        let restored = undo::restore(&world.state(), false);
        if restored.files[0].verdict != undo::Verdict::InUse {
            break restored;
        }
        std::thread::yield_now();
    };
    assert_eq!(
        restored.files[0].groups[0].action,
        undo::GroupRestoreAction::Absent,
        "{restored:?}"
    );
}

#[test]
fn groups_that_cannot_be_had_and_are_insisted_on_are_one_line_and_nothing_is_started() {
    let kinds = [("v2", Version::V2), ("v1", Version::V1)];
    let absent = |(_, version): &(&str, Version)| {
        choose("/".as_ref(), CgroupMode::Only(*version)).home.is_none()
    };
    let Some((word, _)) = kinds.into_iter().find(absent) else {
        println!("not run: both kinds of groups can be had here");
        return;
    };
    let world = World::new();
    let (file, out) = (world.path("w.toml"), world.path("out"));
    std::fs::write(&file, "[[job]]\ncommand = [\"true\"]\n").expect("ours");
    let mut command = crate::tool::command(&["run", "--cgroups", word]);
    let output = command.arg(&file).arg("--out").arg(&out).output().expect("it runs");
    let said = crate::tool::text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.starts_with(&format!("evenkeel: --cgroups {word}: ")), "{said}");
    assert!(!out.exists(), "nothing is made");
}
