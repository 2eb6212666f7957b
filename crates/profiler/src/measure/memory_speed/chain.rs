//! The latency of a load: a chain of pointers through all cache lines of a buffer.
//!
//! The chain is one random cycle (S. Sattolo, *An algorithm to generate a random cyclic permutation*, Information
//! Processing Letters 22, 1986), so that it visits each line once before it repeats. A random order has no stride that a
//! prefetcher detects.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context;
use base::{Bytes, Rng};
use linux::node_memory::NodeBuffer;

use super::{N_REPETITIONS_MIN, median};

/// Words of 8 bytes in a cache line of 64 bytes.
const WORDS_PER_LINE: usize = 8;
/// Loads in one repetition.
const N_LOADS: usize = 100_000;
/// Seed of the cycle: every measurement has the same order.
const SEED: u64 = 1;

/// Allocates a buffer and writes the chain. The first word of each line is the index of the next line.
pub(super) fn build(size: Bytes) -> anyhow::Result<NodeBuffer> {
    let n_bytes = usize::try_from(size.0).context("the buffer is too large")?;
    let mut memory =
        NodeBuffer::map(n_bytes).with_context(|| format!("cannot allocate {size} of memory"))?;
    write_cycle(&mut memory);
    Ok(memory)
}

/// Writes one random cycle through all lines.
fn write_cycle(words: &mut [u64]) {
    let n_lines = words.len() / WORDS_PER_LINE;
    for line in 0..n_lines {
        words[line * WORDS_PER_LINE] = line as u64;
    }
    let mut rng = Rng::new(SEED);
    // Sattolo's algorithm: each element is swapped with an earlier one, never with itself.
    for line in (1..n_lines).rev() {
        let other = rng.below(line as u64) as usize;
        words.swap(line * WORDS_PER_LINE, other * WORDS_PER_LINE);
    }
}

/// Follows the chain from a line. Returns the line at the end.
fn follow(words: &[u64], mut line: usize, n_loads: usize) -> usize {
    for _ in 0..n_loads {
        line = words[line * WORDS_PER_LINE] as usize;
    }
    line
}

/// Returns the median time of a load in nanoseconds, at least 1. Each repetition continues where the last one ended.
pub(super) fn latency_ns(words: &[u64], time: Duration) -> u64 {
    let begin = Instant::now();
    let mut line = follow(words, 0, N_LOADS); // The first loads fill the TLB.
    let mut picoseconds = Vec::new();
    while picoseconds.len() < N_REPETITIONS_MIN || begin.elapsed() < time {
        let start = Instant::now();
        line = black_box(follow(words, line, N_LOADS));
        picoseconds.push(1000 * start.elapsed().as_nanos() as u64 / N_LOADS as u64);
    }
    median(picoseconds).div_ceil(1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_visits_each_line_once_before_it_repeats() {
        for n_lines in [1, 2, 3, 1000] {
            let mut words = vec![0; n_lines * WORDS_PER_LINE];
            write_cycle(&mut words);
            let mut visited = vec![0; n_lines];
            let mut line = 0;
            for _ in 0..n_lines {
                visited[line] += 1;
                line = follow(&words, line, 1);
            }
            assert_eq!((line, visited), (0, vec![1; n_lines]), "{n_lines} lines");
        }
    }
}
