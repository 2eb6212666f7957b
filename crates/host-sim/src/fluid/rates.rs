//! How fast everybody is, solved for the caches that were touched and for what that shakes.
//!
//! ```text
//!   touched caches ─► who holds how much, and how fast each is at the present latencies
//!        ▲                        │ what each controller and link is asked for
//!        │                        ▼
//!   caches whose tasks ◄── controllers and links whose latency no longer goes with what they are asked for:
//!   changed their speed       their latency, and the speed of all who use them
//! ```
//!
//! What stays within [`CLOSE`] is left as it is: so an event costs as much as it changes. Nothing drifts,
//! since what is compared is always what is asked now with what the latency in force stands for.

use super::calm::Alone;
use super::tally::{Tally, queue_full};
use super::tasks::{Doing, TOUCH_RATE};
use super::{Fluid, TaskState};
use crate::hardware::Hardware;
use crate::physics::{Channel, FillTable, Place, User, Visit, settle_one, shares_into};

/// Latencies and speeds are exact to this part of them.
const CLOSE: f64 = 1e-3;
/// A cache is shared anew when one of its tasks has changed its speed by more than this part.
const STIRRED: f64 = 4e-3;
/// So often shares and speeds are found from each other at most.
const N_ROUNDS: usize = 24;
/// Of each change of a share so much is taken once they have begun to swing.
const DAMPING: f64 = 0.5;
/// Rounds over caches and controllers until what is left is left: far more than any machine here needed.
const N_SWEEPS: usize = 64;
/// Nanoseconds of a hit in the shared cache: 40 cycles at 2.4 GHz (spec 8.3).
pub const HIT_NS: f64 = 40.0 / 2.4;
/// Steps in which the misses of a cold cache are summed.
const COLD_STEPS: u32 = 16;

/// What was touched, and what the solution is.
#[derive(Clone, Debug, Default)]
pub(super) struct Solver {
    touched: Vec<bool>,
    queue: Vec<usize>,
    /// Whether anything is asked otherwise than before.
    pub is_dirty: bool,
    /// Controllers by node, then links.
    places: Vec<PlaceState>,
    /// CPUs whose next event is to be reckoned.
    pub stale_cpus: Vec<usize>,
    /// Tasks whose speed changed, and what they do with each instruction is to be worked out.
    pub changed: Vec<usize>,
    held: Vec<f64>,
    visits: Vec<Visit>,
    uses: Vec<(usize, f64)>,
    /// Without contention: tasks that came to a CPU or to another act since, and CPUs whose siblings may be
    /// busy or idle otherwise than before.
    pub fresh: Vec<usize>,
    /// How programs run alone, as far as that was reckoned lately.
    pub alone: Vec<Alone>,
    pub touched_cpus: Vec<usize>,
}

/// A controller or a link.
#[derive(Clone, Debug)]
struct PlaceState {
    channel: Channel,
    /// Nanoseconds of a miss.
    latency: f64,
    /// Whoever waits for nothing is slowed down by this, where more is asked for than can be moved.
    beyond: f64,
    /// Bytes per nanosecond of pages that are moved.
    moving: f64,
    /// Bytes per nanosecond of everybody, as asked now.
    used: f64,
    /// The same that the latency stands for.
    settled: f64,
    /// Tasks that use it.
    users: Vec<usize>,
}

impl PlaceState {
    fn new(channel: Channel) -> Self {
        let latency = channel.latency_ns(0.0);
        let users = Vec::new();
        PlaceState { channel, latency, beyond: 1.0, moving: 0.0, used: 0.0, settled: 0.0, users }
    }

    /// Whether its latency no longer goes with what it is asked for.
    fn is_shaken(&self) -> bool {
        let latency = |used: f64| self.channel.latency_ns(used / self.channel.cap);
        let differs = libm::fabs(latency(self.used) - latency(self.settled));
        let is_full = self.channel.cap * (1.0 - CLOSE) <= self.settled.max(self.used);
        let shifts = libm::fabs(self.used - self.settled);
        CLOSE * self.latency < differs || (is_full && CLOSE * self.settled < shifts)
    }
}

impl Solver {
    pub fn new(hardware: &Hardware) -> Self {
        let nodes = hardware.nodes.iter().map(|node| PlaceState::new(node.channel));
        let links = hardware.links.iter().map(|link| PlaceState::new(link.channel));
        Solver {
            touched: vec![false; hardware.caches.len()],
            places: nodes.chain(links).collect(),
            ..Solver::default()
        }
    }

    pub fn touch(&mut self, cache: usize) {
        if !std::mem::replace(&mut self.touched[cache], true) {
            self.queue.push(cache);
            self.is_dirty = true;
        }
    }

    /// What a task asks of a place, taken back or added.
    fn ask(&mut self, asked: &[(usize, f64)], sign: f64) {
        for &(place, bytes) in asked {
            self.places[place].used += sign * bytes;
        }
    }
}

/// What a task asks of the machine as it runs now.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    /// Its demand, and over which places its misses go.
    pub user: User,
    /// Bytes per nanosecond that it moves at each place.
    asked: Vec<(usize, f64)>,
    /// Nanoseconds for 1000 instructions.
    pub ns: f64,
    /// The same when its cache was shared last.
    pub ns_shared: f64,
    /// Whether it stands among the users of its places.
    is_listed: bool,
}

impl Fluid {
    /// Solves what was touched, and reckons when the next stretches end.
    pub(super) fn solve(&mut self) {
        if !self.solver.is_dirty && self.solver.stale_cpus.is_empty() {
            return;
        }
        if std::mem::take(&mut self.solver.is_dirty) {
            self.counts.solves += 1;
            if !self.settings.contention {
                self.solve_each_alone();
            }
            for _ in 0..if self.settings.contention { N_SWEEPS } else { 0 } {
                let mut caches = std::mem::take(&mut self.solver.queue);
                caches.sort_unstable();
                for cache in caches {
                    self.solver.touched[cache] = false;
                    self.solve_cache(cache);
                }
                let shaken = (0..self.solver.places.len())
                    .filter(|&place| self.solver.places[place].is_shaken());
                let shaken: Vec<usize> = shaken.collect();
                for &place in &shaken {
                    self.solve_place(place);
                }
                if shaken.is_empty() && self.solver.queue.is_empty() {
                    break;
                }
            }
            self.set_what_each_does();
        }
        let mut stale = std::mem::take(&mut self.solver.stale_cpus);
        for &cpu in &stale {
            if self.cpus[cpu].is_stale {
                self.reckon(cpu);
            }
        }
        // What comes of reckoning waits for the next time.
        stale.clear();
        stale.append(&mut self.solver.stale_cpus);
        self.solver.stale_cpus = stale;
    }

    pub(super) fn act_of(&self, task: usize) -> &crate::script::Act {
        let task = &self.tasks[task];
        &task.script.acts[task.act.min(task.script.acts.len() - 1)]
    }

    /// Who holds how much of a cache, and how fast its tasks are at the present latencies.
    fn solve_cache(&mut self, cache: usize) {
        let hardware = self.hardware.clone();
        let mut members = Vec::new();
        for &cpu in &hardware.caches[cache].cpus {
            if self.cpus[cpu].is_stale {
                self.solver.stale_cpus.push(cpu);
            }
            let smt = self.smt_share(cpu);
            for at in 0..self.cpus[cpu].tasks.len() {
                let idx = self.cpus[cpu].tasks[at];
                self.list(idx, cpu);
                members.push((idx, smt));
            }
        }
        let bytes = hardware.caches[cache].bytes;
        let shares = self.settings.contention && 1 < members.len();
        for &(idx, smt) in &members {
            let task = &mut self.tasks[idx];
            let is_warm = task.warm_in == Some(cache) && 0.0 < task.held;
            if !shares {
                task.held = bytes;
            } else if !is_warm {
                task.held = bytes / members.len() as f64;
            }
            task.warm_in = Some(cache);
            self.tasks[idx].asks.ns = self.speed_at(idx, smt, self.tasks[idx].held);
        }
        if shares {
            self.share(&hardware, cache, &members);
        }
        for &(idx, _) in &members {
            let ns = self.tasks[idx].asks.ns;
            self.tasks[idx].asks.ns_shared = ns;
            self.set_speed(idx, ns);
        }
    }

    /// Shares and speeds that go together, at the present latencies.
    fn share(&mut self, hardware: &Hardware, cache: usize, members: &[(usize, f64)]) {
        let bytes = hardware.caches[cache].bytes;
        let kind = hardware.cache_kind(cache);
        let mut held = std::mem::take(&mut self.solver.held);
        held.resize(members.len(), 0.0);
        let (mut takes, mut moved_before) = (1.0, f64::INFINITY);
        for _ in 0..N_ROUNDS {
            let filling: Vec<(&FillTable, f64)> = members
                .iter()
                .map(|&(idx, _)| {
                    let asks = &self.tasks[idx].asks;
                    (&self.act_of(idx).fills[kind], asks.ns / asks.user.duty)
                })
                .collect();
            shares_into(&filling, bytes, &mut held);
            let mut moved = 0.0f64;
            for (&(idx, smt), fit) in members.iter().zip(&held) {
                let now = self.tasks[idx].held + takes * (fit - self.tasks[idx].held);
                let ns = self.speed_at(idx, smt, now);
                let task = &mut self.tasks[idx];
                moved = moved.max(libm::fabs(ns / task.asks.ns - 1.0));
                task.held = now;
                task.asks.ns = ns;
            }
            if moved < CLOSE / 10.0 {
                break;
            }
            if moved_before < 2.0 * moved {
                takes = DAMPING;
            }
            moved_before = moved;
        }
        self.solver.held = held;
    }

    /// What a task demands with so much cache; returns nanoseconds for 1000 instructions.
    pub(super) fn speed_at(&mut self, idx: usize, smt: f64, held: f64) -> f64 {
        let behaviour = &self.act_of(idx).behaviour;
        let demand = behaviour.demand(held);
        let ghz = behaviour.ghz() / self.hardware.cpus[self.tasks[idx].cpu].ghz;
        let user = &mut self.tasks[idx].asks.user;
        user.core_ns = demand.core_ns * ghz / smt;
        user.exposed = demand.exposed;
        user.bytes = demand.bytes;
        self.ns_now(idx)
    }

    /// Nanoseconds for 1000 instructions at the present latencies.
    fn ns_now(&self, idx: usize) -> f64 {
        let user = &self.tasks[idx].asks.user;
        let (mut miss, mut beyond) = (user.fixed_ns, 1.0f64);
        for &(place, part) in &user.uses {
            miss += part * self.solver.places[place].latency;
            beyond = beyond.max(self.solver.places[place].beyond);
        }
        ((user.core_ns + user.exposed * miss) * beyond).max(1e-6)
    }

    /// The latency of a place that goes with what is asked of it, and the speed of all who use it.
    fn solve_place(&mut self, place: usize) {
        let users = std::mem::take(&mut self.solver.places[place].users);
        let state = &self.solver.places[place];
        let mut besides = state.moving;
        let mut here = std::mem::take(&mut self.solver.visits);
        for &idx in &users {
            let task = &self.tasks[idx];
            let mut part_here = 0.0;
            let mut elsewhere = task.asks.user.fixed_ns;
            for &(other, part) in &task.asks.user.uses {
                match other == place {
                    true => part_here = part,
                    false => elsewhere += part * self.solver.places[other].latency,
                }
            }
            if task.doing() == Doing::Touching {
                let own = task.asks.asked.iter().filter(|(other, _)| *other == place);
                besides += own.map(|(_, bytes)| bytes).sum::<f64>();
            } else {
                here.push(task.asks.user.visit(part_here, elsewhere));
            }
        }
        let asked = Place { channel: state.channel, besides };
        let (latency, beyond) = settle_one(&here, &asked, state.latency);
        here.clear();
        self.solver.visits = here;
        let state = &mut self.solver.places[place];
        state.latency = latency;
        state.beyond = beyond;
        for &idx in &users {
            let ns = self.ns_now(idx);
            self.set_speed(idx, ns);
            let shared = self.tasks[idx].asks.ns_shared;
            if STIRRED < libm::fabs(ns / shared - 1.0) {
                let cache = self.hardware.cpus[self.tasks[idx].cpu].cache;
                if 1 < self.tasks_in_cache(cache) {
                    self.solver.touch(cache);
                }
            }
        }
        // Summed anew, so that no rounding adds up.
        let of = |idx: &usize| {
            let asked = self.tasks[*idx].asks.asked.iter().filter(|(other, _)| *other == place);
            asked.map(|(_, bytes)| bytes).sum::<f64>()
        };
        let used = users.iter().map(of).sum::<f64>();
        let state = &mut self.solver.places[place];
        state.used = used + state.moving;
        state.settled = state.used;
        state.users = users;
    }

    fn tasks_in_cache(&self, cache: usize) -> usize {
        self.hardware.caches[cache].cpus.iter().map(|&cpu| self.cpus[cpu].tasks.len()).sum()
    }

    /// From now on a task takes so long for 1000 instructions.
    fn set_speed(&mut self, idx: usize, ns: f64) {
        let cpu = self.tasks[idx].cpu;
        self.settle_cpu(cpu);
        if !std::mem::replace(&mut self.cpus[cpu].is_stale, true) {
            self.solver.stale_cpus.push(cpu);
        }
        let node = self.hardware.cpus[cpu].node;
        let task = &mut self.tasks[idx];
        debug_assert_eq!(task.state, TaskState::Runnable);
        task.asks.ns = ns;
        task.speed = 1000.0 / ns;
        let asks = &mut task.asks;
        self.solver.ask(&asks.asked, -1.0);
        asks.asked.clear();
        if task.doing() == Doing::Touching {
            let asks = &mut task.asks;
            asks.asked.push((node, TOUCH_RATE * asks.user.duty));
        } else {
            let asks = &mut task.asks;
            let each = asks.user.duty * asks.user.bytes / ns;
            asks.asked.extend(asks.user.uses.iter().map(|&(place, part)| (place, part * each)));
        }
        self.solver.ask(&task.asks.asked, 1.0);
        self.solver.changed.push(idx);
    }

    /// Writes down over which places the misses of a task go, and by which part of a CPU it runs.
    fn list(&mut self, idx: usize, cpu: usize) {
        let node = self.hardware.cpus[cpu].node;
        let duty = self.tasks[idx].weight / self.cpus[cpu].weight;
        self.tasks[idx].asks.user.duty = duty;
        let before = std::mem::take(&mut self.tasks[idx].asks.user.uses);
        let mut uses = std::mem::take(&mut self.solver.uses);
        let fixed =
            self.each_place(self.tasks[idx].job, node, |place, part| uses.push((place, part)));
        // A task that touches memory for the first time does so through the controller of its node.
        if uses.iter().all(|(place, _)| *place != node) {
            uses.push((node, 0.0));
        }
        let asks = &mut self.tasks[idx].asks;
        let same = asks.is_listed && uses.iter().map(|u| u.0).eq(before.iter().map(|u| u.0));
        asks.user.fixed_ns = fixed;
        asks.user.uses = uses;
        if !same {
            let was_listed = std::mem::replace(&mut asks.is_listed, true);
            let (after, asks) = (asks.user.uses.clone(), std::mem::take(&mut asks.asked));
            self.solver.ask(&asks, -1.0);
            for &(place, _) in before.iter().filter(|_| was_listed) {
                self.solver.places[place].users.retain(|&user| user != idx);
            }
            for &(place, _) in &after {
                self.solver.places[place].users.push(idx);
            }
        }
        self.solver.uses = before;
        self.solver.uses.clear();
    }

    /// A task leaves its CPU: nothing is asked for it any more.
    pub(super) fn unlist(&mut self, idx: usize) {
        let asks = &mut self.tasks[idx].asks;
        let asked = std::mem::take(&mut asks.asked);
        let uses = std::mem::take(&mut asks.user.uses);
        let was_listed = std::mem::take(&mut asks.is_listed);
        self.solver.ask(&asked, -1.0);
        for &(place, _) in uses.iter().filter(|_| was_listed) {
            self.solver.places[place].users.retain(|&user| user != idx);
        }
    }

    /// The controllers and links that a job's misses go over from a node, with their parts.
    fn each_place(&self, job: usize, node: usize, mut tell: impl FnMut(usize, f64)) -> f64 {
        let mut fixed_ns = 0.0;
        let parts = self.pages.parts(job);
        let local = [(node, 1.0)];
        let parts = if parts.is_empty() { &local[..] } else { parts };
        for &(to, part) in parts {
            let way = self.hardware.way(node, to);
            fixed_ns += part * way.more_ns;
            tell(to, part);
            if let Some(link) = way.link {
                tell(self.hardware.nodes.len() + link, part);
            }
        }
        fixed_ns
    }

    /// Pages begin or cease to be moved.
    pub(super) fn update_moving(&mut self) {
        for node in 0..self.hardware.nodes.len() {
            let moving = self.pages.moving(node);
            let state = &mut self.solver.places[node];
            state.used += moving - state.moving;
            state.moving = moving;
        }
        self.solver.is_dirty = true;
    }

    /// How fast a CPU is beside its siblings, as a part of alone.
    pub(super) fn smt_share(&self, cpu: usize) -> f64 {
        let its = &self.hardware.cpus[cpu];
        let siblings = &self.hardware.cores[its.core];
        let is_beside =
            siblings.iter().any(|&other| other != cpu && !self.cpus[other].tasks.is_empty());
        if is_beside { its.smt_share } else { 1.0 }
    }

    /// What those do with each instruction whose speed has changed.
    fn set_what_each_does(&mut self) {
        let mut changed = std::mem::take(&mut self.solver.changed);
        changed.sort_unstable();
        changed.dedup();
        for &idx in &changed {
            if self.tasks[idx].state == TaskState::Runnable {
                self.set_each(idx);
            }
        }
        changed.clear();
        self.solver.changed = changed;
    }

    pub(super) fn set_each(&mut self, idx: usize) {
        let task = &self.tasks[idx];
        let (ns, user) = (task.asks.ns, &task.asks.user);
        let latency = user.uses.iter().map(|(p, part)| part * self.solver.places[*p].latency);
        let miss_ns = user.fixed_ns + latency.sum::<f64>();
        let act = self.act_of(idx);
        let row = act.behaviour.character().at(task.held);
        let ghz = self.hardware.cpus[task.cpu].ghz;
        let prefetches = (row.misses - row.demand_misses).max(0.0);
        let hits = (act.references - row.demand_misses).max(0.0);
        let outstanding = (row.demand_misses + prefetches) / ns * miss_ns + hits / ns * HIT_NS;
        let each = Tally {
            instructions: 1.0,
            cycles: ns / 1000.0 * ghz,
            references: act.references / 1000.0,
            misses: row.demand_misses / 1000.0,
            prefetches: prefetches / 1000.0,
            l1_misses: act.l1_misses / 1000.0,
            queue_full: (act.references + prefetches) / 1000.0 * queue_full(outstanding),
            stalls: user.exposed * miss_ns / 1000.0 * ghz,
            reads: row.reads / 1000.0,
            writes: row.writes / 1000.0,
        };
        let task = &mut self.tasks[idx];
        task.each = each;
        task.miss_ns = miss_ns;
    }

    /// A task comes to a cache that holds nothing of it: it reads what it will hold again, once.
    ///
    /// While it fills up from nothing to what it will hold, each line that is put in stands for
    /// 1 - misses(then) / misses(now) misses more than later (the same filling as in
    /// [`crate::physics::shares`]).
    pub(super) fn warm_up(&mut self, idx: usize, cache: usize) {
        let task = &self.tasks[idx];
        if task.warm_in.is_none() || task.warm_in == Some(cache) || !self.settings.contention {
            return;
        }
        let behaviour = &self.act_of(idx).behaviour;
        let held = task.held.min(self.hardware.caches[cache].bytes);
        let later = behaviour.character().at(held).misses;
        let step = held / f64::from(COLD_STEPS);
        let more = (0..COLD_STEPS).map(|at| {
            let now = behaviour.character().at((f64::from(at) + 0.5) * step).misses;
            if 0.0 < now { step / 64.0 * (1.0 - later / now).max(0.0) } else { 0.0 }
        });
        let lines: f64 = more.sum();
        let ns = lines * task.miss_ns / behaviour.overlap();
        let task = &mut self.tasks[idx];
        task.held = 0.0;
        task.owe(ns, lines);
    }
}
