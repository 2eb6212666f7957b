//! What the report's discussion wonders about: the interval, the overhead, the spread, and single runs.

use base::Nanos;

use super::super::{Claim, Found, Gain, Played, Reading, ReproduceError, Rig, Table, World};
use super::{ALL, dfs};
use crate::stats::{deviation, mean};

/// Within so much of a time, a time is the same (spec 1.11).
const SAME: f64 = 0.005;

/// Mean seconds of a workload over the seeds that ended well.
fn mean_s(played: &Played, column: usize, workload: usize) -> f64 {
    mean(&played.whole_s(column, workload).into_iter().flatten().collect::<Vec<f64>>())
}

pub(super) fn poll_interval(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    const INTERVALS: [&str; 4] = ["62500us", "125ms", "500ms", "1s"];
    let world = World::shipped("tilepro64")?;
    let mut found = Found::default();
    for reading in Reading::BOTH {
        let usual = dfs(reading, "");
        let others = INTERVALS.map(|every| dfs(reading, &format!("interval={every}")));
        let columns: Vec<&str> =
            std::iter::once(&usual).chain(&others).map(String::as_str).collect();
        let played = rig.play(&world, &columns, &ALL)?;
        let title = format!("mean time beside that at 250 ms in %, reading {}", reading.word());
        let mut table =
            Table::new(&title, &["workload", "250 ms", "62.5 ms", "125 ms", "500 ms", "1 s"]);
        let mut worst = 0.0f64;
        for (place, workload) in ALL.iter().enumerate() {
            let base = mean_s(&played, 0, place);
            let mut cells = vec![(*workload).to_owned(), format!("{base:.2} s")];
            for column in 1..columns.len() {
                let off = mean_s(&played, column, place) / base - 1.0;
                worst = if worst.abs() < off.abs() { off } else { worst };
                cells.push(format!("{:+.2}", off * 100.0));
            }
            table.row(cells);
        }
        found.tables.push(table);
        found.claims.push(Claim::new(
            "the poll interval changes nothing: every time within 0.5 % of that at 250 ms",
            reading,
            format!("the largest difference is {:+.2} %", worst * 100.0),
            worst.abs() <= SAME,
        ));
        found.why.extend(played.faults());
    }
    Ok(found)
}

pub(super) fn own_overhead(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    /// Work for each poll; the first stands for none.
    const WORK: [(u64, &str); 4] =
        [(1_000, "free"), (100_000, "0.1 ms"), (1_000_000, "1 ms"), (10_000_000, "10 ms")];
    let base = rig.play(&World::shipped("tilepro64-striped")?, &["linux"], &ALL)?;
    let mut found = Found::default();
    let mut table = Table::new(
        "mean gain over the ten workloads against striped, in %",
        &["reading", "free", "0.1 ms", "1 ms", "10 ms"],
    );
    for reading in Reading::BOTH {
        let mut gains = Vec::new();
        for (each_ns, _) in WORK {
            let world = World::shipped("tilepro64")?.with_own_work(Nanos(each_ns));
            let played = rig.play(&world, &[&dfs(reading, "")], &ALL)?;
            gains.push(mean_gain(&played, 0, (&base, 0)).mean * 100.0);
            found.why.extend(played.faults());
        }
        table.row(
            std::iter::once(reading.word().to_owned())
                .chain(gains.iter().map(|gain| format!("{gain:+.2}"))),
        );
        for (place, (_, work)) in WORK.iter().enumerate().skip(1) {
            let eaten = gains[0] - gains[place];
            found.claims.push(Claim::new(
                &format!(
                    "with {work} a poll the overhead eats the gain: more than 0.5 points of it"
                ),
                reading,
                format!("{eaten:+.2} points"),
                0.5 < eaten.abs(),
            ));
        }
    }
    found.tables.push(table);
    found.why.push(
        "the report does not say how long a poll takes; 60 tiles were never all busy, so that work on one of \
         them delays few programs"
            .to_owned(),
    );
    Ok(found)
}

/// Over all workloads, seed by seed: the mean of their gains.
pub(super) fn mean_gain(here: &Played, column: usize, base: (&Played, usize)) -> Gain {
    let of: Vec<Gain> =
        (0..here.workloads().len()).map(|place| here.gain(column, place, base)).collect();
    let n = of.iter().map(|gain| gain.each.len()).min().unwrap_or(0);
    let each = |seed: usize| mean(&of.iter().map(|gain| gain.each[seed]).collect::<Vec<f64>>());
    Gain::of_each((0..n).map(each).collect())
}

pub(super) fn spread(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let base = rig.play(&World::shipped("tilepro64-striped")?, &["linux"], &ALL)?;
    let here = rig.play(&World::shipped("tilepro64")?, &["dfs[reading=paper]", "dfs"], &ALL)?;
    let mut found = Found::default();
    let mut table = Table::new(
        "programs that spread less with DFS than by default, and the median coefficient of variation in %",
        &["reading", "programs", "less spread", "variation: default", "DFS"],
    );
    for (column, reading) in [(0, Reading::Paper), (1, Reading::Ours)] {
        let (mut n, mut n_less, mut default, mut ours) = (0usize, 0usize, Vec::new(), Vec::new());
        for place in 0..ALL.len() {
            let jobs = base.run(0, place, 0).jobs.len();
            for job in 0..jobs {
                let (Some(one), Some(other)) =
                    (spread_of(&base, 0, place, job), spread_of(&here, column, place, job))
                else {
                    continue;
                };
                n += 1;
                n_less += usize::from(other.0 < one.0);
                default.push(one.1 * 100.0);
                ours.push(other.1 * 100.0);
            }
        }
        let middle = |all: &[f64]| format!("{:.2}", crate::stats::median(all));
        table.row([
            reading.word().to_owned(),
            n.to_string(),
            n_less.to_string(),
            middle(&default),
            middle(&ours),
        ]);
        found.claims.push(Claim::new(
            "DFS is steadier: more than half of the programs have a smaller deviation",
            reading,
            format!("{n_less} of {n}"),
            n < 2 * n_less,
        ));
    }
    found.tables.push(table);
    Ok(found)
}

/// Standard deviation of a job's seconds over the seeds, and that as a part of their mean.
fn spread_of(played: &Played, column: usize, workload: usize, job: usize) -> Option<(f64, f64)> {
    let seconds: Vec<f64> = played.job_s(column, workload, job).into_iter().flatten().collect();
    let deviation = deviation(&seconds)?;
    Some((deviation, deviation / mean(&seconds)))
}

pub(super) fn repeated_runs(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let base = rig.play(&World::shipped("tilepro64-striped")?, &["linux"], &ALL)?;
    let here = rig.play(&World::shipped("tilepro64")?, &["dfs[reading=paper]", "dfs"], &ALL)?;
    let mut found = Found::default();
    for (column, reading) in [(0, Reading::Paper), (1, Reading::Ours)] {
        let title = format!("time saved in %, reading {}", reading.word());
        let mut table =
            Table::new(&title, &["workload", "mean", "from", "to", "single runs with its sign"]);
        let (mut n_sure, mut n_signs) = (0, 0);
        for (place, workload) in ALL.iter().enumerate() {
            let gain = here.gain(column, place, (&base, 0));
            let alike = gain.each.iter().filter(|one| (0.0 < **one) == (0.0 < gain.mean)).count();
            n_sure += usize::from(gain.is_sure() && 0.0 < gain.mean);
            n_signs += usize::from(alike == gain.each.len());
            let end = |of: fn(&crate::stats::Interval) -> f64| {
                gain.interval
                    .as_ref()
                    .map_or("–".to_owned(), |within| format!("{:+.2}", of(within) * 100.0))
            };
            let signs = format!("{alike} of {}", gain.each.len());
            let ends = [end(|within| within.low), end(|within| within.high)];
            let first = [(*workload).to_owned(), format!("{:+.2}", gain.mean * 100.0)];
            table.row(first.into_iter().chain(ends).chain([signs]));
        }
        found.tables.push(table);
        found.claims.push(Claim::new(
            "the gain counts: the interval of its mean lies above 0 on every workload",
            reading,
            format!("on {n_sure} of {} workloads; on {n_signs} any single run shows the sign of the mean", ALL.len()),
            n_sure == ALL.len(),
        ));
    }
    Ok(found)
}
