//! Speeds of the programs of several caches that share a memory.
//!
//! ```text
//!   program ─► port of its cache ─► link of the cache ─► memory of all caches
//! ```

use super::CacheDomain;
use crate::physics::{Channel, ChannelDemand, CpiModel, Demand, LINE};

/// Channels of a cache; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CacheLimits {
    /// The port, for the accesses of the cores.
    pub port: Option<Channel>,
    /// The link to memory, for the misses.
    pub memory_link: Option<Channel>,
}

/// Demand of a program per 1000 instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProgramDemand {
    memory: Demand,
    /// Stall nanoseconds per nanosecond of latency of the port, and bytes there.
    port: (f64, f64),
}

impl ProgramDemand {
    /// Returns the demand of a program with `bytes` of a cache.
    pub fn new(model: &CpiModel, bytes: f64, limits: &CacheLimits) -> Self {
        let on_port = |_| {
            let accesses = model.counts(bytes).accesses;
            (accesses / model.overlap(), accesses * LINE)
        };
        let port = limits.port.as_ref().map_or((0.0, 0.0), on_port);
        ProgramDemand { memory: model.demand(bytes), port }
    }
}

/// Latency of a channel, and the factor by which it slows its programs.
type Load = (f64, f64);
/// Indices of the channels of a program.
const MEMORY: usize = 0;
const LINK: usize = 1;
const PORT: usize = 2;
/// Maximum number of iterations over all channels, and the relative change at which they have converged.
const N_ROUNDS: usize = 200;
const CONVERGED: f64 = 1e-9;

/// Returns the nanoseconds per 1000 instructions of all programs, in their order. The memory is that of the first cache.
pub(super) fn each_ns(groups: &[(&CacheDomain, Vec<ProgramDemand>)]) -> Vec<f64> {
    let Some((first, _)) = groups.first() else { return Vec::new() };
    let memory = &first.channel;
    if groups.iter().all(|(domain, _)| domain.limits == CacheLimits::default()) {
        let all: Vec<Demand> = groups
            .iter()
            .flat_map(|(_, programs)| programs)
            .map(|program| program.memory)
            .collect();
        return memory.load(&all).each_ns;
    }
    let mut memory_load = (memory.unloaded_ns, 1.0);
    let mut own: Vec<[Load; 2]> = vec![[(0.0, 1.0); 2]; groups.len()];
    for _ in 0..N_ROUNDS {
        let mut change = 0.0f64;
        for (at, (domain, programs)) in groups.iter().enumerate() {
            let CacheLimits { port, memory_link } = domain.limits;
            for (nth, channel) in [(LINK, memory_link), (PORT, port)] {
                let Some(channel) = channel else { continue };
                let loads = [memory_load, own[at][0], own[at][1]];
                let demands: Vec<ChannelDemand> =
                    programs.iter().map(|program| program.on(nth, &loads)).collect();
                let load = channel.solve(&demands, 0.0, loads[nth].0);
                change = change.max(relative_change(loads[nth], load));
                own[at][nth - 1] = load;
            }
        }
        let demands: Vec<ChannelDemand> = (groups.iter().zip(&own))
            .flat_map(|((_, programs), own)| {
                programs.iter().map(|program| program.on(MEMORY, &[memory_load, own[0], own[1]]))
            })
            .collect();
        let load = memory.with_streams_of(&demands).solve(&demands, 0.0, memory_load.0);
        change = change.max(relative_change(memory_load, load));
        memory_load = load;
        if change <= CONVERGED {
            break;
        }
    }
    (groups.iter().zip(&own))
        .flat_map(|((_, programs), own)| {
            programs.iter().map(|program| program.ns(&[memory_load, own[0], own[1]]))
        })
        .collect()
}

fn relative_change(before: Load, now: Load) -> f64 {
    let change = |before: f64, now: f64| libm::fabs(now - before) / before.max(1.0);
    change(before.0, now.0).max(change(before.1, now.1))
}

impl ProgramDemand {
    /// Returns the stalls per nanosecond of latency of each channel.
    fn stalls(&self) -> [f64; 3] {
        [self.memory.exposed, self.memory.exposed, self.port.0]
    }

    fn bytes(&self) -> [f64; 3] {
        [self.memory.bytes, self.memory.bytes, self.port.1]
    }

    /// Returns the demand on one channel at the loads of the others.
    fn on(&self, nth: usize, loads: &[Load; 3]) -> ChannelDemand {
        let (stalls, bytes) = (self.stalls(), self.bytes());
        let others = (0..3).filter(|at| *at != nth);
        let waits: f64 = others.clone().map(|at| stalls[at] * loads[at].0).sum();
        ChannelDemand {
            other_ns: self.memory.core_ns - self.memory.hidden_ns + waits,
            stalls: stalls[nth],
            bytes: bytes[nth],
            slower: others.filter(|at| 0.0 < bytes[*at]).map(|at| loads[at].1).fold(1.0, f64::max),
        }
    }

    fn ns(&self, loads: &[Load; 3]) -> f64 {
        let on_memory = self.on(MEMORY, loads);
        (on_memory.other_ns + on_memory.stalls * loads[MEMORY].0)
            * on_memory.slower.max(loads[MEMORY].1)
    }
}
