//! Which part of a trace is counted, and what was counted in it.
//!
//! ```text
//!   ├─ skip ─┼─ window ─┼─ gap ─┼─ window ─┼─ gap ─┼─ window ─┤
//!   every reference passes the model, so that distances reach back to the program's begin; only those
//!   in windows are counted
//! ```

use crate::sampler::{N_GROUPS, N_OCTAVES, Tally};
use crate::sizes::N_SIZES;

/// Lengths in references: fetches of instructions, loads, stores and modifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// References before the first window.
    pub skip: u64,
    /// References of a window.
    pub window: u64,
    /// Windows at most.
    pub n_windows: u32,
    /// References between two windows.
    pub gap: u64,
}

impl Default for Plan {
    /// 20 windows of 5 million references.
    fn default() -> Self {
        Plan { skip: 0, window: 5_000_000, n_windows: 20, gap: 0 }
    }
}

impl Plan {
    /// The gap that spreads the windows evenly over so many references.
    pub fn gap_over(&self, n_references: u64) -> u64 {
        let windows = self.window.saturating_mul(u64::from(self.n_windows));
        let free = n_references.saturating_sub(self.skip).saturating_sub(windows);
        free / u64::from(self.n_windows.max(1))
    }
}

/// What was counted in one window. Counts of lines are estimates if lines were sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Instructions.
    pub n_instructions: u64,
    /// References of all kinds.
    pub n_references: u64,
    /// Loads, stores and modifies.
    pub n_data: u64,
    /// Misses of each cache size, by groups of lines.
    pub misses: [[f64; N_SIZES]; N_GROUPS],
    /// Write-backs of each cache size.
    pub write_backs: [f64; N_SIZES],
    /// Uses of lines by the octave of their distance; the last are first uses.
    pub octaves: [u64; N_OCTAVES],
    /// Lines that were used.
    pub n_lines: f64,
    /// Lines of them that no one had used before.
    pub n_new: f64,
    /// Lines of them that were used again after 64 or more others.
    pub n_again: f64,
    /// The share of lines that was looked at when it ended.
    pub rate: f64,
    /// Some of its lines, rising; the same choice in every window.
    pub lines: Vec<u64>,
}

impl Window {
    /// The difference of two tallies.
    pub(crate) fn between(before: &Tally, after: &Tally) -> Self {
        let mut window = Window {
            n_instructions: 0,
            n_references: 0,
            n_data: 0,
            misses: [[0.0; N_SIZES]; N_GROUPS],
            write_backs: [0.0; N_SIZES],
            octaves: [0; N_OCTAVES],
            n_lines: (after.n_in_window - before.n_in_window) as f64,
            n_new: (after.n_new - before.n_new) as f64,
            n_again: (after.n_again - before.n_again) as f64,
            rate: 1.0,
            lines: Vec::new(),
        };
        for (group, misses) in window.misses.iter_mut().enumerate() {
            let mut sum = 0;
            for idx in (0..N_SIZES).rev() {
                sum += after.misses[group][idx + 1] - before.misses[group][idx + 1];
                misses[idx] = sum as f64;
            }
        }
        let mut sum = 0;
        for idx in 0..N_SIZES {
            sum += after.write_backs[idx] - before.write_backs[idx];
            window.write_backs[idx] = sum.max(0) as f64; // Below 0 only by what sampling forgets.
        }
        for (idx, uses) in window.octaves.iter_mut().enumerate() {
            *uses = after.octaves[idx] - before.octaves[idx];
        }
        window
    }

    /// Misses of a cache size.
    pub fn misses_of(&self, size_idx: usize) -> f64 {
        self.misses.iter().map(|group| group[size_idx]).sum()
    }

    /// Misses of a cache size per 1000 instructions.
    pub fn mpki(&self, size_idx: usize) -> f64 {
        self.misses_of(size_idx) * 1000.0 / (self.n_instructions as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_spread_over_what_can_be_reached() {
        let plan = Plan { skip: 100, window: 10, n_windows: 4, gap: 0 };
        assert_eq!(plan.gap_over(180), 10);
        assert_eq!(plan.gap_over(140), 0);
        assert_eq!(plan.gap_over(0), 0, "too short a run has windows without gaps");
    }
}
