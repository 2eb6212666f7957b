//! Signals that are read through a signalfd and do not kill the process.
//!
//! SIGINT, SIGTERM and SIGHUP are blocked from construction to drop, so that a command stops only at a point where its
//! work is consistent. Drop restores the previous signal mask. A signal that was ignored at process start (nohup(1), a
//! background job of a script) is not blocked, because the kernel would queue it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use base::StopFlag;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Poll interval of the helper thread of [`StopSignals::run_with_flag`].
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Blocked stop signals of this process.
#[derive(Debug)]
pub struct StopSignals {
    signalfd: SignalFd,
    previous_mask: SigSet,
    has_received: bool,
}

impl StopSignals {
    /// Blocks SIGINT, SIGTERM and SIGHUP, and opens the signalfd.
    ///
    /// # Errors
    /// The kernel rejects the signal mask or the signalfd.
    pub fn block() -> io::Result<Self> {
        StopSignals::block_all(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
    }

    /// Blocks these signals.
    ///
    /// # Errors
    /// Same as [`StopSignals::block`].
    pub fn block_all(signals: &[Signal]) -> io::Result<Self> {
        let context = |text: &'static str| {
            move |errno: nix::errno::Errno| {
                let error = io::Error::from(errno);
                io::Error::new(error.kind(), format!("{text}: {error}"))
            }
        };
        let signals: SigSet = signals
            .iter()
            .copied()
            .filter(|&signal| !crate::system::is_ignored(signal as i32))
            .collect();
        let previous_mask =
            SigSet::thread_get_mask().map_err(context("cannot read the signal mask"))?;
        signals.thread_block().map_err(context("cannot block signals"))?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signalfd =
            SignalFd::with_flags(&signals, flags).map_err(context("cannot open a signalfd"))?;
        Ok(StopSignals { signalfd, previous_mask, has_received: false })
    }

    /// Returns whether a signal has been received since construction.
    pub fn received(&mut self) -> bool {
        self.has_received |= matches!(self.signalfd.read_signal(), Ok(Some(_)));
        self.has_received
    }

    /// Returns the numbers of the pending signals and removes these signals from the queue.
    pub fn take(&mut self) -> Vec<u32> {
        let next = || self.signalfd.read_signal().ok().flatten();
        std::iter::from_fn(next).map(|signal| signal.ssi_signo).collect()
    }

    /// Runs `work`, which must check `flag` regularly. A helper thread raises the flag when a signal arrives.
    pub fn run_with_flag<T>(&mut self, flag: &StopFlag, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            // The channel is closed when `work` returns or panics, which ends the helper thread.
            let (_running, finished) = mpsc::channel::<()>();
            scope.spawn(move || {
                while finished.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    if self.received() {
                        flag.raise();
                    }
                }
            });
            work()
        })
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
        let _ = self.previous_mask.thread_set_mask();
    }
}
