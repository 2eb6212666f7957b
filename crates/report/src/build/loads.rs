//! The load of each domain over time, in bounded room.
//!
//! A point holds sums and the time they were summed over. When there are too many, neighbours are
//! added up two by two, and so is what comes later: the curve gets coarser, never wrong.

use std::collections::BTreeMap;

use base::Nanos;
use engine::SeenLoads;
use sched::SignalTier;
use topology::Level;

/// Points of a chart that nobody could tell apart on a screen.
const N_POINTS_MAX: usize = 2000;
/// Figures kept in all, so that a machine with many domains has fewer points: 16 bytes each.
const N_FIGURES_MAX: usize = 128 * 1024;

/// The series of all domains.
#[derive(Debug, Default)]
pub(crate) struct Series {
    pub level: Option<Level>,
    /// How many intervals stood on each tier.
    pub tiers: BTreeMap<SignalTier, u64>,
    /// The numbers of the domains, in the order of the figures.
    pub numbers: Vec<u32>,
    pub points: Vec<Point>,
    /// How many intervals make a point now; a power of two.
    per_point: u32,
    /// How many are in the last point.
    in_last: u32,
    last_at: Nanos,
}

/// Sums over a stretch of time, a figure per domain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub from: Nanos,
    pub to: Nanos,
    pub sums: Vec<Sums>,
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

impl Series {
    /// What most intervals stood on; of two that are equal the worse.
    pub fn tier(&self) -> Option<SignalTier> {
        self.tiers.iter().max_by_key(|&(&tier, &n)| (n, tier)).map(|(&tier, _)| tier)
    }

    /// Begins in the middle of a run.
    pub fn begin_at(&mut self, at: Nanos) {
        self.last_at = at;
    }

    /// An interval has gone by.
    pub fn add(&mut self, at: Nanos, seen: &SeenLoads) {
        let from = std::mem::replace(&mut self.last_at, at);
        let time = at.saturating_sub(from);
        if time == Nanos::ZERO {
            return;
        }
        self.level = Some(seen.level);
        *self.tiers.entry(seen.loads.tier).or_default() += 1;
        let point = Point { from, to: at, sums: self.sums(seen, time) };
        self.take(point);
    }

    fn sums(&mut self, seen: &SeenLoads, time: Nanos) -> Vec<Sums> {
        for &number in &seen.numbers {
            if !self.numbers.contains(&number) {
                self.numbers.push(number);
            }
        }
        let ops_time = if seen.loads.readable { time } else { Nanos::ZERO };
        let sums = |&number: &u32| {
            let Some(idx) = seen.numbers.iter().position(|&known| known == number) else {
                return Sums::default();
            };
            let ops = seen.loads.loads.get(idx).copied().unwrap_or(0);
            let cpu = seen.cpu_time.get(idx).copied();
            Sums {
                ops: if seen.loads.readable { ops } else { 0 },
                cpu: cpu.unwrap_or_default(),
                ops_time: if seen.loads.loads.len() <= idx { Nanos::ZERO } else { ops_time },
                cpu_time: if cpu.is_some() { time } else { Nanos::ZERO },
            }
        };
        self.numbers.iter().map(sums).collect()
    }

    fn take(&mut self, point: Point) {
        self.per_point = self.per_point.max(1);
        match self.points.last_mut() {
            Some(last) if self.in_last < self.per_point => last.merge(&point),
            _ => {
                self.points.push(point);
                self.in_last = 0;
            }
        }
        self.in_last += 1;
        let room = (N_FIGURES_MAX / self.numbers.len().max(1)).clamp(100, N_POINTS_MAX);
        if room < self.points.len() {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let n_before = self.points.len();
        let mut halved: Vec<Point> = Vec::with_capacity(n_before / 2 + 1);
        for (idx, point) in self.points.drain(..).enumerate() {
            match halved.last_mut() {
                Some(last) if idx % 2 == 1 => last.merge(&point),
                _ => halved.push(point),
            }
        }
        self.points = halved;
        self.in_last += if n_before.is_multiple_of(2) { self.per_point } else { 0 };
        self.per_point *= 2;
    }
}

impl Point {
    fn merge(&mut self, later: &Point) {
        self.to = later.to;
        self.sums.resize(later.sums.len().max(self.sums.len()), Sums::default());
        for (sum, more) in self.sums.iter_mut().zip(&later.sums) {
            sum.ops = sum.ops.saturating_add(more.ops);
            sum.cpu = sum.cpu.saturating_add(more.cpu);
            sum.ops_time = sum.ops_time.saturating_add(more.ops_time);
            sum.cpu_time = sum.cpu_time.saturating_add(more.cpu_time);
        }
    }
}

impl Sums {
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
    use sched::DomainLoads;

    fn seen(numbers: &[u32], loads: &[u64], readable: bool) -> SeenLoads {
        SeenLoads {
            level: Level::Node,
            numbers: numbers.to_vec(),
            loads: DomainLoads { tier: SignalTier::Counters, loads: loads.to_vec(), readable },
            cpu_time: loads.iter().map(|_| Nanos::from_millis(125)).collect(),
        }
    }

    #[test]
    fn sums_survive_any_number_of_halvings() {
        let mut series = Series::default();
        let n: u64 = 50_000;
        for turn in 1..=n {
            series.add(Nanos::from_millis(turn * 250), &seen(&[0, 1], &[100, 300], true));
        }
        assert!(series.points.len() <= N_POINTS_MAX);
        let total: u64 = series.points.iter().map(|point| point.sums[0].ops).sum();
        assert_eq!(total, 100 * n);
        assert!(series.points.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert_eq!(series.points[0].sums[1].ops_per_s(), Some(1200.0));
        assert_eq!(series.points[0].sums[1].cpus_busy(), Some(0.5));
    }

    #[test]
    fn what_could_not_be_read_is_absent() {
        let mut series = Series::default();
        series.add(Nanos::from_millis(250), &seen(&[0], &[77], false));
        assert_eq!(series.points[0].sums[0].ops_per_s(), None);
    }

    #[test]
    fn a_domain_that_comes_later_is_absent_before() {
        let mut series = Series::default();
        series.add(Nanos::from_millis(250), &seen(&[0, 1], &[1, 2], true));
        series.add(Nanos::from_millis(500), &seen(&[1, 5], &[3, 4], true));
        assert_eq!(series.numbers, [0, 1, 5]);
        assert_eq!(series.points[0].sums.len(), 2);
        assert_eq!(series.points[1].sums[0].ops_per_s(), None);
        assert_eq!(series.points[1].sums[1].ops, 3);
    }
}
