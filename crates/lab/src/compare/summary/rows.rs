//! The rows of a comparison's report.

use std::collections::BTreeMap;

use base::Nanos;
use report::comparison::{
    ComparisonVerdict, ControllerRow, JobSummaryRow, ModelGapBasis, OracleRow, RunCompletion,
    RunJobRow, RunRow, SummaryRow,
};

use super::{Cells, PairedRuns, RunSeries, SummaryContext};
use crate::compare::{
    Column, Completion, ControllerTraffic, JobTimes, OracleSearch, RunKey, RunMetrics,
};
use crate::oracle::{self, Objective};
use crate::stats::{
    ConfidenceInterval, PairedVerdict, holm, interval, mean, mean_of, median, unfairness, variation,
};

pub(super) fn ends(interval: ConfidenceInterval) -> Vec<f64> {
    vec![interval.low, interval.high]
}

pub(super) fn word(verdict: PairedVerdict) -> ComparisonVerdict {
    match verdict {
        PairedVerdict::Better => ComparisonVerdict::Better,
        PairedVerdict::Worse => ComparisonVerdict::Worse,
        PairedVerdict::Equal => ComparisonVerdict::Equal,
        PairedVerdict::Inconclusive => ComparisonVerdict::Inconclusive,
    }
}

fn seconds(time: Nanos) -> f64 {
    time.as_secs_f64()
}

/// Returns the slowdowns of a run's jobs, by number. The cell is the column, the workload and the draw of the profiles.
fn slowdowns(
    metrics: &RunMetrics,
    cell: (usize, usize, usize),
    about: &SummaryContext<'_>,
) -> Vec<Option<f64>> {
    let jobs = about.jobs[cell.1].iter().enumerate();
    jobs.map(|(idx, job)| {
        let alone = (*about.alone.get(&cell)?.get(idx)?)?;
        Some(seconds(metrics.time_of(idx, job)?) / seconds(alone))
    })
    .collect()
}

/// Returns the known slowdowns of a run.
fn known_slowdowns(
    metrics: &RunMetrics,
    cell: (usize, usize, usize),
    about: &SummaryContext<'_>,
) -> Vec<f64> {
    slowdowns(metrics, cell, about).into_iter().flatten().collect()
}

/// Returns one row per finished, failed or stopped run.
pub(super) fn runs(cells: &Cells<'_>, about: &SummaryContext<'_>) -> Vec<RunRow> {
    cells.runs().map(|(key, metrics)| run(cells, about, key, metrics)).collect()
}

fn run(cells: &Cells<'_>, about: &SummaryContext<'_>, key: RunKey, metrics: &RunMetrics) -> RunRow {
    let (idx, workload, seed) = cells.plan.indexes(&key);
    let column = &cells.plan.columns[idx];
    let slowdowns = slowdowns(metrics, (idx, workload, cells.plan.draw_of(seed)), about);
    let known: Vec<f64> = slowdowns.iter().copied().flatten().collect();
    let sum_s = |time: fn(&JobTimes) -> Option<Nanos>| {
        metrics.jobs.iter().filter_map(time).reduce(|sum, time| sum + time).map(seconds)
    };
    let jobs = about.jobs[workload].iter().zip(&metrics.jobs).zip(&slowdowns);
    RunRow {
        report: about.timelines.get(&key).cloned(),
        policy: column.policy.clone(),
        command: column.command_text(),
        column: key.policy,
        workload: key.workload,
        seed,
        profile_draw: cells.plan.n_draws.map(|_| cells.plan.draw_of(seed) as u64 + 1),
        status: match metrics.status {
            Completion::Finished => RunCompletion::Finished,
            Completion::Failed => RunCompletion::Failed,
            Completion::Stopped => RunCompletion::Stopped,
        },
        error: metrics.error.clone(),
        makespan_s: metrics.makespan().map(seconds),
        user_s: sum_s(|job| job.user),
        system_s: sum_s(|job| job.system),
        slowdown: mean_of(known.iter().copied()),
        unfairness: unfairness(&known),
        n_migrations: metrics.n_migrations,
        n_moves: metrics.n_moves,
        pages_moved_bytes: metrics.pages_moved_bytes,
        controllers: controllers(&[metrics]),
        oracle: metrics.oracle.as_ref().map(oracle_row),
        model_gap: metrics.model_gap.map(|gap| gap.share),
        model_gap_basis: model_gap_basis(&[metrics]),
        jobs: jobs
            .map(|((job, times), slowdown)| RunJobRow {
                name: job.name.clone(),
                start_s: times.start.map(seconds),
                end_s: times.end.map(seconds),
                user_s: times.user.map(seconds),
                system_s: times.system.map(seconds),
                slowdown: *slowdown,
            })
            .collect(),
    }
}

/// Returns the search of the oracle as a row.
fn oracle_row(search: &OracleSearch) -> OracleRow {
    OracleRow {
        best: search.candidate.clone(),
        n_placements: search.n_placements,
        is_exhaustive: search.is_all,
        above_bound: search.above_bound,
        bound_term: search.bound_term.clone(),
    }
}

/// Returns what the distances of runs to the assignment model are relative to: a bound if one of them is.
fn model_gap_basis(runs: &[&RunMetrics]) -> Option<ModelGapBasis> {
    let is_bound = runs.iter().filter_map(|run| Some(run.model_gap?.is_bound)).max()?;
    Some(if is_bound { ModelGapBasis::LagrangianBound } else { ModelGapBasis::BestAssignment })
}

/// Returns the mean traffic of the controllers of each node.
fn controllers(runs: &[&RunMetrics]) -> Vec<ControllerRow> {
    let Some(first) = runs.first() else { return Vec::new() };
    let row = |(idx, controller): (usize, &ControllerTraffic)| {
        let controllers =
            || runs.iter().filter_map(move |run| Some((run.controllers.get(idx)?, run.last_end)));
        let average = |bytes_of: fn(&ControllerTraffic) -> u64| {
            mean_of(controllers().map(|(controller, _)| bytes_of(controller) as f64)).unwrap_or(0.0)
        };
        let load = controllers().filter(|(_, last_end)| *last_end != Nanos::ZERO);
        let load = load.map(|(controller, last_end)| {
            (controller.read_bytes + controller.written_bytes) as f64 / seconds(last_end)
        });
        ControllerRow {
            node: controller.node.map(|node| node.0),
            read_bytes: average(|controller| controller.read_bytes),
            written_bytes: average(|controller| controller.written_bytes),
            bytes_per_s: mean_of(load).unwrap_or(0.0),
        }
    };
    first.controllers.iter().enumerate().map(row).collect()
}

/// Returns one row per policy and workload, sorted by workload, then policy.
pub(super) fn summary(cells: &Cells<'_>, about: &SummaryContext<'_>) -> Vec<SummaryRow> {
    (0..cells.plan.workloads.len())
        .flat_map(|workload| of_workload(cells, about, workload))
        .collect()
}

/// Returns the rows of one workload, with p-values corrected for the number of policies.
fn of_workload(cells: &Cells<'_>, about: &SummaryContext<'_>, workload: usize) -> Vec<SummaryRow> {
    let columns = 0..cells.plan.columns.len();
    let pairs_of = |column| {
        let pairs = cells.pairs(column, workload).into_iter();
        PairedRuns::new(pairs.map(|(seed, pair)| (cells.plan.observation_of(seed), vec![pair])))
    };
    let pairs: Vec<PairedRuns> = columns.clone().map(pairs_of).collect();
    let mut rows: Vec<SummaryRow> =
        columns.map(|column| row(cells, about, (column, workload), &pairs[column])).collect();
    let tested: Vec<usize> = (0..rows.len()).filter(|idx| rows[*idx].p.is_some()).collect();
    let ps: Vec<f64> = tested.iter().filter_map(|idx| rows[*idx].p).collect();
    for (idx, p) in tested.into_iter().zip(holm(&ps)) {
        // Equal runs are not the result of a test.
        if rows[idx].is_same_as_baseline {
            rows[idx].p = None;
            continue;
        }
        rows[idx].p_holm = Some(p);
        let tolerance = cells.tolerance(&pairs[idx], about);
        rows[idx].verdict = Some(word(pairs[idx].verdict(p, tolerance)));
    }
    rows
}

fn row(
    cells: &Cells<'_>,
    about: &SummaryContext<'_>,
    (column, workload): (usize, usize),
    pairs: &PairedRuns,
) -> SummaryRow {
    let plan = cells.plan;
    let series = cells.series(column, workload);
    let metrics: Vec<&RunMetrics> = series.finished_runs().map(|(_, metrics)| metrics).collect();
    let times = series.makespans_s();
    let means = observations(cells, &series);
    let has_any = !times.is_empty();
    type Cost = fn(&RunMetrics) -> u64;
    let each = |cost: Cost| -> Vec<f64> { metrics.iter().map(|run| cost(run) as f64).collect() };
    let average = |cost: Cost| mean_of(each(cost));
    let middle = |cost: Cost| has_any.then(|| median(&each(cost)));
    let slowdowns =
        |(seed, metrics)| known_slowdowns(metrics, (column, workload, plan.draw_of(seed)), about);
    let per_run: Vec<Vec<f64>> = series.finished_runs().map(slowdowns).collect();
    let of_mean =
        |indices: &[usize]| mean(&indices.iter().map(|idx| means[*idx]).collect::<Vec<_>>());
    let is_baseline = column == plan.baseline;
    let is_one_observation = means.windows(2).all(|pair| pair[0] == pair[1]);
    let median_run = series.median();
    SummaryRow {
        column: plan.columns[column].text.clone(),
        policy: plan.columns[column].policy.clone(),
        command: plan.columns[column].command_text(),
        workload: plan.workloads[workload].clone(),
        n_runs: times.len() as u64,
        n_failed: series.unfinished_runs().count() as u64,
        n_time_limit: series
            .unfinished_runs()
            .filter(|(_, run)| run.status == Completion::Stopped)
            .count() as u64,
        mean_s: has_any.then(|| mean(&means)),
        median_s: has_any.then(|| median(&times)),
        ci95_s: interval(means.len(), of_mean).filter(|_| !is_one_observation).map(ends),
        min_s: times.iter().copied().min_by(f64::total_cmp),
        max_s: times.iter().copied().max_by(f64::total_cmp),
        variation: variation(&times),
        is_identical: !is_baseline && pairs.is_identical(),
        is_same_as_baseline: !is_baseline && pairs.is_same_as_baseline(),
        ratio_to_baseline: pairs.ratio(),
        ratio_absent_because: pairs.ratio_absent_because(),
        ratio_ci95: pairs
            .interval()
            .filter(|_| !is_baseline && !pairs.is_same_as_baseline())
            .map(ends),
        n_pairs: pairs.n_observations() as u64,
        p: pairs.p().filter(|_| !is_baseline),
        p_holm: None,
        verdict: None,
        oracle_gap: oracle_gap(cells, (column, workload), about),
        model_gap: mean_of(metrics.iter().filter_map(|run| Some(run.model_gap?.share))),
        model_gap_basis: model_gap_basis(&metrics),
        slowdown: mean_of(per_run.iter().flatten().copied()),
        unfairness: mean_of(per_run.iter().filter_map(|slowdowns| unfairness(slowdowns))),
        n_migrations: average(|metrics| metrics.n_migrations),
        n_moves: average(|metrics| metrics.n_moves),
        pages_moved_bytes: average(|metrics| metrics.pages_moved_bytes),
        n_migrations_median: middle(|metrics| metrics.n_migrations),
        n_moves_median: middle(|metrics| metrics.n_moves),
        pages_moved_median_bytes: middle(|metrics| metrics.pages_moved_bytes),
        controllers: controllers(&metrics),
        jobs: jobs(cells, &series, (column, workload), about),
        median_seed: median_run.as_ref().map(|key| key.seed),
        timeline: median_run.and_then(|key| about.timelines.get(&key).cloned()),
    }
}

/// Returns the excess of the mean objective of the oracle's column over that of the oracle.
fn oracle_gap(
    cells: &Cells<'_>,
    (column, workload): (usize, usize),
    about: &SummaryContext<'_>,
) -> Option<f64> {
    let oracle = cells.plan.columns.iter().position(Column::is_oracle)?;
    let objective = oracle::params(&cells.plan.columns[oracle].spec).ok()??.objective;
    let mean = |column: usize| {
        let value = |(seed, metrics): (u64, &RunMetrics)| {
            let cell = (column, workload, cells.plan.draw_of(seed));
            let slowdowns = known_slowdowns(metrics, cell, about);
            match objective {
                Objective::Makespan => Some(seconds(metrics.last_end)),
                Objective::MeanSlowdown => mean_of(slowdowns),
                Objective::MaxSlowdown => slowdowns.into_iter().max_by(f64::total_cmp),
            }
        };
        mean_of(cells.series(column, workload).finished_runs().filter_map(value))
    };
    let best = mean(oracle).filter(|best| 0.0 < *best)?;
    mean(column).map(|mean| mean / best - 1.0)
}

/// Returns the makespan of each observation in seconds: of each finished run, or the mean of the finished runs of each
/// draw.
fn observations(cells: &Cells<'_>, series: &RunSeries<&RunMetrics>) -> Vec<f64> {
    let mut times: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (seed, run) in series.finished_runs() {
        times.entry(cells.plan.observation_of(seed)).or_default().push(seconds(run.last_end));
    }
    times.into_values().map(|times| mean(&times)).collect()
}

fn jobs(
    cells: &Cells<'_>,
    series: &RunSeries<&RunMetrics>,
    (column, workload): (usize, usize),
    about: &SummaryContext<'_>,
) -> Vec<JobSummaryRow> {
    let jobs = about.jobs[workload].iter().enumerate();
    let runs: Vec<(u64, &RunMetrics)> = series.finished_runs().collect();
    let cell = |seed: u64| (column, workload, cells.plan.draw_of(seed));
    let all: Vec<Vec<Option<f64>>> =
        runs.iter().map(|(seed, metrics)| slowdowns(metrics, cell(*seed), about)).collect();
    jobs.map(|(idx, job)| {
        let slowdowns: Vec<f64> = all.iter().filter_map(|of_run| of_run[idx]).collect();
        JobSummaryRow {
            name: job.name.clone(),
            mean_s: mean_of(
                runs.iter().filter_map(|(_, metrics)| metrics.time_of(idx, job)).map(seconds),
            ),
            alone_s: mean_of((0..cells.plan.n_draws.unwrap_or(1)).filter_map(|draw| {
                (*about.alone.get(&(column, workload, draw))?.get(idx)?).map(seconds)
            })),
            slowdown: mean_of(slowdowns.iter().copied()),
            slowdown_min: slowdowns.iter().copied().min_by(f64::total_cmp),
            slowdown_max: slowdowns.iter().copied().max_by(f64::total_cmp),
        }
    })
    .collect()
}
