//! `cargo xtask bench wake`: what it costs evenkeel to wait for counters, beside polling.
//!
//! ```text
//!   busy with few events     poll  overflow  poll  overflow  …     a run each, one after another
//!   busy with many events    poll  overflow  poll  overflow  …
//! ```
//!
//! Of each run the CPU time of evenkeel itself in one window of the steady state, as a share of one
//! CPU. Whole times are not compared between machines: what is told is the ratio within a round. What
//! overflows cost the kernel in the jobs' own time (one interrupt a CPU and turn) is not in it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::stats::Spread;
use super::tool::{self, Run};

/// What is waited for, and how long to look.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What is counted: page-faults, context-switches, llc-misses, …
    #[arg(long, default_value = "page-faults")]
    what: String,
    /// After so many of them on one CPU there is a turn
    #[arg(long, default_value_t = 2000)]
    every: u64,
    /// Jobs of each run
    #[arg(long, default_value_t = 16)]
    jobs: usize,
    /// Rounds: a run of either kind in each
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of the window of a run in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        let what = "page-faults".to_owned();
        Args { what, every: 2000, jobs: 16, rounds: 5, seconds: 5 }
    }
}

/// Jobs that make few events, and jobs that make many: a shell that forks faults on each page anew.
const ROWS: [(&str, &str); 2] = [
    ("few events", r#"["sh", "-c", "while :; do :; done"]"#),
    ("many events", r#"["sh", "-c", "while :; do (:); done"]"#),
];

/// Measures and prints.
pub fn run(args: &Args) -> anyhow::Result<()> {
    tool::build()?;
    println!(
        "CPU of evenkeel, waiting for {} {} on a CPU / polling, {} busy jobs, interval 250 ms;",
        args.every, args.what, args.jobs
    );
    println!(
        "median (lowest to highest) of {} rounds, windows of {} s, A B A B",
        args.rounds, args.seconds
    );
    println!("| jobs | overflow / poll | interval turns a second: poll | overflow |");
    println!("| --- | --- | --- | --- |");
    let waits = format!("dfs[wake=overflow:{}:{}]", args.what, args.every);
    for (label, command) in ROWS {
        let (mut ratios, mut polled, mut woken) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..args.rounds.max(1) {
            let poll = one(label, command, "dfs", args)?;
            let overflow = one(label, command, &waits, args)?;
            ratios.push(overflow.share / poll.share);
            polled.push(poll.turns_each_second);
            woken.push(overflow.turns_each_second);
        }
        println!(
            "| {label} | {:.2} | {:.1} | {:.1} |",
            Spread::of(ratios),
            Spread::of(polled),
            Spread::of(woken)
        );
    }
    tool::sweep()
}

/// What a run came to.
struct Cost {
    /// Of one CPU.
    share: f64,
    turns_each_second: f64,
}

fn one(label: &str, command: &str, policy: &str, args: &Args) -> anyhow::Result<Cost> {
    let copies = args.jobs;
    let job = format!("[[job]]\nname = \"j\"\ncommand = {command}\nclass = 5\ncopies = {copies}\n");
    let name = format!("wake-{}-{}", label.replace(' ', "-"), policy.len());
    let run = Run::start(&name, &job, policy)?;
    run.wait_for_children(copies)?;
    std::thread::sleep(Duration::from_secs(1));
    let (begin, before) = (Instant::now(), tool::cpu_ns(run.pid())?);
    std::thread::sleep(Duration::from_secs(args.seconds.max(1)));
    let share = (tool::cpu_ns(run.pid())? - before) as f64 / begin.elapsed().as_nanos() as f64;
    let journal = run.report().with_file_name("journal.jsonl");
    run.stop()?;
    let text = fs::read_to_string(&journal).context("evenkeel left no journal")?;
    // The next run of this name wants the folder.
    fs::remove_dir_all(journal.parent().context("a journal lies in a folder")?)?;
    Ok(Cost { share, turns_each_second: turns_each_second(&text) })
}

/// Interval turns of a journal, over its time.
fn turns_each_second(journal: &str) -> f64 {
    let mut n_turns = 0.0;
    let mut until_s = f64::MIN_POSITIVE;
    for line in journal.lines() {
        let Ok(turn) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let causes = turn["causes"].as_array().into_iter().flatten();
        n_turns += causes.filter(|cause| *cause == "interval").count() as f64;
        until_s = turn["at_ns"].as_f64().map_or(until_s, |ns| until_s.max(ns / 1e9));
    }
    n_turns / until_s
}
