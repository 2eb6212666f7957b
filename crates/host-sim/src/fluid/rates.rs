//! How fast everybody is, solved for the caches that were touched and all that is tied to them.
//!
//! ```text
//!   touched caches ─► controllers and links that their tasks use ─► caches of others who use those ─► …
//!      ▼
//!   repeat: shares of each cache ─► demand of each task ─► latency of each controller and link ─► speeds
//! ```

use super::tally::{Tally, queue_full};
use super::tasks::{Doing, TOUCH_RATE};
use super::{Fluid, TaskState};
use crate::hardware::Hardware;
use crate::physics::{FillTable, Place, User, settle, shares};

/// What was touched, and what the last solution was.
#[derive(Clone, Debug, Default)]
pub(super) struct Solver {
    touched: Vec<bool>,
    any: bool,
    /// Nanoseconds of a miss at each node's controller, then at each link.
    latencies: Vec<f64>,
    /// CPUs whose next event is to be reckoned although no speed changed.
    pub stale_cpus: Vec<usize>,
}

/// So often shares and speeds are found from each other at most.
const N_ROUNDS: usize = 24;
/// A round that changes no speed by more than this part ends that.
const CLOSE: f64 = 1e-4;
/// Of each change of a share so much is taken, so that nothing swings.
const DAMPING: f64 = 0.6;
/// Lines of a request that a hit in the shared cache keeps outstanding, in nanoseconds: 40 cycles at
/// 2.4 GHz (spec 8.3).
pub const HIT_NS: f64 = 40.0 / 2.4;
/// Steps in which the misses of a cold cache are summed.
const COLD_STEPS: u32 = 16;

impl Solver {
    pub fn new(hardware: &Hardware) -> Self {
        let unloaded = hardware.nodes.iter().map(|node| node.channel.latency_ns(0.0));
        let links = hardware.links.iter().map(|link| link.channel.latency_ns(0.0));
        Solver {
            touched: vec![false; hardware.caches.len()],
            latencies: unloaded.chain(links).collect(),
            ..Solver::default()
        }
    }

    pub fn touch(&mut self, cache: usize) {
        self.touched[cache] = true;
        self.any = true;
    }
}

/// One task in a solution.
struct Member {
    task: usize,
    cache: usize,
    duty: f64,
    smt: f64,
    held: f64,
    ns: f64,
}

impl Fluid {
    /// Solves what was touched, and reckons when the next stretches end.
    pub(super) fn solve(&mut self) {
        if std::mem::take(&mut self.solver.any) {
            let caches = self.tied_together();
            self.solve_caches(&caches);
        }
        for cpu in std::mem::take(&mut self.solver.stale_cpus) {
            if self.cpus[cpu].is_stale {
                self.reckon(cpu);
            }
        }
    }

    /// The touched caches and all whose tasks share a controller or a link with them.
    fn tied_together(&mut self) -> Vec<usize> {
        let mut is_in =
            std::mem::replace(&mut self.solver.touched, vec![false; self.hardware.caches.len()]);
        if !self.settings.contention || self.hardware.caches.len() == 1 {
            return indices(&is_in);
        }
        let n_places = self.solver.latencies.len();
        let uses: Vec<Vec<usize>> =
            (0..self.hardware.caches.len()).map(|cache| self.places_of(cache)).collect();
        let mut is_used = vec![false; n_places];
        let mut frontier: Vec<usize> = indices(&is_in);
        while let Some(cache) = frontier.pop() {
            for &place in &uses[cache] {
                if std::mem::replace(&mut is_used[place], true) {
                    continue;
                }
                for (other, its) in uses.iter().enumerate() {
                    if !is_in[other] && its.contains(&place) {
                        is_in[other] = true;
                        frontier.push(other);
                    }
                }
            }
        }
        indices(&is_in)
    }

    /// Controllers and links that the tasks of a cache use.
    fn places_of(&self, cache: usize) -> Vec<usize> {
        let mut places = Vec::new();
        for &cpu in &self.hardware.caches[cache].cpus {
            for &idx in &self.cpus[cpu].tasks {
                let node = self.hardware.cpus[cpu].node;
                self.each_place(self.tasks[idx].job, node, |place, _| places.push(place));
            }
        }
        places.sort_unstable();
        places.dedup();
        places
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

    fn solve_caches(&mut self, caches: &[usize]) {
        self.counts.solves += 1;
        let mut cpus: Vec<usize> =
            caches.iter().flat_map(|&cache| self.hardware.caches[cache].cpus.clone()).collect();
        cpus.retain(|&cpu| !self.cpus[cpu].tasks.is_empty() || self.cpus[cpu].is_stale);
        for &cpu in &cpus {
            self.settle_cpu(cpu);
        }
        let mut members = self.members(caches);
        let hardware = self.hardware.clone();
        let (places, users_of, mut users, globals) = self.network(&members);
        let mut latencies: Vec<f64> =
            globals.iter().map(|&global| self.solver.latencies[global]).collect();
        let mut beyond = vec![1.0; places.len()];
        let rounds = if self.settings.contention { N_ROUNDS } else { 1 };
        for round in 0..rounds {
            self.share_caches(&hardware, caches, &mut members, round);
            let mut moved = 0.0f64;
            for (member, user) in members.iter().zip(&mut users) {
                let demand = self.act_of(member.task).behaviour.demand(member.held);
                let ghz = hardware.cpus[self.tasks[member.task].cpu].ghz;
                let behaviour = &self.act_of(member.task).behaviour;
                user.core_ns = demand.core_ns * behaviour.ghz() / ghz / member.smt;
                user.exposed = demand.exposed;
                user.bytes = demand.bytes;
            }
            if self.settings.contention {
                beyond = settle(&users, &users_of, &places, &mut latencies);
            }
            for (member, user) in members.iter_mut().zip(&users) {
                let slowed = user.uses.iter().map(|(place, _)| beyond[*place]).fold(1.0, f64::max);
                let ns = (user.takes_ns(&latencies) * slowed).max(1e-6);
                moved = moved.max(libm::fabs(ns / member.ns - 1.0));
                member.ns = ns;
            }
            if 0 < round && moved < CLOSE {
                break;
            }
        }
        if self.settings.contention {
            for (&global, &latency) in globals.iter().zip(&latencies) {
                self.solver.latencies[global] = latency;
            }
        }
        for (member, user) in members.iter().zip(&users) {
            self.set_speed(member, user, user.miss_ns(&latencies));
        }
        for cpu in cpus {
            self.reckon(cpu);
        }
    }

    fn act_of(&self, task: usize) -> &crate::script::Act {
        let task = &self.tasks[task];
        &task.script.acts[task.act.min(task.script.acts.len() - 1)]
    }

    fn members(&self, caches: &[usize]) -> Vec<Member> {
        let mut members = Vec::new();
        for &cache in caches {
            for &cpu in &self.hardware.caches[cache].cpus {
                let state = &self.cpus[cpu];
                let smt = self.smt_share(cpu);
                for &idx in &state.tasks {
                    let task = &self.tasks[idx];
                    let duty = task.weight / state.weight;
                    let ns = if 0.0 < task.speed { 1000.0 / task.speed } else { 1000.0 };
                    let held = if task.warm_in == Some(cache) { task.held } else { 0.0 };
                    members.push(Member { task: idx, cache, duty, smt, held, ns });
                }
            }
        }
        members
    }

    /// How fast a CPU is beside its siblings, as a part of alone.
    fn smt_share(&self, cpu: usize) -> f64 {
        let its = &self.hardware.cpus[cpu];
        let siblings = &self.hardware.cores[its.core];
        let is_beside =
            siblings.iter().any(|&other| other != cpu && !self.cpus[other].tasks.is_empty());
        if is_beside { its.smt_share } else { 1.0 }
    }

    /// What the members ask of controllers and links, numbered for this solution.
    #[allow(clippy::type_complexity)]
    fn network(
        &self,
        members: &[Member],
    ) -> (Vec<Place>, Vec<Vec<(usize, f64)>>, Vec<User>, Vec<usize>) {
        let n_nodes = self.hardware.nodes.len();
        let mut local_of = vec![None; self.solver.latencies.len()];
        let (mut places, mut globals) = (Vec::new(), Vec::new());
        let mut users_of: Vec<Vec<(usize, f64)>> = Vec::new();
        let mut users = Vec::with_capacity(members.len());
        for (at, member) in members.iter().enumerate() {
            let task = &self.tasks[member.task];
            let node = self.hardware.cpus[task.cpu].node;
            let mut user = User { duty: member.duty, ..User::default() };
            user.fixed_ns = self.each_place(task.job, node, |global, part| {
                let local = *local_of[global].get_or_insert_with(|| {
                    let (channel, besides) = match global.checked_sub(n_nodes) {
                        None => (self.hardware.nodes[global].channel, self.pages.moving(global)),
                        Some(link) => (self.hardware.links[link].channel, 0.0),
                    };
                    places.push(Place { channel, besides });
                    globals.push(global);
                    users_of.push(Vec::new());
                    places.len() - 1
                });
                user.uses.push((local, part));
                users_of[local].push((at, part));
            });
            users.push(user);
            let touched = local_of[node].filter(|_| task.doing() == Doing::Touching);
            if let Some(local) = touched {
                places[local].besides += TOUCH_RATE * member.duty;
            }
        }
        (places, users_of, users, globals)
    }

    /// Who holds how much of each cache at the present speeds.
    fn share_caches(
        &self,
        hardware: &Hardware,
        caches: &[usize],
        members: &mut [Member],
        round: usize,
    ) {
        let mut from = 0;
        for &cache in caches {
            let of_cache = members[from..].iter().take_while(|member| member.cache == cache);
            let to = from + of_cache.count();
            let bytes = hardware.caches[cache].bytes;
            let here = &mut members[from..to];
            from = to;
            if !self.settings.contention || here.len() <= 1 {
                here.iter_mut().for_each(|member| member.held = bytes);
                continue;
            }
            let kind = hardware.cache_kind(cache);
            let filling: Vec<(&FillTable, f64)> = here
                .iter()
                .map(|member| (&self.act_of(member.task).fills[kind], member.ns / member.duty))
                .collect();
            let fits = shares(&filling, bytes);
            for (member, fit) in here.iter_mut().zip(fits) {
                let is_new = round == 0 && member.held == 0.0;
                member.held =
                    if is_new { fit } else { member.held + DAMPING * (fit - member.held) };
            }
        }
    }

    /// What a task does from now on, as the solution says.
    fn set_speed(&mut self, member: &Member, user: &User, miss_ns: f64) {
        let act = self.act_of(member.task);
        let row = act.behaviour.character().at(member.held);
        let ghz = self.hardware.cpus[self.tasks[member.task].cpu].ghz;
        let ns_each = member.ns / 1000.0;
        let prefetches = (row.misses - row.demand_misses).max(0.0);
        let hits = (act.references - row.demand_misses).max(0.0);
        let outstanding =
            (row.demand_misses + prefetches) / member.ns * miss_ns + hits / member.ns * HIT_NS;
        let each = Tally {
            instructions: 1.0,
            cycles: ns_each * ghz,
            references: act.references / 1000.0,
            misses: row.demand_misses / 1000.0,
            prefetches: prefetches / 1000.0,
            l1_misses: act.l1_misses / 1000.0,
            queue_full: (act.references + prefetches) / 1000.0 * queue_full(outstanding),
            stalls: user.exposed * miss_ns / 1000.0 * ghz,
            reads: row.reads / 1000.0,
            writes: row.writes / 1000.0,
        };
        let task = &mut self.tasks[member.task];
        debug_assert_eq!(task.state, TaskState::Runnable);
        task.speed = 1.0 / ns_each;
        task.each = each;
        task.miss_ns = miss_ns;
        task.held = member.held;
        task.warm_in = Some(member.cache);
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

fn indices(set: &[bool]) -> Vec<usize> {
    set.iter().enumerate().filter(|(_, is_in)| **is_in).map(|(idx, _)| idx).collect()
}
