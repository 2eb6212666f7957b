//! Variation between runs: the data behind the random variation of the simulator.
//!
//! ```text
//!   length     CPU time of the same work            standard deviation ÷ mean
//!   sleep      duration of the same sleep           of a timer, and of a wait for the disk
//! ```
//!
//! Other load on the machine affects these values. The standard deviation is derived from the interquartile range of a
//! normal distribution, so the largest disturbances are excluded.

use std::fs::File;
use std::io::{Seek, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::evenkeel;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the number of runs per program
    #[arg(long, default_value_t = 30)]
    runs: usize,
    /// Set the number of sleeps per length, and of waits for the disk
    #[arg(long, default_value_t = 200)]
    sleeps: usize,
    /// Use this evenkeel executable (default: a release build)
    #[arg(long)]
    tool: Option<std::path::PathBuf>,
}

/// Programs: arithmetic in registers, memory in a private cache, memory beyond the caches.
const WORK: &[(&str, &[&str])] = &[
    ("arithmetic", &["compute", "--ops", "400000"]),
    ("256 KiB at random", &["hog", "--size", "256KiB", "--ops", "40000000", "--no-self-check"]),
    ("64 MiB at random", &["hog", "--size", "64MiB", "--ops", "2000000", "--no-self-check"]),
];
/// Requested durations.
const SLEEPS_MS: &[f64] = &[1.0, 10.0, 100.0];
/// Block written with fdatasync.
const BLOCK: [u8; 4096] = [7; 4096];

pub fn main(args: &Args) -> anyhow::Result<()> {
    let tool = evenkeel::executable_or_build(args.tool.as_deref())?;
    println!("relative to the mean: standard deviation, and the same from the interquartile range");
    for (name, words) in WORK {
        let words = [&["load"], *words, &["--json"]].concat();
        let run = |_| cpu_s(&tool, &words);
        let times: Vec<f64> = (0..args.runs.max(4)).map(run).collect::<anyhow::Result<_>>()?;
        row(&format!("CPU time, {name}"), times);
    }
    for &ms in SLEEPS_MS {
        let duration = Duration::from_secs_f64(ms / 1e3);
        let times = (0..args.sleeps.max(4)).map(|_| timed(|| std::thread::sleep(duration)));
        row(&format!("sleep of {ms} ms"), times.collect());
    }
    let mut file = tempfile::tempfile().context("cannot create a temporary file")?;
    let mut write = || -> std::io::Result<()> {
        file.rewind()?;
        file.write_all(&BLOCK)?;
        File::sync_data(&file)
    };
    let mut times = Vec::new();
    for _ in 0..args.sleeps.max(4) {
        let mut written = Ok(());
        times.push(timed(|| written = write()));
        written.context("cannot write to a file")?;
    }
    row("write of 4 KiB with fdatasync", times);
    Ok(())
}

/// CPU time of a built-in program, in seconds.
fn cpu_s(tool: &std::path::Path, words: &[&str]) -> anyhow::Result<f64> {
    let output = Command::new(tool).args(words).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    let result: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    result["cpu_s"].as_f64().context("a program printed no CPU time")
}

fn timed(run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    begin.elapsed().as_secs_f64()
}

/// Prints a row of times in seconds.
fn row(name: &str, times: Vec<f64>) {
    let TimeSpread { mean, deviation, from_quartiles } = variation(times);
    println!("{name:<34} {:>9.3} ms  {deviation:.4}  {from_quartiles:.4}", mean * 1e3);
}

/// Mean, and deviations relative to the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TimeSpread {
    mean: f64,
    deviation: f64,
    from_quartiles: f64,
}

/// Interquartile range of a normal distribution in standard deviations.
const MIDDLE_HALF: f64 = 1.349;

/// Computes the spread. Requires at least four values.
fn variation(mut values: Vec<f64>) -> TimeSpread {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let middle = values[n - 1 - n / 4] - values[n / 4];
    TimeSpread {
        mean,
        deviation: (squares / (n - 1) as f64).sqrt() / mean,
        from_quartiles: middle / MIDDLE_HALF / mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_changes_the_deviation_and_not_the_interquartile_range() {
        let even = variation(vec![9.0, 10.0, 10.0, 11.0, 10.0]);
        assert_eq!((even.mean, even.from_quartiles), (10.0, 0.0));
        assert!((even.deviation - 0.5_f64.sqrt() / 10.0).abs() < 1e-12);
        let outlier = variation(vec![9.0, 10.0, 10.0, 61.0, 10.0]);
        assert_eq!((outlier.mean, outlier.from_quartiles), (20.0, 0.0));
        assert!(1.0 < outlier.deviation);
    }
}
