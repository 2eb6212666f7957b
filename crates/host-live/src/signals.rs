//! Signals to exactly those who are meant.
//!
//! Numbers of processes are used again. Who is known by number and birth is therefore held by a
//! descriptor first, and signalled only if the birth is right: the number cannot change hands then.

use linux::{fault, procfs};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process,
};

use linux::tasks::KeptFile;

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was sent, or nobody was there any more to get it.
    Done,
    /// It is another user's process, which needs `CAP_KILL`.
    NotPermitted,
}

/// To a process that is known by number and birth (in clock ticks since boot): whoever has the number now
/// and was born at another time gets nothing.
pub fn send(pid: u32, born_ticks: u64, signal: Signal) -> Sent {
    let Some(number) = Pid::from_raw(pid.cast_signed()) else { return Sent::Done };
    let open = || Ok(pidfd_open(number, PidfdFlags::empty())?);
    match fault::retry("pidfd_open", open) {
        Ok(file) if is_born(pid, born_ticks) => sent(pidfd_send_signal(file, signal)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Sent::Done,
        // No descriptor is to be had: then the number, of whom we have just looked at.
        Err(_) if is_born(pid, born_ticks) => sent(kill_process(number, signal)),
        _ => Sent::Done,
    }
}

/// To a process by the descriptor of its end.
pub(crate) fn send_by(ends: &KeptFile, signal: Signal) -> Sent {
    sent(pidfd_send_signal(ends, signal))
}

/// To a process group whose first process has not been waited for, so that the number is still its.
pub(crate) fn send_to_group(group: u32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group.cast_signed()) {
        let _ = kill_process_group(group, signal);
    }
}

/// Whether a child of ours that has not been waited for may be signalled by us.
pub(crate) fn is_permitted(child: u32) -> bool {
    Pid::from_raw(child.cast_signed()).is_none_or(|pid| test_kill_process(pid) != Err(Errno::PERM))
}

fn is_born(pid: u32, born_ticks: u64) -> bool {
    procfs::stat("/".as_ref(), pid).is_ok_and(|stat| stat.born_ticks == born_ticks)
}

fn sent(result: rustix::io::Result<()>) -> Sent {
    if result == Err(Errno::PERM) { Sent::NotPermitted } else { Sent::Done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn another_process_that_has_the_number_now_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let born = procfs::stat("/".as_ref(), child.id()).expect("alive").born_ticks;
        assert_eq!(send(child.id(), born - 1, Signal::KILL), Sent::Done);
        assert_eq!(send(child.id(), born, Signal::TERM), Sent::Done);
        // Had the first been sent, it would be the one that ended it.
        assert_eq!(child.wait().expect("our child").signal(), Some(15));
        assert_eq!(send(child.id(), born, Signal::TERM), Sent::Done);
    }
}
