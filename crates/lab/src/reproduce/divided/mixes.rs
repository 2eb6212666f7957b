//! Figures 8a, 8b and 9: the mixes, by default and divided.

use super::super::world::ClassBasis;
use super::super::{
    Claim, Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, StudyFigure, Table, World,
};
use super::versions::{
    Columns, Drawn, HEADS, KERNELS, VERSIONS, gain, mean_gain, places, play_draw, table,
};
use crate::shipped::{self, Draw};
use crate::stats::{deviation, mean};

/// Mixes with two or more of Group 1 and of Group 2 (spec 5.5).
pub(super) const CONTENDED: [&str; 10] = [
    "basic01", "basic02", "basic03", "basic04", "basic05", "basic07", "basic10", "basic11",
    "basic12", "basic14",
];
/// Both readings of Basic 8.
const BASIC_8: [&str; 2] = ["basic08", "basic13"];
/// What ours may be for the claims of figure 8a, in points (spec 5.5).
pub(super) const CONTENDED_LIMITS: (f64, f64) = (3.0, 10.0);
pub(super) const EIGHT_LIMITS: (f64, f64) = (-2.0, 2.0);

pub(super) fn fig_8a(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let machine = "xeon-2x4";
    let mixes = small_mixes();
    let mixes: Vec<&str> = mixes.iter().map(String::as_str).collect();
    let columns = Columns::on(machine, Draw::Middle, KERNELS.len())?;
    let played = rig.play(&World::shipped(machine)?, &columns.texts(), &mixes)?;
    let mut found = Found::default();
    found.tables.push(summary(&played));
    for (kernel, (words, _)) in KERNELS.into_iter().enumerate() {
        found.tables.push(table(&played, kernel));
        for (version, reading, column) in VERSIONS {
            let of = places(column, kernel);
            let contended = mean_gain(&played, of, |mix| CONTENDED.contains(&mix));
            let eight = BASIC_8.map(|eight| mean_gain(&played, of, |mix| mix == eight));
            found.claims.extend(judge(
                &format!("{version} version, {words}"),
                reading,
                &contended,
                &eight,
            ));
        }
    }
    found.why.push(format!("the threshold version has {}", columns.limits));
    found.why.extend(played.faults());
    Ok(found)
}

/// The eighteen.
fn small_mixes() -> Vec<String> {
    let all = shipped::workloads().into_iter();
    all.filter(|name| !name.starts_with("wl") && !name.contains("-x")).collect()
}

/// The means beside what the paper says.
fn summary(played: &Played) -> Table {
    let heads: Vec<&str> = ["mixes", "the paper"].into_iter().chain(HEADS).collect();
    let mut table = Table::new("mean gain over Linux 4.2 in %, NUMA balancing on", &heads)
        .units(&["%"])
        .published(&["the paper"])
        .drawn(Drawing::Intervals);
    let mut row = |name: &str, says: &str, is_in: &dyn Fn(&str) -> bool| {
        let of = |(_, _, version): (&str, Reading, usize)| {
            mean_gain(played, places(version, 0), is_in).cell()
        };
        table.row([name.into(), says.into()].into_iter().chain(VERSIONS.map(of)));
    };
    row("all eighteen", "+5 to +6", &|_| true);
    row("two or more of both", "–", &|mix| CONTENDED.contains(&mix));
    row("basic07", "+12 to +12", &|mix| mix == "basic07");
    row("basic08", "-2 to +0", &|mix| mix == "basic08");
    row("basic13", "-2 to +0", &|mix| mix == "basic13");
    table
}

fn judge(what: &str, reading: Reading, contended: &Gain, eight: &[Gain; 2]) -> [Claim; 2] {
    let within = |gain: &Gain, (low, high): (f64, f64)| {
        (!gain.is_empty()).then(|| gain.is_within(low, high))
    };
    let both = within(&eight[0], EIGHT_LIMITS).zip(within(&eight[1], EIGHT_LIMITS));
    [
        Claim::judged(
            &format!("{what}: mean gain with two or more of both groups between 3 and 10 %"),
            reading,
            contended.found("%"),
            within(contended, CONTENDED_LIMITS),
        ),
        Claim::judged(
            &format!("{what}: basic08 and basic13 within 2 % of 0"),
            reading,
            format!("{} and {} %", eight[0].shown(), eight[1].shown()),
            both.map(|(one, other)| one && other),
        )
        .on(eight.iter().filter_map(|gain| gain.figure("%"))),
    ]
}

/// Figures 8a and 9 in every draw.
pub(super) fn drawn_8a(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mixes: Vec<&str> = CONTENDED.into_iter().chain(BASIC_8).collect();
    let mut found = Found::default();
    let mut asked: Vec<[Drawn; 3]> = KERNELS.map(|_| [0; 3].map(|_| Drawn::new())).into();
    let mut means: Vec<[Vec<f64>; 4]> = KERNELS.map(|_| Default::default()).into();
    let drawn =
        rig.each_draw(|draw, rig| play_draw(rig, ("xeon-2x4", draw), KERNELS.len(), &mixes))?;
    for played in &drawn {
        for (kernel, asked) in asked.iter_mut().enumerate() {
            let contended = |of| mean_gain(played, of, |mix| CONTENDED.contains(&mix));
            let is = |gain: Gain, (low, high): (f64, f64)| {
                (!gain.is_empty()).then(|| gain.is_within(low, high))
            };
            asked[0].ask(kernel, |of| is(contended(of), CONTENDED_LIMITS));
            asked[1].ask(kernel, |of| is(contended(of), (f64::MIN_POSITIVE, f64::INFINITY)));
            asked[2].ask(kernel, |of| {
                let [one, other] = BASIC_8
                    .map(|eight| is(mean_gain(played, of, |mix| mix == eight), EIGHT_LIMITS));
                Some(one? && other?)
            });
            for (_, _, version) in VERSIONS {
                let gain = contended(places(version, kernel));
                means[kernel][version].extend((!gain.is_empty()).then_some(gain.mean * 100.0));
            }
        }
    }
    found.tables.push(ranges(&means));
    for ((words, _), asked) in KERNELS.iter().zip(&asked) {
        let claims = [
            "mean gain with two or more of both groups between 3 and 10 %",
            "that gain is above 0",
            "basic08 and basic13 within 2 % of 0",
        ];
        for (asked, claim) in asked.iter().zip(claims) {
            asked.tell(&format!("{claim}, {words}"), &mut found);
        }
    }
    Ok(found)
}

/// Where the mean gains of all draws lie.
fn ranges(means: &[[Vec<f64>; 4]]) -> Table {
    let heads: Vec<&str> = std::iter::once("kernel").chain(HEADS).collect();
    let title = "mean gain with two or more of both groups in %: where 90 % of the draws lie";
    let mut table = Table::new(title, &heads).units(&["%"]).drawn(Drawing::Intervals);
    for ((words, _), means) in KERNELS.iter().zip(means) {
        let range = |all: &Vec<f64>| {
            let [low, high] = [0.05, 0.95].map(|part| crate::stats::quantile(all, part));
            if all.is_empty() { "–".to_owned() } else { format!("{low:+.1} to {high:+.1}") }
        };
        table.row(std::iter::once((*words).to_owned()).chain(means.iter().map(range)));
    }
    table
}

/// Ends of the names of the larger mixes.
const SIZES: [&str; 3] = ["-x3", "-x4", "-x4p4"];
const LARGE: &str = "xeon-e5-2697-2x14";

pub(super) fn fig_8b(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mixes: Vec<String> =
        shipped::workloads().into_iter().filter(|name| name.contains("-x")).collect();
    let mixes: Vec<&str> = mixes.iter().map(String::as_str).collect();
    let columns = Columns::on(LARGE, Draw::Middle, KERNELS.len())?;
    let played = rig.play(&World::shipped(LARGE)?, &columns.texts(), &mixes)?;
    let mut found = Found::default();
    for (kernel, (words, _)) in KERNELS.into_iter().enumerate() {
        found.tables.push(by_size(&played, kernel));
        for (version, reading, column) in VERSIONS {
            let of = places(column, kernel);
            let means = SIZES.map(|size| mean_gain(&played, of, |mix| mix.ends_with(size)));
            let best = (0..mixes.len()).map(|place| (place, gain(&played, of, place)));
            let best = best.max_by(|(_, one), (_, other)| one.mean.total_cmp(&other.mean));
            let best = best.map_or(String::new(), |(place, gain)| {
                format!("; best: {} {} %", mixes[place], gain.shown())
            });
            let [x3, x4, x4p4] = &means;
            found.claims.push(
                Claim::judged(
                    &format!("{version} version, {words}: mean gain x3 < x4 < x4+4"),
                    reading,
                    format!("{}, {}, {} %{best}", x3.shown(), x4.shown(), x4p4.shown()),
                    (!means.iter().any(Gain::is_empty))
                        .then_some(x3.mean < x4.mean && x4.mean < x4p4.mean),
                )
                .on(means.iter().filter_map(|gain| gain.figure("%"))),
            );
        }
    }
    found.tables.push(table(&played, 0));
    found.why.push(format!("the threshold version has {}", columns.limits));
    found.why.extend(played.faults());
    Ok(found)
}

fn by_size(played: &Played, kernel: usize) -> Table {
    let heads: Vec<&str> = std::iter::once("programs").chain(HEADS).collect();
    let title = format!("mean gain over Linux 4.2 in %, {}", KERNELS[kernel].0);
    let mut table = Table::new(&title, &heads).units(&["%"]).drawn(Drawing::Intervals);
    for (size, n) in SIZES.iter().zip(["x3: 18", "x4: 24", "x4+4: 28"]) {
        let of = |(_, _, version): (&str, Reading, usize)| {
            mean_gain(played, places(version, kernel), |mix| mix.ends_with(size)).cell()
        };
        table.row(std::iter::once(n.into()).chain(VERSIONS.map(of)));
    }
    table
}

/// One mix of each composition for draws on the large machine: (2,2,2), (3,3,0), (3,0,3) and (2,0,4).
const OF_EACH: [&str; 4] = ["basic01", "basic04", "basic06", "basic08"];

/// Figure 8b in every draw.
pub(super) fn drawn_8b(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mixes: Vec<String> =
        OF_EACH.iter().flat_map(|mix| SIZES.map(|size| format!("{mix}{size}"))).collect();
    let mixes: Vec<&str> = mixes.iter().map(String::as_str).collect();
    let (mut found, mut grows) = (Found::default(), Drawn::new());
    let mut above = Drawn::new();
    for played in rig.each_draw(|draw, rig| play_draw(rig, (LARGE, draw), 1, &mixes))? {
        let means = |of| {
            let of = SIZES.map(|size| mean_gain(&played, of, |mix| mix.ends_with(size)));
            (!of.iter().any(Gain::is_empty)).then(|| of.map(|gain| gain.mean))
        };
        grows.ask(0, |of| means(of).map(|[x3, x4, x4p4]| x3 < x4 && x4 < x4p4));
        above.ask(0, |of| means(of).map(|means| means.iter().all(|mean| 0.0 < *mean)));
    }
    grows.tell("mean gain x3 < x4 < x4+4", &mut found);
    above.tell("all three means above 0", &mut found);
    Ok(found)
}

/// The paper ran the mix so often.
const N_RUNS: usize = 5;

/// By column: the standard deviation of each program's time.
fn spreads(played: &Played, column: usize) -> Vec<f64> {
    let n_jobs = played.run(column, 0, 0).jobs.len();
    let of = |job: usize| {
        let seconds: Vec<f64> = played.job_s(column, 0, job).into_iter().flatten().collect();
        deviation(&seconds)
    };
    (0..n_jobs).filter_map(of).collect()
}

/// Whether the mean deviation is at most a third of the default's; none without two good runs each.
fn third(played: &Played, (column, base): (usize, usize)) -> Option<bool> {
    let (here, default) = (spreads(played, column), spreads(played, base));
    (!here.is_empty() && !default.is_empty()).then(|| mean(&here) * 3.0 <= mean(&default))
}

pub(super) fn fig_9(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let seeds: Vec<u64> = rig.seeds().iter().copied().take(N_RUNS).collect();
    let columns = Columns::on("xeon-2x4", Draw::Middle, KERNELS.len())?;
    let world = World::shipped("xeon-2x4")?;
    let played = rig.play_seeds(&world, &columns.texts(), &["basic14"], &seeds)?;
    let mut found = Found::default();
    for (kernel, (words, _)) in KERNELS.into_iter().enumerate() {
        found.tables.push(deviations(&played, &world, kernel)?);
        for (version, reading, column) in VERSIONS {
            let of = places(column, kernel);
            let means = [of.0, of.1].map(|column| {
                let all = spreads(&played, column);
                (!all.is_empty()).then(|| mean(&all))
            });
            let [here, default] =
                means.map(|mean| mean.map_or("–".to_owned(), |mean| format!("{mean:.1} s")));
            let figures = means.into_iter().flatten().map(|mean| StudyFigure::of(mean, "s"));
            let claim = Claim::judged(
                &format!(
                    "{version} version, {words}: mean deviation at most a third of the default's"
                ),
                reading,
                format!("{here} beside {default}"),
                third(&played, of),
            );
            found.claims.push(claim.on(figures));
        }
    }
    drawn_9(rig, &mut found)?;
    found.why.extend(played.faults());
    Ok(found)
}

fn deviations(played: &Played, world: &World, kernel: usize) -> Result<Table, ReproduceError> {
    let jobs = world.jobs("basic14", ClassBasis::Rate)?;
    let heads: Vec<&str> = ["program", "the paper", "Linux"].into_iter().chain(HEADS).collect();
    let title = format!(
        "standard deviation of its time over the runs in s, {}; the paper: Linux 10 to 81 s, divided 2 to 11 s",
        KERNELS[kernel].0
    );
    let mut table = Table::new(&title, &heads)
        .units(&["s"])
        .published(&["the paper"])
        .drawn(Drawing::Intervals);
    let order = [4, 0, 1, 2, 3].map(|version| kernel * super::versions::N_EACH + version);
    let all = order.map(|column| spreads(played, column));
    let cell = |of: Option<f64>| of.map_or("–".to_owned(), |of| format!("{of:.1}"));
    for (place, job) in jobs.iter().enumerate() {
        let cells = all.iter().map(|of| cell(of.get(place).copied()));
        table.row([job.name.clone(), "2 to 11".to_owned()].into_iter().chain(cells));
    }
    let cells = all.iter().map(|of| cell((!of.is_empty()).then(|| mean(of))));
    table.row(["mean".to_owned(), "2 to 11".to_owned()].into_iter().chain(cells));
    Ok(table)
}

/// The same in every draw, five runs each.
fn drawn_9(rig: &Rig<'_>, found: &mut Found) -> Result<(), ReproduceError> {
    let mut drawn = Drawn::new();
    let play = |draw: u64, rig: &Rig<'_>| {
        let columns = Columns::on("xeon-2x4", Draw::Seed(draw), 1)?;
        let seeds: Vec<u64> = (1..=N_RUNS as u64).collect();
        let world = World::shipped("xeon-2x4")?.drawn(draw);
        rig.play_seeds(&world, &columns.texts(), &["basic14"], &seeds)
    };
    for played in rig.each_draw(play)? {
        drawn.ask(0, |of| third(&played, of));
    }
    drawn.tell("mean deviation at most a third of the default's, over the draws", found);
    Ok(())
}
