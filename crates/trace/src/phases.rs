//! Where a program's character changes.
//!
//! Windows follow each other; a phase begins with a window whose misses differ from those of the phase so
//! far. How much two differ is told over all cache sizes together:
//!
//! ```text
//!   sum of |a - b| ÷ sum of (a + b) / 2        0: alike   2: nothing in common
//! ```
//!
//! Sizes in which neither misses worth mentioning say nothing. If more phases come out than a profile
//! should hold, the limit is raised: small differences are noise before they are phases. A phase that
//! comes back is another phase: order is kept.

use std::ops::Range;

use crate::sizes::N_SIZES;
use crate::windows::Window;

/// Two stretches that differ more are two phases. Guessed: a program whose misses double differs by 0.67.
const DIFFERENCE_MIN: f64 = 0.5;
/// What a profile holds at most.
const N_PHASES_MAX: usize = 6;
/// Misses per 1000 instructions, all sizes together, below which nothing is worth telling apart.
const MPKI_MIN: f64 = 0.5;

/// The phases, as ranges of windows in order. Empty only without windows.
pub fn split(windows: &[Window]) -> Vec<Range<usize>> {
    let mut limit = DIFFERENCE_MIN;
    loop {
        let phases = split_at(windows, limit);
        if phases.len() <= N_PHASES_MAX {
            return phases;
        }
        limit *= 1.25; // Ends: nothing differs by more than 2.
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

/// 0 to 2, see above.
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
    use crate::sampler::Tally;

    fn window(mpki: f64) -> Window {
        let tally = Tally::default();
        let mut window = Window::between(&tally, &tally);
        window.n_instructions = 1000;
        window.misses[0] = [mpki; N_SIZES];
        window
    }

    /// Windows with these misses, and the first window of each phase.
    fn check(mpki: &[f64], begins: &[usize]) {
        let windows: Vec<Window> = mpki.iter().copied().map(window).collect();
        let phases = split(&windows);
        assert_eq!(phases.iter().map(|phase| phase.start).collect::<Vec<_>>(), begins, "{mpki:?}");
        assert!(phases.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(phases.last().map_or(0, |phase| phase.end), windows.len());
    }

    #[test]
    fn a_phase_begins_where_misses_change_much() {
        check(&[], &[]);
        check(&[5.0], &[0]);
        check(&[5.0, 5.5, 4.5], &[0]);
        check(&[5.0, 5.0, 20.0, 21.0, 5.0], &[0, 2, 4]);
    }

    #[test]
    fn what_hardly_misses_has_one_phase() {
        check(&[0.0, 0.4, 0.01, 0.3], &[0]);
    }

    #[test]
    fn there_are_never_more_phases_than_a_profile_holds() {
        let wild: Vec<f64> = (0..40).map(|nr| if nr % 2 == 0 { 1.0 } else { 2.5 }).collect();
        let windows: Vec<Window> = wild.into_iter().map(window).collect();
        assert!(split(&windows).len() <= N_PHASES_MAX);
    }
}
