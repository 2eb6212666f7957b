//! State of the solver of [`super::rates`]: channels and caches, and their checks.

use super::Task;
use super::cache_solution::{CacheMember, CacheState};
use super::channels::{CacheResponse, ChannelState};
use super::demand::ChannelUse;
use super::virtual_time::SpeedAlone;
use crate::hardware::Hardware;
use crate::physics::ChannelDemand;

/// Relative tolerance of the checks.
const CHECKED: f64 = 2e-3;
/// Tolerance of the share of a cache that is occupied: an occupancy on which no speed depends may lag behind.
const CHECKED_SHARE: f64 = 1e-2;
/// Latency in nanoseconds to which the tolerance of shorter latencies is relative.
const LATENCY_LEAST_NS: f64 = 1.0;
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
    /// Dependence of each cache on the channels, at its last solution.
    pub responses: Vec<Vec<CacheResponse>>,
    /// Tasks of each cache at its last solution.
    pub members: Vec<Vec<CacheMember>>,
    /// Buffers that are reused: tasks of a cache, demands on a channel, channels of a task.
    pub next_members: Vec<CacheMember>,
    pub demands: Vec<ChannelDemand>,
    pub uses: Vec<ChannelUse>,
    /// Only without contention: tasks that arrived on a CPU or started an activity.
    pub unsolved: Vec<usize>,
    /// Recent solutions for programs that run alone on a CPU.
    pub speeds_alone: Vec<SpeedAlone>,
    /// Only without contention: CPUs with SMT siblings that may have become busy or idle.
    pub touched_cpus: Vec<usize>,
}

impl Solver {
    pub fn new(hardware: &Hardware) -> Self {
        let empty = CacheState {
            turnover_ns: f64::INFINITY,
            turnovers: 0.0,
            at: 0,
            sensitivity: 0.0,
            remaining: 0.0,
            occupied: 0.0,
        };
        Solver {
            touched: vec![false; hardware.caches.len()],
            members: vec![Vec::new(); hardware.caches.len()],
            responses: vec![Vec::new(); hardware.caches.len()],
            channels: hardware.channels.iter().map(ChannelState::new).collect(),
            caches: vec![empty; hardware.caches.len()],
            ..Solver::default()
        }
    }

    /// Subtracts the demand of a task on its channels, and removes it from their users.
    pub fn subtract(&mut self, uses: &[ChannelUse], idx: usize, is_removed: bool) {
        for of in uses {
            self.channels[of.channel].subtract(of, (idx, uses.len()), is_removed);
        }
    }

    /// Adds the transferred bytes of a task to its channels.
    pub fn post(&mut self, uses: &mut [ChannelUse]) {
        for of in uses {
            self.channels[of.channel].transferred += std::mem::take(&mut of.transferred);
        }
    }

    /// Adds traffic of page migration.
    pub fn transfer(&mut self, channel: usize, bytes: f64) {
        self.channels[channel].transferred += bytes;
    }

    /// Checks that no channel has transferred more than its capacity since the start, that the demand of each channel
    /// is the sum over its users and at most its capacity, and that its latency is the latency at this demand. Checks that
    /// the solution of each cache has converged, and that its tasks occupy the whole cache if its lines are replaced.
    ///
    /// # Errors
    /// Returns the problem.
    pub fn check(&self, now: u64, precision: f64, tasks: &[Task]) -> Result<(), String> {
        for (cache, CacheState { turnover_ns, remaining, occupied, .. }) in
            self.caches.iter().enumerate()
        {
            if CHECKED < *remaining {
                return Err(format!(
                    "the speeds of the tasks in cache {cache} have not converged: a change of {remaining} remains"
                ));
            }
            let is_full = libm::fabs(occupied - 1.0) <= CHECKED_SHARE;
            if turnover_ns.is_finite() && !is_full {
                return Err(format!(
                    "lines of cache {cache} are replaced every {turnover_ns} ns, but its tasks occupy {occupied} of it"
                ));
            }
        }
        if !self.is_dirty && !self.queue.is_empty() {
            return Err(format!("the caches {:?} are not solved", self.queue));
        }
        for (channel_idx, state) in self.channels.iter().enumerate() {
            let ChannelState { channel, latency, transferred, .. } = state;
            let used = state.used();
            let possible = state.capacity_max * now as f64;
            if possible * (1.0 + CHECKED) + CHECKED_BYTES < *transferred {
                return Err(format!(
                    "channel {channel_idx} has transferred {transferred} bytes, its capacity is {possible}"
                ));
            }
            // The demand may differ from the solved demand by a few times the precision.
            let at = |share: f64| channel.latency_ns(used * share / channel.capacity);
            let share = 4.0 * precision;
            let least_ns = share * LATENCY_LEAST_NS; // The latency of a link without load is zero.
            let expected = at(1.0 - share) * (1.0 - share) - least_ns
                ..=at(1.0 + share) * (1.0 + share) + least_ns;
            if !self.is_dirty && channel.capacity * (1.0 + CHECKED + share) < used {
                return Err(format!(
                    "the demand on channel {channel_idx} is {used}, its capacity is {}",
                    channel.capacity
                ));
            }
            let is_saturated = channel.capacity * (1.0 - share) <= used;
            if !is_saturated && !self.is_dirty && !expected.contains(latency) {
                return Err(format!(
                    "the latency of channel {channel_idx} is {latency} ns, {} ns at its demand",
                    at(1.0)
                ));
            }
            let bandwidth = |idx: &usize| {
                let demand = &tasks[*idx].demand;
                let uses = demand.uses.iter().filter(|of| of.channel == channel_idx);
                let (plain_ns, slower) = demand.time(&self.channels);
                let per_ns = demand.traffic_share / (plain_ns * slower).max(1e-6);
                uses.map(|of| of.bytes * per_ns).sum::<f64>()
            };
            let sum = state.users.iter().map(bandwidth).sum::<f64>() + state.migrating;
            if CHECKED * channel.capacity < libm::fabs(sum - used) {
                return Err(format!(
                    "the demand on channel {channel_idx} is {used}, its users have {sum}"
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
