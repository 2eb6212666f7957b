//! Where programs run side by side: a last-level cache, the cores below it and the memory behind it, as
//! a machine file tells them.
//!
//! ```text
//!   cores ── kind's frequency
//!     llc ── size                       needed
//!   memory ── latency of a miss when nobody else asks
//!          └─ bandwidth                 needed: the peak, channels × width × rate
//! ```
//!
//! What is left out is assumed, and told.

use std::collections::BTreeSet;

use base::{LlcId, NodeId};
use topology::{Core, Llc, Machine};

/// Nanoseconds of a miss where a machine file tells none: small machines have 45 to 80, servers up to 130.
/// Guessed.
pub const USUAL_LATENCY_NS: f64 = 70.0;
/// Cycles in a nanosecond where nobody tells. Guessed.
pub const USUAL_GHZ: f64 = 3.0;

/// An LLC domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Which cache.
    pub llc: LlcId,
    /// The node whose memory it uses; sites of one node share its channels.
    pub node: Option<NodeId>,
    /// CPUs that programs may run on.
    pub n_cpus: usize,
    /// Cores that they belong to.
    pub n_cores: usize,
    /// Those of them that are as fast as the fastest.
    pub n_fast: usize,
    /// Bytes of cache.
    pub cache: f64,
    /// Nanoseconds of a miss when nobody else asks.
    pub unloaded_ns: f64,
    /// Bytes per nanosecond at the peak.
    pub peak: f64,
    /// Cycles in a nanosecond.
    pub ghz: f64,
    /// Nanoseconds of a hit, where that is told.
    pub hit_ns: Option<f64>,
}

impl Site {
    /// Whether a program alone takes as long on both.
    pub fn is_like(&self, other: &Site) -> bool {
        let figures =
            |site: &Site| (site.cache, site.unloaded_ns, site.peak, site.ghz, site.hit_ns);
        figures(self) == figures(other)
    }
}

/// What a machine file tells of its LLC domains.
#[derive(Clone, Debug, PartialEq)]
pub struct Sites {
    /// By id; at least one.
    pub all: Vec<Site>,
    /// What was assumed, a sentence each.
    pub notes: Vec<String>,
}

/// What a machine file must tell and does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// No caches.
    #[error(
        "the machine has no last-level cache; write llcs = [{{ id = 0, cpus = \"0-1\", node = 0, size_bytes = 1048576 }}]"
    )]
    NoCache,
    /// A cache without a size.
    #[error("the last-level cache {llc} has no size; write size_bytes")]
    NoSize {
        /// Which.
        llc: u32,
    },
    /// No CPUs.
    #[error("the last-level cache {llc} has no CPU that programs may run on")]
    NoCpu {
        /// Which.
        llc: u32,
    },
    /// A memory without bandwidth.
    #[error(
        "the machine tells no bandwidth of the memory behind the last-level cache {llc}; write accesses = [{{ from_node = {node}, to_node = {node}, bandwidth = {{ bytes_per_s = 12800000000, source = \"assumed\" }} }}]"
    )]
    NoBandwidth {
        /// Behind which cache.
        llc: u32,
        /// Of which node.
        node: u32,
    },
}

/// All LLC domains of a machine. `ghz`: cycles in a nanosecond where the programs' figures tell it and
/// the machine does not.
///
/// # Errors
/// A cache, its size or the bandwidth behind it is missing.
pub fn sites(machine: &Machine, ghz: Option<f64>) -> Result<Sites, SiteError> {
    let mut notes = Vec::new();
    let all = machine.llcs().iter().map(|llc| site(machine, llc, ghz, &mut notes));
    let all: Vec<Site> = all.collect::<Result<_, _>>()?;
    let mut told = BTreeSet::new();
    notes.retain(|note: &String| told.insert(note.clone()));
    if all.is_empty() { Err(SiteError::NoCache) } else { Ok(Sites { all, notes }) }
}

fn site(
    machine: &Machine,
    llc: &Llc,
    ghz: Option<f64>,
    notes: &mut Vec<String>,
) -> Result<Site, SiteError> {
    let id = llc.id.0;
    let size = llc.size.filter(|size| 0 < size.0).ok_or(SiteError::NoSize { llc: id })?;
    let cpus = llc.cpus.and(machine.allowed());
    if cpus.is_empty() {
        return Err(SiteError::NoCpu { llc: id });
    }
    let node = node_of(machine, llc);
    let own =
        |access: &&topology::MemoryAccess| access.from == access.to && Some(access.from) == node;
    let access = machine.perf_attributes().accesses.iter().find(own);
    let number = node.map_or(0, |node| node.0);
    let peak = access.and_then(|access| access.bandwidth_bytes_per_s).filter(|at| 0 < at.value);
    let peak = peak.ok_or(SiteError::NoBandwidth { llc: id, node: number })?;
    let latency = access.and_then(|access| access.latency_ns).filter(|at| 0 < at.value);
    if latency.is_none() {
        notes.push(format!(
            "the machine tells no latency of node {number}: assumed {USUAL_LATENCY_NS} ns of an unloaded miss"
        ));
    }
    let cores = || machine.cores().iter().filter(|core| !core.cpus.and(&cpus).is_empty());
    let speed = |core: &Core| (mhz(machine, core), core.capacity);
    let fastest = cores().map(speed).max();
    Ok(Site {
        llc: llc.id,
        node,
        n_cpus: cpus.len(),
        n_cores: cores().count(),
        n_fast: cores().filter(|core| Some(speed(core)) == fastest).count(),
        cache: size.0 as f64,
        unloaded_ns: latency.map_or(USUAL_LATENCY_NS, |figure| figure.value as f64),
        peak: peak.value as f64 / 1e9,
        ghz: frequency(machine, llc, ghz, notes),
        hit_ns: hit_ns(machine, llc),
    })
}

/// The node of the cache, else of its first CPU, else the only one.
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

/// As told of the core's kind.
fn mhz(machine: &Machine, core: &Core) -> Option<u64> {
    let told = machine.perf_attributes().kinds.get(&core.kind)?.frequency_mhz?;
    Some(told.value).filter(|mhz| 0 < *mhz)
}

/// Of the fastest core below the cache; where no frequency is told, by its capacity, as the simulator does.
fn frequency(machine: &Machine, llc: &Llc, ghz: Option<f64>, notes: &mut Vec<String>) -> f64 {
    let below = || machine.cores().iter().filter(|core| !core.cpus.and(&llc.cpus).is_empty());
    if let Some(mhz) = below().filter_map(|core| mhz(machine, core)).max() {
        return mhz as f64 / 1000.0;
    }
    notes.push(match ghz {
        Some(ghz) => format!(
            "the machine tells no frequency: {ghz:.2} GHz follows from the programs' bandwidths"
        ),
        None => format!("the machine tells no frequency: assumed {USUAL_GHZ} GHz"),
    });
    let most = below().map(|core| core.capacity).max().unwrap_or(CAPACITY_MAX);
    if most < CAPACITY_MAX {
        notes.push(format!(
            "cores of LLC domain {} have a capacity of {most}: they are taken to run at {most} of {CAPACITY_MAX} parts of that frequency",
            llc.id.0
        ));
    }
    ghz.unwrap_or(USUAL_GHZ) * f64::from(most) / f64::from(CAPACITY_MAX)
}

/// Of the fastest cores of a machine.
const CAPACITY_MAX: u32 = 1024;
