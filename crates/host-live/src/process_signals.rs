//! POSIX signals to processes, which are identified by PID and start time.
//!
//! The kernel reuses PIDs. A pidfd is therefore opened first. The signal is sent through the pidfd only if the start
//! time of the process matches.

use linux::{fault, procfs};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process,
};

use linux::tasks::KeptFile;

/// Result of sending a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalResult {
    /// The signal was sent, or the process has exited.
    Done,
    /// The process belongs to another user, and `CAP_KILL` is missing.
    NotPermitted,
}

/// Sends a signal to a process with this PID and start time (clock ticks since boot). If the PID was reused, no signal
/// is sent.
pub fn send(pid: u32, start_time_ticks: u64, signal: Signal) -> SignalResult {
    let Some(number) = Pid::from_raw(pid.cast_signed()) else { return SignalResult::Done };
    let open = || Ok(pidfd_open(number, PidfdFlags::empty())?);
    match fault::retry("pidfd_open", open) {
        Ok(file) if is_same(pid, start_time_ticks) => {
            signal_result(pidfd_send_signal(file, signal))
        }
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => SignalResult::Done,
        // If no descriptor is free, kill(2) is called immediately after the comparison of the start times.
        Err(_) if is_same(pid, start_time_ticks) => signal_result(kill_process(number, signal)),
        _ => SignalResult::Done,
    }
}

pub(crate) fn send_through(pidfd: &KeptFile, signal: Signal) -> SignalResult {
    signal_result(pidfd_send_signal(pidfd, signal))
}

/// Sends a signal to a process group. The group leader must not have been reaped: the kernel could reuse its PID.
pub(crate) fn send_to_group(group: u32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group.cast_signed()) {
        let _ = kill_process_group(group, signal);
    }
}

/// Returns whether evenkeel may send signals to a child that has not been reaped.
pub(crate) fn is_permitted(child: u32) -> bool {
    Pid::from_raw(child.cast_signed()).is_none_or(|pid| test_kill_process(pid) != Err(Errno::PERM))
}

fn is_same(pid: u32, start_time_ticks: u64) -> bool {
    procfs::stat("/".as_ref(), pid).is_ok_and(|stat| stat.start_time_ticks == start_time_ticks)
}

fn signal_result(result: rustix::io::Result<()>) -> SignalResult {
    if result == Err(Errno::PERM) { SignalResult::NotPermitted } else { SignalResult::Done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_process_that_reuses_the_pid_gets_no_signal() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let start = procfs::stat("/".as_ref(), child.id()).expect("it is running").start_time_ticks;
        assert_eq!(send(child.id(), start - 1, Signal::KILL), SignalResult::Done);
        assert_eq!(send(child.id(), start, Signal::TERM), SignalResult::Done);
        // An earlier SIGKILL would have terminated the child.
        assert_eq!(child.wait().expect("own child").signal(), Some(15));
        assert_eq!(send(child.id(), start, Signal::TERM), SignalResult::Done);
    }
}
