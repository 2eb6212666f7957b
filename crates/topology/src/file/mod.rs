//! Machine files: one versioned type, as TOML for users and as JSON in journals.
//!
//! ```toml
//! format_version = 2
//! name = "two small nodes"
//! nodes = [
//!   { id = 0, cpus = "0-1", memory_bytes = 8589934592, distances = { 0 = 10, 1 = 21 } },
//!   { id = 1, cpus = "2-3", memory_bytes = 8589934592, distances = { 0 = 21, 1 = 10 } },
//! ]
//! llcs = [{ id = 0, cpus = "0-1", node = 0, size_bytes = 8388608, level = 3 }]
//! cores = [{ id = 0, cpus = "0-1" }, { id = 1, cpus = "2-3" }]
//! cpus = [{ id = 0 }, { id = 1 }, { id = 2 }, { id = 3 }, { id = 4, online = false }]
//! ```
//!
//! CPU sets are in the list format of Linux. The node, LLC domain and core of a CPU follow from the lists. An entry of
//! `cpus` may name them too; both must agree. `accesses`, `core_kinds`, and `latency` and `bandwidth` of caches are for
//! the simulator. Each of these values has its source.

mod convert;
#[cfg(test)]
mod tests;
mod toml;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    AttributeSource, CAPACITY_MAX, ContextSwitch, CoreKindsSource, OpenStreams, QueueScope,
    Replacement, SmtSharing, SourcedValue,
};

pub use convert::FileError;
pub use toml::{ParseFileError, parse_toml, read_toml, to_toml};

/// The only supported version. Version 1 had other names for the keys that [`Ignored`] accepts.
pub const FORMAT_VERSION: u32 = 2;

/// The content of a machine file. See the module for an example.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// [`FORMAT_VERSION`]; any other version is rejected.
    pub format_version: u32,
    /// Name of the machine in output.
    #[serde(default)]
    pub name: String,
    /// Nodes on which this process may allocate memory, in list format. Default: all.
    pub nodes_allowed: Option<String>,
    /// Corrections that the reader made to inconsistent sources, one sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// NUMA nodes. Empty if the kernel reports none.
    #[serde(default)]
    pub nodes: Vec<NodeEntry>,
    /// Last-level caches. Empty if the machine does not report its caches.
    #[serde(default)]
    pub llcs: Vec<LlcEntry>,
    /// Physical cores with at least one online CPU.
    #[serde(default)]
    pub cores: Vec<CoreEntry>,
    /// The sources of the core kinds and capacities, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_kinds_source: Option<CoreKindsSource>,
    /// All present CPUs, including offline CPUs.
    pub cpus: Vec<CpuEntry>,
    /// Latency and bandwidth between nodes, where known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<AccessEntry>,
    /// Frequency, SMT throughput and outstanding misses by core kind, where known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_kinds: Vec<KindEntry>,
    /// Interconnect links that several entries of `accesses` share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkEntry>,
    /// Clusters of cores that share a cache between their own caches and the last-level cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterEntry>,
    /// Physics that differ from the simulator's default.
    #[serde(default, skip_serializing_if = "PhysicsEntry::is_default")]
    pub physics: PhysicsEntry,
    /// The kernel that the simulator models, such as `linux-6.18`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Whether this kernel has automatic NUMA balancing enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_balancing: Option<bool>,
    /// The grain of the simulated machine: `fluid` or `quantum`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grain: Option<String>,
    /// Settings of the quantum grain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<QuantumEntry>,
    /// The placement domains. `evenkeel machine --json` prints this key; the reader ignores it, because it is derived
    /// from other keys.
    #[serde(default, skip_serializing)]
    pub placement: Ignored,
    /// The signals and their availability; ignored, like `placement`.
    #[serde(default, skip_serializing)]
    pub signals: Ignored,
    /// The microarchitecture of the PMU events; ignored, like `placement`.
    #[serde(default, skip_serializing)]
    pub uarch: Ignored,
    /// The common name of the microarchitecture; ignored, like `placement`.
    #[serde(default, skip_serializing)]
    pub uarch_name: Ignored,
    /// The hardware events; ignored, like `placement`.
    #[serde(default, skip_serializing)]
    pub events: Ignored,
    /// The cgroups available to jobs; ignored, like `placement`.
    #[serde(default, skip_serializing)]
    pub cgroups: Ignored,
}

/// The version of a file, which is read before the other keys, because another version may have other keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct FormatVersion {
    /// See [`MachineFile`].
    pub format_version: u32,
}

impl FormatVersion {
    /// Checks whether this build can read the version.
    ///
    /// # Errors
    /// [`FileError::Version`] for any version other than [`FORMAT_VERSION`].
    pub fn check(self) -> Result<(), FileError> {
        match self.format_version {
            FORMAT_VERSION => Ok(()),
            other => Err(FileError::Version(other)),
        }
    }
}

/// A value that is accepted and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Ignored)
    }
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    /// Number of the node in the kernel.
    pub id: u32,
    /// Online CPUs of the node in list format; may be empty.
    pub cpus: String,
    /// Memory of the node in bytes; 0 for a node without memory, absent if unknown.
    pub memory_bytes: Option<u64>,
    /// Free memory in bytes when the machine was read.
    pub memory_free_bytes: Option<u64>,
    /// SLIT distance to each node, by node number; 10 is local.
    #[serde(default)]
    pub distances: BTreeMap<String, u32>,
}

/// A last-level cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlcEntry {
    /// Number of the cache, assigned by evenkeel.
    pub id: u32,
    /// The online CPUs that share the cache, in list format.
    pub cpus: String,
    /// The node of all CPUs of the cache; absent if these CPUs are on several nodes or on no node.
    pub node: Option<u32>,
    /// Size of the cache in bytes, if known.
    pub size_bytes: Option<u64>,
    /// The cache level, such as 3.
    #[serde(default = "default_level")]
    pub level: u32,
    /// Latency of a hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Peak bandwidth of all CPUs of the cache together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Bandwidth between the cache and all memory: the link of a die to the memory controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Bandwidth>,
}

/// A physical core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreEntry {
    /// Number of the core, assigned by evenkeel.
    pub id: u32,
    /// Online SMT siblings of the core in list format.
    pub cpus: String,
    /// The core kind; `uniform` if the machine has only one.
    #[serde(default = "default_kind")]
    pub kind: String,
    /// Relative throughput; 1024 for the fastest core of the machine.
    #[serde(default = "default_capacity")]
    pub capacity: u32,
    /// Frequency under load, if it differs from the frequency of the kind (preferred cores).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
}

/// A logical CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuEntry {
    /// Number of the CPU in the kernel.
    pub id: u32,
    /// Whether the CPU is online.
    #[serde(default = "online")]
    pub online: bool,
    /// Whether this process may run on the CPU.
    #[serde(default = "online")]
    pub allowed: bool,
    /// Core of the CPU.
    pub core: Option<u32>,
    /// Last-level cache of the CPU.
    pub llc: Option<u32>,
    /// Node of the CPU.
    pub node: Option<u32>,
}

/// Access from the CPUs of one node to the memory of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessEntry {
    /// The node of the CPUs.
    pub from_node: u32,
    /// The node of the memory.
    pub to_node: u32,
    /// Latency of one cache line without other memory traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Peak bandwidth of all CPUs of `from_node` together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Local memory only: the largest bandwidth of any program, in permille of the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achievable: Option<Share>,
    /// Local memory only: the latency under load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded_latency: Option<CurveEntry>,
    /// Memory of another node only: the shared link, by its `id` in `links`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<u32>,
}

/// Latency over utilization, linear between the points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurveEntry {
    /// Bandwidth over the largest bandwidth, in permille; increasing from 0 to 1000.
    pub utilization_permille: Vec<u64>,
    /// Latency over the unloaded latency at each utilization, in permille; from 1000, not decreasing.
    pub latency_permille: Vec<u64>,
    /// The source of the curve.
    pub source: AttributeSource,
}

/// An interconnect link in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkEntry {
    /// Number of the link, chosen in the file.
    pub id: u32,
    /// Bandwidth of the link.
    pub bandwidth: Bandwidth,
}

/// Cores that share a cache between their own caches and the last-level cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterEntry {
    /// Number of the cluster, chosen in the file.
    pub id: u32,
    /// CPUs of the cluster in list format.
    pub cpus: String,
    /// The shared cache.
    pub cache: Size,
}

/// Shares with one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// In permille.
    pub permille: Vec<u64>,
    /// The source of the values.
    pub source: AttributeSource,
}

/// Attributes of the cores of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindEntry {
    /// The kind, as in [`CoreEntry::kind`].
    #[serde(default = "default_kind")]
    pub kind: String,
    /// Frequency under load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
    /// Throughput of a core with 2, 3, … busy SMT siblings, relative to one. The last value is that of all larger
    /// numbers of siblings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt_throughput: Option<Shares>,
    /// Former key, accepted and converted: speed of a CPU with one busy sibling, half of the first value of
    /// `smt_throughput`.
    #[serde(skip_serializing)]
    pub smt: Option<Share>,
    /// Largest number of cache misses of a core that wait at the same time (line-fill buffers).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_outstanding_misses: Option<Count>,
    /// Whether the core has a hardware prefetcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetcher: Option<bool>,
    /// Core cycles per instruction, in permille of those of a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_cycles: Option<Share>,
    /// The largest cache that only the core uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_cache: Option<Size>,
}

/// Physics that differ from the simulator's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhysicsEntry {
    /// Replacement of lines in the last-level caches: `lru` or `random`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replacement: Replacement,
    /// Effect of busy SMT siblings on a program: `equal` or `by-pair`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub smt: SmtSharing,
    /// Bandwidth of a memory by the number of open streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_streams: Option<OpenStreams>,
    /// Share of the queueing latency of the memory that prefetches do not hide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch_loss: Option<Share>,
    /// Costs of context switches and migrations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switch: Option<ContextSwitch>,
}

impl PhysicsEntry {
    /// Returns whether all physics are the default.
    pub fn is_default(&self) -> bool {
        is_default(self)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Settings of the quantum grain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantumEntry {
    /// The CPUs that have one queue of waiting tasks: `cpu` or `llc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueScope>,
    /// CPU time of a task before the next task of its queue runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Time>,
    /// CPU time that a switch to another task costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_cost: Option<Time>,
    /// Whether a task that wakes up preempts a running task that has received more CPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakeup_preemption: Option<bool>,
}

/// A value with its source. The key of the value names the unit.
macro_rules! sourced_values {
    ($($doc:literal $name:ident { $unit_doc:literal $unit:ident })+) => { $(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            #[doc = $unit_doc]
            pub $unit: u64,
            /// The source of the value.
            pub source: AttributeSource,
        }

        impl From<SourcedValue> for $name {
            fn from(SourcedValue { value, source }: SourcedValue) -> Self {
                $name { $unit: value, source }
            }
        }

        impl From<$name> for SourcedValue {
            fn from($name { $unit: value, source }: $name) -> Self {
                SourcedValue { value, source }
            }
        }
    )+ };
}

sourced_values! {
    "A frequency with its source." Frequency { "In MHz." mhz }
    "A share with its source." Share { "In permille." permille }
    "A count with its source." Count { "Number." count }
    "A size with its source." Size { "In bytes." bytes }
    "A time with its source." Time { "Nanoseconds." ns }
    "A latency with its source." Latency { "Nanoseconds." ns }
    "A bandwidth with its source." Bandwidth { "Bytes per second." bytes_per_s }
}

fn online() -> bool {
    true
}

fn default_level() -> u32 {
    3
}

fn default_kind() -> String {
    "uniform".to_owned()
}

fn default_capacity() -> u32 {
    CAPACITY_MAX
}
