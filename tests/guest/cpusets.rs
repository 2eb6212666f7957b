//! Evenkeel in a cpuset: it uses what the cpuset has, and follows when that changes.

use std::fs;
use std::path::{Path, PathBuf};

use base::CpuSet;

use crate::Promise;
use crate::nodes;
use crate::play::{World, mask};
use crate::undo::Tool;

pub const ALL: &[Promise] = &[
    ("cpusets::jobs_stay_within_the_cpuset_that_evenkeel_is_in", within),
    ("cpusets::jobs_follow_when_the_cpuset_changes", follows),
];

/// A group with a cpuset; removed at the end.
struct Group(PathBuf);

impl Group {
    fn new(name: &str, cpus: &str, mems: &str) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        fs::write(root.join("cgroup.subtree_control"), "+cpuset").expect("cgroup v2 in the guest");
        let group = Group(root.join(name));
        fs::create_dir(&group.0).expect("a group of our own");
        group.write("cpuset.cpus", cpus);
        group.write("cpuset.mems", mems);
        group
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Those in it go up first; the last of them may still be ending.
        for _ in 0..100 {
            let inside = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
            for pid in inside.lines() {
                let _ = fs::write("/sys/fs/cgroup/cgroup.procs", pid);
            }
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn text(n_jobs: u32) -> String {
    format!(
        "[[job]]\nname = \"hog\"\nload = \"hog --size 4M --for 120s --no-self-check\"\nclass = 8\n\
         copies = {n_jobs}\n"
    )
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

fn within() {
    let group = Group::new("evenkeel-within", "2-5", "1-2");
    let world = World::new();
    let mut run = Tool::run_in(Some(&group.0), &world, &text(4), &["--policy", "dfs"]);
    let allowed = set("2-5");
    for pid in run.begin(4) {
        let mask = mask(pid).expect("it lives");
        assert!(mask.iter().all(|cpu| allowed.contains(cpu)), "{mask}");
        let memory = nodes::anonymous_from(pid, 4096);
        assert_eq!(nodes::permille_on(&memory, 0) + nodes::permille_on(&memory, 3), 0);
    }
    run.stop();
}

fn follows() {
    let group = Group::new("evenkeel-follows", "0-7", "0-3");
    let world = World::new();
    let mut run = Tool::run_in(Some(&group.0), &world, &text(4), &["--policy", "dfs"]);
    let pids = run.begin(4);
    group.write("cpuset.cpus", "4-7");
    let allowed = set("4-7");
    nodes::until("every job is placed within the new cpuset", || {
        let placed = |&pid: &u32| {
            mask(pid)
                .is_some_and(|mask| mask.len() == 1 && mask.iter().all(|c| allowed.contains(c)))
        };
        pids.iter().all(placed)
    });
    run.stop();
    assert!(run.explain().contains("became unusable"), "{}", run.explain());
}
