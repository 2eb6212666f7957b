//! Simulated runs on several threads. A run that several experiments require is simulated once.
//!
//! ```text
//!   testbed · policies · workloads · seeds ─► missing runs ─► compare::run_all ─► metrics, observation ─► RunSeries
//!     └ Testbed::name: its own store of runs by RunKey
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::StopFlag;
use engine::Sink;
use program::Job;

use super::observation::{Observation, RunObserver};
use super::published_groups::StudiedPolicy;
use super::testbed::DeclaredClassBasis;
use super::{ReproduceError, Testbed};
use crate::compare::{Completion, RunEvent, RunKey, RunMetrics, RunSeries, SimBench, run_all};
use crate::shipped::{DrawPosition, ProfileDraw, ProfileSet};

/// Seeds, threads and all completed runs.
pub struct RunPool<'a> {
    seeds: Vec<u64>,
    n_draws: u64,
    /// Profiles of the experiment that runs now.
    profiles: Cell<ProfileSet>,
    n_threads: usize,
    stop: &'a StopFlag,
    /// Called a few times a second with the number of finished runs of a batch and of all its runs.
    on_progress: &'a dyn Fn(usize, usize),
    /// Completed runs, by name of the testbed.
    done: RefCell<BTreeMap<String, BTreeMap<RunKey, PooledRun>>>,
}

/// A run of the pool: its metrics and its observation.
#[derive(Clone, Debug)]
pub(super) struct PooledRun(Rc<(RunMetrics, Observation)>);

impl AsRef<RunMetrics> for PooledRun {
    fn as_ref(&self) -> &RunMetrics {
        &self.0.0
    }
}

/// Runs of the pool of one policy on one workload.
pub(super) type Series = RunSeries<PooledRun>;

impl Series {
    /// Returns the observations of the finished runs.
    pub(super) fn observations(&self) -> Vec<Observation> {
        let runs = self.runs.iter().map(|(_, run)| &*run.0);
        let finished = runs.filter(|(metrics, _)| metrics.status == Completion::Finished);
        finished.map(|(_, observation)| observation.clone()).collect()
    }
}

impl<'a> RunPool<'a> {
    /// Creates a pool for these seeds. Experiments with uncertain profiles draw the profiles `n_draws` times.
    pub fn new(
        seeds: Vec<u64>,
        n_draws: u64,
        n_threads: usize,
        stop: &'a StopFlag,
        on_progress: &'a dyn Fn(usize, usize),
    ) -> Self {
        let (profiles, done) = (Cell::default(), RefCell::default());
        RunPool { seeds, n_draws, profiles, n_threads, stop, on_progress, done }
    }

    /// Returns the seeds of the runs.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// Returns the number of draws of an experiment from the ranges of profiles.
    pub fn n_draws(&self) -> u64 {
        self.n_draws
    }

    /// Selects the profiles of the runs that follow.
    pub(super) fn use_profiles(&self, set: ProfileSet) {
        self.profiles.set(set);
    }

    /// Returns the profiles of the runs.
    pub(super) fn profiles(&self) -> ProfileSet {
        self.profiles.get()
    }

    /// Returns the middle of every range of the profiles.
    pub(super) fn middle(&self) -> ProfileDraw {
        ProfileDraw { set: self.profiles(), position: DrawPosition::Middle }
    }

    /// Returns all draws from the ranges of the profiles.
    pub(super) fn draws(&self) -> impl Iterator<Item = ProfileDraw> {
        let set = self.profiles();
        (1..=self.n_draws).map(move |seed| ProfileDraw { set, position: DrawPosition::Seed(seed) })
    }

    /// Runs every policy on every workload with these seeds. Returns the runs by policy, then workload.
    pub(super) fn run(
        &self,
        testbed: &Testbed,
        policies: &[&str],
        workloads: &[&str],
        seeds: &[u64],
    ) -> Result<Vec<Vec<Series>>, ReproduceError> {
        let pairs: Vec<Vec<(&str, &str)>> = policies
            .iter()
            .map(|policy| workloads.iter().map(|workload| (*policy, *workload)).collect())
            .collect();
        self.complete(testbed, pairs.concat(), seeds)?;
        let series = |pair: &(&str, &str)| self.series(testbed, *pair, seeds);
        pairs.iter().map(|of_policy| of_policy.iter().map(series).collect()).collect()
    }

    /// Returns the runs of a policy on a workload with these seeds.
    pub(super) fn series(
        &self,
        testbed: &Testbed,
        pair: (&str, &str),
        seeds: &[u64],
    ) -> Result<Series, ReproduceError> {
        self.complete(testbed, [pair], seeds)?;
        let done = self.done.borrow();
        Ok(RunSeries::new(pair, seeds, |key| done.get(&testbed.name)?.get(key).cloned()))
    }

    /// Runs pairs of policy and workload in one batch, except for runs that are complete.
    pub(super) fn complete<'p>(
        &self,
        testbed: &Testbed,
        pairs: impl IntoIterator<Item = (&'p str, &'p str)>,
        seeds: &[u64],
    ) -> Result<(), ReproduceError> {
        let keys = pairs.into_iter().flat_map(|pair| keys(pair, seeds));
        let missing: BTreeSet<RunKey> = {
            let done = self.done.borrow();
            let done = done.get(&testbed.name);
            keys.filter(|key| !done.is_some_and(|done| done.contains_key(key))).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<RunKey> = missing.into_iter().collect();
        let observer = |jobs: &[Job]| RunObserver::new(&testbed.machine, jobs);
        let runs = self.simulate(testbed, &missing, observer)?.into_iter();
        let runs =
            runs.map(|(run, observer)| PooledRun(Rc::new((run, observer.into_observation()))));
        let mut done = self.done.borrow_mut();
        done.entry(testbed.name.clone()).or_default().extend(missing.into_iter().zip(runs));
        Ok(())
    }

    /// Runs a policy on some workloads with every seed, each run with its own observer. Returns the observers, by
    /// workload, then seed. The pool does not store these runs. A failed run is an error.
    pub(super) fn observe<S: Sink + Send>(
        &self,
        testbed: &Testbed,
        policy: &str,
        workloads: &[&str],
        observer: impl Fn(&[Job]) -> S + Sync,
    ) -> Result<Vec<S>, ReproduceError> {
        let runs = workloads.iter().flat_map(|workload| keys((policy, workload), &self.seeds));
        let runs: Vec<RunKey> = runs.collect();
        let results = self.simulate(testbed, &runs, observer)?.into_iter().zip(&runs);
        let result = |((metrics, observer), key): ((RunMetrics, S), &RunKey)| match metrics.status {
            Completion::Finished => Ok(observer),
            _ => Err(ReproduceError::Failed {
                run: format!("{policy} on {} with seed {}", key.workload, key.seed),
                cause: metrics.cause().to_owned(),
            }),
        };
        results.map(result).collect()
    }

    /// Simulates runs, each with its own observer.
    fn simulate<S: Sink + Send>(
        &self,
        testbed: &Testbed,
        runs: &[RunKey],
        observer: impl Fn(&[Job]) -> S + Sync,
    ) -> Result<Vec<(RunMetrics, S)>, ReproduceError> {
        let mut workloads: Vec<(&str, DeclaredClassBasis)> = runs.iter().map(workload).collect();
        workloads.sort_unstable();
        workloads.dedup();
        let jobs = workloads.iter().map(|(workload, basis)| testbed.jobs(workload, *basis));
        let jobs = jobs.collect::<Result<_, _>>()?;
        let bench = SimBench::without_solo_runs(testbed.setting(), jobs)?;
        // The oracle minimizes slowdowns relative to the times alone.
        let oracles = runs.iter().filter(|key| crate::oracle::is_named(&key.policy));
        let variants = oracles.map(|key| Ok(StudiedPolicy::parse(&key.policy)?.variant()));
        let variants = variants.collect::<Result<Vec<_>, ReproduceError>>()?;
        let (bench, stop) = (bench.with_solo_runs(variants)?, self.stop);
        self.in_parallel(runs, |key| {
            let idx = workloads.iter().position(|known| *known == workload(key));
            let idx = idx.expect("the workload of every run is prepared");
            let mut observer = observer(bench.workloads()[idx].jobs());
            let policy = StudiedPolicy::parse(&key.policy)?;
            let metrics = policy.run(&bench, (idx, key.seed), stop, Some(&mut observer))?;
            Ok(metrics.map(|metrics| (metrics, observer)))
        })
    }

    /// Calls `work` for every draw, several draws at a time, each with its own pool. Returns the results by draw.
    pub(super) fn each_draw<T: Send>(
        &self,
        work: impl Fn(u64, &RunPool<'_>) -> Result<T, ReproduceError> + Sync,
    ) -> Result<Vec<T>, ReproduceError> {
        let (seeds, n_draws, stop) = (&self.seeds, self.n_draws, self.stop);
        let profiles = self.profiles();
        let draws: Vec<u64> = (1..=n_draws).collect();
        self.in_parallel(&draws, |draw| {
            let pool = RunPool::new(seeds.clone(), n_draws, 1, stop, &|_, _| {});
            pool.use_profiles(profiles);
            match work(*draw, &pool) {
                Err(ReproduceError::Stopped) => Ok(None),
                done => done.map(Some),
            }
        })
    }

    /// Calls `work` for each input on several threads. Returns the results in the order of the inputs.
    fn in_parallel<K: Sync, T: Send>(
        &self,
        inputs: &[K],
        work: impl Fn(&K) -> Result<Option<T>, ReproduceError> + Sync,
    ) -> Result<Vec<T>, ReproduceError> {
        let mut done: BTreeMap<usize, T> = BTreeMap::new();
        let receive = |event| {
            if let RunEvent::Finished(idx, result) = event {
                done.insert(idx, result);
            }
            (self.on_progress)(done.len(), inputs.len());
            Ok(())
        };
        run_all(inputs, self.n_threads, self.stop, work, receive)?;
        match self.stop.is_raised() {
            true => Err(ReproduceError::Stopped),
            false => Ok(done.into_values().collect()),
        }
    }
}

/// Returns the runs of a pair. The oracle runs with the first seed only: a run of it is a hundred runs.
fn keys<'s>(
    (policy, workload): (&str, &str),
    seeds: &'s [u64],
) -> impl Iterator<Item = RunKey> + use<'s> {
    let is_oracle = crate::oracle::is_named(policy);
    let seeds = if is_oracle { &seeds[..1.min(seeds.len())] } else { seeds };
    let (policy, workload) = (policy.to_owned(), workload.to_owned());
    let key = move |seed: &u64| RunKey {
        policy: policy.clone(),
        workload: workload.clone(),
        seed: *seed,
    };
    seeds.iter().map(key)
}

/// Returns the workload of a run, with the class basis that its policy assumes.
fn workload(key: &RunKey) -> (&str, DeclaredClassBasis) {
    (&key.workload, DeclaredClassBasis::of_policy(&key.policy))
}
