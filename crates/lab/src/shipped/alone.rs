//! Estimated counter rates of a program that runs alone on a machine.
//!
//! ```text
//!   rate = events of 1000 instructions ÷ their time with the whole cache and local memory
//! ```
//!
//! The class of a program is computed from these rates, as in the thesis on DFS: each program runs alone while the
//! operations of the memory controllers are counted.

use host_sim::fluid::queue_full;
use host_sim::hardware::Hardware;
use host_sim::physics::{Calibration, ProfileError, of_profile};
use program::{Class, Profile};

/// Rates of a program alone, per second unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoloRates {
    /// Instructions.
    pub instructions: f64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// Bytes between cache and memory.
    pub bandwidth: f64,
    /// Accesses to the last-level cache.
    pub references: f64,
    /// Hits per access.
    pub hit_ratio: f64,
    /// Prefetched lines.
    pub prefetches: f64,
    /// Requests that are stalled by a full queue to the shared cache.
    pub queue_full: f64,
    /// Run time in seconds, without sleeps.
    pub seconds: f64,
}

/// Returns the rates on the fastest core of a machine with the whole cache of that core.
///
/// # Errors
/// The profile lacks a value that the physics needs.
pub fn alone(profile: &Profile, hardware: &Hardware) -> Result<SoloRates, ProfileError> {
    let cpu = hardware.fastest_cpu();
    let (memory, cache) = (hardware.memory(cpu.node), hardware.caches[cpu.cache].bytes);
    let habits = Calibration::default().parameters(cpu.speed);
    let behaviour = of_profile(profile, cache, memory, habits)?;
    let loaded = memory.load(&[behaviour.demand(cache)]);
    let ns = loaded.each_ns[0];
    let counts = behaviour.counts(cache);
    // Per 1000 instructions, which take `ns`.
    let per_s = |count: f64| count / ns * 1e9;
    let hits = (counts.accesses - counts.demand_misses).max(0.0);
    let outstanding = (counts.demand_misses + counts.prefetches) / ns * loaded.latency_ns;
    let occupancy = outstanding + hits / ns * cpu.speed.hit_ns;
    let full = queue_full(occupancy);
    let instructions = profile.phases.iter().filter_map(|phase| phase.instructions);
    let instructions: f64 = instructions.map(|value| value.value()).sum();
    Ok(SoloRates {
        instructions: per_s(1000.0),
        ipc: 1000.0 / ns / cpu.speed.ghz,
        bandwidth: per_s((counts.reads + counts.writes) * 64.0),
        references: per_s(counts.accesses),
        hit_ratio: if 0.0 < counts.accesses { hits / counts.accesses } else { 0.0 },
        prefetches: per_s(counts.prefetches),
        queue_full: per_s((counts.accesses + counts.prefetches) * full),
        seconds: instructions / per_s(1000.0),
    })
}

/// Returns the class of a program on a machine, from its rates alone (operations per millisecond).
///
/// # Errors
/// As [`alone`].
pub fn class_on(profile: &Profile, hardware: &Hardware) -> Result<Class, ProfileError> {
    let lines_per_s = alone(profile, hardware)?.bandwidth / 64.0;
    Ok(Class::of_rate(lines_per_s / 1000.0))
}
