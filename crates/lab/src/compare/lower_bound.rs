//! Lower bounds of the objectives of the oracle, valid for every placement.
//!
//! ```text
//!   the longest job      start + its time on the fastest core, with the largest cache and unloaded memory
//!   a resource           start + demand of the jobs on it ÷ its capacity
//! ```
//!
//! | resource | demand of a job | capacity |
//! | --- | --- | --- |
//! | CPUs | CPU time on the fastest core, with the largest cache and unloaded memory | sum of the throughputs with SMT |
//! | cores | core cycles | sum of cycles per nanosecond × throughput with SMT |
//! | memory controllers | bytes with the largest cache | sum of their capacities |
//!
//! CPUs and cores are two resources, because slow cores do not make memory slower. The resources exist for all jobs, and for the jobs that their keys restrict to a set of CPUs or nodes. Jobs that start
//! later cannot use a resource earlier: each start time gives one bound, for the jobs that start at this time or later.
//!
//! From the end of the last of some jobs follow the bounds of slowdowns:
//!
//! - The largest slowdown is at least the smallest value of (end − start) ÷ time alone of these jobs.
//! - The sum of the slowdowns is smallest if the resource serves the jobs one after the other, the job with the smallest
//!   demand ÷ weight first, with the weight 1 ÷ time alone (W. E. Smith, "Various optimizers for single-stage
//!   production", Naval Research Logistics Quarterly 3, 1956; on one resource preemption does not help).
//!
//! Out of scope: cold caches and page migration, which only add demand; links between nodes.

use std::collections::BTreeSet;

use base::{CpuSet, Nanos, NodeId, NodeSet};
use host_sim::hardware::{Hardware, HardwareCpu};
use host_sim::script::{LeastDemand, Script};
use program::{Job, MemoryPolicy};
use topology::SmtSharing;

use super::{MachineVariant, SimBench};
use crate::oracle::Objective;

/// A lower bound of an objective.
#[derive(Clone, Debug, PartialEq)]
pub struct LowerBound {
    /// The bound: nanoseconds of a makespan, or a slowdown.
    pub value: f64,
    /// The jobs or the demand from which the bound follows: `the CPU time of all jobs`.
    pub term: String,
}

/// The least work of a job that exits.
#[derive(Clone, Debug)]
struct LeastWork {
    /// Start of the job without random delay, in nanoseconds.
    start: f64,
    /// Shortest run time in nanoseconds.
    shortest: f64,
    /// Time alone in nanoseconds, if it was measured.
    alone: Option<f64>,
    /// Demand on each [`ResourceKind`].
    demands: [f64; 3],
    /// CPUs that the job may use, by index.
    cpus: Vec<bool>,
    /// Nodes from which the job may allocate memory, by index.
    nodes: Vec<bool>,
}

/// Kinds of resources, as indexes of [`LeastWork::demands`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResourceKind {
    Cpus,
    Cores,
    Controllers,
}

/// A resource with the jobs that can use nothing else.
struct Resource<'a> {
    kind: ResourceKind,
    /// Demand served per nanosecond.
    capacity: f64,
    jobs: Vec<&'a LeastWork>,
    term: String,
}

impl SimBench {
    /// Returns a lower bound of the makespan of a workload that is valid for all placements; zero if no job exits.
    pub fn bound(&self, workload: usize) -> Nanos {
        let variant = MachineVariant::default();
        let bound = self.lower_bound(Objective::Makespan, variant, (workload, 0));
        Nanos(bound.map_or(0.0, |bound| bound.value) as u64)
    }

    /// Returns a lower bound of the time of each job of a workload that exits, valid for all placements.
    pub fn shortest(&self, workload: usize) -> Vec<Nanos> {
        let all = self.least_work(MachineVariant::default(), (workload, 0));
        all.iter().map(|work| Nanos(work.shortest as u64)).collect()
    }

    /// Returns the largest lower bound of an objective; `None` if no job exits, or if the bound needs times alone that were
    /// not measured.
    pub(super) fn lower_bound(
        &self,
        objective: Objective,
        variant: MachineVariant,
        (workload, seed): (usize, u64),
    ) -> Option<LowerBound> {
        let (all, options) = (self.least_work(variant, (workload, seed)), &self.setting().options);
        let delay = options.variation.start.0 as f64;
        let resources = resources(self.hardware(), &all, options.contention);
        // If all allowed CPUs of a job are offline, the job runs on other CPUs.
        let has_sets = options.faults.cpus_offline == Nanos::ZERO;
        let resources = resources.iter().filter(|one| has_sets || one.jobs.len() == all.len());
        let longest = of_jobs(objective, &all);
        let of_resources = resources.filter_map(|one| {
            let value = one.bound(objective, &all, delay)?;
            Some(LowerBound { value, term: one.term.clone() })
        });
        // Of equal bounds the first is the simplest.
        let larger = |best: LowerBound, other: LowerBound| {
            if best.value < other.value { other } else { best }
        };
        longest.into_iter().chain(of_resources).reduce(larger).filter(|bound| 0.0 < bound.value)
    }

    /// Returns the least work of the jobs that exit, with the smallest random length.
    fn least_work(
        &self,
        variant: MachineVariant,
        (workload, seed): (usize, u64),
    ) -> Vec<LeastWork> {
        let (ready, hardware) = (self.workload(workload, seed), self.hardware());
        let variation = self.setting().options.variation;
        // The minimum of a uniform distribution is sqrt(3) standard deviations below its mean.
        let least = |part: f64| (1.0 - libm::sqrt(3.0) * part).max(0.0);
        let alone = self.alone(variant, workload, seed);
        let jobs = ready.jobs().iter().zip(ready.scripts()).enumerate();
        let exiting = jobs.filter(|(_, (job, _))| job.ending.is_program_exit());
        let work = |(idx, (job, script)): (usize, (&Job, &std::sync::Arc<Script>))| {
            let sleeps = script.phases.iter().any(|act| act.sleeps.is_some());
            let part =
                if sleeps { variation.length.max(variation.sleep) } else { variation.length };
            LeastWork {
                start: job.start.0 as f64,
                shortest: script.lower_bound_ns(hardware) * least(part),
                alone: alone.get(idx).copied().flatten().map(|time| time.0 as f64),
                demands: demands(script, hardware).map(|demand| demand * least(variation.length)),
                cpus: allowed_cpus(job, hardware),
                nodes: allowed_nodes(job, hardware),
            }
        };
        exiting.map(work).collect()
    }
}

/// Returns the least demand of a script on each kind of resource.
fn demands(script: &Script, hardware: &Hardware) -> [f64; 3] {
    let LeastDemand { cpu_ns, cycles, bytes } = script.least_demand(hardware);
    [cpu_ns, cycles, bytes]
}

/// Returns the bandwidth of a job alone in bytes per nanosecond, on the fastest core, with the largest cache and unloaded
/// memory.
pub(super) fn bandwidth(script: &Script, hardware: &Hardware) -> f64 {
    let [cpu_ns, _, bytes] = demands(script, hardware);
    bytes / cpu_ns.max(1e-9) * f64::from(script.n_threads)
}

fn allowed_cpus(job: &Job, hardware: &Hardware) -> Vec<bool> {
    let in_nodes = |nodes: &NodeSet, node: usize| {
        hardware.nodes[node].id.is_some_and(|id: NodeId| nodes.contains(id))
    };
    let is_allowed = |cpu: &HardwareCpu| {
        job.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu.id))
            && job.nodes.as_ref().is_none_or(|nodes| in_nodes(nodes, cpu.node))
    };
    hardware.cpus.iter().map(is_allowed).collect()
}

fn allowed_nodes(job: &Job, hardware: &Hardware) -> Vec<bool> {
    let bound = match &job.memory {
        Some(MemoryPolicy::Bind(nodes)) => Some(nodes),
        Some(_) => None,
        None => job.nodes.as_ref(),
    };
    let is_allowed = |id: Option<NodeId>| {
        bound.is_none_or(|nodes| id.is_some_and(|id: NodeId| nodes.contains(id)))
    };
    hardware.nodes.iter().map(|node| is_allowed(node.id)).collect()
}

/// Returns the throughput of these CPUs: the sum over all cores of `speed`, multiplied by the largest throughput of the
/// core with busy SMT siblings. SMT siblings outside the set are idle.
fn throughput(hardware: &Hardware, cpus: &[bool], speed: fn(&HardwareCpu) -> f64) -> f64 {
    let of_core = |(core, shares): (&Vec<usize>, &Vec<f64>)| {
        let busy: Vec<usize> = core.iter().copied().filter(|&cpu| cpus[cpu]).collect();
        let with_smt = (1..=busy.len()).zip(shares).map(|(n_busy, share)| n_busy as f64 * share);
        let fastest = busy.iter().map(|&cpu| speed(&hardware.cpus[cpu])).fold(0.0, f64::max);
        fastest * with_smt.fold(0.0, f64::max)
    };
    hardware.cores.iter().zip(&hardware.smt_shares).map(of_core).sum()
}

/// Returns the resources that jobs use.
fn resources<'a>(
    hardware: &Hardware,
    all: &'a [LeastWork],
    has_contention: bool,
) -> Vec<Resource<'a>> {
    let mut resources = Vec::new();
    let is_within = |own: &[bool], set: &[bool]| own.iter().zip(set).all(|(own, set)| own <= set);
    let name = |noun: &str, jobs: &[&LeastWork], set: String| match jobs.len() == all.len() {
        true => format!("{noun} of all jobs"),
        false => format!("{noun} of the jobs on {set}"),
    };
    let every_cpu = vec![true; hardware.cpus.len()];
    for set in distinct(all, every_cpu, |work| &work.cpus) {
        let jobs: Vec<&LeastWork> = all.iter().filter(|own| is_within(&own.cpus, &set)).collect();
        let ids: CpuSet = hardware
            .cpus
            .iter()
            .zip(&set)
            .filter(|(_, is_in)| **is_in)
            .map(|(cpu, _)| cpu.id)
            .collect();
        let on = || format!("CPUs {ids}");
        resources.push(Resource {
            kind: ResourceKind::Cpus,
            capacity: match hardware.smt {
                SmtSharing::Equal => throughput(hardware, &set, |_| 1.0),
                // Beside programs that stall on memory, a sibling runs as fast as alone.
                SmtSharing::ByPair => set.iter().filter(|is_in| **is_in).count() as f64,
            },
            term: name("the CPU time", &jobs, on()),
            jobs: jobs.clone(),
        });
        resources.push(Resource {
            kind: ResourceKind::Cores,
            capacity: throughput(hardware, &set, HardwareCpu::instructions_per_ns),
            term: name("the core cycles", &jobs, on()),
            jobs,
        });
    }
    let every_node = vec![true; hardware.nodes.len()];
    for set in distinct(all, every_node, |work| &work.nodes).into_iter().filter(|_| has_contention)
    {
        let jobs: Vec<&LeastWork> = all.iter().filter(|own| is_within(&own.nodes, &set)).collect();
        let nodes = (0..hardware.nodes.len()).zip(&set).filter(|(_, is_in)| **is_in);
        let ids: NodeSet = nodes.clone().filter_map(|(node, _)| hardware.nodes[node].id).collect();
        resources.push(Resource {
            kind: ResourceKind::Controllers,
            capacity: nodes.map(|(node, _)| hardware.memory(node).capacity).sum(),
            term: name("the memory traffic", &jobs, format!("nodes {ids}")),
            jobs,
        });
    }
    resources
}

/// Maximum number of restricted sets. More sets would take time, and only weaken the bound.
const N_SETS_MAX: usize = 64;

/// Returns the set of everything, and the distinct sets of the jobs.
fn distinct<'a>(
    all: &'a [LeastWork],
    everything: Vec<bool>,
    set: fn(&'a LeastWork) -> &'a Vec<bool>,
) -> Vec<Vec<bool>> {
    let own: BTreeSet<&Vec<bool>> =
        all.iter().map(set).filter(|set| **set != everything && set.contains(&true)).collect();
    let own: Vec<Vec<bool>> = own.into_iter().take(N_SETS_MAX).cloned().collect();
    std::iter::once(everything).chain(own).collect()
}

/// Returns the bound that follows from each job alone.
fn of_jobs(objective: Objective, all: &[LeastWork]) -> Option<LowerBound> {
    let slowdowns = || all.iter().filter_map(|work| Some(work.shortest / work.alone?));
    let value = match objective {
        Objective::Makespan => {
            let ends = all.iter().map(|work| work.start + work.shortest);
            ends.max_by(f64::total_cmp)
        }
        Objective::MaxSlowdown => slowdowns().max_by(f64::total_cmp),
        Objective::MeanSlowdown => crate::stats::mean_of(slowdowns()),
    };
    let term = match objective {
        Objective::Makespan => "the longest job",
        Objective::MeanSlowdown | Objective::MaxSlowdown => "each job alone",
    };
    value.map(|value| LowerBound { value, term: term.to_owned() })
}

impl Resource<'_> {
    /// Returns the bound of an objective over all jobs.
    fn bound(&self, objective: Objective, all: &[LeastWork], delay: f64) -> Option<f64> {
        match objective {
            Objective::Makespan => {
                self.ends().into_iter().map(|(end, _)| end).max_by(f64::total_cmp)
            }
            Objective::MaxSlowdown => self.max_slowdown(delay),
            Objective::MeanSlowdown => self.mean_slowdown(all, delay),
        }
    }

    fn service_ns(&self, work: &LeastWork) -> f64 {
        work.demands[self.kind as usize] / self.capacity
    }

    /// Returns the jobs, the latest start first, each with the earliest end of the last of the jobs up to it.
    fn ends(&self) -> Vec<(f64, &LeastWork)> {
        let mut sorted = self.jobs.clone();
        sorted.sort_by(|one, other| other.start.total_cmp(&one.start));
        let mut service = 0.0;
        let end = |work: &LeastWork| {
            service += self.service_ns(work);
            work.start + service
        };
        let ends: Vec<f64> = sorted.iter().copied().map(end).collect();
        ends.into_iter().zip(sorted).collect()
    }

    fn max_slowdown(&self, delay: f64) -> Option<f64> {
        let ends = self.ends();
        let least = |idx: usize| {
            let slowdown = |(_, work): &(f64, &LeastWork)| {
                Some((ends[idx].0 - work.start - delay) / work.alone?)
            };
            let all: Option<Vec<f64>> = ends[..=idx].iter().map(slowdown).collect();
            all?.into_iter().min_by(f64::total_cmp)
        };
        (0..ends.len()).filter_map(least).max_by(f64::total_cmp)
    }

    /// Serves the jobs of this resource in Smith's order. The other jobs run alone.
    fn mean_slowdown(&self, all: &[LeastWork], delay: f64) -> Option<f64> {
        let known = |work: &&LeastWork| work.alone.is_some();
        let alone = |work: &LeastWork| work.alone.unwrap_or(f64::INFINITY);
        let mut own: Vec<&LeastWork> = self.jobs.iter().copied().filter(known).collect();
        let first = own.iter().map(|work| work.start).min_by(f64::total_cmp)?;
        own.sort_by(|one, other| {
            // The demand divided by the weight 1 ÷ time alone.
            let key = |work: &LeastWork| self.service_ns(work) * alone(work);
            key(one).total_cmp(&key(other))
        });
        let mut end = first;
        let mut served = 0.0;
        for work in &own {
            end += self.service_ns(work);
            served += (end - work.start - delay) / alone(work);
        }
        let shortest = |work: &LeastWork| work.shortest / alone(work);
        let own_shortest: f64 = own.iter().copied().map(shortest).sum();
        let all_shortest: f64 = all.iter().filter(known).map(shortest).sum();
        let n = all.iter().filter(known).count() as f64;
        Some((all_shortest - own_shortest + served.max(own_shortest)) / n)
    }
}

#[cfg(test)]
mod tests {
    use base::{Rng, StopFlag};
    use engine::PageMigrationLimits;
    use host_sim::SimOptions;
    use host_sim::variation::Variation;
    use program::{Section, Sections, WorkPart};
    use sched::TierOverride;
    use topology::Machine;

    use super::super::simulate::tests::job;
    use super::super::{SimSetting, columns};
    use super::*;
    use crate::shipped;

    fn bench(machine: Machine, jobs: Vec<Job>, variation: Variation) -> SimBench {
        let options = SimOptions { variation, ..SimOptions::default() };
        let (limits, signals) = (PageMigrationLimits::default(), TierOverride::default());
        SimBench::new(SimSetting { machine, options, limits, signals }, vec![jobs])
            .expect("it runs")
    }

    /// Returns the value of an objective under a policy, its lower bound, and what the bound follows from.
    fn value_and_bound(bench: &SimBench, policy: &str, objective: Objective) -> (f64, f64, String) {
        let column = &columns([policy]).expect("it exists")[0];
        let run = (column, 0, 3);
        let metrics = bench.run(run, &StopFlag::default(), None).expect("it runs");
        let value = bench.value(objective, run, &metrics.expect("not stopped"));
        let bound = bench.lower_bound(objective, column.variant, (0, 3)).expect("a bound");
        (value, bound.value, bound.term)
    }

    /// Checks that `linux` is near the bound of each objective (by these factors), and what the bound follows from. The
    /// bound contains no cold caches.
    fn check(machine: &str, jobs: &[(&str, &str)], factors: [f64; 3], term: &str) {
        let machine = match shipped::machine(machine) {
            Ok(shipped) => shipped,
            Err(_) => Machine::synthetic(machine).expect("a machine"),
        };
        let job = |(idx, (profile, cpus)): (usize, &(&str, &str))| {
            let cpus = (!cpus.is_empty()).then(|| cpus.parse().expect("CPUs"));
            Job { cpus, ..job(idx as u32, profile) }
        };
        let jobs = jobs.iter().enumerate().map(job).collect();
        let bench = bench(machine, jobs, Variation::OFF);
        let objectives = [Objective::Makespan, Objective::MeanSlowdown, Objective::MaxSlowdown];
        for (objective, factor) in objectives.into_iter().zip(factors) {
            let (value, bound, found) = value_and_bound(&bench, "linux", objective);
            let near = (1.0..=factor).contains(&(value / bound));
            assert!(near, "{objective:?}: {value} is {} × the bound", value / bound);
            assert_eq!(found, term, "{objective:?}");
        }
    }

    #[test]
    fn two_equal_jobs_on_one_cpu_end_at_the_bound() {
        // Both jobs end at the end, so their mean slowdown is 2, and 1.5 one after the other.
        let jobs = [("povray@0.01", ""); 2];
        check("cores=1", &jobs, [1.02, 1.36, 1.02], "the CPU time of all jobs");
    }

    #[test]
    fn the_throughput_of_smt_siblings_is_that_of_their_core() {
        let jobs = [("povray@0.01", ""); 2];
        check("cores=1 smt=2", &jobs, [1.02, 1.36, 1.02], "the CPU time of all jobs");
    }

    #[test]
    fn jobs_that_saturate_the_memory_end_near_the_bound() {
        let jobs = [("libquantum@0.01", ""); 8];
        check("xeon-x5365-4x2", &jobs, [1.3, 2.0, 1.3], "the memory traffic of all jobs");
    }

    #[test]
    fn jobs_on_few_cpus_have_their_own_bound() {
        let jobs = [("povray@0.01", "0"), ("povray@0.01", "0"), ("povray@0.01", "")];
        check("cores=4", &jobs, [1.02, 1.36, 1.02], "the CPU time of the jobs on CPUs 0");
    }

    /// Returns a serial section before a team, or a pipeline, of two threads.
    fn sections(is_pipeline: bool) -> Sections {
        let part = |work| WorkPart { work, phase: None };
        let serial = Section::Team { threads: Some(1), part: part(1) };
        let team = Section::Team { threads: None, part: part(4) };
        let pipeline = Section::Pipeline { stages: vec![part(1), part(2)], items: 10, queue: 1 };
        let sections = if is_pipeline { vec![pipeline] } else { vec![serial, team] };
        Sections { rounds: 3, sections }
    }

    #[test]
    fn no_run_is_below_the_bound() {
        let machines =
            ["cores=1", "cores=2 smt=2", "nodes=2 cores=2", "nodes=2 llcs=2 cores=2 smt=2"];
        let names = ["povray@0.005", "lbm@0.005", "mcf@0.005", "libquantum@0.005", "gcc@0.01"];
        let policies = ["linux", "spread", "dfs", "oracle[runs=1]"];
        for seed in 0..24 {
            let mut rng = Rng::new(seed);
            let mut one_of = |n: usize| rng.below(n as u64) as usize;
            let machine = Machine::synthetic(machines[one_of(machines.len())]).expect("a machine");
            let n_jobs = 1 + one_of(7);
            let jobs = (0..n_jobs).map(|idx| Job {
                start: Nanos::from_millis(50 * one_of(8) as u64),
                threads: 1 + one_of(2) as u32,
                cpus: (one_of(4) == 0).then(|| "0".parse().expect("a set")),
                ..job(idx as u32, names[one_of(names.len())])
            });
            let mut jobs: Vec<Job> = jobs.collect();
            // In half of the sets, jobs with two threads have sections.
            for job in jobs.iter_mut().filter(|job| job.threads == 2 && seed % 2 == 0) {
                job.sections = Some(sections(seed % 4 == 0));
            }
            let bench = bench(machine, jobs, Variation::default());
            let policy = policies[one_of(policies.len())];
            for objective in [Objective::Makespan, Objective::MeanSlowdown, Objective::MaxSlowdown]
            {
                let (value, bound, term) = value_and_bound(&bench, policy, objective);
                assert!(
                    bound <= value,
                    "seed {seed}: {policy} {objective:?} {value} {bound}: {term}"
                );
            }
        }
    }
}
