//! A CPI model of one program. The stall cycles on memory are estimated from the speed of the program alone.
//!
//! ```text
//!   cycles │        ×      slope: stall cycles per exposed miss = latency ÷ memory-level parallelism
//!          │     ×         intercept: core cycles
//!          │  × ╱
//!          │  ╱
//!          └──────────► exposed misses × latency, at several cache sizes
//! ```
//!
//! The slope of a flat curve is noise. The MLP of each program is therefore regularized towards the default; the
//! weight of the default is larger if the points contain less information. Points near saturation of the channel are
//! excluded, because at saturation the latency depends on the program. If a program saturates the channel at the
//! cache size of the model, its MLP cannot be estimated. The model then assumes the maximum MLP and the minimum
//! number of core cycles.

use super::cache_sharing::LINE;
use super::channel::{Channel, Demand};
use super::miss_curve::{MissCurve, MissPoint};

/// Parameters of all programs on a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpiParameters {
    /// Memory-level parallelism of a typical program.
    pub overlap: f64,
    /// Maximum memory-level parallelism: the value of a program that saturates the channel alone.
    pub overlap_max: f64,
    /// Share of prefetched lines that arrive too late.
    pub late: f64,
    /// Minimum number of core cycles per instruction: the inverse of the issue width, plus a margin.
    pub core_cycles_min: f64,
    /// Frequency in GHz.
    pub ghz: f64,
    /// Hit latency of the last-level cache in nanoseconds. Used only if the core cycles of a program do not include
    /// hits; measured cycles include hits.
    pub hit_ns: f64,
}

/// Spread of the inverse MLP among programs (guessed).
const INVERSE_MLP_SPREAD: f64 = 0.25;
/// Relative error of measured cycles per instruction.
const CYCLES_ERROR: f64 = 0.01;
/// Cache size in bytes of the base point. The differences of other points are relative to the point with this size,
/// or with the nearest size. On every machine, it is the size of the calibration machine: if it were the cache size
/// of the simulated machine, the MLP of a program would depend on the machine.
const BASE_BYTES: f64 = 1048576.0;
/// Utilization up to which a point contains information about the latency.
const INFORMATIVE_MAX: f64 = 0.8;
/// Utilizations of a program alone at which it begins to saturate the channel, and at which it saturates the channel
/// (guessed).
const SATURATION_RANGE: [f64; 2] = [0.85, 0.95];

/// The CPI model of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct CpiModel {
    character: MissCurve,
    core_cycles: f64,
    /// Inverse of the memory-level parallelism.
    inverse_mlp: f64,
    parameters: CpiParameters,
}

/// Event counts of a program per 1000 instructions with one cache size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EventsPer1000 {
    /// Loads and stores that miss the private caches.
    pub accesses: f64,
    /// Loads and stores that miss the last-level cache.
    pub demand_misses: f64,
    /// Lines that prefetchers read from memory.
    pub prefetches: f64,
    /// Lines read from memory, including prefetched lines.
    pub reads: f64,
    /// Lines written to memory.
    pub writes: f64,
}

impl CpiModel {
    /// Fits the model for a cache of `bytes`. Returns `None` if no point has cycles.
    pub fn fit(
        character: &MissCurve,
        bytes: f64,
        channel: &Channel,
        parameters: CpiParameters,
    ) -> Option<Self> {
        let points: Vec<Point> = (character.points().iter())
            .filter_map(|row| Point::of(row, channel, &parameters))
            .collect();
        let point = nearest(&points, bytes)?;
        let inverse_mlp = slope(&points, &parameters)?.max(1.0 / parameters.overlap_max);
        Some(CpiModel::from_point(character, point, inverse_mlp, parameters))
    }

    /// Fits the model for a cache of `bytes` with a known MLP. Returns `None` if no point has cycles.
    pub fn fit_with_overlap(
        character: &MissCurve,
        bytes: f64,
        channel: &Channel,
        parameters: CpiParameters,
        overlap: f64,
    ) -> Option<Self> {
        let points: Vec<Point> = (character.points().iter())
            .filter_map(|row| Point::of(row, channel, &parameters))
            .collect();
        let point = nearest(&points, bytes)?;
        Some(CpiModel::from_point(character, point, 1.0 / overlap.max(1.0), parameters))
    }

    /// Returns the model of a program with known core cycles per instruction (without stalls beyond the private
    /// caches) and known MLP.
    pub fn from_core_cycles(
        character: &MissCurve,
        core_cycles: f64,
        overlap: f64,
        parameters: CpiParameters,
    ) -> Self {
        let inverse_mlp = 1.0 / overlap.max(1.0);
        let hits = character.uncached().demand_misses / 1000.0 * parameters.hit_ns * parameters.ghz;
        let core_cycles = core_cycles + hits * inverse_mlp;
        CpiModel { character: character.clone(), core_cycles, inverse_mlp, parameters }
    }

    fn from_point(
        character: &MissCurve,
        point: &Point,
        inverse_mlp: f64,
        parameters: CpiParameters,
    ) -> Self {
        // The core cycles are at least the minimum.
        let core_min = parameters.core_cycles_min.min(point.cycles);
        let stall_cycles_max = point.cycles - core_min;
        let inverse_mlp = if stall_cycles_max < inverse_mlp * point.wait {
            stall_cycles_max / point.wait
        } else {
            inverse_mlp
        };
        let core_cycles = point.cycles - inverse_mlp * point.wait;
        // At saturation, the latency contains no information about the MLP, because the latency depends on the number
        // of outstanding misses.
        let full = ((point.in_use - SATURATION_RANGE[0])
            / (SATURATION_RANGE[1] - SATURATION_RANGE[0]))
            .clamp(0.0, 1.0);
        let mix = |apart: f64, filling: f64| apart * (1.0 - full) + filling * full;
        CpiModel {
            character: character.clone(),
            core_cycles: mix(core_cycles, core_min),
            inverse_mlp: mix(inverse_mlp, 1.0 / parameters.overlap_max),
            parameters,
        }
    }

    /// Returns this program on cores with another frequency. Core cycles and memory latencies are unchanged.
    pub fn clocked(self, ghz: f64) -> Self {
        CpiModel { parameters: CpiParameters { ghz, ..self.parameters }, ..self }
    }

    /// Returns the miss-ratio curve of the program.
    pub fn miss_curve(&self) -> &MissCurve {
        &self.character
    }

    /// Returns the memory-level parallelism.
    pub fn overlap(&self) -> f64 {
        1.0 / self.inverse_mlp
    }

    /// Returns the frequency for which [`CpiModel::demand`] is computed, in GHz.
    pub fn ghz(&self) -> f64 {
        self.parameters.ghz
    }

    /// Returns the demand with a cache of `bytes`.
    pub fn demand(&self, bytes: f64) -> Demand {
        let row = self.character.at(bytes);
        Demand {
            core_ns: 1000.0 * self.core_cycles / self.parameters.ghz,
            exposed: exposed(&row, &self.parameters) * self.inverse_mlp,
            bytes: LINE * (row.reads + row.writes),
        }
    }

    /// Returns the event counts with a cache of `bytes`.
    pub fn counts(&self, bytes: f64) -> EventsPer1000 {
        let row = self.character.at(bytes);
        EventsPer1000 {
            accesses: self.character.uncached().demand_misses,
            demand_misses: row.demand_misses,
            prefetches: prefetched(&row),
            reads: row.reads,
            writes: row.writes,
        }
    }
}

fn nearest(points: &[Point], bytes: f64) -> Option<&Point> {
    points.iter().min_by(|one, other| {
        let distance = |point: &Point| libm::fabs(libm::log(point.bytes / bytes));
        distance(one).total_cmp(&distance(other))
    })
}

/// Returns the slope of cycles over stalls relative to the base point, regularized towards the default; `None`
/// without points.
fn slope(points: &[Point], parameters: &CpiParameters) -> Option<f64> {
    let base = nearest(points, BASE_BYTES)?;
    let (mut xx, mut xy) = (0.0, 0.0);
    for point in points.iter().filter(|point| point.in_use <= INFORMATIVE_MAX) {
        let (x, y) = (point.wait - base.wait, point.cycles - base.cycles);
        (xx, xy) = (xx + x * x, xy + x * y);
    }
    let doubt = libm::pow(CYCLES_ERROR * base.cycles / INVERSE_MLP_SPREAD, 2.0);
    Some((xy + doubt / parameters.overlap) / (xx + doubt))
}

/// Returns the misses per 1000 instructions that stall the core.
fn exposed(row: &MissPoint, parameters: &CpiParameters) -> f64 {
    row.demand_misses + parameters.late * prefetched(row)
}

/// Returns the number of prefetched lines. If several accesses miss a line, it is read once, so the number of lines
/// read can be smaller than the number of misses.
fn prefetched(row: &MissPoint) -> f64 {
    (row.reads.min(row.misses) - row.demand_misses).max(0.0)
}

/// A point of the drawing in the module documentation.
struct Point {
    bytes: f64,
    cycles: f64,
    /// Stall cycles per instruction if misses did not overlap.
    wait: f64,
    in_use: f64,
}

impl Point {
    fn of(row: &MissPoint, channel: &Channel, parameters: &CpiParameters) -> Option<Self> {
        let cycles = row.cycles?;
        let in_use =
            LINE * (row.reads + row.writes) / 1000.0 / cycles * parameters.ghz / channel.capacity;
        let latency = channel.latency_ns(in_use) * parameters.ghz;
        let wait = exposed(row, parameters) / 1000.0 * latency;
        Some(Point { bytes: row.bytes, cycles, wait, in_use })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physics::Calibration;

    const MIB: f64 = 1048576.0;

    /// Returns a machine with 4 GHz, 45 ns, 12.8 GB/s peak.
    fn machine() -> (Channel, CpiParameters) {
        (Calibration::default().channel(45.0, 12.8), Calibration::default().parameters(4.0))
    }

    /// Returns a curve with these misses, generated from known core cycles and a known MLP.
    fn generated_curve(misses: &[f64], core: f64, overlap: f64) -> MissCurve {
        let (channel, parameters) = machine();
        let row = |(idx, &misses): (usize, &f64)| {
            let bytes = MIB / f64::from(1u32 << idx);
            let row = MissPoint::of_demand(bytes, misses);
            // Cycles and utilization depend on each other. A few iterations converge.
            let mut cycles = core;
            for _ in 0..50 {
                let point =
                    Point::of(&MissPoint { cycles: Some(cycles), ..row }, &channel, &parameters);
                cycles = core + point.unwrap().wait / overlap;
            }
            MissPoint { cycles: Some(cycles), ..row }
        };
        let rows = misses.iter().enumerate().map(row).collect();
        MissCurve::new(rows, MissPoint::default()).unwrap()
    }

    #[test]
    fn core_cycles_and_overlap_of_a_steep_curve_are_recovered() {
        let (channel, parameters) = machine();
        let model =
            CpiModel::fit(&generated_curve(&[2.0, 5.0, 12.0], 0.6, 2.5), MIB, &channel, parameters)
                .unwrap();
        assert!((model.overlap() - 2.5).abs() < 0.05, "{}", model.overlap());
        assert!((model.demand(MIB).core_ns - 150.0).abs() < 2.0, "{:?}", model.demand(MIB));
    }

    #[test]
    fn the_overlap_does_not_depend_on_the_cache_size() {
        let (channel, parameters) = machine();
        let made = generated_curve(&[2.0, 5.0, 12.0], 0.6, 2.5);
        // One point has an error of two percent.
        let mut rows = made.points().to_vec();
        rows[1].cycles = rows[1].cycles.map(|cycles| cycles * 0.98);
        let scattered = MissCurve::new(rows, MissPoint::default()).unwrap();
        let overlap =
            |bytes| CpiModel::fit(&scattered, bytes, &channel, parameters).unwrap().overlap();
        assert_eq!(overlap(MIB), overlap(MIB / 4.0));
        assert_eq!(overlap(MIB), overlap(MIB / 2.0));
    }

    #[test]
    fn a_flat_curve_gives_the_default_overlap() {
        let (channel, parameters) = machine();
        let model =
            CpiModel::fit(&generated_curve(&[5.0, 5.0, 5.0], 1.2, 2.5), MIB, &channel, parameters)
                .unwrap();
        assert!((model.overlap() / parameters.overlap - 1.0).abs() < 1e-6, "{}", model.overlap());
    }

    #[test]
    fn the_measured_speed_alone_is_reproduced() {
        let (channel, parameters) = machine();
        let character = generated_curve(&[2.0, 5.0, 12.0], 0.6, 2.5);
        let model = CpiModel::fit(&character, MIB, &channel, parameters).unwrap();
        let predicted = channel.load(&[model.demand(MIB)]).each_ns[0] * 4.0 / 1000.0;
        let measured = character.at(MIB).cycles.unwrap();
        assert!((predicted / measured - 1.0).abs() < 1e-6, "{predicted} {measured}");
    }

    #[test]
    fn a_program_that_saturates_the_channel_has_the_largest_overlap() {
        let (channel, parameters) = machine();
        let row = MissPoint {
            bytes: MIB,
            cycles: Some(3.2),
            demand_misses: 47.0,
            misses: 91.0,
            reads: 64.0,
            writes: 32.0,
        };
        let character = MissCurve::new(vec![row], MissPoint::default()).unwrap();
        let model = CpiModel::fit(&character, MIB, &channel, parameters).unwrap();
        assert!((model.overlap() - parameters.overlap_max).abs() < 1e-9, "{}", model.overlap());
        assert!((model.demand(MIB).core_ns - 75.0).abs() < 1e-9, "{:?}", model.demand(MIB));
    }

    #[test]
    fn counts_are_accesses_misses_and_prefetches() {
        let (_, parameters) = machine();
        let row = MissPoint {
            bytes: MIB,
            demand_misses: 3.0,
            misses: 5.0,
            reads: 4.0,
            writes: 1.0,
            cycles: None,
        };
        let none = MissPoint { demand_misses: 9.0, misses: 12.0, ..row };
        let model = CpiModel::from_core_cycles(
            &MissCurve::new(vec![row], none).unwrap(),
            0.5,
            2.0,
            parameters,
        );
        let expected = EventsPer1000 {
            accesses: 9.0,
            demand_misses: 3.0,
            prefetches: 1.0,
            reads: 4.0,
            writes: 1.0,
        };
        assert_eq!(model.counts(MIB), expected);
    }

    #[test]
    fn hits_are_added_to_known_core_cycles() {
        let (_, parameters) = machine();
        let row =
            MissPoint { bytes: MIB, demand_misses: 10.0, misses: 10.0, ..MissPoint::default() };
        let character = MissCurve::new(vec![row], row).unwrap();
        let model = CpiModel::from_core_cycles(
            &character,
            0.5,
            2.0,
            CpiParameters { hit_ns: 10.0, ..parameters },
        );
        // 10 accesses take 10 ns each, with an MLP of two.
        assert!((model.demand(MIB).core_ns - 125.0 - 50.0).abs() < 1e-9);
    }
}
