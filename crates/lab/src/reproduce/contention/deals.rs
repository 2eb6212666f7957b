//! Is it the rule that is not best, or what the policy makes of it? (spec 2.1)
//!
//! ```text
//!   ranks by misses alone   1   2   3   4   5   6   7   8
//!   dealt (released code)   c0  c1  c2  c3  c0  c1  c2  c3       always the same direction
//!   to and fro              c0  c1  c2  c3  c3  c2  c1  c0       highest with lowest
//!   together                c0  c0  c1  c1  c2  c2  c3  c3       what nobody proposes
//! ```
//!
//! The splits that these rules make are among those that were tried for the optimum. Held there to the end they
//! meet no far memory, no moves and no damping: what is left is the rule. Beside it stands how well the
//! rule's own measure, the largest sum of misses in a cache, orders all splits.

use host_sim::calibrate::rank_correlation;

use base::Bytes;

use super::optimum::{PLACES, Place, Runs, Tried, play_with, seeds, tried};
use super::sets::{N, Set};
use super::tell::{in_percent, judged, percent, shown};
use crate::reproduce::{Found, Reading, ReproduceError, Rig, Table};
use crate::shipped;
use crate::stats::mean;

/// The cache of a rank, of so many.
type Rule = fn(usize, usize) -> usize;

const RULES: [(&str, Rule); 3] = [
    ("dealt", |rank, n_caches| rank % n_caches),
    ("to and fro", |rank, n_caches| {
        let step = rank % (2 * n_caches);
        step.min(2 * n_caches - 1 - step)
    }),
    ("together", |rank, n_caches| rank / (N / n_caches)),
];
/// How much more bandwidth leaves caches alone to compete for.
const WIDE: u64 = 16;

pub(super) fn deals(rig: &Rig<'_>) -> Result<Found, ReproduceError> {
    let mut found = Found::default();
    for is_wide in [false, true] {
        for place in PLACES {
            one(rig, place, is_wide, &mut found)?;
        }
    }
    found.why.push(
        "order: the rank correlation over all splits between the largest sum of misses in a cache and the mean \
         slow-down; 1 where the rule's measure orders them as they are, 0 where it tells nothing"
            .to_owned(),
    );
    Ok(found)
}

fn one(
    rig: &Rig<'_>,
    place: Place,
    is_wide: bool,
    found: &mut Found,
) -> Result<(), ReproduceError> {
    let mut runs = play_with(rig, place, is_wide.then_some(WIDE), &["linux"], seeds(rig))?;
    let n_caches = runs.scene.world.machine.llcs().len();
    let more = if is_wide { ", 16 times the bandwidth" } else { "" };
    let words = format!("{}{more}", place.words);
    let title = format!("{words}: distance to the best split in %, held to the end");
    let heads: Vec<&str> = std::iter::once("set")
        .chain(RULES.map(|(name, _)| name))
        .chain(["mean", "worst", "order"])
        .collect();
    let mut table = Table::new(&title, &heads).units(&["%", "%", "%", "%", "%", "1"]);
    let mut distances = vec![Vec::new(); RULES.len()];
    let mut orders = Vec::new();
    for set in runs.sets.clone() {
        let Some(tried) = tried(rig, &mut runs, &set)? else { continue };
        let misses = misses(&runs, &set)?;
        let best = tried.iter().map(|(_, slow)| *slow).fold(f64::INFINITY, f64::min);
        let worst = tried.iter().map(|(_, slow)| *slow).fold(0.0, f64::max);
        let all = mean(&tried.iter().map(|(_, slow)| *slow).collect::<Vec<f64>>());
        let mut cells = vec![set.name.clone()];
        for ((_, rule), distances) in RULES.iter().zip(&mut distances) {
            let split = by_rule(&misses, n_caches, *rule);
            let its =
                tried.iter().find(|(other, _)| *other == split).map(|(_, slow)| slow / best - 1.0);
            cells.push(percent(its));
            distances.extend(its);
        }
        let order = order(&tried, &misses, n_caches);
        orders.push(order);
        cells.extend([all, worst].map(|slow| percent(Some(slow / best - 1.0))));
        cells.push(format!("{order:+.2}"));
        table.row(cells);
    }
    found.tables.push(table);
    for ((name, _), distances) in RULES.iter().zip(&distances).take(2) {
        let of_all = (!distances.is_empty()).then(|| mean(distances));
        let n = distances.iter().filter(|distance| **distance <= 0.02).count();
        found.claims.push(judged(
            &format!("{words}: the split that is {name} by misses alone is within 2 % of the best, on average"),
            Reading::Either,
            format!("{} % on average, {n} of {} sets within 2 %", percent(of_all), distances.len()),
            of_all.map(|mean| mean <= 0.02),
        ).on(in_percent(of_all)));
    }
    let order = (!orders.is_empty()).then(|| mean(&orders));
    found.claims.push(judged(
        &format!("{words}: splits with more even misses are faster (order above 0.5 on average, chosen here)"),
        Reading::Either,
        shown(order, 2),
        order.map(|order| 0.5 < order),
    ));
    Ok(())
}

/// What each program of a set misses alone in the smallest cache.
fn misses(runs: &Runs, set: &Set) -> Result<Vec<f64>, ReproduceError> {
    let machine = &runs.scene.world.machine;
    let smallest = machine.llcs().iter().filter_map(|llc| llc.size).min().unwrap_or(Bytes::ZERO);
    let of = |program: &String| {
        let profile = shipped::profile_drawn(program, runs.scene.world.draw)?;
        Ok(profile.average(|phase| phase.curve.misses_at(smallest)).unwrap_or(0.0))
    };
    set.programs.iter().map(of).collect()
}

/// The split that a rule makes, its caches named by their first program.
fn by_rule(misses: &[f64], n_caches: usize, rule: Rule) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..misses.len()).collect();
    // As DI ranks: by whole misses per 1000 instructions, then by number.
    ranked.sort_by_key(|&at| (std::cmp::Reverse((misses[at] + 0.5) as u64), at));
    let mut split = vec![0; misses.len()];
    ranked.iter().enumerate().for_each(|(rank, &at)| split[at] = rule(rank, n_caches));
    let mut names: Vec<usize> = Vec::new();
    for cache in &split {
        if !names.contains(cache) {
            names.push(*cache);
        }
    }
    split.iter().filter_map(|cache| names.iter().position(|name| name == cache)).collect()
}

/// How well the largest sum of misses orders splits by their slow-down.
fn order(tried: &[Tried], misses: &[f64], n_caches: usize) -> f64 {
    let largest = |split: &[usize]| {
        let mut sums = vec![0.0; n_caches];
        split.iter().zip(misses).for_each(|(&cache, misses)| sums[cache] += misses);
        sums.into_iter().fold(0.0, f64::max)
    };
    let sums: Vec<f64> = tried.iter().map(|(split, _)| largest(split)).collect();
    let slow: Vec<f64> = tried.iter().map(|(_, slow)| *slow).collect();
    rank_correlation(&sums, &slow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_deal_ranks_out_as_they_are_drawn() {
        let misses = [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0];
        let of = |rule: usize, n_caches| by_rule(&misses, n_caches, RULES[rule].1);
        assert_eq!(of(0, 4), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(of(1, 4), [0, 1, 2, 3, 3, 2, 1, 0]);
        assert_eq!(of(2, 4), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(of(1, 2), [0, 1, 1, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn a_split_is_named_as_the_list_of_all_names_it() {
        let misses = [1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0];
        let all = super::super::assign::splits(N, 2);
        for (_, rule) in RULES {
            assert!(all.contains(&by_rule(&misses, 2, rule)));
        }
    }

    #[test]
    fn correlation_is_1_of_the_same_order_and_0_where_one_tells_nothing() {
        assert_eq!(rank_correlation(&[1.0, 2.0, 9.0], &[5.0, 6.0, 7.0]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 2.0, 9.0], &[7.0, 6.0, 5.0]), -1.0);
        assert_eq!(rank_correlation(&[1.0, 1.0, 1.0], &[7.0, 6.0, 5.0]), 0.0);
    }
}
