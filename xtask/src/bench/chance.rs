//! How much differs from run to run: sources of the simulator's causes of chance.
//!
//! ```text
//!   length     CPU time of one and the same piece of work      standard deviation ÷ mean
//!   sleep      time of one and the same sleep                  a timer's; and a wait for the disk
//! ```
//!
//! Whoever else is on the machine is in these figures: other programs take caches, memory and the disk. The
//! middle half of the runs, told as the standard deviation of a bell curve with that middle half, shows what it
//! is like without the worst disturbances.

use std::fs::File;
use std::io::{Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::tool;

/// How often to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Runs of each piece of work
    #[arg(long, default_value_t = 30)]
    runs: usize,
    /// Sleeps of each length, and waits for the disk
    #[arg(long, default_value_t = 200)]
    sleeps: usize,
    /// The built program, where this one was built elsewhere
    #[arg(long)]
    tool: Option<std::path::PathBuf>,
}

/// Pieces of work: arithmetic in registers; memory that a cache near the core holds; memory of which much is in none.
const WORK: &[(&str, &[&str])] = &[
    ("arithmetic", &["compute", "--ops", "400000"]),
    ("256 KiB at random", &["hog", "--size", "256KiB", "--ops", "40000000"]),
    ("64 MiB at random", &["hog", "--size", "64MiB", "--ops", "2000000"]),
];
/// Milliseconds asked for.
const SLEEPS_MS: &[f64] = &[1.0, 10.0, 100.0];
/// What is written and waited for.
const BLOCK: [u8; 4096] = [7; 4096];

/// Measures and prints.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let tool = tool::given_or_built(args.tool.as_deref())?;
    println!("parts of the mean: standard deviation, and that of the middle half");
    for (name, words) in WORK {
        let words = [&["load"], *words, &["--json"]].concat();
        let words: Vec<&str> = match words[1] {
            "hog" => [&words[..], &["--no-self-check"]].concat(),
            _ => words,
        };
        let run = |_| cpu_s(&tool, &words);
        let times: Vec<f64> = (0..args.runs.max(4)).map(run).collect::<anyhow::Result<_>>()?;
        row(&format!("CPU time, {name}"), times, 1e3);
    }
    for &ms in SLEEPS_MS {
        let asked = Duration::from_secs_f64(ms / 1e3);
        let times = (0..args.sleeps.max(4)).map(|_| timed(|| std::thread::sleep(asked)));
        row(&format!("sleep of {ms} ms"), times.collect(), 1e3);
    }
    let mut file = tempfile::tempfile().context("cannot make a file to wait for")?;
    let mut write = || -> std::io::Result<()> {
        file.rewind()?;
        file.write_all(&BLOCK)?;
        File::sync_data(&file)
    };
    let mut times = Vec::new();
    for _ in 0..args.sleeps.max(4) {
        let begin = Instant::now();
        write().context("cannot write to a file")?;
        times.push(begin.elapsed().as_secs_f64());
    }
    row("wait until 4 KiB are on the disk", times, 1e3);
    Ok(())
}

/// CPU time of a program of ours, in seconds.
fn cpu_s(tool: &std::path::Path, words: &[&str]) -> anyhow::Result<f64> {
    let output = Command::new(tool).args(words).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    said["cpu_s"].as_f64().context("a program did not say its CPU time")
}

fn timed(act: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    act();
    begin.elapsed().as_secs_f64()
}

fn row(name: &str, times: Vec<f64>, scale: f64) {
    let Parts { mean, deviation, of_middle } = parts(times);
    println!("{name:<34} {:>9.3} ms  {deviation:.4}  {of_middle:.4}", mean * scale);
}

/// The mean, and parts of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parts {
    mean: f64,
    deviation: f64,
    of_middle: f64,
}

/// The middle half of a bell curve is so many standard deviations wide.
const MIDDLE_HALF: f64 = 1.349;

/// Of at least four figures.
fn parts(mut figures: Vec<f64>) -> Parts {
    figures.sort_by(f64::total_cmp);
    let n = figures.len();
    let mean = figures.iter().sum::<f64>() / n as f64;
    let squares = figures.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>();
    let middle = figures[n - 1 - n / 4] - figures[n / 4];
    Parts {
        mean,
        deviation: (squares / (n - 1) as f64).sqrt() / mean,
        of_middle: middle / MIDDLE_HALF / mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_far_off_counts_for_the_deviation_and_not_for_the_middle() {
        let even = parts(vec![9.0, 10.0, 10.0, 11.0, 10.0]);
        assert_eq!((even.mean, even.of_middle), (10.0, 0.0));
        assert!((even.deviation - 0.5_f64.sqrt() / 10.0).abs() < 1e-12);
        let off = parts(vec![9.0, 10.0, 10.0, 61.0, 10.0]);
        assert_eq!((off.mean, off.of_middle), (20.0, 0.0));
        assert!(1.0 < off.deviation);
    }
}
