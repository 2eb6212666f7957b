//! The figures that are free are fitted on measured slow-downs, and judged on programs left out of the fit.
//!
//! ```text
//!   solo.csv ── what each does alone ──► physics ──► told ─┐
//!                                           ▲              ├─► how far off ─► search
//!   pairs.csv, numa.csv ── measured ────────┼──────────────┘                   │
//!                                           └───────────── Fitted ◄────────────┘
//! ```
//!
//! The error of a model on the data that it was fitted on tells how well it bends; so [`judge`] leaves each
//! program out in turn, fits on the pairs of the others, and tells the pairs that it is in. The simple
//! predictors beside it are fitted in the same way.

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

/// The machine that something was measured on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Bytes of last-level cache.
    pub cache: f64,
    /// Nanoseconds of a miss when nobody else asks.
    pub unloaded_ns: f64,
    /// Bytes per nanosecond at the peak of its memory.
    pub peak: f64,
    /// Cycles in a nanosecond.
    pub ghz: f64,
    /// Nanoseconds more of a miss in remote memory.
    pub farther_ns: f64,
}

impl Machine {
    /// As a machine file tells it.
    pub fn of(site: &Site, farther_ns: f64) -> Self {
        let Site { cache, unloaded_ns, peak, ghz, .. } = *site;
        Machine { cache, unloaded_ns, peak, ghz, farther_ns }
    }
}

/// Where a fit begins, and what it leaves only as far as the data ask for it. Figures that any machine
/// might have; ten misses under way are as many as the first cache of many cores keeps track of.
pub const BEGIN: Fitted =
    Fitted { slope: 1.0, cap: 0.6, overlap: 1.5, overlap_max: 10.0, late: 0.1 };

/// So many rounds, begun anew so often where the last ones ended: then no digit that is printed changes.
const N_ROUNDS: usize = 200;
const N_BEGINS: usize = 3;
/// Edge of the first simplex, in logarithms.
const EDGE: f64 = 0.2;
/// What remote memory weighs beside pairs. Guessed: six figures beside thirty.
const REMOTE_WEIGHT: f64 = 0.2;
/// How much it costs to leave the begin: beside thirty slow-downs that are told to 4 %, each figure is
/// believed to a factor of 1.6. Guessed.
const BELIEF: f64 = 0.0002;

/// The figures with which the physics tells the slow-downs best. What can be moved is not among those that
/// are searched for: it is what the hungriest program of the data moves alone.
pub fn fit(truth: &Truth) -> Fitted {
    fit_from(truth, &BEGIN)
}

/// The same with other figures to begin with.
pub fn fit_from(truth: &Truth, begin: &Fitted) -> Fitted {
    let Machine { peak, ghz, .. } = truth.machine;
    let moved = truth.programs.iter().map(|its| its.moved(ghz));
    let cap = (moved.fold(0.0, f64::max) / peak).min(1.0);
    let begin = logarithms(begin);
    let costs = |numbers: &[f64]| {
        let far = numbers.iter().zip(&begin).map(|(one, other)| (one - other) * (one - other));
        how_far_off(truth, &fitted(numbers, cap)) + BELIEF * far.sum::<f64>()
    };
    let mut numbers = begin.clone();
    for _ in 0..N_BEGINS {
        numbers = smallest(costs, &numbers, EDGE, N_ROUNDS).0;
    }
    fitted(&numbers, cap)
}

/// All of them are positive, so the search goes over their logarithms.
fn logarithms(fitted: &Fitted) -> Vec<f64> {
    let Fitted { slope, overlap, overlap_max, late, .. } = *fitted;
    [slope, overlap, overlap_max, late].map(libm::log).to_vec()
}

fn fitted(numbers: &[f64], cap: f64) -> Fitted {
    let at = |idx: usize| numbers.get(idx).map_or(1.0, |number| libm::exp(*number));
    Fitted { slope: at(0), cap, overlap: at(1), overlap_max: at(2), late: at(3) }
}

/// The mean over slow-downs of ln(told ÷ measured)²: a tenth too much counts as a tenth too little.
fn how_far_off(truth: &Truth, fitted: &Fitted) -> f64 {
    if 1.0 < fitted.late || fitted.overlap < 1.0 || fitted.overlap_max < fitted.overlap {
        return f64::INFINITY;
    }
    let told = Told::new(truth, fitted);
    let off = |told: f64, measured: f64| libm::pow(libm::log(told / measured), 2.0);
    let pairs = truth.pairs.iter().flat_map(|pair| {
        let both = told.pair(pair);
        [0, 1].map(|idx| off(both[idx], pair.slowdowns[idx]))
    });
    let remote = truth.remote.iter().map(|its| off(told.remote(its.program), its.slowdown));
    mean(pairs) + REMOTE_WEIGHT * mean(remote)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}

/// What the physics tells with certain figures.
pub struct Told {
    domain: Domain,
    behaviours: Vec<Behaviour>,
    farther_ns: f64,
}

impl Told {
    /// Of the programs and the machine of some data.
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

    /// The slow-downs of two side by side.
    pub fn pair(&self, pair: &Pair) -> [f64; 2] {
        let told = self.mix(&pair.programs);
        [0, 1].map(|idx| told.get(idx).map_or(1.0, |its| its.slowdown))
    }

    /// What becomes of several side by side.
    pub fn mix(&self, programs: &[usize]) -> Vec<Predicted> {
        let programs: Vec<&Behaviour> =
            programs.iter().filter_map(|idx| self.behaviours.get(*idx)).collect();
        side_by_side(&programs, &self.domain)
    }

    /// The slow-down of one alone with its memory farther away.
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
