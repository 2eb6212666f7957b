//! The policy `auto` against `linux`: simulated servers, and live workloads.
//!
//! ```text
//!   bench auto           seven simulated servers, each policy alone and in the trials of auto
//!   bench auto --live    five workloads on this machine, alternately under linux and auto (A B A B)
//! ```
//!
//! A case of the simulation is a workload on a server. Its ratio is the geometric mean over the run seeds. A case is
//! slower if its ratio is above 1.01.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use lab::servers::{SERVERS, ServerCase, compare};
use lab::stats;

use crate::ab::PairedRuns;
use crate::evenkeel;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run real programs on this machine
    #[arg(long)]
    live: bool,
    /// Set the number of rounds, each under both policies (with --live)
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    rounds: u32,
    /// Use this evenkeel executable (default: a release build; with --live)
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Simulate only these policies
    #[arg(long, value_delimiter = ';', default_values = POLICIES)]
    policies: Vec<String>,
    /// Set the number of workloads for each number of jobs (simulated)
    #[arg(long, default_value_t = 12)]
    workloads: u64,
    /// Set the number of run seeds (simulated)
    #[arg(long, default_value_t = 2)]
    seeds: u64,
}

pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.live { live(args) } else { simulated(&args.policies, (args.workloads, args.seeds)) }
}

/// Policies of the comparison: alone, in trials, and the selection of `auto`.
const POLICIES: [&str; 11] = [
    "dfs",
    "dio",
    "di-migrate",
    "dino",
    "nmass",
    "divided",
    "auto[policy=dfs]",
    "auto[policy=nmass]",
    "auto[policy=dino]",
    "auto[policy=di-migrate]",
    "auto",
];

fn simulated(policies: &[String], runs: (u64, u64)) -> anyhow::Result<()> {
    println!("{} workloads per number of jobs, {} seeds; ratio to linux", runs.0, runs.1);
    println!(
        "| server | policy | ratio, 95 % interval | slower by more than 1 % | largest ratio |"
    );
    println!("| --- | --- | --- | --- | --- |");
    let mut all: Vec<Vec<ServerCase>> = vec![Vec::new(); policies.len()];
    for server in SERVERS {
        for (policy, cases) in policies.iter().zip(&mut all) {
            let found = compare(server, policy, runs)?;
            print_row(server.0, policy, &found);
            cases.extend(found);
        }
    }
    for (policy, cases) in policies.iter().zip(&all) {
        print_row("all", policy, cases);
    }
    Ok(())
}

fn print_row(server: &str, policy: &str, cases: &[ServerCase]) {
    let means: Vec<f64> = cases.iter().map(|case| stats::mean(&case.log_ratios)).collect();
    let mean_of = |at: &[usize]| stats::mean(&at.iter().map(|&i| means[i]).collect::<Vec<_>>());
    let interval = stats::interval(means.len(), mean_of).map_or_else(String::new, |all| {
        format!(" ({:.4} to {:.4})", all.low.exp(), all.high.exp())
    });
    let n_harmed = cases.iter().filter(|case| 1.01 < case.ratio()).count();
    let largest = cases.iter().map(ServerCase::ratio).fold(0.0, f64::max);
    println!(
        "| {server} | {policy} | {:.4}{interval} | {n_harmed} of {} | {largest:.3} |",
        stats::mean(&means).exp(),
        cases.len()
    );
}

/// Name and number of jobs per CPU (`None`: one job), and the class of the jobs.
const WORKLOADS: [(&str, Option<usize>, Option<u8>); 5] = [
    ("one job", None, None),
    ("as many jobs as CPUs, without classes", Some(1), None),
    ("as many jobs as CPUs, with classes", Some(1), Some(8)),
    ("twice as many jobs as CPUs, without classes", Some(2), None),
    ("twice as many jobs as CPUs, with classes", Some(2), Some(8)),
];

fn live(args: &Args) -> anyhow::Result<()> {
    let rounds = args.rounds;
    let tool = evenkeel::executable_or_build(args.tool.as_deref())?;
    let dir = tempfile::tempdir()?;
    let n_cpus = std::thread::available_parallelism()?.get();
    println!("{rounds} rounds; time of the run under auto / time under linux");
    println!("| workload | linux, s | auto, s | ratio, 95 % interval |\n| --- | --- | --- | --- |");
    let mut slower = Vec::new();
    for (name, per_cpu, class) in WORKLOADS {
        let file = dir.path().join("workload.toml");
        let n_jobs = per_cpu.map_or(1, |n| n * n_cpus);
        let class = class.map_or_else(String::new, |class| format!("class = {class}\n"));
        let text = format!(
            "[[job]]\nname = \"columns\"\nload = \"columns --cpu 1s --no-self-check\"\ncopies = {n_jobs}\n{class}"
        );
        std::fs::write(&file, text)?;
        let mut pairs = PairedRuns::default();
        for round in 0..rounds {
            let run = |policy: &str| {
                run_s(&tool, &file, policy, &dir.path().join(format!("{policy}-{round}")))
            };
            pairs.push(run("linux")?, run("auto")?);
        }
        println!("| {name} | {:.3} | {:.3} | {pairs} |", pairs.a(), pairs.b());
        slower.extend(pairs.interval().filter(|ratio| 1.0 < ratio.low).map(|_| name));
    }
    ensure!(slower.is_empty(), "auto is slower than linux: {}", slower.join("; "));
    Ok(())
}

/// Runs the workload and returns its wall time in seconds.
fn run_s(tool: &Path, file: &Path, policy: &str, out: &Path) -> anyhow::Result<f64> {
    let _ = std::fs::remove_dir_all(out);
    let begun = Instant::now();
    let status = Command::new(tool)
        .arg("run")
        .arg(file)
        .args(["--quiet", "--policy", policy, "--out"])
        .arg(out)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot start evenkeel")?;
    ensure!(status.success(), "the run under {policy} failed: {status}");
    Ok(begun.elapsed().as_secs_f64())
}
