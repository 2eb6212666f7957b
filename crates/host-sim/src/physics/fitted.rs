//! What was fitted on measured slow-downs, as ratios that serve other machines.
//!
//! A machine file tells two figures of its memory: the latency of a miss when nobody else asks, and the
//! peak of its channels, their width times their rate. What a loaded channel does in between is taken
//! from one machine whose slow-downs are known (`workloads/data/corun`), in parts of those two:
//!
//! ```text
//!   latency = unloaded × (1 + slope × use + knee × use ÷ (1 − use)),  use = moved ÷ (cap × peak)
//! ```

use super::{Channel, Habits};

/// The fitted figures. [`Fitted::default`] is what ships.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// See [`Channel::slope_ns`]; in parts of the unloaded latency.
    pub slope: f64,
    /// See [`Channel::knee_ns`]; in parts of the unloaded latency.
    pub knee: f64,
    /// What can be moved, as a part of the peak: rows that close and reads that turn into writes cost the rest.
    pub cap: f64,
    /// See [`Habits::overlap`].
    pub overlap: f64,
    /// See [`Habits::late`].
    pub late: f64,
}

impl Default for Fitted {
    /// Fitted on all of the data: `cargo xtask bench physics` fits them again and prints them.
    fn default() -> Self {
        Fitted { slope: 1.194, knee: 0.0517, cap: 0.623, overlap: 1.37, late: 0.086 }
    }
}

/// Cycles per instruction that no program goes below: a core that begins four instructions in a cycle,
/// and a bit. Guessed.
const CORE_CYCLES_MIN: f64 = 0.3;

impl Fitted {
    /// A channel with so many nanoseconds of a miss when nobody else asks, and so many bytes per
    /// nanosecond (GB/s) at its peak.
    pub fn channel(&self, unloaded_ns: f64, peak: f64) -> Channel {
        Channel {
            unloaded_ns,
            cap: self.cap * peak,
            slope_ns: self.slope * unloaded_ns,
            knee_ns: self.knee * unloaded_ns,
        }
    }

    /// What programs have in common on cores of so many cycles in a nanosecond.
    pub fn habits(&self, ghz: f64) -> Habits {
        Habits {
            overlap: self.overlap,
            late: self.late,
            core_cycles_min: CORE_CYCLES_MIN,
            ghz,
            hit_ns: 0.0,
        }
    }
}
