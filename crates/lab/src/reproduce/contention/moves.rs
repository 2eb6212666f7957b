//! Page migrations of DI-Migrate and of DINO.
//!
//! ```text
//!   a thread migrates to another node ─► request to migrate its memory ─► the engine's limits ─► it migrates
//!                                        └ requested                      └ rejected              └ started
//! ```
//!
//! The engine limits how often the memory of a job moves back and forth; the published schedulers do not. So both
//! requests and started migrations are counted, with the limits and without: the limits would hide a policy that
//! requests without end.
//!
//! Shipped programs have one phase each, so that artificial phases cause the changes to which the policies react.

use base::{Bytes, Nanos};
use engine::MoveLimits;
use report::study::{RuleReading, StudyCell, StudyClaim, StudyValue};

use super::super::finding::{BOTH_READINGS, judged, mean_of, not_judged, number, with_values};
use super::super::program_sets::{N_PROGRAMS, calm, names};
use super::super::testbed::Part;
use super::super::{Finding, ReproduceError, RunPool, Table, Testbed};
use super::action_counts::{ActionCounts, Counts};
use super::{SWINGS, reading_of, swinging, with_reading};
use crate::stats::mean;

/// The machine of the logs of Clavis.
const MACHINE: &str = "opteron-8356-2x4";
/// Seconds of a program alone.
const SECONDS: u32 = 300;
const N_SETS: u64 = 5;
/// Published ratio of DI-Migrate's page migrations to DINO's.
const TIMES: (f64, f64) = (5.0, 100.0);

/// No limit but the pace at which pages are copied.
const NO_LIMITS: MoveLimits = MoveLimits {
    per_second: Bytes::from_mib(1024),
    backlog: Nanos(u64::MAX),
    per_process_minute: Bytes(u64::MAX),
    n_returns_max: u32::MAX,
    n_repeats_max: u32::MAX,
    reserve_permille: 20,
};

fn without_limits(mut testbed: Testbed) -> Testbed {
    testbed.name.push_str(", migrations without limits");
    testbed.limits = NO_LIMITS;
    testbed
}

/// Hysteresis of the released code: a new class needs 5 of 10 intervals outside of the old one, and 3 MPKI.
const RELEASED: &str = "hyst_hits=5,hyst_min_delta_mpki=3";

/// DI-Migrate with both readings, then DINO with both: by default, with the article's limits, with the released
/// hysteresis.
fn policies() -> Vec<String> {
    let dino = ["", "limits=article", RELEASED].into_iter();
    let both = |policy, params| BOTH_READINGS.map(|reading| with_reading(policy, reading, params));
    both("di-migrate", "").into_iter().chain(dino.flat_map(|params| both("dino", params))).collect()
}
const N_DI: usize = 2;
/// Each DINO with the DI-Migrate of its reading.
const DINO: [(usize, usize); 6] = [(2, 0), (3, 1), (4, 0), (5, 1), (6, 0), (7, 1)];

/// A part of a run.
type RunPart = fn(&ActionCounts) -> &Counts;
const PARTS: [(&str, RunPart); 2] =
    [("while all run", |run| &run.steady), ("start to end", |run| &run.whole)];

/// Page migrations per hour, mean over the runs.
#[derive(Clone, Copy, Debug)]
struct Pace {
    requested: Option<f64>,
    started: Option<f64>,
    gib: Option<f64>,
}

impl Pace {
    fn of(observed: &[ActionCounts], part: RunPart) -> Self {
        let hourly = |of: fn(&Counts) -> u64| {
            let rate = |run: &ActionCounts| part(run).per_hour(of(part(run)));
            mean_of(&observed.iter().map(rate).collect::<Vec<f64>>())
        };
        Pace {
            requested: hourly(|counts| counts.n_requested),
            started: hourly(|counts| counts.n_started),
            gib: hourly(|counts| counts.bytes >> 20).map(|mib| mib / 1024.0),
        }
    }

    /// `requested/started, GiB`.
    fn cell(&self) -> StudyCell {
        let all = [(self.requested, "1/h"), (self.started, "1/h"), (self.gib, "GiB/h")];
        let [requested, started, gib] = all.map(|(value, _)| number(value, 0));
        let study_value = |(value, unit): (Option<f64>, &str)| Some(StudyValue::of(value?, unit));
        let values = all.into_iter().filter_map(study_value).collect();
        StudyCell::new(format!("{requested}/{started}, {gib}"), values)
    }
}

/// By part of the run, then policy, then swing.
type Paces = [Vec<Vec<Pace>>; 2];

pub(super) fn memory_moves(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let policies = policies();
    let mut finding = Finding::default();
    for is_limited in [true, false] {
        let limits = if is_limited { "the engine's limits" } else { "no limits" };
        let paces = paces(pool, &policies, is_limited)?;
        for ((words, _), paces) in PARTS.into_iter().zip(&paces) {
            let title =
                format!("per hour, {words}, {limits}: page migrations requested/started, GiB");
            finding.tables.push(by_swing(&title, &policies, paces));
        }
        // The starts and ends of programs affect both policies equally: that part is printed, and not judged.
        let (words, _) = PARTS[0];
        let (what, of): (&str, fn(&Pace) -> Option<f64>) = match is_limited {
            true => ("page migrations start", |pace| pace.started),
            false => ("page migrations are requested", |pace| pace.requested),
        };
        let of = |policy: usize| paces[0][policy].iter().map(of).collect::<Vec<_>>();
        let what = format!("{what}, {words}, {limits}");
        let claim = |(dino, di): (usize, usize)| times(&what, &policies[dino], &of(di), &of(dino));
        finding.claims.extend(DINO.map(claim));
    }
    finding.notes.push(format!(
        "{RELEASED}: the hysteresis of the released code, in which a program whose misses depend on its neighbour keeps \
         its class in each of its slots; by default 7 of 10 intervals are enough"
    ));
    finding.notes.push(
        "requested: consecutive requests of the same job for the same node count once. While all run: from 20 s on to \
         the end of the first program. No limits: only the pace of 1 GiB per second is left"
            .to_owned(),
    );
    Ok(finding)
}

fn paces(
    pool: &RunPool<'_>,
    policies: &[String],
    is_limited: bool,
) -> Result<Paces, ReproduceError> {
    let mut paces: Paces = PARTS.map(|_| vec![Vec::new(); policies.len()]);
    let sets = names("mixed", N_SETS);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    for testbed in swinging(MACHINE, SECONDS)? {
        let testbed = if is_limited { testbed } else { without_limits(testbed) };
        for (idx, policy) in policies.iter().enumerate() {
            let make = |_: &[program::Job]| ActionCounts::new(&testbed.machine);
            let observed = pool.observe(&testbed, policy, &sets, make)?;
            for ((_, part), paces) in PARTS.into_iter().zip(&mut paces) {
                paces[idx].push(Pace::of(&observed, part));
            }
        }
    }
    Ok(paces)
}

fn by_swing(title: &str, policies: &[String], paces: &[Vec<Pace>]) -> Table {
    let swings = SWINGS.map(|by| format!("±{:.0} %", by * 100.0));
    let heads: Vec<&str> =
        std::iter::once("policy").chain(swings.iter().map(String::as_str)).collect();
    let mut table = Table::new(title, &heads);
    for (policy, paces) in policies.iter().zip(paces) {
        table.row(std::iter::once(policy.as_str().into()).chain(paces.iter().map(Pace::cell)));
    }
    table
}

/// DI-Migrate's migrations over DINO's, at each swing with any.
fn times(what: &str, dino: &str, of_di: &[Option<f64>], of_dino: &[Option<f64>]) -> StudyClaim {
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
    let active = || pairs.iter().filter(|(di, dino, _)| 0.0 < di + dino);
    let n_held = active().filter(|(di, dino, _)| TIMES.0 * dino <= *di).count();
    judged(
        &format!(
            "{what}: with di-migrate at least 5 times as often as with {dino}, at every swing with any"
        ),
        reading_of(dino),
        format!("times: {} (the source: {} to {})", texts.join(", "), TIMES.0, TIMES.1),
        (active().count() != 0).then(|| n_held == active().count()),
    )
}

/// Published page migrations per hour with DI-Migrate and with DINO; from memory, unconfirmed.
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

/// Swing of the programs' misses here.
const PUBLISHED_SWING: f64 = SWINGS[2];

pub(super) fn published_moves(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let policies = policies();
    let known: Vec<&str> = PUBLISHED.iter().filter_map(|(_, profile, ..)| *profile).collect();
    let ours = moves_of(pool, &policies, &known)?;
    let mut finding =
        Finding { tables: vec![beside_published(policies.len(), &ours)], ..Finding::default() };
    for (dino, di) in DINO {
        let n = ours.iter().filter(|row| row[dino] < row[di]).count();
        finding.claims.push(judged(
            &format!(
                "memory of each of the five migrates more often with di-migrate than with {}",
                policies[dino]
            ),
            reading_of(&policies[dino]),
            format!("{n} of {}", ours.len()),
            Some(n == ours.len()),
        ));
    }
    finding.claims.push(not_judged(
        "MPI programs migrate least of all with DINO",
        RuleReading::Either,
        "their memory accesses are unknown, so they have no profile",
    ));
    finding.notes.push(format!(
        "the paper's mixes are not available: ours is {} with the first three a second time; of a program that runs twice \
         the mean is printed",
        known.join(", ")
    ));
    Ok(finding)
}

/// Page migrations per hour, by program, then policy: all programs at once, the first ones twice to make eight.
fn moves_of(
    pool: &RunPool<'_>,
    policies: &[String],
    known: &[&str],
) -> Result<Vec<Vec<Option<f64>>>, ReproduceError> {
    let testbed = format!("{MACHINE} length={SECONDS} swing={PUBLISHED_SWING}");
    let mut testbed = without_limits(Testbed::parse(&testbed)?);
    let part = |number: usize| Part {
        swing_seed: Some(number as u64),
        ..Part::new(known[number % known.len()])
    };
    testbed.add("published", &(0..N_PROGRAMS).map(part).collect::<Vec<Part>>())?;
    let mut ours = vec![Vec::new(); known.len()];
    for policy in policies {
        let make = |_: &[program::Job]| ActionCounts::new(&testbed.machine);
        let observed = pool.observe(&testbed, policy, &["published"], make)?;
        for (program, ours) in ours.iter_mut().enumerate() {
            let copies: Vec<usize> = (program..N_PROGRAMS).step_by(known.len()).collect();
            let each: Vec<f64> = observed.iter().map(|run| moves_of_jobs(run, &copies)).collect();
            ours.push(mean_of(&each));
        }
    }
    Ok(ours)
}

/// Page migrations per hour while all run, mean over some jobs.
fn moves_of_jobs(run: &ActionCounts, jobs: &[usize]) -> f64 {
    let steady = &run.steady;
    let n_started = |job: &usize| steady.n_started_of.get(&base::JobId(*job as u32)).copied();
    let rates: Vec<f64> =
        jobs.iter().map(|job| steady.per_hour(n_started(job).unwrap_or(0))).collect();
    mean(&rates)
}

fn beside_published(n_policies: usize, ours: &[Vec<Option<f64>>]) -> Table {
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
        "page migrations per hour; the paper's from memory, unconfirmed; ours while all run, misses ±{:.0} %, no limits; \
         released: that code's hysteresis",
        PUBLISHED_SWING * 100.0
    );
    let mut table =
        Table::new(&title, &heads).units(&["1/h"]).published(&["the paper's DI", "DINO"]);
    let mut rows = ours.iter();
    for (name, profile, di, dino) in PUBLISHED {
        let here = profile.and_then(|_| rows.next());
        let cells = (0..n_policies).map(|idx| number(here.and_then(|here| here[idx]), 1));
        table.row([name.to_owned(), di.to_string(), dino.to_string()].into_iter().chain(cells));
    }
    table
}

/// A machine with a cache so large that some programs are turtles with any share of it.
const CALM_TESTBED: &str = "xeon-e5520-2x4 length=60";

/// Actions in mixes of programs with few misses.
pub(super) fn turtles(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let policies = policies();
    let mut finding = Finding::default();
    let testbed = Testbed::parse(CALM_TESTBED)?;
    let turtles = calm(&testbed.machine, testbed.draw)?;
    let sets = names("calm", N_SETS);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let title =
        "eight turtles: placements after the start, and requested page migrations, in all runs";
    let mut table = Table::new(title, &["policy", "placed", "requested"]).units(&["count"]);
    for (idx, policy) in policies.iter().enumerate() {
        let make = |_: &[program::Job]| ActionCounts::new(&testbed.machine);
        let observed = pool.observe(&testbed, policy, &sets, make)?;
        let sum = |of: fn(&Counts) -> u64| observed.iter().map(|run| of(&run.whole)).sum::<u64>();
        let (placed, requested) = (sum(|one| one.n_placed), sum(|one| one.n_requested));
        table.row([policy.clone(), placed.to_string(), requested.to_string()]);
        if N_DI <= idx {
            let n_runs = observed.len();
            let claim = judged(
                &format!("among turtles alone {policy} takes no action after the start"),
                reading_of(policy),
                format!(
                    "{placed} placements, {requested} requested page migrations in {n_runs} runs"
                ),
                (n_runs != 0).then_some(placed + requested == 0),
            );
            let counts = [placed, requested].map(|n| StudyValue::of(n as f64, "count"));
            finding.claims.push(with_values(claim, counts));
        }
    }
    finding.tables.push(table);
    finding.notes.push(format!(
        "turtles: at most 1.5 misses per 1000 instructions with half of an equal share of the cache; {} of 29 programs: {}",
        turtles.len(),
        turtles.join(", ")
    ));
    Ok(finding)
}
