//! Speeds of tasks. They are solved for the affected caches, and for everything that depends on these caches.
//!
//! ```text
//!   affected caches ─► occupancy and speed of each task at the current latencies
//!        ▲                        │ demand on each controller and link
//!        │                        ▼
//!   caches with tasks ◄── controllers and links with a latency that is inconsistent with the demand:
//!   of changed speed       new latency, and new speeds of all their users
//! ```
//!
//! Changes within [`RELATIVE_PRECISION`] are ignored, so that the cost of an event depends on the number of affected
//! rates. Errors do not accumulate, because the current demand is always compared with the demand for which the latency
//! was solved.

use super::tasks::{TOUCH_RATE, TaskActivity, TaskCounts, queue_full};
use super::virtual_time::SoloSpeed;
use super::{Fluid, TaskState};
use crate::hardware::{Hardware, HardwareCpu};
use crate::physics::{
    Channel, ClientDemand, FillTable, LoadedChannel, compute_occupancies, update_latency,
};

/// Relative precision of latencies and speeds.
const RELATIVE_PRECISION: f64 = 1e-3;
/// Minimum relative change of a task's speed for which its cache is solved again.
const SPEED_CHANGE_MIN: f64 = 4e-3;
/// Maximum number of iterations between occupancies and speeds.
const N_ROUNDS: usize = 24;
/// Relaxation factor, which is used when the iteration oscillates.
const DAMPING: f64 = 0.5;
/// Maximum number of sweeps over caches and controllers. No tested machine reaches this number.
const N_SWEEPS: usize = 64;
/// Hit latency of the shared cache in nanoseconds: 40 cycles at 2.4 GHz.
pub const HIT_NS: f64 = 40.0 / 2.4;
/// Number of steps of the sum over the misses of a cold cache.
const COLD_CACHE_STEPS: u32 = 16;

/// State of the solver.
#[derive(Clone, Debug, Default)]
pub(super) struct Solver {
    touched: Vec<bool>,
    queue: Vec<usize>,
    /// Whether any demand has changed since the last solution.
    pub is_dirty: bool,
    /// Controllers by node, then links.
    channels: Vec<ChannelState>,
    /// CPUs to reschedule.
    pub stale_cpus: Vec<usize>,
    /// Tasks with a changed speed. Their counts per instruction have to be recomputed.
    pub changed: Vec<usize>,
    occupancies: Vec<f64>,
    demands: Vec<ClientDemand>,
    channel_loads: Vec<(usize, f64)>,
    /// Only without contention: tasks that arrived on a CPU or started a phase.
    pub unsolved: Vec<usize>,
    /// Recent solutions for programs that run alone on a CPU.
    pub solo_speeds: Vec<SoloSpeed>,
    /// Only without contention: CPUs with SMT siblings that may have become busy or idle.
    pub touched_cpus: Vec<usize>,
}

/// State of a memory controller or an interconnect link.
#[derive(Clone, Debug)]
struct ChannelState {
    channel: Channel,
    /// Miss latency in nanoseconds.
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
}

impl ChannelState {
    fn new(channel: Channel) -> Self {
        let latency = channel.latency_ns(0.0);
        let users = Vec::new();
        ChannelState {
            channel,
            latency,
            overload: 1.0,
            migrating: 0.0,
            used: 0.0,
            solved_for: 0.0,
            users,
        }
    }

    /// Returns whether the latency is inconsistent with the current demand.
    fn is_inconsistent(&self) -> bool {
        let latency = |used: f64| self.channel.latency_ns(used / self.channel.capacity);
        let differs = libm::fabs(latency(self.used) - latency(self.solved_for));
        let is_full =
            self.channel.capacity * (1.0 - RELATIVE_PRECISION) <= self.solved_for.max(self.used);
        let shifts = libm::fabs(self.used - self.solved_for);
        RELATIVE_PRECISION * self.latency < differs
            || (is_full && RELATIVE_PRECISION * self.solved_for < shifts)
    }
}

impl Solver {
    pub fn new(hardware: &Hardware) -> Self {
        let nodes = hardware.nodes.iter().map(|node| ChannelState::new(node.channel));
        let links = hardware.links.iter().map(|link| ChannelState::new(link.channel));
        Solver {
            touched: vec![false; hardware.caches.len()],
            channels: nodes.chain(links).collect(),
            ..Solver::default()
        }
    }

    pub fn touch(&mut self, cache: usize) {
        if !std::mem::replace(&mut self.touched[cache], true) {
            self.queue.push(cache);
            self.is_dirty = true;
        }
    }

    /// Adds (sign 1) or removes (sign -1) the demand of a task.
    fn add_demand(&mut self, bandwidths: &[(usize, f64)], sign: f64) {
        for &(channel_idx, bytes) in bandwidths {
            self.channels[channel_idx].used += sign * bytes;
        }
    }
}

impl Fluid {
    /// Solves all affected domains and reschedules the ends of segments.
    pub(super) fn solve(&mut self) {
        if !self.solver.is_dirty && self.solver.stale_cpus.is_empty() {
            return;
        }
        if std::mem::take(&mut self.solver.is_dirty) {
            self.counts.solves += 1;
            if !self.settings.contention {
                self.solve_without_contention();
            }
            for _ in 0..if self.settings.contention { N_SWEEPS } else { 0 } {
                let mut caches = std::mem::take(&mut self.solver.queue);
                caches.sort_unstable();
                for cache in caches {
                    self.solver.touched[cache] = false;
                    self.solve_cache(cache);
                }
                let inconsistent = (0..self.solver.channels.len())
                    .filter(|&channel_idx| self.solver.channels[channel_idx].is_inconsistent());
                let inconsistent: Vec<usize> = inconsistent.collect();
                for &channel_idx in &inconsistent {
                    self.solve_channel(channel_idx);
                }
                if inconsistent.is_empty() && self.solver.queue.is_empty() {
                    break;
                }
            }
            self.update_counts_per_instruction();
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

    pub(super) fn phase_of(&self, task: usize) -> &crate::script::ScriptPhase {
        let task = &self.tasks[task];
        &task.script.phases[task.phase.min(task.script.phases.len() - 1)]
    }

    /// Solves the occupancy of a cache, and the speeds of its tasks at the current latencies.
    fn solve_cache(&mut self, cache: usize) {
        let hardware = self.hardware.clone();
        let mut members = Vec::new();
        for &cpu in &hardware.caches[cache].cpus {
            if self.cpus[cpu].is_stale {
                self.solver.stale_cpus.push(cpu);
            }
            let smt = self.smt_speed(cpu);
            for at in 0..self.cpus[cpu].tasks.len() {
                let idx = self.cpus[cpu].tasks[at];
                self.add_to_channels(idx, cpu);
                members.push((idx, smt));
            }
        }
        let bytes = hardware.caches[cache].bytes;
        let shares = self.settings.contention && 1 < members.len();
        for &(idx, smt) in &members {
            let task = &mut self.tasks[idx];
            let is_warm = task.warm_in == Some(cache) && 0.0 < task.occupancy;
            if !shares {
                task.occupancy = bytes;
            } else if !is_warm {
                task.occupancy = bytes / members.len() as f64;
            }
            task.warm_in = Some(cache);
            self.tasks[idx].demand.ns = self.speed_at(idx, smt, self.tasks[idx].occupancy);
        }
        if shares {
            self.solve_occupancies(&hardware, cache, &members);
        }
        for &(idx, _) in &members {
            let ns = self.tasks[idx].demand.ns;
            self.tasks[idx].demand.ns_shared = ns;
            self.set_speed(idx, ns);
        }
    }

    /// Iterates occupancies and speeds at the current latencies.
    fn solve_occupancies(&mut self, hardware: &Hardware, cache: usize, members: &[(usize, f64)]) {
        let bytes = hardware.caches[cache].bytes;
        let kind = hardware.cache_size_index(cache);
        let mut occupancies = std::mem::take(&mut self.solver.occupancies);
        occupancies.resize(members.len(), 0.0);
        let (mut relaxation, mut previous_change) = (1.0, f64::INFINITY);
        for _ in 0..N_ROUNDS {
            let filling: Vec<(&FillTable, f64)> = members
                .iter()
                .map(|&(idx, _)| {
                    let demand = &self.tasks[idx].demand;
                    (&self.phase_of(idx).fills[kind], demand.ns / demand.client.duty)
                })
                .collect();
            compute_occupancies(&filling, bytes, &mut occupancies);
            let mut change = 0.0f64;
            for (&(idx, smt), fit) in members.iter().zip(&occupancies) {
                let now =
                    self.tasks[idx].occupancy + relaxation * (fit - self.tasks[idx].occupancy);
                let ns = self.speed_at(idx, smt, now);
                let task = &mut self.tasks[idx];
                change = change.max(libm::fabs(ns / task.demand.ns - 1.0));
                task.occupancy = now;
                task.demand.ns = ns;
            }
            if change < RELATIVE_PRECISION / 10.0 {
                break;
            }
            if previous_change < 2.0 * change {
                relaxation = DAMPING;
            }
            previous_change = change;
        }
        self.solver.occupancies = occupancies;
    }

    /// Computes the demand of a task with this occupancy. Returns the nanoseconds per 1000 instructions.
    pub(super) fn speed_at(&mut self, idx: usize, smt: f64, occupancy: f64) -> f64 {
        let behaviour = &self.phase_of(idx).behaviour;
        let demand = behaviour.demand(occupancy);
        let ghz = behaviour.ghz() / self.hardware.cpus[self.tasks[idx].cpu].ghz;
        let user = &mut self.tasks[idx].demand.client;
        user.core_ns = demand.core_ns * ghz / smt;
        user.exposed = demand.exposed;
        user.bytes = demand.bytes;
        self.ns_at_latencies(idx)
    }

    /// Returns the nanoseconds per 1000 instructions at the current latencies.
    fn ns_at_latencies(&self, idx: usize) -> f64 {
        let user = &self.tasks[idx].demand.client;
        let (mut miss, mut overload) = (user.fixed_ns, 1.0f64);
        for &(channel_idx, part) in &user.uses {
            miss += part * self.solver.channels[channel_idx].latency;
            overload = overload.max(self.solver.channels[channel_idx].overload);
        }
        ((user.core_ns + user.exposed * miss) * overload).max(1e-6)
    }

    /// Solves the latency of a channel and the speeds of all its users.
    fn solve_channel(&mut self, channel_idx: usize) {
        let users = std::mem::take(&mut self.solver.channels[channel_idx].users);
        let mut demands = std::mem::take(&mut self.solver.demands);
        let background = self.collect_demands(channel_idx, &users, &mut demands);
        let state = &self.solver.channels[channel_idx];
        let loaded = LoadedChannel { channel: state.channel, background };
        let (latency, overload) = update_latency(&demands, &loaded, state.latency);
        demands.clear();
        self.solver.demands = demands;
        let state = &mut self.solver.channels[channel_idx];
        state.latency = latency;
        state.overload = overload;
        for &idx in &users {
            let ns = self.ns_at_latencies(idx);
            self.set_speed(idx, ns);
            let shared = self.tasks[idx].demand.ns_shared;
            if SPEED_CHANGE_MIN < libm::fabs(ns / shared - 1.0) {
                let cache = self.hardware.cpus[self.tasks[idx].cpu].cache;
                if 1 < self.tasks_in_cache(cache) {
                    self.solver.touch(cache);
                }
            }
        }
        // The sum is recomputed, so that rounding errors do not accumulate.
        let bandwidth_of = |idx: &usize| {
            let on_channel = self.tasks[*idx]
                .demand
                .bandwidths
                .iter()
                .filter(|(other, _)| *other == channel_idx);
            on_channel.map(|(_, bytes)| bytes).sum::<f64>()
        };
        let used = users.iter().map(bandwidth_of).sum::<f64>();
        let state = &mut self.solver.channels[channel_idx];
        state.used = used + state.migrating;
        state.solved_for = state.used;
        state.users = users;
    }

    /// Collects the demands of a channel's users into `demands`. Returns the background traffic of the channel: page
    /// migration and first touch.
    fn collect_demands(
        &self,
        channel_idx: usize,
        users: &[usize],
        demands: &mut Vec<ClientDemand>,
    ) -> f64 {
        let mut background = self.solver.channels[channel_idx].migrating;
        for &idx in users {
            let task = &self.tasks[idx];
            if task.activity() == TaskActivity::Touching {
                let own = task.demand.bandwidths.iter().filter(|(other, _)| *other == channel_idx);
                background += own.map(|(_, bytes)| bytes).sum::<f64>();
                continue;
            }
            let mut part_here = 0.0;
            let mut elsewhere = task.demand.client.fixed_ns;
            for &(other, part) in &task.demand.client.uses {
                match other == channel_idx {
                    true => part_here = part,
                    false => elsewhere += part * self.solver.channels[other].latency,
                }
            }
            demands.push(task.demand.client.demand_on(part_here, elsewhere));
        }
        background
    }

    fn tasks_in_cache(&self, cache: usize) -> usize {
        self.hardware.caches[cache].cpus.iter().map(|&cpu| self.cpus[cpu].tasks.len()).sum()
    }

    /// Sets the speed of a task and its demand.
    fn set_speed(&mut self, idx: usize, ns: f64) {
        let cpu = self.tasks[idx].cpu;
        self.update_cpu(cpu);
        if !std::mem::replace(&mut self.cpus[cpu].is_stale, true) {
            self.solver.stale_cpus.push(cpu);
        }
        let node = self.hardware.cpus[cpu].node;
        let task = &mut self.tasks[idx];
        debug_assert_eq!(task.state, TaskState::Runnable);
        task.demand.ns = ns;
        task.speed = 1000.0 / ns;
        let demand = &mut task.demand;
        self.solver.add_demand(&demand.bandwidths, -1.0);
        demand.bandwidths.clear();
        if task.activity() == TaskActivity::Touching {
            let demand = &mut task.demand;
            demand.bandwidths.push((node, TOUCH_RATE * demand.client.duty));
        } else {
            let demand = &mut task.demand;
            let each = demand.client.duty * demand.client.bytes / ns;
            demand.bandwidths.extend(
                demand.client.uses.iter().map(|&(channel_idx, part)| (channel_idx, part * each)),
            );
        }
        self.solver.add_demand(&task.demand.bandwidths, 1.0);
        self.solver.changed.push(idx);
    }

    /// Records the channels of a task's misses, and its share of the CPU.
    fn add_to_channels(&mut self, idx: usize, cpu: usize) {
        let node = self.hardware.cpus[cpu].node;
        let duty = self.tasks[idx].weight / self.cpus[cpu].weight;
        self.tasks[idx].demand.client.duty = duty;
        let before = std::mem::take(&mut self.tasks[idx].demand.client.uses);
        let mut uses = std::mem::take(&mut self.solver.channel_loads);
        let fixed = self.each_channel(self.tasks[idx].job, node, |channel_idx, part| {
            uses.push((channel_idx, part))
        });
        // First touch uses the controller of the local node.
        if uses.iter().all(|(channel_idx, _)| *channel_idx != node) {
            uses.push((node, 0.0));
        }
        let demand = &mut self.tasks[idx].demand;
        let same = demand.is_on_channels && uses.iter().map(|u| u.0).eq(before.iter().map(|u| u.0));
        demand.client.fixed_ns = fixed;
        demand.client.uses = uses;
        if !same {
            let was_listed = std::mem::replace(&mut demand.is_on_channels, true);
            let (after, bandwidths) =
                (demand.client.uses.clone(), std::mem::take(&mut demand.bandwidths));
            self.solver.add_demand(&bandwidths, -1.0);
            for &(channel_idx, _) in before.iter().filter(|_| was_listed) {
                self.solver.channels[channel_idx].users.retain(|&user| user != idx);
            }
            for &(channel_idx, _) in &after {
                self.solver.channels[channel_idx].users.push(idx);
            }
        }
        self.solver.channel_loads = before;
        self.solver.channel_loads.clear();
    }

    /// Removes a task from the users of its channels.
    pub(super) fn remove_from_channels(&mut self, idx: usize) {
        let demand = &mut self.tasks[idx].demand;
        let bandwidths = std::mem::take(&mut demand.bandwidths);
        let uses = std::mem::take(&mut demand.client.uses);
        let was_listed = std::mem::take(&mut demand.is_on_channels);
        self.solver.add_demand(&bandwidths, -1.0);
        for &(channel_idx, _) in uses.iter().filter(|_| was_listed) {
            self.solver.channels[channel_idx].users.retain(|&user| user != idx);
        }
    }

    /// Calls `visit` with each controller and link that the misses of a job on a node use, and with their shares.
    /// Returns the fixed part of the miss latency.
    fn each_channel(&self, job: usize, node: usize, mut visit: impl FnMut(usize, f64)) -> f64 {
        let mut fixed_ns = 0.0;
        let parts = self.pages.parts(job);
        let local = [(node, 1.0)];
        let parts = if parts.is_empty() { &local[..] } else { parts };
        for &(to, part) in parts {
            let path = self.hardware.path_between(node, to);
            fixed_ns += part * path.extra_ns;
            visit(to, part);
            if let Some(link) = path.link {
                visit(self.hardware.nodes.len() + link, part);
            }
        }
        fixed_ns
    }

    /// Updates the background traffic when a page migration starts or stops.
    pub(super) fn update_moving(&mut self) {
        for node in 0..self.hardware.nodes.len() {
            let moving = self.pages.migration_bandwidth(node);
            let state = &mut self.solver.channels[node];
            state.used += moving - state.migrating;
            state.migrating = moving;
        }
        self.solver.is_dirty = true;
    }

    /// Returns the speed of a CPU relative to its speed with idle SMT siblings.
    pub(super) fn smt_speed(&self, cpu: usize) -> f64 {
        let HardwareCpu { core, smt_speed, .. } = self.hardware.cpus[cpu];
        let siblings = &self.hardware.cores[core];
        let has_busy_sibling =
            siblings.iter().any(|&other| other != cpu && !self.cpus[other].tasks.is_empty());
        if has_busy_sibling { smt_speed } else { 1.0 }
    }

    /// Recomputes the counts per instruction of tasks with a changed speed.
    fn update_counts_per_instruction(&mut self) {
        let mut changed = std::mem::take(&mut self.solver.changed);
        changed.sort_unstable();
        changed.dedup();
        for &idx in &changed {
            if self.tasks[idx].state == TaskState::Runnable {
                self.update_counts_of(idx);
            }
        }
        changed.clear();
        self.solver.changed = changed;
    }

    pub(super) fn update_counts_of(&mut self, idx: usize) {
        let task = &self.tasks[idx];
        let (ns, user) = (task.demand.ns, &task.demand.client);
        let latency = user.uses.iter().map(|(p, part)| part * self.solver.channels[*p].latency);
        let miss_ns = user.fixed_ns + latency.sum::<f64>();
        let phase = self.phase_of(idx);
        let row = phase.behaviour.miss_curve().at(task.occupancy);
        let ghz = self.hardware.cpus[task.cpu].ghz;
        let prefetches = (row.misses - row.demand_misses).max(0.0);
        let hits = (phase.references - row.demand_misses).max(0.0);
        let outstanding = (row.demand_misses + prefetches) / ns * miss_ns + hits / ns * HIT_NS;
        let each = TaskCounts {
            instructions: 1.0,
            cycles: ns / 1000.0 * ghz,
            references: phase.references / 1000.0,
            misses: row.demand_misses / 1000.0,
            prefetches: prefetches / 1000.0,
            l1_misses: phase.l1_misses / 1000.0,
            queue_full: (phase.references + prefetches) / 1000.0 * queue_full(outstanding),
            stalls: user.exposed * miss_ns / 1000.0 * ghz,
            reads: row.reads / 1000.0,
            writes: row.writes / 1000.0,
        };
        let task = &mut self.tasks[idx];
        task.per_instruction = each;
        task.miss_ns = miss_ns;
    }

    /// Charges the cost of a cold cache to a task that moves to another cache.
    ///
    /// While the task fills the cache up to its occupancy, each inserted line counts as 1 - misses(occupancy) /
    /// misses(current) additional misses (see [`crate::physics::occupancies`]).
    pub(super) fn charge_cold_cache(&mut self, idx: usize, cache: usize) {
        let task = &self.tasks[idx];
        if task.warm_in.is_none() || task.warm_in == Some(cache) || !self.settings.contention {
            return;
        }
        let behaviour = &self.phase_of(idx).behaviour;
        let occupied = task.occupancy.min(self.hardware.caches[cache].bytes);
        let later = behaviour.miss_curve().at(occupied).misses;
        let step = occupied / f64::from(COLD_CACHE_STEPS);
        let more = (0..COLD_CACHE_STEPS).map(|at| {
            let now = behaviour.miss_curve().at((f64::from(at) + 0.5) * step).misses;
            if 0.0 < now { step / 64.0 * (1.0 - later / now).max(0.0) } else { 0.0 }
        });
        let lines: f64 = more.sum();
        let ns = lines * task.miss_ns / behaviour.overlap();
        let task = &mut self.tasks[idx];
        task.occupancy = 0.0;
        task.lose_time(ns, lines);
    }
}
