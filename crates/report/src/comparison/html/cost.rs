//! What a policy wins beside what it takes: a row of bars for each.

use super::plot::Plot;
use crate::comparison::{Comparison, PolicyRow};
use crate::format::bytes;

const WIDTH: f64 = 1180.0;
const ROW: f64 = 26.0;
const TOP: f64 = 26.0;
const LEFT: f64 = 190.0;
const N_LETTERS: usize = 27;
/// Room of a figure behind its bar.
const FIGURE: f64 = 92.0;
/// Between two columns.
const GAP: f64 = 22.0;

/// A column of bars.
struct Column {
    head: &'static str,
    of: fn(&PolicyRow) -> Option<f64>,
    show: fn(f64) -> String,
    /// Bars go to both sides of a line in the middle.
    has_sides: bool,
}

const COLUMNS: [Column; 4] = [
    Column {
        head: "time against the baseline",
        of: |row| row.ratio_to_baseline.map(|ratio| 100.0 * (ratio - 1.0)),
        show: |percent| format!("{percent:+.1} %"),
        has_sides: true,
    },
    Column {
        head: "migrations",
        of: |row| row.n_migrations,
        show: |n| format!("{n:.1}"),
        has_sides: false,
    },
    Column {
        head: "moves by the policy",
        of: |row| row.n_moves,
        show: |n| format!("{n:.1}"),
        has_sides: false,
    },
    Column {
        head: "memory moved",
        of: |row| row.pages_moved_bytes,
        show: |n| bytes(n as u64),
        has_sides: false,
    },
];

pub(super) fn chart(told: &Comparison) -> String {
    let height = TOP + ROW * told.policies.len() as f64 + 8.0;
    let mut plot = Plot::new("gain and cost of each policy", WIDTH, height);
    let wide = (WIDTH - LEFT) / COLUMNS.len() as f64;
    for (nr, row) in told.policies.iter().enumerate() {
        let y = TOP + ROW * (nr as f64 + 0.5);
        plot.name((LEFT - 12.0, y + 4.0), &row.policy, N_LETTERS);
    }
    for (nr, column) in COLUMNS.iter().enumerate() {
        let left = LEFT + wide * nr as f64;
        plot.label("head", "start", (left, 15.0), column.head);
        bars(&mut plot, &told.policies, column, (left, left + wide - FIGURE - GAP));
    }
    format!("<div class=\"wide\" tabindex=\"0\">{}</div>", plot.end())
}

fn bars(plot: &mut Plot, policies: &[PolicyRow], column: &Column, (left, right): (f64, f64)) {
    let most = policies.iter().filter_map(column.of).map(f64::abs).fold(0.0, f64::max);
    let scale = if most == 0.0 { 0.0 } else { (right - left) / most };
    let (zero, scale) =
        if column.has_sides { ((left + right) / 2.0, scale / 2.0) } else { (left, scale) };
    let bottom = TOP + ROW * policies.len() as f64;
    plot.line("one", (zero, TOP), (zero, bottom));
    for (nr, row) in policies.iter().enumerate() {
        let y = TOP + ROW * nr as f64;
        let Some(value) = (column.of)(row) else { continue };
        let wide = scale * value.abs();
        let from = if value < 0.0 { zero - wide } else { zero };
        let class = match (column.has_sides, value < 0.0) {
            (false, _) => "bar plain",
            (true, true) => "bar better",
            (true, false) => "bar worse",
        };
        plot.rect(class, (from, y + 6.0), (wide, ROW - 12.0));
        let shown = if row.is_baseline && column.has_sides {
            "baseline".to_owned()
        } else {
            (column.show)(value)
        };
        plot.label("figure", "start", (right + 8.0, y + ROW / 2.0 + 4.0), &shown);
    }
}
