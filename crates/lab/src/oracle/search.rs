//! The search over whole runs.
//!
//! A *place* is a last-level cache, or a node where all share one cache. A placement gives each job a place
//! for its whole life. Where all placements are few enough, each is simulated; on places that are alike in
//! everything only one of those that differ in names alone. Else it climbs: jobs that end last first, each
//! to another place or in exchange with the job there that ends first, as long as the run ends earlier.
//!
//! Runs are compared by when the last job ends, then by the sum of the times of all.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base::{CpuSet, Nanos, StopFlag};
use engine::{Sink, TurnRecord};
use host_sim::hardware::{Cpu, Hardware};
use host_sim::oracle::Oracle;
use program::Job;
use sched::{Action, Policy, Reason, Target};

use super::Effort;
use super::placed::{Chosen, Placed};
use crate::compare::{Column, Completion, OracleSearch, RunMetrics, SimBench, SimRunError};

/// In exchange, and to so many other places, a job is tried at each step of the climb.
const N_PLACES_TRIED: usize = 3;

/// A way to do a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A policy that ships, as it comes.
    Policy(&'static str),
    /// The best placement of each moment, found anew whenever a job comes or goes.
    Moment,
    /// A place for each job for its whole life; `None`: it is bound elsewhere, or has no choice.
    Placed(Vec<Option<usize>>),
}

/// The best way that is known.
#[derive(Clone, Debug)]
pub struct Best {
    /// Which it is.
    pub way: Way,
    /// What came of it.
    pub metrics: RunMetrics,
    /// How many runs were simulated to find it.
    pub n_runs: usize,
    /// How many of them were placements for the whole run.
    pub n_placements: usize,
    /// Whether those were all that there are.
    pub is_all: bool,
    /// No placement ends earlier.
    pub bound: Nanos,
    places: Vec<CpuSet>,
}

impl Best {
    /// How far above the bound it ends, as a part of it.
    pub fn above_bound(&self) -> Option<f64> {
        let (whole, bound) = (self.metrics.makespan.as_secs_f64(), self.bound.as_secs_f64());
        (0.0 < bound).then(|| whole / bound - 1.0)
    }

    /// How it was found, as it is kept with the metrics.
    pub fn found(&self) -> OracleSearch {
        OracleSearch {
            way: self.way.words(),
            n_placements: self.n_placements as u64,
            is_all: self.is_all,
            above_bound: self.above_bound(),
        }
    }

    /// How it was found: `best of all 32 placements`, …
    pub fn how(&self) -> String {
        match self.is_all {
            true => format!("all {} placements", self.n_placements),
            false => format!("a search of {} placements", self.n_placements),
        }
    }

    /// The policy that does it again, for the same scripts.
    ///
    /// # Errors
    /// None that the search did not have.
    pub fn policy(
        &self,
        bench: &SimBench,
        workload: usize,
        seed: u64,
    ) -> Result<Box<dyn Policy>, SimRunError> {
        let ended = self.metrics.makespan.as_secs_f64();
        let mut why = Reason::new(super::ORACLE_CHOSE)
            .with("n_runs", self.n_runs as u64)
            .with("how", self.how())
            .with("way", self.way.words())
            .with("ended", format!("{ended:.3} s"));
        if let Some(above) = self.above_bound() {
            why = why.with("above", format!("{:.1} %", above * 100.0));
        }
        let inner = self.way.policy(bench, workload, seed, (&self.places, Some(why.clone())))?;
        Ok(match self.way {
            Way::Placed(_) => inner,
            _ => Box::new(Chosen { inner, why: Some(why) }),
        })
    }
}

impl Way {
    fn words(&self) -> String {
        match self {
            Way::Policy(name) => format!("policy {name}"),
            Way::Moment => "the best placement of each moment".to_owned(),
            Way::Placed(_) => "this placement for the whole run".to_owned(),
        }
    }

    fn policy(
        &self,
        bench: &SimBench,
        workload: usize,
        seed: u64,
        (places, why): (&[CpuSet], Option<Reason>),
    ) -> Result<Box<dyn Policy>, SimRunError> {
        let contention = bench.setting().options.contention;
        Ok(match self {
            Way::Policy(name) => policy::build(name, seed)?,
            Way::Moment => {
                let scripts = bench.workloads()[workload].scripts();
                Box::new(Oracle::new(bench.hardware().clone(), scripts, contention))
            }
            Way::Placed(put) => {
                let cpus = put.iter().map(|place| place.map(|place| places[place].clone()));
                let why = why.or_else(|| Some(Reason::new(super::ORACLE_CHOSE)));
                Box::new(Placed { cpus: cpus.collect(), why })
            }
        })
    }
}

/// The best way to do a run that can be found; `None` when `stop` was set meanwhile.
///
/// # Errors
/// A run could not begin.
pub(crate) fn best(
    bench: &SimBench,
    (column, workload, seed): (&Column, usize, u64),
    effort: Effort,
    stop: &StopFlag,
) -> Result<Option<Best>, SimRunError> {
    let places = places(bench.hardware());
    let mut search = Search { bench, column, workload, seed, stop, places, n_runs: 0, best: None };
    let done = search.everything(effort)?;
    let Search { places, n_runs, best, .. } = search;
    let (Some((n_placements, is_all)), Some((_, metrics, way))) = (done, best) else {
        return Ok(None);
    };
    let bound = bench.bound(workload);
    Ok(Some(Best { way, metrics, n_runs, n_placements, is_all, bound, places }))
}

/// The CPUs of each place; none where there is no choice.
fn places(hardware: &Hardware) -> Vec<CpuSet> {
    let ids = |cpus: &[usize]| cpus.iter().map(|cpu| hardware.cpus[*cpu].id).collect::<CpuSet>();
    let caches: Vec<CpuSet> = hardware.caches.iter().map(|cache| ids(&cache.cpus)).collect();
    let nodes = hardware.nodes.iter().filter(|node| !node.cpus.is_empty());
    let nodes: Vec<CpuSet> = nodes.map(|node| ids(&node.cpus)).collect();
    // Caches of one core each leave nothing to share; whose controller is used still matters there.
    let is_private = caches.iter().all(|cpus| cpus.len() == 1);
    match (caches.len(), nodes.len()) {
        (2.., 2..) if is_private => nodes,
        (2.., _) => caches,
        (_, 2..) => nodes,
        _ => Vec::new(),
    }
}

/// When the last job ended, whether all went well first, and the sum of all times.
type Score = (bool, Nanos, Nanos);

struct Search<'a> {
    bench: &'a SimBench,
    column: &'a Column,
    workload: usize,
    seed: u64,
    stop: &'a StopFlag,
    places: Vec<CpuSet>,
    n_runs: usize,
    best: Option<(Score, RunMetrics, Way)>,
}

impl Search<'_> {
    /// All of it; how many placements were tried and whether those are all. `None` when it was stopped.
    fn everything(&mut self, effort: Effort) -> Result<Option<(usize, bool)>, SimRunError> {
        for info in policy::registry() {
            if self.run(Way::Policy(info.name))?.is_none() {
                return Ok(None);
            }
        }
        let mut first = FirstPlaces::default();
        if self.play(Way::Moment, Some(&mut first))?.is_none() {
            return Ok(None);
        }
        let open = self.open();
        let has_rule =
            |job: &Job| job.cpus.is_some() || job.nodes.is_some() || job.memory.is_some();
        let alike =
            !self.jobs().iter().any(has_rule) && are_alike(self.bench.hardware(), &self.places);
        let all = all(&open, alike, effort.n_runs);
        match all {
            Some(all) => {
                for put in &all {
                    if self.run(Way::Placed(put.clone()))?.is_none() {
                        return Ok(None);
                    }
                }
                Ok(Some((all.len(), true)))
            }
            None => Ok(self.climb(&open, first, effort.n_runs)?.map(|n| (n, false))),
        }
    }

    fn jobs(&self) -> &[Job] {
        self.bench.workloads()[self.workload].jobs()
    }

    /// Places that each job may use; fewer than two: there is no choice.
    fn open(&self) -> Vec<Vec<usize>> {
        let machine = &self.bench.setting().machine;
        let open = |job: &Job| {
            let nodes = job.nodes.as_ref().map(|nodes| machine.cpus_of_nodes(nodes));
            let may = |cpu| {
                job.cpus.as_ref().is_none_or(|own| own.contains(cpu))
                    && nodes.as_ref().is_none_or(|own| own.contains(cpu))
            };
            let has = |place: &usize| self.places[*place].iter().any(may);
            (0..self.places.len()).filter(has).collect()
        };
        self.jobs().iter().map(open).collect()
    }

    /// Moves and swaps, as long as they help and there are runs left; how many there were.
    fn climb(
        &mut self,
        open: &[Vec<usize>],
        first: FirstPlaces,
        n_runs: usize,
    ) -> Result<Option<usize>, SimRunError> {
        let n_before = self.n_runs;
        let mut put = first.places(&self.places, open);
        let Some(mut now) = self.run(Way::Placed(put.clone()))? else { return Ok(None) };
        'climb: loop {
            for (job, to, other) in self.steps(&put, open, &now.1) {
                if n_runs <= self.n_runs - n_before {
                    break 'climb;
                }
                let mut next = put.clone();
                if let Some(other) = other {
                    next[other] = put[job];
                }
                next[job] = Some(to);
                let Some(its) = self.run(Way::Placed(next.clone()))? else { return Ok(None) };
                if its.0 < now.0 {
                    (put, now) = (next, its);
                    continue 'climb;
                }
            }
            break;
        }
        Ok(Some(self.n_runs - n_before))
    }

    /// What can be tried from a placement: a job, its new place, and the job that comes for it.
    fn steps(
        &self,
        put: &[Option<usize>],
        open: &[Vec<usize>],
        metrics: &RunMetrics,
    ) -> Vec<(usize, usize, Option<usize>)> {
        let end = |job: usize| metrics.jobs.get(job).and_then(|its| its.end);
        let n_at = |place: usize| put.iter().filter(|at| **at == Some(place)).count();
        let mut order: Vec<usize> = (0..put.len()).filter(|job| 2 <= open[*job].len()).collect();
        order.sort_by_key(|job| (std::cmp::Reverse(end(*job)), *job));
        let mut steps = Vec::new();
        for &job in &order {
            let mut others: Vec<usize> =
                open[job].iter().copied().filter(|place| put[job] != Some(*place)).collect();
            others.sort_by_key(|place| (n_at(*place), *place));
            for &to in others.iter().take(N_PLACES_TRIED) {
                steps.push((job, to, None));
                let there = order.iter().rev().copied();
                let comes = |other: &usize| {
                    put[*other] == Some(to) && put[job].is_some_and(|at| open[*other].contains(&at))
                };
                steps.extend(there.clone().find(comes).map(|other| (job, to, Some(other))));
            }
        }
        steps
    }

    /// Does a run; `None` when it was stopped.
    fn run(&mut self, way: Way) -> Result<Option<(Score, RunMetrics)>, SimRunError> {
        self.play(way, None)
    }

    fn play(
        &mut self,
        way: Way,
        listener: Option<&mut dyn Sink>,
    ) -> Result<Option<(Score, RunMetrics)>, SimRunError> {
        let (workload, seed) = (self.workload, self.seed);
        let policy = way.policy(self.bench, workload, seed, (&self.places, None))?;
        let run = (self.column, workload, seed);
        let Some(metrics) = self.bench.run_policy(policy, run, self.stop, listener)? else {
            return Ok(None);
        };
        self.n_runs += 1;
        let score = score(&metrics);
        if self.best.as_ref().is_none_or(|(least, _, _)| score < *least) {
            self.best = Some((score, metrics.clone(), way));
        }
        Ok(Some((score, metrics)))
    }
}

/// Whether no place differs from another in anything but its name: all on one node, or each on one of its own,
/// no two nearer to each other than others, and no further node with memory alone.
fn are_alike(hardware: &Hardware, places: &[CpuSet]) -> bool {
    let cpus_of = |place: &CpuSet| -> Vec<&Cpu> {
        hardware.cpus.iter().filter(|cpu| place.contains(cpu.id)).collect()
    };
    let nodes_of =
        |place: &CpuSet| cpus_of(place).iter().map(|cpu| cpu.node).collect::<BTreeSet<_>>();
    let nodes: BTreeSet<usize> = places.iter().flat_map(nodes_of).collect();
    let is_one_each = places.iter().all(|place| nodes_of(place).len() == 1);
    let is_regular = is_one_each && (nodes.len() == 1 || nodes.len() == places.len());
    let ways: BTreeSet<(u64, Option<u64>)> = nodes
        .iter()
        .flat_map(|from| nodes.iter().filter(move |to| *to != from).map(move |to| (*from, *to)))
        .map(|(from, to)| {
            let way = hardware.path_between(from, to);
            let link = way.link.map(|link| hardware.links[link].channel.capacity.to_bits());
            (way.extra_ns.to_bits(), link)
        })
        .collect();
    let is_same = |one: &CpuSet, other: &CpuSet| {
        let (one, other) = (cpus_of(one), cpus_of(other));
        let n_cores =
            |cpus: &[&Cpu]| cpus.iter().map(|cpu| cpu.core).collect::<BTreeSet<_>>().len();
        let is_like = |(one, other): (&&Cpu, &&Cpu)| {
            let (own, its) = (&hardware.nodes[one.node], &hardware.nodes[other.node]);
            one.ghz == other.ghz
                && one.smt_speed == other.smt_speed
                && hardware.caches[one.cache].bytes == hardware.caches[other.cache].bytes
                && own.memory == its.memory
                && own.channel == its.channel
        };
        one.len() == other.len()
            && n_cores(&one) == n_cores(&other)
            && one.iter().zip(&other).all(is_like)
    };
    let all_same = places.first().is_none_or(|first| places.iter().all(|it| is_same(first, it)));
    is_regular && ways.len() <= 1 && all_same && nodes.len() == hardware.nodes.len()
}

fn score(metrics: &RunMetrics) -> Score {
    let times = metrics.jobs.iter().filter_map(|job| Some(job.end?.saturating_sub(job.start?).0));
    (metrics.status != Completion::Finished, metrics.makespan, Nanos(times.sum()))
}

/// Every placement, where there are no more than `most`. On places that are alike the first job that has
/// all of them open goes to the first, the next to no later than the one after it, and so on.
fn all(open: &[Vec<usize>], alike: bool, most: usize) -> Option<Vec<Vec<Option<usize>>>> {
    let n_places = open.iter().flatten().max().map_or(0, |last| last + 1);
    let alike = alike && open.iter().all(|open| open.len() == n_places);
    let mut all: Vec<Vec<Option<usize>>> = vec![Vec::new()];
    for open in open {
        let mut next = Vec::new();
        for put in &all {
            let used = put.iter().flatten().max().map_or(0, |last| last + 1);
            match open.len() {
                0 | 1 => next.push([put.as_slice(), &[None]].concat()),
                _ => next.extend(
                    (open.iter().filter(|place| !alike || **place <= used))
                        .map(|place| [put.as_slice(), &[Some(*place)]].concat()),
                ),
            }
        }
        if most < next.len() {
            return None;
        }
        all = next;
    }
    Some(all)
}

/// Where each job was put first.
#[derive(Debug, Default)]
struct FirstPlaces(BTreeMap<usize, CpuSet>);

impl FirstPlaces {
    fn places(&self, places: &[CpuSet], open: &[Vec<usize>]) -> Vec<Option<usize>> {
        let of = |(job, open): (usize, &Vec<usize>)| {
            let its = self.0.get(&job).and_then(|cpus| cpus.iter().next());
            let found = its.and_then(|cpu| places.iter().position(|place| place.contains(cpu)));
            let spread = (!open.is_empty()).then(|| open[job % open.len()]);
            found.or(spread).filter(|_| 2 <= open.len())
        };
        open.iter().enumerate().map(of).collect()
    }
}

impl Sink for FirstPlaces {
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
    use topology::Machine;

    fn alike(machine: &str) -> bool {
        let hardware = Hardware::new(&Machine::synthetic(machine).expect("a machine"));
        are_alike(&hardware, &places(&hardware))
    }

    #[test]
    fn places_are_alike_on_one_node_or_on_a_node_each() {
        assert!(alike("nodes=1 llcs=4 cores=2 llc=8M"));
        assert!(alike("nodes=2 llcs=1 cores=4 llc=8M smt=2"));
        // Two caches of one node are nearer to each other than to those of the other.
        assert!(!alike("nodes=2 llcs=2 cores=2 llc=8M"));
    }

    #[test]
    fn places_of_a_hybrid_machine_are_not_alike() {
        let machine = crate::shipped::machine("hybrid-desktop").expect("it ships");
        let hardware = Hardware::new(&machine);
        let each: Vec<CpuSet> = hardware
            .cores
            .iter()
            .map(|cpus| cpus.iter().map(|cpu| hardware.cpus[*cpu].id).collect())
            .collect();
        assert!(!are_alike(&hardware, &each));
    }

    #[test]
    fn all_placements_on_places_alike_are_counted_once() {
        let open = vec![vec![0, 1]; 4];
        assert_eq!(all(&open, true, 100).expect("few").len(), 8);
        assert_eq!(all(&open, false, 100).expect("few").len(), 16);
        // The partitions of six into at most three: 1 + 31 + 90.
        let open = vec![vec![0, 1, 2]; 6];
        assert_eq!(all(&open, true, 1000).expect("few").len(), 122);
        assert_eq!(all(&open, true, 100), None);
    }

    #[test]
    fn who_has_no_choice_is_left_where_it_is_and_makes_places_differ() {
        let open = vec![vec![0, 1], vec![1], vec![0, 1]];
        let all = all(&open, true, 100).expect("few");
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|put| put[1].is_none()));
    }
}
