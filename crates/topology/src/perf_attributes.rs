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

use base::{LlcId, NodeId};
use serde::{Deserialize, Serialize};

/// The source of a value, most trustworthy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttributeSource {
    /// A benchmark on this machine.
    Measured,
    /// The firmware of this machine (ACPI HMAT). Vendors round these values.
    Firmware,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// The node of the CPUs (the initiator).
    pub from: NodeId,
    /// The node of the memory (the target).
    pub to: NodeId,
    /// Unloaded latency of one cache line in nanoseconds.
    pub latency_ns: Option<SourcedValue>,
    /// Peak bandwidth of all CPUs of `from` together in bytes per second: channels × width × transfer rate. Programs
    /// reach a lower bandwidth; the simulator has a factor for the difference.
    pub bandwidth_bytes_per_s: Option<SourcedValue>,
}

/// Attributes of a last-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheAttributes {
    /// Latency of a hit in nanoseconds.
    pub latency_ns: Option<SourcedValue>,
    /// Peak bandwidth of all CPUs of the cache together in bytes per second.
    pub bandwidth_bytes_per_s: Option<SourcedValue>,
}

/// Attributes of the cores of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreKindAttributes {
    /// Frequency under load in MHz.
    pub frequency_mhz: Option<SourcedValue>,
    /// Speed of a CPU while its SMT sibling is busy, in permille of its speed alone.
    pub smt_permille: Option<SourcedValue>,
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
}

impl fmt::Display for AttributeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AttributeSource::Measured => "measured",
            AttributeSource::Firmware => "firmware",
            AttributeSource::Assumed => "assumed",
        })
    }
}
