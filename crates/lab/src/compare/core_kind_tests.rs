//! Policies for core kinds on simulated machines with the shipped workload `core-kinds`.

use std::sync::Arc;

use base::StopFlag;

use super::{Column, RunMetrics, SimBench, SimSetting};
use crate::shipped;

fn bench(machine: &str, workload: &str) -> SimBench {
    let machine = shipped::machine(machine).expect("a shipped machine");
    let mut jobs = shipped::workload(workload).expect("a shipped workload").jobs;
    for job in &mut jobs {
        let name = job.profile.as_deref().expect("each job names its profile");
        job.found = Some(Arc::new(shipped::profile(name).expect("a shipped profile")));
    }
    let (options, limits, signals) = Default::default();
    let setting = SimSetting { machine, options, limits, signals };
    SimBench::without_solo_runs(setting, vec![jobs]).expect("it can be simulated")
}

/// Returns the metrics of a shipped workload under a column.
fn run(machine: &str, workload: &str, column: &str, seed: u64) -> RunMetrics {
    let column = Column::parse(column).expect("a policy");
    let run = bench(machine, workload).run((&column, 0, seed), &StopFlag::default(), None);
    run.expect("it runs").expect("not interrupted")
}

/// Returns the sum of the run times of all jobs of `core-kinds` under a column, in seconds.
fn time(machine: &str, column: &str, seed: u64) -> f64 {
    let metrics = run(machine, "core-kinds", column, seed);
    (0..8).map(|job| metrics.job_s(job).expect("it ended")).sum()
}

#[test]
fn with_equal_memory_latency_ib_gains_more_than_two_percent_over_a_kernel_that_ignores_core_kinds()
{
    for seed in [1, 2] {
        let [kernel, ib] =
            ["linux@kernel=2.6.27", "ib"].map(|column| time("opteron-2384-uma", column, seed));
        assert!(ib < 0.98 * kernel, "seed {seed}: {ib} s under ib, {kernel} s under linux");
    }
}

#[test]
fn on_a_machine_with_one_core_kind_the_policies_for_core_kinds_change_nothing() {
    let linux = time("xeon-x5365-4x2", "linux", 1);
    for info in policy::registry().iter().filter(|info| info.needs_core_kinds) {
        assert_eq!(time("xeon-x5365-4x2", info.name, 1), linux, "{}", info.name);
    }
}

#[test]
fn the_distance_to_the_assignment_model_is_that_of_the_placements_and_changes_no_run() {
    let missed = |column: &str| {
        let bench = bench("opteron-2384-uma", "core-kinds");
        let column = Column::parse(column).expect("a policy");
        let stop = StopFlag::default();
        let observed = bench.run((&column, 0, 1), &stop, None).expect("it runs").expect("it ends");
        let policy = policy::build(&column.spec, 1).expect("a policy");
        let run = bench.run_policy(policy, (&column, 0, 1), &stop, None).expect("it runs");
        let unobserved = RunMetrics { model_gap: observed.model_gap, ..run.expect("it ends") };
        assert_eq!(observed, unobserved);
        observed.model_gap.expect("two kinds and eight threads").share
    };
    let [kernel, ib] = ["linux@kernel=2.6.27", "ib"].map(missed);
    assert!(0.0 < ib && ib < kernel && kernel < 1.0, "{kernel} of the kernel, {ib} of ib");
}

#[test]
fn a_machine_with_one_core_kind_has_no_assignment_model() {
    assert_eq!(run("xeon-x5365-4x2", "core-kinds", "linux", 1).model_gap, None);
}

#[test]
fn eight_threads_on_unlike_cores_of_three_kinds_have_a_distance_to_the_best_assignment() {
    let gap = run("cix-p1", "core-kinds", "linux", 1).model_gap.expect("three kinds");
    assert!((0.0..1.0).contains(&gap.share) && !gap.is_bound, "{gap:?}");
}

#[test]
fn jobs_that_restart_until_all_are_done_keep_the_cores_busy_and_have_the_time_of_their_first_run() {
    let once = run("opteron-2384-uma", "core-kinds", "linux@kernel=2.6.27", 1);
    let again = run("opteron-2384-uma", "hd1", "linux@kernel=2.6.27", 1); // The same programs.
    let last = (0..8).filter_map(|job| again.jobs[job].end).max();
    assert_eq!(last, Some(again.last_end), "the run ends with the last first run");
    assert!((0..8).any(|job| again.jobs[job].end < last), "other jobs are restarted");
    let cpu = |metrics: &RunMetrics| {
        let all = metrics.jobs.iter().filter_map(|job| job.user);
        all.map(|time| time.as_secs_f64()).sum::<f64>() / metrics.last_end.as_secs_f64()
    };
    assert!(cpu(&once) < 3.9, "cores idle when jobs end: {}", cpu(&once));
    assert!(3.95 < cpu(&again), "restarted jobs run until the end: {}", cpu(&again));
}
