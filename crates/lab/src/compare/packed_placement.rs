//! A candidate of the oracle: memory-hungry jobs share few CPUs while together they saturate a memory controller.
//!
//! ```text
//!   a domain of eight CPUs     [ memory-hungry jobs │ the other jobs     ]   while the controller is saturated
//!                                0  1                 2  3  4  5  6  7
//! ```
//!
//! At saturation, more memory-hungry jobs at a time do not transfer more bytes, but they occupy the shared cache and
//! increase the latency of all. If they share few CPUs, the other jobs keep their cache. While the controller
//! is not saturated, all jobs of the domain use all of its CPUs.
//!
//! A job is memory-hungry if its bandwidth alone is above the share of one CPU in the bandwidth of its node.

use std::sync::Arc;

use base::{CpuId, CpuSet};
use host_sim::hardware::Hardware;
use host_sim::script::Script;
use sched::{Action, Cause, JobState, JobView, Plan, Policy, Reason, ReasonCode, Snapshot};

use super::lower_bound::bandwidth;
use crate::oracle::NAME;

/// The policy for the jobs of one workload.
#[derive(Debug)]
pub(super) struct PackedPlacement {
    /// Domain of each job; `None`: the job is not placed.
    domain_of_job: Vec<Option<usize>>,
    /// Number of CPUs of a domain for its memory-hungry jobs.
    n_cpus: usize,
    /// The reason of every placement.
    reason: Reason,
    domains: Arc<PackedDomains>,
    /// CPUs of each job in the last plan.
    placed: Vec<Option<CpuSet>>,
}

/// The domains of a machine, and the memory-hungry jobs of a workload.
#[derive(Debug)]
pub(super) struct PackedDomains {
    /// CPUs of each domain, core by core.
    cpus: Vec<Vec<CpuId>>,
    /// Node of each domain.
    nodes: Vec<usize>,
    /// Bandwidth of each node in bytes per nanosecond.
    capacities: Vec<f64>,
    /// Bandwidth of each memory-hungry job alone in bytes per nanosecond; `None` for other jobs.
    hungry: Vec<Option<f64>>,
}

impl PackedDomains {
    /// Without several domains, the machine is one domain.
    pub fn new(hardware: &Hardware, domains: &[CpuSet], scripts: &[Arc<Script>]) -> Self {
        let all: CpuSet = hardware.cpus.iter().map(|cpu| cpu.id).collect();
        let whole = [all];
        let domains = if domains.is_empty() { &whole[..] } else { domains };
        let core_by_core = |cpus: &CpuSet| {
            let in_order = hardware.cores.iter().flatten().map(|&cpu| hardware.cpus[cpu].id);
            in_order.filter(|cpu| cpus.contains(*cpu)).collect()
        };
        let cpus: Vec<Vec<CpuId>> = domains.iter().map(core_by_core).collect();
        let node_of = |cpus: &Vec<CpuId>| {
            let first = cpus.first().and_then(|cpu| hardware.cpu_index(*cpu));
            first.map_or(0, |cpu| hardware.cpus[cpu].node)
        };
        let capacities: Vec<f64> =
            (0..hardware.nodes.len()).map(|node| hardware.memory(node).capacity).collect();
        let share = capacities.iter().sum::<f64>() / hardware.cpus.len().max(1) as f64;
        let hungry = |script: &Arc<Script>| {
            Some(bandwidth(script, hardware))
                .filter(|bandwidth| share * f64::from(script.n_threads) < *bandwidth)
        };
        PackedDomains {
            nodes: cpus.iter().map(node_of).collect(),
            cpus,
            capacities,
            hungry: scripts.iter().map(hungry).collect(),
        }
    }

    /// Returns the numbers of CPUs for memory-hungry jobs that are candidates: powers of two below the number of these
    /// jobs and of the CPUs of a domain. Empty if these jobs cannot saturate the machine's memory.
    pub fn candidates(&self) -> Vec<usize> {
        let total: f64 = self.hungry.iter().flatten().sum();
        let least = self.capacities.iter().copied().fold(f64::INFINITY, f64::min);
        let n_hungry = self.hungry.iter().flatten().count();
        let n_cpus = self.cpus.iter().map(Vec::len).max().unwrap_or(0).min(n_hungry);
        let powers = std::iter::successors(Some(1), |n| Some(2 * n));
        powers.take_while(|n| *n < n_cpus && least < total).collect()
    }

    /// Returns whether the memory-hungry jobs of these jobs saturate each node.
    fn saturated(&self, jobs: &[(usize, usize)]) -> Vec<bool> {
        let mut used = vec![0.0; self.capacities.len()];
        for &(job, domain) in jobs {
            used[self.nodes[domain]] += self.hungry[job].unwrap_or(0.0);
        }
        used.iter().zip(&self.capacities).map(|(used, capacity)| capacity < used).collect()
    }
}

impl PackedPlacement {
    /// Creates the policy. `domain_of_job` assigns each job to a domain.
    pub fn new(
        domains: Arc<PackedDomains>,
        domain_of_job: Vec<Option<usize>>,
        n_cpus: usize,
        reason: Reason,
    ) -> Self {
        let placed = vec![None; domain_of_job.len()];
        PackedPlacement { domain_of_job, n_cpus, reason, domains, placed }
    }

    /// Returns the CPUs of a job in its domain.
    fn cpus_of(&self, job: &JobView<'_>, domain: usize, is_saturated: bool) -> CpuSet {
        let cpus = &self.domains.cpus[domain];
        let (few, others) = cpus.split_at(self.n_cpus.min(cpus.len()));
        let part = match (is_saturated, self.domains.hungry[job.job.id.index()]) {
            (false, _) => &cpus[..],
            (true, Some(_)) => few,
            (true, None) => others,
        };
        let part = part.iter().copied().filter(|cpu| job.allowed.contains(*cpu));
        part.collect()
    }
}

impl Policy for PackedPlacement {
    fn decide(&mut self, snapshot: &Snapshot<'_>, plan: &mut Plan) {
        plan.quiescent = true;
        let decisive = [Cause::JobsDue, Cause::Ended, Cause::CpusChanged];
        if !snapshot.turn.causes.iter().any(|cause| decisive.contains(cause)) {
            return;
        }
        let present = snapshot.jobs.iter().filter(|job| job.movable);
        let present: Vec<&JobView<'_>> = present.collect();
        let domain_of = |job: &JobView<'_>| self.domain_of_job[job.job.id.index()];
        let placed: Vec<(usize, usize)> = (present.iter())
            .filter_map(|job| Some((job.job.id.index(), domain_of(job)?)))
            .collect();
        let saturated = self.domains.saturated(&placed);
        for job in present {
            let Some(domain) = domain_of(job) else { continue };
            let cpus = self.cpus_of(job, domain, saturated[self.domains.nodes[domain]]);
            let idx = job.job.id.index();
            // A restarted job is placed again.
            let is_placed =
                job.state == JobState::Running && self.placed[idx].as_ref() == Some(&cpus);
            if !is_placed && !cpus.is_empty() {
                plan.request(job.job.id, Action::Place(cpus.clone()), self.reason.clone());
                self.placed[idx] = Some(cpus);
            }
        }
    }

    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> Vec<ReasonCode> {
        crate::oracle::REASONS.to_vec()
    }

    fn interval(&self) -> Option<base::Nanos> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use base::StopFlag;
    use engine::{PageMigrationLimits, Sink, TurnRecord};
    use host_sim::SimOptions;
    use sched::{Target, TierOverride};

    use super::super::simulate::tests::job;
    use super::super::{SimBench, SimSetting, columns};
    use super::*;
    use crate::oracle::ORACLE_CHOSE;
    use crate::shipped;

    /// Placements of jobs as text.
    #[derive(Default)]
    struct Placements(Vec<String>);

    impl Sink for Placements {
        fn record(&mut self, record: &TurnRecord<'_>) -> io::Result<()> {
            for outcome in record.outcomes {
                if let (Target::Job(job), Some(Action::Place(cpus))) =
                    (outcome.target, &outcome.action)
                {
                    self.0.push(format!("{} {cpus}", job.index()));
                }
            }
            Ok(())
        }
    }

    /// Returns the candidates for a workload on a machine with four CPUs and one channel, and the placements with one CPU
    /// for memory-hungry jobs.
    fn packed(profiles: &[&str]) -> (Vec<usize>, Vec<String>) {
        let jobs = (0..).zip(profiles).map(|(idx, profile)| job(idx, profile)).collect();
        let setting = SimSetting {
            machine: shipped::machine("corun-quad").expect("it ships"),
            options: SimOptions::default(),
            limits: PageMigrationLimits::default(),
            signals: TierOverride::default(),
        };
        let bench = SimBench::new(setting, vec![jobs]).expect("it can run");
        let scripts = bench.workloads()[0].scripts();
        let domains = Arc::new(PackedDomains::new(bench.hardware(), &[], scripts));
        let candidates = domains.candidates();
        let reason = Reason::new(ORACLE_CHOSE);
        let policy = PackedPlacement::new(domains, vec![Some(0); profiles.len()], 1, reason);
        let (mut placements, stop) = (Placements::default(), StopFlag::default());
        let column = &columns(["oracle"]).expect("it exists")[0];
        bench
            .run_policy(Box::new(policy), (column, 0, 1), &stop, Some(&mut placements))
            .expect("it runs");
        (candidates, placements.0)
    }

    #[test]
    fn memory_hungry_jobs_share_one_cpu_while_they_saturate_the_memory() {
        let hogs = ["libquantum@0.001"; 3];
        let (candidates, placements) = packed(&[&hogs[..], &["povray@0.1"]].concat());
        assert_eq!(candidates, [1, 2]);
        let n_packed = placements.iter().filter(|placed| placed.ends_with(" 0")).count();
        assert!((2..=3).contains(&n_packed), "{placements:?}");
        assert!(placements.contains(&"3 1-3".to_owned()), "{placements:?}");
        // After the memory-hungry jobs, the other job uses all CPUs again.
        assert_eq!(placements.last().map(String::as_str), Some("3 0-3"));
    }

    #[test]
    fn jobs_without_memory_traffic_use_all_cpus() {
        let (candidates, placements) = packed(&["povray@0.01"; 6]);
        assert_eq!(candidates, [0; 0]);
        assert!(placements.iter().all(|placed| placed.ends_with(" 0-3")), "{placements:?}");
    }
}
