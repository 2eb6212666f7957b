//! Whether being looked after does harm where nothing is to be mended: as many busy programs as CPUs,
//! alike, with `watch --act` beside them and without, in turn (A B A B).
//!
//! ```text
//!   without ── beside ── without ── beside ── without ── beside …
//!      └─ ratio ─┘         └─ ratio ─┘         └─ ratio ─┘          what watching does, and the noise
//!      └───── ratio ──────────┘└──── ratio ───────┘                 the noise alone
//! ```
//!
//! Two figures of each program count: what it does per second of its own CPU time, which sees colder
//! caches and interrupted work, and how long it takes by the clock for a given CPU time, which sees a
//! bad place. Other work on the machine shows in the second, and drifts; so each round is compared with
//! itself. No difference is claimed unless every round shows it, of so many that chance hardly does
//! ([`Verdict`]). What is smaller than the noise alone stays unseen, and that is said.
//!
//! Moves are read from the journal; none are expected. They are possible from a few seconds on
//! ([`TRIAL_S`]), and shorter programs are refused.
//!
//! Only the programs of this benchmark are watched, which have a name of their own, so that nobody
//! else's are touched; `--all` watches everybody.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::stats::{Spread, Verdict};
use super::tool;

/// How many, and for how long.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rounds, each with both
    #[arg(long, default_value_t = 6)]
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
    let tool = tool::given_or_built(args.tool.as_deref())?;
    let n_cpus = std::thread::available_parallelism()?.get();
    let n_programs = args.programs.unwrap_or(n_cpus);
    let program = Named::new(&tool)?;
    let (mut without, mut beside) = (Vec::new(), Vec::new());
    let (mut n_watched, mut n_moves) = (0, 0);
    for _ in 0..args.rounds.max(1) {
        without.push(round(&program.path, n_programs, args.seconds)?);
        let watch = Watch::start(&tool, (!args.all).then_some(&program))?;
        beside.push(round(&program.path, n_programs, args.seconds)?);
        let watched = watch.end(&tool)?;
        n_watched += watched.n_jobs;
        n_moves += watched.n_moves;
    }
    println!("{n_programs} busy programs on {n_cpus} CPUs, {} s of CPU time each", args.seconds);
    println!("median (lowest to highest) of {} rounds, in turn", args.rounds.max(1));
    tell("1000 ops a CPU second", 0, (&without, &beside), |round| round.ops_per_cpu_s / 1e3);
    tell("run time, s", 2, (&without, &beside), |round| round.wall_s);
    println!("programs looked after: {n_watched}; moves made: {n_moves}");
    Ok(())
}

fn tell(
    name: &str,
    digits: usize,
    (without, beside): (&[Round], &[Round]),
    figure: fn(&Round) -> f64,
) {
    let figures = |rounds: &[Round]| rounds.iter().map(figure).collect::<Vec<_>>();
    let (without, beside) = (figures(without), figures(beside));
    let ratios: Vec<f64> = beside.iter().zip(&without).map(|(b, a)| b / a).collect();
    let noise: Vec<f64> = without.windows(2).map(|pair| pair[1] / pair[0]).collect();
    println!("{name}");
    println!("  without               {:.digits$}", Spread::of(without));
    println!("  watch --act beside    {:.digits$}", Spread::of(beside));
    println!("  ratio of each round   {:.3}", Spread::of(ratios.clone()));
    match noise.is_empty() {
        true => println!("  the noise alone       not known: one round"),
        false => println!("  the noise alone       {:.3}", Spread::of(noise)),
    }
    println!("  {}", Verdict::of(&ratios));
}

/// The programs' own name: a link to the program, so that they and nobody else can be chosen by it.
struct Named {
    name: String,
    path: PathBuf,
}

impl Named {
    fn new(tool: &Path) -> anyhow::Result<Self> {
        let name = format!("harm-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        std::os::unix::fs::symlink(tool, &path)
            .with_context(|| format!("cannot make the link {}", path.display()))?;
        Ok(Named { name, path })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// All programs at once, until the last has ended.
fn round(program: &Path, n_programs: usize, seconds: u32) -> anyhow::Result<Round> {
    let programs = (0..n_programs.max(1)).map(|_| {
        Command::new(program)
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

/// What a watch did in a round. One that looked after nobody would be harmless by doing nothing.
struct Watched {
    n_jobs: u64,
    n_moves: u64,
}

/// `evenkeel watch --act`, with a journal that tells its moves.
struct Watch {
    child: Child,
    journal: PathBuf,
}

impl Watch {
    fn start(tool: &Path, whom: Option<&Named>) -> anyhow::Result<Self> {
        let name = format!("evenkeel-bench-harm-{}.journal", std::process::id());
        let journal = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&journal);
        // With a class the programs weigh something, and the policy could find a reason to move.
        let whom = match whom {
            Some(Named { name, .. }) => {
                vec![
                    "--command".to_owned(),
                    name.clone(),
                    "--class".to_owned(),
                    format!("{name}=12"),
                ]
            }
            None => ["--all", "--class", "*=12"].map(str::to_owned).to_vec(),
        };
        let child = Command::new(tool)
            .args(["watch", "--act", "--quiet", "--policy", "dfs[interval=250ms]"])
            .arg("--journal")
            .arg(&journal)
            .args(whom)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start evenkeel watch")?;
        std::thread::sleep(Duration::from_secs(1));
        Ok(Watch { child, journal })
    }

    /// Ends it, and tells what it did.
    fn end(mut self, tool: &Path) -> anyhow::Result<Watched> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait()?;
        let output = Command::new(tool).arg("report").arg(&self.journal).arg("--json").output()?;
        std::fs::remove_file(&self.journal)?;
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("evenkeel report told nothing")?;
        let total = |name: &str| {
            report["totals"][name].as_u64().with_context(|| format!("the report has no {name}"))
        };
        Ok(Watched { n_jobs: total("n_jobs")?, n_moves: total("n_moves")? })
    }
}
