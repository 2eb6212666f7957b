//! Deltas of system signals in the last interval: LLC domains, monitoring groups, CPUs, pressure.
//!
//! Counting starts at the first sample of each signal. If the time between two samples is longer than an interval,
//! the delta is scaled to one interval, as in `controllers`.

use std::collections::BTreeMap;

use base::{CpuId, JobId, LlcId, Nanos};
use sched::{
    CpuTimes, LlcView, MonGroupView, Pressure, RawCounter, Sample, StallTimes, Traffic,
    TrafficDelta,
};

use super::controllers::per_interval;
use super::counters::raw_delta;

type TrafficTotal = Total<Traffic, TrafficDelta>;
type CpuTotal = Total<CpuTimes, (Nanos, Nanos)>;

#[derive(Debug, Default)]
pub(crate) struct SystemSignals {
    llc_totals: BTreeMap<LlcId, TrafficTotal>,
    group_totals: BTreeMap<(JobId, LlcId), TrafficTotal>,
    cpu_totals: BTreeMap<CpuId, CpuTotal>,
    pressure: Option<Total<Pressure, Pressure>>,
    at: Nanos,
    /// Deltas of LLC domains in the last interval. The following fields contain the deltas of the other signals.
    pub llcs: Vec<LlcView>,
    pub groups: Vec<MonGroupView>,
    pub cpus: Vec<CpuTimes>,
    pub stall_times: Pressure,
}

/// A cumulative signal: its last sample, its sample at the end of the last interval, and the delta per interval.
/// Without a sample in the interval, the delta is unchanged.
#[derive(Clone, Copy, Debug)]
struct Total<T, D> {
    now: T,
    base: T,
    base_at: Nanos,
    is_new: bool,
    delta: D,
}

impl<T: Copy, D: Copy + Default> Total<T, D> {
    fn new(now: T, at: Nanos) -> Self {
        Total { now, base: now, base_at: at, is_new: true, delta: D::default() }
    }

    fn end_interval(
        &mut self,
        at: Nanos,
        interval: Nanos,
        delta: impl Fn(T, T, &dyn Fn(u64) -> u64) -> D,
    ) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        let elapsed = at.saturating_sub(self.base_at);
        self.delta = delta(self.now, self.base, &|n| per_interval(n, interval, elapsed));
        (self.base, self.base_at) = (self.now, at);
    }
}

/// Stores a sample.
fn store<K: Ord, T: Copy, D: Copy + Default>(
    map: &mut BTreeMap<K, Total<T, D>>,
    key: K,
    now: T,
    at: Nanos,
) {
    let total = map.entry(key).or_insert_with(|| Total::new(now, at));
    (total.now, total.is_new) = (now, true);
}

impl SystemSignals {
    /// Stores new samples.
    pub fn update(&mut self, sample: &Sample) {
        let at = self.at;
        for llc in &sample.llcs {
            store(&mut self.llc_totals, llc.llc, llc.traffic, at);
        }
        for group in &sample.mon_groups {
            store(&mut self.group_totals, (group.job, group.llc), group.traffic, at);
        }
        for &cpu in &sample.cpus {
            store(&mut self.cpu_totals, cpu.cpu, cpu, at);
        }
        if let Some(now) = sample.pressure {
            let total = self.pressure.get_or_insert_with(|| Total::new(now, at));
            (total.now, total.is_new) = (now, true);
        }
    }

    /// Returns whether the last sample of an LLC domain contains its traffic.
    pub fn is_counted(&self, llc: LlcId) -> bool {
        let total = self.llc_totals.get(&llc);
        total.is_some_and(|total| total.now.total_bytes.is_some())
    }

    /// Removes the monitoring groups of a job.
    pub fn remove_job(&mut self, job: JobId) {
        self.group_totals.retain(|(owner, _), _| *owner != job);
        self.groups.retain(|group| group.job != job);
    }

    /// Ends an interval.
    pub fn end_interval(&mut self, at: Nanos, interval: Nanos) {
        self.at = at;
        for total in self.llc_totals.values_mut().chain(self.group_totals.values_mut()) {
            total.end_interval(at, interval, traffic_delta);
        }
        for total in self.cpu_totals.values_mut() {
            total.end_interval(at, interval, time_deltas);
        }
        if let Some(total) = &mut self.pressure {
            total.end_interval(at, interval, pressure_delta);
            self.stall_times = total.delta;
        }
        self.update_views();
    }

    fn update_views(&mut self) {
        self.llcs.clear();
        let llc = |(&llc, total): (_, &TrafficTotal)| LlcView { llc, traffic: total.delta };
        self.llcs.extend(self.llc_totals.iter().map(llc));
        self.groups.clear();
        let group = |(&(job, llc), total): (&(JobId, LlcId), &TrafficTotal)| MonGroupView {
            job,
            llc,
            traffic: total.delta,
        };
        self.groups.extend(self.group_totals.iter().map(group));
        self.cpus.clear();
        let times = |(&cpu, total): (_, &CpuTotal)| {
            let (run, wait) = total.delta;
            CpuTimes { cpu, run, wait }
        };
        self.cpus.extend(self.cpu_totals.iter().map(times));
    }
}

/// Returns the delta of the traffic. After a sample without a counter, counting starts again at the next sample.
fn traffic_delta(now: Traffic, base: Traffic, mean: &dyn Fn(u64) -> u64) -> TrafficDelta {
    let delta = |now: Option<RawCounter>, base| raw_delta(now?, Some(base?)).value().map(mean);
    TrafficDelta {
        total_bytes: delta(now.total_bytes, base.total_bytes),
        local_bytes: delta(now.local_bytes, base.local_bytes),
        occupancy: now.occupancy,
    }
}

fn time_deltas(now: CpuTimes, base: CpuTimes, mean: &dyn Fn(u64) -> u64) -> (Nanos, Nanos) {
    let delta = |now: Nanos, base: Nanos| Nanos(mean(now.saturating_sub(base).0));
    (delta(now.run, base.run), delta(now.wait, base.wait))
}

fn pressure_delta(now: Pressure, base: Pressure, mean: &dyn Fn(u64) -> u64) -> Pressure {
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
        let total_bytes = bytes.map(RawCounter::unmultiplexed);
        let traffic = Traffic { total_bytes, ..Traffic::default() };
        Sample { llcs: vec![LlcSample { llc: LlcId(1), traffic }], ..Sample::default() }
    }

    fn llc_bytes(system: &SystemSignals) -> Vec<Option<u64>> {
        system.llcs.iter().map(|llc| llc.traffic.total_bytes).collect()
    }

    #[test]
    fn counting_starts_at_the_first_sample_and_again_after_a_sample_without_a_counter() {
        let second = Nanos::from_secs(1);
        let mut system = SystemSignals::default();
        let mut deltas = Vec::new();
        for (nr, bytes) in
            [(1, Some(1000)), (2, Some(1600)), (3, None), (4, Some(9000)), (5, Some(9001))]
        {
            system.update(&llc(bytes));
            system.end_interval(Nanos::from_secs(nr), second);
            deltas.extend(llc_bytes(&system));
        }
        assert_eq!(deltas, [Some(0), Some(600), None, None, Some(1)]);
    }

    #[test]
    fn a_delta_over_several_intervals_is_scaled_to_one() {
        let mut system = SystemSignals::default();
        system.update(&llc(Some(0)));
        system.end_interval(Nanos::from_secs(1), Nanos::from_secs(1));
        system.update(&llc(Some(400)));
        system.end_interval(Nanos::from_secs(5), Nanos::from_secs(1));
        assert_eq!(llc_bytes(&system), [Some(100)]);
    }
}
