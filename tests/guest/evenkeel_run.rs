//! One `evenkeel run` as a child process, with its output, journal and undo records.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::live_run::{World, signal};
use crate::nodes;

/// An `evenkeel run` of a workload file.
pub struct EvenkeelRun {
    child: Child,
    out: PathBuf,
    state: PathBuf,
    /// Standard output and standard error, after the end.
    pub output: String,
}

impl EvenkeelRun {
    pub fn run(world: &World, text: &str, args: &[&str]) -> Self {
        Self::run_in(None, world, text, args)
    }

    /// Runs in a cgroup, if one is given.
    pub fn run_in(group: Option<&Path>, world: &World, text: &str, args: &[&str]) -> Self {
        let enter = |group: &Path| format!("echo $$ > {}/cgroup.procs && ", group.display());
        Self::spawn(&(group.map_or(String::new(), enter) + "exec"), world, text, args)
    }

    /// Runs in a cgroup, as another user.
    pub fn run_as(user: u32, group: &Path, world: &World, text: &str, args: &[&str]) -> Self {
        let enter = format!("echo $$ > {}/cgroup.procs && {}", group.display(), as_user(user));
        Self::spawn(&enter, world, text, args)
    }

    /// Runs after a shell command that ends in `exec` or a command that executes its arguments.
    fn spawn(enter: &str, world: &World, text: &str, args: &[&str]) -> Self {
        let file = world.path("workload.toml");
        std::fs::write(&file, text).expect("own file");
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
        EvenkeelRun { child, out, state, output: String::new() }
    }

    /// The processes of the started jobs, once there are `n_jobs`.
    pub fn wait_for_start(&mut self, n_jobs: usize) -> Vec<u32> {
        let mut pids = Vec::new();
        nodes::until("the start of all jobs", || {
            let status = self.child.try_wait().expect("own child");
            assert_eq!(status, None, "evenkeel exited: {}", self.remaining_output());
            pids = self.processes().into_values().collect();
            n_jobs <= pids.len()
        });
        pids
    }

    /// The process of each started job, by job number.
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

    /// The remaining undo records.
    pub fn records(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(&self.state).into_iter().flatten().flatten();
        files.map(|file| file.path()).collect()
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&mut self) {
        signal(self.child.id(), Signal::TERM);
        self.child.wait().expect("own child");
        self.output = self.remaining_output();
    }

    /// Waits for the end with exit status 2, a usage error.
    pub fn wait(&mut self) {
        self.wait_for(2);
    }

    /// Waits for the end with this exit status.
    pub fn wait_for(&mut self, status: i32) {
        let ended = self.child.wait().expect("own child");
        self.output = self.remaining_output();
        assert_eq!(ended.code(), Some(status), "{}", self.output);
    }

    pub fn journal(&self) -> String {
        std::fs::read_to_string(self.out.join("journal.jsonl")).unwrap_or_default()
    }

    pub fn kill(&mut self) {
        signal(self.child.id(), Signal::KILL);
        self.child.wait().expect("own child");
    }

    fn remaining_output(&mut self) -> String {
        let mut text = String::new();
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let _ = out.map(|mut out| out.read_to_string(&mut text));
        let _ = err.map(|mut err| err.read_to_string(&mut text));
        text
    }

    pub fn explain(&self) -> String {
        let journal = self.out.join("journal.jsonl");
        let output = Command::new(crate::tool::path()).arg("explain").arg(journal).output();
        crate::tool::text(&output.expect("evenkeel runs").stdout)
    }

    pub fn restore(&self) -> String {
        self.restore_with(crate::tool::command(&["restore"]))
    }

    /// Runs `evenkeel restore` as another user.
    pub fn restore_as(&self, user: u32) -> String {
        let mut command = Command::new("/bin/sh");
        let script = format!("{} \"$0\" restore", as_user(user));
        command.args(["-c", &script]).arg(crate::tool::path());
        self.restore_with(command)
    }

    fn restore_with(&self, mut command: Command) -> String {
        let output = command.env(linux::undo::STATE_VARIABLE, &self.state).output();
        let output = output.expect("evenkeel runs");
        assert_eq!(output.status.code(), Some(0), "{}", crate::tool::text(&output.stderr));
        crate::tool::text(&output.stdout)
    }
}

/// Shell command that executes its arguments as another user.
fn as_user(user: u32) -> String {
    format!("exec setpriv --reuid {user} --regid {user} --clear-groups --")
}

impl Drop for EvenkeelRun {
    fn drop(&mut self) {
        for pid in self.processes().into_values() {
            signal(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
