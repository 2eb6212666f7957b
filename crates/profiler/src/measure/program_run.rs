//! One run of the measured program: alone, or under a valgrind tool.
//!
//! The program runs in its own process group. A Ctrl-C therefore reaches only evenkeel, which then ends the
//! program. evenkeel is a child subreaper during the run: it reaps and kills orphaned children of the
//! program. Standard output is discarded. The end of standard error is kept for error messages.
//!
//! ```text
//!   program ── log pipe ──►  evenkeel    sleeps between reads of large chunks: a wake-up for every
//!           ── stderr   ──►              line would halve the speed of the tracer
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use linux::child_exit::{ChildExit, SigchldGuard, reap};
use linux::inherited_children::InheritedChildren;
use linux::spawn::{SpawnBatch, SpawnRequest};
use linux::stop_signals::StopSignals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags};

/// Size of the log pipe in bytes: the default limit for unprivileged users.
const PIPE_BYTES: usize = 1 << 20;
/// The reader sleeps after a read of fewer bytes.
const CHUNK_BYTES_MIN: usize = PIPE_BYTES / 4;
const READ_INTERVAL: Duration = Duration::from_millis(4);
/// Time between SIGTERM and SIGKILL.
const GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Sampling interval of an observed program.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of stored bytes of standard error.
const STDERR_BYTES_MAX: usize = 4096;

/// A command to execute.
pub(super) struct ExecSpec<'a> {
    /// Path of the executable.
    pub program: PathBuf,
    /// Arguments, including `argv[0]`.
    pub args: Vec<OsString>,
    /// Standard input; `None` is /dev/null.
    pub input: Option<&'a Path>,
    /// A file descriptor that the program inherits under the same number.
    pub inherited_fd: Option<&'a OwnedFd>,
}

/// Cause of the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The program exited.
    Exited,
    /// The log reader needs no further chunk.
    LogComplete,
    /// The time limit was reached.
    TimeUp,
    /// evenkeel received a stop signal.
    Interrupted,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct ProgramRun {
    /// Cause of the end of the run.
    pub stop_cause: StopCause,
    /// Exit status and resource usage. The values are valid only for [`StopCause::Exited`].
    pub reaped: ChildExit,
    /// Wall time.
    pub wall: Duration,
    /// Last non-empty line of standard error.
    pub last_stderr_line: String,
}

/// The pipe for the log of a valgrind tool.
pub(super) struct LogPipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl LogPipe {
    pub(super) fn new() -> anyhow::Result<Self> {
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (reader, writer) = rustix::pipe::pipe_with(flags).context("cannot create a pipe")?;
        // The call fails if pipe-max-size is lower. A smaller pipe only makes the run slower.
        let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE_BYTES);
        rustix::io::ioctl_fionbio(&reader, true).context("cannot prepare a pipe")?;
        Ok(LogPipe { reader, writer })
    }

    /// Returns the write end, which the program inherits. The number of the descriptor is above 2, because descriptors
    /// 0 to 2 are open in a Rust program.
    pub(super) fn writer(&self) -> anyhow::Result<OwnedFd> {
        self.writer.try_clone().context("cannot prepare a pipe")
    }
}

/// Function that reads chunks of a log and returns true when no further chunk is needed.
pub(super) type LogReader<'t> = &'t mut dyn FnMut(&[u8]) -> bool;

/// Sampler of a running program.
pub(super) trait Observer {
    /// Starts the sampling. The process is stopped and has not executed the program yet.
    fn start(&mut self, pid: u32) -> anyhow::Result<()>;
    /// Takes a sample. [`run_observed`] calls this function every [`SAMPLE_INTERVAL`], and once between the exit and
    /// the reaping of the process.
    fn sample(&mut self);
}

/// Runs a program like [`run`], with an observer. The program must first stop itself with SIGSTOP.
pub(super) fn run_observed(
    spec: &ExecSpec<'_>,
    until: Instant,
    stop: &mut StopSignals,
    observer: &mut dyn Observer,
) -> anyhow::Result<ProgramRun> {
    let _statuses = SigchldGuard::keep();
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let begin = Instant::now();
    let mut child = Child::start(spec)?;
    child.wait_until_stopped(until)?;
    observer.start(child.pid)?;
    signal_group(child.pid, rustix::process::Signal::CONT);
    let cause = child.follow_observed(until, stop, observer);
    observer.sample();
    let wall = begin.elapsed();
    let reaped = child.end(matches!(cause, Ok(StopCause::Exited)))?;
    Ok(ProgramRun { stop_cause: cause?, reaped, wall, last_stderr_line: child.last_stderr_line() })
}

/// Runs a program until it exits, the time limit is reached, its log is complete, or a stop signal arrives.
pub(super) fn run(
    spec: &ExecSpec<'_>,
    until: Instant,
    stop: &mut StopSignals,
    log: Option<(LogPipe, LogReader<'_>)>,
) -> anyhow::Result<ProgramRun> {
    let _statuses = SigchldGuard::keep();
    // Otherwise orphaned children of the program would be reparented to init and not killed.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let begin = Instant::now();
    let mut child = Child::start(spec)?;
    let mut log = log.map(|(pipe, log_reader)| (pipe.reader, log_reader));
    let cause = child.follow(until, stop, log.as_mut());
    let wall = begin.elapsed();
    drop(log);
    let reaped = child.end(matches!(cause, Ok(StopCause::Exited)))?;
    Ok(ProgramRun { stop_cause: cause?, reaped, wall, last_stderr_line: child.last_stderr_line() })
}

/// The running program. Drop kills the program.
struct Child {
    pid: u32,
    pidfd: OwnedFd,
    stderr: OwnedFd,
    stderr_tail: Vec<u8>,
    is_reaped: bool,
    inherited: InheritedChildren,
}

impl Child {
    fn start(spec: &ExecSpec<'_>) -> anyhow::Result<Self> {
        let (stderr, stderr_writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .context("cannot create a pipe")?;
        rustix::io::ioctl_fionbio(&stderr, true).context("cannot prepare a pipe")?;
        let start = start(spec, stderr_writer)?;
        if let Some(inherited) = spec.inherited_fd {
            rustix::io::fcntl_setfd(inherited, FdFlags::empty())
                .context("cannot prepare a pipe")?;
        }
        let inherited = InheritedChildren::now();
        let mut batch = SpawnBatch::new().context("cannot create a pipe")?;
        let pid = batch.fork(&start).context("cannot fork")?;
        drop(start);
        let finished = batch.finish();
        if let Some(failure) = finished.failures.first() {
            anyhow::bail!("cannot start {}: {}", spec.program.display(), failure.error);
        }
        finished.reports.context("cannot determine whether the program was started")?;
        let raw = Pid::from_raw(pid.cast_signed()).context("fork returned PID 0")?;
        let pidfd = rustix::process::pidfd_open(raw, PidfdFlags::empty())
            .inspect_err(|_| kill_group(pid))
            .context("cannot open a pidfd of the program")?;
        Ok(Child { pid, pidfd, stderr, stderr_tail: Vec::new(), is_reaped: false, inherited })
    }

    /// Reads the log and standard error until the run ends.
    fn follow(
        &mut self,
        until: Instant,
        stop: &mut StopSignals,
        mut log: Option<&mut (OwnedFd, LogReader<'_>)>,
    ) -> anyhow::Result<StopCause> {
        let mut buffer = vec![0; PIPE_BYTES];
        loop {
            // The exit is checked before the read: all output from before the exit is then in the pipe.
            let has_exited = is_readable(&self.pidfd)?;
            let mut n_read = 0;
            if let Some((reader, log_reader)) = log.as_deref_mut() {
                loop {
                    let n = read_some(reader, &mut buffer)?;
                    if log_reader(&buffer[..n]) {
                        return Ok(StopCause::LogComplete);
                    }
                    n_read += n;
                    if n == 0 || !has_exited {
                        break;
                    }
                }
            }
            self.read_stderr();
            match () {
                () if stop.received() => return Ok(StopCause::Interrupted),
                () if has_exited => return Ok(StopCause::Exited),
                () if until <= Instant::now() => return Ok(StopCause::TimeUp),
                () if log.is_none() || n_read == 0 => self.wait(stop, log.as_deref(), until)?,
                () if n_read < CHUNK_BYTES_MIN => std::thread::sleep(READ_INTERVAL),
                () => {}
            }
        }
    }

    /// Waits until the process has stopped itself.
    fn wait_until_stopped(&mut self, until: Instant) -> anyhow::Result<()> {
        while linux::child_exit::next_stopped().is_none_or(|(pid, _)| pid != self.pid) {
            let is_late = until <= Instant::now();
            if is_late || is_readable(&self.pidfd)? {
                anyhow::bail!("the program did not start in time");
            }
            std::thread::sleep(READ_INTERVAL);
        }
        Ok(())
    }

    /// Follows the program like [`Child::follow`], with a sample every [`SAMPLE_INTERVAL`].
    fn follow_observed(
        &mut self,
        until: Instant,
        stop: &mut StopSignals,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<StopCause> {
        loop {
            let step = until.min(Instant::now() + SAMPLE_INTERVAL);
            match self.follow(step, stop, None)? {
                StopCause::TimeUp if step < until => observer.sample(),
                cause => return Ok(cause),
            }
        }
    }

    /// Waits for log data, standard error, a stop signal or the exit of the program.
    fn wait(
        &self,
        stop: &StopSignals,
        log: Option<&(OwnedFd, LogReader<'_>)>,
        until: Instant,
    ) -> anyhow::Result<()> {
        let mut files = vec![
            PollFd::new(&self.pidfd, PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            PollFd::new(&self.stderr, PollFlags::IN),
        ];
        files.extend(log.map(|(reader, _)| PollFd::new(reader, PollFlags::IN)));
        // A pipe that the program closed early is always readable. The sleep limits the polling rate.
        std::thread::sleep(READ_INTERVAL);
        let remaining = until.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        wait_for(&mut files, remaining)
    }

    /// Reads standard error. Stores only the end.
    fn read_stderr(&mut self) {
        let mut buffer = [0; STDERR_BYTES_MAX];
        while let Ok(n @ 1..) = read_some(&self.stderr, &mut buffer) {
            self.stderr_tail.extend_from_slice(&buffer[..n]);
            let surplus = self.stderr_tail.len().saturating_sub(STDERR_BYTES_MAX);
            self.stderr_tail.drain(..surplus);
        }
    }

    fn last_stderr_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr_tail);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.unwrap_or_default().chars().take(200).collect()
    }

    /// Terminates the program if it is running, kills its descendants and reaps it.
    fn end(&mut self, has_exited: bool) -> anyhow::Result<ChildExit> {
        if !has_exited {
            self.terminate();
        }
        self.is_reaped = true;
        kill_group(self.pid);
        let reaped = reap(self.pid).context("cannot wait for the program")?;
        kill_orphans(&self.inherited);
        self.read_stderr();
        reaped.context("the program did not exit after SIGKILL")
    }

    /// Sends SIGTERM and waits for at most [`GRACE_PERIOD`].
    fn terminate(&mut self) {
        signal_group(self.pid, rustix::process::Signal::TERM);
        let until = Instant::now() + GRACE_PERIOD;
        while Instant::now() < until && !is_readable(&self.pidfd).unwrap_or(true) {
            self.read_stderr();
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_reaped {
            kill_group(self.pid);
            let _ = reap(self.pid);
            kill_orphans(&self.inherited);
        }
    }
}

/// Sends a signal to the process group. The id of the group is the PID, which is valid until the process is reaped.
fn signal_group(pid: u32, signal: rustix::process::Signal) {
    if let Some(group) = Pid::from_raw(pid.cast_signed()) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

fn kill_group(pid: u32) {
    signal_group(pid, rustix::process::Signal::KILL);
}

/// Kills orphaned descendants of the program, which are reparented to this process. evenkeel runs one program at a
/// time, so every child that was not inherited belongs to this program.
fn kill_orphans(inherited: &InheritedChildren) {
    /// Each round kills one generation of the process tree.
    const N_ROUNDS: u32 = 100;
    for _ in 0..N_ROUNDS {
        let orphans = inherited.new_children();
        if orphans.is_empty() {
            return;
        }
        for (pid, _) in orphans {
            if let Some(raw) = Pid::from_raw(pid.cast_signed()) {
                let _ = rustix::process::kill_process(raw, rustix::process::Signal::KILL);
            }
            let _ = reap(pid);
        }
    }
}

fn start(spec: &ExecSpec<'_>, stderr: OwnedFd) -> anyhow::Result<SpawnRequest> {
    let input = spec.input.unwrap_or(Path::new("/dev/null"));
    let input = File::open(input).with_context(|| format!("cannot read {}", input.display()))?;
    let output = File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
    let files = [input.into(), output.into(), stderr];
    let start = SpawnRequest::inherit_from_self(&spec.program, spec.args.iter().cloned(), files);
    let start = start.with_context(|| format!("cannot start {}", spec.program.display()))?;
    Ok(SpawnRequest { env: linux::spawn::environment(&["VALGRIND_OPTS"]), ..start })
}

/// Reads available bytes. Returns 0 if no byte is available or the pipe is closed.
fn read_some(file: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    match rustix::io::read(file, buffer) {
        Ok(n) => Ok(n),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn is_readable(file: &OwnedFd) -> anyhow::Result<bool> {
    let mut files = [PollFd::new(file, PollFlags::IN)];
    wait_for(&mut files, Duration::ZERO)?;
    Ok(files[0].revents().contains(PollFlags::IN))
}

fn wait_for(files: &mut [PollFd<'_>], timeout: Duration) -> anyhow::Result<()> {
    let timeout = Timespec::try_from(timeout).context("the timeout is out of range")?;
    match poll(files, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for the program"),
    }
}
