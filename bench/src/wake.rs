//! CPU time of evenkeel while it waits for counter overflows, compared with polling.
//!
//! ```text
//!   jobs with few events     poll  overflow  poll  overflow  …     one run each
//!   jobs with many events    poll  overflow  poll  overflow  …
//! ```
//!
//! The value of a run is the share of one CPU that evenkeel uses in one window after all jobs have started. The result
//! is the paired ratio. Overflow interrupts (one per CPU and turn) run in the time of the jobs; their cost is not
//! included.

use std::fs;
use std::time::Duration;

use anyhow::Context;

use crate::ab::PairedRuns;
use crate::evenkeel::{self, EvenkeelRun};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Count this event: page-faults, context-switches, llc-misses, …
    #[arg(long, default_value = "page-faults")]
    event: String,
    /// Start a turn after this many events on one CPU
    #[arg(long, default_value_t = 2000)]
    every: u64,
    /// Set the number of jobs per run
    #[arg(long, default_value_t = 16)]
    jobs: usize,
    /// Set the number of rounds, each with a run of either kind
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Set the length of the window in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

impl Default for Args {
    fn default() -> Self {
        let event = "page-faults".to_owned();
        Args { event, every: 2000, jobs: 16, rounds: 5, seconds: 5 }
    }
}

/// Jobs with few events, and jobs with many events: after a fork, a shell has a page fault on each page that it writes.
const ROWS: [(&str, &str); 2] = [
    ("few events", r#"["sh", "-c", "while :; do :; done"]"#),
    ("many events", r#"["sh", "-c", "while :; do (:); done"]"#),
];

pub fn main(args: &Args) -> anyhow::Result<()> {
    evenkeel::build()?;
    println!(
        "CPU time of evenkeel, waiting for {} {} on a CPU / polling, {} busy jobs, interval 250 ms;",
        args.every, args.event, args.jobs
    );
    println!(
        "median (lowest to highest) of {} rounds, windows of {} s, A B A B",
        args.rounds, args.seconds
    );
    println!(
        "| jobs | overflow / poll, 95 % interval | interval turns per second: poll | overflow |"
    );
    println!("| --- | --- | --- | --- |");
    let waits = format!("dfs[wake=overflow:{}:{}]", args.event, args.every);
    for (label, command) in ROWS {
        let (mut shares, mut turns) = (PairedRuns::default(), PairedRuns::default());
        for _ in 0..args.rounds.max(1) {
            let poll = measure_run(label, command, "dfs", args)?;
            let overflow = measure_run(label, command, &waits, args)?;
            shares.push(poll.share, overflow.share);
            turns.push(poll.turns_per_s, overflow.turns_per_s);
        }
        println!("| {label} | {shares} | {:.1} | {:.1} |", turns.a(), turns.b());
    }
    evenkeel::remove_runs()
}

/// Result of a run.
struct WakeCost {
    /// CPU time divided by wall time.
    share: f64,
    turns_per_s: f64,
}

fn measure_run(label: &str, command: &str, policy: &str, args: &Args) -> anyhow::Result<WakeCost> {
    let copies = args.jobs;
    let job = format!("[[job]]\nname = \"j\"\ncommand = {command}\nclass = 5\ncopies = {copies}\n");
    let name = format!("wake-{}-{}", label.replace(' ', "-"), policy.len());
    let run = EvenkeelRun::start(&name, &job, policy)?;
    run.wait_for_children(copies)?;
    std::thread::sleep(Duration::from_secs(1));
    let window = Duration::from_secs(args.seconds.max(1));
    let share = evenkeel::cpu_during(window, || evenkeel::cpu_ns(run.pid()))?.share;
    let journal = run.report().with_file_name("journal.jsonl");
    run.stop()?;
    let text = fs::read_to_string(&journal).context("evenkeel wrote no journal")?;
    // The directory is removed, because the next run uses the same path.
    fs::remove_dir_all(journal.parent().context("a journal is in a directory")?)?;
    Ok(WakeCost { share, turns_per_s: turns_per_s(&text) })
}

/// Counts the interval turns of a journal per second.
fn turns_per_s(journal: &str) -> f64 {
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
