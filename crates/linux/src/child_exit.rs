//! Exit status and resource usage of children.

use std::io;

use base::{Bytes, Nanos};

use crate::fault;

/// A child that exited and was reaped. The resource usage includes the children that it has reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildExit {
    /// Exit status or signal.
    pub status: ChildStatus,
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in kernel mode.
    pub system: Nanos,
    /// Largest resident memory of the child and of the children that it has reaped.
    pub max_resident: Bytes,
    /// Number of page faults, minor and major.
    pub n_faults: u64,
    /// Number of context switches, voluntary and involuntary.
    pub n_switches: u64,
}

/// Guard that sets the default action of SIGCHLD and restores the previous action on drop. If SIGCHLD is ignored, the
/// kernel discards the exit status of children.
#[derive(Debug)]
pub struct SigchldGuard {
    was_ignored: bool,
}

impl SigchldGuard {
    /// Sets the default action of SIGCHLD if SIGCHLD was ignored.
    pub fn keep() -> Self {
        let was_ignored = crate::system::is_ignored(libc::SIGCHLD);
        if was_ignored {
            // No fault injection: the call fails for invalid signal numbers only.
            // SAFETY: no handler is set, only the default action.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
        SigchldGuard { was_ignored }
    }
}

impl Drop for SigchldGuard {
    fn drop(&mut self) {
        if self.was_ignored {
            // No fault injection: the call fails for invalid signal numbers only.
            // SAFETY: no handler is set, only the previous action.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
    }
}

/// Resource usage of several children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildUsage {
    /// Sum of CPU time in user mode.
    pub user: Nanos,
    /// Sum of CPU time in kernel mode.
    pub system: Nanos,
    /// Largest resident memory of one process.
    pub max_resident: Bytes,
    /// Sum of page faults.
    pub n_faults: u64,
    /// Sum of context switches.
    pub n_switches: u64,
}

impl ChildUsage {
    /// Adds one child.
    pub fn add(&mut self, child: &ChildExit) {
        self.user += child.user;
        self.system += child.system;
        self.max_resident = self.max_resident.max(child.max_resident);
        self.n_faults += child.n_faults;
        self.n_switches += child.n_switches;
    }
}

/// Exit status or signal of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildStatus {
    /// Exit status of a normal exit.
    Exited(i32),
    /// Number of the signal that terminated the child.
    Killed(i32),
}

/// Reaps a child if it has exited; returns `None` while the child runs. A reaped child has no files in `/proc`.
pub fn try_reap(pid: u32) -> io::Result<Option<ChildExit>> {
    wait4(pid, libc::WNOHANG)
}

/// Waits for a child to exit and reaps it.
pub fn reap(pid: u32) -> io::Result<Option<ChildExit>> {
    wait4(pid, 0)
}

/// Returns a child that was stopped by a signal since the last call, and the signal. Exited children are not reaped.
pub fn next_stopped() -> Option<(u32, i32)> {
    fault::inject("waitid").ok()?; // The next turn repeats the call.
    // SAFETY: all bits zero is a valid siginfo_t, which consists of integers.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WSTOPPED | libc::WNOHANG;
    // SAFETY: the pointer is to `info`, which outlives the call.
    let done = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, flags) };
    // SAFETY: the call has written these fields, or they are still zero.
    let (pid, signal) = unsafe { (info.si_pid(), info.si_status()) };
    (done == 0 && pid != 0).then_some((pid.unsigned_abs(), signal))
}

fn wait4(pid: u32, flags: i32) -> io::Result<Option<ChildExit>> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    if pid <= 0 {
        // PID 0 would select the process group.
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let mut status = 0;
    // SAFETY: all bits zero is a valid rusage, which consists of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    fault::retry("wait4", || {
        // SAFETY: both pointers are to local variables, which outlive the call.
        match unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut usage) } {
            ..0 => Err(io::Error::last_os_error()),
            0 => Ok(None),
            1.. => Ok(Some(reaped(status, &usage))),
        }
    })
}

fn reaped(status: i32, usage: &libc::rusage) -> ChildExit {
    let exit = if libc::WIFSIGNALED(status) {
        ChildStatus::Killed(libc::WTERMSIG(status))
    } else {
        ChildStatus::Exited(libc::WEXITSTATUS(status))
    };
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    ChildExit {
        status: exit,
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
