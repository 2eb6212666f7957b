//! Processes for benchmarks of watch: the watched ones, and the watching one (evenkeel or numad).

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use linux::procfs;
use rustix::process::{Pid, Signal};

use crate::evenkeel;

/// Program of the busy processes.
#[derive(Clone, Debug)]
pub enum BusyProgram {
    /// An endless loop of the shell, with little memory.
    EmptyLoop,
    /// `load hog` with this many MiB.
    Hog { evenkeel: PathBuf, size_mib: u32 },
}

/// Sleeping and busy processes in a process group of their own. Drop kills them.
///
/// Sleeping processes are forked without execve, so that thousands of them start fast in a slow guest.
pub struct ProcessSet {
    shell: Child,
}

impl ProcessSet {
    /// Starts the processes and waits until all run, and until the hogs have allocated their memory.
    pub fn start(n_sleeping: u32, n_busy: u32, busy: &BusyProgram) -> anyhow::Result<Self> {
        // A subshell that reads from an idle pipe is a fork without execve.
        let script = format!(
            "exec 3<&0; i=0; while [ $i -lt {n_sleeping} ]; do (read x <&3) & i=$((i+1)); done; \
             i=0; while [ $i -lt {n_busy} ]; do ({}) & i=$((i+1)); done; \
             echo started; wait",
            busy.script()
        );
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .env("EVENKEEL", busy.evenkeel())
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
        if let BusyProgram::Hog { size_mib, .. } = busy {
            set.wait_until_allocated(n_busy, *size_mib)?;
        }
        Ok(set)
    }

    fn wait_until_allocated(&self, n_busy: u32, size_mib: u32) -> anyhow::Result<()> {
        let kib = u64::from(size_mib) << 10;
        let is_allocated =
            |&pid: &u32| evenkeel::resident_kib(pid).is_ok_and(|resident| kib <= resident);
        let deadline = Instant::now() + ALLOCATION_TIMEOUT;
        loop {
            let children = procfs::children("/".as_ref(), self.shell.id(), self.shell.id())?;
            if n_busy as usize <= children.iter().filter(|pid| is_allocated(pid)).count() {
                return Ok(());
            }
            if deadline < Instant::now() {
                bail!(
                    "the hogs did not allocate {size_mib} MiB each within {ALLOCATION_TIMEOUT:?}"
                );
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Page faults are slow in an emulated guest on a busy machine.
const ALLOCATION_TIMEOUT: Duration = Duration::from_secs(300);

impl BusyProgram {
    fn script(&self) -> String {
        match self {
            BusyProgram::EmptyLoop => "while :; do :; done".to_owned(),
            BusyProgram::Hog { size_mib, .. } => format!(
                "exec \"$EVENKEEL\" load hog --size {size_mib}M --for 86400 --no-self-check >/dev/null"
            ),
        }
    }

    fn evenkeel(&self) -> PathBuf {
        match self {
            BusyProgram::EmptyLoop => PathBuf::new(),
            BusyProgram::Hog { evenkeel, .. } => evenkeel.clone(),
        }
    }
}

impl Drop for ProcessSet {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.shell);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.shell.wait();
    }
}

const NUMAD_PID: &str = "/var/run/numad.pid";
const NUMAD_LOG: &str = "/var/log/numad.log";

/// A running evenkeel watch or numad.
pub struct Watcher {
    child: Child,
    /// PID; for numad that of the daemon.
    pub pid: u32,
}

/// numad with this scan interval. It leaves the settings of transparent huge pages unchanged.
pub fn numad(interval_s: u64) -> Command {
    let mut command = Command::new("numad");
    command.args(["-i", &format!("{interval_s}:{interval_s}"), "-H", "0"]);
    command
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
        if !is_daemon {
            let pid = child.id();
            return Ok(Watcher { child, pid });
        }
        // The started process exits immediately; the daemon is its child.
        child.wait()?;
        let pid = wait_for("numad", || fs::read_to_string(NUMAD_PID).ok()?.trim().parse().ok())?;
        Ok(Watcher { child, pid })
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid as i32).context("PID 0")?;
        rustix::process::kill_process(pid, Signal::TERM)?;
        self.child.wait()?;
        wait_for("the exit of the watching process", || has_exited(self.pid).then_some(()))
    }
}

/// Whether a process has exited or is a zombie.
fn has_exited(pid: u32) -> bool {
    procfs::stat("/".as_ref(), pid).map_or(true, |stat| !"RSD".contains(stat.state))
}

/// Polls for up to a minute.
pub fn wait_for<T>(name: &str, mut poll: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = poll() {
            return Ok(found);
        }
        if deadline < Instant::now() {
            bail!("{name}: timeout after one minute");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Number of moves in the log of numad.
pub fn numad_moves() -> usize {
    let log = fs::read_to_string(NUMAD_LOG).unwrap_or_default();
    log.lines().filter(|line| line.contains("moved to node")).count()
}
