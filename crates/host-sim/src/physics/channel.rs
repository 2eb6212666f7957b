//! How long a miss takes where several programs use one memory controller.
//!
//! ```text
//!   latency │                    ╱
//!           │                   ╱       unloaded + slope × use + knee × use ÷ (1 − use)
//!           │            __..─'╱
//!           │  __..──''                 use: what is moved ÷ what can be moved
//!           └────────────────┴─► use
//! ```
//!
//! The more a miss takes, the fewer are asked for: so latency and use are found together, and nobody can
//! move more than the controller can. Whoever asks for more than that alone runs as fast as it is served.

/// A memory controller with its channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channel {
    /// Nanoseconds of a miss when nobody else asks.
    pub unloaded_ns: f64,
    /// Bytes per nanosecond that can be moved at the most.
    pub cap: f64,
    /// Nanoseconds more at full use, growing evenly with it: requests that meet by chance.
    pub slope_ns: f64,
    /// Nanoseconds more at half use, growing without bound: the queue.
    pub knee_ns: f64,
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

/// So often the range of latencies is halved.
const N_HALVINGS: usize = 60;
/// Nobody can use all of it.
pub(crate) const USE_MAX: f64 = 0.9995;

impl Channel {
    /// Nanoseconds that a miss takes at a use.
    pub fn latency_ns(&self, in_use: f64) -> f64 {
        let in_use = in_use.clamp(0.0, USE_MAX);
        self.unloaded_ns + self.slope_ns * in_use + self.knee_ns * in_use / (1.0 - in_use)
    }

    /// Latency, use and speeds that go together.
    pub fn load(&self, demands: &[Demand]) -> Loaded {
        let in_use = |latency_ns: f64| {
            let each = demands.iter().map(|demand| demand.bytes / demand.takes_ns(latency_ns));
            each.filter(|bytes| bytes.is_finite()).sum::<f64>() / self.cap
        };
        // With a higher latency less is moved, so there is one that fits. At this one everybody together
        // moves less than the cap, whatever they ask for.
        let slowest = |demand: &Demand| demand.bytes / (USE_MAX * self.cap) / demand.exposed;
        let bound = demands.iter().map(slowest).filter(|ns| ns.is_finite()).sum::<f64>();
        let (mut low, mut high) = (self.unloaded_ns, self.latency_ns(USE_MAX).max(bound));
        for _ in 0..N_HALVINGS {
            let latency_ns = (low + high) / 2.0;
            let used = in_use(latency_ns);
            if used < USE_MAX && self.latency_ns(used) <= latency_ns {
                high = latency_ns;
            } else {
                low = latency_ns;
            }
        }
        // Whoever moves much and waits for nothing is slowed down all the same.
        let used = in_use(high);
        let beyond = (used / USE_MAX).max(1.0);
        let each_ns = demands.iter().map(|demand| demand.takes_ns(high) * beyond).collect();
        Loaded { latency_ns: high, in_use: used.min(USE_MAX), each_ns }
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
    use super::*;

    const CHANNEL: Channel = Channel { unloaded_ns: 45.0, cap: 8.0, slope_ns: 54.0, knee_ns: 2.3 };

    #[test]
    fn who_asks_for_nothing_waits_for_nothing() {
        let quiet = Demand { core_ns: 250.0, ..Demand::default() };
        let loaded = CHANNEL.load(&[quiet]);
        assert!((loaded.latency_ns - 45.0).abs() < 1e-6 && loaded.in_use == 0.0);
        assert_eq!(loaded.each_ns, [250.0]);
    }

    #[test]
    fn latency_and_use_go_together() {
        let one = Demand { core_ns: 250.0, exposed: 5.0, bytes: 640.0 };
        for demands in [vec![one], vec![one; 2], vec![one; 8]] {
            let loaded = CHANNEL.load(&demands);
            let again = CHANNEL.latency_ns(loaded.in_use);
            assert!((loaded.latency_ns / again - 1.0).abs() < 1e-6, "{loaded:?} {again}");
            let moved: f64 = loaded.each_ns.iter().map(|ns| 640.0 / ns).sum();
            assert!(moved <= CHANNEL.cap, "{loaded:?}");
        }
    }

    #[test]
    fn together_they_move_no_more_than_the_cap_even_if_they_wait_for_nothing() {
        let blind = Demand { core_ns: 10.0, exposed: 0.0, bytes: 640.0 };
        let waits = Demand { core_ns: 250.0, exposed: 5.0, bytes: 640.0 };
        let loaded = CHANNEL.load(&[blind, waits, blind]);
        let moved: f64 = loaded.each_ns.iter().map(|ns| 640.0 / ns).sum();
        assert!(moved <= CHANNEL.cap * 1.0001, "{moved}");
    }
}
