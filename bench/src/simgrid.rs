//! Speed of the simulator and of SimGrid on the same jobs: completed jobs per second of CPU time.
//!
//! ```text
//!   lane 0 ── job 0 ─► job n ─► job 2n …          the jobs of a lane run in sequence on its core
//!   lane 1 ── job 1 ─► job n+1 ─► …               1 lane or 100 lanes per core, which share it equally
//! ```
//!
//! SimGrid's CPU model has neither caches nor memory, so contention is off here. Both simulators read the CPU time of
//! each job and return its end time; the end times must agree. SimGrid runs in two variants, with one actor per lane
//! and with dependent activities; the faster variant counts. The simulators run alternately.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail};
use host_sim::fluid::Fluid;
use host_sim::frame::{HostNotice, JobStart, MachineSettings};
use host_sim::hardware::Hardware;
use host_sim::script::{Script, ScriptPhase};
use host_sim::variation::Variation;
use topology::Machine;

use crate::ab::PairedRuns;
use crate::stats::{MedianRange, process_cpu_time};

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Set the number of rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Set the number of jobs per run
    #[arg(long, default_value_t = 20_000)]
    jobs: usize,
    /// Set the number of cores
    #[arg(long, default_value_t = 8)]
    cores: usize,
    /// Measure only the simulator of evenkeel, with a growing number of jobs
    #[arg(long)]
    growth: bool,
}

const SOURCE: &str = "bench/simgrid/lanes.cpp";
/// Lanes per core, and target ratio of evenkeel's speed to SimGrid's speed.
const CASES: [(usize, f64); 2] = [(1, 3.0), (100, 50.0)];
/// Maximum relative difference of end times; both simulators round.
const AGREE: f64 = 1e-6;

/// Measures the speeds and prints them. Fails if end times differ.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.growth {
        return growth(args);
    }
    let dir = tempfile::tempdir().context("cannot create a temporary directory")?;
    let program = dir.path().join("lanes");
    if !build(&program)? {
        println!(
            "simgrid: skipped: SimGrid is not installed (Debian: apt install g++ libsimgrid-dev)"
        );
        return Ok(());
    }
    let lengths = lengths(args.jobs)?;
    println!(
        "{} jobs on {} cores, contention off: completed jobs per second of CPU time, {} rounds, alternating",
        args.jobs, args.cores, args.rounds
    );
    println!(
        "per core evenkeel   SimGrid    variant     ratio                     target  difference of end times"
    );
    for (n_lanes, target) in CASES {
        measure(args, &program, &lengths, n_lanes, target)?;
    }
    Ok(())
}

/// Measures one number of lanes per core and prints a row.
fn measure(
    args: &Args,
    program: &Path,
    lengths: &[Length],
    n_lanes: usize,
    target: f64,
) -> anyhow::Result<()> {
    let mut speeds = PairedRuns::default();
    let (mut variant, mut off) = ("", 0.0f64);
    for _ in 0..args.rounds {
        let evenkeel_run = simulate(args.cores, n_lanes, lengths)?;
        let actors = run_simgrid(program, args.cores, n_lanes, "actors", lengths)?;
        let activities = run_simgrid(program, args.cores, n_lanes, "activities", lengths)?;
        let (name, other) = match activities.seconds < actors.seconds {
            true => ("activities", activities),
            false => ("actors", actors),
        };
        let now = difference(&evenkeel_run.ends_s, &other.ends_s)?;
        off = if off.total_cmp(&now).is_lt() { now } else { off };
        speeds.push(args.jobs as f64 / other.seconds, args.jobs as f64 / evenkeel_run.seconds);
        variant = name;
    }
    let ratio = format!("{:.2}", MedianRange::of(speeds.ratios()));
    let (evenkeel_speed, simgrid_speed) = (speeds.b().median, speeds.a().median);
    println!(
        "{n_lanes:<8} {evenkeel_speed:<10.3e} {simgrid_speed:<10.3e} {variant:<11} {ratio:<25} {target:<7} {off:.1e}"
    );
    if off.is_nan() || AGREE < off {
        bail!("the end times differ by {off:.1e} (relative): the simulators run different jobs");
    }
    Ok(())
}

/// Measures the simulator of evenkeel with a growing number of jobs.
fn growth(args: &Args) -> anyhow::Result<()> {
    println!("per core jobs      completed jobs per second of CPU time");
    for (n_lanes, _) in CASES {
        for n_jobs in [10_000, 100_000, 1_000_000] {
            let lengths = lengths(n_jobs)?;
            let run = simulate(args.cores, n_lanes, &lengths)?;
            println!("{n_lanes:<8} {n_jobs:<9} {:.3e}", n_jobs as f64 / run.seconds);
        }
    }
    Ok(())
}

/// Builds the SimGrid program. Returns false if SimGrid is not installed.
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
        false => bail!("g++ failed to build {SOURCE}"),
    }
}

/// CPU time of a run, and end time of each job.
struct TimedRun {
    seconds: f64,
    ends_s: Vec<f64>,
}

fn run_simgrid(
    program: &Path,
    cores: usize,
    n_lanes: usize,
    variant: &str,
    lengths: &[Length],
) -> anyhow::Result<TimedRun> {
    let mut command = Command::new(program);
    command.args([&cores.to_string(), &n_lanes.to_string(), variant]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start the SimGrid program")?;
    let mut text = String::new();
    for length in lengths {
        let _ = writeln!(text, "{}", length.ns);
    }
    let mut stdin = child.stdin.take().context("its standard input is piped")?;
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().context("the SimGrid program")?;
    let _ = writer.join();
    if !output.status.success() {
        bail!("the SimGrid program failed: {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.lines().map(str::parse::<f64>);
    let seconds = numbers.next().context("the SimGrid program printed nothing")??;
    Ok(TimedRun { seconds, ends_s: numbers.collect::<Result<_, _>>()? })
}

/// Returns the maximum relative difference of two lists of end times.
fn difference(own: &[f64], other: &[f64]) -> anyhow::Result<f64> {
    if own.len() != other.len() {
        bail!("SimGrid completed {} jobs, the simulator {}", other.len(), own.len());
    }
    let relative = |(a, b): (&f64, &f64)| (a - b).abs() / b.abs().max(1e-9);
    // NaN counts as the maximum difference.
    Ok(own.iter().zip(other).map(relative).max_by(f64::total_cmp).unwrap_or(0.0))
}

/// A job: its script, and the CPU time of the script alone.
struct Length {
    script: Arc<Script>,
    ns: f64,
}

/// Returns jobs of 0.1 to 0.2 s each, in a pseudo-random order.
fn lengths(n_jobs: usize) -> anyhow::Result<Vec<Length>> {
    let hardware = hardware(8)?;
    let scripts = crate::simulator::scripts(&hardware)?;
    let template = &scripts.first().context("a script")?.phases[0];
    let length = |job: usize| {
        let part = (job as u64).wrapping_mul(2_654_435_761) % 1000;
        let phase = ScriptPhase {
            instructions: 2e8 * (1.0 + part as f64 / 1000.0),
            footprint: 0,
            ..template.clone()
        };
        let script = Arc::new(Script { phases: vec![phase], n_threads: 1, ..Script::default() });
        let ns = script.phases[0].ns_alone(&hardware) * script.phases[0].instructions / 1000.0;
        Length { script, ns }
    };
    Ok((0..n_jobs).map(length).collect())
}

fn hardware(n_cores: usize) -> anyhow::Result<Arc<Hardware>> {
    let text = format!("llcs=1 cores={n_cores} mem=512G llc=32M");
    let machine = Machine::synthetic(&text).context("the synthetic machine")?;
    Ok(Arc::new(Hardware::new(&machine)))
}

fn simulate(n_cores: usize, per_core: usize, lengths: &[Length]) -> anyhow::Result<TimedRun> {
    let hardware = hardware(n_cores)?;
    let n_lanes = n_cores * per_core;
    let masks: Vec<Arc<Vec<bool>>> = (0..n_cores)
        .map(|core| Arc::new((0..n_cores).map(|other| other == core).collect()))
        .collect();
    let mut ends_s = vec![f64::NAN; lengths.len()];
    let before = process_cpu_time();
    let settings = MachineSettings { contention: false, ..MachineSettings::default() };
    let mut fluid = Fluid::new(hardware, settings, Variation::OFF.streams(1));
    let start = |fluid: &mut Fluid, job: usize| {
        let Some(length) = lengths.get(job) else { return };
        let allowed = Some(masks[job % n_lanes % n_cores].clone());
        fluid.start(JobStart { allowed, ..JobStart::new(job, length.script.clone()) });
    };
    (0..n_lanes).for_each(|job| start(&mut fluid, job));
    let mut n_left = lengths.len();
    while 0 < n_left {
        let at = fluid.next_event().context("no event is left, but jobs are running")?;
        fluid.advance(at);
        for (when, notice) in fluid.take_notices() {
            let HostNotice::JobEnded { job, .. } = notice else { continue };
            ends_s[job] = when as f64 / 1e9;
            n_left -= 1;
            fluid.remove_job(job);
            start(&mut fluid, job + n_lanes);
        }
    }
    Ok(TimedRun { seconds: (process_cpu_time() - before).as_secs_f64(), ends_s })
}
