//! Figure 8a over every mix of given group sizes, since the paper prints no compositions.
//!
//! ```text
//!   (2,2,2)   lbm lbm | sphinx sphinx | sp.B sp.B   …   lu.B lu.B | streamcluster streamcluster | gromacs gromacs
//!             6 multisets of Group 1 × 6 of Group 2 × 15 of Group 3 = 540 mixes
//! ```
//!
//! Each mix runs once, with the same seed for all policies.

use report::study::{ChartKind, RuleReading, StudyClaim, StudyValue};

use super::super::finding::{judged, with_values};
use super::super::published_groups::{ELEVEN, group_of_eleven};
use super::super::{Finding, ReproduceError, RunPool, Table, Testbed};
use super::programs::thresholds;
use crate::shipped::Draw;
use crate::stats::{mean, quantile};

/// Sizes of Groups 1, 2 and 3.
const SIZES: [([usize; 3], Kind); 7] = [
    ([2, 2, 2], Kind::Contended),
    ([3, 3, 0], Kind::Contended),
    ([4, 4, 0], Kind::Contended),
    ([3, 3, 2], Kind::Contended),
    ([3, 0, 3], Kind::Other),
    ([2, 0, 4], Kind::Basic8),
    ([2, 0, 6], Kind::Basic8),
];

/// The claim for a size.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Two or more programs of Group 1 and of Group 2.
    Contended,
    /// A possible composition of Basic 8.
    Basic8,
    /// No claim.
    Other,
}

/// Name, reading and policy of every version; `{}` stands for the thresholds.
const VERSIONS: [(&str, RuleReading, &str); 4] = [
    ("rank", RuleReading::Paper, "divided[reading=paper,version=rank]"),
    ("rank", RuleReading::Ours, "divided[version=rank]"),
    ("threshold", RuleReading::Paper, "divided[reading=paper,version=threshold,{}]"),
    ("threshold", RuleReading::Ours, "divided[version=threshold,{}]"),
];
const HEADS: [&str; 4] = ["rank: paper", "rank: ours", "threshold: paper", "threshold: ours"];

/// Mixes that are prepared at a time.
const BATCH: usize = 64;

/// All ways to select `n` elements with repetition, in order.
fn multisets(of: &[usize], n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let from = |idx: usize| {
        multisets(&of[idx..], n - 1)
            .into_iter()
            .map(move |rest| std::iter::once(of[idx]).chain(rest).collect())
    };
    (0..of.len()).flat_map(from).collect()
}

/// All mixes of a size, as names of workloads.
fn mixes(sizes: [usize; 3]) -> Vec<String> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for (group, size) in (1..).zip(sizes) {
        let members: Vec<usize> =
            (0..ELEVEN.len()).filter(|idx| group_of_eleven(*idx) == group).collect();
        let sets = multisets(&members, size);
        let longer = |mix: &Vec<usize>| {
            sets.iter().map(|set| [&mix[..], set].concat()).collect::<Vec<Vec<usize>>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let named = |mix: &Vec<usize>| {
        let names: Vec<&str> = mix.iter().map(|idx| ELEVEN[*idx]).collect();
        format!("programs:{}", names.join("+"))
    };
    all.iter().map(named).collect()
}

pub(super) fn all(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let mut finding = Finding::default();
    let heads: Vec<&str> = ["groups", "mixes"].into_iter().chain(HEADS).collect();
    let mut means = Table::new("mean gain over Linux 4.2 in %, NUMA balancing on", &heads)
        .units(&["count", "%"]);
    let heads: Vec<&str> = std::iter::once("groups").chain(HEADS).collect();
    let mut ranges = Table::new("range of 90 % of the mixes, in %", &heads)
        .units(&["%"])
        .drawn(ChartKind::Intervals);
    for (sizes, kind) in SIZES {
        let [one, two, three] = sizes;
        let name = format!("{one},{two},{three}");
        let mixes = mixes(sizes);
        let gains = gains(pool, &mixes)?;
        let cells = gains.iter().map(|gains| shown(gains, |gains| format!("{:+.1}", mean(gains))));
        means.row([name.clone(), mixes.len().to_string()].into_iter().chain(cells));
        let range = |gains: &[f64]| {
            format!("{:+.1} to {:+.1}", quantile(gains, 0.05), quantile(gains, 0.95))
        };
        let cells = gains.iter().map(|gains| shown(gains, range));
        ranges.row(std::iter::once(name.clone()).chain(cells));
        finding.claims.extend(claims(&name, kind, &gains));
    }
    finding.tables.extend([means, ranges]);
    Ok(finding)
}

/// Gains in % of every version on these mixes.
fn gains(pool: &RunPool<'_>, mixes: &[String]) -> Result<[Vec<f64>; 4], ReproduceError> {
    let testbed = Testbed::parse("xeon-2x4")?;
    let limits = thresholds(&testbed.machine, Draw::Middle)?;
    let policies =
        VERSIONS.map(|(.., policy)| format!("{}@numa-balancing", policy.replace("{}", &limits)));
    let seed = [pool.seeds().first().copied().unwrap_or(1)];
    let all: Vec<&str> =
        policies.iter().map(String::as_str).chain(["linux@numa-balancing"]).collect();
    let mut gains: [Vec<f64>; 4] = Default::default();
    for batch in mixes.chunks(BATCH) {
        let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
        pool.run_seeds(&testbed, &all, &batch, &seed)?;
        for (policy, gains) in policies.iter().zip(&mut gains) {
            for mix in &batch {
                let own = pool.run_seeds(&testbed, &[policy], &[mix], &seed)?;
                let base = pool.run_seeds(&testbed, &["linux@numa-balancing"], &[mix], &seed)?;
                let gain = own.speedup(&base, None);
                gains.extend((!gain.is_empty()).then_some(gain.mean * 100.0));
            }
        }
    }
    Ok(gains)
}

fn shown(gains: &[f64], how: impl Fn(&[f64]) -> String) -> String {
    if gains.is_empty() { "–".to_owned() } else { how(gains) }
}

fn claims(name: &str, kind: Kind, gains: &[Vec<f64>; 4]) -> Vec<StudyClaim> {
    let (range, words) = match kind {
        Kind::Contended => (3.0..=10.0, "mean gain between 3 and 10 %"),
        Kind::Basic8 => (-2.0..=2.0, "mean gain within 2 % of 0"),
        Kind::Other => return Vec::new(),
    };
    let claim = |((version, reading, _), gains): (&(&str, RuleReading, &str), &Vec<f64>)| {
        let n_above = gains.iter().filter(|gain| 0.0 < **gain).count();
        let n_within = gains.iter().filter(|gain| range.contains(*gain)).count();
        let mean_gain = super::super::finding::mean_of(gains);
        let claim = judged(
            &format!("{name}, {version} version: {words}"),
            *reading,
            format!(
                "{}; {n_within} of {} mixes within, {n_above} above 0",
                shown(gains, |gains| format!("{:+.1} %", mean(gains))),
                gains.len()
            ),
            mean_gain.map(|gain| range.contains(&gain)),
        );
        with_values(claim, mean_gain.map(|gain| StudyValue::of(gain, "%")))
    };
    VERSIONS.iter().zip(gains).map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixes_of_a_size_are_all_multisets() {
        let n = SIZES.map(|(sizes, _)| mixes(sizes).len());
        assert_eq!(n, [540, 100, 225, 1500, 350, 420, 1260]);
        let first = mixes([2, 0, 4]).remove(0);
        assert_eq!(first, "programs:lbm+lbm+sp.B+sp.B+sp.B+sp.B");
    }
}
