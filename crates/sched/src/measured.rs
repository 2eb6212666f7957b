//! A measured value, and the data source (signal tier) of a value.

use std::fmt;

/// Growth of a counter. A counter that did not run is absent, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// The counter could not be read, or never ran.
    #[default]
    Absent,
    /// The counter was running whenever it was enabled.
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

named_enum! {
    /// The data source of a value.
    ///
    /// Sources of a task's value are tried in this order, since a memory controller does not report which
    /// task caused an access. For a node, `Bandwidth` comes before `Counters`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    SignalTier {
        /// Hardware counters per task.
        Counters "counters",
        /// Memory controllers or resctrl, per node or LLC domain.
        Bandwidth "bandwidth",
        /// Declared rates of a program times its CPU time.
        Declared "declared",
        /// No source.
        #[default]
        None "none",
    }
}

impl fmt::Display for SignalTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
