//! Runs of a policy, paired by seed with the runs of the baseline.
//!
//! ```text
//!   policy     baseline    difference of the logarithms    ratio
//!   finished   finished    log(policy / baseline)          yes
//!   failed     finished    +inf: slower                    no
//!   finished   failed      -inf: faster                    no
//!   failed     failed      0: no difference                no
//! ```
//!
//! A run that failed or reached the time limit has no makespan. Without such runs a policy that fails on slow seeds
//! would be faster than a policy that finishes, so they are in the test, and the ratio is absent.
//!
//! If all pairs are identical, the seeds do not vary the result. The pairs are then copies of one observation, from
//! which neither an interval nor a p-value can be computed.

use std::cmp::Ordering;

use report::comparison::unfinished_phrase;

use crate::compare::{Completion, RunMetrics};
use crate::stats::{ConfidenceInterval, PairedVerdict, interval, mean, signed_rank};

/// Makespan of a run in nanoseconds, or the status of a run that did not finish.
type Makespan = Result<f64, Completion>;

/// Makespans of a policy and of the baseline with one seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunPair {
    own: Makespan,
    base: Makespan,
    /// Whether both runs finished with equal metrics.
    is_same: bool,
}

/// The pairs of each seed, with one pair for each workload.
#[derive(Clone, Debug)]
pub(super) struct PairedRuns(Vec<Vec<RunPair>>);

impl RunPair {
    pub fn new(own: &RunMetrics, base: &RunMetrics) -> Self {
        let time = |run: &RunMetrics| Ok(run.makespan().ok_or(run.status)?.0 as f64);
        // The search of the oracle is not a metric of the run itself.
        let without_search = |run: &RunMetrics| RunMetrics { oracle: None, ..run.clone() };
        let is_same =
            own.status == Completion::Finished && without_search(own) == without_search(base);
        RunPair { own: time(own), base: time(base), is_same }
    }

    fn is_finished(&self) -> bool {
        self.own.is_ok() && self.base.is_ok()
    }
}

impl PairedRuns {
    pub fn new(by_seed: Vec<Vec<RunPair>>) -> Self {
        PairedRuns(by_seed)
    }

    /// Creates the pairs of one workload.
    pub fn of_workload(pairs: impl IntoIterator<Item = RunPair>) -> Self {
        PairedRuns(pairs.into_iter().map(|pair| vec![pair]).collect())
    }

    pub fn n_seeds(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of seeds with a finished run. Two runs that did not finish are no difference.
    pub fn n_tested(&self) -> usize {
        let has_makespan =
            |pairs: &&Vec<RunPair>| pairs.iter().any(|pair| pair.own.or(pair.base).is_ok());
        self.0.iter().filter(has_makespan).count()
    }

    /// Returns whether each run of the policy equals the run of the baseline with this seed.
    pub fn is_same_as_baseline(&self) -> bool {
        !self.0.is_empty() && self.0.iter().flatten().all(|pair| pair.is_same)
    }

    /// Returns whether several seeds have the same makespans.
    pub fn is_identical(&self) -> bool {
        0 < self.n_tested()
            && 1 < self.0.len()
            && self.0.windows(2).all(|seeds| seeds[0] == seeds[1])
    }

    /// Returns the runs of one side that did not finish, as a phrase; `None` if all finished.
    fn unfinished(&self, side: fn(&RunPair) -> Makespan) -> Option<String> {
        let count = |status| {
            let runs = self.0.iter().flatten().filter(|pair| side(pair) == Err(status));
            runs.count() as u64
        };
        let (n_failed, n_stopped) = (count(Completion::Failed), count(Completion::Stopped));
        (0 < n_failed + n_stopped).then(|| unfinished_phrase(n_failed, n_stopped))
    }

    /// Returns the geometric mean over the workloads of the ratios of mean makespans.
    pub fn ratio(&self) -> Option<f64> {
        let all: Vec<usize> = (0..self.0.len()).collect();
        self.has_ratio().then(|| self.ratio_of(&all))
    }

    fn has_ratio(&self) -> bool {
        !self.0.is_empty() && self.0.iter().flatten().all(RunPair::is_finished)
    }

    /// Returns why the ratio is absent.
    pub fn ratio_absent_because(&self) -> Option<String> {
        if self.0.is_empty() {
            return Some("no pairs".to_owned());
        }
        let of_baseline = || Some(format!("baseline: {}", self.unfinished(|pair| pair.base)?));
        self.unfinished(|pair| pair.own).or_else(of_baseline)
    }

    pub fn interval(&self) -> Option<ConfidenceInterval> {
        let is_known = self.has_ratio() && !self.is_identical();
        is_known.then(|| interval(self.0.len(), |idxs| self.ratio_of(idxs)))?
    }

    /// Returns the p-value of the signed-rank test; `None` if there is only one observation.
    pub fn p(&self) -> Option<f64> {
        let is_known = !self.0.is_empty() && !self.is_identical();
        is_known.then(|| signed_rank(&self.differences()))
    }

    /// Returns the verdict for a corrected p-value.
    pub fn verdict(&self, p: f64) -> PairedVerdict {
        match self.has_ratio() {
            true => PairedVerdict::of(self.interval(), p),
            false => PairedVerdict::of_ranks(&self.differences(), p),
        }
    }

    /// Returns the difference of each seed: the mean over the workloads of the logarithms of the ratios. If runs of the
    /// seed did not finish, the side with more of them is slower.
    fn differences(&self) -> Vec<f64> {
        let difference = |pairs: &Vec<RunPair>| {
            let n_own = pairs.iter().filter(|pair| pair.own.is_err()).count();
            let n_base = pairs.iter().filter(|pair| pair.base.is_err()).count();
            match n_own.cmp(&n_base) {
                Ordering::Less => f64::NEG_INFINITY,
                Ordering::Greater => f64::INFINITY,
                Ordering::Equal if n_own != 0 => 0.0,
                Ordering::Equal => mean(&log_ratios(pairs)),
            }
        };
        self.0.iter().map(difference).collect()
    }

    fn ratio_of(&self, seeds: &[usize]) -> f64 {
        let n_workloads = self.0.first().map_or(0, Vec::len);
        let mean_of = |workload: usize, side: fn(&RunPair) -> Makespan| {
            let times = seeds.iter().filter_map(|seed| side(&self.0[*seed][workload]).ok());
            mean(&times.collect::<Vec<f64>>())
        };
        let log_ratio = |workload: usize| {
            libm::log(mean_of(workload, |pair| pair.own) / mean_of(workload, |pair| pair.base))
        };
        match n_workloads {
            1 => mean_of(0, |pair| pair.own) / mean_of(0, |pair| pair.base),
            n => libm::exp(mean(&(0..n).map(log_ratio).collect::<Vec<f64>>())),
        }
    }
}

fn log_ratios(pairs: &[RunPair]) -> Vec<f64> {
    let ratio = |pair: &RunPair| Some(libm::log(pair.own.ok()? / pair.base.ok()?));
    pairs.iter().filter_map(ratio).collect()
}
