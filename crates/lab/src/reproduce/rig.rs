//! Runs many runs, each only once however many experiments ask for it.
//!
//! ```text
//!   play(world, policies, workloads) ─► runs not known yet ─► threads (compare's runner) ─► Played
//!                                       └ known: world · workload · classes · policy · seed
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;

use base::{Nanos, StopFlag};
use engine::Sink;
use program::Job;
use sched::TierOverride;

use super::given::Given;
use super::world::ClassBasis;
use super::{Gain, ReproduceError, World};
use crate::compare::{Ended, Figures, Landed, SimBench, SimRunError, SimSetting, run_all};

/// What all experiments share.
pub struct Rig<'a> {
    seeds: Vec<u64>,
    draws: u64,
    n_threads: usize,
    stop: &'a StopFlag,
    /// Told how many runs of a batch are done, a few times a second.
    look: &'a dyn Fn(usize, usize),
    known: RefCell<BTreeMap<Key, Figures>>,
}

/// What a run hangs on: world, workload, classes, policy, seed.
type Key = (String, String, ClassBasis, String, u64);

/// Runs of some policies on some workloads in one world.
#[derive(Debug)]
pub struct Played {
    columns: Vec<String>,
    workloads: Vec<String>,
    seeds: Vec<u64>,
    /// By policy, then workload, then seed.
    figures: Vec<Figures>,
}

impl<'a> Rig<'a> {
    /// For these seeds; experiments that draw do so `draws` times.
    pub fn new(
        seeds: Vec<u64>,
        draws: u64,
        n_threads: usize,
        stop: &'a StopFlag,
        look: &'a dyn Fn(usize, usize),
    ) -> Self {
        Rig { seeds, draws, n_threads, stop, look, known: RefCell::default() }
    }

    /// The seeds.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// How often experiments draw from the ranges of profiles.
    pub fn draws(&self) -> u64 {
        self.draws
    }

    /// Every policy on every workload, with every seed.
    ///
    /// # Errors
    /// Something is none, or it was stopped.
    pub fn play(
        &self,
        world: &World,
        columns: &[&str],
        workloads: &[&str],
    ) -> Result<Played, ReproduceError> {
        self.play_seeds(world, columns, workloads, &self.seeds)
    }

    /// The same with seeds of one's own.
    ///
    /// # Errors
    /// As [`Rig::play`].
    pub fn play_seeds(
        &self,
        world: &World,
        columns: &[&str],
        workloads: &[&str],
        seeds: &[u64],
    ) -> Result<Played, ReproduceError> {
        let mut keys: Vec<Key> = Vec::new();
        for column in columns {
            let basis = ClassBasis::of_column(column);
            for workload in workloads {
                let key = |seed: &u64| {
                    let (workload, column) = ((*workload).to_owned(), (*column).to_owned());
                    (world.name.clone(), workload, basis, column, *seed)
                };
                keys.extend(seeds.iter().map(key));
            }
        }
        self.run_unknown(world, &keys)?;
        let known = self.known.borrow();
        let text = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        Ok(Played {
            columns: text(columns),
            workloads: text(workloads),
            seeds: seeds.to_vec(),
            figures: keys.iter().filter_map(|key| known.get(key)).cloned().collect(),
        })
    }

    /// A policy on some workloads with every seed, each run with a listener of its own; the listeners, by
    /// workload, then seed. Such runs are not kept.
    ///
    /// # Errors
    /// As [`Rig::play`], and when a run does not end well: of half a run nothing can be counted.
    pub fn listen<S: Sink + Send>(
        &self,
        world: &World,
        column: &str,
        workloads: &[&str],
        make: impl Fn(&[Job]) -> S + Sync,
    ) -> Result<Vec<S>, ReproduceError> {
        self.listen_all((world, column, workloads), make, true)
    }

    /// The same where runs may end badly: what is asked is how.
    ///
    /// # Errors
    /// As [`Rig::play`].
    pub fn listen_all<S: Sink + Send>(
        &self,
        (world, policy, workloads): (&World, &str, &[&str]),
        make: impl Fn(&[Job]) -> S + Sync,
        must_end_well: bool,
    ) -> Result<Vec<S>, ReproduceError> {
        let column = policy;
        let basis = ClassBasis::of_column(column);
        let jobs = workloads.iter().map(|workload| world.jobs(workload, basis));
        let bench = SimBench::without_alone(setting(world), jobs.collect::<Result<_, _>>()?)?;
        let column = Given::parse(column)?;
        let (seeds, stop) = (&self.seeds[..], self.stop);
        let numbers: Vec<usize> = (0..workloads.len() * seeds.len()).collect();
        let work = |number: usize| -> Result<Option<S>, ReproduceError> {
            let (cast, seed) = (number / seeds.len(), seeds[number % seeds.len()]);
            let mut listener = make(bench.workloads()[cast].jobs());
            let ran = column.run(&bench, (cast, seed), stop, Some(&mut listener))?;
            match ran {
                Some(figures) if must_end_well && figures.ended != Ended::Finished => {
                    Err(ReproduceError::Failed {
                        run: format!("{policy} on {} with seed {seed}", workloads[cast]),
                        why: figures.error.unwrap_or_else(|| "the time limit came".to_owned()),
                    })
                }
                ran => Ok(ran.map(|_| listener)),
            }
        };
        let mut heard: BTreeMap<usize, S> = BTreeMap::new();
        let land = |landed| {
            if let Landed::Run(number, listener) = landed {
                heard.insert(number, listener);
            }
            (self.look)(heard.len(), numbers.len());
            Ok(())
        };
        run_all(&numbers, self.n_threads, self.stop, work, land)?;
        match self.stop.is_raised() {
            true => Err(ReproduceError::Stopped),
            false => Ok(heard.into_values().collect()),
        }
    }

    /// How long each job of a workload takes alone on the idle machine.
    ///
    /// # Errors
    /// The workload cannot be simulated.
    pub fn alone(
        &self,
        world: &World,
        workload: &str,
    ) -> Result<Vec<Option<Nanos>>, ReproduceError> {
        let jobs = world.jobs(workload, ClassBasis::Rate)?;
        let bench = SimBench::new(setting(world), vec![jobs])?;
        Ok(bench.workloads()[0].alone().to_vec())
    }

    /// No placement of a workload ends earlier, wherever memory lies: [`SimBench::bound`].
    ///
    /// # Errors
    /// The workload cannot be simulated.
    pub fn bound(&self, world: &World, workload: &str) -> Result<Nanos, ReproduceError> {
        let jobs = world.jobs(workload, ClassBasis::Rate)?;
        Ok(SimBench::without_alone(setting(world), vec![jobs])?.bound(0))
    }

    /// Does something in every draw, several draws at a time, each with a rig of its own (whose runs are not
    /// kept); in order of the draws.
    ///
    /// # Errors
    /// The first draw in which it could not be done, or it was stopped.
    pub fn each_draw<T: Send>(
        &self,
        work: impl Fn(u64, &Rig<'_>) -> Result<T, ReproduceError> + Sync,
    ) -> Result<Vec<T>, ReproduceError> {
        let numbers: Vec<usize> = (0..self.draws as usize).collect();
        let (seeds, draws, stop) = (&self.seeds, self.draws, self.stop);
        let of = |number: usize| -> Result<Option<T>, ReproduceError> {
            let rig = Rig::new(seeds.clone(), draws, 1, stop, &|_, _| {});
            match work(number as u64 + 1, &rig) {
                Err(ReproduceError::Stopped) => Ok(None),
                done => done.map(Some),
            }
        };
        let mut done: BTreeMap<usize, T> = BTreeMap::new();
        let land = |landed| {
            if let Landed::Run(number, found) = landed {
                done.insert(number, found);
            }
            (self.look)(done.len(), numbers.len());
            Ok(())
        };
        run_all(&numbers, self.n_threads, self.stop, of, land)?;
        match self.stop.is_raised() {
            true => Err(ReproduceError::Stopped),
            false => Ok(done.into_values().collect()),
        }
    }

    fn run_unknown(&self, world: &World, keys: &[Key]) -> Result<(), ReproduceError> {
        let unknown: Vec<&Key> = {
            let known = self.known.borrow();
            keys.iter().filter(|key| !known.contains_key(*key)).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let mut casts: Vec<(&str, ClassBasis)> =
            unknown.iter().map(|key| (key.1.as_str(), key.2)).collect();
        casts.sort_unstable();
        casts.dedup();
        let jobs = casts.iter().map(|(workload, basis)| world.jobs(workload, *basis));
        let bench = SimBench::without_alone(setting(world), jobs.collect::<Result<_, _>>()?)?;
        let mut columns: BTreeMap<&str, Given> = BTreeMap::new();
        for key in &unknown {
            columns.insert(&key.3, Given::parse(&key.3)?);
        }
        let numbers: Vec<usize> = (0..unknown.len()).collect();
        let mut n_done = 0;
        let work = |number: usize| -> Result<Option<Figures>, SimRunError> {
            let (_, workload, basis, column, seed) = unknown[number];
            let cast = casts.iter().position(|one| *one == (workload.as_str(), *basis));
            let cast = cast.expect("every workload of a key is cast");
            columns[column.as_str()].run(&bench, (cast, *seed), self.stop, None)
        };
        let land = |landed| {
            if let Landed::Run(number, figures) = landed {
                self.known.borrow_mut().insert(unknown[number].clone(), figures);
                n_done += 1;
            }
            (self.look)(n_done, unknown.len());
            Ok(())
        };
        run_all(&numbers, self.n_threads, self.stop, work, land)?;
        match self.stop.is_raised() {
            true => Err(ReproduceError::Stopped),
            false => Ok(()),
        }
    }
}

fn setting(world: &World) -> SimSetting {
    SimSetting {
        machine: world.machine.clone(),
        options: world.options.clone(),
        limits: world.limits,
        signals: TierOverride::default(),
    }
}

impl Played {
    /// The run of a policy on a workload with a seed, by their places.
    pub fn run(&self, column: usize, workload: usize, seed: usize) -> &Figures {
        let place = (column * self.workloads.len() + workload) * self.seeds.len() + seed;
        &self.figures[place]
    }

    /// Names of the workloads.
    pub fn workloads(&self) -> &[String] {
        &self.workloads
    }

    /// Seconds of the whole workload, by seed; none of a run that did not end well.
    pub fn whole_s(&self, column: usize, workload: usize) -> Vec<Option<f64>> {
        let seeds = 0..self.seeds.len();
        let run = |seed| {
            let run = self.run(column, workload, seed);
            (run.ended == Ended::Finished).then(|| run.whole.as_secs_f64())
        };
        seeds.map(run).collect()
    }

    /// Seconds of one job of a workload, by seed; none of a run that did not end well.
    pub fn job_s(&self, column: usize, workload: usize, job: usize) -> Vec<Option<f64>> {
        let of = |seed| {
            let run = self.run(column, workload, seed);
            let job = run.jobs.get(job).filter(|_| run.ended == Ended::Finished)?;
            Some(job.end?.saturating_sub(job.start?).as_secs_f64())
        };
        (0..self.seeds.len()).map(of).collect()
    }

    /// How much of the baseline's time a policy saves on a workload. The baseline may be of other runs with
    /// the same seeds.
    pub fn gain(
        &self,
        column: usize,
        workload: usize,
        (base, base_column): (&Played, usize),
    ) -> Gain {
        let default = base.whole_s(base_column, workload);
        let of = |(seed, here): (&u64, Option<f64>)| {
            let place = base.seeds.iter().position(|one| one == seed)?;
            Some((*seed, 1.0 - here? / default[place]?))
        };
        let here = self.whole_s(column, workload);
        Gain::by_seed(self.seeds.iter().zip(here).filter_map(of).collect())
    }

    /// The mean of its gains on all workloads, seed by seed: of the seeds that ended well on all of them.
    pub fn mean_gain(&self, column: usize, base: (&Played, usize)) -> Gain {
        let of = (0..self.workloads.len()).map(|place| self.gain(column, place, base));
        Gain::over(&of.collect::<Vec<Gain>>())
    }

    /// Mean seconds of a workload over the seeds that ended well; none if none did.
    pub fn mean_s(&self, column: usize, workload: usize) -> Option<f64> {
        let well: Vec<f64> = self.whole_s(column, workload).into_iter().flatten().collect();
        (!well.is_empty()).then(|| crate::stats::mean(&well))
    }

    /// The seeds.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// What went wrong, a sentence for each policy and workload with runs that did not end well.
    pub fn faults(&self) -> Vec<String> {
        let mut said = Vec::new();
        for (column, policy) in self.columns.iter().enumerate() {
            for (place, workload) in self.workloads.iter().enumerate() {
                let runs = self.seeds.iter().enumerate();
                let runs = runs.map(|(at, seed)| (seed, self.run(column, place, at)));
                let bad: Vec<(&u64, &Figures)> =
                    runs.filter(|(_, run)| run.ended != Ended::Finished).collect();
                let Some((_, first)) = bad.first() else { continue };
                let seeds: Vec<String> = bad.iter().map(|(seed, _)| seed.to_string()).collect();
                said.push(format!(
                    "{policy} on {workload}: {} of {} runs did not end well, and their seeds ({}) are left out of \
                     the pairs; the first: {}",
                    bad.len(),
                    self.seeds.len(),
                    seeds.join(" "),
                    first.error.as_deref().unwrap_or("the time limit came")
                ));
            }
        }
        said
    }
}
