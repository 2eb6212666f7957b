//! The terminal: its modes, and their restoration after every end of evenkeel.
//!
//! ```text
//!   enter  alternate screen, no echo, keys without a line end          leave  the modes at the start
//! ```
//!
//! The modes are left at the end of the run, before a panic message, and before a stop by SIGTSTP. SIGKILL and SIGSEGV
//! leave the modes set: `reset` restores them. Ctrl-C, Ctrl-\ and Ctrl-Z stay signals (ISIG).
//!
//! The terminal is opened again as /dev/tty, without blocking: a terminal that does not read (Ctrl-S, a broken network
//! connection) must not stop the run, and the flags of standard error, which other processes may share, do not change.
//! Only the foreground process group changes modes, reads keys and draws.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use ratatui::crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
};
use ratatui::crossterm::{cursor, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
    tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};

/// Largest frame, which limits its memory: `stty` sets any size up to 65535.
const SIZE_MAX: (u16, u16) = (400, 200);
/// Maximum wait for a terminal that does not read when the alternate screen is left.
const LEAVE_WAIT: Duration = Duration::from_millis(200);

/// The terminal to restore. Set between [`Terminal::enter`] and [`leave`].
static ENTERED: Mutex<Option<Entered>> = Mutex::new(None);

struct Entered {
    tty: File,
    modes: Termios,
}

/// The controlling terminal of evenkeel.
#[derive(Debug)]
pub struct Terminal {
    tty: File,
}

impl Terminal {
    /// Opens the terminal if it is suitable for a full-screen view: standard input and standard error are this
    /// terminal, it can move the cursor, and no pager reads standard output.
    pub fn open() -> Option<Self> {
        let is_terminal = io::stdin().is_terminal() && crate::print::terminal().is_terminal();
        if !is_terminal || is_dumb() || is_pipe(crate::print::stdout_fd()) {
            return None;
        }
        // Fails if standard error is not the controlling terminal.
        tcgetpgrp(crate::print::terminal()).ok()?;
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = i32::try_from(flags.bits()).ok()?;
        let tty =
            File::options().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
        Some(Terminal { tty })
    }

    /// Returns columns and lines; 80 x 24 if they are unknown.
    pub fn size(&self) -> (u16, u16) {
        let size = tcgetwinsize(&self.tty).ok();
        let size = size.filter(|size| size.ws_col != 0 && size.ws_row != 0);
        let (columns, lines) = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
        (columns.min(SIZE_MAX.0), lines.min(SIZE_MAX.1))
    }

    /// Returns whether evenkeel may use the terminal now.
    pub fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|group| group == rustix::process::getpgrp())
    }

    /// Sets the modes and switches to the alternate screen. After a stop by another process the modes are set again,
    /// because the shell has changed them.
    ///
    /// # Errors
    /// The terminal does not accept the modes.
    pub fn enter(&self) -> io::Result<()> {
        install_panic_hook();
        let mut entered = lock();
        let before = match entered.as_ref() {
            Some(entered) => entered.modes.clone(),
            None => tcgetattr(&self.tty)?,
        };
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        modes.input_modes.remove(InputModes::IXON); // Ctrl-S must not stop the output.
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&self.tty, OptionalActions::Now, &modes)?;
        crate::print::hold_lines();
        *entered = Some(Entered { tty: self.tty.try_clone()?, modes: before });
        Ok(())
    }

    /// Reads the pending keys. `None`: the terminal was closed.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; 256];
        match self.tty.read(&mut bytes) {
            Ok(0) => None,
            Ok(n) => Some(bytes[..n].to_vec()),
            Err(error) if is_temporary(&error) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    /// Writes as much as the terminal accepts now. Returns the rest.
    pub fn write(&mut self, mut text: Vec<u8>) -> Vec<u8> {
        match self.tty.write(&text) {
            Ok(n) => text.split_off(n),
            Err(error) if is_temporary(&error) => text,
            Err(_) => Vec::new(), // A closed terminal is not an error of the run.
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }
}

/// Returns the escape sequences that begin the first frame.
pub fn enter_sequence() -> Vec<u8> {
    let mut text = Vec::new();
    let _ =
        queue!(text, EnterAlternateScreen, DisableLineWrap, cursor::Hide, Clear(ClearType::All));
    text
}

/// Restores the modes and the normal screen. Without an earlier [`Terminal::enter`] nothing is done.
pub fn leave() {
    let Some(mut entered) = lock().take() else { return };
    let is_foreground =
        tcgetpgrp(&entered.tty).is_ok_and(|group| group == rustix::process::getpgrp());
    if is_foreground {
        let mut text = Vec::new();
        // A terminal without an alternate screen gets an empty screen.
        let _ = queue!(
            text,
            Clear(ClearType::All),
            cursor::MoveTo(0, 0),
            cursor::Show,
            EnableLineWrap,
            LeaveAlternateScreen
        );
        write_bounded(&mut entered.tty, &text);
        let _ = tcsetattr(&entered.tty, OptionalActions::Now, &entered.modes);
        // Keys that were not read must not become input of the shell.
        let _ = tcflush(&entered.tty, QueueSelector::IFlush);
    }
    crate::print::release_lines();
}

/// Returns whether the alternate screen is on.
pub fn is_entered() -> bool {
    lock().is_some()
}

fn lock() -> std::sync::MutexGuard<'static, Option<Entered>> {
    ENTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a text, and waits a limited time for a terminal that does not read.
fn write_bounded(tty: &mut File, mut text: &[u8]) {
    while !text.is_empty() {
        match tty.write(text) {
            Ok(n) => text = &text[n..],
            Err(error) if is_temporary(&error) => {
                let timeout = Timespec::try_from(LEAVE_WAIT).ok();
                let mut ready = [PollFd::new(tty, PollFlags::OUT)];
                if !poll(&mut ready, timeout.as_ref()).is_ok_and(|n| n != 0) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Leaves the alternate screen before the panic message, which would disappear with it.
fn install_panic_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            previous(info);
        }));
    });
}

fn is_pipe(file: impl AsFd) -> bool {
    fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// Returns whether the terminal cannot move its cursor.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}
