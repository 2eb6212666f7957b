//! What looking after everybody costs beside Debian's `numad`, which does the same: in a guest with two
//! nodes, since numad scans only where it sees more than one.
//!
//! ```text
//!   for each point (so many asleep, so many large and busy), in turn:
//!     evenkeel watch  ·  evenkeel watch --act (if any is busy)  ·  numad
//!     each: start ── settle ── window: CPU time ── window: system calls ── end
//! ```
//!
//! CPU time is the kernel's own, in milliseconds per scan: the window's CPU time over as many scans as
//! fit into it. A window has six scans, so that each sleeper is looked at once in it (at the latest after
//! 30 s, at one scan in 5 s). numad comes last, since it leaves processes bound. All times are the
//! guest's, which is emulated: the ratios tell something, the milliseconds do not.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::crowd::{Busy, Crowd};
use super::guest::{self, Guest};
use super::stats::Spread;
use super::tool;
use super::watcher::{self, Watcher};

/// How many, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Numbers of sleeping processes
    #[arg(long, value_delimiter = ',', default_values_t = [100, 5000])]
    sleepers: Vec<u32>,
    /// Numbers of large busy processes
    #[arg(long, value_delimiter = ',', default_values_t = [0, 8])]
    busy: Vec<u32>,
    /// Every number of sleepers by every number of busy ones, 100, 1000, 5000 by 0, 2, 8; otherwise
    /// the most sleepers meet the fewest busy ones alone, and the other way round
    #[arg(long)]
    whole: bool,
    /// Seconds between two scans
    #[arg(long, default_value_t = 5)]
    interval: u64,
    /// Scans in a window
    #[arg(long, default_value_t = 6)]
    scans: u64,
    /// Rounds at each point
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// MiB of each busy process; numad looks only at those of 300 and more
    #[arg(long, default_value_t = 350)]
    size_mib: u32,
    /// The built program, where this one was built elsewhere
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Already in the guest
    #[arg(long, hide = true)]
    inside: bool,
}

/// Boots the guest; there, measures every point and prints it.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let mut args = args.clone();
    if args.whole && !args.inside {
        (args.sleepers, args.busy) = (vec![100, 1000, 5000], vec![0, 2, 8]);
    }
    if args.inside { measure(&args) } else { boot(&args) }
}

fn boot(args: &Args) -> anyhow::Result<()> {
    guest::need("numad", "numad")?;
    let tool = tool::given_or_built(args.tool.as_deref())?;
    let n_runs = 3 * points(args).len() as u64 * u64::from(args.rounds.max(1));
    // As much again for a host with other work.
    let seconds = n_runs * 2 * (2 * args.scans * args.interval + settle_s(Who::Watch, args)) + 300;
    let guest = Guest {
        n_nodes: 2,
        n_cpus: 4,
        memory: "6G",
        limit: Duration::from_secs(seconds),
        kernel: "",
    };
    guest.run(&words(args, &tool))
}

/// Sleepers and busy ones of each point.
fn points(args: &Args) -> Vec<(u32, u32)> {
    let all = args.busy.iter().flat_map(|&busy| args.sleepers.iter().map(move |&n| (n, busy)));
    let on_edge = |&(n_sleepers, n_busy): &(u32, u32)| {
        args.sleepers.first() == Some(&n_sleepers) || args.busy.first() == Some(&n_busy)
    };
    all.filter(|point| args.whole || on_edge(point)).collect()
}

/// The same again, for the guest.
fn words(args: &Args, tool: &Path) -> Vec<String> {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mut words = ["bench", "numad", "--inside"].map(str::to_owned).to_vec();
    let options = [
        ("--sleepers", list(&args.sleepers)),
        ("--busy", list(&args.busy)),
        ("--interval", args.interval.to_string()),
        ("--scans", args.scans.to_string()),
        ("--rounds", args.rounds.to_string()),
        ("--size-mib", args.size_mib.to_string()),
        ("--tool", tool.display().to_string()),
    ];
    words.extend(args.whole.then(|| "--whole".to_owned()));
    words.extend(options.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
    words
}

/// Who looks after the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Watch,
    Act,
    Numad,
}

const ALL: [Who; 3] = [Who::Watch, Who::Act, Who::Numad];

/// What a scan costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    cpu_ms: f64,
    calls: Option<f64>,
    peak_kib: u64,
}

/// What was found at one point, in the order of [`ALL`].
struct Point {
    n_sleepers: u32,
    n_busy: u32,
    /// Of whom there was something to do for.
    cpu_ms: [Option<f64>; 3],
}

fn measure(args: &Args) -> anyhow::Result<()> {
    println!("one scan in {} s, windows of {} scans, median", args.interval, args.scans);
    println!("(lowest to highest) of {} rounds, in turn", args.rounds.max(1));
    println!(
        "{:>8} {:>4} {:<9} {:>26} {:>8} {:>9} {:>8}",
        "sleeping", "busy", "who", "CPU ms a scan", "to numad", "calls", "peak MiB"
    );
    let points = points(args)
        .into_iter()
        .map(|(n_sleepers, n_busy)| point(args, n_sleepers, n_busy))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let n_met = points.iter().filter(|point| is_half(point)).count();
    println!(
        "at most half of numad's CPU time by the medians (the target): {n_met} of {} points",
        points.len()
    );
    if args.rounds < 2 {
        println!("one round tells nothing of the noise: --rounds 3 does");
    }
    println!("growth of a scan with one more process; target for watch: at most 0.1");
    for who in ALL {
        growth(&points, who);
    }
    println!("pages or processes that numad moved: {}", watcher::numad_moves());
    Ok(())
}

/// Whoever watches costs at most half of numad's scan.
fn is_half(point: &Point) -> bool {
    let [watch, act, numad] = point.cpu_ms.map(|ms| ms.unwrap_or(0.0));
    watch.max(act) <= numad / 2.0
}

fn point(args: &Args, n_sleepers: u32, n_busy: u32) -> anyhow::Result<Point> {
    let tool = args.tool.clone().context("the guest is told where evenkeel lies")?;
    let busy = Busy::Large { tool: tool.clone(), size_mib: args.size_mib };
    let mut costs: [Vec<Cost>; 3] = Default::default();
    for _ in 0..args.rounds.max(1) {
        let crowd = Crowd::start(n_sleepers, n_busy, &busy)?;
        for (who, costs) in ALL.into_iter().zip(&mut costs) {
            // With nobody busy there is nobody to act upon.
            if who != Who::Act || 0 < n_busy {
                costs.push(cost(who, &tool, args)?);
            }
        }
        drop(crowd);
    }
    let cpu = costs.each_ref().map(|costs| {
        let figures = costs.iter().map(|cost| cost.cpu_ms).collect::<Vec<_>>();
        (!figures.is_empty()).then(|| Spread::of(figures))
    });
    let numad_ms = cpu[2].map_or(f64::NAN, |spread| spread.median);
    for ((who, costs), spread) in ALL.into_iter().zip(&costs).zip(&cpu) {
        if let Some(spread) = spread {
            row((n_sleepers, n_busy), who, costs, (spread, numad_ms));
        }
    }
    Ok(Point { n_sleepers, n_busy, cpu_ms: cpu.map(|spread| Some(spread?.median)) })
}

fn row(point: (u32, u32), who: Who, costs: &[Cost], (cpu, numad_ms): (&Spread, f64)) {
    let calls = costs.iter().filter_map(|cost| cost.calls).collect::<Vec<_>>();
    let calls = match calls.is_empty() {
        true => "-".to_owned(),
        false => format!("{:.0}", Spread::of(calls).median),
    };
    let peak_kib = costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0);
    println!(
        "{:>8} {:>4} {:<9} {:>26} {:>8.2} {calls:>9} {:>8.1}",
        point.0,
        point.1,
        who.name(),
        format!("{cpu:.2}"),
        cpu.median / numad_ms,
        peak_kib as f64 / 1024.0
    );
}

/// What one more process costs a scan: one that sleeps, and one that runs.
fn growth(points: &[Point], who: Who) {
    let cost = |point: &Point| point.cpu_ms[who as usize];
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
    // Who does not cost more with more of them has a growth below the noise, and no ratio.
    let ratio = match 0.0 < asleep && 0.0 < running {
        true => format!("ratio {:.4}", asleep / running),
        false => "no ratio, below the noise".to_owned(),
    };
    println!(
        "{:<9} one more asleep {asleep:.2} us a scan, one more busy {running:.0} us: {ratio}",
        who.name()
    );
}

/// What a scan costs this one, once it has settled.
fn cost(who: Who, tool: &Path, args: &Args) -> anyhow::Result<Cost> {
    let mut run = Watcher::start(who.command(tool, args))?;
    std::thread::sleep(Duration::from_secs(settle_s(who, args)));
    let window = Duration::from_secs(args.scans * args.interval);
    let before = tool::cpu_ns(run.pid)?;
    std::thread::sleep(window);
    let used = tool::cpu_ns(run.pid)?.saturating_sub(before);
    let scans_counted = if who == Who::Numad { 2 } else { args.scans };
    let calls = match who {
        Who::Act => None,
        _ => guest::calls_during(run.pid, Duration::from_secs(scans_counted * args.interval))?,
    };
    let peak_kib = tool::peak_resident_kib(run.pid)?;
    run.end()?;
    let calls = calls.map(|calls| calls as f64 / scans_counted as f64);
    Ok(Cost { cpu_ms: used as f64 / 1e6 / args.scans as f64, calls, peak_kib })
}

/// By then a sleeper is looked at every 30 seconds: it was looked at after 1, 2, 4 … intervals before.
/// All scans of numad are alike.
fn settle_s(who: Who, args: &Args) -> u64 {
    match who {
        Who::Numad => 2 * args.interval,
        Who::Watch | Who::Act => 36.max(2 * args.interval),
    }
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Watch => "watch",
            Who::Act => "watch act",
            Who::Numad => "numad",
        }
    }

    fn command(self, tool: &Path, args: &Args) -> Command {
        let interval = args.interval;
        if self == Who::Numad {
            return watcher::numad(interval);
        }
        let mut command = Command::new(tool);
        command.args(["watch", "--all", "--quiet", "--class"]).arg(tool::class_of(tool));
        command.args(["--policy", &format!("dfs[interval={interval}s]")]);
        if self == Who::Act {
            command.arg("--act");
        }
        command
    }
}
