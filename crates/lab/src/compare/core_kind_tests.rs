//! Policies for core kinds on simulated machines with the shipped workload `core-kinds`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::StopFlag;
use expect_test::expect;
use program::{Job, Section, Sections, WorkPart};

use super::{
    Column, ComparePlan, RunMetrics, SimBench, SimSetting, SoloTimes, SummaryContext, columns,
    simulate, summarize,
};
use crate::shipped;

fn bench(machine: &str, workload: &str) -> SimBench {
    let mut jobs = shipped::workload(workload).expect("a shipped workload").jobs;
    for job in &mut jobs {
        let name = job.profile.as_deref().expect("each job names its profile");
        job.found = Some(Arc::new(shipped::profile(name).expect("a shipped profile")));
    }
    bench_of(machine, jobs)
}

fn bench_of(machine: &str, jobs: Vec<Job>) -> SimBench {
    let machine = shipped::machine(machine).expect("a shipped machine");
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
fn the_summary_has_one_note_for_each_policy_that_has_nothing_to_decide_on_the_machine() {
    let jobs = shipped::workload("core-kinds").expect("a shipped workload").jobs;
    let names = ["core-kinds", "again"].map(str::to_owned).to_vec();
    let columns = columns(["linux,spread,ib,ib@interleave,auto"]).expect("policies");
    let plan = ComparePlan::new(columns, None, names, vec![1, 2]).expect("a plan");
    let notes = |machine: &str| {
        let done = plan.keys().map(|key| {
            let (column, ..) = plan.indexes(&key);
            let metrics = run(machine, "core-kinds", &plan.columns[column].text, key.seed);
            (key, metrics)
        });
        let about = SummaryContext {
            host: "sim",
            machine: &shipped::machine(machine).expect("a shipped machine"),
            jobs: &[jobs.clone(), jobs.clone()],
            alone: &SoloTimes::new(),
            command: None,
            options: &BTreeMap::new(),
            timelines: &BTreeMap::new(),
            outputs: &BTreeMap::new(),
        };
        let notes = summarize(&plan, &done.collect(), &about).notes.into_iter();
        notes
            .filter(|note| note.contains("makes no request on this machine"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    expect![[r#"
        ib makes no request on this machine: all usable cores are uniform cores, so the policy places no job: it selects between core kinds.
        ib@interleave makes no request on this machine: all usable cores are uniform cores, so the policy places no job: it selects between core kinds.
        auto makes no request on this machine: auto uses policy linux and binds no job: the 4 last-level caches are on one node, and in simulations no policy gained more than 0.4 % in trials on such machines."#]].assert_eq(&notes("xeon-x5365-4x2"));
    expect!["auto makes no request on this machine: auto uses policy linux and binds no job: the usable CPUs have one node and one last-level cache, so there is no second domain to place jobs on."].assert_eq(&notes("opteron-2384-uma"));
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

/// A fork-join program whose first thread does 99 % of the work, on a fast and on a slow core.
#[test]
fn threads_that_wait_for_other_threads_do_not_count_for_the_distance_to_the_assignment_model() {
    let gap = |cpu: &str| {
        let part = |work| WorkPart { work, phase: None };
        let serial = Section::Team { threads: Some(1), part: part(99) };
        let sections = vec![serial, Section::Team { threads: None, part: part(1) }];
        let job = Job {
            threads: 4,
            sections: Some(Sections { rounds: 1, sections }),
            cpus: Some(cpu.parse().expect("a CPU")),
            ..simulate::tests::job(0, "453.povray@0.1")
        };
        let column = Column::parse("linux").expect("a policy");
        let bench = bench_of("opteron-2384-uma", vec![job]);
        let run = bench.run((&column, 0, 1), &StopFlag::default(), None).expect("it runs");
        run.expect("it ends").model_gap.expect("two kinds").share
    };
    let [fast, slow] = ["0", "3"].map(gap);
    assert!(fast < 0.05, "the serial thread is on the best core: {fast}");
    assert!((0.4..0.5).contains(&slow), "1.5 GHz instead of 2.7 GHz: {slow}");
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
