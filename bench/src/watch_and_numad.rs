//! CPU time, system calls and memory of watch and of Debian's `numad`, in a guest with two nodes, because numad scans
//! only on machines with more than one.
//!
//! ```text
//!   for each point (n sleeping, n large and busy), alternately:
//!     evenkeel watch  ·  evenkeel watch --act (if any is busy)  ·  numad
//!     each: start ── warm-up ── window: CPU time ── window: system calls ── end
//! ```
//!
//! CPU time is the kernel's accounting, in milliseconds per scan. A window has six scans at 5 s, so that watch samples
//! each sleeping process once in it (at least every 30 s). numad comes last, because it leaves processes
//! bound. The guest is emulated: only ratios are meaningful, not milliseconds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::evenkeel;
use crate::guest::{self, NumaGuest};
use crate::processes::{self, BusyProgram, ProcessSet, Watcher};
use crate::stats::MedianRange;

/// Options of `bench numad`.
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
    size_mib: u32,
    /// Use this evenkeel executable (default: a release build)
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Set in the guest
    #[arg(long, hide = true)]
    inside: bool,
}

/// Boots the guest; there, measures every point and prints it.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let mut args = args.clone();
    if args.full {
        (args.sleepers, args.busy) = (vec![100, 1000, 5000], vec![0, 2, 8]);
    }
    if args.inside { measure(&args) } else { boot(&args) }
}

fn boot(args: &Args) -> anyhow::Result<()> {
    guest::need("numad", "numad")?;
    let tool = evenkeel::given_or_built(args.tool.as_deref())?;
    let n_runs = 3 * points(args).len() as u64 * u64::from(args.rounds.max(1));
    // Twice the time, for a host with other load.
    let seconds =
        n_runs * 2 * (2 * args.scans * args.interval + warm_up_s(Watching::Watch, args)) + 300;
    let guest = NumaGuest {
        n_nodes: 2,
        n_cpus: 4,
        memory: "6G",
        limit: Duration::from_secs(seconds),
        kernel: "",
    };
    guest.run(&tool, None)
}

/// Numbers of sleeping and busy processes of each point.
fn points(args: &Args) -> Vec<(u32, u32)> {
    let all = args.busy.iter().flat_map(|&busy| args.sleepers.iter().map(move |&n| (n, busy)));
    let on_edge = |&(n_sleepers, n_busy): &(u32, u32)| {
        args.sleepers.first() == Some(&n_sleepers) || args.busy.first() == Some(&n_busy)
    };
    all.filter(|point| args.full || on_edge(point)).collect()
}

/// The watching process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watching {
    Watch,
    Act,
    Numad,
}

const ALL: [Watching; 3] = [Watching::Watch, Watching::Act, Watching::Numad];

/// Cost of a scan.
#[derive(Clone, Copy, Debug)]
struct ScanCost {
    cpu_ms: f64,
    calls: Option<f64>,
    peak_kib: u64,
}

/// Median CPU time per scan at one point, in the order of [`ALL`].
struct ScanPoint {
    n_sleepers: u32,
    n_busy: u32,
    /// `None` if not measured.
    cpu_ms: [Option<f64>; 3],
}

fn measure(args: &Args) -> anyhow::Result<()> {
    println!("one scan per {} s, windows of {} scans, median", args.interval, args.scans);
    println!("(lowest to highest) of {} rounds, alternating", args.rounds.max(1));
    println!(
        "{:>8} {:>4} {:<9} {:>26} {:>8} {:>9} {:>8}",
        "sleeping", "busy", "program", "CPU ms per scan", "/ numad", "calls", "peak MiB"
    );
    let points = points(args)
        .into_iter()
        .map(|(n_sleepers, n_busy)| point(args, n_sleepers, n_busy))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let n_met = points.iter().filter(|point| is_half(point)).count();
    println!(
        "target (median CPU time at most half of numad's): met at {n_met} of {} points",
        points.len()
    );
    if args.rounds < 2 {
        println!("one round does not show the noise; use --rounds 3");
    }
    println!("growth of a scan per additional process; target for watch: ratio at most 0.1");
    for watching in ALL {
        growth(&points, watching);
    }
    println!("moves by numad: {}", processes::numad_moves());
    Ok(())
}

/// Whether watch needs at most half of numad's CPU time.
fn is_half(point: &ScanPoint) -> bool {
    let [watch, act, numad] = point.cpu_ms.map(|ms| ms.unwrap_or(0.0));
    watch.max(act) <= numad / 2.0
}

fn point(args: &Args, n_sleepers: u32, n_busy: u32) -> anyhow::Result<ScanPoint> {
    let tool = args.tool.clone().context("--inside needs --tool")?;
    let busy = BusyProgram::Hog { evenkeel: tool.clone(), size_mib: args.size_mib };
    let mut costs: [Vec<ScanCost>; 3] = Default::default();
    for _ in 0..args.rounds.max(1) {
        let watched = ProcessSet::start(n_sleepers, n_busy, &busy)?;
        for (watching, costs) in ALL.into_iter().zip(&mut costs) {
            // Without busy processes `--act` has no effect.
            if watching != Watching::Act || 0 < n_busy {
                costs.push(cost(watching, &tool, args)?);
            }
        }
        drop(watched);
    }
    let cpu = costs.each_ref().map(|costs| {
        let values = costs.iter().map(|cost| cost.cpu_ms).collect::<Vec<_>>();
        (!values.is_empty()).then(|| MedianRange::of(values))
    });
    let numad_ms = cpu[2].map_or(f64::NAN, |spread| spread.median);
    for ((watching, costs), spread) in ALL.into_iter().zip(&costs).zip(&cpu) {
        if let Some(spread) = spread {
            row((n_sleepers, n_busy), watching, costs, (spread, numad_ms));
        }
    }
    Ok(ScanPoint { n_sleepers, n_busy, cpu_ms: cpu.map(|spread| Some(spread?.median)) })
}

fn row(
    point: (u32, u32),
    watching: Watching,
    costs: &[ScanCost],
    (cpu, numad_ms): (&MedianRange, f64),
) {
    let calls = costs.iter().filter_map(|cost| cost.calls).collect::<Vec<_>>();
    let calls = match calls.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.0}", MedianRange::of(calls).median),
    };
    let peak_kib = costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0);
    println!(
        "{:>8} {:>4} {:<9} {:>26} {:>8.2} {calls:>9} {:>8.1}",
        point.0,
        point.1,
        watching.name(),
        format!("{cpu:.2}"),
        cpu.median / numad_ms,
        peak_kib as f64 / 1024.0
    );
}

/// Prints the cost of a scan per additional sleeping and per additional busy process.
fn growth(points: &[ScanPoint], watching: Watching) {
    let cost = |point: &ScanPoint| point.cpu_ms[watching as usize];
    let Some(first) = points.first() else { return };
    let asleep = points.iter().rfind(|point| point.n_busy == first.n_busy);
    let running = points.iter().rfind(|point| point.n_sleepers == first.n_sleepers);
    let (Some(asleep), Some(running)) = (asleep, running) else { return };
    let n_asleep = asleep.n_sleepers.saturating_sub(first.n_sleepers);
    let n_running = running.n_busy.saturating_sub(first.n_busy);
    if n_asleep == 0 || n_running == 0 {
        return;
    }
    let (Some(base), Some(asleep), Some(running)) = (cost(first), cost(asleep), cost(running))
    else {
        return;
    };
    let asleep = 1e3 * (asleep - base) / f64::from(n_asleep);
    let running = 1e3 * (running - base) / f64::from(n_running);
    // A cost that does not grow is below the noise.
    let ratio = match 0.0 < asleep && 0.0 < running {
        true => format!("ratio {:.4}", asleep / running),
        false => "no ratio, below the noise".to_owned(),
    };
    println!(
        "{:<9} {asleep:.2} us per additional sleeping process and scan, {running:.0} us per busy one: {ratio}",
        watching.name()
    );
}

/// Cost of a scan after the warm-up.
fn cost(watching: Watching, tool: &Path, args: &Args) -> anyhow::Result<ScanCost> {
    let mut run = Watcher::start(watching.command(tool, args))?;
    std::thread::sleep(Duration::from_secs(warm_up_s(watching, args)));
    let window = Duration::from_secs(args.scans * args.interval);
    let before = evenkeel::cpu_ns(run.pid)?;
    std::thread::sleep(window);
    let used = evenkeel::cpu_ns(run.pid)?.saturating_sub(before);
    let scans_counted = if watching == Watching::Numad { 2 } else { args.scans };
    let calls = match watching {
        Watching::Act => None,
        _ => guest::calls_during(run.pid, Duration::from_secs(scans_counted * args.interval))?,
    };
    let peak_kib = evenkeel::peak_resident_kib(run.pid)?;
    run.end()?;
    let calls = calls.map(|calls| calls as f64 / scans_counted as f64);
    Ok(ScanCost { cpu_ms: used as f64 / 1e6 / args.scans as f64, calls, peak_kib })
}

/// watch then samples a sleeping process every 30 s, after 1, 2, 4 … intervals before. All scans of numad cost the
/// same.
fn warm_up_s(watching: Watching, args: &Args) -> u64 {
    match watching {
        Watching::Numad => 2 * args.interval,
        Watching::Watch | Watching::Act => 36.max(2 * args.interval),
    }
}

impl Watching {
    fn name(self) -> &'static str {
        match self {
            Watching::Watch => "watch",
            Watching::Act => "watch act",
            Watching::Numad => "numad",
        }
    }

    fn command(self, tool: &Path, args: &Args) -> Command {
        let interval = args.interval;
        if self == Watching::Numad {
            return processes::numad(interval);
        }
        let mut command = Command::new(tool);
        command.args(["watch", "--all", "--quiet", "--class"]).arg(evenkeel::class_of(tool));
        command.args(["--policy", &format!("dfs[interval={interval}s]")]);
        if self == Watching::Act {
            command.arg("--act");
        }
        command
    }
}
