//! Whether being looked after does harm where nothing is to be mended: as many busy programs as CPUs,
//! alike, with `watch --act` beside them and without, in turn (A B A B).
//!
//! Two figures of each program count: what it does per second of its own CPU time, which sees colder
//! caches and interrupted work, and how long it takes by the clock for a given CPU time, which sees a
//! bad place. Other work on the machine shows in the second. Moves are read from the journal; none are
//! expected. Moves are possible from a few seconds on ([`TRIAL_S`]), and shorter programs are refused.
//!
//! Only the programs of this benchmark are watched, so that nobody else's are touched; `--all` watches
//! everybody.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::stats::Spread;
use super::tool;

/// How many, and for how long.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rounds, each with both
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of CPU time that each program uses
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Programs that are busy at once (default: as many as CPUs)
    #[arg(long)]
    programs: Option<usize>,
    /// Watch everybody, not only the programs of this benchmark
    #[arg(long)]
    all: bool,
    /// The built program, where this one was built elsewhere
    #[arg(long)]
    tool: Option<PathBuf>,
}

/// What a round came to: means over its programs.
#[derive(Clone, Copy, Debug)]
struct Round {
    ops_per_cpu_s: f64,
    wall_s: f64,
}

/// Processes are noticed within two seconds, and eight intervals are measured before anything moves. Programs
/// that end sooner would show nothing but that.
const TRIAL_S: u32 = 8;

/// Measures and prints.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.seconds < TRIAL_S {
        bail!("--seconds {}: before {TRIAL_S} s nothing could be moved", args.seconds);
    }
    let tool = match &args.tool {
        Some(path) => path.clone(),
        None => {
            tool::build()?;
            tool::path()?
        }
    };
    let n_cpus = std::thread::available_parallelism()?.get();
    let n_programs = args.programs.unwrap_or(n_cpus);
    let (mut without, mut beside, mut n_moves) = (Vec::new(), Vec::new(), 0);
    for _ in 0..args.rounds.max(1) {
        without.push(round(&tool, n_programs, args.seconds)?);
        let watch = Watch::start(&tool, args.all)?;
        beside.push(round(&tool, n_programs, args.seconds)?);
        n_moves += watch.end(&tool)?;
    }
    println!("{n_programs} busy programs on {n_cpus} CPUs, {} s of CPU time each", args.seconds);
    println!("median (lowest to highest) of {} rounds, in turn", args.rounds.max(1));
    println!("{:<24} {:>22} {:>22} {:>6}", "", "without", "watch --act beside", "ratio");
    row("1000 ops a CPU second", 0, (&without, &beside), |round| round.ops_per_cpu_s / 1e3);
    row("run time, s", 2, (&without, &beside), |round| round.wall_s);
    println!("moves made: {n_moves}");
    Ok(())
}

fn row(
    name: &str,
    digits: usize,
    (without, beside): (&[Round], &[Round]),
    figure: fn(&Round) -> f64,
) {
    let spread = |rounds: &[Round]| Spread::of(rounds.iter().map(figure).collect());
    let (without, beside) = (spread(without), spread(beside));
    let ratio = beside.median / without.median;
    let (without, beside) = (format!("{without:.digits$}"), format!("{beside:.digits$}"));
    println!("{name:<24} {without:>22} {beside:>22} {ratio:>6.3}");
}

/// All programs at once, until the last has ended.
fn round(tool: &Path, n_programs: usize, seconds: u32) -> anyhow::Result<Round> {
    let programs = (0..n_programs.max(1)).map(|_| {
        Command::new(tool)
            .args(["load", "compute", "--json", "--cpu", &seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a busy program")
    });
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    let done = programs.into_iter().map(finish).collect::<anyhow::Result<Vec<_>>>()?;
    let mean = |figure: fn(&Round) -> f64| done.iter().map(figure).sum::<f64>() / done.len() as f64;
    Ok(Round { ops_per_cpu_s: mean(|one| one.ops_per_cpu_s), wall_s: mean(|one| one.wall_s) })
}

fn finish(program: Child) -> anyhow::Result<Round> {
    let output = program.wait_with_output()?;
    if !output.status.success() {
        bail!("a busy program ended with {}", output.status);
    }
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let figure =
        |name: &str| told[name].as_f64().with_context(|| format!("a busy program tells no {name}"));
    Ok(Round { ops_per_cpu_s: figure("ops_per_cpu_s")?, wall_s: figure("wall_s")? })
}

/// `evenkeel watch --act`, with a journal that tells its moves.
struct Watch {
    child: Child,
    journal: PathBuf,
}

impl Watch {
    fn start(tool: &Path, all: bool) -> anyhow::Result<Self> {
        let name = format!("evenkeel-bench-harm-{}.journal", std::process::id());
        let journal = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&journal);
        let whom: &[&str] = if all { &["--all"] } else { &["--command", "evenkeel"] };
        let child = Command::new(tool)
            .args(["watch", "--act", "--quiet", "--policy", "dfs[interval=250ms]"])
            // With a class the programs weigh something, and the policy could find a reason to move.
            .args(["--class", "evenkeel=12", "--journal"])
            .arg(&journal)
            .args(whom)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start evenkeel watch")?;
        std::thread::sleep(Duration::from_secs(1));
        Ok(Watch { child, journal })
    }

    /// Ends it, and tells how many moves it made.
    fn end(mut self, tool: &Path) -> anyhow::Result<u64> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait()?;
        let output = Command::new(tool).arg("report").arg(&self.journal).arg("--json").output()?;
        std::fs::remove_file(&self.journal)?;
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("evenkeel report told nothing")?;
        report["totals"]["n_moves"].as_u64().context("the report has no number of moves")
    }
}
