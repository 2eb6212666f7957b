//! Contention-aware placement on a machine with two memories (spec 2.2).
//!
//! ```text
//!   DI      threads go apart, memory stays        ─► far memory costs more than a calmer cache gains?
//!   DINO    threads go less often, memory along   ─► never much worse than the default?
//! ```

use super::damping::SWINGS;
use super::moves::MACHINE;
use super::scene::{Scene, Slow, mean_of};
use super::sets::Sort;
use super::tell::{column, judged, not_judged, percent};
use crate::reproduce::{Found, Reading, ReproduceError, Rig, Table};
use crate::stats::mean;

/// Seconds that programs take alone.
const SECONDS: f64 = 120.0;
const N_SETS: u64 = 4;
/// "Never much worse" is no number. This one is chosen: a tenth of what the source says that it gains at best.
const MUCH: f64 = 0.03;

/// All policies under a reading, then what is like it but for one thing.
const READ: [(&str, &str); 9] = [
    ("di", ""),
    ("dio", ""),
    ("di-migrate", ""),
    ("dino", ""),
    ("dino", "limits=article"),
    ("dino", "memory=none"),
    ("dino", "memory=partial"),
    ("dino", "hyst_min_delta_mpki=3"),
    ("animal", ""),
];

pub(super) fn numa(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    for by in [SWINGS[0], SWINGS[2]] {
        let mut scene = Scene::new(MACHINE, SECONDS)?;
        let mut names = Vec::new();
        for sort in [Sort::Any, Sort::Mixed, Sort::Hungry] {
            names.extend(scene.add_swinging(sort, N_SETS, by)?);
        }
        scene.run_alone(rig)?;
        beside(rig, &scene, &names, by, &mut found)?;
    }
    found.claims.push(not_judged(
        "partial memory migration is the best trade-off (K = 4096)",
        Reading::Either,
        "nothing here samples addresses of memory accesses; memory=partial moves all, and says so",
    ));
    Ok(found)
}

/// All policies beside the default.
fn beside(
    rig: &Rig<'_>,
    scene: &Scene,
    names: &[String],
    by: f64,
    found: &mut Found,
) -> Result<(), ReproduceError> {
    let of = |reading| READ.iter().map(move |(policy, more)| column(policy, reading, more));
    let columns: Vec<String> = Reading::BOTH.into_iter().flat_map(of).collect();
    let texts: Vec<&str> =
        columns.iter().map(String::as_str).chain(std::iter::once("linux")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let played = rig.play(&scene.world, &texts, &names)?;
    let slow = |column, set| mean_of(&scene.slowdowns(&played, column, set), Slow::mean);
    let over = |column: usize| -> Vec<Option<f64>> {
        let over = |set| Some(slow(column, set)? / slow(columns.len(), set)? - 1.0);
        (0..names.len()).map(over).collect()
    };
    let title = format!(
        "mean slow-down beside the default, in %, misses ±{:.0} %: any, mixed, hungry sets; worst set of all",
        by * 100.0
    );
    let mut table = Table::new(&title, &["policy", "any", "mixed", "hungry", "worst set"]);
    for (at, column) in columns.iter().enumerate() {
        let over = over(at);
        let known: Option<Vec<f64>> = over.iter().copied().collect();
        let of_sort = |sort: usize| {
            let n = N_SETS as usize;
            known.as_ref().map(|known| mean(&known[sort * n..(sort + 1) * n]))
        };
        let most = known.as_ref().and_then(|known| known.iter().copied().reduce(f64::max));
        let cells = [of_sort(0), of_sort(1), of_sort(2), most].map(percent);
        table.row(std::iter::once(column.clone()).chain(cells));
        let reading = super::tell::reading_of(column);
        let (policy, more) = READ[at % READ.len()];
        let here = format!("misses ±{:.0} %", by * 100.0);
        let of_all = known.as_ref().map(|known| mean(known));
        if (policy == "di" || policy == "dio") && more.is_empty() {
            let n = known.iter().flatten().filter(|over| 0.0 < **over).count();
            found.claims.push(judged(
                &format!("{here}: {policy}, which leaves memory behind, is worse than the default on average"),
                reading,
                format!("{} %; worse in {n} of {} sets", percent(of_all), names.len()),
                of_all.map(|over| 0.0 < over),
            ));
        }
        if policy == "dino" && matches!(more, "" | "limits=article") {
            let value = if more.is_empty() { "limits=released" } else { more };
            found.claims.push(judged(
                &format!(
                    "{here}: dino with {value} is in no set more than 3 % worse than the default"
                ),
                reading,
                format!("{} % at worst, {} % on average", percent(most), percent(of_all)),
                most.map(|most| most <= MUCH),
            ));
        }
    }
    found.tables.push(table);
    found.why.extend(played.faults());
    Ok(())
}
