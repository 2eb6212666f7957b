//! Statistics of a comparison.
//!
//! ```text
//!   runs ─► without failed and stopped ones ─► by workload: mean, interval, ratio of pairs, test, Holm, verdict
//!                                            └► over all workloads: geometric mean of the ratios, seeds as blocks
//! ```
//!
//! Over all workloads a seed counts if the policy and the baseline finished all of them. Seeds are resampled and tested as
//! blocks, since the runs of one seed on several workloads are not independent.

mod cells;
mod notes;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base::Nanos;
use program::Job;
use report::comparison::{
    Comparison, ComparisonVerdict, FORMAT, OptionRow, PolicyRow, Setting, SummaryRow,
};
use topology::Machine;

use super::{Plan, RunMetrics};
use crate::stats::{Verdict, holm, interval, mean, pairs_needed, signed_rank};
use cells::{Cells, Pairs};

/// Context of a comparison, beside its runs.
#[derive(Clone, Debug)]
pub struct SummaryContext<'a> {
    /// `sim` or `live`.
    pub host: &'a str,
    /// The machine.
    pub machine: &'a Machine,
    /// The jobs of each workload.
    pub jobs: &'a [Vec<Job>],
    /// Time of each job alone, by workload; empty if unknown.
    pub alone: &'a [Vec<Option<Nanos>>],
    /// Other options that affect the metrics, by name.
    pub options: &'a BTreeMap<String, String>,
    /// Report of a single run, by number of the run; a path relative to the comparison.
    pub timelines: &'a BTreeMap<usize, String>,
}

/// The report of the finished runs.
pub fn summarize(
    plan: &Plan,
    done: &BTreeMap<usize, RunMetrics>,
    about: &SummaryContext<'_>,
) -> Comparison {
    let cells = Cells::new(plan, done);
    let summary = rows::summary(&cells, about);
    let policies = policies(&cells, &summary);
    Comparison {
        format: FORMAT,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        setting: setting(plan, done.len(), about),
        notes: notes::notes(&cells, &summary, about),
        runs: rows::runs(&cells, about),
        policies,
        summary,
    }
}

/// Index of the seed with the median makespan of a policy on a workload.
pub(super) fn median_seed_of(
    plan: &Plan,
    done: &BTreeMap<usize, RunMetrics>,
    column: usize,
    workload: usize,
) -> Option<usize> {
    rows::median_seed(&Cells::new(plan, done).of(column, workload))
}

fn setting(plan: &Plan, n_done: usize, about: &SummaryContext<'_>) -> Setting {
    let option =
        |(name, value): (&String, &String)| OptionRow { name: name.clone(), value: value.clone() };
    Setting {
        host: about.host.to_owned(),
        machine: about.machine.name().to_owned(),
        n_nodes: about.machine.nodes().len() as u64,
        n_cpus: about.machine.cpus().len() as u64,
        baseline: plan.columns[plan.baseline].text.clone(),
        policies: plan.columns.iter().map(|column| column.text.clone()).collect(),
        workloads: plan.workloads.clone(),
        seeds: plan.seeds.clone(),
        n_runs: plan.n_runs() as u64,
        n_runs_done: n_done as u64,
        n_pairs_needed: pairs_needed(plan.columns.len() - 1) as u64,
        options: about.options.iter().map(option).collect(),
    }
}

/// Each policy over all workloads.
fn policies(cells: &Cells<'_>, summary: &[SummaryRow]) -> Vec<PolicyRow> {
    let plan = cells.plan;
    let pairs: Vec<Vec<Pairs>> =
        (0..plan.columns.len()).map(|column| cells.in_all(column)).collect();
    let tested: Vec<usize> =
        (0..plan.columns.len()).filter(|column| *column != plan.baseline).collect();
    let ps: Vec<f64> =
        tested.iter().map(|column| signed_rank(&mean_logs(&pairs[*column]))).collect();
    let corrected: BTreeMap<usize, f64> = tested.iter().copied().zip(holm(&ps)).collect();
    let row = |(column, pairs): (usize, &Vec<Pairs>)| {
        let n_seeds = pairs.first().map_or(0, |pairs| pairs.len());
        let is_baseline = column == plan.baseline;
        let of = |places: &[usize]| geometric_mean(pairs, places);
        let all: Vec<usize> = (0..n_seeds).collect();
        let ratio = (0 < n_seeds).then(|| of(&all));
        let within = if is_baseline { None } else { interval(n_seeds, of) };
        let p = corrected.get(&column).copied().filter(|_| 0 < n_seeds);
        let is_own = |row: &&SummaryRow| row.policy == plan.columns[column].text;
        let count =
            |word| summary.iter().filter(is_own).filter(|row| row.verdict == Some(word)).count();
        let average = |of: fn(&SummaryRow) -> Option<f64>| {
            let metrics: Vec<f64> = summary.iter().filter(is_own).filter_map(of).collect();
            (!metrics.is_empty()).then(|| mean(&metrics))
        };
        PolicyRow {
            policy: plan.columns[column].text.clone(),
            is_baseline,
            n_seeds: n_seeds as u64,
            ratio_to_baseline: ratio,
            ratio_ci95: within.map(rows::ends),
            p,
            verdict: p.map(|p| rows::word(Verdict::of(within, p))),
            n_better: count(ComparisonVerdict::Better) as u64,
            n_worse: count(ComparisonVerdict::Worse) as u64,
            n_inconclusive: count(ComparisonVerdict::Inconclusive) as u64,
            slowdown: average(|row| row.slowdown),
            unfairness: average(|row| row.unfairness),
            n_migrations: average(|row| row.n_migrations),
            n_moves: average(|row| row.n_moves),
            pages_moved_bytes: average(|row| row.pages_moved_bytes),
        }
    };
    pairs.iter().enumerate().map(row).collect()
}

/// By seed: the mean over the workloads of the logarithms of its ratios.
fn mean_logs(workloads: &[Pairs]) -> Vec<f64> {
    let n_seeds = workloads.first().map_or(0, |pairs| pairs.len());
    let of_seed = |seed: usize| {
        let logs: Vec<f64> = workloads.iter().map(|pairs| pairs.log_ratio(seed)).collect();
        mean(&logs)
    };
    (0..n_seeds).map(of_seed).collect()
}

/// Geometric mean over the workloads of the ratios of the mean times of some seeds.
fn geometric_mean(workloads: &[Pairs], places: &[usize]) -> f64 {
    let logs: Vec<f64> =
        workloads.iter().map(|pairs| libm::log(pairs.ratio_of_means(places))).collect();
    libm::exp(mean(&logs))
}
