//! `evenkeel reproduce`: what papers published, beside what comes out on their machines as simulated here.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use base::StopFlag;
use lab::compare::seeds;
use lab::reproduce::{Experiment, Rig, STUDIES, Study, html, list, text};

use crate::command_result::{CommandResult, OrUsageError};
use crate::input;
use linux::stop_signals::StopSignals;

/// Which paper, and how thoroughly.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The study: dfs, divided or contention
    study: String,
    /// Only these experiments, between commas; --list tells them
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,
    /// Tell which experiments there are (of those named by --only, if any), and run none
    #[arg(long)]
    list: bool,
    /// How many seeds, or which: 20, 1-20, 3,7,11
    #[arg(long, value_name = "N|LIST", default_value = "20", allow_hyphen_values = true)]
    seeds: String,
    /// How often experiments draw from the ranges of uncertain profiles
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = input::whole::<u64>(1..=100_000), allow_hyphen_values = true)]
    draws: u64,
    /// Runs at a time [default: one for each CPU]
    #[arg(long, short, value_name = "N", value_parser = input::whole::<u16>(1..=1024), allow_hyphen_values = true)]
    jobs: Option<u16>,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
    /// Print JSON instead of text: every figure as a number with its unit (docs/report-fields.md)
    #[arg(long)]
    json: bool,
    /// Write a page with drawings here, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Reproduces.
pub fn main(args: &Args) -> CommandResult {
    let known = || STUDIES.iter().map(|study| study.name).collect::<Vec<_>>().join(", ");
    let study = Study::find(&args.study)
        .ok_or_else(|| {
            anyhow!(
                "there is nothing to reproduce called {:?}: write one of {}",
                args.study,
                known()
            )
        })
        .or_usage_error()?;
    let wanted = wanted(study, &args.only).or_usage_error()?;
    let seeds = seeds(&args.seeds).or_usage_error()?;
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let n_threads = args.jobs.map_or_else(all, usize::from);
    if args.list {
        check_list(args).or_usage_error()?;
        std::io::stdout().write_all(list(study, &wanted).as_bytes())?;
        return Ok(());
    }
    if let Some(file) = &args.html {
        // Hours later would be late to find out; what is there already stays until there is something new.
        let can = std::fs::OpenOptions::new().create(true).append(true).open(file);
        can.with_context(|| format!("cannot write {}", file.display())).or_usage_error()?;
    }
    let stop = StopFlag::default();
    let signals = std::cell::RefCell::new(StopSignals::block()?);
    let shows = !args.quiet && std::io::stderr().is_terminal();
    let look = |done: usize, all: usize| {
        if signals.borrow_mut().received() {
            stop.raise();
        }
        if shows {
            eprint!("\r\x1b[2K{done} of {all} runs of this batch");
        }
    };
    let rig = Rig::new(seeds, args.draws, n_threads, &stop, &look);
    let account = study.run(&wanted, &rig, |experiment| {
        if !args.quiet {
            eprintln!(
                "{}evenkeel: {}: {}",
                if shows { "\r\x1b[2K" } else { "" },
                experiment.name,
                experiment.title
            );
        }
    })?;
    if shows {
        eprint!("\r\x1b[2K");
    }
    let out = match args.json {
        true => account.told().to_json().context("cannot write JSON")? + "\n",
        false => text(&account),
    };
    std::io::stdout().write_all(out.as_bytes())?;
    if let Some(file) = &args.html {
        std::fs::write(file, html(&account))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    match account.left_out.as_slice() {
        [] => Ok(()),
        left => Err(anyhow!(
            "stopped before all was done: for what is left write --only {}",
            left.join(",")
        )
        .into()),
    }
}

/// The experiments asked for, in the study's order.
fn wanted<'a>(study: &'a Study, only: &[String]) -> anyhow::Result<Vec<&'a Experiment>> {
    let names = || study.experiments.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    if let Some(wrong) =
        only.iter().find(|name| study.experiments.iter().all(|one| one.name != **name))
    {
        return Err(anyhow!(
            "{} has no experiment {wrong:?}: write some of {}",
            study.name,
            names()
        ));
    }
    let is_wanted =
        |one: &&Experiment| only.is_empty() || only.iter().any(|name| *name == one.name);
    Ok(study.experiments.iter().filter(is_wanted).collect())
}

/// A list runs nothing: there is nothing to write of it but its lines.
fn check_list(args: &Args) -> anyhow::Result<()> {
    let unheard = [("--json", args.json), ("--html", args.html.is_some())];
    match unheard.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            Err(anyhow!("{option} is for what was run, and --list runs nothing: leave one out"))
        }
        None => Ok(()),
    }
}
