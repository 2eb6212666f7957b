//! What memory and caches cost to reach, as far as somebody knows.
//!
//! ```text
//!   CPUs of node 0 ── 138 ns, 20 GB/s (measured) ──► memory of node 1
//! ```
//!
//! Linux tells distances, which only order nodes; a simulator needs times and rates. They come from
//! firmware tables, from a measurement or from a guess, and every figure says from which: a result
//! that stands on guesses must be able to say so. Nothing here is needed to place programs.

use std::collections::BTreeMap;
use std::fmt;

use base::{LlcId, NodeId};

/// Where a figure comes from, most trustworthy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Somebody ran a benchmark on this machine.
    Measured,
    /// The machine's firmware says so (ACPI HMAT); makers round generously.
    Firmware,
    /// A guess or a data sheet of a machine like it.
    Assumed,
}

/// A number with its source. The unit stands in the name of the field that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// How much.
    pub value: u64,
    /// Who says so.
    pub source: Source,
}

/// What it costs the CPUs of one node to reach the memory of another, or of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The node whose CPUs ask.
    pub from: NodeId,
    /// The node whose memory answers.
    pub to: NodeId,
    /// From asking to having one cache line, nothing else going on, in nanoseconds.
    pub latency_ns: Option<Figure>,
    /// The peak of what all CPUs of `from` together can get, in bytes per second: channels × width × rate.
    /// Programs get less of it; how much less is for whoever models them to know.
    pub bandwidth_bytes_per_s: Option<Figure>,
}

/// What it costs a CPU to reach its last-level cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// From asking to having one cache line, in nanoseconds.
    pub latency_ns: Option<Figure>,
    /// What all of its CPUs together can get, in bytes per second.
    pub bandwidth_bytes_per_s: Option<Figure>,
}

/// How fast the cores of one kind are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindFigures {
    /// Cycles in a microsecond while it works.
    pub frequency_mhz: Option<Figure>,
    /// How fast a CPU is while its SMT sibling is busy too, in thousandths of alone.
    pub smt_permille: Option<Figure>,
}

/// All such figures of a machine; usually few or none are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Between nodes, at most one entry for each pair.
    pub accesses: Vec<Access>,
    /// Of last-level caches.
    pub llcs: BTreeMap<LlcId, CacheFigures>,
    /// Of cores, by the name of their kind.
    pub kinds: BTreeMap<String, KindFigures>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Source::Measured => "measured",
            Source::Firmware => "firmware",
            Source::Assumed => "assumed",
        })
    }
}
