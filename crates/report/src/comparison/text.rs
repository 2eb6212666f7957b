//! The comparison in a terminal: a table for each workload, one over all of them, and what they cost.
//!
//! Eighty columns, no colour. Who is compared with whom stands in the head of each table.

use super::{Comparison, PolicyRow, VerdictWord};
use crate::format::{ABSENT, bytes};
use crate::table::{Align, Table, fold};

/// Workloads beyond these have no table of their own; the page and the JSON have them all.
const N_WORKLOADS_SHOWN: usize = 20;

impl Comparison {
    /// Tables of at most so many columns; 80 suits.
    pub fn to_text(&self, width: usize) -> String {
        let width = width.clamp(40, 200);
        let mut parts = vec![head(self, width)];
        let workloads = &self.setting.workloads;
        parts.extend(workloads.iter().take(N_WORKLOADS_SHOWN).map(|name| times(self, name, width)));
        if N_WORKLOADS_SHOWN < workloads.len() {
            let n_more = workloads.len() - N_WORKLOADS_SHOWN;
            parts.push(format!("… and {} more\n", base::counted_noun(n_more, "workload")));
        }
        if 1 < workloads.len() {
            parts.push(overall(&self.policies, width));
        }
        parts.push(costs(&self.policies, width));
        parts.push(self.notes.iter().map(|note| fold(note, width, "note: ", 6)).collect());
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

fn head(told: &Comparison, width: usize) -> String {
    let setting = &told.setting;
    let several =
        |n: usize, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
    let what = format!(
        "{}, {}, {} on {} ({}, {}): {} of {} runs done",
        several(setting.policies.len(), "policy", "policies"),
        several(setting.workloads.len(), "workload", "workloads"),
        several(setting.seeds.len(), "seed", "seeds"),
        setting.machine,
        if setting.host == "sim" { "simulated" } else { "live" },
        base::counted_noun(setting.n_cpus, "CPU"),
        setting.n_runs_done,
        setting.n_runs,
    );
    fold(&what, width, "compared: ", 10) + &fold(&setting.baseline, width, "baseline: ", 10)
}

/// Whole times on one workload.
fn times(told: &Comparison, workload: &str, width: usize) -> String {
    let rows = || told.summary.iter().filter(|row| row.workload == workload);
    let has_gaps = rows().any(|row| row.oracle_gap.is_some());
    let mut heads = vec![
        ("policy", Align::Left),
        ("mean s", Align::Right),
        ("95 % of it", Align::Left),
        ("ratio", Align::Right),
        ("95 % of it", Align::Left),
        ("verdict", Align::Left),
    ];
    heads.extend(has_gaps.then_some(("above oracle", Align::Right)));
    let mut table = Table::new(&heads);
    for row in rows() {
        let digits = row.mean_s.map_or(0, digits);
        let is_baseline = row.policy == told.setting.baseline;
        let gap = row.oracle_gap.map_or(ABSENT.to_owned(), |gap| format!("{:.1} %", gap * 100.0));
        let mut cells = vec![
            row.policy.clone(),
            row.mean_s.map_or(ABSENT.to_owned(), |mean| format!("{mean:.digits$}")),
            ends(row.ci95_s.as_deref(), digits),
            if is_baseline { "1".to_owned() } else { ratio(row.ratio_to_baseline) },
            if is_baseline { String::new() } else { ends(row.ratio_ci95.as_deref(), 3) },
            if is_baseline { "baseline".to_owned() } else { verdict(row.verdict) },
        ];
        cells.extend(has_gaps.then_some(gap));
        table.row(cells);
    }
    fold(workload, width, "workload: ", 10) + &table.to_text(width)
}

/// Four figures that count.
fn digits(seconds: f64) -> usize {
    match seconds {
        s if s < 10.0 => 3,
        s if s < 100.0 => 2,
        s if s < 1000.0 => 1,
        _ => 0,
    }
}

fn ends(ends: Option<&[f64]>, digits: usize) -> String {
    match ends {
        Some([low, high]) => format!("{low:.digits$}-{high:.digits$}"),
        _ => ABSENT.to_owned(),
    }
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or(ABSENT.to_owned(), |ratio| format!("{ratio:.3}"))
}

fn verdict(word: Option<VerdictWord>) -> String {
    word.map_or(ABSENT, VerdictWord::word).to_owned()
}

/// All workloads together.
fn overall(policies: &[PolicyRow], width: usize) -> String {
    let mut table = Table::new(&[
        ("policy", Align::Left),
        ("ratio", Align::Right),
        ("95 % of it", Align::Left),
        ("verdict", Align::Left),
        ("better", Align::Right),
        ("worse", Align::Right),
        ("unclear", Align::Right),
    ]);
    for row in policies {
        let count = |n: u64| if row.is_baseline { String::new() } else { n.to_string() };
        table.row(vec![
            row.policy.clone(),
            if row.is_baseline { "1".to_owned() } else { ratio(row.ratio_to_baseline) },
            if row.is_baseline { String::new() } else { ends(row.ratio_ci95.as_deref(), 3) },
            if row.is_baseline { "baseline".to_owned() } else { verdict(row.verdict) },
            count(row.n_better),
            count(row.n_worse),
            count(row.n_inconclusive),
        ]);
    }
    "all workloads, and on how many each is better, worse, inconclusive\n".to_owned()
        + &table.to_text(width)
}

/// What it costs, and who bears it.
fn costs(policies: &[PolicyRow], width: usize) -> String {
    let mut table = Table::new(&[
        ("policy", Align::Left),
        ("slow-down", Align::Right),
        ("unfairness", Align::Right),
        ("migrations", Align::Right),
        ("moves", Align::Right),
        ("memory moved", Align::Right),
    ]);
    let figure = |figure: Option<f64>| figure.map_or(ABSENT.to_owned(), |it| format!("{it:.3}"));
    let count = |n: Option<f64>| n.map_or(ABSENT.to_owned(), |n| format!("{n:.1}"));
    for row in policies {
        table.row(vec![
            row.policy.clone(),
            figure(row.slowdown),
            figure(row.unfairness),
            count(row.n_migrations),
            count(row.n_moves),
            row.pages_moved_bytes.map_or(ABSENT.to_owned(), |it| bytes(it as u64)),
        ]);
    }
    "a run on average\n".to_owned() + &table.to_text(width)
}
