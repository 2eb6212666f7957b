//! Upper bound of the gain of any scheduler, and the utilization of the memory controllers.
//!
//! ```text
//!   linux       ├──────────────────────────────────────────────┤ makespan
//!   job 1       ├─ alone ─┤
//!   job 2             ├──── alone ────┤
//!   job n                          start ├── alone ──┤           no job ends before start + alone
//!                                                    ├─ largest possible gain ─┤
//! ```
//!
//! The makespan of a workload is at least the largest sum of start and time alone, with all of the cache, local memory
//! and idle controllers. Start and length are drawn for each seed. Jobs that run one by one keep their numbers and
//! therefore their draws. This bound is valid for schedulers that keep first-touch memory, as DFS does: a job with
//! memory interleaved over several controllers can be faster than a job alone on one controller. The bound of the
//! oracle is valid for any memory layout.

use host_sim::hardware::Hardware;
use report::study::{ChartKind, RuleReading, StudyClaim};

use super::super::finding::{judged_claim, number, with_values};
use super::super::run_pool::Series;
use super::super::{Finding, FindingTable, Gain, ReproduceError, RunPool, Testbed};
use super::{ALL, first_touch, interleaved};
use crate::compare::RunMetrics;
use crate::stats::{mean, mean_of};

/// The smallest published gains as fractions: for four of the workloads wl1 to wl5, and for each of wl6 to wl10.
const PUBLISHED_MIN: [f64; 2] = [0.005, 0.012];

pub(super) fn upper_bound(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let (first_touch, interleaved) = (first_touch()?, interleaved()?);
    let base = pool.run(&interleaved, &["linux"], &ALL, pool.seeds())?.concat();
    let policies = ["dfs[reading=paper]", "dfs", "linux"];
    let first_touch_runs = pool.run(&first_touch, &policies, &ALL, pool.seeds())?;
    let title = "makespan in seconds: under linux; lower bound with first-touch memory; lower bound with any memory layout";
    let mut times =
        FindingTable::new(title, &["workload", "linux", "first touch", "any layout"]).units(&["s"]);
    let heads = [
        "workload",
        "maximum gain, first-touch memory",
        "maximum gain, interleaved memory",
        "maximum gain, any layout",
        "saved: as printed",
        "saved: corrected",
    ];
    let title = "largest gain of any scheduler, and gain of DFS, in % of the makespan under linux";
    let mut gains = FindingTable::new(title, &heads).units(&["%"]).drawn(ChartKind::Intervals);
    let (mut most, mut most_any) = (Vec::new(), Vec::new());
    for (idx, workload) in ALL.iter().enumerate() {
        let base = &base[idx];
        let (bound_s, saved) = bound(base, &alone(pool, &first_touch, workload)?);
        let (_, saved_interleaved) = bound(base, &alone(pool, &interleaved, workload)?);
        let least = first_touch.least_times(workload)?;
        let seconds = [mean_of(base.makespans_s()), mean_of(bound_s), Some(least.makespan_s)];
        let seconds = seconds.map(|seconds| number(seconds, 1));
        let saved_any = Gain::paired(base, base, |run, _| Some(least.time_saved(run)));
        let possible = [&saved, &saved_interleaved, &saved_any].map(Gain::cell).into_iter();
        let dfs =
            first_touch_runs[..2].iter().map(|runs| Gain::time_saved(&runs[idx], base).cell());
        let cells = possible.chain(dfs);
        times.row(std::iter::once((*workload).to_owned()).chain(seconds));
        gains.row(std::iter::once((*workload).into()).chain(cells));
        most.push(saved);
        most_any.push(saved_any);
    }
    let mut finding = Finding { tables: vec![times, gains], ..Finding::default() };
    finding.claims.extend(possible_gains("with first-touch memory", &most));
    finding.claims.extend(possible_gains("with any memory layout", &most_any));
    finding.tables.push(utilization(&first_touch_runs, &first_touch));
    finding.notes.push(
        "negative values: a program alone, with its memory on one node, takes longer than with all programs and \
            memory interleaved over four controllers, so no scheduler that keeps first-touch memory can finish earlier"
            .to_owned(),
    );
    let all = base.iter().chain(first_touch_runs.iter().flatten());
    finding.notes.extend(all.filter_map(Series::failure));
    Ok(finding)
}

/// Runs the jobs of a workload one by one with every seed. Each job has the length that is drawn for it in the
/// workload.
fn alone(pool: &RunPool<'_>, testbed: &Testbed, workload: &str) -> Result<Series, ReproduceError> {
    let spaced = testbed.one_by_one(workload, &testbed.alone(workload)?)?;
    pool.series(&spaced, ("linux", workload), pool.seeds())
}

/// Returns, by seed, the lower bound of the makespan, and the fraction of the makespan under `linux` that exceeds the
/// bound.
fn bound(base: &Series, alone: &Series) -> (Vec<f64>, Gain) {
    let end = |base: &RunMetrics, alone: &RunMetrics| {
        let ends = base.jobs.iter().zip(&alone.jobs).filter_map(|(job, alone)| {
            Some((job.start? + alone.end?.saturating_sub(alone.start?)).as_secs_f64())
        });
        ends.fold(0.0, f64::max)
    };
    let bound_s = base.pairs(alone).map(|(_, base, alone)| end(base, alone)).collect();
    (
        bound_s,
        Gain::paired(base, alone, |base, alone| {
            Some(1.0 - end(base, alone) / base.last_end.as_secs_f64())
        }),
    )
}

/// Returns the claims that the upper bound permits the published gains.
fn possible_gains(memory: &str, most: &[Gain]) -> [StudyClaim; 2] {
    let claim = |limit: &str, gains: &[Gain], least: f64, needed: usize| {
        let n = gains.iter().filter(|gain| least <= gain.mean).count();
        let percents = gains.iter().map(Gain::percent).collect::<Vec<String>>().join(" ");
        let is_known = !gains.iter().any(Gain::is_empty);
        let text = format!("{memory} the upper bound of the gain is {limit}");
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

/// Returns the table of the mean utilization of the controllers, relative to their achievable bandwidth, and of the moves
/// of DFS.
fn utilization(runs: &[Vec<Series>], testbed: &Testbed) -> FindingTable {
    let heads = ["workload", "mean", "busiest", "as printed", "corrected"];
    let title = "utilization of the achievable bandwidth of the controllers under linux over the whole run, in %; moves of a run by DFS";
    let mut table = FindingTable::new(title, &heads).units(&["%", "%", "count"]);
    // Bytes per nanosecond; the peak × the share `achievable` of the machine file.
    let hardware = Hardware::new(&testbed.machine);
    let achievable = |node| hardware.memory(node).capacity * 1e9;
    let achievable: Vec<f64> = (0..hardware.nodes.len()).map(achievable).collect();
    for (idx, workload) in ALL.iter().enumerate() {
        let (mut means, mut busiest) = (Vec::new(), Vec::new());
        for (_, run) in runs[2][idx].finished_runs() {
            let seconds = run.last_end.as_secs_f64().max(1e-9);
            let used = run.controllers.iter().zip(&achievable).map(|(controller, achievable)| {
                (controller.read_bytes + controller.written_bytes) as f64 / seconds / achievable
                    * 100.0
            });
            let used: Vec<f64> = used.collect();
            means.push(mean(&used));
            busiest.push(used.iter().copied().fold(0.0, f64::max));
        }
        let moves = |policy: usize| -> Vec<f64> {
            runs[policy][idx].finished_runs().map(|(_, run)| run.n_moves as f64).collect()
        };
        let cells = [means, busiest, moves(0), moves(1)].map(|all| number(mean_of(all), 1));
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
        let interleaved = interleaved().expect("it ships");
        let base = pool.series(&interleaved, ("linux", "wl1"), &[1, 2]).expect("it runs");
        let alone = alone(&pool, &interleaved, "wl1").expect("it runs");
        let (bound_s, saved) = bound(&base, &alone);
        assert_eq!((bound_s.len(), &saved.seeds[..]), (2, &[1, 2][..]));
        assert!(saved.each.iter().all(|saved| 0.0 <= *saved), "{saved:?}");
        let any_layout_s = interleaved.least_times("wl1").expect("it can be simulated").makespan_s;
        assert!(
            0.0 < any_layout_s && bound_s.iter().all(|s| any_layout_s < *s),
            "{any_layout_s} {bound_s:?}"
        );
    }

    #[test]
    fn a_job_alone_has_the_length_that_is_drawn_in_the_workload() {
        let stop = StopFlag::default();
        let pool = RunPool::new(vec![1, 2], 1, 2, &stop, &|_, _| {});
        let testbed = first_touch().expect("it ships");
        let about = testbed.alone("wl1").expect("it runs");
        let spaced = testbed.one_by_one("wl1", &about).expect("all jobs exit");
        let jobs = spaced.workloads["wl1"].iter();
        let ends = jobs.zip(&about).map(|(job, alone)| job.start + alone.expect("it exits"));
        let starts = spaced.workloads["wl1"].iter().skip(1).map(|job| job.start);
        assert!(ends.zip(starts).all(|(end, next)| end < next), "no two jobs overlap");
        let drawn = alone(&pool, &testbed, "wl1").expect("it runs").job_s(0);
        let parts: Vec<f64> =
            drawn.iter().map(|s| s / about[0].expect("it exits").as_secs_f64()).collect();
        // The extremes of a uniform distribution are sqrt(3) standard deviations from its mean; the deviation is 0.5 %.
        assert!(parts.iter().all(|part| (part - 1.0).abs() < 0.009), "{parts:?}");
        assert!(parts.len() == 2 && parts[0] != parts[1], "{parts:?}");
    }
}
