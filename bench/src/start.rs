//! Start latency and start rate, alternating with a shell that starts the same programs (A B A B): time until the first
//! job runs, makespan with one job, and makespan with a thousand concurrent jobs.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use crate::ab::PairedRuns;
use crate::evenkeel::{self, EvenkeelRun};
use crate::stats::MedianRange;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the number of rounds, each with evenkeel and a shell
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Set the number of jobs that are started concurrently
    #[arg(long, default_value_t = 1000)]
    jobs: usize,
}

impl Default for Args {
    fn default() -> Self {
        Args { rounds: 5, jobs: 1000 }
    }
}

pub fn main(args: &Args) -> anyhow::Result<()> {
    evenkeel::build()?;
    let (mut first, mut one, mut many) = <(PairedRuns, PairedRuns, PairedRuns)>::default();
    let mut rates = Vec::new();
    for round in 0..args.rounds.max(1) {
        let first_ms = first_job(round)?;
        first.push(first_program()?, first_ms);
        let one_ms = evenkeel(1, round)?;
        one.push(shell(1)?, one_ms);
        let many_ms = evenkeel(args.jobs, round)?;
        many.push(shell(args.jobs)?, many_ms);
        // Time of all jobs after the first job: start, exit and reaping.
        rates.push(1e3 * (args.jobs - 1) as f64 / (many_ms - one_ms));
    }
    evenkeel::remove_runs()?;
    let (rate, ratio) = (MedianRange::of(rates), MedianRange::of(many.ratios()));
    println!("median (lowest to highest) of {} rounds, alternating with a shell loop", args.rounds);
    println!("start until the first job reads the clock, ms    {:.1}", first.b());
    println!("the same with a shell, ms                       {:.1}", first.a());
    println!("whole run of one empty job, ms                  {:.1}", one.b());
    println!("the same with a shell, ms                       {:.1}", one.a());
    println!("jobs started and finished per second, {} concurrently {rate:.0}", args.jobs);
    println!("whole run of these, evenkeel / shell loop       {ratio:.2}");
    Ok(())
}

/// Measures the wall time of a run of `n` empty jobs, in ms.
fn evenkeel(n: usize, round: u32) -> anyhow::Result<f64> {
    let workload = format!("[[job]]\nname = \"j\"\ncommand = [\"true\"]\ncopies = {n}\n");
    let begin = Instant::now();
    EvenkeelRun::start(&format!("start-{n}-{round}"), &workload, "dfs")?.finish()?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// Measures the time from the start of evenkeel until its first job, `date`, reads the clock, in ms.
fn first_job(round: u32) -> anyhow::Result<f64> {
    let workload = "[[job]]\nname = \"j\"\ncommand = [\"date\", \"+%s%N\"]\n";
    let begin = SystemTime::now();
    let run = EvenkeelRun::start(&format!("first-{round}"), workload, "dfs")?;
    let output = run.output("j");
    run.finish()?;
    since(begin, &std::fs::read_to_string(output)?)
}

/// Measures the start time of a program that a shell starts.
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
