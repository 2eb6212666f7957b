//! The runs of one policy on one workload, from which statistics are computed.
//!
//! ```text
//!   seed       1      2      3      4
//!   baseline  52 s   51 s   failed 53 s
//!   policy    51 s   failed 50 s   52 s      ─► pairs of seeds 1 and 4
//! ```
//!
//! Only finished runs have times. A ratio uses the seeds with which both finished. A test uses all seeds, and a run
//! that did not finish is slower than every finished run.

use std::collections::BTreeMap;

use base::Nanos;

use super::{Completion, RunKey, RunMetrics};

/// Runs of one policy on one workload, in the order of the seeds. `R` is a run or a reference to a run.
#[derive(Clone, Debug)]
pub struct RunSeries<R> {
    policy: String,
    workload: String,
    /// The runs with their seeds.
    pub(crate) runs: Vec<(u64, R)>,
}

impl<R: AsRef<RunMetrics>> RunSeries<R> {
    /// Creates the series of the runs that `run` returns for these seeds.
    pub fn new(
        (policy, workload): (&str, &str),
        seeds: &[u64],
        run: impl Fn(&RunKey) -> Option<R>,
    ) -> Self {
        let series = RunSeries {
            policy: policy.to_owned(),
            workload: workload.to_owned(),
            runs: Vec::new(),
        };
        let with_run = |seed: &u64| Some((*seed, run(&series.key(*seed))?));
        RunSeries { runs: seeds.iter().filter_map(with_run).collect(), ..series }
    }

    fn key(&self, seed: u64) -> RunKey {
        RunKey { policy: self.policy.clone(), workload: self.workload.clone(), seed }
    }

    /// Returns all runs, with any status.
    pub fn all_runs(&self) -> impl Iterator<Item = (u64, &RunMetrics)> {
        self.runs.iter().map(|(seed, run)| (*seed, run.as_ref()))
    }

    /// Returns the runs in which all jobs exited with status 0.
    pub fn finished_runs(&self) -> impl Iterator<Item = (u64, &RunMetrics)> {
        self.all_runs().filter(|(_, run)| run.status == Completion::Finished)
    }

    /// Returns the failed and stopped runs.
    pub fn unfinished_runs(&self) -> impl Iterator<Item = (u64, &RunMetrics)> {
        self.all_runs().filter(|(_, run)| run.status != Completion::Finished)
    }

    /// Returns a sentence about the runs that did not finish; `None` if all runs finished.
    pub fn failure(&self) -> Option<String> {
        let (_, first) = self.unfinished_runs().next()?;
        let seeds: Vec<String> = self.unfinished_runs().map(|(seed, _)| seed.to_string()).collect();
        Some(format!(
            "{} on {}: {} of {} runs failed; their seeds ({}) are excluded from the pairs; the first error: {}",
            self.policy,
            self.workload,
            seeds.len(),
            self.runs.len(),
            seeds.join(" "),
            first.cause()
        ))
    }

    /// Returns a sentence why the policy had nothing to decide; `None` if it had a decision to make in at least one
    /// run.
    pub fn nothing_to_decide(&self, policy: &str) -> Option<String> {
        let notes = self.all_runs().map(|(_, run)| run.nothing_to_decide.as_deref());
        let first = *notes.collect::<Option<Vec<&str>>>()?.first()?;
        Some(format!("{policy} makes no request on this machine: {first}."))
    }

    /// As [`RunSeries::nothing_to_decide`], for the runs on several workloads; `None` if the policy had a decision to
    /// make on at least one workload.
    pub fn nothing_to_decide_in_all(
        all: impl Iterator<Item = Self>,
        policy: &str,
    ) -> Option<String> {
        let notes = all.map(|series| series.nothing_to_decide(policy));
        notes.collect::<Option<Vec<String>>>()?.into_iter().next()
    }

    /// Returns the number of jobs of a run.
    pub fn n_jobs(&self) -> usize {
        self.all_runs().next().map_or(0, |(_, run)| run.jobs.len())
    }

    /// Returns the makespans of the finished runs in seconds.
    pub fn makespans_s(&self) -> Vec<f64> {
        self.all_runs().filter_map(|(_, run)| run.makespan()).map(Nanos::as_secs_f64).collect()
    }

    /// Returns the time of a job in the finished runs in seconds.
    pub fn job_s(&self, job: usize) -> Vec<f64> {
        self.finished_runs().filter_map(|(_, run)| run.job_s(job)).collect()
    }

    /// Returns pairs of finished runs with equal seeds: a run of this series, and the run of `other`.
    pub fn pairs<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (u64, &'a RunMetrics, &'a RunMetrics)> {
        let others: BTreeMap<u64, &RunMetrics> = other.finished_runs().collect();
        self.finished_runs().filter_map(move |(seed, run)| Some((seed, run, *others.get(&seed)?)))
    }

    /// Returns pairs of runs with equal seeds and any status: a run of this series, and the run of `other`.
    pub fn all_pairs<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (u64, &'a RunMetrics, &'a RunMetrics)> {
        let others: BTreeMap<u64, &RunMetrics> = other.all_runs().collect();
        self.all_runs().filter_map(move |(seed, run)| Some((seed, run, *others.get(&seed)?)))
    }

    /// Returns the finished run with the median makespan; if the number of runs is even, the faster of the two middle
    /// runs.
    pub fn median(&self) -> Option<RunKey> {
        let mut sorted: Vec<(u64, &RunMetrics)> = self.finished_runs().collect();
        sorted.sort_by_key(|(_, run)| run.last_end);
        sorted.get(sorted.len().checked_sub(1)? / 2).map(|(seed, _)| self.key(*seed))
    }
}
