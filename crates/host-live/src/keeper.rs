//! Ends the jobs when evenkeel is killed, if the user wants that (`--die-with-me`).
//!
//! The kernel ends each job's first process with us by itself, but not what that process has started.
//! So a second evenkeel, the keeper, waits at a pipe whose other end only we hold. Numbers of process
//! groups come through it; when it closes without a word of parting, we were killed, and the keeper
//! kills those groups and whatever else has our run in its environment.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use linux::procfs;
use linux::undo::RUN_VARIABLE;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The argument with which the evenkeel program becomes a keeper; the name of the run follows.
pub const KEEPER_ARGUMENT: &str = "keep-jobs";

/// The parting word.
const DONE: &str = "done";

/// Our side of the keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    pipe: ChildStdin,
}

impl Keeper {
    pub(crate) fn start(tool: &Path, run: &str) -> io::Result<Self> {
        let mut child = Command::new(tool)
            .args([KEEPER_ARGUMENT, run])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .env_remove(linux::fault::VARIABLE)
            .env_remove(RUN_VARIABLE)
            .process_group(0) // Ctrl-C is not for it.
            .spawn()?;
        let pipe = child.stdin.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(Keeper { child, pipe })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A keeper that is gone cannot be told anything; then the kernel's own tie is what is left.
    pub(crate) fn add(&mut self, group: u32) {
        let _ = writeln!(self.pipe, "+{group}");
    }

    pub(crate) fn remove(&mut self, group: u32) {
        let _ = writeln!(self.pipe, "-{group}");
    }

    pub(crate) fn dismiss(mut self) {
        let _ = writeln!(self.pipe, "{DONE}");
        drop(self.pipe);
        let _ = self.child.wait();
    }
}

/// What the keeper does: reads until the end, then kills unless there was a word of parting.
pub fn keep(run: &str, mut orders: impl BufRead) {
    let mut groups = BTreeSet::new();
    let mut line = String::new();
    while orders.read_line(&mut line).is_ok_and(|n_bytes| n_bytes != 0) {
        let order = line.trim_end();
        let number =
            |sign| order.strip_prefix(sign).and_then(|text: &str| text.parse::<i32>().ok());
        if order == DONE {
            return;
        } else if let Some(group) = number('+') {
            groups.insert(group);
        } else if let Some(group) = number('-') {
            groups.remove(&group);
        }
        line.clear();
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // Twice: a process may have been on its way to start another.
    kill_marked(run);
    kill_marked(run);
}

fn kill_marked(run: &str) {
    let root = Path::new("/");
    for pid in procfs::processes(root).unwrap_or_default() {
        let environ = procfs::environ(root, pid).unwrap_or_default();
        let is_ours = procfs::parse_environ(&environ, RUN_VARIABLE) == Some(run);
        if let Some(pid) = Pid::from_raw(pid.cast_signed()).filter(|_| is_ours) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
