//! An oracle policy: the best placement of the running jobs according to the physics of the simulator.
//!
//! ```text
//!   running and due jobs ─► every assignment to last-level caches, if there are few enough,
//!                           else a greedy assignment, then moves and swaps while they help
//!                        ─► the assignment with the smallest sum of slowdowns
//! ```
//!
//! It cannot run on a real machine, because it uses the physics of the simulated machine. It shows how much a
//! policy could gain. It considers the present only, so for jobs that start and end it is a strong placement,
//! not a proven optimum. The reasons report a heuristic search. Memory stays on its nodes, and the cost of a
//! migration away from it is part of the result.

use std::sync::Arc;

use base::{CpuSet, JobId, Nanos};
use sched::{Action, Cause, JobView, Plan, Policy, Reason, ReasonCode, Snapshot, reasons};

use crate::fluid::{Fluid, JobStart, MachineSettings};
use crate::hardware::Hardware;
use crate::script::{Script, ScriptPhase};
use crate::variation::Variation;

/// Up to this number, all assignments are evaluated; above it, a heuristic search is used.
const TRIED_MAX: u64 = 4096;
/// A change must reduce the sum of slowdowns by this share. Below it, the inexactness of the solver would move
/// programs back and forth.
const WORTH: f64 = 0.005;
/// Most sweeps over all moves and swaps.
const SWEEPS_MAX: usize = 8;
/// Instructions that no run completes.
const ENDLESS: f64 = 1e18;

/// The oracle for the jobs of one workload.
#[derive(Debug)]
pub struct Oracle {
    hardware: Arc<Hardware>,
    scripts: Vec<Arc<Script>>,
    settings: MachineSettings,
    /// The last-level cache assigned to each job.
    put: Vec<Option<usize>>,
}

/// A job to assign.
struct Guest {
    id: JobId,
    idx: usize,
    /// Caches that it may use.
    open: Vec<usize>,
    allowed: CpuSet,
    movable: bool,
    /// Bytes on each node; zero for a job that is due.
    memory: Vec<u64>,
}

impl Oracle {
    /// For these jobs on this machine.
    pub fn new(hardware: Arc<Hardware>, scripts: &[Arc<Script>], contention: bool) -> Self {
        let endless = |script: &Arc<Script>| {
            let phase = |phase: &ScriptPhase| ScriptPhase {
                instructions: ENDLESS,
                footprint: 0,
                sleeps: None,
                ..phase.clone()
            };
            let phases = script.phases.iter().map(phase).collect();
            Arc::new(Script { phases, n_threads: script.n_threads })
        };
        let settings = MachineSettings { contention, ..MachineSettings::default() };
        let put = vec![None; scripts.len()];
        Oracle { hardware, scripts: scripts.iter().map(endless).collect(), settings, put }
    }

    fn guests(&self, seen: &Snapshot<'_>) -> Vec<Guest> {
        let n_caches = self.hardware.caches.len();
        let of = |job: &JobView<'_>| {
            let may = |cache: &usize| {
                let mut cpus = self.hardware.caches[*cache].cpus.iter();
                cpus.any(|&cpu| job.allowed.contains(self.hardware.cpus[cpu].id))
            };
            let memory = |node: &crate::hardware::Node| {
                let on = job.memory.zip(node.id).map(|(memory, id)| memory.on(id).total().0);
                on.unwrap_or(0)
            };
            Guest {
                id: job.job.id,
                idx: job.job.id.index(),
                open: (0..n_caches).filter(may).collect(),
                allowed: job.allowed.clone(),
                movable: job.movable,
                memory: self.hardware.nodes.iter().map(memory).collect(),
            }
        };
        seen.jobs.iter().map(of).filter(|guest| !guest.open.is_empty()).collect()
    }

    /// The sum of slowdowns of an assignment: run time with all others over run time alone, including the wait time
    /// on shared CPUs.
    fn cost(&self, guests: &[Guest], put: &[usize]) -> f64 {
        let mut fluid = Fluid::new(self.hardware.clone(), self.settings, Variation::OFF.streams(0));
        for (guest, &cache) in guests.iter().zip(put) {
            let may =
                |cpu: &crate::hardware::Cpu| cpu.cache == cache && guest.allowed.contains(cpu.id);
            let allowed = Some(Arc::new(self.hardware.cpus.iter().map(may).collect()));
            let script = self.scripts[guest.idx].clone();
            fluid.start(JobStart { allowed, ..JobStart::new(guest.idx, script) });
            fluid.place_memory(guest.idx, &guest.memory);
        }
        let _ = fluid.next_event();
        let slow = |guest: &Guest| {
            let alone = self.scripts[guest.idx].solo_ns_per_1000(&self.hardware);
            fluid.tasks_of(guest.idx).map(|task| fluid.ns_each(task) / alone).fold(0.0, f64::max)
        };
        guests.iter().map(slow).sum()
    }

    /// The best assignment found, its cost, the number of evaluated assignments, and whether all were evaluated.
    fn best(&self, guests: &[Guest], now: Option<Vec<usize>>) -> (Vec<usize>, f64, u64, bool) {
        let n_all = guests.iter().try_fold(1u64, |all, guest| {
            let options = if guest.movable { guest.open.len() as u64 } else { 1 };
            all.checked_mul(options).filter(|all| *all <= TRIED_MAX)
        });
        match n_all {
            Some(_) => self.try_all(guests, now),
            None => self.search(guests, now),
        }
    }

    fn try_all(&self, guests: &[Guest], now: Option<Vec<usize>>) -> (Vec<usize>, f64, u64, bool) {
        let kept = |at: usize| self.put[guests[at].idx].filter(|_| !guests[at].movable);
        let first = |at: usize| kept(at).unwrap_or(guests[at].open[0]);
        let mut digits = vec![0usize; guests.len()];
        let mut best = now.clone().map(|now| (self.cost(guests, &now) * (1.0 - WORTH), now));
        let mut n_tried = 0;
        loop {
            let put: Vec<usize> = (0..guests.len())
                .map(|at| if guests[at].movable { guests[at].open[digits[at]] } else { first(at) })
                .collect();
            let cost = self.cost(guests, &put);
            n_tried += 1;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, put));
            }
            let next = (0..guests.len())
                .find(|&at| guests[at].movable && digits[at] + 1 < guests[at].open.len());
            let Some(next) = next else { break };
            digits[next] += 1;
            digits[..next].fill(0);
        }
        let (cost, put) = best.unwrap_or_default();
        (put, cost, n_tried, true)
    }

    /// A greedy assignment, then moves and swaps while they help.
    fn search(&self, guests: &[Guest], now: Option<Vec<usize>>) -> (Vec<usize>, f64, u64, bool) {
        let mut n_tried = 0;
        let mut put = now.unwrap_or_else(|| self.greedy(guests, &mut n_tried));
        let mut cost = self.cost(guests, &put);
        for _ in 0..SWEEPS_MAX {
            let before = cost;
            for at in (0..guests.len()).filter(|&at| guests[at].movable) {
                for &cache in &guests[at].open {
                    let was = put[at];
                    self.keep_if_better(guests, &mut put, &mut cost, &mut n_tried, |put| {
                        put[at] = cache
                    });
                    debug_assert!(put[at] == was || put[at] == cache);
                }
                for other in (at + 1..guests.len()).filter(|&other| guests[other].movable) {
                    let (a, b) = (put[at], put[other]);
                    if a != b && guests[at].open.contains(&b) && guests[other].open.contains(&a) {
                        self.keep_if_better(guests, &mut put, &mut cost, &mut n_tried, |put| {
                            put.swap(at, other);
                        });
                    }
                }
            }
            if before <= cost {
                break;
            }
        }
        (put, cost, n_tried, false)
    }

    fn keep_if_better(
        &self,
        guests: &[Guest],
        put: &mut Vec<usize>,
        cost: &mut f64,
        n_tried: &mut u64,
        change: impl Fn(&mut Vec<usize>),
    ) {
        let mut other = put.clone();
        change(&mut other);
        if other == *put {
            return;
        }
        let its = self.cost(guests, &other);
        *n_tried += 1;
        if its < *cost * (1.0 - WORTH / guests.len() as f64) {
            (*put, *cost) = (other, its);
        }
    }

    fn greedy(&self, guests: &[Guest], n_tried: &mut u64) -> Vec<usize> {
        let mut put: Vec<usize> = Vec::with_capacity(guests.len());
        for at in 0..guests.len() {
            if let Some(kept) = self.put[guests[at].idx] {
                put.push(kept);
                continue;
            }
            let with = |cache: usize| {
                let mut put = put.clone();
                put.push(cache);
                self.cost(&guests[..=at], &put)
            };
            let costs: Vec<(f64, usize)> =
                guests[at].open.iter().map(|&cache| (with(cache), cache)).collect();
            *n_tried += costs.len() as u64;
            let least = costs
                .iter()
                .min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
            put.push(least.map_or(0, |(_, cache)| *cache));
        }
        put
    }
}

reasons! {
    /// The best assignment of this moment.
    BEST_ASSIGNMENT = "best-assignment":
        "of {n_tried} assignments of the running jobs to last-level caches ({how}) this one has the smallest sum of slowdowns, {slowdown} per job; the lower bound is {bound}";
}

impl Policy for Oracle {
    fn decide(&mut self, seen: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = true;
        let something_changed = [Cause::JobsDue, Cause::Ended, Cause::CpusChanged];
        if !seen.turn.causes.iter().any(|cause| something_changed.contains(cause)) {
            return;
        }
        let guests = self.guests(seen);
        if guests.is_empty() || self.hardware.caches.len() < 2 {
            return;
        }
        let now: Option<Vec<usize>> = guests.iter().map(|guest| self.put[guest.idx]).collect();
        let (put, cost, n_tried, is_all) = self.best(&guests, now);
        for (guest, cache) in guests.iter().zip(put) {
            if self.put[guest.idx] == Some(cache) || !guest.movable {
                continue;
            }
            let cpus = &self.hardware.caches[cache].cpus;
            let cpus = cpus.iter().map(|&cpu| self.hardware.cpus[cpu].id);
            let cpus: CpuSet = cpus.filter(|&cpu| guest.allowed.contains(cpu)).collect();
            let how = if is_all { "all of them" } else { "a search without proof" };
            let reason = Reason::new(BEST_ASSIGNMENT)
                .with("n_tried", n_tried)
                .with("how", how.to_owned())
                .with("slowdown", cost / guests.len() as f64)
                .with("bound", 1.0);
            plan.request(guest.id, Action::Place(cpus), reason);
            self.put[guest.idx] = Some(cache);
        }
        let live: Vec<usize> = guests.iter().map(|guest| guest.idx).collect();
        for (idx, put) in self.put.iter_mut().enumerate() {
            if !live.contains(&idx) {
                *put = None;
            }
        }
    }

    fn name(&self) -> &str {
        "oracle"
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        REASONS.to_vec()
    }

    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_secs(1))
    }
}
