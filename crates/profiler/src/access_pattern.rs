//! Memory access pattern of a program for display, as in figure 6 of J. K. Park and J. Kim, *Application
//! Characteristic-based Divided Scheduling for Multicore Systems*.
//!
//! The charts show every data reference of one short segment, and the lines that each window used (`Window::lines`).
//! The segment also gives the number of lines per loop iteration; the paper counts these lines by hand. An iteration is
//! the interval between two executions of the most frequent instruction of the segment, that is, one iteration of the
//! innermost loop.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of data references per segment.
const N_DOTS: usize = 4000;

/// One data reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataReference {
    /// Line number: address divided by the line size.
    pub line: u64,
    /// Whether the reference writes.
    pub writes: bool,
    /// Address of the instruction that made the reference.
    pub instruction: u64,
}

/// The recorded segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPattern {
    data_references: Vec<DataReference>,
    /// Fetched instructions in order, each with the number of data references before it.
    fetched: Vec<(u64, usize)>,
    instruction: u64,
    n_windows: u32,
    is_open: bool,
}

impl AccessPattern {
    /// Starts a new segment at windows 1, 2, 4, 8 …. The number of windows is not known in advance; the last window
    /// with a segment is in the second half of the run.
    pub(crate) fn begin_window(&mut self) {
        self.n_windows += 1;
        if self.n_windows.is_power_of_two() {
            self.data_references.clear();
            self.fetched.clear();
            self.is_open = true;
        }
    }

    pub(crate) fn fetch(&mut self, address: u64) {
        self.instruction = address;
        if self.is_open {
            self.fetched.push((address, self.data_references.len()));
            // The number of instructions limits a segment with few data references.
            self.is_open = self.fetched.len() < 16 * N_DOTS;
        }
    }

    pub(crate) fn data(&mut self, line: u64, writes: bool) {
        if self.is_open {
            let instruction = self.instruction;
            self.data_references.push(DataReference { line, writes, instruction });
            self.is_open = self.data_references.len() < N_DOTS;
        }
    }

    /// Returns the data references of the segment, in order.
    pub fn data_references(&self) -> &[DataReference] {
        &self.data_references
    }

    /// Returns the number of data lines per iteration of the innermost loop (median). Returns `None` without a loop.
    pub fn lines_per_iteration(&self) -> Option<u64> {
        let mut n_times: BTreeMap<u64, u32> = BTreeMap::new();
        self.fetched.iter().for_each(|(address, _)| *n_times.entry(*address).or_default() += 1);
        // Among equally frequent instructions the lowest address is the loop head.
        let (head, n) =
            n_times.iter().max_by_key(|(address, n)| (**n, std::cmp::Reverse(**address)))?;
        if *n < N_ROUNDS_MIN {
            return None;
        }
        let heads = self.fetched.iter().filter(|(address, _)| address == head);
        let heads: Vec<usize> = heads.map(|(_, reference)| *reference).collect();
        let lines_of = |round: &[usize]| {
            let references = self.data_references[round[0]..round[1]].iter();
            references.map(|reference| reference.line).collect::<BTreeSet<u64>>().len() as u64
        };
        let mut counts: Vec<u64> = heads.windows(2).map(lines_of).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied()
    }
}

/// Minimum number of iterations of a loop. Guessed.
const N_ROUNDS_MIN: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a loop that reads two arrays and writes a third, one line per array and iteration.
    fn loop_pattern(n_rounds: u64) -> AccessPattern {
        let mut pattern = AccessPattern::default();
        pattern.begin_window();
        for round in 0..n_rounds {
            for (nr, writes) in [(0, false), (1, false), (2, true)] {
                pattern.fetch(100 + nr);
                pattern.data(1000 * nr + round, writes);
            }
        }
        pattern
    }

    #[test]
    fn lines_are_counted_per_iteration_of_the_innermost_loop() {
        assert_eq!(loop_pattern(100).lines_per_iteration(), Some(3));
        assert_eq!(
            loop_pattern(5).lines_per_iteration(),
            None,
            "five iterations do not count as a loop"
        );
    }

    #[test]
    fn a_segment_is_bounded_and_a_later_window_starts_another_segment() {
        let mut pattern = loop_pattern(100_000);
        assert_eq!(pattern.data_references().len(), N_DOTS);
        assert_eq!(
            pattern.data_references()[2],
            DataReference { line: 2000, writes: true, instruction: 102 }
        );
        pattern.begin_window();
        assert!(pattern.data_references().is_empty());
        pattern.data(7, true);
        pattern.begin_window();
        assert_eq!(pattern.data_references().len(), 1, "the third window does not start a segment");
    }
}
