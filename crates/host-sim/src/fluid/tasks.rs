//! A thread of a simulated job.

use std::sync::Arc;

use super::calm::CalmTask;
use super::rates::Asks;
use super::tally::Tally;
use crate::script::Script;

/// A thread.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its number for people.
    pub tid: u32,
    /// When it was born, in nanoseconds.
    pub born: u64,
    /// The job that it belongs to.
    pub job: usize,
    /// Where it is in its life.
    pub state: TaskState,
    /// The CPU that it is on, or was on before it went to sleep.
    pub cpu: usize,
    /// CPUs that it may use, by place; `None`: all.
    pub allowed: Option<Arc<Vec<bool>>>,
    /// Its share of a CPU against others on it.
    pub weight: f64,
    /// CPU time, in nanoseconds.
    pub cpu_ns: f64,
    /// Nanoseconds that it wanted to run and did not.
    pub wait_ns: f64,
    /// How often it came to another CPU.
    pub n_migrations: u64,
    /// What it did.
    pub done: Tally,
    pub(super) life: u64,
    pub(super) script: Arc<Script>,
    pub(super) act: usize,
    /// Instructions left in this act.
    pub(super) left: f64,
    /// Instructions left before it sleeps.
    pub(super) burst_left: f64,
    /// Bytes that it is about to touch for the first time.
    pub(super) touch_left: f64,
    /// Whether it was doing that when its stretch was reckoned.
    pub(super) was_touching: bool,
    /// CPU time that it loses to cold caches, or to pages that the kernel moves under it.
    pub(super) debt_ns: f64,
    /// Lines that it reads from memory for each nanosecond of that debt.
    pub(super) debt_lines_per_ns: f64,
    /// Instructions per nanosecond of CPU time.
    pub(super) speed: f64,
    /// What each instruction does besides.
    pub(super) each: Tally,
    /// Nanoseconds of a miss, for what cold caches cost.
    pub(super) miss_ns: f64,
    /// Bytes of the cache that it holds.
    pub(super) held: f64,
    /// The node from which it used its memory in the last pass of NUMA balancing.
    pub(super) used_from: Option<usize>,
    /// The cache in which it holds them.
    pub(super) warm_in: Option<usize>,
    /// While it waits for the end of its stretch without being looked at.
    pub(super) calm: Option<CalmTask>,
    pub(super) asks: Asks,
}

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It runs, or waits for its turn.
    Runnable,
    /// It sleeps.
    Sleeping,
    /// It has ended, and its place may be given to another.
    Ended,
}

/// Bytes that are touched for the first time in a nanosecond of CPU time: the kernel clears a page of
/// 4 KiB and maps it in about half a microsecond. Guessed after what page-fault benchmarks usually show.
pub(super) const TOUCH_RATE: f64 = 8.0;
/// Instructions below this count as done.
const NEARLY: f64 = 1e-3;

/// What a task does next.
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

    /// CPU time to the end of what it does.
    pub(super) fn stretch_ns(&self) -> f64 {
        match self.doing() {
            Doing::Touching => self.touch_left / TOUCH_RATE,
            Doing::PayingDebt => self.debt_ns,
            Doing::Running => self.left.min(self.burst_left) / self.speed.max(1e-12),
        }
    }

    /// Whether what it does is over.
    pub(super) fn is_through(&self) -> bool {
        self.doing() == Doing::Running && self.left.min(self.burst_left) <= NEARLY
    }

    /// Progresses by CPU time; returns the bytes that it touched for the first time.
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

    /// A cost besides its work: CPU time, and lines that it reads meanwhile.
    pub(super) fn owe(&mut self, ns: f64, lines: f64) {
        let all_lines = self.debt_lines_per_ns * self.debt_ns + lines;
        self.debt_ns += ns;
        self.debt_lines_per_ns = if 0.0 < self.debt_ns { all_lines / self.debt_ns } else { 0.0 };
    }
}
