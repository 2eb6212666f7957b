//! How often the orderings of the figures hold when uncertain profiles are drawn anew.

use super::super::{Claim, Drawing, Found, Reading, ReproduceError, Rig, Table};
use super::{ALL, roomy, roomy_striped};

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
    for both in rig.each_draw(gains_in)? {
        // A draw in which a run fails tells nothing of the ten together.
        drawn.iter_mut().zip(both).for_each(|(drawn, gains)| drawn.extend(gains));
    }
    let mut found = Found::default();
    found.tables.push(spread(&drawn));
    for (what, asked) in ORDERINGS {
        for (reading, gains) in Reading::BOTH.into_iter().zip(&drawn) {
            let held = gains.iter().filter(|gains| asked(gains)).count();
            found.claims.push(Claim::drawn(what, reading, held, gains.len()));
        }
    }
    found.why.push(format!(
        "of {} draws {} are told with reading paper and {} with ours; in the others a run did not end well",
        rig.draws(),
        drawn[0].len(),
        drawn[1].len()
    ));
    Ok(found)
}

/// The gains of both readings on all workloads, in points; none where a run failed.
fn gains_in(draw: u64, rig: &Rig<'_>) -> Result<[Option<Vec<f64>>; 2], ReproduceError> {
    let (by_node, striped) = (roomy()?.drawn(draw), roomy_striped()?.drawn(draw));
    let here = rig.play_seeds(&by_node, &["dfs[reading=paper]", "dfs"], &ALL, &[draw])?;
    let base = rig.play_seeds(&striped, &["linux"], &ALL, &[draw])?;
    let of = |column: usize| -> Option<Vec<f64>> {
        let of = (0..ALL.len()).map(|place| here.gain(column, place, (&base, 0)));
        of.map(|gain| (!gain.is_empty()).then_some(gain.mean * 100.0)).collect()
    };
    Ok([of(0), of(1)])
}

/// Where the gains of all draws lie.
fn spread(drawn: &[Vec<Vec<f64>>; 2]) -> Table {
    let heads = ["workload", "paper, 90 % of the draws", "paper, half", "ours, 90 %", "ours, half"];
    let title = "time saved by DFS in %, over the draws; half: the median";
    let mut table = Table::new(title, &heads).units(&["%"]).drawn(Drawing::Intervals);
    for (place, workload) in ALL.iter().enumerate() {
        let of = |gains: &Vec<Vec<f64>>| -> [String; 2] {
            let here: Vec<f64> = gains.iter().map(|gains| gains[place]).collect();
            if here.is_empty() {
                return ["–".to_owned(), "–".to_owned()];
            }
            let [low, half, high] =
                [0.05, 0.5, 0.95].map(|part| crate::stats::quantile(&here, part));
            [format!("{low:+.1} to {high:+.1}"), format!("{half:+.1}")]
        };
        let cells = drawn.iter().flat_map(of);
        table.row(std::iter::once((*workload).to_owned()).chain(cells));
    }
    table
}
