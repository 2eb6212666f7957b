//! How far off predictions are, with each program left out of the fit in turn.

use super::{BEGIN, Fitted, Simple, Told, Truth, fit_from};

/// What one model told of pairs in which a program is that it was not fitted on.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// A row for each program left out and each slow-down of the pairs that it is in.
    pub rows: Vec<Row>,
}

/// One slow-down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The program that was left out.
    pub left_out: usize,
    /// Whose slow-down.
    pub program: usize,
    /// Beside whom.
    pub beside: usize,
    /// What the model told.
    pub told: f64,
    /// What was measured.
    pub measured: f64,
}

/// Of several predictions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Mean absolute error of the slow-down.
    pub mean: f64,
    /// The largest.
    pub largest: f64,
    /// Spearman's rank correlation of what was told with what was measured.
    pub rank: f64,
}

/// The physics, fitted anew for each program left out.
pub fn judge(truth: &Truth) -> Judged {
    judge_from(truth, &BEGIN)
}

/// The same with fits that begin elsewhere: what the left-out error owes to the begin.
pub fn judge_from(truth: &Truth, begin: &Fitted) -> Judged {
    left_out(truth, |rest| physics(truth, &fit_from(rest, begin)))
}

/// A simple predictor, fitted anew for each program left out.
pub fn simple(truth: &Truth, begin: &Simple) -> Judged {
    left_out(truth, |rest| {
        let fitted = begin.fit(rest);
        move |pair| fitted.pair(truth, pair)
    })
}

/// The physics with figures that are given, on all pairs.
pub fn physics(truth: &Truth, fitted: &Fitted) -> impl Fn(&super::Pair) -> [f64; 2] + use<> {
    let told = Told::new(truth, fitted);
    move |pair| told.pair(pair)
}

fn left_out<M: Fn(&super::Pair) -> [f64; 2]>(truth: &Truth, fit: impl Fn(&Truth) -> M) -> Judged {
    let mut rows = Vec::new();
    for left_out in 0..truth.programs.len() {
        let model = fit(&truth.without(left_out));
        for pair in truth.pairs_of(left_out) {
            rows.extend(both(pair, model(pair)).map(|row| Row { left_out, ..row }));
        }
    }
    Judged { rows }
}

/// Predictions of a model that was fitted on what it is judged by.
pub fn in_sample(truth: &Truth, model: impl Fn(&super::Pair) -> [f64; 2]) -> Judged {
    let rows = truth.pairs.iter().flat_map(|pair| both(pair, model(pair)));
    Judged { rows: rows.collect() }
}

fn both(pair: &super::Pair, told: [f64; 2]) -> [Row; 2] {
    let [a, b] = pair.programs;
    [(0, a, b), (1, b, a)].map(|(idx, program, beside)| Row {
        left_out: program,
        program,
        beside,
        told: told[idx],
        measured: pair.slowdowns[idx],
    })
}

impl Judged {
    /// All errors.
    pub fn errors(&self) -> Errors {
        Errors::of(self.rows.iter())
    }

    /// Those of the pairs of a program that was left out.
    pub fn of(&self, left_out: usize) -> Errors {
        Errors::of(self.rows.iter().filter(|row| row.left_out == left_out))
    }

    /// Those of pairs that a program is not in.
    pub fn errors_without(&self, program: usize) -> Errors {
        Errors::of(self.rows.iter().filter(|row| row.program != program && row.beside != program))
    }
}

impl Errors {
    fn of<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Self {
        let off = rows.clone().map(|row| (row.told - row.measured).abs());
        let told: Vec<f64> = rows.clone().map(|row| row.told).collect();
        let measured: Vec<f64> = rows.map(|row| row.measured).collect();
        Errors {
            mean: super::mean(off.clone()),
            largest: off.fold(0.0, f64::max),
            rank: rank_correlation(&told, &measured),
        }
    }
}

/// Spearman's: whether two lists of figures stand in the same order, 1 if they do, -1 if in the opposite one; 0
/// where all of one list are equal.
pub fn rank_correlation(one: &[f64], other: &[f64]) -> f64 {
    correlation(&ranks(one), &ranks(other))
}

/// The place of each value in their order; equals share the middle of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: &f64| values.iter().filter(|other| *other < value).count();
    let upto = |value: &f64| values.iter().filter(|other| *other <= value).count();
    values.iter().map(|value| (below(value) + upto(value)) as f64 / 2.0).collect()
}

/// Pearson's; 0 where one of them never changes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_what_is_compared() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 9.0]), [2.0, 0.5, 2.0, 3.5]);
        assert!(
            (correlation(&ranks(&[1.0, 2.0, 30.0]), &ranks(&[1.0, 8.0, 9.0])) - 1.0).abs() < 1e-12
        );
        assert_eq!(correlation(&ranks(&[1.0, 1.0]), &ranks(&[1.0, 2.0])), 0.0);
    }
}
