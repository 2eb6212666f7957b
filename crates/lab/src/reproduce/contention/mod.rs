//! Experiments on cache contention in which every split of a set is simulated, and which are therefore functions. The
//! other experiments are data, in `workloads/papers/contention/experiments.toml`.

mod optimum;
mod splits;

use report::study::RuleReading;

use super::measure_values::slowdowns;
use super::run_pool::Series;
use super::{Code, ReproduceError, RunPool, Testbed};
use crate::stats::{mean, mean_of};

/// Functions by name of the experiment.
pub(super) const CODE: &[Code] =
    &[("optimum", optimum::optimum), ("assignment-rule", splits::assignment_rules)];

/// Returns a policy with a reading and further parameters: `dio[reading=paper,interval=2s]`.
fn with_reading(policy: &str, reading: RuleReading, params: &str) -> String {
    let reading = (reading == RuleReading::Paper).then_some("reading=paper");
    let params = (!params.is_empty()).then_some(params);
    let params: Vec<&str> = reading.into_iter().chain(params).collect();
    match params.is_empty() {
        true => policy.to_owned(),
        false => format!("{policy}[{}]", params.join(",")),
    }
}

/// Returns the reading of a policy with parameters.
fn reading_of(policy: &str) -> RuleReading {
    if policy.contains("reading=paper") { RuleReading::Paper } else { RuleReading::Corrected }
}

/// Returns the mean seconds of each program alone.
fn alone_s(
    pool: &RunPool<'_>,
    testbed: &Testbed,
    programs: &[String],
) -> Result<Vec<f64>, ReproduceError> {
    let names: Vec<String> = programs.iter().map(|program| format!("alone {program}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let runs = pool.run(testbed, &["linux"], &names, pool.seeds())?.concat();
    Ok(runs.iter().map(|runs| mean(&runs.job_s(0))).collect())
}

/// Returns the mean slowdown of the programs of a workload, over all finished runs; `None` without a finished run.
fn mean_slowdown(runs: &Series, alone_s: &[f64]) -> Option<f64> {
    mean_of(slowdowns(runs, alone_s).iter().map(|run| mean(run)))
}
