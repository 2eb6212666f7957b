//! Estimated speedup of a program on a fast core.
//!
//! ```text
//!   time per instruction = core time (shorter on a fast core) + misses × memory latency (equal on every core)
//! ```
//!
//! The share of memory time comes from the profile of a program (its signature), or from its counters. Speedups are in
//! millionths, so that their order does not depend on rounding in other places.

use base::Bytes;
use program::Profile;
use sched::{CounterEvent, JobView, Snapshot, TaskView};
use topology::CAPACITY_MAX;

use super::CoreKinds;
use crate::declaration::MILLION;

/// Memory latency in nanoseconds, if the machine does not report it. Guessed: between the 60 to 120 ns of the machines in
/// `workloads/machines`.
const LATENCY_NS: f64 = 90.0;
/// Frequency of the fastest kind in cycles per nanosecond, if the machine does not report it. Guessed.
const GIGAHERTZ: f64 = 3.0;
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
        let value = |known: Option<f64>| known.filter(|_| uses_profile).filter(|v| 0.0 < *v);
        let cycles = profile.average(|phase| Some(phase.core_cycles_per_instruction?.value()));
        let overlap = profile.average(|phase| Some(phase.overlap?.value()));
        let (cycles, overlap) = (value(cycles).unwrap_or(1.0), value(overlap).unwrap_or(1.0));
        let of_kind = |kind: usize| {
            let cache = cache_share(snapshot, kinds, kind);
            let misses = profile.average(|phase| phase.curve.misses_at(cache))? / 1000.0;
            let speed =
                self.gigahertz * f64::from(kinds.get(kind).capacity) / f64::from(CAPACITY_MAX);
            let ns = cycles / speed + misses * self.latency_ns / overlap;
            Some((ns * 1000.0).round() as u64)
        };
        (0..kinds.len()).map(of_kind).collect()
    }

    /// Returns the speedup of a job on the fastest kind over the slowest kind in millionths, from its counters in the last
    /// interval. `None` if its LLC misses were not counted or it did not run.
    pub fn counted_speedup(
        &self,
        snapshot: &Snapshot<'_>,
        kinds: &CoreKinds,
        job: &JobView<'_>,
    ) -> Option<u64> {
        let (mut misses, mut cpu_ns) = (0u64, 0u64);
        for task in snapshot.tasks_of(job.job.id) {
            if let Some(counted) = task.counters.misses() {
                misses = misses.saturating_add(counted);
                cpu_ns = cpu_ns.saturating_add(task.cpu_time.0);
            }
        }
        if cpu_ns == 0 {
            return None;
        }
        let stall = (misses as f64 * self.latency_ns / cpu_ns as f64).min(1.0);
        Some(speedup(kinds, (stall * MILLION as f64).round() as u64))
    }
}

impl SpeedModel {
    /// Returns the CPU time of a task's work in the last interval on each kind, in nanoseconds, if it ran on the kind `on`:
    /// the core time is in inverse proportion to the capacity, the memory time is the same on every kind.
    pub fn cpu_ns(&self, kinds: &CoreKinds, task: &TaskView, on: usize) -> Vec<f64> {
        let cpu_ns = task.cpu_time.0 as f64;
        let misses = task.counters.misses().unwrap_or(0);
        let memory_ns = (misses as f64 * self.latency_ns).min(cpu_ns);
        let capacity = |kind: usize| f64::from(kinds.get(kind).capacity.max(1));
        let of_kind = |kind| memory_ns + (cpu_ns - memory_ns) * capacity(on) / capacity(kind);
        (0..kinds.len()).map(of_kind).collect()
    }
}

/// Returns the speedup for a share of memory time, both in millionths: 1 + (ratio of capacities - 1) × (1 - share).
fn speedup(kinds: &CoreKinds, stall: u64) -> u64 {
    MILLION + (kinds.capacity_ratio() - MILLION) * (MILLION - stall) / MILLION
}

/// Returns the speedup of a job without a sample or a signature: half of the largest gain.
pub(crate) fn unknown_speedup(kinds: &CoreKinds) -> u64 {
    speedup(kinds, MILLION / 2)
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
    pub misses: u64,
    pub accesses: Option<u64>,
    pub instructions: Option<u64>,
}

/// Returns the counts of tasks; `None` if none of them ran or their misses are unknown.
pub(crate) fn counts(tasks: &[TaskView]) -> Option<Counts> {
    let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    tasks.iter().filter_map(task_counts).reduce(|sum, of_task| Counts {
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
    Some(Counts { misses, accesses, instructions })
}
