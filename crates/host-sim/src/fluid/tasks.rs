//! Threads of simulated jobs.

use std::sync::Arc;

use crate::physics::MemoryClient;
use crate::script::Script;

/// A thread of a simulated job.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// TID of the thread.
    pub tid: u32,
    /// Start time in nanoseconds.
    pub started: u64,
    /// Job of the task.
    pub job: usize,
    /// Scheduling state.
    pub state: TaskState,
    /// The CPU of the task's run queue. For a sleeping task: its last CPU.
    pub cpu: usize,
    /// CPUs that the task may use, by index; `None` for all.
    pub allowed: Option<Arc<Vec<bool>>>,
    /// Weight of the task on a shared CPU.
    pub weight: f64,
    /// CPU time in nanoseconds.
    pub cpu_ns: f64,
    /// Wait time (runnable and not running) in nanoseconds.
    pub wait_ns: f64,
    /// Number of migrations to another CPU.
    pub n_migrations: u64,
    /// Cumulative counts of the task.
    pub counts: TaskCounts,
    pub(super) generation: u64,
    pub(super) script: Arc<Script>,
    pub(super) phase: usize,
    /// Remaining instructions of the current phase.
    pub(super) instructions_left: f64,
    /// Remaining instructions until the task sleeps.
    pub(super) burst_left: f64,
    /// Remaining bytes of first touch.
    pub(super) touch_left: f64,
    /// Whether the task was touching new memory when its segment was computed.
    pub(super) was_touching: bool,
    /// CPU time in nanoseconds that the task loses to a cold cache or to NUMA balancing.
    pub(super) lost_ns: f64,
    /// Lines read per nanosecond of the lost CPU time.
    pub(super) lost_lines_per_ns: f64,
    /// Instructions per nanosecond of CPU time.
    pub(super) speed: f64,
    /// Counts per instruction.
    pub(super) per_instruction: TaskCounts,
    /// Miss latency in nanoseconds, for the cost of a cold cache.
    pub(super) miss_ns: f64,
    /// Cache occupancy in bytes.
    pub(super) occupancy: f64,
    /// The node from which the task used its memory in the last scan of NUMA balancing.
    pub(super) used_from: Option<usize>,
    /// The cache for which `occupancy` is valid.
    pub(super) warm_in: Option<usize>,
    /// Position in the queue of the task's CPU; `None` if the task is unqueued.
    pub(super) queued: Option<QueuedTask>,
    pub(super) demand: TaskDemand,
}

/// Current demand of a task on the machine.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskDemand {
    /// Demand of the task, and its share of misses per channel.
    pub client: MemoryClient,
    /// Bandwidth on each channel in bytes per nanosecond.
    pub bandwidths: Vec<(usize, f64)>,
    /// Nanoseconds per 1000 instructions.
    pub ns: f64,
    /// Nanoseconds per 1000 instructions at the last solution of the task's cache.
    pub ns_shared: f64,
    /// Whether the task is in the lists of users of its channels.
    pub is_on_channels: bool,
}

/// A task in the queue of its CPU, see [`super::virtual_time`].
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedTask {
    /// Served time at the last update of the task.
    pub from: f64,
    /// Time of the last update of the task.
    pub at: u64,
    /// End of the task's segment in served time.
    pub end: f64,
}

/// The scheduling state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskState {
    /// Running or waiting.
    Runnable,
    /// Sleeping.
    #[default]
    Sleeping,
    /// Ended; its slot may be reused.
    Ended,
}

/// Rate of first touch in bytes per nanosecond of CPU time. Guessed from typical page-fault benchmarks: the kernel
/// clears and maps a page of 4 KiB in about half a microsecond.
pub(super) const TOUCH_RATE: f64 = 8.0;
/// Number of remaining instructions below which a burst or phase has ended.
const INSTRUCTIONS_EPSILON: f64 = 1e-3;

/// The activity of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskActivity {
    Touching,
    LosingTime,
    Running,
}

impl Task {
    pub(super) fn activity(&self) -> TaskActivity {
        if 0.0 < self.touch_left {
            TaskActivity::Touching
        } else if 0.0 < self.lost_ns {
            TaskActivity::LosingTime
        } else {
            TaskActivity::Running
        }
    }

    /// Returns the CPU time until the end of the current segment, in nanoseconds.
    pub(super) fn segment_ns(&self) -> f64 {
        match self.activity() {
            TaskActivity::Touching => self.touch_left / TOUCH_RATE,
            TaskActivity::LosingTime => self.lost_ns,
            TaskActivity::Running => {
                self.instructions_left.min(self.burst_left) / self.speed.max(1e-12)
            }
        }
    }

    /// Returns whether the current segment has ended.
    pub(super) fn is_segment_over(&self) -> bool {
        self.activity() == TaskActivity::Running
            && self.instructions_left.min(self.burst_left) <= INSTRUCTIONS_EPSILON
    }

    /// Advances the task by an amount of CPU time. Returns the bytes of first touch.
    pub(super) fn progress(&mut self, cpu_ns: f64) -> f64 {
        let mut rest = cpu_ns;
        let mut touched = 0.0;
        self.cpu_ns += cpu_ns;
        while 0.0 < rest {
            match self.activity() {
                TaskActivity::Touching => {
                    let bytes = (rest * TOUCH_RATE).min(self.touch_left);
                    rest -= bytes / TOUCH_RATE;
                    self.touch_left -= bytes;
                    if self.touch_left < 1.0 {
                        touched += self.touch_left;
                        self.touch_left = 0.0;
                    }
                    touched += bytes;
                }
                TaskActivity::LosingTime => {
                    let paid = rest.min(self.lost_ns);
                    rest -= paid;
                    self.lost_ns -= paid;
                    if self.lost_ns < 1e-6 {
                        self.lost_ns = 0.0;
                    }
                    let lines = paid * self.lost_lines_per_ns;
                    let cycles = paid * self.per_instruction.cycles * self.speed;
                    let cold =
                        TaskCounts { misses: lines, reads: lines, cycles, ..TaskCounts::default() };
                    self.counts.add(1.0, &cold);
                }
                TaskActivity::Running => {
                    let instructions =
                        (rest * self.speed).min(self.instructions_left).min(self.burst_left);
                    self.instructions_left -= instructions;
                    self.burst_left -= instructions;
                    self.counts.add(instructions, &self.per_instruction);
                    rest = 0.0;
                }
            }
        }
        touched
    }

    /// Adds lost CPU time, and the lines that the task reads during this time.
    pub(super) fn lose_time(&mut self, ns: f64, lines: f64) {
        let all_lines = self.lost_lines_per_ns * self.lost_ns + lines;
        self.lost_ns += ns;
        self.lost_lines_per_ns = if 0.0 < self.lost_ns { all_lines / self.lost_ns } else { 0.0 };
    }
}

/// Cumulative counts of a task, or counts per instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskCounts {
    /// Instructions.
    pub instructions: f64,
    /// Core cycles.
    pub cycles: f64,
    /// Accesses to the last-level cache.
    pub references: f64,
    /// Demand misses of the last-level cache.
    pub misses: f64,
    /// Lines that prefetchers read from memory.
    pub prefetches: f64,
    /// Misses of the first-level cache.
    pub l1_misses: f64,
    /// Requests that found the queue to the shared cache full.
    pub queue_full: f64,
    /// Stall cycles on memory.
    pub stalls: f64,
    /// Lines read from memory.
    pub reads: f64,
    /// Lines written to memory.
    pub writes: f64,
}

impl TaskCounts {
    /// Adds the counts of `one`, multiplied by `times`.
    pub fn add(&mut self, times: f64, one: &TaskCounts) {
        self.instructions += times * one.instructions;
        self.cycles += times * one.cycles;
        self.references += times * one.references;
        self.misses += times * one.misses;
        self.prefetches += times * one.prefetches;
        self.l1_misses += times * one.l1_misses;
        self.queue_full += times * one.queue_full;
        self.stalls += times * one.stalls;
        self.reads += times * one.reads;
        self.writes += times * one.writes;
    }
}

/// Entries of the queue between a core and its shared cache. No data sheet confirms this value.
const QUEUE: u32 = 16;

/// Returns the share of requests that find the queue full if `occupancy` requests are outstanding on average (Erlang
/// B formula).
pub fn queue_full(occupancy: f64) -> f64 {
    (1..=QUEUE).fold(1.0, |lost, n| occupancy * lost / (f64::from(n) + occupancy * lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocking_probability_is_that_of_the_erlang_b_formula() {
        let lost = |occupancy| format!("{:.4}", queue_full(occupancy));
        assert_eq!([8.0, 12.0, 16.0, 30.0].map(lost), ["0.0045", "0.0604", "0.1753", "0.4971"]);
        assert_eq!(queue_full(0.0), 0.0);
    }
}
