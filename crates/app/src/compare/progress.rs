//! Progress of a comparison, and an estimate of the remaining time.
//!
//! ```text
//!   ━━━━━━━━━━━━━━━━──────────────   1240 of 2400 runs   41.2 runs/s   28 s remaining
//! ```
//!
//! On a terminal one line is redrawn a few times per second. Without a terminal a line is printed after every tenth of
//! the runs, at most every five seconds, and, if a line was printed, a last line at the end. The estimate is based on the runs of this process;
//! a resumed comparison starts a new estimate.

use std::io::Write;
use std::time::{Duration, Instant};

use report::format::{duration, fixed};

use crate::view::Mode;

/// Prints the progress to standard error.
pub struct Progress {
    mode: Mode,
    n_runs: usize,
    n_done: usize,
    n_before: usize,
    started_at: Instant,
    printed_at: Option<Instant>,
    tenths: usize,
}

/// Interval between two redraws on a terminal.
const REDRAW: Duration = Duration::from_millis(150);
/// Minimum interval between two lines without a terminal.
const LINE: Duration = Duration::from_secs(5);
/// Width of the bar, in columns.
const WIDTH: usize = 30;

impl Progress {
    pub fn new(quiet: bool, n_runs: usize, n_done: usize) -> Self {
        let mode = Mode::fitting(quiet);
        if n_done != 0 && mode != Mode::Quiet {
            crate::print::note(format_args!(
                "resuming: {n_done} of {} complete",
                base::counted_noun(n_runs, "run")
            ));
        }
        let started_at = Instant::now();
        let tenths = 10 * n_done / n_runs.max(1);
        Progress { mode, n_runs, n_done, n_before: n_done, started_at, printed_at: None, tenths }
    }

    pub fn add_finished_run(&mut self) {
        self.n_done += 1;
    }

    pub fn set_finished_runs(&mut self, n_done: usize) {
        self.n_done = n_done;
    }

    /// Redraws the line if the interval has passed.
    pub fn show(&mut self) {
        let is_old = |pause| self.printed_at.is_none_or(|at| pause <= at.elapsed());
        let tenths = 10 * self.n_done / self.n_runs.max(1);
        let text = match self.mode {
            Mode::Live if is_old(REDRAW) => format!("\r\x1b[2K{}", self.line()),
            Mode::Lines if self.tenths < tenths && tenths < 10 && is_old(LINE) => {
                format!("evenkeel: {}\n", self.words())
            }
            _ => return,
        };
        (self.printed_at, self.tenths) = (Some(Instant::now()), tenths);
        // A closed standard error does not stop the comparison.
        let _ = crate::print::terminal().write_all(text.as_bytes());
    }

    /// Removes the line from a terminal. Without a terminal, prints a last line.
    pub fn finish(&mut self) {
        let text = match (self.mode, self.printed_at.take()) {
            (_, None) | (Mode::Quiet, _) => return,
            (Mode::Live, _) => "\r\x1b[2K".to_owned(),
            (Mode::Lines, _) => format!("evenkeel: {}\n", self.words()),
        };
        let _ = crate::print::terminal().write_all(text.as_bytes());
    }

    fn line(&self) -> String {
        let full = WIDTH * self.n_done / self.n_runs.max(1);
        format!("{}{}  {}", "━".repeat(full), "─".repeat(WIDTH - full), self.words())
    }

    fn words(&self) -> String {
        words(self.n_done, self.n_runs, self.n_done - self.n_before, self.started_at.elapsed())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Returns the text of the progress. The `n_now` runs of this process took `elapsed`.
fn words(n_done: usize, n_runs: usize, n_now: usize, elapsed: Duration) -> String {
    let progress = format!("{n_done} of {}", base::counted_noun(n_runs, "run"));
    if n_now == 0 || elapsed.is_zero() {
        return progress;
    }
    let each = elapsed.as_secs_f64() / n_now as f64;
    let pace = if each < 1.0 {
        format!("{} runs/s", fixed(1.0 / each, 1))
    } else {
        format!("{} s per run", fixed(each, 1))
    };
    if n_done == n_runs {
        return format!("{progress}   {pace}");
    }
    let remaining_s = each * (n_runs - n_done) as f64;
    // Whole seconds match the precision of the estimate.
    let remaining = duration(remaining_s.ceil() as u64 * 1_000_000_000).replace(".00", "");
    format!("{progress}   {pace}   about {remaining} remaining")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_estimated_from_the_runs_since_this_start() {
        let second = Duration::from_secs;
        assert_eq!(words(0, 10, 0, second(3)), "0 of 10 runs");
        assert_eq!(words(0, 1, 0, second(3)), "0 of 1 run");
        assert_eq!(
            words(60, 100, 10, second(5)),
            "60 of 100 runs   2.0 runs/s   about 20 s remaining"
        );
        assert_eq!(
            words(3, 10, 2, second(60)),
            "3 of 10 runs   30.0 s per run   about 3 min 30 s remaining"
        );
        assert_eq!(words(10, 10, 10, second(1)), "10 of 10 runs   10.0 runs/s");
    }
}
