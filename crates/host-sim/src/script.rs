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
        self.acts.first().map_or(1.0, |act| ns_alone(act, hardware))
    }

    /// Nanoseconds that it takes at the least, wherever it runs and wherever its memory is: the fastest core to
    /// itself, the whole of the largest cache, and memory that nobody asks anything of, itself included.
    pub fn least_ns(&self, hardware: &Hardware) -> f64 {
        let ghz = hardware.cpus.iter().map(|cpu| cpu.ghz).fold(0.0, f64::max);
        let cache = hardware.caches.iter().map(|cache| cache.bytes).fold(0.0, f64::max);
        let miss_ns = hardware.nodes.iter().map(|node| node.channel.unloaded_ns);
        let miss_ns = miss_ns.fold(f64::INFINITY, f64::min);
        self.sum_ns(|act| {
            let demand = act.behaviour.demand(cache);
            demand.core_ns * act.behaviour.ghz() / ghz.max(1e-9) + demand.exposed * miss_ns
        })
    }

    /// Nanoseconds that it takes on the fastest core of an idle machine, near its memory.
    pub fn alone_ns(&self, hardware: &Hardware) -> f64 {
        self.sum_ns(|act| ns_alone(act, hardware))
    }

    /// All acts with their sleeps, at so many nanoseconds for 1000 instructions of each.
    fn sum_ns(&self, each: impl Fn(&Act) -> f64) -> f64 {
        let of = |act: &Act| {
            let sleeps = act.sleeps.map_or(0.0, |(burst, ns)| {
                libm::floor((act.instructions - 1.0).max(0.0) / burst) * ns as f64
            });
            act.instructions * each(act) / 1000.0 + sleeps
        };
        self.acts.iter().map(of).sum()
    }
}

/// Nanoseconds of 1000 instructions of an act, alone on an idle machine and near its memory.
fn ns_alone(act: &Act, hardware: &Hardware) -> f64 {
    let fastest = hardware.cpus.iter().max_by(|one, other| one.ghz.total_cmp(&other.ghz));
    let Some(cpu) = fastest else { return 1.0 };
    let demand = act.behaviour.demand(hardware.caches[cpu.cache].bytes);
    let loaded = hardware.nodes[cpu.node].channel.load(&[demand]);
    loaded.each_ns.first().copied().unwrap_or(1.0)
}
