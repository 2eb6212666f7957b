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
use std::time::{Duration, Instant};

use linux::child_exit::{SigchldGuard, try_reap};
use linux::foreground::ForegroundTerminal;
use rustix::process::Signal;

use linux::inherited_children::{InheritedChildren, ProcessKey};

use crate::command_result::CommandError;
use crate::program_start;

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
    terminal: Option<ForegroundTerminal>,
    _statuses: SigchldGuard,
}

impl RecordedProgram {
    /// Starts the program.
    pub(super) fn start(command: &[OsString]) -> Result<Self, CommandError> {
        let inherited = InheritedChildren::now();
        let statuses = SigchldGuard::keep();
        // Without this, orphaned children are reparented to init and not killed.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let terminal = ForegroundTerminal::open();
        let pid = program_start::start(command, terminal.is_some())?;
        Ok(RecordedProgram { pid, has_exited: false, inherited, terminal, _statuses: statuses })
    }

    /// Returns whether the program has exited. Children of the program may still run.
    pub(super) fn has_exited(&mut self) -> bool {
        if let Some(terminal) = &mut self.terminal {
            terminal.handle_signals();
        }
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
