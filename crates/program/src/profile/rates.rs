//! What a program does in a second of CPU time: its profile as counters would show it.

use base::Bytes;

use super::{Phase, Profile};

/// Bytes of a cache line, which is what a miss and a write-back move.
const LINE_BYTES: f64 = 64.0;

/// Figures per second of CPU time. What the profile cannot tell is absent.
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
    /// Changed lines that the last-level cache writes to memory.
    pub write_backs: Option<f64>,
}

impl Rates {
    /// Lines between cache and memory: misses and write-backs, what a memory controller counts.
    pub fn controller_ops(&self) -> Option<f64> {
        self.llc_misses.map(|misses| misses + self.write_backs.unwrap_or(0.0))
    }

    /// Bytes between cache and memory.
    pub fn bandwidth(&self) -> Option<f64> {
        self.controller_ops().map(|lines| lines * LINE_BYTES)
    }
}

impl Profile {
    /// What the program does in a second of CPU time where it has `cache` bytes of last-level cache and
    /// the processor makes `frequency` cycles a second: an average over its phases.
    ///
    /// Cycles per instruction are taken as they were measured; that they change with the cache is left
    /// to models. Without them nothing but cycles is known.
    pub fn figures_per_cpu_second(&self, cache: Bytes, frequency: f64) -> Rates {
        let cpi = self.average(|phase| Some(phase.cycles_per_instruction?.value()));
        let instructions =
            cpi.filter(|cpi| 0.0 < *cpi).map(|cpi| frequency / cpi).filter(|rate| rate.is_finite());
        let per_second = |figure: Option<f64>| Some(figure? / 1000.0 * instructions?);
        Rates {
            cycles: frequency,
            instructions,
            llc_references: per_second(self.average(|p| Some(p.llc_accesses?.value()))),
            llc_misses: per_second(self.average(|phase| phase.curve.misses_at(cache))),
            write_backs: per_second(self.average(|phase| phase.curve.write_backs_at(cache))),
        }
    }

    /// Cycles a second at which it was measured: all of its cycles in its CPU time. Absent when either
    /// is not told.
    pub fn frequency(&self) -> Option<f64> {
        let cycles = |phase: &Phase| {
            Some(phase.instructions?.value() * phase.cycles_per_instruction?.value())
        };
        let seconds = self.cpu_time?.as_secs_f64();
        let all: f64 = self.phases.iter().map(cycles).sum::<Option<f64>>()?;
        (0.0 < seconds && 0.0 < all).then(|| all / seconds).filter(|hertz| hertz.is_finite())
    }

    /// An average over instructions; absent if any phase does not know.
    pub fn average(&self, figure: impl Fn(&Phase) -> Option<f64>) -> Option<f64> {
        let mut sum = 0.0;
        let mut share = 0.0;
        for phase in &self.phases {
            sum += figure(phase)? * phase.share.value();
            share += phase.share.value();
        }
        (0.0 < share).then(|| sum / share)
    }
}
