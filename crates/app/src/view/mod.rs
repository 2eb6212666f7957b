//! What is shown while a run goes on: a live view on a terminal, plain lines elsewhere.
//!
//! ```text
//!   evenkeel  dfs                                                       12.3 s
//!   jobs      ━━━━━━━━━━━━━━━━━━━━   2 waiting  4 running  2 done  1 failed
//!   core 0    ████████▌                          361 k/s   1.0 CPUs busy
//!   core 1    ██▏                                 45 k/s   1.0 CPUs busy
//!    12.250 s  move   hog.2  core 0 -> core 1  because core 0 carried …
//! ```
//!
//! The view has no thread and no clock of its own: it is drawn in turns of the run, at most four times a
//! second of the run's time. It asks the terminal nothing and changes no mode of it, so that
//! whatever ends evenkeel leaves a terminal in order; each frame is one write.

mod live;
mod news;
mod paint;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};

use engine::{Sink, TurnRecord};
use journal::Header;

use live::Live;
use news::{News, Reporter};
use paint::Painter;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Redrawn in place at the bottom of the terminal.
    Live,
    /// A line for each start, move and end.
    Lines,
    /// Nothing.
    Quiet,
}

impl Mode {
    /// What fits where standard error goes to.
    pub fn fitting(quiet: bool) -> Self {
        let can_redraw = io::stderr().is_terminal() && !is_dumb();
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

/// Shows the progress of a run; takes part in it as a sink.
#[derive(Debug)]
pub struct View {
    mode: Mode,
    reporter: Reporter,
    live: Live,
    painter: Painter,
}

impl View {
    /// Before the first turn.
    pub fn new(mode: Mode, header: &Header) -> Self {
        View {
            mode,
            reporter: Reporter::new(header),
            live: Live::new(header.jobs.len(), &header.policy.spec),
            painter: Painter::new(),
        }
    }

    /// Takes a live view off the screen. What was said last stays in the report.
    pub fn finish(&mut self) {
        // A terminal that is gone is no reason to fail at the very end.
        let _ = self.painter.clear();
    }

    fn print(news: &[News]) {
        if news.is_empty() {
            return;
        }
        let text: String = news.iter().map(|one| one.line() + "\n").collect();
        // Nobody reads: the run is worth more than its progress.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

impl Sink for View {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if self.mode == Mode::Quiet {
            return Ok(());
        }
        let news = self.reporter.news(record);
        if self.mode == Mode::Lines {
            View::print(&news);
            return Ok(());
        }
        self.live.take(record, news, self.reporter.places());
        if self.live.is_time_to_draw() {
            let size = paint::terminal_size();
            let _ = self.painter.draw(&self.live.frame(size));
        }
        Ok(())
    }
}

impl Drop for View {
    /// A panic on its way out leaves no half of a view behind.
    fn drop(&mut self) {
        self.finish();
    }
}
