//! A machine as a file: one versioned type, written as TOML by people and as JSON on wires.
//!
//! ```toml
//! format_version = 1
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
//! Sets of CPUs are Linux list text. What a CPU belongs to follows from the lists; where a file says
//! it as well, both must agree. `accesses`, and `latency` and `bandwidth` of caches, are for the
//! simulator; each such figure names its source.

mod convert;
mod place;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use convert::FileError;
pub use text::{ParseFileError, parse_toml, read_toml, to_toml};
pub use words::in_words;

/// The version that this build writes, and the only one so far.
pub const FORMAT_VERSION: u32 = 1;

/// A machine as it stands in a file. See the module for an example.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// [`FORMAT_VERSION`]; another number is refused, not guessed at.
    pub format_version: u32,
    /// What the machine is called, for people.
    #[serde(default)]
    pub name: String,
    /// Nodes that this process may take memory from, as list text; all when left out.
    #[serde(default)]
    pub nodes_allowed: Option<String>,
    /// What the source told wrongly and how it was mended, a sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// NUMA nodes; none when the kernel tells of none.
    #[serde(default)]
    pub nodes: Vec<NodeEntry>,
    /// Last-level caches; none when the machine does not tell of its caches.
    #[serde(default)]
    pub llcs: Vec<LlcEntry>,
    /// Physical cores with a CPU online.
    #[serde(default)]
    pub cores: Vec<CoreEntry>,
    /// All CPUs that are present, the offline ones too.
    pub cpus: Vec<CpuEntry>,
    /// What it costs CPUs to reach memory, as far as somebody knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<AccessEntry>,
    /// How fast cores are, by kind, as far as somebody knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_kinds: Vec<KindEntry>,
    /// Which kernel a simulator is to behave like, such as `linux-6.18`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Whether that kernel moves tasks and pages between nodes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_balancing: Option<bool>,
    /// What `evenkeel machine --json` prints besides: it follows from the rest.
    #[serde(default, skip_serializing)]
    pub placement: Besides,
    /// The same: what can be read is asked of the machine itself.
    #[serde(default, skip_serializing)]
    pub signals: Besides,
    /// The same: what counts there.
    #[serde(default, skip_serializing)]
    pub processor_family: Besides,
    /// The same.
    #[serde(default, skip_serializing)]
    pub events: Besides,
    /// The same: which groups jobs can have there.
    #[serde(default, skip_serializing)]
    pub groups: Besides,
}

/// What is looked at before the rest of a file: another version may have other keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// As in [`MachineFile`].
    pub format_version: u32,
}

impl Version {
    /// Whether this build reads files of it.
    ///
    /// # Errors
    /// It does not.
    pub fn check(self) -> Result<(), FileError> {
        match self.format_version {
            FORMAT_VERSION => Ok(()),
            other => Err(FileError::Version(other)),
        }
    }
}

/// Something that is no part of a machine and may stand beside it, whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Besides;

impl<'de> Deserialize<'de> for Besides {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Besides)
    }
}

/// Memory and the CPUs near it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    /// The kernel's number.
    pub id: u32,
    /// Its online CPUs, as list text; empty text for none.
    pub cpus: String,
    /// Its memory; 0 for a node without any, absent when not known.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// How much was free when the machine was read.
    #[serde(default)]
    pub memory_free_bytes: Option<u64>,
    /// Relative cost from here to each node, by its number; 10 is local.
    #[serde(default)]
    pub distances: BTreeMap<String, u32>,
}

/// CPUs that share one last-level cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlcEntry {
    /// Our number.
    pub id: u32,
    /// The online CPUs that share it, as list text.
    pub cpus: String,
    /// The node that holds all of them; absent when they lie on several or on none.
    #[serde(default)]
    pub node: Option<u32>,
    /// Its size, where known.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// 3 for a third-level cache, and so on.
    #[serde(default = "usual_level")]
    pub level: u32,
    /// How long a CPU waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// What it gives to all of its CPUs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// A physical core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreEntry {
    /// Our number.
    pub id: u32,
    /// Its online SMT siblings, as list text.
    pub cpus: String,
    /// What sort of core it is; `uniform` when all are alike.
    #[serde(default = "usual_kind")]
    pub kind: String,
    /// Relative throughput, 1024 for the fastest core of the machine.
    #[serde(default = "usual_capacity")]
    pub capacity: u32,
}

/// What the kernel schedules on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuEntry {
    /// The kernel's number.
    pub id: u32,
    /// Whether the kernel schedules on it.
    #[serde(default = "yes")]
    pub online: bool,
    /// Whether this process may run on it.
    #[serde(default = "yes")]
    pub allowed: bool,
    /// The core that lists it.
    #[serde(default)]
    pub core: Option<u32>,
    /// The last-level cache that lists it.
    #[serde(default)]
    pub llc: Option<u32>,
    /// The node that lists it.
    #[serde(default)]
    pub node: Option<u32>,
}

/// What it costs the CPUs of one node to reach the memory of another, or of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessEntry {
    /// The node whose CPUs ask.
    pub from_node: u32,
    /// The node whose memory answers.
    pub to_node: u32,
    /// How long one access waits when nothing else goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// The peak of what all CPUs of the first node together can get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// How fast the cores of one kind are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindEntry {
    /// The kind, as cores name it.
    #[serde(default = "usual_kind")]
    pub kind: String,
    /// How fast they run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Frequency>,
    /// How fast a CPU is while its SMT sibling is busy too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smt: Option<Share>,
}

/// A frequency with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frequency {
    /// Cycles in a microsecond.
    pub mhz: u64,
    /// Who says so.
    pub source: SourceName,
}

/// A part of something, with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// In thousandths.
    pub permille: u64,
    /// Who says so.
    pub source: SourceName,
}

/// A waiting time with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Nanoseconds.
    pub ns: u64,
    /// Who says so.
    pub source: SourceName,
}

/// A rate with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Bytes per second.
    pub bytes_per_s: u64,
    /// Who says so.
    pub source: SourceName,
}

/// [`crate::Source`] as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceName {
    /// A benchmark on this machine.
    Measured,
    /// The machine's own tables.
    Firmware,
    /// A guess.
    Assumed,
}

fn yes() -> bool {
    true
}

fn usual_level() -> u32 {
    3
}

fn usual_kind() -> String {
    "uniform".to_owned()
}

fn usual_capacity() -> u32 {
    1024
}
