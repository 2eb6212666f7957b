//! Calibrated parameters. They are ratios, so that they apply to other machines.
//!
//! A machine file has two values for its memory: the unloaded miss latency, and the peak bandwidth (width × transfer
//! rate of the channels). The behaviour under load is calibrated on one machine with measured slowdowns
//! (`workloads/data/corun`), relative to these two values:
//!
//! ```text
//!   latency = unloaded × (1 + slope × utilization),  utilization = bandwidth ÷ (capacity × peak)
//! ```

use super::{Channel, CoreSpeed, CpiParameters, LoadCurve, StreamEfficiency};

/// Calibrated parameters. [`Calibration::default`] returns the shipped values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Additional latency at full utilization, divided by the unloaded latency.
    pub slope: f64,
    /// Reachable bandwidth divided by the peak; row misses and read-write turnarounds use the difference. Not fitted
    /// to slowdowns: it is the largest bandwidth of any program alone.
    pub cap: f64,
    /// See [`CpiParameters::overlap`].
    pub overlap: f64,
    /// See [`CpiParameters::overlap_max`].
    pub overlap_max: f64,
    /// See [`CpiParameters::late`].
    pub late: f64,
}

impl Default for Calibration {
    /// Returns the values that `cargo xtask bench physics` prints for all data. A test repeats the fit.
    fn default() -> Self {
        Calibration { slope: 1.22, cap: 0.607, overlap: 1.33, overlap_max: 10.1, late: 0.121 }
    }
}

/// Minimum number of core cycles per instruction: the value for a core that issues four instructions per cycle, plus
/// a margin (guessed).
const CORE_CYCLES_MIN: f64 = 0.3;

impl Calibration {
    /// Returns a channel with this unloaded miss latency, and this peak bandwidth in bytes per nanosecond (GB/s).
    pub fn channel(&self, unloaded_ns: f64, peak: f64) -> Channel {
        let curve = LoadCurve::rising(self.slope);
        Channel {
            unloaded_ns,
            capacity: self.cap * peak,
            curve,
            streams: StreamEfficiency::CONSTANT,
        }
    }

    /// Returns the parameters of programs that were measured on this core.
    pub fn parameters(&self, core: CoreSpeed) -> CpiParameters {
        CpiParameters {
            overlap: self.overlap,
            overlap_max: self.overlap_max,
            late: self.late,
            core_cycles_min: CORE_CYCLES_MIN,
            core,
        }
    }
}
