//! `evenkeel tune`: search for better parameters of a policy in the simulator.
//!
//! ```text
//!   read and check all inputs ─► lab::tune: search, held-out runs ─► text or JSON, HTML page
//! ```
//!
//! All usage errors are reported before the first run.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use base::{Nanos, StopFlag};
use engine::PageMigrationLimits;
use lab::compare::{Column, SimBench, SimSetting, seeds};
use lab::tune::{SearchSpace, TunePlan, is_held_out, tune};
use program::Workload;
use report::tuning::TuneResult;
use sched::TierOverride;

use crate::command_result::{CommandResult, OrUsageError};
use crate::compare::Progress;
use crate::help::{MEASUREMENT, OUTPUT, POLICY};
use crate::output::{check_writable, write};
use crate::run::{SimArgs, SimSignals, check_declared, check_polls, workload_from_file};
use crate::{input, profiles};
use linux::stop_signals::StopSignals;

/// Search the simulator for better parameters of a policy, with held-out runs
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run these workloads: .toml files, the classic format (one job per line), or shipped workloads such as wl1
    #[arg(required = true, value_name = "WORKLOAD")]
    workloads: Vec<PathBuf>,
    /// Tune this policy; parameters in brackets keep their values: `dfs[domains=llc]`
    #[arg(long, short, value_name = "NAME", help_heading = POLICY)]
    policy: String,
    /// Search only this parameter, optionally in this range; may be repeated [default: all parameters with a range or
    /// a list of values, except reading; ranges that exceed 1: from a tenth of the default to ten times the default]
    #[arg(long = "param", value_name = "NAME[=LOW..HIGH]", help_heading = POLICY)]
    params: Vec<String>,
    /// Search this directory for profiles before all others; may be repeated
    #[arg(long, value_name = "DIR", help_heading = POLICY)]
    profiles: Vec<PathBuf>,
    /// Set the number of simulated settings, including the defaults
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = input::integer::<u32>(2..=100_000), allow_hyphen_values = true, help_heading = MEASUREMENT)]
    trials: u32,
    /// Set the number of seeds of the training runs, or list them: 5, 1-5, 3,7,11
    #[arg(long, value_name = "N|LIST", default_value = "5", allow_hyphen_values = true, help_heading = MEASUREMENT)]
    seeds: String,
    /// Set the number of held-out seeds, which follow the largest training seed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = input::integer::<u32>(1..=1000), allow_hyphen_values = true, help_heading = MEASUREMENT)]
    held_out_seeds: u32,
    /// Hold out this workload from the search; may be repeated; `none`: hold out only seeds [default: every third of
    /// the workloads; of two, the second]
    #[arg(long, value_name = "WORKLOAD", help_heading = MEASUREMENT)]
    held_out: Vec<PathBuf>,
    /// Set the seed of the random numbers of the search
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = input::seed, allow_hyphen_values = true, help_heading = MEASUREMENT)]
    seed: u64,
    /// Stop a run after this time; settings with a stopped run are ranked as slowest
    #[arg(long, value_name = "TIME", value_parser = input::nonzero_time, allow_hyphen_values = true, help_heading = MEASUREMENT)]
    time_limit: Option<Nanos>,
    /// Run this many simulations in parallel; the result does not depend on it [default: one for each CPU]
    #[arg(long, short, value_name = "N", value_parser = input::integer::<u16>(1..=1024), allow_hyphen_values = true, help_heading = MEASUREMENT)]
    jobs: Option<u16>,
    #[command(flatten)]
    sim: SimArgs,
    /// Print no progress
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
    /// Print JSON instead of text (page Report fields of the documentation)
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Also write an HTML page with charts and heat maps of the sensitivity to this file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    html: Option<PathBuf>,
}

/// Searches, and prints the result.
pub fn main(args: &Args) -> CommandResult {
    if let Some(file) = &args.html {
        check_writable(file).or_usage_error()?;
    }
    Column::check_no_variant(&args.policy).or_usage_error()?;
    let space = SearchSpace::new(&args.policy, &args.params).or_usage_error()?;
    let machine = args.sim.machine()?;
    let (workloads, n_training, notes) = workloads(args).or_usage_error()?;
    let all_jobs = workloads.iter().flat_map(|workload| &workload.jobs);
    let space = space.for_jobs(all_jobs).or_usage_error()?;
    let column = Column::parse(&args.policy).or_usage_error()?;
    let policy = policy::build(&column.spec, 0).or_usage_error()?;
    check_polls("the simulator", &*policy, &column.spec).or_usage_error()?;
    if args.sim.readable == SimSignals::None {
        for workload in &workloads {
            check_declared(&column.spec, workload).or_usage_error()?;
        }
    }
    let setting = SimSetting {
        machine,
        options: args.sim.options(0, None, args.time_limit),
        limits: PageMigrationLimits::default(),
        signals: TierOverride::default(),
    };
    let jobs = workloads.iter().map(|workload| workload.jobs.clone()).collect();
    let bench = SimBench::without_solo_runs(setting, jobs).or_usage_error()?;
    bench.check(&column).or_usage_error()?;
    let (training_seeds, held_out_seeds) = all_seeds(args).or_usage_error()?;
    let plan = TunePlan {
        space,
        workloads: workloads.into_iter().map(|workload| workload.name).collect(),
        n_training,
        training_seeds,
        held_out_seeds,
        n_trials: args.trials as usize,
        search_seed: args.seed,
    };
    if !args.quiet {
        notes.iter().for_each(crate::print::note);
    }
    let result = TuneResult { command: crate::repeat::command_line(), ..run(args, &bench, &plan)? };
    let text = match args.json {
        true => result.to_json().context("cannot write JSON")? + "\n",
        false => result.to_text(WIDTH),
    };
    crate::print::stdout().write_all(text.as_bytes())?;
    match &args.html {
        Some(file) => Ok(write(file, result.to_html())?),
        None => Ok(()),
    }
}

/// Width of the text.
const WIDTH: usize = 80;

fn run(args: &Args, bench: &SimBench, plan: &TunePlan) -> anyhow::Result<TuneResult> {
    let stop = StopFlag::default();
    let mut signals = StopSignals::block()?;
    let mut progress = Progress::new(args.quiet, plan.n_runs_max(), 0);
    let mut on_run = |n_done: usize| {
        if signals.received() {
            stop.raise();
        }
        progress.set_finished_runs(n_done);
        progress.show();
    };
    let result = tune(bench, plan, input::n_threads(args.jobs), &stop, &mut on_run);
    progress.finish();
    result?.ok_or_else(|| {
        anyhow!("interrupted before the search and its held-out runs were done; no result")
    })
}

/// Reads the workloads and their profiles, first the training workloads, and returns the number of these.
fn workloads(args: &Args) -> anyhow::Result<(Vec<Workload>, usize, Vec<String>)> {
    let is_none = |path: &&PathBuf| path.as_path() == Path::new("none");
    let holds_out_none = args.held_out.iter().any(|path| is_none(&path));
    if holds_out_none && 1 < args.held_out.len() {
        bail!("--held-out none: omit the other workloads of --held-out");
    }
    let n = args.workloads.len();
    let is_held_out = |(idx, path): (usize, &PathBuf)| match args.held_out.as_slice() {
        [] => is_held_out(idx, n),
        named => named.contains(path),
    };
    let paths = args.workloads.iter().enumerate();
    let (held_out, training): (Vec<_>, Vec<_>) = paths.partition(|it| is_held_out(*it));
    if training.is_empty() {
        bail!("--held-out names all workloads: at least one is needed for the search");
    }
    let added =
        args.held_out.iter().filter(|path| !is_none(path) && !args.workloads.contains(path));
    let held_out: Vec<&PathBuf> = held_out.into_iter().map(|(_, path)| path).chain(added).collect();
    let (mut workloads, mut notes) = (Vec::<Workload>::new(), Vec::new());
    for path in training.iter().map(|(_, path)| *path).chain(held_out) {
        let mut workload = workload_from_file(path)?;
        if workloads.iter().any(|other| other.name == workload.name) {
            bail!(
                "two workloads have the name {:?}: rename one of them with the key `name`",
                workload.name
            );
        }
        notes.extend(profiles::attach(&mut workload, &args.profiles)?);
        workloads.push(workload);
    }
    notes.sort();
    notes.dedup();
    Ok((workloads, training.len(), notes))
}

/// Returns the seeds of the training runs and the held-out seeds.
fn all_seeds(args: &Args) -> anyhow::Result<(Vec<u64>, Vec<u64>)> {
    let training = seeds("--seeds", &args.seeds)?;
    let last = training.iter().max().copied().unwrap_or(0);
    let end = last.checked_add(u64::from(args.held_out_seeds));
    let end =
        end.ok_or_else(|| anyhow!("--seeds {last}: no seeds follow it; use smaller seeds"))?;
    Ok((training, (last + 1..=end).collect()))
}
