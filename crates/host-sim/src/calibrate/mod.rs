//! Calibration of the free parameters on measured slowdowns, with cross-validation.
//!
//! ```text
//!   solo.csv ── each program alone ─────► physics ──► predicted ─┐
//!                                           ▲                    ├─► error ─► minimization
//!   pairs.csv, numa.csv ── measured ────────┼────────────────────┘                │
//!                                           └──────── Calibration ◄───────────────┘
//! ```
//!
//! The error on the data of the fit does not show how well a model predicts other programs. [`cross_validate`]
//! therefore excludes each program in turn, fits the model to the pairs of the other programs, and predicts the pairs
//! of the excluded program. The baseline predictors are fitted in this way too.

mod baselines;
mod cross_validation;
mod measurements;
mod nelder_mead;
#[cfg(test)]
mod tests;

pub use baselines::{Baseline, baselines};
pub use cross_validation::{
    CrossValidation, PairingResult, PredictedSlowdown, PredictionErrors, cross_validate,
    cross_validate_baseline, cross_validate_from, evaluate_pairings, in_sample, physics_predictor,
    rank_correlation,
};
pub use measurements::{CoRunData, DataError, MeasuredPair, MeasuredRemote};
pub use nelder_mead::minimize;

use topology::Replacement;

use crate::physics::{Calibration, Channel, CoreSpeed, CpiModel, StreamEfficiency};
use crate::predict::program_table::TableProgram;
use crate::predict::{CacheDomain, CacheLimits, LlcDomain, Prediction, predict_together};

/// The machine on which the slowdowns were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoRunMachine {
    /// Size of the last-level cache in bytes.
    pub cache: f64,
    /// Unloaded miss latency in nanoseconds.
    pub unloaded_ns: f64,
    /// Peak memory bandwidth in bytes per nanosecond.
    pub peak: f64,
    /// The cores.
    pub core: CoreSpeed,
    /// Additional latency of remote memory in nanoseconds.
    pub remote_extra_ns: f64,
    /// Replacement in the cache.
    pub replacement: Replacement,
    /// Capacity of the memory by the number of open streams.
    pub streams: StreamEfficiency,
}

impl CoRunMachine {
    /// Returns the machine for the LLC domain of a machine file.
    pub fn of(llc_domain: &LlcDomain, extra_ns: f64) -> Self {
        let LlcDomain { domain, peak, core, .. } = *llc_domain;
        let CacheDomain { cache, replacement, channel, .. } = domain;
        let Channel { unloaded_ns, streams, .. } = channel;
        let remote_extra_ns = extra_ns;
        CoRunMachine { cache, unloaded_ns, peak, core, remote_extra_ns, replacement, streams }
    }
}

/// Initial parameters, which are also the prior of the fit: plausible values for any machine. The value for
/// outstanding misses is ten, which is the number that the first-level cache of many cores can track.
pub const BEGIN: Calibration =
    Calibration { slope: 1.0, cap: 0.6, overlap: 1.5, overlap_max: 10.0, late: 0.1 };

/// Iterations of the simplex per start and number of starts. Each start begins at the previous result. More iterations
/// do not change any printed digit.
const N_SIMPLEX_ITERATIONS: usize = 200;
const N_BEGINS: usize = 3;
/// Edge of the initial simplex, in logarithms of the parameters.
const EDGE: f64 = 0.2;
/// Weight of the six values with remote memory relative to the thirty values of pairs (guessed).
const REMOTE_WEIGHT: f64 = 0.2;
/// Weight of the distance from the prior. If thirty slowdowns are predicted to 4 %, each parameter is assumed to be
/// known to a factor of 1.6 (guessed).
const PRIOR_WEIGHT: f64 = 0.0002;

/// Returns the parameters with the best predictions. The capacity is not fitted: it is the largest bandwidth of any
/// program alone.
pub fn fit(measurements: &CoRunData) -> Calibration {
    fit_from(measurements, &BEGIN)
}

/// Returns the parameters with the best predictions, for other initial parameters than [`BEGIN`].
pub fn fit_from(measurements: &CoRunData, begin: &Calibration) -> Calibration {
    let CoRunMachine { peak, core, .. } = measurements.machine;
    let bandwidths = measurements.programs.iter().map(|program| program.max_bandwidth(core.ghz));
    let cap = (bandwidths.fold(0.0, f64::max) / peak).min(1.0);
    let begin = logarithms(begin);
    let costs = |numbers: &[f64]| {
        let squared_distances =
            numbers.iter().zip(&begin).map(|(one, other)| (one - other) * (one - other));
        mean_squared_log_error(measurements, &fitted(numbers, cap))
            + PRIOR_WEIGHT * squared_distances.sum::<f64>()
    };
    let mut numbers = begin.clone();
    for _ in 0..N_BEGINS {
        numbers = minimize(costs, &numbers, EDGE, N_SIMPLEX_ITERATIONS).0;
    }
    fitted(&numbers, cap)
}

/// Returns the logarithms of the parameters. The search uses them because all parameters are positive.
fn logarithms(fitted: &Calibration) -> Vec<f64> {
    let Calibration { slope, overlap, overlap_max, late, .. } = *fitted;
    [slope, overlap, overlap_max, late].map(libm::log).to_vec()
}

fn fitted(numbers: &[f64], cap: f64) -> Calibration {
    let parameter = |idx: usize| libm::exp(numbers[idx]);
    Calibration {
        slope: parameter(0),
        cap,
        overlap: parameter(1),
        overlap_max: parameter(2),
        late: parameter(3),
    }
}

/// Returns the mean of ln(predicted ÷ measured)² over slowdowns. Predictions that are too large or too small by the
/// same factor have equal errors.
fn mean_squared_log_error(measurements: &CoRunData, fitted: &Calibration) -> f64 {
    if 1.0 < fitted.late || fitted.overlap < 1.0 || fitted.overlap_max < fitted.overlap {
        return f64::INFINITY;
    }
    let predictor = Predictor::new(measurements, fitted);
    let squared_log_error =
        |predicted: f64, measured: f64| libm::pow(libm::log(predicted / measured), 2.0);
    let pairs = measurements.pairs.iter().flat_map(|pair| {
        let predicted = predictor.pair(pair);
        [0, 1].map(|idx| squared_log_error(predicted[idx], pair.slowdowns[idx]))
    });
    let remote = measurements
        .remote
        .iter()
        .map(|remote| squared_log_error(predictor.remote(remote.program), remote.slowdown));
    mean(pairs) + REMOTE_WEIGHT * mean(remote)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}

/// A predictor of slowdowns: the physics with given parameters.
pub struct Predictor {
    domain: CacheDomain,
    models: Vec<CpiModel>,
    extra_ns: f64,
}

impl Predictor {
    /// Returns a predictor for the programs and the machine of the measurements.
    pub fn new(measurements: &CoRunData, fitted: &Calibration) -> Self {
        let CoRunMachine { cache, unloaded_ns, peak, core, replacement, streams, .. } =
            measurements.machine;
        let extra_ns = measurements.machine.remote_extra_ns;
        let channel = Channel { streams, ..fitted.channel(unloaded_ns, peak) };
        let bandwidths =
            measurements.programs.iter().map(|program| program.max_bandwidth(core.ghz));
        let channel = channel.with_capacity_of(bandwidths.fold(0.0, f64::max));
        let parameters = fitted.parameters(core);
        let model_of = |known: &TableProgram| {
            CpiModel::fit(&known.miss_curve, cache, &channel, parameters)
                .expect("each row of a table has cycles")
        };
        let models = measurements.programs.iter().map(model_of).collect();
        Predictor {
            domain: CacheDomain { cache, replacement, channel, limits: CacheLimits::default() },
            models,
            extra_ns,
        }
    }

    /// Returns the memory channel of the machine.
    pub fn channel(&self) -> &Channel {
        &self.domain.channel
    }

    /// Returns the slowdowns of the two programs of a pair.
    pub fn pair(&self, pair: &MeasuredPair) -> [f64; 2] {
        let predicted = self.predict(&pair.programs);
        [0, 1].map(|idx| predicted[idx].slowdown)
    }

    /// Returns the predictions for several programs that run together.
    pub fn predict(&self, programs: &[usize]) -> Vec<Prediction> {
        let programs: Vec<&CpiModel> = programs.iter().map(|&idx| &self.models[idx]).collect();
        predict_together(&programs, &self.domain)
    }

    /// Returns the slowdown of a program that runs alone with remote memory.
    pub fn remote(&self, program: usize) -> f64 {
        let local = self.models[program].demand(self.domain.cache);
        let memory = self.domain.channel;
        memory.ns_alone(local.with_extra_latency(self.extra_ns)) / memory.ns_alone(local)
    }
}
