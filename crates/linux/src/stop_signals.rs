//! Signals that are read through a signalfd and do not kill the process.
//!
//! SIGINT, SIGTERM and SIGHUP are blocked from construction to drop, so that a command stops only at a point where its
//! work is consistent. Drop unblocks them. A signal that was ignored at process start (nohup(1), a background job of a
//! script) is not blocked, because the kernel would queue it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use base::StopFlag;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Poll interval of the helper thread of [`StopSignals::run_with_flag`].
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Signals of [`StopSignals::block_terminating`], without the real-time signals.
const TERMINATING: [Signal; 15] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGABRT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSTKFLT,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
];

/// Returns whether a signal requests the end of a command: INT, QUIT or TERM.
pub fn is_request(signal: u32) -> bool {
    [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM].map(number).contains(&signal.cast_signed())
}

/// Returns whether a signal is SIGHUP.
pub fn is_hang_up(signal: u32) -> bool {
    signal.cast_signed() == number(Signal::SIGHUP)
}

/// Returns the name of a signal if it is not one of the usual stop signals INT, QUIT, TERM and HUP.
pub fn unusual_name(signal: u32) -> Option<String> {
    let is_usual = is_request(signal) || is_hang_up(signal);
    let signal = signal.cast_signed();
    let name = || {
        let known = Signal::try_from(signal).ok().map(|known| known.as_str().to_owned());
        known.unwrap_or_else(|| format!("signal {signal}"))
    };
    (!is_usual).then(name)
}

fn number(signal: Signal) -> i32 {
    signal as i32
}

fn set_of(signals: impl IntoIterator<Item = i32>) -> SigSet {
    let mut set = *SigSet::empty().as_ref();
    // No fault injection: the call fails for invalid signal numbers only.
    for signal in signals {
        // SAFETY: the pointer is to an initialized set on the stack.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: the set was initialized by `SigSet::empty`.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

fn is_in(set: &SigSet, signal: i32) -> bool {
    // No fault injection: the call fails for invalid signal numbers only.
    // SAFETY: the pointer is to an initialized set that outlives the call.
    unsafe { libc::sigismember(set.as_ref(), signal) == 1 }
}

/// Blocked stop signals of this process.
#[derive(Debug)]
pub struct StopSignals {
    signalfd: SignalFd,
    /// Signals that were not blocked before. Drop unblocks only these, so that several objects may be dropped in any
    /// order.
    newly_blocked: SigSet,
    has_received: bool,
}

impl StopSignals {
    /// Blocks SIGINT, SIGTERM and SIGHUP, and opens the signalfd.
    ///
    /// # Errors
    /// The kernel rejects the signal mask or the signalfd.
    pub fn block() -> io::Result<Self> {
        StopSignals::block_set([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].map(number))
    }

    /// Blocks every signal whose default action would terminate a process before it has restored its changes. Signals
    /// of program errors are not blocked: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP and SIGSYS.
    ///
    /// # Errors
    /// Same as [`StopSignals::block`].
    pub fn block_terminating() -> io::Result<Self> {
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        StopSignals::block_set(TERMINATING.map(number).into_iter().chain(real_time))
    }

    /// Blocks these signals.
    ///
    /// # Errors
    /// Same as [`StopSignals::block`].
    pub fn block_all(signals: &[Signal]) -> io::Result<Self> {
        StopSignals::block_set(signals.iter().copied().map(number))
    }

    fn block_set(signals: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        let numbers: Vec<i32> =
            signals.into_iter().filter(|&signal| !crate::system::is_ignored(signal)).collect();
        let previous_mask =
            SigSet::thread_get_mask().map_err(context("cannot read the signal mask"))?;
        let is_new = |signal: &i32| !is_in(&previous_mask, *signal);
        let newly_blocked = set_of(numbers.iter().copied().filter(is_new));
        let signals = set_of(numbers);
        signals.thread_block().map_err(context("cannot block signals"))?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signalfd =
            SignalFd::with_flags(&signals, flags).map_err(context("cannot open a signalfd"))?;
        Ok(StopSignals { signalfd, newly_blocked, has_received: false })
    }

    /// Returns whether a signal has been received since construction.
    pub fn received(&mut self) -> bool {
        self.has_received |= matches!(self.signalfd.read_signal(), Ok(Some(_)));
        self.has_received
    }

    /// Returns whether a signal is pending. The signal stays in the queue.
    pub fn is_pending(&self) -> bool {
        // No fault injection: the call fails for invalid arguments only.
        let mut polled = [PollFd::new(&self.signalfd, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&at_once)).is_ok_and(|n_ready| 0 < n_ready)
    }

    /// Returns the numbers of the pending signals and removes these signals from the queue.
    pub fn take(&mut self) -> Vec<u32> {
        let next = || self.signalfd.read_signal().ok().flatten();
        std::iter::from_fn(next).map(|signal| signal.ssi_signo).collect()
    }

    /// Runs `work`, which must check `flag` regularly. A helper thread raises the flag when a signal arrives.
    ///
    /// # Errors
    /// The helper thread cannot be started.
    pub fn run_with_flag<T>(&mut self, flag: &StopFlag, work: impl FnOnce() -> T) -> io::Result<T> {
        std::thread::scope(|scope| {
            // The channel is closed when `work` returns or panics, which ends the helper thread.
            let (_running, finished) = mpsc::channel::<()>();
            let poll = move || {
                while finished.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if self.received() {
                        flag.raise();
                    }
                }
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, poll);
            started.map_err(context("cannot start the thread that waits for signals"))?;
            Ok(work())
        })
    }
}

/// Returns a function that adds what failed to an error.
fn context<E: Into<io::Error>>(text: &'static str) -> impl Fn(E) -> io::Error {
    move |error| {
        let error: io::Error = error.into();
        io::Error::new(error.kind(), format!("{text}: {error}"))
    }
}

impl AsFd for StopSignals {
    /// Returns the signalfd, which is readable when a signal is pending.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signalfd.as_fd()
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        let _ = self.newly_blocked.thread_unblock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_are_dropped_in_any_order_restore_the_mask() {
        let masks = || {
            let mask = SigSet::thread_get_mask().expect("a mask");
            (1..=libc::SIGRTMAX()).filter(|&signal| is_in(&mask, signal)).collect::<Vec<_>>()
        };
        let before = masks();
        for keeps_first in [false, true] {
            let first =
                StopSignals::block_all(&[Signal::SIGTSTP, Signal::SIGINT]).expect("blocked");
            let second = StopSignals::block_terminating().expect("blocked");
            assert!(masks().contains(&libc::SIGRTMAX()));
            let (one, other) = if keeps_first { (second, first) } else { (first, second) };
            drop(one);
            drop(other);
            assert_eq!(masks(), before);
        }
    }
}
