//! The load of each domain over time, in bounded room.
//!
//! A series holds what can be compared: loads of domains of one level, which stand on one signal tier.
//! When either changes, a new series begins; misses of node 1 and declared operations of LLC domain 1
//! never stand in one curve.
//!
//! A point holds sums and the time they were summed over. When there are too many, neighbours are
//! added up two by two, and so is what comes later: the curve gets coarser, never wrong.

use std::collections::VecDeque;

use base::Nanos;
use engine::{LoadBasis, LoadSample};

use crate::eras::Era;

/// Points of a chart that nobody could tell apart on a screen.
const N_POINTS_MAX: usize = 2000;
/// Figures kept in all, so that a machine with many domains has fewer points: 32 bytes each.
const N_FIGURES_MAX: usize = 128 * 1024;
/// Series that anybody would look at; the last ones are kept.
const N_SERIES_MAX: usize = 64;

/// All series, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Curves {
    pub list: VecDeque<Series>,
    /// How many of the first ones were left out.
    pub n_left_out: u64,
    last_at: Nanos,
}

/// The loads of all domains while their level and their tier stayed the same.
#[derive(Debug)]
pub(crate) struct Series {
    pub footing: LoadBasis,
    pub era: Era,
    /// The numbers of the domains, in the order of the figures.
    pub numbers: Vec<u32>,
    spans: Vec<(Nanos, Nanos)>,
    /// A row of figures for each span, a figure for each domain.
    sums: Vec<Sums>,
    /// How many intervals make a point now; a power of two.
    per_point: u32,
    /// How many are in the last point.
    in_last: u32,
}

/// What was added up for one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub ops: u64,
    pub cpu: Nanos,
    /// Over how much time the operations were counted: an unreadable interval counts none.
    pub ops_time: Nanos,
    /// Over how much time the CPU time was.
    pub cpu_time: Nanos,
}

impl Curves {
    /// Begins in the middle of a run.
    pub fn begin_at(&mut self, at: Nanos) {
        self.last_at = at;
    }

    /// An interval has gone by.
    pub fn add(&mut self, at: Nanos, seen: &LoadSample, era: Era) {
        let from = std::mem::replace(&mut self.last_at, at);
        if at <= from {
            return;
        }
        let footing = seen.load_basis();
        if self.list.back().is_none_or(|last| last.footing != footing) {
            self.list.push_back(Series::new(footing, era));
        }
        if let Some(last) = self.list.back_mut() {
            last.add((from, at), seen);
        }
        self.make_room();
    }

    fn make_room(&mut self) {
        if N_SERIES_MAX < self.list.len() {
            self.list.pop_front();
            self.n_left_out += 1;
        }
        while N_FIGURES_MAX < self.list.iter().map(|series| series.sums.len()).sum() {
            let longest = self.list.iter_mut().max_by_key(|series| series.spans.len());
            let Some(longest) = longest.filter(|series| 1 < series.spans.len()) else { break };
            longest.halve();
        }
    }
}

impl Series {
    fn new(footing: LoadBasis, era: Era) -> Self {
        let (numbers, spans, sums) = (Vec::new(), Vec::new(), Vec::new());
        Series { footing, era, numbers, spans, sums, per_point: 1, in_last: 0 }
    }

    /// From when to when it goes.
    pub fn span(&self) -> (Nanos, Nanos) {
        let first = self.spans.first().map_or(Nanos::ZERO, |(from, _)| *from);
        (first, self.spans.last().map_or(first, |(_, to)| *to))
    }

    /// Each stretch of time with a figure for each domain.
    pub fn points(&self) -> impl Iterator<Item = ((Nanos, Nanos), &[Sums])> {
        self.spans.iter().copied().zip(self.sums.chunks(self.numbers.len().max(1)))
    }

    fn add(&mut self, (from, to): (Nanos, Nanos), seen: &LoadSample) {
        self.make_columns(&seen.numbers);
        if self.spans.is_empty() || self.in_last == self.per_point {
            self.spans.push((from, to));
            self.sums.resize(self.sums.len() + self.numbers.len(), Sums::default());
            self.in_last = 0;
        }
        self.in_last += 1;
        if let Some(last) = self.spans.last_mut() {
            last.1 = to;
        }
        let first = self.sums.len() - self.numbers.len();
        let row = &mut self.sums[first..];
        for (idx, number) in seen.numbers.iter().enumerate() {
            // Nearly always the domains are those of the interval before.
            let column = Some(idx).filter(|&idx| self.numbers.get(idx) == Some(number));
            let column = column.or_else(|| self.numbers.iter().position(|known| known == number));
            if let Some(column) = column {
                row[column].add(&of_domain(seen, idx, to.saturating_sub(from)));
            }
        }
        if N_POINTS_MAX < self.spans.len() {
            self.halve();
        }
    }

    /// A domain that comes later has nothing before.
    fn make_columns(&mut self, numbers: &[u32]) {
        if self.numbers == numbers {
            return;
        }
        let n_before = self.numbers.len();
        for number in numbers {
            if !self.numbers.contains(number) {
                self.numbers.push(*number);
            }
        }
        if n_before != self.numbers.len() && n_before != 0 {
            let mut sums = Vec::with_capacity(self.spans.len() * self.numbers.len());
            for row in self.sums.chunks(n_before) {
                sums.extend_from_slice(row);
                sums.resize(sums.len() + self.numbers.len() - n_before, Sums::default());
            }
            self.sums = sums;
        }
    }

    fn halve(&mut self) {
        let (n_before, wide) = (self.spans.len(), self.numbers.len());
        for idx in 0..n_before {
            let into = idx / 2;
            if idx % 2 == 0 {
                self.spans[into] = self.spans[idx];
                self.sums.copy_within(idx * wide..(idx + 1) * wide, into * wide);
                continue;
            }
            self.spans[into].1 = self.spans[idx].1;
            for column in 0..wide {
                let more = self.sums[idx * wide + column];
                self.sums[into * wide + column].add(&more);
            }
        }
        let n_left = n_before.div_ceil(2);
        self.spans.truncate(n_left);
        self.sums.truncate(n_left * wide);
        self.in_last += if n_before.is_multiple_of(2) { self.per_point } else { 0 };
        self.per_point *= 2;
    }
}

/// One domain in one interval.
fn of_domain(seen: &LoadSample, idx: usize, time: Nanos) -> Sums {
    let ops = seen.loads.loads.get(idx).copied().filter(|_| seen.loads.readable);
    let cpu = seen.cpu_time.get(idx).copied();
    Sums {
        ops: ops.unwrap_or(0),
        cpu: cpu.unwrap_or_default(),
        ops_time: if ops.is_some() { time } else { Nanos::ZERO },
        cpu_time: if cpu.is_some() { time } else { Nanos::ZERO },
    }
}

impl Sums {
    fn add(&mut self, more: &Sums) {
        self.ops = self.ops.saturating_add(more.ops);
        self.cpu = self.cpu.saturating_add(more.cpu);
        self.ops_time = self.ops_time.saturating_add(more.ops_time);
        self.cpu_time = self.cpu_time.saturating_add(more.cpu_time);
    }

    /// Operations per second, if any could be counted.
    pub fn ops_per_s(self) -> Option<f64> {
        (self.ops_time != Nanos::ZERO).then(|| self.ops as f64 / self.ops_time.as_secs_f64())
    }

    /// How many CPUs were kept busy.
    pub fn cpus_busy(self) -> Option<f64> {
        (self.cpu_time != Nanos::ZERO).then(|| self.cpu.as_secs_f64() / self.cpu_time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::{DomainLoads, SignalTier};
    use topology::Level;

    fn seen(numbers: &[u32], loads: &[u64], readable: bool) -> LoadSample {
        LoadSample {
            level: Level::Node,
            numbers: numbers.to_vec(),
            loads: DomainLoads { tier: SignalTier::Counters, loads: loads.to_vec(), readable },
            cpu_time: loads.iter().map(|_| Nanos::from_millis(125)).collect(),
        }
    }

    fn add(curves: &mut Curves, millis: u64, seen: &LoadSample) {
        curves.add(Nanos::from_millis(millis), seen, Era::default());
    }

    fn rows(series: &Series) -> Vec<&[Sums]> {
        series.points().map(|(_, row)| row).collect()
    }

    #[test]
    fn sums_survive_any_number_of_halvings() {
        let mut curves = Curves::default();
        let n: u64 = 50_000;
        for turn in 1..=n {
            add(&mut curves, turn * 250, &seen(&[0, 1], &[100, 300], true));
        }
        let series = &curves.list[0];
        assert!(series.spans.len() <= N_POINTS_MAX);
        assert_eq!(rows(series).iter().map(|row| row[0].ops).sum::<u64>(), 100 * n);
        assert!(series.spans.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(series.span(), (Nanos::ZERO, Nanos::from_millis(250 * n)));
        assert_eq!(rows(series)[0][1].ops_per_s(), Some(1200.0));
        assert_eq!(rows(series)[0][1].cpus_busy(), Some(0.5));
    }

    #[test]
    fn what_could_not_be_read_is_absent() {
        let mut curves = Curves::default();
        add(&mut curves, 250, &seen(&[0], &[77], false));
        assert_eq!(rows(&curves.list[0])[0][0].ops_per_s(), None);
    }

    #[test]
    fn a_domain_that_comes_later_is_absent_before() {
        let mut curves = Curves::default();
        add(&mut curves, 250, &seen(&[0, 1], &[1, 2], true));
        add(&mut curves, 500, &seen(&[1, 5], &[3, 4], true));
        let series = &curves.list[0];
        assert_eq!(series.numbers, [0, 1, 5]);
        let ops: Vec<Vec<Option<f64>>> = rows(series)
            .iter()
            .map(|row| row.iter().map(|sums| sums.ops_per_s()).collect())
            .collect();
        assert_eq!(ops[0], [Some(4.0), Some(8.0), None]);
        assert_eq!(ops[1], [None, Some(12.0), Some(16.0)]);
    }

    #[test]
    fn another_level_or_tier_begins_another_series() {
        let mut curves = Curves::default();
        let node = seen(&[0, 1], &[1, 2], true);
        let llc = LoadSample { level: Level::Llc, ..node.clone() };
        let mut declared = llc.clone();
        declared.loads.tier = SignalTier::Declared;
        for (idx, loads) in [&node, &node, &llc, &declared, &node].into_iter().enumerate() {
            add(&mut curves, 250 * (idx as u64 + 1), loads);
        }
        let told = curves.list.iter().map(|series| (series.footing.level, series.span().1));
        let end = |n: u64| Nanos::from_millis(250 * n);
        let expected = [
            (Level::Node, end(2)),
            (Level::Llc, end(3)),
            (Level::Llc, end(4)),
            (Level::Node, end(5)),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_level_that_changes_all_the_time_fills_no_memory() {
        let mut curves = Curves::default();
        let wide: Vec<u32> = (0..512).collect();
        let node = seen(&wide, &vec![1; 512], true);
        let llc = LoadSample { level: Level::Llc, ..node.clone() };
        for turn in 1..20_000u64 {
            let loads = if turn / 300 % 2 == 0 { &node } else { &llc };
            add(&mut curves, turn * 250, loads);
        }
        assert_eq!((curves.list.len(), curves.n_left_out), (64, 3));
        let n_figures: usize = curves.list.iter().map(|series| series.sums.len()).sum();
        assert!(n_figures <= N_FIGURES_MAX, "{n_figures}");
    }
}
