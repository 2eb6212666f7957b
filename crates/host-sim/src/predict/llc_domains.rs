//! LLC domains of a machine file: last-level caches with their cores and their memory.
//!
//! ```text
//!   cores ── frequency of their kind
//!     llc ── size                       required
//!   memory ── unloaded miss latency
//!          └─ bandwidth                 required: the peak, channels × width × transfer rate
//! ```
//!
//! A missing value that is not required is assumed, with a note.

use std::collections::BTreeSet;

use base::{LlcId, NodeId};
use topology::{Core, Llc, Machine};

/// Miss latency in nanoseconds if the machine file has none. Guessed: small machines have 45 to 80, servers up to
/// 130.
pub const DEFAULT_LATENCY_NS: f64 = 70.0;
/// Frequency in GHz if none is known (guessed).
pub const DEFAULT_GHZ: f64 = 3.0;

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
    /// Size of the cache in bytes.
    pub cache: f64,
    /// Unloaded miss latency in nanoseconds.
    pub unloaded_ns: f64,
    /// Peak memory bandwidth in bytes per nanosecond.
    pub peak: f64,
    /// Frequency in GHz.
    pub ghz: f64,
    /// Hit latency in nanoseconds, if known.
    pub hit_ns: Option<f64>,
}

impl LlcDomain {
    /// Returns whether a program alone has equal speeds on both domains.
    pub fn is_equal_to(&self, other: &LlcDomain) -> bool {
        let values = |llc_domain: &LlcDomain| {
            (
                llc_domain.cache,
                llc_domain.unloaded_ns,
                llc_domain.peak,
                llc_domain.ghz,
                llc_domain.hit_ns,
            )
        };
        values(self) == values(other)
    }
}

/// The LLC domains of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct LlcDomains {
    /// All domains in the order of their ids; at least one.
    pub all: Vec<LlcDomain>,
    /// A sentence for each assumption.
    pub notes: Vec<String>,
}

/// An error for a machine file that lacks a required value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum LlcDomainError {
    #[error(
        "the machine has no last-level cache; write llcs = [{{ id = 0, cpus = \"0-1\", node = 0, size_bytes = 1048576 }}]"
    )]
    NoCache,
    #[error("the last-level cache {0} has no size; write size_bytes")]
    NoSize(u32),
    #[error("the last-level cache {0} has no allowed CPU; remove it")]
    NoCpu(u32),
    #[error(
        "the machine has no bandwidth for the memory of the last-level cache {llc}; write accesses = [{{ from_node = {node}, to_node = {node}, bandwidth = {{ bytes_per_s = 12800000000, source = \"assumed\" }} }}]"
    )]
    NoBandwidth { llc: u32, node: u32 },
}

/// Returns all LLC domains of a machine. `ghz` is a frequency derived from the programs' values. It is used if the
/// machine file has no frequency.
///
/// # Errors
/// Returns an error if the cache, its size or the bandwidth of its memory is missing.
pub fn llc_domains(machine: &Machine, ghz: Option<f64>) -> Result<LlcDomains, LlcDomainError> {
    let mut notes = Vec::new();
    let all = machine.llcs().iter().map(|llc| llc_domain(machine, llc, ghz, &mut notes));
    let all: Vec<LlcDomain> = all.collect::<Result<_, _>>()?;
    let mut noted = BTreeSet::new();
    notes.retain(|note: &String| noted.insert(note.clone()));
    if all.is_empty() { Err(LlcDomainError::NoCache) } else { Ok(LlcDomains { all, notes }) }
}

fn llc_domain(
    machine: &Machine,
    llc: &Llc,
    ghz: Option<f64>,
    notes: &mut Vec<String>,
) -> Result<LlcDomain, LlcDomainError> {
    let id = llc.id.0;
    let size = llc.size.filter(|size| 0 < size.0).ok_or(LlcDomainError::NoSize(id))?;
    let cpus = llc.cpus.and(machine.allowed());
    if cpus.is_empty() {
        return Err(LlcDomainError::NoCpu(id));
    }
    let node = node_of(machine, llc);
    let own =
        |access: &&topology::MemoryAccess| access.from == access.to && Some(access.from) == node;
    let access = machine.perf_attributes().accesses.iter().find(own);
    let number = node.map_or(0, |node| node.0);
    let peak = access.and_then(|access| access.bandwidth_bytes_per_s).filter(|at| 0 < at.value);
    let peak = peak.ok_or(LlcDomainError::NoBandwidth { llc: id, node: number })?;
    let latency = access.and_then(|access| access.latency_ns).filter(|at| 0 < at.value);
    if latency.is_none() {
        notes.push(format!(
            "the machine has no latency for node {number}: assumed {DEFAULT_LATENCY_NS} ns"
        ));
    }
    let cores = || machine.cores().iter().filter(|core| !core.cpus.and(&cpus).is_empty());
    let speed = |core: &Core| (mhz(machine, core), core.capacity);
    let fastest = cores().map(speed).max();
    Ok(LlcDomain {
        llc: llc.id,
        node,
        n_cpus: cpus.len(),
        n_cores: cores().count(),
        n_fast: cores().filter(|core| Some(speed(core)) == fastest).count(),
        cache: size.0 as f64,
        unloaded_ns: latency.map_or(DEFAULT_LATENCY_NS, |ns| ns.value as f64),
        peak: peak.value as f64 / 1e9,
        ghz: frequency(machine, llc, ghz, notes),
        hit_ns: hit_ns(machine, llc),
    })
}

/// Returns the node of the cache, else the node of its first CPU, else the only node.
fn node_of(machine: &Machine, llc: &Llc) -> Option<NodeId> {
    let first = llc.cpus.iter().next().and_then(|cpu| machine.cpu(cpu)).and_then(|cpu| cpu.node);
    let only = || match machine.nodes() {
        [only] => Some(only.id),
        _ => None,
    };
    llc.node.or(first).or_else(only)
}

fn hit_ns(machine: &Machine, llc: &Llc) -> Option<f64> {
    Some(machine.perf_attributes().llcs.get(&llc.id)?.latency_ns?.value as f64)
}

/// Returns the frequency of the core's kind in MHz.
fn mhz(machine: &Machine, core: &Core) -> Option<u64> {
    let known = machine.perf_attributes().kinds.get(&core.kind)?.frequency_mhz?;
    Some(known.value).filter(|mhz| 0 < *mhz)
}

/// Returns the frequency of the fastest core of a cache. If it is not known, the frequency of the machine is scaled
/// by the core's capacity, as in the simulator.
fn frequency(machine: &Machine, llc: &Llc, ghz: Option<f64>, notes: &mut Vec<String>) -> f64 {
    let below = || machine.cores().iter().filter(|core| !core.cpus.and(&llc.cpus).is_empty());
    if let Some(mhz) = below().filter_map(|core| mhz(machine, core)).max() {
        return mhz as f64 / 1000.0;
    }
    notes.push(match ghz {
        Some(ghz) => format!(
            "the machine has no frequency: computed {ghz:.2} GHz from the programs' bandwidths"
        ),
        None => format!("the machine has no frequency: assumed {DEFAULT_GHZ} GHz"),
    });
    let capacity = below().map(|core| core.capacity).max().unwrap_or(CAPACITY_MAX);
    if capacity < CAPACITY_MAX {
        notes.push(format!(
            "cores of LLC domain {} have a capacity of {capacity}: assumed {capacity}/{CAPACITY_MAX} of that frequency",
            llc.id.0
        ));
    }
    ghz.unwrap_or(DEFAULT_GHZ) * f64::from(capacity) / f64::from(CAPACITY_MAX)
}

/// Capacity of the fastest cores of a machine.
const CAPACITY_MAX: u32 = 1024;
