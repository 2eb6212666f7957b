//! After a kill everything is put back, on a machine with nodes too; and the program as a user runs it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base::CpuSet;
use rustix::process::Signal;

use crate::Promise;
use crate::nodes::{self, Knob};
use crate::play::{World, lives, mask, signal};

pub const ALL: &[Promise] = &[
    ("undo::after_a_kill_restore_gives_every_job_its_cpus_back", killed),
    ("undo::a_mask_that_was_cut_by_an_offline_cpu_is_given_back_too", killed_and_cut),
];

/// The program at work on a workload of its own.
pub struct Tool {
    child: Child,
    out: PathBuf,
    state: PathBuf,
    /// What it printed, once it has ended.
    pub said: String,
}

impl Tool {
    pub fn run(world: &World, text: &str, args: &[&str]) -> Self {
        Self::run_in(None, world, text, args)
    }

    /// Within a cgroup, if one is given.
    pub fn run_in(group: Option<&Path>, world: &World, text: &str, args: &[&str]) -> Self {
        let enter = |group: &Path| format!("echo $$ > {}/cgroup.procs && ", group.display());
        Self::begin_with(&(group.map_or(String::new(), enter) + "exec"), world, text, args)
    }

    /// Within a cgroup, as another user.
    pub fn run_as(user: u32, group: &Path, world: &World, text: &str, args: &[&str]) -> Self {
        let enter = format!("echo $$ > {}/cgroup.procs && {}", group.display(), becoming(user));
        Self::begin_with(&enter, world, text, args)
    }

    /// After these words of a shell.
    fn begin_with(enter: &str, world: &World, text: &str, args: &[&str]) -> Self {
        let file = world.path("workload.toml");
        std::fs::write(&file, text).expect("ours");
        let (out, state) = (world.path("out"), world.path("state"));
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("{enter} \"$0\" \"$@\"")])
            .arg(crate::tool::path())
            .arg("run")
            .arg(&file)
            .args(args)
            .arg("--out")
            .arg(&out)
            .env(linux::undo::STATE_VARIABLE, &state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().expect("a shell");
        Tool { child, out, state, said: String::new() }
    }

    /// The processes of its first jobs, once so many have begun.
    pub fn begin(&mut self, n_jobs: usize) -> Vec<u32> {
        let mut pids = Vec::new();
        nodes::until("all jobs have begun", || {
            let status = self.child.try_wait().expect("ours");
            assert_eq!(status, None, "it ended: {}", self.rest());
            pids = self.processes().into_values().collect();
            n_jobs <= pids.len()
        });
        pids
    }

    /// The process of each job that has begun, by its number.
    pub fn processes(&self) -> BTreeMap<u64, u32> {
        let mut pids = BTreeMap::new();
        for line in self.journal().lines() {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            for outcome in line["outcomes"].as_array().into_iter().flatten() {
                let (job, pid) = (outcome["job"].as_u64(), outcome["done"].as_u64());
                if let (true, Some(job), Some(pid)) = (outcome["start"].is_object(), job, pid) {
                    pids.insert(job, u32::try_from(pid).expect("a process"));
                }
            }
        }
        pids
    }

    /// Undo records that are left.
    pub fn records(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(&self.state).into_iter().flatten().flatten();
        files.map(|file| file.path()).collect()
    }

    /// Ends it as an operator would, and waits for it.
    pub fn stop(&mut self) {
        signal(self.child.id(), Signal::TERM);
        self.child.wait().expect("ours");
        self.said = self.rest();
    }

    /// Waits for its end: the command was wrong.
    pub fn wait(&mut self) {
        self.wait_for(2);
    }

    /// Waits for its end with this status.
    pub fn wait_for(&mut self, status: i32) {
        let ended = self.child.wait().expect("ours");
        self.said = self.rest();
        assert_eq!(ended.code(), Some(status), "{}", self.said);
    }

    pub fn journal(&self) -> String {
        std::fs::read_to_string(self.out.join("journal.jsonl")).unwrap_or_default()
    }

    pub fn kill(&mut self) {
        signal(self.child.id(), Signal::KILL);
        self.child.wait().expect("ours");
    }

    fn rest(&mut self) -> String {
        let mut text = String::new();
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let _ = out.map(|mut out| out.read_to_string(&mut text));
        let _ = err.map(|mut err| err.read_to_string(&mut text));
        text
    }

    pub fn explain(&self) -> String {
        let journal = self.out.join("journal.jsonl");
        let output = Command::new(crate::tool::path()).arg("explain").arg(journal).output();
        crate::tool::text(&output.expect("it runs").stdout)
    }

    pub fn restore(&self) -> String {
        self.restore_with(crate::tool::command(&["restore"]))
    }

    /// As another user.
    pub fn restore_as(&self, user: u32) -> String {
        let mut command = Command::new("/bin/sh");
        let script = format!("{} \"$0\" restore", becoming(user));
        command.args(["-c", &script]).arg(crate::tool::path());
        self.restore_with(command)
    }

    fn restore_with(&self, mut command: Command) -> String {
        let output = command.env(linux::undo::STATE_VARIABLE, &self.state).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", crate::tool::text(&output.stderr));
        crate::tool::text(&output.stdout)
    }
}

/// Words of a shell before a command of another user.
fn becoming(user: u32) -> String {
    format!("exec setpriv --reuid {user} --regid {user} --clear-groups --")
}

impl Drop for Tool {
    fn drop(&mut self) {
        for pid in self.processes().into_values() {
            signal(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const JOBS: &str = "[[job]]\nname = \"hog\"\nload = \"hog --size 2M --for 300s --no-self-check\"\n\
                    class = 8\ncopies = 8\n";

fn all_cpus() -> CpuSet {
    linux::affinity::get(0).expect("own mask")
}

fn killed() {
    let (world, all) = (World::new(), all_cpus());
    let mut run = Tool::run(&world, JOBS, &["--policy", "dfs"]);
    let pids = run.begin(8);
    assert!(pids.iter().all(|&pid| mask(pid).is_some_and(|mask| mask.len() == 1)));
    run.kill();
    // Somebody binds one of them meanwhile: that stays.
    linux::affinity::set(pids[0], &nodes::cpus(3)).expect("we are root");
    println!("{}", run.restore());
    assert_eq!(mask(pids[0]), Some(nodes::cpus(3)));
    for &pid in &pids[1..] {
        assert!(lives(pid), "a job outlives its evenkeel");
        assert_eq!(mask(pid).as_ref(), Some(&all), "{pid}");
    }
}

fn killed_and_cut() {
    let (world, all) = (World::new(), all_cpus());
    let mut run = Tool::run(&world, JOBS, &["--policy", "spread"]);
    let pids = run.begin(8);
    run.kill();
    let knob = Knob::set("/sys/devices/system/cpu/cpu7/online", "0");
    println!("{}", run.restore());
    drop(knob);
    for &pid in &pids {
        assert_eq!(mask(pid).as_ref(), Some(&all), "{pid}");
    }
}
