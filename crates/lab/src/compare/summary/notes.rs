//! What must be known before the figures of a comparison are believed.

use report::comparison::SummaryRow;

use super::About;
use super::cells::Cells;
use crate::compare::Ended;
use crate::stats::pairs_needed;

pub(super) fn notes(cells: &Cells<'_>, summary: &[SummaryRow], about: &About<'_>) -> Vec<String> {
    let parts = [unfinished(cells), few(cells), left_out(cells), unequal(summary), alone(about)];
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
