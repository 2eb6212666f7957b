//! Samples of counters, `/proc` and `numa_maps` of the simulated machine.

use base::{Bytes, JobId, LlcId, Nanos, TaskId};
use sched::{
    CounterEvent, Counters, LlcSample, MonGroupSample, NodeMemory, NodeSample, NumaSettings,
    ProcessMemory, RawCounter, Sample, TaskSample, Traffic,
};

use super::{SimHost, SimJobState};
use crate::faults::FaultKind;
use crate::frame::{SimThread, TaskCounts};
use crate::variation::{RandomKey, VariationStreams};

/// Available data sources of a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Hardware counters per task.
    pub counters: bool,
    /// Counters of the memory controllers.
    pub controllers: bool,
    /// Memory of the jobs by node.
    pub memory: bool,
    /// Traffic and occupancy of LLC domains and jobs (resctrl).
    pub resctrl: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities { counters: true, controllers: true, memory: true, resctrl: false }
    }
}

/// Width of the controllers' counters in bits.
const COUNTER_BITS: u8 = 64;

/// Values in the last sample. A sample omits tasks and memory with unchanged values.
#[derive(Clone, Debug, Default)]
pub(super) struct LastReported {
    /// By number of the job.
    jobs: Vec<ReportedJob>,
    /// Number of tasks in the last interval sample, an estimate for the next one.
    n_tasks: usize,
    nodes: Vec<[f64; 2]>,
    reported_nodes: Vec<f64>,
    /// Number of samples of each node with noise.
    n_node_samples: Vec<u64>,
}

/// Threads and memory of a job.
#[derive(Clone, Debug, Default)]
struct ReportedJob {
    threads: Vec<ReportedCounts>,
    memory: Vec<u64>,
}

/// Counters of a task, with and without measurement noise.
#[derive(Clone, Copy, Debug, Default)]
struct ReportedCounts {
    actual: TaskCounts,
    reported: TaskCounts,
    cpu_time: u64,
    wait: u64,
    /// Number of samples of the task with noise.
    n_samples: u64,
}

impl LastReported {
    pub fn remove_job(&mut self, job: usize) {
        *self.job(job) = ReportedJob::default();
    }

    fn job(&mut self, job: usize) -> &mut ReportedJob {
        if self.jobs.len() <= job {
            self.jobs.resize_with(job + 1, ReportedJob::default);
        }
        &mut self.jobs[job]
    }
}

/// Nanoseconds of a clock tick, the unit of start times in `/proc` (`USER_HZ` is 100).
const CLOCK_TICK_NS: u64 = 10_000_000;

pub(super) fn id_of(task: &SimThread) -> TaskId {
    TaskId { tid: task.tid, start_time_ticks: task.started / CLOCK_TICK_NS }
}

/// Returns the counters of a task without measurement noise.
pub(super) fn counters_of(task: &SimThread) -> Counters {
    as_counters(&task.counts, task)
}

fn as_counters(counts: &TaskCounts, task: &SimThread) -> Counters {
    let mut counters = Counters::NONE;
    let mut set = |event, value| counters.set(event, RawCounter::unmultiplexed(value));
    set(CounterEvent::Cycles, counts.cycles as u64);
    set(CounterEvent::Instructions, counts.instructions as u64);
    set(CounterEvent::LlcReferences, counts.references as u64);
    set(CounterEvent::LlcMisses, counts.misses as u64);
    set(CounterEvent::LlcPrefetchMisses, counts.prefetches as u64);
    set(CounterEvent::L1dMisses, counts.l1_misses as u64);
    set(CounterEvent::MemoryStalls, counts.stalls as u64);
    set(CounterEvent::QueueFull, counts.queue_full as u64);
    set(CounterEvent::TaskClock, task.cpu_ns as u64);
    set(CounterEvent::CpuMigrations, task.n_migrations);
    counters
}

impl SimHost {
    pub(super) fn sample_settings(&mut self, sample: &mut Sample) {
        let usable = self.usable();
        sample.usable_cpus.get_or_insert(usable);
        sample.numa_settings = Some(NumaSettings {
            numa_balancing: self.settings.numa_balancing,
            interleaves: self.options.interleave,
        });
        self.sample_nodes(sample);
        self.sample_llcs(sample);
    }

    /// Samples all sources for an interval turn.
    pub(super) fn sample_all(&mut self, sample: &mut Sample) {
        self.machine.update_all();
        let is_lost = self
            .fault_injector
            .occurs(FaultKind::SamplesLost, self.fault_injector.faults.samples_lost);
        sample.tasks.reserve(self.last_reported.n_tasks);
        for idx in 0..self.slots.len() {
            if matches!(self.slots[idx].state, SimJobState::Running(_)) && !is_lost {
                self.sample_job(idx, sample);
            }
        }
        self.last_reported.n_tasks = sample.tasks.len();
        self.sample_nodes(sample);
        self.sample_llcs(sample);
    }

    /// Samples a running job before its end, so that the values since its last sample count.
    pub(super) fn final_sample(&mut self, idx: usize) {
        let mut sample = std::mem::take(&mut self.pending);
        self.sample_job(idx, &mut sample);
        self.pending = sample;
    }

    fn sample_job(&mut self, idx: usize, sample: &mut Sample) {
        let job = self.slots[idx].job.id;
        let SimJobState::Running(running) = &self.slots[idx].state else { return };
        let process = running.pid;
        let mut first = None;
        let threads = &mut self.last_reported.job(idx).threads;
        for (nth, task) in self.machine.threads_of(idx).enumerate() {
            let id = id_of(&task);
            first.get_or_insert(id);
            if threads.len() <= nth {
                threads.push(ReportedCounts::default());
            }
            let reported = &mut threads[nth];
            let (cpu_time, wait) = (task.cpu_ns as u64, task.wait_ns as u64);
            if reported.cpu_time == cpu_time && reported.wait == wait && 0 < cpu_time {
                continue;
            }
            (reported.cpu_time, reported.wait) = (cpu_time, wait);
            let is_absent = self.fault_injector.occurs(
                FaultKind::CountersAbsent(task.random_key),
                self.fault_injector.faults.counters_absent,
            );
            let counters = match self.options.capabilities.counters && !is_absent {
                true => add_noise(reported, &task, &self.variation_streams),
                false => Counters::NONE,
            };
            sample.tasks.push(TaskSample {
                task: id,
                process,
                job,
                cpu_time: Nanos(cpu_time),
                unseen_children: Nanos::ZERO,
                previous_sample_at: None,
                wait: Some(Nanos(wait)),
                last_cpu: Some(self.hardware.cpus[task.cpu].id),
                counters,
                includes_children: false,
            });
        }
        if let Some(first) = first.filter(|_| self.options.capabilities.memory) {
            self.sample_memory(idx, job, first, sample);
        }
    }

    fn sample_memory(&mut self, idx: usize, job: JobId, process: TaskId, sample: &mut Sample) {
        let now = self.machine.memory_of(idx);
        let reported = &mut self.last_reported.job(idx).memory;
        if reported == now {
            return;
        }
        let nodes = now.iter().enumerate().filter(|(_, bytes)| 0 < **bytes);
        let nodes = nodes.filter_map(|(node, bytes)| {
            let node = self.hardware.nodes[node].id?;
            Some(NodeMemory { node, small: Bytes(*bytes), ..NodeMemory::default() })
        });
        let nodes: Vec<NodeMemory> = nodes.collect();
        let at = Nanos(self.machine.now());
        if !nodes.is_empty() {
            let memory = ProcessMemory { job, process, nodes, sampled_permille: 1000, at };
            sample.memory.push(memory);
        }
        *reported = now.to_vec();
    }

    /// Samples the resctrl counters of all LLC domains, and those of the running jobs.
    fn sample_llcs(&mut self, sample: &mut Sample) {
        if !self.options.capabilities.resctrl {
            return;
        }
        let traffic = |bytes: Option<[f64; 2]>, occupied: f64| {
            let count = |idx: usize| Some(RawCounter::unmultiplexed(bytes?[idx] as u64));
            let occupancy = Some(Bytes(occupied as u64));
            Traffic { total_bytes: count(0), local_bytes: count(1), occupancy }
        };
        let caches = self.hardware.caches.iter().enumerate();
        let llcs: Vec<(usize, LlcId)> =
            caches.filter_map(|(cache, known)| Some((cache, known.id?))).collect();
        let occupied = self.machine.occupancies();
        for (idx, slot) in self.slots.iter().enumerate() {
            if !matches!(slot.state, SimJobState::Running(_)) {
                continue;
            }
            for &(cache, llc) in &llcs {
                let bytes = occupied.get(&(idx, cache)).copied().unwrap_or_default();
                let traffic = traffic(self.machine.job_traffic(idx, cache), bytes);
                sample.mon_groups.push(MonGroupSample { job: slot.job.id, llc, traffic });
            }
        }
        for (cache, llc) in llcs {
            let here = occupied.iter().filter(|((_, at), _)| *at == cache);
            let bytes = here.map(|(_, bytes)| bytes).sum();
            let traffic = traffic(self.machine.cache_traffic(cache), bytes);
            sample.llcs.push(LlcSample { llc, traffic });
        }
    }

    fn sample_nodes(&mut self, sample: &mut Sample) {
        let n_nodes = self.hardware.nodes.len();
        self.last_reported.nodes.resize(n_nodes, [0.0; 2]);
        self.last_reported.reported_nodes.resize(n_nodes, 0.0);
        self.last_reported.n_node_samples.resize(n_nodes, 0);
        for node in 0..n_nodes {
            let Some(id) = self.hardware.nodes[node].id else { continue };
            let lines = self.machine.lines(node);
            let before = &mut self.last_reported.nodes[node];
            let delta = lines[0] - before[0] + lines[1] - before[1];
            *before = lines;
            // A sample without accesses is not counted, so that the noise does not depend on when the node was idle.
            self.last_reported.n_node_samples[node] += u64::from(0.0 < delta);
            let mut noise = self.variation_streams.counter_noise(
                RandomKey::default().part(node as u64),
                self.last_reported.n_node_samples[node],
            );
            self.last_reported.reported_nodes[node] += delta * noise.next();
            let is_counted = self.options.capabilities.controllers;
            let count = |value: f64| is_counted.then(|| RawCounter::unmultiplexed(value as u64));
            sample.nodes.push(NodeSample {
                node: id,
                memory_free: Some(Bytes(self.machine.memory_free(node))),
                memory_reclaimable: Some(Bytes(self.machine.memory_reclaimable(node)))
                    .filter(|bytes| bytes.0 != 0),
                controller_ops: count(self.last_reported.reported_nodes[node]),
                counter_bits: if is_counted { COUNTER_BITS } else { 0 },
                read_bytes: count(lines[0] * base::LINE_BYTES as f64),
                written_bytes: count(lines[1] * base::LINE_BYTES as f64),
            });
        }
    }
}

/// Returns the counters of a task with the noise of all samples. Each increment has a random relative error.
fn add_noise(
    reported: &mut ReportedCounts,
    task: &SimThread,
    variation: &VariationStreams,
) -> Counters {
    reported.n_samples += 1;
    let mut noise = variation.counter_noise(task.random_key, reported.n_samples);
    let (now, before) = (&task.counts, &reported.actual);
    let mut add = |reported: &mut f64, now: f64, before: f64| {
        *reported += (now - before) * noise.next();
    };
    let totals = &mut reported.reported;
    add(&mut totals.instructions, now.instructions, before.instructions);
    add(&mut totals.cycles, now.cycles, before.cycles);
    add(&mut totals.references, now.references, before.references);
    add(&mut totals.misses, now.misses, before.misses);
    add(&mut totals.prefetches, now.prefetches, before.prefetches);
    add(&mut totals.l1_misses, now.l1_misses, before.l1_misses);
    add(&mut totals.queue_full, now.queue_full, before.queue_full);
    add(&mut totals.stalls, now.stalls, before.stalls);
    reported.actual = task.counts;
    as_counters(&reported.reported, task)
}
