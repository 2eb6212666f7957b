//! How often threads are moved, and what damping saves of it (spec 2.1).
//!
//! ```text
//!   counted in one run of dio:   moves that it made │ moves that dealing by the last interval alone would make
//! ```
//!
//! Shipped programs do the same from beginning to end. Phases that nobody measured are put on top, so that there
//! is something to damp: stretches of 5 to 30 s with more and with fewer misses.

use super::counted::{Counted, Counts};
use super::scene::Scene;
use super::sets::Sort;
use super::tell::{judged, shown};
use crate::reproduce::{Found, Reading, ReproduceError, Rig, Table};
use crate::stats::mean;

/// How far misses go up and down.
pub(super) const SWINGS: [f64; 4] = [0.0, 0.3, 0.6, 0.9];
/// Seconds that programs take alone: ten stretches and more.
const SECONDS: f64 = 200.0;
const N_SETS: u64 = 5;

/// Scenes of mixed sets on a machine, one for each swing, with the names of the workloads.
pub(super) fn swinging(
    machine: &str,
    seconds: f64,
    sort: Sort,
    n_sets: u64,
) -> Result<Vec<(Scene, Vec<String>)>, ReproduceError> {
    let mut scenes = Vec::new();
    for by in SWINGS {
        let mut scene = Scene::new(machine, seconds)?;
        let names = scene.add_swinging(sort, n_sets, by)?;
        scenes.push((scene, names));
    }
    Ok(scenes)
}

/// In a minute, the mean over runs.
fn per_minute(heard: &[Counted], of: fn(&Counts) -> u64) -> Option<f64> {
    let each: Vec<f64> =
        heard.iter().map(|one| one.steady.per_hour(of(&one.steady)) / 60.0).collect();
    (!each.is_empty()).then(|| mean(&each))
}

pub(super) fn damping(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    const COLUMNS: [&str; 5] = ["di", "dio", "dio[reading=paper]", "dino", "dino[reading=paper]"];
    let mut found = Found::default();
    let title = "moves of threads in a minute, all eight together, while all run; four caches of two, mixed sets";
    let heads =
        ["misses go up and down by", "undamped", "di", "dio", "dio paper", "dino", "dino paper"];
    let mut table = Table::new(title, &heads).units(&["1/min"]);
    let mut damped: Vec<Vec<(Option<f64>, Option<f64>)>> = vec![Vec::new(); 2];
    for (by, (scene, names)) in
        SWINGS.into_iter().zip(swinging("xeon-x5365-4x2", SECONDS, Sort::Mixed, N_SETS)?)
    {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let machine = &scene.world.machine;
        let mut moves = Vec::new();
        let mut undamped = None;
        for (at, column) in COLUMNS.into_iter().enumerate() {
            let heard = rig.listen(&scene.world, column, &names, |_| Counted::new(machine))?;
            let made = per_minute(&heard, |one| one.n_placed);
            moves.push(made);
            if at == 1 || at == 2 {
                let would = per_minute(&heard, |one| one.n_undamped);
                undamped = undamped.or(would);
                damped[at - 1].push((made, would));
            }
        }
        let first = [format!("{:.0} %", by * 100.0), shown(undamped, 1)];
        table.row(first.into_iter().chain(moves.into_iter().map(|made| shown(made, 1))));
    }
    found.tables.push(table);
    for (reading, rows) in [Reading::Ours, Reading::Paper].into_iter().zip(&damped) {
        let text = |(made, would): &(Option<f64>, Option<f64>)| {
            format!("{} instead of {}", shown(*made, 1), shown(*would, 1))
        };
        let texts: Vec<String> = rows.iter().map(text).collect();
        let known: Option<Vec<(f64, f64)>> =
            rows.iter().map(|(made, would)| made.zip(*would)).collect();
        found.claims.push(judged(
            "damping makes moves fewer, at every swing",
            reading,
            format!("{} in a minute", texts.join(", ")),
            known.map(|all| all.iter().all(|(made, would)| made < would)),
        ));
    }
    found.why.push(
        "undamped: what dealing by the rates of the last interval alone would have moved between caches in the runs \
         of dio, rounded to whole misses per 1000 instructions as there"
            .to_owned(),
    );
    Ok(found)
}
