//! Threads of simulated jobs.
//!
//! A task works through its activities in this order, each at its own speed:
//!
//! ```text
//!   touch new memory ─► wait for a page migration ─► kernel time ─► execute instructions: first while the
//!        bytes                    bytes                  ns         cache is refilled, then without refill
//! ```
//!
//! Every activity except kernel time has a demand on memory, so that the bandwidth limits all of them.

use std::sync::Arc;

use super::demand::TaskDemand;
use super::teamwork::TeamThread;
pub use crate::frame::TaskCounts;
use crate::physics::{CoreSpeed, Demand, EventsPer1000, LINE, Refill};
use crate::script::Script;
use crate::variation::RandomKey;

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
    /// Average share of CPU time of the task, if several CPUs have one queue ([`super::queue_shares`]).
    pub(super) queue_share: f64,
    /// CPU time in nanoseconds.
    pub cpu_ns: f64,
    /// Wait time (runnable and not running) in nanoseconds.
    pub wait_ns: f64,
    /// Number of migrations to another CPU.
    pub n_migrations: u64,
    /// Cumulative counts of the task, up to the last call of [`super::Fluid::update_all`].
    pub counts: TaskCounts,
    /// Owner of the random numbers of the task.
    pub(crate) random_key: RandomKey,
    /// Number of sleeps of the task.
    pub(super) n_sleeps: u64,
    /// Number of CPU selections for the task.
    pub(super) n_selections: u64,
    pub(super) generation: u64,
    pub(super) script: Arc<Script>,
    pub(super) phase: usize,
    /// Progress relative to the other threads, if they wait for each other.
    pub(super) team: TeamThread,
    /// Remaining work of the current phase.
    pub(super) left: WorkLeft,
    /// Whether the phase, the work or the memory of the task has changed since its demand was computed.
    pub(super) is_changed: bool,
    /// The activity for which the speed was computed.
    pub(super) activity: TaskActivity,
    /// Units of the activity per nanosecond of CPU time.
    pub(super) speed: f64,
    /// Progress that is not yet part of `counts`.
    pub(super) uncounted: Uncounted,
    /// Lines read and written that are not yet counted for the memory of the pages ([`super::Fluid::post_counts`]).
    pub(super) unposted_lines: [f64; 2],
    /// Events per 1000 instructions with the current occupancy, and misses of the first-level cache.
    pub(super) events: EventsPer1000,
    pub(super) l1_misses: f64,
    /// The node from which the task used its memory in the last scan of NUMA balancing.
    pub(super) used_from: Option<usize>,
    /// Nodes of the page migration in progress: from, to.
    pub(super) moving_between: (usize, usize),
    /// Lines of the task in a cache.
    pub(super) cached: CacheContents,
    /// Position in the queue of the task's CPU; `None` if the task is unqueued.
    pub(super) queued: Option<QueuedTask>,
    pub(super) demand: TaskDemand,
}

/// Remaining work of a task, by activity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkLeft {
    /// Bytes of first touch.
    pub touch_bytes: f64,
    /// Bytes of a page migration by NUMA balancing.
    pub move_bytes: f64,
    /// Nanoseconds in the kernel.
    pub kernel_ns: f64,
    /// Instructions during which the task reads lines again, because the cache has them no longer.
    pub refill_instructions: f64,
    /// Instructions of the current phase.
    pub instructions: f64,
    /// Instructions until the task sleeps.
    pub burst: f64,
}

/// Progress since the counts of a task were updated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uncounted {
    /// CPU time in nanoseconds, in all activities.
    pub cpu_ns: f64,
    /// Executed instructions, and their CPU time in nanoseconds.
    pub instructions: f64,
    pub run_ns: f64,
    /// Lines of refills.
    pub refilled_lines: f64,
    /// Touched bytes.
    pub touched_bytes: f64,
    /// Migrated bytes.
    pub moved_bytes: f64,
}

/// Lines of a task in one cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CacheContents {
    /// The cache; `None` before the first run.
    pub cache: Option<usize>,
    /// Occupancy in bytes after the current refill.
    pub bytes: f64,
    /// Share of the occupancy that is counted for other threads of the job, which share the data.
    pub elsewhere: f64,
    /// Occupancy in bytes at the beginning of the current refill, its instructions, and its additional misses per 1000
    /// instructions.
    pub refill_from: f64,
    pub refill_instructions: f64,
    pub refill_misses: f64,
    /// Lines that the task has beyond its occupancy, because they are not yet evicted. Negative: lines of small refills
    /// that the task reads with its next refill.
    pub surplus_lines: f64,
    /// Index among the tasks of the cache at its last solution; absent if the demand is newer.
    pub member: Option<usize>,
    /// Indexes of steps of the fill table, by instructions and by occupancy.
    pub hints: (usize, usize),
    /// Occupancy of the task in the cache of its cluster, in bytes; absent if the CPU is in no cluster.
    pub cluster_bytes: Option<f64>,
    /// Share of these bytes that is counted for other threads of the job, which share the data.
    pub cluster_elsewhere: f64,
    /// Number of times that the contents of the cache had been replaced ([`super::solver::Solver::turnovers`]) when this was current.
    pub turnovers: f64,
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

/// Nanoseconds per byte of a page migration without the stalls on memory. Guessed: move_pages(2) reaches about 1 GB/s on
/// recent servers with pages of 4 KiB.
const MOVE_NS_PER_BYTE: f64 = 0.7;
/// Remaining units below which an activity has ended: a thousandth of an instruction.
const UNITS_EPSILON: f64 = 1e-3;

/// An activity of a task. The variants are in the order of execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TaskActivity {
    Touching,
    Moving,
    InKernel,
    Refilling,
    #[default]
    Running,
}

impl TaskActivity {
    /// Returns whether the task executes instructions of its program.
    pub fn executes(self) -> bool {
        matches!(self, TaskActivity::Refilling | TaskActivity::Running)
    }
}

impl Uncounted {
    /// Returns the progress in units of an activity.
    pub fn units(&self, activity: TaskActivity) -> f64 {
        match activity {
            TaskActivity::Touching => self.touched_bytes,
            TaskActivity::Moving => self.moved_bytes,
            TaskActivity::InKernel => 0.0,
            TaskActivity::Refilling | TaskActivity::Running => self.instructions,
        }
    }
}

impl WorkLeft {
    /// Returns the activity that is next.
    pub fn activity(&self) -> TaskActivity {
        match () {
            () if 0.0 < self.touch_bytes => TaskActivity::Touching,
            () if 0.0 < self.move_bytes => TaskActivity::Moving,
            () if 0.0 < self.kernel_ns => TaskActivity::InKernel,
            () if 0.0 < self.refill_instructions => TaskActivity::Refilling,
            () => TaskActivity::Running,
        }
    }

    /// Returns the remaining units of an activity until it ends or the task sleeps.
    fn units(&self, activity: TaskActivity) -> f64 {
        match activity {
            TaskActivity::Touching => self.touch_bytes,
            TaskActivity::Moving => self.move_bytes,
            TaskActivity::InKernel => self.kernel_ns,
            TaskActivity::Refilling => {
                self.refill_instructions.min(self.instructions).min(self.burst)
            }
            TaskActivity::Running => self.instructions.min(self.burst),
        }
    }

    /// Subtracts units from an activity. A remainder that is too small for an event is dropped.
    fn subtract(&mut self, activity: TaskActivity, units: f64) {
        if activity == TaskActivity::Refilling {
            self.instructions -= units;
        }
        if activity.executes() {
            self.burst -= units;
        }
        let left = match activity {
            TaskActivity::Touching => &mut self.touch_bytes,
            TaskActivity::Moving => &mut self.move_bytes,
            TaskActivity::InKernel => &mut self.kernel_ns,
            TaskActivity::Refilling => &mut self.refill_instructions,
            TaskActivity::Running => &mut self.instructions,
        };
        *left -= units;
        if *left < UNITS_EPSILON {
            *left = 0.0;
        }
    }
}

impl Task {
    /// Returns the CPU time until the end of the current segment, in nanoseconds.
    pub(super) fn segment_ns(&self) -> f64 {
        self.segment_units() / self.speed.max(1e-12)
    }

    /// Returns the remaining units of the current segment.
    pub(super) fn segment_units(&self) -> f64 {
        self.left.units(self.activity)
    }

    /// Returns whether the affinity of the task contains a CPU.
    pub fn may_use(&self, cpu: usize) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed[cpu])
    }

    /// Returns a number that no other task has had in the slot of this task.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the demand per 1000 units of the current activity, on a core with idle siblings. `executing` is the demand
    /// per 1000 instructions without refill, and `refill_stall` the stall of a miss of the refill, per nanosecond of its
    /// latency.
    pub(super) fn activity_demand(
        &self,
        core: &CoreSpeed,
        executing: Demand,
        refill_stall: f64,
    ) -> Demand {
        match self.activity {
            TaskActivity::Running => executing,
            TaskActivity::Touching => core.touch_demand(),
            TaskActivity::Moving => Demand {
                core_ns: 1000.0 * MOVE_NS_PER_BYTE,
                exposed: 1000.0 / LINE / core.outstanding_max,
                bytes: 2.0 * 1000.0, // A migrated page is read and written.
                hidden_ns: 0.0,
            },
            TaskActivity::InKernel => Demand { core_ns: 1000.0, ..Demand::default() },
            TaskActivity::Refilling => {
                let more = self.cached.refill_misses;
                let exposed = executing.exposed + more * refill_stall;
                Demand { exposed, bytes: executing.bytes + more * LINE, ..executing }
            }
        }
    }

    /// Returns the share of the uncounted requests that find the queue to the shared cache full, with `stalled_ns` of
    /// stalls.
    pub(super) fn queue_full_share(&self, stalled_ns: f64, hit_ns: f64) -> f64 {
        let Uncounted { instructions, run_ns, .. } = self.uncounted;
        if run_ns <= 0.0 || instructions <= 0.0 {
            return 0.0;
        }
        let thousands = instructions / 1000.0;
        let EventsPer1000 { accesses, demand_misses, prefetches, .. } = self.events;
        let hits = (accesses - demand_misses).max(0.0);
        let miss_ns = stalled_ns / (thousands * self.demand.exposed).max(1e-12);
        let waits = (demand_misses + prefetches) * miss_ns;
        queue_full((waits + hits * hit_ns) * thousands / run_ns)
    }

    /// Returns whether the task must sleep or has ended its phase.
    pub(super) fn is_segment_over(&self) -> bool {
        self.left.activity().executes() && self.left.units(TaskActivity::Running) <= UNITS_EPSILON
    }

    /// Returns whether the task has executed the instructions of its phase, or of its part of a section.
    pub(super) fn is_phase_over(&self) -> bool {
        self.left.instructions <= UNITS_EPSILON
    }

    /// Advances the task by an amount of CPU time with a speed, at most to the end of its segment. Returns the bytes of
    /// first touch.
    pub(super) fn progress(&mut self, cpu_ns: f64, speed: f64) -> f64 {
        self.cpu_ns += cpu_ns;
        let units = (cpu_ns * speed).min(self.left.units(self.activity));
        self.left.subtract(self.activity, units);
        let uncounted = &mut self.uncounted;
        uncounted.cpu_ns += cpu_ns;
        match self.activity {
            TaskActivity::Touching => uncounted.touched_bytes += units,
            TaskActivity::Moving => uncounted.moved_bytes += units,
            TaskActivity::Refilling | TaskActivity::Running => {
                uncounted.instructions += units;
                uncounted.run_ns += cpu_ns;
            }
            TaskActivity::InKernel => {}
        }
        if self.activity == TaskActivity::Refilling {
            uncounted.refilled_lines += units / 1000.0 * self.cached.refill_misses;
        }
        if self.activity == TaskActivity::Touching { units } else { 0.0 }
    }

    /// Returns whether the task executes without refill in a cache, with the same demand as at its last solution except
    /// for its occupancy.
    pub(super) fn is_steady_in(&self, cache: usize, (duty, smt_share): (f64, f64)) -> bool {
        let TaskDemand { is_on_channels, duty: duty_before, smt_share: share_before, .. } =
            self.demand;
        is_on_channels
            && !self.is_changed
            && self.cached.cache == Some(cache)
            && self.activity == TaskActivity::Running
            && self.left.activity() == TaskActivity::Running
            && (duty, smt_share) == (duty_before, share_before)
    }

    /// Begins a refill from an occupancy, with a share of its instructions.
    pub(super) fn begin_refill(&mut self, from: f64, refill: &Refill, share: f64) {
        let instructions = 1000.0 * refill.thousands * share;
        self.left.refill_instructions = instructions;
        self.cached.refill_from = from;
        self.cached.refill_instructions = instructions;
        self.cached.refill_misses = refill.lines / refill.thousands.max(f64::MIN_POSITIVE);
    }

    /// Ends a refill at the current occupancy.
    pub(super) fn end_refill(&mut self) {
        self.left.refill_instructions = 0.0;
        self.cached.refill_from = self.cached.bytes;
        (self.cached.refill_instructions, self.cached.refill_misses) = (0.0, 0.0);
    }

    /// Returns the current occupancy without the part that is counted for other threads.
    pub(super) fn own_occupancy(&self) -> f64 {
        self.occupancy() * (1.0 - self.cached.elsewhere)
    }

    /// Returns the current occupancy in bytes. It grows with the refill.
    pub(super) fn occupancy(&self) -> f64 {
        let CacheContents { bytes, refill_from, refill_instructions, .. } = self.cached;
        let left = self.left.refill_instructions.min(refill_instructions);
        let remaining = left / refill_instructions.max(1e-9);
        bytes - (bytes - refill_from) * remaining
    }
}

/// Entries of the queue between a core and its shared cache. No data sheet confirms this value.
const QUEUE: usize = 16;
/// Number of ordered selections of `n` entries of the queue: falling factorials.
const SELECTIONS: [f64; QUEUE + 1] = {
    let (mut all, mut n) = ([1.0; QUEUE + 1], 0);
    while n < QUEUE {
        all[n + 1] = all[n] * (QUEUE - n) as f64;
        n += 1;
    }
    all
};

/// Outstanding requests below which less than 1e-18 of the requests find the queue full.
const RARELY_FULL: f64 = 0.5;

/// Returns the share of requests that find the queue full if `occupancy` requests are outstanding on average (Erlang
/// B formula).
pub fn queue_full(occupancy: f64) -> f64 {
    if occupancy < RARELY_FULL {
        return 0.0;
    }
    // The recursion of the inverse is a polynomial. Its even and odd terms do not depend on each other.
    let each = 1.0 / occupancy;
    let [mut even, mut odd] = [SELECTIONS[QUEUE], SELECTIONS[QUEUE - 1]];
    for n in (0..QUEUE / 2).rev() {
        even = SELECTIONS[2 * n] + each * each * even;
        odd = if 0 < n { SELECTIONS[2 * n - 1] + each * each * odd } else { each * odd };
    }
    1.0 / (even + odd)
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
