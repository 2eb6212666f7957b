//! Processes to be looked after: some sleep, some are busy, all children of one shell.
//!
//! Sleepers are forked and not exec'd, so that thousands of them are there at once in a slow guest too.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use linux::procfs;
use rustix::process::{Pid, Signal};

use super::tool;

/// What the busy ones do.
#[derive(Clone, Debug)]
pub enum Busy {
    /// A shell's empty loop, with next to no memory.
    Loops,
    /// A `load hog` of this program with so many MiB.
    Large { tool: PathBuf, size_mib: u32 },
}

/// Processes that sleep or are busy, in a group of their own. They end with this value.
pub struct Crowd {
    shell: Child,
}

impl Crowd {
    /// Starts them, and waits until all are there, the large ones with all of their memory: what is
    /// measured is not their start.
    pub fn start(n_sleepers: u32, n_busy: u32, busy: &Busy) -> anyhow::Result<Self> {
        // A subshell that waits for input that never comes is a fork without an exec.
        let script = format!(
            "exec 3<&0; i=0; while [ $i -lt {n_sleepers} ]; do (read x <&3) & i=$((i+1)); done; \
             i=0; while [ $i -lt {n_busy} ]; do ({}) & i=$((i+1)); done; \
             echo there; wait",
            busy.script()
        );
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .env("TOOL", busy.tool())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot start a shell")?;
        let mut told = String::new();
        let output = shell.stdout.as_mut().context("the shell has an output")?;
        BufReader::new(output).read_line(&mut told)?;
        let crowd = Crowd { shell };
        match told.trim() {
            "there" => crowd.filled(n_busy, busy),
            _ => bail!("the shell could not fork so many: raise the limit (ulimit -u)"),
        }
    }

    fn filled(self, n_busy: u32, busy: &Busy) -> anyhow::Result<Self> {
        let Busy::Large { size_mib, .. } = busy else { return Ok(self) };
        let kib = u64::from(*size_mib) << 10;
        let is_filled = |&pid: &u32| tool::resident_kib(pid).is_ok_and(|there| kib <= there);
        let deadline = Instant::now() + FILLED_WITHIN;
        loop {
            let children = procfs::children("/".as_ref(), self.shell.id(), self.shell.id())?;
            if n_busy as usize <= children.iter().filter(|pid| is_filled(pid)).count() {
                return Ok(self);
            }
            if deadline < Instant::now() {
                bail!("the busy ones did not have {size_mib} MiB each within {FILLED_WITHIN:?}");
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// In an emulated guest on a busy machine each page takes its time.
const FILLED_WITHIN: Duration = Duration::from_secs(300);

impl Busy {
    fn script(&self) -> String {
        match self {
            Busy::Loops => "while :; do :; done".to_owned(),
            Busy::Large { size_mib, .. } => format!(
                "exec \"$TOOL\" load hog --size {size_mib}M --for 86400 --no-self-check >/dev/null"
            ),
        }
    }

    fn tool(&self) -> PathBuf {
        match self {
            Busy::Loops => PathBuf::new(),
            Busy::Large { tool, .. } => tool.clone(),
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.shell);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.shell.wait();
    }
}
