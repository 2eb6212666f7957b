//! Both versions under both readings beside the default, with NUMA balancing and without; and what they gain.
//!
//! ```text
//!   balancing on    rank paper · rank ours · threshold paper · threshold ours · linux
//!   balancing off   the same, so that a policy and its baseline have the same kernel below them
//! ```

use super::super::{Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, Table, World};
use super::programs::{Limits, socket};
use crate::shipped::Draw;
use crate::stats::mean;

/// The versions: how it is called, which reading, its place.
pub(super) const VERSIONS: [(&str, Reading, usize); 4] = [
    ("rank", Reading::Paper, 0),
    ("rank", Reading::Ours, 1),
    ("threshold", Reading::Paper, 2),
    ("threshold", Reading::Ours, 3),
];
/// Columns with one setting of balancing; the default stands last.
pub(super) const N_EACH: usize = 5;
/// Both settings, in words and as a variant.
pub(super) const KERNELS: [(&str, &str); 2] =
    [("NUMA balancing on", "numa-balancing"), ("NUMA balancing off", "no-numa-balancing")];
/// Heads of the versions in tables.
pub(super) const HEADS: [&str; 4] =
    ["rank: paper", "rank: ours", "threshold: paper", "threshold: ours"];

/// All of them on a machine: the limits of the threshold version are those of the draw.
pub(super) struct Columns {
    texts: Vec<String>,
    /// In words, for whoever wants to know the limits.
    pub limits: String,
}

impl Columns {
    /// With so many of [`KERNELS`].
    pub fn on(machine: &str, draw: Draw, n_kernels: usize) -> Result<Self, ReproduceError> {
        let limits = Limits::of(&socket(machine, draw)?).params();
        let of = |(_, variant): &(&str, &str)| {
            [
                "divided[reading=paper,version=rank]".to_owned(),
                "divided[version=rank]".to_owned(),
                format!("divided[reading=paper,version=threshold,{limits}]"),
                format!("divided[version=threshold,{limits}]"),
                "linux".to_owned(),
            ]
            .map(|policy| format!("{policy}@{variant}"))
        };
        let texts = KERNELS.iter().take(n_kernels).flat_map(of).collect();
        Ok(Columns { texts, limits })
    }

    pub fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }
}

/// The place of a version with a kernel, and that of its baseline.
pub(super) fn places(version: usize, kernel: usize) -> (usize, usize) {
    (kernel * N_EACH + version, kernel * N_EACH + N_EACH - 1)
}

/// Mean over the programs of time by default / time here - 1, for each seed that ended well on both sides.
pub(super) fn gain(played: &Played, (column, base): (usize, usize), workload: usize) -> Gain {
    let n_jobs = played.run(base, workload, 0).jobs.len();
    let jobs: Vec<_> = (0..n_jobs)
        .map(|job| (played.job_s(base, workload, job), played.job_s(column, workload, job)))
        .collect();
    let of_seed = |(at, seed): (usize, &u64)| -> Option<(u64, f64)> {
        let each = jobs.iter().map(|(default, here)| Some(default[at]? / here[at]? - 1.0));
        let each: Option<Vec<f64>> = each.collect();
        each.map(|each| (*seed, mean(&each)))
    };
    Gain::by_seed(played.seeds().iter().enumerate().filter_map(of_seed).collect())
}

/// The mean over some mixes, seed by seed.
pub(super) fn mean_gain(
    played: &Played,
    places: (usize, usize),
    is_in: impl Fn(&str) -> bool,
) -> Gain {
    let mixes = played.workloads().iter().enumerate().filter(|(_, mix)| is_in(mix));
    let gains: Vec<Gain> = mixes.map(|(place, _)| gain(played, places, place)).collect();
    Gain::over(&gains)
}

/// A table of gains, a row for each mix; and one for what the paper says.
pub(super) fn table(played: &Played, kernel: usize) -> Table {
    let title = format!("gain over Linux 4.2 in %, {}", KERNELS[kernel].0);
    let heads: Vec<&str> = std::iter::once("mix").chain(HEADS).collect();
    let mut table = Table::new(&title, &heads).units(&["%"]).drawn(Drawing::Intervals);
    for (place, mix) in played.workloads().iter().enumerate() {
        let of = |(_, _, version): (&str, Reading, usize)| {
            gain(played, places(version, kernel), place).cell()
        };
        table.row(std::iter::once(mix.as_str().into()).chain(VERSIONS.map(of)));
    }
    table
}

/// In how many draws something holds, for each of [`VERSIONS`]: `asked` is told the place of a version and of its
/// baseline, and does not know where a run failed.
pub(super) struct Drawn {
    /// By version: draws in which it held, and draws that told.
    pub held: [(usize, usize); 4],
}

impl Drawn {
    pub fn new() -> Self {
        Drawn { held: [(0, 0); 4] }
    }

    pub fn ask(&mut self, kernel: usize, asked: impl Fn((usize, usize)) -> Option<bool>) {
        for (_, _, version) in VERSIONS {
            let Some(holds) = asked(places(version, kernel)) else { continue };
            self.held[version].0 += usize::from(holds);
            self.held[version].1 += 1;
        }
    }

    pub fn tell(&self, claim: &str, found: &mut Found) {
        for (version, reading, place) in VERSIONS {
            let (held, draws) = self.held[place];
            let claim = format!("{version} version: {claim}");
            found.claims.push(super::super::Claim::drawn(&claim, reading, held, draws));
        }
    }
}

/// The mixes of one draw on a machine, one seed: the number of the draw.
pub(super) fn play_draw(
    rig: &Rig<'_>,
    (machine, draw): (&str, u64),
    n_kernels: usize,
    mixes: &[&str],
) -> Result<Played, ReproduceError> {
    let columns = Columns::on(machine, Draw::Seed(draw), n_kernels)?;
    rig.play_seeds(&World::shipped(machine)?.drawn(draw), &columns.texts(), mixes, &[draw])
}
