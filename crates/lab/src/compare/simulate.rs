//! The runs of a comparison on a simulated machine.
//!
//! What does not hang on policy and seed is made once: the machine's tables, the scripts of each workload,
//! and how long each job takes alone. A run then is a host, an engine and a [`Tally`].

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{JobId, Nanos, StopFlag};
use engine::{Engine, MoveLimits, Sink};
use host_sim::cast;
use host_sim::chance::Chance;
use host_sim::fluid::Settings;
use host_sim::hardware::Hardware;
use host_sim::script::Script;
use host_sim::{SimError, SimHost, SimOptions};
use program::{Ending, Job};
use sched::{Policy, TierOverride};
use topology::Machine;

use crate::oracle;

use super::{Column, Controller, Ended, Figures, Tally};

/// What all runs share.
#[derive(Clone, Debug)]
pub struct SimSetting {
    /// The machine.
    pub machine: Machine,
    /// How it behaves; interval and seed are each run's own.
    pub options: SimOptions,
    /// How much memory policies may move.
    pub limits: MoveLimits,
    /// What figures shall stand on.
    pub signals: TierOverride,
}

/// A workload that is ready to run many times.
#[derive(Clone, Debug)]
pub struct Ready {
    jobs: Vec<Job>,
    scripts: Vec<Arc<Script>>,
    alone: Vec<Option<Nanos>>,
}

impl Ready {
    /// How long each job takes alone on the idle machine; `None` for jobs that restart or are ended.
    pub fn alone(&self) -> &[Option<Nanos>] {
        &self.alone
    }

    /// The jobs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// What each of them does.
    pub fn scripts(&self) -> &[Arc<Script>] {
        &self.scripts
    }
}

/// A simulated machine with everything that is to run on it.
#[derive(Debug)]
pub struct SimBench {
    setting: SimSetting,
    hardware: Arc<Hardware>,
    workloads: Vec<Ready>,
}

impl SimBench {
    /// Everything made ready; each job has run alone then.
    ///
    /// # Errors
    /// A job that cannot be simulated, or a kernel that is not modelled.
    pub fn new(setting: SimSetting, workloads: Vec<Vec<Job>>) -> Result<Self, SimError> {
        let mut bench = SimBench::without_alone(setting, workloads)?;
        let mut workloads = std::mem::take(&mut bench.workloads);
        for ready in &mut workloads {
            bench.measure_alone(ready)?;
        }
        Ok(SimBench { workloads, ..bench })
    }

    /// The same for whoever does not ask how long jobs take alone: none has run.
    ///
    /// # Errors
    /// As [`SimBench::new`].
    pub fn without_alone(setting: SimSetting, workloads: Vec<Vec<Job>>) -> Result<Self, SimError> {
        let hardware = Arc::new(Hardware::new(&setting.machine));
        let ready = |jobs: Vec<Job>| -> Result<Ready, SimError> {
            let scripts = cast::cast(&jobs, &hardware)?;
            cast::check_lengths(&jobs, &scripts, &hardware, setting.options.time_limit)?;
            Ok(Ready { alone: vec![None; jobs.len()], jobs, scripts })
        };
        let workloads = workloads.into_iter().map(ready).collect::<Result<_, _>>()?;
        Ok(SimBench { setting, hardware, workloads })
    }

    /// What was assumed of the machine, a sentence each.
    pub fn assumed(&self) -> &[String] {
        self.hardware.assumed()
    }

    /// What all runs share.
    pub fn setting(&self) -> &SimSetting {
        &self.setting
    }

    /// The machine's tables.
    pub fn hardware(&self) -> &Arc<Hardware> {
        &self.hardware
    }

    /// No placement of a workload ends earlier: the job that ends last when each takes the least that it can
    /// anywhere ([`Script::least_ns`]), as short as chance can make it. Zero where no job ends by itself.
    pub fn bound(&self, workload: usize) -> Nanos {
        let ready = &self.workloads[workload];
        let chance = self.setting.options.chance;
        // Evenly spread with this deviation: at most the root of three times it below the mean.
        let least = |part: f64| (1.0 - libm::sqrt(3.0) * part).max(0.0);
        let ends =
            ready.jobs.iter().zip(&ready.scripts).filter(|(job, _)| job.ending == Ending::Exit);
        let end = |(job, script): (&Job, &Arc<Script>)| {
            let sleeps = script.acts.iter().any(|act| act.sleeps.is_some());
            let part = if sleeps { chance.length.max(chance.sleep) } else { chance.length };
            Nanos(job.start.0 + (script.least_ns(&self.hardware) * least(part)) as u64)
        };
        ends.map(end).max().unwrap_or(Nanos::ZERO)
    }

    /// The workloads, in order.
    pub fn workloads(&self) -> &[Ready] {
        &self.workloads
    }

    /// Which kernel a column runs on; it must be possible on this machine, since a kernel may be unable to
    /// balance.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, column: &Column) -> Result<Settings, SimError> {
        let host = self.host(&[], &[], self.options(column, None, 0))?;
        Ok(host.settings())
    }

    /// One run; `None` when `stop` was raised meanwhile. Others may listen.
    ///
    /// # Errors
    /// The policy or the kernel is none; both were checked before.
    pub fn run(
        &self,
        (column, workload, seed): (&Column, usize, u64),
        stop: &StopFlag,
        listener: Option<&mut dyn Sink>,
    ) -> Result<Option<Figures>, SimRunError> {
        let Some(effort) = oracle::effort(&column.spec)? else {
            let policy = policy::build(&column.spec, seed)?;
            return self.run_policy(policy, (column, workload, seed), stop, listener);
        };
        let Some(best) = oracle::best(self, (column, workload, seed), effort, stop)? else {
            return Ok(None);
        };
        let found = best.found();
        if let Some(listener) = listener {
            let policy = best.policy(self, workload, seed)?;
            self.run_policy(policy, (column, workload, seed), stop, Some(listener))?;
        }
        Ok(Some(Figures { found: Some(found), ..best.figures }))
    }

    /// The policy that does a run as well as the oracle can; `None` when `stop` was raised meanwhile.
    ///
    /// # Errors
    /// The column names no oracle, or a run could not begin.
    pub fn oracle(
        &self,
        (column, workload, seed): (&Column, usize, u64),
        stop: &StopFlag,
    ) -> Result<Option<Box<dyn Policy>>, SimRunError> {
        let effort = oracle::effort(&column.spec)?.ok_or(oracle::OracleError::Parameter)?;
        let best = oracle::best(self, (column, workload, seed), effort, stop)?;
        best.map(|best| best.policy(self, workload, seed)).transpose()
    }

    /// One run under a policy; the column tells what else is changed of the machine.
    ///
    /// # Errors
    /// The kernel is none.
    pub fn run_policy(
        &self,
        policy: Box<dyn Policy>,
        (column, workload, seed): (&Column, usize, u64),
        stop: &StopFlag,
        listener: Option<&mut dyn Sink>,
    ) -> Result<Option<Figures>, SimRunError> {
        let ready = &self.workloads[workload];
        let options = self.options(column, policy.interval(), seed);
        let options = SimOptions { stop: stop.clone(), ..options };
        let mut host = self.host(&ready.jobs, &ready.scripts, options)?;
        let mut engine = Engine::new(self.setting.machine.clone(), ready.jobs.clone(), policy)
            .with_move_limits(self.setting.limits)
            .with_signals(self.setting.signals);
        let mut tally = Tally::new(ready.jobs.len());
        let ended = match listener {
            None => engine::run(&mut host, &mut engine, &mut [&mut tally]),
            Some(other) => engine::run(&mut host, &mut engine, &mut [&mut tally, other]),
        };
        let mut figures = Figures { controllers: controllers(&mut host), ..tally.into_figures() };
        figures.pages_moved_bytes = host.counts().pages_moved_bytes;
        figures.n_migrations = host.counts().migrations;
        match ended {
            Ok(_) if host.was_stopped() && stop.is_raised() => return Ok(None),
            Err(error) => {
                figures.ended = Ended::Failed;
                figures.error = Some(error.to_string());
            }
            Ok(_) if host.was_stopped() && figures.ended == Ended::Finished => {
                figures.ended = Ended::Stopped;
            }
            Ok(_) => {}
        }
        Ok(Some(figures))
    }

    /// The options of a run.
    pub fn options(&self, column: &Column, interval: Option<Nanos>, seed: u64) -> SimOptions {
        let base = &self.setting.options;
        SimOptions {
            interval,
            seed,
            interleave: column.variant.interleave.unwrap_or(base.interleave),
            numa_balancing: column.variant.numa_balancing.or(base.numa_balancing),
            leaves_out_rests: true,
            ..base.clone()
        }
    }

    fn host(
        &self,
        jobs: &[Job],
        scripts: &[Arc<Script>],
        options: SimOptions,
    ) -> Result<SimHost, SimError> {
        let hardware = self.hardware.clone();
        SimHost::with_scripts(&self.setting.machine, hardware, jobs, scripts.to_vec(), options)
    }

    /// Runs each job alone, where the kernel puts it, nothing left to chance. Jobs alike share the answer.
    fn measure_alone(&self, ready: &mut Ready) -> Result<(), SimError> {
        let mut known: BTreeMap<(usize, String), Option<Nanos>> = BTreeMap::new();
        for (idx, (job, script)) in ready.jobs.iter().zip(&ready.scripts).enumerate() {
            if job.ending != Ending::Exit {
                continue;
            }
            let rules = format!("{:?} {:?} {:?}", job.cpus, job.nodes, job.memory);
            let key = (Arc::as_ptr(script) as usize, rules);
            ready.alone[idx] = match known.get(&key) {
                Some(time) => *time,
                None => {
                    let time = self.alone(job, script)?;
                    *known.entry(key).or_insert(time)
                }
            };
        }
        Ok(())
    }

    fn alone(&self, job: &Job, script: &Arc<Script>) -> Result<Option<Nanos>, SimError> {
        let only = Job { id: JobId(0), start: Nanos::ZERO, ..job.clone() };
        let options = SimOptions {
            interval: None,
            chance: Chance::OFF,
            interleave: false,
            numa_balancing: Some(false),
            time_limit: None,
            leaves_out_rests: true,
            ..self.setting.options.clone()
        };
        let jobs = [only];
        let mut host = self.host(&jobs, std::slice::from_ref(script), options)?;
        // The empty plan, without any policy: nobody places what runs alone.
        let Ok(policy) = policy::build("linux", 0) else { return Ok(None) };
        let mut engine = Engine::new(self.setting.machine.clone(), jobs.to_vec(), policy);
        let mut tally = Tally::new(1);
        let ended = engine::run(&mut host, &mut engine, &mut [&mut tally]);
        let figures = tally.into_figures();
        let well = ended.is_ok() && figures.ended == Ended::Finished;
        Ok(figures.time_of(0, &jobs[0]).filter(|time| well && *time != Nanos::ZERO))
    }
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
pub enum SimRunError {
    /// The policy cannot be built.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// The oracle cannot be asked like that.
    #[error(transparent)]
    Oracle(#[from] oracle::OracleError),
    /// The machine cannot be.
    #[error(transparent)]
    Sim(#[from] SimError),
}

fn controllers(host: &mut SimHost) -> Vec<Controller> {
    let carried = host.controllers().into_iter();
    carried
        .map(|(node, [read, written])| Controller {
            node,
            read_bytes: read,
            written_bytes: written,
        })
        .collect()
}
