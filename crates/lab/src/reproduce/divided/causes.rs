//! Why the gain of figure 8a comes out as it does: the groups, the guard, or the contention?
//!
//! ```text
//!   groups found      divided as it is                         ┐
//!   groups given      the same with the paper's groups told    ├─ the same mixes, seeds, kernel
//!   given, 1 s        and looked for every second: programs   │
//!                     are moved before they have much memory   │
//!   without guard     ours with guard=off                      ┘
//!   splits            all ways to put a mix on two sockets, from the physics, without any policy:
//!                     what isolation by the paper's groups gains over a split at random, and what the best does
//! ```
//!
//! If given groups gain what the paper gains, finding them is at fault; if even they gain nothing, the physics
//! does not punish being together as the paper's machine did; the splits show that without any run.

use host_sim::predict::side_by_side;

use super::super::given::GIVEN;
use super::super::{
    Claim, Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, Table, World,
};
use super::alone::{claim, draws};
use super::mixes::{CONTENDED, CONTENDED_LIMITS};
use super::programs::{ELEVEN, Limits, Socket, group_of, plain, socket, socket_of};
use super::versions::{KERNELS, mean_gain};
use crate::shipped::{self, Draw};
use crate::stats::mean;

/// Rows: name, which rules, and the policy; a limit is put in for `{}`.
const ROWS: [(&str, Reading, &str); 9] = [
    ("rank, found", Reading::Paper, "divided[reading=paper,version=rank]"),
    ("rank, found", Reading::Ours, "divided[version=rank]"),
    ("threshold, found", Reading::Paper, "divided[reading=paper,version=threshold,{}]"),
    ("threshold, found", Reading::Ours, "divided[version=threshold,{}]"),
    ("threshold, guard off", Reading::Ours, "divided[version=threshold,guard=off,{}]"),
    ("groups given", Reading::Paper, "?divided[reading=paper,version=threshold,th_sq=1,th_ref=1]"),
    ("groups given", Reading::Ours, "?divided[version=threshold,guard=off,th_sq=1,th_ref=1]"),
    (
        "given, period 1 s",
        Reading::Paper,
        "?divided[reading=paper,version=threshold,th_sq=1,th_ref=1,interval=1s]",
    ),
    (
        "given, period 1 s",
        Reading::Ours,
        "?divided[version=threshold,guard=off,th_sq=1,th_ref=1,interval=1s]",
    ),
];

/// A machine and a kernel on which the rows are played.
struct Setting {
    words: &'static str,
    variant: &'static str,
    world: World,
}

/// As it is under both kernels; where memory left behind costs nothing; and with half of the bandwidth.
fn settings() -> Result<[Setting; 4], ReproduceError> {
    let machine = || World::shipped("xeon-2x4");
    let [on, off] = KERNELS;
    let as_near = "NUMA balancing off, memory elsewhere as near as one's own";
    let near = machine()?.remote_over_local(1.0).relieved_links(100);
    Ok([
        Setting { words: on.0, variant: on.1, world: machine()? },
        Setting { words: off.0, variant: off.1, world: machine()? },
        Setting { words: as_near, variant: off.1, world: near },
        Setting {
            words: "NUMA balancing on, half the bandwidth",
            variant: on.1,
            world: machine()?.pressed(2),
        },
    ])
}

pub(super) fn groups(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let groups = groups_of_contended()?;
    let mut found = Found::default();
    for Setting { words, variant, world } in settings()? {
        let limits = Limits::of(&socket_of(&world.machine, Draw::Middle)?).params();
        let text = |row: &str| {
            let policy = row.replace("{}", &limits);
            let told = policy.strip_prefix('?').map(|policy| format!("{GIVEN}{policy}"));
            format!("{}@{variant}", told.unwrap_or(policy))
        };
        let rows = ROWS.iter().map(|(_, _, row)| *row).chain(["linux"]);
        let columns: Vec<String> = rows.map(text).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let played = rig.play(&world, &columns, &CONTENDED)?;
        let title = format!("gain over Linux 4.2 with two or more of both groups in %, {words}");
        let heads = ["groups", "reading", "mean gain", "of Group 1", "of Group 2", "of Group 3"];
        let mut table = Table::new(&title, &heads).units(&["1", "%"]);
        let means: Vec<Gain> =
            (0..ROWS.len()).map(|row| mean_gain(&played, (row, ROWS.len()), |_| true)).collect();
        for (row, (name, reading, _)) in ROWS.iter().enumerate() {
            let of_group = |group: u8| gain_of(&played, &groups, group, (row, ROWS.len())).cell();
            let first = [(*name).into(), reading.word().into(), means[row].cell()];
            table.row(first.into_iter().chain([1, 2, 3].map(of_group)));
        }
        found.tables.push(table);
        found.claims.extend(judge(&means, words));
        found.why.extend(played.faults());
    }
    Ok(found)
}

/// The paper's group of every job of the contended mixes.
fn groups_of_contended() -> Result<Vec<Vec<u8>>, ReproduceError> {
    let of = |mix: &&str| -> Result<Vec<u8>, ReproduceError> {
        Ok(shipped::workload(mix)?.jobs.iter().map(group_of).collect())
    };
    CONTENDED.iter().map(of).collect()
}

/// The mean gain of the programs of a group, over the mixes that have any, seed by seed.
fn gain_of(played: &Played, groups: &[Vec<u8>], group: u8, (column, base): (usize, usize)) -> Gain {
    let of_mix = |mix: usize| {
        let members: Vec<usize> =
            (0..groups[mix].len()).filter(|job| groups[mix][*job] == group).collect();
        let times: Vec<_> = members
            .iter()
            .map(|job| (played.job_s(base, mix, *job), played.job_s(column, mix, *job)))
            .collect();
        let of_seed = |(at, seed): (usize, &u64)| {
            let each = times.iter().map(|(default, here)| Some(default[at]? / here[at]? - 1.0));
            let each: Option<Vec<f64>> = each.collect();
            each.filter(|each| !each.is_empty()).map(|each| (*seed, mean(&each)))
        };
        Gain::by_seed(played.seeds().iter().enumerate().filter_map(of_seed).collect())
    };
    let of: Vec<Gain> =
        (0..groups.len()).filter(|mix| groups[*mix].contains(&group)).map(of_mix).collect();
    Gain::over(&of)
}

fn judge(means: &[Gain], words: &str) -> Vec<Claim> {
    let surely = |what: &str, reading: Reading, more: Gain| {
        let claim = format!("{what}, {words}");
        Claim::judged(&claim, reading, more.found("points"), more.is_surely_above())
    };
    let is_gain = |gain: &Gain| {
        let (low, high) = CONTENDED_LIMITS;
        (!gain.is_empty()).then(|| gain.is_within(low, high))
    };
    let mut claims: Vec<Claim> = [(Reading::Paper, 5), (Reading::Ours, 6)]
        .into_iter()
        .map(|(reading, row)| {
            Claim::judged(
                &format!(
                    "with the paper's groups given the mean gain lies between 3 and 10 %, {words}"
                ),
                reading,
                means[row].found("%"),
                is_gain(&means[row]),
            )
        })
        .collect();
    let more = |one: usize, other: usize| means[one].beside(&means[other]);
    let (paper, ours) = (Reading::Paper, Reading::Ours);
    let given = "given groups gain more than those found by thresholds";
    claims.push(surely(given, paper, more(5, 2)));
    claims.push(surely(given, ours, more(6, 3)));
    let early = "given groups gain more if looked for every second";
    claims.push(surely(early, paper, more(7, 5)));
    claims.push(surely(early, ours, more(8, 6)));
    claims.push(surely("without the guard the threshold version gains more", ours, more(4, 3)));
    claims
}

/// CPUs of a socket.
const SOCKET: usize = 4;

/// What the splits of a mix over two sockets make of it: mean over the programs of time in a split taken at random /
/// time in this one - 1, in points.
#[derive(Clone, Copy, Debug, Default)]
struct Splits {
    isolated: f64,
    best: f64,
    worst: f64,
    /// How much slower programs are in a split at random.
    at_random: f64,
}

/// The paper's way: Group 1 on one socket, Group 2 on the other, Group 3 there while there is room (spec 5.4).
fn isolation(groups: &[u8]) -> Vec<bool> {
    let of = |group: u8| (0..groups.len()).filter(move |place| groups[*place] == group);
    let others: Vec<usize> = of(2).chain(of(3)).collect();
    let mut on_a: Vec<bool> = groups.iter().map(|group| *group == 1).collect();
    others.into_iter().skip(SOCKET).for_each(|place| on_a[place] = true);
    on_a
}

impl Splits {
    fn of(socket: &Socket, mix: &[usize], groups: &[u8]) -> Self {
        let slowdowns = |on_a: &[bool]| -> Vec<f64> {
            let mut all = vec![1.0; mix.len()];
            for side in [true, false] {
                let there: Vec<usize> =
                    (0..mix.len()).filter(|place| on_a[*place] == side).collect();
                let behaviours: Vec<_> =
                    there.iter().map(|place| &socket.behaviours[mix[*place]]).collect();
                let seen = side_by_side(&behaviours, &socket.domain);
                there.iter().zip(seen).for_each(|(place, seen)| all[*place] = seen.slowdown);
            }
            all
        };
        let half = mix.len() / 2;
        let even = (0u32..1 << mix.len()).filter(|set| set.count_ones() as usize == half);
        let even: Vec<Vec<f64>> = even
            .map(|set| {
                let on_a: Vec<bool> = (0..mix.len()).map(|place| set >> place & 1 == 1).collect();
                slowdowns(&on_a)
            })
            .collect();
        let at_random: Vec<f64> = (0..mix.len())
            .map(|place| mean(&even.iter().map(|split| split[place]).collect::<Vec<f64>>()))
            .collect();
        let gain = |split: &Vec<f64>| {
            let each = at_random.iter().zip(split).map(|(random, here)| random / here - 1.0);
            mean(&each.collect::<Vec<f64>>()) * 100.0
        };
        let isolated = gain(&slowdowns(&isolation(groups)));
        let ends = even.iter().map(gain);
        Splits {
            isolated,
            best: ends.clone().fold(isolated, f64::max),
            worst: ends.fold(isolated, f64::min),
            at_random: (mean(&at_random) - 1.0) * 100.0,
        }
    }
}

/// The contended mixes of one draw.
struct Mixes {
    splits: Vec<Splits>,
}

impl Mixes {
    fn of(socket: &Socket, mixes: &[(Vec<usize>, Vec<u8>)]) -> Self {
        let splits = mixes.iter().map(|(mix, groups)| Splits::of(socket, mix, groups)).collect();
        Mixes { splits }
    }

    fn mean(&self, of: fn(&Splits) -> f64) -> f64 {
        mean(&self.splits.iter().map(of).collect::<Vec<f64>>())
    }
}

type Asked = fn(&Mixes) -> bool;

const CLAIMS: [(&str, Asked); 4] = [
    ("isolation by the paper's groups is better than a split at random, on average", |mixes| {
        0.0 < mixes.mean(|split| split.isolated)
    }),
    ("isolation by the paper's groups gains 3 % or more on a split at random", |mixes| {
        3.0 <= mixes.mean(|split| split.isolated)
    }),
    ("it is the best split of more than half of the mixes", |mixes| {
        let best = mixes.splits.iter().filter(|split| split.best <= split.isolated + 1e-9).count();
        mixes.splits.len() < 2 * best
    }),
    ("the best split, whichever it is, gains 3 % or more on one at random", |mixes| {
        3.0 <= mixes.mean(|split| split.best)
    }),
];

pub(super) fn splits(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut mixes = Vec::new();
    for mix in CONTENDED {
        let jobs = shipped::workload(mix)?.jobs;
        let named = |name: &str| ELEVEN.iter().position(|one| *one == name);
        let places: Option<Vec<usize>> = jobs.iter().map(|job| named(plain(job))).collect();
        let places = places.expect("contended mixes are of the eleven alone");
        mixes.push((places, jobs.iter().map(group_of).collect()));
    }
    let middle = Mixes::of(&socket("xeon-2x4", Draw::Middle)?, &mixes);
    let drawn: Vec<Mixes> = draws(rig)?.iter().map(|socket| Mixes::of(socket, &mixes)).collect();
    let heads = ["mix", "isolated", "best", "worst"];
    let title = "what a split gains on one at random in %, in the middle of every range";
    let mut table = Table::new(title, &heads).units(&["%"]).drawn(Drawing::Intervals);
    let mut row = |name: &str, splits: [f64; 3]| {
        let cells = splits.map(|gain| format!("{gain:+.1}"));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    for (mix, splits) in CONTENDED.iter().zip(&middle.splits) {
        row(mix, [splits.isolated, splits.best, splits.worst]);
    }
    row(
        "mean",
        [
            middle.mean(|split| split.isolated),
            middle.mean(|split| split.best),
            middle.mean(|split| split.worst),
        ],
    );
    let claims = CLAIMS.map(|(what, asked)| claim(what, asked, &middle, &drawn)).to_vec();
    Ok(Found { tables: vec![table, other_machines(&mixes)?], claims, ..Found::default() })
}

/// The same on machines with more or less of what programs contend for: which of it is it that counts?
fn other_machines(mixes: &[(Vec<usize>, Vec<u8>)]) -> Result<Table, ReproduceError> {
    let heads = ["the socket", "isolated", "best", "worst", "slow-down at random"];
    let title = "the same on other sockets, mean over the mixes in %";
    let mut table = Table::new(title, &heads).units(&["%"]);
    let machine = || World::shipped("xeon-2x4");
    let worlds = [
        ("as it is", machine()?),
        ("bandwidth × 100", machine()?.widened(100)),
        ("bandwidth ÷ 2", machine()?.pressed(2)),
        ("bandwidth ÷ 4", machine()?.pressed(4)),
        ("cache × 4", machine()?.with_cache(4, 1)),
        ("cache ÷ 2", machine()?.with_cache(1, 2)),
    ];
    for (name, world) in worlds {
        let all = Mixes::of(&socket_of(&world.machine, Draw::Middle)?, mixes);
        let of: [fn(&Splits) -> f64; 4] = [
            |split| split.isolated,
            |split| split.best,
            |split| split.worst,
            |split| split.at_random,
        ];
        let cells = of.map(|of| format!("{:+.1}", all.mean(of)));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    Ok(table)
}
