//! Reuse distances of a random part of the lines, in one pass and bounded memory.
//!
//! A line is looked at if a hash of its number is below a threshold: the same lines always, about a
//! share R of all. Their reuse distance among themselves, divided by R, is the distance among all; each
//! use stands for 1/R uses. This is SHARDS (Waldspurger, Park, Garthwaite, Ahmad, *Efficient MRC
//! Construction with SHARDS*, USENIX FAST 2015), in both of its forms:
//!
//! * **fixed size**: R begins at 1, and is lowered whenever more lines are kept than there is room for;
//! * **fixed rate**: R stays.
//!
//! Two things differ from the paper. R is halved, instead of lowered by one line at a time, so that every
//! weight is a whole number; and what was counted before keeps its weight, which was right then, instead
//! of being rescaled. The paper's correction of the number of references (SHARDS-adj) puts the difference
//! into the smallest distance: here that is what comes of dividing misses by the true number of
//! instructions instead of a sampled one.
//!
//! Write-backs come from the same pass. A changed line is written to memory by every cache that evicts
//! it before it is used again, and a line keeps note of the caches that have it changed: those that hold
//! more than so many lines (Thompson and Smith, *Efficient (stack) algorithms for analysis of write-back
//! and sector memories*, ACM TOCS 7(1), 1989).
//!
//! ```text
//!   caches of   0 ─────────── m ────────────── D ──────────►  lines
//!   a line changed above m      used again at distance D:
//!                              ╰── wrote it ──╯╰─ have it changed still
//! ```

use crate::sizes::{N_SIZES, n_sizes_up_to};
use crate::stack::LruStack;
use crate::table::hash;

/// How lines are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// At most so many lines are kept; all as long as they fit.
    FixedSize(usize),
    /// One of 2 to this many lines is kept. 0 is exact.
    FixedRate(u32),
}

impl Default for Sampling {
    /// Exact up to 4 MiB in use; some megabytes of memory.
    fn default() -> Self {
        Sampling::FixedSize(1 << 16)
    }
}

/// Groups of lines that are told apart, to see how much hangs on the choice of lines.
pub(crate) const N_GROUPS: usize = 8;

/// Octaves of reuse distance that are told apart.
pub(crate) const N_OCTAVES: usize = 40;

/// A use after fewer other lines than this is the same use still: a loop over neighbours.
const AGAIN_LINES: u64 = 64;

/// What was counted from the begin up to now; differences of two are what happened between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// For each group: how many uses missed in all sizes below the index and in none from it on.
    pub misses: [[u64; N_SIZES + 1]; N_GROUPS],
    /// Write-backs of each size, as differences from one size to the next.
    pub write_backs: [i64; N_SIZES + 1],
    /// Uses by the octave of their distance: 0, 1, 2 to 3, 4 to 7 …
    pub octaves: [u64; N_OCTAVES],
    /// First uses of a line.
    pub n_new: u64,
    /// Lines that were used in a window, each once a window.
    pub n_in_window: u64,
    /// Lines that were used again in a window after many others.
    pub n_again: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            misses: [[0; N_SIZES + 1]; N_GROUPS],
            write_backs: [0; N_SIZES + 1],
            octaves: [0; N_OCTAVES],
            n_new: 0,
            n_in_window: 0,
            n_again: 0,
        }
    }
}

/// The sampled stack with its counts.
#[derive(Clone, Debug)]
pub struct Sampler {
    stack: LruStack,
    /// How often R was halved.
    halvings: u32,
    n_lines_max: usize,
    window: u32,
    pub(crate) tally: Tally,
}

impl Sampler {
    /// Nothing was seen yet.
    pub fn new(sampling: Sampling) -> Self {
        let (halvings, n_lines_max) = match sampling {
            Sampling::FixedSize(n_lines) => (0, n_lines.max(1)),
            Sampling::FixedRate(halvings) => (halvings.min(40), usize::MAX),
        };
        Sampler {
            stack: LruStack::default(),
            halvings,
            n_lines_max,
            window: 1,
            tally: Tally::default(),
        }
    }

    /// The share of lines that is looked at now.
    pub fn rate(&self) -> f64 {
        1.0 / self.weight() as f64
    }

    /// Lines that are kept now.
    pub fn n_lines(&self) -> usize {
        self.stack.len()
    }

    /// Uses a line.
    pub fn touch(&mut self, line: u64, writes: bool) {
        if !self.keeps(line) {
            return;
        }
        let (halvings, weight) = (self.halvings, self.weight());
        let (entry, distance) = self.stack.touch_entry(line);
        let distance = distance.map(|among| among << halvings);
        let n_missed = distance.map_or(N_SIZES, n_sizes_up_to);
        let tally = &mut self.tally;
        tally.misses[group(line)][n_missed] += weight;
        tally.octaves[octave(distance)] += weight;
        tally.n_new += if distance.is_none() { weight } else { 0 };
        if entry.window != self.window {
            (entry.window, entry.again) = (self.window, false);
            tally.n_in_window += weight;
        } else if !entry.again && distance.is_some_and(|lines| AGAIN_LINES <= lines) {
            entry.again = true;
            tally.n_again += weight;
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

    /// Begins the next window.
    pub(crate) fn next_window(&mut self) {
        self.window += 1;
    }

    /// What was counted up to now, with the write-backs of lines that were evicted and not used since.
    pub(crate) fn tally_now(&self) -> Tally {
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

    /// Some of the lines that were used in this window: those with the smallest hash, so that they
    /// are the same ones in every window. Rising.
    pub(crate) fn lines_in_window(&self, n_max: usize) -> Vec<u64> {
        let used = self.stack.table.iter().filter(|entry| entry.window == self.window);
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

    fn keeps(&self, line: u64) -> bool {
        self.halvings == 0 || hash(line) >> (64 - self.halvings) == 0
    }

    /// Looks at half as many lines from now on.
    fn halve(&mut self) {
        while self.n_lines_max < self.stack.len() && self.halvings < 40 {
            self.halvings += 1;
            let lines: Vec<u64> = self.stack.table.iter().map(|entry| entry.line).collect();
            let gone: Vec<u64> = lines.into_iter().filter(|line| !self.keeps(*line)).collect();
            gone.into_iter().for_each(|line| self.forget(line));
        }
    }

    /// Forgets a line that is looked at no more. What it would have written back is lost with it, and is
    /// found again in the weight of those that stay.
    fn forget(&mut self, line: u64) {
        self.stack.remove(line);
    }
}

/// The sizes that wrote a line to memory: it was changed in those above `dirty_above` lines, and evicted
/// by those up to `distance`.
fn written(dirty_above: u64, distance: u64) -> std::ops::Range<usize> {
    n_sizes_up_to(dirty_above)..n_sizes_up_to(distance)
}

/// Low bits of the hash choose the group: the high ones are alike for all lines that are kept.
fn group(line: u64) -> usize {
    (hash(line) >> 8) as usize % N_GROUPS
}

/// 0 for distance 0, 1 for 1, 2 for 2 and 3, and so on; the last one for a first use.
pub(crate) fn octave(distance: Option<u64>) -> usize {
    let octave = |lines: u64| lines.checked_ilog2().map_or(0, |log| log as usize + 1);
    distance.map_or(N_OCTAVES - 1, |lines| octave(lines).min(N_OCTAVES - 2))
}

#[cfg(test)]
mod tests {
    use base::Rng;
    use proptest::prelude::*;

    use super::*;
    use crate::sizes::size_lines;

    /// Misses of each size.
    fn misses(tally: &Tally) -> Vec<u64> {
        let of_size =
            |idx: usize| tally.misses.iter().map(move |group| group[idx + 1..].iter().sum::<u64>());
        (0..N_SIZES).map(|idx| of_size(idx).sum()).collect()
    }

    fn write_backs(tally: &Tally) -> Vec<i64> {
        let mut sum = 0;
        let sums = tally.write_backs.iter().map(|change| {
            sum += change;
            sum
        });
        sums.take(N_SIZES).collect()
    }

    /// One LRU cache of so many lines, as simple as can be: misses and write-backs.
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
        fn unsampled_it_counts_what_a_cache_of_each_size_does(seed in any::<u64>()) {
            let mut chance = Rng::new(seed);
            let near_or_far = |chance: &mut Rng| if chance.below(3) == 0 { 1500 } else { 300 };
            let uses: Vec<(u64, bool)> = (0..8000)
                .map(|_| {
                    let range = near_or_far(&mut chance);
                    (chance.below(range), chance.below(4) == 0)
                })
                .collect();
            let mut sampler = Sampler::new(Sampling::FixedRate(0));
            uses.iter().for_each(|&(line, writes)| sampler.touch(line, writes));
            let tally = sampler.tally_now();
            for idx in 0..8 {
                let (missed, written) = cache(size_lines(idx), &uses);
                prop_assert_eq!(misses(&tally)[idx], missed, "misses of {} lines", size_lines(idx));
                prop_assert_eq!(write_backs(&tally)[idx], written, "of {} lines", size_lines(idx));
            }
        }
    }

    /// Lines in an order that has short and long distances.
    fn uses(n: u64, n_lines: u64, seed: u64) -> impl Iterator<Item = u64> {
        let mut chance = Rng::new(seed);
        (0..n).map(move |_| {
            let range = n_lines >> (2 * chance.below(4));
            chance.below(range.max(1))
        })
    }

    #[test]
    fn a_sample_tells_nearly_what_all_lines_tell() {
        for sampling in [Sampling::FixedRate(4), Sampling::FixedSize(8192)] {
            let (mut all, mut some) =
                (Sampler::new(Sampling::FixedRate(0)), Sampler::new(sampling));
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
    fn no_more_lines_are_kept_than_there_is_room_for() {
        let mut sampler = Sampler::new(Sampling::FixedSize(1000));
        for line in 0..1_000_000 {
            sampler.touch(line, true);
            assert!(sampler.n_lines() <= 1000);
        }
        assert!(sampler.rate() <= 1.0 / 1024.0);
        let n_new = sampler.tally.n_new as f64;
        assert!((n_new / 1e6 - 1.0).abs() < 0.15, "{n_new} first uses instead of a million");
    }

    #[test]
    fn distances_fall_into_octaves() {
        let found = [0, 1, 2, 3, 4, 7, 8].map(|lines| octave(Some(lines)));
        assert_eq!(found, [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!(octave(None), N_OCTAVES - 1);
        assert_eq!(octave(Some(u64::MAX)), N_OCTAVES - 2);
    }
}
