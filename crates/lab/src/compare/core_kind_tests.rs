//! Policies for core kinds on simulated machines: two copies of four programs, eight tasks at once.

use std::sync::Arc;

use base::{JobId, StopFlag};
use program::{Command, Job};

use super::{Column, SimBench, SimSetting};
use crate::shipped;

const PROGRAMS: [&str; 4] = ["416.gamess", "444.namd", "429.mcf", "450.soplex"];

/// Returns the sum of the run times of all jobs under a column, in seconds.
fn time(machine: &str, column: &str, seed: u64) -> f64 {
    let machine = shipped::machine(machine).expect("a shipped machine");
    let job = |(id, program): (usize, &&str)| {
        let profile = shipped::profile(program).expect("a shipped profile");
        let command = Command::Load(vec!["hog".to_owned()]);
        let job = Job::new(JobId(id as u32), format!("{program}-{id}"), command);
        Job { found: Some(Arc::new(profile)), ..job }
    };
    let jobs = PROGRAMS.iter().chain(&PROGRAMS).enumerate().map(job).collect();
    let (options, limits, signals) = Default::default();
    let setting = SimSetting { machine, options, limits, signals };
    let bench = SimBench::without_solo_runs(setting, vec![jobs]).expect("it can be simulated");
    let column = Column::parse(column).expect("a policy");
    let run = bench.run((&column, 0, seed), &StopFlag::default(), None).expect("it runs");
    let metrics = run.expect("not interrupted");
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
