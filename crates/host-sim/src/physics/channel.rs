//! Miss latency of programs that share one channel: a memory controller, an interconnect link, or a cache port.
//!
//! ```text
//!   latency │               │   saturated: bandwidth is at its limit
//!           │               │
//!           │         __..──┘   latency curve of the channel: queueing of random requests
//!           │  __..──''
//!           │''
//!           └───────────────┴─► utilization: bandwidth ÷ capacity
//! ```
//!
//! A higher latency reduces the demand. Latency and utilization are therefore solved together, and the bandwidth
//! never exceeds the capacity. At saturation, the latency is the value at which the demand equals the capacity.
//! Programs with a high memory-level parallelism (MLP) have the smallest slowdown.
//!
//! A program with several channels has its stalls on all of them. The channels are solved in turn, each with the stalls
//! on the other channels as a constant part of the program's time.

use super::cache_sharing::LINE;

/// A channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    /// Unloaded latency in nanoseconds. Zero for links and cache ports, whose latency is part of the path.
    pub unloaded_ns: f64,
    /// Capacity: the largest bandwidth in bytes per nanosecond.
    pub capacity: f64,
    /// Latency under load.
    pub curve: LoadCurve,
    /// Capacity by the number of open streams.
    pub streams: StreamEfficiency,
}

/// Share of the capacity of a memory by the number of open streams: one up to `count`, then decreasing to `least`.
///
/// DRAM has one open row per bank. Streams that alternate between rows of one bank close and open them, and the more
/// streams there are, the more time is lost. The number of open streams is the mean number of programs with lines in
/// flight on the idle memory (Little's law; at most one stream per program). The values are those of the machine file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamEfficiency {
    /// Number of streams with the whole capacity.
    pub count: f64,
    /// Share of the capacity with many streams.
    pub least: f64,
}

impl StreamEfficiency {
    /// A capacity that does not depend on the number of streams.
    pub const CONSTANT: StreamEfficiency = StreamEfficiency { count: 1.0, least: 1.0 };

    fn share(&self, n_open: f64) -> f64 {
        self.least + (1.0 - self.least) * (self.count / n_open.max(self.count))
    }
}

/// Latency over utilization, relative to the unloaded latency, linear between at most [`LoadCurve::POINTS_MAX`] points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadCurve {
    /// Utilization and relative latency of each point. The last point is repeated.
    points: [(f64, f64); LoadCurve::POINTS_MAX],
}

impl LoadCurve {
    /// Largest number of points of a curve.
    pub const POINTS_MAX: usize = topology::LatencyCurve::POINTS_MAX;
    /// A latency that does not depend on the utilization.
    pub const FLAT: LoadCurve = LoadCurve::rising(0.0);

    /// Returns the straight line from 1 to `1 + slope` at full utilization.
    pub const fn rising(slope: f64) -> Self {
        let mut points = [(1.0, 1.0 + slope); LoadCurve::POINTS_MAX];
        points[0] = (0.0, 1.0);
        LoadCurve { points }
    }

    /// Returns the curve of a machine file.
    pub fn new(curve: &topology::LatencyCurve) -> Self {
        let share = |permille: u64| permille as f64 / 1000.0;
        let mut points = curve.points.iter().map(|&(used, latency)| (share(used), share(latency)));
        let mut last = (0.0, 1.0);
        let next = |_| {
            last = points.next().unwrap_or(last);
            last
        };
        LoadCurve { points: std::array::from_fn(next) }
    }

    /// Returns the latency at a utilization, relative to the unloaded latency, and its derivative.
    fn at(&self, utilization: f64) -> (f64, f64) {
        let mut before = self.points[0];
        for &point in &self.points[1..] {
            if utilization <= point.0 {
                let slope = (point.1 - before.1) / (point.0 - before.0).max(f64::MIN_POSITIVE);
                return (before.1 + slope * (utilization - before.0), slope);
            }
            before = point;
        }
        (before.1, 0.0)
    }
}

/// Demand of a program per 1000 instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Nanoseconds without stalls on memory.
    pub core_ns: f64,
    /// Stall nanoseconds per nanosecond of miss latency: exposed misses ÷ memory-level parallelism.
    pub exposed: f64,
    /// Bytes transferred.
    pub bytes: f64,
    /// Part of the stalls that prefetches hide, in nanoseconds.
    pub hidden_ns: f64,
}

/// Demand of a program on one channel, per 1000 instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelDemand {
    /// Nanoseconds without the stalls on this channel, at the current latencies of other channels.
    pub other_ns: f64,
    /// Stall nanoseconds per nanosecond of this channel's latency.
    pub stalls: f64,
    /// Bytes on this channel, multiplied by the share of time in which the program runs.
    pub bytes: f64,
    /// Factor by which the program is slower because other channels cannot carry its demand (at least 1).
    pub slower: f64,
}

impl ChannelDemand {
    /// Returns the nanoseconds with this latency and overload of the channel. The overload slows only programs with
    /// bytes on the channel.
    pub fn ns_at(&self, latency_ns: f64, overload: f64) -> f64 {
        let slower = if 0.0 < self.bytes { self.slower.max(overload) } else { self.slower };
        ((self.other_ns + self.stalls * latency_ns) * slower).max(1e-6)
    }
}

impl From<Demand> for ChannelDemand {
    /// Returns the demand of a program that uses only one channel.
    fn from(demand: Demand) -> Self {
        ChannelDemand {
            other_ns: demand.core_ns - demand.hidden_ns,
            stalls: demand.exposed,
            bytes: demand.bytes,
            slower: 1.0,
        }
    }
}

/// Solution for the demands of several programs.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelLoad {
    /// Loaded miss latency in nanoseconds.
    pub latency_ns: f64,
    /// Utilization: bandwidth divided by capacity.
    pub utilization: f64,
    /// Nanoseconds per 1000 instructions, in the order of the demands.
    pub each_ns: Vec<f64>,
}

/// Relative precision of the latency.
const RELATIVE_PRECISION: f64 = 1e-10;
/// Maximum number of iterations of a solution. Three to six are usual.
const ITERATIONS_MAX: usize = 100;
/// Longest latency of a saturated channel, relative to the latency at full utilization. If the demand still exceeds the
/// capacity, because programs transfer data without stalls, all programs become slower by the same factor.
const SATURATED_MAX: f64 = 1e3;
/// Shortest latency in nanoseconds from which a saturated channel without an unloaded latency grows.
const LATENCY_MIN_NS: f64 = 1.0;

impl Channel {
    /// Returns a channel that limits the bandwidth and adds no latency below saturation.
    pub fn limit(capacity: f64) -> Channel {
        let streams = StreamEfficiency::CONSTANT;
        Channel { unloaded_ns: 0.0, capacity, curve: LoadCurve::FLAT, streams }
    }

    /// Returns this channel with the capacity that it has for the open streams of these demands.
    pub fn with_streams_of(self, demands: &[ChannelDemand]) -> Channel {
        if self.streams == StreamEfficiency::CONSTANT {
            return self;
        }
        let in_flight = |demand: &ChannelDemand| {
            let ns = (demand.other_ns + demand.stalls * self.unloaded_ns).max(1e-9);
            (demand.bytes / LINE * self.unloaded_ns / ns).min(1.0)
        };
        let share = self.streams.share(demands.iter().map(in_flight).sum());
        Channel { capacity: self.capacity * share, streams: StreamEfficiency::CONSTANT, ..self }
    }

    /// Returns this channel with a capacity of at least `moved` bytes per nanosecond, which a program alone has
    /// reached.
    pub fn with_capacity_of(self, moved: f64) -> Channel {
        Channel { capacity: self.capacity.max(moved), ..self }
    }

    /// Returns the loaded latency in nanoseconds at a utilization below saturation.
    pub fn latency_ns(&self, in_use: f64) -> f64 {
        self.unloaded_ns * self.curve.at(in_use.clamp(0.0, 1.0)).0
    }

    /// Solves latency, utilization and speeds of programs that use only this channel.
    pub fn load(&self, demands: &[Demand]) -> ChannelLoad {
        let all: Vec<ChannelDemand> = demands.iter().copied().map(ChannelDemand::from).collect();
        let channel = self.with_streams_of(&all);
        let (latency_ns, overload) = channel.solve(&all, 0.0, self.unloaded_ns);
        let each_ns = all.iter().map(|demand| demand.ns_at(latency_ns, overload)).collect();
        let utilization = channel.utilization(&all, 0.0, latency_ns).0.min(1.0);
        ChannelLoad { latency_ns, utilization, each_ns }
    }

    /// Returns the nanoseconds per 1000 instructions of a program alone, if it uses only this channel.
    pub fn ns_alone(&self, demand: Demand) -> f64 {
        self.load(&[demand]).each_ns[0]
    }

    /// Returns the latency that is consistent with the demands, and the factor by which all programs are at least slower
    /// because the longest latency does not limit their demand (1 if it does). `background` is traffic in bytes per
    /// nanosecond that does not depend on the latency. `before` is the initial latency.
    pub fn solve(&self, demands: &[ChannelDemand], background: f64, before: f64) -> (f64, f64) {
        let used_at = |latency_ns: f64| self.utilization(demands, background, latency_ns);
        let full_ns = self.latency_ns(1.0);
        let (used, slope) = used_at(full_ns);
        if used <= 1.0 {
            return (self.solve_below_saturation(used_at, full_ns, before), 1.0);
        }
        // The utilization is a convex, decreasing function of the latency. Newton's method from the left therefore
        // never overshoots.
        let latency_max = full_ns.max(LATENCY_MIN_NS) * SATURATED_MAX;
        let (mut latency_ns, mut used, mut slope) = (full_ns, used, slope);
        for _ in 0..ITERATIONS_MAX {
            if used <= 1.0 + RELATIVE_PRECISION || latency_max <= latency_ns {
                break;
            }
            let step = if slope < 0.0 { (1.0 - used) / slope } else { f64::INFINITY };
            latency_ns = (latency_ns + step).min(latency_max);
            (used, slope) = used_at(latency_ns);
        }
        let overload = match used <= 1.0 + RELATIVE_PRECISION {
            true => 1.0,
            false => self.overload(demands, background, latency_ns),
        };
        (latency_ns, overload)
    }

    /// Returns the latency that is consistent with the demand, on the same side of the saturation as `before`, if there is
    /// one. `used_at` returns the utilization at a latency, and its derivative.
    pub fn solve_near(&self, used_at: impl Fn(f64) -> (f64, f64), before: f64) -> Option<f64> {
        let full_ns = self.latency_ns(1.0);
        if before <= full_ns {
            let latency_ns = self.solve_below_saturation(&used_at, full_ns, before);
            return (used_at(latency_ns).0 <= 1.0).then_some(latency_ns);
        }
        let mut latency_ns = before;
        for _ in 0..ITERATIONS_MAX {
            let (used, slope) = used_at(latency_ns);
            if libm::fabs(used - 1.0) <= RELATIVE_PRECISION {
                return Some(latency_ns).filter(|latency_ns| full_ns <= *latency_ns);
            }
            latency_ns += if slope < 0.0 { (1.0 - used) / slope } else { return None };
        }
        None
    }

    /// Returns the factor by which the programs must be slower at this latency, so that they use the capacity. Programs
    /// that are slower by more, because of other channels, do not change.
    ///
    /// The bandwidth is a concave, increasing function of the reciprocal of the factor. Newton's method from the factor
    /// that slows all programs therefore never overshoots. Each step before the last one finds more programs that are
    /// slower by more.
    fn overload(&self, demands: &[ChannelDemand], background: f64, latency_ns: f64) -> f64 {
        let mut overload = f64::INFINITY;
        for _ in 0..=demands.len() {
            let (mut unchanged, mut slowed) = (background, 0.0);
            for demand in demands {
                let ns = (demand.other_ns + demand.stalls * latency_ns).max(1e-9);
                match overload < demand.slower {
                    true => unchanged += demand.bytes / (ns * demand.slower),
                    false => slowed += demand.bytes / ns,
                }
            }
            let next = match unchanged < self.capacity {
                true => slowed / (self.capacity - unchanged),
                // Page migration alone uses the capacity.
                false => (unchanged + slowed) / self.capacity,
            };
            if overload <= next * (1.0 + RELATIVE_PRECISION) {
                break;
            }
            overload = next;
        }
        overload.max(1.0)
    }

    /// Returns the latency between the unloaded latency and `full_ns` that equals the latency at its utilization. The
    /// latency at the utilization decreases with the assumed latency, so there is exactly one solution.
    fn solve_below_saturation(
        &self,
        used_at: impl Fn(f64) -> (f64, f64),
        full_ns: f64,
        before: f64,
    ) -> f64 {
        let (mut low, mut high) = (self.unloaded_ns, full_ns);
        let mut latency_ns = before.clamp(low, high);
        for _ in 0..ITERATIONS_MAX {
            let (used, used_slope) = used_at(latency_ns);
            let (relative, slope) = self.curve.at(used.clamp(0.0, 1.0));
            let excess = self.unloaded_ns * relative - latency_ns;
            if libm::fabs(excess) <= latency_ns * RELATIVE_PRECISION {
                break;
            }
            if 0.0 < excess {
                low = latency_ns
            } else {
                high = latency_ns
            }
            // Newton's method; bisection is the fallback at the points of the curve.
            let next = latency_ns - excess / (self.unloaded_ns * slope * used_slope - 1.0);
            latency_ns = if low < next && next < high { next } else { (low + high) / 2.0 };
        }
        latency_ns
    }

    /// Returns the utilization at a latency, and its derivative.
    fn utilization(
        &self,
        demands: &[ChannelDemand],
        background: f64,
        latency_ns: f64,
    ) -> (f64, f64) {
        let (mut moved, mut slope) = (background, 0.0);
        for demand in demands {
            let per_ns =
                1.0 / ((demand.other_ns + demand.stalls * latency_ns).max(1e-9) * demand.slower);
            let bandwidth = demand.bytes * per_ns;
            moved += bandwidth;
            slope -= bandwidth * demand.stalls * demand.slower * per_ns;
        }
        (moved / self.capacity, slope / self.capacity)
    }
}

impl Demand {
    /// Returns this demand with `by_ns` of additional latency per miss, for example of an interconnect link.
    pub fn with_extra_latency(self, by_ns: f64) -> Demand {
        Demand { core_ns: self.core_ns + self.exposed * by_ns, ..self }
    }

    /// Returns the nanoseconds with this latency of a miss.
    pub fn ns_at(self, latency_ns: f64) -> f64 {
        ChannelDemand::from(self).ns_at(latency_ns, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHANNEL: Channel = Channel {
        unloaded_ns: 45.0,
        capacity: 8.0,
        curve: LoadCurve::rising(1.2),
        streams: StreamEfficiency::CONSTANT,
    };

    fn moved(demands: &[Demand], loaded: &ChannelLoad) -> f64 {
        demands.iter().zip(&loaded.each_ns).map(|(demand, ns)| demand.bytes / ns).sum()
    }

    #[test]
    fn a_program_without_misses_is_not_slowed_down() {
        let quiet = Demand { core_ns: 250.0, ..Demand::default() };
        let loaded = CHANNEL.load(&[quiet]);
        assert!((loaded.latency_ns - 45.0).abs() < 1e-6 && loaded.utilization == 0.0);
        assert_eq!(loaded.each_ns, [250.0]);
    }

    #[test]
    fn overload_slows_no_program_without_bytes() {
        let quiet = Demand { core_ns: 250.0, ..Demand::default() };
        let blind = Demand { core_ns: 10.0, bytes: 640.0, ..Demand::default() };
        let each_ns = CHANNEL.load(&[quiet, blind]).each_ns;
        assert!(each_ns[0] == 250.0 && 79.0 < each_ns[1], "{each_ns:?}");
    }

    #[test]
    fn total_bandwidth_never_exceeds_the_capacity() {
        let blind = Demand { core_ns: 10.0, bytes: 640.0, ..Demand::default() };
        let waits = Demand { core_ns: 250.0, exposed: 5.0, bytes: 640.0, ..Demand::default() };
        let demands = [blind, waits, blind];
        assert!(moved(&demands, &CHANNEL.load(&demands)) <= CHANNEL.capacity * (1.0 + 1e-9));
    }

    #[test]
    fn extra_latency_is_hidden_at_saturation_and_not_below() {
        let ns_alone = |demand: Demand| CHANNEL.ns_alone(demand);
        let hog = Demand { core_ns: 75.0, exposed: 4.0, bytes: 6000.0, ..Demand::default() };
        assert!((ns_alone(hog.with_extra_latency(60.0)) / ns_alone(hog) - 1.0).abs() < 1e-6);
        let light = Demand { core_ns: 75.0, exposed: 4.5, bytes: 60.0, ..Demand::default() };
        assert!(1.5 < ns_alone(light.with_extra_latency(60.0)) / ns_alone(light));
    }

    #[test]
    fn the_latency_is_that_of_the_curve_at_its_utilization() {
        let points = vec![(0, 1000), (500, 1100), (900, 2000), (1000, 3000)];
        let source = topology::AttributeSource::Published;
        let curve = LoadCurve::new(&topology::LatencyCurve { points, source });
        let at = [0.0, 0.25, 0.5, 0.7, 0.95, 1.0].map(|used| curve.at(used).0);
        for (found, expected) in at.iter().zip([1.0, 1.05, 1.1, 1.55, 2.5, 3.0]) {
            assert!((found - expected).abs() < 1e-12, "{at:?}");
        }
        assert_eq!([0.0, 0.5, 1.0].map(|used| LoadCurve::FLAT.at(used).0), [1.0; 3]);
    }

    #[test]
    fn a_link_limits_the_bandwidth_and_adds_no_latency_below_its_limit() {
        let link = Channel::limit(10.0);
        let demand = Demand { core_ns: 50.0, exposed: 2.0, bytes: 640.0, ..Demand::default() };
        let half = Demand { bytes: 300.0, ..demand };
        assert_eq!(link.load(&[half]).each_ns, [50.0]);
        let loaded = link.load(&[demand, demand]);
        assert!((moved(&[demand, demand], &loaded) - 10.0).abs() < 1e-6, "{loaded:?}");
    }

    #[test]
    fn background_traffic_raises_the_latency() {
        let demand = ChannelDemand { other_ns: 250.0, stalls: 5.0, bytes: 640.0, slower: 1.0 };
        let latency_with = |background| CHANNEL.solve(&[demand], background, 45.0).0;
        assert!(latency_with(0.0) + 10.0 < latency_with(4.0));
    }

    #[test]
    fn a_saturated_channel_whose_latency_limits_the_demand_has_no_overload() {
        for n in 1..200 {
            let waits = ChannelDemand { other_ns: 25.0, stalls: 5.0, bytes: 640.0, slower: 1.0 };
            let demands = vec![ChannelDemand { stalls: 0.1 * f64::from(n), ..waits }; 40];
            assert_eq!(CHANNEL.solve(&demands, 0.0, 45.0).1, 1.0, "{n}");
        }
    }

    /// Programs that other channels already slow down, some by less than this channel does and some by more.
    #[test]
    fn the_overload_uses_the_whole_capacity() {
        let blind = |bandwidth: f64, slower: f64| ChannelDemand {
            other_ns: 10.0,
            stalls: 0.0,
            bytes: 10.0 * bandwidth,
            slower,
        };
        let overload_of = |demands: &[ChannelDemand]| CHANNEL.solve(demands, 0.0, 45.0).1;
        for (demands, expected) in [
            (vec![blind(16.0, 1.0)], 2.0),
            (vec![blind(4.0, 1.0), blind(8.0, 1.2)], 1.5),
            (vec![blind(4.0, 1.0), blind(8.0, 1.2), blind(6.0, 6.0)], 12.0 / 7.0),
            (vec![blind(9.0, 1.1), blind(9.0, 1.2), blind(6.0, 3.0)], 3.0),
            (vec![blind(4.0, 1.0), blind(16.0, 4.0)], 1.0),
        ] {
            let found = overload_of(&demands);
            assert!((found / expected - 1.0).abs() < 1e-9, "{found}, not {expected}: {demands:?}");
        }
    }

    fn demand() -> impl Strategy<Value = Demand> {
        (1.0..2000.0f64, 0.0..60.0f64, 0.0..10000.0f64).prop_map(|(core_ns, exposed, bytes)| {
            Demand { core_ns, exposed, bytes, hidden_ns: 0.0 }
        })
    }

    fn curve() -> impl Strategy<Value = LoadCurve> {
        proptest::collection::vec(0u64..900, 0..5).prop_map(|steps| {
            let n = steps.len() as u64;
            let latency = |idx: usize| 1000 + steps[..=idx].iter().sum::<u64>();
            let rises =
                (0..steps.len()).map(|idx| ((idx as u64 + 1) * 1000 / (n + 1), latency(idx)));
            let last = steps.iter().sum::<u64>() + 1200;
            let points = [(0, 1000)].into_iter().chain(rises).chain([(1000, last)]).collect();
            let source = topology::AttributeSource::Assumed;
            LoadCurve::new(&topology::LatencyCurve { points, source })
        })
    }

    const OPEN: StreamEfficiency = StreamEfficiency { count: 4.0, least: 0.5 };

    #[test]
    fn many_open_streams_reduce_the_capacity_and_few_do_not() {
        let stream = Demand { core_ns: 20.0, exposed: 1.0, bytes: 6400.0, ..Demand::default() };
        let channel = Channel { streams: OPEN, ..CHANNEL };
        let moved_by = |n: usize| moved(&vec![stream; n], &channel.load(&vec![stream; n]));
        let constant = |n: usize| moved(&vec![stream; n], &CHANNEL.load(&vec![stream; n]));
        assert_eq!([1, 4].map(moved_by), [1, 4].map(constant));
        assert!((moved_by(8) / constant(8) - 0.75).abs() < 1e-3, "{}", moved_by(8));
        assert!(0.5 < moved_by(1000) / constant(1000) && moved_by(1000) < 0.51 * constant(1000));
        let neutral = StreamEfficiency { least: 1.0, ..OPEN };
        let demands = vec![stream; 9];
        assert_eq!(Channel { streams: neutral, ..CHANNEL }.load(&demands), CHANNEL.load(&demands));
        // Programs that rarely access memory open no streams.
        let quiet = Demand { core_ns: 1000.0, exposed: 0.01, bytes: 0.64, ..Demand::default() };
        assert!(1.0 - 1e-9 < channel.with_streams_of(&[quiet.into(); 100]).capacity / 8.0);
    }

    proptest! {
        #[test]
        fn latency_and_utilization_are_consistent(
            demands in proptest::collection::vec(demand(), 1..9),
            curve in curve(),
        ) {
            let channel = Channel { curve, ..CHANNEL };
            let loaded = channel.load(&demands);
            let moved = moved(&demands, &loaded);
            prop_assert!(moved <= channel.capacity * (1.0 + 1e-6), "{moved}");
            let latency_ns = channel.latency_ns(loaded.utilization);
            let full = 1.0 - 1e-6 <= loaded.utilization;
            prop_assert!((loaded.latency_ns / latency_ns - 1.0).abs() < 1e-6 || (full && latency_ns <= loaded.latency_ns * (1.0 + 1e-6)));
        }

        #[test]
        fn the_solution_does_not_depend_on_the_initial_latency(
            demands in proptest::collection::vec(demand(), 1..6),
            before in 0.0..500.0f64,
        ) {
            let all: Vec<ChannelDemand> = demands.into_iter().map(ChannelDemand::from).collect();
            let (one, other) = (CHANNEL.solve(&all, 0.0, 45.0), CHANNEL.solve(&all, 0.0, before));
            prop_assert!((one.0 / other.0 - 1.0).abs() < 1e-7, "{one:?} {other:?}");
        }

        #[test]
        fn an_overloaded_channel_is_used_fully(
            demands in proptest::collection::vec((demand(), 1.0..8.0f64), 1..9),
            background in 0.0..7.0f64,
        ) {
            let slowed = |(demand, slower): (Demand, f64)| {
                let few_stalls = Demand { exposed: demand.exposed * 1e-3, ..demand };
                ChannelDemand { slower, ..few_stalls.into() }
            };
            let all: Vec<ChannelDemand> = demands.into_iter().map(slowed).collect();
            let (latency_ns, overload) = CHANNEL.solve(&all, background, 45.0);
            let each = all.iter().map(|demand| demand.bytes / demand.ns_at(latency_ns, overload));
            let used = (background + each.sum::<f64>()) / CHANNEL.capacity;
            let is_above = CHANNEL.latency_ns(1.0) < latency_ns || 1.0 < overload;
            prop_assert!(used <= 1.0 + 1e-6, "{used} {overload}");
            prop_assert!(!is_above || 1.0 - 1e-6 <= used, "{used} {overload}");
        }

        #[test]
        fn an_additional_program_makes_no_other_program_faster(
            demands in proptest::collection::vec(demand(), 1..6),
            more in demand(),
            streams in prop_oneof![Just(StreamEfficiency::CONSTANT), Just(OPEN)],
        ) {
            let channel = Channel { streams, ..CHANNEL };
            let before = channel.load(&demands).each_ns;
            let all_demands: Vec<Demand> = demands.iter().copied().chain([more]).collect();
            let after = channel.load(&all_demands).each_ns;
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(*before <= after * (1.0 + 1e-6), "{before} {after}");
            }
        }
    }
}
