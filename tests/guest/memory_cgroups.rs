//! Jobs with bound memory in cgroups (v2): the child processes of a job stay on its node, the memory of a job can
//! migrate, and every cgroup is removed at the end.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use base::{Bytes, NodeId, NodeSet};
use program::MemoryPolicy;
use rustix::process::Signal;
use sched::{Action, CompletedPageMigration, PageMigrationEnd};
use tests::cgroup::{TestCgroup, UNIFIED as ROOT};
use tests::dir::Dir;
use tests::evenkeel::EvenkeelRun;
use tests::live_run::LiveRun;
use tests::process::{Process, children, is_running, signal, wait_for};

use crate::nodes::{self, KernelSetting, hog};
use crate::pages::wait_for_memory_sample;
use crate::{Promise, cgroup};

pub const ALL: &[Promise] = &[
    ("memory_cgroups::children_and_page_cache_of_a_bound_job_stay_on_its_node", stays),
    ("memory_cgroups::a_page_migration_widens_the_cgroup_and_narrows_it_afterwards", moves),
    ("memory_cgroups::an_unusable_node_leaves_the_cgroup_unchanged", unusable_node),
    ("memory_cgroups::restore_after_sigkill_moves_processes_back_and_removes_the_cgroups", killed),
    ("memory_cgroups::the_end_of_a_run_removes_cgroups_and_controller", ends),
    ("memory_cgroups::a_user_run_uses_a_delegated_cgroup", delegated_cgroup),
    ("memory_cgroups::processes_of_others_in_the_cgroup_are_not_moved", other_processes),
];

/// Argument that makes the test program a job, which binds its memory to a node, allocates memory and sleeps.
pub const BIND_OWN_MEMORY: &str = "bind-own-memory-to";

const UNPRIVILEGED: u32 = 65534;

/// Runs the job of [`BIND_OWN_MEMORY`].
pub fn bind_own_memory(node: &str) {
    let nodes: NodeSet = node.parse().expect("a node");
    let bound = linux::mempolicy::Prepared::new(&MemoryPolicy::Bind(nodes)).apply();
    eprintln!("bound to {node}: {bound:?}");
    let memory = vec![1u8; 16 << 20];
    std::thread::sleep(std::time::Duration::from_secs(300));
    drop(memory);
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// Lists the directories of runs in a cgroup.
fn dirs(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).expect("a cgroup").flatten().map(|entry| entry.path());
    let is_run = |path: &PathBuf| {
        path.is_dir()
            && path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("evenkeel-"))
    };
    entries.filter(is_run).collect()
}

/// Returns the cgroup of the first job of the only run.
fn first_cgroup(home: &Path) -> PathBuf {
    let dirs = dirs(home);
    assert_eq!(dirs.len(), 1, "{dirs:?}");
    let entries = fs::read_dir(&dirs[0]).expect("a directory").flatten().map(|entry| entry.path());
    let mut cgroups = entries.filter(|path| path.is_dir() && !path.ends_with("own"));
    cgroups.next().expect("a cgroup")
}

fn cgroup_of(pid: u32) -> String {
    read(format!("/proc/{pid}/cgroup"))
}

fn delegates_cpuset(home: &Path) -> bool {
    read(home.join("cgroup.subtree_control")).split_whitespace().any(|name| name == "cpuset")
}

/// Disables the cpuset controller for all cgroups.
fn without_controller() {
    fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "-cpuset")
        .expect("an unused controller");
    assert!(!delegates_cpuset(Path::new(ROOT)));
}

fn child_of(pid: u32) -> u32 {
    wait_for("a child", || children(pid).first().copied())
}

/// Reads the number of file pages that a process has mapped, by node.
fn file_pages(pid: u32, name: &str) -> BTreeMap<u32, u64> {
    let mut by_node = BTreeMap::new();
    for line in read(format!("/proc/{pid}/numa_maps")).lines().filter(|line| line.contains(name)) {
        let fields = line.split_whitespace().filter_map(|field| field.split_once('='));
        for (key, count) in fields {
            let Some(Ok(node)) = key.strip_prefix('N').map(str::parse::<u32>) else { continue };
            *by_node.entry(node).or_default() += count.parse::<u64>().expect("a count");
        }
    }
    by_node
}

fn stays() {
    without_controller();
    let (this, tool) = (std::env::current_exe().expect("this program"), tests::tool::path());
    let text = format!(
        "[[job]]\nname = \"self-bound\"\nmemory = \"bind:3\"\nshell = \"{} {BIND_OWN_MEMORY} 0 & wait\"\n\
         [[job]]\nname = \"reader\"\nmemory = \"bind:2\"\n\
         shell = \"cp {} copied && exec ./copied load hog --size 8M --for 300s --no-self-check\"\n\
         [[job]]\nname = \"free\"\ncommand = [\"sleep\", \"300\"]\n",
        this.display(),
        tool.display()
    );
    let mut run = LiveRun::new(&text);
    let (self_bound, reader, free) = (
        run.wait_until_started("self-bound"),
        run.wait_until_started("reader"),
        run.wait_until_started("free"),
    );
    let memory = nodes::wait_for_anonymous(child_of(self_bound), 16 * 1024);
    assert_eq!(nodes::permille_on(&memory, 0), 0, "{memory:?}");
    nodes::check_share(&memory, 3, 980);
    nodes::wait_for_anonymous(reader, 8 * 1024);
    let pages = file_pages(reader, "/copied");
    assert_eq!(pages.keys().copied().collect::<Vec<_>>(), [2], "{pages:?}");
    assert_eq!(cgroup_of(free), "0::/", "a job without bound memory stays in its cgroup");
    assert_eq!(
        read(format!("/proc/{self_bound}/status")).matches("Mems_allowed_list:\t3").count(),
        1
    );
    let child = child_of(self_bound);
    run.request_stop();
    signal(child, Signal::KILL);
    run.finish();
    assert!(dirs(Path::new(ROOT)).is_empty());
    assert!(!delegates_cpuset(Path::new(ROOT)));
}

/// Returns a hog of 32 MiB with its memory bound to node 0.
fn hog_on_0() -> (LiveRun, u32, PathBuf) {
    let mut run = LiveRun::with_tool(&hog("hog", "32M", ""));
    run.request("hog", Action::MemoryPolicy(MemoryPolicy::Bind([NodeId(0)].into_iter().collect())));
    let pid = run.wait_until_started("hog");
    let memory = nodes::wait_for_anonymous(pid, 32 * 1024);
    nodes::check_share(&memory, 0, 980);
    wait_for_memory_sample(&mut run, 32 * 1024);
    (run, pid, first_cgroup(Path::new(ROOT)))
}

/// Migrates the memory of the hog after `n` earlier migrations, and returns the completed migration.
fn moved(run: &mut LiveRun, n: usize, to: u32, limit: Bytes) -> CompletedPageMigration {
    run.request("hog", Action::MovePages { from: None, to: NodeId(to), limit });
    let all = |run: &LiveRun| -> Vec<CompletedPageMigration> {
        run.turns.iter().flat_map(|turn| turn.sample.page_migrations_completed.clone()).collect()
    };
    run.until("the end of the move", |run| n < all(run).len() || !run.rejections.is_empty());
    assert!(run.rejections.is_empty(), "{:?}", run.rejections);
    let ended = all(run).pop().expect("a completed move");
    println!("{ended:?}");
    ended
}

fn moves() {
    let (_no_balancing, _no_huge_pages) =
        (KernelSetting::no_balancing(), KernelSetting::no_huge_pages());
    let (mut run, pid, group) = hog_on_0();
    assert_eq!(read(group.join("cpuset.mems")), "0");
    let ended = moved(&mut run, 0, 2, Action::NO_LIMIT);
    assert_eq!(
        (ended.stopped_by, ended.detail.as_str()),
        (PageMigrationEnd::Done, ""),
        "{ended:?}"
    );
    assert!(30 << 20 <= ended.moved.0, "{ended:?}");
    assert_eq!(read(group.join("cpuset.mems")), "2", "narrowed after the move");
    let memory = nodes::anonymous_kib(pid);
    assert_eq!(memory.keys().copied().collect::<Vec<_>>(), [2], "{memory:?}");
    // At the end of the migration the pages are sampled. The next migration is partial, so the cgroup still contains
    // both nodes.
    let ended = moved(&mut run, 1, 1, Bytes::from_mib(16));
    assert_eq!(ended.stopped_by, PageMigrationEnd::Limit, "{ended:?}");
    assert!(ended.detail.contains("keeps nodes 1-2"), "{ended:?}");
    assert_eq!(read(group.join("cpuset.mems")), "1-2");
    let memory = nodes::anonymous_kib(pid);
    assert_eq!(memory.get(&1), Some(&(16 * 1024)), "{memory:?}");
    run.stop();
    assert!(dirs(Path::new(ROOT)).is_empty());
}

fn unusable_node() {
    let root = Path::new("/");
    let home = linux::cgroup::choose(root, linux::cgroup::CgroupMode::Auto)
        .delegated
        .expect("the root cgroup");
    let groups = linux::cgroup::RunCgroups::new(root, home, "test").expect("a name");
    groups.prepare().expect("root privileges");
    let node = |text: &str| text.parse::<NodeSet>().expect("a list");
    let group = groups.create(0, "a", &node("1"));
    let none = groups.create(1, "b", &node("77"));
    let rejected = group.as_ref().map(|group| (group.set_nodes(&node("77"), false), group.nodes()));
    groups.remove_all().expect("an empty cgroup");
    println!("{none:?} {rejected:?}");
    assert!(none.expect_err("no such node").contains("cannot use nodes 77"));
    let (set, nodes) = rejected.expect("created");
    assert!(set.is_err() && nodes.expect("read") == node("1"));
    assert!(dirs(Path::new(ROOT)).is_empty());
}

/// Returns two jobs with memory bound to node 3, and one job without bound memory.
fn two_bound() -> String {
    let bound = hog("hog", "2M", "class = 8\nmemory = \"bind:3\"\ncopies = 2");
    bound + "[[job]]\nname = \"free\"\ncommand = [\"sleep\", \"300\"]\n"
}

fn killed() {
    without_controller();
    let mut run = EvenkeelRun::new(Dir::new(), &two_bound(), &["--policy", "dfs"]);
    let pids = run.wait_for_start(3);
    let root = Path::new(ROOT);
    assert!(delegates_cpuset(root) && dirs(root).len() == 1);
    let in_group = |pid: &&u32| cgroup_of(**pid).contains("evenkeel-");
    assert_eq!(pids.iter().filter(in_group).count(), 2);
    run.end_by(Signal::KILL);
    assert!(pids.iter().filter(in_group).count() == 2, "the jobs stay in their cgroups");
    let output = run.restore(None);
    println!("{output}");
    assert!(output.contains("groups in /sys/fs/cgroup/evenkeel-"), "{output}");
    for &pid in &pids {
        assert!(is_running(pid));
        assert_eq!(cgroup_of(pid), "0::/");
        let all = read(format!("/proc/{pid}/status")).contains("Mems_allowed_list:\t0-3");
        assert!(all, "all nodes are allowed again");
    }
    assert!(dirs(root).is_empty() && !delegates_cpuset(root));
}

fn ends() {
    without_controller();
    let mut run =
        EvenkeelRun::new(Dir::new(), &two_bound(), &["--policy", "spread", "--cgroups", "v2"]);
    run.wait_for_start(3);
    assert_eq!(read(first_cgroup(Path::new(ROOT)).join("cpuset.mems")), "3");
    run.end_by(Signal::TERM);
    assert!(
        dirs(Path::new(ROOT)).is_empty() && !delegates_cpuset(Path::new(ROOT)),
        "{}",
        run.output
    );
}

/// Creates a cgroup that root has delegated to an unprivileged user.
fn delegated() -> TestCgroup {
    let cgroup = cgroup("delegated");
    for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        chown(cgroup.dir.join(name), Some(UNPRIVILEGED), Some(UNPRIVILEGED))
            .expect("root privileges");
    }
    cgroup
}

/// Creates a directory of an unprivileged user.
fn directory_of_unprivileged_user() -> Dir {
    let dir = Dir::new();
    chown(dir.root(), Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("root privileges");
    dir
}

/// Starts a run of an unprivileged user in the cgroup of that user.
fn unprivileged_run(cgroup: &TestCgroup, args: &[&str]) -> EvenkeelRun {
    let dir = directory_of_unprivileged_user();
    EvenkeelRun::in_cgroup(cgroup, Some(UNPRIVILEGED), dir, &two_bound(), args)
}

fn delegated_cgroup() {
    let cgroup = delegated();
    let mut run = unprivileged_run(&cgroup, &["--policy", "dfs"]);
    let pids = run.wait_for_start(3);
    let group = first_cgroup(&cgroup.dir);
    assert_eq!(read(group.join("cpuset.mems")), "3");
    let memory = nodes::wait_for_anonymous(pids[0], 2 * 1024);
    nodes::check_share(&memory, 3, 980);
    // A cgroup with children must not contain processes, so evenkeel runs in a sibling cgroup.
    assert_eq!(read(cgroup.dir.join("cgroup.procs")), "");
    assert!(cgroup_of(pids[2]).ends_with("/own"), "{}", cgroup_of(pids[2]));
    run.end_by(Signal::TERM);
    assert!(dirs(&cgroup.dir).is_empty(), "{}", run.output);
    assert!(!delegates_cpuset(&cgroup.dir), "{}", run.output);
    // After SIGKILL, restore removes the cgroups.
    let mut run = unprivileged_run(&cgroup, &["--policy", "dfs"]);
    let pids = run.wait_for_start(3);
    run.end_by(Signal::KILL);
    println!("{}", run.restore(Some(UNPRIVILEGED)));
    assert!(dirs(&cgroup.dir).is_empty() && !delegates_cpuset(&cgroup.dir));
    pids.iter().for_each(|&pid| assert_eq!(cgroup_of(pid), "0::/delegated"));
}

fn other_processes() {
    let cgroup = delegated();
    let sleeper = Process::shell("exec sleep 300");
    cgroup.add(sleeper.pid());
    let mut run = unprivileged_run(&cgroup, &["--cgroups", "v2"]);
    run.expect_status(2);
    assert!(run.output.contains("processes that evenkeel did not start are in"), "{}", run.output);
    // Without `--cgroups` the run continues and reports the missing cgroup.
    let mut run = unprivileged_run(&cgroup, &[]);
    let pids = run.wait_for_start(3);
    let memory = nodes::wait_for_anonymous(pids[0], 2 * 1024);
    nodes::check_share(&memory, 3, 980);
    assert!(dirs(&cgroup.dir).is_empty());
    run.wait_for_journal("not by a cgroup");
    run.end_by(Signal::TERM);
    assert_eq!(cgroup_of(sleeper.pid()), "0::/delegated", "the process was not moved");
}
