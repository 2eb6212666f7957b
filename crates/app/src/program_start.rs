//! Finds and starts the only program of a command: `evenkeel record -- PROGRAM`, `evenkeel watch -- PROGRAM`.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, anyhow};
use host_live::{Console, ProgramError};
use linux::foreground::ForegroundTerminal;
use linux::spawn::{SpawnBatch, SpawnRequest};

use crate::command_result::{CommandError, OrUsageError};
use crate::input;

/// Finds the program of a command, and checks that it can be executed.
pub fn find(command: &[OsString]) -> Result<PathBuf, CommandError> {
    input::check_program(command).or_usage_error()?;
    let (name, _) = command.split_first().context("no program given")?;
    let dir = std::env::current_dir().context("cannot read the current directory")?;
    let search = std::env::var_os("PATH").unwrap_or_default();
    host_live::find_runnable(Path::new(name), &dir, &search).map_err(|error| {
        let is_found = matches!(error, ProgramError::NotExecutable(_));
        CommandError::NotStarted { is_found, error: error.into() }
    })
}

/// Starts a program as a shell does, in its own process group. The program uses the standard streams of evenkeel. In the
/// foreground it reads the terminal and receives Ctrl-C; else its input is `/dev/null` in place of a terminal, and only
/// evenkeel receives Ctrl-C. Returns its PID.
pub fn start(command: &[OsString], is_foreground: bool) -> Result<u32, CommandError> {
    let path = find(command)?;
    let name = path.display().to_string();
    let args = command.iter().cloned();
    let start = SpawnRequest::inherit_from_self(path, args, files(is_foreground)?)
        .with_context(|| format!("cannot start {name}"))?;
    let start = SpawnRequest { is_foreground, ..start };
    let mut batch = SpawnBatch::new().context("cannot create a pipe")?;
    let pid = batch.fork(&start).context("cannot fork")?;
    let finished = batch.finish();
    if let Some(failure) = finished.failures.first() {
        let is_found = failure.error.kind() != io::ErrorKind::NotFound;
        let error = anyhow!("cannot start {name}: {}", failure.error);
        return Err(CommandError::NotStarted { is_found, error });
    }
    finished.reports.context("cannot determine whether the program was started")?;
    Ok(pid)
}

#[expect(clippy::disallowed_methods, reason = "the program inherits the streams")]
fn files(is_foreground: bool) -> anyhow::Result<[std::os::fd::OwnedFd; 3]> {
    let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
    let input = match !is_foreground && rustix::termios::isatty(&input) {
        true => std::fs::File::open("/dev/null").context("cannot open /dev/null")?.into(),
        false => input.as_fd().try_clone_to_owned().context("cannot duplicate standard input")?,
    };
    let output = output.as_fd().try_clone_to_owned().context("cannot duplicate standard output")?;
    let errors = errors.as_fd().try_clone_to_owned().context("cannot duplicate standard error")?;
    Ok([input, output, errors])
}

/// Returns the console that handles the signals of a program in the foreground.
pub fn console(terminal: &Rc<RefCell<ForegroundTerminal>>) -> io::Result<Console> {
    let descriptor = terminal.borrow().as_fd().try_clone_to_owned()?;
    let terminal = Rc::clone(terminal);
    Ok(Console::new(descriptor, move |_| {
        terminal.borrow_mut().handle_signals();
        false
    }))
}
