//! Figures 5.1 and 5.2: how much earlier whole workloads end.

use super::super::{Claim, Found, Gain, Played, Reading, ReproduceError, Rig, Table, World};
use super::{WITH_HOGS, WITHOUT_HOGS};

/// What a figure of the report shows, in points.
struct Published {
    low: f64,
    high: f64,
    /// So many of the five gain at least.
    n_above: usize,
}

pub(super) fn without_hogs(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    figure(rig, &WITHOUT_HOGS, &Published { low: -0.8, high: 4.5, n_above: 4 })
}

pub(super) fn with_hogs(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    figure(rig, &WITH_HOGS, &Published { low: 1.2, high: 3.2, n_above: 5 })
}

/// The two readings on the chip by node, with what the default scheduler does there.
const BY_NODE: [&str; 4] = ["dfs[reading=paper]", "dfs", "linux@interleave", "linux"];

fn figure(rig: &Rig<'_>, workloads: &[&str], says: &Published) -> Result<Found, ReproduceError> {
    let by_node = rig.play(&World::shipped("tilepro64")?, &BY_NODE, workloads)?;
    let striped = rig.play(&World::shipped("tilepro64-striped")?, &["linux"], workloads)?;
    let mut found = Found::default();
    let bases = [
        ((&striped, 0), "tilepro64-striped"),
        ((&by_node, 2), "linux@interleave"),
        ((&by_node, 3), "linux with memory by node, the same on both sides"),
    ];
    for (base, what) in bases {
        let title =
            format!("time saved by DFS in % against {what}: mean ± half of its 95 % interval");
        let mut table = Table::new(&title, &["workload", "says", "paper", "ours"]);
        for (place, workload) in workloads.iter().enumerate() {
            let says = format!("{:+.1} to {:+.1}", says.low, says.high);
            let gain = |column| by_node.gain(column, place, base).shown();
            table.row([(*workload).to_owned(), says, gain(0), gain(1)]);
        }
        found.tables.push(table);
    }
    for (column, reading) in [(0, Reading::Paper), (1, Reading::Ours)] {
        for (base, what) in [((&striped, 0), "striped"), ((&by_node, 2), "interleaved")] {
            let gains: Vec<Gain> =
                (0..workloads.len()).map(|place| by_node.gain(column, place, base)).collect();
            found.claims.extend(judge(&gains, says, reading, what));
        }
    }
    found.why.extend(trap(&by_node, &striped, workloads.len()));
    found.why.extend(by_node.faults().into_iter().chain(striped.faults()));
    Ok(found)
}

/// The figure's own claims, and the acceptance.
fn judge(gains: &[Gain], says: &Published, reading: Reading, base: &str) -> Vec<Claim> {
    let shown: Vec<String> =
        gains.iter().map(|gain| format!("{:+.1}", gain.mean * 100.0)).collect();
    let shown = shown.join(" ");
    let within = |low, high| gains.iter().all(|gain| gain.is_within(low, high));
    let n_above = gains.iter().filter(|gain| 0.0 < gain.mean).count();
    let range =
        format!("against {base}: every gain between {:+.1} and {:+.1} %", says.low, says.high);
    let order = format!("against {base}: at least {} of {} above 0", says.n_above, gains.len());
    let accepted = format!("against {base}: every gain between -1 and +5 % (acceptance)");
    vec![
        Claim::new(&range, reading, shown.clone(), within(says.low, says.high)),
        Claim::new(&order, reading, format!("{n_above}"), says.n_above <= n_above),
        Claim::new(&accepted, reading, shown, within(-1.0, 5.0)),
    ]
}

/// How much of the gain is not the scheduler's but that of memory by node.
fn trap(by_node: &Played, striped: &Played, n: usize) -> Vec<String> {
    let mean = |column: usize, base: (&Played, usize)| {
        let gains: Vec<f64> = (0..n).map(|place| by_node.gain(column, place, base).mean).collect();
        crate::stats::mean(&gains) * 100.0
    };
    vec![format!(
        "the baseline's trap: the default scheduler itself, with memory by node instead of striped, saves \
         {:+.2} %; DFS (ours) beside that default scheduler with memory by node {:+.2} %",
        mean(3, (striped, 0)),
        mean(1, (by_node, 3))
    )]
}
