//! Progress of a run: a live view on a terminal, plain lines elsewhere.
//!
//! ```text
//!   evenkeel  dfs                                                       12.3 s
//!   jobs      ━━━━━━━━━━━━━━━━━━━━   2 waiting  4 running  2 done  1 failed
//!   core 0    ████████▌                          361 k/s   1.0 CPUs busy
//!   core 1    ██▏                                 45 k/s   1.0 CPUs busy
//!    12.250 s  move       hog.2  core 0 -> core 1  because the load of core 0 was …
//! ```
//!
//! The view has neither a thread nor a clock. The view is drawn in turns of the run, at most four times per second of
//! run time. The view sends no query to the terminal and does not change its modes, so the terminal is in a normal
//! state after any end of evenkeel. Each frame is one write.

mod live;
mod progress_events;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};

use engine::{Sink, TurnRecord};
use journal::Header;

use live::LiveView;
use progress_events::{ProgressEvent, ProgressReporter};
use terminal::Painter;

/// Kind of progress output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Redrawn in place at the bottom of the terminal.
    Live,
    /// One line per start, move and end.
    Lines,
    Quiet,
}

impl Mode {
    /// Returns the mode for standard error. A live view needs a terminal that can redraw.
    pub fn fitting(quiet: bool) -> Self {
        let can_redraw = crate::print::terminal().is_terminal() && !is_dumb();
        match (quiet, can_redraw) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Live,
            (false, false) => Mode::Lines,
        }
    }
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

/// Prints the progress of a run. A sink of the engine.
#[derive(Debug)]
pub struct View {
    mode: Mode,
    reporter: ProgressReporter,
    live: LiveView,
    painter: Painter,
}

impl View {
    pub fn new(mode: Mode, header: &Header) -> Self {
        View {
            mode,
            reporter: ProgressReporter::new(header),
            live: LiveView::new(header.jobs.len(), &header.policy.spec),
            painter: Painter::new(),
        }
    }

    /// Removes the live view from the terminal.
    pub fn finish(&mut self) {
        // A closed terminal is not an error.
        let _ = self.painter.clear();
    }

    fn print(events: &[ProgressEvent]) {
        for event in events {
            match crate::print::is_journal() {
                true => crate::print::lines(event.priority(), &(event.text_line() + "\n")),
                false => crate::print::lines(event.priority(), &(event.line() + "\n")),
            }
        }
    }
}

impl Sink for View {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if self.mode == Mode::Quiet {
            return Ok(());
        }
        let events = self.reporter.events(record);
        if self.mode == Mode::Lines {
            View::print(&events);
            return Ok(());
        }
        self.live.record(record, events, self.reporter.domain_names());
        if self.live.is_time_to_draw() {
            let size = terminal::terminal_size();
            let _ = self.painter.draw(&self.live.frame(size));
        }
        Ok(())
    }
}

impl Drop for View {
    /// Removes the view after a panic.
    fn drop(&mut self) {
        self.finish();
    }
}
