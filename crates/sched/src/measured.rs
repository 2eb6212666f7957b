//! Figures that know how far they can be trusted.

use std::fmt;

/// A cumulative counter as it was read. One that did not run is absent, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// It could not be read, or it never ran.
    #[default]
    Absent,
    /// It ran all the time.
    Exact(u64),
    /// It shared a register and ran part of the time; the value is already scaled up.
    Scaled {
        /// Scaled by `time_enabled / time_running`.
        value: u64,
        /// How much of the time it ran, in thousandths.
        ran_permille: u16,
    },
}

impl Measured {
    /// The figure, however it came about.
    pub fn value(self) -> Option<u64> {
        match self {
            Measured::Absent => None,
            Measured::Exact(value) | Measured::Scaled { value, .. } => Some(value),
        }
    }

    /// How much a counter of so many bits has advanced; `None` if either reading is absent. A
    /// counter that wrapped around once is followed over the edge.
    pub fn since(self, earlier: Measured, bits: u8) -> Option<u64> {
        let mask = if bits < 64 { (1u64 << bits) - 1 } else { u64::MAX };
        Some(self.value()?.wrapping_sub(earlier.value()?) & mask)
    }
}

/// What a figure stands on, best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignalTier {
    /// The processor's counters per task.
    Counters,
    /// Memory controllers or resctrl, per node or cache.
    Bandwidth,
    /// What was declared of a program × the CPU time that it used.
    Declared,
    /// Nothing.
    #[default]
    None,
}

impl SignalTier {
    /// All, best first.
    pub const ALL: [SignalTier; 4] =
        [SignalTier::Counters, SignalTier::Bandwidth, SignalTier::Declared, SignalTier::None];
}

impl fmt::Display for SignalTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SignalTier::Counters => "counters",
            SignalTier::Bandwidth => "bandwidth",
            SignalTier::Declared => "declared",
            SignalTier::None => "none",
        })
    }
}
