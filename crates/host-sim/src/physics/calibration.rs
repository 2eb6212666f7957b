//! Calibrated parameters, as ratios that apply to other machines.
//!
//! A machine file has two values of its memory: the unloaded miss latency, and the peak bandwidth (width × transfer
//! rate of the channels). The behaviour under load is taken from one machine with measured slowdowns
//! (`workloads/data/corun`), relative to these two values:
//!
//! ```text
//!   latency = unloaded × (1 + slope × utilization),  utilization = bandwidth ÷ (capacity × peak)
//! ```

use super::{Channel, CpiParameters};

/// The calibrated parameters. [`Calibration::default`] has the shipped values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// See [`Channel::slope_ns`]; relative to the unloaded latency.
    pub slope: f64,
    /// Reachable bandwidth relative to the peak; row misses and read-write turnarounds take the rest. Not fitted to
    /// slowdowns: it is the largest bandwidth of any program alone.
    pub cap: f64,
    /// See [`CpiParameters::overlap`].
    pub overlap: f64,
    /// See [`CpiParameters::overlap_max`].
    pub overlap_max: f64,
    /// See [`CpiParameters::late`].
    pub late: f64,
}

impl Default for Calibration {
    /// As printed by `cargo xtask bench physics` for all data; a test repeats the fit.
    fn default() -> Self {
        Calibration { slope: 1.22, cap: 0.607, overlap: 1.33, overlap_max: 10.1, late: 0.121 }
    }
}

/// Smallest number of core cycles per instruction: a core that issues four instructions per cycle, and a margin.
/// Guessed.
const CORE_CYCLES_MIN: f64 = 0.3;

impl Calibration {
    /// A channel with this unloaded miss latency and this peak bandwidth in bytes per nanosecond (GB/s).
    pub fn channel(&self, unloaded_ns: f64, peak: f64) -> Channel {
        Channel { unloaded_ns, capacity: self.cap * peak, slope_ns: self.slope * unloaded_ns }
    }

    /// The parameters of programs on cores of this frequency.
    pub fn parameters(&self, ghz: f64) -> CpiParameters {
        CpiParameters {
            overlap: self.overlap,
            overlap_max: self.overlap_max,
            late: self.late,
            core_cycles_min: CORE_CYCLES_MIN,
            ghz,
            hit_ns: 0.0,
        }
    }
}
