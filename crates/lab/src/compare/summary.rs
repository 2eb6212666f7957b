//! Statistics of a comparison.
//!
//! ```text
//!   runs ─► pairs of equal seed ─► by workload: ratio, interval, test, Holm, verdict
//!       │                       └► over all workloads: geometric mean of the ratios, seeds as blocks
//!       └─► finished runs ─► mean, interval, slowdown, costs
//! ```
//!
//! With drawn profiles, the runs of one draw are one observation: their mean. They share the values of the draw, so
//! they are not independent, and the interval contains the uncertainty of the profiles only if draws are resampled.
//!
//! Over all workloads, only seeds with which the policy and the baseline ran on all workloads are used. Seeds are
//! resampled and tested as blocks, since the runs of one seed on several workloads are not independent.

mod pairs;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use program::Job;
use report::comparison::{
    Compared, Comparison, ComparisonVerdict, FORMAT, OptionRow, PolicyRow, Setting, SummaryRow,
};
use report::format::fixed;
use topology::Machine;

use super::{
    Column, ComparePlan, Completion, OracleSearch, RunKey, RunMetrics, RunSeries, SoloTimes,
    jobs_without_ranges,
};
use crate::assignment::{N_LISTS_MAX, N_TASKS_MAX};
use crate::stats::{holm, mean_of, pairs_needed};
use pairs::{PairedRuns, RunPair};

/// Context of the runs of a comparison.
#[derive(Clone, Debug)]
pub struct SummaryContext<'a> {
    /// `sim` or `live`.
    pub host: &'a str,
    /// The machine.
    pub machine: &'a Machine,
    /// The jobs of each workload.
    pub jobs: &'a [Vec<Job>],
    /// Times of jobs alone; empty if unknown.
    pub alone: &'a SoloTimes,
    /// The command that repeats the comparison.
    pub command: Option<&'a str>,
    /// Other options that affect the metrics, by name.
    pub options: &'a BTreeMap<String, String>,
    /// Reports of single runs, as paths relative to the comparison.
    pub timelines: &'a BTreeMap<RunKey, String>,
    /// Outputs of the jobs of live runs, as in the note about failed runs: `standard error: runs/…/command.err`.
    pub outputs: &'a BTreeMap<RunKey, String>,
}

/// Ratios of simulated makespans that differ from 1 by at most this much are equal: approximations of
/// the simulator usually move the end of a job by less than 0.1 % of its run time (docs/simulator.md).
pub(crate) const SIM_EQUAL_WITHIN: f64 = 0.001;

impl SummaryContext<'_> {
    /// Returns the tolerance within which a ratio is 1. Live runs have none: they are measured, without the
    /// approximations of the simulator.
    fn equal_within(&self) -> Option<f64> {
        (self.host == "sim").then_some(SIM_EQUAL_WITHIN)
    }
}

/// Returns the report of the finished runs.
pub fn summarize(
    plan: &ComparePlan,
    done: &BTreeMap<RunKey, RunMetrics>,
    about: &SummaryContext<'_>,
) -> Comparison {
    let cells = Cells { plan, done };
    let summary = rows::summary(&cells, about);
    let policies = policies(&cells, &summary, about);
    let setting = setting(plan, done.len(), about);
    Comparison {
        format: FORMAT,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        notes: notes(&cells, &summary, (&setting, about)),
        setting,
        runs: rows::runs(&cells, about),
        policies,
        summary,
    }
}

/// Returns the finished runs with the median makespan of each policy on each workload.
pub fn median_runs(plan: &ComparePlan, done: &BTreeMap<RunKey, RunMetrics>) -> Vec<RunKey> {
    let cells = Cells { plan, done };
    let of_column = |column| {
        let workloads = 0..plan.workloads.len();
        workloads.map(move |workload| cells.series(column, workload).median())
    };
    (0..plan.columns.len()).flat_map(of_column).flatten().collect()
}

fn setting(plan: &ComparePlan, n_done: usize, about: &SummaryContext<'_>) -> Setting {
    let option =
        |(name, value): (&String, &String)| OptionRow { name: name.clone(), value: value.clone() };
    Setting {
        host: about.host.to_owned(),
        compared: match plan.columns.iter().any(|column| column.command.is_some()) {
            true => Compared::Commands,
            false => Compared::Policies,
        },
        machine: about.machine.name().to_owned(),
        n_nodes: about.machine.nodes().len() as u64,
        n_cpus: about.machine.online().len() as u64,
        baseline: plan.columns[plan.baseline].text.clone(),
        columns: plan.columns.iter().map(|column| column.text.clone()).collect(),
        workloads: plan.workloads.clone(),
        seeds: plan.seeds.clone(),
        n_runs: plan.n_runs() as u64,
        n_runs_done: n_done as u64,
        n_profile_draws: plan.n_draws.map(|n_draws| n_draws as u64),
        n_pairs_needed: pairs_needed(plan.columns.len() - 1) as u64,
        equal_within: about.equal_within(),
        command: about.command.map(str::to_owned),
        options: about.options.iter().map(option).collect(),
    }
}

/// Returns one row per policy, over all workloads.
fn policies(
    cells: &Cells<'_>,
    summary: &[SummaryRow],
    about: &SummaryContext<'_>,
) -> Vec<PolicyRow> {
    let plan = cells.plan;
    let pairs: Vec<PairedRuns> =
        (0..plan.columns.len()).map(|column| cells.pairs_on_all_workloads(column)).collect();
    let tested: Vec<usize> = (0..plan.columns.len())
        .filter(|column| *column != plan.baseline && pairs[*column].p().is_some())
        .collect();
    let ps: Vec<f64> = tested.iter().filter_map(|column| pairs[*column].p()).collect();
    let corrected: BTreeMap<usize, f64> = tested.iter().copied().zip(holm(&ps)).collect();
    let row = |(column, pairs): (usize, &PairedRuns)| {
        let is_baseline = column == plan.baseline;
        let is_same_as_baseline = !is_baseline && pairs.is_same_as_baseline();
        // Equal runs are not the result of a test.
        let p = corrected.get(&column).copied().filter(|_| !is_same_as_baseline);
        let interval = pairs.interval().filter(|_| !is_baseline && !is_same_as_baseline);
        let own = || summary.iter().filter(|row| row.column == plan.columns[column].text);
        let count = |word| own().filter(|row| row.verdict == Some(word)).count() as u64;
        let average = |value: fn(&SummaryRow) -> Option<f64>| mean_of(own().filter_map(value));
        PolicyRow {
            column: plan.columns[column].text.clone(),
            policy: plan.columns[column].policy.clone(),
            command: plan.columns[column].command_text(),
            is_baseline,
            is_oracle: plan.columns[column].is_oracle(),
            n_seeds: pairs.n_observations() as u64,
            n_tested: pairs.n_tested() as u64,
            n_failed: own().map(|row| row.n_failed).sum(),
            is_identical: !is_baseline && pairs.is_identical(),
            is_same_as_baseline,
            ratio_to_baseline: pairs.ratio(),
            ratio_absent_because: pairs.ratio_absent_because(),
            ratio_ci95: interval.map(rows::ends),
            p,
            verdict: p.map(|p| rows::word(pairs.verdict(p, cells.tolerance(pairs, about)))),
            n_better: count(ComparisonVerdict::Better),
            n_worse: count(ComparisonVerdict::Worse),
            n_equal: count(ComparisonVerdict::Equal),
            n_inconclusive: count(ComparisonVerdict::Inconclusive),
            slowdown: average(|row| row.slowdown),
            unfairness: average(|row| row.unfairness),
            n_migrations: average(|row| row.n_migrations),
            n_moves: average(|row| row.n_moves),
            pages_moved_bytes: average(|row| row.pages_moved_bytes),
            n_migrations_median: average(|row| row.n_migrations_median),
            n_moves_median: average(|row| row.n_moves_median),
            pages_moved_median_bytes: average(|row| row.pages_moved_median_bytes),
        }
    };
    pairs.iter().enumerate().map(row).collect()
}

/// The runs of a plan by policy and workload.
#[derive(Clone, Copy)]
struct Cells<'a> {
    pub plan: &'a ComparePlan,
    done: &'a BTreeMap<RunKey, RunMetrics>,
}

impl<'a> Cells<'a> {
    /// Returns every run with its key, in order.
    pub fn runs(&self) -> impl Iterator<Item = (RunKey, &'a RunMetrics)> {
        self.plan.keys().filter_map(|key| self.done.get(&key).map(|run| (key, run)))
    }

    /// Returns the runs of a policy on a workload.
    pub fn series(&self, column: usize, workload: usize) -> RunSeries<&'a RunMetrics> {
        let (column, workload) = (&self.plan.columns[column], &self.plan.workloads[workload]);
        RunSeries::new((&column.text, workload), &self.plan.seeds, |key| self.done.get(key))
    }

    /// Returns the tolerance of a verdict. Too few pairs permit none, as the bootstrap of few pairs is too narrow.
    pub fn tolerance(&self, pairs: &PairedRuns, about: &SummaryContext<'_>) -> Option<f64> {
        let has_enough = pairs_needed(self.plan.columns.len() - 1) <= pairs.n_tested();
        about.equal_within().filter(|_| has_enough)
    }

    /// Returns the pairs of a policy with the baseline on a workload, by seed.
    pub fn pairs(&self, column: usize, workload: usize) -> BTreeMap<u64, RunPair> {
        let base = self.series(self.plan.baseline, workload);
        let series = self.series(column, workload);
        let pair = |(seed, own, base)| (seed, RunPair::new(own, base));
        series.all_pairs(&base).map(pair).collect()
    }

    /// Returns the pairs of a policy with the baseline on all workloads. Only seeds with a pair on every workload are
    /// included.
    pub fn pairs_on_all_workloads(&self, column: usize) -> PairedRuns {
        let workloads = 0..self.plan.workloads.len();
        let all: Vec<BTreeMap<u64, RunPair>> =
            workloads.map(|workload| self.pairs(column, workload)).collect();
        let of_seed = |seed: &u64| {
            let pairs: Option<Vec<RunPair>> =
                all.iter().map(|pairs| pairs.get(seed).copied()).collect();
            Some((self.plan.observation_of(*seed), pairs?))
        };
        PairedRuns::new(self.plan.seeds.iter().filter_map(of_seed))
    }
}

/// Returns notes that restrict the interpretation of the metrics.
fn notes(
    cells: &Cells<'_>,
    summary: &[SummaryRow],
    (setting, about): (&Setting, &SummaryContext<'_>),
) -> Vec<String> {
    let parts = [
        interrupted(cells),
        too_few_seeds(cells, summary, setting.compared),
        unfinished_runs(cells, setting.compared, about),
        identical(summary),
        drawn_profiles(cells, about),
        bounded_model_gaps(cells),
        no_model_gaps(cells, about),
        no_slowdowns(cells, about),
        oracle_searches(cells, about),
        below_oracle(summary),
    ];
    parts.into_iter().flatten().chain(nothing_to_decide(cells)).collect()
}

/// Returns a note about each policy that had nothing to decide on this machine.
fn nothing_to_decide(cells: &Cells<'_>) -> Vec<String> {
    let columns = cells.plan.columns.iter().enumerate();
    // The note of a run of the oracle is that of its best candidate.
    let columns = columns.filter(|(_, column)| !column.is_oracle());
    let of_column = |(idx, column): (usize, &Column)| {
        let all = (0..cells.plan.workloads.len()).map(|workload| cells.series(idx, workload));
        RunSeries::nothing_to_decide_in_all(all, &column.policy)
    };
    let mut notes: Vec<String> = Vec::new();
    for note in columns.filter_map(of_column) {
        // Several commands can have the same policy.
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

fn interrupted(cells: &Cells<'_>) -> Option<String> {
    let (n, n_done) = (cells.plan.n_runs(), cells.runs().count());
    (n_done < n).then(|| {
        let runs = base::counted_noun(n, "run");
        format!("Interrupted: {n_done} of {runs} done; the same command with the same directory resumes the comparison.")
    })
}

fn too_few_seeds(cells: &Cells<'_>, summary: &[SummaryRow], compared: Compared) -> Option<String> {
    let n_compared = cells.plan.columns.len() - 1;
    let n_draws = cells.plan.n_draws;
    let (needed, n_seeds) = (pairs_needed(n_compared), n_draws.unwrap_or(cells.plan.seeds.len()));
    let is_tested = summary.iter().any(|row| row.p.is_some()); // More identical runs would not help.
    (n_seeds < needed && is_tested).then(|| {
        let others = match n_compared {
            1 => format!("one {}", compared.noun()),
            n => base::counted_noun(n, compared.noun()),
        };
        let repetition = match n_draws {
            Some(_) => "profile draw",
            None => compared.repetition(),
        };
        let verb = if n_seeds == 1 { " is" } else { "s are" };
        format!(
            "{n_seeds} {repetition}{verb} too few for a verdict: all differences can have the same sign by chance. With {others} besides the baseline use {needed} or more."
        )
    })
}

/// Returns a note about the runs that did not finish, with the cause of the first.
fn unfinished_runs(
    cells: &Cells<'_>,
    compared: Compared,
    about: &SummaryContext<'_>,
) -> Option<String> {
    let mut unfinished = cells.runs().filter(|(_, run)| run.status != Completion::Finished);
    let (key, run) = unfinished.next()?;
    let RunKey { policy, workload, seed } = &key;
    let output = about.outputs.get(&key).map_or(String::new(), |output| format!(" ({output})"));
    let runs = base::counted_noun(1 + unfinished.count(), "run");
    let (noun, cause) = (compared.noun(), run.cause());
    let (on, first) = match compared {
        Compared::Policies => {
            (" on the workload", format!("{policy} on {workload} with seed {seed}"))
        }
        Compared::Commands => ("", format!("run {seed} of {policy}")),
    };
    Some(format!(
        "{runs} did not finish. Means and costs omit such runs, the test ranks them as slowest, and their {noun} has no ratio{on}; the first is {first}: {cause}{output}."
    ))
}

/// Returns a note about rows without a test, because the seeds do not vary the runs.
fn identical(summary: &[SummaryRow]) -> Option<String> {
    let n = summary.iter().filter(|row| row.is_identical).count();
    (0 < n).then(|| {
        "The runs of all seeds are identical on some workloads: they are one observation, without interval, test and verdict.".to_owned()
    })
}

/// Number of jobs that a note names.
const N_JOBS_NAMED: usize = 12;

/// Returns a note about the uncertainty in the intervals, with the jobs that are not varied.
fn drawn_profiles(cells: &Cells<'_>, about: &SummaryContext<'_>) -> Option<String> {
    let n_draws = cells.plan.n_draws?;
    let fixed: Vec<&str> = about.jobs.iter().flat_map(|jobs| jobs_without_ranges(jobs)).collect();
    let named = fixed.iter().take(N_JOBS_NAMED).copied().collect::<Vec<_>>().join(", ");
    let not_varied = match fixed.len() {
        0 => String::new(),
        n if n <= N_JOBS_NAMED => {
            format!(" Not varied, because their profiles have no ranges: {named}.")
        }
        n => format!(
            " Not varied, because their profiles have no ranges: {named} and {}.",
            base::counted_noun(n - N_JOBS_NAMED, "more job")
        ),
    };
    Some(format!(
        "Intervals and tests contain the variation between runs and the uncertainty of the profiles: {n_draws} draws from the ranges of the shipped profiles, the same for each policy. A draw is one observation, the mean of its seeds.{not_varied}"
    ))
}

/// Returns a note about distances to a bound of the assignment model.
fn bounded_model_gaps(cells: &Cells<'_>) -> Option<String> {
    let is_bound = |run: &RunMetrics| run.model_gap.is_some_and(|gap| gap.is_bound);
    let n = cells.runs().filter(|(_, run)| is_bound(run)).count();
    (0 < n).then(|| {
        format!(
            "Below the model, in {n} of {}: relative to an upper bound (Lagrangian relaxation) of the work of all assignments, because there are more than {N_LISTS_MAX} lists of numbers of threads on the cores. The distance to the best assignment is smaller or equal.",
            base::counted_noun(cells.runs().count(), "run")
        )
    })
}

/// Returns a note about simulated runs on several core kinds without a distance to the assignment model.
fn no_model_gaps(cells: &Cells<'_>, about: &SummaryContext<'_>) -> Option<String> {
    let has_model = about.host == "sim" && 1 < about.machine.core_kinds().len();
    let n = cells.runs().filter(|(_, run)| run.model_gap.is_none()).count();
    (has_model && 0 < n).then(|| {
        format!(
            "Below the model, in {n} of {}: not computed. It needs a run of at least a second with at most {N_TASKS_MAX} threads.",
            base::counted_noun(cells.runs().count(), "run")
        )
    })
}

fn no_slowdowns(cells: &Cells<'_>, about: &SummaryContext<'_>) -> Option<String> {
    let has_commands = cells.plan.columns.iter().any(|column| column.command.is_some());
    (about.alone.is_empty() && about.host == "live" && !has_commands)
        .then(|| "No slowdowns: no job was measured alone; use --solo.".to_owned())
}

/// Returns a note about policies whose runs are better than those of the oracle.
fn below_oracle(summary: &[SummaryRow]) -> Option<String> {
    // The means of rows with unfinished runs are of other seeds.
    let has_oracle = |workload: &str| {
        summary
            .iter()
            .any(|row| row.workload == workload && row.n_failed == 0 && row.oracle_gap == Some(0.0))
    };
    let is_below = |row: &&SummaryRow| {
        let is_better = row.oracle_gap.is_some_and(|gap| gap < 0.0);
        row.n_failed == 0 && is_better && has_oracle(&row.workload)
    };
    let rows = summary.iter().filter(is_below);
    let names: Vec<String> =
        rows.map(|row| format!("{} on {}", row.column, row.workload)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Below the oracle: {}. The oracle searches policies with their defaults and placements of whole jobs for the whole run, under the settings of its own column.",
            names.join(", ")
        )
    })
}

/// Returns a note about the completeness of the oracle's searches, by workload.
fn oracle_searches(cells: &Cells<'_>, about: &SummaryContext<'_>) -> Option<String> {
    let plan = cells.plan;
    let column = plan.columns.iter().position(Column::is_oracle)?;
    let search_of = |workload: usize| {
        let runs = cells.series(column, workload);
        let found: Vec<&OracleSearch> =
            runs.finished_runs().filter_map(|(_, run)| run.oracle.as_ref()).collect();
        let n_max = found.iter().map(|found| found.n_placements).max()?;
        let above = found.iter().filter_map(|found| found.above_bound).max_by(f64::total_cmp);
        let completeness = match found.iter().all(|found| found.is_all) {
            true => format!("all placements were simulated ({n_max})"),
            false => format!("{} simulated", base::counted_noun(n_max, "placement")),
        };
        let terms: BTreeSet<&str> =
            found.iter().filter_map(|found| found.bound_term.as_deref()).collect();
        let terms = Vec::from_iter(terms).join("; or ");
        let above = above.map(|above| {
            format!(", at most {} % above the bound from {terms}", fixed(above * 100.0, 1))
        });
        Some(format!("{}: {completeness}{}", plan.workloads[workload], above.unwrap_or_default()))
    };
    let searches: Vec<String> = (0..plan.workloads.len()).filter_map(search_of).collect();
    (!searches.is_empty()).then(|| {
        let limit = if about.jobs.iter().flatten().any(|job| job.sections.is_some()) {
            " It places whole jobs: on jobs with sections, a policy that places single threads, another kernel or another parameter can be faster."
        } else {
            ""
        };
        format!("For each run the oracle selected the best of all policies with their defaults and of placements for the whole run ({}).{limit}", searches.join("; "))
    })
}
