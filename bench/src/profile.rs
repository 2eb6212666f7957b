//! Accuracy of the cache model: sampled curves compared with exact curves, and exact curves with cachegrind.
//!
//! Each program is traced twice, with all lines and with a sample, and runs under valgrind's cachegrind with
//! three sizes of the last-level cache. The caches of cachegrind have 16 ways, the model is fully associative:
//! results differ where the working set is about as large as the cache.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::evenkeel;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Set the number of lines of the sampled model
    #[arg(long, default_value_t = 2000)]
    lines: u64,
}

impl Default for Args {
    fn default() -> Self {
        Args { lines: 2000 }
    }
}

/// Sizes of the last-level cache.
const SIZES: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Measured command lines; `load` is a program of evenkeel.
const PROGRAMS: [&[&str]; 5] = [
    &["load", "rows", "--n", "512", "--ops", "3", "--no-self-check"],
    &["load", "columns", "--n", "512", "--ops", "3", "--no-self-check"],
    &["load", "hog", "--size", "1M", "--ops", "100000", "--no-self-check"],
    &["sort", "Cargo.lock"],
    &["gzip", "-c", "Cargo.lock"],
];

pub fn main(args: &Args) -> anyhow::Result<()> {
    evenkeel::build()?;
    println!("misses of a whole run: exact reuse distances, a sample of {} lines,", args.lines);
    println!("and cachegrind (16 ways of 64 bytes; first-level caches of 16 KiB)");
    println!(
        "{:<14} {:>6} {:>9} {:>9} {:>8} {:>9} {:>8}",
        "program", "KiB", "exact", "sampled", "error", "cachegr.", "error"
    );
    for words in PROGRAMS {
        compare(words, args)?;
    }
    Ok(())
}

fn compare(words: &[&str], args: &Args) -> anyhow::Result<()> {
    let command = command(words)?;
    let begin = Instant::now();
    let exact = profile(&command, u64::from(u32::MAX))?;
    let took = begin.elapsed().as_secs_f64();
    let sampled = profile(&command, args.lines)?;
    let name = if words[0] == "load" { words[1] } else { words[0] };
    for size in SIZES {
        let (exact, sampled) = (misses(&exact, size)?, misses(&sampled, size)?);
        let simulated = cachegrind(&command, size)? as f64;
        let error = |value: f64, reference: f64| 100.0 * (value / reference - 1.0);
        println!(
            "{name:<14} {:>6} {exact:>9.0} {sampled:>9.0} {:>6.1} % {simulated:>9.0} {:>6.1} %",
            size >> 10,
            error(sampled, exact),
            error(exact, simulated)
        );
    }
    let number = |key: &str| exact[key].as_f64().unwrap_or(0.0);
    let share = sampled["sampled_lines_share"].as_f64().unwrap_or(0.0);
    println!(
        "  {:.1} million references, 1 of {:.0} lines sampled; {:.2} million references per second",
        number("n_references") / 1e6,
        1.0 / share,
        number("n_references") / 1e6 / took
    );
    Ok(())
}

fn command(words: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if words[0] == "load" {
        let tool = evenkeel::path()?;
        command.insert(0, tool.to_str().context("the path is not UTF-8")?.to_owned());
    }
    Ok(command)
}

/// Returns the profile of a whole run in one window.
fn profile(command: &[String], lines: u64) -> anyhow::Result<Value> {
    let output = Command::new(evenkeel::path()?)
        .args(["profile", "--engine", "cache-model", "--once", "--json", "--no-html"])
        .args(["--windows", "1", "--refs", "10G", "--limit", "10min", "--output", "/dev/null"])
        .args(["--lines", &lines.to_string(), "--"])
        .args(command)
        .current_dir(crate::root())
        .output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns the misses of a cache of this size. Beyond the end of the curve the misses are constant.
fn misses(profile: &Value, size: u64) -> anyhow::Result<f64> {
    let points = profile["phases"][0]["curve"].as_array().context("the profile has no curve")?;
    let fits = |point: &&Value| point["cache_bytes"].as_u64().is_some_and(|bytes| bytes <= size);
    let point = points.iter().rev().find(fits).context("the curve has no such size")?;
    let instructions = profile["n_instructions"].as_f64().context("no instructions")?;
    Ok(point["misses_per_1000"].as_f64().context("no misses")? * instructions / 1000.0)
}

/// Runs cachegrind and returns its last-level misses.
fn cachegrind(command: &[String], size: u64) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args(["--I1=16384,4,64", "--D1=16384,4,64", &format!("--LL={size},16,64")])
        .args(command)
        .current_dir(Path::new(&crate::root()))
        .output()
        .context("cannot run valgrind; run apt install valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("LL misses:"));
    let number = line.and_then(|(_, rest)| rest.split_whitespace().next());
    let number = number.context("cachegrind printed no misses")?.replace(',', "");
    Ok(number.parse()?)
}
