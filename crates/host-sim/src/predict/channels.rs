//! Speeds of the programs of several caches that share a memory.
//!
//! ```text
//!   program ─► port of its cache ─► link of the cache ─► memory of all caches
//! ```
//!
//! Each channel is solved by [`Channel::solve`], as in the fluid model, but the loop over the channels is another. The
//! fluid model updates an earlier solution: it solves only channels whose latency differs from that at their demand by
//! more than the precision of the machine. A prediction has no earlier solution. Here, all channels are solved until no
//! load changes, so that a prediction does not depend on the order of the programs and of the caches.

use super::CacheDomain;
use crate::physics::{Channel, ChannelDemand, CpiModel, LINE};

/// Channels of a cache; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CacheLimits {
    /// The port, for the accesses of the cores.
    pub port: Option<Channel>,
    /// The link to memory, for the misses.
    pub memory_link: Option<Channel>,
}

/// Indices of the channels of a program.
const MEMORY: usize = 0;
const LINK: usize = 1;
const PORT: usize = 2;

/// Demand of a program on its channels, per 1000 instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProgramDemand {
    /// Nanoseconds without stalls on the channels.
    other_ns: f64,
    /// Stall nanoseconds per nanosecond of latency of each channel.
    stalls: [f64; 3],
    /// Bytes on each channel.
    bytes: [f64; 3],
}

/// Latency of a channel, and the factor by which it slows its programs.
type Load = (f64, f64);
/// Maximum number of times that all channels are solved.
const N_CHANNEL_SWEEPS_MAX: usize = 200;
/// Relative change of a load up to which it is final.
const LOAD_CHANGE_MAX: f64 = 1e-9;

/// Returns the nanoseconds per 1000 instructions of all programs, in their order. The memory is that of the first cache.
pub(super) fn each_ns(groups: &[(&CacheDomain, Vec<ProgramDemand>)]) -> Vec<f64> {
    let Some((first, _)) = groups.first() else { return Vec::new() };
    let memory = &first.channel;
    let has_limits = groups.iter().any(|(domain, _)| domain.limits != CacheLimits::default());
    // Loads of the memory, the link and the port of each cache.
    let mut loads: Vec<[Load; 3]> =
        vec![[(memory.unloaded_ns, 1.0), (0.0, 1.0), (0.0, 1.0)]; groups.len()];
    for _ in 0..N_CHANNEL_SWEEPS_MAX {
        let mut change = 0.0f64;
        for ((domain, programs), loads) in groups.iter().zip(&mut loads) {
            let CacheLimits { port, memory_link } = domain.limits;
            for (nth, channel) in [(LINK, memory_link), (PORT, port)] {
                let Some(channel) = channel else { continue };
                let demands: Vec<ChannelDemand> =
                    programs.iter().map(|program| program.on(nth, loads)).collect();
                let load = channel.solve(&demands, 0.0, loads[nth].0);
                change = change.max(relative_change(loads[nth], load));
                loads[nth] = load;
            }
        }
        let demands = each_program(groups, &loads, |program, loads| program.on(MEMORY, loads));
        let before = loads[0][MEMORY];
        let load = memory.with_streams_of(&demands).solve(&demands, 0.0, before.0);
        change = change.max(relative_change(before, load));
        loads.iter_mut().for_each(|loads| loads[MEMORY] = load);
        // A memory without other channels is solved in one iteration.
        if change <= LOAD_CHANGE_MAX || !has_limits {
            break;
        }
    }
    each_program(groups, &loads, |program, loads| {
        program.on(MEMORY, loads).ns_at(loads[MEMORY].0, loads[MEMORY].1)
    })
}

/// Returns a value for each program, at the loads of its channels.
fn each_program<T>(
    groups: &[(&CacheDomain, Vec<ProgramDemand>)],
    loads: &[[Load; 3]],
    value: impl Fn(&ProgramDemand, &[Load; 3]) -> T,
) -> Vec<T> {
    let groups = groups.iter().zip(loads);
    let programs = groups
        .flat_map(|((_, programs), loads)| programs.iter().map(move |program| (program, loads)));
    programs.map(|(program, loads)| value(program, loads)).collect()
}

fn relative_change(before: Load, now: Load) -> f64 {
    let change = |before: f64, now: f64| libm::fabs(now - before) / before.max(1.0);
    change(before.0, now.0).max(change(before.1, now.1))
}

impl ProgramDemand {
    /// Returns the demand of a program with `bytes` of a cache.
    pub fn new(model: &CpiModel, bytes: f64, limits: &CacheLimits) -> Self {
        let demand = model.demand(bytes);
        let accesses = limits.port.map_or(0.0, |_| model.counts(bytes).accesses);
        ProgramDemand {
            other_ns: demand.core_ns - demand.hidden_ns,
            stalls: [demand.exposed, demand.exposed, accesses / model.overlap_on(model.core())],
            bytes: [demand.bytes, demand.bytes, accesses * LINE],
        }
    }

    /// Returns the demand on one channel at the loads of the others.
    fn on(&self, nth: usize, loads: &[Load; 3]) -> ChannelDemand {
        let others = (0..3).filter(|at| *at != nth);
        let waits: f64 = others.clone().map(|at| self.stalls[at] * loads[at].0).sum();
        let slows = others.filter(|at| 0.0 < self.bytes[*at]).map(|at| loads[at].1);
        ChannelDemand {
            other_ns: self.other_ns + waits,
            stalls: self.stalls[nth],
            bytes: self.bytes[nth],
            slower: slows.fold(1.0, f64::max),
        }
    }
}
