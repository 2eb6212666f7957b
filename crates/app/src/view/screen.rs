//! The full-screen view: its state on the terminal, and the times of its frames.
//!
//! ```text
//!   turns ───────────────► ViewState ─► draw ─► Buffer ─► changed cells ─► one write
//!   keys, signals, timer ──┘
//! ```
//!
//! **Full screen.** The view uses the alternate screen: the job table needs the complete height, the terminal keeps its
//! scrollback, and the final report is printed on the normal screen. An inline view at the bottom of the normal screen
//! would have about ten lines and breaks when the terminal is resized.
//!
//! **Frames.** A turn changes the state; the frame follows at most four times per second of wall time, also in a
//! simulated run with thousands of turns per second. Without turns, one frame per second updates the elapsed time. A
//! key is drawn after at most 50 ms. The first frame is drawn after 300 ms, so that a short run does not switch screens.
//!
//! **Wake-ups.** Keys, signals and the timer are sources of one epoll instance, which the event loop of a live run
//! polls with its own sources. No wake-up of the view causes a turn, so the journal does not depend on the view. A
//! simulated run polls the instance between turns.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use base::Nanos;
use linux::stop_signals::StopSignals;
use nix::sys::signal::{SigSet, Signal, raise};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::crossterm::queue;
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use ratatui::layout::Rect;
use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::draw::{SIZE_MIN, draw};
use super::keys::{Effect, decode};
use super::state::ViewState;
use super::terminal::{self, Terminal};

/// Time from the start to the first frame.
const FIRST_FRAME: Duration = Duration::from_millis(300);
/// Minimum time between two frames after turns.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum time between two frames after keys.
const KEY_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two frames without an event.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// Signals that the view reads. SIGTTOU and SIGTTIN are blocked, because their default action would stop a run in the
/// background.
const SIGNALS: [Signal; 5] =
    [Signal::SIGTSTP, Signal::SIGCONT, Signal::SIGWINCH, Signal::SIGTTOU, Signal::SIGTTIN];

/// A terminal with its event sources, before the view has a state.
///
/// Open the screen before other threads start: they inherit the signal mask.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal,
    signals: StopSignals,
    epoll: OwnedFd,
    timer: OwnedFd,
}

/// Causes for the next frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    #[default]
    None,
    Turn,
    Key,
}

/// The full-screen view of a run.
#[derive(Debug)]
pub struct ScreenView {
    pub state: ViewState,
    screen: Screen,
    started: Instant,
    last_frame: Option<Instant>,
    change: Change,
    /// The cells on the screen; `None`: the screen must be drawn completely.
    painted: Option<Buffer>,
    /// The part of the last frame that the terminal has not accepted yet.
    unsent: Vec<u8>,
    is_over: bool,
}

impl Screen {
    /// Opens the terminal if it is suitable and large enough, and blocks the signals of the view.
    pub fn open() -> Option<Self> {
        let terminal = Terminal::open()?;
        let (width, height) = terminal.size();
        if width < SIZE_MIN.0 || height < SIZE_MIN.1 || !terminal.is_foreground() {
            return None;
        }
        let signals = StopSignals::block_all(&SIGNALS).ok()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).ok()?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, &timer, data, edge).ok()?;
        epoll::add(&epoll, &signals, data, epoll::EventFlags::IN).ok()?;
        Some(Screen { terminal, signals, epoll, timer })
    }

    /// Returns a descriptor that is readable when [`ScreenView::wake`] must be called.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Consumes the events of the timer. The other sources stay readable until they are read.
    fn clear_events(&self) {
        let mut events = Vec::with_capacity(4);
        let timeout = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
    }

    fn arm(&self, after: Duration) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would disarm the timer.
        let Ok(value) = Timespec::try_from(after.max(Duration::from_millis(1))) else { return };
        let timer = Itimerspec { it_interval: zero, it_value: value };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer);
    }

    fn poll_keys(&self, is_polled: bool) {
        let data = epoll::EventData::new_u64(0);
        let _ = match is_polled {
            true => epoll::add(&self.epoll, &self.terminal, data, epoll::EventFlags::IN),
            false => epoll::delete(&self.epoll, &self.terminal),
        };
    }
}

impl ScreenView {
    pub fn new(screen: Screen, state: ViewState) -> Self {
        screen.arm(FIRST_FRAME);
        ScreenView {
            state,
            screen,
            started: Instant::now(),
            last_frame: None,
            change: Change::None,
            painted: None,
            unsent: Vec::new(),
            is_over: false,
        }
    }

    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.screen.descriptor().try_clone_to_owned()
    }

    /// Records a turn. The frame follows when it is due.
    pub fn record(&mut self, record: &engine::TurnRecord<'_>) {
        self.state.record(record);
        self.change = self.change.max(Change::Turn);
        self.draw_if_due();
    }

    /// Returns whether a simulated run must call [`ScreenView::wake`] in this turn.
    pub fn is_poll_due(&self) -> bool {
        self.last_frame.unwrap_or(self.started).elapsed() >= KEY_INTERVAL
    }

    /// Handles pending signals and keys, and draws a due frame. `at` is the time of the run; `None` leaves it
    /// unchanged. Returns whether the user requested the end of the run.
    pub fn wake(&mut self, at: Option<Nanos>) -> bool {
        self.screen.clear_events();
        if self.is_over {
            self.screen.signals.take();
            return false;
        }
        self.state.at = at.unwrap_or_default().max(self.state.at);
        let signals = self.screen.signals.take();
        let has = |signal: Signal| signals.contains(&(signal as i32).cast_unsigned());
        if has(Signal::SIGTSTP) {
            self.stop_process();
        }
        if has(Signal::SIGCONT) || has(Signal::SIGTSTP) {
            self.leave(); // The shell may have changed the modes.
        }
        if has(Signal::SIGWINCH) {
            self.change = Change::Key;
        }
        let ends = self.take_keys();
        self.draw_if_due();
        ends
    }

    /// Restores the terminal, and draws nothing from now on.
    pub fn finish(&mut self) {
        self.leave();
        self.is_over = true;
    }

    /// Stops this process as the default action of SIGTSTP does. The kernel ignores the signal if no shell can
    /// continue the process.
    fn stop_process(&mut self) {
        self.leave();
        let stop = SigSet::from(Signal::SIGTSTP);
        let _ = raise(Signal::SIGTSTP);
        let _ = stop.thread_unblock(); // The process stops here until SIGCONT.
        let _ = stop.thread_block();
    }

    fn take_keys(&mut self) -> bool {
        if !terminal::is_entered() || !self.screen.terminal.is_foreground() {
            return false;
        }
        let Some(bytes) = self.screen.terminal.read() else {
            self.finish();
            return false;
        };
        let effects: Vec<Effect> =
            decode(&bytes).into_iter().map(|key| self.state.press(key)).collect();
        if !effects.is_empty() {
            self.change = Change::Key;
        }
        if effects.contains(&Effect::Repaint) {
            self.painted = None;
        }
        effects.contains(&Effect::EndRun)
    }

    /// Draws the frame if it is due, else sets the timer to its time.
    fn draw_if_due(&mut self) {
        if self.is_over {
            return;
        }
        let wait = self.time_to_frame();
        if !wait.is_zero() {
            self.screen.arm(wait);
            return;
        }
        self.last_frame = Some(Instant::now());
        self.draw_frame();
        self.change = Change::None;
        self.screen.arm(IDLE_INTERVAL);
    }

    fn time_to_frame(&self) -> Duration {
        let Some(last) = self.last_frame else {
            return FIRST_FRAME.saturating_sub(self.started.elapsed());
        };
        let is_paused = self.state.controls.is_paused;
        let interval = match self.change {
            _ if !self.unsent.is_empty() => FRAME_INTERVAL,
            Change::Key => KEY_INTERVAL,
            Change::Turn if !is_paused => FRAME_INTERVAL,
            _ => IDLE_INTERVAL,
        };
        interval.saturating_sub(last.elapsed())
    }

    fn draw_frame(&mut self) {
        if !self.screen.terminal.is_foreground() {
            if terminal::is_entered() {
                self.leave();
            }
            return;
        }
        if !self.unsent.is_empty() {
            self.unsent = self.screen.terminal.write(std::mem::take(&mut self.unsent));
            return;
        }
        if self.state.controls.is_paused && self.change != Change::Key && self.painted.is_some() {
            return;
        }
        if !terminal::is_entered() && !self.enter() {
            return;
        }
        let (width, height) = self.screen.terminal.size();
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        draw(&self.state, &mut buffer);
        let text = frame_text(self.painted.as_ref(), &buffer);
        self.painted = Some(buffer);
        self.unsent = self.screen.terminal.write(text);
    }

    fn enter(&mut self) -> bool {
        let is_entered = self.screen.terminal.enter().is_ok();
        if is_entered {
            self.screen.poll_keys(true);
        } else {
            self.is_over = true;
        }
        is_entered
    }

    fn leave(&mut self) {
        self.screen.poll_keys(false);
        terminal::leave();
        (self.painted, self.unsent) = (None, Vec::new());
        self.change = Change::Key;
    }
}

impl Drop for ScreenView {
    /// Restores the terminal after an error.
    fn drop(&mut self) {
        self.finish();
    }
}

/// Returns the escape sequences from the cells on the screen to a frame. Without cells, or after a resize, the complete
/// screen is drawn.
fn frame_text(painted: Option<&Buffer>, frame: &Buffer) -> Vec<u8> {
    let painted = painted.filter(|painted| painted.area == frame.area);
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = queue!(text, BeginSynchronizedUpdate);
    if painted.is_none() {
        text.extend(terminal::enter_sequence());
    }
    let empty = Buffer::empty(frame.area);
    let changed = painted.unwrap_or(&empty).diff(frame);
    let _ = CrosstermBackend::new(&mut text).draw(changed.into_iter());
    let _ = queue!(text, EndSynchronizedUpdate);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;

    fn frame(text: &str) -> Buffer {
        let mut frame = Buffer::empty(Rect::new(0, 0, 8, 1));
        frame.set_string(0, 0, text, Style::new());
        frame
    }

    #[test]
    fn an_equal_frame_contains_no_cell_and_a_change_contains_only_its_cells() {
        let n_empty = frame_text(Some(&frame("a b")), &frame("a b")).len();
        let changed = frame_text(Some(&frame("a b")), &frame("a c"));
        let changed = String::from_utf8(changed).expect("text");
        assert!(changed.contains('c') && !changed.contains('a'), "{changed:?}");
        assert!(n_empty < 40, "{n_empty} bytes");
    }

    #[test]
    fn the_first_frame_and_a_resized_frame_clear_the_screen() {
        let small = Buffer::empty(Rect::new(0, 0, 4, 1));
        for painted in [None, Some(&small)] {
            let text = String::from_utf8(frame_text(painted, &frame("a"))).expect("text");
            assert!(text.contains("\x1b[?1049h") && text.contains("\x1b[2J"), "{text:?}");
        }
    }
}
