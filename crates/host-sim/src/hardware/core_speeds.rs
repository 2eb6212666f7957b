//! Speeds of the cores of a machine, from the keys of its core kinds.

use base::CoreId;
use topology::Machine;

use super::{GHZ, HardwareCpu, known};
use crate::physics::CoreSpeed;

impl HardwareCpu {
    /// Returns the number of instructions per nanosecond of a program with one core cycle per instruction of a profile.
    pub fn instructions_per_ns(&self) -> f64 {
        self.speed.ghz / self.speed.relative_cycles
    }

    /// Returns the fastest of several CPUs for core cycles; of equal CPUs, the first.
    pub fn fastest<'h>(cpus: impl IntoIterator<Item = &'h HardwareCpu>) -> Option<&'h HardwareCpu> {
        cpus.into_iter().reduce(|best, cpu| {
            if best.instructions_per_ns() < cpu.instructions_per_ns() { cpu } else { best }
        })
    }
}

/// Speeds of the cores of a machine.
///
/// Capacity is throughput: frequency over core cycles per instruction. With a frequency and without `core_cycles`, the
/// core cycles follow from frequency and capacity, relative to the core with the largest capacity. Without a frequency,
/// it follows from the capacity.
pub(super) struct CoreSpeeds<'m> {
    machine: &'m Machine,
    assumed_ghz: Option<f64>,
    /// Capacity, frequency and relative core cycles of the core with the largest capacity.
    fastest: (f64, f64, f64),
}

impl<'m> CoreSpeeds<'m> {
    pub fn new(machine: &'m Machine, assumed_ghz: Option<f64>) -> Self {
        let mut speeds = CoreSpeeds { machine, assumed_ghz, fastest: (1024.0, GHZ, 1.0) };
        let values = machine.cores().iter().filter_map(|core| {
            let cycles = speeds.cycles_of(core).unwrap_or(1.0);
            Some((f64::from(core.capacity), speeds.ghz_of(core)?, cycles))
        });
        let fastest = values.reduce(
            |best, next| {
                if (best.0, best.1) < (next.0, next.1) { next } else { best }
            },
        );
        speeds.fastest = fastest.unwrap_or(speeds.fastest);
        speeds
    }

    fn kind_of(&self, core: &topology::Core) -> Option<&topology::CoreKindAttributes> {
        self.machine.perf_attributes().kinds.get(&core.kind)
    }

    fn ghz_of(&self, core: &topology::Core) -> Option<f64> {
        let own = |id: CoreId| self.machine.perf_attributes().core_mhz.get(&id).copied();
        let of_kind = || self.kind_of(core).and_then(|kind| kind.frequency_mhz);
        known(own(core.id).or_else(of_kind)).map(|mhz| mhz / 1000.0)
    }

    fn cycles_of(&self, core: &topology::Core) -> Option<f64> {
        known(self.kind_of(core)?.core_cycles_permille).map(|permille| permille / 1000.0)
    }

    /// Returns the speed of a core, and reports assumptions.
    pub fn of(&self, core: &topology::Core, mut assume: impl FnMut(String)) -> CoreSpeed {
        let capacity = f64::from(core.capacity);
        let kind = self.kind_of(core);
        let ghz = self.ghz_of(core);
        if ghz.is_none() {
            assume(frequency_assumption(self.assumed_ghz));
        }
        let outstanding = kind.and_then(|kind| known(kind.max_outstanding_misses));
        if outstanding.is_none() {
            assume(format!("{} outstanding misses per core", CoreSpeed::OUTSTANDING));
        }
        let (capacity_max, ghz_max, cycles_max) = self.fastest;
        let derived = |ghz: f64| cycles_max * (ghz / ghz_max) * (capacity_max / capacity);
        CoreSpeed {
            relative_cycles: self.cycles_of(core).or(ghz.map(derived)).unwrap_or(1.0),
            outstanding_max: outstanding.unwrap_or(CoreSpeed::OUTSTANDING),
            private_bytes: kind.and_then(|kind| known(kind.private_cache_bytes)),
            has_prefetcher: kind.and_then(|kind| kind.has_prefetcher).unwrap_or(true),
            ..CoreSpeed::new(ghz.unwrap_or(self.assumed_ghz.unwrap_or(GHZ) * capacity / 1024.0))
        }
    }
}

/// Returns the assumption about the frequency of a machine without one.
pub(super) fn frequency_assumption(ghz: Option<f64>) -> String {
    match ghz {
        Some(ghz) => format!(
            "{ghz:.2} GHz for the fastest cores, computed from the bandwidths of the programs"
        ),
        None => format!("{GHZ} GHz for the fastest cores"),
    }
}
