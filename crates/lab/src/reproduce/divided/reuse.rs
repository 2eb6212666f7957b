//! Figure 6: how programs use their lines again, as far as profiles can tell.
//!
//! A profile has no addresses. What it has is the part of the accesses to the last-level cache that hit a cache of
//! each size: an access hits if what it asks for was asked for before, with no more than so much else between. So
//! the curve of misses is the histogram of reuse distances, summed up.

use base::Bytes;

use super::super::{Claim, Drawing, Found, Reading, ReproduceError, Rig, Table, Verdict};
use super::alone::claim;
use crate::shipped::{self, Draw};

/// The four of the figure.
const FOUR: [&str; 4] = ["lbm", "libquantum", "sp.B", "ua.B"];
/// Places in [`FOUR`].
const LIBQUANTUM: usize = 1;
const UA: usize = 3;
/// Reuse distances, in MiB.
const MIB: [u64; 5] = [1, 2, 4, 8, 20];
/// A part that is about none, and how much more is clearly more; chosen here.
const NONE: f64 = 0.1;
const CLEARLY: f64 = 0.1;

/// By program, then by distance: the part of the accesses whose line was asked for before with so much between.
struct Reuse {
    within: Vec<[f64; MIB.len()]>,
}

impl Reuse {
    fn of(draw: Draw) -> Result<Self, ReproduceError> {
        let of = |name: &&str| -> Result<[f64; MIB.len()], ReproduceError> {
            let profile = shipped::profile_drawn(name, draw)?;
            let phase = profile.phases.first();
            let accesses =
                phase.and_then(|phase| phase.llc_accesses).map_or(0.0, |all| all.value());
            Ok(MIB.map(|mib| {
                let misses = phase.and_then(|phase| phase.curve.misses_at(Bytes(mib << 20)));
                1.0 - (misses.unwrap_or(0.0) / accesses.max(1e-12)).min(1.0)
            }))
        };
        Ok(Reuse { within: FOUR.iter().map(of).collect::<Result<_, _>>()? })
    }

    /// The part that is used again at all.
    fn again(&self, program: usize) -> f64 {
        self.within[program][MIB.len() - 1]
    }
}

type Asked = fn(&Reuse) -> bool;

const CLAIMS: [(&str, Asked); 2] = [
    ("libquantum uses about none of its lines again (10 % or less within 20 MiB)", |reuse| {
        reuse.again(LIBQUANTUM) <= NONE
    }),
    ("ua.B uses clearly more of its lines again than libquantum (10 points or more)", |reuse| {
        reuse.again(LIBQUANTUM) + CLEARLY <= reuse.again(UA)
    }),
];

pub(super) fn reuse(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let middle = Reuse::of(Draw::Middle)?;
    let drawn: Result<Vec<Reuse>, ReproduceError> =
        (1..=rig.draws()).map(|seed| Reuse::of(Draw::Seed(seed))).collect();
    let drawn = drawn?;
    let heads: Vec<&str> = std::iter::once("MiB").chain(FOUR).collect();
    let title = "accesses to the last-level cache whose line was asked for before with no more than so much between, in %";
    let mut table = Table::new(title, &heads).units(&["%"]).drawn(Drawing::Lines);
    for (place, mib) in MIB.iter().enumerate() {
        let cells =
            (0..FOUR.len()).map(|program| format!("{:.0}", middle.within[program][place] * 100.0));
        table.row(std::iter::once(mib.to_string()).chain(cells));
    }
    let mut claims = vec![Claim::new(
        "lbm's unit of work needs 5 lines or more, sp.B's 2",
        Reading::Either,
        "a profile has no addresses and no units of work",
        Verdict::NotJudged,
    )];
    claims.extend(CLAIMS.map(|(what, asked)| claim(what, asked, &middle, &drawn)));
    let why = vec![
        "hits were counted by others with prefetchers at work: a line that a prefetcher brought and that is asked for \
         once counts as a hit, so that a stream without reuse shows hits all the same"
            .to_owned(),
        "sp.B and ua.B are ranges that nobody measured; lbm and libquantum stand on counts with 20 MiB of cache"
            .to_owned(),
    ];
    Ok(Found { tables: vec![table], claims, why })
}
