//! What was calibrated on measured figures, as ratios that serve other machines.
//!
//! A machine file tells two figures of its memory: the latency of a miss when nobody else asks, and the
//! peak of its channels, their width times their rate. What a loaded channel does in between is taken
//! from one machine whose slow-downs are known (`workloads/data/corun`), in parts of those two:
//!
//! ```text
//!   latency = unloaded × (1 + slope × use),  use = moved ÷ (cap × peak)
//! ```

use super::{Channel, Habits};

/// The calibrated figures. [`Fitted::default`] is what ships.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// See [`Channel::slope_ns`]; in parts of the unloaded latency.
    pub slope: f64,
    /// What can be moved, as a part of the peak: rows that close and reads that turn into writes cost the
    /// rest. Not fitted on slow-downs: it is what the hungriest program moves alone.
    pub cap: f64,
    /// See [`Habits::overlap`].
    pub overlap: f64,
    /// See [`Habits::overlap_max`].
    pub overlap_max: f64,
    /// See [`Habits::late`].
    pub late: f64,
}

impl Default for Fitted {
    /// As `cargo xtask bench physics` fits them on all of the data; a test fits them again.
    fn default() -> Self {
        Fitted { slope: 1.22, cap: 0.607, overlap: 1.33, overlap_max: 10.1, late: 0.121 }
    }
}

/// Cycles per instruction that no program goes below: a core that begins four instructions in a cycle,
/// and a bit. Guessed.
const CORE_CYCLES_MIN: f64 = 0.3;

impl Fitted {
    /// A channel with so many nanoseconds of a miss when nobody else asks, and so many bytes per
    /// nanosecond (GB/s) at its peak.
    pub fn channel(&self, unloaded_ns: f64, peak: f64) -> Channel {
        Channel { unloaded_ns, cap: self.cap * peak, slope_ns: self.slope * unloaded_ns }
    }

    /// What programs have in common on cores of so many cycles in a nanosecond.
    pub fn habits(&self, ghz: f64) -> Habits {
        Habits {
            overlap: self.overlap,
            overlap_max: self.overlap_max,
            late: self.late,
            core_cycles_min: CORE_CYCLES_MIN,
            ghz,
            hit_ns: 0.0,
        }
    }
}
