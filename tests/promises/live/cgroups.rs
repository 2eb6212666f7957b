//! Cgroups of jobs with bound memory: as root with cgroup v1, or in a container or guest with cgroup v2.
//!
//! Out of scope: page migration between nodes, which the guest tests cover.

use std::path::PathBuf;

use base::Bytes;
use linux::cgroup::{CgroupMode, HierarchyVersion, RunCgroups, choose, run_dir};
use linux::undo;
use rustix::process::Signal;
use sched::Action;
use tests::dir::Dir;
use tests::live_run::LiveRun;
use tests::process::{children, is_running, machine, signal};

/// Lists the cgroups that this process can create.
pub fn creatable() -> Option<CgroupMode> {
    let all = [CgroupMode::Only(HierarchyVersion::V2), CgroupMode::Only(HierarchyVersion::V1)];
    let found = all.into_iter().find(|&mode| choose("/".as_ref(), mode).delegated.is_some());
    if found.is_none() {
        println!("skipped: no cgroups: {}", choose("/".as_ref(), CgroupMode::Auto).reason);
    }
    found
}

/// Returns the directory of the cgroups of a run; `None` without cgroups.
pub fn cgroup_dir(run: &str) -> Option<PathBuf> {
    let home = choose("/".as_ref(), creatable()?).delegated?;
    Some(home.dir.join(run_dir(run)?))
}

/// Returns the first usable node with memory.
pub fn node() -> u32 {
    machine().nodes_with_memory().first().map_or(0, |node| node.0)
}

/// Returns a workload of two jobs. The memory of the first job is bound to a node.
fn text() -> String {
    format!(
        "[[job]]\nname = \"bound\"\nmemory = \"bind:{}\"\nshell = \"sleep 600 & wait\"\n\
         [[job]]\nname = \"free\"\ncommand = [\"sleep\", \"600\"]\n",
        node()
    )
}

fn cgroup_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it is running")
}

#[test]
fn a_bound_job_and_its_children_are_in_a_cgroup_and_other_jobs_stay_outside() {
    let Some(cgroups) = creatable() else { return };
    let own_cgroup = cgroup_of(std::process::id());
    let mut run = LiveRun::with(&text(), |options| options.cgroups = cgroups);
    let (bound, free) = (run.wait_until_started("bound"), run.wait_until_started("free"));
    run.until("a child", |_| !children(bound).is_empty());
    let dir = cgroup_dir(run.host().run_id()).expect("a name");
    let group = dir.join("0-bound");
    let inside = std::fs::read_to_string(group.join("cgroup.procs")).expect("a group");
    let child = children(bound)[0];
    for pid in [bound, child] {
        assert!(inside.lines().any(|line| line == pid.to_string()), "{pid} in {inside}");
    }
    let mems = std::fs::read_to_string(group.join("cpuset.mems")).expect("a cpuset");
    assert_eq!(mems.trim(), node().to_string());
    if cgroups == CgroupMode::Only(HierarchyVersion::V1) {
        assert_eq!(cgroup_of(free), own_cgroup, "a job without bound memory keeps its cgroup");
    }
    // The cgroup binds the memory; the process has no memory policy.
    let maps = std::fs::read_to_string(format!("/proc/{bound}/numa_maps")).unwrap_or_default();
    assert!(!maps.contains(" bind:"), "{maps}");
    run.stop();
    assert!(!dir.exists(), "{} is left", dir.display());
    assert_eq!(cgroup_of(std::process::id()), own_cgroup);
}

#[test]
fn processes_that_outlive_a_run_return_to_their_original_cgroup() {
    let Some(cgroups) = creatable() else { return };
    let own_cgroup = cgroup_of(std::process::id());
    let mut run = LiveRun::with(&text(), |options| options.cgroups = cgroups);
    let pids = [run.wait_until_started("bound"), run.wait_until_started("free")];
    let dir = cgroup_dir(run.host().run_id()).expect("a name");
    assert!(dir.exists());
    run.drop_host();
    assert!(!dir.exists(), "{} is left", dir.display());
    for pid in pids {
        assert!(is_running(pid));
        assert_eq!(cgroup_of(pid), own_cgroup);
        children(pid).into_iter().for_each(|pid| signal(pid, Signal::KILL));
        signal(pid, Signal::KILL);
    }
    assert_eq!(std::fs::read_dir(run.dir.path("state")).expect("it exists").count(), 0);
}

#[test]
fn without_bound_memory_or_with_cgroups_disabled_no_cgroup_is_created() {
    let free = "[[job]]\nname = \"a\"\ncommand = [\"sleep\", \"600\"]\n";
    let bound = text().replace("\"bound\"", "\"a\"");
    for (text, cgroups) in [(free, creatable().unwrap_or_default()), (&bound, CgroupMode::None)] {
        let own_cgroup = cgroup_of(std::process::id());
        let mut run = LiveRun::with(text, |options| options.cgroups = cgroups);
        let pid = run.wait_until_started("a");
        assert_eq!(cgroup_of(pid), own_cgroup);
        assert!(cgroup_dir(run.host().run_id()).is_none_or(|dir| !dir.exists()));
        run.stop();
    }
}

#[test]
fn if_the_cgroup_cannot_be_created_the_job_gets_a_memory_policy_and_a_warning() {
    let Some(cgroups) = creatable() else { return };
    let mut run = LiveRun::with(&text(), |options| options.cgroups = cgroups);
    let dir = cgroup_dir(run.host().run_id()).expect("a name");
    std::fs::create_dir(&dir).expect("permitted");
    let pid = run.wait_until_started("bound");
    run.until("a warning", |run| run.warnings().next().is_some());
    let warnings: Vec<_> = run.warnings().collect();
    assert!(warnings.iter().any(|text| text.contains("not by a cgroup")), "{warnings:?}");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    assert!(maps.is_empty() || maps.contains(" bind:"), "{maps}");
    run.stop();
    let _ = std::fs::remove_dir(&dir);
}

#[test]
fn a_page_migration_of_a_job_whose_cgroup_was_removed_reports_the_cause() {
    let Some(cgroups) = creatable() else { return };
    // The policy of the run binds the memory, so its page migrations are permitted.
    let text = "[[job]]\nname = \"bound\"\ncommand = [\"sleep\", \"600\"]\n";
    let mut run = LiveRun::with(text, |options| options.cgroups = cgroups);
    let node = base::NodeId(node());
    let bind = program::MemoryPolicy::Bind([node].into_iter().collect());
    run.request("bound", Action::MemoryPolicy(bind));
    let pid = run.wait_until_started("bound");
    let dir = cgroup_dir(run.host().run_id()).expect("a name");
    let group = dir.join("0-bound");
    // Another process moves the job to the parent cgroup and removes its own cgroup.
    let home = dir.parent().expect("a parent").join("cgroup.procs");
    std::fs::write(home, pid.to_string()).expect("permitted");
    std::fs::remove_dir(&group).expect("it is empty");
    run.request("bound", Action::MovePages { from: None, to: node, limit: Bytes::from_mib(1) });
    run.until("a result", |run| {
        !run.rejections.is_empty() || run.page_migrations().next().is_some()
    });
    for moved in run.page_migrations() {
        assert!(moved.detail.contains("its cgroup"), "{moved:?}");
    }
    run.stop();
    assert!(!dir.exists());
}

#[test]
fn restore_reports_an_absent_cgroup_directory_as_absent() {
    let Some(home) = creatable().and_then(|mode| choose("/".as_ref(), mode).delegated) else {
        return;
    };
    let dir = Dir::new();
    let mut log = undo::Log::create_in(&dir.state()).expect("a record");
    let run = log.run().to_owned();
    log.record_cgroup(&home).expect("a record");
    drop(log);
    let cgroups = RunCgroups::new("/".as_ref(), home, &run).expect("a name");
    assert!(!cgroups.is_present().expect("the path is free"));
    // The lock holder is this process. Its children may share the lock until they call exec.
    let restored = loop {
        let restored = undo::restore(&dir.state(), false);
        if restored.files[0].verdict != undo::RestoreVerdict::InUse {
            break restored;
        }
        std::thread::yield_now();
    };
    assert_eq!(
        restored.files[0].kernel_groups[0].action,
        undo::KernelGroupRestoreAction::Absent,
        "{restored:?}"
    );
}

#[test]
fn unavailable_cgroups_required_by_the_option_are_one_error_line_before_any_job_starts() {
    let kinds = [("v2", HierarchyVersion::V2), ("v1", HierarchyVersion::V1)];
    let absent = |(_, version): &(&str, HierarchyVersion)| {
        choose("/".as_ref(), CgroupMode::Only(*version)).delegated.is_none()
    };
    let Some((word, _)) = kinds.into_iter().find(absent) else {
        println!("skipped: both cgroup versions are available");
        return;
    };
    let dir = Dir::new();
    dir.write("w.toml", "[[job]]\ncommand = [\"true\"]\n");
    let stderr = dir.rejection(&["run", "--cgroups", word, "w.toml", "--out", "out"]);
    assert!(stderr.starts_with(&format!("evenkeel: --cgroups {word}: ")), "{stderr}");
}
