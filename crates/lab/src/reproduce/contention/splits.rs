//! Every split of a set over equal caches, and the splits that the placement rules of DI select.
//!
//! ```text
//!   8 programs, 2 caches of 4      8! ÷ (4! 4! 2!)      =  35
//!   8 programs, 4 caches of 2      8! ÷ (2! 2! 2! 2! 4!) = 105
//!
//!   ranks by misses alone   1   2   3   4   5   6   7   8
//!   in rank order           c0  c1  c2  c3  c0  c1  c2  c3       released code: always the same direction
//!   back and forth          c0  c1  c2  c3  c3  c2  c1  c0       highest with lowest
//!   together                c0  c0  c1  c1  c2  c2  c3  c3       the opposite, for comparison
//! ```
//!
//! Equal caches are interchangeable. The cores of a cache are interchangeable too. Each group begins with the lowest
//! remaining program, so that no split occurs twice. A pinned split has no remote memory, no migrations and no damping:
//! only the rule has an effect. The column `order` is the rank correlation of the criterion of the rules (the largest
//! sum of misses in a cache) with the slowdown.

use base::{CpuId, CpuSet};
use host_sim::calibrate::rank_correlation;
use report::format::signed;
use report::study::{RuleReading, StudyClaim};

use super::super::finding::{in_percent, judged_claim, number, percent, with_values};
use super::super::program_sets::{N_PROGRAMS, names, smallest_cache};
use super::super::testbed::ProgramPart;
use super::super::{Finding, FindingTable, ReproduceError, RunPool, Testbed};
use super::{alone_s, mean_slowdown};
use crate::shipped;
use crate::stats::{mean, mean_of};

/// Name and description of a testbed on which splits are compared.
pub(super) type SplitTestbed = (&'static str, &'static str);

pub(super) const TESTBEDS: [SplitTestbed; 3] = [
    ("xeon-x5365-4x2 length=60", "4 caches of 2 cores, 1 node"),
    ("opteron-8356-2x4 one-memory length=60", "2 caches of 4 cores, 1 node"),
    ("opteron-8356-2x4 length=60", "2 caches of 4 cores, 2 nodes"),
];

/// Number of seeds of a pinned run. Random variation changes its time by half a percent.
const N_SEEDS: usize = 3;

/// Number of sets of each kind. Every set requires 35 or 105 runs per seed.
const N_SETS: u64 = 5;

/// Returns the sets that are split.
pub(super) fn sets() -> Vec<String> {
    [names("unrestricted", N_SETS), names("mixed", N_SETS)].concat()
}

/// Returns the first seeds of a pool.
pub(super) fn seeds<'a>(pool: &'a RunPool<'_>) -> &'a [u64] {
    &pool.seeds()[..N_SEEDS.min(pool.seeds().len())]
}

/// The simulated splits of a set, as the cache of each program, with their mean slowdowns.
pub(super) struct TriedSplits(pub Vec<(Vec<usize>, f64)>);

impl TriedSplits {
    /// Runs every split of a set with each program pinned to a core of its own. `None` if a run failed.
    pub fn of(
        pool: &RunPool<'_>,
        testbed: &Testbed,
        set: &str,
    ) -> Result<Option<Self>, ReproduceError> {
        let programs = testbed.programs(set)?;
        let alone = alone_s(pool, testbed, &programs)?;
        let splits = splits(programs.len(), testbed.machine.llcs().len());
        let mut testbed = testbed.clone();
        let mut names = Vec::new();
        for (number, split) in splits.iter().enumerate() {
            let mut free: Vec<Vec<CpuId>> =
                testbed.machine.llcs().iter().map(|llc| llc.cpus.iter().collect()).collect();
            let part = |(program, cache): (&String, &usize)| ProgramPart {
                cpus: Some(CpuSet::from_iter([free[*cache].remove(0)])),
                ..ProgramPart::new(program)
            };
            let parts: Vec<ProgramPart> = programs.iter().zip(split).map(part).collect();
            let name = format!("{set} split {number}");
            testbed.add(&name, &parts)?;
            names.push(name);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let runs = pool.run(&testbed, &["linux"], &names, seeds(pool))?.concat();
        let tried = |(split, runs)| Some((split, mean_slowdown(runs, &alone)?));
        Ok(splits.into_iter().zip(&runs).map(tried).collect::<Option<Vec<_>>>().map(TriedSplits))
    }
}

impl TriedSplits {
    /// Returns the smallest mean slowdown.
    pub fn best(&self) -> f64 {
        self.slowdowns().fold(f64::INFINITY, f64::min)
    }

    /// Returns the largest mean slowdown.
    pub fn worst(&self) -> f64 {
        self.slowdowns().fold(0.0, f64::max)
    }

    /// Returns the mean over all splits.
    pub fn mean(&self) -> f64 {
        mean(&self.slowdowns().collect::<Vec<f64>>())
    }

    fn slowdowns(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(_, slowdown)| *slowdown)
    }
}

/// Returns the cache of each program, for every split into `n_caches` groups of equal size. Empty if the sizes differ.
fn splits(n_programs: usize, n_caches: usize) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    if n_caches != 0 && n_programs.is_multiple_of(n_caches) {
        let cache_of = vec![None; n_programs];
        PartialSplit { cache_of, n_caches, all: &mut all }.complete(0, 0, 0);
    }
    all
}

/// A split under construction.
struct PartialSplit<'a> {
    cache_of: Vec<Option<usize>>,
    n_caches: usize,
    all: &'a mut Vec<Vec<usize>>,
}

impl PartialSplit<'_> {
    /// Completes a split. `cache` has `n_in` programs, and its next program is `from` or a later program.
    fn complete(&mut self, cache: usize, n_in: usize, from: usize) {
        let (n_programs, n_caches) = (self.cache_of.len(), self.n_caches);
        if cache == n_caches {
            self.all.push(self.cache_of.iter().flatten().copied().collect());
            return;
        }
        let mut next: Vec<usize> =
            (from..n_programs).filter(|&program| self.cache_of[program].is_none()).collect();
        if n_in == 0 {
            next.truncate(1);
        }
        for program in next {
            self.cache_of[program] = Some(cache);
            match n_in + 1 == n_programs / n_caches {
                true => self.complete(cache + 1, 0, 0),
                false => self.complete(cache, n_in + 1, program + 1),
            }
            self.cache_of[program] = None;
        }
    }
}

/// A rule: the cache of a rank. Arguments: the rank and the number of caches.
type Rule = fn(usize, usize) -> usize;

const RULES: [(&str, Rule); 3] = [
    ("in rank order", |rank, n_caches| rank % n_caches),
    ("back and forth", |rank, n_caches| {
        let step = rank % (2 * n_caches);
        step.min(2 * n_caches - 1 - step)
    }),
    ("together", |rank, n_caches| rank / (N_PROGRAMS / n_caches)),
];
/// Factor of bandwidth that leaves caches as the only contended resource.
const WIDE: u64 = 16;

pub(super) fn assignment_rules(pool: &RunPool<'_>) -> Result<Finding, ReproduceError> {
    let mut finding = Finding::default();
    for is_wide in [false, true] {
        for testbed in TESTBEDS {
            compare_rules(pool, testbed, is_wide, &mut finding)?;
        }
    }
    let note = "order: rank correlation over all splits between the largest sum of misses in a cache and the mean \
                slowdown; 1: the rule's measure orders the splits correctly, 0: no relation";
    finding.notes.push(note.to_owned());
    Ok(finding)
}

/// Compares the rules on one testbed.
fn compare_rules(
    pool: &RunPool<'_>,
    (name, description): SplitTestbed,
    is_wide: bool,
    finding: &mut Finding,
) -> Result<(), ReproduceError> {
    let (variation, description) = match is_wide {
        true => (format!(" bandwidth={WIDE}"), format!("{description}, 16 times the bandwidth")),
        false => (String::new(), description.to_owned()),
    };
    let testbed = Testbed::parse(&format!("{name}{variation}"))?;
    let n_caches = testbed.machine.llcs().len();
    let title = format!("{description}: distance of pinned splits to the best in %");
    let heads = ["set", RULES[0].0, RULES[1].0, RULES[2].0, "mean", "worst", "order"];
    let mut table = FindingTable::new(&title, &heads).units(&["%", "%", "%", "%", "%", "1"]);
    let (mut distances, mut orders) = (vec![Vec::new(); RULES.len()], Vec::new());
    for set in sets() {
        let Some(tried) = TriedSplits::of(pool, &testbed, &set)? else { continue };
        let misses = misses(&testbed, &set)?;
        let mut cells = vec![set];
        for ((_, rule), distances) in RULES.iter().zip(&mut distances) {
            let split = by_rule(&misses, n_caches, *rule);
            let slowdown = tried.0.iter().find(|(other, _)| *other == split);
            let distance = slowdown.map(|(_, slowdown)| slowdown / tried.best() - 1.0);
            cells.push(percent(distance));
            distances.extend(distance);
        }
        let order = order(&tried, &misses, n_caches);
        orders.push(order);
        let others = [tried.mean(), tried.worst()];
        cells.extend(others.map(|slowdown| percent(Some(slowdown / tried.best() - 1.0))));
        cells.push(signed(order, 2));
        table.row(cells);
    }
    finding.tables.push(table);
    finding.claims.extend(claims(&description, &distances, mean_of(orders)));
    Ok(())
}

/// Returns the claims for a testbed; `order` is the mean of the column `order`.
fn claims(description: &str, distances: &[Vec<f64>], order: Option<f64>) -> Vec<StudyClaim> {
    let mut claims = Vec::new();
    for ((name, _), distances) in RULES.iter().zip(distances).take(2) {
        let average = mean_of(distances.iter().copied());
        let n = distances.iter().filter(|distance| **distance <= 0.02).count();
        let claim = judged_claim(
            &format!(
                "{description}: the split {name} by misses alone is within 2 % of the best, on average"
            ),
            RuleReading::Either,
            format!(
                "{} % on average, {n} of {} sets within 2 %",
                percent(average),
                distances.len()
            ),
            average.map(|average| average <= 0.02),
        );
        claims.push(with_values(claim, in_percent(average)));
    }
    claims.push(judged_claim(
        &format!("{description}: splits with more even misses are faster (order above 0.5 on average; limit chosen by evenkeel before the first run)"),
        RuleReading::Either,
        number(order, 2),
        order.map(|order| 0.5 < order),
    ));
    claims
}

/// Returns the LLC misses of each program of a set alone with the smallest cache.
fn misses(testbed: &Testbed, set: &str) -> Result<Vec<f64>, ReproduceError> {
    let cache = smallest_cache(&testbed.machine);
    let misses_of = |program: &String| {
        let profile = shipped::profile_drawn(program, testbed.draw)?;
        Ok(profile.average(|phase| phase.curve.misses_at(cache)).unwrap_or(0.0))
    };
    testbed.programs(set)?.iter().map(misses_of).collect()
}

/// Returns the split of a rule, with its caches numbered by their first program.
fn by_rule(misses: &[f64], n_caches: usize, rule: Rule) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..misses.len()).collect();
    // DI ranks programs by whole misses per 1000 instructions, then by number.
    ranked.sort_by_key(|&idx| (std::cmp::Reverse((misses[idx] + 0.5) as u64), idx));
    let mut split = vec![0; misses.len()];
    ranked.iter().enumerate().for_each(|(rank, &idx)| split[idx] = rule(rank, n_caches));
    let mut numbers: Vec<usize> = Vec::new();
    for cache in &split {
        if !numbers.contains(cache) {
            numbers.push(*cache);
        }
    }
    split.iter().filter_map(|cache| numbers.iter().position(|known| known == cache)).collect()
}

/// Returns the rank correlation of the largest sum of misses in a cache with the slowdown, over all splits.
fn order(tried: &TriedSplits, misses: &[f64], n_caches: usize) -> f64 {
    let largest = |split: &[usize]| {
        let mut sums = vec![0.0; n_caches];
        split.iter().zip(misses).for_each(|(&cache, misses)| sums[cache] += misses);
        sums.into_iter().fold(0.0, f64::max)
    };
    let (sums, slowdowns): (Vec<f64>, Vec<f64>) =
        tried.0.iter().map(|(split, slowdown)| (largest(split), *slowdown)).unzip();
    rank_correlation(&sums, &slowdowns)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the groups of a split, without numbers of caches.
    fn groups(split: &[usize]) -> BTreeSet<Vec<usize>> {
        let group_on = |cache| (0..split.len()).filter(|&idx| split[idx] == cache).collect();
        (0..=split.iter().copied().max().unwrap_or(0)).map(group_on).collect()
    }

    #[test]
    fn eight_programs_have_35_splits_over_two_caches_and_105_over_four() {
        for (n_caches, n) in [(1, 1), (2, 35), (4, 105), (8, 1)] {
            let all = splits(8, n_caches);
            let different: BTreeSet<_> = all.iter().map(|split| groups(split)).collect();
            assert_eq!((all.len(), different.len()), (n, n), "{n_caches} caches");
            assert!(different.iter().flatten().all(|group| group.len() == 8 / n_caches));
        }
        assert_eq!([splits(8, 3), splits(8, 0)], [Vec::<Vec<usize>>::new(), Vec::new()]);
    }

    #[test]
    fn rules_assign_ranks_to_caches_as_drawn() {
        let misses = [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
        let split_by = |rule: usize, n_caches| by_rule(&misses, n_caches, RULES[rule].1);
        assert_eq!(split_by(0, 4), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(split_by(1, 4), [0, 1, 2, 3, 3, 2, 1, 0]);
        assert_eq!(split_by(2, 4), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(split_by(1, 2), [0, 1, 1, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn the_split_of_a_rule_is_one_of_the_list_of_all() {
        let misses = [1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0];
        let all = splits(N_PROGRAMS, 2);
        for (_, rule) in RULES {
            assert!(all.contains(&by_rule(&misses, 2, rule)));
        }
    }

    #[test]
    fn rank_correlation_is_1_of_the_same_order_and_0_without_any() {
        assert_eq!(rank_correlation(&[1.0, 2.0, 9.0], &[5.0, 6.0, 7.0]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 2.0, 9.0], &[7.0, 6.0, 5.0]), -1.0);
        assert_eq!(rank_correlation(&[1.0, 1.0, 1.0], &[7.0, 6.0, 5.0]), 0.0);
    }
}
