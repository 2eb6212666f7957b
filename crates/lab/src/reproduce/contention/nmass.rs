//! Near one's memory, or apart from those who hunger for the same cache? (spec 2.3, A4)
//!
//! ```text
//!   memory   even: where first touched        3+1, 6+2: most of it on node 0       4+0, 8+0: all of it
//!            maximum-local: near, always ─► N-MASS: near, unless too many meet there
//! ```
//!
//! Four programs leave half of the cores free: being near is possible for all of them, and costs cache. Eight fill
//! the machine: who is near is all that can be chosen.
//!
//! What being away costs a program is counted once it has been in both places. The source is remembered to have
//! start values measured beforehand; both are looked at: *told* are those that a run alone with memory elsewhere
//! gives, as a workload file declares them, and *untold* is who counts as not suffering until it has.

use std::collections::BTreeMap;

use base::NodeId;

use super::scene::{Part, Scene, Slow, mean_of};
use super::sets::{Sort, sets};
use super::tell::{in_percent, judged, not_judged, percent, shown};
use crate::reproduce::{Claim, Found, Played, Reading, ReproduceError, Rig, Table};
use crate::stats::mean;

/// The machine of the paper.
const MACHINE: &str = "xeon-e5520-2x4";
/// Seconds that programs take alone.
const SECONDS: f64 = 120.0;
const N_SETS: u64 = 4;
const SORTS: [Sort; 3] = [Sort::Any, Sort::Mixed, Sort::Hungry];

/// How many programs there are, and of how many the memory is on node 0; none: wherever they touch it first.
const LAID: [(usize, Option<usize>); 6] =
    [(4, None), (4, Some(3)), (4, Some(4)), (8, None), (8, Some(6)), (8, Some(8))];

const COLUMNS: [&str; 4] = ["maximum-local", "nmass", "nmass[reading=paper]", "linux"];
const LOCAL: usize = 0;
const NMASS: [(usize, Reading); 2] = [(1, Reading::Ours), (2, Reading::Paper)];
const DEFAULT: usize = 3;

/// Runs of all sets with one way to lay memory.
struct Runs {
    n_programs: usize,
    on_first: Option<usize>,
    is_told: bool,
    scene: Scene,
    played: Played,
}

impl Runs {
    fn words(&self) -> String {
        let told = told(self.is_told);
        match self.on_first {
            None => format!("{} as touched, {told}", self.n_programs),
            Some(n) => format!("{}+{}, {told}", n, self.n_programs - n),
        }
    }

    fn is_one_node(&self) -> bool {
        self.on_first == Some(self.n_programs)
    }

    fn slow(&self, column: usize, set: usize) -> Option<f64> {
        mean_of(&self.scene.slowdowns(&self.played, column, set), Slow::mean)
    }

    /// Placements of a run after starts, on average.
    fn moves(&self, column: usize) -> Option<f64> {
        let sets = 0..self.played.workloads().len();
        let seeds = 0..self.played.whole_s(column, 0).len();
        let of = |set| seeds.clone().map(move |seed| self.played.run(column, set, seed).n_moves);
        let all: Vec<f64> = sets.flat_map(of).map(|n| n as f64).collect();
        (!all.is_empty()).then(|| mean(&all))
    }

    /// One column over another - 1, by set; of a sort or of all.
    fn over(&self, column: usize, base: usize, sort: Option<Sort>) -> Vec<Option<f64>> {
        let sets = 0..self.played.workloads().len();
        let is_of = |set: &usize| sort.is_none_or(|sort| SORTS[set / N_SETS as usize] == sort);
        let over = |set| Some(self.slow(column, set)? / self.slow(base, set)? - 1.0);
        sets.filter(is_of).map(over).collect()
    }
}

fn told(is_told: bool) -> &'static str {
    if is_told { "told" } else { "untold" }
}

/// The mean; nothing if something of it is unknown, or if there is nothing.
fn mean_over(all: &[Option<f64>]) -> Option<f64> {
    let known: Option<Vec<f64>> = all.iter().copied().collect();
    known.filter(|known| !known.is_empty()).map(|known| mean(&known))
}

fn most_over(all: &[Option<f64>]) -> Option<f64> {
    let known: Option<Vec<f64>> = all.iter().copied().collect();
    known?.into_iter().reduce(f64::max)
}

fn play(
    rig: &Rig<'_>,
    (n_programs, on_first): (usize, Option<usize>),
    is_told: bool,
    columns: &[&str],
) -> Result<Runs, ReproduceError> {
    let mut scene = Scene::new(MACHINE, SECONDS)?;
    let mut all = Vec::new();
    for sort in SORTS {
        all.extend(sets(&scene.world.machine, scene.world.draw, sort, N_SETS)?);
    }
    let mut programs: Vec<String> = all.iter().flat_map(|set| set.programs.clone()).collect();
    programs.sort();
    programs.dedup();
    let remote = match is_told {
        true => scene.remote(rig, &programs)?,
        false => BTreeMap::new(),
    };
    let mut names = Vec::new();
    for set in all {
        let part = |(at, program): (usize, &String)| Part {
            program: program.clone(),
            memory: on_first.map(|n| NodeId(u32::from(n <= at))),
            remote: remote.get(program).copied(),
            ..Part::default()
        };
        let parts: Vec<Part> = set.programs.iter().take(n_programs).enumerate().map(part).collect();
        let laid = on_first.map_or("touched".to_owned(), |n| format!("{n} on node 0"));
        let name = format!("{} of {n_programs}, {laid}, {}", set.name, told(is_told));
        scene.add(&name, &parts)?;
        names.push(name);
    }
    scene.run_alone(rig)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let played = rig.play(&scene.world, columns, &names)?;
    Ok(Runs { n_programs, on_first, is_told, scene, played })
}

pub(super) fn nmass(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    let title = "mean slow-down beside the default in %: any, mixed, hungry sets; beside maximum-local: mean, worst set; moves of a run";
    let heads = ["memory", "policy", "any", "mixed", "hungry", "beside local", "worst", "moves"];
    let mut table = Table::new(title, &heads).units(&["1", "%", "%", "%", "%", "%", "count"]);
    let mut all = Vec::new();
    let ways = [true, false].into_iter().flat_map(|is_told| LAID.map(|laid| (laid, is_told)));
    for (laid, is_told) in ways {
        let runs = play(rig, laid, is_told, &COLUMNS)?;
        (0..COLUMNS.len()).filter(|at| *at != DEFAULT).for_each(|at| table.row(row(&runs, at)));
        found.why.extend(runs.played.faults());
        all.push(runs);
    }
    found.tables.push(table);
    found.claims.extend(laid(&all).map(|runs| no_slower(runs, LOCAL, DEFAULT, Reading::Either)));
    for (column, reading) in NMASS {
        found.claims.extend(laid(&all).map(|runs| no_slower(runs, column, LOCAL, reading)));
        let of = |is_told| never_slower(&all, column, reading, is_told);
        found.claims.extend([true, false].map(of));
        found.claims.extend(crowded(&all).map(|runs| much_faster(runs, column, reading)));
    }
    found.claims.extend(crowded(&all).map(local_loses));
    found.claims.push(not_judged(
        "up to 32 % faster than the Linux default, 7 % on average (abstract)",
        Reading::Either,
        "the paper's mixes, and where their memory lay, are not at hand",
    ));
    Ok(found)
}

/// Those whose memory is held on nodes.
fn laid(all: &[Runs]) -> impl Iterator<Item = &Runs> {
    all.iter().filter(|runs| runs.on_first.is_some())
}

/// Those with all memory on one node.
fn crowded(all: &[Runs]) -> impl Iterator<Item = &Runs> {
    all.iter().filter(|runs| runs.is_one_node())
}

/// A policy beside the default, by sort; and beside maximum-local.
fn row(runs: &Runs, column: usize) -> Vec<String> {
    let of_sort = |sort| percent(mean_over(&runs.over(column, DEFAULT, Some(sort))));
    let beside = runs.over(column, LOCAL, None);
    let beside = [mean_over(&beside), most_over(&beside)].map(percent);
    let first = [runs.words(), COLUMNS[column].to_owned()];
    let moves = shown(runs.moves(column), 1);
    first.into_iter().chain(SORTS.map(of_sort)).chain(beside).chain([moves]).collect()
}

/// In no set, with no way to lay memory, more than 2 % slower than maximum-local.
fn never_slower(all: &[Runs], column: usize, reading: Reading, is_told: bool) -> Claim {
    let like = all.iter().filter(|runs| runs.is_told == is_told);
    let worst: Option<Vec<f64>> =
        like.map(|runs| most_over(&runs.over(column, LOCAL, None))).collect();
    let worst = worst.and_then(|worst| worst.into_iter().reduce(f64::max));
    judged(
        &format!("{}: nmass is in no set more than 2 % slower than maximum-local", told(is_told)),
        reading,
        format!("{} % at worst", percent(worst)),
        worst.map(|worst| worst <= 0.02),
    )
    .on(in_percent(worst))
}

/// More than 3 % faster than maximum-local on average.
fn much_faster(runs: &Runs, column: usize, reading: Reading) -> Claim {
    let gain = mean_over(&runs.over(column, LOCAL, None));
    judged(
        &format!("{}: nmass is more than 3 % faster than maximum-local, on average", runs.words()),
        reading,
        format!("{} % of the slow-down", percent(gain)),
        gain.map(|gain| gain < -0.03),
    )
    .on(in_percent(gain))
}

/// Among hungry programs maximum-local is slower than the default on average.
fn local_loses(runs: &Runs) -> Claim {
    let lost = mean_over(&runs.over(LOCAL, DEFAULT, Some(Sort::Hungry)));
    judged(
        &format!("{}, hungry sets: maximum-local loses to the default, on average", runs.words()),
        Reading::Either,
        format!("{} %", percent(lost)),
        lost.map(|lost| 0.0 < lost),
    )
}

/// No slower on average.
fn no_slower(runs: &Runs, column: usize, base: usize, reading: Reading) -> Claim {
    let over = mean_over(&runs.over(column, base, None));
    let short = |at: usize| COLUMNS[at].split('[').next().unwrap_or_default().to_owned();
    let base = if base == DEFAULT { "the default".to_owned() } else { short(base) };
    judged(
        &format!("{}: {} is no slower than {base}, on average", runs.words(), short(column)),
        reading,
        format!("{} %", percent(over)),
        over.map(|over| over <= 0.0),
    )
}

pub(super) fn constants(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    const VARIED: [&str; 9] = [
        "maximum-local",
        "nmass[k=0.001]",
        "nmass[k=0.003]",
        "nmass",
        "nmass[k=0.03]",
        "nmass[k=0.1]",
        "nmass[d_min=0.5]",
        "nmass[d_min=8]",
        "nmass[swap=no]",
    ];
    let mut found = Found::default();
    let title = "mean slow-down beside maximum-local, in %";
    let heads: Vec<&str> =
        std::iter::once("memory").chain(VARIED.iter().copied().skip(1)).collect();
    let mut table = Table::new(title, &heads).units(&["%"]);
    for laid in LAID {
        let runs = play(rig, laid, true, &VARIED)?;
        let cells = (1..VARIED.len()).map(|at| percent(mean_over(&runs.over(at, 0, None))));
        table.row(std::iter::once(runs.words()).chain(cells));
    }
    found.tables.push(table);
    found.claims.push(not_judged(
        "the constants of the refinement are right for this machine",
        Reading::Ours,
        "the source's are not known; these are shown so that it can be seen what hangs on ours, which stay",
    ));
    Ok(found)
}
