//! `evenkeel watch -- PROGRAM`: a program that evenkeel starts like a shell, and then manages like any running process.
//!
//! The program starts before the watch, without an affinity from evenkeel. The watch ends when the program exits. A stop
//! signal ends the watch first, which restores all settings, and is then passed on to the program as SIGTERM.

use linux::child_exit::{ChildStatus, SigchldGuard, reap};
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
    let program = Program::start(&args.program).or_usage_error()?;
    let args = Args { pid: vec![program.pid], ..args.clone() };
    let ended = Watch::start(&args, None).and_then(Watch::run);
    if !matches!(ended, Ok(ref end) if !end.was_stopped) {
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
}

impl Program {
    fn start(command: &[String]) -> anyhow::Result<Self> {
        let pid = program_start::start(command)?;
        // The program is not reaped before `wait`, so that its stat file exists.
        Ok(Program { pid, start_time_ticks: procfs::stat("/".as_ref(), pid)?.start_time_ticks })
    }

    fn terminate(&self) {
        host_live::send_signal(self.pid, self.start_time_ticks, Signal::TERM);
    }

    /// Waits for the program. Returns its exit status as a shell does: 128 and the number of a signal that ended it.
    fn wait(&self) -> anyhow::Result<u8> {
        let exit = reap(self.pid)?;
        let status = match exit.map(|exit| exit.status) {
            Some(ChildStatus::Exited(status)) => status,
            Some(ChildStatus::Killed(signal)) => 128 + signal,
            None => 1,
        };
        Ok(u8::try_from(status).unwrap_or(1))
    }
}
