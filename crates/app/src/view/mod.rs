//! Progress of a run: a full-screen view on a terminal, plain lines elsewhere.
//!
//! ```text
//!   progress_events  turns to events, one line each
//!   state            turns and keys to the state of the view     jobs, loads, time_left   its parts
//!   keys             bytes of the terminal to keys               draw                     state to cells
//!   last_run         wall times of the jobs in the last run
//!   screen           frames, timer, signals                      terminal                 modes and restoration
//! ```
//!
//! `state` and `draw` are pure; `screen` and `terminal` change the terminal.

mod draw;
mod jobs;
mod keys;
mod last_run;
mod loads;
mod progress_events;
mod screen;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod time_left;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::rc::Rc;

use base::StopFlag;
use engine::{Sink, TurnRecord};
use host_live::Console;
use host_sim::SharedProgress;
use journal::Header;

pub use last_run::last_wall_times;
pub use screen::Screen;

use progress_events::{ProgressEvent, ProgressReporter};
use screen::ScreenView;
use state::ViewState;

/// Options of the progress output.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ViewArgs {
    /// Print one line per event, also on a terminal [default: a full-screen view if standard input and standard error
    /// are a terminal]
    #[arg(long)]
    lines: bool,
}

impl ViewArgs {
    /// Opens the screen if the view is a full-screen view. Call this function before other threads start, and before
    /// the host blocks its signals.
    pub fn open_screen(self, quiet: bool) -> Option<Screen> {
        if self.lines || quiet { None } else { Screen::open() }
    }
}

/// Kind of progress output of a single line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Redrawn in place.
    Live,
    /// One line per event.
    Lines,
    Quiet,
}

impl Mode {
    /// Returns the mode for standard error. A live line needs a terminal that can redraw.
    pub fn fitting(quiet: bool) -> Self {
        let can_redraw = crate::print::terminal().is_terminal() && !terminal::is_dumb();
        match (quiet, can_redraw) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Live,
            (false, false) => Mode::Lines,
        }
    }
}

/// Prints the progress of a run. A sink of the engine.
#[derive(Debug)]
pub struct View(Output);

#[derive(Debug)]
enum Output {
    Quiet,
    Lines(Box<ProgressReporter>),
    Screen {
        view: Rc<RefCell<ScreenView>>,
        /// Set in a simulated run, which has no event loop for the keys: the flag that ends the run, and the progress of
        /// the jobs.
        polled: Option<(StopFlag, SharedProgress)>,
    },
}

impl View {
    /// Creates the view: on the screen, or with lines if there is no screen. `last_run` contains the wall times of
    /// the jobs in an earlier run.
    pub fn new(
        screen: Option<Screen>,
        quiet: bool,
        header: &Header,
        last_run: &BTreeMap<String, base::Nanos>,
    ) -> Self {
        View(match screen {
            _ if quiet => Output::Quiet,
            None => Output::Lines(Box::new(ProgressReporter::new(header))),
            Some(screen) => {
                let view = ScreenView::new(screen, ViewState::new(header, last_run));
                Output::Screen { view: Rc::new(RefCell::new(view)), polled: None }
            }
        })
    }

    /// Handles keys in the turns of a simulated run. The key to end the run raises the flag.
    pub fn poll_in_turns(&mut self, stop: &StopFlag, progress: SharedProgress) {
        if let Output::Screen { polled, .. } = &mut self.0 {
            *polled = Some((stop.clone(), progress));
        }
    }

    /// Returns the keys and the timer of the view for the event loop of a live run.
    pub fn console(&self) -> Option<Console> {
        let Output::Screen { view, .. } = &self.0 else { return None };
        let descriptor = view.borrow().descriptor().ok()?;
        let view = Rc::clone(view);
        Some(Console::new(descriptor, move |at| view.borrow_mut().wake(Some(at))))
    }

    /// Restores the terminal.
    pub fn finish(&mut self) {
        if let Output::Screen { view, .. } = &self.0 {
            view.borrow_mut().finish();
        }
    }
}

fn print_lines(events: &[ProgressEvent]) {
    for event in events {
        match crate::print::is_journal() {
            true => crate::print::lines(event.priority(), &(event.text_line() + "\n")),
            false => crate::print::lines(event.priority(), &(event.line() + "\n")),
        }
    }
}

impl Sink for View {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        match &mut self.0 {
            Output::Quiet => {}
            Output::Lines(reporter) => print_lines(&reporter.events(record)),
            Output::Screen { view, polled } => {
                let mut view = view.borrow_mut();
                view.record(record);
                if let Some((stop, progress)) = polled.as_ref().filter(|_| view.is_poll_due()) {
                    view.state.set_simulated(&progress.take());
                    if view.wake(None) {
                        stop.raise();
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for View {
    /// Restores the terminal after an error.
    fn drop(&mut self) {
        self.finish();
    }
}
