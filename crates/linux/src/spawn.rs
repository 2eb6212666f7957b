//! Starting programs, bound before they begin.
//!
//! ```text
//!   we:     fork ── fork ── fork ─── read until the pipe is closed ──► who could not start, and why
//!   child:      └─ group, signals, files, CPUs, memory, exec ─(closes the pipe)
//! ```
//!
//! A child binds itself to its CPUs and its memory between fork and exec, so that its very first
//! touch of memory falls right. All children of one instant share one pipe that closes by itself on
//! exec: nobody waits for each program in turn, which would take seconds beside a thousand busy ones.
//!
//! Between fork and exec only system calls are made, on values prepared before: another thread of
//! ours may have held any lock at the moment of the fork.

use std::ffi::{CString, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::ptr;

use base::CpuSet;
use rustix::process::Rlimit;

use crate::{affinity, fault, mempolicy};

/// A program with everything that it is to find when it begins.
#[derive(Debug)]
pub struct SpawnRequest {
    /// The file to run, as a path that does not depend on the folder or on `PATH`.
    pub program: CString,
    /// Its arguments, its own name first.
    pub args: Vec<CString>,
    /// Its environment, `NAME=value` each.
    pub env: Vec<CString>,
    /// The folder that it begins in.
    pub dir: CString,
    /// Standard input, output and error output.
    pub files: [OwnedFd; 3],
    /// The CPUs that it may run on; absent: those of evenkeel.
    pub cpus: Option<CpuSet>,
    /// Where its memory comes from; absent: as for evenkeel.
    pub memory: Option<mempolicy::Prepared>,
    /// The door of a group ([`crate::cgroup::Group::door`]) that binds its memory instead. A child that
    /// is not let in goes on with the policy above, which [`Finished::stayed_out`] tells.
    pub group: Option<OwnedFd>,
    /// How many descriptors it may open.
    pub descriptors: Rlimit,
    /// The nice value that it begins with; absent: that of the thread that starts it.
    pub nice: Option<i32>,
    /// Whether the kernel ends it when the thread that starts it ends.
    pub dies_with_parent: bool,
}

impl SpawnRequest {
    /// A program that begins as we did: in our folder and environment, on our CPUs and with our
    /// descriptors. Its life is tied to ours.
    ///
    /// # Errors
    /// The present folder cannot be told, or a zero byte stands in a word.
    pub fn as_ours(
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
            cpus: None,
            memory: None,
            group: None,
            // Not refused: of our own process it cannot be.
            descriptors: rustix::process::getrlimit(rustix::process::Resource::Nofile),
            nice: None,
            dies_with_parent: true,
        })
    }
}

/// Our own environment without these variables, `NAME=value` each.
pub fn environment(without: &[&str]) -> Vec<CString> {
    let wanted = std::env::vars_os().filter(|(name, _)| without.iter().all(|its| name != its));
    let variable = |(mut variable, value): (OsString, OsString)| {
        variable.push("=");
        variable.push(value);
        text(variable).ok()
    };
    wanted.filter_map(variable).collect()
}

/// A word as the kernel takes it.
///
/// # Errors
/// A zero byte stands in it.
pub fn text(word: impl Into<OsString>) -> io::Result<CString> {
    CString::new(word.into().into_vec()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "a zero byte stands in the command")
    })
}

/// What a child was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnStage {
    /// Making a process group of its own.
    Group,
    /// Taking over its files.
    Files,
    /// Going to its folder.
    Dir,
    /// Getting back the limit of descriptors.
    Limit,
    /// Binding itself to its CPUs.
    Cpus,
    /// Choosing where its memory comes from.
    Memory,
    /// Tying its life to ours.
    Tie,
    /// Giving back the priority that evenkeel raised for itself.
    Nice,
    /// Becoming the program.
    Exec,
}

/// A child that could not become its program. It has ended and been waited for.
#[derive(Debug)]
pub struct SpawnFailure {
    /// Its process number.
    pub pid: u32,
    /// What it was doing.
    pub stage: SpawnStage,
    /// What the kernel said.
    pub error: io::Error,
}

/// What became of all children of a batch.
#[derive(Debug)]
pub struct SpawnResult {
    /// Those that did not become their program.
    pub failures: Vec<SpawnFailure>,
    /// Those that did without the group that was meant for them, and what the kernel said.
    pub stayed_out: Vec<(u32, io::Error)>,
    /// An error says that not all can be told.
    pub told: io::Result<()>,
}

/// Programs started at one instant.
#[derive(Debug)]
pub struct SpawnBatch {
    reader: OwnedFd,
    writer: OwnedFd,
    n_forked: u32,
}

const STAGES: [SpawnStage; 9] = [
    SpawnStage::Group,
    SpawnStage::Files,
    SpawnStage::Dir,
    SpawnStage::Limit,
    SpawnStage::Cpus,
    SpawnStage::Memory,
    SpawnStage::Tie,
    SpawnStage::Nice,
    SpawnStage::Exec,
];

/// Not a failure: the child goes on. Stands in a report where a stage would.
const STAYED_OUT: u32 = u32::MAX;

/// A child with something to tell writes its process number, the stage and the error number, 32 bits each: less than
/// what a pipe takes in one piece, so reports never mix.
const REPORT_BYTES: usize = 12;

impl SpawnBatch {
    /// Nothing started yet.
    pub fn new() -> io::Result<Self> {
        fault::refuse("pipe2")?;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok(SpawnBatch { reader, writer, n_forked: 0 })
    }

    /// Makes a child that becomes the program, and returns its process number at once. Whether it
    /// became the program is told by [`Batch::finish`].
    pub fn fork(&mut self, start: &SpawnRequest) -> io::Result<u32> {
        let args = pointers(&start.args);
        let env = pointers(&start.env);
        let report = self.writer.as_raw_fd();
        let parent = rustix::process::getpid();
        fault::refuse("fork")?;
        // SAFETY: the child makes system calls only, on values that were prepared above, and ends in
        // exec or _exit; it takes no lock and allocates nothing.
        let forked = unsafe { libc::fork() };
        match forked {
            ..0 => Err(io::Error::last_os_error()),
            // SAFETY: we are the child of the fork just above, alone in it, and do not return.
            0 => unsafe {
                become_program(start, &args, &env, report, parent.as_raw_nonzero().get())
            },
            pid => {
                self.n_forked += 1;
                // The child does the same; whoever comes first spares the other a race. Too late
                // (EACCES, after its exec) means that the child has done it.
                // SAFETY: a call on two numbers.
                unsafe { libc::setpgid(pid, pid) };
                Ok(pid.unsigned_abs())
            }
        }
    }

    /// Waits until every child has become its program or failed, and tells those that failed.
    pub fn finish(self) -> SpawnResult {
        drop(self.writer);
        let mut finished = SpawnResult { failures: vec![], stayed_out: vec![], told: Ok(()) };
        if self.n_forked == 0 {
            return finished;
        }
        let mut report = [0u8; REPORT_BYTES];
        loop {
            match read_whole(&self.reader, &mut report) {
                Ok(true) => finished.take(&report),
                Ok(false) => return finished,
                Err(error) => return SpawnResult { told: Err(error), ..finished },
            }
        }
    }
}

impl SpawnResult {
    /// What a child has written; one on its way out is waited for.
    fn take(&mut self, report: &[u8; REPORT_BYTES]) {
        let word = |idx: usize| {
            let bytes = [0, 1, 2, 3].map(|byte| report[idx * 4 + byte]);
            u32::from_ne_bytes(bytes)
        };
        let pid = word(0);
        let error = io::Error::from_raw_os_error(word(2).cast_signed());
        if word(1) == STAYED_OUT {
            return self.stayed_out.push((pid, error));
        }
        let stage = STAGES.get(word(1) as usize).copied().unwrap_or(SpawnStage::Exec);
        // Who cannot be waited for is gone already: somebody else did it, or nobody keeps statuses.
        let _ = crate::child_exit::reap(pid);
        self.failures.push(SpawnFailure { pid, stage, error });
    }
}

/// Fills the buffer; false at the end of the pipe.
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

/// What the child does. Never returns.
///
/// # Safety
/// To be called in a freshly forked child, with lists that end in a null pointer.
unsafe fn become_program(
    start: &SpawnRequest,
    args: &[*const libc::c_char],
    env: &[*const libc::c_char],
    report: RawFd,
    parent: libc::pid_t,
) -> ! {
    // SAFETY: the caller is a freshly forked child; everything below is a system call on values
    // that live until the exec.
    unsafe {
        let exec = || libc::execve(start.program.as_ptr(), args.as_ptr(), env.as_ptr());
        if let Err((stage, error)) =
            prepare(start, report, parent).and_then(|()| check("execve", SpawnStage::Exec, exec))
        {
            tell(report, stage as u32, error);
        }
        libc::_exit(127)
    }
}

/// What a child was doing when it failed, and the kernel's number for why.
type Failed = (SpawnStage, i32);

/// Makes a call of a child; one that a signal interrupted is made again. Allocates nothing.
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
unsafe fn tell(report: RawFd, what: u32, error: i32) {
    let words = [std::process::id(), what, error.cast_unsigned()];
    // Not refused: the report tells of what was. If it cannot be written our parent is gone, and nobody
    // needs to know; of a child that did not tell, its end does.
    // SAFETY: a system call on values that live here.
    unsafe { libc::write(report, words.as_ptr().cast(), REPORT_BYTES) };
}

/// Goes into the group that is meant for the child, if there is one; tells whether its memory is bound
/// now. On failure that is reported, and the child goes on.
///
/// # Safety
/// As for [`become_program`].
unsafe fn enter_group(start: &SpawnRequest, report: RawFd) -> bool {
    let Some(door) = &start.group else { return false };
    let enter = || {
        // SAFETY: a call on a byte that lives.
        let n_written = unsafe { libc::write(door.as_raw_fd(), c"0".as_ptr().cast(), 1) };
        if n_written < 1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    let Err(error) = fault::retry("write", enter) else { return true };
    // SAFETY: as for the caller.
    unsafe { tell(report, STAYED_OUT, number(&error)) };
    false
}

/// Sets up the child.
///
/// # Safety
/// As for [`become_program`].
unsafe fn prepare(start: &SpawnRequest, report: RawFd, parent: libc::pid_t) -> Result<(), Failed> {
    // SAFETY: system calls on values that live until the exec.
    unsafe {
        check("setpgid", SpawnStage::Group, || libc::setpgid(0, 0))?;
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
    // Before the CPUs: old kernels give whoever changes its cpuset all CPUs of the new one.
    // SAFETY: as for the caller.
    let is_bound = unsafe { enter_group(start, report) };
    if let Some(cpus) = &start.cpus {
        affinity::set(0, cpus).map_err(|error| (SpawnStage::Cpus, number(&error)))?;
    }
    if let Some(memory) = start.memory.as_ref().filter(|_| !is_bound) {
        memory.apply().map_err(|error| (SpawnStage::Memory, number(&error)))?;
    }
    if start.dies_with_parent {
        // SAFETY: calls on numbers.
        unsafe {
            let tie = || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            check("prctl", SpawnStage::Tie, tie)?;
            if libc::getppid() != parent {
                libc::_exit(127); // Our parent ended before the tie held.
            }
        }
    }
    if let Some(nice) = start.nice {
        // Last, so that what comes before is done soon, however busy the machine is.
        // SAFETY: a call on numbers.
        let set = || unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
        check("setpriority", SpawnStage::Nice, set)?;
    }
    Ok(())
}

/// Signals that a job reacts to in the usual way whatever evenkeel does about them. Not the hang-up:
/// who started evenkeel under `nohup` wants its jobs to survive as well.
const USUAL: [libc::c_int; 8] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGPIPE,
    libc::SIGCHLD,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// # Safety
/// In a freshly forked child.
unsafe fn reset_signals() {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // Not refused: these fail for numbers of no signals alone.
    // SAFETY: sigemptyset fills the set before it is used; the other calls take numbers.
    unsafe {
        for signal in USUAL {
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
            cpus: None,
            memory: None,
            group: None,
            descriptors: limit,
            nice: None,
            dies_with_parent: false,
        }
    }

    fn finish(batch: SpawnBatch) -> Vec<SpawnFailure> {
        let finished = batch.finish();
        finished.told.expect("a pipe");
        finished.failures
    }

    fn said(out: &mut File) -> String {
        let mut said = String::new();
        out.rewind().expect("a file");
        out.read_to_string(&mut said).expect("text");
        said
    }

    #[test]
    fn a_child_finds_its_cpus_folder_environment_and_limit_before_its_first_instruction() {
        let one: CpuSet = affinity::get(0).expect("own mask").last().into_iter().collect();
        let mut out = tempfile::tempfile().expect("a file");
        let script = "pwd; echo $GREETING; ulimit -Sn; grep Cpus_allowed_list /proc/self/status";
        let mut start = shell(script, &out);
        start.cpus = Some(one.clone());
        start.descriptors.current = Some(99);
        let mut batch = SpawnBatch::new().expect("a pipe");
        let pid = batch.fork(&start).expect("a child");
        assert!(finish(batch).is_empty());
        assert_eq!(reap(pid).expect("our child").expect("it ended").status, ChildStatus::Exited(0));
        assert_eq!(said(&mut out), format!("/\nhello\n99\nCpus_allowed_list:\t{one}\n"));
    }

    #[test]
    fn a_child_has_a_group_of_its_own_in_our_session() {
        let out = tempfile::tempfile().expect("a file");
        let mut batch = SpawnBatch::new().expect("a pipe");
        let pid = batch.fork(&shell("exec sleep 60", &out)).expect("a child");
        assert!(finish(batch).is_empty());
        let root = std::path::Path::new("/");
        let its = crate::procfs::stat(root, pid).expect("alive");
        let ours = crate::procfs::stat(root, std::process::id()).expect("alive");
        assert_eq!((its.group, its.session), (pid, ours.session));
        // SAFETY: a call on numbers; the child is ours and not waited for.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        assert_eq!(reap(pid).expect("our child").expect("it ended").status, ChildStatus::Killed(9));
    }

    #[test]
    fn who_cannot_start_is_told_with_the_stage_and_the_kernels_word() {
        let out = tempfile::tempfile().expect("a file");
        let fails = |change: &dyn Fn(&mut SpawnRequest)| {
            let mut start = shell("exit 0", &out);
            change(&mut start);
            let mut batch = SpawnBatch::new().expect("a pipe");
            let fine = batch.fork(&shell("exit 3", &out)).expect("a child");
            let pid = batch.fork(&start).expect("a child");
            let failures = finish(batch);
            assert_eq!(
                reap(fine).expect("our child").expect("it ended").status,
                ChildStatus::Exited(3)
            );
            assert_eq!(failures.iter().map(|f| f.pid).collect::<Vec<_>>(), [pid]);
            (failures[0].stage, failures[0].error.raw_os_error())
        };
        let nowhere = || text("/nonexistent");
        assert_eq!(fails(&|s| s.program = nowhere()), (SpawnStage::Exec, Some(libc::ENOENT)));
        assert_eq!(fails(&|s| s.dir = nowhere()), (SpawnStage::Dir, Some(libc::ENOENT)));
        let no_cpu = Some(CpuSet::new());
        assert_eq!(fails(&|s| s.cpus.clone_from(&no_cpu)), (SpawnStage::Cpus, Some(libc::EINVAL)));
    }

    #[test]
    fn who_is_not_let_into_its_group_starts_all_the_same_and_tells() {
        let mut out = tempfile::tempfile().expect("a file");
        let mut start = shell("echo here", &out);
        // A door that cannot be written.
        start.group = Some(File::open("/dev/null").expect("the null device").into());
        let mut batch = SpawnBatch::new().expect("a pipe");
        let pid = batch.fork(&start).expect("a child");
        let finished = batch.finish();
        assert!(finished.failures.is_empty(), "{finished:?}");
        let stayed_out =
            finished.stayed_out.iter().map(|(pid, error)| (*pid, error.raw_os_error()));
        assert_eq!(stayed_out.collect::<Vec<_>>(), [(pid, Some(libc::EBADF))]);
        assert_eq!(reap(pid).expect("our child").expect("it ended").status, ChildStatus::Exited(0));
        assert_eq!(said(&mut out), "here\n");
    }
}
