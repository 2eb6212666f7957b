//! Figures 2 to 6: counters of each program alone, and the reuse of cache lines.
//!
//! A profile contains no addresses, but its miss-ratio curve is the cumulative histogram of reuse distances: an access
//! hits a cache of a given size if its line was accessed before, and at most this amount of other data was accessed
//! since then.

use base::Bytes;
use report::format::fixed;
use report::study::{ChartKind, RuleReading};

use super::super::finding::unjudged_claim;
use super::super::published_groups::{ELEVEN, G1, G2, HARMLESS, HURTING};
use super::super::{Finding, FindingTable, ReproduceError, RunPool};
use super::programs::{
    Conditions, GroupThresholds, Socket, by_limits, claims_of_draws, least, most, socket, sockets,
};
use crate::shipped::{self, ProfileDraw};

const ORDERINGS: &Conditions<Socket> = &[
    ("Fig. 2: bandwidth of Group 1 above that of sp.B and ua.B", |s| {
        most(|p| s.alone[p].bandwidth, &HURTING) < least(|p| s.alone[p].bandwidth, &G1)
    }),
    ("Fig. 2: bandwidth of sp.B and ua.B above 2 GB/s", |s| {
        2e9 < least(|p| s.alone[p].bandwidth, &HURTING)
    }),
    ("input of profiles=printed: Fig. 2: bandwidth of the other six below 2 GB/s", |s| {
        most(|p| s.alone[p].bandwidth, &G2).max(most(|p| s.alone[p].bandwidth, &HARMLESS)) < 2e9
    }),
    ("Fig. 3: queue-full events of Group 1 above those of all others", |s| {
        let others = [&G2[..], &HURTING, &HARMLESS].concat();
        most(|p| s.alone[p].queue_full, &others) < least(|p| s.alone[p].queue_full, &G1)
    }),
    ("Fig. 3: the widest gap of queue-full events is below Group 1", |s| {
        let groups = by_limits(s, GroupThresholds::of(s));
        (0..ELEVEN.len()).all(|idx| (groups[idx] == 1) == G1.contains(&idx))
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

pub(super) fn counters(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let middle = socket("xeon-2x4", pool.middle())?;
    let heads = ["program", "MB/s", "queue full/s", "references/s", "hits", "prefetches/s"];
    let mut table =
        FindingTable::new("alone on xeon-2x4, millions; from the middle of every range", &heads)
            .units(&["MB/s", "million/s", "million/s", "%", "million/s"])
            .drawn(ChartKind::Bars);
    for (name, alone) in ELEVEN.iter().zip(&middle.alone) {
        let millions = |value: f64, digits: usize| fixed(value / 1e6, digits);
        table.row([
            (*name).to_owned(),
            millions(alone.bandwidth, 0),
            millions(alone.queue_full, 4),
            millions(alone.references, 1),
            format!("{}%", fixed(alone.hit_ratio * 100.0, 0)),
            millions(alone.prefetches, 1),
        ]);
    }
    let claims = claims_of_draws(pool.profiles(), ORDERINGS, &middle, &sockets(pool)?);
    Ok(Finding { tables: vec![table], claims, notes: Vec::new() })
}

/// The programs of figure 6.
const FOUR: [&str; 4] = ["lbm", "libquantum", "sp.B", "ua.B"];
const LIBQUANTUM: usize = 1;
const UA: usize = 3;
/// Reuse distances, in MiB.
const MIB: [u64; 5] = [1, 2, 4, 8, 20];
/// Largest fraction that counts as zero. Chosen before the first run.
const ZERO_MAX: f64 = 0.1;
/// Smallest difference of two fractions that counts as a difference. Chosen before the first run.
const DIFFERENCE_MIN: f64 = 0.1;

/// Fraction of the accesses whose reuse distance is at most each of [`MIB`], by program, then by distance.
struct Reuse {
    within: Vec<[f64; MIB.len()]>,
}

impl Reuse {
    fn of(draw: ProfileDraw) -> Result<Self, ReproduceError> {
        let within = |name: &&str| -> Result<[f64; MIB.len()], ReproduceError> {
            let profile = shipped::profile_drawn(name, draw)?;
            let phase = profile.phases.first();
            let accesses =
                phase.and_then(|phase| phase.llc_accesses).map_or(0.0, |all| all.value());
            Ok(MIB.map(|mib| {
                let misses = phase.and_then(|phase| phase.curve.misses_at(Bytes(mib << 20)));
                1.0 - (misses.unwrap_or(0.0) / accesses.max(1e-12)).min(1.0)
            }))
        };
        Ok(Reuse { within: FOUR.iter().map(within).collect::<Result<_, _>>()? })
    }

    /// Returns the fraction of accesses that are reuses within the largest distance.
    fn reused(&self, program: usize) -> f64 {
        self.within[program][MIB.len() - 1]
    }
}

const REUSE_CLAIMS: &Conditions<Reuse> = &[
    ("libquantum reuses at most 10 % of its lines within 20 MiB", |reuse| {
        reuse.reused(LIBQUANTUM) <= ZERO_MAX
    }),
    (
        "the share of reused lines of ua.B is at least 10 percentage points above that of libquantum",
        |reuse| reuse.reused(LIBQUANTUM) + DIFFERENCE_MIN <= reuse.reused(UA),
    ),
];

pub(super) fn reuse(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let middle = Reuse::of(pool.middle())?;
    let drawn = pool.draws().map(Reuse::of).collect::<Result<Vec<Reuse>, ReproduceError>>()?;
    let heads: Vec<&str> = std::iter::once("distance (MiB)").chain(FOUR).collect();
    let title = "LLC accesses with at most this reuse distance, in %";
    let mut table = FindingTable::new(title, &heads).units(&["%"]).drawn(ChartKind::Lines);
    for (idx, mib) in MIB.iter().enumerate() {
        let cells = (0..FOUR.len()).map(|program| fixed(middle.within[program][idx] * 100.0, 0));
        table.row(std::iter::once(mib.to_string()).chain(cells));
    }
    let mut claims = vec![unjudged_claim(
        "an iteration of lbm accesses 5 lines or more, one of sp.B 2",
        RuleReading::Either,
        "a profile contains no addresses",
    )];
    claims.extend(claims_of_draws(pool.profiles(), REUSE_CLAIMS, &middle, &drawn));
    let notes = [
        "the hits were counted with active prefetchers: a prefetched line that is accessed once counts as a hit, so a \
         stream without reuse also has hits",
        "the values of sp.B and ua.B are estimated ranges; the values of lbm and libquantum are based on counters with \
         20 MiB of cache",
    ];
    Ok(Finding { tables: vec![table], claims, notes: notes.map(str::to_owned).to_vec() })
}
