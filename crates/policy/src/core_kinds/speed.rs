//! Estimated speedup of a program on a fast core.
//!
//! ```text
//!   time per instruction = core time (shorter on a fast core) + misses × memory latency (equal on every core)
//! ```
//!
//! The share of memory time comes from the profile of a program (its signature), or from its counters. Speedups are in
//! millionths, so that their order does not depend on rounding in other places.

use std::collections::BTreeMap;

use base::{Bytes, Nanos, NodeId};
use program::Profile;
use sched::{CounterEvent, NodeView, Snapshot, TaskView};
use topology::{CAPACITY_MAX, MemoryAccess};

use super::{CoreKind, CoreKinds};
use crate::declaration::MILLION;

/// Memory latency in nanoseconds, if the machine does not report it. Guessed: between the 60 to 120 ns of the machines in
/// `workloads/machines`.
const LATENCY_NS: f64 = 90.0;
/// Frequency of the fastest kind in cycles per nanosecond, if the machine does not report it. Guessed.
const GIGAHERTZ: f64 = 3.0;
/// Memory share on the fastest kind of a job without a sample or a signature (chosen).
pub(crate) const UNKNOWN_SHARE: f64 = 0.5;
/// Size of a core's share of the last-level cache, if the machine does not report its caches. Guessed.
const CACHE_SHARE: Bytes = Bytes::from_mib(2);

/// Values of the machine that speeds depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpeedModel {
    latency_ns: f64,
    /// Frequency of the fastest kind in cycles per nanosecond.
    gigahertz: f64,
}

impl SpeedModel {
    pub fn new(snapshot: &Snapshot<'_>, kinds: &CoreKinds) -> Self {
        let attributes = snapshot.machine.perf_attributes();
        let local = attributes.accesses.iter().filter(|access| access.from == access.to);
        let latency = local.filter_map(|access| access.latency_ns).map(|ns| ns.value).min();
        let fastest = kinds.iter().next().and_then(|kind| attributes.kinds.get(&kind.name));
        let mhz = fastest.and_then(|kind| kind.frequency_mhz).map(|mhz| mhz.value as f64);
        SpeedModel {
            latency_ns: latency.map_or(LATENCY_NS, |ns| ns as f64),
            gigahertz: mhz.map_or(GIGAHERTZ, |mhz| mhz / 1000.0),
        }
    }

    /// Returns the time per instruction of a program on each kind, in picoseconds; `None` without a miss-ratio curve.
    ///
    /// One core cycle per instruction and one outstanding miss; with `uses_profile` both values are those of the profile,
    /// if it has them.
    pub fn picoseconds(
        &self,
        snapshot: &Snapshot<'_>,
        kinds: &CoreKinds,
        profile: &Profile,
        uses_profile: bool,
    ) -> Option<Vec<u64>> {
        let of_kind = |kind: usize| {
            let (core_ns, memory_ns) =
                self.profiled_ns(snapshot, kinds, profile, (kind, uses_profile))?;
            Some(((core_ns + memory_ns) * 1000.0).round() as u64)
        };
        (0..kinds.len()).map(of_kind).collect()
    }

    /// Returns the core time and the memory time per instruction on a kind in nanoseconds.
    fn profiled_ns(
        &self,
        snapshot: &Snapshot<'_>,
        kinds: &CoreKinds,
        profile: &Profile,
        (kind, uses_profile): (usize, bool),
    ) -> Option<(f64, f64)> {
        let value = |known: Option<f64>| known.filter(|_| uses_profile).filter(|v| 0.0 < *v);
        let overlap = profile.average(|phase| Some(phase.overlap?.value()));
        let (cycles, overlap) =
            (value(core_cycles(profile)).unwrap_or(1.0), value(overlap).unwrap_or(1.0));
        let cache = cache_share(snapshot, kinds, kind);
        let misses = profile.average(|phase| phase.curve.misses_at(cache))? / 1000.0;
        Some((cycles / self.speed(kinds.get(kind)), misses * self.latency_ns / overlap))
    }

    /// Returns the share of memory time of a program on the fastest kind; `None` without a miss-ratio curve.
    pub fn share_of_profile(
        &self,
        snapshot: &Snapshot<'_>,
        kinds: &CoreKinds,
        profile: &Profile,
    ) -> Option<f64> {
        let (core_ns, memory_ns) = self.profiled_ns(snapshot, kinds, profile, (0, true))?;
        Some(memory_ns / (core_ns + memory_ns))
    }

    /// Returns the share of memory time in the CPU time of tasks in the last interval: misses × latency. `None` if their
    /// LLC misses were not counted or they did not run.
    pub fn memory_share(&self, tasks: &[TaskView]) -> Option<f64> {
        let counts = counts(tasks)?;
        Some((counts.misses as f64 * self.latency_ns / counts.cpu_time.0 as f64).min(1.0))
    }

    /// As [`SpeedModel::memory_share`], for a program with a profile: the CPU time without the core time of the
    /// instructions on a kind, which busy siblings slow down. Unlike misses × latency, it contains the wait for a busy memory
    /// controller.
    pub fn profiled_memory_share(
        &self,
        tasks: &[TaskView],
        profile: &Profile,
        (kind, smt_slowdown): (&CoreKind, f64),
    ) -> Option<f64> {
        let (counts, cycles) = (counts(tasks)?, core_cycles(profile)?);
        let cycles = counts.instructions? as f64 * cycles;
        let core_ns = cycles / self.speed(kind) * smt_slowdown;
        Some((1.0 - core_ns / counts.cpu_time.0 as f64).clamp(0.0, 1.0))
    }

    /// Returns the core cycles of a kind per nanosecond, in cycles of the fastest kind.
    fn speed(&self, kind: &CoreKind) -> f64 {
        self.gigahertz * f64::from(kind.capacity) / f64::from(CAPACITY_MAX)
    }
}

/// Returns the core cycles per instruction of a program, if they are known.
fn core_cycles(profile: &Profile) -> Option<f64> {
    profile.average(|phase| Some(phase.core_cycles_per_instruction?.value()))
}

/// Returns the time of work on each kind relative to its time on the fastest kind, of which `memory_share` is memory time.
pub(crate) fn relative_times(kinds: &CoreKinds, memory_share: f64) -> Vec<f64> {
    kinds.iter().map(|kind| relative_time(kinds.get(0), kind, memory_share)).collect()
}

/// Returns the time of work on a kind relative to its time on the fastest kind, of which `memory_share` is memory time: the
/// core time is in inverse proportion to the capacity, the memory time is the same on every kind.
pub(crate) fn relative_time(fastest: &CoreKind, kind: &CoreKind, memory_share: f64) -> f64 {
    let core_time = f64::from(fastest.capacity) / f64::from(kind.capacity.max(1));
    memory_share + (1.0 - memory_share) * core_time
}

/// Returns the share of memory time of work alone on the fastest kind, of which the share was `memory_share` on a kind where
/// busy siblings slow its core time down.
pub(crate) fn share_on_fastest(
    kinds: &CoreKinds,
    memory_share: f64,
    (kind, smt_slowdown): (usize, f64),
) -> f64 {
    let core_time = f64::from(kinds.get(kind).capacity) / f64::from(kinds.get(0).capacity.max(1));
    let time = memory_share + (1.0 - memory_share) * core_time / smt_slowdown;
    if time == 0.0 { 0.0 } else { memory_share / time }
}

/// Returns the share of the achievable bandwidth that each node's memory controller had in the last interval; empty if the
/// controllers are not counted or the machine does not report their bandwidth.
pub(crate) fn memory_utilization(snapshot: &Snapshot<'_>) -> BTreeMap<NodeId, f64> {
    let accesses = &snapshot.machine.perf_attributes().accesses;
    let of_node = |node| bandwidth_share(accesses, node, snapshot.interval);
    snapshot.nodes.iter().filter_map(|node| Some((node.node, of_node(node)?))).collect()
}

/// Returns the share of its achievable bandwidth that the memory controller of a node had in an interval.
fn bandwidth_share(accesses: &[MemoryAccess], node: &NodeView, interval: Nanos) -> Option<f64> {
    let local = accesses.iter().find(|a| (a.from, a.to) == (node.node, node.node))?;
    let permille = local.achievable_permille.map_or(1000, |permille| permille.value);
    let achievable = local.bandwidth_bytes_per_s?.value as f64 * permille as f64 / 1000.0;
    let bytes = node.controller_ops? as f64 * base::LINE_BYTES as f64;
    Some(bytes / interval.as_secs_f64() / achievable).filter(|share| share.is_finite())
}

/// Returns the speedup for a share of memory time alone on the fastest kind: the time on the slowest kind relative to
/// the fastest, in millionths.
pub(crate) fn speedup(kinds: &CoreKinds, memory_share: f64) -> u64 {
    let slowest = relative_times(kinds, memory_share).last().copied().unwrap_or(1.0);
    (slowest * MILLION as f64).round() as u64
}

/// Returns the speedup of a job without a sample or a signature: half of the largest gain.
pub(crate) fn unknown_speedup(kinds: &CoreKinds) -> u64 {
    speedup(kinds, UNKNOWN_SHARE)
}

/// Returns an equal share of the last-level cache of a kind's first CPU.
pub(crate) fn cache_share(snapshot: &Snapshot<'_>, kinds: &CoreKinds, kind: usize) -> Bytes {
    let machine = snapshot.machine;
    let first = kinds.get(kind).cpus.first().and_then(|cpu| machine.cpu(cpu));
    let share = first.and_then(|cpu| machine.llc(cpu.llc?)).and_then(|llc| {
        let cores = machine.cores().iter().filter(|core| core.cpus.intersects(&llc.cpus)).count();
        Some(Bytes(llc.size?.0 / cores.max(1) as u64))
    });
    share.unwrap_or(CACHE_SHARE)
}

/// Misses, accesses and instructions of a job or thread in the last interval, over the tasks whose misses are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Above 0.
    pub cpu_time: Nanos,
    pub misses: u64,
    pub accesses: Option<u64>,
    pub instructions: Option<u64>,
}

impl Counts {
    /// Returns the misses per millisecond of CPU time.
    pub fn misses_per_ms(self) -> u64 {
        let misses = u128::from(self.misses) * 1_000_000 / u128::from(self.cpu_time.0);
        u64::try_from(misses).unwrap_or(u64::MAX).min(u64::from(u32::MAX))
    }
}

/// Returns the counts of tasks; `None` if none of them ran or their misses are unknown.
pub(crate) fn counts(tasks: &[TaskView]) -> Option<Counts> {
    let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    tasks.iter().filter_map(task_counts).reduce(|sum, of_task| Counts {
        cpu_time: sum.cpu_time.saturating_add(of_task.cpu_time),
        misses: sum.misses.saturating_add(of_task.misses),
        accesses: add(sum.accesses, of_task.accesses),
        instructions: add(sum.instructions, of_task.instructions),
    })
}

/// Returns the counts of a task; `None` if it did not run or its misses are unknown.
fn task_counts(task: &TaskView) -> Option<Counts> {
    let misses = task.counters.misses().filter(|_| task.cpu_time.0 != 0)?;
    let count = |event| task.counters.get(event);
    let (accesses, instructions) =
        (count(CounterEvent::LlcReferences), count(CounterEvent::Instructions));
    Some(Counts { cpu_time: task.cpu_time, misses, accesses, instructions })
}

#[cfg(test)]
mod tests {
    use base::{JobId, NodeId, TaskId};
    use program::profile::{Phase, ProfileValue, ValueSource};
    use sched::CounterDeltas;
    use topology::{AttributeSource, SourcedValue};

    use super::*;

    /// Returns a task that executed a million instructions with this many misses in 1 ms.
    fn task(misses: u64) -> TaskView {
        let counters = CounterDeltas::default()
            .with(CounterEvent::Instructions, 1_000_000)
            .with(CounterEvent::LlcMisses, misses);
        TaskView {
            task: TaskId { tid: 1, start_time_ticks: 1 },
            process: 1,
            job: JobId(0),
            cpu_time: Nanos::from_millis(1),
            wait: None,
            last_cpu: None,
            counters,
        }
    }

    #[test]
    fn the_memory_share_is_misses_by_latency_or_the_time_without_the_core_time_of_the_profile() {
        let model = SpeedModel { latency_ns: 100.0, gigahertz: 2.0 };
        assert_eq!(model.memory_share(&[task(3000)]), Some(0.3));
        assert_eq!(model.memory_share(&[task(30_000)]), Some(1.0));
        assert_eq!(model.memory_share(&[]), None);
        // 0.8 core cycles per instruction at 2 GHz are 0.4 ms, beside a busy sibling 1.6 times as long.
        let cycles = ProfileValue::new(0.8, ValueSource::Declared);
        let phase = Phase { core_cycles_per_instruction: cycles, ..Default::default() };
        let profile = Profile { phases: vec![phase], ..Profile::default() };
        let kind = CoreKind::test(1024, "0-3", 2, 1250);
        let share = |n_tasks| {
            let smt = kind.smt_slowdown(n_tasks);
            let share = model.profiled_memory_share(&[task(0)], &profile, (&kind, smt));
            (share.expect("all values are known"), smt)
        };
        assert!((share(1).0 - 0.6).abs() < 1e-12);
        let (beside, smt) = share(4);
        assert!((beside - 0.36).abs() < 1e-12);
        // Alone, the share of the same work is that without siblings.
        let kinds = CoreKinds::test(vec![kind.clone()]);
        let alone = share_on_fastest(&kinds, beside, (0, smt));
        assert!((alone - 0.36 / 0.76).abs() < 1e-12);
    }

    #[test]
    fn the_utilization_is_that_of_the_achievable_bandwidth() {
        let known = |value| Some(SourcedValue { value, source: AttributeSource::Assumed });
        let mut local = MemoryAccess::unknown(NodeId(0), NodeId(0));
        let node = NodeView {
            node: NodeId(0),
            memory_free: None,
            memory_reclaimable: None,
            memory_total: None,
            controller_ops: Some(1_000_000),
            read_bytes: None,
            written_bytes: None,
        };
        let share = |local: &MemoryAccess, ms| {
            bandwidth_share(std::slice::from_ref(local), &node, Nanos::from_millis(ms))
        };
        assert_eq!(share(&local, 1), None, "an unknown bandwidth");
        (local.bandwidth_bytes_per_s, local.achievable_permille) =
            (known(128_000_000_000), known(500));
        // 64 MB in 2 ms are 32 of 64 GB/s.
        assert_eq!(share(&local, 2), Some(0.5));
        assert_eq!(share(&local, 0), None, "no interval");
    }

    #[test]
    fn core_time_depends_on_the_capacity_and_memory_time_does_not() {
        let kinds = [CoreKind::test(1024, "0", 1, 1000), CoreKind::test(512, "1", 1, 1000)];
        let kinds = CoreKinds::test(kinds.to_vec());
        assert_eq!(relative_times(&kinds, 0.0), [1.0, 2.0]);
        assert_eq!(relative_times(&kinds, 1.0), [1.0, 1.0]);
        assert_eq!(relative_times(&kinds, 0.5), [1.0, 1.5]);
        assert_eq!(speedup(&kinds, 0.5), 1_500_000);
        // Half of the time on the fastest kind is a third of the time on a kind of half the capacity.
        assert!((share_on_fastest(&kinds, 1.0 / 3.0, (1, 1.0)) - 0.5).abs() < 1e-12);
        assert_eq!(share_on_fastest(&kinds, 0.3, (0, 1.0)), 0.3);
    }
}
