//! How long a miss takes where several programs use one memory controller.
//!
//! ```text
//!   latency │               │   full: nobody gets more until somebody asks for less
//!           │               │
//!           │         __..──┘   unloaded + slope × use: requests that meet by chance
//!           │  __..──''
//!           │''
//!           └───────────────┴─► use: what is moved ÷ what can be moved
//! ```
//!
//! The more a miss takes, the fewer are asked for: so latency and use are found together, and nobody can
//! move more than the controller can. Where it is full, the latency is whatever makes everybody together
//! ask for no more; whoever hides latency well is slowed down least by it.
//!
//! A queue's formula, that grows without bound towards full use, was tried beside the straight line: fitted, it
//! vanished. Cores have only so many misses under way, so queues stay short.

/// A memory controller with its channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    /// Nanoseconds of a miss when nobody else asks.
    pub unloaded_ns: f64,
    /// Bytes per nanosecond that can be moved at the most.
    pub cap: f64,
    /// Nanoseconds more at full use, growing evenly with it.
    pub slope_ns: f64,
}

/// What a program asks for, per 1000 instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Nanoseconds per 1000 instructions without waiting for memory.
    pub core_ns: f64,
    /// Nanoseconds more for each nanosecond that a miss takes: exposed misses ÷ overlap.
    pub exposed: f64,
    /// Bytes moved.
    pub bytes: f64,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Nanoseconds that a miss takes.
    pub latency_ns: f64,
    /// What is moved, as a part of what can be.
    pub in_use: f64,
    /// Nanoseconds per 1000 instructions, in the order of the demands.
    pub each_ns: Vec<f64>,
}

/// So often the range of latencies is halved, at the most.
const N_HALVINGS: usize = 60;
/// A latency that is known to this part of it is known.
const EXACT: f64 = 1e-10;

impl Channel {
    /// The same where a program alone was seen to move so many bytes per nanosecond: what was moved can be.
    pub fn with_seen(self, moved: f64) -> Channel {
        Channel { cap: self.cap.max(moved), ..self }
    }

    /// Nanoseconds that a miss takes at a use, as long as the channel is not full.
    pub fn latency_ns(&self, in_use: f64) -> f64 {
        self.unloaded_ns + self.slope_ns * in_use.clamp(0.0, 1.0)
    }

    /// Latency, use and speeds that go together.
    pub fn load(&self, demands: &[Demand]) -> Loaded {
        let in_use = |latency_ns: f64| {
            let each = demands.iter().map(|demand| demand.bytes / demand.takes_ns(latency_ns));
            each.filter(|bytes| bytes.is_finite()).sum::<f64>() / self.cap
        };
        // With a higher latency less is moved, so there is one that fits. At this one everybody together
        // moves less than the cap, whatever they ask for.
        let slowest = |demand: &Demand| demand.bytes / self.cap / demand.exposed;
        let bound = demands.iter().map(slowest).filter(|ns| ns.is_finite()).sum::<f64>();
        let (mut low, mut high) = (self.unloaded_ns, self.latency_ns(1.0).max(bound));
        for _ in 0..N_HALVINGS {
            if high - low <= high * EXACT {
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
        // Whoever moves much and waits for nothing is slowed down all the same.
        let used = in_use(high);
        let beyond = used.max(1.0);
        let each_ns = demands.iter().map(|demand| demand.takes_ns(high) * beyond).collect();
        Loaded { latency_ns: high, in_use: used.min(1.0), each_ns }
    }
}

impl Demand {
    /// The same where each miss takes so many nanoseconds more on its way, as over a link.
    pub fn farther(self, by_ns: f64) -> Demand {
        Demand { core_ns: self.core_ns + self.exposed * by_ns, ..self }
    }

    fn takes_ns(&self, latency_ns: f64) -> f64 {
        self.core_ns + self.exposed * latency_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHANNEL: Channel = Channel { unloaded_ns: 45.0, cap: 8.0, slope_ns: 54.0 };

    fn moved(demands: &[Demand], loaded: &Loaded) -> f64 {
        demands.iter().zip(&loaded.each_ns).map(|(demand, ns)| demand.bytes / ns).sum()
    }

    #[test]
    fn who_asks_for_nothing_waits_for_nothing() {
        let quiet = Demand { core_ns: 250.0, ..Demand::default() };
        let loaded = CHANNEL.load(&[quiet]);
        assert!((loaded.latency_ns - 45.0).abs() < 1e-6 && loaded.in_use == 0.0);
        assert_eq!(loaded.each_ns, [250.0]);
    }

    #[test]
    fn together_they_move_no_more_than_the_cap_even_if_they_wait_for_nothing() {
        let blind = Demand { core_ns: 10.0, exposed: 0.0, bytes: 640.0 };
        let waits = Demand { core_ns: 250.0, exposed: 5.0, bytes: 640.0 };
        let demands = [blind, waits, blind];
        assert!(moved(&demands, &CHANNEL.load(&demands)) <= CHANNEL.cap * (1.0 + 1e-9));
    }

    #[test]
    fn a_longer_way_is_hidden_where_the_channel_is_full_and_felt_where_it_is_not() {
        let takes = |demand: Demand| CHANNEL.load(&[demand]).each_ns[0];
        let hog = Demand { core_ns: 75.0, exposed: 4.0, bytes: 6000.0 };
        assert!((takes(hog.farther(60.0)) / takes(hog) - 1.0).abs() < 1e-6);
        let light = Demand { core_ns: 75.0, exposed: 4.5, bytes: 60.0 };
        assert!(1.5 < takes(light.farther(60.0)) / takes(light));
    }

    fn demand() -> impl Strategy<Value = Demand> {
        (1.0..2000.0f64, 0.0..60.0f64, 0.0..10000.0f64)
            .prop_map(|(core_ns, exposed, bytes)| Demand { core_ns, exposed, bytes })
    }

    proptest! {
        #[test]
        fn latency_and_use_go_together(demands in proptest::collection::vec(demand(), 1..9)) {
            let loaded = CHANNEL.load(&demands);
            let moved = moved(&demands, &loaded);
            prop_assert!(moved <= CHANNEL.cap * (1.0 + 1e-6), "{moved}");
            let again = CHANNEL.latency_ns(loaded.in_use);
            let full = 1.0 - 1e-6 <= loaded.in_use;
            prop_assert!((loaded.latency_ns / again - 1.0).abs() < 1e-6 || (full && again <= loaded.latency_ns));
        }

        #[test]
        fn one_more_makes_nobody_faster(
            demands in proptest::collection::vec(demand(), 1..6),
            more in demand(),
        ) {
            let before = CHANNEL.load(&demands).each_ns;
            let with: Vec<Demand> = demands.iter().copied().chain([more]).collect();
            let after = CHANNEL.load(&with).each_ns;
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(*before <= after * (1.0 + 1e-6), "{before} {after}");
            }
        }
    }
}
