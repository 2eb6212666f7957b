//! Growth of system metrics in the last interval: LLC domains, monitoring groups, CPUs, pressure.
//!
//! Counting starts at the first sample of each metric. If the time between two samples is longer than an
//! interval, growth is scaled to one interval, as for memory controllers.

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

#[derive(Debug, Default)]
pub(crate) struct SystemMetrics {
    of_llcs: BTreeMap<LlcId, OfTraffic>,
    of_groups: BTreeMap<(JobId, LlcId), OfTraffic>,
    of_cpus: BTreeMap<CpuId, OfCpu>,
    pressure: Option<Total<Pressure, Pressure>>,
    at: Nanos,
    /// Growth in the last interval, also of the fields below.
    pub llcs: Vec<LlcView>,
    pub groups: Vec<MonGroupView>,
    pub cpus: Vec<CpuTimes>,
    pub stall_times: Pressure,
}

/// A cumulative metric: the last sample, the one at the end of the last interval, and the growth per interval
/// between them. A metric without a sample in the interval keeps its last growth.
#[derive(Clone, Copy, Debug)]
struct Total<T, G> {
    now: T,
    base: T,
    base_at: Nanos,
    is_new: bool,
    grown: G,
}

impl<T: Copy, G: Copy + Default> Total<T, G> {
    fn new(now: T, at: Nanos) -> Self {
        Total { now, base: now, base_at: at, is_new: true, grown: G::default() }
    }

    fn end_interval(
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

/// Stores a sample.
fn put<K: Ord, T: Copy, G: Copy + Default>(
    map: &mut BTreeMap<K, Total<T, G>>,
    key: K,
    now: T,
    at: Nanos,
) {
    let total = map.entry(key).or_insert_with(|| Total::new(now, at));
    (total.now, total.is_new) = (now, true);
}

impl SystemMetrics {
    /// Stores new samples.
    pub fn update(&mut self, sample: &Sample) {
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
            let total = self.pressure.get_or_insert_with(|| Total::new(now, at));
            (total.now, total.is_new) = (now, true);
        }
    }

    /// Whether the last sample of an LLC domain has its traffic.
    pub fn is_counted(&self, llc: LlcId) -> bool {
        let total = self.of_llcs.get(&llc);
        total.is_some_and(|total| total.now.total_bytes.is_some())
    }

    /// Removes the monitoring groups of a job.
    pub fn forget(&mut self, job: JobId) {
        self.of_groups.retain(|(of, _), _| *of != job);
        self.groups.retain(|group| group.job != job);
    }

    /// Ends an interval.
    pub fn end_interval(&mut self, at: Nanos, interval: Nanos) {
        self.at = at;
        for total in self.of_llcs.values_mut().chain(self.of_groups.values_mut()) {
            total.end_interval(at, interval, grown_traffic);
        }
        for total in self.of_cpus.values_mut() {
            total.end_interval(at, interval, grown_times);
        }
        if let Some(total) = &mut self.pressure {
            total.end_interval(at, interval, grown_pressure);
            self.stall_times = total.grown;
        }
        self.update_views();
    }

    fn update_views(&mut self) {
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

/// A counter that was not readable starts again with its next reading.
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

    fn llc_bytes(system: &SystemMetrics) -> Vec<Option<u64>> {
        system.llcs.iter().map(|llc| llc.traffic.total_bytes).collect()
    }

    #[test]
    fn counting_starts_with_the_first_sample_and_again_after_a_missing_one() {
        let second = Nanos::from_secs(1);
        let mut system = SystemMetrics::default();
        let mut bytes_seen = Vec::new();
        for (nr, bytes) in
            [(1, Some(1000)), (2, Some(1600)), (3, None), (4, Some(9000)), (5, Some(9001))]
        {
            system.update(&llc(bytes));
            system.end_interval(Nanos::from_secs(nr), second);
            bytes_seen.extend(llc_bytes(&system));
        }
        assert_eq!(bytes_seen, [Some(0), Some(600), None, None, Some(1)]);
    }

    #[test]
    fn growth_over_several_intervals_is_scaled_to_one() {
        let mut system = SystemMetrics::default();
        system.update(&llc(Some(0)));
        system.end_interval(Nanos::from_secs(1), Nanos::from_secs(1));
        system.update(&llc(Some(400)));
        system.end_interval(Nanos::from_secs(5), Nanos::from_secs(1));
        assert_eq!(llc_bytes(&system), [Some(100)]);
    }
}
