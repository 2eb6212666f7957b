//! CPU time, system calls and memory of watch and of Debian's `numad`, in a guest with two nodes: numad scans only on
//! machines with several nodes.
//!
//! ```text
//!   for each point (n sleeping, n large and busy), alternately:
//!     evenkeel watch  ·  evenkeel watch --act (if any is busy)  ·  numad
//!     each: start ── warm-up ── window: CPU time ── window: system calls ── end
//! ```
//!
//! CPU time is the kernel's accounting, in milliseconds per sample (numad: per scan). A window has six samples at
//! intervals of 5 s, so that watch samples each sleeping process once per window (at least every 30 s). numad runs
//! last, because the processes remain bound after numad has ended. The guest is emulated, so only ratios are
//! meaningful.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::ab::PairedRuns;
use crate::evenkeel;
use crate::guest::{self, NumaGuest};
use crate::processes::{self, Mechanism, ProcessSet, Watcher};
use crate::stats::MedianRange;

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Set the numbers of sleeping processes
    #[arg(long, value_delimiter = ',', default_values_t = [100, 5000])]
    sleepers: Vec<u32>,
    /// Set the numbers of large busy processes
    #[arg(long, value_delimiter = ',', default_values_t = [0, 8])]
    busy: Vec<u32>,
    /// Measure all combinations of 100, 1000, 5000 sleeping and 0, 2, 8 busy processes (default: only points
    /// with the smallest number of either)
    #[arg(long)]
    full: bool,
    /// Set the scan interval in seconds
    #[arg(long, default_value_t = 5)]
    interval: u64,
    /// Set the number of scans per window
    #[arg(long, default_value_t = 6)]
    scans: u64,
    /// Set the number of rounds per point
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Set the memory of each busy process in MiB; numad ignores processes below 300 MiB
    #[arg(long, default_value_t = 350)]
    size_mib: u64,
    /// Use this evenkeel executable (default: a release build)
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Set in the guest
    #[arg(long, hide = true)]
    inside: bool,
}

const MECHANISMS: [Mechanism; 3] = [Mechanism::Watch, Mechanism::WatchAct, Mechanism::Numad];

/// Boots the guest. In the guest, measures every point and prints the results.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let mut args = args.clone();
    if args.full {
        (args.sleepers, args.busy) = (vec![100, 1000, 5000], vec![0, 2, 8]);
    }
    if args.inside {
        return measure(&args);
    }
    guest::need("numad", "numad")?;
    let tool = evenkeel::executable_or_build(args.tool.as_deref())?;
    let n_runs = 3 * points(&args).len() as u64 * u64::from(args.rounds.max(1));
    // The limit is twice the expected time, as a reserve for other load on the host.
    let each_s = 2 * (2 * args.scans * args.interval + warm_up_s(Mechanism::Watch, &args));
    let limit = Duration::from_secs(n_runs * each_s + 300);
    NumaGuest { n_nodes: 2, n_cpus: 4, n_threads: 1, memory: "6G", limit, kernel: "" }
        .run(&tool, None)
}

/// Returns the numbers of sleeping and busy processes of each point.
fn points(args: &Args) -> Vec<(u32, u32)> {
    let all = args.busy.iter().flat_map(|&busy| args.sleepers.iter().map(move |&n| (n, busy)));
    let on_edge = |&(n_sleepers, n_busy): &(u32, u32)| {
        args.sleepers.first() == Some(&n_sleepers) || args.busy.first() == Some(&n_busy)
    };
    all.filter(|point| args.full || on_edge(point)).collect()
}

#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct ScanCost {
    cpu_ms: f64,
    n_calls: Option<f64>,
    peak_kib: u64,
}

struct ScanPoint {
    n_sleepers: u32,
    n_busy: u32,
    /// Median CPU time per scan, in the order of [`MECHANISMS`]. `None` if not measured.
    cpu_ms: [Option<f64>; 3],
}

fn measure(args: &Args) -> anyhow::Result<()> {
    println!("one scan per {} s, windows of {} scans, median", args.interval, args.scans);
    println!("(lowest to highest) of {} rounds, alternating", args.rounds.max(1));
    println!(
        "{:>8} {:>4} {:<11} {:>26} {:>8} {:>9} {:>8}",
        "sleeping", "busy", "program", "CPU ms per scan", "/ numad", "calls", "peak MiB"
    );
    let points = points(args).into_iter().map(|point| measure_point(args, point));
    let points = points.collect::<anyhow::Result<Vec<_>>>()?;
    let is_met = |point: &&ScanPoint| {
        let [watch, act, numad] = point.cpu_ms.map(|ms| ms.unwrap_or(0.0));
        watch.max(act) <= numad / 2.0
    };
    println!(
        "target (median CPU time at most half of numad's): met at {} of {} points",
        points.iter().filter(is_met).count(),
        points.len()
    );
    if args.rounds < 2 {
        println!("one round does not show the noise; use --rounds 3");
    }
    println!("growth of a scan per additional process; target for watch: ratio at most 0.1");
    for (idx, mechanism) in MECHANISMS.into_iter().enumerate() {
        print_growth(&points, idx, mechanism);
    }
    println!("moves by numad: {}", processes::numad_moves());
    Ok(())
}

fn measure_point(args: &Args, (n_sleepers, n_busy): (u32, u32)) -> anyhow::Result<ScanPoint> {
    let tool = args.tool.as_deref().context("--inside needs --tool")?;
    let mut costs: [Vec<ScanCost>; 3] = Default::default();
    for round in 0..args.rounds.max(1) {
        let mut watched = None;
        for (mechanism, costs) in MECHANISMS.into_iter().zip(&mut costs) {
            // Without busy processes `--act` has no effect.
            if mechanism == Mechanism::WatchAct && n_busy == 0 {
                continue;
            }
            let name = format!("numad-{n_sleepers}-{n_busy}-{round}-{}", mechanism.name());
            costs.push(guest::stored(&name, || {
                if watched.is_none() {
                    let set = ProcessSet::start_hogs(n_sleepers, n_busy, tool, args.size_mib)?;
                    watched = Some(set);
                }
                cost(mechanism, tool, args)
            })?);
        }
    }
    let mut cpu_ms = [None; 3];
    for (idx, mechanism) in
        MECHANISMS.into_iter().enumerate().filter(|(i, _)| !costs[*i].is_empty())
    {
        cpu_ms[idx] = Some(print_row((n_sleepers, n_busy), mechanism, &costs[idx], &costs[2]));
    }
    Ok(ScanPoint { n_sleepers, n_busy, cpu_ms })
}

/// Prints a row. Returns the median CPU time per scan.
fn print_row(
    (n_sleepers, n_busy): (u32, u32),
    mechanism: Mechanism,
    costs: &[ScanCost],
    numad: &[ScanCost],
) -> f64 {
    let mut pairs = PairedRuns::default();
    costs.iter().zip(numad).for_each(|(cost, numad)| pairs.push(numad.cpu_ms, cost.cpu_ms));
    let calls: Vec<f64> = costs.iter().filter_map(|cost| cost.n_calls).collect();
    let calls = match calls.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.0}", MedianRange::of(calls).median),
    };
    let peak_kib = costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0);
    println!(
        "{n_sleepers:>8} {n_busy:>4} {:<11} {:>26} {:>8.2} {calls:>9} {:>8.1}",
        mechanism.name(),
        format!("{:.2}", pairs.b()),
        MedianRange::of(pairs.ratios()).median,
        peak_kib as f64 / 1024.0
    );
    pairs.b().median
}

/// Prints the cost of a scan per additional sleeping and per additional busy process.
fn print_growth(points: &[ScanPoint], idx: usize, mechanism: Mechanism) {
    let growth = || {
        let first = points.first()?;
        let sleeping = points.iter().rfind(|point| point.n_busy == first.n_busy)?;
        let busy = points.iter().rfind(|point| point.n_sleepers == first.n_sleepers)?;
        let us_each = |point: &ScanPoint, n_more: u32| {
            let us = 1e3 * (point.cpu_ms[idx]? - first.cpu_ms[idx]?);
            (n_more != 0).then(|| us / f64::from(n_more))
        };
        let sleeping = us_each(sleeping, sleeping.n_sleepers.saturating_sub(first.n_sleepers))?;
        Some((sleeping, us_each(busy, busy.n_busy.saturating_sub(first.n_busy))?))
    };
    let Some((sleeping, busy)) = growth() else { return };
    let ratio = match 0.0 < sleeping && 0.0 < busy {
        true => format!("ratio {:.4}", sleeping / busy),
        false => "no ratio, below the noise".to_owned(),
    };
    println!(
        "{:<11} {sleeping:.2} us per additional sleeping process and scan, {busy:.0} us per busy one: {ratio}",
        mechanism.name()
    );
}

/// Measures the cost of a sample after the warm-up.
fn cost(mechanism: Mechanism, tool: &Path, args: &Args) -> anyhow::Result<ScanCost> {
    let policy = format!("dfs[interval={}s]", args.interval);
    let command = mechanism.command(tool, args.interval, &["--policy", &policy]);
    let mut run = Watcher::start(command.context("a program")?)?;
    std::thread::sleep(Duration::from_secs(warm_up_s(mechanism, args)));
    let window = Duration::from_secs(args.scans * args.interval);
    let used = evenkeel::cpu_during(window, || evenkeel::cpu_ns(run.pid))?;
    let n_counted = if mechanism == Mechanism::Numad { 2 } else { args.scans };
    let n_calls = match mechanism {
        Mechanism::WatchAct => None,
        _ => guest::calls_during(run.pid, Duration::from_secs(n_counted * args.interval))?,
    };
    let peak_kib = evenkeel::peak_resident_kib(run.pid)?;
    run.end()?;
    let n_calls = n_calls.map(|n| n as f64 / n_counted as f64);
    Ok(ScanCost { cpu_ms: used.ns as f64 / 1e6 / args.scans as f64, n_calls, peak_kib })
}

/// Returns the warm-up time. After the warm-up, watch samples a sleeping process every 30 s; before, after 1, 2, 4 …
/// intervals. All scans of numad have the same cost.
fn warm_up_s(mechanism: Mechanism, args: &Args) -> u64 {
    if mechanism == Mechanism::Numad { 2 * args.interval } else { 36.max(2 * args.interval) }
}
