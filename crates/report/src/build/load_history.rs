//! Load of each domain over time, in bounded memory.
//!
//! A series contains comparable values: loads of domains of one level from one signal tier. When the level or the tier
//! changes, a new series starts. Cache misses of node 1 and declared operations of LLC domain 1 are never in the same
//! curve.
//!
//! A point contains sums and the time that the sums cover. If a series has too many points, adjacent points are merged
//! in pairs. Later points have the same lower resolution. The sums stay exact.

use std::collections::VecDeque;

use base::Nanos;
use engine::{LoadBasis, LoadSample};
use sched::SignalTier;

use crate::domain_names::Epoch;

/// Maximum number of points of a series: more than a screen has columns.
const N_POINTS_MAX: usize = 2000;
/// Maximum number of values in all series, 32 bytes each. A machine with many domains has fewer points.
const N_VALUES_MAX: usize = 128 * 1024;
/// Maximum number of series; the oldest series are discarded.
const N_SERIES_MAX: usize = 64;

/// All series, in order of time.
#[derive(Debug, Default)]
pub(crate) struct LoadHistory {
    pub list: VecDeque<LoadSeriesSums>,
    /// Number of discarded series.
    pub n_dropped: u64,
    last_at: Nanos,
}

/// Loads of all domains while the level and the tier stayed the same.
#[derive(Debug)]
pub(crate) struct LoadSeriesSums {
    pub basis: LoadBasis,
    pub epoch: Epoch,
    /// Numbers of the domains, in the order of the values.
    pub numbers: Vec<u32>,
    /// CPU time that is not attributed to a domain.
    pub unattributed: Nanos,
    spans: Vec<(Nanos, Nanos)>,
    /// Sums: one row per point, one entry per domain.
    sums: Vec<LoadSums>,
    /// Number of intervals per point; a power of two.
    per_point: u32,
    /// Number of intervals in the last point.
    in_last: u32,
}

/// Sums of one domain over one point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadSums {
    pub ops: u64,
    pub cpu: Nanos,
    /// Time in which the operations were counted, without unreadable intervals.
    pub ops_time: Nanos,
    /// Time in which the CPU time was measured.
    pub cpu_time: Nanos,
}

impl LoadHistory {
    /// Starts the history in the middle of a run.
    pub fn start_at(&mut self, at: Nanos) {
        self.last_at = at;
    }

    pub fn add(&mut self, at: Nanos, sample: &LoadSample, epoch: Epoch) {
        let from = std::mem::replace(&mut self.last_at, at);
        if at <= from {
            return;
        }
        let basis = sample.load_basis();
        if self.list.back().is_none_or(|last| last.basis != basis) {
            self.list.push_back(LoadSeriesSums::new(basis, epoch));
        }
        if let Some(last) = self.list.back_mut() {
            last.add((from, at), sample);
        }
        self.limit_memory();
    }

    fn limit_memory(&mut self) {
        if N_SERIES_MAX < self.list.len() {
            self.list.pop_front();
            self.n_dropped += 1;
        }
        while N_VALUES_MAX < self.list.iter().map(|series| series.sums.len()).sum() {
            let longest = self.list.iter_mut().max_by_key(|series| series.spans.len());
            let Some(longest) = longest.filter(|series| 1 < series.spans.len()) else { break };
            longest.halve();
        }
    }
}

impl LoadSeriesSums {
    fn new(basis: LoadBasis, epoch: Epoch) -> Self {
        let (numbers, spans, sums) = (Vec::new(), Vec::new(), Vec::new());
        let unattributed = Nanos::ZERO;
        LoadSeriesSums {
            basis,
            epoch,
            numbers,
            unattributed,
            spans,
            sums,
            per_point: 1,
            in_last: 0,
        }
    }

    /// Returns the start and the end of the series.
    pub fn span(&self) -> (Nanos, Nanos) {
        let first = self.spans.first().map_or(Nanos::ZERO, |(from, _)| *from);
        (first, self.spans.last().map_or(first, |(_, to)| *to))
    }

    /// Returns the start, the end and the sums of each point, with one entry per domain.
    pub fn points(&self) -> impl Iterator<Item = ((Nanos, Nanos), &[LoadSums])> {
        self.spans.iter().copied().zip(self.sums.chunks(self.numbers.len().max(1)))
    }

    fn add(&mut self, (from, to): (Nanos, Nanos), sample: &LoadSample) {
        self.add_domains(&sample.numbers);
        if self.spans.is_empty() || self.in_last == self.per_point {
            self.spans.push((from, to));
            self.sums.resize(self.sums.len() + self.numbers.len(), LoadSums::default());
            self.in_last = 0;
        }
        self.in_last += 1;
        self.unattributed = self.unattributed.saturating_add(sample.unattributed);
        let span = to.saturating_sub(from);
        if let Some(last) = self.spans.last_mut() {
            last.1 = to;
        }
        let first = self.sums.len() - self.numbers.len();
        let row = &mut self.sums[first..];
        for (idx, number) in sample.numbers.iter().enumerate() {
            // Fast path: the domains did not change since the last interval.
            let column = Some(idx).filter(|&idx| self.numbers.get(idx) == Some(number));
            let column = column.or_else(|| self.numbers.iter().position(|known| known == number));
            if let Some(column) = column {
                row[column].add(&domain_sums(sample, idx, span));
            }
        }
        if N_POINTS_MAX < self.spans.len() {
            self.halve();
        }
    }

    /// Adds domains. The earlier rows of a new domain are empty.
    fn add_domains(&mut self, numbers: &[u32]) {
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
                sums.resize(sums.len() + self.numbers.len() - n_before, LoadSums::default());
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

/// Returns the sums of a domain in a sample. `span` is the time since the last sample.
fn domain_sums(sample: &LoadSample, idx: usize, span: Nanos) -> LoadSums {
    let is_known = sample.loads.readable && sample.loads.tier != SignalTier::None;
    let ops = sample.loads.loads.get(idx).copied().filter(|_| is_known);
    let cpu = sample.cpu_time.get(idx).copied();
    LoadSums {
        ops: ops.unwrap_or(0),
        cpu: cpu.unwrap_or_default(),
        ops_time: ops.map_or(Nanos::ZERO, |_| sample.interval.unwrap_or(span)),
        cpu_time: cpu.map_or(Nanos::ZERO, |_| span),
    }
}

impl LoadSums {
    fn add(&mut self, more: &LoadSums) {
        self.ops = self.ops.saturating_add(more.ops);
        self.cpu = self.cpu.saturating_add(more.cpu);
        self.ops_time = self.ops_time.saturating_add(more.ops_time);
        self.cpu_time = self.cpu_time.saturating_add(more.cpu_time);
    }

    /// Returns the operations per second; `None` if the operations were not counted.
    pub fn ops_per_s(self) -> Option<f64> {
        (self.ops_time != Nanos::ZERO).then(|| self.ops as f64 / self.ops_time.as_secs_f64())
    }

    pub fn cpus_busy(self) -> Option<f64> {
        (self.cpu_time != Nanos::ZERO).then(|| self.cpu.as_secs_f64() / self.cpu_time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::DomainLoads;
    use topology::Level;

    fn sample(numbers: &[u32], loads: &[u64], readable: bool) -> LoadSample {
        LoadSample {
            level: Level::Node,
            numbers: numbers.to_vec(),
            loads: DomainLoads { tier: SignalTier::Counters, loads: loads.to_vec(), readable },
            cpu_time: loads.iter().map(|_| Nanos::from_millis(125)).collect(),
            unattributed: Nanos::from_millis(1),
            interval: None,
        }
    }

    fn add(history: &mut LoadHistory, millis: u64, sample: &LoadSample) {
        history.add(Nanos::from_millis(millis), sample, Epoch::default());
    }

    fn rows(series: &LoadSeriesSums) -> Vec<&[LoadSums]> {
        series.points().map(|(_, row)| row).collect()
    }

    #[test]
    fn sums_stay_exact_when_points_are_merged() {
        let mut history = LoadHistory::default();
        let n: u64 = 50_000;
        for turn in 1..=n {
            add(&mut history, turn * 250, &sample(&[0, 1], &[100, 300], true));
        }
        let series = &history.list[0];
        assert!(series.spans.len() <= N_POINTS_MAX);
        assert_eq!(rows(series).iter().map(|row| row[0].ops).sum::<u64>(), 100 * n);
        assert!(series.spans.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(series.span(), (Nanos::ZERO, Nanos::from_millis(250 * n)));
        assert_eq!(rows(series)[0][1].ops_per_s(), Some(1200.0));
        assert_eq!(rows(series)[0][1].cpus_busy(), Some(0.5));
        assert_eq!(series.unattributed, Nanos::from_millis(n));
    }

    #[test]
    fn the_load_of_a_late_turn_covers_one_interval_of_the_policy_and_its_cpu_time_all_of_the_time()
    {
        let mut history = LoadHistory::default();
        let interval = Some(Nanos::from_millis(250));
        add(&mut history, 1000, &LoadSample { interval, ..sample(&[0], &[10], true) });
        let row = rows(&history.list[0])[0][0];
        assert_eq!((row.ops_per_s(), row.cpus_busy()), (Some(40.0), Some(0.125)));
    }

    #[test]
    fn the_load_of_an_unreadable_interval_and_of_an_unknown_tier_is_absent() {
        let mut history = LoadHistory::default();
        add(&mut history, 250, &sample(&[0], &[77], false));
        let mut unknown = sample(&[0], &[0], true);
        unknown.loads.tier = SignalTier::None;
        add(&mut history, 500, &unknown);
        for series in &history.list {
            assert_eq!(rows(series)[0][0].ops_per_s(), None);
        }
    }

    #[test]
    fn a_later_domain_is_absent_in_earlier_points() {
        let mut history = LoadHistory::default();
        add(&mut history, 250, &sample(&[0, 1], &[1, 2], true));
        add(&mut history, 500, &sample(&[1, 5], &[3, 4], true));
        let series = &history.list[0];
        assert_eq!(series.numbers, [0, 1, 5]);
        let ops: Vec<Vec<Option<f64>>> = rows(series)
            .iter()
            .map(|row| row.iter().map(|sums| sums.ops_per_s()).collect())
            .collect();
        assert_eq!(ops[0], [Some(4.0), Some(8.0), None]);
        assert_eq!(ops[1], [None, Some(12.0), Some(16.0)]);
    }

    #[test]
    fn another_level_or_tier_starts_another_series() {
        let mut history = LoadHistory::default();
        let node = sample(&[0, 1], &[1, 2], true);
        let llc = LoadSample { level: Level::Llc, ..node.clone() };
        let mut declared = llc.clone();
        declared.loads.tier = SignalTier::Declared;
        for (idx, loads) in [&node, &node, &llc, &declared, &node].into_iter().enumerate() {
            add(&mut history, 250 * (idx as u64 + 1), loads);
        }
        let spans = history.list.iter().map(|series| (series.basis.level, series.span().1));
        let end = |n: u64| Nanos::from_millis(250 * n);
        let expected = [
            (Level::Node, end(2)),
            (Level::Llc, end(3)),
            (Level::Llc, end(4)),
            (Level::Node, end(5)),
        ];
        assert_eq!(spans.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_level_that_changes_often_uses_bounded_memory() {
        let mut history = LoadHistory::default();
        let wide: Vec<u32> = (0..512).collect();
        let node = sample(&wide, &vec![1; 512], true);
        let llc = LoadSample { level: Level::Llc, ..node.clone() };
        for turn in 1..20_000u64 {
            let loads = if turn / 300 % 2 == 0 { &node } else { &llc };
            add(&mut history, turn * 250, loads);
        }
        assert_eq!((history.list.len(), history.n_dropped), (64, 3));
        let n_values: usize = history.list.iter().map(|series| series.sums.len()).sum();
        assert!(n_values <= N_VALUES_MAX, "{n_values}");
    }
}
