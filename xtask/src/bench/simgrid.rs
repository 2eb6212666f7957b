//! The simulated machine beside SimGrid, on the same jobs: completed jobs for each second of CPU time.
//!
//! ```text
//!   lane 0 ── job 0 ─► job n ─► job 2n …          a lane's jobs one after the other, on its core
//!   lane 1 ── job 1 ─► job n+1 ─► …               1 lane or 100 for each core, which share it evenly
//! ```
//!
//! SimGrid's model of processors knows neither caches nor memory, so contention is off here. Both are given
//! the same CPU time of each job and tell when each ended; those must agree, or the figures compare different
//! things. SimGrid is asked in two ways, with an actor for each lane and with activities that wait for
//! each other, and the faster one counts. They run in turn.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use host_sim::chance::Chance;
use host_sim::fluid::{Fluid, JobStart, MemoryRule, News, Settings};
use host_sim::hardware::Hardware;
use host_sim::script::{Act, Script};
use rustix::time::{ClockId, clock_gettime};
use topology::Machine;

use super::stats::Spread;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Rounds, of which the median is told
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Jobs in each run
    #[arg(long, default_value_t = 20_000)]
    jobs: usize,
    /// Cores of the machine
    #[arg(long, default_value_t = 8)]
    cores: usize,
    /// Ours alone: how it grows with the number of jobs
    #[arg(long)]
    growth: bool,
}

const SOURCE: &str = "xtask/simgrid/lanes.cpp";
/// Lanes for each core, and how many times as fast as SimGrid we want to be.
const CASES: [(usize, f64); 2] = [(1, 3.0), (100, 50.0)];
/// Finishing times may differ by this part: each side rounds in its own way.
const AGREE: f64 = 1e-6;

/// Measures and prints; fails when finishing times differ.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.growth {
        return growth(args);
    }
    let folder = tempfile::tempdir().context("a folder for the program")?;
    let program = folder.path().join("lanes");
    if !build(&program)? {
        println!(
            "simgrid: not run: SimGrid is not installed (Debian: apt install g++ libsimgrid-dev)"
        );
        return Ok(());
    }
    let lengths = lengths(args.jobs)?;
    println!(
        "{} jobs on {} cores, contention off: completed jobs for each second of CPU time, {} rounds in turn",
        args.jobs, args.cores, args.rounds
    );
    println!(
        "at once  ours       SimGrid    by          times as fast             target  ends differ by"
    );
    for (n_lanes, target) in CASES {
        let mut ratios = Vec::new();
        let (mut ours, mut its) = (Vec::new(), Vec::new());
        let (mut way, mut off) = ("", 0.0f64);
        for _ in 0..args.rounds {
            let mine = simulate(args.cores, n_lanes, &lengths)?;
            let actors = ask(&program, args.cores, n_lanes, "actors", &lengths)?;
            let activities = ask(&program, args.cores, n_lanes, "activities", &lengths)?;
            let (name, other) = match activities.seconds < actors.seconds {
                true => ("activities", activities),
                false => ("actors", actors),
            };
            let now = differ(&mine.ends_s, &other.ends_s)?;
            off = if off.total_cmp(&now).is_lt() { now } else { off };
            ratios.push(other.seconds / mine.seconds);
            ours.push(args.jobs as f64 / mine.seconds);
            its.push(args.jobs as f64 / other.seconds);
            way = name;
        }
        println!(
            "{n_lanes:<8} {:<10.3e} {:<10.3e} {way:<11} {:<25} {target:<7} {off:.1e}",
            Spread::of(ours).median,
            Spread::of(its).median,
            format!("{:.2}", Spread::of(ratios)),
        );
        if off.is_nan() || AGREE < off {
            bail!("finishing times differ by {off:.1e} of themselves: the two do different things");
        }
    }
    Ok(())
}

/// Ours with ten times as many jobs, again and again.
fn growth(args: &Args) -> anyhow::Result<()> {
    println!("at once  jobs      completed jobs for each second of CPU time");
    for (n_lanes, _) in CASES {
        for n_jobs in [10_000, 100_000, 1_000_000] {
            let lengths = lengths(n_jobs)?;
            let done = simulate(args.cores, n_lanes, &lengths)?;
            println!("{n_lanes:<8} {n_jobs:<9} {:.3e}", n_jobs as f64 / done.seconds);
        }
    }
    Ok(())
}

/// Builds SimGrid's side; whether SimGrid is there.
fn build(program: &Path) -> anyhow::Result<bool> {
    let header = Path::new("/usr/include/simgrid/s4u.hpp");
    if !header.is_file() {
        return Ok(false);
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(SOURCE);
    let mut compiler = Command::new("g++");
    compiler.args(["-O2", "-o"]).arg(program).arg(source).arg("-lsimgrid");
    match compiler.status().context("cannot start g++")?.success() {
        true => Ok(true),
        false => bail!("g++ could not build {SOURCE}"),
    }
}

/// What a run took, and when each job ended.
struct Done {
    seconds: f64,
    ends_s: Vec<f64>,
}

fn ask(
    program: &Path,
    cores: usize,
    n_lanes: usize,
    way: &str,
    lengths: &[Length],
) -> anyhow::Result<Done> {
    let mut command = Command::new(program);
    command.args([&cores.to_string(), &n_lanes.to_string(), way]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start SimGrid's side")?;
    let mut text = String::new();
    for length in lengths {
        let _ = writeln!(text, "{}", length.ns);
    }
    let mut stdin = child.stdin.take().context("its input")?;
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().context("SimGrid's side")?;
    let _ = writer.join();
    if !output.status.success() {
        bail!("SimGrid's side failed: {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.lines().map(str::parse::<f64>);
    let seconds = numbers.next().context("no figures")??;
    Ok(Done { seconds, ends_s: numbers.collect::<Result<_, _>>()? })
}

/// By which part two lists of ends differ at the most.
fn differ(ours: &[f64], its: &[f64]) -> anyhow::Result<f64> {
    if ours.len() != its.len() {
        bail!("SimGrid tells of {} jobs, we of {}", its.len(), ours.len());
    }
    let parts = ours.iter().zip(its).map(|(ours, its)| (ours - its).abs() / its.abs().max(1e-9));
    // What is no number is the largest difference of all.
    Ok(parts.max_by(f64::total_cmp).unwrap_or(0.0))
}

/// A job: what it does, and the CPU time of that alone.
struct Length {
    script: Arc<Script>,
    ns: f64,
}

/// Between 0.1 and 0.2 s each, in an order that looks like none.
fn lengths(n_jobs: usize) -> anyhow::Result<Vec<Length>> {
    let hardware = machine(8)?;
    let scripts = super::simulator::scripts(&hardware)?;
    let calm = &scripts.first().context("a script")?.acts[0];
    let one = |job: usize| {
        let part = (job as u64).wrapping_mul(2_654_435_761) % 1000;
        let act =
            Act { instructions: 2e8 * (1.0 + part as f64 / 1000.0), footprint: 0, ..calm.clone() };
        let script = Arc::new(Script { acts: vec![act], n_threads: 1 });
        let ns = script.ns_alone(&hardware) * script.acts[0].instructions / 1000.0;
        Length { script, ns }
    };
    Ok((0..n_jobs).map(one).collect())
}

fn machine(n_cores: usize) -> anyhow::Result<Arc<Hardware>> {
    let text = format!("llcs=1 cores={n_cores} mem=512G llc=32M");
    let machine = Machine::synthetic(&text).context("the synthetic machine")?;
    Ok(Arc::new(Hardware::new(&machine)))
}

fn simulate(n_cores: usize, per_core: usize, lengths: &[Length]) -> anyhow::Result<Done> {
    let hardware = machine(n_cores)?;
    let n_lanes = n_cores * per_core;
    let masks: Vec<Arc<Vec<bool>>> =
        (0..n_cores).map(|core| Arc::new((0..n_cores).map(|at| at == core).collect())).collect();
    let mut ends_s = vec![f64::NAN; lengths.len()];
    let before = cpu_time();
    let settings = Settings { contention: false, ..Settings::default() };
    let mut fluid = Fluid::new(hardware, settings, Chance::OFF.causes(1));
    let start = |fluid: &mut Fluid, job: usize| {
        let Some(length) = lengths.get(job) else { return };
        fluid.start(JobStart {
            job,
            script: length.script.clone(),
            allowed: Some(masks[job % n_lanes % n_cores].clone()),
            memory: MemoryRule::FirstTouch,
            weight: 1.0,
        });
    };
    (0..n_lanes).for_each(|job| start(&mut fluid, job));
    let mut n_left = lengths.len();
    while 0 < n_left {
        let at = fluid.next_event().context("nothing happens any more, and jobs are left")?;
        fluid.advance(at);
        for (when, news) in fluid.take_news() {
            let News::JobEnded { job, .. } = news else { continue };
            ends_s[job] = when as f64 / 1e9;
            n_left -= 1;
            fluid.forget(job);
            start(&mut fluid, job + n_lanes);
        }
    }
    Ok(Done { seconds: (cpu_time() - before).as_secs_f64(), ends_s })
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
