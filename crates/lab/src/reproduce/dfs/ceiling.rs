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
//! near, and nobody else at the controllers. What lies above that is all that there is to be gained. Both are those
//! of each seed: chance draws how late a job starts and how long it is by seed and number, so that what it draws
//! in the workload is drawn again where its jobs run one by one. That holds for schedulers that keep memory by node,
//! as DFS does: striped over several controllers it may be faster than alone on one. What nothing can beat, wherever
//! memory lies, is the bound of the oracle; it stands beside it.
//!
//! Beside it the chip is changed instead of the scheduler: controllers a hundred times as fast, and memory elsewhere
//! as near as one's own. What the default scheduler gains by that is what evening out controllers, or keeping
//! memory near, could bring at best.

use super::super::{
    Claim, Drawing, Found, Gain, Played, Reading, ReproduceError, Rig, Table, World,
};
use super::{ALL, dfs, roomy, roomy_striped};
use crate::compare::{Ended, Figures};
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
    let title = "seconds by default; the least that any scheduler needs that keeps memory by node; and the least that \
                 there is, wherever memory lies";
    let mut times =
        Table::new(title, &["workload", "default", "by node", "the least"]).units(&["s"]);
    let heads = [
        "workload",
        "can be saved: by node",
        "can be saved: striped",
        "can be saved: at all",
        "saved: paper",
        "saved: ours",
    ];
    let title =
        "time that can be saved by whatever scheduler, and what DFS saves, in % of the default's";
    let mut table = Table::new(title, &heads).units(&["%"]).drawn(Drawing::Intervals);
    let (mut most, mut at_all) = (Vec::new(), Vec::new());
    for (place, workload) in ALL.iter().enumerate() {
        let (least, saved) = bound(&base, place, &alone(rig, &world, workload)?);
        let (_, striped) = bound(&base, place, &alone(rig, &striped, workload)?);
        let least = (!least.is_empty()).then(|| mean(&least));
        let floor = rig.bound(&world, workload)?.as_secs_f64();
        let seconds = [base.mean_s(0, place), least, Some(floor)];
        let seconds = seconds.map(|seconds| shown(seconds, ""));
        let anyhow = above(&base, place, floor);
        let gains = [&saved, &striped, &anyhow].map(Gain::cell).into_iter();
        let gains = gains.chain([0, 1].map(|at| here.gain(at, place, (&base, 0)).cell()));
        times.row(std::iter::once((*workload).to_owned()).chain(seconds));
        table.row(std::iter::once((*workload).into()).chain(gains));
        most.push(saved);
        at_all.push(anyhow);
    }
    found.tables.extend([times, table]);
    found.claims.extend(room("with memory by node", &most));
    found.claims.extend(room("wherever memory lies", &at_all));
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

/// The jobs of a workload alone with every seed, each as long as chance makes it in the workload.
fn alone(rig: &Rig<'_>, world: &World, workload: &str) -> Result<Played, ReproduceError> {
    let about = rig.alone(world, workload)?;
    rig.play(&world.one_by_one(workload, &about)?, &["linux"], &[workload])
}

/// By seed: the least that the workload can take, and the part of the default's time that is above it. `alone` are
/// its jobs with the same seeds.
fn bound(base: &Played, place: usize, alone: &Played) -> (Vec<f64>, Gain) {
    let (mut least, mut saved) = (Vec::new(), Vec::new());
    let (whole, others) = (base.whole_s(0, place), alone.whole_s(0, 0));
    for (at, seed) in base.seeds().iter().enumerate() {
        let (Some(whole), Some(_)) = (whole[at], others[at]) else { continue };
        let jobs = base.run(0, place, at).jobs.iter().zip(&alone.run(0, 0, at).jobs);
        let ends = jobs.filter_map(|(job, alone)| {
            Some((job.start? + alone.end?.saturating_sub(alone.start?)).as_secs_f64())
        });
        let end = ends.fold(0.0, f64::max);
        least.push(end);
        saved.push((*seed, 1.0 - end / whole));
    }
    (least, Gain::by_seed(saved))
}

/// The part of the default's time that is above so many seconds.
fn above(base: &Played, place: usize, floor: f64) -> Gain {
    let whole = base.seeds().iter().zip(base.whole_s(0, place));
    Gain::by_seed(whole.filter_map(|(seed, whole)| Some((*seed, 1.0 - floor / whole?))).collect())
}

/// Whether the published gains fit below what any scheduler could save at the most.
fn room(memory: &str, most: &[Gain]) -> [Claim; 2] {
    let fits = |gains: &[Gain], least: f64| gains.iter().filter(|gain| least <= gain.mean).count();
    let shown = |gains: &[Gain]| gains.iter().map(Gain::percent).collect::<Vec<String>>().join(" ");
    let (first, second) = most.split_at(5);
    let can = |gains: &[Gain]| !gains.iter().any(Gain::is_empty);
    let n = [fits(first, LEAST[0]), fits(second, LEAST[1])];
    [
        Claim::judged(
            &format!("{memory} any scheduler could save 0.5 % or more on four of wl1 to wl5"),
            Reading::Either,
            format!("on {}: {}", n[0], shown(first)),
            can(first).then_some(4 <= n[0]),
        )
        .on(first.iter().filter_map(|gain| gain.figure("%"))),
        Claim::judged(
            &format!("{memory} any scheduler could save 1.2 % or more on each of wl6 to wl10"),
            Reading::Either,
            format!("on {}: {}", n[1], shown(second)),
            can(second).then_some(n[1] == 5),
        )
        .on(second.iter().filter_map(|gain| gain.figure("%"))),
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
    let mut table = Table::new(title, &heads).units(&["%"]);
    for (name, better) in worlds {
        let played = rig.play(&better, &["linux"], &ALL)?;
        let all = (0..ALL.len()).map(|place| played.gain(0, place, (here, 2)));
        let all: Vec<f64> =
            all.filter(|gain| !gain.is_empty()).map(|gain| gain.mean * 100.0).collect();
        let gain = played.mean_gain(0, (here, 2));
        let end = |with: fn(f64, f64) -> f64| shown(all.iter().copied().reduce(with), "+");
        table.row([name.into(), gain.cell(), end(f64::min).into(), end(f64::max).into()]);
        found.claims.push(Claim::judged(
            &format!(
                "{name}: the default scheduler saves 1.2 % or more, as a scheduler would have to"
            ),
            Reading::Either,
            gain.found("%"),
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
    let mut table = Table::new(title, &heads).units(&["%", "%", "count"]);
    let accesses = world.machine.perf_attributes().accesses.iter();
    let caps: Vec<f64> = accesses
        .filter(|way| way.from == way.to)
        .filter_map(|way| way.bandwidth_bytes_per_s)
        .map(|figure| figure.value as f64)
        .collect();
    for (place, workload) in ALL.iter().enumerate() {
        let (mut all, mut busiest) = (Vec::new(), Vec::new());
        for run in well(here, 2, place) {
            let seconds = run.whole.as_secs_f64().max(1e-9);
            let use_of = run.controllers.iter().zip(&caps).map(|(controller, cap)| {
                (controller.read_bytes + controller.written_bytes) as f64 / seconds / cap * 100.0
            });
            let use_of: Vec<f64> = use_of.collect();
            all.push(mean(&use_of));
            busiest.push(use_of.iter().copied().fold(0.0, f64::max));
        }
        let moves = |column: usize| -> Vec<f64> {
            well(here, column, place).map(|run| run.n_moves as f64).collect()
        };
        let cells = [all, busiest, moves(0), moves(1)];
        let cells = cells.map(|all| shown((!all.is_empty()).then(|| mean(&all)), ""));
        table.row(std::iter::once((*workload).to_owned()).chain(cells));
    }
    table
}

/// Runs of a policy on a workload that ended well.
fn well(played: &Played, column: usize, place: usize) -> impl Iterator<Item = &Figures> {
    let runs = (0..played.seeds().len()).map(move |seed| played.run(column, place, seed));
    runs.filter(|run| run.ended == Ended::Finished)
}

/// With one digit, and a sign if it is asked for; a dash where nothing is known.
fn shown(value: Option<f64>, sign: &str) -> String {
    match (value, sign) {
        (None, _) => "–".to_owned(),
        (Some(value), "+") => format!("{value:+.1}"),
        (Some(value), _) => format!("{value:.1}"),
    }
}

/// Which baseline a policy meets, told apart: where memory lies, and who schedules.
pub(super) fn baseline(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    let memory = [("1 GiB", World::shipped("tilepro64")?, World::shipped("tilepro64-striped")?)];
    let memory = memory.into_iter().chain([("16 GiB", roomy()?, roomy_striped()?)]);
    let heads = ["memory", "reading", "linux by node", "DFS by node", "DFS alone"];
    let title = "mean over the ten workloads, saved in %: linux by node and DFS beside linux striped, and DFS beside \
                 linux by node";
    let mut table = Table::new(title, &heads).units(&["1", "%"]);
    for (size, by_node, striped) in memory {
        let base = rig.play(&striped, &["linux"], &ALL)?;
        let columns = [dfs(Reading::Paper, ""), dfs(Reading::Ours, ""), "linux".to_owned()];
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let here = rig.play(&by_node, &columns, &ALL)?;
        let trap = here.mean_gain(2, (&base, 0));
        for (column, reading) in [(0, Reading::Paper), (1, Reading::Ours)] {
            let alone = here.mean_gain(column, (&here, 2));
            table.row([
                format!("{size} a node").into(),
                reading.word().into(),
                trap.cell(),
                here.mean_gain(column, (&base, 0)).cell(),
                alone.cell(),
            ]);
            found.claims.push(Claim::judged(
                &format!(
                    "with {size} a node: beside linux with memory by node, too, DFS saves time"
                ),
                reading,
                alone.found("%"),
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
    use base::StopFlag;

    use super::*;

    #[test]
    fn no_workload_ends_before_the_latest_start_plus_time_alone() {
        let stop = StopFlag::default();
        let rig = Rig::new(vec![1, 2], 1, 2, &stop, &|_, _| {});
        let striped = roomy_striped().expect("ships");
        let base = rig.play(&striped, &["linux"], &["wl1"]).expect("runs");
        let alone = alone(&rig, &striped, "wl1").expect("runs");
        let (least, saved) = bound(&base, 0, &alone);
        assert_eq!((least.len(), &saved.seeds[..]), (2, &[1, 2][..]));
        assert!(saved.each.iter().all(|saved| 0.0 <= *saved), "{saved:?}");
        let floor = rig.bound(&striped, "wl1").expect("can be simulated").as_secs_f64();
        assert!(0.0 < floor && least.iter().all(|least| floor < *least), "{floor} {least:?}");
    }

    #[test]
    fn alone_a_job_is_as_long_as_chance_makes_it_in_the_workload_of_its_seed() {
        let stop = StopFlag::default();
        let rig = Rig::new(vec![1, 2], 1, 2, &stop, &|_, _| {});
        let world = roomy().expect("ships");
        let about = rig.alone(&world, "wl1").expect("runs");
        let spaced = world.one_by_one("wl1", &about).expect("all of it end");
        let jobs = spaced.casts["wl1"].iter();
        let ends = jobs.zip(&about).map(|(job, alone)| job.start + alone.expect("ends"));
        let starts = spaced.casts["wl1"].iter().skip(1).map(|job| job.start);
        assert!(ends.zip(starts).all(|(end, next)| end < next), "nobody meets anybody");
        let drawn = alone(&rig, &world, "wl1").expect("runs").job_s(0, 0, 0);
        let parts: Vec<f64> =
            drawn.iter().flatten().map(|s| s / about[0].expect("ends").as_secs_f64()).collect();
        // Evenly spread with a deviation of 0.5 %: within the root of three times it.
        assert!(parts.iter().all(|part| (part - 1.0).abs() < 0.009), "{parts:?}");
        assert!(parts.len() == 2 && parts[0] != parts[1], "{parts:?}");
    }
}
