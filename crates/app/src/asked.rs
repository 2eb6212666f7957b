//! Signals that ask for an end, read where work can be left in good order.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context;
use base::StopFlag;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Between two looks beside work that does not look itself.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether somebody wants us to stop: interrupt, termination and hang-up are read instead of ending us.
#[derive(Debug)]
pub(crate) struct Asked {
    file: SignalFd,
    mask_before: SigSet,
    asked: bool,
}

impl Asked {
    /// From now on.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let wanted: SigSet =
            [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        let mask_before = SigSet::thread_get_mask().context("cannot read the signal mask")?;
        wanted.thread_block().context("cannot block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let file = SignalFd::with_flags(&wanted, flags).context("cannot read signals")?;
        Ok(Asked { file, mask_before, asked: false })
    }

    /// Whether one has come.
    pub(crate) fn asked(&mut self) -> bool {
        self.asked = self.asked || matches!(self.file.read_signal(), Ok(Some(_)));
        self.asked
    }

    /// Does something that looks at a flag now and then, which is raised as soon as a signal comes.
    pub(crate) fn beside<T>(&mut self, flag: &StopFlag, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            // Gone when the work is done, or has panicked.
            let (_works, is_over) = mpsc::channel::<()>();
            scope.spawn(move || {
                while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if self.asked() {
                        flag.raise();
                    }
                }
            });
            work()
        })
    }
}

impl AsFd for Asked {
    /// Can be read when one has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.mask_before.thread_set_mask();
    }
}
