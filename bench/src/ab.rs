//! A/B harness: two commands or operations are measured alternately, so that drift of the machine affects both equally.
//!
//! ```text
//!   A ── B ── A ── B ── A ── B …
//!   └ratio┘   └ratio┘   └ratio┘       one ratio B / A per round
//! ```
//!
//! The result is the median of the paired ratios with its 95 % bootstrap interval (BCa, [`lab::stats::interval`]). The
//! interval requires independent rounds, and no assumption on the distribution of the noise. With `--limit`, the
//! command fails if an interval is entirely above the limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use lab::stats::{self, ConfidenceInterval};

use crate::stats::{MedianRange, cpu_time_of_children};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// First command, the baseline; a shell runs it
    a: String,
    /// Second command
    b: String,
    /// Set the number of rounds, each with both commands
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    rounds: u32,
    /// Compare these values of each run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "wall")]
    metric: Vec<Metric>,
    /// Fail if a 95 % interval of a ratio is entirely above this ratio
    #[arg(long, value_name = "RATIO")]
    limit: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Metric {
    /// Wall time
    Wall,
    /// CPU time of the command and its children
    Cpu,
    /// Every line of standard output with a decimal number: the text before it is the name of the value
    Printed,
}

type NamedValues = BTreeMap<String, f64>;

/// Paired measurements of A and B.
#[derive(Clone, Debug, Default)]
pub struct PairedRuns(Vec<(f64, f64)>);

impl PairedRuns {
    pub fn push(&mut self, a: f64, b: f64) {
        self.0.push((a, b));
    }

    pub fn a(&self) -> MedianRange {
        MedianRange::of(self.0.iter().map(|pair| pair.0).collect())
    }

    pub fn b(&self) -> MedianRange {
        MedianRange::of(self.0.iter().map(|pair| pair.1).collect())
    }

    /// Returns the ratios B / A of the rounds.
    pub fn ratios(&self) -> Vec<f64> {
        self.0.iter().map(|(a, b)| b / a).collect()
    }

    /// Computes the 95 % interval of the median ratio. Returns `None` for a single round.
    pub fn interval(&self) -> Option<ConfidenceInterval> {
        let ratios = self.ratios();
        let median = |indices: &[usize]| {
            stats::median(&indices.iter().map(|&idx| ratios[idx]).collect::<Vec<_>>())
        };
        stats::interval(ratios.len(), median)
    }
}

impl fmt::Display for PairedRuns {
    /// Formats the result: `1.02 [0.99, 1.05]: no difference`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = MedianRange::of(self.ratios()).median;
        match self.interval() {
            None => write!(f, "{median:.3} (one round, no interval)"),
            Some(interval) => {
                let verdict = match interval {
                    ConfidenceInterval { low, .. } if 1.0 < low => "B is larger",
                    ConfidenceInterval { high, .. } if high < 1.0 => "B is smaller",
                    _ => "no difference found",
                };
                write!(f, "{median:.3} [{:.3}, {:.3}]: {verdict}", interval.low, interval.high)
            }
        }
    }
}

pub fn main(args: &Args) -> anyhow::Result<()> {
    let mut points: BTreeMap<String, PairedRuns> = BTreeMap::new();
    let mut unpaired = BTreeSet::new();
    for _ in 0..args.rounds {
        let (a, mut b) = (run(&args.a, &args.metric)?, run(&args.b, &args.metric)?);
        for (name, value) in a {
            match b.remove(&name) {
                Some(other) => points.entry(name).or_default().push(value, other),
                None => _ = unpaired.insert(name),
            }
        }
        unpaired.extend(b.into_keys());
    }
    ensure!(!points.is_empty(), "the outputs have no metric in common");
    println!("A: {}\nB: {}\n{} rounds; median (lowest to highest)", args.a, args.b, args.rounds);
    for (name, pairs) in &points {
        println!("{name}\n  A {:.4}   B {:.4}", pairs.a(), pairs.b());
        println!("  B / A, 95 % interval: {pairs}");
    }
    for name in unpaired {
        println!("printed by only one of the two commands in at least one round: {name}");
    }
    args.limit.map_or(Ok(()), |limit| check_limit(&points, limit))
}

fn check_limit(points: &BTreeMap<String, PairedRuns>, limit: f64) -> anyhow::Result<()> {
    let is_above = |pairs: &PairedRuns| pairs.interval().is_some_and(|ratio| limit < ratio.low);
    let above = points.iter().filter(|(_, pairs)| is_above(pairs));
    let names: Vec<&str> = above.map(|(name, _)| name.as_str()).collect();
    ensure!(names.is_empty(), "the interval is above {limit} for: {}", names.join("; "));
    println!("{} values: every interval includes or is below {limit}", points.len());
    Ok(())
}

fn run(command: &str, metrics: &[Metric]) -> anyhow::Result<NamedValues> {
    let (start, cpu_before) = (Instant::now(), cpu_time_of_children());
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {command}"))?;
    let wall_s = start.elapsed().as_secs_f64();
    let cpu = cpu_time_of_children().saturating_sub(cpu_before);
    ensure!(output.status.success(), "{command}: {}", output.status);
    let mut values = NamedValues::new();
    for metric in metrics {
        match metric {
            Metric::Wall => _ = values.insert("wall time, s".to_owned(), wall_s),
            Metric::Cpu => _ = values.insert("CPU time, s".to_owned(), cpu.as_secs_f64()),
            Metric::Printed => values.extend(printed(&String::from_utf8_lossy(&output.stdout))),
        }
    }
    Ok(values)
}

/// Reads the first decimal number of each line. The words before the number are its name.
fn printed(text: &str) -> NamedValues {
    let mut values = NamedValues::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let decimal = |word: &str| word.contains('.').then(|| word.parse::<f64>().ok()).flatten();
        let Some(idx) = words.iter().position(|word| decimal(word).is_some()) else { continue };
        let (name, value) = (words[..idx].join(" "), decimal(words[idx]));
        if let Some(value) = value.filter(|value| 0.0 < *value && !name.is_empty()) {
            values.insert(name, value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_decimal_number_of_a_line_is_its_value() {
        let values = printed(
            "1000 jobs of 10 tasks  declared 1.250 (1.1 to 1.3) 200\n| runs | 12.50 |\n12\n",
        );
        assert_eq!(values["1000 jobs of 10 tasks declared"], 1.25);
        assert_eq!(values["| runs |"], 12.5);
        assert_eq!(values.len(), 2);
    }

    #[test]
    fn a_difference_is_reported_only_if_the_interval_excludes_1() {
        let pairs =
            |ratios: &[f64]| PairedRuns(ratios.iter().map(|ratio| (2.0, 2.0 * ratio)).collect());
        let noise = pairs(&[0.9, 1.1, 0.95, 1.05, 1.02, 0.99]).to_string();
        assert!(noise.ends_with("no difference found"), "{noise}");
        let larger = pairs(&[1.2, 1.21, 1.19, 1.2, 1.22, 1.2]).to_string();
        assert!(larger.ends_with("B is larger"), "{larger}");
        assert!(pairs(&[1.2]).to_string().contains("no interval"));
    }

    #[test]
    fn only_an_interval_entirely_above_the_limit_fails() {
        let pairs = |ratios: [f64; 4]| PairedRuns(ratios.map(|ratio| (2.0, 2.0 * ratio)).into());
        let points = |ratios| BTreeMap::from([("1 sleeping".to_owned(), pairs(ratios))]);
        assert!(check_limit(&points([0.9, 1.2, 1.0, 1.3]), 1.05).is_ok());
        assert!(check_limit(&points([0.9, 0.91, 0.9, 0.92]), 1.05).is_ok());
        let error = check_limit(&points([1.2, 1.21, 1.2, 1.22]), 1.05).unwrap_err();
        assert_eq!(error.to_string(), "the interval is above 1.05 for: 1 sleeping");
    }
}
