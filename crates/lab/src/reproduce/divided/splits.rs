//! All splits of a mix over two sockets, by the physics, without any policy.
//!
//! If isolation by the published groups has the published gain, a policy without that gain does not detect the groups.
//! If isolation has no gain, the simulated contention is weaker than the contention on the machine of the paper.

use host_sim::predict::predict_together;
use report::format::signed;
use report::study::ChartKind;

use super::super::published_groups::{ELEVEN, plain_name, published_group};
use super::super::{Finding, FindingTable, ReproduceError, RunPool, Testbed};
use super::CONTENDED;
use super::programs::{Conditions, Socket, claims_of_draws, socket, socket_of, sockets};
use crate::shipped::{self, ProfileDraw};
use crate::stats::mean;

/// CPUs of a socket.
pub(super) const SOCKET_CPUS: usize = 4;

/// A mix: indexes of its programs, and their published groups.
type Mix = (Vec<usize>, Vec<u8>);

/// Gains of the splits of a mix, in %. A gain is the mean over the programs of: time in a random split / time in the
/// split - 1.
#[derive(Clone, Copy, Debug, Default)]
struct Splits {
    isolated: f64,
    best: f64,
    worst: f64,
    /// Mean slowdown in a random split.
    at_random: f64,
}

/// Returns the split that isolates Group 1: Group 1 on one socket, Group 2 on the other socket, Group 3 on the socket
/// of Group 2 while CPUs are free.
fn isolation(groups: &[u8]) -> Vec<bool> {
    let programs_of = |group: u8| (0..groups.len()).filter(move |idx| groups[*idx] == group);
    let others: Vec<usize> = programs_of(2).chain(programs_of(3)).collect();
    let mut on_first_socket: Vec<bool> = groups.iter().map(|group| *group == 1).collect();
    others.into_iter().skip(SOCKET_CPUS).for_each(|idx| on_first_socket[idx] = true);
    on_first_socket
}

/// Returns the slowdown of every program in a split.
fn slowdowns(socket: &Socket, mix: &[usize], on_first_socket: &[bool]) -> Vec<f64> {
    let mut all = vec![1.0; mix.len()];
    for side in [true, false] {
        let on_side: Vec<usize> =
            (0..mix.len()).filter(|idx| on_first_socket[*idx] == side).collect();
        let behaviours: Vec<_> = on_side.iter().map(|idx| &socket.behaviours[mix[*idx]]).collect();
        let predicted = predict_together(&behaviours, &socket.domain);
        on_side.iter().zip(predicted).for_each(|(idx, predicted)| all[*idx] = predicted.slowdown);
    }
    all
}

impl Splits {
    fn of(socket: &Socket, (mix, groups): &Mix) -> Self {
        let half = mix.len() / 2;
        let even = (0u32..1 << mix.len()).filter(|set| set.count_ones() as usize == half);
        let even: Vec<Vec<f64>> = even
            .map(|set| {
                let on_first_socket: Vec<bool> =
                    (0..mix.len()).map(|idx| set >> idx & 1 == 1).collect();
                slowdowns(socket, mix, &on_first_socket)
            })
            .collect();
        let at_random: Vec<f64> = (0..mix.len())
            .map(|idx| mean(&even.iter().map(|split| split[idx]).collect::<Vec<f64>>()))
            .collect();
        let gain = |split: &Vec<f64>| {
            let each = at_random.iter().zip(split).map(|(random, split)| random / split - 1.0);
            mean(&each.collect::<Vec<f64>>()) * 100.0
        };
        let isolated = gain(&slowdowns(socket, mix, &isolation(groups)));
        let gains = even.iter().map(gain);
        Splits {
            isolated,
            best: gains.clone().fold(isolated, f64::max),
            worst: gains.fold(isolated, f64::min),
            at_random: (mean(&at_random) - 1.0) * 100.0,
        }
    }
}

/// The splits of the contended mixes in one draw.
struct MixSplits(Vec<Splits>);

impl MixSplits {
    fn of(socket: &Socket, mixes: &[Mix]) -> Self {
        MixSplits(mixes.iter().map(|mix| Splits::of(socket, mix)).collect())
    }

    fn mean(&self, of: fn(&Splits) -> f64) -> f64 {
        mean(&self.0.iter().map(of).collect::<Vec<f64>>())
    }
}

const CLAIMS: &Conditions<MixSplits> = &[
    ("isolation by the paper's groups is better than a random split, on average", |mixes| {
        0.0 < mixes.mean(|split| split.isolated)
    }),
    ("isolation by the paper's groups gains 3 % or more over a random split", |mixes| {
        3.0 <= mixes.mean(|split| split.isolated)
    }),
    ("isolation by the paper's groups is the best split of more than half of the mixes", |mixes| {
        let is_best = |split: &&Splits| split.best <= split.isolated + 1e-9;
        mixes.0.len() < 2 * mixes.0.iter().filter(is_best).count()
    }),
    ("the best split gains 3 % or more over a random split", |mixes| {
        3.0 <= mixes.mean(|split| split.best)
    }),
];

pub(super) fn splits(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let mut mixes = Vec::new();
    for mix in CONTENDED {
        let jobs = shipped::workload(mix)?.jobs;
        let named = |name: &str| ELEVEN.iter().position(|one| *one == name);
        let idxs: Option<Vec<usize>> = jobs.iter().map(|job| named(plain_name(job))).collect();
        let idxs = idxs.expect("contended mixes contain the eleven programs only");
        mixes.push((idxs, jobs.iter().map(published_group).collect()));
    }
    let middle = MixSplits::of(&socket("xeon-2x4", pool.middle())?, &mixes);
    let drawn: Vec<MixSplits> =
        sockets(pool)?.iter().map(|socket| MixSplits::of(socket, &mixes)).collect();
    let heads = ["mix", "isolated", "best", "worst"];
    let title = "gain of a split over a random split in %, in the middle of every range";
    let mut table = FindingTable::new(title, &heads).units(&["%"]).drawn(ChartKind::Intervals);
    let mut row = |name: &str, gains: [f64; 3]| {
        let cells = gains.map(|gain| signed(gain, 1));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    for (mix, splits) in CONTENDED.iter().zip(&middle.0) {
        row(mix, [splits.isolated, splits.best, splits.worst]);
    }
    let means: [fn(&Splits) -> f64; 3] =
        [|splits| splits.isolated, |splits| splits.best, |splits| splits.worst];
    row("mean", means.map(|of| middle.mean(of)));
    let claims = claims_of_draws(pool.profiles(), CLAIMS, &middle, &drawn);
    Ok(Finding {
        tables: vec![table, other_sockets(&mixes, pool.middle())?],
        claims,
        notes: Vec::new(),
    })
}

/// Returns the table of the splits on sockets with more or less cache and bandwidth. The table shows the contended
/// resource.
fn other_sockets(mixes: &[Mix], middle: ProfileDraw) -> Result<FindingTable, ReproduceError> {
    let heads = ["socket", "isolated", "best", "worst", "slowdown at random"];
    let title =
        "the same splits on sockets with other caches and bandwidths, mean over the mixes in %";
    let mut table = FindingTable::new(title, &heads).units(&["%"]);
    let variations = [
        ("as it is", ""),
        ("bandwidth × 100", " bandwidth=100"),
        ("bandwidth ÷ 2", " bandwidth=1/2"),
        ("bandwidth ÷ 4", " bandwidth=1/4"),
        ("cache × 4", " cache=4"),
        ("cache ÷ 2", " cache=1/2"),
    ];
    for (name, variation) in variations {
        let testbed = Testbed::parse(&format!("xeon-2x4{variation}"))?;
        let all = MixSplits::of(&socket_of(&testbed.machine, middle)?, mixes);
        let values: [fn(&Splits) -> f64; 4] = [
            |splits| splits.isolated,
            |splits| splits.best,
            |splits| splits.worst,
            |splits| splits.at_random,
        ];
        let cells = values.map(|value_of| signed(all.mean(value_of), 1));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    Ok(table)
}
