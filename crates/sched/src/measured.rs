//! Growth of counters, and the signal tiers that values come from.

use std::fmt;

/// Growth of a counter. A counter that did not run is absent, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// The counter could not be read, or never ran.
    #[default]
    Absent,
    /// The counter ran all the time.
    Exact(u64),
    /// The counter was multiplexed.
    Scaled {
        /// The estimate: counted value × time enabled ÷ time running.
        value: u64,
        /// Share of time the counter was running, in permille; 1 to 999.
        running_permille: u16,
    },
}

impl Measured {
    /// The value, exact or estimated.
    pub fn value(self) -> Option<u64> {
        match self {
            Measured::Absent => None,
            Measured::Exact(value) | Measured::Scaled { value, .. } => Some(value),
        }
    }

    /// Share of time the counter was running, if it was multiplexed.
    pub fn running_permille(self) -> Option<u16> {
        match self {
            Measured::Scaled { running_permille, .. } => Some(running_permille),
            Measured::Absent | Measured::Exact(_) => None,
        }
    }
}

/// The data source of a value. For a task, its own counters come first, since a memory controller does
/// not report which task caused an access. For a node, the memory controller comes first. Declared
/// values come after both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignalTier {
    /// Hardware counters per task.
    Counters,
    /// Memory controllers or resctrl, per node or LLC domain.
    Bandwidth,
    /// Declared rates of a program × its CPU time.
    Declared,
    /// No source.
    #[default]
    None,
}

impl SignalTier {
    /// All tiers, best first for a task.
    pub const ALL: [SignalTier; 4] =
        [SignalTier::Counters, SignalTier::Bandwidth, SignalTier::Declared, SignalTier::None];

    /// The name in options, journals and tables.
    pub fn name(self) -> &'static str {
        match self {
            SignalTier::Counters => "counters",
            SignalTier::Bandwidth => "bandwidth",
            SignalTier::Declared => "declared",
            SignalTier::None => "none",
        }
    }
}

impl fmt::Display for SignalTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
