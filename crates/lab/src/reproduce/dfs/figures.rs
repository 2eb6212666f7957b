//! Figures 5.1 and 5.2: how much earlier whole workloads end.

use super::super::{
    Claim, Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, StudyCell, StudyFigure,
    Table, World,
};
use super::{WITH_HOGS, WITHOUT_HOGS, roomy, roomy_striped};

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
    let room = rig.play(&roomy()?, &BY_NODE[..2], workloads)?;
    let room_base = rig.play(&roomy_striped()?, &["linux"], workloads)?;
    let mut found = Found::default();
    let bases = [
        ((&striped, 0), "tilepro64-striped, the report's baseline"),
        ((&by_node, 2), "linux@interleave"),
        ((&by_node, 3), "linux with memory by node, the same on both sides"),
    ];
    for (base, what) in bases {
        let title =
            format!("time saved by DFS in % against {what}: mean ± half of its 95 % interval");
        let mut table = Table::new(&title, &["workload", "the report", "paper", "ours"])
            .units(&["%"])
            .published(&["the report"])
            .drawn(Drawing::Intervals);
        for (place, workload) in workloads.iter().enumerate() {
            let says = format!("{:+.1} to {:+.1}", says.low, says.high);
            let gain = |column| by_node.gain(column, place, base).cell();
            table.row([(*workload).into(), says.into(), gain(0), gain(1)]);
        }
        found.tables.push(table);
    }
    for (column, reading) in [(0, Reading::Paper), (1, Reading::Ours)] {
        let bases = [
            (&by_node, (&striped, 0), "against striped"),
            (&by_node, (&by_node, 2), "against interleaved"),
            (&room, (&room_base, 0), "with 16 GiB a node, against striped"),
        ];
        for (played, base, what) in bases {
            let gains: Vec<Gain> =
                (0..workloads.len()).map(|place| played.gain(column, place, base)).collect();
            found.claims.extend(judge(&gains, says, reading, what));
        }
    }
    found.why.extend(trap(&by_node, &striped, workloads.len()));
    let faults = [&by_node, &striped, &room, &room_base].map(Played::faults);
    found.why.extend(faults.into_iter().flatten());
    Ok(found)
}

/// The figure's own claims, and the acceptance; none is judged where a workload has no pair.
fn judge(gains: &[Gain], says: &Published, reading: Reading, base: &str) -> Vec<Claim> {
    let all = || {
        let shown: Vec<String> = gains.iter().map(Gain::shown).collect();
        let figures = gains.iter().filter_map(|gain| gain.figure("%"));
        StudyCell::new(shown.join(" "), figures.collect())
    };
    let is_judged = !gains.iter().any(Gain::is_empty);
    let within = |low, high| is_judged.then(|| gains.iter().all(|gain| gain.is_within(low, high)));
    let n_above = gains.iter().filter(|gain| 0.0 < gain.mean).count();
    let range = format!("{base}: every gain between {:+.1} and {:+.1} %", says.low, says.high);
    let order = format!("{base}: at least {} of {} above 0", says.n_above, gains.len());
    let accepted = format!("{base}: every gain between -1 and +5 % (acceptance)");
    let above = is_judged.then_some(says.n_above <= n_above);
    vec![
        Claim::judged(&range, reading, all(), within(says.low, says.high)),
        Claim::judged(&order, reading, format!("{n_above}"), above)
            .on([StudyFigure::count(n_above, gains.len())]),
        Claim::judged(&accepted, reading, all(), within(-1.0, 5.0)),
    ]
}

/// How much of the gain is not the scheduler's but that of memory by node.
fn trap(by_node: &Played, striped: &Played, n: usize) -> Vec<String> {
    let mean = |column: usize, base: (&Played, usize)| {
        let gains = (0..n).map(|place| by_node.gain(column, place, base));
        let gains = gains.filter(|gain| !gain.is_empty()).map(|gain| gain.mean);
        Gain::of_each(gains.collect()).percent()
    };
    vec![format!(
        "the baseline's trap: the default scheduler itself, with memory by node instead of striped, saves \
         {} %; DFS (ours) beside that default scheduler with memory by node {} %",
        mean(3, (striped, 0)),
        mean(1, (by_node, 3))
    )]
}

#[cfg(test)]
mod tests {
    use super::super::super::Verdict;
    use super::*;

    #[test]
    fn a_figure_of_which_a_workload_has_no_pair_is_not_judged() {
        let says = Published { low: -0.8, high: 4.5, n_above: 4 };
        let gain = |each: &[f64]| Gain::of_each(each.to_vec());
        let mut gains = vec![gain(&[0.02, 0.03]); 5];
        let of = |gains: &[Gain]| -> Vec<Verdict> {
            let claims = judge(gains, &says, Reading::Ours, "against striped");
            claims.into_iter().map(|claim| claim.verdict).collect()
        };
        assert_eq!(of(&gains), [Verdict::Reproduces; 3]);
        gains[2] = gain(&[]);
        assert_eq!(of(&gains), [Verdict::NotJudged; 3]);
    }
}
