//! Figures 2 to 5: what counters show of each program alone.

use super::super::{
    Claim, Drawing, Found, Reading, ReproduceError, Rig, StudyCell, StudyFigure, Table, Verdict,
};
use super::programs::{ELEVEN, G1, G2, HARMLESS, HURTING, Socket, least, most, socket};
use crate::shipped::Draw;

/// What is asked of the eleven.
type Asked = fn(&Socket) -> bool;

const ORDERINGS: [(&str, Asked); 8] = [
    ("Fig. 2: bandwidth of Group 1 above that of sp.B and ua.B", |s| {
        most(|p| s.alone[p].bandwidth, &HURTING) < least(|p| s.alone[p].bandwidth, &G1)
    }),
    ("Fig. 2: bandwidth of sp.B and ua.B above 2 GB/s", |s| {
        2e9 < least(|p| s.alone[p].bandwidth, &HURTING)
    }),
    ("Fig. 2: bandwidth of the other six below 2 GB/s", |s| {
        most(|p| s.alone[p].bandwidth, &G2).max(most(|p| s.alone[p].bandwidth, &HARMLESS)) < 2e9
    }),
    ("Fig. 3: full queues of Group 1 above all others'", |s| {
        let others = [&G2[..], &HURTING, &HARMLESS].concat();
        most(|p| s.alone[p].queue_full, &others) < least(|p| s.alone[p].queue_full, &G1)
    }),
    ("Fig. 3: the widest gap of full queues lies below Group 1", |s| {
        let found = super::programs::by_limits(s, super::programs::Limits::of(s));
        (0..ELEVEN.len()).all(|place| (found[place] == 1) == G1.contains(&place))
    }),
    ("Fig. 4: references of Group 2 above canneal, ferret, gromacs", |s| {
        most(|p| s.alone[p].references, &HARMLESS) < least(|p| s.alone[p].references, &G2)
    }),
    ("Fig. 5: prefetches of Group 1, sp.B and ua.B above Group 2's and the rest's", |s| {
        let others = [&G2[..], &HARMLESS].concat();
        let high = [&G1[..], &HURTING].concat();
        most(|p| s.alone[p].prefetches, &others) < least(|p| s.alone[p].prefetches, &high)
    }),
    ("Fig. 5: sphinx prefetches more than the other members of Group 2", |s| {
        most(|p| s.alone[p].prefetches, &G2[1..]) < s.alone[G2[0]].prefetches
    }),
];

pub(super) fn figures(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let middle = socket("xeon-2x4", Draw::Middle)?;
    let mut found = Found::default();
    let heads = ["program", "MB/s", "full queues/s", "references/s", "hits", "prefetches/s"];
    let mut table =
        Table::new("alone on xeon-2x4, millions; from the middle of every range", &heads)
            .units(&["MB/s", "million/s", "million/s", "%", "million/s"])
            .drawn(Drawing::Bars);
    for (name, alone) in ELEVEN.iter().zip(&middle.alone) {
        let millions = |value: f64, digits: usize| format!("{:.digits$}", value / 1e6);
        table.row([
            (*name).to_owned(),
            millions(alone.bandwidth, 0),
            millions(alone.queue_full, 4),
            millions(alone.references, 1),
            format!("{:.0}%", alone.hit_ratio * 100.0),
            millions(alone.prefetches, 1),
        ]);
    }
    found.tables.push(table);
    let sockets = draws(rig)?;
    found.claims = ORDERINGS.map(|(what, asked)| claim(what, asked, &middle, &sockets)).to_vec();
    Ok(found)
}

/// The eleven in every draw.
pub(super) fn draws(rig: &Rig<'_>) -> Result<Vec<Socket>, ReproduceError> {
    (1..=rig.draws()).map(|seed| socket("xeon-2x4", Draw::Seed(seed))).collect()
}

/// A claim over draws, with what the middle of the ranges says.
pub(super) fn claim<T>(what: &str, asked: impl Fn(&T) -> bool, middle: &T, drawn: &[T]) -> Claim {
    let held = drawn.iter().filter(|one| asked(one)).count();
    let says = if asked(middle) { "holds" } else { "does not hold" };
    let text = format!("in {held} of {} draws; in the middle of the ranges it {says}", drawn.len());
    let found = StudyCell::new(text, vec![StudyFigure::count(held, drawn.len())]);
    Claim::new(what, Reading::Either, found, Verdict::of_draws(held, drawn.len()))
}
