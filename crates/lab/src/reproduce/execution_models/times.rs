//! Completion times with the rules for threads.

use report::study::{RuleReading, StudyClaim};

use super::models::{Model, RULES, policies, testbed};
use crate::compare::RunMetrics;
use crate::reproduce::finding::{judged_claim, number, unjudged_claim};
use crate::reproduce::ib::{PLATFORMS, Platform, SETS};
use crate::reproduce::run_pool::Series;
use crate::reproduce::{Finding, FindingTable, Gain, ReproduceError, RunPool};
use crate::stats::mean;

/// Threads of a fork, and stages of a pipeline.
const N_THREADS: [u32; 3] = [2, 4, 8];
/// Serial shares in percent.
const SERIAL: [u32; 3] = [5, 10, 30];
/// Largest loss of a set with all rules.
const LOSS_MAX: f64 = 0.02;

/// Runs of a platform, by rule and workload.
struct Runs<'a> {
    platform: &'a Platform,
    by_rule: Vec<Vec<Series>>,
}

impl Runs<'_> {
    /// Returns the saved share of the times of the programs with a rule, on a workload.
    fn gain(&self, rule: usize, workload: usize) -> Gain {
        let [policy, base] = [rule, 0].map(|rule| &self.by_rule[rule][workload]);
        Gain::paired(policy, base, |run: &RunMetrics, base: &RunMetrics| {
            let saved = |job| Some(1.0 - run.job_s(job)? / base.job_s(job)?);
            Some(mean(&(0..base.jobs.len()).map(saved).collect::<Option<Vec<f64>>>()?))
        })
    }

    fn mean_gain(&self, rule: usize, workloads: impl Iterator<Item = usize>) -> Gain {
        Gain::mean_of(&workloads.map(|workload| self.gain(rule, workload)).collect::<Vec<Gain>>())
    }

    /// Returns the mean time of the programs with `ib` alone in seconds.
    fn seconds(&self, workload: usize) -> Option<f64> {
        let runs = &self.by_rule[0][workload];
        let each: Vec<f64> = (0..runs.n_jobs()).flat_map(|job| runs.job_s(job)).collect();
        (!each.is_empty()).then(|| mean(&each))
    }

    fn moves(&self, rule: usize, workload: usize) -> f64 {
        let runs = self.by_rule[rule][workload].finished_runs();
        mean(&runs.map(|(_, run)| run.n_moves as f64).collect::<Vec<f64>>())
    }

    /// Returns the tables of a platform: saved time, and moves of jobs and threads.
    fn tables(&self, names: &[String]) -> [FindingTable; 2] {
        let platform = self.platform.name;
        let rules = || RULES.iter().map(|(rule, _)| *rule);
        let heads: Vec<&str> = ["workload"].into_iter().chain(rules()).collect();
        let title = format!("{platform}: mean time with ib alone, and time saved by each rule");
        let mut saved = FindingTable::new(&title, &heads).units(&["s", "%"]);
        let with_hass_d = RULES.len() < self.by_rule.len();
        let heads: Vec<&str> = heads.into_iter().chain(with_hass_d.then_some("hass-d")).collect();
        let title = format!("{platform}: moves of jobs and threads per run");
        let mut moved = FindingTable::new(&title, &heads).units(&["count"]);
        for (workload, name) in names.iter().enumerate() {
            let gains = (1..RULES.len()).map(|rule| self.gain(rule, workload).cell());
            let first = [name.as_str().into(), number(self.seconds(workload), 1).into()];
            saved.row(first.into_iter().chain(gains));
            let moves =
                (0..self.by_rule.len()).map(|rule| number(Some(self.moves(rule, workload)), 1));
            moved.row(std::iter::once(name.clone()).chain(moves));
        }
        [saved, moved]
    }

    /// Returns the claim that a rule shortens workloads: the interval of the mean saved time is above 0.
    fn shortens(&self, text: &str, rule: usize, workloads: &[usize]) -> StudyClaim {
        let gain = self.mean_gain(rule, workloads.iter().copied());
        let each: Vec<String> =
            workloads.iter().map(|workload| self.gain(rule, *workload).percent()).collect();
        let found = format!("{} %, each: {}", gain.percent_with_interval(), each.join(", "));
        let text = format!("{}: {text}", self.platform.name);
        judged_claim(&text, RuleReading::Corrected, found, gain.is_significant())
    }
}

/// Runs the models on all platforms and adds their tables and claims.
fn run_models(
    pool: &RunPool<'_>,
    models: &[Model],
    claims: impl Fn(&Runs<'_>) -> Vec<StudyClaim>,
) -> Result<Finding, ReproduceError> {
    let mut finding = Finding::default();
    let names: Vec<String> = models.iter().map(|model| model.name()).collect();
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    for platform in &PLATFORMS {
        let testbed = testbed(platform, models)?;
        let policies = policies(platform);
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let runs = Runs { platform, by_rule: pool.run(&testbed, &policies, &texts, pool.seeds())? };
        finding.tables.extend(runs.tables(&names));
        finding.claims.extend(claims(&runs));
        finding.notes.extend(runs.by_rule.iter().flatten().filter_map(Series::failure));
    }
    Ok(finding)
}

/// Index of a rule in [`RULES`].
const TLP: usize = 1;
const LRT: usize = 2;
const COSCHED: usize = 3;
const ALL: usize = 4;

pub(super) fn fork_join(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let shapes: Vec<(u32, u32)> =
        SERIAL.iter().flat_map(|serial| N_THREADS.map(|n_threads| (n_threads, *serial))).collect();
    let models: Vec<Model> =
        shapes.iter().map(|&(n_threads, serial)| Model::ForkJoin { n_threads, serial }).collect();
    let long: Vec<usize> = (0..shapes.len()).filter(|idx| 10 <= shapes[*idx].1).collect();
    run_models(pool, &models, |runs| {
        vec![runs.shortens("tlp shortens programs with a serial share of 10 % or more", TLP, &long)]
    })
}

pub(super) fn unlike_threads(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let models = N_THREADS.map(|n_threads| Model::UnlikeFork { n_threads });
    run_models(pool, &models, |runs| {
        vec![runs.shortens("lrt shortens forks whose threads have different work", LRT, &[0, 1, 2])]
    })
}

pub(super) fn pipeline(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let of = |has_long| N_THREADS.map(|n_stages| Model::Pipeline { n_stages, has_long });
    let models = [of(true), of(false)].concat();
    run_models(pool, &models, |runs| {
        let equal = runs.mean_gain(COSCHED, 3..6);
        let is_same = equal.interval.map(|within| within.low <= 0.0 && 0.0 <= within.high);
        vec![
            runs.shortens(
                "cosched shortens pipelines whose stages have different work",
                COSCHED,
                &[0, 1, 2],
            ),
            judged_claim(
                &format!(
                    "{}: cosched does not change pipelines with equal stages",
                    runs.platform.name
                ),
                RuleReading::Corrected,
                format!("{} %", equal.percent_with_interval()),
                is_same,
            ),
        ]
    })
}

pub(super) fn sets(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let mut finding = Finding::default();
    let names = SETS.map(str::to_owned);
    for platform in &PLATFORMS {
        let testbed = platform.testbed("")?;
        let mut policies = policies(platform);
        policies.push("hass-d".to_owned());
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let runs = Runs { platform, by_rule: pool.run(&testbed, &policies, &SETS, pool.seeds())? };
        finding.tables.extend(runs.tables(&names));
        finding.claims.extend(set_claims(&runs));
        finding.notes.extend(runs.by_rule.iter().flatten().filter_map(Series::failure));
    }
    let reason = "cargo xtask bench decisions measures and judges it";
    let text = "the decision cost is below that of hass-d";
    finding.claims.push(unjudged_claim(text, RuleReading::Corrected, reason));
    Ok(finding)
}

fn set_claims(runs: &Runs<'_>) -> Vec<StudyClaim> {
    let platform = runs.platform.name;
    let gains = |rule| (0..SETS.len()).map(move |set| runs.gain(rule, set));
    let largest = |rule| gains(rule).flat_map(|gain| gain.each).map(f64::abs).fold(0.0, f64::max);
    let change = largest(TLP).max(largest(COSCHED));
    let worst = gains(ALL).map(|gain| gain.mean).fold(f64::INFINITY, f64::min);
    let moves =
        |rule| mean(&(0..SETS.len()).map(|set| runs.moves(rule, set)).collect::<Vec<f64>>());
    let [all, hass_d] = [ALL, RULES.len()].map(moves);
    let judged = |text: &str, found: String, is_true| {
        judged_claim(&format!("{platform}: {text}"), RuleReading::Corrected, found, Some(is_true))
    };
    vec![
        judged(
            "tlp and cosched change no run of a set of single-threaded programs",
            format!("largest change {} %", number(Some(100.0 * change), 2)),
            change == 0.0,
        ),
        judged(
            "all rules together lengthen no set by more than 2 %",
            format!("smallest saving {} %", number(Some(100.0 * worst), 2)),
            -LOSS_MAX <= worst,
        ),
        judged(
            "fewer moves than hass-d",
            format!("{} instead of {} per run", number(Some(all), 1), number(Some(hass_d), 1)),
            all < hass_d,
        ),
    ]
}
