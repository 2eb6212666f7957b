//! What must be known before the figures of a comparison are believed.

use report::comparison::SummaryRow;

use super::About;
use super::cells::Cells;
use crate::compare::{Ended, Found};
use crate::stats::pairs_needed;

pub(super) fn notes(cells: &Cells<'_>, summary: &[SummaryRow], about: &About<'_>) -> Vec<String> {
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
        format!("Interrupted: {n_done} of {n} runs are done; the same command with the same folder goes on.")
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
            "{n_seeds} {} too few for any verdict: all of them may lean to one side by chance. With {several} beside the baseline take {needed} or more.",
            if n_seeds == 1 { "seed is" } else { "seeds are" }
        )
    })
}

fn left_out(cells: &Cells<'_>) -> Option<String> {
    let mut out = cells.all().filter(|(_, _, figures)| figures.ended != Ended::Finished);
    let (key, _, figures) = out.next()?;
    let n = 1 + out.count();
    let plan = cells.plan;
    let why = match (figures.ended, &figures.error) {
        (_, Some(error)) => error.clone(),
        (Ended::Stopped, None) => "the time limit came".to_owned(),
        _ => "it failed".to_owned(),
    };
    Some(format!(
        "{n} {} left out of all figures; the first is {} on {} with seed {}: {why}.",
        if n == 1 { "run is" } else { "runs are" },
        plan.columns[key.column],
        plan.workloads[key.workload],
        plan.seeds[key.seed],
    ))
}

/// A mean and a ratio may stand on different seeds.
fn unequal(summary: &[SummaryRow]) -> Option<String> {
    let differs = |row: &&SummaryRow| row.n_pairs < row.n_runs;
    let n = summary.iter().filter(differs).count();
    (0 < n).then(|| {
        "Some ratios stand on fewer runs than the means: only seeds that the baseline finished too are paired.".to_owned()
    })
}

fn alone(about: &About<'_>) -> Option<String> {
    (about.alone.is_empty() && about.host == "live").then(|| {
        "No slow-downs are told, since no job was measured alone: --solo does that first."
            .to_owned()
    })
}

/// How much the oracle's figures prove, by workload.
fn oracle(cells: &Cells<'_>) -> Option<String> {
    let plan = cells.plan;
    let column = plan.columns.iter().position(crate::oracle::is_column)?;
    let of = |workload: usize| {
        let runs = cells.of(column, workload);
        let found: Vec<&Found> = runs.iter().filter_map(|(_, run)| run.found.as_ref()).collect();
        let most = found.iter().map(|found| found.n_placements).max()?;
        let above = found.iter().filter_map(|found| found.above_bound).max_by(f64::total_cmp);
        let how = match found.iter().all(|found| found.is_all) {
            true => format!("all {most} placements were tried"),
            false => format!("{most} placements were searched"),
        };
        let above = above.map(|above| format!(", at most {:.1} % above the bound", above * 100.0));
        Some(format!("{}: {how}{}", plan.workloads[workload], above.unwrap_or_default()))
    };
    let told: Vec<String> = (0..plan.workloads.len()).filter_map(of).collect();
    (!told.is_empty()).then(|| {
        format!("The oracle took for each run the best of what every policy does as it comes and of placements for the whole run ({}).", told.join("; "))
    })
}
