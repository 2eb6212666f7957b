//! Starts programs with their affinity, memory policy and cgroup set before exec.
//!
//! ```text
//!   parent:   fork ── fork ── fork ─── read until the pipe is closed ──► failures with stage and error
//!   child:       └─ process group, signals, files, CPUs, memory, exec ─(closes the pipe)
//! ```
//!
//! A child sets its affinity and memory policy between fork and exec, so that its first touch allocates memory on the
//! intended node. All children of a batch share one pipe that exec closes. With a thousand runnable tasks, waiting for
//! each program separately would take seconds.
//!
//! Between fork and exec a child makes only system calls, with arguments prepared before the fork. The child must not
//! allocate or lock: another thread of the parent may have held a lock at the time of the fork.

use std::ffi::{CString, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::ptr;

use base::CpuSet;
use rustix::process::Rlimit;

use crate::{affinity, fault, mempolicy};

/// A program and its initial state.
#[derive(Debug)]
pub struct SpawnRequest {
    /// Path of the executable, independent of the working directory and `PATH`.
    pub program: CString,
    /// Arguments, including the name of the program.
    pub args: Vec<CString>,
    /// Environment, `NAME=value` each.
    pub env: Vec<CString>,
    /// Working directory.
    pub dir: CString,
    /// Standard input, output and error.
    pub files: [OwnedFd; 3],
    /// Whether the program becomes the foreground process group of its standard input, which is a terminal
    /// ([`crate::foreground`]).
    pub is_foreground: bool,
    /// Affinity; `None`: inherited.
    pub cpus: Option<CpuSet>,
    /// Memory policy; `None`: inherited.
    pub memory: Option<mempolicy::Prepared>,
    /// `cgroup.procs` of a cgroup that binds the memory of the child instead of the memory policy
    /// ([`crate::cgroup::Cgroup::open_procs`]). A child that cannot join the cgroup uses the memory policy and is
    /// listed in [`SpawnResult::not_in_cgroup`].
    pub group: Option<OwnedFd>,
    /// Limit of open descriptors.
    pub descriptors: Rlimit,
    /// Nice value; `None`: inherited from the calling thread.
    pub nice: Option<i32>,
    /// Whether the kernel kills the program when the calling thread exits.
    pub dies_with_parent: bool,
}

impl SpawnRequest {
    /// Creates a request for a program that inherits working directory, environment, affinity and limits of this
    /// process. The kernel kills the program when this process exits.
    ///
    /// # Errors
    /// The working directory is unknown, or an argument contains a zero byte.
    pub fn inherit_from_self(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = OsString>,
        files: [OwnedFd; 3],
    ) -> io::Result<Self> {
        Ok(SpawnRequest {
            program: text(program)?,
            args: args.into_iter().map(text).collect::<Result<_, _>>()?,
            env: environment(&[]),
            dir: text(std::env::current_dir()?)?,
            files,
            is_foreground: false,
            cpus: None,
            memory: None,
            group: None,
            // No fault injection: the call cannot fail for the own process.
            descriptors: rustix::process::getrlimit(rustix::process::Resource::Nofile),
            nice: None,
            dies_with_parent: true,
        })
    }
}

/// Returns the environment of this process without the variables in `without`, `NAME=value` each.
pub fn environment(without: &[&str]) -> Vec<CString> {
    let selected =
        std::env::vars_os().filter(|(name, _)| without.iter().all(|excluded| name != excluded));
    let variable = |(mut variable, value): (OsString, OsString)| {
        variable.push("=");
        variable.push(value);
        text(variable).ok()
    };
    selected.filter_map(variable).collect()
}

/// Converts an argument to a C string.
///
/// # Errors
/// The text contains a zero byte.
pub fn text(word: impl Into<OsString>) -> io::Result<CString> {
    CString::new(word.into().into_vec()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "the command contains a zero byte")
    })
}

/// The operation at which a child failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnStage {
    /// Creating its process group.
    Group,
    /// Moving its process group to the foreground of the terminal.
    Foreground,
    /// Setting its standard streams.
    Files,
    /// Changing its working directory.
    Dir,
    /// Setting the limit of descriptors.
    Limit,
    /// Setting its affinity.
    Cpus,
    /// Setting its memory policy.
    Memory,
    /// Requesting SIGKILL at the exit of the parent.
    DeathSignal,
    /// Setting its nice value.
    Nice,
    /// Executing its program.
    Exec,
}

/// A child that failed before exec, exited and was reaped.
#[derive(Debug)]
pub struct SpawnFailure {
    /// PID.
    pub pid: u32,
    /// The failed operation.
    pub stage: SpawnStage,
    /// The error.
    pub error: io::Error,
}

/// Result of a batch.
#[derive(Debug)]
pub struct SpawnResult {
    /// Children that failed before exec.
    pub failures: Vec<SpawnFailure>,
    /// Children that could not join their cgroup, with the error.
    pub not_in_cgroup: Vec<(u32, io::Error)>,
    /// The error if the reports of the children could not be read completely.
    pub reports: io::Result<()>,
}

/// Programs that are started together.
#[derive(Debug)]
pub struct SpawnBatch {
    reader: OwnedFd,
    writer: OwnedFd,
    n_forked: u32,
}

const STAGES: [SpawnStage; 10] = [
    SpawnStage::Group,
    SpawnStage::Foreground,
    SpawnStage::Files,
    SpawnStage::Dir,
    SpawnStage::Limit,
    SpawnStage::Cpus,
    SpawnStage::Memory,
    SpawnStage::DeathSignal,
    SpawnStage::Nice,
    SpawnStage::Exec,
];

/// Value of the stage field if the child could not join its cgroup and continues without the cgroup.
const NOT_IN_CGROUP: u32 = u32::MAX;

/// A report consists of PID, stage and error number, 32 bits each. A write of this size to a pipe is atomic.
const REPORT_BYTES: usize = 12;

impl SpawnBatch {
    /// Creates a batch without children.
    pub fn new() -> io::Result<Self> {
        fault::inject("pipe2")?;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok(SpawnBatch { reader, writer, n_forked: 0 })
    }

    /// Forks a child that executes the program, and returns its PID without waiting for exec. [`SpawnBatch::finish`]
    /// returns whether exec succeeded.
    pub fn fork(&mut self, start: &SpawnRequest) -> io::Result<u32> {
        let args = pointers(&start.args);
        let env = pointers(&start.env);
        let report = self.writer.as_raw_fd();
        let parent = rustix::process::getpid();
        fault::inject("fork")?;
        // SAFETY: the child only makes system calls on values that were prepared above, and ends in exec or
        // _exit; it takes no lock and does not allocate.
        let forked = unsafe { libc::fork() };
        match forked {
            ..0 => Err(io::Error::last_os_error()),
            // SAFETY: the child of the fork above has one thread, and does not return.
            0 => unsafe {
                become_program(start, &args, &env, report, parent.as_raw_nonzero().get())
            },
            pid => {
                self.n_forked += 1;
                // Parent and child both call setpgid, so that the process group exists before one of them continues.
                // EACCES means that the child has already called exec. SAFETY: no pointers.
                unsafe { libc::setpgid(pid, pid) };
                Ok(pid.unsigned_abs())
            }
        }
    }

    /// Waits until every child has called exec or failed.
    pub fn finish(self) -> SpawnResult {
        drop(self.writer);
        let mut result = SpawnResult { failures: vec![], not_in_cgroup: vec![], reports: Ok(()) };
        if self.n_forked == 0 {
            return result;
        }
        let mut report = [0u8; REPORT_BYTES];
        loop {
            match read_whole(&self.reader, &mut report) {
                Ok(true) => result.add(&report),
                Ok(false) => return result,
                Err(error) => return SpawnResult { reports: Err(error), ..result },
            }
        }
    }
}

impl SpawnResult {
    /// Adds the report of a child. Reaps a child that failed.
    fn add(&mut self, report: &[u8; REPORT_BYTES]) {
        let word = |idx: usize| {
            let bytes = [0, 1, 2, 3].map(|byte| report[idx * 4 + byte]);
            u32::from_ne_bytes(bytes)
        };
        let pid = word(0);
        let error = io::Error::from_raw_os_error(word(2).cast_signed());
        if word(1) == NOT_IN_CGROUP {
            return self.not_in_cgroup.push((pid, error));
        }
        let stage = STAGES.get(word(1) as usize).copied().unwrap_or(SpawnStage::Exec);
        // An error means that the child was reaped already.
        let _ = crate::child_exit::reap(pid);
        self.failures.push(SpawnFailure { pid, stage, error });
    }
}

/// Fills the buffer. Returns false at the end of the pipe.
fn read_whole(pipe: &OwnedFd, buffer: &mut [u8]) -> io::Result<bool> {
    let mut n_read = 0;
    while n_read < buffer.len() {
        match fault::retry("read", || Ok(rustix::io::read(pipe, &mut buffer[n_read..])?))? {
            0 => return Ok(false),
            n_bytes => n_read += n_bytes,
        }
    }
    Ok(true)
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Executes the program in the child. Never returns.
///
/// # Safety
/// Must be called in a newly forked child, with lists that end in a null pointer.
unsafe fn become_program(
    start: &SpawnRequest,
    args: &[*const libc::c_char],
    env: &[*const libc::c_char],
    report: RawFd,
    parent: libc::pid_t,
) -> ! {
    // SAFETY: the caller is a newly forked child; all calls below are system calls on values that live until
    // the exec.
    unsafe {
        let exec = || libc::execve(start.program.as_ptr(), args.as_ptr(), env.as_ptr());
        if let Err((stage, error)) =
            prepare(start, report, parent).and_then(|()| check("execve", SpawnStage::Exec, exec))
        {
            send_report(report, stage as u32, error);
        }
        libc::_exit(127)
    }
}

/// The failed operation and the error number.
type Failed = (SpawnStage, i32);

/// Makes a call in a child, and repeats it while it is interrupted by a signal. Does not allocate.
fn check(
    name: &'static str,
    stage: SpawnStage,
    mut call: impl FnMut() -> libc::c_int,
) -> Result<(), Failed> {
    let call = || if call() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    fault::retry(name, call).map_err(|error| (stage, number(&error)))
}

fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Writes a report.
///
/// # Safety
/// As for [`become_program`].
unsafe fn send_report(report: RawFd, code: u32, error: i32) {
    let words = [std::process::id(), code, error.cast_unsigned()];
    // No fault injection: the report describes an earlier call. If the report cannot be written, the parent has exited;
    // the exit status of the child shows the failure too.
    // SAFETY: the pointer is to a local array of REPORT_BYTES bytes.
    unsafe { libc::write(report, words.as_ptr().cast(), REPORT_BYTES) };
}

/// Moves the child to the cgroup of the request, if the request has a cgroup. Returns whether the cgroup binds the
/// memory of the child. If the move fails, the child sends a report and continues.
///
/// # Safety
/// As for [`become_program`].
unsafe fn enter_group(start: &SpawnRequest, report: RawFd) -> bool {
    let Some(procs) = &start.group else { return false };
    let enter = || {
        // SAFETY: the pointer is to a static byte.
        let n_written = unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) };
        if n_written < 1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    let Err(error) = fault::retry("write", enter) else { return true };
    // SAFETY: as for the caller.
    unsafe { send_report(report, NOT_IN_CGROUP, number(&error)) };
    false
}

/// Sets the initial state of the child.
///
/// # Safety
/// As for [`become_program`].
unsafe fn prepare(start: &SpawnRequest, report: RawFd, parent: libc::pid_t) -> Result<(), Failed> {
    // SAFETY: system calls on values that live until the exec.
    unsafe {
        check("setpgid", SpawnStage::Group, || libc::setpgid(0, 0))?;
        if start.is_foreground {
            // SIGTTOU is still blocked, as in the parent.
            let set = || libc::tcsetpgrp(start.files[0].as_raw_fd(), libc::getpgrp());
            check("tcsetpgrp", SpawnStage::Foreground, set)?;
        }
        reset_signals();
        for (file, number) in start.files.iter().zip(0..) {
            check("dup2", SpawnStage::Files, || libc::dup2(file.as_raw_fd(), number))?;
        }
        check("chdir", SpawnStage::Dir, || libc::chdir(start.dir.as_ptr()))?;
        let limit = |value: Option<u64>| value.unwrap_or(libc::RLIM_INFINITY);
        let rlimit = libc::rlimit {
            rlim_cur: limit(start.descriptors.current),
            rlim_max: limit(start.descriptors.maximum),
        };
        let set = || libc::setrlimit(libc::RLIMIT_NOFILE, &raw const rlimit);
        check("setrlimit", SpawnStage::Limit, set)?;
    }
    // The cgroup is joined before the affinity is set: before Linux 6.2 a thread that changes its cpuset receives all
    // CPUs of the new cpuset. SAFETY: as for the caller.
    let is_bound = unsafe { enter_group(start, report) };
    if let Some(cpus) = &start.cpus {
        affinity::set(0, cpus).map_err(|error| (SpawnStage::Cpus, number(&error)))?;
    }
    if let Some(memory) = start.memory.as_ref().filter(|_| !is_bound) {
        memory.apply().map_err(|error| (SpawnStage::Memory, number(&error)))?;
    }
    if start.dies_with_parent {
        // SAFETY: no pointers.
        unsafe {
            let request = || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            check("prctl", SpawnStage::DeathSignal, request)?;
            if libc::getppid() != parent {
                libc::_exit(127); // The parent exited before prctl(2).
            }
        }
    }
    if let Some(nice) = start.nice {
        // The nice value is set last, so that the previous steps run with the priority of evenkeel on a busy machine.
        // SAFETY: no pointers.
        let set = || unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
        check("setpriority", SpawnStage::Nice, set)?;
    }
    Ok(())
}

/// Signals with the default action in a job. The action of SIGHUP is inherited: if evenkeel runs under nohup(1), its
/// jobs ignore SIGHUP too.
const DEFAULT_SIGNALS: [libc::c_int; 9] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGPIPE,
    libc::SIGXFSZ,
    libc::SIGCHLD,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// Sets default actions and an empty signal mask.
///
/// # Safety
/// Must be called in a newly forked child.
unsafe fn reset_signals() {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // No fault injection: the calls fail for invalid signal numbers only.
    // SAFETY: sigemptyset initializes the set before it is used; the other calls have no pointers.
    unsafe {
        for signal in DEFAULT_SIGNALS {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child_exit::{ChildStatus, reap};
    use std::fs::File;
    use std::io::{Read, Seek};

    fn text(text: &str) -> CString {
        CString::new(text).expect("no zero byte")
    }

    fn shell(script: &str, out: &File) -> SpawnRequest {
        let null = || OwnedFd::from(File::open("/dev/null").expect("the null device"));
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        SpawnRequest {
            program: text("/bin/sh"),
            args: ["sh", "-c", script].map(text).into(),
            env: vec![text("PATH=/usr/bin:/bin"), text("GREETING=hello")],
            dir: text("/"),
            files: [null(), out.try_clone().expect("a descriptor").into(), null()],
            is_foreground: false,
            cpus: None,
            memory: None,
            group: None,
            descriptors: limit,
            nice: None,
            dies_with_parent: false,
        }
    }

    fn finish(batch: SpawnBatch) -> Vec<SpawnFailure> {
        let result = batch.finish();
        result.reports.expect("a pipe");
        result.failures
    }

    fn output(out: &mut File) -> String {
        let mut text = String::new();
        out.rewind().expect("a file");
        out.read_to_string(&mut text).expect("text");
        text
    }

    #[test]
    fn a_child_has_its_cpus_directory_environment_and_limit_from_its_first_instruction() {
        let one: CpuSet = affinity::get(0).expect("own mask").last().into_iter().collect();
        let mut out = tempfile::tempfile().expect("a file");
        let script = "pwd; echo $GREETING; ulimit -Sn; grep Cpus_allowed_list /proc/self/status";
        let mut start = shell(script, &out);
        start.cpus = Some(one.clone());
        start.descriptors.current = Some(99);
        let mut batch = SpawnBatch::new().expect("a pipe");
        let pid = batch.fork(&start).expect("a child");
        assert!(finish(batch).is_empty());
        assert_eq!(
            reap(pid).expect("a child of the test").expect("the child ended").status,
            ChildStatus::Exited(0)
        );
        assert_eq!(output(&mut out), format!("/\nhello\n99\nCpus_allowed_list:\t{one}\n"));
    }

    #[test]
    fn a_child_has_its_own_process_group_in_the_session_of_its_parent() {
        let out = tempfile::tempfile().expect("a file");
        let mut batch = SpawnBatch::new().expect("a pipe");
        let pid = batch.fork(&shell("exec sleep 60", &out)).expect("a child");
        assert!(finish(batch).is_empty());
        let root = std::path::Path::new("/");
        let child = crate::procfs::stat(root, pid).expect("alive");
        let parent = crate::procfs::stat(root, std::process::id()).expect("alive");
        assert_eq!((child.group, child.session), (pid, parent.session));
        // SAFETY: no pointers; the child was not reaped.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        assert_eq!(
            reap(pid).expect("a child of the test").expect("the child ended").status,
            ChildStatus::Killed(9)
        );
    }

    #[test]
    fn a_child_starts_with_default_signal_actions_and_no_blocked_signal() {
        crate::system::ignore_file_size_signal();
        let mut out = tempfile::tempfile().expect("a file");
        let mut batch = SpawnBatch::new().expect("a pipe");
        let script = "exec sed -n 's/^Sig\\(Blk\\|Ign\\):.*[^0-9a-f]//p' /proc/self/status";
        let pid = batch.fork(&shell(script, &out)).expect("a child");
        assert!(finish(batch).is_empty());
        reap(pid).expect("a child of the test").expect("the child ended");
        let text = output(&mut out);
        let mut masks = text.lines().map(|mask| u64::from_str_radix(mask, 16).expect("a mask"));
        let reset = DEFAULT_SIGNALS.iter().map(|signal| 1 << (signal - 1)).sum::<u64>();
        assert_eq!(masks.next(), Some(0), "blocked signals");
        assert_eq!(masks.next().map(|ignored| ignored & reset), Some(0), "ignored signals");
    }

    #[test]
    fn a_child_that_cannot_start_is_reported_with_stage_and_error() {
        let out = tempfile::tempfile().expect("a file");
        let fails = |change: &dyn Fn(&mut SpawnRequest)| {
            let mut start = shell("exit 0", &out);
            change(&mut start);
            let mut batch = SpawnBatch::new().expect("a pipe");
            let fine = batch.fork(&shell("exit 3", &out)).expect("a child");
            let pid = batch.fork(&start).expect("a child");
            let failures = finish(batch);
            assert_eq!(
                reap(fine).expect("a child of the test").expect("the child ended").status,
                ChildStatus::Exited(3)
            );
            assert_eq!(failures.iter().map(|f| f.pid).collect::<Vec<_>>(), [pid]);
            (failures[0].stage, failures[0].error.raw_os_error())
        };
        let nowhere = || text("/proc/nonexistent");
        assert_eq!(fails(&|s| s.program = nowhere()), (SpawnStage::Exec, Some(libc::ENOENT)));
        assert_eq!(fails(&|s| s.dir = nowhere()), (SpawnStage::Dir, Some(libc::ENOENT)));
        let no_cpu = Some(CpuSet::new());
        assert_eq!(fails(&|s| s.cpus.clone_from(&no_cpu)), (SpawnStage::Cpus, Some(libc::EINVAL)));
    }

    #[test]
    fn a_child_that_cannot_join_its_cgroup_starts_and_is_reported() {
        let mut out = tempfile::tempfile().expect("a file");
        let mut start = shell("echo here", &out);
        // /dev/null is opened read-only, so the write fails.
        start.group = Some(File::open("/dev/null").expect("the null device").into());
        let mut batch = SpawnBatch::new().expect("a pipe");
        let pid = batch.fork(&start).expect("a child");
        let result = batch.finish();
        assert!(result.failures.is_empty(), "{result:?}");
        let outside = result.not_in_cgroup.iter().map(|(pid, error)| (*pid, error.raw_os_error()));
        assert_eq!(outside.collect::<Vec<_>>(), [(pid, Some(libc::EBADF))]);
        assert_eq!(
            reap(pid).expect("a child of the test").expect("the child ended").status,
            ChildStatus::Exited(0)
        );
        assert_eq!(output(&mut out), "here\n");
    }
}
