//! Performance attributes of memory, caches and cores: latencies, bandwidths, frequencies.
//!
//! ```text
//!   CPUs of node 0 ── 138 ns, 20 GB/s (measured) ──► memory of node 1
//! ```
//!
//! SLIT distances only order nodes; the simulator needs times and rates. These values come from the firmware (ACPI
//! HMAT, see `Documentation/admin-guide/mm/numaperf.rst` of Linux), from a benchmark or from an assumption. Every value
//! has its source, so that a report can list the assumed values. Placement does not need these attributes.

use std::collections::BTreeMap;
use std::fmt;

use base::{CoreId, CpuSet, LlcId, NodeId};
use serde::{Deserialize, Serialize};

/// The source of a value, most trustworthy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttributeSource {
    /// A benchmark on this machine.
    Measured,
    /// The firmware of this machine (ACPI HMAT). Vendors round these values.
    Firmware,
    /// A published measurement of this model or of a similar one.
    Published,
    /// An assumption, or the data sheet of a similar machine.
    Assumed,
}

/// A value with its source. The name of the field contains the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcedValue {
    /// The value.
    pub value: u64,
    /// Source of the value.
    pub source: AttributeSource,
}

/// Access from the CPUs of one node to the memory of a node (the same or another).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// The node of the CPUs (the initiator).
    pub from: NodeId,
    /// The node of the memory (the target).
    pub to: NodeId,
    /// Unloaded latency of one cache line in nanoseconds.
    pub latency_ns: Option<SourcedValue>,
    /// Peak bandwidth of all CPUs of `from` together in bytes per second. For local memory: channels × width × transfer
    /// rate, of which programs reach the share `achievable_permille`. For the memory of another node: the capacity of
    /// the interconnect.
    pub bandwidth_bytes_per_s: Option<SourcedValue>,
    /// Local memory only: the largest bandwidth of any program, in permille of the peak. A measured bandwidth is 1000.
    pub achievable_permille: Option<SourcedValue>,
    /// Local memory only: the latency under load.
    pub loaded_latency: Option<LatencyCurve>,
    /// Memory of another node only: the id of the [`LinkAttributes`] that this access shares with other accesses.
    pub link: Option<u32>,
}

impl MemoryAccess {
    /// Returns an access without known values.
    pub fn unknown(from: NodeId, to: NodeId) -> Self {
        MemoryAccess {
            from,
            to,
            latency_ns: None,
            bandwidth_bytes_per_s: None,
            achievable_permille: None,
            loaded_latency: None,
            link: None,
        }
    }
}

/// Latency over utilization, linear between the points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyCurve {
    /// Utilization (bandwidth over the largest bandwidth) and latency (relative to the unloaded latency), both in
    /// permille. The utilizations increase from 0 to 1000; the latencies begin with 1000 and do not decrease.
    pub points: Vec<(u64, u64)>,
    /// Source of the curve.
    pub source: AttributeSource,
}

impl LatencyCurve {
    /// Largest number of points.
    pub const POINTS_MAX: usize = 12;
}

/// An interconnect link that several pairs of nodes share, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAttributes {
    /// Number of the link in the machine file.
    pub id: u32,
    /// Bandwidth in bytes per second.
    pub bandwidth_bytes_per_s: SourcedValue,
}

/// Values with one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedList {
    /// The values.
    pub values: Vec<u64>,
    /// Source of the values.
    pub source: AttributeSource,
}

/// Attributes of a last-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheAttributes {
    /// Latency of a hit in nanoseconds.
    pub latency_ns: Option<SourcedValue>,
    /// Peak bandwidth of all CPUs of the cache together in bytes per second.
    pub bandwidth_bytes_per_s: Option<SourcedValue>,
    /// Bandwidth between the cache and all memory in bytes per second: the link of a die to the memory controllers.
    pub memory_bandwidth_bytes_per_s: Option<SourcedValue>,
}

/// Attributes of the cores of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreKindAttributes {
    /// Frequency under load in MHz. A core may have its own.
    pub frequency_mhz: Option<SourcedValue>,
    /// Throughput of a core with 2, 3, … busy SMT siblings, in permille of its throughput with one. The last value is
    /// that of all larger numbers of siblings.
    pub smt_throughput_permille: Option<SourcedList>,
    /// Largest number of cache misses of a core that wait at the same time (line-fill buffers).
    pub max_outstanding_misses: Option<SourcedValue>,
    /// Whether the core has a hardware prefetcher.
    pub has_prefetcher: Option<bool>,
    /// Core cycles per instruction (without stalls beyond the private caches), in permille of those of a profile.
    pub core_cycles_permille: Option<SourcedValue>,
    /// Size in bytes of the largest cache that only the core uses, such as its second-level cache.
    pub private_cache_bytes: Option<SourcedValue>,
}

/// Cores that share a cache between their own caches and their last-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAttributes {
    /// Number of the cluster in the machine file.
    pub id: u32,
    /// CPUs of the cluster: whole cores of one LLC domain.
    pub cpus: CpuSet,
    /// Size of the shared cache in bytes.
    pub cache_bytes: SourcedValue,
}

/// Replacement of lines in the last-level caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// The least recently used line is evicted.
    #[default]
    Lru,
    /// A random line is evicted.
    Random,
}

/// Effect of busy SMT siblings on a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SmtSharing {
    /// All siblings of a core are slowed down by the factor of `smt_throughput`.
    #[default]
    Equal,
    /// A program is slowed down by the share of time in which the programs on its siblings use the core.
    ByPair,
}

/// Bandwidth of a memory by the number of open streams of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenStreams {
    /// Number of streams up to which the memory has its whole bandwidth.
    pub count: u64,
    /// Share of the bandwidth that remains with many streams, in permille.
    pub permille: u64,
    /// Source of both values.
    pub source: AttributeSource,
}

/// Costs of a context switch between tasks that share a CPU, and of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextSwitch {
    /// CPU time of the switch in nanoseconds.
    pub ns: u64,
    /// Bytes of the private caches that the next task reads again from the last-level cache.
    pub refill_bytes: u64,
    /// Source of both values.
    pub source: AttributeSource,
}

/// Physics that differ from those of the simulator's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhysicsAttributes {
    /// Replacement in the last-level caches.
    pub replacement: Replacement,
    /// Effect of busy SMT siblings.
    pub smt: SmtSharing,
    /// Bandwidth by the number of open streams; `None`: it does not depend on the number.
    pub open_streams: Option<OpenStreams>,
    /// Share of the queueing latency of the memory that prefetches do not hide, in permille; `None`: they hide all of it.
    pub prefetch_loss_permille: Option<SourcedValue>,
    /// Costs of context switches and migrations; `None`: they cost nothing.
    pub context_switch: Option<ContextSwitch>,
}

/// All performance attributes of a machine. On most machines few attributes are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfAttributes {
    /// Latency and bandwidth between nodes, at most one entry for each pair of nodes.
    pub accesses: Vec<MemoryAccess>,
    /// Attributes of the last-level caches.
    pub llcs: BTreeMap<LlcId, CacheAttributes>,
    /// Attributes of the core kinds, by the name of the kind.
    pub kinds: BTreeMap<String, CoreKindAttributes>,
    /// Frequency under load in MHz of cores that differ from their kind (preferred cores).
    pub core_mhz: BTreeMap<CoreId, SourcedValue>,
    /// Links that several accesses share.
    pub links: Vec<LinkAttributes>,
    /// Clusters of cores with a shared cache.
    pub clusters: Vec<ClusterAttributes>,
    /// Physics that differ from the default.
    pub physics: PhysicsAttributes,
}

impl fmt::Display for AttributeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AttributeSource::Measured => "measured",
            AttributeSource::Firmware => "firmware",
            AttributeSource::Published => "published",
            AttributeSource::Assumed => "assumed",
        })
    }
}
