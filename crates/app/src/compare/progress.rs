//! How far a comparison is, and how long it will still take.
//!
//! ```text
//!   ━━━━━━━━━━━━━━━━──────────────   1240 of 2400 runs   41.2 a second   28 s left
//! ```
//!
//! On a terminal a line that is drawn over itself a few times a second; elsewhere a line for every tenth
//! of the way, none more often than every few seconds, and after any of them one that tells where it ended. The
//! time left is reckoned from the runs of this start alone: those that a former one did took no time now.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use report::format::duration;

use crate::view::Mode;

/// Shows it on standard error.
pub(super) struct Progress {
    mode: Mode,
    n_runs: usize,
    n_done: usize,
    n_before: usize,
    begun: Instant,
    shown: Option<Instant>,
    tenths: usize,
}

/// Between two drawings on a terminal.
const REDRAW: Duration = Duration::from_millis(150);
/// Between two lines elsewhere.
const LINE: Duration = Duration::from_secs(5);
/// Columns of the bar.
const WIDTH: usize = 30;

impl Progress {
    pub fn new(quiet: bool, n_runs: usize, n_done: usize) -> Self {
        let mode = Mode::fitting(quiet);
        if n_done != 0 && mode != Mode::Quiet {
            eprintln!("evenkeel: {n_done} of {n_runs} runs were done before");
        }
        let begun = Instant::now();
        let tenths = 10 * n_done / n_runs.max(1);
        Progress { mode, n_runs, n_done, n_before: n_done, begun, shown: None, tenths }
    }

    pub fn one_more(&mut self) {
        self.n_done += 1;
    }

    /// Draws if it is time to.
    pub fn show(&mut self) {
        let is_old = |pause| self.shown.is_none_or(|at| pause <= at.elapsed());
        let tenths = 10 * self.n_done / self.n_runs.max(1);
        let text = match self.mode {
            Mode::Live if is_old(REDRAW) => format!("\r\x1b[2K{}", self.line()),
            Mode::Lines if self.tenths < tenths && tenths < 10 && is_old(LINE) => {
                format!("evenkeel: {}\n", self.words())
            }
            _ => return,
        };
        (self.shown, self.tenths) = (Some(Instant::now()), tenths);
        // Nobody reads: the runs are worth more than their progress.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// Takes the line off the terminal; elsewhere the last line tells how far it came.
    pub fn finish(&mut self) {
        let text = match (self.mode, self.shown.take()) {
            (_, None) | (Mode::Quiet, _) => return,
            (Mode::Live, _) => "\r\x1b[2K".to_owned(),
            (Mode::Lines, _) => format!("evenkeel: {}\n", self.words()),
        };
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn line(&self) -> String {
        let full = WIDTH * self.n_done / self.n_runs.max(1);
        format!("{}{}  {}", "━".repeat(full), "─".repeat(WIDTH - full), self.words())
    }

    fn words(&self) -> String {
        words(self.n_done, self.n_runs, self.n_done - self.n_before, self.begun.elapsed())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// `n_now` of them took `elapsed`.
fn words(n_done: usize, n_runs: usize, n_now: usize, elapsed: Duration) -> String {
    let far = format!("{n_done} of {n_runs} runs");
    if n_now == 0 || elapsed.is_zero() {
        return far;
    }
    let each = elapsed.as_secs_f64() / n_now as f64;
    let pace = if each < 1.0 {
        format!("{:.1} a second", 1.0 / each)
    } else {
        format!("{each:.1} s each")
    };
    if n_done == n_runs {
        return format!("{far}   {pace}");
    }
    let left_s = each * (n_runs - n_done) as f64;
    // Whole seconds: more would be a promise.
    let left = duration(left_s.ceil() as u64 * 1_000_000_000).replace(".00", "");
    format!("{far}   {pace}   about {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_comes_from_the_runs_of_this_start() {
        let second = Duration::from_secs;
        assert_eq!(words(0, 10, 0, second(3)), "0 of 10 runs");
        assert_eq!(
            words(60, 100, 10, second(5)),
            "60 of 100 runs   2.0 a second   about 20 s left"
        );
        assert_eq!(
            words(3, 10, 2, second(60)),
            "3 of 10 runs   30.0 s each   about 3 min 30 s left"
        );
        assert_eq!(words(10, 10, 10, second(1)), "10 of 10 runs   10.0 a second");
    }
}
