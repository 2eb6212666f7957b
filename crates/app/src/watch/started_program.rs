//! `evenkeel watch -- PROGRAM`: a program that evenkeel starts like a shell, and then manages like any running process.
//!
//! The program starts before the watch, without an affinity from evenkeel. The watch ends when the program exits. A stop
//! signal ends the watch first, which restores all settings, and is then passed on to the program as SIGTERM.

use std::cell::RefCell;
use std::ffi::OsString;
use std::rc::Rc;

use linux::child_exit::{ChildStatus, SigchldGuard, reap};
use linux::foreground::ForegroundTerminal;
use linux::procfs;
use rustix::process::Signal;

use super::{Args, Watch, check, journal_path};
use crate::command_result::{CommandError, CommandResult, OrUsageError};
use crate::output::check_absent;
use crate::program_start;

/// Starts the program, manages it and its descendants, and returns its exit status.
pub(super) fn watch(args: &Args) -> CommandResult {
    check(args).or_usage_error()?;
    journal_path(args).map_or(Ok(()), |path| check_absent(&path)).or_usage_error()?;
    let _statuses = SigchldGuard::keep();
    let program = Program::start(&args.program)?;
    let mut args = args.clone();
    args.selection.pid = vec![program.pid];
    let ended = Watch::start(&args, None).and_then(|mut watch| {
        if let Some(terminal) = &program.terminal {
            watch.host.add_console(program_start::console(terminal)?)?;
        }
        watch.run()
    });
    if !matches!(ended, Ok(ref end) if end.stopped_by.is_none()) {
        program.terminate();
    }
    let status = program.wait();
    ended?;
    match status? {
        0 => Ok(()),
        status => Err(CommandError::Exited(status)),
    }
}

struct Program {
    pid: u32,
    start_time_ticks: u64,
    /// The terminal, if the program uses it.
    terminal: Option<Rc<RefCell<ForegroundTerminal>>>,
}

impl Program {
    fn start(command: &[OsString]) -> Result<Self, CommandError> {
        let terminal = ForegroundTerminal::open();
        let pid = program_start::start(command, terminal.is_some())?;
        // The program is not reaped before `wait`, so that its stat file exists.
        let start_time_ticks = procfs::stat("/".as_ref(), pid)?.start_time_ticks;
        let terminal = terminal.map(|terminal| Rc::new(RefCell::new(terminal)));
        Ok(Program { pid, start_time_ticks, terminal })
    }

    fn terminate(&self) {
        host_live::send_signal(self.pid, self.start_time_ticks, Signal::TERM);
    }

    /// Waits for the program. Returns its exit status as a shell does: 128 and the number of a signal that ended it.
    fn wait(&self) -> anyhow::Result<u8> {
        let exit = match &self.terminal {
            Some(terminal) => Some(terminal.borrow_mut().reap(self.pid)?),
            None => reap(self.pid)?,
        };
        let status = match exit.map(|exit| exit.status) {
            Some(ChildStatus::Exited(status)) => status,
            Some(ChildStatus::Killed(signal)) => 128 + signal,
            None => 1,
        };
        Ok(u8::try_from(status).unwrap_or(1))
    }
}
