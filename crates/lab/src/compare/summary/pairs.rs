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
use std::collections::BTreeMap;

use report::comparison::unfinished_phrase;

use crate::compare::{Completion, RunMetrics};
use crate::stats::{ConfidenceInterval, PairedVerdict, interval, mean, mean_of, signed_rank};

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

/// Pairs of runs, with one pair for each workload in each seed.
#[derive(Clone, Debug)]
pub(super) struct PairedRuns {
    /// The pairs of each observation: of a seed, or the mean pairs of the seeds of a draw.
    observations: Vec<Vec<RunPair>>,
    /// The pairs of each seed.
    seeds: Vec<Vec<RunPair>>,
}

impl RunPair {
    pub fn new(own: &RunMetrics, base: &RunMetrics) -> Self {
        let time = |run: &RunMetrics| Ok(run.makespan().ok_or(run.status)?.0 as f64);
        // The search of the oracle and the note of a policy are not metrics of the run itself.
        let metrics =
            |run: &RunMetrics| RunMetrics { oracle: None, nothing_to_decide: None, ..run.clone() };
        let is_same = own.status == Completion::Finished && metrics(own) == metrics(base);
        RunPair { own: time(own), base: time(base), is_same }
    }

    /// Returns the mean pair. If runs did not finish, the side with more of them did not finish.
    fn mean(pairs: &[RunPair]) -> RunPair {
        type Side = fn(&RunPair) -> Makespan;
        let own: Side = |pair| pair.own;
        let base: Side = |pair| pair.base;
        let n_failed = |side: Side| pairs.iter().filter(|pair| side(pair).is_err()).count();
        let mean_of_side = |side: Side, other: Side| -> Makespan {
            let failed = pairs.iter().find_map(|pair| side(pair).err());
            let times = pairs.iter().filter_map(|pair| side(pair).ok());
            match failed {
                Some(status) if n_failed(other) <= n_failed(side) => Err(status),
                _ => mean_of(times).ok_or_else(|| failed.unwrap_or_default()),
            }
        };
        RunPair {
            own: mean_of_side(own, base),
            base: mean_of_side(base, own),
            is_same: pairs.iter().all(|pair| pair.is_same),
        }
    }

    fn is_finished(&self) -> bool {
        self.own.is_ok() && self.base.is_ok()
    }
}

impl PairedRuns {
    /// Creates the pairs from the pairs of each seed with the number of its observation.
    pub fn new(by_seed: impl IntoIterator<Item = (usize, Vec<RunPair>)>) -> Self {
        let mut observations: BTreeMap<usize, Vec<Vec<RunPair>>> = BTreeMap::new();
        let mut seeds = Vec::new();
        for (number, pairs) in by_seed {
            observations.entry(number).or_default().push(pairs.clone());
            seeds.push(pairs);
        }
        let observation = |seeds: Vec<Vec<RunPair>>| {
            let n_workloads = seeds.first().map_or(0, Vec::len);
            let of_workload = |workload: usize| {
                RunPair::mean(&seeds.iter().map(|pairs| pairs[workload]).collect::<Vec<_>>())
            };
            (0..n_workloads).map(of_workload).collect()
        };
        PairedRuns { observations: observations.into_values().map(observation).collect(), seeds }
    }

    /// Returns the number of observations: of seeds, or of draws.
    pub fn n_observations(&self) -> usize {
        self.observations.len()
    }

    /// Returns the number of observations with a finished run. Two runs that did not finish are no difference.
    pub fn n_tested(&self) -> usize {
        let has_makespan =
            |pairs: &&Vec<RunPair>| pairs.iter().any(|pair| pair.own.or(pair.base).is_ok());
        self.observations.iter().filter(has_makespan).count()
    }

    /// Returns whether each run of the policy equals the run of the baseline with this seed.
    pub fn is_same_as_baseline(&self) -> bool {
        !self.observations.is_empty() && self.observations.iter().flatten().all(|pair| pair.is_same)
    }

    /// Returns whether several seeds have the same makespans.
    pub fn is_identical(&self) -> bool {
        0 < self.n_tested()
            && 1 < self.observations.len()
            && self.observations.windows(2).all(|seeds| seeds[0] == seeds[1])
    }

    /// Returns the runs of one side that did not finish, as a phrase; `None` if all finished.
    fn unfinished(&self, side: fn(&RunPair) -> Makespan) -> Option<String> {
        let count = |status| {
            let runs = self.seeds.iter().flatten().filter(|pair| side(pair) == Err(status));
            runs.count() as u64
        };
        let (n_failed, n_stopped) = (count(Completion::Failed), count(Completion::Stopped));
        (0 < n_failed + n_stopped).then(|| unfinished_phrase(n_failed, n_stopped))
    }

    /// Returns the geometric mean over the workloads of the ratios of mean makespans.
    pub fn ratio(&self) -> Option<f64> {
        let all: Vec<usize> = (0..self.n_observations()).collect();
        self.has_ratio().then(|| self.ratio_of(&all))
    }

    fn has_ratio(&self) -> bool {
        !self.seeds.is_empty() && self.seeds.iter().flatten().all(RunPair::is_finished)
    }

    /// Returns why the ratio is absent.
    pub fn ratio_absent_because(&self) -> Option<String> {
        if self.observations.is_empty() {
            return Some("no pairs".to_owned());
        }
        let of_baseline = || Some(format!("baseline: {}", self.unfinished(|pair| pair.base)?));
        self.unfinished(|pair| pair.own).or_else(of_baseline)
    }

    pub fn interval(&self) -> Option<ConfidenceInterval> {
        let is_known = self.has_ratio() && !self.is_identical();
        is_known.then(|| interval(self.observations.len(), |idxs| self.ratio_of(idxs)))?
    }

    /// Returns the p-value of the signed-rank test; `None` if there is only one observation.
    pub fn p(&self) -> Option<f64> {
        let is_known = !self.observations.is_empty() && !self.is_identical();
        is_known.then(|| signed_rank(&self.differences()))
    }

    /// Returns the verdict for a corrected p-value, and a tolerance within which a ratio is 1.
    pub fn verdict(&self, p: f64, tolerance: Option<f64>) -> PairedVerdict {
        match self.has_ratio() {
            true => PairedVerdict::of(self.interval(), p, tolerance),
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
        self.observations.iter().map(difference).collect()
    }

    fn ratio_of(&self, seeds: &[usize]) -> f64 {
        let n_workloads = self.observations.first().map_or(0, Vec::len);
        let mean_of = |workload: usize, side: fn(&RunPair) -> Makespan| {
            let times =
                seeds.iter().filter_map(|seed| side(&self.observations[*seed][workload]).ok());
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

#[cfg(test)]
mod tests {
    use base::Rng;

    use super::*;

    fn pair(own: f64) -> RunPair {
        RunPair { own: Ok(own), base: Ok(10.0), is_same: false }
    }

    /// Returns the number of trials, out of 300, in which the interval contains the true ratio 1. A draw changes the
    /// policy by a standard deviation of 10 %, a seed by 1 %; each draw has four seeds.
    fn coverage(observation: fn(usize, usize) -> usize) -> usize {
        let mut rng = Rng::new(5);
        // The sum of twelve uniform numbers: nearly normal, mean 0, deviation 1.
        let normal = |rng: &mut Rng| (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        let trial = |_: &usize| {
            let mut all = Vec::new();
            for draw in 0..12 {
                let of_draw = 10.0 + normal(&mut rng);
                for seed in 0..4 {
                    let own = of_draw + 0.1 * normal(&mut rng);
                    all.push((observation(draw, 4 * draw + seed), vec![pair(own)]));
                }
            }
            PairedRuns::new(all).interval().expect("an interval").contains(1.0)
        };
        (0..300).filter(trial).count()
    }

    #[test]
    fn intervals_contain_the_uncertainty_of_the_draws_if_a_draw_is_one_observation() {
        // With a coverage of 95 %, 285 trials are expected, with a standard deviation of 4.
        let n_covered = coverage(|draw, _| draw);
        assert!((270..=297).contains(&n_covered), "{n_covered} of 300");
        // Seeds as observations: four seeds of one draw count as four draws, and the interval is half as wide.
        let n_covered = coverage(|_, seed| seed);
        assert!(n_covered < 230, "{n_covered} of 300");
    }

    #[test]
    fn the_mean_of_a_draw_is_one_pair_and_the_side_with_more_failed_runs_failed() {
        let failed = |own: Makespan, base: Makespan| RunPair { own, base, is_same: false };
        let mean = |pairs: &[RunPair]| {
            let pairs = PairedRuns::new(pairs.iter().map(|pair| (0, vec![*pair])));
            assert_eq!(pairs.n_observations(), 1);
            pairs.observations[0][0]
        };
        assert_eq!(mean(&[pair(8.0), pair(10.0)]), pair(9.0));
        let (one, both) = (
            failed(Err(Completion::Failed), Ok(10.0)),
            failed(Err(Completion::Failed), Err(Completion::Stopped)),
        );
        assert_eq!(mean(&[pair(8.0), one]), one);
        assert_eq!(mean(&[pair(8.0), both]), both);
        assert_eq!(
            mean(&[one, failed(Ok(5.0), Err(Completion::Failed))]),
            failed(Err(Completion::Failed), Err(Completion::Failed))
        );
    }
}
