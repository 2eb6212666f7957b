//! Figures 8a, 8b and 9: the mixes, by default and divided.

use super::super::{Claim, Found, Gain, Played, Reading, ReproduceError, Rig, Table, World};
use super::programs::{Limits, socket};
use crate::shipped::{self, Draw};
use crate::stats::{deviation, mean};

/// Mixes with two or more of Group 1 and of Group 2 (spec 5.5).
const CONTENDED: [&str; 10] = [
    "basic01", "basic02", "basic03", "basic04", "basic05", "basic07", "basic10", "basic11",
    "basic12", "basic14",
];
/// Both readings of Basic 8.
const BASIC_8: [&str; 2] = ["basic08", "basic13"];

/// Both versions under both readings, beside both defaults.
pub(super) struct Columns {
    texts: Vec<String>,
}

/// Places of the defaults.
const BASES: [(usize, &str); 2] = [(4, "NUMA balancing on"), (5, "NUMA balancing off")];
/// Places of the versions: how it is called, which reading, where.
const VERSIONS: [(&str, Reading, usize); 4] = [
    ("rank", Reading::Paper, 0),
    ("rank", Reading::Ours, 1),
    ("threshold", Reading::Paper, 2),
    ("threshold", Reading::Ours, 3),
];

impl Columns {
    pub fn on(machine: &str, draw: Draw) -> Result<Self, ReproduceError> {
        let limits = Limits::of(&socket(machine, draw)?).params();
        Ok(Columns {
            texts: vec![
                "divided[reading=paper,version=rank]".to_owned(),
                "divided[version=rank]".to_owned(),
                format!("divided[reading=paper,version=threshold,{limits}]"),
                format!("divided[version=threshold,{limits}]"),
                "linux@numa-balancing".to_owned(),
                "linux@no-numa-balancing".to_owned(),
            ],
        })
    }

    pub fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }
}

/// Mean over the programs of time by default / time here - 1, for each seed that ended well on both sides.
pub(super) fn gain(played: &Played, column: usize, base: usize, workload: usize) -> Gain {
    let n_jobs = played.run(base, workload, 0).jobs.len();
    let jobs: Vec<_> = (0..n_jobs)
        .map(|job| (played.job_s(base, workload, job), played.job_s(column, workload, job)))
        .collect();
    let n_seeds = jobs.first().map_or(0, |(default, _)| default.len());
    let of_seed = |seed: usize| -> Option<f64> {
        let each = jobs.iter().map(|(default, here)| Some(default[seed]? / here[seed]? - 1.0));
        let each: Option<Vec<f64>> = each.collect();
        each.map(|each| mean(&each))
    };
    Gain::of_each((0..n_seeds).filter_map(of_seed).collect())
}

/// A table of gains, a row for each mix.
fn table(played: &Played, base: (usize, &str)) -> Table {
    let title = format!("gain over Linux 4.2 in %, {}", base.1);
    let heads = ["mix", "rank: paper", "ours", "threshold: paper", "ours"];
    let mut table = Table::new(&title, &heads);
    for (place, mix) in played.workloads().iter().enumerate() {
        let gains = VERSIONS.map(|(_, _, column)| gain(played, column, base.0, place).shown());
        table.row(std::iter::once(mix.clone()).chain(gains));
    }
    table
}

/// The mean over some mixes of their mean gains, in %.
fn mean_of(played: &Played, column: usize, base: usize, is_in: impl Fn(&str) -> bool) -> f64 {
    let places = played.workloads().iter().enumerate().filter(|(_, mix)| is_in(mix));
    let gains: Vec<f64> =
        places.map(|(place, _)| gain(played, column, base, place).mean * 100.0).collect();
    mean(&gains)
}

pub(super) fn fig_8a(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mixes: Vec<String> = shipped::workloads()
        .into_iter()
        .filter(|name| !name.starts_with("wl") && !name.contains("-x"))
        .collect();
    let mixes: Vec<&str> = mixes.iter().map(String::as_str).collect();
    let columns = Columns::on("xeon-2x4", Draw::Middle)?;
    let played = rig.play(&World::shipped("xeon-2x4")?, &columns.texts(), &mixes)?;
    let mut found = Found::default();
    for base in BASES {
        found.tables.push(table(&played, base));
        for (version, reading, column) in VERSIONS {
            let contended = mean_of(&played, column, base.0, |mix| CONTENDED.contains(&mix));
            let eight = BASIC_8.map(|eight| mean_of(&played, column, base.0, |mix| mix == eight));
            let (version, on) =
                (format!("{version} version, {}", base.1), |low, high, value: f64| {
                    (low..=high).contains(&value)
                });
            found.claims.push(Claim::new(
                &format!("{version}: mean gain with two or more of both groups between 3 and 10 %"),
                reading,
                format!("{contended:+.1} %"),
                on(3.0, 10.0, contended),
            ));
            found.claims.push(Claim::new(
                &format!("{version}: basic08 and basic13 within 2 % of 0"),
                reading,
                format!("{:+.1} and {:+.1} %", eight[0], eight[1]),
                eight.iter().all(|gain| on(-2.0, 2.0, *gain)),
            ));
        }
    }
    found.why.push(format!("the threshold version has {}", columns.texts[3]));
    found.why.extend(played.faults());
    Ok(found)
}

pub(super) fn fig_8b(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    const SIZES: [&str; 3] = ["-x3", "-x4", "-x4p4"];
    let mixes: Vec<String> =
        shipped::workloads().into_iter().filter(|name| name.contains("-x")).collect();
    let mixes: Vec<&str> = mixes.iter().map(String::as_str).collect();
    let machine = "xeon-e5-2697-2x14";
    let columns = Columns::on(machine, Draw::Middle)?;
    let played = rig.play(&World::shipped(machine)?, &columns.texts(), &mixes)?;
    let mut found = Found::default();
    for base in BASES {
        found.tables.push(table(&played, base));
        for (version, reading, column) in VERSIONS {
            let means =
                SIZES.map(|size| mean_of(&played, column, base.0, |mix| mix.ends_with(size)));
            let best = (0..mixes.len()).max_by(|one, other| {
                let of = |place: usize| gain(&played, column, base.0, place).mean;
                of(*one).total_cmp(&of(*other))
            });
            let best = best.map_or(String::new(), |place| {
                format!("; best: {} {}", mixes[place], gain(&played, column, base.0, place).shown())
            });
            found.claims.push(Claim::new(
                &format!("{version} version, {}: mean gain x3 < x4 < x4+4", base.1),
                reading,
                format!("{:+.1}, {:+.1}, {:+.1} %{best}", means[0], means[1], means[2]),
                means[0] < means[1] && means[1] < means[2],
            ));
        }
    }
    found.why.extend(played.faults());
    Ok(found)
}

pub(super) fn fig_9(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let seeds: Vec<u64> = rig.seeds().iter().copied().take(5).collect();
    let columns = Columns::on("xeon-2x4", Draw::Middle)?;
    let world = World::shipped("xeon-2x4")?;
    let played = rig.play_seeds(&world, &columns.texts(), &["basic14"], &seeds)?;
    let jobs = world.jobs("basic14", super::super::world::ClassBasis::Rate)?;
    let spread = |column: usize, job: usize| {
        let seconds: Vec<f64> = played.job_s(column, 0, job).into_iter().flatten().collect();
        deviation(&seconds).unwrap_or(0.0)
    };
    let mut found = Found::default();
    let heads = [
        "program",
        "rank: paper",
        "ours",
        "threshold: paper",
        "ours",
        "Linux: balancing",
        "without",
    ];
    let mut table = Table::new("standard deviation of its time in s", &heads);
    for (place, job) in jobs.iter().enumerate() {
        let cells = (0..6).map(|column| format!("{:.1}", spread(column, place)));
        table.row(std::iter::once(job.name.clone()).chain(cells));
    }
    let of =
        |column: usize| mean(&(0..jobs.len()).map(|job| spread(column, job)).collect::<Vec<f64>>());
    table.row(
        std::iter::once("mean".to_owned()).chain((0..6).map(|column| format!("{:.1}", of(column)))),
    );
    found.tables.push(table);
    for (base, what) in BASES {
        for (version, reading, column) in VERSIONS {
            found.claims.push(Claim::new(
                &format!(
                    "{version} version, {what}: mean deviation at most a third of the default's"
                ),
                reading,
                format!("{:.1} s beside {:.1} s", of(column), of(base)),
                of(column) * 3.0 <= of(base),
            ));
        }
    }
    found.why.extend(played.faults());
    Ok(found)
}
