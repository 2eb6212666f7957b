//! Policies for core kinds on simulated machines with the shipped workload `core-kinds`.

use std::sync::Arc;

use base::StopFlag;

use super::{Column, SimBench, SimSetting};
use crate::shipped;

/// Returns the sum of the run times of all jobs under a column, in seconds.
fn time(machine: &str, column: &str, seed: u64) -> f64 {
    let machine = shipped::machine(machine).expect("a shipped machine");
    let mut jobs = shipped::workload("core-kinds").expect("a shipped workload").jobs;
    for job in &mut jobs {
        let name = job.profile.as_deref().expect("each job names its profile");
        job.found = Some(Arc::new(shipped::profile(name).expect("a shipped profile")));
    }
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
