//! Totals of caches, groups, pressure and CPUs, and what they grew by in the last interval.
//!
//! The first total of each is where counting begins: what happened before the run is nobody's. Where
//! an interval lasted longer than the policy's, growth is that of the mean interval in it, as for the
//! counters of memory controllers.

use std::collections::BTreeMap;

use base::{CpuId, JobId, LlcId, Nanos};
use sched::{
    CpuTimes, GroupSeen, LlcSeen, Measured, Pressure, Sample, Stalled, Traffic, TrafficSeen,
};

use super::controllers::per_interval;

/// Everything that is measured around tasks.
#[derive(Debug, Default)]
pub(crate) struct Around {
    of_llcs: BTreeMap<LlcId, Total<Traffic>>,
    of_groups: BTreeMap<(JobId, LlcId), Total<Traffic>>,
    of_cpus: BTreeMap<CpuId, Total<CpuTimes>>,
    pressure: Option<Total<Pressure>>,
    at: Nanos,
    /// What there was in the last interval.
    pub llcs: Vec<LlcSeen>,
    pub groups: Vec<GroupSeen>,
    pub cpus: Vec<CpuTimes>,
    pub pressed: Pressure,
}

/// A cumulative figure, and what it was at the last interval turn.
#[derive(Clone, Copy, Debug)]
struct Total<T> {
    now: T,
    base: T,
}

impl<T: Copy> Total<T> {
    fn begin(now: T) -> Self {
        Total { now, base: now }
    }
}

/// Takes a total in; the first is where counting begins.
fn put<K: Ord, T: Copy>(map: &mut BTreeMap<K, Total<T>>, key: K, now: T) {
    map.entry(key).and_modify(|total| total.now = now).or_insert_with(|| Total::begin(now));
}

impl Around {
    /// Takes new totals in.
    pub fn take(&mut self, sample: &Sample) {
        for llc in &sample.llcs {
            put(&mut self.of_llcs, llc.llc, llc.traffic);
        }
        for group in &sample.groups {
            put(&mut self.of_groups, (group.job, group.llc), group.traffic);
        }
        for &cpu in &sample.cpus {
            put(&mut self.of_cpus, cpu.cpu, cpu);
        }
        if let Some(now) = sample.pressure {
            self.pressure.get_or_insert_with(|| Total::begin(now)).now = now;
        }
    }

    /// A job is over, and its group with it.
    pub fn forget(&mut self, job: JobId) {
        self.of_groups.retain(|(of, _), _| *of != job);
        self.groups.retain(|group| group.job != job);
    }

    /// Ends an interval at this instant.
    pub fn turn_over(&mut self, at: Nanos, interval: Nanos) {
        let elapsed = at.saturating_sub(self.at);
        self.at = at;
        let mean = |grown: u64| per_interval(grown, interval, elapsed);
        let traffic = |total: &Total<Traffic>| grown_traffic(total, mean);
        let llc = |(&llc, total): (_, &Total<Traffic>)| LlcSeen { llc, traffic: traffic(total) };
        self.llcs = self.of_llcs.iter().map(llc).collect();
        let group = |(&(job, llc), total): (&(JobId, LlcId), &Total<Traffic>)| GroupSeen {
            job,
            llc,
            traffic: traffic(total),
        };
        self.groups = self.of_groups.iter().map(group).collect();
        self.cpus = self.of_cpus.values().map(|total| grown_times(total, mean)).collect();
        self.pressed = self.pressure.map(|total| grown_pressure(&total, mean)).unwrap_or_default();
        self.of_llcs.values_mut().for_each(|total| total.base = total.now);
        self.of_groups.values_mut().for_each(|total| total.base = total.now);
        self.of_cpus.values_mut().for_each(|total| total.base = total.now);
        self.pressure.iter_mut().for_each(|total| total.base = total.now);
    }
}

/// A counter that could not be read begins anew when it can be read again.
fn grown_traffic(total: &Total<Traffic>, mean: impl Fn(u64) -> u64) -> TrafficSeen {
    let grown = |now: Measured, base: Measured| now.since(base, 64).map(&mean);
    TrafficSeen {
        total_bytes: grown(total.now.total_bytes, total.base.total_bytes),
        local_bytes: grown(total.now.local_bytes, total.base.local_bytes),
        occupancy: total.now.occupancy,
    }
}

fn grown_times(total: &Total<CpuTimes>, mean: impl Fn(u64) -> u64) -> CpuTimes {
    let grown = |now: Nanos, base: Nanos| Nanos(mean(now.saturating_sub(base).0));
    CpuTimes {
        cpu: total.now.cpu,
        ran: grown(total.now.ran, total.base.ran),
        waited: grown(total.now.waited, total.base.waited),
    }
}

fn grown_pressure(total: &Total<Pressure>, mean: impl Fn(u64) -> u64) -> Pressure {
    let Pressure { cpu, memory, io } = total.now.since(total.base);
    let each = |stalled: Stalled| Stalled {
        some: stalled.some.map(|time| Nanos(mean(time.0))),
        full: stalled.full.map(|time| Nanos(mean(time.0))),
    };
    Pressure { cpu: each(cpu), memory: each(memory), io: each(io) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::LlcSample;

    fn llc(bytes: Measured) -> Sample {
        let traffic = Traffic { total_bytes: bytes, ..Traffic::default() };
        Sample { llcs: vec![LlcSample { llc: LlcId(1), traffic }], ..Sample::default() }
    }

    fn seen(around: &Around) -> Vec<Option<u64>> {
        around.llcs.iter().map(|llc| llc.traffic.total_bytes).collect()
    }

    #[test]
    fn counting_begins_with_the_first_total_and_pauses_while_there_is_none() {
        let second = Nanos::from_secs(1);
        let mut around = Around::default();
        let mut told = Vec::new();
        for (nr, bytes) in [
            (1, Measured::Exact(1000)),
            (2, Measured::Exact(1600)),
            (3, Measured::Absent),
            (4, Measured::Exact(9000)),
            (5, Measured::Exact(9001)),
        ] {
            around.take(&llc(bytes));
            around.turn_over(Nanos::from_secs(nr), second);
            told.extend(seen(&around));
        }
        assert_eq!(told, [Some(0), Some(600), None, None, Some(1)]);
    }

    #[test]
    fn a_longer_stretch_counts_as_its_mean_interval() {
        let mut around = Around::default();
        around.take(&llc(Measured::Exact(0)));
        around.turn_over(Nanos::from_secs(1), Nanos::from_secs(1));
        around.take(&llc(Measured::Exact(400)));
        around.turn_over(Nanos::from_secs(5), Nanos::from_secs(1));
        assert_eq!(seen(&around), [Some(100)]);
    }
}
