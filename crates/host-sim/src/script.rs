//! What a job does in the simulator: its profile, made ready for one machine.
//!
//! ```text
//!   act 1: touch its footprint ─► so many instructions, with sleeps between bursts ─► act 2 …
//! ```

use std::sync::Arc;

use crate::hardware::Hardware;
use crate::physics::{Behaviour, FillTable};

/// All that one job does, for each of its threads.
#[derive(Clone, Debug)]
pub struct Script {
    /// In order; at least one.
    pub acts: Vec<Act>,
    /// How many threads do it, each its part.
    pub n_threads: u32,
}

/// A stretch in which it keeps its character.
#[derive(Clone, Debug)]
pub struct Act {
    /// How fast it is with how much cache.
    pub behaviour: Arc<Behaviour>,
    /// How it fills each of the machine's caches, by [`Hardware::cache_kind`].
    pub fills: Arc<Vec<FillTable>>,
    /// Instructions of each thread.
    pub instructions: f64,
    /// Instructions between two sleeps, and how long each lasts in nanoseconds.
    pub sleeps: Option<(f64, u64)>,
    /// Bytes of memory that the whole job has in it.
    pub footprint: u64,
    /// Accesses to the last-level cache per 1000 instructions.
    pub references: f64,
    /// Misses of the first cache per 1000 instructions.
    pub l1_misses: f64,
}

impl Script {
    /// The most memory that it has at a time.
    pub fn footprint_max(&self) -> u64 {
        self.acts.iter().map(|act| act.footprint).max().unwrap_or(0)
    }

    /// Nanoseconds of 1000 instructions of its first act, alone on an idle machine and near its memory.
    pub fn ns_alone(&self, hardware: &Hardware) -> f64 {
        let fastest = hardware.cpus.iter().max_by(|one, other| one.ghz.total_cmp(&other.ghz));
        let (Some(cpu), Some(act)) = (fastest, self.acts.first()) else { return 1.0 };
        let demand = act.behaviour.demand(hardware.caches[cpu.cache].bytes);
        let loaded = hardware.nodes[cpu.node].channel.load(&[demand]);
        loaded.each_ns.first().copied().unwrap_or(1.0)
    }

    /// Nanoseconds that it takes alone on an idle machine, on the fastest core, its memory near it.
    pub fn alone_ns(&self, hardware: &Hardware) -> f64 {
        let fastest = hardware.cpus.iter().max_by(|one, other| one.ghz.total_cmp(&other.ghz));
        let Some(cpu) = fastest else { return 0.0 };
        let channel = hardware.nodes[cpu.node].channel;
        let cache = hardware.caches[cpu.cache].bytes;
        let of = |act: &Act| {
            let demand = act.behaviour.demand(cache);
            let loaded = channel.load(&[demand]);
            let each = loaded.each_ns.first().copied().unwrap_or(0.0);
            let sleeps = act.sleeps.map_or(0.0, |(burst, ns)| {
                libm::floor((act.instructions - 1.0).max(0.0) / burst) * ns as f64
            });
            act.instructions * each / 1000.0 + sleeps
        };
        self.acts.iter().map(of).sum()
    }
}
