//! What the report's discussion wonders about: the interval, the overhead, the spread, and single runs.

use base::Nanos;

use super::super::{
    Claim, Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, StudyCell, StudyFigure,
    Table,
};
use super::{ALL, dfs, roomy, roomy_striped};
use crate::stats::{deviation, variation};

/// Within so much of a time, a time is the same (spec 1.11).
const SAME: f64 = 0.005;

pub(super) fn poll_interval(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    const INTERVALS: [&str; 4] = ["62500us", "125ms", "500ms", "1s"];
    let world = roomy()?;
    let mut found = Found::default();
    for reading in Reading::BOTH {
        let usual = dfs(reading, "");
        let others = INTERVALS.map(|every| dfs(reading, &format!("interval={every}")));
        let columns: Vec<&str> =
            std::iter::once(&usual).chain(&others).map(String::as_str).collect();
        let played = rig.play(&world, &columns, &ALL)?;
        let title =
            format!("time at 250 ms, and what others save of it in %, reading {}", reading.word());
        let mut table =
            Table::new(&title, &["workload", "250 ms", "62.5 ms", "125 ms", "500 ms", "1 s"])
                .units(&["s", "%"]);
        let mut worst: Option<Gain> = None;
        let mut is_judged = true;
        for (place, workload) in ALL.iter().enumerate() {
            let base =
                played.mean_s(0, place).map_or("–".to_owned(), |mean| format!("{mean:.2} s"));
            let mut cells = vec![(*workload).into(), base.into()];
            for column in 1..columns.len() {
                let saved = played.gain(column, place, (&played, 0));
                cells.push(saved.cell());
                is_judged &= !saved.is_empty();
                let is_larger =
                    worst.as_ref().is_none_or(|worst| worst.mean.abs() < saved.mean.abs());
                worst = if is_larger { Some(saved) } else { worst };
            }
            table.row(cells);
        }
        found.tables.push(table);
        let worst = worst.filter(|_| is_judged);
        found.claims.push(Claim::judged(
            "the poll interval changes nothing: every time within 0.5 % of that at 250 ms",
            reading,
            worst.as_ref().map_or("a pair is missing".into(), |worst| {
                let text = format!("the largest difference: {} % saved", worst.shown());
                StudyCell::new(text, worst.figure("%").into_iter().collect())
            }),
            worst.map(|worst| worst.mean.abs() <= SAME),
        ));
        found.why.extend(played.faults());
    }
    Ok(found)
}

pub(super) fn own_overhead(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    /// Work for each poll; the first stands for none.
    const WORK: [(u64, &str); 3] =
        [(1_000, "free"), (MEASURED_NS, "0.76 ms (measured)"), (BOUND_NS, "10 ms (a bound)")];
    let base = rig.play(&roomy_striped()?, &["linux"], &ALL)?;
    let mut found = Found::default();
    let mut table = Table::new(
        "mean gain over the ten workloads against striped, in %",
        &["reading", WORK[0].1, WORK[1].1, WORK[2].1],
    )
    .units(&["%"])
    .drawn(Drawing::Intervals);
    for reading in Reading::BOTH {
        let mut gains = Vec::new();
        for (each_ns, _) in WORK {
            let world = roomy()?.with_own_work(Nanos(each_ns));
            let played = rig.play(&world, &[&dfs(reading, "")], &ALL)?;
            gains.push(played.mean_gain(0, (&base, 0)));
            found.why.extend(played.faults());
        }
        table.row(std::iter::once(reading.word().into()).chain(gains.iter().map(Gain::cell)));
        for (place, (_, work)) in WORK.iter().enumerate().skip(1) {
            let eaten = gains[0].beside(&gains[place]);
            found.claims.push(Claim::judged(
                &format!("with {work} a poll the gain differs by more than 0.5 points: its own work eats it"),
                reading,
                eaten.found("points"),
                (!eaten.is_empty()).then_some(0.005 < eaten.mean.abs()),
            ));
        }
    }
    found.tables.push(table);
    found.why.push(
        "the report does not say how long a poll takes, and 60 tiles are never all busy, so that work on one of them \
         delays few programs"
            .to_owned(),
    );
    Ok(found)
}

/// Nanoseconds of a poll as measured of evenkeel itself: with 100 busy jobs it uses 0.3047 % of a CPU at four turns
/// a second (docs/measured.md, `cargo run --release -p xtask -- bench overhead`).
const MEASURED_NS: u64 = 762_000;
/// More than any: thirteen times that. A tile at 700 MHz that issues in order is slower than what was measured on.
const BOUND_NS: u64 = 10_000_000;

pub(super) fn spread(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let base = rig.play(&roomy_striped()?, &["linux"], &ALL)?;
    let here = rig.play(&roomy()?, &["dfs[reading=paper]", "dfs"], &ALL)?;
    let mut found = Found::default();
    let mut table = Table::new(
        "programs that spread less with DFS than by default, and the median coefficient of variation in %",
        &["reading", "programs", "less spread", "variation: default", "DFS"],
    )
    .units(&["count", "count", "%"]);
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
        found.claims.push(Claim::judged(
            "DFS is steadier: more than half of the programs have a smaller deviation",
            reading,
            format!("{n_less} of {n}"),
            (0 < n).then_some(n < 2 * n_less),
        ));
    }
    found.tables.push(table);
    Ok(found)
}

/// Standard deviation of a job's seconds over the seeds, and that as a part of their mean.
fn spread_of(played: &Played, column: usize, workload: usize, job: usize) -> Option<(f64, f64)> {
    let seconds: Vec<f64> = played.job_s(column, workload, job).into_iter().flatten().collect();
    deviation(&seconds).zip(variation(&seconds))
}

pub(super) fn repeated_runs(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let base = rig.play(&roomy_striped()?, &["linux"], &ALL)?;
    let here = rig.play(&roomy()?, &["dfs[reading=paper]", "dfs"], &ALL)?;
    let mut found = Found::default();
    for (column, reading) in [(0, Reading::Paper), (1, Reading::Ours)] {
        let title = format!("time saved in %, reading {}", reading.word());
        let mut table =
            Table::new(&title, &["workload", "mean", "from", "to", "single runs with its sign"])
                .units(&["%", "%", "%", "count"]);
        let (mut n_sure, mut n_signs, mut is_judged) = (0, 0, true);
        for (place, workload) in ALL.iter().enumerate() {
            let gain = here.gain(column, place, (&base, 0));
            let alike = gain.each.iter().filter(|one| (0.0 < **one) == (0.0 < gain.mean)).count();
            is_judged &= gain.interval.is_some();
            n_sure += usize::from(gain.is_surely_above() == Some(true));
            n_signs += usize::from(alike == gain.each.len());
            let end = |of: fn(&crate::stats::Interval) -> f64| {
                gain.interval
                    .as_ref()
                    .map_or("–".to_owned(), |within| format!("{:+.2}", of(within) * 100.0))
            };
            let signs = format!("{alike} of {}", gain.each.len());
            let ends = [end(|within| within.low), end(|within| within.high)];
            let first = [(*workload).to_owned(), gain.percent()];
            table.row(first.into_iter().chain(ends).chain([signs]));
        }
        found.tables.push(table);
        found.claims.push(Claim::judged(
            "the gain counts: the interval of its mean lies above 0 on every workload",
            reading,
            format!("on {n_sure} of {} workloads; on {n_signs} any single run shows the sign of the mean", ALL.len()),
            is_judged.then_some(n_sure == ALL.len()),
        ).on([StudyFigure::count(n_sure, ALL.len())]));
    }
    Ok(found)
}
