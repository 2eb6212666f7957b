//! Windows: the parts of a trace that are counted.
//!
//! ```text
//!   ├─ skip ─┼─ window ─┼─ gap ─┼─ window ─┼─ gap ─┼─ window ─┤
//! ```
//!
//! The cache model processes every reference, so reuse distances include references before the window. Only references
//! in windows are counted.
//!
//! A phase starts with a window whose misses differ from those of the current phase. The difference of two
//! windows covers all cache sizes:
//!
//! ```text
//!   sum of |a - b| ÷ sum of (a + b) / 2        0: equal   2: disjoint
//! ```
//!
//! Sizes with few misses in both windows are ignored. If there are more phases than a profile may have, the
//! limit is raised, because small differences are likely noise. A phase that recurs is a new phase.

use std::ops::Range;

use crate::cache_sizes::N_SIZES;
use crate::sampler::{N_GROUPS, N_OCTAVES, ReuseTally};

/// Lengths of the windows, in references: instruction fetches, loads, stores and modifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPlan {
    /// References before the first window.
    pub skip: u64,
    /// References per window.
    pub window: u64,
    /// Maximum number of windows.
    pub n_windows: u32,
    /// References between two windows.
    pub gap: u64,
}

impl Default for WindowPlan {
    /// Returns a plan of 20 windows of 5 million references.
    fn default() -> Self {
        WindowPlan { skip: 0, window: 5_000_000, n_windows: 20, gap: 0 }
    }
}

impl WindowPlan {
    /// Returns the gap that spreads the windows evenly over `n_references` references.
    pub fn gap_over(&self, n_references: u64) -> u64 {
        let windows = self.window.saturating_mul(u64::from(self.n_windows));
        let free = n_references.saturating_sub(self.skip).saturating_sub(windows);
        free / u64::from(self.n_windows.max(1))
    }
}

/// Counts of one window. Line counts are estimates if lines were sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Instructions.
    pub n_instructions: u64,
    /// References of all kinds.
    pub n_references: u64,
    /// Loads, stores and modifies.
    pub n_data: u64,
    /// Misses per line group and cache size.
    pub misses: [[f64; N_SIZES]; N_GROUPS],
    /// Write-backs per cache size.
    pub write_backs: [f64; N_SIZES],
    /// Uses by octave of the reuse distance. The last octave contains first uses.
    pub octaves: [u64; N_OCTAVES],
    /// Lines used.
    pub n_lines: f64,
    /// Lines used for the first time in the run.
    pub n_first_uses: f64,
    /// Lines that were used again in this window at a distance of 64 lines or more.
    pub n_reused: f64,
    /// Share of lines sampled at the end of the window.
    pub rate: f64,
    /// Some of the used lines, sorted. The selection of lines is the same in every window.
    pub lines: Vec<u64>,
}

impl Window {
    /// Computes the line counts of a window from the tallies at its start and end.
    pub(crate) fn between(before: &ReuseTally, after: &ReuseTally) -> Self {
        let mut window = Window {
            n_instructions: 0,
            n_references: 0,
            n_data: 0,
            misses: [[0.0; N_SIZES]; N_GROUPS],
            write_backs: [0.0; N_SIZES],
            octaves: [0; N_OCTAVES],
            n_lines: (after.n_in_window - before.n_in_window) as f64,
            n_first_uses: (after.n_first_uses - before.n_first_uses) as f64,
            n_reused: (after.n_reused - before.n_reused) as f64,
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
            window.write_backs[idx] = sum.max(0) as f64; // The sum is negative only if sampling dropped a dirty line.
        }
        for (idx, uses) in window.octaves.iter_mut().enumerate() {
            *uses = after.octaves[idx] - before.octaves[idx];
        }
        window
    }

    /// Returns the misses of a cache size.
    pub fn misses_of(&self, size_idx: usize) -> f64 {
        self.misses.iter().map(|group| group[size_idx]).sum()
    }

    /// Returns the misses of a cache size per 1000 instructions.
    pub fn mpki(&self, size_idx: usize) -> f64 {
        self.misses_of(size_idx) * 1000.0 / (self.n_instructions as f64).max(1.0)
    }
}

/// Minimum relative difference between two phases. Guessed: the difference is 0.67 if the misses double.
const DIFFERENCE_MIN: f64 = 0.5;
/// Maximum number of phases of a profile.
const N_PHASES_MAX: usize = 6;
/// Windows with fewer misses per 1000 instructions, averaged over all sizes, count as equal. Guessed.
const MPKI_MIN: f64 = 0.5;

/// Returns the phases as ranges of windows, in order. There is at least one phase if there is a window.
pub fn split_phases(windows: &[Window]) -> Vec<Range<usize>> {
    let mut limit = DIFFERENCE_MIN;
    loop {
        let phases = split_at(windows, limit);
        if phases.len() <= N_PHASES_MAX {
            return phases;
        }
        limit *= 1.25; // The loop ends, because no difference exceeds 2.
    }
}

fn split_at(windows: &[Window], limit: f64) -> Vec<Range<usize>> {
    let mut phases: Vec<Range<usize>> = Vec::new();
    for idx in 0..windows.len() {
        match phases.last_mut() {
            Some(phase) if difference(&windows[phase.clone()], &windows[idx..=idx]) <= limit => {
                phase.end = idx + 1;
            }
            _ => phases.push(idx..idx + 1),
        }
    }
    phases
}

/// Returns the relative difference from 0 to 2 (see the module documentation).
fn difference(one: &[Window], other: &[Window]) -> f64 {
    let (mut apart, mut together) = (0.0, 0.0);
    for idx in 0..N_SIZES {
        let (a, b) = (mean(one, idx), mean(other, idx));
        apart += (a - b).abs();
        together += (a + b) / 2.0;
    }
    if together / (N_SIZES as f64) < MPKI_MIN { 0.0 } else { apart / together }
}

fn mean(windows: &[Window], size_idx: usize) -> f64 {
    let misses: f64 = windows.iter().map(|window| window.misses_of(size_idx)).sum();
    let n_instructions: u64 = windows.iter().map(|window| window.n_instructions).sum();
    misses * 1000.0 / (n_instructions as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::ReuseTally;

    #[test]
    fn gaps_spread_the_windows_evenly() {
        let plan = WindowPlan { skip: 100, window: 10, n_windows: 4, gap: 0 };
        assert_eq!(plan.gap_over(180), 10);
        assert_eq!(plan.gap_over(140), 0);
        assert_eq!(plan.gap_over(0), 0, "a short run has no gaps");
    }

    fn window(mpki: f64) -> Window {
        let tally = ReuseTally::default();
        let mut window = Window::between(&tally, &tally);
        window.n_instructions = 1000;
        window.misses[0] = [mpki; N_SIZES];
        window
    }

    /// Checks the first window of each phase for windows with these misses.
    fn check(mpki: &[f64], begins: &[usize]) {
        let windows: Vec<Window> = mpki.iter().copied().map(window).collect();
        let phases = split_phases(&windows);
        assert_eq!(phases.iter().map(|phase| phase.start).collect::<Vec<_>>(), begins, "{mpki:?}");
        assert!(phases.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(phases.last().map_or(0, |phase| phase.end), windows.len());
    }

    #[test]
    fn a_phase_starts_where_misses_change() {
        check(&[], &[]);
        check(&[5.0], &[0]);
        check(&[5.0, 5.5, 4.5], &[0]);
        check(&[5.0, 5.0, 20.0, 21.0, 5.0], &[0, 2, 4]);
    }

    #[test]
    fn a_program_with_few_misses_has_one_phase() {
        check(&[0.0, 0.4, 0.01, 0.3], &[0]);
    }

    #[test]
    fn the_number_of_phases_is_bounded() {
        let mpki: Vec<f64> = (0..40).map(|nr| if nr % 2 == 0 { 1.0 } else { 2.5 }).collect();
        let windows: Vec<Window> = mpki.into_iter().map(window).collect();
        assert!(split_phases(&windows).len() <= N_PHASES_MAX);
    }
}
