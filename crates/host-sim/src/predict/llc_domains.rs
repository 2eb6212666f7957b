//! LLC domains of a machine: last-level caches with their cores and their memory, from the tables of the simulator.

use base::{LlcId, NodeId};
use topology::Machine;

use super::{CacheDomain, CacheLimits};
use crate::hardware::{Hardware, HardwareCpu};
use crate::physics::CoreSpeed;

/// An LLC domain.
#[derive(Clone, Debug, PartialEq)]
pub struct LlcDomain {
    /// Cache of the domain.
    pub llc: LlcId,
    /// Node of the domain's memory. The domains of a node share its memory channels.
    pub node: Option<NodeId>,
    /// Number of CPUs that programs may use.
    pub n_cpus: usize,
    /// Number of cores of these CPUs.
    pub n_cores: usize,
    /// Number of these cores that have the highest speed.
    pub n_fast: usize,
    /// Cache and memory.
    pub domain: CacheDomain,
    /// Peak memory bandwidth in bytes per nanosecond.
    pub peak: f64,
    /// Speed of the fastest cores.
    pub core: CoreSpeed,
}

impl LlcDomain {
    /// Returns whether a program alone has equal speeds on both domains.
    pub fn is_equal_to(&self, other: &LlcDomain) -> bool {
        self.domain == other.domain && self.core == other.core
    }
}

/// The LLC domains of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct LlcDomains {
    /// All domains with a CPU that programs may use, in the order of their caches; at least one.
    pub all: Vec<LlcDomain>,
    /// A sentence for each assumption.
    pub notes: Vec<String>,
}

/// Returns all LLC domains of a machine. `ghz` is a frequency derived from the programs' values. It is used if the
/// machine file has no frequency.
pub fn llc_domains(machine: &Machine, ghz: Option<f64>) -> LlcDomains {
    let hardware = Hardware::with_frequency(machine, ghz);
    let allowed = machine.allowed();
    let cpus_of = |cache: &crate::hardware::Cache| -> Vec<&HardwareCpu> {
        cache.cpus.iter().map(|&cpu| &hardware.cpus[cpu]).collect()
    };
    let domain = |(idx, cache): (usize, &crate::hardware::Cache)| {
        let cpus = cpus_of(cache);
        let n_cpus = cpus.iter().filter(|cpu| allowed.contains(cpu.id)).count();
        let fastest = HardwareCpu::fastest(cpus.iter().copied())?;
        let mut cores: Vec<(usize, bool)> = (cpus.iter().filter(|cpu| allowed.contains(cpu.id)))
            .map(|cpu| (cpu.core, cpu.speed == fastest.speed))
            .collect();
        cores.sort_unstable();
        cores.dedup();
        let node = &hardware.nodes[fastest.node];
        Some(LlcDomain {
            llc: cache.id.unwrap_or(LlcId(idx as u32)),
            node: node.id,
            n_cpus,
            n_cores: cores.len(),
            n_fast: cores.iter().filter(|(_, is_fast)| *is_fast).count(),
            domain: CacheDomain {
                cache: cache.bytes,
                replacement: hardware.replacement,
                channel: *hardware.memory(fastest.node),
                limits: CacheLimits {
                    port: cache.port.map(|port| hardware.channels[port]),
                    memory_link: cache.memory_link.map(|link| hardware.channels[link]),
                },
            },
            peak: node.peak,
            core: fastest.speed,
        })
        .filter(|domain| 0 < domain.n_cpus)
    };
    let all = hardware.caches.iter().enumerate().filter_map(domain).collect();
    let mut notes = match hardware.assumed() {
        [] => Vec::new(),
        assumed => vec![format!(
            "assumed values that the machine file does not have: {}",
            assumed.join("; ")
        )],
    };
    let is_fastest_in_cluster = |cache: &crate::hardware::Cache| {
        HardwareCpu::fastest(cpus_of(cache)).is_some_and(|cpu| cpu.cluster.is_some())
    };
    if hardware.caches.iter().any(is_fastest_in_cluster) {
        notes.push("each program has the whole cache of its cluster".to_owned());
    }
    LlcDomains { all, notes }
}
