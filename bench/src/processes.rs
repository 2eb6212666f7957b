//! Processes of the benchmarks: watched processes (sleeping or busy), and the mechanisms that migrate their tasks or
//! pages.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use linux::procfs;
use rustix::process::{Pid, Signal};

use crate::evenkeel;

/// Timeout of the allocation. Page faults are slow in an emulated guest on a busy machine.
const ALLOCATION_TIMEOUT: Duration = Duration::from_secs(300);

/// A set of sleeping and busy processes in a separate process group. Drop kills the processes.
///
/// Sleeping processes are forked without execve, so that thousands of them start fast in a slow guest.
pub struct ProcessSet {
    shell: Child,
}

impl ProcessSet {
    /// Starts processes that sleep or execute an endless loop of the shell, and waits until all run.
    pub fn start(n_sleeping: u32, n_busy: u32) -> anyhow::Result<Self> {
        Self::spawn(n_sleeping, n_busy, "while :; do :; done", Path::new(""))
    }

    /// Starts processes that sleep or execute a script of the shell that forks, and waits until all run.
    pub fn start_forkers(n_sleeping: u32, n_forkers: u32, script: &str) -> anyhow::Result<Self> {
        Self::spawn(n_sleeping, n_forkers, script, Path::new(""))
    }

    /// Returns the PID of the shell, which is the parent of all processes.
    pub fn shell(&self) -> u32 {
        self.shell.id()
    }

    /// Starts processes that sleep or execute `load hog`, and waits until the hogs have allocated their memory.
    pub fn start_hogs(
        n_sleeping: u32,
        n_hogs: u32,
        evenkeel: &Path,
        size_mib: u64,
    ) -> anyhow::Result<Self> {
        let hog = format!(
            "exec \"$EVENKEEL\" load hog --size {size_mib}M --for 86400 --no-self-check >/dev/null"
        );
        let set = Self::spawn(n_sleeping, n_hogs, &hog, evenkeel)?;
        wait_for("memory of the hogs", ALLOCATION_TIMEOUT, || {
            (n_hogs as usize <= set.larger_than(size_mib << 10).len()).then_some(())
        })?;
        Ok(set)
    }

    fn spawn(n_sleeping: u32, n_busy: u32, busy: &str, evenkeel: &Path) -> anyhow::Result<Self> {
        // A subshell that reads from an idle pipe is a fork without execve.
        let script = format!(
            "exec 3<&0; i=0; while [ $i -lt {n_sleeping} ]; do (read x <&3) & i=$((i+1)); done; \
             i=0; while [ $i -lt {n_busy} ]; do ({busy}) & i=$((i+1)); done; echo started; wait"
        );
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .env("EVENKEEL", evenkeel)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot start a shell")?;
        let mut line = String::new();
        let stdout = shell.stdout.as_mut().context("the standard output of the shell is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let set = ProcessSet { shell };
        if line.trim() != "started" {
            bail!("the shell cannot fork that many processes; raise the limit (ulimit -u)");
        }
        Ok(set)
    }

    /// Returns the processes with at least this much resident memory.
    pub fn larger_than(&self, kib: u64) -> Vec<u32> {
        let children = procfs::children("/".as_ref(), self.shell.id(), self.shell.id());
        let mut pids = children.unwrap_or_default();
        pids.retain(|&pid| evenkeel::resident_kib(pid).is_ok_and(|resident| kib <= resident));
        pids
    }
}

impl Drop for ProcessSet {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.shell);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.shell.wait();
    }
}

/// A kernel function or a program that migrates tasks or pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    Nothing,
    NumaBalancing,
    Watch,
    WatchAct,
    Numad,
}

/// Sysctl that enables NUMA balancing.
pub const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const NUMAD_PID: &str = "/var/run/numad.pid";
const NUMAD_LOG: &str = "/var/log/numad.log";

impl Mechanism {
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Nothing => "none",
            Mechanism::NumaBalancing => "NUMA balancing",
            Mechanism::Watch => "watch",
            Mechanism::WatchAct => "watch --act",
            Mechanism::Numad => "numad",
        }
    }

    /// Returns the command of the program with this scan interval. `options` are further options of watch.
    pub fn command(self, tool: &Path, interval_s: u64, options: &[&str]) -> Option<Command> {
        match self {
            Mechanism::Nothing | Mechanism::NumaBalancing => None,
            Mechanism::Numad => {
                // This option keeps the settings of transparent huge pages.
                let mut command = Command::new("numad");
                command.args(["-i", &format!("{interval_s}:{interval_s}"), "-H", "0"]);
                Some(command)
            }
            Mechanism::Watch | Mechanism::WatchAct => {
                let mut command = Command::new(tool);
                command.args(["watch", "--all", "--quiet", "--class"]);
                command.arg(evenkeel::class_of(tool)).args(options);
                command.args((self == Mechanism::WatchAct).then_some("--act"));
                Some(command)
            }
        }
    }
}

/// A running evenkeel watch or numad.
pub struct Watcher {
    child: Child,
    /// PID of the process, or of the daemon of numad.
    pub pid: u32,
}

impl Watcher {
    /// Starts the command. The PID of a daemon is read from its PID file.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let is_daemon = command.get_program() == "numad";
        let _ = fs::remove_file(NUMAD_PID);
        let name = command.get_program().to_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", name.display()))?;
        let mut pid = child.id();
        if is_daemon {
            // The started process exits immediately; the daemon is a child of that process.
            child.wait()?;
            let read = || fs::read_to_string(NUMAD_PID).ok()?.trim().parse().ok();
            pid = wait_for("numad", Duration::from_secs(60), read)?;
        }
        Ok(Watcher { child, pid })
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid as i32).context("PID 0")?;
        rustix::process::kill_process(pid, Signal::TERM)?;
        self.child.wait()?;
        let has_exited = || {
            let stat = procfs::stat("/".as_ref(), self.pid);
            stat.map_or(true, |stat| !"RSD".contains(stat.state)).then_some(())
        };
        wait_for("the exit of the watching process", Duration::from_secs(60), has_exited)
    }
}

/// Polls until a value is available, and returns the value.
fn wait_for<T>(
    name: &str,
    timeout: Duration,
    mut poll: impl FnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(found) = poll() {
            return Ok(found);
        }
        if deadline < Instant::now() {
            bail!("{name}: timeout after {timeout:?}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Counts the moves in the log of numad.
pub fn numad_moves() -> usize {
    let log = fs::read_to_string(NUMAD_LOG).unwrap_or_default();
    log.lines().filter(|line| line.contains("moved to node")).count()
}
