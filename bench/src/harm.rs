//! Side effects of watch on a balanced machine: one busy program per CPU, with `watch --act` and without,
//! alternately (A B A B).
//!
//! ```text
//!   without ── with ── without ── with ── without ── with …
//!      └─ ratio ─┘        └─ ratio ─┘       └─ ratio ─┘         effect of watch, plus noise
//!      └──── ratio ──────────┘└──── ratio ─────┘                noise
//! ```
//!
//! Two values are measured per program: operations per second of its CPU time (lower with cold caches and
//! interruptions) and wall time for a fixed CPU time (higher with bad placement). Other load affects wall time and
//! changes over time, so each round is a pair ([`PairedRuns`]).
//!
//! The journal provides the number of moves. The expected number is zero. Moves are possible after a few seconds
//! ([`FIRST_MOVE_S`]), so shorter programs are rejected.
//!
//! watch selects the programs of this benchmark by their name, which no other program has. `--all` selects all
//! processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::ab::PairedRuns;
use crate::evenkeel;
use crate::stats::MedianRange;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the number of rounds, each with and without watch
    #[arg(long, default_value_t = 6)]
    rounds: u32,
    /// Set the CPU time of each program in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Set the number of busy programs (default: one per CPU)
    #[arg(long)]
    programs: Option<usize>,
    /// Watch all processes instead of only the programs of this benchmark
    #[arg(long)]
    all: bool,
    /// Use this evenkeel executable (default: a release build)
    #[arg(long)]
    tool: Option<PathBuf>,
}

/// Mean values over the programs of a round.
#[derive(Clone, Copy, Debug)]
struct LoadRound {
    ops_per_cpu_s: f64,
    wall_s: f64,
}

/// Seconds before the first possible move: watch finds processes within two seconds and then samples eight intervals.
const FIRST_MOVE_S: u32 = 8;

pub fn main(args: &Args) -> anyhow::Result<()> {
    if args.seconds < FIRST_MOVE_S {
        bail!(
            "--seconds {} is too short: watch moves no process before {FIRST_MOVE_S} s",
            args.seconds
        );
    }
    let tool = evenkeel::executable_or_build(args.tool.as_deref())?;
    let n_cpus = std::thread::available_parallelism()?.get();
    let n_programs = args.programs.unwrap_or(n_cpus);
    let program = UniqueName::new(&tool)?;
    let mut rounds = Vec::new();
    let (mut n_watched, mut n_moves) = (0, 0);
    for _ in 0..args.rounds.max(1) {
        let without = round(&program.path, n_programs, args.seconds)?;
        let watch = WatchRun::start(&tool, (!args.all).then_some(&program))?;
        let with = round(&program.path, n_programs, args.seconds)?;
        rounds.push((without, with));
        let (n_jobs, n_moved) = watch.end(&tool)?;
        n_watched += n_jobs;
        n_moves += n_moved;
    }
    println!("{n_programs} busy programs on {n_cpus} CPUs, {} s of CPU time each", args.seconds);
    println!("median (lowest to highest) of {} rounds, alternating", args.rounds.max(1));
    print("1000 operations per CPU second", 0, &rounds, |round| round.ops_per_cpu_s / 1e3);
    print("wall time, s", 2, &rounds, |round| round.wall_s);
    println!("programs watched: {n_watched}; moves: {n_moves}");
    Ok(())
}

fn print(
    name: &str,
    digits: usize,
    rounds: &[(LoadRound, LoadRound)],
    value: fn(&LoadRound) -> f64,
) {
    let mut pairs = PairedRuns::default();
    rounds.iter().for_each(|(without, with)| pairs.push(value(without), value(with)));
    let noise: Vec<f64> =
        rounds.windows(2).map(|pair| value(&pair[1].0) / value(&pair[0].0)).collect();
    println!("{name}");
    println!("  without             {:.digits$}", pairs.a());
    println!("  with watch --act    {:.digits$}", pairs.b());
    println!("  ratio, 95 % interval: {pairs}");
    match noise.is_empty() {
        true => println!("  noise               unknown: one round"),
        false => println!("  noise               {:.3}", MedianRange::of(noise)),
    }
}

/// A symbolic link to evenkeel whose name selects only the programs of this benchmark.
struct UniqueName {
    name: String,
    path: PathBuf,
}

impl UniqueName {
    fn new(tool: &Path) -> anyhow::Result<Self> {
        let name = format!("harm-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        std::os::unix::fs::symlink(tool, &path)
            .with_context(|| format!("cannot create the link {}", path.display()))?;
        Ok(UniqueName { name, path })
    }
}

impl Drop for UniqueName {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Runs all programs at the same time until the last program has exited.
fn round(program: &Path, n_programs: usize, seconds: u32) -> anyhow::Result<LoadRound> {
    let programs = (0..n_programs.max(1)).map(|_| {
        Command::new(program)
            .args(["load", "compute", "--json", "--cpu", &seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a busy program")
    });
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    let rounds = programs.into_iter().map(finish).collect::<anyhow::Result<Vec<_>>>()?;
    let mean =
        |value: fn(&LoadRound) -> f64| rounds.iter().map(value).sum::<f64>() / rounds.len() as f64;
    Ok(LoadRound {
        ops_per_cpu_s: mean(|round| round.ops_per_cpu_s),
        wall_s: mean(|round| round.wall_s),
    })
}

fn finish(program: Child) -> anyhow::Result<LoadRound> {
    let output = program.wait_with_output()?;
    if !output.status.success() {
        bail!("a busy program exited with {}", output.status);
    }
    let result: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let value = |name: &str| {
        result[name].as_f64().with_context(|| format!("a busy program prints no {name}"))
    };
    Ok(LoadRound { ops_per_cpu_s: value("ops_per_cpu_s")?, wall_s: value("wall_s")? })
}

/// `evenkeel watch --act` with a journal.
struct WatchRun {
    child: Child,
    journal: PathBuf,
}

impl WatchRun {
    fn start(tool: &Path, selected: Option<&UniqueName>) -> anyhow::Result<Self> {
        let name = format!("evenkeel-bench-harm-{}.journal", std::process::id());
        let journal = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&journal);
        // Programs with a class have a load, so the policy can request moves.
        let (selection, pattern) = match selected {
            Some(UniqueName { name, .. }) => (vec!["--comm", name], name.as_str()),
            None => (vec!["--all"], "*"),
        };
        let child = Command::new(tool)
            .args(["watch", "--act", "--quiet", "--policy", "dfs[interval=250ms]"])
            .arg("--journal")
            .arg(&journal)
            .args(selection)
            .args(["--class", &format!("{pattern}=12")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start evenkeel watch")?;
        std::thread::sleep(Duration::from_secs(1));
        Ok(WatchRun { child, journal })
    }

    /// Ends watch. Returns the numbers of its jobs and moves.
    fn end(mut self, tool: &Path) -> anyhow::Result<(u64, u64)> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait()?;
        let output = Command::new(tool).arg("report").arg(&self.journal).arg("--json").output()?;
        std::fs::remove_file(&self.journal)?;
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("evenkeel report printed no JSON")?;
        let total = |name: &str| {
            report["totals"][name].as_u64().with_context(|| format!("the report has no {name}"))
        };
        Ok((total("n_jobs")?, total("n_moves")?))
    }
}
