//! Operations of decisions, and migrations between core kinds.
//!
//! A simulated run charges no time for decisions: `cargo xtask bench decisions` measures it. The operations are counted
//! from what a policy reads and requests, because policies do not count them:
//!
//! ```text
//!   every interval     one counter read and one comparison per task of the snapshot
//!   every request      one pass over the queues: a step per task
//!   every placement    one move: sched_setaffinity(2)
//! ```
//!
//! A policy that reads no counters has no counter reads. The time of sampling rounds, in which jobs are bound for a
//! measurement, is a separate value: tasks make progress in it.

use std::collections::BTreeMap;

use base::{CpuId, CpuSet, JobId};
use engine::TurnRecord;
use sched::{Action, Cause, JobEvent, OutcomeResult, Target};
use topology::Machine;

/// Operations of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    /// CPU time of all jobs, in seconds.
    cpu_s: f64,
    n_reads: u64,
    n_steps: u64,
    /// Placements of running jobs on another core kind.
    n_kind_moves: u64,
    /// Placements of running jobs on another node.
    n_node_moves: u64,
    /// CPU time in sampling rounds, in seconds.
    sampling_s: f64,
}

impl Operations {
    /// Returns the share of the sampling rounds in the CPU time, in %.
    pub fn sampling_percent(&self) -> f64 {
        self.share(self.sampling_s) * 100.0
    }

    /// Returns the migrations between core kinds per minute of CPU time.
    pub fn kind_moves_per_min(&self) -> f64 {
        self.share(self.n_kind_moves as f64) * 60.0
    }

    /// Returns the migrations between nodes per minute of CPU time.
    pub fn node_moves_per_min(&self) -> f64 {
        self.share(self.n_node_moves as f64) * 60.0
    }

    /// Returns the counter reads per minute of CPU time.
    pub fn reads_per_min(&self, reads_counters: bool) -> f64 {
        if reads_counters { self.share(self.n_reads as f64) * 60.0 } else { 0.0 }
    }

    /// Returns the steps of queues and comparisons per minute of CPU time.
    pub fn steps_per_min(&self) -> f64 {
        self.share(self.n_steps as f64) * 60.0
    }

    fn share(&self, value: f64) -> f64 {
        if self.cpu_s == 0.0 { 0.0 } else { value / self.cpu_s }
    }
}

/// Counts the operations of a run.
pub(super) struct OperationCounter {
    pub operations: Operations,
    kind_of_cpu: BTreeMap<CpuId, usize>,
    node_of_cpu: BTreeMap<CpuId, usize>,
    /// Core kind and node of each running job with a placement; `None` for several.
    places: BTreeMap<JobId, (Option<usize>, Option<usize>)>,
    is_sampling: bool,
}

impl OperationCounter {
    pub fn new(machine: &Machine) -> Self {
        let kinds = machine.core_kinds();
        let cpus = kinds.iter().enumerate().flat_map(|(idx, kind)| {
            kind.cpus().iter().map(|cpu| (cpu, idx)).collect::<Vec<(CpuId, usize)>>()
        });
        let nodes = machine.nodes().iter().enumerate();
        let node_of_cpu = nodes.flat_map(|(idx, node)| node.cpus.iter().map(move |cpu| (cpu, idx)));
        OperationCounter {
            operations: Operations::default(),
            kind_of_cpu: cpus.collect(),
            node_of_cpu: node_of_cpu.collect(),
            places: BTreeMap::new(),
            is_sampling: false,
        }
    }

    pub fn record(&mut self, record: &TurnRecord<'_>) {
        let n_tasks = record.tasks.len() as u64;
        let operations = &mut self.operations;
        if record.turn.causes.contains(&Cause::Interval) {
            operations.n_reads += n_tasks;
            operations.n_steps += n_tasks;
            if self.is_sampling {
                let cpu_time = record.tasks.iter().map(|task| task.cpu_time.as_secs_f64());
                operations.sampling_s += cpu_time.sum::<f64>();
            }
        }
        operations.n_steps += record.plan.requests.len() as u64 * n_tasks;
        for event in &record.sample.jobs {
            if let JobEvent::Ended(job, exit) = event {
                operations.cpu_s += (exit.user + exit.system).as_secs_f64();
                self.places.remove(job);
            }
        }
        for request in &record.plan.requests {
            match request.reason.code.name() {
                "sampled" | "sampled-beside" => self.is_sampling = true,
                "samples-compared" => self.is_sampling = false,
                _ => {}
            }
        }
        for outcome in record.outcomes {
            let (Target::Job(job), Some(Action::Place(cpus)), OutcomeResult::Done { .. }) =
                (outcome.target, &outcome.action, &outcome.result)
            else {
                continue;
            };
            self.count_move(job, cpus);
        }
    }

    fn count_move(&mut self, job: JobId, cpus: &CpuSet) {
        let place = (only(&self.kind_of_cpu, cpus), only(&self.node_of_cpu, cpus));
        let Some(before) = self.places.insert(job, place) else { return };
        let differ = |one: Option<usize>, other: Option<usize>| {
            one.zip(other).is_some_and(|(one, other)| one != other)
        };
        self.operations.n_kind_moves += u64::from(differ(before.0, place.0));
        self.operations.n_node_moves += u64::from(differ(before.1, place.1));
    }
}

/// Returns the kind or node of all these CPUs; `None` if they have several.
fn only(of_cpu: &BTreeMap<CpuId, usize>, cpus: &CpuSet) -> Option<usize> {
    let mut all = cpus.iter().map(|cpu| of_cpu.get(&cpu).copied());
    let first = all.next()??;
    all.all(|one| one == Some(first)).then_some(first)
}

/// Returns whether the decisions of a policy are based on counters of tasks.
pub fn reads_counters(policy: &str) -> bool {
    let name = policy.split(['[', '@']).next().unwrap_or_default();
    let counted =
        [policy::Signal::Instructions, policy::Signal::LlcMisses, policy::Signal::LlcReferences];
    policy::find(name)
        .is_ok_and(|info| info.signals.iter().any(|one| counted.contains(&one.signal)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;

    #[test]
    fn only_a_placement_of_a_running_job_on_another_kind_is_a_migration_between_kinds() {
        let machine = shipped::machine("opteron-2384-numa1").expect("it ships");
        let [fast, slow] = [0, 1].map(|kind: usize| machine.core_kinds()[kind].cpus());
        let mut counter = OperationCounter::new(&machine);
        for cpus in [&fast, &fast, &slow, &fast.or(&slow), &slow] {
            counter.count_move(JobId(0), cpus);
        }
        let cpus: Vec<CpuId> = fast.iter().collect();
        for cpu in [cpus[0], cpus[1]] {
            counter.count_move(JobId(1), &CpuSet::from_iter([cpu]));
        }
        let found = &counter.operations;
        assert_eq!((found.n_kind_moves, found.n_node_moves), (1, 1));
    }

    #[test]
    fn shares_are_relative_to_the_cpu_time() {
        let operations = Operations {
            cpu_s: 30.0,
            n_reads: 150,
            n_kind_moves: 1,
            sampling_s: 3.0,
            ..Operations::default()
        };
        assert_eq!(operations.kind_moves_per_min(), 2.0);
        assert_eq!(operations.sampling_percent(), 10.0);
        assert_eq!([true, false].map(|reads| operations.reads_per_min(reads)), [300.0, 0.0]);
    }
}
