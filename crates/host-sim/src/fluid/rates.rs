//! Speeds of tasks. They are solved for the affected caches, and for everything that depends on these caches.
//!
//! ```text
//!   affected caches ─► occupancy and speed of each task at the current latencies
//!        ▲                        │ demand on each channel: memory, links, ports
//!        │                        ▼
//!   caches with tasks ◄── channels with a latency that is inconsistent with the demand:
//!   of changed speed       new latency, and new speeds of all their users
//! ```
//!
//! Changes within [`MachineSettings::precision`] are ignored, so that the cost of an event depends on the number of
//! affected rates. Errors do not accumulate, because the current demand is always compared with the demand for which
//! the latency was solved.
//!
//! # Contents of a cache
//!
//! The occupancy of the tasks in a cache tends to the equilibrium of their insertion rates
//! ([`crate::physics::occupancies`]). A task whose occupancy grows reads the missing lines: a refill, with its own
//! demand on memory. Until its end, the occupancy is between both values. The occupancy of a task that sleeps or
//! migrates falls to zero during the next turnover, which is the time in which all insertions replace the contents of
//! the cache once. If the occupancy of a running task falls, the difference is a surplus, which is lost in one turnover
//! too and is subtracted from the next refill.
//!
//! [`MachineSettings::precision`]: super::MachineSettings::precision

use super::tasks::{CacheContents, ChannelUse, TaskActivity, TaskCounts, Uncounted, queue_full};
use super::virtual_time::SoloSpeed;
use super::{Fluid, Task, TaskState};
use crate::hardware::{Hardware, HardwareCpu};
use crate::physics::{
    Channel, ChannelDemand, CoreSpeed, CpiModel, FillTable, LINE, compute_occupancies,
};

/// Minimum change of the ratio of two speeds in a cache for which the cache is solved again, in units of the precision.
/// If all tasks of a cache become slower by the same factor, their occupancies do not change.
const RATIO_CHANGE_MIN: f64 = 4.0;
/// Minimum relative change of a task's speed for which its end is computed again, in units of the precision.
const SPEED_CHANGE_MIN: f64 = 1.0;
/// Maximum number of iterations between occupancies and speeds.
const N_ROUNDS: usize = 24;
/// Relaxation factor, which is used when the iteration oscillates.
const DAMPING: f64 = 0.5;
/// Maximum number of sweeps over caches and channels. No tested machine reaches this number.
const N_SWEEPS: usize = 64;
/// Refills of fewer lines are ignored: their time is below a tenth of a microsecond.
const REFILL_LINES_MIN: f64 = 1.0;
/// Relative tolerance of the checks.
const CHECKED: f64 = 2e-3;
/// Bytes that a channel may be ahead of its capacity: the rounding of events to whole nanoseconds.
const CHECKED_BYTES: f64 = 4096.0;
/// Time of a page fault without zeroing the page, in nanoseconds. Guessed: half of the 575 to 1013 ns that one published
/// measurement has for a complete fault.
const FAULT_NS: f64 = 300.0;
const PAGE: f64 = 4096.0;
/// Nanoseconds per byte of a page migration without the stalls on memory. Guessed: move_pages(2) reaches about 1 GB/s on
/// recent servers with pages of 4 KiB.
const MOVE_NS_PER_BYTE: f64 = 0.7;

/// State of the solver.
#[derive(Clone, Debug, Default)]
pub(super) struct Solver {
    touched: Vec<bool>,
    queue: Vec<usize>,
    /// Whether any demand has changed since the last solution.
    pub is_dirty: bool,
    channels: Vec<ChannelState>,
    caches: Vec<CacheState>,
    /// CPUs to reschedule.
    pub stale_cpus: Vec<usize>,
    /// Caches with changed tasks during the solution of a channel.
    changed_caches: Vec<usize>,
    members: Vec<CacheMember>,
    occupancies: Vec<f64>,
    demands: Vec<ChannelDemand>,
    uses: Vec<ChannelUse>,
    /// Only without contention: tasks that arrived on a CPU or started an activity.
    pub unsolved: Vec<usize>,
    /// Recent solutions for programs that run alone on a CPU.
    pub solo_speeds: Vec<SoloSpeed>,
    /// Only without contention: CPUs with SMT siblings that may have become busy or idle.
    pub touched_cpus: Vec<usize>,
}

/// State of a channel.
#[derive(Clone, Debug)]
struct ChannelState {
    channel: Channel,
    /// Latency in nanoseconds.
    latency: f64,
    /// Demand divided by capacity, at least 1. The ratio also slows down programs that never stall on memory.
    overload: f64,
    /// Bandwidth of page migration in bytes per nanosecond.
    migrating: f64,
    /// Current demand of all users in bytes per nanosecond.
    used: f64,
    /// Demand for which the latency was solved, in bytes per nanosecond.
    solved_for: f64,
    /// Tasks that use the channel.
    users: Vec<usize>,
    /// Bytes transferred since the start.
    transferred: f64,
}

/// Turnover of a cache.
#[derive(Clone, Copy, Debug)]
struct CacheState {
    /// Nanoseconds of one turnover at the current insertion rates; infinite if the cache has free space.
    turnover_ns: f64,
    /// Number of turnovers up to the time `at`.
    turnovers: f64,
    at: u64,
    /// Smallest and largest factor by which tasks are slower than at the last solution of the cache.
    ratios: (f64, f64),
}

/// Factors of a cache without a changed task.
const NO_RATIOS: (f64, f64) = (f64::INFINITY, 0.0);

/// A task in a cache that is being solved.
#[derive(Clone, Copy, Debug)]
struct CacheMember {
    task: usize,
    cpu: usize,
    duty: f64,
    /// Speed of the CPU relative to its speed with idle siblings.
    smt_share: f64,
    /// Average latency of a miss, latency of the port of the cache, and overload at the current latencies.
    miss_ns: f64,
    port_ns: f64,
    overload: f64,
    /// Occupancy in bytes, and nanoseconds per 1000 instructions.
    bytes: f64,
    ns: f64,
}

impl ChannelState {
    fn new(channel: &Channel) -> Self {
        let latency = channel.latency_ns(0.0);
        let users = Vec::new();
        ChannelState {
            channel: *channel,
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
    fn is_inconsistent(&self, precision: f64) -> bool {
        let latency = |used: f64| self.channel.latency_ns(used / self.channel.capacity);
        let differs = libm::fabs(latency(self.used) - latency(self.solved_for));
        let is_full = self.channel.capacity * (1.0 - precision) <= self.solved_for.max(self.used);
        let shifts = libm::fabs(self.used - self.solved_for);
        precision * self.latency < differs || (is_full && precision * self.solved_for < shifts)
    }
}

impl Solver {
    pub fn new(hardware: &Hardware) -> Self {
        let empty =
            CacheState { turnover_ns: f64::INFINITY, turnovers: 0.0, at: 0, ratios: NO_RATIOS };
        Solver {
            touched: vec![false; hardware.caches.len()],
            channels: hardware.channels.iter().map(ChannelState::new).collect(),
            caches: vec![empty; hardware.caches.len()],
            ..Solver::default()
        }
    }

    /// Records how much slower a task of a cache is than at the last solution of the cache.
    fn note_ratio(&mut self, cache: usize, ratio: f64) {
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
    /// is the sum over its users, and that its latency is the latency at this demand.
    ///
    /// # Errors
    /// Returns the problem.
    pub fn check(&self, now: u64, precision: f64, tasks: &[Task]) -> Result<(), String> {
        for (channel_idx, state) in self.channels.iter().enumerate() {
            let ChannelState { channel, latency, used, transferred, .. } = state;
            let possible = channel.capacity * now as f64;
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
            let expected = channel.latency_ns(used / channel.capacity);
            let is_saturated = channel.capacity * (1.0 - 2.0 * precision) <= *used;
            let differs = libm::fabs(expected - latency);
            if !is_saturated && !self.is_dirty && 4.0 * precision * expected < differs {
                return Err(format!(
                    "the latency of channel {channel_idx} is {latency} ns, {expected} ns at its demand"
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
    fn turnovers(&self, cache: usize, now: u64) -> f64 {
        let CacheState { turnover_ns, turnovers, at, .. } = self.caches[cache];
        turnovers + (now - at) as f64 / turnover_ns
    }
}

/// Returns the share of lines that are not yet replaced after a number of turnovers. In an LRU cache, the ages of lines
/// are evenly distributed up to one turnover.
fn remaining_share(turnovers: f64) -> f64 {
    (1.0 - turnovers).max(0.0)
}

impl Fluid {
    /// Solves all affected domains and reschedules the ends of segments.
    pub(super) fn solve(&mut self) {
        if !self.solver.is_dirty && self.solver.stale_cpus.is_empty() {
            return;
        }
        if std::mem::take(&mut self.solver.is_dirty) {
            self.counts.solves += 1;
            match self.settings.contention {
                true => self.solve_with_contention(),
                false => self.solve_without_contention(),
            }
        }
        let mut stale = std::mem::take(&mut self.solver.stale_cpus);
        for &cpu in &stale {
            if self.cpus[cpu].is_stale {
                self.reschedule(cpu);
            }
        }
        // CPUs that become stale in this call are solved in the next call.
        stale.clear();
        stale.append(&mut self.solver.stale_cpus);
        self.solver.stale_cpus = stale;
    }

    fn solve_with_contention(&mut self) {
        let precision = self.settings.precision;
        for _ in 0..N_SWEEPS {
            let mut caches = std::mem::take(&mut self.solver.queue);
            caches.sort_unstable();
            for &cache in &caches {
                self.solver.touched[cache] = false;
                self.solve_cache(cache);
            }
            let mut has_changed = false;
            for channel_idx in 0..self.solver.channels.len() {
                if self.solver.channels[channel_idx].is_inconsistent(precision) {
                    has_changed = true;
                    self.solve_channel(channel_idx);
                }
            }
            if !has_changed && self.solver.queue.is_empty() {
                break;
            }
        }
    }

    pub(super) fn phase_of(&self, task: usize) -> &crate::script::ScriptPhase {
        let task = &self.tasks[task];
        &task.script.phases[task.phase.min(task.script.phases.len() - 1)]
    }

    /// Solves the occupancy of a cache, and the speeds of its tasks at the current latencies.
    fn solve_cache(&mut self, cache: usize) {
        let hardware = self.hardware.clone();
        let mut members = std::mem::take(&mut self.solver.members);
        for &cpu in &hardware.caches[cache].cpus {
            self.update_cpu(cpu);
            if self.cpus[cpu].is_stale {
                self.solver.stale_cpus.push(cpu);
            }
            let smt_share = self.smt_share(cpu);
            for at in 0..self.cpus[cpu].tasks.len() {
                let task = self.cpus[cpu].tasks[at];
                members.push(self.enter_cache(task, (cpu, cache), smt_share));
            }
        }
        self.solve_occupancies(&hardware, cache, &mut members);
        for member in &members {
            self.settle_occupancy(member, hardware.cache_size_index(cache));
            self.set_demand(member.task, member.smt_share);
            let ns = self.ns_at_latencies(member.task);
            self.tasks[member.task].demand.ns_shared = ns;
            self.set_speed(member.task, ns);
        }
        members.clear();
        self.solver.members = members;
    }

    /// Prepares a task for the solution of its cache: counts its progress, and computes its occupancy now.
    fn enter_cache(
        &mut self,
        idx: usize,
        (cpu, cache): (usize, usize),
        smt_share: f64,
    ) -> CacheMember {
        self.flush_counts(idx);
        let turnovers = self.solver.turnovers(cache, self.now);
        let task = &mut self.tasks[idx];
        let bytes = match task.cached.cache {
            Some(at) if at == cache => task.occupancy(),
            _ => 0.0,
        };
        let surplus = match task.cached.cache {
            Some(at) if at == cache => {
                task.cached.surplus_lines * remaining_share(turnovers - task.cached.turnovers)
            }
            _ => 0.0,
        };
        task.left.refill_instructions = 0.0;
        task.cached = CacheContents {
            cache: Some(cache),
            bytes,
            refill_from: bytes,
            surplus_lines: surplus,
            turnovers,
            ..CacheContents::default()
        };
        task.activity = task.left.activity();
        let duty = task.weight / self.cpus[cpu].weight;
        let HardwareCpu { node, .. } = self.hardware.cpus[cpu];
        let (job, mut miss_ns, mut overload) = (self.tasks[idx].job, 0.0, 1.0f64);
        for_each_path(&self.hardware, (node, cache), self.pages.parts(job), |channel, share| {
            let state = &self.solver.channels[channel];
            miss_ns += share * state.latency;
            overload = overload.max(state.overload);
        });
        let fixed_ns = path_ns(&self.hardware, node, self.pages.parts(job));
        let port = self.hardware.caches[cache].port.map(|port| &self.solver.channels[port]);
        let port_ns = port.map_or(0.0, |port| port.latency);
        overload = overload.max(port.map_or(1.0, |port| port.overload));
        let miss_ns = miss_ns + fixed_ns;
        CacheMember { task: idx, cpu, duty, smt_share, miss_ns, port_ns, overload, bytes, ns: 0.0 }
    }

    /// Records the occupancy of a task that sleeps or migrates.
    pub(super) fn leave_cache(&mut self, idx: usize) {
        self.flush_counts(idx);
        let bytes = self.tasks[idx].occupancy();
        if let Some(cache) = self.tasks[idx].cached.cache {
            let turnovers = self.solver.turnovers(cache, self.now);
            let task = &mut self.tasks[idx];
            task.left.refill_instructions = 0.0;
            task.cached = CacheContents {
                cache: Some(cache),
                bytes,
                refill_from: bytes,
                turnovers,
                ..CacheContents::default()
            };
        }
    }

    /// Computes the remaining occupancy of a task that becomes runnable.
    pub(super) fn return_to_cache(&mut self, idx: usize, cache: usize) {
        let turnovers = self.solver.turnovers(cache, self.now);
        let cached = &mut self.tasks[idx].cached;
        if cached.cache == Some(cache) {
            cached.bytes *= remaining_share(turnovers - cached.turnovers);
            cached.refill_from = cached.bytes;
        } else {
            *cached = CacheContents { cache: Some(cache), turnovers, ..CacheContents::default() };
        }
    }

    /// Iterates occupancies and speeds at the current latencies, from the current occupancies.
    fn solve_occupancies(
        &mut self,
        hardware: &Hardware,
        cache: usize,
        members: &mut [CacheMember],
    ) {
        let bytes = hardware.caches[cache].bytes;
        let kind = hardware.cache_size_index(cache);
        let mut occupancies = std::mem::take(&mut self.solver.occupancies);
        let speed = |member: &CacheMember, occupancy: f64| {
            let model = &self.phase_of(member.task).behaviour;
            member.ns_with(model, &hardware.cpus[member.cpu].speed, occupancy)
        };
        occupancies.clear();
        occupancies.resize(members.len(), 0.0);
        let precision = self.settings.precision / 10.0;
        let (mut relaxation, mut previous_change) = (1.0, f64::INFINITY);
        for member in members.iter_mut() {
            member.ns = speed(member, member.bytes);
        }
        let mut turnover_ns = self.solver.caches[cache].turnover_ns;
        for _ in 0..N_ROUNDS {
            let filling = members
                .iter()
                .map(|member| (&self.phase_of(member.task).fills[kind], member.ns / member.duty));
            let filling: Vec<(&FillTable, f64)> = filling.collect();
            turnover_ns = compute_occupancies(&filling, bytes, turnover_ns, &mut occupancies);
            let mut change = 0.0f64;
            for (member, fit) in members.iter_mut().zip(&occupancies) {
                member.bytes += relaxation * (fit - member.bytes);
                let ns = speed(member, member.bytes);
                change = change.max(libm::fabs(ns / member.ns - 1.0));
                member.ns = ns;
            }
            if change < precision || members.len() < 2 {
                break;
            }
            if previous_change < 2.0 * change {
                relaxation = DAMPING;
            }
            previous_change = change;
        }
        self.solver.occupancies = occupancies;
        let turnovers = self.solver.turnovers(cache, self.now);
        let ratios = self.solver.caches[cache].ratios;
        self.solver.caches[cache] = CacheState { turnover_ns, turnovers, at: self.now, ratios };
    }

    /// Sets the new occupancy of a task: a refill or a surplus covers the difference to its current occupancy.
    fn settle_occupancy(&mut self, member: &CacheMember, kind: usize) {
        let now = self.tasks[member.task].cached.bytes;
        let fills = &self.phase_of(member.task).fills[kind];
        let refill = fills.refill(now.min(member.bytes), now.max(member.bytes));
        let task = &mut self.tasks[member.task];
        task.cached.bytes = member.bytes;
        if member.bytes <= now {
            task.cached.refill_from = member.bytes;
            task.cached.surplus_lines += refill.lines;
        } else {
            let lines = (refill.lines - task.cached.surplus_lines).max(0.0);
            task.cached.surplus_lines = (task.cached.surplus_lines - refill.lines).max(0.0);
            task.cached.refill_from = if lines < REFILL_LINES_MIN { member.bytes } else { now };
            if REFILL_LINES_MIN <= lines {
                // The surplus shortens the refill.
                let thousands = refill.thousands * lines / refill.lines;
                task.left.refill_instructions = 1000.0 * thousands;
                task.cached.refill_instructions = 1000.0 * thousands;
                task.cached.refill_misses = refill.lines / refill.thousands;
            }
        }
        task.activity = task.left.activity();
    }

    /// Computes the demand of a task for its activity, and lists the task as a user of its channels.
    fn set_demand(&mut self, idx: usize, smt_share: f64) {
        let task = &self.tasks[idx];
        let (cpu, job) = (task.cpu, task.job);
        let HardwareCpu { node, cache, speed, .. } = self.hardware.cpus[cpu];
        let phase = self.phase_of(idx);
        let model = &phase.behaviour;
        let (demand, events) = model.solve_on(&speed, task.cached.bytes);
        let (lines_at_once, refill_stall) = (speed.outstanding_max, 1.0 / model.overlap_on(&speed));
        let line_stalls = 1000.0 / LINE / lines_at_once;
        // Core nanoseconds, stalls and bytes per 1000 units of the activity.
        let (core_ns, exposed, bytes) = match task.activity {
            TaskActivity::Running => (demand.core_ns, demand.exposed, demand.bytes),
            TaskActivity::Touching => (1000.0 * FAULT_NS / PAGE, line_stalls, 1000.0),
            TaskActivity::Moving => (1000.0 * MOVE_NS_PER_BYTE, line_stalls, 1000.0),
            TaskActivity::InKernel => (1000.0, 0.0, 0.0),
            TaskActivity::Refilling => {
                let more = task.cached.refill_misses;
                (demand.core_ns, demand.exposed + more * refill_stall, demand.bytes + more * LINE)
            }
        };
        let slower = 1.0 / smt_share;
        let accesses = match task.activity {
            TaskActivity::Running | TaskActivity::Refilling => events.accesses,
            _ => 0.0,
        };
        let mut uses = std::mem::take(&mut self.solver.uses);
        let parts = match task.activity {
            TaskActivity::Touching => self.touch_parts(job, node),
            TaskActivity::Moving => {
                let (from, to) = task.moving_between;
                vec![(from, 0.5), (to, 0.5)]
            }
            _ => Vec::new(),
        };
        let parts = if parts.is_empty() { self.pages.parts(job) } else { &parts[..] };
        // A migrated page is read and written.
        let twice = if task.activity == TaskActivity::Moving { 2.0 } else { 1.0 };
        for_each_path(&self.hardware, (node, cache), parts, |channel, share| {
            let stalls = exposed * slower * share;
            uses.push(ChannelUse {
                channel,
                share,
                stalls,
                bytes: twice * bytes * share,
                bandwidth: 0.0,
            });
        });
        let fixed_ns = path_ns(&self.hardware, node, parts);
        if let Some(port) = self.hardware.caches[cache].port {
            let stalls = accesses * refill_stall * slower;
            uses.push(ChannelUse {
                channel: port,
                share: 0.0,
                stalls,
                bytes: accesses * LINE,
                bandwidth: 0.0,
            });
        }
        let task = &mut self.tasks[idx];
        task.events = events;
        task.demand.duty = task.weight / self.cpus[cpu].weight;
        task.demand.exposed = exposed * slower;
        task.demand.core_ns = core_ns * slower;
        task.demand.path_ns = exposed * slower * fixed_ns;
        self.list_uses(idx, uses);
    }

    /// Replaces the channels of a task.
    fn list_uses(&mut self, idx: usize, uses: Vec<ChannelUse>) {
        let demand = &mut self.tasks[idx].demand;
        let mut before = std::mem::replace(&mut demand.uses, uses);
        let was_listed = std::mem::replace(&mut demand.is_on_channels, true);
        for of in before.iter().filter(|_| was_listed) {
            self.solver.channels[of.channel].used -= of.bandwidth;
        }
        let is_same =
            before.iter().map(|of| of.channel).eq(demand.uses.iter().map(|of| of.channel));
        if !was_listed || !is_same {
            for of in before.iter().filter(|_| was_listed) {
                self.solver.channels[of.channel].users.retain(|&user| user != idx);
            }
            for of in &demand.uses {
                self.solver.channels[of.channel].users.push(idx);
            }
        }
        before.clear();
        self.solver.uses = before;
    }

    /// Removes a task from the users of its channels.
    pub(super) fn remove_from_channels(&mut self, idx: usize) {
        let demand = &mut self.tasks[idx].demand;
        let uses = std::mem::take(&mut demand.uses);
        let was_listed = std::mem::take(&mut demand.is_on_channels);
        for of in uses.iter().filter(|_| was_listed) {
            let state = &mut self.solver.channels[of.channel];
            state.used -= of.bandwidth;
            state.users.retain(|&user| user != idx);
        }
    }

    /// Returns the nanoseconds per 1000 units of the task's activity at the current latencies.
    fn ns_at_latencies(&self, idx: usize) -> f64 {
        let demand = &self.tasks[idx].demand;
        let (mut ns, mut overload) = (demand.core_ns + demand.path_ns, 1.0f64);
        for of in &demand.uses {
            let state = &self.solver.channels[of.channel];
            ns += of.stalls * state.latency;
            overload = if 0.0 < of.bytes { overload.max(state.overload) } else { overload };
        }
        (ns * overload).max(1e-6)
    }

    /// Solves the latency of a channel and the speeds of all its users.
    fn solve_channel(&mut self, channel_idx: usize) {
        let users = std::mem::take(&mut self.solver.channels[channel_idx].users);
        let mut demands = std::mem::take(&mut self.solver.demands);
        demands.extend(users.iter().map(|&idx| self.demand_on(idx, channel_idx)));
        let state = &mut self.solver.channels[channel_idx];
        (state.latency, state.overload) =
            state.channel.solve(&demands, state.migrating, state.latency);
        demands.clear();
        self.solver.demands = demands;
        let precision = self.settings.precision;
        for &idx in &users {
            let ns = self.ns_at_latencies(idx);
            let demand = &self.tasks[idx].demand;
            let ratio = ns / demand.ns_shared;
            if SPEED_CHANGE_MIN * precision < libm::fabs(ns / demand.ns - 1.0) {
                self.set_speed(idx, ns);
            }
            let cache = self.hardware.cpus[self.tasks[idx].cpu].cache;
            self.solver.note_ratio(cache, ratio);
        }
        while let Some(cache) = self.solver.changed_caches.pop() {
            let (low, high) = std::mem::replace(&mut self.solver.caches[cache].ratios, NO_RATIOS);
            if RATIO_CHANGE_MIN * precision < high / low - 1.0 {
                self.solver.touch(cache);
            }
        }
        // The sum is recomputed, so that rounding errors do not accumulate.
        let bandwidth_of = |idx: &usize| {
            let uses = self.tasks[*idx].demand.uses.iter();
            uses.filter(|of| of.channel == channel_idx).map(|of| of.bandwidth).sum::<f64>()
        };
        let used = users.iter().map(bandwidth_of).sum::<f64>();
        let state = &mut self.solver.channels[channel_idx];
        state.used = used + state.migrating;
        state.solved_for = state.used;
        state.users = users;
    }

    /// Returns the demand of a task on one channel at the current latencies of its other channels.
    fn demand_on(&self, idx: usize, channel_idx: usize) -> ChannelDemand {
        let demand = &self.tasks[idx].demand;
        let mut on_channel =
            ChannelDemand { other_ns: demand.core_ns + demand.path_ns, stalls: 0.0, bytes: 0.0 };
        for of in &demand.uses {
            match of.channel == channel_idx {
                true => {
                    on_channel.stalls += of.stalls;
                    on_channel.bytes += of.bytes * demand.duty;
                }
                false => {
                    on_channel.other_ns += of.stalls * self.solver.channels[of.channel].latency
                }
            }
        }
        on_channel
    }

    /// Sets the speed of a task and its demand.
    fn set_speed(&mut self, idx: usize, ns: f64) {
        let cpu = self.tasks[idx].cpu;
        self.update_cpu(cpu);
        if !std::mem::replace(&mut self.cpus[cpu].is_stale, true) {
            self.solver.stale_cpus.push(cpu);
        }
        let task = &mut self.tasks[idx];
        debug_assert_eq!(task.state, TaskState::Runnable);
        task.demand.ns = ns;
        task.speed = 1000.0 / ns;
        let per_ns = task.demand.duty / ns;
        for of in &mut task.demand.uses {
            let bandwidth = of.bytes * per_ns;
            self.solver.channels[of.channel].used += bandwidth - of.bandwidth;
            of.bandwidth = bandwidth;
        }
    }

    /// Updates the background traffic when a page migration starts or stops.
    pub(super) fn update_moving(&mut self) {
        for (channel_idx, state) in self.solver.channels.iter_mut().enumerate() {
            let moving = self.pages.migration_bandwidth(channel_idx, &self.hardware);
            state.used += moving - state.migrating;
            state.migrating = moving;
        }
        self.solver.is_dirty = true;
    }

    /// Returns the speed of a CPU relative to its speed with idle SMT siblings.
    pub(super) fn smt_share(&self, cpu: usize) -> f64 {
        let core = self.hardware.cpus[cpu].core;
        let siblings = self.hardware.cores[core].iter();
        let is_busy = |other: &&usize| **other == cpu || !self.cpus[**other].tasks.is_empty();
        let n_busy = siblings.filter(is_busy).count();
        self.hardware.smt_shares[core][n_busy.max(1) - 1]
    }

    /// Adds the progress of a task since the last call to its counts, and its lines to the memory of its pages.
    pub(super) fn flush_counts(&mut self, idx: usize) {
        let task = &self.tasks[idx];
        let Uncounted { cpu_ns, instructions, run_ns, refilled_lines, moved_bytes, .. } =
            task.uncounted;
        if cpu_ns == 0.0 {
            return;
        }
        let (speed, cpu_node) =
            (self.hardware.cpus[task.cpu].speed, self.hardware.cpus[task.cpu].node);
        let phase = self.phase_of(idx);
        let (thousands, events) = (instructions / 1000.0, task.events);
        let stalled_ns = (run_ns - thousands * task.demand.core_ns).max(0.0);
        let requests = phase.references + events.prefetches;
        let full = match 0.0 < run_ns && 0.0 < thousands {
            true => {
                let hits = (phase.references - events.demand_misses).max(0.0);
                let miss_ns = stalled_ns / (thousands * task.demand.exposed).max(1e-12);
                let waits = (events.demand_misses + events.prefetches) * miss_ns;
                queue_full((waits + hits * speed.hit_ns) * thousands / run_ns)
            }
            false => 0.0,
        };
        let reads = thousands * events.reads + refilled_lines;
        let writes = thousands * events.writes;
        let l1_misses = phase.l1_misses;
        let references = phase.references;
        let (job, moving) = (task.job, task.moving_between);
        let thousands_of_units = task.uncounted.units(task.activity) / 1000.0;
        for of in &self.tasks[idx].demand.uses {
            self.solver.channels[of.channel].transferred += thousands_of_units * of.bytes;
        }
        let task = &mut self.tasks[idx];
        task.uncounted = Uncounted::default();
        let counts = &mut task.counts;
        *counts = TaskCounts {
            instructions: counts.instructions + instructions,
            cycles: counts.cycles + cpu_ns * speed.ghz,
            references: counts.references + thousands * references + refilled_lines,
            misses: counts.misses + thousands * events.demand_misses + refilled_lines,
            prefetches: counts.prefetches + thousands * events.prefetches,
            l1_misses: counts.l1_misses + thousands * l1_misses,
            queue_full: counts.queue_full + thousands * requests * full,
            stalls: counts.stalls + stalled_ns * speed.ghz,
            reads: counts.reads + reads,
            writes: counts.writes + writes,
        };
        self.count_lines(job, cpu_node, reads, writes);
        if 0.0 < moved_bytes {
            self.count_moved_lines(moving, moved_bytes / LINE);
        }
    }

    /// Returns the nanoseconds per 1000 units of a task's activity alone: with the whole cache and unloaded memory.
    pub(super) fn ns_alone(&mut self, idx: usize, smt_share: f64) -> f64 {
        self.set_demand(idx, smt_share);
        let ns = self.ns_at_latencies(idx);
        self.remove_from_channels(idx);
        ns
    }
}

impl CacheMember {
    /// Returns the nanoseconds per 1000 instructions with an occupancy.
    fn ns_with(&self, model: &CpiModel, core: &CoreSpeed, occupancy: f64) -> f64 {
        let (demand, events) = model.solve_on(core, occupancy);
        let port_stalls = events.accesses / model.overlap_on(core) * self.port_ns;
        let ns = demand.core_ns + demand.exposed * self.miss_ns + port_stalls;
        (ns / self.smt_share * self.overload).max(1e-6)
    }
}

/// Calls `visit` with each channel of the misses of a task, and with the share of its misses there: the memory of its
/// pages, the links on the path, and the link between the cache and memory.
fn for_each_path(
    hardware: &Hardware,
    (node, cache): (usize, usize),
    parts: &[(usize, f64)],
    mut visit: impl FnMut(usize, f64),
) {
    let local = [(node, 1.0)];
    for &(to, share) in if parts.is_empty() { &local[..] } else { parts } {
        visit(to, share);
        let links = hardware.path_between(node, to).links;
        links.into_iter().flatten().for_each(|link| visit(link, share));
    }
    if let Some(link) = hardware.caches[cache].memory_link {
        visit(link, 1.0);
    }
}

/// Returns the additional latency of the paths to the memory of a task, in nanoseconds.
fn path_ns(hardware: &Hardware, node: usize, parts: &[(usize, f64)]) -> f64 {
    parts.iter().map(|&(to, share)| share * hardware.path_between(node, to).extra_ns).sum()
}
