//! A/B harness: two things measured alternately, so that drift of the machine affects both equally.
//!
//! ```text
//!   A ── B ── A ── B ── A ── B …
//!   └ratio┘   └ratio┘   └ratio┘       one ratio B / A per round
//! ```
//!
//! The result is the median of the paired ratios with its 95 % bootstrap interval (BCa, [`lab::stats::interval`]). It needs no
//! assumption about the distribution of the noise, only that rounds are independent.

use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use lab::stats::{self, Interval};

use crate::stats::{MedianRange, cpu_time_of_children};

/// Options of `bench ab`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// First command, the baseline; a shell runs it
    a: String,
    /// Second command
    b: String,
    /// Set the number of rounds, each with both commands
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    rounds: u32,
    /// Compare this value of each run
    #[arg(long, value_enum, default_value_t = Metric::Wall)]
    metric: Metric,
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

/// Values of one run by name.
type NamedValues = BTreeMap<String, f64>;

/// Paired measurements of A and B.
#[derive(Clone, Debug, Default)]
pub struct PairedRuns(Vec<(f64, f64)>);

impl PairedRuns {
    /// Adds one round.
    pub fn push(&mut self, a: f64, b: f64) {
        self.0.push((a, b));
    }

    pub fn a(&self) -> MedianRange {
        MedianRange::of(self.0.iter().map(|pair| pair.0).collect())
    }

    pub fn b(&self) -> MedianRange {
        MedianRange::of(self.0.iter().map(|pair| pair.1).collect())
    }

    /// Ratios B / A of the rounds.
    pub fn ratios(&self) -> Vec<f64> {
        self.0.iter().map(|(a, b)| b / a).collect()
    }

    /// 95 % interval of the median ratio. `None` for a single round.
    pub fn interval(&self) -> Option<Interval> {
        let ratios = self.ratios();
        stats::interval(ratios.len(), |places| {
            stats::median(&places.iter().map(|&place| ratios[place]).collect::<Vec<_>>())
        })
    }
}

impl fmt::Display for PairedRuns {
    /// `1.02 [0.99, 1.05]: no difference`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = MedianRange::of(self.ratios()).median;
        match self.interval() {
            None => write!(f, "{median:.3} (one round, no interval)"),
            Some(interval) => {
                let verdict = match interval {
                    Interval { low, .. } if 1.0 < low => "B is larger",
                    Interval { high, .. } if high < 1.0 => "B is smaller",
                    _ => "no difference found",
                };
                write!(f, "{median:.3} [{:.3}, {:.3}]: {verdict}", interval.low, interval.high)
            }
        }
    }
}

pub fn main(args: &Args) -> anyhow::Result<()> {
    let mut points: BTreeMap<String, PairedRuns> = BTreeMap::new();
    let mut n_missing = 0;
    for _ in 0..args.rounds {
        let (a, b) = (run(&args.a, args.metric)?, run(&args.b, args.metric)?);
        n_missing += a.keys().filter(|name| !b.contains_key(*name)).count();
        for (name, value) in a {
            if let Some(other) = b.get(&name) {
                points.entry(name).or_default().push(value, *other);
            }
        }
    }
    ensure!(!points.is_empty(), "the commands print no decimal number under the same name");
    println!("A: {}\nB: {}\n{} rounds; median (lowest to highest)", args.a, args.b, args.rounds);
    for (name, pairs) in &points {
        println!("{name}\n  A {:.4}   B {:.4}", pairs.a(), pairs.b());
        println!("  B / A, 95 % interval: {pairs}");
    }
    if n_missing != 0 {
        println!("{n_missing} values of A have no value of the same name in B");
    }
    Ok(())
}

fn run(command: &str, metric: Metric) -> anyhow::Result<NamedValues> {
    let (start, cpu_before) = (Instant::now(), cpu_time_of_children());
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {command}"))?;
    let wall_s = start.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("{command}: {}", output.status);
    }
    Ok(match metric {
        Metric::Wall => NamedValues::from([("wall time, s".to_owned(), wall_s)]),
        Metric::Cpu => {
            let cpu = cpu_time_of_children().saturating_sub(cpu_before);
            NamedValues::from([("CPU time, s".to_owned(), cpu.as_secs_f64())])
        }
        Metric::Printed => printed(&String::from_utf8_lossy(&output.stdout)),
    })
}

/// The first decimal number of each line, named by the words before it.
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
}
