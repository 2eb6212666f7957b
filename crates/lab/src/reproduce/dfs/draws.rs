//! How often the orderings of the figures hold when uncertain profiles are drawn anew.

use super::super::{Claim, Found, Reading, ReproduceError, Rig, Table, Verdict, World};
use super::ALL;

/// What is asked of the ten gains of a draw, in points; the first five are without synthetic programs.
type Asked = fn(&[f64]) -> bool;

const ORDERINGS: [(&str, Asked); 5] = [
    ("5.1: at least four of five workloads gain", |gains| {
        4 <= gains[..5].iter().filter(|gain| 0.0 < **gain).count()
    }),
    ("5.1: every gain between -0.8 and +4.5 %", |gains| within(&gains[..5], -0.8, 4.5)),
    ("5.2: every workload gains", |gains| gains[5..].iter().all(|gain| 0.0 < *gain)),
    ("5.2: every gain between +1.2 and +3.2 %", |gains| within(&gains[5..], 1.2, 3.2)),
    ("both: every gain between -1 and +5 % (acceptance)", |gains| within(gains, -1.0, 5.0)),
];

fn within(gains: &[f64], low: f64, high: f64) -> bool {
    gains.iter().all(|gain| (low..=high).contains(gain))
}

pub(super) fn both(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut drawn: [Vec<Vec<f64>>; 2] = [Vec::new(), Vec::new()];
    for draw in 1..=rig.draws() {
        let by_node = World::shipped("tilepro64")?.drawn(draw);
        let striped = World::shipped("tilepro64-striped")?.drawn(draw);
        let here = rig.play_seeds(&by_node, &["dfs[reading=paper]", "dfs"], &ALL, &[draw])?;
        let base = rig.play_seeds(&striped, &["linux"], &ALL, &[draw])?;
        for (column, gains) in drawn.iter_mut().enumerate() {
            let of = (0..ALL.len()).map(|place| here.gain(column, place, (&base, 0)));
            let of: Vec<f64> =
                of.filter(|gain| !gain.each.is_empty()).map(|gain| gain.mean * 100.0).collect();
            // A draw in which a run fails tells nothing of the ten together.
            gains.extend((of.len() == ALL.len()).then_some(of));
        }
    }
    let mut found = Found::default();
    found.tables.push(spread(&drawn));
    for (what, asked) in ORDERINGS {
        for (reading, gains) in Reading::BOTH.into_iter().zip(&drawn) {
            let held = gains.iter().filter(|gains| asked(gains)).count();
            found.claims.push(Claim {
                claim: what.to_owned(),
                reading,
                found: format!("{held} of {} draws", gains.len()),
                verdict: Verdict::of_draws(held, gains.len()),
            });
        }
    }
    Ok(found)
}

/// Where the gains of all draws lie.
fn spread(drawn: &[Vec<Vec<f64>>; 2]) -> Table {
    let heads = ["workload", "paper: 5 %", "half", "95 %", "ours: 5 %", "half", "95 %"];
    let mut table = Table::new("time saved by DFS in %, over the draws", &heads);
    for (place, workload) in ALL.iter().enumerate() {
        let of = |gains: &Vec<Vec<f64>>| -> Vec<String> {
            let here: Vec<f64> = gains.iter().map(|gains| gains[place]).collect();
            [0.05, 0.5, 0.95]
                .map(|part| format!("{:+.1}", crate::stats::quantile(&here, part)))
                .to_vec()
        };
        let cells = drawn.iter().flat_map(of);
        table.row(std::iter::once((*workload).to_owned()).chain(cells));
    }
    table
}
