//! Restrictions on how the metrics of a comparison may be read.

use report::comparison::SummaryRow;

use super::SummaryContext;
use super::cells::Cells;
use crate::compare::{Completion, OracleSearch};
use crate::stats::pairs_needed;

pub(super) fn notes(
    cells: &Cells<'_>,
    summary: &[SummaryRow],
    about: &SummaryContext<'_>,
) -> Vec<String> {
    let parts = [
        unfinished(cells),
        few(cells),
        left_out(cells),
        unequal(summary),
        alone(about),
        oracle(cells),
    ];
    parts.into_iter().flatten().collect()
}

fn unfinished(cells: &Cells<'_>) -> Option<String> {
    let (n, n_done) = (cells.plan.n_runs(), cells.all().count());
    (n_done < n).then(|| {
        format!("Interrupted: {n_done} of {n} runs are done; the same command with the same folder resumes.")
    })
}

fn few(cells: &Cells<'_>) -> Option<String> {
    let n_compared = cells.plan.columns.len() - 1;
    let (needed, n_seeds) = (pairs_needed(n_compared), cells.plan.seeds.len());
    (n_seeds < needed).then(|| {
        let several = match n_compared {
            1 => "one policy".to_owned(),
            n => format!("{n} policies"),
        };
        format!(
            "{n_seeds} {} too few for a verdict: all of them can have the same sign by chance. With {several} besides the baseline use {needed} or more.",
            if n_seeds == 1 { "seed is" } else { "seeds are" }
        )
    })
}

fn left_out(cells: &Cells<'_>) -> Option<String> {
    let mut out = cells.all().filter(|(_, _, metrics)| metrics.status != Completion::Finished);
    let (key, _, metrics) = out.next()?;
    let n = 1 + out.count();
    let plan = cells.plan;
    let why = match (metrics.status, &metrics.error) {
        (_, Some(error)) => error.clone(),
        (Completion::Stopped, None) => "the time limit expired".to_owned(),
        _ => "it failed".to_owned(),
    };
    Some(format!(
        "{n} {} excluded from all metrics; the first is {} on {} with seed {}: {why}.",
        if n == 1 { "run is" } else { "runs are" },
        plan.columns[key.column],
        plan.workloads[key.workload],
        plan.seeds[key.seed],
    ))
}

/// The mean and the ratio of a row may include different seeds.
fn unequal(summary: &[SummaryRow]) -> Option<String> {
    let differs = |row: &&SummaryRow| row.n_pairs < row.n_runs;
    let n = summary.iter().filter(differs).count();
    (0 < n).then(|| {
        "Some ratios include fewer runs than the means: only seeds that the baseline finished too are paired.".to_owned()
    })
}

fn alone(about: &SummaryContext<'_>) -> Option<String> {
    (about.alone.is_empty() && about.host == "live")
        .then(|| "No slowdowns: no job was measured alone; use --solo.".to_owned())
}

/// How complete the oracle's search was, by workload.
fn oracle(cells: &Cells<'_>) -> Option<String> {
    let plan = cells.plan;
    let column = plan.columns.iter().position(crate::compare::Column::is_oracle)?;
    let of = |workload: usize| {
        let runs = cells.of(column, workload);
        let found: Vec<&OracleSearch> =
            runs.iter().filter_map(|(_, run)| run.oracle.as_ref()).collect();
        let most = found.iter().map(|found| found.n_placements).max()?;
        let above = found.iter().filter_map(|found| found.above_bound).max_by(f64::total_cmp);
        let how = match found.iter().all(|found| found.is_all) {
            true => format!("all {most} placements were tried"),
            false => format!("{most} placements were searched"),
        };
        let above = above.map(|above| format!(", at most {:.1} % above the bound", above * 100.0));
        Some(format!("{}: {how}{}", plan.workloads[workload], above.unwrap_or_default()))
    };
    let searches: Vec<String> = (0..plan.workloads.len()).filter_map(of).collect();
    (!searches.is_empty()).then(|| {
        format!("For each run the oracle selected the best of all policies with their defaults and of placements for the whole run ({}).", searches.join("; "))
    })
}
