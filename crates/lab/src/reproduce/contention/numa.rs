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
use super::tell::{column, in_percent, judged, not_judged, percent, reading_of};
use crate::reproduce::{Claim, Found, Reading, ReproduceError, Rig, Table};
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

/// A policy's mean slow-downs over those by default - 1; none where one of them is not known.
struct Over {
    /// Of each set, in the order of their sorts.
    of_sets: Option<Vec<f64>>,
}

impl Over {
    fn mean(&self) -> Option<f64> {
        self.of_sets.as_deref().map(mean)
    }

    fn of_sort(&self, sort: usize) -> Option<f64> {
        let n = N_SETS as usize;
        self.of_sets.as_deref().map(|sets| mean(&sets[sort * n..(sort + 1) * n]))
    }

    fn most(&self) -> Option<f64> {
        self.of_sets.as_deref().and_then(|sets| sets.iter().copied().reduce(f64::max))
    }

    fn n_worse(&self) -> usize {
        self.of_sets.iter().flatten().filter(|over| 0.0 < **over).count()
    }
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
    let over = |column: usize| {
        let over = |set| Some(slow(column, set)? / slow(columns.len(), set)? - 1.0);
        Over { of_sets: (0..names.len()).map(over).collect() }
    };
    let here = format!("misses ±{:.0} %", by * 100.0);
    let title = format!(
        "mean slow-down beside the default, in %, {here}: any, mixed, hungry sets; worst set of all"
    );
    let mut table =
        Table::new(&title, &["policy", "any", "mixed", "hungry", "worst set"]).units(&["%"]);
    for (at, column) in columns.iter().enumerate() {
        let over = over(at);
        let cells = [over.of_sort(0), over.of_sort(1), over.of_sort(2), over.most()].map(percent);
        table.row(std::iter::once(column.clone()).chain(cells));
        found.claims.extend(match READ[at % READ.len()] {
            (policy @ ("di" | "dio"), "") => Some(hurts(&here, policy, reading_of(column), &over)),
            ("dino", more @ ("" | "limits=article")) => {
                Some(never_much_worse(&here, more, reading_of(column), &over))
            }
            _ => None,
        });
    }
    found.tables.push(table);
    found.why.extend(played.faults());
    Ok(())
}

/// Whoever leaves memory behind is worse than the default on average.
fn hurts(here: &str, policy: &str, reading: Reading, over: &Over) -> Claim {
    let n = over.of_sets.as_ref().map_or(0, Vec::len);
    judged(
        &format!(
            "{here}: {policy}, which leaves memory behind, is worse than the default on average"
        ),
        reading,
        format!("{} %; worse in {} of {n} sets", percent(over.mean()), over.n_worse()),
        over.mean().map(|over| 0.0 < over),
    )
    .on(in_percent(over.mean()))
}

/// DINO with some limits is in no set much worse than the default.
fn never_much_worse(here: &str, limits: &str, reading: Reading, over: &Over) -> Claim {
    let limits = if limits.is_empty() { "limits=released" } else { limits };
    judged(
        &format!("{here}: dino with {limits} is in no set more than 3 % worse than the default"),
        reading,
        format!("{} % at worst, {} % on average", percent(over.most()), percent(over.mean())),
        over.most().map(|most| most <= MUCH),
    )
    .on(in_percent(over.most()))
}
