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

    /// Both together; where only one was read, that one. An estimate in it makes the sum one, and it
    /// ran as much of the time as the part that ran least.
    pub fn plus(self, other: Measured) -> Measured {
        let (Some(one), Some(two)) = (self.value(), other.value()) else {
            return if self == Measured::Absent { other } else { self };
        };
        let value = one.saturating_add(two);
        match (self.ran_permille(), other.ran_permille()) {
            (None, None) => Measured::Exact(value),
            (one, two) => {
                let ran = one.unwrap_or(1000).min(two.unwrap_or(1000));
                Measured::Scaled { value, ran_permille: ran }
            }
        }
    }

    /// Zero where there was nothing: of what is known to have begun at zero.
    pub fn or_zero(self) -> Measured {
        if self == Measured::Absent { Measured::Exact(0) } else { self }
    }

    /// How much of the time it ran, of an estimate.
    pub fn ran_permille(self) -> Option<u16> {
        match self {
            Measured::Scaled { ran_permille, .. } => Some(ran_permille),
            Measured::Absent | Measured::Exact(_) => None,
        }
    }

    /// How much a counter of so many bits has advanced; `None` if either reading is absent. A
    /// counter that wrapped around once is followed over the edge. An estimate has no edge: one that
    /// comes out below the reading before has not advanced.
    pub fn since(self, earlier: Measured, bits: u8) -> Option<u64> {
        let (now, before) = (self.value()?, earlier.value()?);
        let is_exact = |reading| matches!(reading, Measured::Exact(_));
        if !is_exact(self) || !is_exact(earlier) {
            return Some(now.saturating_sub(before));
        }
        let mask = if bits < 64 { (1u64 << bits) - 1 } else { u64::MAX };
        Some(now.wrapping_sub(before) & mask)
    }
}

/// What a figure stands on. Which is best depends on what is asked: of a place, what its memory
/// controller counted; of a task, its own counters, since a controller does not tell whose operations
/// it counted. What is declared comes after both, and nothing comes last.
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
    /// All; best first for a task.
    pub const ALL: [SignalTier; 4] =
        [SignalTier::Counters, SignalTier::Bandwidth, SignalTier::Declared, SignalTier::None];

    /// What people call it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_followed_over_its_edge_and_an_estimate_is_not() {
        let scaled = |value| Measured::Scaled { value, ran_permille: 500 };
        assert_eq!(Measured::Exact(4).since(Measured::Exact(250), 8), Some(10));
        assert_eq!(scaled(14).since(Measured::Exact(10), 48), Some(4));
        // Of two estimates the later may come out lower: nothing happened, not 2^48 operations.
        assert_eq!(scaled(9).since(scaled(10), 48), Some(0));
        assert_eq!(scaled(9).since(Measured::Exact(10), 48), Some(0));
        assert_eq!(Measured::Exact(9).since(scaled(10), 48), Some(0));
    }

    #[test]
    fn what_was_not_read_has_no_growth() {
        assert_eq!(Measured::Absent.since(Measured::Exact(1), 64), None);
        assert_eq!(Measured::Exact(1).since(Measured::Absent, 64), None);
    }
}
