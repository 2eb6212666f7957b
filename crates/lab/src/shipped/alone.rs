//! What counters would show of a program that runs alone on a machine.
//!
//! ```text
//!   rates = what 1000 instructions do ÷ how long they take with the whole cache and the own node's memory
//! ```
//!
//! The class that a policy gives a program comes from this (spec 1.1: the program runs alone while the
//! controllers' operations are counted).

use host_sim::fluid::{HIT_NS, queue_full};
use host_sim::hardware::Hardware;
use host_sim::physics::{Calibration, ProfileError, of_profile};
use program::{Class, Profile};

/// Per second of a program that runs alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Alone {
    /// Instructions.
    pub instructions: f64,
    /// Instructions in a cycle.
    pub ipc: f64,
    /// Bytes between cache and memory.
    pub bandwidth: f64,
    /// Accesses to the last-level cache.
    pub references: f64,
    /// Of them, the part that hits.
    pub hit_ratio: f64,
    /// Lines that prefetchers read.
    pub prefetches: f64,
    /// Requests that find the queue to the shared cache full.
    pub queue_full: f64,
    /// Seconds that the whole program takes, without sleeps.
    pub seconds: f64,
}

/// A program on the fastest core of a machine, with the cache of that core to itself.
///
/// # Errors
/// The profile lacks what the physics needs.
pub fn alone(profile: &Profile, hardware: &Hardware) -> Result<Alone, ProfileError> {
    let fastest = hardware.cpus.iter().max_by(|one, other| one.ghz.total_cmp(&other.ghz));
    let Some(cpu) = fastest else { return Ok(Alone::default()) };
    let (node, cache) = (&hardware.nodes[cpu.node], hardware.caches[cpu.cache].bytes);
    let habits = Calibration::default().parameters(cpu.ghz);
    let behaviour = of_profile(profile, cache, &node.channel, habits)?;
    let loaded = node.channel.load(&[behaviour.demand(cache)]);
    let ns = loaded.each_ns.first().copied().unwrap_or(1.0);
    let counts = behaviour.counts(cache);
    // Per 1000 instructions, which take `ns`.
    let per_s = |count: f64| count / ns * 1e9;
    let hits = (counts.accesses - counts.demand_misses).max(0.0);
    let under_way = (counts.demand_misses + counts.prefetches) / ns * loaded.latency_ns;
    let occupancy = under_way + hits / ns * HIT_NS;
    let full = queue_full(occupancy);
    let instructions = profile.phases.iter().filter_map(|phase| phase.instructions);
    let instructions: f64 = instructions.map(|figure| figure.value()).sum();
    Ok(Alone {
        instructions: per_s(1000.0),
        ipc: 1000.0 / ns / cpu.ghz,
        bandwidth: per_s((counts.reads + counts.writes) * 64.0),
        references: per_s(counts.accesses),
        hit_ratio: if 0.0 < counts.accesses { hits / counts.accesses } else { 0.0 },
        prefetches: per_s(counts.prefetches),
        queue_full: per_s((counts.accesses + counts.prefetches) * full),
        seconds: instructions / per_s(1000.0),
    })
}

/// The class that a program has on a machine, from how it runs there alone (`class_basis = rate`).
///
/// # Errors
/// As [`alone`].
pub fn class_on(profile: &Profile, hardware: &Hardware) -> Result<Class, ProfileError> {
    let lines_per_s = alone(profile, hardware)?.bandwidth / 64.0;
    Ok(Class::of_rate(lines_per_s / 1000.0))
}
