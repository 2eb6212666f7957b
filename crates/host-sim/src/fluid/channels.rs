//! Channels, and the tasks that use them.
//!
//! An event changes the latency of a channel a little, and with it the speed of every user. The users are not computed
//! again as long as the latency stays near a reference. Instead, each user follows the latency when it is updated: its
//! progress is that at the mean latency since the last update.
//!
//! ```text
//!   latency │        ┌──┐       ── tolerance        a task updated here ▲ and there △ has run with the
//!           │   ┌────┘  └──┐                        mean latency between them
//!           │───┘          └──  ── reference
//!           │   ▲       △       ── tolerance
//!           └─────────────────► time
//! ```
//!
//! The demand of all users is a sum of polynomials of the latency, which is kept when a user changes. The latency is
//! solved with this sum. Errors are of third order in the tolerance, and of second order in the deviation from the mean
//! latency. Outside the tolerance, and if the channel cannot carry the demand, all users are computed again.
//!
//! A faster task would end before the computed end of its segment. The end is therefore computed again at the earliest
//! time that the tolerance permits.

use super::demand::{ChannelUse, Polynomial, TaskDemand};
use super::{Fluid, Task, TaskState};
use crate::physics::{Channel, ChannelDemand, StreamEfficiency};

/// Largest relative difference of a latency from its reference, in units of the precision: 0.02 in usual runs.
const LATENCY_CHANGE_MAX: f64 = 200.0 / 3.0;
/// Minimum relative change of a task's speed for which its end is computed again, in units of the precision.
const SPEED_CHANGE_MIN: f64 = 1.0;
/// Minimum relative change of a speed by the occupancy for which a cache is solved again, in units of the precision. It
/// is estimated from the change of the ratio of two speeds: if all tasks of a cache become slower by the same factor,
/// their occupancies do not change.
const RATIO_CHANGE_MIN: f64 = 1.0;
/// Number of times that the end of a segment is computed again before the end. The remaining error is at most 7e-5 of the
/// segment: the third power of the whole width of the tolerance.
pub(super) const N_CHECKS: u32 = 2;
/// Nanoseconds between the earliest and the expected end of a segment for which it is not computed again.
const CHECK_MIN_NS: f64 = 1000.0;

/// State of a channel.
#[derive(Clone, Debug)]
pub(super) struct ChannelState {
    /// The channel with the capacity for its open streams.
    pub channel: Channel,
    /// The largest capacity, with few open streams.
    pub capacity_max: f64,
    /// Latency in nanoseconds.
    pub latency: f64,
    /// The latency for which all users were computed.
    reference: f64,
    /// Integral of the latency over the time up to `changed_at`, in square nanoseconds, above the latency without load.
    integral: f64,
    changed_at: u64,
    /// Demand divided by capacity, at least 1. The ratio also slows down programs that never stall on memory.
    pub overload: f64,
    /// Bandwidth of page migration in bytes per nanosecond.
    pub migrating: f64,
    /// Demand of all users.
    pub near: Polynomial,
    /// Demand for which the latency was solved, in bytes per nanosecond.
    solved_for: f64,
    /// Tasks that use the channel.
    pub users: Vec<usize>,
    /// Users that also use other channels.
    n_coupled: usize,
    /// Bytes transferred since the start.
    pub transferred: f64,
}

/// How the speeds of the tasks in a cache depend on the latency of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheResponse {
    channel: usize,
    /// Latency at the last solution of the cache.
    latency: f64,
    /// Smallest and largest relative change of a task's time, per nanosecond.
    range: (f64, f64),
    n_tasks: usize,
}

impl CacheResponse {
    /// Completes the responses of a cache with `n_tasks` tasks: a task without the channel does not change.
    pub fn complete(responses: &mut [CacheResponse], n_tasks: usize) {
        for response in responses.iter_mut().filter(|response| response.n_tasks < n_tasks) {
            response.range.0 = response.range.0.min(0.0);
        }
    }
}

impl ChannelState {
    pub fn new(channel: &Channel) -> Self {
        let latency = channel.latency_ns(0.0);
        ChannelState {
            channel: *channel,
            capacity_max: channel.capacity,
            latency,
            reference: latency,
            integral: 0.0,
            changed_at: 0,
            overload: 1.0,
            migrating: 0.0,
            near: Polynomial::default(),
            solved_for: 0.0,
            users: Vec::new(),
            n_coupled: 0,
            transferred: 0.0,
        }
    }

    /// Subtracts the demand of a task, and removes it from the users.
    pub fn subtract(&mut self, of: &ChannelUse, (idx, n_uses): (usize, usize), is_removed: bool) {
        self.near.add(of.near, -1.0);
        if is_removed {
            let at = self
                .users
                .iter()
                .position(|&user| user == idx)
                .expect("a task on channels is in their lists of users");
            self.users.swap_remove(at);
            self.n_coupled -= usize::from(1 < n_uses);
        }
        if self.users.is_empty() {
            self.near = Polynomial::default();
        }
    }

    /// Returns the current demand in bytes per nanosecond.
    pub fn used(&self) -> f64 {
        self.migrating + self.near.at(self.latency - self.reference).0
    }

    /// Returns whether the latency is inconsistent with the current demand.
    pub fn is_inconsistent(&self, precision: f64) -> bool {
        let used = self.used();
        let latency = |used: f64| self.channel.latency_ns(used / self.channel.capacity);
        let differs = libm::fabs(latency(used) - latency(self.solved_for));
        let is_full = self.channel.capacity * (1.0 - precision) <= self.solved_for.max(used);
        let shifts = libm::fabs(used - self.solved_for);
        precision * self.latency < differs || (is_full && precision * self.solved_for < shifts)
    }

    /// Returns the integral of the latency up to now.
    fn integral(&self, now: u64) -> f64 {
        self.integral + (now - self.changed_at) as f64 * (self.latency - self.channel.unloaded_ns)
    }

    fn set_latency(&mut self, now: u64, latency: f64) {
        self.integral = self.integral(now);
        (self.latency, self.changed_at) = (latency, now);
    }

    /// Returns the smallest latency within the tolerance.
    pub fn lowest(&self, precision: f64) -> f64 {
        self.reference * (1.0 - LATENCY_CHANGE_MAX * precision)
    }

    /// Returns the latency that is consistent with the current demand, if it is within the tolerance.
    fn solve_near(&self, precision: f64) -> Option<f64> {
        if 1.0 < self.overload || self.channel.streams != StreamEfficiency::CONSTANT {
            return None;
        }
        let used_at = |latency: f64| {
            let (used, slope) = self.near.at(latency - self.reference);
            ((used + self.migrating) / self.channel.capacity, slope / self.channel.capacity)
        };
        let latency = self.channel.solve_near(used_at, self.reference)?;
        let tolerance = LATENCY_CHANGE_MAX * precision * self.reference;
        (libm::fabs(latency - self.reference) <= tolerance).then_some(latency)
    }
}

impl Fluid {
    /// Replaces the channels of a task.
    pub(super) fn list_uses(&mut self, idx: usize, uses: Vec<ChannelUse>) {
        let is_running = self.uses_memory(idx);
        let demand = &mut self.tasks[idx].demand;
        let mut before = std::mem::replace(&mut demand.uses, uses);
        let was_listed = std::mem::replace(&mut demand.is_on_channels, is_running);
        let is_same =
            before.iter().map(|of| of.channel).eq(demand.uses.iter().map(|of| of.channel));
        let is_listed_again = was_listed && is_running && is_same;
        if was_listed {
            self.solver.subtract(&before, idx, !is_listed_again);
        }
        if is_running && !is_listed_again {
            self.add_user(idx);
        }
        self.solver.post(&mut before);
        before.clear();
        self.solver.uses = before;
    }

    /// Adds a task with a known demand to the users of its channels, or removes it.
    pub(super) fn list_on_channels(&mut self, idx: usize, is_listed: bool) {
        let demand = &mut self.tasks[idx].demand;
        if std::mem::replace(&mut demand.is_on_channels, is_listed) == is_listed {
            return;
        }
        if is_listed {
            return self.add_user(idx);
        }
        self.solver.subtract(&demand.uses, idx, true);
        demand.uses.iter_mut().for_each(|of| of.near = Polynomial::default());
    }

    /// Removes a task from the users of its channels.
    pub(super) fn remove_from_channels(&mut self, idx: usize) {
        let demand = &mut self.tasks[idx].demand;
        let mut uses = std::mem::take(&mut demand.uses);
        self.solver.post(&mut uses);
        if std::mem::take(&mut demand.is_on_channels) {
            self.solver.subtract(&uses, idx, true);
        }
    }

    fn add_user(&mut self, idx: usize) {
        let uses = &self.tasks[idx].demand.uses;
        for of in uses {
            let state = &mut self.solver.channels[of.channel];
            state.users.push(idx);
            state.n_coupled += usize::from(1 < uses.len());
        }
    }

    /// Computes the speed of a task after a change of its demand.
    pub(super) fn set_speed(&mut self, idx: usize) {
        let cpu = self.tasks[idx].cpu;
        self.update_cpu(cpu);
        self.mark_stale(cpu);
        let task = &mut self.tasks[idx];
        assert_eq!(task.state, TaskState::Runnable);
        let channels = &self.solver.channels;
        let (plain_ns, slower) = task.demand.time(channels);
        task.demand.slower = slower;
        task.demand.ns = (plain_ns * slower).max(1e-6);
        task.speed = 1000.0 / task.demand.ns;
        for of in &mut task.demand.uses {
            let state = &channels[of.channel];
            (of.latency, of.integral) = (state.latency, state.integral(self.now));
        }
        self.set_bandwidths(idx, plain_ns);
    }

    /// Computes the demand of a task on its channels, from its time without overload.
    fn set_bandwidths(&mut self, idx: usize, plain_ns: f64) {
        let demand = &mut self.tasks[idx].demand;
        if !demand.is_on_channels {
            return;
        }
        for of in &mut demand.uses {
            let state = &mut self.solver.channels[of.channel];
            let ns = (plain_ns + of.stalls * (state.reference - state.latency)).max(1e-6);
            let bandwidth = of.bytes * demand.traffic_share / demand.slower / ns;
            let near = Polynomial::falling(bandwidth, of.stalls / ns);
            state.near.add(std::mem::replace(&mut of.near, near), -1.0);
            state.near.add(near, 1.0);
        }
    }

    /// Returns the nanoseconds per 1000 units of the task's activity at the current latencies.
    pub(super) fn ns_at_latencies(&self, task: &Task) -> f64 {
        let (plain_ns, slower) = task.demand.time(&self.solver.channels);
        (plain_ns * slower).max(1e-6)
    }

    /// Makes the speed of a task that of the current latencies. Returns its mean speed since the last update, `passed`
    /// nanoseconds ago.
    pub(super) fn follow_latencies(&mut self, idx: usize, passed: f64) -> f64 {
        let Task { demand, speed, .. } = &mut self.tasks[idx];
        let (mut mean_ns, mut ns, mut is_constant) = (0.0, 0.0, true);
        for of in &mut demand.uses {
            let state = &self.solver.channels[of.channel];
            let integral = state.integral(self.now);
            let before = std::mem::replace(&mut of.integral, integral);
            // If the latency was constant, the progress is exact.
            let mean_latency = match passed <= (self.now - state.changed_at) as f64 {
                true => state.latency,
                false => (integral - before) / passed + state.channel.unloaded_ns,
            };
            let known = std::mem::replace(&mut of.latency, state.latency);
            is_constant &= known == state.latency && mean_latency == state.latency;
            mean_ns += of.stalls * mean_latency;
            ns += of.stalls * state.latency;
        }
        if is_constant {
            return *speed;
        }
        let other_ns = demand.core_ns + demand.path_ns;
        demand.ns = ((other_ns + ns) * demand.slower).max(1e-6);
        *speed = 1000.0 / demand.ns;
        1000.0 / ((other_ns + mean_ns) * demand.slower).max(1e-6)
    }

    /// Returns the time until the end of the segment of a task is computed again, or until its end, in nanoseconds.
    /// `per_cpu_ns` is the time per nanosecond of its CPU time.
    pub(super) fn next_check_ns(&self, idx: usize, per_cpu_ns: f64, is_checked: bool) -> f64 {
        let task = &self.tasks[idx];
        if task.demand.uses.is_empty() {
            return task.segment_ns() * per_cpu_ns;
        }
        let each_ns = task.segment_units() / 1000.0 * per_cpu_ns;
        let ns = self.ns_at_latencies(task);
        let precision = self.settings.precision;
        let less = |of: &ChannelUse| {
            let state = &self.solver.channels[of.channel];
            of.stalls * (state.latency - state.lowest(precision)).max(0.0)
        };
        let less_ns = task.demand.uses.iter().map(less).sum::<f64>() * task.demand.slower;
        match is_checked && CHECK_MIN_NS < each_ns * less_ns {
            true => each_ns * (ns - less_ns).max(0.0),
            false => each_ns * ns,
        }
    }

    /// Solves the latency of a channel. Computes all its users again if it leaves the tolerance, and marks the caches that
    /// must be solved again.
    pub(super) fn solve_channel(&mut self, channel_idx: usize) {
        let precision = self.settings.precision;
        let overload = self.solver.channels[channel_idx].overload;
        match self.solver.channels[channel_idx].solve_near(precision) {
            Some(latency) => {
                self.solver.channels[channel_idx].set_latency(self.now, latency);
                if 0 < self.solver.channels[channel_idx].n_coupled {
                    self.set_bandwidths_of_users(channel_idx);
                }
            }
            None => self.solve_with_all_users(channel_idx),
        }
        let state = &mut self.solver.channels[channel_idx];
        state.solved_for = state.used();
        let (latency, has_overload) = (state.latency, 1.0 < state.overload.max(overload));
        for cache in 0..self.solver.caches.len() {
            let mut responses = self.solver.responses[cache].iter();
            let Some(response) = responses.find(|of| of.channel == channel_idx) else { continue };
            let CacheResponse { latency: before, range: (low, high), .. } = *response;
            let ratio = (high - low) * libm::fabs(latency - before);
            let change = ratio * self.solver.caches[cache].sensitivity;
            if has_overload || RATIO_CHANGE_MIN * precision < change {
                self.solver.touch(cache);
            }
        }
    }

    fn set_bandwidths_of_users(&mut self, channel_idx: usize) {
        let users = std::mem::take(&mut self.solver.channels[channel_idx].users);
        for &idx in &users {
            if 1 < self.tasks[idx].demand.uses.len() {
                let (plain_ns, _) = self.tasks[idx].demand.time(&self.solver.channels);
                self.set_bandwidths(idx, plain_ns);
            }
        }
        self.solver.channels[channel_idx].users = users;
    }

    /// Solves the latency of a channel from the demands of all its users, and makes it the reference.
    fn solve_with_all_users(&mut self, channel_idx: usize) {
        let precision = self.settings.precision;
        let users = std::mem::take(&mut self.solver.channels[channel_idx].users);
        let mut demands = std::mem::take(&mut self.solver.demands);
        demands.extend(users.iter().map(|&idx| self.demand_on(idx, channel_idx)));
        let state = &mut self.solver.channels[channel_idx];
        state.channel = self.hardware.channels[channel_idx].with_streams_of(&demands);
        let overload_before = state.overload;
        let (latency, overload) = state.channel.solve(&demands, state.migrating, state.latency);
        state.set_latency(self.now, latency);
        (state.reference, state.overload) = (latency, overload);
        // The sum is computed again, so that rounding errors do not accumulate.
        state.near = Polynomial::default();
        let lowest = state.lowest(precision);
        for (&idx, on_channel) in users.iter().zip(&demands) {
            let demand = &mut self.tasks[idx].demand;
            let own = demand.uses.iter_mut().filter(|of| of.channel == channel_idx);
            let mut faster_ns = 0.0;
            for of in own {
                of.near = Polynomial::default();
                faster_ns += of.stalls * (of.least - lowest).max(0.0) * demand.slower;
            }
            let is_faster = SPEED_CHANGE_MIN * precision * demand.ns < faster_ns;
            if overload != overload_before {
                self.set_speed(idx);
                continue;
            }
            let plain_ns = on_channel.other_ns + on_channel.stalls * latency;
            self.set_bandwidths(idx, plain_ns);
            if is_faster {
                self.mark_stale(self.tasks[idx].cpu);
            }
        }
        demands.clear();
        self.solver.demands = demands;
        self.solver.channels[channel_idx].users = users;
    }

    /// Returns the demand of a task on one channel at the current latencies of its other channels.
    #[inline]
    fn demand_on(&self, idx: usize, channel_idx: usize) -> ChannelDemand {
        let demand = &self.tasks[idx].demand;
        let other_ns = demand.core_ns + demand.path_ns;
        let mut on_channel = ChannelDemand { other_ns, stalls: 0.0, bytes: 0.0, slower: 1.0 };
        for of in &demand.uses {
            if of.channel == channel_idx {
                on_channel.stalls += of.stalls;
                on_channel.bytes += of.bytes * demand.traffic_share;
                continue;
            }
            let state = &self.solver.channels[of.channel];
            on_channel.other_ns += of.stalls * state.latency;
            if 0.0 < of.bytes {
                on_channel.slower = on_channel.slower.max(state.overload);
            }
        }
        on_channel
    }

    /// Notes how the speed of a task in a cache depends on its channels, in its current activity.
    pub(super) fn note_response(&mut self, idx: usize, cache: usize) {
        let demand = &self.tasks[idx].demand;
        let (plain_ns, _) = demand.time(&self.solver.channels);
        let responses = &mut self.solver.responses[cache];
        for of in &demand.uses {
            let (channel, change) = (of.channel, of.stalls / plain_ns.max(1e-6));
            let at = responses.iter().position(|response| response.channel == channel);
            let at = at.unwrap_or_else(|| {
                let latency = self.solver.channels[channel].latency;
                let range = (change, change);
                responses.push(CacheResponse { channel, latency, range, n_tasks: 0 });
                responses.len() - 1
            });
            let response = &mut responses[at];
            response.range = (response.range.0.min(change), response.range.1.max(change));
            response.n_tasks += 1;
        }
    }

    /// Updates the background traffic when a page migration starts or stops.
    pub(super) fn update_moving(&mut self) {
        for (channel_idx, state) in self.solver.channels.iter_mut().enumerate() {
            state.migrating = self.pages.migration_bandwidth(channel_idx, &self.hardware);
        }
        self.solver.is_dirty = true;
    }
}

impl TaskDemand {
    /// Returns the nanoseconds at the current latencies without overload, and the factor by which the overload of a channel
    /// with bytes of the task makes it slower.
    pub fn time(&self, channels: &[ChannelState]) -> (f64, f64) {
        let (mut ns, mut slower) = (self.core_ns + self.path_ns, 1.0f64);
        for of in &self.uses {
            let state = &channels[of.channel];
            ns += of.stalls * state.latency;
            if 0.0 < of.bytes {
                slower = slower.max(state.overload);
            }
        }
        (ns, slower)
    }
}
