//! Thread migrations, and those that damped rates avoid.
//!
//! ```text
//!   counted in one run of dio:   its migrations │ migrations that ranks by the last interval alone would cause
//! ```
//!
//! Shipped programs have one phase. Artificial phases of 5 to 30 s with more and with fewer misses give the damping
//! something to do.

use report::study::StudyClaim;

use super::super::finding::{BOTH_READINGS, judged, mean_of, number};
use super::super::program_sets::names;
use super::super::{Finding, ReproduceError, RunPool, Table};
use super::action_counts::{ActionCounts, Counts};
use super::{SWINGS, swinging};

/// Seconds of a program alone: ten phases and more.
const SECONDS: u32 = 200;
const N_SETS: u64 = 5;
const POLICIES: [&str; 5] = ["di", "dio", "dio[reading=paper]", "dino", "dino[reading=paper]"];
/// Indexes of `dio`: as corrected, as printed.
const DIO: [usize; 2] = [1, 2];

/// Mean over the runs, per minute.
fn per_minute(observed: &[ActionCounts], of: fn(&Counts) -> u64) -> Option<f64> {
    let rate = |run: &ActionCounts| run.steady.per_hour(of(&run.steady)) / 60.0;
    mean_of(&observed.iter().map(rate).collect::<Vec<f64>>())
}

pub(super) fn damping(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let title =
        "migrations of all eight threads per minute, while all run; four caches of two, mixed sets";
    let heads =
        ["misses rise and fall by", "undamped", "di", "dio", "dio paper", "dino", "dino paper"];
    let mut table = Table::new(title, &heads).units(&["1/min"]);
    // Of `dio`, by reading and swing: migrations, and those without damping.
    let mut damped: [Vec<(Option<f64>, Option<f64>)>; 2] = Default::default();
    let sets = names("mixed", N_SETS);
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    for (by, testbed) in SWINGS.into_iter().zip(swinging("xeon-x5365-4x2", SECONDS)?) {
        let mut made = Vec::new();
        let mut undamped = None;
        for (idx, policy) in POLICIES.into_iter().enumerate() {
            let make = |_: &[program::Job]| ActionCounts::new(&testbed.machine);
            let observed = pool.observe(&testbed, policy, &sets, make)?;
            let own = per_minute(&observed, |one| one.n_placed);
            made.push(own);
            if let Some(reading) = DIO.iter().position(|dio| *dio == idx) {
                let without = per_minute(&observed, |one| one.n_undamped);
                undamped = undamped.or(without);
                damped[reading].push((own, without));
            }
        }
        let label = [format!("{:.0} %", by * 100.0), number(undamped, 1)];
        table.row(label.into_iter().chain(made.into_iter().map(|made| number(made, 1))));
    }
    let claims = claims(&damped);
    let note = "undamped: migrations between caches if ranks were assigned by the rates of the last interval alone, in \
                the runs of dio, rounded to whole misses per 1000 instructions as there";
    Ok(Finding { tables: vec![table], claims, notes: vec![note.to_owned()] })
}

/// One claim for each reading of `dio`, from its rates and those without damping.
fn claims(damped: &[Vec<(Option<f64>, Option<f64>)>; 2]) -> Vec<StudyClaim> {
    let mut claims = Vec::new();
    for (reading, rows) in BOTH_READINGS.into_iter().rev().zip(damped) {
        let text = |(made, without): &(Option<f64>, Option<f64>)| {
            format!("{} instead of {}", number(*made, 1), number(*without, 1))
        };
        let texts: Vec<String> = rows.iter().map(text).collect();
        let known: Option<Vec<(f64, f64)>> =
            rows.iter().map(|(made, without)| made.zip(*without)).collect();
        claims.push(judged(
            "damping reduces migrations, at every swing",
            reading,
            format!("{} per minute", texts.join(", ")),
            known.map(|all| all.iter().all(|(made, without)| made < without)),
        ));
    }
    claims
}
