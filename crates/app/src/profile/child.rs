//! One run of the program that is profiled: alone, or under a tool of valgrind's.
//!
//! It has a process group of its own, so that an interrupt from the keyboard reaches evenkeel alone, which
//! then ends the program. Children that outlive their parents become ours and are ended too. Output of
//! the program is dropped; the last lines of its error output are kept, to tell what went wrong.
//!
//! ```text
//!   program ── log pipe ──►  us     read in large pieces: a reader that is woken for every line would
//!           ── errors ────►         halve the tracer's speed, so we nap between two looks
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use linux::child_exit::{ChildExit, SigchldGuard, reap};
use linux::spawn::{SpawnBatch, SpawnRequest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags};

use crate::asked::Asked;
use crate::inherited::Inherited;

/// Bytes of the log pipe: with more a user would need privileges.
const PIPE_BYTES: usize = 1 << 20;
/// Less than this in the pipe is not worth waking for.
const WORTH_READING: usize = PIPE_BYTES / 4;
const NAP: Duration = Duration::from_millis(4);
/// Between asking a program to end and ending it.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks at a program that is watched.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So much of the error output is kept.
const ERRORS_KEPT: usize = 4096;

/// What to run.
pub(super) struct What<'a> {
    /// The file.
    pub program: PathBuf,
    /// Its arguments, its own name first.
    pub args: Vec<OsString>,
    /// What it reads; absent: nothing.
    pub input: Option<&'a Path>,
    /// A descriptor that it inherits under the same number.
    pub inherits: Option<&'a OwnedFd>,
}

/// Why a run was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It ended by itself.
    Ended,
    /// What was to be seen was seen.
    Enough,
    /// Its time was up.
    TimeUp,
    /// Somebody stopped us.
    Stopped,
}

/// How a run went.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Why it was left.
    pub why: Why,
    /// How the program ended and what it used; of no meaning if we ended it.
    pub reaped: ChildExit,
    /// How long it took.
    pub wall: Duration,
    /// The last line of its error output.
    pub last_words: String,
}

/// A pipe that a tool writes its log to.
pub(super) struct LogPipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl LogPipe {
    /// A pipe as large as one may have.
    pub(super) fn new() -> anyhow::Result<Self> {
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (reader, writer) = rustix::pipe::pipe_with(flags).context("cannot make a pipe")?;
        // A smaller one is slower, no more.
        let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE_BYTES);
        rustix::io::ioctl_fionbio(&reader, true).context("cannot prepare a pipe")?;
        Ok(LogPipe { reader, writer })
    }

    /// The end that the program inherits. Its number is above 2: those are open in every Rust program.
    pub(super) fn writer(&self) -> anyhow::Result<OwnedFd> {
        self.writer.try_clone().context("cannot prepare a pipe")
    }
}

/// Takes pieces of a log; says whether that was enough.
pub(super) type Taker<'t> = &'t mut dyn FnMut(&[u8]) -> bool;

/// Somebody who looks at the program while it runs.
pub(super) trait Watch {
    /// It has stopped itself before it becomes the program.
    fn begin(&mut self, pid: u32) -> anyhow::Result<()>;
    /// Some time has passed, or it has ended and was not waited for yet.
    fn look(&mut self);
}

/// As [`run`], of a program that stops itself first, with somebody who looks at it.
pub(super) fn run_watched(
    what: &What<'_>,
    until: Instant,
    stop: &mut Asked,
    watch: &mut dyn Watch,
) -> anyhow::Result<Run> {
    let _statuses = SigchldGuard::keep();
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let begin = Instant::now();
    let mut child = Child::start(what)?;
    child.wait_until_stopped(until)?;
    watch.begin(child.pid)?;
    signal_group(child.pid, rustix::process::Signal::CONT);
    let why = child.watched(until, stop, watch);
    watch.look();
    let wall = begin.elapsed();
    let reaped = child.end(matches!(why, Ok(Why::Ended)))?;
    Ok(Run { why: why?, reaped, wall, last_words: child.last_words() })
}

/// Runs a program until it ends, its time is up, its log was enough, or we are stopped.
pub(super) fn run(
    what: &What<'_>,
    until: Instant,
    stop: &mut Asked,
    log: Option<(LogPipe, Taker<'_>)>,
) -> anyhow::Result<Run> {
    let _statuses = SigchldGuard::keep();
    // Where this is refused, children that outlive their parents are not ours to end.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let begin = Instant::now();
    let mut child = Child::start(what)?;
    let mut log = log.map(|(pipe, taker)| (pipe.reader, taker));
    let why = child.follow(until, stop, log.as_mut());
    let wall = begin.elapsed();
    drop(log);
    let reaped = child.end(matches!(why, Ok(Why::Ended)))?;
    Ok(Run { why: why?, reaped, wall, last_words: child.last_words() })
}

/// The program; ended when this is dropped.
struct Child {
    pid: u32,
    descriptor: OwnedFd,
    errors: OwnedFd,
    said: Vec<u8>,
    is_over: bool,
    inherited: Inherited,
}

impl Child {
    fn start(what: &What<'_>) -> anyhow::Result<Self> {
        let (errors, errors_writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .context("cannot make a pipe")?;
        rustix::io::ioctl_fionbio(&errors, true).context("cannot prepare a pipe")?;
        let start = start(what, errors_writer)?;
        if let Some(inherited) = what.inherits {
            rustix::io::fcntl_setfd(inherited, FdFlags::empty())
                .context("cannot prepare a pipe")?;
        }
        let inherited = Inherited::now();
        let mut batch = SpawnBatch::new().context("cannot make a pipe")?;
        let pid = batch.fork(&start).context("cannot make a process")?;
        drop(start);
        let finished = batch.finish();
        if let Some(failure) = finished.failures.first() {
            anyhow::bail!("cannot start {}: {}", what.program.display(), failure.error);
        }
        finished.told.context("cannot tell whether the program was started")?;
        let raw = Pid::from_raw(pid.cast_signed()).context("a process has no number")?;
        let descriptor = rustix::process::pidfd_open(raw, PidfdFlags::empty());
        let descriptor =
            descriptor.inspect_err(|_| end_group(pid)).context("cannot watch the program")?;
        Ok(Child { pid, descriptor, errors, said: Vec::new(), is_over: false, inherited })
    }

    /// Stays with it as long as it is to run.
    fn follow(
        &mut self,
        until: Instant,
        stop: &mut Asked,
        mut log: Option<&mut (OwnedFd, Taker<'_>)>,
    ) -> anyhow::Result<Why> {
        let mut buffer = vec![0; PIPE_BYTES];
        loop {
            // Asked before reading: what it wrote before its end is in the pipe by then.
            let has_ended = is_readable(&self.descriptor)?;
            let mut n_read = 0;
            if let Some((reader, taker)) = log.as_deref_mut() {
                loop {
                    let n = read_some(reader, &mut buffer)?;
                    if taker(&buffer[..n]) {
                        return Ok(Why::Enough);
                    }
                    n_read += n;
                    if n == 0 || !has_ended {
                        break;
                    }
                }
            }
            self.hear();
            match () {
                () if stop.asked() => return Ok(Why::Stopped),
                () if has_ended => return Ok(Why::Ended),
                () if until <= Instant::now() => return Ok(Why::TimeUp),
                () if log.is_none() || n_read == 0 => self.wait(stop, log.as_deref(), until)?,
                () if n_read < WORTH_READING => std::thread::sleep(NAP),
                () => {}
            }
        }
    }

    /// Waits until it has stopped itself.
    fn wait_until_stopped(&mut self, until: Instant) -> anyhow::Result<()> {
        while linux::child_exit::next_stopped().is_none_or(|(pid, _)| pid != self.pid) {
            let is_late = until <= Instant::now();
            if is_late || is_readable(&self.descriptor)? {
                anyhow::bail!("the program did not get to its begin");
            }
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// As [`Child::follow`], in steps with a look after each.
    fn watched(
        &mut self,
        until: Instant,
        stop: &mut Asked,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Why> {
        loop {
            let step = until.min(Instant::now() + LOOK_EVERY);
            match self.follow(step, stop, None)? {
                Why::TimeUp if step < until => watch.look(),
                why => return Ok(why),
            }
        }
    }

    /// Waits until something happens.
    fn wait(
        &self,
        stop: &Asked,
        log: Option<&(OwnedFd, Taker<'_>)>,
        until: Instant,
    ) -> anyhow::Result<()> {
        let mut files = vec![
            PollFd::new(&self.descriptor, PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            PollFd::new(&self.errors, PollFlags::IN),
        ];
        files.extend(log.map(|(reader, _)| PollFd::new(reader, PollFlags::IN)));
        // A pipe that was closed before the end would wake us all the time.
        std::thread::sleep(NAP);
        let left = until.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        wait_for(&mut files, left)
    }

    /// Takes in what it wrote to its error output.
    fn hear(&mut self) {
        let mut buffer = [0; ERRORS_KEPT];
        while let Ok(n @ 1..) = read_some(&self.errors, &mut buffer) {
            self.said.extend_from_slice(&buffer[..n]);
            let surplus = self.said.len().saturating_sub(ERRORS_KEPT);
            self.said.drain(..surplus);
        }
    }

    fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.said);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.unwrap_or_default().chars().take(200).collect()
    }

    /// Ends it if it has not ended, and all that it left behind; waits for it.
    fn end(&mut self, has_ended: bool) -> anyhow::Result<ChildExit> {
        if !has_ended {
            self.ask_to_end();
        }
        self.is_over = true;
        end_group(self.pid);
        let reaped = reap(self.pid).context("cannot wait for the program")?;
        end_orphans(&self.inherited);
        self.hear();
        reaped.context("the program has not ended although it was killed")
    }

    fn ask_to_end(&mut self) {
        signal_group(self.pid, rustix::process::Signal::TERM);
        let until = Instant::now() + GRACE;
        while Instant::now() < until && !is_readable(&self.descriptor).unwrap_or(true) {
            self.hear();
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_over {
            end_group(self.pid);
            let _ = reap(self.pid);
            end_orphans(&self.inherited);
        }
    }
}

/// Its group is that of its number as long as nobody has waited for it.
fn signal_group(pid: u32, signal: rustix::process::Signal) {
    if let Some(group) = Pid::from_raw(pid.cast_signed()) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

fn end_group(pid: u32) {
    signal_group(pid, rustix::process::Signal::KILL);
}

/// Ends whatever has become our child because its parent is gone. We start one program at a time and have
/// waited for it, so all that is left belongs to it, but for whom a shell left us that became this program.
fn end_orphans(inherited: &Inherited) {
    /// Each round ends a generation; no family is so deep.
    const N_ROUNDS: u32 = 100;
    for _ in 0..N_ROUNDS {
        let orphans = inherited.own_others();
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

fn start(what: &What<'_>, errors: OwnedFd) -> anyhow::Result<SpawnRequest> {
    let input = what.input.unwrap_or(Path::new("/dev/null"));
    let input = File::open(input).with_context(|| format!("cannot read {}", input.display()))?;
    let output = File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
    let files = [input.into(), output.into(), errors];
    let start = SpawnRequest::as_ours(&what.program, what.args.iter().cloned(), files);
    let start = start.with_context(|| format!("cannot start {}", what.program.display()))?;
    Ok(SpawnRequest { env: linux::spawn::environment(&["VALGRIND_OPTS"]), ..start })
}

/// Reads what is there; 0 if nothing is, or nothing will ever be.
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

fn wait_for(files: &mut [PollFd<'_>], time: Duration) -> anyhow::Result<()> {
    let time = Timespec::try_from(time).context("a length of time is too long")?;
    match poll(files, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for the program"),
    }
}
