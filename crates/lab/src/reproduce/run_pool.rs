//! Simulated runs on several threads, each run once for all experiments that need it.
//!
//! ```text
//!   run(testbed, policies, workloads) ─► unknown runs ─► threads (compare's runner) ─► RunResults
//!                                        └ key: testbed · workload · class basis · policy · seed
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::{Nanos, StopFlag};
use engine::Sink;
use program::Job;
use sched::TierOverride;

use super::observation::{Observation, RunObserver};
use super::published_groups::StudiedPolicy;
use super::testbed::DeclaredClassBasis;
use super::{Gain, ReproduceError, Testbed};
use crate::compare::{Completion, RunEvent, RunMetrics, SimBench, SimSetting, run_all};
use crate::stats::mean;

/// Seeds, threads and all completed runs.
pub struct RunPool<'a> {
    seeds: Vec<u64>,
    n_draws: u64,
    n_threads: usize,
    stop: &'a StopFlag,
    /// Called a few times a second with the number of finished runs of a batch and of all its runs.
    on_progress: &'a dyn Fn(usize, usize),
    known: RefCell<BTreeMap<RunKey, Rc<PooledRun>>>,
}

/// Testbed, workload, class basis, policy and seed determine a run.
type RunKey = (String, String, DeclaredClassBasis, String, u64);

/// A run of the pool.
#[derive(Debug)]
struct PooledRun {
    metrics: RunMetrics,
    observation: Observation,
}

/// Runs of some policies on some workloads of one testbed.
#[derive(Debug)]
pub struct RunResults {
    policies: Vec<String>,
    workloads: Vec<String>,
    seeds: Vec<u64>,
    /// By policy, then workload, then seed.
    runs: Vec<Rc<PooledRun>>,
}

impl<'a> RunPool<'a> {
    /// A pool for these seeds. Experiments with uncertain profiles draw `n_draws` times.
    pub fn new(
        seeds: Vec<u64>,
        n_draws: u64,
        n_threads: usize,
        stop: &'a StopFlag,
        on_progress: &'a dyn Fn(usize, usize),
    ) -> Self {
        RunPool { seeds, n_draws, n_threads, stop, on_progress, known: RefCell::default() }
    }

    /// Seeds of the runs.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// Number of draws of an experiment from the ranges of profiles.
    pub fn n_draws(&self) -> u64 {
        self.n_draws
    }

    /// Runs every policy on every workload with every seed.
    pub(super) fn run(
        &self,
        testbed: &Testbed,
        policies: &[&str],
        workloads: &[&str],
    ) -> Result<RunResults, ReproduceError> {
        self.run_seeds(testbed, policies, workloads, &self.seeds)
    }

    /// Runs every policy on every workload with these seeds.
    pub(super) fn run_seeds(
        &self,
        testbed: &Testbed,
        policies: &[&str],
        workloads: &[&str],
        seeds: &[u64],
    ) -> Result<RunResults, ReproduceError> {
        let pairs = policies
            .iter()
            .flat_map(|policy| workloads.iter().map(move |workload| (*policy, *workload)));
        let keys: Vec<RunKey> = pairs.flat_map(|pair| keys(testbed, pair, seeds)).collect();
        self.run_unknown(testbed, &keys)?;
        let known = self.known.borrow();
        let owned = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        Ok(RunResults {
            policies: owned(policies),
            workloads: owned(workloads),
            seeds: seeds.to_vec(),
            runs: keys.iter().filter_map(|key| known.get(key)).cloned().collect(),
        })
    }

    /// Runs these pairs of policy and workload in one batch, so that later requests find them.
    pub(super) fn prepare(
        &self,
        testbed: &Testbed,
        pairs: &[(String, String)],
        seeds: &[u64],
    ) -> Result<(), ReproduceError> {
        let keys =
            pairs.iter().flat_map(|(policy, workload)| keys(testbed, (policy, workload), seeds));
        self.run_unknown(testbed, &keys.collect::<Vec<RunKey>>())
    }

    fn run_unknown(&self, testbed: &Testbed, keys: &[RunKey]) -> Result<(), ReproduceError> {
        let unknown: Vec<&RunKey> = {
            let known = self.known.borrow();
            keys.iter().filter(|key| !known.contains_key(*key)).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let mut prepared: Vec<(&str, DeclaredClassBasis)> =
            unknown.iter().map(|key| (key.1.as_str(), key.2)).collect();
        prepared.sort_unstable();
        prepared.dedup();
        let jobs = prepared.iter().map(|(workload, basis)| testbed.jobs(workload, *basis));
        let bench = SimBench::without_solo_runs(setting(testbed), jobs.collect::<Result<_, _>>()?)?;
        let mut policies: BTreeMap<&str, StudiedPolicy> = BTreeMap::new();
        for key in &unknown {
            policies.insert(&key.3, StudiedPolicy::parse(&key.3)?);
        }
        let stop = self.stop;
        let done = self.in_parallel(unknown.len(), |number| {
            let (_, workload, basis, policy, seed) = unknown[number];
            let workload = prepared.iter().position(|pair| *pair == (workload.as_str(), *basis));
            let workload = workload.expect("every workload of a key is prepared");
            let mut observer =
                RunObserver::new(&testbed.machine, bench.workloads()[workload].jobs());
            let run = (workload, *seed);
            let metrics = policies[policy.as_str()].run(&bench, run, stop, Some(&mut observer))?;
            let observation = observer.into_observation();
            Ok(metrics.map(|metrics| PooledRun { metrics, observation }))
        })?;
        let keys = unknown.into_iter().cloned();
        self.known.borrow_mut().extend(keys.zip(done.into_iter().map(Rc::new)));
        Ok(())
    }

    /// Runs a policy on some workloads with every seed, each run with its own observer. Returns the
    /// observers, by workload, then seed. The pool does not keep these runs. A failed run is an error.
    pub(super) fn observe<S: Sink + Send>(
        &self,
        testbed: &Testbed,
        policy: &str,
        workloads: &[&str],
        make: impl Fn(&[Job]) -> S + Sync,
    ) -> Result<Vec<S>, ReproduceError> {
        let basis = DeclaredClassBasis::of_policy(policy);
        let jobs = workloads.iter().map(|workload| testbed.jobs(workload, basis));
        let bench = SimBench::without_solo_runs(setting(testbed), jobs.collect::<Result<_, _>>()?)?;
        let studied = StudiedPolicy::parse(policy)?;
        let (seeds, stop) = (&self.seeds[..], self.stop);
        self.in_parallel(workloads.len() * seeds.len(), |number| {
            let (workload, seed) = (number / seeds.len(), seeds[number % seeds.len()]);
            let mut observer = make(bench.workloads()[workload].jobs());
            match studied.run(&bench, (workload, seed), stop, Some(&mut observer))? {
                Some(metrics) if metrics.status != Completion::Finished => {
                    Err(ReproduceError::Failed {
                        run: format!("{policy} on {} with seed {seed}", workloads[workload]),
                        cause: metrics.error.unwrap_or_else(|| TIME_LIMIT.to_owned()),
                    })
                }
                metrics => Ok(metrics.map(|_| observer)),
            }
        })
    }

    /// Run time of each job of a workload alone on the idle machine.
    pub(super) fn alone(
        &self,
        testbed: &Testbed,
        workload: &str,
    ) -> Result<Vec<Option<Nanos>>, ReproduceError> {
        let jobs = testbed.jobs(workload, DeclaredClassBasis::Rate)?;
        let bench = SimBench::new(setting(testbed), vec![jobs])?;
        Ok(bench.workloads()[0].alone().to_vec())
    }

    /// Lower bound of the makespan of a workload, for any placement of tasks and memory: [`SimBench::bound`].
    pub(super) fn bound(&self, testbed: &Testbed, workload: &str) -> Result<Nanos, ReproduceError> {
        let jobs = testbed.jobs(workload, DeclaredClassBasis::Rate)?;
        Ok(SimBench::without_solo_runs(setting(testbed), vec![jobs])?.bound(0))
    }

    /// Calls `work` for every draw, several draws at a time, each with its own pool. Returns the results by draw.
    pub(super) fn each_draw<T: Send>(
        &self,
        work: impl Fn(u64, &RunPool<'_>) -> Result<T, ReproduceError> + Sync,
    ) -> Result<Vec<T>, ReproduceError> {
        let (seeds, n_draws, stop) = (&self.seeds, self.n_draws, self.stop);
        self.in_parallel(n_draws as usize, |number| {
            let pool = RunPool::new(seeds.clone(), n_draws, 1, stop, &|_, _| {});
            match work(number as u64 + 1, &pool) {
                Err(ReproduceError::Stopped) => Ok(None),
                done => done.map(Some),
            }
        })
    }

    /// Results of `work` for the numbers below `n`, in order.
    fn in_parallel<T: Send>(
        &self,
        n: usize,
        work: impl Fn(usize) -> Result<Option<T>, ReproduceError> + Sync,
    ) -> Result<Vec<T>, ReproduceError> {
        let mut done: BTreeMap<usize, T> = BTreeMap::new();
        let receive = |event| {
            if let RunEvent::Finished(number, result) = event {
                done.insert(number, result);
            }
            (self.on_progress)(done.len(), n);
            Ok(())
        };
        run_all(&(0..n).collect::<Vec<usize>>(), self.n_threads, self.stop, work, receive)?;
        match self.stop.is_raised() {
            true => Err(ReproduceError::Stopped),
            false => Ok(done.into_values().collect()),
        }
    }
}

const TIME_LIMIT: &str = "the time limit expired";

fn keys(testbed: &Testbed, (policy, workload): (&str, &str), seeds: &[u64]) -> Vec<RunKey> {
    let (name, basis) = (&testbed.name, DeclaredClassBasis::of_policy(policy));
    let key = |seed: &u64| (name.clone(), workload.to_owned(), basis, policy.to_owned(), *seed);
    seeds.iter().map(key).collect()
}

fn setting(testbed: &Testbed) -> SimSetting {
    SimSetting {
        machine: testbed.machine.clone(),
        options: testbed.options.clone(),
        limits: testbed.limits,
        signals: TierOverride::default(),
    }
}

impl RunResults {
    /// The run of a policy on a workload with a seed, by index.
    pub fn run(&self, policy: usize, workload: usize, seed: usize) -> &RunMetrics {
        let idx = (policy * self.workloads.len() + workload) * self.seeds.len() + seed;
        &self.runs[idx].metrics
    }

    /// Observations of all finished runs.
    pub(super) fn observations(&self) -> Vec<Observation> {
        let finished = self.runs.iter().filter(|run| run.metrics.status == Completion::Finished);
        finished.map(|run| run.observation.clone()).collect()
    }

    /// The seeds.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// Finished runs of a policy on a workload.
    pub fn finished(&self, policy: usize, workload: usize) -> impl Iterator<Item = &RunMetrics> {
        let runs = (0..self.seeds.len()).map(move |seed| self.run(policy, workload, seed));
        runs.filter(|run| run.status == Completion::Finished)
    }

    /// Makespan in seconds, by seed; `None` for a run that did not finish.
    pub fn makespan_s(&self, policy: usize, workload: usize) -> Vec<Option<f64>> {
        let seconds = |seed| {
            let run = self.run(policy, workload, seed);
            (run.status == Completion::Finished).then(|| run.makespan.as_secs_f64())
        };
        (0..self.seeds.len()).map(seconds).collect()
    }

    /// Seconds of one job of a workload, by seed; `None` for a run that did not finish.
    pub fn job_s(&self, policy: usize, workload: usize, job: usize) -> Vec<Option<f64>> {
        let seconds = |seed| {
            let run = self.run(policy, workload, seed);
            let job = run.jobs.get(job).filter(|_| run.status == Completion::Finished)?;
            Some(job.end?.saturating_sub(job.start?).as_secs_f64())
        };
        (0..self.seeds.len()).map(seconds).collect()
    }

    /// The fraction of the baseline's makespan that a policy saves on a workload. The baseline may be of another
    /// testbed.
    pub fn gain(
        &self,
        policy: usize,
        workload: usize,
        (baseline, baseline_policy): (&RunResults, usize),
    ) -> Gain {
        let baseline_s = baseline.makespan_s(baseline_policy, workload);
        let of_seed = |(seed, own): (&u64, Option<f64>)| {
            let idx = baseline.seeds.iter().position(|known| known == seed)?;
            Some((*seed, 1.0 - own? / baseline_s[idx]?))
        };
        let own = self.makespan_s(policy, workload);
        Gain::by_seed(self.seeds.iter().zip(own).filter_map(of_seed).collect())
    }

    /// Time over time alone of every program, by run; runs that did not finish are excluded.
    pub(super) fn slowdowns(
        &self,
        policy: usize,
        workload: usize,
        alone_s: &[f64],
    ) -> Vec<Vec<f64>> {
        let times: Vec<Vec<Option<f64>>> =
            (0..alone_s.len()).map(|job| self.job_s(policy, workload, job)).collect();
        let of_seed = |seed: usize| -> Option<Vec<f64>> {
            let each = times.iter().zip(alone_s);
            each.map(|(times, alone)| {
                Some(times[seed]? / Some(*alone).filter(|alone| 0.0 < *alone)?)
            })
            .collect()
        };
        (0..self.seeds.len()).filter_map(of_seed).collect()
    }

    /// Mean over the jobs of the baseline's time / this time - 1, by seed. Both are the first policy and workload.
    pub(super) fn speedup(&self, base: &RunResults, jobs: Option<&[usize]>) -> Gain {
        let all: Vec<usize> = (0..base.run(0, 0, 0).jobs.len()).collect();
        let times: Vec<_> = (jobs.unwrap_or(&all).iter())
            .map(|job| (base.job_s(0, 0, *job), self.job_s(0, 0, *job)))
            .collect();
        let of_seed = |(idx, seed): (usize, &u64)| -> Option<(u64, f64)> {
            let each = times.iter().map(|(base, own)| Some(base[idx]? / own[idx]? - 1.0));
            let each: Option<Vec<f64>> = each.collect();
            Some((*seed, mean(&each?)))
        };
        Gain::by_seed(self.seeds.iter().enumerate().filter_map(of_seed).collect())
    }

    /// A sentence for each policy and workload with runs that did not finish.
    pub fn failures(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for (policy_idx, policy) in self.policies.iter().enumerate() {
            for (workload_idx, workload) in self.workloads.iter().enumerate() {
                let runs = self.seeds.iter().enumerate();
                let runs = runs.map(|(idx, seed)| (seed, self.run(policy_idx, workload_idx, idx)));
                let failed: Vec<(&u64, &RunMetrics)> =
                    runs.filter(|(_, run)| run.status != Completion::Finished).collect();
                let Some((_, first)) = failed.first() else { continue };
                let seeds: Vec<String> = failed.iter().map(|(seed, _)| seed.to_string()).collect();
                sentences.push(format!(
                    "{policy} on {workload}: {} of {} runs failed; their seeds ({}) are excluded from the pairs; \
                     the first error: {}",
                    failed.len(),
                    self.seeds.len(),
                    seeds.join(" "),
                    first.error.as_deref().unwrap_or(TIME_LIMIT)
                ));
            }
        }
        sentences
    }
}
