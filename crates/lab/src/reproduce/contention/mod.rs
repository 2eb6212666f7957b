//! Functions of the experiments on contention for caches and on NUMA; the others are data, in
//! `workloads/papers/contention/experiments.toml`.

mod action_counts;
mod damping;
mod moves;
mod optimum;
mod rules;
mod splits;

use report::study::RuleReading;

use super::finding::mean_of;
use super::{Code, ReproduceError, RunPool, RunResults, Testbed};
use crate::stats::mean;

/// By experiment.
pub(super) const CODE: &[Code] = &[
    ("optimum", optimum::optimum),
    ("deals", splits::deals),
    ("damping", damping::damping),
    ("memory-moves", moves::memory_moves),
    ("published-moves", moves::published_moves),
    ("turtles", moves::turtles),
    ("rules", rules::rules),
];

/// How far misses rise and fall in artificial phases.
const SWINGS: [f64; 4] = [0.0, 0.3, 0.6, 0.9];

/// A testbed for each swing.
fn swinging(machine: &str, seconds: u32) -> Result<Vec<Testbed>, ReproduceError> {
    let parse = |by| Testbed::parse(&format!("{machine} length={seconds} swing={by}"));
    SWINGS.into_iter().map(parse).collect()
}

/// A policy with a reading and further parameters: `dio[reading=paper,interval=2s]`.
fn with_reading(policy: &str, reading: RuleReading, params: &str) -> String {
    let reading = (reading == RuleReading::Paper).then_some("reading=paper");
    let params = (!params.is_empty()).then_some(params);
    let params: Vec<&str> = reading.into_iter().chain(params).collect();
    match params.is_empty() {
        true => policy.to_owned(),
        false => format!("{policy}[{}]", params.join(",")),
    }
}

/// The reading of a policy with parameters.
fn reading_of(policy: &str) -> RuleReading {
    if policy.contains("reading=paper") { RuleReading::Paper } else { RuleReading::Ours }
}

/// Mean seconds of each program alone.
fn alone_s(
    pool: &RunPool<'_>,
    testbed: &Testbed,
    programs: &[String],
) -> Result<Vec<f64>, ReproduceError> {
    let names: Vec<String> = programs.iter().map(|program| format!("alone {program}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let results = pool.run(testbed, &["linux"], &names)?;
    let seconds = |idx| results.job_s(0, idx, 0).into_iter().flatten().collect::<Vec<f64>>();
    Ok((0..names.len()).map(|idx| mean(&seconds(idx))).collect())
}

/// Mean slowdown of the programs of a workload, over all finished runs; none without any.
fn mean_slowdown(
    results: &RunResults,
    (policy, workload): (usize, usize),
    alone_s: &[f64],
) -> Option<f64> {
    let runs = results.slowdowns(policy, workload, alone_s);
    mean_of(&runs.iter().map(|run| mean(run)).collect::<Vec<f64>>())
}
