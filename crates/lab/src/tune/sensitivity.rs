//! Sensitivity of the result to each parameter, and to pairs of parameters, from the trials of a search.
//!
//! The values of a parameter are divided into bins. The effect is the share of the variance of the results that the
//! bins explain, corrected for the number of bins (epsilon squared; Kelley, "An Unbiased Correlation Ratio Measure",
//! PNAS 21, 1935). It is from 0 to 1. Trials are not a uniform sample: the search prefers good values, so that bad bins
//! have few trials.

use std::collections::BTreeMap;

use report::tuning::{TuneBin, TunePair, TunePairCell};

use super::space::{Dimension, Point};
use crate::stats::{mean, mean_of};

/// Number of pairs of parameters with a map.
const N_PAIRS: usize = 3;

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
    pairs.sort_by(|one, other| {
        let effect = |pair: &TunePair| pair.effect.unwrap_or(0.0);
        effect(other).total_cmp(&effect(one))
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

/// Returns the share of the variance of the finished results that their groups explain; `None` if the groups or the
/// results do not differ, or if each result is a group.
fn effect<K: Ord>(results: impl Iterator<Item = (K, Option<f64>)>) -> Option<f64> {
    let mut groups: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    for (group, result) in results {
        if let Some(result) = result {
            groups.entry(group).or_default().push(result);
        }
    }
    let all: Vec<f64> = groups.values().flatten().copied().collect();
    let squares = |values: &[f64], centre: f64| -> f64 {
        values.iter().map(|value| (value - centre) * (value - centre)).sum()
    };
    let total = squares(&all, mean(&all));
    let within: f64 = groups.values().map(|values| squares(values, mean(values))).sum();
    let (n, k) = (all.len(), groups.len());
    let is_defined = 1 < k && k < n && 0.0 < total;
    is_defined.then(|| {
        let ratio = (within / (n - k) as f64) / (total / (n - 1) as f64);
        (1.0 - ratio).clamp(0.0, 1.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::space::{Coordinate, SearchSpace};

    #[test]
    fn the_effect_is_the_explained_share_of_the_variance() {
        let results = |values: &[(u8, f64)]| {
            effect(values.iter().map(|(group, value)| (*group, Some(*value))))
        };
        assert_eq!(results(&[(0, 1.0), (0, 1.0), (1, 2.0), (1, 2.0)]), Some(1.0));
        assert_eq!(results(&[(0, 1.0), (0, 2.0), (1, 1.0), (1, 2.0)]), Some(0.0));
        assert_eq!(results(&[(0, 1.0), (0, 1.0)]), None, "one group");
        assert_eq!(results(&[(0, 1.0), (1, 2.0)]), None, "each result is a group");
        assert_eq!(effect([(0, None), (0, Some(1.0)), (1, Some(1.0))].into_iter()), None);
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
