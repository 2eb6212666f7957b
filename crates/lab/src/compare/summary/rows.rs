//! The rows of a comparison's report.

use base::Nanos;
use report::comparison::{
    ControllerRow, FoundRow, JobSummaryRow, RunEndWord, RunJobRow, RunRow, SummaryRow, VerdictWord,
};

use super::About;
use super::cells::Cells;
use crate::compare::{Controller, Ended, Figures, Found, Key};
use crate::oracle;
use crate::stats::{
    Interval, Verdict, holm, interval, mean, median, signed_rank, unfairness, variation,
};

pub(super) fn ends(interval: Interval) -> Vec<f64> {
    vec![interval.low, interval.high]
}

pub(super) fn word(verdict: Verdict) -> VerdictWord {
    match verdict {
        Verdict::Better => VerdictWord::Better,
        Verdict::Worse => VerdictWord::Worse,
        Verdict::Inconclusive => VerdictWord::Inconclusive,
    }
}

fn seconds(time: Nanos) -> f64 {
    time.as_secs_f64()
}

fn mean_of(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let figures: Vec<f64> = figures.collect();
    (!figures.is_empty()).then(|| mean(&figures))
}

/// Slow-downs of a run's jobs, by number.
fn slowdowns(figures: &Figures, workload: usize, about: &About<'_>) -> Vec<Option<f64>> {
    let jobs = about.jobs[workload].iter().enumerate();
    jobs.map(|(idx, job)| {
        let alone = (*about.alone.get(workload)?.get(idx)?)?;
        Some(seconds(figures.time_of(idx, job)?) / seconds(alone))
    })
    .collect()
}

/// Those that are known.
fn known_slowdowns(figures: &Figures, workload: usize, about: &About<'_>) -> Vec<f64> {
    slowdowns(figures, workload, about).into_iter().flatten().collect()
}

/// Every run that is done.
pub(super) fn runs(cells: &Cells<'_>, about: &About<'_>) -> Vec<RunRow> {
    cells.all().map(|(key, number, figures)| run(cells, about, key, number, figures)).collect()
}

fn run(cells: &Cells<'_>, about: &About<'_>, key: Key, number: usize, figures: &Figures) -> RunRow {
    let slowdowns = slowdowns(figures, key.workload, about);
    let known: Vec<f64> = slowdowns.iter().copied().flatten().collect();
    let jobs = about.jobs[key.workload].iter().zip(&figures.jobs).zip(&slowdowns);
    RunRow {
        policy: cells.plan.columns[key.column].text.clone(),
        workload: cells.plan.workloads[key.workload].clone(),
        seed: cells.plan.seeds[key.seed],
        ended: match figures.ended {
            Ended::Finished => RunEndWord::Finished,
            Ended::Failed => RunEndWord::Failed,
            Ended::Stopped => RunEndWord::Stopped,
        },
        error: figures.error.clone(),
        whole_s: seconds(figures.whole),
        slowdown: mean_of(known.iter().copied()),
        unfairness: unfairness(&known),
        n_migrations: figures.n_migrations,
        n_moves: figures.n_moves,
        pages_moved_bytes: figures.pages_moved_bytes,
        controllers: controllers(&[figures]),
        found: figures.found.as_ref().map(found),
        jobs: jobs
            .map(|((job, its), slowdown)| RunJobRow {
                name: job.name.clone(),
                start_s: its.start.map(seconds),
                end_s: its.end.map(seconds),
                slowdown: *slowdown,
            })
            .collect(),
        report: about.timelines.get(&number).cloned(),
    }
}

/// How the oracle found what it did.
fn found(found: &Found) -> FoundRow {
    FoundRow {
        way: found.way.clone(),
        n_placements: found.n_placements,
        is_all: found.is_all,
        above_bound: found.above_bound,
    }
}

/// What the controllers of each node carried, a run on average.
fn controllers(runs: &[&Figures]) -> Vec<ControllerRow> {
    let Some(first) = runs.first() else { return Vec::new() };
    let of = |(idx, controller): (usize, &Controller)| {
        let its =
            || runs.iter().filter_map(move |run| Some((run.controllers.get(idx)?, run.whole)));
        let average = |of: fn(&Controller) -> u64| {
            mean_of(its().map(|(controller, _)| of(controller) as f64)).unwrap_or(0.0)
        };
        let load = its().filter(|(_, whole)| *whole != Nanos::ZERO).map(|(controller, whole)| {
            (controller.read_bytes + controller.written_bytes) as f64 / seconds(whole)
        });
        ControllerRow {
            node: controller.node.map(|node| node.0),
            read_bytes: average(|controller| controller.read_bytes),
            written_bytes: average(|controller| controller.written_bytes),
            bytes_per_s: mean_of(load).unwrap_or(0.0),
        }
    };
    first.controllers.iter().enumerate().map(of).collect()
}

/// Each policy on each workload: by workload, then policy.
pub(super) fn summary(cells: &Cells<'_>, about: &About<'_>) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    for workload in 0..cells.plan.workloads.len() {
        let of_workload: Vec<SummaryRow> = (0..cells.plan.columns.len())
            .map(|column| row(cells, about, column, workload))
            .collect();
        rows.extend(with_verdicts(cells, of_workload));
    }
    rows
}

/// The verdicts of one workload, corrected for how many are given at once.
fn with_verdicts(cells: &Cells<'_>, mut rows: Vec<SummaryRow>) -> Vec<SummaryRow> {
    let tested: Vec<usize> = (0..rows.len())
        .filter(|idx| *idx != cells.plan.baseline && rows[*idx].p.is_some())
        .collect();
    let ps: Vec<f64> = tested.iter().filter_map(|idx| rows[*idx].p).collect();
    for (idx, p) in tested.into_iter().zip(holm(&ps)) {
        let ends = rows[idx].ratio_ci95.as_deref();
        let within = match ends {
            Some([low, high]) => Some(Interval { low: *low, high: *high }),
            _ => None,
        };
        rows[idx].p_holm = Some(p);
        rows[idx].verdict = Some(word(Verdict::of(within, p)));
    }
    rows
}

fn row(cells: &Cells<'_>, about: &About<'_>, column: usize, workload: usize) -> SummaryRow {
    let plan = cells.plan;
    let runs = cells.of(column, workload);
    let figures: Vec<&Figures> = runs.iter().map(|(_, figures)| *figures).collect();
    let times: Vec<f64> = figures.iter().map(|figures| seconds(figures.whole)).collect();
    let has_any = !times.is_empty();
    let average =
        |of: fn(&Figures) -> u64| mean_of(figures.iter().map(|figures| of(figures) as f64));
    let per_run: Vec<Vec<f64>> =
        figures.iter().map(|figures| known_slowdowns(figures, workload, about)).collect();
    let of_mean =
        |places: &[usize]| mean(&places.iter().map(|place| times[*place]).collect::<Vec<_>>());
    let pairs = cells.pairs(column, plan.baseline, workload);
    let all: Vec<usize> = (0..pairs.len()).collect();
    let ratio = (0 < pairs.len()).then(|| pairs.ratio_of_means(&all));
    let is_baseline = column == plan.baseline;
    let median_seed = median_seed(&runs);
    let timeline = median_seed.and_then(|seed| cells.at(Key { seed, workload, column }));
    SummaryRow {
        policy: plan.columns[column].text.clone(),
        workload: plan.workloads[workload].clone(),
        n_runs: times.len() as u64,
        n_left_out: cells.n_left_out(column, workload) as u64,
        mean_s: has_any.then(|| mean(&times)),
        median_s: has_any.then(|| median(&times)),
        ci95_s: interval(times.len(), of_mean).map(ends),
        least_s: times.iter().copied().min_by(f64::total_cmp),
        most_s: times.iter().copied().max_by(f64::total_cmp),
        spread: variation(&times),
        ratio_to_baseline: ratio,
        ratio_ci95: match is_baseline {
            true => None,
            false => interval(pairs.len(), |places| pairs.ratio_of_means(places)).map(ends),
        },
        n_pairs: pairs.len() as u64,
        p: (!is_baseline && 0 < pairs.len()).then(|| signed_rank(&pairs.log_ratios())),
        p_holm: None,
        verdict: None,
        oracle_gap: oracle_gap(cells, &times, workload),
        slowdown: mean_of(per_run.iter().flatten().copied()),
        unfairness: mean_of(per_run.iter().filter_map(|slowdowns| unfairness(slowdowns))),
        n_migrations: average(|figures| figures.n_migrations),
        n_moves: average(|figures| figures.n_moves),
        pages_moved_bytes: average(|figures| figures.pages_moved_bytes),
        controllers: controllers(&figures),
        jobs: jobs(&figures, workload, about),
        median_seed: median_seed.map(|seed| plan.seeds[seed]),
        timeline: timeline.and_then(|(number, _)| about.timelines.get(&number).cloned()),
    }
}

/// The place of the seed whose run is the middle one.
pub(super) fn median_seed(runs: &[(usize, &Figures)]) -> Option<usize> {
    let mut sorted: Vec<(Nanos, usize)> =
        runs.iter().map(|(seed, its)| (its.whole, *seed)).collect();
    sorted.sort();
    sorted.get(sorted.len().checked_sub(1)? / 2).map(|(_, seed)| *seed)
}

fn oracle_gap(cells: &Cells<'_>, times: &[f64], workload: usize) -> Option<f64> {
    let oracle = cells.plan.columns.iter().position(oracle::is_column)?;
    let best = mean_of(cells.of(oracle, workload).iter().map(|(_, its)| seconds(its.whole)))?;
    (!times.is_empty() && 0.0 < best).then(|| mean(times) / best - 1.0)
}

fn jobs(runs: &[&Figures], workload: usize, about: &About<'_>) -> Vec<JobSummaryRow> {
    let jobs = about.jobs[workload].iter().enumerate();
    let all: Vec<Vec<Option<f64>>> =
        runs.iter().map(|figures| slowdowns(figures, workload, about)).collect();
    jobs.map(|(idx, job)| {
        let slowdowns: Vec<f64> = all.iter().filter_map(|of_run| of_run[idx]).collect();
        JobSummaryRow {
            name: job.name.clone(),
            mean_s: mean_of(runs.iter().filter_map(|its| its.time_of(idx, job)).map(seconds)),
            alone_s: about.alone.get(workload).and_then(|alone| *alone.get(idx)?).map(seconds),
            slowdown: mean_of(slowdowns.iter().copied()),
            slowdown_least: slowdowns.iter().copied().min_by(f64::total_cmp),
            slowdown_most: slowdowns.iter().copied().max_by(f64::total_cmp),
        }
    })
    .collect()
}
