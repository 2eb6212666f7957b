//! Figure 1 and the hit ratios: two programs that share one socket.

use host_sim::calibrate::rank_correlation;
use host_sim::predict::predict_together;
use report::format::fixed;
use report::study::{ChartKind, StudyCell};

use super::super::published_groups::{ELEVEN, G1, G2, HARMLESS, HURTING, group_of_eleven};
use super::super::{Finding, FindingTable, ReproduceError, RunPool};
use super::programs::{
    Conditions, GroupThresholds, Socket, by_limits, by_rank, claim_of_draws, claims_of_draws,
    least, most, socket, sockets,
};
use crate::stats::{deviation, mean};

/// Slowdowns of the program of each row next to the program of each column.
struct PairSlowdowns {
    slowdown: Vec<Vec<f64>>,
}

impl PairSlowdowns {
    fn of(socket: &Socket) -> Self {
        let slowdown = |row: usize, column: usize| {
            let both = [&socket.behaviours[row], &socket.behaviours[column]];
            predict_together(&both, &socket.domain)[0].slowdown
        };
        let row = |row| (0..ELEVEN.len()).map(|column| slowdown(row, column)).collect();
        PairSlowdowns { slowdown: (0..ELEVEN.len()).map(row).collect() }
    }

    /// Returns the mean slowdown that a program causes.
    fn caused(&self, column: usize) -> f64 {
        mean(&self.slowdown.iter().map(|row| row[column]).collect::<Vec<f64>>())
    }

    /// Returns the mean slowdown of a program next to Group 1.
    fn next_to_group_1(&self, row: usize) -> f64 {
        mean(&G1.map(|column| self.slowdown[row][column]))
    }
}

const ORDERINGS: &Conditions<PairSlowdowns> = &[
    ("each program of Group 1 causes more slowdown than sp.B and ua.B", |pairs| {
        most(|p| pairs.caused(p), &HURTING) < least(|p| pairs.caused(p), &G1)
    }),
    ("sp.B and ua.B cause more slowdown than each program of Group 2", |pairs| {
        most(|p| pairs.caused(p), &G2) < least(|p| pairs.caused(p), &HURTING)
    }),
    ("Group 2 causes more slowdown than the rest of Group 3, on average", |pairs| {
        mean(&HARMLESS.map(|p| pairs.caused(p))) < mean(&G2.map(|p| pairs.caused(p)))
    }),
    (
        "with Group 1 on the socket, each program of Groups 1 and 2 has a larger slowdown than each program of Group 3",
        |pairs| {
            let hurt = [&G1[..], &G2].concat();
            let others = [&HURTING[..], &HARMLESS].concat();
            most(|p| pairs.next_to_group_1(p), &others) < least(|p| pairs.next_to_group_1(p), &hurt)
        },
    ),
    ("sphinx causes more slowdown than the other programs of Group 2", |pairs| {
        most(|p| pairs.caused(p), &G2[1..]) < pairs.caused(G2[0])
    }),
];

pub(super) fn pairs(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let middle = socket("xeon-2x4", pool.middle())?;
    let pairs = PairSlowdowns::of(&middle);
    let sockets = sockets(pool)?;
    let drawn: Vec<PairSlowdowns> = sockets.iter().map(PairSlowdowns::of).collect();
    let mut claims = claims_of_draws(pool.profiles(), ORDERINGS, &pairs, &drawn);
    let published: Vec<u8> = (0..ELEVEN.len()).map(group_of_eleven).collect();
    let is_published = |groups: Vec<u8>| groups == published;
    let text = "the rank version detects the paper's groups";
    claims.push(claim_of_draws(text, |one| is_published(by_rank(one)), &middle, &sockets));
    let text = "the threshold version detects the paper's groups";
    let by_limits = |one: &Socket| is_published(by_limits(one, GroupThresholds::of(one)));
    claims.push(claim_of_draws(text, by_limits, &middle, &sockets));
    Ok(Finding { tables: vec![matrix(&pairs), groups(&middle, &pairs)], claims, notes: Vec::new() })
}

/// Returns the table of the slowdowns of all pairs, in %.
fn matrix(pairs: &PairSlowdowns) -> FindingTable {
    let heads: Vec<&str> = std::iter::once("program").chain(ELEVEN).collect();
    let title = "slowdown in % next to the program of the column, in the middle of every range";
    let mut table = FindingTable::new(title, &heads).units(&["%"]).drawn(ChartKind::Heat);
    for (name, row) in ELEVEN.iter().zip(&pairs.slowdown) {
        let cells = row.iter().map(|slowdown| fixed((slowdown - 1.0) * 100.0, 0));
        table.row(std::iter::once((*name).to_owned()).chain(cells));
    }
    let cells = (0..ELEVEN.len()).map(|p| fixed((pairs.caused(p) - 1.0) * 100.0, 1));
    table.row(std::iter::once("causes".to_owned()).chain(cells));
    table
}

/// Returns the table of the published groups and of the groups that both versions detect.
fn groups(socket: &Socket, pairs: &PairSlowdowns) -> FindingTable {
    let title =
        "groups: published, and detected from the counters of each program alone; slowdowns in %";
    let heads = ["program", "paper", "by rank", "by threshold", "causes", "next to G1"];
    let mut table =
        FindingTable::new(title, &heads).units(&["1", "1", "1", "%"]).published(&["paper"]);
    let (rank, limits) = (by_rank(socket), by_limits(socket, GroupThresholds::of(socket)));
    for (idx, name) in ELEVEN.iter().enumerate() {
        let percent = |slowdown: f64| fixed((slowdown - 1.0) * 100.0, 1);
        table.row([
            (*name).to_owned(),
            group_of_eleven(idx).to_string(),
            rank[idx].to_string(),
            limits[idx].to_string(),
            percent(pairs.caused(idx)),
            percent(pairs.next_to_group_1(idx)),
        ]);
    }
    table
}

/// Hit ratios and references of every program next to 0, 1, 2 and 3 programs of Group 1.
struct HitRatiosNextToGroup1 {
    hits: [Vec<f64>; 4],
    references: [Vec<f64>; 4],
}

impl HitRatiosNextToGroup1 {
    fn of(socket: &Socket) -> Self {
        let predicted = |n: usize, program: usize| {
            let others = G1.iter().take(n).map(|idx| &socket.behaviours[*idx]);
            let all: Vec<_> = std::iter::once(&socket.behaviours[program]).chain(others).collect();
            let predicted = predict_together(&all, &socket.domain)[0];
            let counts = socket.behaviours[program].counts(predicted.cache);
            let hits = 1.0 - (counts.demand_misses / counts.accesses.max(1e-12)).min(1.0);
            (hits, socket.alone[program].references / predicted.slowdown)
        };
        let all_next_to = |n| (0..ELEVEN.len()).map(move |program| predicted(n, program));
        HitRatiosNextToGroup1 {
            hits: [0, 1, 2, 3].map(|n| all_next_to(n).map(|(hits, _)| hits).collect()),
            references: [0, 1, 2, 3]
                .map(|n| all_next_to(n).map(|(_, references)| references).collect()),
        }
    }

    fn of_group_1(&self, n: usize) -> f64 {
        mean(&G1.map(|idx| self.hits[n][idx]))
    }

    fn spread(&self, n: usize) -> f64 {
        deviation(&self.hits[n]).unwrap_or(0.0)
    }

    fn order_kept(&self, n: usize) -> f64 {
        rank_correlation(&self.references[0], &self.references[n])
    }
}

const HIT_RATIO_CLAIMS: &Conditions<HitRatiosNextToGroup1> = &[
    ("input of profiles=printed: Group 1's mean hit ratio alone is between 60 and 80 %", |c| {
        (0.6..=0.8).contains(&c.of_group_1(0))
    }),
    (
        "input of profiles=printed: Group 1's mean hit ratio next to one program of Group 1 is between 10 and 30 %",
        |c| (0.1..=0.3).contains(&c.of_group_1(1)),
    ),
    ("the deviation of hit ratios over programs shrinks with each competitor", |c| {
        (1..4).all(|n| c.spread(n) < c.spread(n - 1))
    }),
    ("references keep their order: rank correlation with alone 0.9 or more", |c| {
        (1..4).all(|n| 0.9 <= c.order_kept(n))
    }),
];

const HIT_RATIO_HEADS: [&str; 5] = ["program", "alone", "1", "2", "3"];

pub(super) fn hit_ratios(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let middle = HitRatiosNextToGroup1::of(&socket("xeon-2x4", pool.middle())?);
    let drawn: Vec<HitRatiosNextToGroup1> =
        sockets(pool)?.iter().map(HitRatiosNextToGroup1::of).collect();
    let title =
        "hits in % of the references, by the number of programs of Group 1 next to the program";
    let mut hits =
        FindingTable::new(title, &HIT_RATIO_HEADS).units(&["%"]).drawn(ChartKind::Intervals);
    let mut references = FindingTable::new("references per second, millions", &HIT_RATIO_HEADS)
        .units(&["million/s"]);
    for (idx, name) in ELEVEN.iter().enumerate() {
        let label = || std::iter::once((*name).to_owned());
        let of_hits = [0, 1, 2, 3].map(|n| fixed(middle.hits[n][idx] * 100.0, 0));
        hits.row(label().chain(of_hits));
        let of_references = [0, 1, 2, 3].map(|n| fixed(middle.references[n][idx] / 1e6, 1));
        references.row(label().chain(of_references));
    }
    let spreads = [0, 1, 2, 3].map(|n| fixed(middle.spread(n) * 100.0, 1));
    hits.row(std::iter::once("deviation".to_owned()).chain(spreads));
    let order = |n| StudyCell::from(fixed(middle.order_kept(n), 2)).in_unit("1");
    references.row(std::iter::once("rank correlation".into()).chain([0, 1, 2, 3].map(order)));
    let claims = claims_of_draws(pool.profiles(), HIT_RATIO_CLAIMS, &middle, &drawn);
    Ok(Finding { tables: vec![hits, references], claims, notes: Vec::new() })
}
