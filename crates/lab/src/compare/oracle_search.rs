//! The search of the oracle for the best of many simulated runs.
//!
//! ```text
//!   a run (machine, workload, seed)
//!     ├─ every policy with its defaults ─────────────┐
//!     ├─ the best placement at every moment ─────────┤ each simulated with the same random draws
//!     ├─ placements for the whole run: ──────────────┤
//!     │    all of them if their number permits,      │
//!     │    else a hill climb from the best start     │
//!     └─ the best of these, with memory-hungry jobs ─┤
//!          on few CPUs (packed_placement.rs)         ▼
//!                   the candidate with the smallest value of the objective, and its distance to the lower bound
//! ```
//!
//! A *domain* is a last-level cache. It is a node if there is only one cache, or if every CPU has a cache of its own. A
//! domain with several core kinds is one domain for each kind. A placement assigns each job to a domain for its whole run time. Placements that differ only in the order of
//! interchangeable domains are simulated once. The hill climb moves one job, or swaps two, starting with the job that
//! ends last (for slowdowns: the job with the largest slowdown), while the objective decreases.
//!
//! Runs are ordered by the objective, then by the sum of the times of all jobs. A run that did not finish is never before a
//! run that did: its last end is the time limit, or the time of the failure.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use base::{CpuSet, Nanos, StopFlag};
use engine::{Sink, TurnRecord};
use host_sim::hardware::{Hardware, HardwareCpu};
use program::Job;
use report::format::fixed;
use sched::{Action, Policy, Reason, Target};
use topology::Machine;

use super::momentary_placement::{MomentaryPlacement, Placement, all_placements};
use super::packed_placement::{PackedDomains, PackedPlacement};
use super::{Column, Completion, JobTimes, OracleSearch, RunMetrics, SimBench, SimRunError};
use crate::oracle::{
    FixedPlacement, ORACLE_CHOSE, ORACLE_NONE_FINISHED, Objective, OracleParams, RenamedPolicy,
    params,
};
use crate::stats::mean_of;

/// Maximum number of domains that are tried for a job in one step of the hill climb.
const N_DOMAINS_TRIED: usize = 3;

/// A column, the index of a workload, and a seed.
type Run<'a> = (&'a Column, usize, u64);

/// A simulated run that may be the best run.
#[derive(Clone, Debug)]
enum OracleCandidate {
    /// A shipped policy with its defaults.
    Policy(&'static str),
    /// The best placement at every moment, computed whenever a job starts or ends.
    EveryMoment,
    /// One placement for the whole run.
    Fixed(Placement),
    /// A placement for the whole run, with this number of CPUs of each domain for memory-hungry jobs while they saturate
    /// the memory.
    Packed(Placement, usize),
}

/// Best run of a search.
struct BestRun {
    candidate: OracleCandidate,
    metrics: RunMetrics,
    /// Number of all simulated runs.
    n_runs: usize,
    objective: Objective,
    domains: SearchDomains,
}

/// Domains of the machine.
#[derive(Clone)]
struct SearchDomains {
    /// CPUs of each domain; empty if there is only one.
    cpus: Vec<CpuSet>,
    packed: Arc<PackedDomains>,
}

impl SimBench {
    /// Simulates one run; `None` if `stop` was raised. `listener` receives every turn.
    ///
    /// # Errors
    /// The policy or the kernel does not exist. The caller has checked both.
    pub fn run(
        &self,
        (column, workload, seed): Run<'_>,
        stop: &StopFlag,
        listener: Option<&mut dyn Sink>,
    ) -> Result<Option<RunMetrics>, SimRunError> {
        let run = (column, workload, seed);
        let observed = (stop, self.observed_every(workload, seed));
        let Some(params) = params(&column.spec)? else {
            return self.run_with(policy::build(&column.spec, seed)?, run, observed, listener);
        };
        let Some(best) = best(self, run, params, stop)? else { return Ok(None) };
        let mut metrics = best.metrics.clone();
        if listener.is_some() || observed.1.is_some() {
            let Some(repeated) = self.run_with(best.policy(self, run)?, run, observed, listener)?
            else {
                return Ok(None);
            };
            metrics.model_gap = repeated.model_gap;
        }
        Ok(Some(metrics))
    }

    /// Returns a policy that repeats the best run that the oracle finds; `None` if `stop` was raised.
    ///
    /// # Errors
    /// The parameters of the oracle are invalid, or a run could not start.
    ///
    /// # Panics
    /// The column is not the oracle.
    pub fn oracle(
        &self,
        run: Run<'_>,
        stop: &StopFlag,
    ) -> Result<Option<Box<dyn Policy>>, SimRunError> {
        let params = params(&run.0.spec)?.expect("the column is the oracle");
        best(self, run, params, stop)?.map(|best| best.policy(self, run)).transpose()
    }
}

impl BestRun {
    /// Returns a policy that repeats the run.
    fn policy(&self, bench: &SimBench, run: Run<'_>) -> Result<Box<dyn Policy>, SimRunError> {
        let search = self.metrics.oracle.as_ref().expect("a run of the oracle");
        let placements = base::counted_noun(search.n_placements, "placement");
        let searched = match search.is_all {
            true => format!("all {placements}"),
            false => format!("a search of {placements}"),
        };
        let finished = self.metrics.status == Completion::Finished;
        let mut reason = Reason::new(if finished { ORACLE_CHOSE } else { ORACLE_NONE_FINISHED })
            .with("n_runs", self.n_runs as u64)
            .with("searched", searched)
            .with("candidate", search.candidate.clone());
        reason = match finished {
            true => reason.with("objective", self.objective.noun().to_owned()).with(
                "reached",
                reached(self.objective, bench.value(self.objective, run, &self.metrics)),
            ),
            false => reason.with("cause", self.metrics.cause().to_owned()),
        };
        if let (Some(above), Some(term)) = (search.above_bound, &search.bound_term) {
            reason = reason
                .with("above", format!("{} %", fixed(above * 100.0, 1)))
                .with("term", term.clone());
        }
        let inner = self.candidate.policy(bench, run, &self.domains, reason.clone())?;
        Ok(match self.candidate {
            OracleCandidate::Fixed(_) | OracleCandidate::Packed(..) => inner,
            _ => Box::new(RenamedPolicy { inner, reason: Some(reason) }),
        })
    }
}

impl OracleCandidate {
    fn description(&self) -> String {
        match self {
            OracleCandidate::Policy(name) => format!("policy {name}"),
            OracleCandidate::EveryMoment => "the best placement at every moment".to_owned(),
            OracleCandidate::Fixed(_) => "this placement for the whole run".to_owned(),
            OracleCandidate::Packed(_, n) => format!(
                "a placement for the whole run with memory-hungry jobs on {} of each domain while they saturate the memory",
                base::counted_noun(*n, "CPU")
            ),
        }
    }

    fn policy(
        &self,
        bench: &SimBench,
        (_, workload, seed): Run<'_>,
        domains: &SearchDomains,
        reason: Reason,
    ) -> Result<Box<dyn Policy>, SimRunError> {
        Ok(match self {
            OracleCandidate::Policy(name) => policy::build(name, seed)?,
            OracleCandidate::EveryMoment => {
                let scripts = bench.workload(workload, seed).scripts();
                let contention = bench.setting().options.contention;
                Box::new(MomentaryPlacement::new(bench.hardware().clone(), scripts, contention))
            }
            OracleCandidate::Fixed(placement) => {
                let cpus =
                    placement.iter().map(|domain| domain.map(|idx| domains.cpus[idx].clone()));
                Box::new(FixedPlacement { cpus: cpus.collect(), reason })
            }
            OracleCandidate::Packed(placement, n_cpus) => {
                let packed = domains.packed.clone();
                Box::new(PackedPlacement::new(packed, placement.clone(), *n_cpus, reason))
            }
        })
    }
}

/// Returns the best run that the search finds; `None` if `stop` was raised.
fn best(
    bench: &SimBench,
    run: Run<'_>,
    OracleParams { n_runs_max, objective }: OracleParams,
    stop: &StopFlag,
) -> Result<Option<BestRun>, SimRunError> {
    let (hardware, scripts) = (bench.hardware(), bench.workload(run.1, run.2).scripts());
    let cpus = domains(&bench.setting().machine, hardware);
    let packed = Arc::new(PackedDomains::new(hardware, &cpus, scripts));
    let domains = SearchDomains { cpus, packed };
    let mut search = PlacementSearch {
        bench,
        run,
        objective,
        stop,
        domains,
        n_runs: 0,
        best: None,
        best_fixed: None,
    };
    let done = search.all_candidates(n_runs_max)?;
    let PlacementSearch { domains, n_runs, best, .. } = search;
    let (Some((n_placements, is_all)), Some((_, mut metrics, candidate))) = (done, best) else {
        return Ok(None);
    };
    let value = bench.value(objective, run, &metrics);
    // A failed run may end before the bound.
    let bound = bench
        .lower_bound(objective, run.0.variant, (run.1, run.2))
        .filter(|_| metrics.status == Completion::Finished);
    metrics.oracle = Some(OracleSearch {
        candidate: candidate.description(),
        n_placements: n_placements as u64,
        is_all,
        above_bound: bound.as_ref().map(|bound| value / bound.value - 1.0),
        bound_term: bound.map(|bound| bound.term),
    });
    Ok(Some(BestRun { candidate, metrics, n_runs, objective, domains }))
}

/// Returns the value of an objective with its unit.
fn reached(objective: Objective, value: f64) -> String {
    match objective {
        Objective::Makespan => format!("{} s", fixed(value / 1e9, 3)),
        Objective::MeanSlowdown | Objective::MaxSlowdown => fixed(value, 3),
    }
}

impl SimBench {
    /// Returns the value of an objective in a run: nanoseconds of the makespan, or a slowdown.
    pub(super) fn value(&self, objective: Objective, run: Run<'_>, metrics: &RunMetrics) -> f64 {
        let slowdowns = || self.slowdowns(run, metrics).into_iter().flatten();
        match objective {
            Objective::Makespan => metrics.last_end.0 as f64,
            Objective::MeanSlowdown => mean_of(slowdowns()).unwrap_or(0.0),
            Objective::MaxSlowdown => slowdowns().fold(0.0, f64::max),
        }
    }

    /// Returns the slowdown of each job of a run, if its time alone was measured.
    fn slowdowns(
        &self,
        (column, workload, seed): Run<'_>,
        metrics: &RunMetrics,
    ) -> Vec<Option<f64>> {
        let alone = self.alone(column.variant, workload, seed);
        let jobs = self.workloads()[workload].jobs().iter().enumerate();
        let slowdown = |(idx, job): (usize, &Job)| {
            let alone = alone.get(idx).copied().flatten()?;
            Some(metrics.time_of(idx, job)?.as_secs_f64() / alone.as_secs_f64())
        };
        jobs.map(slowdown).collect()
    }
}

/// Returns the CPUs of each domain; empty if there is only one.
fn domains(machine: &Machine, hardware: &Hardware) -> Vec<CpuSet> {
    let ids = |cpus: &[usize]| cpus.iter().map(|cpu| hardware.cpus[*cpu].id).collect::<CpuSet>();
    let caches: Vec<CpuSet> = hardware.caches.iter().map(|cache| ids(&cache.cpus)).collect();
    let nodes = hardware.nodes.iter().filter(|node| !node.cpus.is_empty());
    let nodes: Vec<CpuSet> = nodes.map(|node| ids(&node.cpus)).collect();
    // Private caches are not shared, but the jobs of a node share its memory controller.
    let is_private = caches.iter().all(|cpus| cpus.len() == 1);
    let shared = match (caches.len(), nodes.len()) {
        (2.., 2..) if is_private => nodes,
        (2.., _) => caches,
        _ => nodes,
    };
    let kinds: Vec<CpuSet> = machine.core_kinds().iter().map(|kind| kind.cpus()).collect();
    let split = |cpus: CpuSet| kinds.iter().map(move |kind| cpus.and(kind));
    let domains = shared.into_iter().flat_map(split).filter(|cpus| !cpus.is_empty());
    let domains: Vec<CpuSet> = domains.collect();
    if domains.len() < 2 { Vec::new() } else { domains }
}

/// How far the run came, the bits of the objective (which order like the positive number), and the sum of the times of
/// all jobs.
type Score = (RunProgress, u64, Nanos);

/// Order of runs before the objective. The best is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RunProgress {
    Finished,
    /// The time limit expired, with the number of jobs that have no end.
    Stopped(usize),
    /// A job failed or the run was aborted, with the number of jobs that have no end.
    Failed(usize),
}

impl RunProgress {
    fn of(metrics: &RunMetrics) -> Self {
        // An aborted run has an early last end, because the times of most jobs are absent.
        let n_without_end = metrics.jobs.iter().filter(|job| job.end.is_none()).count();
        match metrics.status {
            Completion::Finished => RunProgress::Finished,
            Completion::Stopped => RunProgress::Stopped(n_without_end),
            Completion::Failed => RunProgress::Failed(n_without_end),
        }
    }
}

struct PlacementSearch<'a> {
    bench: &'a SimBench,
    run: Run<'a>,
    objective: Objective,
    stop: &'a StopFlag,
    domains: SearchDomains,
    n_runs: usize,
    best: Option<(Score, RunMetrics, OracleCandidate)>,
    /// The best placement for the whole run.
    best_fixed: Option<(Score, Placement)>,
}

impl PlacementSearch<'_> {
    /// Simulates all candidates. Returns the number of simulated placements, and whether these are all possible
    /// placements; `None` if stopped.
    fn all_candidates(&mut self, n_runs_max: usize) -> Result<Option<(usize, bool)>, SimRunError> {
        let has_kinds = 1 < self.bench.setting().machine.core_kinds().len();
        let is_useful = |info: &&&policy::PolicyInfo| has_kinds || !info.needs_core_kinds;
        for info in policy::registry().iter().filter(is_useful) {
            if self.simulate(OracleCandidate::Policy(info.name), None)?.is_none() {
                return Ok(None);
            }
        }
        let mut first = FirstDomains::default();
        if self.simulate(OracleCandidate::EveryMoment, Some(&mut first))?.is_none() {
            return Ok(None);
        }
        let choices = self.choices();
        let searched = self.whole_run_placements(&choices, first, n_runs_max)?;
        let packed = self.packed_placements(&choices)?;
        Ok(searched.filter(|_| packed.is_some()))
    }

    /// Simulates placements for the whole run. Returns their number, and whether these are all placements; `None` if
    /// stopped.
    fn whole_run_placements(
        &mut self,
        choices: &[Vec<usize>],
        first: FirstDomains,
        n_runs_max: usize,
    ) -> Result<Option<(usize, bool)>, SimRunError> {
        let is_bound =
            |job: &Job| job.cpus.is_some() || job.nodes.is_some() || job.memory.is_some();
        let interchangeable = !self.jobs().iter().any(is_bound)
            && are_interchangeable(self.bench.hardware(), &self.domains.cpus);
        let Some(all) = all_placements(choices, interchangeable, n_runs_max) else {
            return Ok(self.climb(choices, first, n_runs_max)?.map(|n| (n, false)));
        };
        for placement in &all {
            if self.simulate(OracleCandidate::Fixed(placement.clone()), None)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some((all.len(), true)))
    }

    /// Simulates the best placement so far with memory-hungry jobs on few CPUs; `None` if stopped.
    fn packed_placements(&mut self, choices: &[Vec<usize>]) -> Result<Option<()>, SimRunError> {
        let fixed = self.best_fixed.clone().map_or_else(Vec::new, |(_, placement)| placement);
        // Jobs without a choice have one domain, or the machine is one domain.
        let domain = |(job, choices): (usize, &Vec<usize>)| {
            let only = match self.domains.cpus.is_empty() {
                true => Some(0),
                false => choices.first().copied(),
            };
            fixed.get(job).copied().flatten().or(only)
        };
        let placement: Placement = choices.iter().enumerate().map(domain).collect();
        for n_cpus in self.domains.packed.candidates() {
            let candidate = OracleCandidate::Packed(placement.clone(), n_cpus);
            if self.simulate(candidate, None)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn jobs(&self) -> &[Job] {
        self.bench.workloads()[self.run.1].jobs()
    }

    /// Returns the domains that each job may use; a job with fewer than two domains is not placed.
    fn choices(&self) -> Vec<Vec<usize>> {
        let machine = &self.bench.setting().machine;
        let domains_of = |job: &Job| {
            let nodes = job.nodes.as_ref().map(|nodes| machine.cpus_of_nodes(nodes));
            let may = |cpu| {
                job.cpus.as_ref().is_none_or(|own| own.contains(cpu))
                    && nodes.as_ref().is_none_or(|own| own.contains(cpu))
            };
            let has = |domain: &usize| self.domains.cpus[*domain].iter().any(may);
            (0..self.domains.cpus.len()).filter(has).collect()
        };
        self.jobs().iter().map(domains_of).collect()
    }

    /// Performs a hill climb by moves and swaps. Returns the number of simulated placements; `None` if stopped.
    fn climb(
        &mut self,
        choices: &[Vec<usize>],
        first: FirstDomains,
        n_runs_max: usize,
    ) -> Result<Option<usize>, SimRunError> {
        let n_before = self.n_runs;
        let mut current = first.placement(&self.domains.cpus, choices);
        let Some(mut result) = self.simulate(OracleCandidate::Fixed(current.clone()), None)? else {
            return Ok(None);
        };
        'climb: loop {
            let urgencies = self.urgencies(&result.1);
            for (job, to, swapped) in steps(&current, choices, &urgencies) {
                if n_runs_max <= self.n_runs - n_before {
                    break 'climb;
                }
                let mut next = current.clone();
                if let Some(other) = swapped {
                    next[other] = current[job];
                }
                next[job] = Some(to);
                let candidate = OracleCandidate::Fixed(next.clone());
                let Some(new) = self.simulate(candidate, None)? else { return Ok(None) };
                if new.0 < result.0 {
                    (current, result) = (next, new);
                    continue 'climb;
                }
            }
            break;
        }
        Ok(Some(self.n_runs - n_before))
    }

    fn score(&self, metrics: &RunMetrics) -> Score {
        let times =
            metrics.jobs.iter().filter_map(|job| Some(job.end?.saturating_sub(job.start?).0));
        let value = self.bench.value(self.objective, self.run, metrics);
        (RunProgress::of(metrics), value.to_bits(), Nanos(times.sum()))
    }

    /// Returns a number for each job. The job with the largest number limits the objective.
    fn urgencies(&self, metrics: &RunMetrics) -> Vec<f64> {
        let end = |times: &JobTimes| times.end.map_or(0.0, |end| end.0 as f64);
        match self.objective {
            Objective::Makespan => metrics.jobs.iter().map(end).collect(),
            Objective::MeanSlowdown | Objective::MaxSlowdown => {
                let slowdowns = self.bench.slowdowns(self.run, metrics).into_iter();
                slowdowns.map(|slowdown| slowdown.unwrap_or(0.0)).collect()
            }
        }
    }

    /// Simulates a candidate; `None` if stopped.
    fn simulate(
        &mut self,
        candidate: OracleCandidate,
        listener: Option<&mut dyn Sink>,
    ) -> Result<Option<(Score, RunMetrics)>, SimRunError> {
        let reason = Reason::new(ORACLE_CHOSE);
        let policy = candidate.policy(self.bench, self.run, &self.domains, reason)?;
        let Some(metrics) = self.bench.run_policy(policy, self.run, self.stop, listener)? else {
            return Ok(None);
        };
        self.n_runs += 1;
        let score = self.score(&metrics);
        if let OracleCandidate::Fixed(placement) = &candidate
            && self.best_fixed.as_ref().is_none_or(|(best, _)| score < *best)
        {
            self.best_fixed = Some((score, placement.clone()));
        }
        if self.best.as_ref().is_none_or(|(best, _, _)| score < *best) {
            self.best = Some((score, metrics.clone(), candidate));
        }
        Ok(Some((score, metrics)))
    }
}

/// Returns the next steps of the hill climb: a job, its new domain, and the job that is swapped with it. The most urgent
/// job is first.
fn steps(
    current: &[Option<usize>],
    choices: &[Vec<usize>],
    urgencies: &[f64],
) -> Vec<(usize, usize, Option<usize>)> {
    let n_in = |domain: usize| current.iter().filter(|at| **at == Some(domain)).count();
    let mut order: Vec<usize> = (0..current.len()).filter(|job| 2 <= choices[*job].len()).collect();
    order.sort_by(|one, other| urgencies[*other].total_cmp(&urgencies[*one]).then(one.cmp(other)));
    let mut steps = Vec::new();
    for &job in &order {
        let mut others: Vec<usize> =
            choices[job].iter().copied().filter(|domain| current[job] != Some(*domain)).collect();
        others.sort_by_key(|domain| (n_in(*domain), *domain));
        for &to in others.iter().take(N_DOMAINS_TRIED) {
            steps.push((job, to, None));
            let can_swap = |other: &usize| {
                current[*other] == Some(to)
                    && current[job].is_some_and(|at| choices[*other].contains(&at))
            };
            let swapped = order.iter().rev().copied().find(can_swap);
            steps.extend(swapped.map(|other| (job, to, Some(other))));
        }
    }
    steps
}

/// Returns whether the domains differ only in their names: all on one node, or each on its own node with equal
/// distances between them, with equal CPUs, caches and controllers, and without further nodes.
fn are_interchangeable(hardware: &Hardware, domains: &[CpuSet]) -> bool {
    let cpus_of = |domain: &CpuSet| -> Vec<&HardwareCpu> {
        hardware.cpus.iter().filter(|cpu| domain.contains(cpu.id)).collect()
    };
    let nodes_of =
        |domain: &CpuSet| cpus_of(domain).iter().map(|cpu| cpu.node).collect::<BTreeSet<_>>();
    let nodes: BTreeSet<usize> = domains.iter().flat_map(nodes_of).collect();
    let is_regular = domains.iter().all(|domain| nodes_of(domain).len() == 1)
        && (nodes.len() == 1 || nodes.len() == domains.len());
    let is_same = |one: &CpuSet, other: &CpuSet| {
        let (one, other) = (cpus_of(one), cpus_of(other));
        let n_cores =
            |cpus: &[&HardwareCpu]| cpus.iter().map(|cpu| cpu.core).collect::<BTreeSet<_>>().len();
        one.len() == other.len()
            && n_cores(&one) == n_cores(&other)
            && one.iter().zip(&other).all(|(one, other)| are_equal(hardware, one, other))
    };
    let first = domains.first();
    let all_same = first.is_none_or(|first| domains.iter().all(|other| is_same(first, other)));
    is_regular
        && n_kinds_of_paths(hardware, &nodes) <= 1
        && all_same
        && nodes.len() == hardware.nodes.len()
}

/// Returns whether two CPUs have equal speed, cache and memory.
fn are_equal(hardware: &Hardware, one: &HardwareCpu, other: &HardwareCpu) -> bool {
    let (one_node, other_node) = (&hardware.nodes[one.node], &hardware.nodes[other.node]);
    let limits = |cpu: &HardwareCpu| {
        let cache = &hardware.caches[cpu.cache];
        [cache.port, cache.memory_link].map(|limit| limit.map(|limit| hardware.channels[limit]))
    };
    one.speed == other.speed
        && hardware.smt_shares[one.core] == hardware.smt_shares[other.core]
        && hardware.caches[one.cache].bytes == hardware.caches[other.cache].bytes
        && limits(one) == limits(other)
        && one_node.memory == other_node.memory
        && hardware.memory(one.node) == hardware.memory(other.node)
}

/// Returns the number of different latencies and bandwidths between two nodes.
fn n_kinds_of_paths(hardware: &Hardware, nodes: &BTreeSet<usize>) -> usize {
    let others =
        |from: usize| nodes.iter().filter(move |to| **to != from).map(move |to| (from, *to));
    let kind = |(from, to)| {
        let path = hardware.path_between(from, to);
        let [own, shared] = path.links;
        let own = own.map(|link| hardware.channels[link].capacity.to_bits());
        (path.extra_ns.to_bits(), own, shared)
    };
    let pairs = nodes.iter().flat_map(|from| others(*from));
    pairs.map(kind).collect::<BTreeSet<(u64, Option<u64>, Option<usize>)>>().len()
}

/// The first placement of each job of a run.
#[derive(Debug, Default)]
struct FirstDomains(BTreeMap<usize, CpuSet>);

impl FirstDomains {
    fn placement(&self, domains: &[CpuSet], choices: &[Vec<usize>]) -> Placement {
        let domain_of = |(job, choices): (usize, &Vec<usize>)| {
            let cpu = self.0.get(&job).and_then(|cpus| cpus.iter().next());
            let first = cpu.and_then(|cpu| domains.iter().position(|cpus| cpus.contains(cpu)));
            let spread = (!choices.is_empty()).then(|| choices[job % choices.len()]);
            first.or(spread).filter(|_| 2 <= choices.len())
        };
        choices.iter().enumerate().map(domain_of).collect()
    }
}

impl Sink for FirstDomains {
    fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
        for outcome in record.outcomes {
            if let (Target::Job(job), Some(Action::Place(cpus))) = (outcome.target, &outcome.action)
            {
                self.0.entry(job.index()).or_insert_with(|| cpus.clone());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_of_equal_distance_and_equal_cpus_are_interchangeable() {
        let is_interchangeable = |machine: &str| {
            let machine = Machine::synthetic(machine).expect("a machine");
            let hardware = Hardware::new(&machine);
            are_interchangeable(&hardware, &domains(&machine, &hardware))
        };
        assert!(is_interchangeable("nodes=1 llcs=4 cores=2 llc=8M"));
        assert!(is_interchangeable("nodes=2 llcs=1 cores=4 llc=8M smt=2"));
        // Two caches of one node are nearer to each other than to the caches of the other node.
        assert!(!is_interchangeable("nodes=2 llcs=2 cores=2 llc=8M"));
        let hybrid = Hardware::new(&crate::shipped::machine("hybrid-desktop").expect("it ships"));
        let ids = |cpus: &Vec<usize>| cpus.iter().map(|cpu| hybrid.cpus[*cpu].id).collect();
        let cores: Vec<CpuSet> = hybrid.cores.iter().map(ids).collect();
        assert!(!are_interchangeable(&hybrid, &cores));
    }

    #[test]
    fn a_domain_with_several_core_kinds_is_one_domain_for_each() {
        let check = |text: &str, expected: &str| {
            let machine = Machine::synthetic(text).expect("a machine");
            let hardware = Hardware::new(&machine);
            let found = domains(&machine, &hardware);
            let cpus: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(cpus.join(" "), expected, "{text}");
            assert!(found.is_empty() || !are_interchangeable(&hardware, &found), "{text}");
        };
        check("cores=4 kinds=1024x2+512x2", "0-1 2-3");
        check("cores=4", "");
        check("nodes=2 cores=3 kinds=1024x1+512x2", "0 1-2 3 4-5");
    }

    #[test]
    fn an_aborted_run_is_behind_every_other_run() {
        let run = |status, ends: [Option<u64>; 2]| {
            let job = |end: Option<u64>| JobTimes { end: end.map(Nanos), ..JobTimes::default() };
            RunMetrics { status, jobs: ends.map(job).to_vec(), ..RunMetrics::default() }
        };
        let all = [
            run(Completion::Finished, [Some(9), Some(9)]),
            run(Completion::Stopped, [Some(5), Some(5)]),
            run(Completion::Stopped, [Some(5), None]),
            run(Completion::Failed, [Some(2), Some(3)]),
            run(Completion::Failed, [Some(1), None]),
            run(Completion::Failed, [None, None]),
        ];
        let progress: Vec<RunProgress> = all.iter().map(RunProgress::of).collect();
        assert!(progress.is_sorted_by(|one, next| one < next), "{progress:?}");
    }

    #[test]
    fn placements_on_interchangeable_domains_are_counted_once() {
        let two = vec![vec![0, 1]; 4];
        assert_eq!(all_placements(&two, true, 100).expect("few").len(), 8);
        assert_eq!(all_placements(&two, false, 100).expect("few").len(), 16);
        // Partitions of six jobs into at most three groups: 1 + 31 + 90.
        let three = vec![vec![0, 1, 2]; 6];
        assert_eq!(all_placements(&three, true, 1000).expect("few").len(), 122);
        assert_eq!(all_placements(&three, true, 100), None);
    }

    #[test]
    fn a_job_without_a_choice_is_not_placed_and_makes_domains_distinguishable() {
        let choices = vec![vec![0, 1], vec![1], vec![0, 1]];
        let all = all_placements(&choices, true, 100).expect("few");
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|placement| placement[1].is_none()));
    }
}
