//! Calibration of the free parameters on measured slowdowns, with cross-validation.
//!
//! ```text
//!   solo.csv ── each program alone ─────► physics ──► predicted ─┐
//!                                           ▲                    ├─► error ─► minimization
//!   pairs.csv, numa.csv ── measured ────────┼────────────────────┘                │
//!                                           └───────────── Fitted ◄───────────────┘
//! ```
//!
//! The error on the data of the fit shows the flexibility of a model only. So [`judge`] leaves each program out in turn,
//! fits on the pairs of the others, and predicts its pairs. The baseline predictors are fitted in the same way.

mod data;
mod judge;
mod search;
mod simple;
mod splits;
#[cfg(test)]
mod tests;

pub use data::{DataError, Pair, Remote, Truth};
pub use judge::{
    Errors, Judged, Row, in_sample, judge, judge_from, physics, rank_correlation, simple,
};
pub use search::smallest;
pub use simple::{Simple, all};
pub use splits::{Splits, splits};

use crate::physics::{Behaviour, Channel, Demand, Fitted};
use crate::predict::programs::Known;
use crate::predict::{Domain, Predicted, Site, side_by_side};

/// The machine of the measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Size of the last-level cache in bytes.
    pub cache: f64,
    /// Unloaded miss latency in nanoseconds.
    pub unloaded_ns: f64,
    /// Peak bandwidth of its memory in bytes per nanosecond.
    pub peak: f64,
    /// Frequency in GHz.
    pub ghz: f64,
    /// Additional latency of remote memory in nanoseconds.
    pub farther_ns: f64,
}

impl Machine {
    /// From the LLC domain of a machine file.
    pub fn of(site: &Site, farther_ns: f64) -> Self {
        let Site { cache, unloaded_ns, peak, ghz, .. } = *site;
        Machine { cache, unloaded_ns, peak, ghz, farther_ns }
    }
}

/// The initial parameters, also the prior of the fit: plausible values for any machine. Ten outstanding misses are as many
/// as the first-level cache of many cores tracks.
pub const BEGIN: Fitted =
    Fitted { slope: 1.0, cap: 0.6, overlap: 1.5, overlap_max: 10.0, late: 0.1 };

/// Iterations per start, and number of starts, each at the previous result. With more, no printed digit changes.
const N_ROUNDS: usize = 200;
const N_BEGINS: usize = 3;
/// Edge of the initial simplex, in logarithms.
const EDGE: f64 = 0.2;
/// Weight of remote memory relative to pairs. Guessed: six values beside thirty.
const REMOTE_WEIGHT: f64 = 0.2;
/// Weight of the distance from the prior: with thirty slowdowns predicted to 4 %, each parameter is assumed to be known to a
/// factor of 1.6. Guessed.
const PRIOR_WEIGHT: f64 = 0.0002;

/// The parameters with the best predictions. The capacity is not searched for: it is the largest bandwidth of any program
/// alone.
pub fn fit(truth: &Truth) -> Fitted {
    fit_from(truth, &BEGIN)
}

/// The same with other initial parameters.
pub fn fit_from(truth: &Truth, begin: &Fitted) -> Fitted {
    let Machine { peak, ghz, .. } = truth.machine;
    let moved = truth.programs.iter().map(|its| its.moved(ghz));
    let cap = (moved.fold(0.0, f64::max) / peak).min(1.0);
    let begin = logarithms(begin);
    let costs = |numbers: &[f64]| {
        let far = numbers.iter().zip(&begin).map(|(one, other)| (one - other) * (one - other));
        how_far_off(truth, &fitted(numbers, cap)) + PRIOR_WEIGHT * far.sum::<f64>()
    };
    let mut numbers = begin.clone();
    for _ in 0..N_BEGINS {
        numbers = smallest(costs, &numbers, EDGE, N_ROUNDS).0;
    }
    fitted(&numbers, cap)
}

/// All parameters are positive, so the search uses their logarithms.
fn logarithms(fitted: &Fitted) -> Vec<f64> {
    let Fitted { slope, overlap, overlap_max, late, .. } = *fitted;
    [slope, overlap, overlap_max, late].map(libm::log).to_vec()
}

fn fitted(numbers: &[f64], cap: f64) -> Fitted {
    let at = |idx: usize| numbers.get(idx).map_or(1.0, |number| libm::exp(*number));
    Fitted { slope: at(0), cap, overlap: at(1), overlap_max: at(2), late: at(3) }
}

/// The mean of ln(predicted ÷ measured)² over slowdowns: errors by a factor count the same in both directions.
fn how_far_off(truth: &Truth, fitted: &Fitted) -> f64 {
    if 1.0 < fitted.late || fitted.overlap < 1.0 || fitted.overlap_max < fitted.overlap {
        return f64::INFINITY;
    }
    let predictor = Told::new(truth, fitted);
    let off = |predicted: f64, measured: f64| libm::pow(libm::log(predicted / measured), 2.0);
    let pairs = truth.pairs.iter().flat_map(|pair| {
        let both = predictor.pair(pair);
        [0, 1].map(|idx| off(both[idx], pair.slowdowns[idx]))
    });
    let remote = truth.remote.iter().map(|its| off(predictor.remote(its.program), its.slowdown));
    mean(pairs) + REMOTE_WEIGHT * mean(remote)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}

/// The physics with given parameters.
pub struct Told {
    domain: Domain,
    behaviours: Vec<Behaviour>,
    farther_ns: f64,
}

impl Told {
    /// For the programs and the machine of a data set.
    pub fn new(truth: &Truth, fitted: &Fitted) -> Self {
        let Machine { cache, unloaded_ns, peak, ghz, farther_ns } = truth.machine;
        let channel = fitted.channel(unloaded_ns, peak);
        let moved = truth.programs.iter().map(|its| its.moved(ghz));
        let channel = channel.with_seen(moved.fold(0.0, f64::max));
        let habits = fitted.habits(ghz);
        let of = |known: &Known| Behaviour::of(&known.character, cache, &channel, habits);
        let behaviours = truth.programs.iter().filter_map(of).collect();
        Told { domain: Domain { cache, channel }, behaviours, farther_ns }
    }

    /// The machine's channel.
    pub fn channel(&self) -> &Channel {
        &self.domain.channel
    }

    /// The slowdowns of a pair.
    pub fn pair(&self, pair: &Pair) -> [f64; 2] {
        let predicted = self.mix(&pair.programs);
        [0, 1].map(|idx| predicted.get(idx).map_or(1.0, |its| its.slowdown))
    }

    /// The predictions for several programs together.
    pub fn mix(&self, programs: &[usize]) -> Vec<Predicted> {
        let programs: Vec<&Behaviour> =
            programs.iter().filter_map(|idx| self.behaviours.get(*idx)).collect();
        side_by_side(&programs, &self.domain)
    }

    /// The slowdown of a program alone with remote memory.
    pub fn remote(&self, program: usize) -> f64 {
        let Some(its) = self.behaviours.get(program) else { return 1.0 };
        let near = its.demand(self.domain.cache);
        let takes = |demand: Demand| {
            let loaded = self.domain.channel.load(&[demand]);
            loaded.each_ns.first().copied().unwrap_or(1.0)
        };
        takes(near.farther(self.farther_ns)) / takes(near)
    }
}
