//! `evenkeel run` and `evenkeel watch` as processes. Each process has a separate directory.
//!
//! ```text
//!   test.toml      workload of the run           out/      journal, report and job output
//!   state/         undo records, state files     stderr    standard error of the watch
//! ```

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use base::CpuSet;
use rustix::process::Signal;
use serde_json::Value;

use crate::cgroup::TestCgroup;
use crate::dir::Dir;
use crate::process::{Process, signal, until, until_or, wait_for};
use crate::tool;

/// A policy that also migrates the only job with a load: a single program loads only one core.
pub const MIGRATES_ONLY_JOB: &str = "dfs[interval=100ms,domains=core,only_job=move,cooldown=0]";

/// An `evenkeel run` of a workload file. Drop kills the run and its jobs.
pub struct EvenkeelRun {
    pub child: Child,
    pub dir: Dir,
    /// Standard output and standard error, set after the end.
    pub output: String,
}

impl EvenkeelRun {
    pub fn new(dir: Dir, workload: &str, args: &[&str]) -> Self {
        Self::by_shell("exec \"$@\"", dir, workload, args)
    }

    /// Starts the run through a shell command that ends in `"$@"`.
    pub fn by_shell(shell: &str, dir: Dir, workload: &str, args: &[&str]) -> Self {
        dir.write("test.toml", workload);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", shell, "sh"]).arg(tool::path());
        command.args(["run", "test.toml", "--out", "out"]).args(args).current_dir(dir.root());
        command.env(linux::undo::STATE_VARIABLE, dir.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("a shell");
        EvenkeelRun { child, dir, output: String::new() }
    }

    /// Starts the run in a cgroup, optionally as another user.
    pub fn in_cgroup(
        cgroup: &TestCgroup,
        user: Option<u32>,
        dir: Dir,
        workload: &str,
        args: &[&str],
    ) -> Self {
        let user =
            user.map_or(String::new(), |user| format!("setpriv {}", setpriv(user).join(" ")));
        let procs = cgroup.dir.join("cgroup.procs");
        let shell = format!("echo $$ > {} && exec {user} \"$@\"", procs.display());
        Self::by_shell(&shell, dir, workload, args)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a job has printed `n` numbers, one per line, and returns the numbers.
    pub fn printed(&self, job: &str, n: usize) -> Vec<u32> {
        wait_for(&format!("{n} lines of job {job}"), || {
            let text = self.dir.text(&format!("out/jobs/{job}.out"));
            let is_complete = n <= text.lines().count() && text.ends_with('\n');
            is_complete.then(|| text.lines().filter_map(|line| line.parse().ok()).collect())
        })
    }

    /// Waits until `n_jobs` jobs are started, and returns their processes.
    pub fn wait_for_start(&mut self, n_jobs: usize) -> Vec<u32> {
        wait_for("the start of all jobs", || {
            let pids: Vec<u32> = self.processes().into_values().collect();
            let status = self.child.try_wait().expect("own child");
            assert_eq!(status, None, "evenkeel exited: {}", self.read_pipes());
            (n_jobs <= pids.len()).then_some(pids)
        })
    }

    /// Returns the process of each started job, by job number.
    pub fn processes(&self) -> BTreeMap<u64, u32> {
        let mut pids = BTreeMap::new();
        for line in self.journal().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            for outcome in line["outcomes"].as_array().into_iter().flatten() {
                let (job, pid) = (outcome["job"].as_u64(), outcome["done"].as_u64());
                if let (true, Some(job), Some(pid)) = (outcome["start"].is_object(), job, pid) {
                    pids.insert(job, u32::try_from(pid).expect("a PID"));
                }
            }
        }
        pids
    }

    pub fn journal(&self) -> String {
        self.dir.text("out/journal.jsonl")
    }

    /// Waits until the journal contains a text.
    pub fn wait_for_journal(&self, text: &str) {
        until_or(text, || self.journal().contains(text), || self.journal());
    }

    /// Lists the remaining undo records.
    pub fn records(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.dir.path("state")).into_iter().flatten().flatten();
        files.map(|file| file.path()).collect()
    }

    /// Waits for the end. Returns the exit status.
    pub fn wait(&mut self) -> ExitStatus {
        self.output = self.read_pipes();
        self.child.wait().expect("own child")
    }

    /// Sends a signal and waits for the end.
    pub fn end_by(&mut self, by: Signal) {
        signal(self.pid(), by);
        self.wait();
    }

    /// Waits for the end with this exit status.
    pub fn expect_status(&mut self, status: i32) {
        let ended = self.wait();
        assert_eq!(ended.code(), Some(status), "{}", self.output);
    }

    fn read_pipes(&mut self) -> String {
        let mut text = String::new();
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let _ = out.map(|mut out| out.read_to_string(&mut text));
        let _ = err.map(|mut err| err.read_to_string(&mut text));
        text
    }

    pub fn explain(&self) -> String {
        tool::text(&self.dir.run(&["explain", "out/journal.jsonl"]).stdout)
    }

    /// Returns the output of `evenkeel restore`, optionally as another user.
    pub fn restore(&self, user: Option<u32>) -> String {
        let mut command = command_of(user);
        command.arg("restore").env(linux::undo::STATE_VARIABLE, self.dir.path("state"));
        let output = command.output().expect("evenkeel starts");
        assert_eq!(output.status.code(), Some(0), "{}", tool::text(&output.stderr));
        tool::text(&output.stdout)
    }
}

impl Drop for EvenkeelRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // In another PID namespace, the PIDs of the journal would be other processes of this namespace.
        let is_job = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/cwd"))
                .is_ok_and(|dir| dir.starts_with(self.dir.root()))
        };
        for pid in self.processes().into_values().filter(is_job) {
            signal(pid, Signal::KILL);
        }
    }
}

/// Returns the arguments of `setpriv` that change the user.
pub fn setpriv(user: u32) -> Vec<String> {
    let user = user.to_string();
    ["--reuid", &user, "--regid", &user, "--clear-groups"].map(str::to_owned).into()
}

/// Returns the command of the executable, optionally as another user.
pub fn command_of(user: Option<u32>) -> Command {
    let mut command = match user {
        None => Command::new(tool::path()),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args(setpriv(user)).arg(tool::path());
            command
        }
    };
    command.env("XDG_DATA_HOME", "/proc/nonexistent");
    command
}

/// An `evenkeel watch`.
pub struct EvenkeelWatch {
    pub process: Process,
    pub dir: Dir,
    user: Option<u32>,
}

impl EvenkeelWatch {
    pub fn new(args: &[&str]) -> Self {
        Self::of(None, args)
    }

    /// Starts a watch as another user, or as the user of the test.
    pub fn of(user: Option<u32>, args: &[&str]) -> Self {
        let dir = Dir::new();
        if user.is_some() {
            std::os::unix::fs::chown(dir.root(), user, user).expect("this user is root");
        }
        let mut command = command_of(user);
        command.args(["watch", "--journal", &dir.arg("w.jsonl")]).args(args);
        command.env(linux::undo::STATE_VARIABLE, dir.path("state"));
        let stderr = std::fs::File::create(dir.path("stderr")).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        EvenkeelWatch { process: Process::spawn(&mut command), dir, user }
    }

    /// Runs another command with the state of this watch.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = command_of(self.user);
        command.args(args).env(linux::undo::STATE_VARIABLE, self.dir.path("state"));
        command.output().expect("evenkeel starts")
    }

    /// Waits until the mask of a process is not `all`.
    pub fn wait_for_placement(&self, process: &Process, all: &CpuSet) {
        let details = || format!("{}{}{}", self.explain(), self.status(), self.stderr());
        until_or("the placement", || process.mask() != *all, details);
    }

    pub fn explain(&self) -> String {
        tool::text(&self.dir.run(&["explain", "w.jsonl"]).stdout)
    }

    /// Returns the state of the process in `status --json`; null until the first state is written.
    pub fn status(&self) -> Value {
        let output = self.run(&["status", "--json"]);
        let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        all[0]["state"].clone()
    }

    pub fn until(&mut self, event: &str, holds: impl Fn(&Value) -> bool) {
        until(event, || {
            let status = self.status();
            if holds(&status) {
                return true;
            }
            let ended = self.process.0.try_wait().expect("permitted");
            assert!(ended.is_none(), "it exited before {event}: {ended:?} {}", self.stderr());
            std::thread::sleep(Duration::from_millis(40));
            false
        });
    }

    /// Waits until the processes `expected` are managed. Checks that the processes `others` are not managed.
    pub fn wait_until_managed(&mut self, expected: &[&Process], others: &[&Process]) {
        let is_managed = |status: &Value, pid: u32| {
            let managed = status["managed"].as_array();
            managed.is_some_and(|all| all.iter().any(|process| process["pid"] == pid))
        };
        self.until("all selected processes", |status| {
            expected.iter().all(|process| is_managed(status, process.pid()))
        });
        let status = self.status();
        for other in others {
            assert!(!is_managed(&status, other.pid()), "{} of {status}", other.pid());
        }
    }

    pub fn stderr(&self) -> String {
        self.dir.text("stderr")
    }

    /// Waits for the end. Returns standard error and exit status.
    pub fn wait(&mut self) -> (String, Option<i32>) {
        let status = self.process.0.wait().expect("permitted");
        (self.stderr(), status.code())
    }

    /// Ends the watch with SIGTERM. Returns standard error and exit status.
    pub fn end(&mut self) -> (String, Option<i32>) {
        self.process.signal(Signal::TERM);
        self.wait()
    }
}
