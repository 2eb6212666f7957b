//! Upper bound of the gain of any scheduler, and the utilization of the memory controllers.
//!
//! ```text
//!   default     ├──────────────────────────────────────────────┤ makespan
//!   job 1       ├─ alone ─┤
//!   job 2             ├──── alone ────┤
//!   job n                          start ├── alone ──┤           no job ends before start + alone
//!                                                    ├─ largest possible gain ─┤
//! ```
//!
//! The makespan of a workload is at least the largest sum of start and time alone, with all of the cache, local
//! memory and idle controllers. Start and length are drawn for each seed. Jobs that run one by one keep their numbers
//! and therefore their draws. This bound is valid for schedulers that keep memory by node, as DFS does: a job whose
//! memory is striped over several controllers can be faster than alone on one. The bound of the oracle is valid for
//! any memory layout.

use report::study::{ChartKind, RuleReading, StudyClaim};

use super::super::finding::{judged_claim, mean_of, number, with_values};
use super::super::{Finding, FindingTable, Gain, ReproduceError, RunPool, RunResults, Testbed};
use super::{ALL, by_node, striped};
use crate::stats::mean;

/// The smallest published gains as fractions: of four of the first five workloads, and of all others.
const PUBLISHED_MIN: [f64; 2] = [0.005, 0.012];

pub(super) fn ceiling(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let (by_node, striped) = (by_node()?, striped()?);
    let base = pool.run(&striped, &["linux"], &ALL)?;
    let by_node_runs = pool.run(&by_node, &["dfs[reading=paper]", "dfs", "linux"], &ALL)?;
    let title = "makespan in seconds: by default; lower bound with memory by node; lower bound with any memory layout";
    let mut times =
        FindingTable::new(title, &["workload", "default", "by node", "any layout"]).units(&["s"]);
    let heads = [
        "workload",
        "can be saved: by node",
        "can be saved: striped",
        "can be saved: any layout",
        "saved: paper",
        "saved: corrected",
    ];
    let title =
        "time that any scheduler can save at most, and time that DFS saves, in % of the default's";
    let mut gains = FindingTable::new(title, &heads).units(&["%"]).drawn(ChartKind::Intervals);
    let (mut most, mut most_any) = (Vec::new(), Vec::new());
    for (idx, workload) in ALL.iter().enumerate() {
        let (bound_s, saved) = bound(&base, idx, &alone(pool, &by_node, workload)?);
        let (_, saved_striped) = bound(&base, idx, &alone(pool, &striped, workload)?);
        let any_layout_s = pool.bound(&by_node, workload)?.as_secs_f64();
        let default_s: Vec<f64> = base.makespan_s(0, idx).into_iter().flatten().collect();
        let seconds = [mean_of(&default_s), mean_of(&bound_s), Some(any_layout_s)];
        let seconds = seconds.map(|seconds| number(seconds, 1));
        let saved_any = above(&base, idx, any_layout_s);
        let possible = [&saved, &saved_striped, &saved_any].map(Gain::cell).into_iter();
        let cells =
            possible.chain([0, 1].map(|policy| by_node_runs.gain(policy, idx, (&base, 0)).cell()));
        times.row(std::iter::once((*workload).to_owned()).chain(seconds));
        gains.row(std::iter::once((*workload).into()).chain(cells));
        most.push(saved);
        most_any.push(saved_any);
    }
    let mut finding = Finding { tables: vec![times, gains], ..Finding::default() };
    finding.claims.extend(possible_gains("with memory by node", &most));
    finding.claims.extend(possible_gains("with any memory layout", &most_any));
    finding.tables.push(utilization(&by_node_runs, &by_node));
    finding.notes.push(
        "negative values: a program alone with its memory on one node takes longer than together with the others with \
         memory striped over four controllers, so no scheduler that keeps memory by node can finish earlier"
            .to_owned(),
    );
    finding.notes.extend(base.failures().into_iter().chain(by_node_runs.failures()));
    Ok(finding)
}

/// The jobs of a workload one by one with every seed, each with the length that is drawn for it.
fn alone(
    pool: &RunPool<'_>,
    testbed: &Testbed,
    workload: &str,
) -> Result<RunResults, ReproduceError> {
    let about = pool.alone(testbed, workload)?;
    pool.run(&testbed.one_by_one(workload, &about)?, &["linux"], &[workload])
}

/// By seed: the lower bound of the makespan, and the fraction of the default's makespan above it.
fn bound(base: &RunResults, workload: usize, alone: &RunResults) -> (Vec<f64>, Gain) {
    let (mut bound_s, mut saved) = (Vec::new(), Vec::new());
    let (makespans, others) = (base.makespan_s(0, workload), alone.makespan_s(0, 0));
    for (idx, seed) in base.seeds().iter().enumerate() {
        let (Some(makespan), Some(_)) = (makespans[idx], others[idx]) else { continue };
        let jobs = base.run(0, workload, idx).jobs.iter().zip(&alone.run(0, 0, idx).jobs);
        let ends = jobs.filter_map(|(job, alone)| {
            Some((job.start? + alone.end?.saturating_sub(alone.start?)).as_secs_f64())
        });
        let end = ends.fold(0.0, f64::max);
        bound_s.push(end);
        saved.push((*seed, 1.0 - end / makespan));
    }
    (bound_s, Gain::by_seed(saved))
}

/// The fraction of the default's makespan above a bound.
fn above(base: &RunResults, workload: usize, any_layout_s: f64) -> Gain {
    let makespans = base.seeds().iter().zip(base.makespan_s(0, workload));
    let saved =
        |(seed, makespan): (&u64, Option<f64>)| Some((*seed, 1.0 - any_layout_s / makespan?));
    Gain::by_seed(makespans.filter_map(saved).collect())
}

/// Whether the published gains are possible at all.
fn possible_gains(memory: &str, most: &[Gain]) -> [StudyClaim; 2] {
    let claim = |what: &str, gains: &[Gain], least: f64, needed: usize| {
        let n = gains.iter().filter(|gain| least <= gain.mean).count();
        let percents = gains.iter().map(Gain::percent).collect::<Vec<String>>().join(" ");
        let is_known = !gains.iter().any(Gain::is_empty);
        let text = format!("{memory} any scheduler could save {what}");
        let found = format!("on {n}: {percents}");
        let claim =
            judged_claim(&text, RuleReading::Either, found, is_known.then_some(needed <= n));
        with_values(claim, gains.iter().filter_map(|gain| gain.study_value("%")))
    };
    let (first, second) = most.split_at(5);
    [
        claim("0.5 % or more on four of wl1 to wl5", first, PUBLISHED_MIN[0], 4),
        claim("1.2 % or more on each of wl6 to wl10", second, PUBLISHED_MIN[1], 5),
    ]
}

/// Mean utilization of the controllers, and moves of DFS.
fn utilization(runs: &RunResults, testbed: &Testbed) -> FindingTable {
    let heads = ["workload", "mean", "busiest", "paper", "corrected"];
    let title = "utilization of the controllers under linux over the whole run, in %; moves of a run by DFS";
    let mut table = FindingTable::new(title, &heads).units(&["%", "%", "count"]);
    let local =
        testbed.machine.perf_attributes().accesses.iter().filter(|access| access.from == access.to);
    let peaks: Vec<f64> = local
        .filter_map(|access| access.bandwidth_bytes_per_s)
        .map(|peak| peak.value as f64)
        .collect();
    for (idx, workload) in ALL.iter().enumerate() {
        let (mut means, mut busiest) = (Vec::new(), Vec::new());
        for run in runs.finished(2, idx) {
            let seconds = run.makespan.as_secs_f64().max(1e-9);
            let used = run.controllers.iter().zip(&peaks).map(|(controller, peak)| {
                (controller.read_bytes + controller.written_bytes) as f64 / seconds / peak * 100.0
            });
            let used: Vec<f64> = used.collect();
            means.push(mean(&used));
            busiest.push(used.iter().copied().fold(0.0, f64::max));
        }
        let moves = |policy: usize| -> Vec<f64> {
            runs.finished(policy, idx).map(|run| run.n_moves as f64).collect()
        };
        let cells = [means, busiest, moves(0), moves(1)].map(|all| number(mean_of(&all), 1));
        table.row(std::iter::once((*workload).to_owned()).chain(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use base::StopFlag;

    use super::*;

    #[test]
    fn no_workload_ends_before_the_largest_sum_of_start_and_time_alone() {
        let stop = StopFlag::default();
        let pool = RunPool::new(vec![1, 2], 1, 2, &stop, &|_, _| {});
        let striped = striped().expect("it ships");
        let base = pool.run(&striped, &["linux"], &["wl1"]).expect("it runs");
        let alone = alone(&pool, &striped, "wl1").expect("it runs");
        let (bound_s, saved) = bound(&base, 0, &alone);
        assert_eq!((bound_s.len(), &saved.seeds[..]), (2, &[1, 2][..]));
        assert!(saved.each.iter().all(|saved| 0.0 <= *saved), "{saved:?}");
        let any_layout_s = pool.bound(&striped, "wl1").expect("it can be simulated").as_secs_f64();
        assert!(
            0.0 < any_layout_s && bound_s.iter().all(|s| any_layout_s < *s),
            "{any_layout_s} {bound_s:?}"
        );
    }

    #[test]
    fn a_job_alone_has_the_length_that_is_drawn_in_the_workload() {
        let stop = StopFlag::default();
        let pool = RunPool::new(vec![1, 2], 1, 2, &stop, &|_, _| {});
        let testbed = by_node().expect("it ships");
        let about = pool.alone(&testbed, "wl1").expect("it runs");
        let spaced = testbed.one_by_one("wl1", &about).expect("all jobs exit");
        let jobs = spaced.workloads["wl1"].iter();
        let ends = jobs.zip(&about).map(|(job, alone)| job.start + alone.expect("it exits"));
        let starts = spaced.workloads["wl1"].iter().skip(1).map(|job| job.start);
        assert!(ends.zip(starts).all(|(end, next)| end < next), "no two jobs overlap");
        let drawn = alone(&pool, &testbed, "wl1").expect("it runs").job_s(0, 0, 0);
        let parts: Vec<f64> =
            drawn.iter().flatten().map(|s| s / about[0].expect("it exits").as_secs_f64()).collect();
        // Uniform with a deviation of 0.5 %: within sqrt(3) times it.
        assert!(parts.iter().all(|part| (part - 1.0).abs() < 0.009), "{parts:?}");
        assert!(parts.len() == 2 && parts[0] != parts[1], "{parts:?}");
    }
}
