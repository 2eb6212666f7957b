//! Evaluates the tables and claims of an experiment that is data.
//!
//! ```text
//!   bindings ─► runs of the policy and of the baseline ─► gains ─► values ─► cells, conditions, texts
//! ```
//!
//! A measure has one gain for each workload, or for each value of `vary`. A `show` or `found` with braces is a
//! template, such as `{n_above} of {n}`. The values of a measure:
//!
//! | value | meaning |
//! |---|---|
//! | `gain`, `percent` | mean over all gains, in %, with its interval, or with two decimals |
//! | `low`, `high` | ends of the 95 % confidence interval of this mean |
//! | `gains`, `gain.0` | every gain; the first gain |
//! | `min`, `max`, `largest` | smallest, largest gain; the gain with the largest absolute value |
//! | `abs`, `abs_max` | absolute value of the mean; of the `largest` |
//! | `n`, `n_above`, `n_significant` | number of gains; number of gains above 0; number of gains with an interval above 0 |
//! | `n_within`, `range` | number of gains within the binding `within`, such as `3 to 10`; range of 90 % of the gains |
//! | `n_inside`, `n_outside` | number of gains whose whole interval is inside or outside of `within` |
//! | `n_same_sign` | gains for which every seed has the sign of the mean |
//! | `same_sign` | of one gain: the number of seeds with the sign of the mean |
//! | `best` | the workload with the largest gain |
//! | `seconds`, `moves`, `response`, `gib` | means over the runs: makespan, moves, seconds of a job, GiB migrated |
//! | `deviation`, `variation` | over the seeds, of each job's time: mean standard deviation in s, median coefficient of variation in %; `base_…` of the baseline |
//! | `n_jobs`, `n_smaller_deviation`, `n_smaller_variation` | number of jobs; number of jobs with a smaller standard deviation, or coefficient of variation, than with the baseline |
//! | `n_runs`, `n_placed`, `n_requested` | finished runs; in all of them: placements of running jobs, requests to migrate pages |
//! | `placed_per_min`, `undamped_per_min` | means over the runs: placements of running jobs; migrations between caches if ranks were assigned by the rates of the last interval alone |
//! | `requested_per_h`, `started_per_h`, `gib_per_h` | means over the runs: requests to migrate pages, started page migrations, GiB migrated |
//! | `n_periods`, `n_on_several_nodes`, `percent_on_several_nodes` | number of periods after the end of Group 2 in which Group 1 runs; number and share of the periods in which Group 1 runs on several nodes |
//! | `n_rates`, `queue_full_variation`, `reference_variation` | periods of all tasks; largest coefficient of variation of a run over its periods |
//! | `kind_moves_per_min`, `node_moves_per_min` | means over the runs, per minute of CPU time: placements of running jobs on another core kind, and on another node |
//! | `sampling_percent` | mean over the runs, share of the CPU time in sampling rounds in %: [`super::overhead`] |
//! | `reads_per_min`, `steps_per_min` | means over the runs, per minute of CPU time: counter reads, steps of queues and comparisons |
//! | `ratios`, `ratio_min`, `n_below` | with `quantity`, one of the values above: policy over baseline for each value of `vary`; the smallest; number of values of `vary` for which the policy is below the baseline |
//!
//! An experiment is evaluated twice. The first evaluation collects the required runs, which are then simulated in one
//! batch per testbed. The second evaluation reads their results.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use report::study::{RuleReading, StudyCell, StudyClaim, StudyValue, StudyVerdict};

use super::ceiling::LeastTimes;
use super::definition::{Bindings, ClaimFile, ExperimentFile, filled, merged, names};
use super::divided::thresholds;
use super::finding::{claim, judged_claim, number, unjudged_claim, with_values};
use super::gain::set_s;
use super::measure_values::{
    JobTimesByRun, QuantityPair, formatted, gain_value, gains_cell, job_statistic, jobs,
    n_in_range, quantity_value, ratio, slowdowns,
};
use super::observation::{self, ObservedRuns};
use super::published_groups::published_group;
use super::remote_penalty::measured_penalties;
use super::run_pool::Series;
use super::{Gain, ReproduceError, RunPool, Testbed, overhead, program_sets};
use crate::compare::RunMetrics;
use crate::stats::{mean, mean_of};

#[cfg(test)]
mod tests;

/// A run that an experiment requires: testbed, policy, workload.
type RunRequest = (String, String, String);

/// Reads the runs of one experiment, of all seeds or of one draw.
pub(super) struct Evaluator<'a> {
    pool: &'a RunPool<'a>,
    seeds: Vec<u64>,
    draw: Option<u64>,
    testbeds: RefCell<BTreeMap<String, Rc<Testbed>>>,
    /// Values of `{limits}` and `{turtles}` by testbed.
    testbed_texts: RefCell<BTreeMap<(String, &'static str), String>>,
    /// Lower bounds by testbed and workload.
    bounds: RefCell<BTreeMap<(String, String), Rc<LeastTimes>>>,
    /// Lower bounds of the mean time of a set, by testbed and workload.
    set_bounds: RefCell<BTreeMap<(String, String), f64>>,
    requests: RefCell<BTreeSet<RunRequest>>,
    is_collecting: Cell<bool>,
}

impl<'a> Evaluator<'a> {
    /// Creates the evaluation of an experiment with all seeds of a pool, or with one draw.
    pub fn new(pool: &'a RunPool<'a>, experiment: &ExperimentFile, draw: Option<u64>) -> Self {
        let seeds = match (draw, experiment.seeds) {
            (None, n) => pool.seeds().iter().copied().take(n.unwrap_or(usize::MAX)).collect(),
            (Some(_), Some(n)) => (1..=n as u64).collect(),
            (Some(draw), None) => vec![draw],
        };
        Evaluator {
            pool,
            seeds,
            draw,
            testbeds: RefCell::default(),
            testbed_texts: RefCell::default(),
            bounds: RefCell::default(),
            set_bounds: RefCell::default(),
            requests: RefCell::default(),
            is_collecting: Cell::new(false),
        }
    }

    /// Calls `work` twice. The first call collects the required runs, which are simulated in one batch per testbed. The
    /// second call returns the result.
    pub fn evaluate<T>(
        &self,
        work: impl Fn(&Self) -> Result<T, ReproduceError>,
    ) -> Result<T, ReproduceError> {
        self.is_collecting.set(true);
        work(self)?;
        self.is_collecting.set(false);
        let mut by_testbed: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (on, policy, workload) in self.requests.borrow().iter().cloned() {
            by_testbed.entry(on).or_default().push((policy, workload));
        }
        for (on, pairs) in &by_testbed {
            let pairs = pairs.iter().map(|(policy, workload)| (&**policy, &**workload));
            self.pool.complete(&*self.testbed(on)?, pairs, &self.seeds)?;
        }
        work(self)
    }

    /// Returns a sentence for each policy and workload with runs that failed.
    pub fn failures(&self) -> Result<Vec<String>, ReproduceError> {
        let mut all: Vec<String> = Vec::new();
        for (on, policy, workload) in self.requests.borrow().iter() {
            let runs = self.pool.series(&*self.testbed(on)?, (policy, workload), &self.seeds)?;
            all.extend(runs.failure().filter(|failure| !all.contains(failure)));
        }
        Ok(all)
    }

    fn testbed(&self, on: &str) -> Result<Rc<Testbed>, ReproduceError> {
        if let Some(known) = self.testbeds.borrow().get(on) {
            return Ok(Rc::clone(known));
        }
        let testbed = Testbed::parse(on)?.with_profiles(self.pool.profiles());
        let mut testbed = self.draw.into_iter().fold(testbed, Testbed::drawn);
        if on.contains("penalty=declared") {
            let sets = ["unrestricted", "mixed", "memory-hungry"]
                .iter()
                .flat_map(|kind| program_sets::names(kind, 4));
            let programs: Result<Vec<_>, _> = sets.map(|set| testbed.programs(&set)).collect();
            let mut programs = programs?.concat();
            programs.sort();
            programs.dedup();
            let penalties = measured_penalties(self.pool, &testbed, &programs)?;
            testbed.set_penalties(penalties);
        }
        let testbed = Rc::new(testbed);
        self.testbeds.borrow_mut().insert(on.to_owned(), Rc::clone(&testbed));
        Ok(testbed)
    }

    /// Replaces bindings, and `{limits}` and `{turtles}` of the testbed, in a text by their values.
    pub fn filled(&self, text: &str, bindings: &Bindings) -> Result<String, ReproduceError> {
        let mut text = filled(text, bindings);
        for name in ["{limits}", "{turtles}"] {
            if !text.contains(name) {
                continue;
            }
            let key = (filled("{on}", bindings), name);
            let known = self.testbed_texts.borrow().get(&key).cloned();
            let value = match known {
                Some(value) => value,
                None => {
                    let testbed = self.testbed(&key.0)?;
                    let (machine, draw) = (&testbed.machine, testbed.draw);
                    let value = match name {
                        "{limits}" => thresholds(machine, draw)?,
                        _ => program_sets::always_turtles(machine, draw)?.join(", "),
                    };
                    self.testbed_texts.borrow_mut().entry(key).or_insert(value).clone()
                }
            };
            text = text.replace(name, &value);
        }
        Ok(text)
    }

    fn bound(&self, bindings: &Bindings, name: &str) -> Result<Option<String>, ReproduceError> {
        bindings.get(name).map(|text| self.filled(text, bindings)).transpose()
    }

    /// Returns the runs of the policy, or of the baseline, on a workload; `None` while requests are collected.
    fn results(
        &self,
        bindings: &Bindings,
        is_baseline: bool,
        workload: &str,
    ) -> Result<Option<Series>, ReproduceError> {
        let on = self.bound(bindings, "on")?.unwrap_or_default();
        let (policy, on) = match is_baseline {
            true => (
                self.bound(bindings, "baseline")?,
                self.bound(bindings, "baseline_on")?.unwrap_or(on),
            ),
            false => (self.bound(bindings, "policy")?, on),
        };
        self.runs_of(&on, &policy.unwrap_or("linux".to_owned()), workload)
    }

    fn runs_of(
        &self,
        on: &str,
        policy: &str,
        workload: &str,
    ) -> Result<Option<Series>, ReproduceError> {
        if self.is_collecting.get() {
            let request = (on.to_owned(), policy.to_owned(), workload.to_owned());
            self.requests.borrow_mut().insert(request);
            return Ok(None);
        }
        let testbed = self.testbed(on)?;
        Ok(Some(self.pool.series(&testbed, (policy, workload), &self.seeds)?))
    }

    fn workloads(&self, bindings: &Bindings) -> Result<Vec<String>, ReproduceError> {
        Ok(names(&self.bound(bindings, "workloads")?.unwrap_or_default()))
    }

    /// Returns one gain for each workload, or for each value of `vary`.
    fn gains(&self, bindings: &Bindings) -> Result<Vec<Gain>, ReproduceError> {
        let overrides: Bindings = (bindings.iter())
            .filter_map(|(name, value)| {
                Some((name.strip_prefix("minus_")?.to_owned(), value.clone()))
            })
            .collect();
        let Some((name, values)) = bindings.get("vary").and_then(|vary| vary.split_once(": "))
        else {
            let gains = self.gains_by_workload(bindings)?;
            return match overrides.is_empty() {
                true => Ok(gains),
                false => Ok(vec![self.difference(bindings, &overrides)?]),
            };
        };
        let mut all = Vec::new();
        for value in values.split('|') {
            let varied = Bindings::from([(name.to_owned(), value.to_owned())]);
            let varied = merged(bindings, &varied);
            match (bindings.get("per"), overrides.is_empty()) {
                (Some(_), _) => all.extend(self.gains_by_workload(&varied)?),
                (None, true) => all.push(Gain::mean_of(&self.gains_by_workload(&varied)?)),
                (None, false) => all.push(self.difference(&varied, &overrides)?),
            }
        }
        Ok(all)
    }

    fn difference(
        &self,
        bindings: &Bindings,
        overrides: &Bindings,
    ) -> Result<Gain, ReproduceError> {
        let mean = Gain::mean_of(&self.gains_by_workload(bindings)?);
        let other = self.gains_by_workload(&merged(bindings, overrides))?;
        Ok(mean.minus(&Gain::mean_of(&other)))
    }

    fn gains_by_workload(&self, bindings: &Bindings) -> Result<Vec<Gain>, ReproduceError> {
        let group = self.bound(bindings, "group")?.and_then(|group| group.parse::<u8>().ok());
        let statistic = self.bound(bindings, "statistic")?.unwrap_or_default();
        let mut gains = Vec::new();
        for workload in self.workloads(bindings)? {
            let jobs = self.jobs_of_group(&workload, group)?;
            if jobs.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let slowdowns = match &*statistic {
                "slowdown" | "worst-slowdown" => {
                    let worst = statistic == "worst-slowdown";
                    [false, true]
                        .map(|is_baseline| self.slowdown(bindings, is_baseline, &workload, worst))
                }
                _ => [Ok(None), Ok(None)],
            };
            let policy = self.results(bindings, false, &workload)?;
            let (Some(policy), Some(base)) = (policy, self.results(bindings, true, &workload)?)
            else {
                slowdowns.into_iter().collect::<Result<Vec<_>, _>>()?;
                gains.push(Gain::of_value(None));
                continue;
            };
            gains.push(match &*statistic {
                "speedup" => Gain::speedup(&policy, &base, jobs.as_deref()),
                "ceiling" => {
                    let least = self.least_times(bindings, &workload)?;
                    Gain::paired(&base, &base, |run, _| Some(least.time_saved(run)))
                }
                "speedup-ceiling" => {
                    let least = self.least_times(bindings, &workload)?;
                    Gain::paired(&base, &base, |run, _| least.speedup(run))
                }
                "set-time" => Gain::set_time(&policy, &base, &self.copies(bindings, &workload)?),
                "set-ceiling" => {
                    let (least, copies) =
                        (self.least_set_s(bindings, &workload)?, self.copies(bindings, &workload)?);
                    Gain::paired(&base, &base, |run, _| Some(1.0 - least / set_s(run, &copies)?))
                }
                "group-end" => Gain::group_end(&policy, &base, jobs.as_deref().unwrap_or_default()),
                "slowdown" | "worst-slowdown" => {
                    let [policy, baseline] = slowdowns;
                    Gain::of_value(
                        policy?.zip(baseline?).map(|(policy, baseline)| policy / baseline - 1.0),
                    )
                }
                _ => Gain::time_saved(&policy, &base),
            });
        }
        Ok(gains)
    }

    /// Returns the jobs of each program of a workload, or of the program of the binding `program`.
    fn copies(
        &self,
        bindings: &Bindings,
        workload: &str,
    ) -> Result<Vec<Vec<usize>>, ReproduceError> {
        let testbed = self.testbed(&self.bound(bindings, "on")?.unwrap_or_default())?;
        testbed.copies(workload, self.bound(bindings, "program")?.as_deref())
    }

    /// Returns the lower bound of the mean time of a set on the testbed of the policy, in seconds.
    fn least_set_s(&self, bindings: &Bindings, workload: &str) -> Result<f64, ReproduceError> {
        let key = (self.bound(bindings, "on")?.unwrap_or_default(), workload.to_owned());
        let known = self.set_bounds.borrow().get(&key).copied();
        known.map_or_else(
            || {
                let least = self.testbed(&key.0)?.least_set_s(workload)?;
                self.set_bounds.borrow_mut().insert(key, least);
                Ok(least)
            },
            Ok,
        )
    }

    /// Returns the lower bounds of the times of a workload on the testbed of the policy.
    fn least_times(
        &self,
        bindings: &Bindings,
        workload: &str,
    ) -> Result<Rc<LeastTimes>, ReproduceError> {
        let on = self.bound(bindings, "on")?.unwrap_or_default();
        let key = (on, workload.to_owned());
        if let Some(known) = self.bounds.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let least = Rc::new(self.testbed(&key.0)?.least_times(workload)?);
        self.bounds.borrow_mut().insert(key, Rc::clone(&least));
        Ok(least)
    }

    /// Returns the jobs of a published group of a shipped mix.
    fn jobs_of_group(
        &self,
        workload: &str,
        group: Option<u8>,
    ) -> Result<Option<Vec<usize>>, ReproduceError> {
        let Some(group) = group else { return Ok(None) };
        let jobs = crate::shipped::workload(workload)?.jobs;
        let members = jobs.iter().enumerate().filter(|(_, job)| published_group(job) == group);
        Ok(Some(members.map(|(idx, _)| idx).collect()))
    }

    /// Returns the slowdown of the programs of a set relative to their time alone: the mean or the largest value over
    /// all runs.
    fn slowdown(
        &self,
        bindings: &Bindings,
        is_baseline: bool,
        workload: &str,
        is_worst: bool,
    ) -> Result<Option<f64>, ReproduceError> {
        let on = self.bound(bindings, "on")?.unwrap_or_default();
        let programs = self.testbed(&on)?.programs(workload)?;
        let mut alone = Vec::new();
        for program in &programs {
            let runs = self.runs_of(&on, "linux", &format!("alone {program}"))?;
            alone.push(mean(&runs.map(|runs| runs.job_s(0)).unwrap_or_default()));
        }
        let Some(runs) = self.results(bindings, is_baseline, workload)? else { return Ok(None) };
        let slowdowns = slowdowns(&runs, &alone);
        let worst = |run: &Vec<f64>| run.iter().copied().fold(0.0, f64::max);
        Ok(match is_worst {
            true => slowdowns.iter().map(worst).reduce(f64::max),
            false => mean_of(slowdowns.iter().map(|run| mean(run))),
        })
    }

    /// Returns the values that `of` returns for the runs of the policy on each workload.
    fn all_runs<T>(
        &self,
        bindings: &Bindings,
        of: impl Fn(&Series) -> Vec<T>,
    ) -> Result<Vec<T>, ReproduceError> {
        let mut all = Vec::new();
        for workload in self.workloads(bindings)? {
            all.extend(self.results(bindings, false, &workload)?.iter().flat_map(&of));
        }
        Ok(all)
    }

    /// Returns the times of the jobs of the binding `job`, or of all jobs, with the policy and with the baseline.
    fn job_times(&self, bindings: &Bindings) -> Result<JobTimesByRun, ReproduceError> {
        let selected = jobs(bindings);
        let mut all = Vec::new();
        for workload in self.workloads(bindings)? {
            let policy = self.results(bindings, false, &workload)?;
            let Some((policy, base)) = policy.zip(self.results(bindings, true, &workload)?) else {
                continue;
            };
            let jobs =
                (0..base.n_jobs()).filter(|job| selected.is_empty() || selected.contains(job));
            all.extend(jobs.map(|job| (policy.job_s(job), base.job_s(job))));
        }
        Ok(all)
    }

    /// Returns a value of a measure as a number; gains in percent. `None` if the value is unknown.
    pub fn number(&self, bindings: &Bindings, value: &str) -> Result<Option<f64>, ReproduceError> {
        Ok(match value {
            "seconds" => mean_of(self.all_runs(bindings, Series::makespans_s)?),
            "moves" | "gib" => {
                let count = |(_, run): (u64, &RunMetrics)| match value {
                    "moves" => run.n_moves as f64,
                    _ => run.pages_moved_bytes as f64 / (1u64 << 30) as f64,
                };
                mean_of(self.all_runs(bindings, |runs| runs.all_runs().map(count).collect())?)
            }
            "response" => {
                let job_times =
                    |runs: &Series| (0..runs.n_jobs()).flat_map(|job| runs.job_s(job)).collect();
                mean_of(self.all_runs(bindings, job_times)?)
            }
            "n_jobs"
            | "n_smaller_deviation"
            | "n_smaller_variation"
            | "deviation"
            | "base_deviation"
            | "variation"
            | "base_variation" => job_statistic(&self.job_times(bindings)?, value),
            "ratio_min" | "n_below" => quantity_value(self.quantities(bindings)?, value),
            "n_within" | "n_inside" | "n_outside" => {
                let within = self.bound(bindings, "within")?.unwrap_or_default();
                Some(n_in_range(&self.gains(bindings)?, &within, value))
            }
            _ => match observation::value(value) {
                Some(value) => {
                    let runs = self.all_runs(bindings, Series::observations)?;
                    let is_steady = bindings.get("part").is_some_and(|part| part == "steady");
                    let jobs = jobs(bindings);
                    let policy = self.bound(bindings, "policy")?.unwrap_or_default();
                    let reads_counters = overhead::reads_counters(&policy);
                    let runs = ObservedRuns { runs: &runs, is_steady, jobs: &jobs, reads_counters };
                    value(&runs).filter(|_| !runs.runs.is_empty())
                }
                None => gain_value(&self.gains(bindings)?, value),
            },
        })
    }

    /// Returns the value `quantity` of the policy and of the baseline for each value of `vary`.
    fn quantities(&self, bindings: &Bindings) -> Result<Vec<QuantityPair>, ReproduceError> {
        let (name, values) = bindings["vary"].split_once(": ").expect("vary = \"NAME: VALUES\"");
        let pair = |value: &str| {
            let varied = merged(bindings, &Bindings::from([(name.to_owned(), value.to_owned())]));
            let policy = Bindings::from([("policy".to_owned(), bindings["baseline"].clone())]);
            let quantity = &bindings["quantity"];
            Ok((self.number(&varied, quantity)?, self.number(&merged(&varied, &policy), quantity)?))
        };
        values.split('|').map(pair).collect()
    }

    /// Returns a value of a measure as text with its unrounded values.
    pub fn cell(
        &self,
        bindings: &Bindings,
        value: &str,
        unit: &str,
    ) -> Result<StudyCell, ReproduceError> {
        let (name, idx) = value.split_once('.').unwrap_or((value, ""));
        Ok(match name {
            "ratios" => {
                let text = |(value, base): QuantityPair| {
                    let ratio = value.zip(base).and_then(|(value, base)| ratio(value, base));
                    if ratio == Some(f64::INFINITY) { "∞".to_owned() } else { number(ratio, 1) }
                };
                let ratios: Vec<String> =
                    self.quantities(bindings)?.into_iter().map(text).collect();
                StudyCell::new(ratios.join(", "), Vec::new())
            }
            "gain" | "percent" | "gains" | "largest" | "best" | "same_sign" | "range" => {
                let workloads = self.workloads(bindings)?;
                gains_cell(&self.gains(bindings)?, &workloads, (name, idx.parse().ok()), unit)
            }
            _ if value.contains('{') => self.text(&BTreeMap::new(), bindings, (value, unit))?,
            _ => self.number_cell(bindings, name, unit)?,
        })
    }

    /// Fills a template with the values of a measure, or of the named measures of a claim.
    fn text(
        &self,
        measures: &BTreeMap<String, Bindings>,
        bindings: &Bindings,
        (template, unit): (&str, &str),
    ) -> Result<StudyCell, ReproduceError> {
        let (mut text, mut values) = (String::new(), Vec::new());
        for (idx, part) in self.filled(template, bindings)?.split(['{', '}']).enumerate() {
            if idx % 2 == 0 {
                text.push_str(part);
                continue;
            }
            let (bindings, value) = measure(measures, bindings, part);
            let cell = self.cell(&bindings, value, unit)?;
            text.push_str(&cell.text);
            // The preceding count already contains its total.
            let is_total = ["n", "n_jobs", "n_periods"].contains(&value);
            values.extend(cell.values.into_iter().filter(|_| !is_total));
        }
        Ok(StudyCell::new(text, values))
    }

    /// Returns a number, or a count with its total.
    fn number_cell(
        &self,
        bindings: &Bindings,
        name: &str,
        unit: &str,
    ) -> Result<StudyCell, ReproduceError> {
        let number = self.number(bindings, name)?;
        let total = match name {
            "n_above" | "n_significant" => self.number(bindings, "n")?,
            "n_smaller_deviation" | "n_smaller_variation" => self.number(bindings, "n_jobs")?,
            "n_on_several_nodes" => self.number(bindings, "n_periods")?,
            _ => None,
        };
        let unit = match name {
            "gib_per_h" => "GiB/h",
            _ if name.starts_with('n') => "count",
            _ if name.ends_with("_per_h") => "1/h",
            _ if name.ends_with("_per_min") => "1/min",
            _ => unit,
        };
        let value = |number| match total {
            Some(total) => StudyValue::count(number as usize, total as usize),
            None => StudyValue::of(number, unit),
        };
        let digits = bindings.get("digits").and_then(|digits| digits.parse().ok());
        let text = formatted(name, number, digits);
        Ok(StudyCell::new(text, number.map(value).into_iter().collect()))
    }

    /// Returns the product of the factors of an operand; a factor is a number, a value of the claim, or a value of one
    /// of its measures.
    fn operand(
        &self,
        claim: &ClaimFile,
        bindings: &Bindings,
        text: &str,
    ) -> Result<Option<f64>, ReproduceError> {
        let mut product = Some(1.0);
        for factor in text.split('*') {
            let value = match factor.parse::<f64>() {
                Ok(number) => Some(number),
                Err(_) => {
                    let (bindings, value) = measure(&claim.measure, bindings, factor);
                    self.number(&bindings, value)?
                }
            };
            product = product.zip(value).map(|(product, value)| product * value);
        }
        Ok(product)
    }

    /// Returns whether all conditions of a claim are true; `None` if a value is unknown, if there is no condition, or if
    /// the ceiling is below the published value.
    pub fn holds(
        &self,
        claim: &ClaimFile,
        bindings: &Bindings,
    ) -> Result<Option<bool>, ReproduceError> {
        match self.all_true(&claim.judged_if, claim, bindings)? {
            Some(false) => Ok(None),
            _ => self.all_true(&claim.test, claim, bindings),
        }
    }

    /// Returns whether all conditions are true; `None` if a value is unknown or there is no condition.
    fn all_true(
        &self,
        tests: &[String],
        claim: &ClaimFile,
        bindings: &Bindings,
    ) -> Result<Option<bool>, ReproduceError> {
        let mut holds = (!tests.is_empty()).then_some(true);
        for test in tests {
            let alternatives = test.split(" or ").map(|one| self.is_true(one, claim, bindings));
            let alternatives: Option<Vec<bool>> =
                alternatives.collect::<Result<Vec<_>, _>>()?.into_iter().collect();
            let is_true = alternatives.map(|all| all.contains(&true));
            holds = holds.zip(is_true).map(|(all, one)| all && one);
        }
        Ok(holds)
    }

    /// Returns whether a condition without alternatives is true; `None` if a value is unknown.
    fn is_true(
        &self,
        test: &str,
        claim: &ClaimFile,
        bindings: &Bindings,
    ) -> Result<Option<bool>, ReproduceError> {
        let words: Vec<&str> = test.split(' ').collect();
        let [left, operator, right] = words[..] else { panic!("{test}: a condition") };
        let left = self.operand(claim, bindings, left)?;
        let right = self.operand(claim, bindings, right)?;
        Ok(left.zip(right).map(|(left, right)| match operator {
            "<" => left < right,
            "<=" => left <= right,
            "=" => left == right,
            _ => panic!("{test}: an operator"),
        }))
    }

    /// Returns the verdict of a claim.
    pub fn claim(
        &self,
        file: &ClaimFile,
        bindings: &Bindings,
    ) -> Result<StudyClaim, ReproduceError> {
        let text = self.filled(&file.claim, bindings)?;
        let found = self.text(&file.measure, bindings, (&file.found, &file.unit))?;
        let reading = reading(bindings);
        if file.test.is_empty() {
            return Ok(claim(&text, reading, found.text, StudyVerdict::NotJudged));
        }
        if self.all_true(&file.judged_if, file, bindings)? == Some(false) {
            let ceiling = self.text(&file.measure, bindings, (&file.ceiling, &file.unit))?;
            let reason = format!("on this input: {}; found {}", ceiling.text, found.text);
            let values = [ceiling.values, found.values].concat();
            return Ok(with_values(unjudged_claim(&text, reading, &reason), values));
        }
        if self.all_true(&file.decided_if, file, bindings)? == Some(false) {
            let reason = format!("an interval contains a limit; found {}", found.text);
            return Ok(with_values(unjudged_claim(&text, reading, &reason), found.values));
        }
        let is_true = self.holds(file, bindings)?;
        Ok(with_values(judged_claim(&text, reading, found.text, is_true), found.values))
    }
}

/// Returns the reading of a claim: the binding `reading`.
pub(super) fn reading(bindings: &Bindings) -> RuleReading {
    match bindings.get("reading").map(String::as_str) {
        Some("paper") => RuleReading::Paper,
        Some("corrected") => RuleReading::Corrected,
        None => RuleReading::Either,
        Some(other) => panic!("{other}: no such reading"),
    }
}

/// Returns the bindings and name of a value such as `far.gain.0`, where `far` is a measure of the claim.
fn measure<'t>(
    measures: &BTreeMap<String, Bindings>,
    bindings: &Bindings,
    text: &'t str,
) -> (Bindings, &'t str) {
    match text.split_once('.').and_then(|(name, value)| Some((measures.get(name)?, value))) {
        Some((over, value)) => (merged(bindings, over), value),
        None => (bindings.clone(), text),
    }
}
