//! Every run as a circle: a panel for each workload, a row for each policy.

use super::plot::{Axis, Plot};
use crate::comparison::{Comparison, RunEndWord, RunRow};
use crate::html::escape::escape;

const WIDTH: f64 = 560.0;
const ROW: f64 = 26.0;
const TOP: f64 = 8.0;
const LEFT: f64 = 150.0;
const N_LETTERS: usize = 22;
/// Circles of neighbouring seeds lie so far up or down, so that they do not hide each other.
const OFFSETS: [f64; 5] = [0.0, -5.0, 4.0, -2.5, 6.0];

pub(super) fn panels(told: &Comparison) -> String {
    let figure = |workload: &String| {
        format!(
            "<figure><figcaption>{}</figcaption>{}</figure>",
            escape(workload),
            panel(told, workload)
        )
    };
    format!(
        "<div class=\"panels\">{}</div>",
        told.setting.workloads.iter().map(figure).collect::<String>()
    )
}

fn panel(told: &Comparison, workload: &str) -> String {
    let counts = |run: &&RunRow| run.workload == workload && run.ended == RunEndWord::Finished;
    let runs: Vec<&RunRow> = told.runs.iter().filter(counts).collect();
    let axis = Axis::over(runs.iter().map(|run| run.whole_s), None, (LEFT, WIDTH - 14.0));
    let bottom = TOP + ROW * told.setting.policies.len() as f64;
    let mut plot = Plot::new(&format!("whole times on {workload}"), WIDTH, bottom + 24.0);
    plot.grid(&axis, (TOP, bottom), 5, " s");
    for (nr, policy) in told.setting.policies.iter().enumerate() {
        let y = TOP + ROW * (nr as f64 + 0.5);
        plot.name((LEFT - 10.0, y + 4.0), policy, N_LETTERS);
        let mine: Vec<&&RunRow> = runs.iter().filter(|run| run.policy == *policy).collect();
        for (idx, run) in mine.iter().enumerate() {
            let at = (axis.x(run.whole_s), y + OFFSETS[idx % OFFSETS.len()]);
            plot.dot(
                "run",
                at,
                3.2,
                &format!("seed {}: {} s", run.seed, super::seconds(run.whole_s)),
            );
        }
        if !mine.is_empty() {
            let mean = mine.iter().map(|run| run.whole_s).sum::<f64>() / mine.len() as f64;
            plot.line("mean", (axis.x(mean), y - 9.0), (axis.x(mean), y + 9.0));
        }
    }
    plot.end()
}
