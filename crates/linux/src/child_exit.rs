//! How a child ended and what it used.

use std::io;

use base::{Bytes, Nanos};

use crate::fault;

/// A child that ended and has been waited for. Figures include children that it waited for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildExit {
    /// By itself with this status, or by a signal.
    pub status: ChildStatus,
    /// CPU time in its own code.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// The largest resident memory of one of its processes.
    pub max_resident: Bytes,
    /// Accesses to pages that were not mapped yet, those that waited for a disk among them.
    pub n_faults: u64,
    /// How often it left a CPU, to wait or because another's turn came.
    pub n_switches: u64,
}

/// As long as this lives, the kernel keeps how children ended until somebody waits for them. Whoever
/// started us may have had SIGCHLD ignored, and then it keeps nothing.
#[derive(Debug)]
pub struct SigchldGuard {
    was_ignored: bool,
}

impl SigchldGuard {
    /// From now on.
    pub fn keep() -> Self {
        let was_ignored = crate::system::is_ignored(libc::SIGCHLD);
        if was_ignored {
            // Not refused: it fails for numbers of no signals alone.
            // SAFETY: no handler is set, only the usual action.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
        SigchldGuard { was_ignored }
    }
}

impl Drop for SigchldGuard {
    fn drop(&mut self) {
        if self.was_ignored {
            // Not refused: it fails for numbers of no signals alone.
            // SAFETY: no handler is set, only what was there before.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
    }
}

/// What several children used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildUsage {
    /// CPU time in their own code, all together.
    pub user: Nanos,
    /// CPU time in the kernel, all together.
    pub system: Nanos,
    /// The largest resident memory of one process.
    pub max_resident: Bytes,
    /// Page faults, all together.
    pub n_faults: u64,
    /// Context switches, all together.
    pub n_switches: u64,
}

impl ChildUsage {
    /// Takes one more child in.
    pub fn add(&mut self, child: &ChildExit) {
        self.user += child.user;
        self.system += child.system;
        self.max_resident = self.max_resident.max(child.max_resident);
        self.n_faults += child.n_faults;
        self.n_switches += child.n_switches;
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStatus {
    /// It called exit with this status.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
}

/// Waits for a child if it has ended; `None` as long as it has not. It is gone after this: read what
/// `/proc` tells of it before.
pub fn try_reap(pid: u32) -> io::Result<Option<ChildExit>> {
    wait4(pid, libc::WNOHANG)
}

/// Waits for a child until it has ended.
pub fn reap(pid: u32) -> io::Result<Option<ChildExit>> {
    wait4(pid, 0)
}

/// A child that was stopped since this was last asked, and the signal that did it. One call tells
/// whether there is any, however many children there are; who has ended is left to [`try_reap`].
pub fn next_stopped() -> Option<(u32, i32)> {
    fault::refuse("waitid").ok()?; // The next turn asks again.
    // SAFETY: all bits zero is a valid siginfo: it is made of integers.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WNOHANG;
    // SAFETY: the pointer is to memory of ours that outlives the call.
    let done = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags) };
    // SAFETY: after a successful call these fields are what it has written, or still zero.
    let (pid, signal) = unsafe { (info.si_pid(), info.si_status()) };
    (done == 0 && pid != 0).then_some((pid.unsigned_abs(), signal))
}

fn wait4(pid: u32, flags: i32) -> io::Result<Option<ChildExit>> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    if pid <= 0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH)); // 0 would mean the whole group.
    }
    let mut status = 0;
    // SAFETY: all bits zero is a valid rusage: it is made of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    fault::retry("wait4", || {
        // SAFETY: both pointers are to memory of ours that outlives the call.
        match unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) } {
            ..0 => Err(io::Error::last_os_error()),
            0 => Ok(None),
            1.. => Ok(Some(reaped(status, &usage))),
        }
    })
}

fn reaped(status: i32, usage: &libc::rusage) -> ChildExit {
    let how = if libc::WIFSIGNALED(status) {
        ChildStatus::Killed(libc::WTERMSIG(status))
    } else {
        ChildStatus::Exited(libc::WEXITSTATUS(status))
    };
    let count = |told: libc::c_long| u64::try_from(told).unwrap_or(0);
    ChildExit {
        status: how,
        user: nanos(usage.ru_utime),
        system: nanos(usage.ru_stime),
        max_resident: Bytes::from_kib(count(usage.ru_maxrss)),
        n_faults: count(usage.ru_minflt) + count(usage.ru_majflt),
        n_switches: count(usage.ru_nvcsw) + count(usage.ru_nivcsw),
    }
}

fn nanos(time: libc::timeval) -> Nanos {
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Nanos(secs * 1_000_000_000 + micros * 1000)
}
