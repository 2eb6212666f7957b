//! A thread of a simulated job.

use std::sync::Arc;

use super::calm::CalmTask;
use super::rates::Asks;
use super::tally::Tally;
use crate::script::Script;

/// A thread of a simulated job.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its thread id.
    pub tid: u32,
    /// Start time in nanoseconds.
    pub born: u64,
    /// Its job.
    pub job: usize,
    /// Its scheduling state.
    pub state: TaskState,
    /// The CPU of its run queue, or the last one while it sleeps.
    pub cpu: usize,
    /// CPUs that it may use, by index; `None` for all.
    pub allowed: Option<Arc<Vec<bool>>>,
    /// Its weight on a shared CPU.
    pub weight: f64,
    /// CPU time in nanoseconds.
    pub cpu_ns: f64,
    /// Wait time in nanoseconds: runnable but not running.
    pub wait_ns: f64,
    /// Number of migrations to another CPU.
    pub n_migrations: u64,
    /// Its counts.
    pub done: Tally,
    pub(super) life: u64,
    pub(super) script: Arc<Script>,
    pub(super) act: usize,
    /// Remaining instructions of the current phase.
    pub(super) left: f64,
    /// Remaining instructions until it sleeps.
    pub(super) burst_left: f64,
    /// Remaining bytes of first touch.
    pub(super) touch_left: f64,
    /// Whether it was touching memory when its segment was computed.
    pub(super) was_touching: bool,
    /// CPU time that it loses to a cold cache or to page migration.
    pub(super) debt_ns: f64,
    /// Lines read per nanosecond of that CPU time.
    pub(super) debt_lines_per_ns: f64,
    /// Instructions per nanosecond of CPU time.
    pub(super) speed: f64,
    /// Counts per instruction.
    pub(super) each: Tally,
    /// Miss latency in nanoseconds, for the cost of a cold cache.
    pub(super) miss_ns: f64,
    /// Cache occupancy in bytes.
    pub(super) held: f64,
    /// The node from which it used its memory in the last scan of NUMA balancing.
    pub(super) used_from: Option<usize>,
    /// The cache of its occupancy.
    pub(super) warm_in: Option<usize>,
    /// Set while it waits for the end of its segment in the queue of its CPU.
    pub(super) calm: Option<CalmTask>,
    pub(super) asks: Asks,
}

/// The scheduling state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Running or waiting.
    Runnable,
    /// Sleeping.
    Sleeping,
    /// Ended; its slot may be reused.
    Ended,
}

/// First touch in bytes per nanosecond of CPU time: the kernel clears and maps a page of 4 KiB in about half a
/// microsecond. Guessed from typical page-fault benchmarks.
pub(super) const TOUCH_RATE: f64 = 8.0;
/// Fewer remaining instructions count as none.
const NEARLY: f64 = 1e-3;

/// The activity of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Touching,
    PayingDebt,
    Running,
}

impl Task {
    pub(super) fn doing(&self) -> Doing {
        if 0.0 < self.touch_left {
            Doing::Touching
        } else if 0.0 < self.debt_ns {
            Doing::PayingDebt
        } else {
            Doing::Running
        }
    }

    /// CPU time until the end of the current segment.
    pub(super) fn stretch_ns(&self) -> f64 {
        match self.doing() {
            Doing::Touching => self.touch_left / TOUCH_RATE,
            Doing::PayingDebt => self.debt_ns,
            Doing::Running => self.left.min(self.burst_left) / self.speed.max(1e-12),
        }
    }

    /// Whether the current segment has ended.
    pub(super) fn is_through(&self) -> bool {
        self.doing() == Doing::Running && self.left.min(self.burst_left) <= NEARLY
    }

    /// Progresses by CPU time; returns the bytes of first touch.
    pub(super) fn run_ns(&mut self, cpu_ns: f64) -> f64 {
        let mut rest = cpu_ns;
        let mut touched = 0.0;
        self.cpu_ns += cpu_ns;
        while 0.0 < rest {
            match self.doing() {
                Doing::Touching => {
                    let bytes = (rest * TOUCH_RATE).min(self.touch_left);
                    rest -= bytes / TOUCH_RATE;
                    self.touch_left -= bytes;
                    if self.touch_left < 1.0 {
                        touched += self.touch_left;
                        self.touch_left = 0.0;
                    }
                    touched += bytes;
                }
                Doing::PayingDebt => {
                    let paid = rest.min(self.debt_ns);
                    rest -= paid;
                    self.debt_ns -= paid;
                    if self.debt_ns < 1e-6 {
                        self.debt_ns = 0.0;
                    }
                    let lines = paid * self.debt_lines_per_ns;
                    let cycles = paid * self.each.cycles * self.speed;
                    let cold = Tally { misses: lines, reads: lines, cycles, ..Tally::default() };
                    self.done.add(1.0, &cold);
                }
                Doing::Running => {
                    let instructions = (rest * self.speed).min(self.left).min(self.burst_left);
                    self.left -= instructions;
                    self.burst_left -= instructions;
                    self.done.add(instructions, &self.each);
                    rest = 0.0;
                }
            }
        }
        touched
    }

    /// Adds lost CPU time, and the lines that are read during it.
    pub(super) fn owe(&mut self, ns: f64, lines: f64) {
        let all_lines = self.debt_lines_per_ns * self.debt_ns + lines;
        self.debt_ns += ns;
        self.debt_lines_per_ns = if 0.0 < self.debt_ns { all_lines / self.debt_ns } else { 0.0 };
    }
}
