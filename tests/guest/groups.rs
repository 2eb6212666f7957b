//! Jobs whose memory is bound, in groups of v2: all that they start stays on its node, their memory can
//! be moved, and nothing is left of the groups whoever ends the run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use base::{Bytes, NodeId, NodeSet};
use program::MemoryPolicy;
use sched::{Action, CompletedPageMove, PageMoveEnd};

use crate::Promise;
use crate::nodes::{self, Knob};
use crate::pages::look_at;
use crate::play::{Play, World, lives, signal};
use crate::undo::Tool;

pub const ALL: &[Promise] = &[
    ("groups::what_a_bound_job_starts_and_reads_stays_on_its_node_whatever_it_wishes", stays),
    ("groups::moving_the_memory_of_a_bound_job_opens_its_group_and_closes_it_behind", moves),
    ("groups::a_node_that_cannot_be_had_leaves_the_group_as_it_was", refused),
    ("groups::after_a_kill_restore_sends_everybody_home_and_removes_all_of_it", killed),
    ("groups::a_run_that_ends_leaves_no_group_and_no_controller", ends),
    ("groups::a_user_may_have_groups_in_a_group_that_was_given_to_him", given),
    ("groups::processes_of_others_in_the_group_are_no_reason_to_move_them", strangers),
];

/// The argument with which this program is not a test but a job: it binds itself to a node, if it can,
/// takes memory and stays.
pub const BINDS_ITSELF: &str = "bind-yourself-to";

const ROOT: &str = "/sys/fs/cgroup";
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const NOBODY: u32 = 65534;

/// What the job of that name does.
pub fn bind_yourself(node: &str) {
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

/// Folders of runs in a group.
fn folders(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).expect("a group").flatten().map(|entry| entry.path());
    let is_run = |path: &PathBuf| {
        path.is_dir()
            && path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("evenkeel-"))
    };
    entries.filter(is_run).collect()
}

/// The only run's group of its first job.
fn first_group(home: &Path) -> PathBuf {
    let folders = folders(home);
    assert_eq!(folders.len(), 1, "{folders:?}");
    let entries = fs::read_dir(&folders[0]).expect("a folder").flatten().map(|entry| entry.path());
    let mut groups = entries.filter(|path| path.is_dir() && !path.ends_with("own"));
    groups.next().expect("a group")
}

fn group_of(pid: u32) -> String {
    read(format!("/proc/{pid}/cgroup"))
}

fn hands_down(home: &Path) -> bool {
    read(home.join("cgroup.subtree_control")).split_whitespace().any(|name| name == "cpuset")
}

/// Nobody has the controller handed down to him.
fn without_controller() {
    fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "-cpuset").expect("nobody uses it");
    assert!(!hands_down(Path::new(ROOT)));
}

fn child_of(pid: u32) -> u32 {
    let children = || linux::procfs::children("/".as_ref(), pid, pid).unwrap_or_default();
    nodes::until("a child", || !children().is_empty());
    children()[0]
}

/// The pages of a file that a process has mapped, by node.
fn file_pages(pid: u32, name: &str) -> BTreeMap<u32, u64> {
    let mut by_node = BTreeMap::new();
    for line in read(format!("/proc/{pid}/numa_maps")).lines().filter(|line| line.contains(name)) {
        let words = line.split_whitespace().filter_map(|word| word.split_once('='));
        for (key, count) in words {
            let Some(Ok(node)) = key.strip_prefix('N').map(str::parse::<u32>) else { continue };
            *by_node.entry(node).or_default() += count.parse::<u64>().expect("a count");
        }
    }
    by_node
}

fn stays() {
    without_controller();
    let (this, tool) = (std::env::current_exe().expect("this program"), crate::tool::path());
    let text = format!(
        "[[job]]\nname = \"wilful\"\nmemory = \"bind:3\"\nshell = \"{} {BINDS_ITSELF} 0 & wait\"\n\
         [[job]]\nname = \"reader\"\nmemory = \"bind:2\"\n\
         shell = \"cp {} copied && exec ./copied load hog --size 8M --for 300s --no-self-check\"\n\
         [[job]]\nname = \"free\"\ncommand = [\"sleep\", \"300\"]\n",
        this.display(),
        tool.display()
    );
    let mut play = Play::new(&text);
    let (wilful, reader, free) = (play.begin("wilful"), play.begin("reader"), play.begin("free"));
    let memory = nodes::anonymous_from(child_of(wilful), 16 * 1024);
    assert_eq!(nodes::permille_on(&memory, 0), 0, "{memory:?}");
    assert!(980 <= nodes::permille_on(&memory, 3), "{memory:?}");
    nodes::anonymous_from(reader, 8 * 1024);
    let pages = file_pages(reader, "/copied");
    assert_eq!(pages.keys().copied().collect::<Vec<_>>(), [2], "{pages:?}");
    assert_eq!(group_of(free), "0::/", "a job without bound memory stays where it is");
    assert_eq!(read(format!("/proc/{wilful}/status")).matches("Mems_allowed_list:\t3").count(), 1);
    let child = child_of(wilful);
    play.host_stop();
    signal(child, rustix::process::Signal::KILL);
    play.finish();
    assert!(folders(Path::new(ROOT)).is_empty());
    assert!(!hands_down(Path::new(ROOT)));
}

/// A hog of 32 MiB that the policy has bound to node 0.
fn hog_on_0() -> (Play, u32, PathBuf) {
    let text = "[[job]]\nname = \"hog\"\nload = \"hog --size 32M --for 300s --no-self-check\"\n";
    let mut play = Play::with(text, |options| options.tool = Some(crate::tool::path().to_owned()));
    play.wish("hog", Action::MemoryPolicy(MemoryPolicy::Bind([NodeId(0)].into_iter().collect())));
    let pid = play.begin("hog");
    let memory = nodes::anonymous_from(pid, 32 * 1024);
    assert!(980 <= nodes::permille_on(&memory, 0), "{memory:?}");
    look_at(&mut play, 32 * 1024);
    (play, pid, first_group(Path::new(ROOT)))
}

/// Moves its memory and tells how that ended. `n` moves were there before.
fn moved(play: &mut Play, n: usize, to: u32, limit: Bytes) -> CompletedPageMove {
    play.wish("hog", Action::MovePages { from: None, to: NodeId(to), limit });
    let all = |play: &Play| -> Vec<CompletedPageMove> {
        play.story.iter().flat_map(|scene| scene.sample.page_moves_completed.clone()).collect()
    };
    play.until("the end of the move", |play| n < all(play).len() || !play.refused.is_empty());
    assert!(play.refused.is_empty(), "{:?}", play.refused);
    let ended = all(play).pop().expect("it was told");
    println!("{ended:?}");
    ended
}

fn moves() {
    let (_still, _small) = (Knob::set(BALANCING, "0"), Knob::set(HUGE, "never"));
    let (mut play, pid, group) = hog_on_0();
    assert_eq!(read(group.join("cpuset.mems")), "0");
    let ended = moved(&mut play, 0, 2, Action::NO_LIMIT);
    assert_eq!((ended.stopped_by, ended.detail.as_str()), (PageMoveEnd::Done, ""), "{ended:?}");
    assert!(30 << 20 <= ended.moved.0, "{ended:?}");
    assert_eq!(read(group.join("cpuset.mems")), "2", "closed behind it");
    let memory = nodes::anonymous_kib(pid);
    assert_eq!(memory.keys().copied().collect::<Vec<_>>(), [2], "{memory:?}");
    // A look at where it lies now comes with the end. Half of it goes on, and the group stays open.
    let ended = moved(&mut play, 1, 1, Bytes::from_mib(16));
    assert_eq!(ended.stopped_by, PageMoveEnd::Limit, "{ended:?}");
    assert!(ended.detail.contains("keeps nodes 1-2"), "{ended:?}");
    assert_eq!(read(group.join("cpuset.mems")), "1-2");
    let memory = nodes::anonymous_kib(pid);
    assert_eq!(memory.get(&1), Some(&(16 * 1024)), "{memory:?}");
    play.host_stop();
    play.finish();
    assert!(folders(Path::new(ROOT)).is_empty());
}

fn refused() {
    let root = Path::new("/");
    let home = linux::cgroup::choose(root, linux::cgroup::CgroupMode::Auto).home.expect("the top");
    let groups = linux::cgroup::RunCgroups::new(root, home, "test").expect("a name");
    groups.prepare().expect("we may");
    let node = |text: &str| text.parse::<NodeSet>().expect("a list");
    let group = groups.make(0, "a", &node("1"));
    let none = groups.make(1, "b", &node("77"));
    let kept = group.as_ref().map(|group| (group.set_nodes(&node("77"), false), group.nodes()));
    groups.take_back().expect("nobody is in it");
    println!("{none:?} {kept:?}");
    assert!(none.expect_err("no such node").contains("cannot have nodes 77"));
    let (set, nodes) = kept.expect("made");
    assert!(set.is_err() && nodes.expect("read") == node("1"));
    assert!(folders(Path::new(ROOT)).is_empty());
}

const BOUND: &str = "[[job]]\nname = \"hog\"\nload = \"hog --size 2M --for 300s --no-self-check\"\n\
                     class = 8\nmemory = \"bind:3\"\ncopies = 2\n\
                     [[job]]\nname = \"free\"\ncommand = [\"sleep\", \"300\"]\n";

fn killed() {
    without_controller();
    let world = World::new();
    let mut run = Tool::run(&world, BOUND, &["--policy", "dfs"]);
    let pids = run.begin(3);
    let root = Path::new(ROOT);
    assert!(hands_down(root) && folders(root).len() == 1);
    let in_group = |pid: &&u32| group_of(**pid).contains("evenkeel-");
    assert_eq!(pids.iter().filter(in_group).count(), 2);
    run.kill();
    assert!(pids.iter().filter(in_group).count() == 2, "they live on where they are");
    let said = run.restore();
    println!("{said}");
    assert!(said.contains("groups in /sys/fs/cgroup/evenkeel-"), "{said}");
    for &pid in &pids {
        assert!(lives(pid));
        assert_eq!(group_of(pid), "0::/");
        let all = read(format!("/proc/{pid}/status")).contains("Mems_allowed_list:\t0-3");
        assert!(all, "its memory may come from everywhere again");
    }
    assert!(folders(root).is_empty() && !hands_down(root));
}

fn ends() {
    without_controller();
    let world = World::new();
    let mut run = Tool::run(&world, BOUND, &["--policy", "spread", "--cgroups", "v2"]);
    run.begin(3);
    assert_eq!(read(first_group(Path::new(ROOT)).join("cpuset.mems")), "3");
    run.stop();
    assert!(folders(Path::new(ROOT)).is_empty() && !hands_down(Path::new(ROOT)), "{}", run.said);
}

/// A group that root has made and given to nobody, as a user; removed at the end.
struct Given(PathBuf);

impl Given {
    fn new() -> Self {
        let root = Path::new(ROOT);
        fs::write(root.join("cgroup.subtree_control"), "+cpuset").expect("cgroup v2 in the guest");
        let given = Given(root.join("given"));
        fs::create_dir(&given.0).expect("a group");
        for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            chown(given.0.join(name), Some(NOBODY), Some(NOBODY)).expect("we are root");
        }
        given
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        for _ in 0..100 {
            for pid in read(self.0.join("cgroup.procs")).lines() {
                let _ = fs::write(Path::new(ROOT).join("cgroup.procs"), pid);
            }
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// A world that belongs to nobody.
fn world_of_nobody() -> World {
    let world = World::new();
    chown(world.folder.path(), Some(NOBODY), Some(NOBODY)).expect("we are root");
    world
}

fn given() {
    let given = Given::new();
    let world = world_of_nobody();
    let mut run = Tool::run_as(NOBODY, &given.0, &world, BOUND, &["--policy", "dfs"]);
    let pids = run.begin(3);
    let group = first_group(&given.0);
    assert_eq!(read(group.join("cpuset.mems")), "3");
    let memory = nodes::anonymous_from(pids[0], 2 * 1024);
    assert!(980 <= nodes::permille_on(&memory, 3), "{memory:?}");
    // Groups and processes do not stand in one group: we are beside them.
    assert_eq!(read(given.0.join("cgroup.procs")), "");
    assert!(group_of(pids[2]).ends_with("/own"), "{}", group_of(pids[2]));
    run.stop();
    assert!(folders(&given.0).is_empty(), "{}", run.said);
    assert!(!hands_down(&given.0), "{}", run.said);
    // The same after a kill.
    let world = world_of_nobody();
    let mut run = Tool::run_as(NOBODY, &given.0, &world, BOUND, &["--policy", "dfs"]);
    let pids = run.begin(3);
    run.kill();
    println!("{}", run.restore_as(NOBODY));
    assert!(folders(&given.0).is_empty() && !hands_down(&given.0));
    pids.iter().for_each(|&pid| assert_eq!(group_of(pid), "0::/given"));
}

fn strangers() {
    let given = Given::new();
    let mut sleeper = Command::new("sleep").arg("300").spawn().expect("sleep");
    fs::write(given.0.join("cgroup.procs"), sleeper.id().to_string()).expect("we are root");
    let world = world_of_nobody();
    let mut run = Tool::run_as(NOBODY, &given.0, &world, BOUND, &["--cgroups", "v2"]);
    run.wait();
    assert!(run.said.contains("processes that are not ours live in"), "{}", run.said);
    // Unless it is asked for, it is only said.
    let world = world_of_nobody();
    let mut run = Tool::run_as(NOBODY, &given.0, &world, BOUND, &[]);
    let pids = run.begin(3);
    let memory = nodes::anonymous_from(pids[0], 2 * 1024);
    assert!(980 <= nodes::permille_on(&memory, 3), "{memory:?}");
    assert!(folders(&given.0).is_empty());
    nodes::until("words", || run.journal().contains("not by a cgroup"));
    run.stop();
    assert_eq!(group_of(sleeper.id()), "0::/given", "it was left where it is");
    let _ = sleeper.kill();
    let _ = sleeper.wait();
}
