//! The runs of a comparison by policy and workload.

use std::collections::BTreeMap;

use crate::compare::{Completion, Key, Plan, RunMetrics};
use crate::stats::mean;

/// All finished runs.
pub(super) struct Cells<'a> {
    pub plan: &'a Plan,
    by_key: BTreeMap<Key, (usize, &'a RunMetrics)>,
}

/// Makespans of a policy and of the baseline on the seeds that both finished, in nanoseconds.
pub(super) struct Pairs(Vec<(f64, f64)>);

impl<'a> Cells<'a> {
    pub fn new(plan: &'a Plan, done: &'a BTreeMap<usize, RunMetrics>) -> Self {
        let keyed = done.iter().map(|(number, metrics)| (plan.key(*number), (*number, metrics)));
        Cells { plan, by_key: keyed.collect() }
    }

    /// Every run with its number, in order.
    pub fn all(&self) -> impl Iterator<Item = (Key, usize, &'a RunMetrics)> {
        self.by_key.iter().map(|(key, (number, metrics))| (*key, *number, *metrics))
    }

    /// The run with this key, with any status.
    pub fn at(&self, key: Key) -> Option<(usize, &'a RunMetrics)> {
        self.by_key.get(&key).copied()
    }

    /// Finished runs of a policy on a workload, with the indexes of their seeds.
    pub fn of(&self, column: usize, workload: usize) -> Vec<(usize, &'a RunMetrics)> {
        let finished = |seed| {
            let (_, metrics) = self.at(Key { seed, workload, column })?;
            (metrics.status == Completion::Finished).then_some((seed, metrics))
        };
        (0..self.plan.seeds.len()).filter_map(finished).collect()
    }

    /// Number of failed and stopped runs.
    pub fn n_left_out(&self, column: usize, workload: usize) -> usize {
        let seeds = 0..self.plan.seeds.len();
        let n_done =
            seeds.filter(|&seed| self.at(Key { seed, workload, column }).is_some()).count();
        n_done - self.of(column, workload).len()
    }

    /// The pairs of a policy with another on a workload.
    pub fn pairs(&self, column: usize, other: usize, workload: usize) -> Pairs {
        let others: BTreeMap<usize, &RunMetrics> = self.of(other, workload).into_iter().collect();
        let mine = self.of(column, workload).into_iter();
        let both = mine.filter_map(|(seed, its)| Some((its.makespan, others.get(&seed)?.makespan)));
        Pairs(both.map(|(one, other)| (one.0 as f64, other.0 as f64)).collect())
    }

    /// The pairs of a policy with the baseline on each workload, of the seeds that have all of them.
    pub fn in_all(&self, column: usize) -> Vec<Pairs> {
        let time = |seed, workload, column| {
            let (_, metrics) = self.at(Key { seed, workload, column })?;
            (metrics.status == Completion::Finished).then_some(metrics.makespan.0 as f64)
        };
        let workloads = 0..self.plan.workloads.len();
        let of_seed = |seed| -> Option<Vec<(f64, f64)>> {
            let pair = |workload| {
                Some((time(seed, workload, column)?, time(seed, workload, self.plan.baseline)?))
            };
            workloads.clone().map(pair).collect()
        };
        let seeds: Vec<Vec<(f64, f64)>> = (0..self.plan.seeds.len()).filter_map(of_seed).collect();
        workloads.clone().map(|nr| Pairs(seeds.iter().map(|seed| seed[nr]).collect())).collect()
    }
}

impl Pairs {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Negative if the policy took less time.
    pub fn log_ratio(&self, idx: usize) -> f64 {
        let (one, other) = self.0[idx];
        libm::log(one / other)
    }

    pub fn log_ratios(&self) -> Vec<f64> {
        (0..self.len()).map(|idx| self.log_ratio(idx)).collect()
    }

    /// The ratio of the mean times of some pairs.
    pub fn ratio_of_means(&self, places: &[usize]) -> f64 {
        let of = |which: fn(&(f64, f64)) -> f64| {
            mean(&places.iter().map(|place| which(&self.0[*place])).collect::<Vec<_>>())
        };
        of(|pair| pair.0) / of(|pair| pair.1)
    }
}
