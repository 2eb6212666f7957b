//! What is shown while a run goes on: a live view on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};

use engine::{Sink, TurnRecord};
use program::Job;
use topology::Machine;

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
        match (quiet, io::stderr().is_terminal()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Live,
            (false, false) => Mode::Lines,
        }
    }
}

/// Shows the progress of a run; takes part in it as a sink.
#[derive(Debug)]
pub struct View {
    mode: Mode,
}

impl View {
    /// Before the first turn.
    pub fn new(mode: Mode, _machine: &Machine, _jobs: &[Job], _policy: &str) -> Self {
        View { mode }
    }

    /// Takes a live view off the screen.
    pub fn finish(&mut self) {}
}

impl Sink for View {
    fn turn(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        if self.mode == Mode::Quiet {
            return Ok(());
        }
        writeln!(io::stderr(), "{}", record.turn.at)
    }
}
