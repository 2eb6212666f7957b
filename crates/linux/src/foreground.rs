//! Job control for one program that uses the terminal of this process, as a shell does it.
//!
//! ```text
//!   start     the child moves its process group to the foreground: it reads the keys and receives Ctrl-C and Ctrl-Z
//!   stopped   this process takes the terminal back and stops as well, so that the shell continues
//!   `fg`      the shell continues this process, which moves the program to the foreground and continues it
//!   drop      this process takes the terminal back
//! ```
//!
//! The kernel stops a process outside the foreground process group that reads the terminal, and the program has a
//! process group of its own. Out of scope: several programs with one terminal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal as RawSignal, getpgrp, getsid, kill_process_group};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::child_exit::{ChildExit, try_reap};
use crate::procfs;
use crate::stop_signals::StopSignals;

/// SIGTTOU is blocked, because its default action would stop this process when it changes the foreground process group.
const SIGNALS: [Signal; 3] = [Signal::SIGCHLD, Signal::SIGCONT, Signal::SIGTTOU];

/// The terminal of this process, which a program uses in the foreground.
#[derive(Debug)]
pub struct ForegroundTerminal {
    terminal: OwnedFd,
    signals: StopSignals,
    /// Process group of the program, after the program was stopped.
    stopped: Option<Pid>,
}

impl ForegroundTerminal {
    /// Returns the terminal if standard input is a terminal and this process is in its foreground process group.
    /// Blocks SIGCHLD, SIGCONT and SIGTTOU; call this function before other threads start.
    pub fn open() -> Option<Self> {
        // No fault injection: without a terminal the program reads no keys. The call fails for other files.
        tcgetpgrp(stdin()).ok().filter(|&group| group == getpgrp())?;
        let terminal = stdin().try_clone_to_owned().ok()?;
        let signals = StopSignals::block_all(&SIGNALS).ok()?;
        Some(ForegroundTerminal { terminal, signals, stopped: None })
    }

    /// Handles pending signals: stops this process if the program is stopped, and continues the program if this process
    /// was continued. Call this function when the descriptor is readable.
    pub fn handle_signals(&mut self) {
        let numbers = self.signals.take();
        let is_continued = numbers.contains(&(Signal::SIGCONT as i32).cast_unsigned());
        // No fault injection: without the terminal there is nothing to do.
        let Ok(foreground) = tcgetpgrp(&self.terminal) else { return };
        if is_stopped_child(foreground) {
            self.stopped = Some(foreground);
            self.set_foreground(getpgrp());
            // This process stops here until SIGCONT. If no shell can continue it, the kernel ignores the signal.
            let _ = kill_process_group(getpgrp(), RawSignal::TSTP);
            self.resume();
        } else if is_continued {
            self.resume();
        }
    }

    /// Waits until a child has exited, and reaps it.
    ///
    /// # Errors
    /// The child was reaped already.
    pub fn reap(&mut self, pid: u32) -> io::Result<ChildExit> {
        loop {
            if let Some(exit) = try_reap(pid)? {
                return Ok(exit);
            }
            // No fault injection: an error repeats the call above.
            let _ = poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], None);
            self.handle_signals();
        }
    }

    /// Continues the stopped program, in the foreground if this process is in the foreground.
    fn resume(&mut self) {
        // No fault injection: without the terminal the program continues in the background.
        let is_foreground = tcgetpgrp(&self.terminal).is_ok_and(|group| group == getpgrp());
        let Some(program) = self.stopped else { return };
        if is_foreground {
            self.set_foreground(program);
            self.stopped = None;
        }
        let _ = kill_process_group(program, RawSignal::CONT);
    }

    fn set_foreground(&self, group: Pid) {
        // A terminal that was closed has no foreground process group.
        let _ = tcsetpgrp(&self.terminal, group);
    }
}

/// Returns whether the leader of a process group is a child of this process and is stopped.
fn is_stopped_child(group: Pid) -> bool {
    let stat = procfs::stat("/".as_ref(), group.as_raw_nonzero().get().cast_unsigned());
    stat.is_ok_and(|stat| stat.state == 'T' && stat.parent == std::process::id())
}

impl AsFd for ForegroundTerminal {
    /// Returns a descriptor that is readable when a signal is pending.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

impl Drop for ForegroundTerminal {
    /// Takes the terminal back, unless the shell has it: the group of the session leader.
    fn drop(&mut self) {
        let is_of_shell = |group: Pid| getsid(None).is_ok_and(|session| session == group);
        // No fault injection: without the terminal there is nothing to do.
        let is_lent = tcgetpgrp(&self.terminal).is_ok_and(|group| !is_of_shell(group));
        if is_lent && self.stopped.is_none() {
            self.set_foreground(getpgrp());
        }
    }
}
