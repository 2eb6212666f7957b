//! State of the solver of [`super::rates`]: channels and caches, and their checks.

use super::Task;
use super::tasks::ChannelUse;
use super::virtual_time::SoloSpeed;
use crate::hardware::Hardware;
use crate::physics::{Channel, ChannelDemand, CoreSpeed, CpiTerms, FillTable, Line, TimeTerms};

/// Relative tolerance of the checks.
const CHECKED: f64 = 2e-3;
/// Bytes that a channel may be ahead of its capacity: the rounding of events to whole nanoseconds.
const CHECKED_BYTES: f64 = 4096.0;

/// State of the solver.
#[derive(Clone, Debug, Default)]
pub(super) struct Solver {
    /// Whether each cache is in `queue`.
    pub touched: Vec<bool>,
    /// Caches to solve.
    pub queue: Vec<usize>,
    /// Whether any demand has changed since the last solution.
    pub is_dirty: bool,
    pub channels: Vec<ChannelState>,
    pub caches: Vec<CacheState>,
    /// CPUs to reschedule.
    pub stale_cpus: Vec<usize>,
    /// Tasks that began another activity.
    pub changed_tasks: Vec<usize>,
    /// Caches with changed tasks during the solution of a channel.
    pub changed_caches: Vec<usize>,
    /// Tasks of each cache at its last solution.
    pub members: Vec<Vec<CacheMember>>,
    /// Buffers that are reused: tasks of a cache, demands on a channel, channels of a task.
    pub next_members: Vec<CacheMember>,
    pub demands: Vec<ChannelDemand>,
    pub uses: Vec<ChannelUse>,
    /// Only without contention: tasks that arrived on a CPU or started an activity.
    pub unsolved: Vec<usize>,
    /// Recent solutions for programs that run alone on a CPU.
    pub solo_speeds: Vec<SoloSpeed>,
    /// Only without contention: CPUs with SMT siblings that may have become busy or idle.
    pub touched_cpus: Vec<usize>,
}

/// State of a channel.
#[derive(Clone, Debug)]
pub(super) struct ChannelState {
    /// The channel with the capacity for its open streams.
    pub channel: Channel,
    /// The largest capacity, with few open streams.
    capacity_max: f64,
    /// Latency in nanoseconds.
    pub latency: f64,
    /// Demand divided by capacity, at least 1. The ratio also slows down programs that never stall on memory.
    pub overload: f64,
    /// Bandwidth of page migration in bytes per nanosecond.
    pub migrating: f64,
    /// Current demand of all users in bytes per nanosecond.
    pub used: f64,
    /// Demand for which the latency was solved, in bytes per nanosecond.
    pub solved_for: f64,
    /// Tasks that use the channel.
    pub users: Vec<usize>,
    /// Bytes transferred since the start.
    pub transferred: f64,
}

/// Turnover of a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheState {
    /// Nanoseconds of one turnover at the current insertion rates; infinite if the cache has free space.
    pub turnover_ns: f64,
    /// Number of turnovers up to the time `at`.
    pub turnovers: f64,
    pub at: u64,
    /// Largest relative change of a task's speed for a relative change of the others' speeds, because of the occupancy.
    pub sensitivity: f64,
    /// Smallest and largest factor by which tasks are slower than at the last solution of the cache.
    pub ratios: (f64, f64),
}

/// Factors of a cache without a changed task.
pub(super) const NO_RATIOS: (f64, f64) = (f64::INFINITY, 0.0);

/// A task in a cache that is being solved.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheMember {
    pub task: usize,
    pub cpu: usize,
    /// Whether the task executes without refill, and nothing but the contents of the cache can have changed.
    pub is_steady: bool,
    pub duty: f64,
    /// Speed of the CPU relative to its speed with idle siblings and without context switches.
    pub smt_share: f64,
    /// The core; its private cache is the occupancy in the cache of its cluster, if it is in one.
    pub core: CoreSpeed,
    /// Its program on its core.
    pub terms: CpiTerms,
    /// Latency of the paths to its memory without load.
    pub path_ns: f64,
    /// Average latency of a miss, and latency of the port of the cache.
    pub latencies: (f64, f64),
    /// Factor by which the task is slower, because of siblings and overload.
    pub slower: f64,
    /// As in [`super::tasks::CacheContents`].
    pub elsewhere: f64,
    pub cluster_elsewhere: f64,
    /// Share of the lines of a refill that the task reads. Other threads of its job read the rest.
    pub read_share: f64,
    /// Occupancy in bytes.
    pub bytes: f64,
    /// Nanoseconds per 1000 instructions, and their change per byte.
    pub ns: f64,
    pub ns_per_byte: f64,
    /// Change of the occupancy in the current iteration, and its change per nanosecond of the residence time.
    pub step: f64,
    pub gain: f64,
    /// Relative change of its speed for a relative change of the residence time or of the speed, by its occupancy.
    pub sensitivity: f64,
    /// Bytes filled over the thousands of instructions, near the current value.
    pub fill_line: Line,
    /// Occupancies at both ends of the current step, with the time there, and the nanoseconds in this step.
    pub ends: [(f64, TimeTerms); 2],
    pub speed_line: Line,
    /// Hints of [`super::tasks::CacheContents`].
    pub hints: (usize, usize),
    /// For a steady task: nanoseconds per 1000 instructions before the solution.
    pub ns_before: f64,
}

impl ChannelState {
    fn new(channel: &Channel) -> Self {
        let latency = channel.latency_ns(0.0);
        let users = Vec::new();
        ChannelState {
            channel: *channel,
            capacity_max: channel.capacity,
            latency,
            overload: 1.0,
            migrating: 0.0,
            used: 0.0,
            solved_for: 0.0,
            users,
            transferred: 0.0,
        }
    }

    /// Returns whether the latency is inconsistent with the current demand.
    pub fn is_inconsistent(&self, precision: f64) -> bool {
        let latency = |used: f64| self.channel.latency_ns(used / self.channel.capacity);
        let differs = libm::fabs(latency(self.used) - latency(self.solved_for));
        let is_full = self.channel.capacity * (1.0 - precision) <= self.solved_for.max(self.used);
        let shifts = libm::fabs(self.used - self.solved_for);
        precision * self.latency < differs || (is_full && precision * self.solved_for < shifts)
    }
}

impl Solver {
    pub fn new(hardware: &Hardware) -> Self {
        let empty = CacheState {
            turnover_ns: f64::INFINITY,
            turnovers: 0.0,
            at: 0,
            sensitivity: 0.0,
            ratios: NO_RATIOS,
        };
        Solver {
            touched: vec![false; hardware.caches.len()],
            members: vec![Vec::new(); hardware.caches.len()],
            channels: hardware.channels.iter().map(ChannelState::new).collect(),
            caches: vec![empty; hardware.caches.len()],
            ..Solver::default()
        }
    }

    /// Records how much slower a task of a cache is than at the last solution of the cache.
    pub fn note_ratio(&mut self, cache: usize, ratio: f64) {
        let (low, high) = &mut self.caches[cache].ratios;
        if *high < *low {
            self.changed_caches.push(cache);
        }
        (*low, *high) = (low.min(ratio), high.max(ratio));
    }

    /// Adds traffic of page migration.
    pub fn transfer(&mut self, channel: usize, bytes: f64) {
        self.channels[channel].transferred += bytes;
    }

    /// Checks that no channel has transferred more than its capacity since the start, that the demand of each channel
    /// is the sum over its users and at most its capacity, and that its latency is the latency at this demand.
    ///
    /// # Errors
    /// Returns the problem.
    pub fn check(&self, now: u64, precision: f64, tasks: &[Task]) -> Result<(), String> {
        for (channel_idx, state) in self.channels.iter().enumerate() {
            let ChannelState { channel, latency, used, transferred, .. } = state;
            let possible = state.capacity_max * now as f64;
            if possible * (1.0 + CHECKED) + CHECKED_BYTES < *transferred {
                return Err(format!(
                    "channel {channel_idx} has transferred {transferred} bytes, its capacity is {possible}"
                ));
            }
            let bandwidth = |idx: &usize| {
                let uses = tasks[*idx].demand.uses.iter().filter(|of| of.channel == channel_idx);
                uses.map(|of| of.bandwidth).sum::<f64>()
            };
            let sum = state.users.iter().map(bandwidth).sum::<f64>() + state.migrating;
            if CHECKED * channel.capacity < libm::fabs(sum - used) {
                return Err(format!(
                    "the demand on channel {channel_idx} is {used}, its users have {sum}"
                ));
            }
            // The demand may differ from the solved demand by a few times the precision.
            let at = |share: f64| channel.latency_ns(used * share / channel.capacity);
            let share = 4.0 * precision;
            let expected = at(1.0 - share) * (1.0 - share)..=at(1.0 + share) * (1.0 + share);
            if !self.is_dirty && channel.capacity * (1.0 + CHECKED + share) < *used {
                return Err(format!(
                    "the demand on channel {channel_idx} is {used}, its capacity is {}",
                    channel.capacity
                ));
            }
            let is_saturated = channel.capacity * (1.0 - share) <= *used;
            if !is_saturated && !self.is_dirty && !expected.contains(latency) {
                return Err(format!(
                    "the latency of channel {channel_idx} is {latency} ns, {} ns at its demand",
                    at(1.0)
                ));
            }
        }
        Ok(())
    }

    pub fn touch(&mut self, cache: usize) {
        if !std::mem::replace(&mut self.touched[cache], true) {
            self.queue.push(cache);
            self.is_dirty = true;
        }
    }

    /// Returns the number of turnovers of a cache up to now.
    pub fn turnovers(&self, cache: usize, now: u64) -> f64 {
        let CacheState { turnover_ns, turnovers, at, .. } = self.caches[cache];
        turnovers + (now - at) as f64 / turnover_ns
    }
}

impl CacheMember {
    /// Computes the speed with the current occupancy. Returns the relative change of the time.
    pub fn update_speed(&mut self, table: &FillTable) -> f64 {
        if !self.speed_line.contains(self.bytes) {
            let ends = table.ends_of_step(self.bytes, &mut self.hints.1);
            self.ends = ends.map(|(bytes, events)| (bytes, self.terms.time(events)));
            self.set_latencies(self.latencies);
        }
        let before = self.ns;
        self.ns = (self.speed_line.at(self.bytes) * self.slower).max(1e-6);
        self.ns_per_byte = self.speed_line.slope * self.slower;
        libm::fabs(self.ns / before - 1.0)
    }

    /// Sets the latencies of the current step.
    pub fn set_latencies(&mut self, latencies: (f64, f64)) {
        self.latencies = latencies;
        self.speed_line = Line::through(self.ends.map(|(bytes, time)| (bytes, time.ns(latencies))));
    }

    /// Computes the occupancy for a residence time of lines: the fixed point of the occupancy and the speed that it
    /// causes, by one iteration of Newton's method. Returns the bytes filled at the current speed.
    pub fn fill(&mut self, table: &FillTable, cache_bytes: f64, time_ns: f64) -> f64 {
        let per_ns = self.duty / self.ns;
        let thousands = time_ns * per_ns;
        if !self.fill_line.contains(thousands) {
            self.fill_line = table.line_of_fill(thousands, &mut self.hints.0);
        }
        let (filled, grows) = (self.fill_line.at(thousands), self.fill_line.slope);
        // More occupancy makes the task faster, so that it fills more.
        let faster = -grows * time_ns * per_ns * self.ns_per_byte / self.ns;
        let feedback = (1.0 - faster).max(FEEDBACK_MIN);
        self.sensitivity = libm::fabs(faster) / feedback;
        let filled = filled.min(cache_bytes);
        self.step = (filled - self.bytes) / feedback;
        self.gain = grows * per_ns / feedback;
        filled
    }

    /// Changes the occupancy towards that of the residence time of the last solution.
    pub fn approach(&mut self, table: &FillTable, cache_bytes: f64, time_ns: f64) {
        for _ in 0..N_STEPS_ALONE {
            self.fill(table, cache_bytes, time_ns);
            self.bytes = (self.bytes + self.step).clamp(0.0, cache_bytes);
            self.update_speed(table);
        }
    }
}

/// Number of iterations of [`CacheMember::approach`].
const N_STEPS_ALONE: usize = 3;
/// Smallest feedback in an iteration; near 0 a program has two equilibria, and a step would be too long.
const FEEDBACK_MIN: f64 = 0.3;
