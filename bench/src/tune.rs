//! Duration of a search of 100 settings: 7 training workloads × 5 seeds, and the held-out runs.
//!
//! The target of 120 seconds is checked in release builds with two threads, against CPU time divided by the number of
//! threads, because wall time depends on other load.

use std::time::Instant;

use anyhow::{Context, bail};
use base::StopFlag;
use lab::compare::{SimBench, SimSetting};
use lab::shipped;
use lab::tune::{SearchSpace, TunePlan, tune};

use crate::stats::process_cpu_time;

const MACHINE: &str = "xeon-2x4";
/// Mixes of six programs.
const WORKLOADS: [&str; 7] =
    ["basic01", "basic02", "basic03", "basic04", "basic05", "basic06", "basic07"];
/// Target time for the whole search.
const TARGET_S: f64 = 120.0;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tune this policy
    #[arg(long, default_value = "dio")]
    policy: String,
    /// Set the number of settings
    #[arg(long, default_value_t = 100)]
    trials: usize,
    /// Set the number of training seeds
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Set the number of threads
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// Measures the search and prints the result. Fails if the target is missed.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let begun = Instant::now();
    let (options, limits, signals) = Default::default();
    let machine = shipped::machine(MACHINE)?;
    let jobs = WORKLOADS.map(|name| -> anyhow::Result<_> {
        let mut jobs = shipped::workload(name)?.jobs;
        for job in &mut jobs {
            let profile = job.profile.as_deref().context("a shipped job has a profile")?;
            job.found = Some(shipped::profile(profile)?.into());
        }
        Ok(jobs)
    });
    let jobs = jobs.into_iter().collect::<anyhow::Result<_>>()?;
    let setting = SimSetting { machine, options, limits, signals };
    let bench = SimBench::without_solo_runs(setting, jobs)?;
    let plan = TunePlan {
        space: SearchSpace::new(&args.policy, &[])?,
        workloads: WORKLOADS.map(str::to_owned).to_vec(),
        n_training: WORKLOADS.len(),
        training_seeds: (1..=args.seeds).collect(),
        held_out_seeds: (args.seeds + 1..=args.seeds + 20).collect(),
        n_trials: args.trials,
        search_seed: 1,
    };
    let result = tune(&bench, &plan, args.jobs, &StopFlag::default(), &mut |_| ())?;
    let result = result.context("nothing stops the search")?;
    let used_s = process_cpu_time().as_secs_f64() / args.jobs as f64;
    println!(
        "{}: {} settings × {} workloads × {} seeds, {} runs with the held-out runs, {} threads: {:.1} s wall time, {used_s:.1} s of CPU time for each thread",
        args.policy,
        result.n_trials,
        WORKLOADS.len(),
        args.seeds,
        result.n_runs,
        args.jobs,
        begun.elapsed().as_secs_f64(),
    );
    let is_target = (args.trials, args.seeds, args.jobs) == (100, 5, 2);
    if is_target && !cfg!(debug_assertions) && TARGET_S < used_s {
        bail!("the search takes {used_s:.1} s; the target is {TARGET_S} s");
    }
    Ok(())
}
