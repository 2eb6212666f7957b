//! Miss latency of programs that share one memory controller.
//!
//! ```text
//!   latency │               │   saturated: bandwidth is at its limit
//!           │               │
//!           │         __..──┘   unloaded + slope × utilization: queueing of random requests
//!           │  __..──''
//!           │''
//!           └───────────────┴─► utilization: bandwidth ÷ capacity
//! ```
//!
//! A higher latency reduces the demand. Latency and utilization are therefore solved together, and the bandwidth
//! never exceeds the capacity. At saturation, the latency is the value at which the demand equals the capacity.
//! Programs with a high memory-level parallelism (MLP) have the smallest slowdown.
//!
//! The fit also had a queueing term that diverges at full utilization, and its coefficient became zero. Cores have a
//! limited number of outstanding misses, so queues are short.

/// A memory controller with its channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    /// Unloaded miss latency in nanoseconds.
    pub unloaded_ns: f64,
    /// Capacity: the largest bandwidth in bytes per nanosecond.
    pub capacity: f64,
    /// Additional latency at full utilization in nanoseconds. The additional latency is linear in the utilization.
    pub slope_ns: f64,
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

/// Maximum number of bisection steps.
const N_HALVINGS: usize = 60;
/// Relative precision of the latency.
const RELATIVE_PRECISION: f64 = 1e-10;

impl Channel {
    /// Returns this channel with a capacity of at least `moved` bytes per nanosecond, which a program alone has
    /// reached.
    pub fn with_capacity_of(self, moved: f64) -> Channel {
        Channel { capacity: self.capacity.max(moved), ..self }
    }

    /// Returns the loaded latency in nanoseconds at a utilization below saturation.
    pub fn latency_ns(&self, in_use: f64) -> f64 {
        self.unloaded_ns + self.slope_ns * in_use.clamp(0.0, 1.0)
    }

    /// Solves latency, utilization and speeds.
    pub fn load(&self, demands: &[Demand]) -> ChannelLoad {
        let in_use = |latency_ns: f64| {
            let each = demands.iter().map(|demand| demand.bytes / demand.ns_at(latency_ns));
            each.filter(|bytes| bytes.is_finite()).sum::<f64>() / self.capacity
        };
        // The bandwidth decreases with the latency, so there is exactly one solution. At this upper bound, the
        // bandwidth of all programs together is below the capacity.
        let slowest = |demand: &Demand| demand.bytes / self.capacity / demand.exposed;
        let bound = demands.iter().map(slowest).filter(|ns| ns.is_finite()).sum::<f64>();
        let (mut low, mut high) = (self.unloaded_ns, self.latency_ns(1.0).max(bound));
        for _ in 0..N_HALVINGS {
            if high - low <= high * RELATIVE_PRECISION {
                break;
            }
            let latency_ns = (low + high) / 2.0;
            let used = in_use(latency_ns);
            if used <= 1.0 && self.latency_ns(used) <= latency_ns {
                high = latency_ns;
            } else {
                low = latency_ns;
            }
        }
        // The capacity also limits programs that transfer data without stalls.
        let used = in_use(high);
        let beyond = used.max(1.0);
        let each_ns = demands.iter().map(|demand| demand.ns_at(high) * beyond).collect();
        ChannelLoad { latency_ns: high, utilization: used.min(1.0), each_ns }
    }
}

impl Demand {
    /// Returns this demand with `by_ns` of additional latency per miss, for example of an interconnect link.
    pub fn with_extra_latency(self, by_ns: f64) -> Demand {
        Demand { core_ns: self.core_ns + self.exposed * by_ns, ..self }
    }

    fn ns_at(&self, latency_ns: f64) -> f64 {
        self.core_ns + self.exposed * latency_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHANNEL: Channel = Channel { unloaded_ns: 45.0, capacity: 8.0, slope_ns: 54.0 };

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
    fn total_bandwidth_never_exceeds_the_capacity() {
        let blind = Demand { core_ns: 10.0, exposed: 0.0, bytes: 640.0 };
        let waits = Demand { core_ns: 250.0, exposed: 5.0, bytes: 640.0 };
        let demands = [blind, waits, blind];
        assert!(moved(&demands, &CHANNEL.load(&demands)) <= CHANNEL.capacity * (1.0 + 1e-9));
    }

    #[test]
    fn extra_latency_is_hidden_at_saturation_and_not_below() {
        let ns_alone = |demand: Demand| CHANNEL.load(&[demand]).each_ns[0];
        let hog = Demand { core_ns: 75.0, exposed: 4.0, bytes: 6000.0 };
        assert!((ns_alone(hog.with_extra_latency(60.0)) / ns_alone(hog) - 1.0).abs() < 1e-6);
        let light = Demand { core_ns: 75.0, exposed: 4.5, bytes: 60.0 };
        assert!(1.5 < ns_alone(light.with_extra_latency(60.0)) / ns_alone(light));
    }

    fn demand() -> impl Strategy<Value = Demand> {
        (1.0..2000.0f64, 0.0..60.0f64, 0.0..10000.0f64)
            .prop_map(|(core_ns, exposed, bytes)| Demand { core_ns, exposed, bytes })
    }

    proptest! {
        #[test]
        fn latency_and_utilization_are_consistent(demands in proptest::collection::vec(demand(), 1..9)) {
            let loaded = CHANNEL.load(&demands);
            let moved = moved(&demands, &loaded);
            prop_assert!(moved <= CHANNEL.capacity * (1.0 + 1e-6), "{moved}");
            let latency_ns = CHANNEL.latency_ns(loaded.utilization);
            let full = 1.0 - 1e-6 <= loaded.utilization;
            prop_assert!((loaded.latency_ns / latency_ns - 1.0).abs() < 1e-6 || (full && latency_ns <= loaded.latency_ns));
        }

        #[test]
        fn an_additional_program_makes_no_other_program_faster(
            demands in proptest::collection::vec(demand(), 1..6),
            more in demand(),
        ) {
            let before = CHANNEL.load(&demands).each_ns;
            let all_demands: Vec<Demand> = demands.iter().copied().chain([more]).collect();
            let after = CHANNEL.load(&all_demands).each_ns;
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(*before <= after * (1.0 + 1e-6), "{before} {after}");
            }
        }
    }
}
