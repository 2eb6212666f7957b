//! How fast jobs start: how long until the first one runs, one job from the first instruction of
//! evenkeel to its end, and a thousand at once, in turn with a shell that starts the same programs
//! (A B A B).

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use super::stats::Spread;
use super::tool::{self, Run};

/// How often to look.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rounds, each with both
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Jobs started at once
    #[arg(long, default_value_t = 1000)]
    jobs: usize,
}

impl Default for Args {
    fn default() -> Self {
        Args { rounds: 5, jobs: 1000 }
    }
}

/// Measures and prints.
pub fn main(args: &Args) -> anyhow::Result<()> {
    tool::build()?;
    let mut rows: [Vec<f64>; 6] = Default::default();
    for round in 0..args.rounds.max(1) {
        rows[4].push(first_job(round)?);
        rows[5].push(first_program()?);
        let (one, one_shell) = (evenkeel(1, round)?, shell(1)?);
        let (many, many_shell) = (evenkeel(args.jobs, round)?, shell(args.jobs)?);
        rows[0].push(one);
        rows[1].push(one_shell);
        // What the others took beyond the first: starting, ending and reaping them all.
        rows[2].push(1e3 * (args.jobs - 1) as f64 / (many - one));
        rows[3].push(many / many_shell);
    }
    tool::sweep()?;
    let [one, one_shell, rate, ratio, first, first_shell] = rows.map(Spread::of);
    println!("median (lowest to highest) of {} rounds, in turn with a shell loop", args.rounds);
    println!("start-up until the first job tells the time, ms {first:.1}");
    println!("the same by a shell, ms                         {first_shell:.1}");
    println!("one job that does nothing, whole run, ms        {one:.1}");
    println!("the same by a shell, ms                         {one_shell:.1}");
    println!("jobs started and ended per second, {} at once {rate:.0}", args.jobs);
    println!("whole run of those, evenkeel / shell loop       {ratio:.2}");
    Ok(())
}

/// The whole run of `n` jobs that do nothing, in milliseconds.
fn evenkeel(n: usize, round: u32) -> anyhow::Result<f64> {
    let workload = format!("[[job]]\nname = \"j\"\ncommand = [\"true\"]\ncopies = {n}\n");
    let begin = Instant::now();
    Run::start(&format!("start-{n}-{round}"), &workload, "dfs")?.finish()?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// From the start of evenkeel until its first job, `date`, asks the clock, in milliseconds.
fn first_job(round: u32) -> anyhow::Result<f64> {
    let workload = "[[job]]\nname = \"j\"\ncommand = [\"date\", \"+%s%N\"]\n";
    let begin = SystemTime::now();
    let run = Run::start(&format!("first-{round}"), workload, "dfs")?;
    let output = run.output("j");
    run.finish()?;
    since(begin, &std::fs::read_to_string(output)?)
}

/// The same program started by a shell.
fn first_program() -> anyhow::Result<f64> {
    let begin = SystemTime::now();
    let output = Command::new("sh").args(["-c", "date +%s%N; :"]).output()?;
    since(begin, &String::from_utf8_lossy(&output.stdout))
}

fn since(begin: SystemTime, nanos: &str) -> anyhow::Result<f64> {
    let then = UNIX_EPOCH + Duration::from_nanos(nanos.trim().parse()?);
    Ok(then.duration_since(begin).context("the clock was set back")?.as_secs_f64() * 1e3)
}

fn shell(n: usize) -> anyhow::Result<f64> {
    let script = format!("i=0; while [ $i -lt {n} ]; do /bin/true & i=$((i+1)); done; wait");
    let begin = Instant::now();
    Command::new("sh").args(["-c", &script]).status()?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}
