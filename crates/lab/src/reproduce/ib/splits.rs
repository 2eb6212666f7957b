//! Every static split of a set over two core kinds. The best split is selected with the first half of the seeds and
//! measured with the other seeds, because the best of many splits is better on the seeds of its selection than on
//! others.
//!
//! ```text
//!   hd1: gamess 2, namd 2, mcf 2, soplex 2     number of copies of each program on the fast cores: 3^4 - 2 splits
//!   each copy is bound to all CPUs of its kind until the end; the kernel balances inside a kind
//! ```

use base::CpuSet;
use report::study::{ChartKind, RuleReading, StudyCell};

use super::super::finding::{judged_claim, percent};
use super::super::gain::{RangeSide, set_s};
use super::super::published_groups::plain_name;
use super::super::testbed::DeclaredClassBasis;
use super::super::{Finding, FindingTable, Gain, ReproduceError, RunPool, Testbed};
use super::{BASELINE, DIVERSE, PLATFORMS, Platform, SETS};
use crate::stats::mean_of;

/// Policies that are compared with the best split; the published alpha and beta replace `{ab}`.
const POLICIES: [&str; 4] =
    ["ib[{ab}]", "ib[reading=paper,{ab}]", "hass-s", "hass-s[reading=paper]"];
/// Largest distance of a policy that equals the best split. Chosen before the first run.
const EQUAL: f64 = 0.02;
/// Smallest published gains of the sets HD and LD over Linux, by platform, in %.
const PUBLISHED_MIN: [[f64; 2]; 3] = [[19.0, 15.0], [16.0, 11.0], [15.0, 17.0]];

pub(super) fn best_splits(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let mut finding = Finding::default();
    for (platform, published) in PLATFORMS.iter().zip(PUBLISHED_MIN) {
        compare(pool, platform, published, &mut finding)?;
    }
    Ok(finding)
}

/// Compares the policies with the best split of each set on one platform.
fn compare(
    pool: &RunPool<'_>,
    platform: &Platform,
    published: [f64; 2],
    finding: &mut Finding,
) -> Result<(), ReproduceError> {
    let testbed = platform.testbed("")?;
    let (selection, seeds) = match pool.seeds() {
        only @ [_] => (only, only),
        all => all.split_at(all.len() / 2),
    };
    let policies = POLICIES.map(|policy| policy.replace("{ab}", &platform.params()));
    let policies: Vec<&str> =
        std::iter::once(BASELINE).chain(policies.iter().map(String::as_str)).collect();
    let runs = pool.run(&testbed, &policies, &SETS, seeds)?;
    let title =
        format!("{}: time saved in % by the best static split, and by policies", platform.name);
    let heads = [
        "set",
        "best split",
        "best",
        "ceiling",
        "ib",
        "ib as printed",
        "hass-s",
        "hass-s as printed",
    ];
    let mut table = FindingTable::new(&title, &heads).units(&["1", "%"]).drawn(ChartKind::Bars);
    let (mut best_gains, mut distances) = (Vec::new(), vec![Vec::new(); POLICIES.len()]);
    for (idx, set) in SETS.iter().enumerate() {
        let copies = testbed.copies(set, None)?;
        let base = &runs[0][idx];
        let Some((split, name, split_testbed)) = best_split(pool, &testbed, set, selection)? else {
            continue;
        };
        let best = pool.run(&split_testbed, &[BASELINE], &[&name], seeds)?;
        let best = Gain::set_time(&best[0][0], base, &copies);
        let least_s = testbed.least_set_s(set)?;
        let ceiling = Gain::paired(base, base, |run, _| Some(1.0 - least_s / set_s(run, &copies)?));
        let gains = runs[1..].iter().map(|runs| Gain::set_time(&runs[idx], base, &copies));
        let gains: Vec<Gain> = gains.collect();
        let cells = [StudyCell::from(*set), StudyCell::from(split)];
        let all = [&best, &ceiling].into_iter().chain(&gains);
        table.row(cells.into_iter().chain(all.map(Gain::cell)));
        for (gain, distances) in gains.iter().zip(&mut distances).filter(|_| idx < DIVERSE) {
            distances.push((1.0 - gain.mean) / (1.0 - best.mean) - 1.0);
        }
        best_gains.push(best);
    }
    finding.tables.push(table);
    let name = platform.name;
    for (group, (sets, published)) in ["HD", "LD"].iter().zip(best_gains.chunks(3).zip(published)) {
        let text = sets.iter().map(Gain::percent_with_interval).collect::<Vec<String>>().join(", ");
        let sides: Vec<RangeSide> = sets.iter().map(|gain| gain.side(published, 100.0)).collect();
        let is_reached = match &sides[..] {
            sides if sides.contains(&RangeSide::Inside) => Some(true),
            [_, _, _] if sides.iter().all(|side| *side == RangeSide::Outside) => Some(false),
            _ => None,
        };
        finding.claims.push(judged_claim(
            &format!("{name} {group}: a static split of at least one set saves the smallest published gain of IB, {published:.0} %"),
            RuleReading::Either,
            format!("{text} %"),
            is_reached,
        ));
    }
    for (policy, reading) in [(2, RuleReading::Corrected), (3, RuleReading::Paper)] {
        let worst = distances[policy].iter().copied().reduce(f64::max);
        finding.claims.push(judged_claim(
            &format!("{name}: hass-s equals the best static split, within 2 % in every set"),
            reading,
            format!("{} % at worst", percent(worst)),
            worst.map(|worst| worst <= EQUAL),
        ));
    }
    Ok(())
}

/// Returns the split with the shortest time of the set: in words, the name of its workload, and the testbed that contains
/// the workload. `None` if no run finished.
fn best_split(
    pool: &RunPool<'_>,
    testbed: &Testbed,
    set: &str,
    seeds: &[u64],
) -> Result<Option<(String, String, Testbed)>, ReproduceError> {
    let jobs = testbed.jobs(set, DeclaredClassBasis::Rate)?;
    let copies = testbed.copies(set, None)?;
    let kinds: Vec<CpuSet> = testbed.machine.core_kinds().iter().map(|kind| kind.cpus()).collect();
    let mut testbed = testbed.clone();
    let mut splits: Vec<(String, String)> = Vec::new();
    for counts in counts_on_fast(&copies.iter().map(Vec::len).collect::<Vec<usize>>()) {
        let mut jobs = jobs.clone();
        for (program, n_fast) in copies.iter().zip(&counts) {
            for (nth, job) in program.iter().enumerate() {
                jobs[*job].cpus = Some(kinds[usize::from(*n_fast <= nth)].clone());
            }
        }
        let parts = copies.iter().zip(&counts).filter(|(_, n)| **n != 0);
        let parts = parts.map(|(program, n)| format!("{n} {}", plain_name(&jobs[program[0]])));
        let text = parts.collect::<Vec<String>>().join(", ");
        let name = format!("{set} fast: {text}");
        testbed.workloads.insert(name.clone(), jobs);
        splits.push((name, text));
    }
    let names: Vec<&str> = splits.iter().map(|(name, _)| name.as_str()).collect();
    let runs = pool.run(&testbed, &[BASELINE], &names, seeds)?.concat();
    let timed = splits.iter().zip(&runs).filter_map(|(split, runs)| {
        let times: Option<Vec<f64>> =
            runs.finished_runs().map(|(_, run)| set_s(run, &copies)).collect();
        Some((split.clone(), mean_of(times?)?))
    });
    let best = timed.min_by(|(_, one), (_, other)| one.total_cmp(other));
    Ok(best.map(|((name, text), _)| (text, name, testbed)))
}

/// Returns the number of copies of each program on the fast cores, for every split with a task on both kinds.
fn counts_on_fast(n_copies: &[usize]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for n in n_copies {
        all = all
            .iter()
            .flat_map(|counts| (0..=*n).map(move |one| [&counts[..], &[one]].concat()))
            .collect();
    }
    let n_tasks: usize = n_copies.iter().sum();
    all.retain(|counts| (1..n_tasks).contains(&counts.iter().sum()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_all_numbers_of_copies_with_a_task_on_both_kinds() {
        assert_eq!(counts_on_fast(&[2, 2, 2, 2]).len(), 79);
        assert_eq!(counts_on_fast(&[8]).len(), 7);
    }
}
