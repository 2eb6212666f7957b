//! Addresses and reuse, for the eye: what figure 6 of the divided-scheduling paper shows of a program.
//!
//! Two pictures need data: every data reference of one short stretch in the middle of the windows, and
//! the lines that each window used (`Window::lines`). The stretch also tells how many lines a unit of
//! work needs. That paper counts them by hand; here a unit of work is what happens from one execution of
//! the stretch's most frequent instruction to the next, which is a round of its innermost loop.

use std::collections::{BTreeMap, BTreeSet};

/// Data references that are kept of one stretch.
const N_DOTS: usize = 4000;

/// One data reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// The line.
    pub line: u64,
    /// Whether it was changed.
    pub writes: bool,
    /// The address of the instruction.
    pub instruction: u64,
}

/// The stretch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    dots: Vec<Dot>,
    /// Instructions in order, each with how many dots came before it.
    fetched: Vec<(u64, usize)>,
    instruction: u64,
    n_windows: u32,
    is_open: bool,
}

impl View {
    /// The stretch is taken anew at the begin of windows 1, 2, 4, 8 …: nobody knows how many there will
    /// be, and the last of these lies in the later half of them.
    pub(crate) fn begin_window(&mut self) {
        self.n_windows += 1;
        if self.n_windows.is_power_of_two() {
            self.dots.clear();
            self.fetched.clear();
            self.is_open = true;
        }
    }

    pub(crate) fn fetch(&mut self, address: u64) {
        self.instruction = address;
        if self.is_open {
            self.fetched.push((address, self.dots.len()));
            // A stretch of hardly any data ends too.
            self.is_open = self.fetched.len() < 16 * N_DOTS;
        }
    }

    pub(crate) fn data(&mut self, line: u64, writes: bool) {
        if self.is_open {
            self.dots.push(Dot { line, writes, instruction: self.instruction });
            self.is_open = self.dots.len() < N_DOTS;
        }
    }

    /// The data references of the stretch, in order.
    pub fn dots(&self) -> &[Dot] {
        &self.dots
    }

    /// Data lines of a unit of work: the median over the rounds of the innermost loop; `None` without a
    /// loop.
    pub fn lines_per_work(&self) -> Option<u64> {
        let mut n_times: BTreeMap<u64, u32> = BTreeMap::new();
        self.fetched.iter().for_each(|(address, _)| *n_times.entry(*address).or_default() += 1);
        // Of the equally frequent the lowest: the head of the loop.
        let (head, n) =
            n_times.iter().max_by_key(|(address, n)| (**n, std::cmp::Reverse(**address)))?;
        if *n < N_ROUNDS_MIN {
            return None;
        }
        let heads: Vec<usize> = self
            .fetched
            .iter()
            .filter(|(address, _)| address == head)
            .map(|(_, dot)| *dot)
            .collect();
        let lines_of = |round: &[usize]| {
            let lines: BTreeSet<u64> =
                self.dots[round[0]..round[1]].iter().map(|dot| dot.line).collect();
            lines.len() as u64
        };
        let mut counts: Vec<u64> = heads.windows(2).map(lines_of).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied()
    }
}

/// Fewer rounds are no loop worth the name.
const N_ROUNDS_MIN: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop that reads two arrays and writes a third, a line each a round.
    fn a_loop(n_rounds: u64) -> View {
        let mut view = View::default();
        view.begin_window();
        for round in 0..n_rounds {
            for (nr, writes) in [(0, false), (1, false), (2, true)] {
                view.fetch(100 + nr);
                view.data(1000 * nr + round, writes);
            }
        }
        view
    }

    #[test]
    fn a_round_of_the_innermost_loop_is_a_unit_of_work() {
        assert_eq!(a_loop(100).lines_per_work(), Some(3));
        assert_eq!(a_loop(5).lines_per_work(), None, "five rounds are no loop");
    }

    #[test]
    fn a_stretch_has_an_end_and_a_later_window_begins_another() {
        let mut view = a_loop(100_000);
        assert_eq!(view.dots().len(), N_DOTS);
        assert_eq!(view.dots()[2], Dot { line: 2000, writes: true, instruction: 102 });
        view.begin_window();
        assert!(view.dots().is_empty());
        view.data(7, true);
        view.begin_window();
        assert_eq!(view.dots().len(), 1, "the third window leaves it");
    }
}
