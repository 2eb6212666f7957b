//! Baseline predictors of slowdowns. They are fitted like the physics, and the physics must have a smaller error on
//! the same data.
//!
//! | name | slowdown |
//! | --- | --- |
//! | one | 1 |
//! | sum | a + b × (m + n) |
//! | two terms | a + b × m + c × n |
//! | product | a + b × m × bandwidth of the other program |
//! | fixed point | cache split by misses per cycle, misses from the curve, cycles = core cycles + misses × cost, the cost scaled by an M/D/1 queue |
//! | service time | fixed point with a fitted service rate of the channel |
//!
//! m and n are the misses of the program and of the other program, per 1000 instructions with the complete cache,
//! including prefetches. Source: `workloads/data/corun/README.md`, which contains the formulas of the first four
//! predictors and a description of the fixed point.

use super::{CoRunData, MeasuredPair};
use crate::predict::program_table::TableProgram;

/// A baseline predictor with its constants.
#[derive(Clone, Debug, PartialEq)]
pub enum Baseline {
    /// No slowdown.
    One,
    /// Function of the sum of both programs' misses.
    Sum(Vec<f64>),
    /// Function of both programs' misses, with separate terms.
    TwoTerms(Vec<f64>),
    /// Function of the program's misses multiplied by the other program's bandwidth.
    Product(Vec<f64>),
    /// Shared cache and M/D/1 queue, with the peak bandwidth as the service rate.
    FixedPoint,
    /// [`Baseline::FixedPoint`] with a fitted service rate in bytes per nanosecond.
    ServiceTime(f64),
}

/// Returns all baselines before a fit, with their names.
pub fn baselines() -> [(&'static str, Baseline); 6] {
    [
        ("every slowdown is 1", Baseline::One),
        ("sum of both misses", Baseline::Sum(Vec::new())),
        ("own and other's misses, two terms", Baseline::TwoTerms(Vec::new())),
        ("own misses x other's bandwidth", Baseline::Product(Vec::new())),
        ("fixed point, channel at its peak", Baseline::FixedPoint),
        ("fixed point, channel's rate fitted", Baseline::ServiceTime(0.0)),
    ]
}

impl Baseline {
    /// Fits the constants by least squares, and the service rate by the smallest mean absolute error.
    pub fn fit(&self, measurements: &CoRunData) -> Baseline {
        match self {
            Baseline::One => Baseline::One,
            Baseline::FixedPoint => Baseline::FixedPoint,
            Baseline::Sum(_) => Baseline::Sum(self.least_squares(measurements)),
            Baseline::TwoTerms(_) => Baseline::TwoTerms(self.least_squares(measurements)),
            Baseline::Product(_) => Baseline::Product(self.least_squares(measurements)),
            Baseline::ServiceTime(_) => best_rate(measurements),
        }
    }

    /// Returns the slowdowns of the two programs of a pair.
    pub fn pair(&self, measurements: &CoRunData, pair: &MeasuredPair) -> [f64; 2] {
        let [a, b] = pair.programs.map(|idx| &measurements.programs[idx]);
        let each = |constants: &[f64]| {
            [(a, b), (b, a)].map(|(own, other)| {
                let terms = self.terms(measurements, own, other);
                constants.iter().zip(&terms).map(|(by, term)| by * term).sum()
            })
        };
        match self {
            Baseline::One => [1.0, 1.0],
            Baseline::Sum(by) | Baseline::TwoTerms(by) | Baseline::Product(by) => each(by),
            Baseline::FixedPoint => {
                solve_fixed_point(measurements, [a, b], measurements.machine.peak)
            }
            Baseline::ServiceTime(rate) => solve_fixed_point(measurements, [a, b], *rate),
        }
    }

    fn terms(
        &self,
        measurements: &CoRunData,
        own: &TableProgram,
        other: &TableProgram,
    ) -> Vec<f64> {
        let cache = measurements.machine.cache;
        let (own_misses, other_misses) =
            (own.miss_curve.at(cache).misses, other.miss_curve.at(cache).misses);
        match self {
            Baseline::Sum(_) => vec![1.0, own_misses + other_misses],
            Baseline::TwoTerms(_) => vec![1.0, own_misses, other_misses],
            Baseline::Product(_) => vec![1.0, own_misses * bandwidth(measurements, other)],
            _ => Vec::new(),
        }
    }

    fn least_squares(&self, measurements: &CoRunData) -> Vec<f64> {
        let mut rows = Vec::new();
        for pair in &measurements.pairs {
            let [a, b] = pair.programs.map(|idx| &measurements.programs[idx]);
            for (own, other, slowdown) in [(a, b, pair.slowdowns[0]), (b, a, pair.slowdowns[1])] {
                rows.push((self.terms(measurements, own, other), slowdown));
            }
        }
        solve(&rows)
    }
}

/// Returns the bandwidth of a program alone, in bytes per nanosecond.
fn bandwidth(measurements: &CoRunData, known: &TableProgram) -> f64 {
    let row = known.miss_curve.at(measurements.machine.cache);
    let cycles = row.cycles.unwrap_or(1.0);
    64.0 * (row.reads + row.writes) / 1000.0 / cycles * measurements.machine.core.ghz
}

/// Solves the normal equations of least squares by elimination.
fn solve(rows: &[(Vec<f64>, f64)]) -> Vec<f64> {
    let n = rows.first().map_or(0, |(terms, _)| terms.len());
    let mut lines: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let mut line: Vec<f64> =
                (0..n).map(|j| rows.iter().map(|(x, _)| x[i] * x[j]).sum()).collect();
            line.push(rows.iter().map(|(x, y)| x[i] * y).sum());
            line
        })
        .collect();
    for i in 0..n {
        let largest = (i..n).max_by(|a, b| lines[*a][i].abs().total_cmp(&lines[*b][i].abs()));
        lines.swap(i, largest.unwrap_or(i));
        let pivot = lines[i].clone();
        for (j, line) in lines.iter_mut().enumerate() {
            if j != i {
                let factor = line[i] / pivot[i];
                line.iter_mut().zip(&pivot).for_each(|(cell, by)| *cell -= factor * by);
            }
        }
    }
    (0..n).map(|i| lines[i][n] / lines[i][i]).collect()
}

/// Returns the baseline with the best service rate. The rates are tried in steps of a fiftieth of the peak.
fn best_rate(measurements: &CoRunData) -> Baseline {
    let off = |rate: f64| {
        let model = Baseline::ServiceTime(rate);
        let each = measurements.pairs.iter().flat_map(|pair| {
            let predicted = model.pair(measurements, pair);
            [0, 1].map(|idx| (predicted[idx] - pair.slowdowns[idx]).abs())
        });
        super::mean(each)
    };
    let rates = (5..=50).map(|idx| measurements.machine.peak * f64::from(idx) / 50.0);
    let best = rates.map(|rate| (rate, off(rate))).min_by(|one, other| one.1.total_cmp(&other.1));
    Baseline::ServiceTime(best.map_or(measurements.machine.peak, |(rate, _)| rate))
}

/// Maximum utilization in the queueing formula; larger values are replaced by the maximum. Selected for the smallest
/// error of this baseline.
const USE_MAX: f64 = 0.94;
/// Minimum relative change of misses over a curve; smaller changes do not determine the cost of a miss.
const MISS_CHANGE_MIN: f64 = 0.05;
/// Minimum number of cycles per instruction without stalls, for a core that issues four instructions per cycle.
const CORE_CYCLES_MIN: f64 = 0.25;
/// Iterations of the fixed point. Each iteration applies half of the change.
const N_FIXED_POINT_ITERATIONS: usize = 100;

/// Solves the fixed point and returns the slowdowns.
fn solve_fixed_point(
    measurements: &CoRunData,
    programs: [&TableProgram; 2],
    rate: f64,
) -> [f64; 2] {
    let line_cycles = 64.0 / rate * measurements.machine.core.ghz;
    let cache = measurements.machine.cache;
    let programs = programs.map(|program| FixedPointProgram::new(measurements, program));
    let latency_factor = |lines_per_cycle: f64| {
        let in_use = (lines_per_cycle * line_cycles).min(USE_MAX);
        let wait = line_cycles * in_use / (2.0 * (1.0 - in_use));
        1.0 + wait / (measurements.machine.unloaded_ns * measurements.machine.core.ghz)
    };
    let own = [0, 1].map(|idx| latency_factor(programs[idx].lines(cache) / programs[idx].alone));
    let mut cycles = programs.clone().map(|program| program.alone);
    let mut occupancies = [cache / 2.0; 2];
    for _ in 0..N_FIXED_POINT_ITERATIONS {
        let fast = [0, 1].map(|idx| programs[idx].misses(occupancies[idx]).max(1e-9) / cycles[idx]);
        occupancies =
            [0, 1].map(|idx| (occupancies[idx] + cache * fast[idx] / (fast[0] + fast[1])) / 2.0);
        let lines = [0, 1].map(|idx| programs[idx].lines(occupancies[idx]) / cycles[idx]);
        let now = latency_factor(lines[0] + lines[1]);
        cycles = [0, 1].map(|idx| {
            let waits =
                programs[idx].misses(occupancies[idx]) * programs[idx].price * now / own[idx];
            (cycles[idx] + programs[idx].core_cycles + waits) / 2.0
        });
    }
    [0, 1].map(|idx| cycles[idx] / programs[idx].alone)
}

/// A program in the fixed point.
#[derive(Clone)]
struct FixedPointProgram<'a> {
    known: &'a TableProgram,
    /// Cycles per instruction alone, with the whole cache.
    alone: f64,
    /// Cycles per instruction without stalls.
    core_cycles: f64,
    /// Cycles per instruction for each miss per 1000 instructions.
    price: f64,
}

impl<'a> FixedPointProgram<'a> {
    fn new(measurements: &CoRunData, known: &'a TableProgram) -> Self {
        let point = known.miss_curve.at(measurements.machine.cache);
        let alone = point.cycles.unwrap_or(1.0);
        let price = price(known).unwrap_or_else(|| median_price(measurements));
        let price = price.min((alone - CORE_CYCLES_MIN) / point.misses.max(1e-9)).max(0.0);
        FixedPointProgram { known, alone, core_cycles: alone - price * point.misses, price }
    }

    fn misses(&self, bytes: f64) -> f64 {
        self.known.miss_curve.at(bytes).misses
    }

    /// Returns the memory traffic in lines per instruction.
    fn lines(&self, bytes: f64) -> f64 {
        let row = self.known.miss_curve.at(bytes);
        (row.reads + row.writes) / 1000.0
    }
}

/// Returns the slope of cycles over misses at a program's cache sizes. `None` if the misses hardly change or the
/// slope is not positive.
fn price(known: &TableProgram) -> Option<f64> {
    let rows = known.miss_curve.points();
    let points: Vec<(f64, f64)> =
        rows.iter().filter_map(|row| Some((row.misses, row.cycles?))).collect();
    let misses_max = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let misses_min = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
    if misses_max - misses_min < MISS_CHANGE_MIN * misses_max.max(0.5) {
        return None;
    }
    let (x, y) = (
        super::mean(points.iter().map(|point| point.0)),
        super::mean(points.iter().map(|point| point.1)),
    );
    let xx: f64 = points.iter().map(|point| (point.0 - x) * (point.0 - x)).sum();
    let xy: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    Some(xy / xx).filter(|slope| 0.0 < *slope)
}

/// Returns the median of the known costs of a miss.
fn median_price(measurements: &CoRunData) -> f64 {
    let mut known: Vec<f64> = measurements.programs.iter().filter_map(price).collect();
    known.sort_by(f64::total_cmp);
    match (known.len(), known.get(known.len() / 2)) {
        (n, Some(upper)) if n % 2 == 0 => (known[n / 2 - 1] + upper) / 2.0,
        (_, middle) => middle.copied().unwrap_or(0.1),
    }
}
