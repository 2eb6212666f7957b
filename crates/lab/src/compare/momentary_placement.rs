//! A candidate of the oracle: the best placement of the running jobs at each moment, by the physics of the simulator.
//!
//! ```text
//!   running and due jobs ─► every assignment to last-level caches, if there are few enough,
//!                           else a greedy assignment, then moves and swaps while the sum decreases
//!                        ─► the assignment with the smallest sum of slowdowns
//! ```
//!
//! The policy considers only the jobs that are running or due at that moment. The placement is therefore not optimal
//! over a whole run. With many jobs, the number of assignments per moment is limited, and the search tries other jobs
//! first at each moment. The reason states whether the search was heuristic. Memory stays on its nodes. The sum of
//! slowdowns includes the remote accesses of a job that migrates away from its memory.

use std::sync::Arc;

use base::{CpuSet, JobId, Nanos};
use host_sim::fluid::Fluid;
use host_sim::frame::{JobStart, MachineSettings};
use host_sim::hardware::{Hardware, HardwareCpu, HardwareNode};
use host_sim::script::{Script, ScriptPhase};
use host_sim::variation::Variation;
use sched::{Action, Cause, JobView, Plan, Policy, Reason, ReasonCode, Snapshot, reasons};

/// Maximum number of assignments for an exhaustive search. With more assignments, a heuristic search is used.
const ASSIGNMENTS_MAX: usize = 4096;
/// Minimum relative reduction of the sum of slowdowns by a change. Smaller differences are within the error of the
/// solver, and would move jobs back and forth.
const GAIN_MIN: f64 = 0.005;
/// Maximum number of sweeps over all moves and swaps.
const SWEEPS_MAX: usize = 8;
/// Maximum number of evaluated jobs over a whole run: assignments × jobs in them. An evaluated job takes a few
/// microseconds, so that the search takes tens of seconds at most. Up to about twenty jobs the limit has no effect.
const EVALUATED_JOBS_MAX: usize = 4_000_000;
/// Number of instructions that no run completes.
const ENDLESS: f64 = 1e18;

/// The domain of each job; `None`: its affinity permits fewer than two domains.
pub(super) type Placement = Vec<Option<usize>>;

/// The policy for the jobs of one workload.
#[derive(Debug)]
pub(super) struct MomentaryPlacement {
    hardware: Arc<Hardware>,
    scripts: Vec<Arc<Script>>,
    settings: MachineSettings,
    /// The last-level cache assigned to each job.
    cache_of_job: Vec<Option<usize>>,
}

/// A job to assign.
struct JobToAssign {
    id: JobId,
    idx: usize,
    /// Caches that the job may use.
    caches: Vec<usize>,
    allowed: CpuSet,
    movable: bool,
    /// Bytes on each node; zero for a job that is due.
    memory: Vec<u64>,
}

/// The cache of each job to assign, and the sum of slowdowns.
struct MomentaryAssignment {
    caches: Vec<usize>,
    cost: f64,
}

impl MomentaryPlacement {
    /// Creates the policy for these jobs on this machine.
    pub fn new(hardware: Arc<Hardware>, scripts: &[Arc<Script>], contention: bool) -> Self {
        let endless = |script: &Arc<Script>| {
            let phase = |phase: &ScriptPhase| ScriptPhase {
                instructions: ENDLESS,
                footprint: 0,
                sleeps: None,
                ..phase.clone()
            };
            let phases = script.phases.iter().map(phase).collect();
            Arc::new(Script { phases, n_threads: script.n_threads, ..Script::default() })
        };
        let settings = MachineSettings { contention, ..MachineSettings::default() };
        let cache_of_job = vec![None; scripts.len()];
        let scripts = scripts.iter().map(endless).collect();
        MomentaryPlacement { hardware, scripts, settings, cache_of_job }
    }

    fn jobs_to_assign(&self, snapshot: &Snapshot<'_>) -> Vec<JobToAssign> {
        let job_to_assign = |job: &JobView<'_>| {
            let may_use = |cache: &usize| {
                let mut cpus = self.hardware.caches[*cache].cpus.iter();
                cpus.any(|&cpu| job.allowed.contains(self.hardware.cpus[cpu].id))
            };
            let memory = |node: &HardwareNode| {
                let bytes =
                    job.memory.zip(node.id).map(|(memory, id)| memory.on_node(id).total().0);
                bytes.unwrap_or(0)
            };
            JobToAssign {
                id: job.job.id,
                idx: job.job.id.index(),
                caches: (0..self.hardware.caches.len()).filter(may_use).collect(),
                allowed: job.allowed.clone(),
                movable: job.movable,
                memory: self.hardware.nodes.iter().map(memory).collect(),
            }
        };
        snapshot.jobs.iter().map(job_to_assign).filter(|job| !job.caches.is_empty()).collect()
    }

    /// Returns the sum of slowdowns of an assignment: run time with all other jobs divided by run time alone, including
    /// the wait time on shared CPUs.
    fn cost(&self, jobs: &[JobToAssign], caches: &[usize]) -> f64 {
        let mut fluid = Fluid::new(self.hardware.clone(), self.settings, Variation::OFF.streams(0));
        for (job, &cache) in jobs.iter().zip(caches) {
            let may_use = |cpu: &HardwareCpu| cpu.cache == cache && job.allowed.contains(cpu.id);
            let allowed = Some(Arc::new(self.hardware.cpus.iter().map(may_use).collect()));
            let script = self.scripts[job.idx].clone();
            fluid.start(JobStart { allowed, ..JobStart::new(job.idx, script) });
            fluid.place_memory(job.idx, &job.memory);
        }
        let _ = fluid.next_event();
        let slowdown = |job: &JobToAssign| {
            let alone = self.scripts[job.idx].phases[0].ns_alone(&self.hardware);
            fluid.tasks_of(job.idx).map(|task| fluid.ns_each(task) / alone).fold(0.0, f64::max)
        };
        jobs.iter().map(slowdown).sum()
    }

    /// Returns the best assignment found, the number of evaluated assignments, and whether all assignments were
    /// evaluated.
    fn best(
        &self,
        jobs: &[JobToAssign],
        current: Option<Vec<usize>>,
        turn: u64,
    ) -> (MomentaryAssignment, u64, bool) {
        let choices = |job: &JobToAssign| match job.movable {
            true => job.caches.clone(),
            false => vec![self.cache_of_job[job.idx].unwrap_or(job.caches[0])],
        };
        let choices: Vec<Vec<usize>> = jobs.iter().map(choices).collect();
        // A job is due once and ends once: two moments.
        let n_max = EVALUATED_JOBS_MAX / (2 * self.scripts.len() * jobs.len()).max(1);
        let Some(all) = all_placements(&choices, false, ASSIGNMENTS_MAX.min(n_max)) else {
            return self.search(jobs, current, (n_max as u64, turn));
        };
        let only = |job: usize| choices[job][0];
        let caches = |placement: Vec<Option<usize>>| -> Vec<usize> {
            let each = placement.into_iter().enumerate();
            each.map(|(job, cache)| cache.unwrap_or_else(|| only(job))).collect()
        };
        let mut all: Vec<Vec<usize>> = all.into_iter().map(caches).collect();
        // If several assignments have the smallest sum, the first in this order is selected.
        all.sort_by(|one, other| one.iter().rev().cmp(other.iter().rev()));
        let n_tried = all.len() as u64;
        let evaluate =
            |caches: Vec<usize>| MomentaryAssignment { cost: self.cost(jobs, &caches), caches };
        let current = current.map(evaluate).map(|MomentaryAssignment { caches, cost }| {
            MomentaryAssignment { caches, cost: cost * (1.0 - GAIN_MIN) }
        });
        let all = current.into_iter().chain(all.into_iter().map(evaluate));
        let best = all.reduce(|best, other| if other.cost < best.cost { other } else { best });
        (best.unwrap_or(MomentaryAssignment { caches: Vec::new(), cost: 0.0 }), n_tried, true)
    }

    /// Searches an assignment: a greedy assignment, then moves and swaps while the sum of slowdowns decreases.
    fn search(
        &self,
        jobs: &[JobToAssign],
        current: Option<Vec<usize>>,
        (n_max, turn): (u64, u64),
    ) -> (MomentaryAssignment, u64, bool) {
        let mut n_tried = 0;
        let caches = current.unwrap_or_else(|| self.greedy(jobs, &mut n_tried));
        let mut best = MomentaryAssignment { cost: self.cost(jobs, &caches), caches };
        let first = turn as usize % jobs.len();
        let in_order = || (first..jobs.len()).chain(0..first);
        for _ in 0..SWEEPS_MAX {
            let before = best.cost;
            for job in in_order().filter(|&job| jobs[job].movable) {
                if n_max <= n_tried {
                    return (best, n_tried, false);
                }
                for &cache in &jobs[job].caches {
                    let mut moved = best.caches.clone();
                    moved[job] = cache;
                    self.keep_if_better(jobs, &mut best, &mut n_tried, moved);
                }
                for other in (job + 1..jobs.len()).filter(|&other| jobs[other].movable) {
                    let (a, b) = (best.caches[job], best.caches[other]);
                    if jobs[job].caches.contains(&b) && jobs[other].caches.contains(&a) {
                        let mut swapped = best.caches.clone();
                        swapped.swap(job, other);
                        self.keep_if_better(jobs, &mut best, &mut n_tried, swapped);
                    }
                }
            }
            if before <= best.cost {
                break;
            }
        }
        (best, n_tried, false)
    }

    fn keep_if_better(
        &self,
        jobs: &[JobToAssign],
        best: &mut MomentaryAssignment,
        n_tried: &mut u64,
        caches: Vec<usize>,
    ) {
        if caches == best.caches {
            return;
        }
        let cost = self.cost(jobs, &caches);
        *n_tried += 1;
        if cost < best.cost * (1.0 - GAIN_MIN / jobs.len() as f64) {
            *best = MomentaryAssignment { caches, cost };
        }
    }

    fn greedy(&self, jobs: &[JobToAssign], n_tried: &mut u64) -> Vec<usize> {
        let mut caches: Vec<usize> = Vec::with_capacity(jobs.len());
        for (idx, job) in jobs.iter().enumerate() {
            if let Some(assigned) = self.cache_of_job[job.idx] {
                caches.push(assigned);
                continue;
            }
            let cost = |&cache: &usize| {
                (self.cost(&jobs[..=idx], &[&caches[..], &[cache]].concat()), cache)
            };
            let costs: Vec<(f64, usize)> = job.caches.iter().map(cost).collect();
            *n_tried += costs.len() as u64;
            let least = costs.iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            caches.push(least.map_or(0, |(_, cache)| *cache));
        }
        caches
    }
}

/// Returns every placement; `None` if there are more than `max`. To skip equivalent assignments, the first job uses the
/// first of the interchangeable domains, and each further job at most the next unused one.
pub(super) fn all_placements(
    choices: &[Vec<usize>],
    interchangeable: bool,
    max: usize,
) -> Option<Vec<Placement>> {
    let n_domains = choices.iter().flatten().max().map_or(0, |last| last + 1);
    let interchangeable =
        interchangeable && choices.iter().all(|domains| domains.len() == n_domains);
    let mut all: Vec<Placement> = vec![Vec::new()];
    for domains in choices {
        let mut next = Vec::new();
        for placement in &all {
            let used = placement.iter().flatten().max().map_or(0, |last| last + 1);
            match domains.len() {
                0 | 1 => next.push([placement.as_slice(), &[None]].concat()),
                _ => next.extend(
                    (domains.iter().filter(|domain| !interchangeable || **domain <= used))
                        .map(|domain| [placement.as_slice(), &[Some(*domain)]].concat()),
                ),
            }
        }
        if max < next.len() {
            return None;
        }
        all = next;
    }
    Some(all)
}

reasons! {
    /// The best assignment of this moment.
    BEST_ASSIGNMENT = "best-assignment":
        "of {n_tried} assignments of the running jobs to last-level caches ({coverage}) this one has the smallest sum of slowdowns, {slowdown} per job; the lower bound is {bound}";
}

impl Policy for MomentaryPlacement {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = true;
        let decisive = [Cause::JobsDue, Cause::Ended, Cause::CpusChanged];
        if !snapshot.turn.causes.iter().any(|cause| decisive.contains(cause)) {
            return;
        }
        let jobs = self.jobs_to_assign(snapshot);
        if jobs.is_empty() || self.hardware.caches.len() < 2 {
            return;
        }
        let current: Option<Vec<usize>> =
            jobs.iter().map(|job| self.cache_of_job[job.idx]).collect();
        let (best, n_tried, is_all) = self.best(&jobs, current, snapshot.turn.number);
        for (job, cache) in jobs.iter().zip(best.caches) {
            if self.cache_of_job[job.idx] == Some(cache) || !job.movable {
                continue;
            }
            let cpus = self.hardware.caches[cache].cpus.iter();
            let cpus = cpus.map(|&cpu| self.hardware.cpus[cpu].id);
            let cpus: CpuSet = cpus.filter(|&cpu| job.allowed.contains(cpu)).collect();
            let coverage = if is_all { "all of them" } else { "a heuristic search" };
            let reason = Reason::new(BEST_ASSIGNMENT)
                .with("n_tried", n_tried)
                .with("coverage", coverage.to_owned())
                .with("slowdown", best.cost / jobs.len() as f64)
                .with("bound", 1.0);
            plan.request(job.id, Action::Place(cpus), reason);
            self.cache_of_job[job.idx] = Some(cache);
        }
        for (idx, cache) in self.cache_of_job.iter_mut().enumerate() {
            if jobs.iter().all(|job| job.idx != idx) {
                *cache = None;
            }
        }
    }

    fn name(&self) -> &str {
        crate::oracle::NAME
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        REASONS.to_vec()
    }

    fn interval(&self) -> Option<Nanos> {
        Some(Nanos::from_secs(1))
    }
}
