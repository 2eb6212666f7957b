//! Figure 1: every pair on one socket, as a heat map, and the groups that are found.

use host_sim::predict::side_by_side;

use super::super::{Drawing, Found, ReproduceError, Rig, Table};
use super::alone::{claim, draws};
use super::programs::{
    ELEVEN, G1, G2, HARMLESS, HURTING, Limits, Socket, by_limits, by_rank, least, most, published,
    socket,
};
use crate::shipped::Draw;
use crate::stats::mean;

/// How many times slower the program of a row is beside that of a column.
struct Pairs {
    slowdown: Vec<Vec<f64>>,
}

impl Pairs {
    fn of(socket: &Socket) -> Self {
        let beside = |row: usize, column: usize| {
            let both = [&socket.behaviours[row], &socket.behaviours[column]];
            side_by_side(&both, &socket.domain)[0].slowdown
        };
        let row = |row| (0..ELEVEN.len()).map(|column| beside(row, column)).collect();
        Pairs { slowdown: (0..ELEVEN.len()).map(row).collect() }
    }

    /// What a program costs the others, on average.
    fn caused(&self, column: usize) -> f64 {
        mean(&self.slowdown.iter().map(|row| row[column]).collect::<Vec<f64>>())
    }

    /// What a program suffers beside Group 1, on average.
    fn suffered(&self, row: usize) -> f64 {
        mean(&G1.map(|column| self.slowdown[row][column]))
    }
}

type Asked = fn(&Pairs) -> bool;

const ORDERINGS: [(&str, Asked); 5] = [
    ("each of Group 1 causes more than sp.B and ua.B", |pairs| {
        most(|p| pairs.caused(p), &HURTING) < least(|p| pairs.caused(p), &G1)
    }),
    ("sp.B and ua.B cause more than each of Group 2", |pairs| {
        most(|p| pairs.caused(p), &G2) < least(|p| pairs.caused(p), &HURTING)
    }),
    ("Group 2 causes more than the rest of Group 3, on average", |pairs| {
        mean(&HARMLESS.map(|p| pairs.caused(p))) < mean(&G2.map(|p| pairs.caused(p)))
    }),
    ("beside Group 1 each of Group 1 and 2 suffers more than each of Group 3", |pairs| {
        let hurt = [&G1[..], &G2].concat();
        let others = [&HURTING[..], &HARMLESS].concat();
        most(|p| pairs.suffered(p), &others) < least(|p| pairs.suffered(p), &hurt)
    }),
    ("sphinx causes more than the other members of Group 2", |pairs| {
        most(|p| pairs.caused(p), &G2[1..]) < pairs.caused(G2[0])
    }),
];

pub(super) fn pairs(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let middle = socket("xeon-2x4", Draw::Middle)?;
    let pairs = Pairs::of(&middle);
    let sockets = draws(rig)?;
    let drawn: Vec<Pairs> = sockets.iter().map(Pairs::of).collect();
    let mut found =
        Found { tables: vec![map(&pairs), groups(&middle, &pairs)], ..Found::default() };
    found.claims = ORDERINGS.map(|(what, asked)| claim(what, asked, &pairs, &drawn)).to_vec();
    let published: Vec<u8> = (0..ELEVEN.len()).map(published).collect();
    let versions: [(&str, Version); 2] = [
        ("the rank version finds the paper's groups", by_rank),
        ("the threshold version finds the paper's groups", |socket| {
            by_limits(socket, Limits::of(socket))
        }),
    ];
    for (what, version) in versions {
        found.claims.push(claim(what, |one| version(one) == published, &middle, &sockets));
    }
    Ok(found)
}

/// Groups from what a socket's programs show alone.
type Version = fn(&Socket) -> Vec<u8>;

/// The matrix: how much slower in %, a row suffers, a column causes.
fn map(pairs: &Pairs) -> Table {
    let short = ELEVEN.map(|name| name.chars().take(5).collect::<String>());
    let heads: Vec<&str> =
        std::iter::once("suffers").chain(short.iter().map(String::as_str)).collect();
    let title = "slower in % beside the program of the column, in the middle of every range";
    let mut table = Table::new(title, &heads).units(&["%"]).drawn(Drawing::Heat);
    for (name, row) in ELEVEN.iter().zip(&pairs.slowdown) {
        let cells = row.iter().map(|slowdown| format!("{:.0}", (slowdown - 1.0) * 100.0));
        table.row(std::iter::once((*name).to_owned()).chain(cells));
    }
    let cells = (0..ELEVEN.len()).map(|p| format!("{:.1}", (pairs.caused(p) - 1.0) * 100.0));
    table.row(std::iter::once("causes".to_owned()).chain(cells));
    table
}

/// The groups: the paper's, and what both versions find.
fn groups(socket: &Socket, pairs: &Pairs) -> Table {
    let title = "groups: the paper's, and those found from what each shows alone; slow-downs in %";
    let heads = ["program", "paper", "by rank", "by threshold", "causes", "suffers beside G1"];
    let mut table = Table::new(title, &heads).units(&["1", "1", "1", "%"]).published(&["paper"]);
    let (rank, limits) = (by_rank(socket), by_limits(socket, Limits::of(socket)));
    for (place, name) in ELEVEN.iter().enumerate() {
        let percent = |slowdown: f64| format!("{:.1}", (slowdown - 1.0) * 100.0);
        table.row([
            (*name).to_owned(),
            published(place).to_string(),
            rank[place].to_string(),
            limits[place].to_string(),
            percent(pairs.caused(place)),
            percent(pairs.suffered(place)),
        ]);
    }
    table
}
