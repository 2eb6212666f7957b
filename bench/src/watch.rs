//! CPU time and system calls per sample, and memory, of `evenkeel watch --all` with many sleeping and busy processes.
//!
//! CPU time is the kernel's accounting over windows after the warm-up. System calls are counted in a separate run,
//! because strace slows down the run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::evenkeel;
use crate::processes::{ProcessSet, Watcher};
use crate::stats::MedianRange;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the numbers of sleeping processes
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 5000])]
    sleepers: Vec<u32>,
    /// Set the numbers of busy processes
    #[arg(long, value_delimiter = ',', default_values_t = [0, 2, 8])]
    busy: Vec<u32>,
    /// Set the sampling interval in seconds
    #[arg(long, default_value_t = 5)]
    interval: u64,
    /// Set the number of windows per row, of two intervals each
    #[arg(long, default_value_t = 6)]
    windows: u32,
    /// Set the warm-up in seconds; after the warm-up, sleeping processes are sampled at the longest interval
    #[arg(long, default_value_t = 70)]
    warm_up: u64,
    /// Use this evenkeel executable (default: a release build)
    #[arg(long)]
    tool: Option<PathBuf>,
}

pub fn main(args: &Args) -> anyhow::Result<()> {
    let tool = evenkeel::executable_or_build(args.tool.as_deref())?;
    println!(
        "evenkeel watch --all, one sample per {} s: median (lowest to highest) of",
        args.interval
    );
    println!("{} windows of two samples", args.windows);
    println!(
        "{:>9} {:>5} {:>26} {:>12} {:>10}",
        "sleeping", "busy", "CPU ms per sample", "calls/sample", "peak MiB"
    );
    for &n_busy in &args.busy {
        for &n_sleepers in &args.sleepers {
            let _watched = ProcessSet::start(n_sleepers, n_busy)?;
            let (cpu, peak_kib) = cost(&tool, args)?;
            let calls = calls(&tool, args)?.map_or("-".to_owned(), |calls| format!("{calls:.0}"));
            let peak = format!("{:.1}", peak_kib as f64 / 1024.0);
            let cpu = format!("{cpu:.2}");
            println!("{n_sleepers:>9} {n_busy:>5} {cpu:>26} {calls:>12} {peak:>10}");
        }
    }
    Ok(())
}

/// Returns the CPU time per sample in ms, and the peak memory.
fn cost(tool: &Path, args: &Args) -> anyhow::Result<(MedianRange, u64)> {
    let mut command = Command::new(tool);
    command.args(arguments(args, None));
    let mut watch = Watcher::start(command)?;
    let pid = watch.pid;
    std::thread::sleep(Duration::from_secs(args.warm_up));
    let mut costs = Vec::new();
    for _ in 0..args.windows.max(1) {
        let window = Duration::from_secs(2 * args.interval);
        costs.push(evenkeel::cpu_during(window, || evenkeel::cpu_ns(pid))?.ns as f64 / 2e6);
    }
    let peak_kib = evenkeel::peak_resident_kib(pid)?;
    watch.end()?;
    Ok((MedianRange::of(costs), peak_kib))
}

/// Returns the system calls per sample: the difference of a longer and a shorter run, divided by the samples. `None`
/// without `strace`.
fn calls(tool: &Path, args: &Args) -> anyhow::Result<Option<f64>> {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return Ok(None);
    }
    const N_SAMPLES: u64 = 4;
    let (short, long) = (args.warm_up.max(1), args.warm_up + N_SAMPLES * args.interval);
    let before = traced(tool, args, short)?;
    let after = traced(tool, args, long)?;
    Ok(Some(after.saturating_sub(before) as f64 / N_SAMPLES as f64))
}

/// Counts the system calls of a run of this length.
fn traced(tool: &Path, args: &Args, seconds: u64) -> anyhow::Result<u64> {
    let output = Command::new("strace")
        .args(["-f", "-c", "-U", "calls"])
        .arg(tool)
        .args(arguments(args, Some(seconds)))
        .stdin(Stdio::null())
        .output()
        .context("cannot run strace")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let mut numbers = text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    numbers.next_back().context("strace printed no total")
}

fn arguments(args: &Args, seconds: Option<u64>) -> Vec<String> {
    let policy = format!("dfs[interval={}s]", args.interval);
    let mut words = ["watch", "--all", "--quiet", "--policy", &policy].map(str::to_owned).to_vec();
    words.extend(seconds.into_iter().flat_map(|n| ["--for".to_owned(), format!("{n}s")]));
    words
}
