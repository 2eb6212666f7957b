//! Somebody who looks after other processes while they are measured: evenkeel, or Debian's numad.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

const NUMAD_PID: &str = "/var/run/numad.pid";
const NUMAD_LOG: &str = "/var/log/numad.log";

/// One that runs.
pub struct Watcher {
    child: Child,
    /// Its process: of numad, that of the daemon.
    pub pid: u32,
}

/// numad with a scan every so many seconds. Its knob of huge pages stays as it is.
pub fn numad(interval_s: u64) -> Command {
    let mut command = Command::new("numad");
    command.args(["-i", &format!("{interval_s}:{interval_s}"), "-H", "0"]);
    command
}

impl Watcher {
    /// Starts it. A daemon's number is read where numad writes it.
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
        // What was started ends at once; the daemon is its child.
        child.wait()?;
        let pid = wait_for("numad", || fs::read_to_string(NUMAD_PID).ok()?.trim().parse().ok())?;
        Ok(Watcher { child, pid })
    }

    /// Tells it to end, and waits until it has.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid as i32).context("a process has a number")?;
        kill_process(pid, Signal::TERM)?;
        self.child.wait()?;
        wait_for("the end of what was measured", || has_ended(self.pid).then_some(()))
    }
}

/// It is gone, or dead and not yet waited for.
fn has_ended(pid: u32) -> bool {
    linux::procfs::stat("/".as_ref(), pid).map_or(true, |stat| !"RSD".contains(stat.state))
}

/// Asks again and again, for a minute.
pub fn wait_for<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = there() {
            return Ok(found);
        }
        if deadline < Instant::now() {
            bail!("{what} did not come within a minute");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How often numad's log says that it moved somebody.
pub fn numad_moves() -> usize {
    let log = fs::read_to_string(NUMAD_LOG).unwrap_or_default();
    log.lines().filter(|line| line.contains("moved to node")).count()
}
