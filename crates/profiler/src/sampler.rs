//! Reuse distances of a random sample of the lines, in one pass and bounded memory.
//!
//! A line is sampled if a hash of its number is below a threshold. The sample therefore always contains the same lines,
//! a share R of all lines. The reuse distance among sampled lines, divided by R, estimates the distance among all
//! lines, and each use has weight 1/R. This is SHARDS (C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, *Efficient
//! MRC Construction with SHARDS*, USENIX FAST 2015), in both variants:
//!
//! * **fixed size**: R starts at 1 and is halved whenever the number of lines exceeds the limit;
//! * **fixed rate**: R is constant.
//!
//! Two details differ from the paper. R is halved instead of lowered by one line at a time, so every weight is an
//! integer. Earlier counts are not rescaled when R changes, because each use was counted with the value of 1/R at the
//! time of the use. The correction of the number of references in the paper (SHARDS-adj) assigns the difference to the
//! smallest distance. Dividing misses by the true number of instructions has the same effect.
//!
//! This pass also counts write-backs. Every cache that evicts a modified line before its next use writes the line
//! back. A line is dirty in the cache sizes with more than `dirty_above` lines
//! (J. G. Thompson, A. J. Smith, *Efficient (stack) algorithms for analysis of write-back and sector memories*,
//! ACM TOCS 7(1), 1989).
//!
//! ```text
//!   cache size  0 ─────────── m ────────────── D ──────────►  lines
//!   a line dirty above m        used again at distance D:
//!                              ╰ written back ╯╰─ still dirty
//! ```

use crate::cache_sizes::{N_SIZES, n_sizes_up_to};
use crate::stack::{LruStack, hash};

/// Method of line sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// At most this number of lines is sampled. All lines are sampled until the number is reached.
    FixedSize(usize),
    /// One of 2^n lines is sampled. With n = 0 the counts are exact.
    FixedRate(u32),
}

impl Default for Sampling {
    /// Samples 65,536 lines: the counts are exact up to a footprint of 4 MiB.
    fn default() -> Self {
        Sampling::FixedSize(1 << 16)
    }
}

/// Number of line groups, from which the error of line sampling is estimated.
pub(crate) const N_GROUPS: usize = 8;

/// Number of reuse-distance octaves.
pub(crate) const N_OCTAVES: usize = 40;

/// Minimum distance of a reuse. A use at a smaller distance is part of the previous use, for example in a loop over
/// neighbouring elements.
const REUSE_DISTANCE_MIN_LINES: u64 = 64;

/// Cumulative counts. The difference of two tallies describes the interval between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReuseTally {
    /// Uses per group, by the number of cache sizes in which they missed. A use misses in all sizes up to its reuse
    /// distance and hits in all larger sizes.
    pub misses: [[u64; N_SIZES + 1]; N_GROUPS],
    /// Write-backs of each size, as differences from one size to the next.
    pub write_backs: [i64; N_SIZES + 1],
    /// Uses by the octave of their distance: 0, 1, 2 to 3, 4 to 7 …
    pub octaves: [u64; N_OCTAVES],
    /// First uses of a line.
    pub n_first_uses: u64,
    /// Lines used in a window. Each line is counted once per window.
    pub n_in_window: u64,
    /// Lines that were used again in a window at a distance of at least `REUSE_DISTANCE_MIN_LINES`.
    pub n_reused: u64,
}

impl Default for ReuseTally {
    fn default() -> Self {
        ReuseTally {
            misses: [[0; N_SIZES + 1]; N_GROUPS],
            write_backs: [0; N_SIZES + 1],
            octaves: [0; N_OCTAVES],
            n_first_uses: 0,
            n_in_window: 0,
            n_reused: 0,
        }
    }
}

/// Sampled LRU stack with its counts.
#[derive(Clone, Debug)]
pub struct LineSampler {
    stack: LruStack,
    /// Number of times R was halved.
    halvings: u32,
    n_lines_max: usize,
    window: u32,
    pub(crate) tally: ReuseTally,
}

impl LineSampler {
    /// Creates a sampler without lines.
    pub fn new(sampling: Sampling) -> Self {
        let (halvings, n_lines_max) = match sampling {
            Sampling::FixedSize(n_lines) => (0, n_lines.max(1)),
            Sampling::FixedRate(halvings) => (halvings.min(40), usize::MAX),
        };
        LineSampler {
            stack: LruStack::default(),
            halvings,
            n_lines_max,
            window: 1,
            tally: ReuseTally::default(),
        }
    }

    /// Returns the current share of sampled lines.
    pub fn rate(&self) -> f64 {
        1.0 / self.weight() as f64
    }

    /// Returns the number of lines in the stack.
    pub fn n_lines(&self) -> usize {
        self.stack.len()
    }

    /// Records a use of a line.
    pub fn touch(&mut self, line: u64, writes: bool) {
        if !self.is_sampled(line) {
            return;
        }
        let (halvings, weight) = (self.halvings, self.weight());
        let (entry, distance) = self.stack.touch_entry(line);
        let distance = distance.map(|among| among << halvings);
        let n_missed = distance.map_or(N_SIZES, n_sizes_up_to);
        let tally = &mut self.tally;
        tally.misses[group(line)][n_missed] += weight;
        tally.octaves[octave(distance)] += weight;
        tally.n_first_uses += if distance.is_none() { weight } else { 0 };
        if entry.window != self.window {
            (entry.window, entry.is_reused) = (self.window, false);
            tally.n_in_window += weight;
        } else if !entry.is_reused
            && distance.is_some_and(|lines| REUSE_DISTANCE_MIN_LINES <= lines)
        {
            entry.is_reused = true;
            tally.n_reused += weight;
        }
        let written = distance.map_or(0..0, |lines| written(entry.dirty_above, lines));
        if !written.is_empty() {
            tally.write_backs[written.start] += weight.cast_signed();
            tally.write_backs[written.end] -= weight.cast_signed();
        }
        entry.dirty_above = match distance {
            _ if writes => 0,
            Some(lines) => entry.dirty_above.max(lines),
            None => u64::MAX,
        };
        if self.n_lines_max < self.stack.len() {
            self.halve();
        }
    }

    /// Starts the next window.
    pub(crate) fn next_window(&mut self) {
        self.window += 1;
    }

    /// Returns the counts so far, including write-backs of evicted lines that have not been used again.
    pub(crate) fn tally_now(&self) -> ReuseTally {
        let mut tally = self.tally.clone();
        for (depth, entry) in self.stack.newest_first().enumerate() {
            let written = written(entry.dirty_above, (depth as u64) << self.halvings);
            if !written.is_empty() {
                tally.write_backs[written.start] += self.weight().cast_signed();
                tally.write_backs[written.end] -= self.weight().cast_signed();
            }
        }
        tally
    }

    /// Returns up to `n_max` lines used in this window, sorted by number. Lines with the smallest hashes are selected,
    /// so that every window shows the same lines.
    pub(crate) fn lines_in_window(&self, n_max: usize) -> Vec<u64> {
        let used = self.stack.table.values().filter(|entry| entry.window == self.window);
        let mut lines: Vec<(u64, u64)> = used.map(|entry| (hash(entry.line), entry.line)).collect();
        lines.sort_unstable();
        lines.truncate(n_max);
        let mut lines: Vec<u64> = lines.into_iter().map(|(_, line)| line).collect();
        lines.sort_unstable();
        lines
    }

    fn weight(&self) -> u64 {
        1 << self.halvings
    }

    fn is_sampled(&self, line: u64) -> bool {
        self.halvings == 0 || hash(line) >> (64 - self.halvings) == 0
    }

    /// Halves the sampled share until at most `n_lines_max` lines are sampled.
    fn halve(&mut self) {
        while self.n_lines_max < self.stack.len() && self.halvings < 40 {
            self.halvings += 1;
            let lines: Vec<u64> = self.stack.table.keys().copied().collect();
            let dropped: Vec<u64> =
                lines.into_iter().filter(|line| !self.is_sampled(*line)).collect();
            dropped.into_iter().for_each(|line| self.stack.remove(line));
        }
    }
}

/// Returns the sizes that wrote a line back: the line was dirty in sizes above `dirty_above` lines, and sizes up to
/// `distance` lines evicted the line.
fn written(dirty_above: u64, distance: u64) -> std::ops::Range<usize> {
    n_sizes_up_to(dirty_above)..n_sizes_up_to(distance)
}

/// Returns the group of a line. The group depends on low hash bits, because the high bits are equal for all sampled
/// lines.
fn group(line: u64) -> usize {
    (hash(line) >> 8) as usize % N_GROUPS
}

/// Returns the octave of a distance: 0 for 0, 1 for 1, 2 for 2 and 3, and so on. The last octave contains first uses.
pub(crate) fn octave(distance: Option<u64>) -> usize {
    let octave = |lines: u64| lines.checked_ilog2().map_or(0, |log| log as usize + 1);
    distance.map_or(N_OCTAVES - 1, |lines| octave(lines).min(N_OCTAVES - 2))
}

#[cfg(test)]
mod tests {
    use base::Rng;
    use proptest::prelude::*;

    use super::*;
    use crate::cache_sizes::size_lines;

    /// Returns the misses per size.
    fn misses(tally: &ReuseTally) -> Vec<u64> {
        let of_size =
            |idx: usize| tally.misses.iter().map(move |group| group[idx + 1..].iter().sum::<u64>());
        (0..N_SIZES).map(|idx| of_size(idx).sum()).collect()
    }

    fn write_backs(tally: &ReuseTally) -> Vec<i64> {
        let mut sum = 0;
        let sums = tally.write_backs.iter().map(|change| {
            sum += change;
            sum
        });
        sums.take(N_SIZES).collect()
    }

    /// Simulates one LRU cache of `n_lines` lines as a reference model. Returns misses and write-backs.
    fn cache(n_lines: u64, uses: &[(u64, bool)]) -> (u64, i64) {
        let (mut lines, mut misses, mut written): (Vec<(u64, bool)>, u64, i64) = Default::default();
        for &(line, writes) in uses {
            let place = lines.iter().position(|(other, _)| *other == line);
            let dirty = place.map(|place| lines.remove(place).1).unwrap_or_else(|| {
                misses += 1;
                false
            });
            lines.insert(0, (line, dirty | writes));
            if n_lines < lines.len() as u64 {
                written += i64::from(lines.pop().is_some_and(|(_, dirty)| dirty));
            }
        }
        (misses, written)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn without_sampling_the_counts_equal_those_of_an_lru_cache_of_each_size(seed in any::<u64>()) {
            let mut chance = Rng::new(seed);
            let near_or_far = |chance: &mut Rng| if chance.below(3) == 0 { 1500 } else { 300 };
            let uses: Vec<(u64, bool)> = (0..8000)
                .map(|_| {
                    let range = near_or_far(&mut chance);
                    (chance.below(range), chance.below(4) == 0)
                })
                .collect();
            let mut sampler = LineSampler::new(Sampling::FixedRate(0));
            uses.iter().for_each(|&(line, writes)| sampler.touch(line, writes));
            let tally = sampler.tally_now();
            for idx in 0..8 {
                let (missed, written) = cache(size_lines(idx), &uses);
                prop_assert_eq!(misses(&tally)[idx], missed, "misses of {} lines", size_lines(idx));
                prop_assert_eq!(write_backs(&tally)[idx], written, "of {} lines", size_lines(idx));
            }
        }
    }

    /// Returns uses of lines with short and long reuse distances.
    fn uses(n: u64, n_lines: u64, seed: u64) -> impl Iterator<Item = u64> {
        let mut chance = Rng::new(seed);
        (0..n).map(move |_| {
            let range = n_lines >> (2 * chance.below(4));
            chance.below(range.max(1))
        })
    }

    #[test]
    fn a_sample_estimates_the_misses_within_6_percent() {
        for sampling in [Sampling::FixedRate(4), Sampling::FixedSize(8192)] {
            let (mut all, mut some) =
                (LineSampler::new(Sampling::FixedRate(0)), LineSampler::new(sampling));
            for line in uses(1_000_000, 1 << 17, 7) {
                all.touch(line, false);
                some.touch(line, false);
            }
            assert!(some.n_lines() <= 1 << 14, "{} lines are kept", some.n_lines());
            let (all, some) = (misses(&all.tally_now()), misses(&some.tally_now()));
            for idx in 4..16 {
                let off = some[idx] as f64 / all[idx] as f64 - 1.0;
                assert!(off.abs() < 0.06, "{sampling:?}, size {idx}: {off:.3}");
            }
        }
    }

    #[test]
    fn the_number_of_sampled_lines_is_bounded() {
        let mut sampler = LineSampler::new(Sampling::FixedSize(1000));
        for line in 0..1_000_000 {
            sampler.touch(line, true);
            assert!(sampler.n_lines() <= 1000);
        }
        assert!(sampler.rate() <= 1.0 / 1024.0);
        let n_first_uses = sampler.tally.n_first_uses as f64;
        assert!(
            (n_first_uses / 1e6 - 1.0).abs() < 0.15,
            "{n_first_uses} first uses instead of one million"
        );
    }

    #[test]
    fn distances_fall_into_octaves() {
        let found = [0, 1, 2, 3, 4, 7, 8].map(|lines| octave(Some(lines)));
        assert_eq!(found, [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!(octave(None), N_OCTAVES - 1);
        assert_eq!(octave(Some(u64::MAX)), N_OCTAVES - 2);
    }
}
