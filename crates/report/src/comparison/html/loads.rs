//! How evenly memory controllers are loaded: a panel for each workload, a row for each policy, a circle for
//! each node.

use super::plot::{Axis, Plot};
use crate::comparison::{Comparison, ControllerRow};
use crate::html::escape::escape;

const WIDTH: f64 = 560.0;
const ROW: f64 = 26.0;
const TOP: f64 = 8.0;
const LEFT: f64 = 150.0;
const N_LETTERS: usize = 22;
const GIB: f64 = (1u64 << 30) as f64;

/// Nothing where no controller is counted.
pub(super) fn panels(told: &Comparison) -> Option<String> {
    let is_counted = |workload: &&String| {
        told.summary.iter().any(|row| row.workload == **workload && !row.controllers.is_empty())
    };
    let figure = |workload: &String| {
        format!(
            "<figure><figcaption>{}</figcaption>{}</figure>",
            escape(workload),
            panel(told, workload)
        )
    };
    let figures: String = told.setting.workloads.iter().filter(is_counted).map(figure).collect();
    (!figures.is_empty()).then(|| format!("<div class=\"panels\">{figures}</div>"))
}

fn panel(told: &Comparison, workload: &str) -> String {
    let controllers = |policy: &str| -> &[ControllerRow] {
        let mut rows = told.summary.iter();
        let row = rows.find(|row| row.policy == policy && row.workload == workload);
        row.map_or(&[], |row| &row.controllers)
    };
    let load = |row: &ControllerRow| row.bytes_per_s / GIB;
    let policies = &told.setting.policies;
    let all = policies.iter().flat_map(|policy| controllers(policy)).map(load);
    let axis = Axis::over(all, Some(0.0), (LEFT, WIDTH - 14.0));
    let bottom = TOP + ROW * policies.len() as f64;
    let mut plot = Plot::new(&format!("controller loads on {workload}"), WIDTH, bottom + 24.0);
    plot.grid(&axis, (TOP, bottom), 5, "");
    for (nr, policy) in policies.iter().enumerate() {
        let y = TOP + ROW * (nr as f64 + 0.5);
        plot.name((LEFT - 10.0, y + 4.0), policy, N_LETTERS);
        let loads: Vec<f64> = controllers(policy).iter().map(load).collect();
        let least = loads.iter().copied().min_by(f64::total_cmp);
        let most = loads.iter().copied().max_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (least, most) {
            plot.line("whisker", (axis.x(least), y), (axis.x(most), y));
        }
        for row in controllers(policy) {
            let node = row.node.map_or("all memory".to_owned(), |node| format!("node {node}"));
            plot.dot(
                "run",
                (axis.x(load(row)), y),
                4.0,
                &format!("{node}: {:.2} GiB/s", load(row)),
            );
        }
    }
    plot.end()
}
