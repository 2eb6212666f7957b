//! Rates of a program per second of CPU time, computed from its profile.

use base::Bytes;

use super::{Phase, Profile};

/// Bytes of a cache line.
const LINE_BYTES: f64 = 64.0;

/// Events per second of CPU time. Values that the profile does not have are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Processor cycles.
    pub cycles: f64,
    /// Instructions.
    pub instructions: Option<f64>,
    /// Accesses to the last-level cache.
    pub llc_references: Option<f64>,
    /// Misses of the last-level cache.
    pub llc_misses: Option<f64>,
    /// Write-backs of the last-level cache.
    pub write_backs: Option<f64>,
}

impl Rates {
    /// Memory controller operations: misses and write-backs.
    pub fn controller_ops(&self) -> Option<f64> {
        self.llc_misses.map(|misses| misses + self.write_backs.unwrap_or(0.0))
    }

    /// Memory traffic in bytes.
    pub fn bandwidth(&self) -> Option<f64> {
        self.controller_ops().map(|lines| lines * LINE_BYTES)
    }
}

impl Profile {
    /// The rates with `cache` bytes of last-level cache and a frequency in cycles per second, averaged over the
    /// phases.
    ///
    /// The measured cycles per instruction are used for every cache size; models may correct them. If the
    /// profile has none, only the cycles are known.
    pub fn rates_per_cpu_second(&self, cache: Bytes, frequency: f64) -> Rates {
        let cpi = self.average(|phase| Some(phase.cycles_per_instruction?.value()));
        let instructions =
            cpi.filter(|cpi| 0.0 < *cpi).map(|cpi| frequency / cpi).filter(|rate| rate.is_finite());
        let per_second = |rate: Option<f64>| Some(rate? / 1000.0 * instructions?);
        Rates {
            cycles: frequency,
            instructions,
            llc_references: per_second(self.average(|p| Some(p.llc_accesses?.value()))),
            llc_misses: per_second(self.average(|phase| phase.curve.misses_at(cache))),
            write_backs: per_second(self.average(|phase| phase.curve.write_backs_at(cache))),
        }
    }

    /// The frequency at which the profile was measured in cycles per second: its cycles over its CPU time. Absent
    /// if either is unknown.
    pub fn frequency(&self) -> Option<f64> {
        let cycles = |phase: &Phase| {
            Some(phase.instructions?.value() * phase.cycles_per_instruction?.value())
        };
        let seconds = self.cpu_time?.as_secs_f64();
        let all: f64 = self.phases.iter().map(cycles).sum::<Option<f64>>()?;
        (0.0 < seconds && 0.0 < all).then(|| all / seconds).filter(|hertz| hertz.is_finite())
    }

    /// The average over instructions; absent if a phase does not have the value.
    pub fn average(&self, value_of: impl Fn(&Phase) -> Option<f64>) -> Option<f64> {
        let mut sum = 0.0;
        let mut share = 0.0;
        for phase in &self.phases {
            sum += value_of(phase)? * phase.share.value();
            share += phase.share.value();
        }
        (0.0 < share).then(|| sum / share)
    }
}
