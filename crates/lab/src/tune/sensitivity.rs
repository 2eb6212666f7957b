//! Sensitivity of the result to each parameter, and to pairs of parameters, from the trials of a search.
//!
//! The values of a parameter are divided into bins. The effect is the share of the variance of the results that the
//! bins predict (leave-one-out cross-validation): each result is predicted by the mean of the other results of its bin,
//! and the squared error is compared with that of the mean of all other results. A result alone in its bin has only the
//! second prediction. The effect is from 0 to 1, where a negative share is 0.
//!
//! Epsilon squared, which only corrects for the number of bins, is not used: one outlier alone in a bin gives it nearly
//! 1, and for 16 trials of 16 parameters without any effect the sum of the values is 1.5 on average (here 0.4).
//!
//! Trials are not a uniform sample: the search prefers good values, so that bad bins have few trials, and values of
//! several parameters change together. The effects of several parameters can therefore overlap, and their sum can
//! exceed 1.

use std::collections::BTreeMap;

use report::tuning::{TuneBin, TunePair, TunePairCell, has_spread};

use super::space::{Dimension, Point};
use crate::stats::{mean, mean_of};

/// Number of pairs of parameters with a map.
const N_PAIRS: usize = 3;
/// Smallest number of finished trials per bin with trials, on average, for an effect. Guessed: with fewer trials, most
/// results are alone in their bin, and the effect is a property of the others.
const N_PER_BIN_MIN: usize = 2;

/// A trial with its result; `None`: a run did not finish.
pub(super) type Scored<'a> = (&'a Point, Option<f64>);

/// Returns the bins of a parameter, and its effect. Trials without the parameter are excluded.
pub(super) fn of_parameter(
    dimension: &Dimension,
    idx: usize,
    trials: &[Scored<'_>],
) -> (Vec<TuneBin>, Option<f64>) {
    let binned: Vec<(usize, Option<f64>)> = trials
        .iter()
        .filter_map(|(point, result)| Some((dimension.bin_of(point.coordinates[idx]?), *result)))
        .collect();
    let bin = |(bin, values): (usize, String)| {
        let results: Vec<Option<f64>> =
            binned.iter().filter(|(of, _)| *of == bin).map(|(_, result)| *result).collect();
        TuneBin {
            values,
            n_trials: results.len() as u64,
            best_ratio: results.iter().flatten().copied().min_by(f64::total_cmp),
            mean_ratio: mean_of(results.iter().flatten().copied()),
        }
    };
    let bins = dimension.bins().into_iter().enumerate().map(bin).collect();
    (bins, effect(binned.into_iter()))
}

/// Returns the maps of the pairs with the largest effects, the largest first.
pub(super) fn pairs(dimensions: &[Dimension], trials: &[Scored<'_>]) -> Vec<TunePair> {
    let n = dimensions.len();
    let all = (0..n).flat_map(|x| (x + 1..n).map(move |y| (x, y)));
    let mut pairs: Vec<TunePair> =
        all.filter_map(|(x, y)| pair([(&dimensions[x], x), (&dimensions[y], y)], trials)).collect();
    // Without an effect of the pair, because its cells have too few trials, the effects of its parameters decide.
    let single = |name: &str| {
        let mut named = dimensions.iter().enumerate().filter(|(_, it)| it.param.name == name);
        named.find_map(|(idx, it)| of_parameter(it, idx, trials).1).unwrap_or(0.0)
    };
    pairs.sort_by_cached_key(|pair| {
        let effect = pair.effect.unwrap_or_else(|| single(&pair.x).max(single(&pair.y)));
        std::cmp::Reverse((effect * 1e9) as u64)
    });
    pairs.truncate(N_PAIRS);
    pairs
}

/// Returns the map of a pair; `None` if no trial has both parameters.
fn pair(axes: [(&Dimension, usize); 2], trials: &[Scored<'_>]) -> Option<TunePair> {
    let mut cells: BTreeMap<(usize, usize), Vec<Option<f64>>> = BTreeMap::new();
    for (point, result) in trials {
        let [x, y] = axes.map(|(dimension, idx)| Some(dimension.bin_of(point.coordinates[idx]?)));
        if let (Some(x), Some(y)) = (x, y) {
            cells.entry((y, x)).or_default().push(*result);
        }
    }
    let results =
        cells.iter().flat_map(|(cell, results)| results.iter().map(move |result| (*cell, *result)));
    let effect = effect(results);
    let cell = |(&(y, x), results): (&(usize, usize), &Vec<Option<f64>>)| TunePairCell {
        x: x as u64,
        y: y as u64,
        n_trials: results.len() as u64,
        best_ratio: results.iter().flatten().copied().min_by(f64::total_cmp),
    };
    let [x, y] = axes.map(|(dimension, _)| dimension);
    (!cells.is_empty()).then(|| TunePair {
        x: x.param.name.to_owned(),
        y: y.param.name.to_owned(),
        effect,
        x_values: x.bins(),
        y_values: y.bins(),
        cells: cells.iter().map(cell).collect(),
    })
}

/// Returns the share of the variance of the finished results that their groups predict; `None` if all results are about
/// equal, if there is one group, or with too few results per group.
fn effect<K: Ord>(results: impl Iterator<Item = (K, Option<f64>)>) -> Option<f64> {
    let mut groups: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    for (group, result) in results {
        if let Some(result) = result {
            groups.entry(group).or_default().push(result);
        }
    }
    let all: Vec<f64> = groups.values().flatten().copied().collect();
    let (n, k) = (all.len(), groups.len());
    if k < 2 || n < N_PER_BIN_MIN * k || !has_spread(all.iter().copied()) {
        return None;
    }
    let total = left_out_error(&all, &all);
    let error = |group: &Vec<f64>| match group.as_slice() {
        [_] => left_out_error(group, &all),
        _ => left_out_error(group, group),
    };
    Some((1.0 - groups.values().map(error).sum::<f64>() / total).clamp(0.0, 1.0))
}

/// Returns the squared error of these results, if each is predicted by the mean of the others in `sample`. The sample
/// contains the results, and has at least two.
fn left_out_error(results: &[f64], sample: &[f64]) -> f64 {
    let centre = mean(sample);
    let n = sample.len() as f64;
    results.iter().map(|result| (result - centre) * n / (n - 1.0)).map(|error| error * error).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::space::{Coordinate, SearchSpace};

    fn effect_of(values: &[(u8, f64)]) -> Option<f64> {
        effect(values.iter().map(|(group, value)| (*group, Some(*value))))
    }

    #[test]
    fn the_effect_is_the_predicted_share_of_the_variance() {
        assert_eq!(effect_of(&[(0, 1.0), (0, 1.0), (1, 2.0), (1, 2.0)]), Some(1.0));
        assert_eq!(effect_of(&[(0, 1.0), (0, 2.0), (1, 1.0), (1, 2.0)]), Some(0.0));
        assert_eq!(effect_of(&[(0, 1.0), (0, 1.0)]), None, "one group");
        assert_eq!(effect_of(&[(0, 1.0), (1, 2.0)]), None, "each result is a group");
        assert_eq!(effect_of(&[(0, 1.0), (1, 2.0), (1, 2.0)]), None, "too few results per group");
        assert_eq!(effect([(0, None), (0, Some(1.0)), (1, Some(1.0))].into_iter()), None);
    }

    #[test]
    fn about_equal_results_have_no_effect() {
        assert_eq!(effect_of(&[(0, 1.0), (0, 1.0), (1, 1.000_19), (1, 1.000_19)]), None);
        assert_eq!(effect_of(&[(0, 1.0), (0, 1.0), (1, 1.002), (1, 1.002)]), Some(1.0));
    }

    /// The mean of all other results, without the outlier, predicts them a little better than with it.
    #[test]
    fn of_n_results_an_outlier_alone_in_its_bin_has_an_effect_of_at_most_one_nth() {
        let trials =
            [(0, 1.0), (0, 1.01), (1, 1.0), (1, 1.01), (2, 1.0), (2, 1.01), (2, 1.0), (3, 2.0)];
        let effect = effect_of(&trials).expect("enough trials");
        assert!(effect <= 1.0 / trials.len() as f64, "{effect}");
    }

    /// Results are random numbers, and the bins of each parameter too.
    #[test]
    fn as_many_parameters_as_trials_without_effect_have_small_effects() {
        const N: usize = 16;
        let mut sums = Vec::new();
        for seed in 0..50 {
            let mut rng = base::Rng::new(seed);
            let results: Vec<f64> = (0..N).map(|_| 1.0 + rng.unit()).collect();
            let effects = (0..N).map(|_| {
                let binned: Vec<_> =
                    results.iter().map(|result| (rng.below(6), Some(*result))).collect();
                effect(binned.into_iter()).unwrap_or(0.0)
            });
            sums.push(effects.sum::<f64>());
        }
        assert!(mean(&sums) < 0.7, "{}", mean(&sums));
    }

    #[test]
    fn trials_without_the_parameter_are_in_no_bin() {
        let selected = ["gain".to_owned(), "slope".to_owned()];
        let space = SearchSpace::new("dfs", &selected).expect("valid");
        let draw = |gain, result: Option<f64>| {
            (space.point(&[gain, Coordinate::At(0.1)]).expect("valid"), result)
        };
        let trials = [
            draw(Coordinate::Word, Some(1.0)),
            draw(Coordinate::At(0.2), Some(0.5)),
            draw(Coordinate::At(0.2), None),
        ];
        let scored: Vec<Scored<'_>> =
            trials.iter().map(|(point, result)| (point, *result)).collect();
        let n_trials = |idx: usize| {
            let (bins, _) = of_parameter(&space.dimensions[idx], idx, &scored);
            bins.iter().map(|bin| bin.n_trials).collect::<Vec<_>>()
        };
        assert_eq!(n_trials(0), [1, 0, 2, 0, 0, 0, 0]);
        assert_eq!(n_trials(1), [2, 0, 0, 0, 0, 0]);
        let maps = pairs(&space.dimensions, &scored);
        assert_eq!(maps.len(), 1);
        assert_eq!((maps[0].cells.len(), maps[0].cells[0].n_trials), (1, 2));
        assert_eq!(maps[0].cells[0].best_ratio, Some(0.5));
    }
}
