//! A walk through every line of a buffer in an order that prefetchers cannot predict.
//!
//! ```text
//!   state ──► state * A + C + loaded  (mod 2^bits, full period) ──► scrambled ──► line
//! ```
//!
//! The generator visits every number below a power of two before any number repeats, and the scrambling is a bijection.
//! So every line is visited once per round, and is no longer cached at its next visit. Numbers beyond the buffer are
//! skipped. The last loaded value is added to the state. This value is always zero, but the CPU must wait for the load,
//! so a walk is a dependent chain.

/// One walk; several walks through one buffer are independent chains.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    state: u64,
    bits: u32,
    n_lines: u64,
}

/// Multiplier of D. E. Knuth's MMIX generator. A full period requires a multiple of 4 plus 1.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// Increment of the generator; any odd number.
const STEP: u64 = 1_442_695_040_888_963_407;
/// Multiplier of the scrambling; any odd number, so that the multiplication is invertible.
const SCRAMBLE: u64 = 0x9E37_79B9_7F4A_7C15;

impl Walk {
    /// Creates walk `chain_idx` of `n_chains` through `n_lines` lines. The start positions are evenly spaced.
    pub(crate) fn new(n_lines: usize, chain_idx: u32, n_chains: u32) -> Self {
        let n_lines = n_lines.max(1) as u64;
        let bits = n_lines.next_power_of_two().trailing_zeros().max(2);
        let state = (u128::from(chain_idx) << bits) / u128::from(n_chains.max(1));
        Walk { state: state as u64, bits, n_lines }
    }

    /// Returns the next line. `loaded` is the value of the last line.
    #[inline]
    pub(crate) fn next(&mut self, loaded: u64) -> usize {
        let mask = (1 << self.bits) - 1;
        self.state = self.state.wrapping_add(loaded);
        loop {
            self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(STEP) & mask;
            let mut line = self.state;
            line ^= line >> (self.bits / 2);
            line = line.wrapping_mul(SCRAMBLE) & mask;
            line ^= line >> (self.bits / 2);
            if line < self.n_lines {
                return line as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_visited_once_per_round() {
        for n_lines in [1, 2, 3, 64, 100, 1000, 4096, 5000] {
            let mut walk = Walk::new(n_lines, 0, 1);
            for round in 0..2 {
                let mut visited = vec![false; n_lines];
                for _ in 0..n_lines {
                    let line = walk.next(0);
                    assert!(!visited[line], "line {line} of {n_lines} twice in round {round}");
                    visited[line] = true;
                }
            }
        }
    }

    #[test]
    fn consecutive_lines_are_neither_adjacent_nor_equidistant() {
        let mut walk = Walk::new(1 << 16, 0, 1);
        let lines: Vec<usize> = (0..10_000).map(|_| walk.next(0)).collect();
        // A page has 64 lines. Prefetchers work within a page or with a constant stride.
        let near = lines.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 64).count();
        let steady =
            lines.windows(3).filter(|w| w[1].wrapping_sub(w[0]) == w[2].wrapping_sub(w[1]));
        assert!(near < 60, "{near} of 10000 steps stay near; 20 are expected by chance");
        assert!(steady.count() < 5);
    }

    #[test]
    fn chains_start_at_different_lines() {
        let firsts: std::collections::BTreeSet<usize> =
            (0..8).map(|idx| Walk::new(1 << 12, idx, 8).next(0)).collect();
        assert_eq!(firsts.len(), 8);
    }
}
