//! Lower bound of the time of a set for every policy that gives tasks constant shares of the core kinds.
//!
//! ```text
//!   choice of a task = core kind, occupied part of the last-level cache ─► speed alone with both
//!
//!   speed of a task = Σ over choices of share × speed of the choice
//!   Σ over tasks of the shares of a kind             ≤ CPUs of the kind
//!   Σ over tasks and choices of share × occupancy    ≤ size of the caches
//! ```
//!
//! The speeds are those of each program alone: sharing of bandwidth, SMT siblings and migrations only lower them. The
//! occupancies of the tasks that run at the same moment never exceed the cache, so neither do their means over time. A
//! choice takes the speed at the upper end of a range of occupancies, and pays for the lower end. The bound is a value
//! of the Lagrangian dual problem, which is valid for any prices of CPUs and caches: a task with a budget of 1 buys at
//! most the speed per price of its best choice.
//!
//! The bound does not apply to a policy that completes short programs first. No policy of the paper does.
//! Shares that change during a run, as the kernel gives them to three tasks on two CPUs, can exceed it slightly.

use std::collections::BTreeSet;
use std::iter::zip;

use base::{Bytes, CpuSet, Nanos};
use topology::Machine;

use super::super::testbed::DeclaredClassBasis;
use super::super::{ReproduceError, Testbed};
use crate::compare::{MachineVariant, SimBench};

/// Steps of the search for prices. Each step is a valid bound; more steps make it tighter.
const N_STEPS: usize = 2000;
/// Ranges of occupancy of equal size, from an empty to a full cache.
const N_RANGES: u64 = 16;

/// A core kind with a range of occupancies.
#[derive(Debug)]
struct Choice {
    /// Use of each resource: CPUs of each kind, then caches.
    uses: Vec<f64>,
    /// Speed of each task alone.
    speeds: Vec<f64>,
}

impl Testbed {
    /// Returns the lower bound of the time of a set in seconds.
    pub(in crate::reproduce) fn least_set_s(&self, workload: &str) -> Result<f64, ReproduceError> {
        let kinds: Vec<CpuSet> = self.machine.core_kinds().iter().map(|kind| kind.cpus()).collect();
        let n_cpus = kinds.iter().map(|cpus| cpus.iter().count() as f64);
        let caches = caches(&self.machine, &kinds);
        let sizes: Vec<f64> = caches.iter().map(|(_, bytes)| *bytes).collect();
        let capacities: Vec<f64> = n_cpus.chain(sizes).collect();
        let mut choices = Vec::new();
        let mut lower_end = 0;
        for part in 1..=N_RANGES {
            let Some(testbed) = self.with_part_of_caches(part) else { continue };
            for (kind, cpus) in kinds.iter().enumerate() {
                let mut uses = vec![0.0; capacities.len()];
                uses[kind] = 1.0;
                if let Some(cache) = caches.iter().position(|(kinds, _)| kinds.contains(&kind)) {
                    let largest = llc_sizes(&self.machine, cpus).max().unwrap_or_default();
                    uses[kinds.len() + cache] = (largest * lower_end / N_RANGES) as f64;
                }
                choices.push(Choice { uses, speeds: testbed.speeds_alone(workload, cpus)? });
            }
            lower_end = part;
        }
        Ok(libm::exp(-log_speed_max(&choices, &capacities)))
    }

    /// Returns this testbed with a part of the last-level caches; `None` if they would be smaller than the caches of a core.
    fn with_part_of_caches(&self, part: u64) -> Option<Testbed> {
        let mut parts = self.machine.parts().clone();
        for size in parts.llcs.iter_mut().filter_map(|llc| llc.size.as_mut()) {
            size.0 = size.0 * part / N_RANGES;
        }
        let mut testbed = self.clone();
        testbed.machine = Machine::new(parts).ok()?;
        Some(testbed)
    }

    /// Returns the speed of each job of a workload alone on one of these CPUs, where its memory is local.
    fn speeds_alone(&self, workload: &str, cpus: &CpuSet) -> Result<Vec<f64>, ReproduceError> {
        let jobs = self.jobs(workload, DeclaredClassBasis::Rate)?;
        let alone_on = CpuSet::from_iter(cpus.iter().next());
        let on_cpu = |job: &program::Job| program::Job {
            cpus: Some(alone_on.clone()),
            start: Nanos::ZERO,
            ..job.clone()
        };
        let bench = SimBench::new(self.setting(), vec![jobs.iter().map(on_cpu).collect()])?;
        let alone = bench.alone(MachineVariant::default(), 0, 0).iter();
        let speed = |time: &Option<Nanos>| time.map(|time| 1.0 / time.as_secs_f64());
        alone.map(speed).collect::<Option<Vec<f64>>>().ok_or_else(|| ReproduceError::Failed {
            run: format!("{workload} alone"),
            cause: "a job of it does not exit".to_owned(),
        })
    }
}

/// Returns the sizes of the last-level caches of these CPUs in bytes.
fn llc_sizes<'m>(machine: &'m Machine, cpus: &'m CpuSet) -> impl Iterator<Item = u64> + use<'m> {
    let shared = machine.llcs().iter().filter(|llc| llc.cpus.iter().any(|cpu| cpus.contains(cpu)));
    shared.filter_map(|llc| llc.size).map(|Bytes(bytes)| bytes)
}

/// Returns the caches as resources, each with its core kinds and its size in bytes: one for each kind, or one for all if
/// kinds share a cache.
fn caches(machine: &Machine, kinds: &[CpuSet]) -> Vec<(BTreeSet<usize>, f64)> {
    let sum = |cpus: &CpuSet| llc_sizes(machine, cpus).sum::<u64>() as f64;
    let all: CpuSet = kinds.iter().flat_map(CpuSet::iter).collect();
    let is_divided = kinds.iter().map(sum).sum::<f64>() <= sum(&all);
    match is_divided {
        true => kinds
            .iter()
            .enumerate()
            .map(|(kind, cpus)| (BTreeSet::from([kind]), sum(cpus)))
            .collect(),
        false => vec![((0..kinds.len()).collect(), sum(&all))],
    }
}

/// Returns an upper bound of the mean logarithm of the speeds of all tasks. `capacities` has the total of each resource.
fn log_speed_max(choices: &[Choice], capacities: &[f64]) -> f64 {
    let n_tasks = choices[0].speeds.len();
    let mut bids = vec![vec![1.0 / choices.len() as f64; n_tasks]; choices.len()];
    let total: f64 = capacities.iter().filter(|capacity| 0.0 < **capacity).count() as f64;
    let mut prices: Vec<f64> = capacities
        .iter()
        .map(|capacity| if 0.0 < *capacity { n_tasks as f64 / total / capacity } else { 0.0 })
        .collect();
    let mut least = f64::INFINITY;
    for _ in 0..N_STEPS {
        let cost = |choice: &Choice| {
            zip(&choice.uses, &prices).map(|(use_, price)| use_ * price).sum::<f64>()
        };
        let costs: Vec<f64> = choices.iter().map(cost).collect();
        let of_task = |task: usize| {
            let per_price = zip(choices, &costs).map(|(choice, cost)| choice.speeds[task] / cost);
            libm::log(per_price.fold(0.0, f64::max))
        };
        least = least.min((0..n_tasks).map(of_task).sum::<f64>() / n_tasks as f64);
        // Proportional response: the next bids are proportional to the speed that each choice gave, and a price changes
        // with the demand. The value of all resources stays the number of tasks, so the budget term of the dual problem
        // is zero.
        let mut next = vec![0.0; prices.len()];
        for ((choice, cost), bids) in zip(choices, &costs).zip(&bids) {
            let shares = bids.iter().sum::<f64>() / cost;
            zip(&mut next, &choice.uses).for_each(|(demand, use_)| *demand += shares * use_);
        }
        for task in 0..n_tasks {
            let gained: Vec<f64> = zip(choices, &costs)
                .zip(&bids)
                .map(|((choice, cost), bids)| choice.speeds[task] * bids[task] / cost)
                .collect();
            let sum: f64 = gained.iter().sum();
            zip(&mut bids, gained).for_each(|(bids, gained)| bids[task] = gained / sum);
        }
        for ((price, demand), capacity) in zip(&mut prices, next).zip(capacities) {
            *price *= if 0.0 < *capacity { demand / capacity } else { 0.0 };
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the largest mean speed of tasks on kinds with these numbers of CPUs, without caches.
    fn on_kinds(speeds: &[Vec<f64>], n_cpus: &[f64]) -> f64 {
        let choice = |(kind, speeds): (usize, &Vec<f64>)| {
            let uses = (0..n_cpus.len()).map(|other| f64::from(u8::from(other == kind))).collect();
            Choice { uses, speeds: speeds.clone() }
        };
        let choices: Vec<Choice> = speeds.iter().enumerate().map(choice).collect();
        libm::exp(log_speed_max(&choices, n_cpus))
    }

    #[test]
    fn a_set_has_a_bound_on_every_platform_below_that_with_the_whole_cache() {
        for platform in &super::super::PLATFORMS {
            let testbed = Testbed::parse(&format!("{} scale=0.01", platform.machine));
            let testbed = testbed.expect("a testbed");
            let least_s = testbed.least_set_s("hd1").expect("it runs");
            let kinds = testbed.machine.core_kinds();
            let alone = testbed.speeds_alone("hd1", &kinds[0].cpus()).expect("it runs");
            // Eight tasks on four cores: more than twice the mean time alone on a fast core.
            let logs: Vec<f64> = alone.iter().map(|speed| -libm::log(*speed)).collect();
            let alone_s = libm::exp(logs.iter().sum::<f64>() / logs.len() as f64);
            assert!((2.0 * alone_s..6.0 * alone_s).contains(&least_s), "{least_s} {alone_s}");
        }
    }

    #[test]
    fn equal_tasks_share_all_kinds_equally() {
        // Two fast CPUs with speed 2 and two slow ones with speed 1 give 6 to eight tasks.
        let found = on_kinds(&[vec![2.0; 8], vec![1.0; 8]], &[2.0, 2.0]);
        assert!((found - 0.75).abs() < 1e-6, "{found}");
    }

    #[test]
    fn tasks_that_gain_nothing_on_fast_cores_leave_them_to_the_others() {
        let fast = [vec![2.0; 4], vec![1.0; 4]].concat();
        let found = on_kinds(&[fast, vec![1.0; 8]], &[2.0, 2.0]);
        // Half of the tasks at 2 × 2 / 4 = 1, half at 1 × 2 / 4.
        let expected = libm::sqrt(1.0 * 0.5);
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }

    #[test]
    fn tasks_share_the_cache_that_runs_with_them() {
        // Two tasks on two CPUs: speed 2 with the whole cache of size 1, else speed 1.
        let choices = [(0.0, 1.0), (1.0, 2.0)]
            .map(|(cache, speed)| Choice { uses: vec![1.0, cache], speeds: vec![speed; 2] });
        let found = libm::exp(log_speed_max(&choices, &[2.0, 1.0]));
        assert!((found - 1.5).abs() < 1e-3, "{found}");
    }

    #[test]
    fn a_cache_larger_than_all_needs_changes_nothing() {
        let choices = [(0.0, 1.0), (1.0, 2.0)]
            .map(|(cache, speed)| Choice { uses: vec![1.0, cache], speeds: vec![speed; 2] });
        let found = libm::exp(log_speed_max(&choices, &[2.0, 100.0]));
        assert!((found - 2.0).abs() < 1e-3, "{found}");
    }
}
