//! Starts the program of `evenkeel record -- PROGRAM` and `evenkeel watch -- PROGRAM`.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, anyhow};
use linux::spawn::{SpawnBatch, SpawnRequest};

/// Starts a program as a shell does, in its own process group, so that Ctrl-C reaches only evenkeel. The program uses the
/// standard streams of evenkeel, but cannot read from the terminal. Returns its PID.
pub fn start(command: &[String]) -> anyhow::Result<u32> {
    let (name, _) = command.split_first().context("no program given")?;
    let dir = std::env::current_dir().context("cannot read the current directory")?;
    let search = std::env::var_os("PATH").unwrap_or_default();
    let path = host_live::find_program(Path::new(name), &dir, &search);
    let path = path.map_err(|error| anyhow!("cannot start {name}: {error}"))?;
    let args = command.iter().map(OsString::from);
    let start = SpawnRequest::inherit_from_self(path, args, files()?)
        .with_context(|| format!("cannot start {name}"))?;
    let mut batch = SpawnBatch::new().context("cannot create a pipe")?;
    let pid = batch.fork(&start).context("cannot fork")?;
    let finished = batch.finish();
    if let Some(failure) = finished.failures.first() {
        return Err(anyhow!("cannot start {name}: {}", failure.error));
    }
    finished.reports.context("cannot determine whether the program was started")?;
    Ok(pid)
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
