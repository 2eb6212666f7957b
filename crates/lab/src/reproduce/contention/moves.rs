//! How often memory moves with DI-Migrate and with DINO (spec 2.2, A3).
//!
//! ```text
//!   a thread comes to another node ─► the policy wishes its memory there ─► the engine's limits ─► it is moved
//!                                      └ wished                              └ refused              └ moved
//! ```
//!
//! The engine limits how often a job's memory goes to and fro, which the published schedulers did not. So both
//! are counted, and the limits are taken away for a second count: a policy that wishes without end would look
//! tame under them.
//!
//! What moves threads is change. Shipped programs have one phase each, so there is little of it but starts and
//! ends; phases that nobody measured are put on top ([`super::damping`]), and what hangs on them shows.

use base::{Bytes, Nanos};
use engine::MoveLimits;

use super::counted::{Counted, Counts};
use super::damping::{SWINGS, swinging};
use super::scene::{Part, Scene, Swing};
use super::sets::{N, Sort, calm, sets};
use super::tell::{column, judged, not_judged, reading_of, shown};
use crate::reproduce::{Claim, Found, Reading, ReproduceError, Rig, StudyCell, StudyFigure, Table};
use crate::stats::mean;

/// The machine of the authors' logs.
pub(super) const MACHINE: &str = "opteron-8356-2x4";
/// Seconds that programs take alone.
const SECONDS: f64 = 300.0;
const N_SETS: u64 = 5;
/// DI-Migrate moves memory so many times as often, by the source.
const TIMES: (f64, f64) = (5.0, 100.0);

/// No limit of the engine's own but the pace at which pages are copied.
const NO_LIMITS: MoveLimits = MoveLimits {
    per_second: Bytes::from_mib(1024),
    backlog: Nanos(u64::MAX),
    per_process_minute: Bytes(u64::MAX),
    n_bounces: u32::MAX,
    n_again: u32::MAX,
    reserve_permille: 20,
};

fn without_limits(scene: &mut Scene) {
    scene.world.limits = NO_LIMITS;
    scene.world.name.push_str(", moves without limits");
}

/// What the released code has for a new class: 5 of 10 outside of the old one, and 3 misses per 1000 away.
const RELEASED: &str = "hyst_hits=5,hyst_min_delta_mpki=3";

/// DI-Migrate under both readings, then DINO under both: by default, with the article's limits, with the released
/// code's hysteresis.
fn columns() -> Vec<String> {
    let dino = ["", "limits=article", RELEASED].into_iter();
    let both = |policy, more| Reading::BOTH.map(|reading| column(policy, reading, more));
    both("di-migrate", "").into_iter().chain(dino.flat_map(|more| both("dino", more))).collect()
}
const DI: [usize; 2] = [0, 1];
/// Each DINO with the DI-Migrate of its reading.
const DINO: [(usize, usize); 6] = [(2, 0), (3, 1), (4, 0), (5, 1), (6, 0), (7, 1)];

/// In an hour, the mean over runs.
fn hourly(counts: &[&Counts], of: fn(&Counts) -> u64) -> Option<f64> {
    let each: Vec<f64> = counts.iter().map(|one| one.per_hour(of(one))).collect();
    (!each.is_empty()).then(|| mean(&each))
}

/// A stretch of runs.
type Stretch = fn(&Counted) -> &Counts;
const STRETCHES: [(&str, Stretch); 2] =
    [("while all run", |one| &one.steady), ("start to end", |one| &one.whole)];

/// Moves of memory in an hour by one policy with one swing in one stretch, the mean over runs.
#[derive(Clone, Copy, Debug)]
struct Pace {
    wished: Option<f64>,
    begun: Option<f64>,
    gib: Option<f64>,
}

impl Pace {
    fn of(heard: &[Counted], stretch: Stretch) -> Self {
        let counts: Vec<&Counts> = heard.iter().map(stretch).collect();
        Pace {
            wished: hourly(&counts, |one| one.n_wished),
            begun: hourly(&counts, |one| one.n_begun),
            gib: hourly(&counts, |one| one.bytes >> 20).map(|mib| mib / 1024.0),
        }
    }

    /// `wished/begun, GiB`.
    fn cell(&self) -> StudyCell {
        let all = [(self.wished, "1/h"), (self.begun, "1/h"), (self.gib, "GiB/h")];
        let [wished, begun, gib] = all.map(|(value, _)| shown(value, 0));
        let figure = |(value, unit): (Option<f64>, &str)| Some(StudyFigure::of(value?, unit));
        let figures = all.into_iter().filter_map(figure).collect();
        StudyCell::new(format!("{wished}/{begun}, {gib}"), figures)
    }
}

/// By stretch, then policy, then swing.
type Paces = [Vec<Vec<Pace>>; 2];

pub(super) fn memory_moves(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let columns = columns();
    let mut found = Found::default();
    for is_limited in [true, false] {
        let limits = if is_limited { "the engine's limits" } else { "no limits" };
        let paces = paces(rig, &columns, is_limited)?;
        for ((words, _), paces) in STRETCHES.into_iter().zip(&paces) {
            let title = format!("in an hour, {words}, {limits}: moves of memory wished/begun, GiB");
            found.tables.push(by_swing(&title, &columns, paces));
        }
        // Starts and ends are the same for both; they are shown and not judged.
        let (words, _) = STRETCHES[0];
        let (what, of): (&str, fn(&Pace) -> Option<f64>) = match is_limited {
            true => ("memory is moved", |pace| pace.begun),
            false => ("moves of memory are wished", |pace| pace.wished),
        };
        let of = |column: usize| paces[0][column].iter().map(of).collect::<Vec<_>>();
        let what = format!("{what}, {words}, {limits}");
        let claim = |(dino, di): (usize, usize)| times(&what, &columns[dino], &of(di), &of(dino));
        found.claims.extend(DINO.map(claim));
    }
    found.why.push(format!(
        "{RELEASED}: the hysteresis of the released code, in which a program whose misses hang on its neighbour is \
         no other program in each of its seats; by default 7 of 10 intervals are enough"
    ));
    found.why.push(
        "wished: wishes after each other of the same job to the same node count once. While all run: from 20 s on to \
         the end of the first program. No limits: only the pace of 1 GiB a second is left"
            .to_owned(),
    );
    Ok(found)
}

/// Counts all policies at all swings, with the engine's limits or without.
fn paces(rig: &Rig<'_>, columns: &[String], is_limited: bool) -> Result<Paces, ReproduceError> {
    let mut paces: Paces = STRETCHES.map(|_| vec![Vec::new(); columns.len()]);
    for (mut scene, names) in swinging(MACHINE, SECONDS, Sort::Mixed, N_SETS)? {
        if !is_limited {
            without_limits(&mut scene);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (at, column) in columns.iter().enumerate() {
            let machine = &scene.world.machine;
            let heard = rig.listen(&scene.world, column, &names, |_| Counted::new(machine))?;
            for ((_, stretch), paces) in STRETCHES.into_iter().zip(&mut paces) {
                paces[at].push(Pace::of(&heard, stretch));
            }
        }
    }
    Ok(paces)
}

fn by_swing(title: &str, columns: &[String], paces: &[Vec<Pace>]) -> Table {
    let swings = SWINGS.map(|by| format!("±{:.0} %", by * 100.0));
    let heads: Vec<&str> =
        std::iter::once("policy").chain(swings.iter().map(String::as_str)).collect();
    let mut table = Table::new(title, &heads);
    for (column, paces) in columns.iter().zip(paces) {
        table.row(std::iter::once(column.as_str().into()).chain(paces.iter().map(Pace::cell)));
    }
    table
}

/// DI-Migrate's moves over DINO's, at each swing at which there are any.
fn times(what: &str, dino: &str, of_di: &[Option<f64>], of_dino: &[Option<f64>]) -> Claim {
    let known = of_di.iter().zip(of_dino).zip(SWINGS);
    let pairs: Vec<(f64, f64, f64)> =
        known.filter_map(|((di, dino), by)| Some(((*di)?, (*dino)?, by))).collect();
    let text = |(di, dino, by): &(f64, f64, f64)| {
        let times = match (*di, *dino) {
            (0.0, 0.0) => "neither".to_owned(),
            (_, 0.0) => "di-migrate alone".to_owned(),
            (di, dino) => format!("{:.1}", di / dino),
        };
        format!("{times} at ±{:.0} %", by * 100.0)
    };
    let texts: Vec<String> = pairs.iter().map(text).collect();
    let moving = || pairs.iter().filter(|(di, dino, _)| 0.0 < di + dino);
    let n_held = moving().filter(|(di, dino, _)| TIMES.0 * dino <= *di).count();
    judged(
        &format!(
            "{what}: with di-migrate at least 5 times as often as with {dino}, wherever at all"
        ),
        reading_of(dino),
        format!("times: {} (the source: {} to {})", texts.join(", "), TIMES.0, TIMES.1),
        (moving().count() != 0).then(|| n_held == moving().count()),
    )
}

/// What the paper had, moves in an hour with DI-Migrate and with DINO; all of it [from memory, unconfirmed].
const PUBLISHED: [(&str, Option<&str>, u32, u32); 10] = [
    ("soplex", Some("450.soplex"), 36, 8),
    ("milc", Some("433.milc"), 22, 6),
    ("lbm", Some("470.lbm"), 11, 5),
    ("gamess", Some("416.gamess"), 47, 7),
    ("namd", Some("444.namd"), 41, 6),
    ("MPI leslie", None, 381, 2),
    ("MPI lammps", None, 135, 1),
    ("MPI GAPgeofem", None, 237, 3),
    ("MPI socorro", None, 340, 2),
    ("MPI lu", None, 256, 1),
];

pub(super) fn published_moves(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let columns = columns();
    let known: Vec<&str> = PUBLISHED.iter().filter_map(|(_, profile, ..)| *profile).collect();
    let ours = moves_of(rig, &columns, &known)?;
    let mut found = Found { tables: vec![beside_published(&columns, &ours)], ..Found::default() };
    for (dino, di) in DINO {
        let held = ours.iter().filter(|row| row[dino] < row[di]).count();
        found.claims.push(judged(
            &format!(
                "memory of each of the five moves more often with di-migrate than with {}",
                columns[dino]
            ),
            reading_of(&columns[dino]),
            format!("{held} of {}", ours.len()),
            Some(held == ours.len()),
        ));
    }
    found.claims.push(not_judged(
        "MPI programs move least of all with DINO",
        Reading::Either,
        "nothing is known of their memory accesses, so they have no profile",
    ));
    found.why.push(format!(
        "the paper's mixes are not at hand: ours is {} with the first three a second time; where a program runs twice \
         the mean is told",
        known.join(", ")
    ));
    Ok(found)
}

/// How far misses of the paper's programs go up and down here.
const PUBLISHED_SWING: f64 = SWINGS[2];

/// Moves of memory in an hour, by program, then policy: all of them at once, the first of them twice to make eight.
fn moves_of(
    rig: &Rig<'_>,
    columns: &[String],
    known: &[&str],
) -> Result<Vec<Vec<Option<f64>>>, ReproduceError> {
    let mut scene = Scene::new(MACHINE, SECONDS)?;
    without_limits(&mut scene);
    let part = |number: usize| Part {
        program: known[number % known.len()].to_owned(),
        swing: Some(Swing { by: PUBLISHED_SWING, seed: number as u64 }),
        ..Part::default()
    };
    scene.add("published", &(0..N).map(part).collect::<Vec<Part>>())?;
    let mut ours = vec![Vec::new(); known.len()];
    for column in columns {
        let machine = &scene.world.machine;
        let heard = rig.listen(&scene.world, column, &["published"], |_| Counted::new(machine))?;
        for (program, ours) in ours.iter_mut().enumerate() {
            let copies: Vec<usize> = (program..N).step_by(known.len()).collect();
            let each: Vec<f64> = heard.iter().map(|one| moves_each(one, &copies)).collect();
            ours.push((!each.is_empty()).then(|| mean(&each)));
        }
    }
    Ok(ours)
}

/// Moves of memory in an hour while all run, the mean over some jobs.
fn moves_each(counted: &Counted, jobs: &[usize]) -> f64 {
    let steady = &counted.steady;
    let n_begun = |job: &usize| steady.n_begun_of.get(&base::JobId(*job as u32)).copied();
    let moved: Vec<f64> =
        jobs.iter().map(|job| steady.per_hour(n_begun(job).unwrap_or(0))).collect();
    mean(&moved)
}

/// The paper's moves, and ours of the programs that have profiles.
fn beside_published(columns: &[String], ours: &[Vec<Option<f64>>]) -> Table {
    let heads = [
        "program",
        "the paper's DI",
        "DINO",
        "di-migrate paper",
        "ours",
        "dino paper",
        "ours",
        "article paper",
        "ours",
        "released paper",
        "ours",
    ];
    let title = format!(
        "moves of memory in an hour; the paper's [from memory, unconfirmed]; ours while all run, misses ±{:.0} %, no limits; \
         released: that code's hysteresis",
        PUBLISHED_SWING * 100.0
    );
    let mut table =
        Table::new(&title, &heads).units(&["1/h"]).published(&["the paper's DI", "DINO"]);
    let mut rows = ours.iter();
    for (name, profile, di, dino) in PUBLISHED {
        let here = profile.and_then(|_| rows.next());
        let cells = (0..columns.len()).map(|at| shown(here.and_then(|here| here[at]), 1));
        table.row([name.to_owned(), di.to_string(), dino.to_string()].into_iter().chain(cells));
    }
    table
}

/// A machine with so much cache that some programs are turtles however it is shared.
const CALM_MACHINE: &str = "xeon-e5520-2x4";

/// Mixes in which nobody misses.
pub(super) fn turtles(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let columns = columns();
    let mut found = Found::default();
    let mut scene = Scene::new(CALM_MACHINE, 60.0)?;
    let turtles = calm(&scene.world.machine, scene.world.draw)?;
    let all = sets(&scene.world.machine, scene.world.draw, Sort::Calm, N_SETS)?;
    for set in &all {
        let part = |program: &String| Part { program: program.clone(), ..Part::default() };
        scene.add(&set.name, &set.programs.iter().map(part).collect::<Vec<Part>>())?;
    }
    let names: Vec<&str> = all.iter().map(|set| set.name.as_str()).collect();
    let mut table = Table::new(
        "eight turtles: placements after the start, and moves of memory wished, in all runs",
        &["policy", "placed", "wished"],
    )
    .units(&["count"]);
    for (at, column) in columns.iter().enumerate() {
        let machine = &scene.world.machine;
        let heard = rig.listen(&scene.world, column, &names, |_| Counted::new(machine))?;
        let sum = |of: fn(&Counts) -> u64| heard.iter().map(|one| of(&one.whole)).sum::<u64>();
        let (placed, wished) = (sum(|one| one.n_placed), sum(|one| one.n_wished));
        table.row([column.clone(), placed.to_string(), wished.to_string()]);
        if !DI.contains(&at) {
            found.claims.push(
                judged(
                    &format!("among turtles alone {column} does nothing after the start"),
                    reading_of(column),
                    format!(
                        "{placed} placements, {wished} moves of memory in {} runs",
                        heard.len()
                    ),
                    (!heard.is_empty()).then_some(placed + wished == 0),
                )
                .on([placed, wished].map(|n| StudyFigure::of(n as f64, "count"))),
            );
        }
    }
    found.tables.push(table);
    found.why.push(format!(
        "they miss at most 1.5 times in 1000 instructions in half of an equal share of the cache; there are {} of 29: {}",
        turtles.len(),
        turtles.join(", ")
    ));
    Ok(found)
}
