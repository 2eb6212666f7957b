//! Leave-one-out cross-validation of predictions. The module also evaluates a model for placement: it counts how
//! often the model selects the best pairing of four programs on two caches, and computes the measured slowdown of the
//! selected pairings.

use super::{BEGIN, Baseline, Calibration, CoRunData, MeasuredPair, Predictor, fit_from};

/// Leave-one-out predictions of a model: each pair contains a program that was excluded from the fit.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossValidation {
    /// One row for each excluded program and each slowdown of its pairs.
    pub rows: Vec<PredictedSlowdown>,
}

/// One predicted slowdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedSlowdown {
    /// The program that was excluded from the fit.
    pub left_out: usize,
    /// The program of the predicted slowdown.
    pub program: usize,
    /// The other program of the pair.
    pub neighbour: usize,
    /// The predicted slowdown.
    pub predicted: f64,
    /// The measured slowdown.
    pub measured: f64,
}

/// Errors of several predictions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionErrors {
    /// Mean absolute error of the slowdown.
    pub mean: f64,
    /// Largest absolute error.
    pub largest: f64,
    /// Spearman's rank correlation of predicted and measured slowdowns.
    pub rank: f64,
}

/// Cross-validates the physics.
pub fn cross_validate(measurements: &CoRunData) -> CrossValidation {
    cross_validate_from(measurements, &BEGIN)
}

/// Cross-validates the physics with other initial parameters of the fits.
pub fn cross_validate_from(measurements: &CoRunData, begin: &Calibration) -> CrossValidation {
    leave_one_out(measurements, |rest| physics_predictor(measurements, &fit_from(rest, begin)))
}

/// Cross-validates a baseline predictor.
pub fn cross_validate_baseline(measurements: &CoRunData, begin: &Baseline) -> CrossValidation {
    leave_one_out(measurements, |rest| {
        let fitted = begin.fit(rest);
        move |pair| fitted.pair(measurements, pair)
    })
}

/// Returns a predictor: the physics with the given parameters.
pub fn physics_predictor(
    measurements: &CoRunData,
    fitted: &Calibration,
) -> impl Fn(&MeasuredPair) -> [f64; 2] + use<> {
    let predictor = Predictor::new(measurements, fitted);
    move |pair| predictor.pair(pair)
}

fn leave_one_out<M: Fn(&MeasuredPair) -> [f64; 2]>(
    measurements: &CoRunData,
    fit: impl Fn(&CoRunData) -> M,
) -> CrossValidation {
    let mut rows = Vec::new();
    for left_out in 0..measurements.programs.len() {
        let model = fit(&measurements.without(left_out));
        for pair in measurements.pairs_of(left_out) {
            rows.extend(
                pair_rows(pair, model(pair)).map(|row| PredictedSlowdown { left_out, ..row }),
            );
        }
    }
    CrossValidation { rows }
}

/// Returns the predictions of a model for the data to which it was fitted.
pub fn in_sample(
    measurements: &CoRunData,
    model: impl Fn(&MeasuredPair) -> [f64; 2],
) -> CrossValidation {
    let rows = measurements.pairs.iter().flat_map(|pair| pair_rows(pair, model(pair)));
    CrossValidation { rows: rows.collect() }
}

fn pair_rows(pair: &MeasuredPair, predicted: [f64; 2]) -> [PredictedSlowdown; 2] {
    let [a, b] = pair.programs;
    [(0, a, b), (1, b, a)].map(|(idx, program, neighbour)| PredictedSlowdown {
        left_out: program,
        program,
        neighbour,
        predicted: predicted[idx],
        measured: pair.slowdowns[idx],
    })
}

impl CrossValidation {
    /// Returns the errors of all rows.
    pub fn errors(&self) -> PredictionErrors {
        PredictionErrors::of(self.rows.iter())
    }

    /// Returns the errors for pairs of a program that was excluded from the fit.
    pub fn errors_of_left_out(&self, left_out: usize) -> PredictionErrors {
        PredictionErrors::of(self.rows.iter().filter(|row| row.left_out == left_out))
    }

    /// Returns the errors for all pairs that do not contain a program.
    pub fn errors_without(&self, program: usize) -> PredictionErrors {
        PredictionErrors::of(
            self.rows.iter().filter(|row| row.program != program && row.neighbour != program),
        )
    }
}

impl PredictionErrors {
    fn of<'a>(rows: impl Iterator<Item = &'a PredictedSlowdown> + Clone) -> Self {
        let off = rows.clone().map(|row| (row.predicted - row.measured).abs());
        let predicted: Vec<f64> = rows.clone().map(|row| row.predicted).collect();
        let measured: Vec<f64> = rows.map(|row| row.measured).collect();
        PredictionErrors {
            mean: super::mean(off.clone()),
            largest: off.fold(0.0, f64::max),
            rank: rank_correlation(&predicted, &measured),
        }
    }
}

/// Returns Spearman's rank correlation: 1 for equal order, -1 for opposite order; 0 if all values of one list are
/// equal.
pub fn rank_correlation(one: &[f64], other: &[f64]) -> f64 {
    correlation(&ranks(one), &ranks(other))
}

/// Returns the rank of each value. Equal values have the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: &f64| values.iter().filter(|other| *other < value).count();
    let upto = |value: &f64| values.iter().filter(|other| *other <= value).count();
    values.iter().map(|value| (below(value) + upto(value)) as f64 / 2.0).collect()
}

/// Returns Pearson's correlation; 0 if all values of one list are equal.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let middle = |values: &[f64]| super::mean(values.iter().copied());
    let (a, b) = (middle(one), middle(other));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in one.iter().zip(other) {
        ab += (x - a) * (y - b);
        aa += (x - a) * (x - a);
        bb += (y - b) * (y - b);
    }
    if aa * bb == 0.0 { 0.0 } else { ab / libm::sqrt(aa * bb) }
}

/// Results for all combinations of four programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairingResult {
    /// Number of combinations.
    pub n: usize,
    /// Number of combinations for which the model selects the best of the three pairings.
    pub n_best: usize,
    /// Mean measured slowdown of the pairings that the model selects.
    pub chosen: f64,
    /// Mean measured slowdown of the best pairings.
    pub best: f64,
    /// Mean measured slowdown of all pairings.
    pub mean_of_all: f64,
}

/// Evaluates all combinations of four programs of which every pair was measured.
pub fn evaluate_pairings(
    measurements: &CoRunData,
    model: impl Fn(&MeasuredPair) -> [f64; 2],
) -> PairingResult {
    let mut all = PairingResult { n: 0, n_best: 0, chosen: 0.0, best: 0.0, mean_of_all: 0.0 };
    for four in sets_of_four(measurements.programs.len()) {
        let Some(pairings) = pairings_of(measurements, four) else { continue };
        let measured = pairings.map(|two| two.map(|pair| pair.slowdowns).concat());
        let measured = measured.map(|each| each.iter().sum::<f64>() / 4.0);
        let predicted = pairings.map(|two| two.map(&model).concat().iter().sum::<f64>());
        let (chosen, best) = (index_of_smallest(&predicted), index_of_smallest(&measured));
        all.n += 1;
        all.n_best += usize::from(chosen == best);
        all.chosen += measured[chosen];
        all.best += measured[best];
        all.mean_of_all += measured.iter().sum::<f64>() / 3.0;
    }
    let n = all.n.max(1) as f64;
    PairingResult {
        chosen: all.chosen / n,
        best: all.best / n,
        mean_of_all: all.mean_of_all / n,
        ..all
    }
}

fn sets_of_four(n: usize) -> Vec<[usize; 4]> {
    let mut all = Vec::new();
    for a in 0..n {
        for b in a + 1..n {
            for c in b + 1..n {
                all.extend((c + 1..n).map(|d| [a, b, c, d]));
            }
        }
    }
    all
}

/// Returns the three pairings of four programs, with two pairs each.
fn pairings_of(
    measurements: &CoRunData,
    [a, b, c, d]: [usize; 4],
) -> Option<[[&MeasuredPair; 2]; 3]> {
    let find = |one: usize, other: usize| {
        let both =
            |pair: &&MeasuredPair| pair.programs == [one, other] || pair.programs == [other, one];
        measurements.pairs.iter().find(both)
    };
    Some([[find(a, b)?, find(c, d)?], [find(a, c)?, find(b, d)?], [find(a, d)?, find(b, c)?]])
}

fn index_of_smallest(costs: &[f64; 3]) -> usize {
    let order = (0..3).min_by(|one, other| costs[*one].total_cmp(&costs[*other]));
    order.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_the_mean_of_their_ranks() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 9.0]), [2.0, 0.5, 2.0, 3.5]);
        assert!(
            (correlation(&ranks(&[1.0, 2.0, 30.0]), &ranks(&[1.0, 8.0, 9.0])) - 1.0).abs() < 1e-12
        );
        assert_eq!(correlation(&ranks(&[1.0, 1.0]), &ranks(&[1.0, 2.0])), 0.0);
    }
}
