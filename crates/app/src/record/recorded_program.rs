//! The program that a recording starts, with its descendants.
//!
//! ```text
//!   record ── program ── child ── …        orphans are reparented to evenkeel, a child subreaper,
//!      ├───── orphan ── …                  so evenkeel started all its descendants
//!      └───── inherited                    except those that a shell left before execve
//! ```
//!
//! At the end all started descendants receive SIGTERM, and after a grace period SIGKILL, including processes outside of
//! the program's process group. A process that a service manager starts for the program is not a descendant and
//! continues to run.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use linux::child_exit::{SigchldGuard, try_reap};
use linux::spawn::{SpawnBatch, SpawnRequest};
use rustix::process::Signal;

use linux::inherited_children::{InheritedChildren, ProcessKey};

/// Time between SIGTERM and SIGKILL.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Poll interval for remaining processes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Rounds of SIGKILL. Processes that remain after the last round cannot be killed.
const N_ROUNDS: u32 = 200;

/// The started program. Drop kills the program and its descendants.
#[derive(Debug)]
pub(super) struct RecordedProgram {
    pub pid: u32,
    has_exited: bool,
    inherited: InheritedChildren,
    _statuses: SigchldGuard,
}

impl RecordedProgram {
    /// Starts the program as a shell does, in its own process group, so that Ctrl-C reaches only evenkeel. The program
    /// cannot read from the terminal.
    pub(super) fn start(command: &[String]) -> anyhow::Result<Self> {
        let (name, _) = command.split_first().context("no program given")?;
        let dir = std::env::current_dir().context("cannot read the current directory")?;
        let search = std::env::var_os("PATH").unwrap_or_default();
        let path = host_live::find_program(Path::new(name), &dir, &search);
        let path = path.map_err(|error| anyhow!("cannot start {name}: {error}"))?;
        let args = command.iter().map(OsString::from);
        let start = SpawnRequest::inherit_from_self(path, args, files()?)
            .with_context(|| format!("cannot start {name}"))?;
        let inherited = InheritedChildren::now();
        let statuses = SigchldGuard::keep();
        // Without this, orphaned children are reparented to init and not killed.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let mut batch = SpawnBatch::new().context("cannot create a pipe")?;
        let pid = batch.fork(&start).context("cannot fork")?;
        let finished = batch.finish();
        if let Some(failure) = finished.failures.first() {
            return Err(anyhow!("cannot start {name}: {}", failure.error));
        }
        finished.reports.context("cannot determine whether the program was started")?;
        Ok(RecordedProgram { pid, has_exited: false, inherited, _statuses: statuses })
    }

    /// Returns whether the program has exited. Children of the program may still run.
    pub(super) fn has_exited(&mut self) -> bool {
        self.has_exited = self.has_exited || !matches!(try_reap(self.pid), Ok(None));
        self.has_exited
    }
}

impl Drop for RecordedProgram {
    fn drop(&mut self) {
        let until = Instant::now() + GRACE_PERIOD;
        signal_all(self.inherited.new_descendants(), Signal::TERM);
        while !reap_and_check_empty(&self.inherited) && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        for _ in 0..N_ROUNDS {
            if reap_and_check_empty(&self.inherited) {
                return;
            }
            signal_all(self.inherited.new_descendants(), Signal::KILL);
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Sends a signal to all descendants. A PID that was reused receives no signal.
fn signal_all(processes: Vec<ProcessKey>, signal: Signal) {
    for (pid, start_time_ticks) in processes {
        host_live::send_signal(pid, start_time_ticks, signal);
    }
}

/// Reaps exited children. Returns whether no child remains.
fn reap_and_check_empty(inherited: &InheritedChildren) -> bool {
    for (pid, _) in inherited.new_children() {
        let _ = try_reap(pid);
    }
    inherited.new_children().is_empty()
}

#[expect(clippy::disallowed_methods, reason = "the program inherits the streams")]
fn files() -> anyhow::Result<[std::os::fd::OwnedFd; 3]> {
    use std::os::fd::AsFd;
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let input = match rustix::termios::isatty(&input) {
        true => std::fs::File::open("/dev/null").context("cannot open /dev/null")?.into(),
        false => input.as_fd().try_clone_to_owned().context("cannot duplicate standard input")?,
    };
    let output = output.as_fd().try_clone_to_owned().context("cannot duplicate standard output")?;
    let errors = errors.as_fd().try_clone_to_owned().context("cannot duplicate standard error")?;
    Ok([input, output, errors])
}
