//! How much could any scheduler have saved, and how hard do the programs press the controllers?
//!
//! ```text
//!   default     ├──────────────────────────────────────────────┤ whole time
//!   job 1       ├─ alone ─┤
//!   job 2             ├──── alone ────┤
//!   job n                          start ├── alone ──┤           nobody ends before start + alone
//!                                                    ├─ at the most so much can be saved ─┤
//! ```
//!
//! A workload's time is that of its last job, and jobs start when their file says so. So whatever a scheduler
//! does, the workload takes at least as long as the latest start plus time alone: with all of the cache, its memory
//! near, and nobody else at the controllers. What lies above that is all that there is to be gained.
//!
//! Beside it the chip is changed instead of the scheduler: controllers a hundred times as fast, and memory elsewhere
//! as near as one's own. What the default scheduler gains by that is what evening out controllers, or keeping
//! memory near, could bring at best.

use base::Nanos;

use super::super::{
    Claim, Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, Table, World,
};
use super::{ALL, dfs, roomy, roomy_striped};
use crate::stats::mean;

/// What the report's figures show at least on each workload, as parts: four of the first five, all of the others.
const LEAST: [f64; 2] = [0.005, 0.012];
/// Below this a cause is too small for the published gains; the least of figure 5.2.
const PRESSURE: f64 = 0.012;

pub(super) fn ceiling(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let (world, striped) = (roomy()?, roomy_striped()?);
    let base = rig.play(&striped, &["linux"], &ALL)?;
    let here = rig.play(&world, &["dfs[reading=paper]", "dfs", "linux"], &ALL)?;
    let mut found = Found::default();
    let title = "seconds by default, and the least that any scheduler needs";
    let mut times = Table::new(title, &["workload", "default", "at least"]);
    let heads = [
        "workload",
        "can be saved: by node",
        "can be saved: striped",
        "saved: paper",
        "saved: ours",
    ];
    let title =
        "time that can be saved by whatever scheduler, and what DFS saves, in % of the default's";
    let mut table = Table::new(title, &heads).drawn(Drawing::Intervals);
    let mut most = Vec::new();
    for (place, workload) in ALL.iter().enumerate() {
        let alone = rig.alone(&world, workload)?;
        let (least, saved) = bound(&base, place, &alone);
        let (_, striped) = bound(&base, place, &rig.alone(&striped, workload)?);
        let seconds = base.mean_s(0, place).unwrap_or(0.0);
        let gains = [&saved, &striped].map(Gain::shown).into_iter();
        let gains = gains.chain([0, 1].map(|at| here.gain(at, place, (&base, 0)).shown()));
        let gains: Vec<String> = gains.collect();
        let name = || std::iter::once((*workload).to_owned());
        times.row(name().chain([format!("{seconds:.1}"), format!("{:.1}", mean(&least))]));
        table.row(name().chain(gains));
        most.push(saved);
    }
    found.tables.extend([times, table]);
    found.claims.extend(room(&most));
    relief(rig, &world, &here, &mut found)?;
    found.tables.push(used(&here, &world));
    found.why.push(
        "where less than nothing can be saved a program alone, with its memory on one node, takes longer than among the \
         others with memory striped over four controllers: no scheduler that keeps memory by node can end earlier"
            .to_owned(),
    );
    found.why.extend(base.faults().into_iter().chain(here.faults()));
    Ok(found)
}

/// By seed: the least that the workload can take, and the part of the default's time that is above it.
fn bound(base: &Played, place: usize, alone: &[Option<Nanos>]) -> (Vec<f64>, Gain) {
    let (mut least, mut saved) = (Vec::new(), Vec::new());
    let whole = base.whole_s(0, place);
    for (at, seed) in base.seeds().iter().enumerate() {
        let Some(whole) = whole[at] else { continue };
        let ends = base.run(0, place, at).jobs.iter().zip(alone).filter_map(|(job, alone)| {
            Some((job.start?.as_secs_f64()) + alone.as_ref()?.as_secs_f64())
        });
        let end = ends.fold(0.0, f64::max);
        least.push(end);
        saved.push((*seed, 1.0 - end / whole));
    }
    (least, Gain::by_seed(saved))
}

/// Whether the published gains fit below it.
fn room(most: &[Gain]) -> [Claim; 2] {
    let fits = |gains: &[Gain], least: f64| gains.iter().filter(|gain| least <= gain.mean).count();
    let shown = |gains: &[Gain]| gains.iter().map(Gain::percent).collect::<Vec<String>>().join(" ");
    let (first, second) = most.split_at(5);
    let can = |gains: &[Gain]| !gains.iter().any(Gain::is_empty);
    let n = [fits(first, LEAST[0]), fits(second, LEAST[1])];
    [
        Claim::judged(
            "any scheduler could save 0.5 % or more on four of wl1 to wl5",
            Reading::Either,
            format!("on {}: {}", n[0], shown(first)),
            can(first).then_some(4 <= n[0]),
        ),
        Claim::judged(
            "any scheduler could save 1.2 % or more on each of wl6 to wl10",
            Reading::Either,
            format!("on {}: {}", n[1], shown(second)),
            can(second).then_some(n[1] == 5),
        ),
    ]
}

/// What the default scheduler gains on a better chip.
fn relief(
    rig: &Rig<'_>,
    world: &World,
    here: &Played,
    found: &mut Found,
) -> Result<(), ReproduceError> {
    let worlds = [
        ("controllers 100 times as fast", world.clone().widened(100)),
        ("memory elsewhere as near as one's own", world.clone().remote_over_local(1.0)),
        ("both", world.clone().widened(100).remote_over_local(1.0)),
    ];
    let heads = ["the chip", "mean saved", "least", "most"];
    let title = "what linux saves on a better chip, beside linux on the chip as it is, in %";
    let mut table = Table::new(title, &heads);
    for (name, better) in worlds {
        let played = rig.play(&better, &["linux"], &ALL)?;
        let of = |place: usize| played.gain(0, place, (here, 2)).mean * 100.0;
        let all: Vec<f64> = (0..ALL.len()).map(of).collect();
        let gain = played.mean_gain(0, (here, 2));
        let end = |with: fn(f64, f64) -> f64, from: f64| all.iter().copied().fold(from, with);
        table.row([
            name.to_owned(),
            gain.shown(),
            format!("{:+.1}", end(f64::min, f64::INFINITY)),
            format!("{:+.1}", end(f64::max, f64::NEG_INFINITY)),
        ]);
        found.claims.push(Claim::judged(
            &format!(
                "{name}: the default scheduler saves 1.2 % or more, as a scheduler would have to"
            ),
            Reading::Either,
            format!("{} %", gain.shown()),
            (!gain.is_empty()).then_some(PRESSURE <= gain.mean),
        ));
        found.why.extend(played.faults());
    }
    found.tables.push(table);
    Ok(())
}

/// How much of what controllers can carry they do, and how often programs are moved.
fn used(here: &Played, world: &World) -> Table {
    let heads = ["workload", "mean", "busiest", "paper", "ours"];
    let title = "use of the controllers under linux, over the whole run, in %; moves a run by DFS";
    let mut table = Table::new(title, &heads);
    let accesses = world.machine.figures().accesses.iter();
    let caps: Vec<f64> = accesses
        .filter(|way| way.from == way.to)
        .filter_map(|way| way.bandwidth_bytes_per_s)
        .map(|figure| figure.value as f64)
        .collect();
    for (place, workload) in ALL.iter().enumerate() {
        let (mut all, mut busiest) = (Vec::new(), Vec::new());
        for seed in 0..here.seeds().len() {
            let run = here.run(2, place, seed);
            let seconds = run.whole.as_secs_f64().max(1e-9);
            let use_of = run.controllers.iter().zip(&caps).map(|(controller, cap)| {
                (controller.read_bytes + controller.written_bytes) as f64 / seconds / cap * 100.0
            });
            let use_of: Vec<f64> = use_of.collect();
            all.push(mean(&use_of));
            busiest.push(use_of.iter().copied().fold(0.0, f64::max));
        }
        let moves = |column: usize| {
            let of =
                (0..here.seeds().len()).map(|seed| here.run(column, place, seed).n_moves as f64);
            format!("{:.1}", mean(&of.collect::<Vec<f64>>()))
        };
        table.row([
            (*workload).to_owned(),
            format!("{:.1}", mean(&all)),
            format!("{:.1}", mean(&busiest)),
            moves(0),
            moves(1),
        ]);
    }
    table
}

/// Which baseline a policy meets, told apart: where memory lies, and who schedules.
pub(super) fn baseline(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    let memory = [("1 GiB", World::shipped("tilepro64")?, World::shipped("tilepro64-striped")?)];
    let memory = memory.into_iter().chain([("16 GiB", roomy()?, roomy_striped()?)]);
    let heads = ["memory", "reading", "linux by node", "DFS by node", "DFS alone"];
    let title = "mean over the ten workloads, saved in %: linux by node and DFS beside linux striped, and DFS beside \
                 linux by node";
    let mut table = Table::new(title, &heads);
    for (size, by_node, striped) in memory {
        let base = rig.play(&striped, &["linux"], &ALL)?;
        let columns = [dfs(Reading::Paper, ""), dfs(Reading::Ours, ""), "linux".to_owned()];
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let here = rig.play(&by_node, &columns, &ALL)?;
        let trap = here.mean_gain(2, (&base, 0));
        for (column, reading) in [(0, Reading::Paper), (1, Reading::Ours)] {
            let alone = here.mean_gain(column, (&here, 2));
            table.row([
                format!("{size} a node"),
                reading.word().to_owned(),
                trap.shown(),
                here.mean_gain(column, (&base, 0)).shown(),
                alone.shown(),
            ]);
            found.claims.push(Claim::judged(
                &format!(
                    "with {size} a node: beside linux with memory by node, too, DFS saves time"
                ),
                reading,
                format!("{} %", alone.shown()),
                alone.is_surely_above(),
            ));
        }
        found.why.extend(base.faults().into_iter().chain(here.faults()));
    }
    found.tables.push(table);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn no_workload_ends_before_the_latest_start_plus_time_alone() {
        let stop = AtomicBool::new(false);
        let rig = Rig::new(vec![1, 2], 1, 2, &stop, &|_, _| {});
        let striped = roomy_striped().expect("ships");
        let base = rig.play(&striped, &["linux"], &["wl1"]).expect("runs");
        let alone = rig.alone(&striped, "wl1").expect("runs");
        let (least, saved) = bound(&base, 0, &alone);
        assert_eq!((least.len(), &saved.seeds[..]), (2, &[1, 2][..]));
        // By chance the last program is up to 0.5 % longer or shorter, of a fifth of the workload's time.
        assert!(saved.each.iter().all(|saved| -0.001 < *saved), "{saved:?}");
    }
}
