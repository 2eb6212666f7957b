//! Totals of caches, groups, pressure and CPUs, and what they grew by in the last interval.
//!
//! The first total of each is where counting begins: what happened before the run is nobody's. Where
//! what lies between two of them is longer than an interval, growth is that of the mean interval in it, as for the
//! counters of memory controllers.

use std::collections::BTreeMap;

use base::{CpuId, JobId, LlcId, Nanos};
use sched::{
    CounterReading, CpuTimes, LlcView, MonGroupView, Pressure, Sample, StallTimes, Traffic,
    TrafficDelta,
};

use super::controllers::per_interval;
use super::counters::growth;

type OfTraffic = Total<Traffic, TrafficDelta>;
type OfCpu = Total<CpuTimes, (Nanos, Nanos)>;

/// Everything that is measured around tasks.
#[derive(Debug, Default)]
pub(crate) struct SystemMetrics {
    of_llcs: BTreeMap<LlcId, OfTraffic>,
    of_groups: BTreeMap<(JobId, LlcId), OfTraffic>,
    of_cpus: BTreeMap<CpuId, OfCpu>,
    pressure: Option<Total<Pressure, Pressure>>,
    at: Nanos,
    /// What there was in the last interval.
    pub llcs: Vec<LlcView>,
    pub groups: Vec<MonGroupView>,
    pub cpus: Vec<CpuTimes>,
    pub pressed: Pressure,
}

/// A cumulative figure, what it was when it was taken in before, and its growth in a mean interval
/// between the two. Figures that are not read in every interval keep their last growth.
#[derive(Clone, Copy, Debug)]
struct Total<T, G> {
    now: T,
    base: T,
    base_at: Nanos,
    is_new: bool,
    grown: G,
}

impl<T: Copy, G: Copy + Default> Total<T, G> {
    /// The first is where counting begins.
    fn begin(now: T, at: Nanos) -> Self {
        Total { now, base: now, base_at: at, is_new: true, grown: G::default() }
    }

    fn turn_over(
        &mut self,
        at: Nanos,
        interval: Nanos,
        grown: impl Fn(T, T, &dyn Fn(u64) -> u64) -> G,
    ) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        let elapsed = at.saturating_sub(self.base_at);
        self.grown = grown(self.now, self.base, &|n| per_interval(n, interval, elapsed));
        (self.base, self.base_at) = (self.now, at);
    }
}

/// Takes a total in.
fn put<K: Ord, T: Copy, G: Copy + Default>(
    map: &mut BTreeMap<K, Total<T, G>>,
    key: K,
    now: T,
    at: Nanos,
) {
    let total = map.entry(key).or_insert_with(|| Total::begin(now, at));
    (total.now, total.is_new) = (now, true);
}

impl SystemMetrics {
    /// Takes new totals in.
    pub fn take(&mut self, sample: &Sample) {
        let at = self.at;
        for llc in &sample.llcs {
            put(&mut self.of_llcs, llc.llc, llc.traffic, at);
        }
        for group in &sample.mon_groups {
            put(&mut self.of_groups, (group.job, group.llc), group.traffic, at);
        }
        for &cpu in &sample.cpus {
            put(&mut self.of_cpus, cpu.cpu, cpu, at);
        }
        if let Some(now) = sample.pressure {
            let total = self.pressure.get_or_insert_with(|| Total::begin(now, at));
            (total.now, total.is_new) = (now, true);
        }
    }

    /// Whether the traffic of a cache was told when it was looked at last.
    pub fn is_counted(&self, llc: LlcId) -> bool {
        let total = self.of_llcs.get(&llc);
        total.is_some_and(|total| total.now.total_bytes.is_some())
    }

    /// A job is over, and its group with it.
    pub fn forget(&mut self, job: JobId) {
        self.of_groups.retain(|(of, _), _| *of != job);
        self.groups.retain(|group| group.job != job);
    }

    /// Ends an interval at this instant.
    pub fn turn_over(&mut self, at: Nanos, interval: Nanos) {
        self.at = at;
        for total in self.of_llcs.values_mut().chain(self.of_groups.values_mut()) {
            total.turn_over(at, interval, grown_traffic);
        }
        for total in self.of_cpus.values_mut() {
            total.turn_over(at, interval, grown_times);
        }
        if let Some(total) = &mut self.pressure {
            total.turn_over(at, interval, grown_pressure);
            self.pressed = total.grown;
        }
        self.show();
    }

    fn show(&mut self) {
        self.llcs.clear();
        let llc = |(&llc, total): (_, &OfTraffic)| LlcView { llc, traffic: total.grown };
        self.llcs.extend(self.of_llcs.iter().map(llc));
        self.groups.clear();
        let group = |(&(job, llc), total): (&(JobId, LlcId), &OfTraffic)| MonGroupView {
            job,
            llc,
            traffic: total.grown,
        };
        self.groups.extend(self.of_groups.iter().map(group));
        self.cpus.clear();
        let times = |(&cpu, total): (_, &OfCpu)| {
            let (ran, waited) = total.grown;
            CpuTimes { cpu, ran, waited }
        };
        self.cpus.extend(self.of_cpus.iter().map(times));
    }
}

/// A counter that could not be read begins anew when it can be read again.
fn grown_traffic(now: Traffic, base: Traffic, mean: &dyn Fn(u64) -> u64) -> TrafficDelta {
    let grown = |now: Option<CounterReading>, base| growth(now?, Some(base?)).value().map(mean);
    TrafficDelta {
        total_bytes: grown(now.total_bytes, base.total_bytes),
        local_bytes: grown(now.local_bytes, base.local_bytes),
        occupancy: now.occupancy,
    }
}

fn grown_times(now: CpuTimes, base: CpuTimes, mean: &dyn Fn(u64) -> u64) -> (Nanos, Nanos) {
    let grown = |now: Nanos, base: Nanos| Nanos(mean(now.saturating_sub(base).0));
    (grown(now.ran, base.ran), grown(now.waited, base.waited))
}

fn grown_pressure(now: Pressure, base: Pressure, mean: &dyn Fn(u64) -> u64) -> Pressure {
    let Pressure { cpu, memory, io } = now.since(base);
    let each = |stalled: StallTimes| StallTimes {
        some: stalled.some.map(|time| Nanos(mean(time.0))),
        full: stalled.full.map(|time| Nanos(mean(time.0))),
    };
    Pressure { cpu: each(cpu), memory: each(memory), io: each(io) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::LlcSample;

    fn llc(bytes: Option<u64>) -> Sample {
        let total_bytes = bytes.map(CounterReading::unmultiplexed);
        let traffic = Traffic { total_bytes, ..Traffic::default() };
        Sample { llcs: vec![LlcSample { llc: LlcId(1), traffic }], ..Sample::default() }
    }

    fn seen(around: &SystemMetrics) -> Vec<Option<u64>> {
        around.llcs.iter().map(|llc| llc.traffic.total_bytes).collect()
    }

    #[test]
    fn counting_begins_with_the_first_total_and_pauses_while_there_is_none() {
        let second = Nanos::from_secs(1);
        let mut around = SystemMetrics::default();
        let mut told = Vec::new();
        for (nr, bytes) in
            [(1, Some(1000)), (2, Some(1600)), (3, None), (4, Some(9000)), (5, Some(9001))]
        {
            around.take(&llc(bytes));
            around.turn_over(Nanos::from_secs(nr), second);
            told.extend(seen(&around));
        }
        assert_eq!(told, [Some(0), Some(600), None, None, Some(1)]);
    }

    #[test]
    fn a_longer_stretch_counts_as_its_mean_interval() {
        let mut around = SystemMetrics::default();
        around.take(&llc(Some(0)));
        around.turn_over(Nanos::from_secs(1), Nanos::from_secs(1));
        around.take(&llc(Some(400)));
        around.turn_over(Nanos::from_secs(5), Nanos::from_secs(1));
        assert_eq!(seen(&around), [Some(100)]);
    }
}
