//! Figures 8 to 10: the time of each set over alpha and beta, and the order of the best values over the platforms.
//!
//! A pair of values is *as good as the best* unless it is slower than the best pair on the same draws (Wilcoxon
//! signed-rank test, corrected by Holm for all pairs). The published order is judged only if the ranges of alpha that
//! are as good as the best do not overlap. Few draws cannot separate any pair, and nothing is judged then.
//!
//! Alpha weighs the whole run against the last intervals. Without phases alpha changes the time saved by less than
//! its interval, so every program has the phases of a draw: [`super::super::phases`]. A seed is also the number of its
//! draw.

use std::collections::BTreeSet;

use report::format::{fixed, signed};
use report::study::{ChartKind, RuleReading, StudyCell};

use super::super::finding::judged_claim;
use super::super::{Finding, FindingTable, Gain, ReproduceError, RunPool};
use super::{BASELINE, DIVERSE, PLATFORMS, Platform, SETS};
use crate::stats::{P_MAX, holm, pairs_needed, signed_rank};

const ALPHAS: [&str; 11] =
    ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"];
const BETAS: [&str; 6] = ["0", "0.1", "0.2", "0.3", "0.4", "0.5"];

/// The readings of the rules, with the parameter that selects each.
const READINGS: [(RuleReading, &str); 2] =
    [(RuleReading::Corrected, ""), (RuleReading::Paper, "reading=paper,")];

/// Range of the values that are as good as the best: smallest, best, largest.
type Range = [f64; 3];

pub(super) fn search(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let mut finding = Finding::default();
    for (reading, param) in READINGS {
        search_reading(pool, (reading, param), &mut finding)?;
    }
    finding.notes.push(
        format!(
            "not judged: a range of values is as good as the best, and the order depends on the choice within it; fewer \
             than {} draws cannot separate two of {} pairs",
            pairs_needed(ALPHAS.len() * BETAS.len() - 1),
            ALPHAS.len() * BETAS.len(),
        ),
    );
    Ok(finding)
}

/// Adds the maps and the verdicts with one reading of the rules.
fn search_reading(
    pool: &RunPool<'_>,
    (reading, param): (RuleReading, &str),
    finding: &mut Finding,
) -> Result<(), ReproduceError> {
    let mut ranges = Vec::new();
    for platform in &PLATFORMS {
        ranges.push(search_platform(pool, platform, param, finding)?);
    }
    if let [uma, numa1, numa2] = &ranges[..] {
        let order = "alpha(UMA) < alpha(NUMA2) < alpha(NUMA1)";
        let found = |which: usize| {
            let of = |name: &str, ranges: &(Range, Range)| {
                let range = if which == 0 { ranges.0 } else { ranges.1 };
                format!(
                    "{name} {} ({} to {})",
                    fixed(range[1], 1),
                    fixed(range[0], 1),
                    fixed(range[2], 1)
                )
            };
            [of("UMA", uma), of("NUMA2", numa2), of("NUMA1", numa1)].join(", ")
        };
        let orders = [(uma.0, numa2.0), (numa2.0, numa1.0)].map(|(low, high)| is_below(low, high));
        let is_true = match orders {
            [Some(true), Some(true)] => Some(true),
            _ if orders.contains(&Some(false)) => Some(false),
            _ => None,
        };
        finding.claims.push(judged_claim(
            &format!("the best values have the order {order}"),
            reading,
            format!("best and, in brackets, as good as the best: {}", found(0)),
            is_true,
        ));
        let is_zero = match uma.1 {
            [_, 0.0, _] => Some(true),
            [0.0, ..] => None,
            _ => Some(false),
        };
        let text = format!("best and, in brackets, as good as the best: {}", found(1));
        finding.claims.push(judged_claim("the best beta on UMA is 0", reading, text, is_zero));
    }
    Ok(())
}

/// Returns whether all values of a range are below those of another range; `None` if the ranges overlap.
fn is_below(low: Range, high: Range) -> Option<bool> {
    match (low, high) {
        _ if low[2] < high[0] => Some(true),
        _ if high[2] <= low[0] => Some(false),
        _ => None,
    }
}

/// Adds a map per set of one platform. Returns the ranges of alpha and of beta that are as good as the best.
fn search_platform(
    pool: &RunPool<'_>,
    platform: &Platform,
    param: &str,
    finding: &mut Finding,
) -> Result<(Range, Range), ReproduceError> {
    let seeds = pool.seeds();
    let pairs: Vec<(usize, usize)> = (0..ALPHAS.len())
        .flat_map(|alpha| (0..BETAS.len()).map(move |beta| (alpha, beta)))
        .collect();
    let policy = |(alpha, beta): &(usize, usize)| {
        format!("ib[{param}alpha={},beta={}]", ALPHAS[*alpha], BETAS[*beta])
    };
    let policies: Vec<String> =
        std::iter::once(BASELINE.to_owned()).chain(pairs.iter().map(policy)).collect();
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let mut by_seed: Vec<Vec<Vec<(u64, f64)>>> = vec![vec![Vec::new(); SETS.len()]; pairs.len()];
    for seed in seeds {
        let testbed = platform.testbed(" phases")?.drawn(*seed);
        let runs = pool.run(&testbed, &policies, &SETS, &[*seed])?;
        for (idx, set) in SETS.iter().enumerate() {
            let copies = testbed.copies(set, None)?;
            for (gains, runs_of) in by_seed.iter_mut().zip(&runs[1..]) {
                let gain = Gain::set_time(&runs_of[idx], &runs[0][idx], &copies);
                gains[idx].extend(gain.of_seed(*seed).map(|gain| (*seed, gain)));
            }
        }
    }
    let by_pair: Vec<Vec<Gain>> =
        by_seed.into_iter().map(|sets| sets.into_iter().map(Gain::by_seed).collect()).collect();
    for (idx, set) in SETS.iter().enumerate() {
        let gain = |pair: usize| &by_pair[pair][idx];
        let title = format!(
            "{}, {set}: time saved against linux in % by ib{}; alpha down, beta across",
            platform.name,
            if param.is_empty() { "" } else { " as printed" }
        );
        let heads = BETAS.map(|beta| format!("beta {beta}"));
        let heads: Vec<&str> =
            std::iter::once("alpha").chain(heads.iter().map(String::as_str)).collect();
        let mut table = FindingTable::new(&title, &heads).units(&["%"]).drawn(ChartKind::Heat);
        for (row, alpha) in ALPHAS.iter().enumerate() {
            let cells = (0..BETAS.len()).map(|beta| {
                let gain = gain(row * BETAS.len() + beta);
                let values = gain.study_value("%").into_iter().collect();
                StudyCell::new(signed(gain.mean * 100.0, 1), values)
            });
            table.row(std::iter::once(StudyCell::from(*alpha)).chain(cells));
        }
        finding.tables.push(table);
    }
    let means: Vec<Gain> = by_pair.iter().map(|gains| Gain::mean_of(&gains[..DIVERSE])).collect();
    // Of equal pairs the first, with the smallest values.
    let order = (0..means.len()).rev();
    let best = order.max_by(|one, other| means[*one].mean.total_cmp(&means[*other].mean));
    let best = best.expect("the grid has pairs");
    let p = |pair: &Gain| signed_rank(&means[best].minus(pair).each);
    let others: Vec<usize> = (0..means.len()).filter(|pair| *pair != best).collect();
    let corrected = holm(&others.iter().map(|pair| p(&means[*pair])).collect::<Vec<f64>>());
    let slower: BTreeSet<usize> = others
        .into_iter()
        .zip(corrected)
        .filter(|(_, p)| *p < P_MAX)
        .map(|(pair, _)| pair)
        .collect();
    let is_as_good = |pair: &usize| !slower.contains(pair);
    let as_good: Vec<usize> = (0..means.len()).filter(is_as_good).collect();
    let range = |value: &dyn Fn(usize) -> f64| {
        let ends = as_good.iter().map(|pair| value(*pair));
        let (low, high) = ends
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        [low, value(best), high]
    };
    let alpha = |pair: usize| pairs[pair].0 as f64 / 10.0;
    let beta = |pair: usize| pairs[pair].1 as f64 / 10.0;
    Ok((range(&alpha), range(&beta)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_have_no_order() {
        let (low, high) = ([0.1, 0.2, 0.3], [0.5, 0.6, 0.9]);
        assert_eq!((is_below(low, high), is_below(high, low)), (Some(true), Some(false)));
        assert_eq!(is_below(low, [0.3, 0.6, 0.9]), None);
    }
}
