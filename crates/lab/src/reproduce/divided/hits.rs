//! Hit ratios and references of each program, alone and beside one, two and three of Group 1.

use host_sim::calibrate::rank_correlation;

use host_sim::predict::side_by_side;

use super::super::{Drawing, Found, ReproduceError, Rig, StudyCell, Table};
use super::alone::{claim, draws};
use super::programs::{ELEVEN, G1, Socket, socket};
use crate::shipped::Draw;
use crate::stats::{deviation, mean};

/// By number of competitors, then by program.
struct Crowded {
    hits: [Vec<f64>; 4],
    references: [Vec<f64>; 4],
}

impl Crowded {
    fn of(socket: &Socket) -> Self {
        let beside = |n: usize, program: usize| {
            let others = G1.iter().take(n).map(|place| &socket.behaviours[*place]);
            let all: Vec<_> = std::iter::once(&socket.behaviours[program]).chain(others).collect();
            let seen = side_by_side(&all, &socket.domain)[0];
            let counts = socket.behaviours[program].counts(seen.cache);
            let hits = 1.0 - (counts.demand_misses / counts.accesses.max(1e-12)).min(1.0);
            (hits, socket.alone[program].references / seen.slowdown)
        };
        let of = |n| (0..ELEVEN.len()).map(move |program| beside(n, program));
        Crowded {
            hits: [0, 1, 2, 3].map(|n| of(n).map(|(hits, _)| hits).collect()),
            references: [0, 1, 2, 3].map(|n| of(n).map(|(_, references)| references).collect()),
        }
    }

    fn of_group_1(&self, n: usize) -> f64 {
        mean(&G1.map(|place| self.hits[n][place]))
    }

    fn spread(&self, n: usize) -> f64 {
        deviation(&self.hits[n]).unwrap_or(0.0)
    }

    fn order_kept(&self, n: usize) -> f64 {
        rank_correlation(&self.references[0], &self.references[n])
    }
}

type Asked = fn(&Crowded) -> bool;

const CLAIMS: [(&str, Asked); 4] = [
    ("Group 1's mean hit ratio alone lies between 60 and 80 %", |c| {
        (0.6..=0.8).contains(&c.of_group_1(0))
    }),
    ("beside one of Group 1 it lies between 10 and 30 %", |c| {
        (0.1..=0.3).contains(&c.of_group_1(1))
    }),
    ("the spread of hit ratios over programs shrinks with each competitor", |c| {
        (1..4).all(|n| c.spread(n) < c.spread(n - 1))
    }),
    ("references keep their order: rank correlation with alone 0.9 or more", |c| {
        (1..4).all(|n| 0.9 <= c.order_kept(n))
    }),
];

pub(super) fn ratios(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let middle = Crowded::of(&socket("xeon-2x4", Draw::Middle)?);
    let drawn: Vec<Crowded> = draws(rig)?.iter().map(Crowded::of).collect();
    let mut hits = Table::new("hits in % of the references, beside so many of Group 1", &HEADS)
        .units(&["%"])
        .drawn(Drawing::Intervals);
    let mut references =
        Table::new("references in a second, millions", &HEADS).units(&["million/s"]);
    for (place, name) in ELEVEN.iter().enumerate() {
        let first = || std::iter::once((*name).to_owned());
        hits.row(
            first().chain([0, 1, 2, 3].map(|n| format!("{:.0}", middle.hits[n][place] * 100.0))),
        );
        references.row(
            first()
                .chain([0, 1, 2, 3].map(|n| format!("{:.1}", middle.references[n][place] / 1e6))),
        );
    }
    let first = |what: &str| std::iter::once(what.to_owned());
    hits.row(
        first("spread").chain([0, 1, 2, 3].map(|n| format!("{:.1}", middle.spread(n) * 100.0))),
    );
    let kept = |n| StudyCell::from(format!("{:.2}", middle.order_kept(n))).in_unit("1");
    references.row(std::iter::once("rank correlation".into()).chain([0, 1, 2, 3].map(kept)));
    let claims = CLAIMS.map(|(what, asked)| claim(what, asked, &middle, &drawn)).to_vec();
    Ok(Found { tables: vec![hits, references], claims, why: Vec::new() })
}

const HEADS: [&str; 5] = ["program", "alone", "1", "2", "3"];
