//! The search: batches of trials on the training runs, then the held-out runs of the best settings.
//!
//! Trial 0 has the base settings, so that settings are selected only if they are better there. The next trials are
//! uniform draws, and the others are draws of the optimizer. Settings of a batch are drawn before the first of its runs
//! ends, and results are added in the order of the draws: neither the number of threads nor their timing changes a
//! draw.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use base::{StopFlag, counted_noun};
use report::format::fixed;
use report::tuning::{
    FORMAT, TuneGain, TuneOutcome, TuneResult, TuneRuns, TuneTrial, TunedParameter,
};

use super::held_out::{GainMeter, is_confirmed, too_few_seeds};
use super::sampler::Sampler;
use super::sensitivity::{self, Scored};
use super::space::{BASELINE, Coordinate, Dimension, Point, SearchSpace};
use crate::compare::{
    Column, ColumnError, RunEvent, RunKey, RunMetrics, RunSeries, SIM_EQUAL_WITHIN, SimBench,
    SimRunError, run_all,
};
use crate::stats::mean;

/// Number of trials in a batch. Guessed: a batch of five seeds occupies 40 CPUs, and the results of fewer than a tenth
/// of 100 trials are unknown to a draw.
const N_BATCH: usize = 8;

/// Policy, runs and budget of a search.
#[derive(Clone, Debug)]
pub struct TunePlan {
    /// The searched parameters.
    pub space: SearchSpace,
    /// Names of the workloads of the bench, in its order: first the training workloads.
    pub workloads: Vec<String>,
    /// Number of training workloads, at least 1.
    pub n_training: usize,
    /// Seeds of the training runs.
    pub training_seeds: Vec<u64>,
    /// Seeds of the held-out runs, all different from the training seeds.
    pub held_out_seeds: Vec<u64>,
    /// Number of trials, with the trial of the defaults.
    pub n_trials: usize,
    /// Seed of the draws.
    pub search_seed: u64,
}

impl TunePlan {
    /// Returns the number of runs, if all trials differ.
    pub fn n_runs_max(&self) -> usize {
        let n_training = self.n_trials * self.n_training * self.training_seeds.len();
        let n_baseline = self.n_training * self.training_seeds.len();
        let n_without = self.space.dimensions.len() * self.n_training * self.training_seeds.len();
        n_training + n_without + n_baseline + 3 * self.workloads.len() * self.held_out_seeds.len()
    }

    fn training(&self) -> Range<usize> {
        0..self.n_training
    }

    fn held_out(&self) -> Range<usize> {
        self.n_training..self.workloads.len()
    }
}

/// Error of a search.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum TuneError {
    #[error(transparent)]
    Column(#[from] ColumnError),
    #[error(transparent)]
    Run(#[from] SimRunError),
    #[error(
        "{policy} did not finish on the training runs, so there is nothing to compare with: {cause}"
    )]
    Defaults { policy: String, cause: String },
}

/// A trial with its ratio to the defaults; `None`: a run did not finish.
struct Trial {
    point: Point,
    ratio: Option<f64>,
}

/// Searches, and measures the best settings on held-out runs; `None` if `stop` was raised. `on_run` is called after
/// each run, and at least every 100 ms.
///
/// # Errors
/// A run cannot start, or the defaults do not finish.
pub fn tune(
    bench: &SimBench,
    plan: &TunePlan,
    n_threads: usize,
    stop: &StopFlag,
    on_run: &mut dyn FnMut(usize),
) -> Result<Option<TuneResult>, TuneError> {
    let mut runs = Runs { bench, plan, done: BTreeMap::new(), n_threads, stop, on_run };
    let Some(trials) = search(&mut runs)? else { return Ok(None) };
    let best = trials.iter().enumerate().filter_map(|(idx, trial)| Some((trial.ratio?, idx)));
    let best = best.min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let best = &trials[best.map_or(0, |(_, idx)| idx)];
    let Some(found) = runs.without_idle_parameters(best)? else { return Ok(None) };
    let Some(gains) = runs.measure(&found.point.spec)? else { return Ok(None) };
    Ok(Some(result(&runs, &trials, &found, gains)))
}

/// The settings that a search found.
struct FoundSettings {
    point: Point,
    /// Indexes of the parameters that have their default because their value in the best trial had no effect.
    idle: Vec<usize>,
}

fn search(runs: &mut Runs<'_>) -> Result<Option<Vec<Trial>>, TuneError> {
    let plan = runs.plan;
    let mut sampler = Sampler::new(&plan.space, plan.search_seed);
    let mut trials: Vec<Trial> = Vec::new();
    let mut known = BTreeSet::new();
    // Guessed: enough for the first densities, and a small part of a long search.
    let n_uniform = (plan.n_trials / 4).clamp(8, 25);
    while trials.len() < plan.n_trials {
        let mut batch = Vec::new();
        if trials.is_empty() {
            batch.push(plan.space.default_point());
            known.insert(batch[0].spec.clone());
        }
        while batch.len() < N_BATCH.min(plan.n_trials - trials.len()) {
            let is_uniform = trials.len() + batch.len() < n_uniform;
            let Some(point) = sampler.draw(is_uniform, |spec| known.contains(spec)) else { break };
            known.insert(point.spec.clone());
            batch.push(point);
        }
        if batch.is_empty() {
            break;
        }
        let columns = batch.iter().map(|point| Column::parse(&point.spec));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        if !runs.add(&columns, plan.training(), &plan.training_seeds)? {
            return Ok(None);
        }
        if trials.is_empty() && runs.ratio(&columns[0].text).is_none() {
            let policy = columns[0].text.clone();
            let cause = runs.cause(&policy);
            return Err(TuneError::Defaults { policy, cause });
        }
        for (point, column) in batch.into_iter().zip(columns) {
            let ratio = runs.ratio(&column.text);
            sampler.add(&point, ratio.unwrap_or(f64::INFINITY));
            trials.push(Trial { point, ratio });
        }
    }
    Ok(Some(trials))
}

/// The runs of a search.
struct Runs<'a> {
    bench: &'a SimBench,
    plan: &'a TunePlan,
    done: BTreeMap<RunKey, RunMetrics>,
    n_threads: usize,
    stop: &'a StopFlag,
    on_run: &'a mut dyn FnMut(usize),
}

impl Runs<'_> {
    /// Simulates the missing runs; `false` if `stop` was raised.
    fn add(
        &mut self,
        columns: &[Column],
        workloads: Range<usize>,
        seeds: &[u64],
    ) -> Result<bool, SimRunError> {
        let mut missing: BTreeMap<RunKey, (&Column, usize, u64)> = BTreeMap::new();
        for column in columns {
            for workload in workloads.clone() {
                for seed in seeds {
                    let key = column.key(&self.plan.workloads[workload], *seed);
                    if !self.done.contains_key(&key) {
                        missing.insert(key, (column, workload, *seed));
                    }
                }
            }
        }
        let missing: Vec<_> = missing.into_iter().collect();
        let (bench, stop) = (self.bench, self.stop);
        let work = |(_, run): &(RunKey, (&Column, usize, u64))| bench.run(*run, stop, None);
        let Runs { done, on_run, .. } = self;
        let receive = |event| {
            if let RunEvent::Finished(idx, metrics) = event {
                done.insert(missing[idx].0.clone(), metrics);
            }
            on_run(done.len());
            Ok(())
        };
        run_all(&missing, self.n_threads, stop, work, receive)?;
        Ok(!self.stop.is_raised())
    }

    /// Returns the settings of the best trial with the default of each parameter without which the ratio is at most
    /// slightly larger: the search draws a value of every parameter, also of those that change nothing. `None` if `stop`
    /// was raised.
    fn without_idle_parameters(
        &mut self,
        best: &Trial,
    ) -> Result<Option<FoundSettings>, TuneError> {
        let plan = self.plan;
        let mut found = FoundSettings { point: best.point.clone(), idle: Vec::new() };
        let Some(ratio_best) = best.ratio else { return Ok(Some(found)) };
        for idx in 0..plan.space.dimensions.len() {
            let Some(point) = plan.space.with_default(&found.point, idx) else { continue };
            let column = Column::parse(&point.spec)?;
            if !self.add(std::slice::from_ref(&column), plan.training(), &plan.training_seeds)? {
                return Ok(None);
            }
            // All removals are compared with the best trial, so that their losses do not add up.
            let ratio_max = ratio_best * (1.0 + SIM_EQUAL_WITHIN);
            if self.ratio(&column.text).is_some_and(|ratio| ratio <= ratio_max) {
                found.point = point;
                found.idle.push(idx);
            }
        }
        Ok(Some(found))
    }

    fn series(&self, policy: &str, workload: usize) -> RunSeries<&RunMetrics> {
        let workload = &self.plan.workloads[workload];
        RunSeries::new((policy, workload), &self.plan.training_seeds, |key| self.done.get(key))
    }

    /// Returns the geometric mean over the training workloads of the mean makespans divided by those of the defaults;
    /// `None` if a run did not finish.
    fn ratio(&self, policy: &str) -> Option<f64> {
        let log_ratio = |workload| -> Option<f64> {
            let mean_s = |policy: &str| {
                let runs = self.series(policy, workload);
                runs.unfinished_runs().next().is_none().then(|| mean(&runs.makespans_s()))
            };
            Some(libm::log(mean_s(policy)? / mean_s(&self.plan.space.base)?))
        };
        let logs: Option<Vec<f64>> = self.plan.training().map(log_ratio).collect();
        Some(libm::exp(mean(&logs?)))
    }

    /// Returns a note if the base settings requested nothing in any training workload, because of the machine.
    fn nothing_to_decide(&self) -> Option<String> {
        let base = &self.plan.space.base;
        let training = self.plan.training().map(|workload| self.series(base, workload));
        RunSeries::nothing_to_decide_in_all(training, base)
    }

    /// Returns the first training runs of a policy that did not finish, with the cause.
    fn cause(&self, policy: &str) -> String {
        let failures = self.plan.training().filter_map(|it| self.series(policy, it).failure());
        failures.into_iter().next().unwrap_or_default()
    }

    /// Simulates the settings, the defaults and the baseline on the held-out runs, and returns the gains. The first
    /// gain over the defaults decides.
    fn measure(&mut self, found: &str) -> Result<Option<Vec<TuneGain>>, TuneError> {
        let plan = self.plan;
        let columns = [found, &plan.space.base, BASELINE].map(Column::parse);
        let [found, defaults, linux] = columns;
        let (found, defaults, linux) = (found?, defaults?, linux?);
        let all = [found.clone(), defaults.clone(), linux.clone()];
        let n = plan.workloads.len();
        let is_complete = self.add(&all, plan.training(), &plan.training_seeds)?
            && self.add(&all, 0..n, &plan.held_out_seeds)?;
        if !is_complete {
            return Ok(None);
        }
        let meter = GainMeter { bench: self.bench, workloads: &plan.workloads, done: &self.done };
        let groups = [
            (TuneRuns::HeldOutWorkloads, plan.held_out(), &plan.held_out_seeds),
            (TuneRuns::HeldOutSeeds, plan.training(), &plan.held_out_seeds),
            (TuneRuns::Training, plan.training(), &plan.training_seeds),
        ];
        let mut gains = Vec::new();
        for (runs, workloads, seeds) in groups {
            for base in [&defaults, &linux] {
                if !workloads.is_empty() && base.text != found.text {
                    gains.push(meter.gain(runs, (&found, base), workloads.clone(), seeds));
                }
            }
        }
        Ok(Some(gains))
    }
}

fn result(
    runs: &Runs<'_>,
    trials: &[Trial],
    settings_found: &FoundSettings,
    gains: Vec<TuneGain>,
) -> TuneResult {
    let plan = runs.plan;
    let space = &plan.space;
    let FoundSettings { point: found, idle } = settings_found;
    let outcome = match &gains {
        _ if found.spec == space.base => TuneOutcome::DefaultsBest,
        gains if is_confirmed(&gains[0]) => TuneOutcome::Confirmed,
        _ => TuneOutcome::NotConfirmed,
    };
    let settings = if outcome == TuneOutcome::Confirmed { &found.spec } else { &space.base };
    let scored: Vec<Scored<'_>> = trials.iter().map(|trial| (&trial.point, trial.ratio)).collect();
    let parameter = |(idx, dimension): (usize, &Dimension)| {
        let (bins, effect) = sensitivity::of_parameter(dimension, idx, &scored);
        let is_active = |trial: &&Trial| trial.point.coordinates[idx].is_some();
        let n_active = trials.iter().filter(is_active).count();
        TunedParameter {
            name: dimension.param.name.to_owned(),
            values: dimension.values_text(),
            default: dimension.default.clone(),
            found: match found.coordinates[idx] {
                _ if idle.contains(&idx) => Some(dimension.default.clone()),
                Some(_) if found.spec == space.base => Some(dimension.default.clone()),
                at => at.map(|at| dimension.text(at)),
            },
            n_trials: n_active as u64,
            n_skipped: (trials.len() - n_active) as u64,
            effect,
            bins,
        }
    };
    let trial =
        |trial: &Trial| TuneTrial { settings: trial.point.spec.clone(), ratio: trial.ratio };
    TuneResult {
        format: FORMAT,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        command: None,
        machine: runs.bench.setting().machine.name().to_owned(),
        policy: space.base.clone(),
        outcome,
        settings: settings.clone(),
        found: found.spec.clone(),
        search_seed: plan.search_seed,
        n_trials: trials.len() as u64,
        n_runs: runs.done.len() as u64,
        training_workloads: plan.workloads[plan.training()].to_vec(),
        training_seeds: plan.training_seeds.clone(),
        held_out_workloads: plan.workloads[plan.held_out()].to_vec(),
        held_out_seeds: plan.held_out_seeds.clone(),
        gains,
        parameters: space.dimensions.iter().enumerate().map(parameter).collect(),
        pairs: sensitivity::pairs(&space.dimensions, &scored),
        trials: trials.iter().map(trial).collect(),
        notes: notes(runs, trials, settings_found),
    }
}

fn notes(runs: &Runs<'_>, trials: &[Trial], settings_found: &FoundSettings) -> Vec<String> {
    let plan = runs.plan;
    let FoundSettings { point: found, idle } = settings_found;
    let n_failed = trials.iter().filter(|trial| trial.ratio.is_none()).count();
    let failed = trials.iter().find(|trial| trial.ratio.is_none()).map(|first| {
        format!(
            "{} with unfinished runs, ranked as slowest. The first: {}.",
            counted_noun(n_failed, "trial"),
            runs.cause(&first.point.spec)
        )
    });
    let exhausted = (trials.len() < plan.n_trials).then(|| {
        let trials = counted_noun(trials.len(), "trial");
        format!("No further combination of values was found after {trials}.")
    });
    let omitted = &plan.space.omitted;
    let omitted = (!omitted.is_empty()).then(|| {
        format!(
            "Not searched, because the declaration has no usable range: {}.",
            omitted.join(", ")
        )
    });
    let idle: Vec<&str> = idle.iter().map(|idx| plan.space.dimensions[*idx].param.name).collect();
    let idle = (!idle.is_empty()).then(|| {
        let (kept, value) = match idle.len() {
            1 => (format!("The default of {} is", idle[0]), "its value"),
            _ => (format!("The defaults of {} are", idle.join(", ")), "their values"),
        };
        let percent = fixed(SIM_EQUAL_WITHIN * 100.0, 1);
        format!(
            "{kept} kept: without {value} in the best trial, the makespan on the training runs is at most {percent} % larger."
        )
    });
    let few = too_few_seeds(plan.held_out_seeds.len());
    let of_dimension = |(idx, dimension): (usize, &Dimension)| {
        let name = dimension.param.name;
        let is_used = trials.iter().skip(1).any(|trial| trial.point.coordinates[idx].is_some());
        match found.coordinates[idx] {
            _ if !is_used && 1 < trials.len() => {
                Some(format!("{name} had no effect with the other values of any trial."))
            }
            Some(Coordinate::At(position)) if dimension.can_exceed(position) => Some(format!(
                "The found {name} is at the end of its range: --param {name}=LOW..HIGH searches a longer one."
            )),
            _ => None,
        }
    };
    let of_dimensions = plan.space.dimensions.iter().enumerate().filter_map(of_dimension);
    let skipped = plan.space.skipped_note();
    let all =
        [runs.nothing_to_decide(), few, failed, exhausted, idle, skipped, omitted].into_iter();
    let all = all.flatten();
    all.chain(of_dimensions).collect()
}

#[cfg(test)]
mod tests {
    use topology::Machine;

    use super::*;
    use crate::compare::SimSetting;

    #[test]
    fn the_note_about_a_policy_without_a_request_is_about_all_training_workloads() {
        let machine = Machine::synthetic("nodes=1 cores=2").expect("a machine");
        let (options, limits, signals) = Default::default();
        let setting = SimSetting { machine, options, limits, signals };
        let bench = SimBench::without_solo_runs(setting, Vec::new()).expect("no workload");
        let plan = TunePlan {
            space: SearchSpace::new("ib", &[]).expect("it has parameters"),
            workloads: ["one", "two", "held-out"].map(str::to_owned).to_vec(),
            n_training: 2,
            training_seeds: vec![1],
            held_out_seeds: vec![2],
            n_trials: 1,
            search_seed: 1,
        };
        let noted = |workloads: &[&str]| {
            let run = |workload: &&str| {
                let policy = plan.space.base.clone();
                let key = RunKey { policy, workload: (*workload).to_owned(), seed: 1 };
                let note = workloads.contains(workload).then(|| "all cores are equal".to_owned());
                (key, RunMetrics { nothing_to_decide: note, ..RunMetrics::default() })
            };
            let done = ["one", "two", "held-out"].iter().map(run).collect();
            let (stop, on_run) = (&StopFlag::default(), &mut |_| {});
            let runs = Runs { bench: &bench, plan: &plan, done, n_threads: 1, stop, on_run };
            runs.nothing_to_decide().is_some()
        };
        assert_eq!(
            [noted(&["one"]), noted(&["two"]), noted(&["one", "two"])],
            [false, false, true]
        );
    }
}
