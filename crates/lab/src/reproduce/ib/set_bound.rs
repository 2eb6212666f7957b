//! Lower bound of the time of a set for every policy that gives tasks constant shares of the core kinds.
//!
//! ```text
//!   speed of a task = Σ over kinds of share × speed alone on the kind
//!   Σ over tasks of the shares of a kind ≤ CPUs of the kind
//! ```
//!
//! The speeds are those of each program alone, with the whole cache, on the kind: sharing of caches and bandwidth, and
//! migrations, only lower them. The bound is a value of the dual problem, which is valid for any prices of the kinds: a
//! task with a budget of 1 buys at most the speed per price of its best kind.
//!
//! The bound does not apply to a policy that completes short programs first. No policy of the paper does.
//! Shares that change during a run, as the kernel gives them to three tasks on two CPUs, can exceed it slightly.

use std::iter::zip;

use base::{CpuSet, Nanos};

use super::super::testbed::DeclaredClassBasis;
use super::super::{ReproduceError, Testbed};
use crate::compare::{MachineVariant, SimBench};

/// Steps of the search for prices. Each step is a valid bound; more steps make it tighter.
const N_STEPS: usize = 500;

impl Testbed {
    /// Returns the lower bound of the time of a set in seconds.
    pub(in crate::reproduce) fn least_set_s(&self, workload: &str) -> Result<f64, ReproduceError> {
        let jobs = self.jobs(workload, DeclaredClassBasis::Rate)?;
        let (mut speeds, mut n_cpus) = (Vec::new(), Vec::new());
        for kind in self.machine.core_kinds() {
            let cpus = kind.cpus();
            // On one CPU, so that memory is always local.
            let alone_on = CpuSet::from_iter(cpus.iter().next());
            let on_kind = |job: &program::Job| program::Job {
                cpus: Some(alone_on.clone()),
                start: Nanos::ZERO,
                ..job.clone()
            };
            let bench = SimBench::new(self.setting(), vec![jobs.iter().map(on_kind).collect()])?;
            let alone = bench.alone(MachineVariant::default(), 0, 0).iter();
            let speed = |time: &Option<Nanos>| time.map(|time| 1.0 / time.as_secs_f64());
            speeds.push(alone.map(speed).collect::<Option<Vec<f64>>>().ok_or_else(|| {
                ReproduceError::Failed {
                    run: format!("{workload} alone"),
                    cause: "a job of it does not exit".to_owned(),
                }
            })?);
            n_cpus.push(cpus.iter().count() as f64);
        }
        Ok(libm::exp(-log_speed_max(&speeds, &n_cpus)))
    }
}

/// Returns an upper bound of the mean logarithm of the speeds of all tasks. `speeds` has the speed of each task alone,
/// by kind.
fn log_speed_max(speeds: &[Vec<f64>], n_cpus: &[f64]) -> f64 {
    let n_tasks = speeds[0].len();
    let mut bids = vec![vec![1.0 / n_cpus.len() as f64; n_tasks]; n_cpus.len()];
    let mut least = f64::INFINITY;
    for _ in 0..N_STEPS {
        let prices: Vec<f64> =
            zip(&bids, n_cpus).map(|(bids, n)| bids.iter().sum::<f64>() / n).collect();
        let of_task = |task: usize| {
            let per_price = zip(speeds, &prices).map(|(speeds, price)| speeds[task] / price);
            libm::log(per_price.fold(0.0, f64::max))
        };
        least = least.min((0..n_tasks).map(of_task).sum::<f64>() / n_tasks as f64);
        // Proportional response: the next bids are proportional to the speed that each kind gave. The sum of all bids
        // stays the number of tasks, so the budget term of the dual problem is zero.
        for task in 0..n_tasks {
            let gained: Vec<f64> = (0..n_cpus.len())
                .map(|kind| speeds[kind][task] * bids[kind][task] / prices[kind])
                .collect();
            let sum: f64 = gained.iter().sum();
            zip(&mut bids, gained).for_each(|(bids, gained)| bids[task] = gained / sum);
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_tasks_share_all_kinds_equally() {
        // Two fast CPUs with speed 2 and two slow ones with speed 1 give 6 to eight tasks.
        let found = libm::exp(log_speed_max(&[vec![2.0; 8], vec![1.0; 8]], &[2.0, 2.0]));
        assert!((found - 0.75).abs() < 1e-6, "{found}");
    }

    #[test]
    fn tasks_that_gain_nothing_on_fast_cores_leave_them_to_the_others() {
        let fast = [vec![2.0; 4], vec![1.0; 4]].concat();
        let found = libm::exp(log_speed_max(&[fast, vec![1.0; 8]], &[2.0, 2.0]));
        // Half of the tasks at 2 × 2 / 4 = 1, half at 1 × 2 / 4.
        let expected = libm::sqrt(1.0 * 0.5);
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}
