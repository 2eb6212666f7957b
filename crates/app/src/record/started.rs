//! The program that a recording starts, and all that comes of it.
//!
//! ```text
//!   record ── program ── child ── …        orphans come to us: we are their subreaper
//!      ├───── orphan ── …                  so everybody below us is what we started,
//!      └───── there before us              but for whom a shell left us that became this program
//! ```
//!
//! At the end everybody below us is asked to end (TERM), has a grace, and is ended then (KILL). It does not
//! matter who left the program's process group. What was handed to somebody else, as a service that a
//! manager starts, was not started by us and stays.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use linux::child_exit::{SigchldGuard, try_reap};
use linux::spawn::{SpawnBatch, SpawnRequest};
use rustix::process::Signal;

use linux::inherited_children::{InheritedChildren, ProcessKey};

/// Between asking everybody to end and ending them.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks at who is left.
const NAP: Duration = Duration::from_millis(20);
/// After so many rounds of KILL whoever is left cannot be ended.
const N_ROUNDS: u32 = 200;

/// A program that was started; it and what it started end when this is dropped.
#[derive(Debug)]
pub(super) struct Started {
    /// Its number.
    pub pid: u32,
    has_ended: bool,
    inherited: InheritedChildren,
    _statuses: SigchldGuard,
}

impl Started {
    /// Starts it as the shell would, in a process group of its own, so that an interrupt from the
    /// keyboard comes to us alone. A terminal cannot be read from there.
    pub(super) fn start(command: &[String]) -> anyhow::Result<Self> {
        let (name, _) = command.split_first().context("there is no program")?;
        let dir = std::env::current_dir().context("cannot tell the present folder")?;
        let search = std::env::var_os("PATH").unwrap_or_default();
        let path = host_live::find_program(Path::new(name), &dir, &search);
        let path = path.map_err(|error| anyhow!("cannot start {name}: {error}"))?;
        let args = command.iter().map(OsString::from);
        let start = SpawnRequest::as_ours(path, args, files()?)
            .with_context(|| format!("cannot start {name}"))?;
        let inherited = InheritedChildren::now();
        let statuses = SigchldGuard::keep();
        // Where this is refused, children that outlive their parents are not ours to end.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let mut batch = SpawnBatch::new().context("cannot make a pipe")?;
        let pid = batch.fork(&start).context("cannot make a process")?;
        let finished = batch.finish();
        if let Some(failure) = finished.failures.first() {
            return Err(anyhow!("cannot start {name}: {}", failure.error));
        }
        finished.told.context("cannot tell whether the program was started")?;
        Ok(Started { pid, has_ended: false, inherited, _statuses: statuses })
    }

    /// Whether the program itself has ended; its children may be left.
    pub(super) fn has_ended(&mut self) -> bool {
        self.has_ended = self.has_ended || !matches!(try_reap(self.pid), Ok(None));
        self.has_ended
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let until = Instant::now() + GRACE;
        signal_all(self.inherited.new_descendants(), Signal::TERM);
        while !is_alone(&self.inherited) && Instant::now() < until {
            std::thread::sleep(NAP);
        }
        for _ in 0..N_ROUNDS {
            if is_alone(&self.inherited) {
                return;
            }
            signal_all(self.inherited.new_descendants(), Signal::KILL);
            std::thread::sleep(NAP);
        }
    }
}

/// The number may have been given to another one since it was looked up: then nothing is sent.
fn signal_all(processes: Vec<ProcessKey>, signal: Signal) {
    for (pid, born_ticks) in processes {
        host_live::send_signal(pid, born_ticks, signal);
    }
}

/// Waits for those of our children that have ended; tells whether nobody is left.
fn is_alone(inherited: &InheritedChildren) -> bool {
    for (pid, _) in inherited.new_children() {
        let _ = try_reap(pid);
    }
    inherited.new_children().is_empty()
}

fn files() -> anyhow::Result<[std::os::fd::OwnedFd; 3]> {
    use std::os::fd::AsFd;
    let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let input = match rustix::termios::isatty(&input) {
        true => std::fs::File::open("/dev/null").context("cannot open /dev/null")?.into(),
        false => input.as_fd().try_clone_to_owned().context("cannot hand on standard input")?,
    };
    let output = output.as_fd().try_clone_to_owned().context("cannot hand on standard output")?;
    let errors = errors.as_fd().try_clone_to_owned().context("cannot hand on error output")?;
    Ok([input, output, errors])
}
