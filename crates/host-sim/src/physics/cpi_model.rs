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

use std::sync::Arc;

use super::cache_sharing::LINE;
use super::channel::{Channel, Demand};
use super::miss_curve::{EventsPer1000, MissCurve, MissPoint, prefetched};

/// Values of a core and its last-level cache that determine the speed of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreSpeed {
    /// Frequency in GHz.
    pub ghz: f64,
    /// Core cycles per instruction relative to the core of the model, for example 1.3 for a narrower core.
    pub relative_cycles: f64,
    /// Largest number of misses that wait at the same time; it limits the memory-level parallelism of every program.
    pub outstanding_max: f64,
    /// Whether the core has a hardware prefetcher. Without it, no line is prefetched.
    pub has_prefetcher: bool,
    /// Hit latency of the last-level cache in nanoseconds.
    pub hit_ns: f64,
    /// Cache between the core and its last-level cache that a program has, in bytes. Without it, a program accesses the
    /// last-level cache as often as where it was measured.
    pub private_bytes: Option<f64>,
    /// Timeliness of prefetches.
    pub prefetch: PrefetchTimeliness,
}

/// How much of the latency prefetches hide. A prefetcher runs ahead of its program by a constant time. Lines whose
/// latency is longer arrive late: under load, and from another node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefetchTimeliness {
    /// Latency that all prefetches hide, in nanoseconds.
    pub hidden_ns: f64,
    /// Share of prefetched lines that wait for the remaining latency.
    pub loss: f64,
}

impl PrefetchTimeliness {
    /// Prefetches hide every latency.
    pub const COMPLETE: PrefetchTimeliness = PrefetchTimeliness { hidden_ns: 0.0, loss: 0.0 };
}

/// Time of a page fault without zeroing the page, in nanoseconds. Guessed: half of the 575 to 1013 ns that one published
/// measurement has for a complete fault.
const FAULT_NS: f64 = 300.0;
/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;

impl CoreSpeed {
    /// Largest number of outstanding misses of a core if the machine file has none. Guessed: out-of-order cores of
    /// servers have 10 to 16 line-fill buffers.
    pub const OUTSTANDING: f64 = 10.0;
    /// Hit latency in nanoseconds that the core cycles of profiles contain, and that machine files without a latency
    /// have. Guessed: 40 cycles at 2.4 GHz.
    pub const HIT_NS: f64 = 40.0 / 2.4;

    /// Returns a core with this frequency and the assumed values.
    pub fn new(ghz: f64) -> Self {
        CoreSpeed {
            ghz,
            relative_cycles: 1.0,
            outstanding_max: CoreSpeed::OUTSTANDING,
            has_prefetcher: true,
            hit_ns: CoreSpeed::HIT_NS,
            private_bytes: None,
            prefetch: PrefetchTimeliness::COMPLETE,
        }
    }

    /// Returns the demand of the first touch of 1000 bytes: page faults, and the lines of the zeroed pages.
    pub fn touch_demand(&self) -> Demand {
        Demand {
            core_ns: 1000.0 * FAULT_NS / PAGE_BYTES as f64,
            exposed: 1000.0 / LINE / self.outstanding_max,
            bytes: 1000.0,
            hidden_ns: 0.0,
        }
    }

    /// Returns the nanoseconds of 1000 core cycles of the model.
    fn ns_per_1000_cycles(&self) -> f64 {
        1000.0 * self.relative_cycles / self.ghz
    }
}

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
    /// The core on which the cycles of programs were measured.
    pub core: CoreSpeed,
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
    character: Arc<MissCurve>,
    /// Accesses to the last-level cache by size of the private caches; absent if the size is not known for which they
    /// were measured.
    private: Option<Arc<MissCurve>>,
    core_cycles: f64,
    /// Inverse of the memory-level parallelism, without the limit of a core.
    inverse_mlp: f64,
    /// Hit latency that the core cycles include, in nanoseconds.
    included_hit_ns: f64,
    parameters: CpiParameters,
}

/// Smallest share of the core cycles that remains if hits are faster than on the measured machine.
const CORE_SHARE_MIN: f64 = 0.1;

/// The CPI model of a program on one core: linear terms of its time, per 1000 instructions.
///
/// The core cycles contain hits in the last-level cache, so that only the difference between both hit latencies counts. A
/// miss costs its latency in addition to a hit. With other private caches than where the program was measured, the number
/// of hits differs, and each hit more or less counts with its whole latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpiTerms {
    core_ns: f64,
    /// Least nanoseconds without stalls on memory.
    least_ns: f64,
    /// Nanoseconds of a hit beyond those that the core cycles contain, and of a hit that they do not contain.
    hit_ns: (f64, f64),
    /// Accesses to the last-level cache with the private caches of the core; `None`: as measured.
    accesses: Option<f64>,
    /// Inverse of the memory-level parallelism on the core.
    pub inverse_mlp: f64,
    /// Share of prefetched lines that arrive too late; 0 without a prefetcher.
    late: f64,
    has_prefetcher: bool,
    /// Prefetched lines that wait for the latency beyond that which prefetches hide, in stall nanoseconds per nanosecond
    /// of this latency and per prefetched line, and the hidden latency.
    tardy: f64,
    hidden_ns: f64,
}

/// Time of a program on a core as a linear function of latencies, per 1000 instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeTerms {
    /// Nanoseconds without stalls.
    fixed_ns: f64,
    /// Stall nanoseconds per nanosecond of the latency of a miss, and of the port of the cache.
    per_miss_ns: f64,
    per_port_ns: f64,
}

impl TimeTerms {
    /// Returns the nanoseconds with a latency of a miss and of the port of the cache.
    pub fn ns(&self, (miss_ns, port_ns): (f64, f64)) -> f64 {
        self.fixed_ns + self.per_miss_ns * miss_ns + self.per_port_ns * port_ns
    }
}

impl CpiTerms {
    /// Returns the event counts on this core, from those of the curve. A core without a prefetcher reads no prefetched
    /// lines, and at most all accesses miss.
    fn events(&self, curve: &EventsPer1000) -> EventsPer1000 {
        let reads = if self.has_prefetcher { curve.reads } else { curve.reads - curve.prefetches };
        let prefetches = if self.has_prefetcher { curve.prefetches } else { 0.0 };
        let events = EventsPer1000 { reads, prefetches, ..*curve };
        match self.accesses {
            None => events,
            Some(accesses) => events.with_accesses(accesses),
        }
    }

    /// Returns the nanoseconds without stalls on memory, from the event counts of the curve and of this core.
    fn core_ns(&self, curve: &EventsPer1000, events: &EventsPer1000) -> f64 {
        let measured_hits = curve.hits();
        let of_hits =
            measured_hits * self.hit_ns.0 + (events.hits() - measured_hits) * self.hit_ns.1;
        (self.core_ns + of_hits).max(self.least_ns)
    }

    /// Returns the stall nanoseconds per nanosecond of miss latency.
    fn exposed(&self, events: &EventsPer1000) -> f64 {
        (events.demand_misses + self.late * events.prefetches) * self.inverse_mlp
            + self.tardy * events.prefetches
    }

    /// Returns the stall nanoseconds that prefetches hide.
    fn hidden_ns(&self, events: &EventsPer1000) -> f64 {
        self.tardy * events.prefetches * self.hidden_ns
    }

    /// Returns the time of 1000 instructions with these event counts of the curve.
    pub fn time(&self, curve: &EventsPer1000) -> TimeTerms {
        let events = self.events(curve);
        TimeTerms {
            fixed_ns: self.core_ns(curve, &events) - self.hidden_ns(&events),
            per_miss_ns: self.exposed(&events),
            per_port_ns: events.accesses * self.inverse_mlp,
        }
    }
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

    /// Returns the model of a program with known core cycles per instruction (without stalls on memory, with hits in
    /// the last-level cache of [`CoreSpeed::HIT_NS`]) and known MLP.
    pub fn from_core_cycles(
        character: &MissCurve,
        core_cycles: f64,
        overlap: f64,
        parameters: CpiParameters,
    ) -> Self {
        CpiModel {
            character: Arc::new(character.clone()),
            private: None,
            core_cycles,
            inverse_mlp: 1.0 / overlap.max(1.0),
            included_hit_ns: CoreSpeed::HIT_NS,
            parameters,
        }
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
            character: Arc::new(character.clone()),
            private: None,
            core_cycles: mix(core_cycles, core_min),
            inverse_mlp: mix(inverse_mlp, 1.0 / parameters.overlap_max),
            included_hit_ns: parameters.core.hit_ns,
            parameters,
        }
    }

    /// Returns this program with another core as the core of [`CpiModel::demand`].
    pub fn on(self, core: CoreSpeed) -> Self {
        CpiModel { parameters: CpiParameters { core, ..self.parameters }, ..self }
    }

    /// Returns the core of [`CpiModel::demand`].
    pub fn core(&self) -> &CoreSpeed {
        &self.parameters.core
    }

    /// Returns the miss-ratio curve of the program.
    pub fn miss_curve(&self) -> &MissCurve {
        &self.character
    }

    /// Returns this program with the accesses to the last-level cache by size of the private caches.
    pub fn with_private_curve(self, curve: MissCurve) -> Self {
        CpiModel { private: Some(Arc::new(curve)), ..self }
    }

    /// Returns the accesses to the last-level cache by size of the private caches. If they are not known, the miss-ratio
    /// curve takes their place.
    pub fn private_curve(&self) -> &MissCurve {
        self.private.as_ref().unwrap_or(&self.character)
    }

    /// Returns the memory-level parallelism on a core.
    pub fn overlap_on(&self, core: &CoreSpeed) -> f64 {
        (1.0 / self.inverse_mlp).min(core.outstanding_max)
    }

    /// Returns the memory-level parallelism without the limit of a core.
    pub fn overlap(&self) -> f64 {
        1.0 / self.inverse_mlp
    }

    /// Returns the demand with a cache of `bytes` on the core of the model.
    pub fn demand(&self, bytes: f64) -> Demand {
        self.demand_on(&self.parameters.core, bytes)
    }

    /// Returns the demand with a cache of `bytes` on a core.
    pub fn demand_on(&self, core: &CoreSpeed, bytes: f64) -> Demand {
        self.solve_on(core, bytes).0
    }

    /// Returns the demand and the event counts with a cache of `bytes` on a core.
    pub fn solve_on(&self, core: &CoreSpeed, bytes: f64) -> (Demand, EventsPer1000) {
        self.solve_events(core, self.character.events(bytes))
    }

    /// Returns the demand and the event counts on a core from event counts of the curve.
    pub fn solve_events(&self, core: &CoreSpeed, curve: EventsPer1000) -> (Demand, EventsPer1000) {
        let terms = self.terms_on(core);
        let events = terms.events(&curve);
        let demand = Demand {
            core_ns: terms.core_ns(&curve, &events),
            exposed: terms.exposed(&events),
            bytes: LINE * (events.reads + events.writes),
            hidden_ns: terms.hidden_ns(&events),
        };
        (demand, events)
    }

    /// Returns the terms of the model on a core.
    pub fn terms_on(&self, core: &CoreSpeed) -> CpiTerms {
        let inverse_mlp = 1.0 / self.overlap_on(core);
        let core_ns = self.core_cycles * core.ns_per_1000_cycles();
        let private = core.private_bytes.zip(self.private.as_ref());
        let accesses = private.map(|(bytes, curve)| curve.at(bytes).demand_misses);
        let least_ns = match accesses {
            // However few accesses remain, no core exceeds its issue width.
            Some(_) => {
                self.parameters.core_cycles_min.min(self.core_cycles) * core.ns_per_1000_cycles()
            }
            None => CORE_SHARE_MIN * core_ns,
        };
        CpiTerms {
            core_ns,
            least_ns,
            hit_ns: (inverse_mlp * (core.hit_ns - self.included_hit_ns), inverse_mlp * core.hit_ns),
            accesses,
            inverse_mlp,
            late: if core.has_prefetcher { self.parameters.late } else { 0.0 },
            has_prefetcher: core.has_prefetcher,
            tardy: (1.0 - self.parameters.late) * core.prefetch.loss * inverse_mlp,
            hidden_ns: core.prefetch.hidden_ns,
        }
    }

    /// Returns the event counts with a cache of `bytes` on the core of the model.
    pub fn counts(&self, bytes: f64) -> EventsPer1000 {
        self.counts_on(&self.parameters.core, bytes)
    }

    /// Returns the event counts with a cache of `bytes` on a core.
    pub fn counts_on(&self, core: &CoreSpeed, bytes: f64) -> EventsPer1000 {
        self.solve_on(core, bytes).1
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
        let in_use = LINE * (row.reads + row.writes) / 1000.0 / cycles * parameters.core.ghz
            / channel.capacity;
        let latency = channel.latency_ns(in_use) * parameters.core.ghz;
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
        (
            Calibration::default().channel(45.0, 12.8),
            Calibration::default().parameters(CoreSpeed::new(4.0)),
        )
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

    /// Returns a model with 10 accesses and `misses` misses per 1000 instructions, 0.5 core cycles and an MLP.
    fn known_model(misses: f64, overlap: f64) -> CpiModel {
        let row = MissPoint {
            misses: 2.0 * misses,
            reads: 2.0 * misses,
            ..MissPoint::of_demand(MIB, misses)
        };
        let none = MissPoint { misses: 20.0, reads: 20.0, ..MissPoint::of_demand(0.0, 10.0) };
        let curve = MissCurve::new(vec![row], none).unwrap();
        CpiModel::from_core_cycles(&curve, 0.5, overlap, machine().1)
    }

    #[test]
    fn core_cycles_contain_hits_so_that_only_another_hit_latency_counts() {
        let core = CoreSpeed::new(4.0);
        let slow = CoreSpeed { hit_ns: core.hit_ns + 10.0, ..core };
        let model = known_model(4.0, 2.0);
        assert!((model.demand_on(&core, MIB).core_ns - 125.0).abs() < 1e-9);
        // Six hits take 10 ns longer each, with an MLP of two.
        assert!((model.demand_on(&slow, MIB).core_ns - 125.0 - 30.0).abs() < 1e-9);
    }

    #[test]
    fn outstanding_misses_of_the_core_limit_the_parallelism_of_the_program() {
        let exposed = |overlap: f64, outstanding_max: f64| {
            let core = CoreSpeed { outstanding_max, ..CoreSpeed::new(4.0) };
            known_model(4.0, overlap).demand_on(&core, MIB).exposed
        };
        assert_eq!(exposed(8.0, 10.0), exposed(8.0, 16.0));
        assert!((exposed(8.0, 2.0) / exposed(8.0, 10.0) - 4.0).abs() < 1e-9);
        assert_eq!(exposed(1.0, 2.0), exposed(1.0, 10.0));
    }

    #[test]
    fn frequency_and_width_of_the_core_change_core_cycles_and_no_memory_time() {
        let model = known_model(4.0, 2.0);
        let [slow, wide] =
            [CoreSpeed::new(2.0), CoreSpeed { relative_cycles: 1.5, ..CoreSpeed::new(4.0) }]
                .map(|core| model.demand_on(&core, MIB));
        assert!((slow.core_ns - 250.0).abs() < 1e-9 && (wide.core_ns - 187.5).abs() < 1e-9);
        assert_eq!((slow.exposed, slow.bytes), (wide.exposed, wide.bytes));
    }

    #[test]
    fn late_prefetches_stall_for_the_latency_that_they_do_not_hide() {
        let model = known_model(4.0, 2.0);
        let at = |loss: f64, latency_ns: f64| {
            let prefetch = PrefetchTimeliness { hidden_ns: 45.0, loss };
            let core = CoreSpeed { prefetch, ..CoreSpeed::new(4.0) };
            model.demand_on(&core, MIB).ns_at(latency_ns)
        };
        for latency_ns in [45.0, 90.0, 200.0] {
            assert_eq!(at(0.0, latency_ns), model.demand(MIB).ns_at(latency_ns));
        }
        assert!((at(1.0, 45.0) - at(0.0, 45.0)).abs() < 1e-9, "unloaded memory is hidden");
        assert!(at(0.0, 90.0) < at(0.5, 90.0) && at(0.5, 90.0) < at(1.0, 90.0));
        // With all prefetches late, the lines beyond the hidden latency stall like demand misses.
        let late = Calibration::default().late;
        let expected = at(0.0, 90.0) + (1.0 - late) * 4.0 / 2.0 * 45.0;
        assert!((at(1.0, 90.0) - expected).abs() < 1e-9, "{} {expected}", at(1.0, 90.0));
    }

    #[test]
    fn a_core_without_a_prefetcher_reads_no_prefetched_lines() {
        let model = known_model(4.0, 2.0);
        let core = CoreSpeed { has_prefetcher: false, ..CoreSpeed::new(4.0) };
        assert_eq!(model.counts(MIB).prefetches, 4.0);
        let counts = model.counts_on(&core, MIB);
        assert_eq!((counts.prefetches, counts.reads, counts.demand_misses), (0.0, 4.0, 4.0));
        assert_eq!(model.demand_on(&core, MIB).bytes, 4.0 * LINE);
    }
}
