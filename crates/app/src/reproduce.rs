//! `evenkeel reproduce`: published results beside the results of the simulator.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use base::StopFlag;
use base::suggest::did_you_mean;
use lab::compare::seeds;
use lab::reproduce::{Experiment, RunPool, STUDIES, Study, list, text};

use crate::command_result::{CommandResult, OrUsageError};
use crate::input;
use crate::output::{check_writable, write};
use crate::print::{note, terminal};
use crate::view::Mode;
use linux::stop_signals::StopSignals;

/// Compare published results with simulated ones, with a verdict for each claim
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run this study: dfs, divided, contention, ib or execution-models
    study: String,
    /// Run only these experiments, separated by commas; --list prints their names
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Print the names of the experiments, or of those in --only, without running them
    #[arg(long)]
    list: bool,
    /// Set the number of seeds, or list them: 20, 1-20, 3,7,11
    #[arg(long, value_name = "N|LIST", default_value = "20", allow_hyphen_values = true)]
    seeds: String,
    /// Set the number of draws from the ranges of uncertain profiles
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = input::integer::<u64>(1..=100_000), allow_hyphen_values = true)]
    draws: u64,
    /// Set the number of parallel runs [default: one for each CPU]
    #[arg(long, short, value_name = "N", value_parser = input::integer::<u16>(1..=1024), allow_hyphen_values = true)]
    jobs: Option<u16>,
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON instead of text: every value with its unit (page Report fields of the documentation)
    #[arg(long)]
    json: bool,
    /// Also write an HTML page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the experiments and prints the result.
pub fn main(args: &Args) -> CommandResult {
    let study = study(&args.study).or_usage_error()?;
    let selected = selected(study, &args.only).or_usage_error()?;
    let seeds = seeds("--seeds", &args.seeds).or_usage_error()?;
    if args.list {
        check_list(args).or_usage_error()?;
        crate::print::stdout().write_all(list(study, &selected).as_bytes())?;
        return Ok(());
    }
    if let Some(file) = &args.html {
        // The file is checked before the runs, which may take hours. An existing page is not replaced until the new
        // page is complete.
        check_writable(file).or_usage_error()?;
    }
    let stop = StopFlag::default();
    let signals = std::cell::RefCell::new(StopSignals::block()?);
    let is_redrawn = Mode::fitting(args.quiet) == Mode::Live;
    let clear = if is_redrawn { "\r\x1b[2K" } else { "" };
    let on_progress = |done: usize, all: usize| {
        if signals.borrow_mut().received() {
            stop.raise();
        }
        if is_redrawn {
            let _ = write!(terminal(), "{clear}{done} of {all} runs of this batch");
        }
    };
    let pool = RunPool::new(seeds, args.draws, input::n_threads(args.jobs), &stop, &on_progress);
    let mut n_started = 0;
    let run = study.run(&selected, &pool, |experiment| {
        n_started += 1;
        if !args.quiet {
            let _ = terminal().write_all(clear.as_bytes());
            let (name, title, n) = (experiment.name(), experiment.title(), selected.len());
            note(format_args!("experiment {n_started} of {n}, {name}: {title}"));
        }
    })?;
    let _ = terminal().write_all(clear.as_bytes());
    let out = match args.json {
        true => run.result.to_json().context("cannot write JSON")? + "\n",
        false => text(&run),
    };
    crate::print::stdout().write_all(out.as_bytes())?;
    if let Some(file) = &args.html {
        write(file, run.result.to_html(&run.charts))?;
    }
    match run.result.not_run.as_slice() {
        [] => Ok(()),
        left => Err(anyhow!(
            "stopped before all experiments were done: run the others with --only {}",
            left.join(",")
        )
        .into()),
    }
}

fn study(name: &str) -> anyhow::Result<&'static Study> {
    Study::find(name).ok_or_else(|| {
        let names: Vec<&str> = STUDIES.iter().map(Study::name).collect();
        anyhow!("there is no study {name:?}: {}", did_you_mean(name, names))
    })
}

fn selected<'a>(study: &'a Study, only: &[String]) -> anyhow::Result<Vec<&'a Experiment>> {
    let all = study.experiments();
    if let Some(unknown) =
        only.iter().find(|name| all.iter().all(|experiment| experiment.name() != **name))
    {
        let names: Vec<&str> = all.iter().map(Experiment::name).collect();
        return Err(anyhow!(
            "{} has no experiment {unknown:?}: {}",
            study.name(),
            did_you_mean(unknown, names)
        ));
    }
    let is_selected =
        |one: &&Experiment| only.is_empty() || only.iter().any(|name| *name == one.name());
    Ok(all.iter().filter(is_selected).collect())
}

/// Rejects options that have no effect with --list.
fn check_list(args: &Args) -> anyhow::Result<()> {
    let output_options = [("--json", args.json), ("--html", args.html.is_some())];
    match output_options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            Err(anyhow!("{option} prints results, and --list runs no experiment: omit one of them"))
        }
        None => Ok(()),
    }
}
