//! Task and memory placement metrics from the journal of a run. A real and a simulated kernel have the same metrics.
//!
//! ```text
//!   between two samples, per task:  ran + waited = runnable time       on the CPU of the last sample
//!   over all tasks:                 Σ ran, Σ waited;  CPUs − Σ ran = idle
//! ```
//!
//! Metrics of an interval are weighted by its length. A task that runs only between two samples has no sampled
//! location. A task that migrates away and back between two samples counts as not migrated.
//!
//! The location of memory is the location in the last sample. Samples are in the journal or, if present, in the more
//! frequent samples of [`super::node_pages`].

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use anyhow::Context;
use base::{CpuId, JobId, Nanos, NodeId, TaskId};
use journal::RecordedTurn;
use sched::{Cause, JobEvent, JobExit, NodeMemory, TaskSample};
use topology::Machine;

use super::node_pages::{self, NodePagesSample};
use super::scenarios::{KernelScenario, WARM_UP_S};

/// Clock ticks per second of task start times.
const TICKS_PER_S: f64 = 100.0;
/// Share of local memory at which a program counts as local.
const LOCAL_SHARE_MIN: f64 = 0.9;
/// Minimum memory of a program that has allocated its buffer.
const ALLOCATED_BYTES_MIN: u64 = 32 << 20;

/// Metrics of one run by name, in the order of the tables.
pub type Metrics = Vec<(&'static str, f64)>;

/// A run in the guest or in the simulator.
pub struct KernelRun {
    pub metrics: Metrics,
    /// Job start times in seconds since the start of the run, by job number.
    pub starts_s: Vec<f64>,
    /// CPU of the first job in its first sample.
    pub first_cpu: Option<CpuId>,
    /// The machine at the start of the run.
    pub machine: Machine,
}

/// Reads the run in a directory. If jobs are endless, only the time in which all jobs of the first kind run counts.
pub fn read(scenario: &KernelScenario, dir: &Path) -> anyhow::Result<KernelRun> {
    let journal = dir.join("journal.jsonl");
    let mut recording =
        journal::read(&journal).with_context(|| format!("cannot read {}", journal.display()))?;
    let header = recording.header();
    let kinds = header.jobs.iter().map(|job| kind(&job.name).to_owned()).collect();
    let mut totals = RunTotals::new(header.machine.clone(), kinds);
    totals.from_s = if scenario.is_endless() { WARM_UP_S } else { 0.0 };
    totals.half_s = (totals.from_s + f64::from(scenario.ends_s)) / 2.0;
    totals.memory_samples = node_pages::read(dir)?.into();
    totals.has_memory_samples = !totals.memory_samples.is_empty();
    for turn in recording.by_ref() {
        totals.turn(&turn.with_context(|| format!("in {}", journal.display()))?);
    }
    let metrics = totals.metrics(scenario.is_endless(), scenario.has_memory());
    let RunTotals { starts_s, first_cpu, machine, .. } = totals;
    Ok(KernelRun { metrics, starts_s, first_cpu, machine })
}

/// Returns the kind of a job: copies are named `name-0`, `name-1`, `name-2`.
fn kind(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// Last sample of a task.
#[derive(Clone, Copy, Debug)]
struct LastSample {
    ran: Nanos,
    waited: Nanos,
    cpu: Option<CpuId>,
}

/// Sums over a run.
struct RunTotals {
    machine: Machine,
    /// Kind of each job, by number.
    kinds: Vec<String>,
    /// Samples before this time do not count.
    from_s: f64,
    /// Middle of the counted time.
    half_s: f64,
    /// Whether an endless job of the first kind has ended; later samples then do not count.
    is_over: bool,
    sampled_at: Nanos,
    tasks: BTreeMap<TaskId, LastSample>,
    /// Job of each PID.
    jobs: BTreeMap<u32, JobId>,
    memory: BTreeMap<JobId, BytesByNode>,
    /// Memory samples that are not processed yet.
    memory_samples: VecDeque<NodePagesSample>,
    has_memory_samples: bool,
    /// Offset from seconds since boot to seconds of the run, from start times of tasks.
    since_boot_s: f64,
    starts_s: Vec<f64>,
    first_cpu: Option<CpuId>,
    end: Nanos,
    /// Shortest and longest wall time of the first kind of jobs.
    wall_s: Option<(f64, f64)>,
    /// CPU time of each job, by number.
    cpu_s: Vec<f64>,
    sums: RunSums,
}

/// Sums over the counted intervals, in seconds unless stated otherwise.
#[derive(Default)]
struct RunSums {
    /// Duration of intervals with runnable tasks.
    time: f64,
    ran: f64,
    waited: f64,
    /// Idle time of CPUs while at least as many tasks waited.
    lost: f64,
    /// Runnable tasks × time: maximum minus minimum over the nodes.
    imbalance: f64,
    /// The same over the cores, and over the CPUs.
    core_imbalance: f64,
    cpu_imbalance: f64,
    /// Tasks that share a core × time, while as many cores of the node are idle.
    crowded: f64,
    /// Migrations within a node and between nodes, in tasks.
    migrations: [f64; 2],
    /// Time of programs with memory in both halves of the run.
    with_memory: [f64; 2],
    /// Time of these programs × the share of memory on the node of the program.
    local: [f64; 2],
    /// Time of these programs × the share of memory on remote nodes at the smallest distance.
    near: f64,
    /// Time of these programs × the share of memory on all other remote nodes.
    far: f64,
    /// Time with less than 90 % local memory, and the number of these periods.
    away: f64,
    n_away: f64,
    moved_bytes: u64,
}

/// Memory of a job, by node.
#[derive(Clone, Debug, Default)]
struct BytesByNode {
    /// Bytes by index of the node.
    bytes: Vec<u64>,
    is_away: bool,
}

impl RunTotals {
    fn new(machine: Machine, kinds: Vec<String>) -> Self {
        RunTotals {
            machine,
            starts_s: vec![0.0; kinds.len()],
            cpu_s: vec![0.0; kinds.len()],
            kinds,
            from_s: 0.0,
            half_s: f64::INFINITY,
            is_over: false,
            sampled_at: Nanos::ZERO,
            tasks: BTreeMap::new(),
            jobs: BTreeMap::new(),
            memory: BTreeMap::new(),
            memory_samples: VecDeque::new(),
            has_memory_samples: false,
            since_boot_s: f64::INFINITY,
            first_cpu: None,
            end: Nanos::ZERO,
            wall_s: None,
            sums: RunSums::default(),
        }
    }

    fn turn(&mut self, recorded: &RecordedTurn) {
        let at = recorded.turn.at;
        for event in &recorded.sample.jobs {
            if let JobEvent::Ended(job, exit) = event {
                self.end = self.end.max(at);
                self.ended(at, *job, exit);
            }
        }
        if !self.has_memory_samples {
            for memory in &recorded.sample.memory {
                self.record_memory(memory.job, &memory.nodes);
            }
        }
        if recorded.turn.causes.contains(&Cause::Interval) {
            self.sample(at, &recorded.sample.tasks);
        }
    }

    fn ended(&mut self, at: Nanos, job: JobId, exit: &JobExit) {
        self.is_over |= 0.0 < self.from_s && self.kinds[job.index()] == self.kinds[0];
        self.starts_s[job.index()] = at.saturating_sub(exit.wall).as_secs_f64();
        if self.kinds[job.index()] == self.kinds[0] && !exit.stopped_by_host {
            let wall_s = exit.wall.as_secs_f64();
            let (shortest, longest) = self.wall_s.unwrap_or((wall_s, wall_s));
            self.wall_s = Some((shortest.min(wall_s), longest.max(wall_s)));
        }
    }

    fn sample(&mut self, at: Nanos, tasks: &[TaskSample]) {
        self.take_memory_samples(at, tasks);
        let passed_s = at.saturating_sub(std::mem::replace(&mut self.sampled_at, at)).as_secs_f64();
        let counts = self.from_s <= at.as_secs_f64() - passed_s && !self.is_over;
        let (mut ran_s, mut waited_s) = (0.0, 0.0);
        let mut by_node = vec![0.0; self.machine.nodes().len()];
        let mut by_cpu = BTreeMap::new();
        for task in tasks {
            if task.job == JobId(0) {
                self.first_cpu = self.first_cpu.or(task.last_cpu);
            }
            let (ran, waited) = self.task_delta(task, counts);
            ran_s += ran;
            waited_s += waited;
            if counts {
                self.cpu_s[task.job.index()] += ran;
            }
            if let Some(cpu) = task.last_cpu {
                *by_cpu.entry(cpu).or_insert(0.0) += ran + waited;
            }
            if let Some(node) = task.last_cpu.and_then(|cpu| self.node_of(cpu)) {
                by_node[node] += ran + waited;
                if counts {
                    self.add_memory_time(task.job, node, at.as_secs_f64(), passed_s);
                }
            }
        }
        if !counts || passed_s <= 0.0 || ran_s + waited_s <= 0.0 {
            return;
        }
        let idle = (self.machine.cpus().len() as f64 - ran_s / passed_s).max(0.0);
        let (min, max) = min_and_max(by_node.into_iter());
        self.sums.imbalance += max - min;
        self.add_cores(&by_cpu, passed_s);
        self.sums.lost += idle.min(waited_s / passed_s) * passed_s;
        self.sums.time += passed_s;
        self.sums.ran += ran_s;
        self.sums.waited += waited_s;
    }

    /// Adds the runnable tasks × time of each CPU in an interval to the sums over the cores.
    fn add_cores(&mut self, by_cpu: &BTreeMap<CpuId, f64>, passed_s: f64) {
        let of_cpu = |cpu: CpuId| by_cpu.get(&cpu).copied().unwrap_or(0.0);
        let cores = self.machine.cores();
        let by_core: Vec<f64> =
            cores.iter().map(|core| core.cpus.iter().map(of_cpu).sum()).collect();
        let (min, max) = min_and_max(by_core.iter().copied());
        self.sums.core_imbalance += max - min;
        let (min, max) = min_and_max(self.machine.cpus().iter().map(|cpu| of_cpu(cpu.id)));
        self.sums.cpu_imbalance += max - min;
        for node in self.machine.nodes() {
            let of_node =
                cores.iter().zip(&by_core).filter(|(core, _)| core.cpus.intersects(&node.cpus));
            let (over, idle) = of_node.fold((0.0, 0.0), |(over, idle), (_, tasks_s)| {
                (over + (tasks_s - passed_s).max(0.0), idle + (passed_s - tasks_s).max(0.0))
            });
            self.sums.crowded += f64::min(over, idle);
        }
    }

    /// Processes the memory samples up to `at`.
    fn take_memory_samples(&mut self, at: Nanos, tasks: &[TaskSample]) {
        let at_s = at.as_secs_f64();
        for task in tasks {
            let start_s = task.task.start_time_ticks as f64 / TICKS_PER_S;
            self.since_boot_s = self.since_boot_s.min(at_s - start_s);
            self.jobs.insert(task.process, task.job);
        }
        let is_past = |sample: &&NodePagesSample| sample.at_s + self.since_boot_s <= at_s;
        let n_past = self.memory_samples.iter().take_while(is_past).count();
        for sample in self.memory_samples.drain(..n_past).collect::<Vec<_>>() {
            if let Some(&job) = self.jobs.get(&sample.pid) {
                self.record_memory(job, &sample.nodes);
            }
        }
    }

    /// Records the memory of a job; each job has one process.
    fn record_memory(&mut self, job: JobId, found: &[NodeMemory]) {
        let nodes = self.machine.nodes().iter();
        let now: Vec<u64> = nodes.map(|node| private_bytes(found, node.id)).collect();
        let memory = self.memory.entry(job).or_default();
        let before = std::mem::replace(&mut memory.bytes, now);
        let gains = |from: &[u64], to: &[u64]| -> u64 {
            from.iter().zip(to).map(|(from, to)| to.saturating_sub(*from)).sum()
        };
        self.sums.moved_bytes += gains(&before, &memory.bytes).min(gains(&memory.bytes, &before));
    }

    /// Adds the time `passed_s` of a program on a node, up to `at_s`.
    fn add_memory_time(&mut self, job: JobId, node: usize, at_s: f64, passed_s: f64) {
        let nodes = self.machine.nodes();
        let distance = |other: usize| {
            let distance = nodes[node].distances.get(&nodes[other].id);
            distance.copied().unwrap_or(topology::DISTANCE_LOCAL)
        };
        let other_nodes = || (0..nodes.len()).filter(|&other| other != node);
        let nearest = other_nodes().map(distance).min();
        let Some(memory) = self.memory.get_mut(&job) else { return };
        let total: u64 = memory.bytes.iter().sum();
        if total < ALLOCATED_BYTES_MIN {
            return;
        }
        let share = |bytes: u64| bytes as f64 / total as f64;
        let is_near = |other: &usize| Some(distance(*other)) == nearest;
        let local = share(memory.bytes[node]);
        let near = share(other_nodes().filter(is_near).map(|other| memory.bytes[other]).sum());
        let half = usize::from(self.half_s < at_s);
        self.sums.with_memory[half] += passed_s;
        self.sums.local[half] += local * passed_s;
        self.sums.near += near * passed_s;
        self.sums.far += (1.0 - local - near) * passed_s;
        let is_away = local < LOCAL_SHARE_MIN;
        let was_away = std::mem::replace(&mut memory.is_away, is_away);
        self.sums.n_away += if is_away && !was_away { 1.0 } else { 0.0 };
        self.sums.away += if is_away { passed_s } else { 0.0 };
    }

    /// Returns the seconds that a task ran and waited since its last sample. Counts migrations.
    fn task_delta(&mut self, task: &TaskSample, counts: bool) -> (f64, f64) {
        let waited = task.wait.unwrap_or_default();
        let now = LastSample { ran: task.cpu_time, waited, cpu: task.last_cpu };
        let start = LastSample { ran: Nanos::ZERO, waited: Nanos::ZERO, cpu: now.cpu };
        let last = self.tasks.insert(task.task, now).unwrap_or(start);
        if let (Some(from), Some(to)) = (last.cpu, now.cpu)
            && from != to
            && counts
        {
            self.sums.migrations[usize::from(self.node_of(from) != self.node_of(to))] += 1.0;
        }
        let seconds = |now: Nanos, last: Nanos| now.saturating_sub(last).as_secs_f64();
        (seconds(now.ran, last.ran), seconds(now.waited, last.waited))
    }

    /// Returns the index of the node of a CPU.
    fn node_of(&self, cpu: CpuId) -> Option<usize> {
        let node = self.machine.cpu(cpu)?.node?;
        self.machine.nodes().iter().position(|known| known.id == node)
    }

    fn metrics(&self, is_endless: bool, has_memory: bool) -> Metrics {
        let sums = &self.sums;
        let runnable = sums.ran + sums.waited;
        let mut metrics = match is_endless {
            true => {
                let jobs = self.kinds.iter().zip(&self.cpu_s);
                let first = jobs.filter(|(kind, _)| **kind == self.kinds[0]);
                let (min, max) = min_and_max(first.map(|(_, cpu_s)| *cpu_s));
                vec![("most / least CPU time", ratio(max, min))]
            }
            false => vec![
                (MAKESPAN, self.end.as_secs_f64()),
                ("longest / shortest job", self.wall_s.map_or(1.0, |(min, max)| ratio(max, min))),
            ],
        };
        metrics.extend([
            ("wait time / runnable time", ratio(sums.waited, runnable)),
            ("idle CPUs while tasks wait", ratio(sums.lost, sums.time)),
            ("tasks per node, max - min", ratio(sums.imbalance, sums.time)),
            ("migrations/s within a node", ratio(sums.migrations[0], runnable)),
            ("  between nodes", ratio(sums.migrations[1], runnable)),
        ]);
        if self.machine.cores().iter().any(|core| 1 < core.cpus.iter().count()) {
            metrics.extend([
                ("tasks per core, max - min", ratio(sums.core_imbalance, sums.time)),
                ("tasks per CPU, max - min", ratio(sums.cpu_imbalance, sums.time)),
                ("tasks beside idle cores", ratio(sums.crowded, sums.time)),
            ]);
        }
        if has_memory {
            let with_memory = sums.with_memory.iter().sum();
            metrics.extend([
                ("local memory, first half", ratio(sums.local[0], sums.with_memory[0])),
                ("  second half", ratio(sums.local[1], sums.with_memory[1])),
                ("  on nearest remote nodes", ratio(sums.near, with_memory)),
                ("  on other remote nodes", ratio(sums.far, with_memory)),
                ("periods with remote memory", sums.n_away),
                ("  seconds each", ratio(sums.away, sums.n_away)),
                ("MiB migrated", sums.moved_bytes as f64 / 1_048_576.0),
            ]);
        }
        metrics
    }
}

/// Name of the makespan, the first metric of jobs that end.
pub const MAKESPAN: &str = "makespan, s";

fn min_and_max(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(min, max), value| (min.min(value), max.max(value)))
}

/// Divides two sums. Returns 0 for an empty sum.
fn ratio(value: f64, sum: f64) -> f64 {
    if 0.0 < sum { value / sum } else { 0.0 }
}

fn private_bytes(found: &[NodeMemory], node: NodeId) -> u64 {
    found.iter().filter(|memory| memory.node == node).map(|memory| memory.private_bytes().0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32, ran_ms: u64, waited_ms: u64, cpu: u32) -> TaskSample {
        let task = TaskId { tid, start_time_ticks: 0 };
        TaskSample {
            process: tid,
            cpu_time: Nanos::from_millis(ran_ms),
            wait: Some(Nanos::from_millis(waited_ms)),
            last_cpu: Some(CpuId(cpu)),
            ..TaskSample::new(task, JobId(0))
        }
    }

    fn memory(node: u32, mib: u64) -> NodeMemory {
        let small = base::Bytes::from_mib(mib);
        NodeMemory { node: NodeId(node), small, ..NodeMemory::default() }
    }

    fn totals() -> RunTotals {
        let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
        RunTotals::new(machine, vec!["a".to_owned()])
    }

    fn values(totals: &RunTotals, names: &[&str]) -> Vec<f64> {
        let metrics: BTreeMap<_, _> = totals.metrics(true, true).into_iter().collect();
        names.iter().map(|name| metrics[name]).collect()
    }

    #[test]
    fn idle_cpus_and_node_imbalance_follow_from_run_and_wait_times() {
        let mut totals = totals();
        // Two tasks share CPU 0 for one second; then one task migrates to the other node.
        totals.sample(Nanos::from_secs(1), &[task(1, 500, 500, 0), task(2, 500, 500, 0)]);
        totals.sample(Nanos::from_secs(2), &[task(1, 1500, 500, 0), task(2, 1500, 500, 2)]);
        let names = [
            "idle CPUs while tasks wait", // The task ran for one of two seconds.
            "tasks per node, max - min",
            "wait time / runnable time",
            "migrations/s within a node",
            "  between nodes",
        ];
        assert_eq!(values(&totals, &names), [0.5, 1.0, 0.25, 0.0, 0.25]);
    }

    #[test]
    fn tasks_that_share_a_core_count_while_a_core_of_the_node_is_idle() {
        let machine = Machine::synthetic("cores=2 smt=2").expect("a machine");
        let mut totals = RunTotals::new(machine, vec!["a".to_owned()]);
        // Two siblings of core 0 are busy for one second; then one task is on core 1 (CPUs 2 and 3).
        totals.sample(Nanos::from_secs(1), &[task(1, 1000, 0, 0), task(2, 1000, 0, 1)]);
        totals.sample(Nanos::from_secs(2), &[task(1, 2000, 0, 0), task(2, 2000, 0, 2)]);
        let names =
            ["tasks per core, max - min", "tasks per CPU, max - min", "tasks beside idle cores"];
        assert_eq!(values(&totals, &names), [1.0, 1.0, 0.5]);
    }

    #[test]
    fn a_program_is_remote_until_90_percent_of_its_memory_is_local() {
        let mut totals = RunTotals { half_s: 2.0, ..totals() };
        // The program is local for one second, remote for two seconds (CPU 2 is on node 1), and local for one second
        // after most of its memory migrated.
        totals.record_memory(JobId(0), &[memory(0, 64)]);
        totals.sample(Nanos::from_secs(1), &[task(1, 1000, 0, 0)]);
        totals.sample(Nanos::from_secs(2), &[task(1, 2000, 0, 2)]);
        totals.sample(Nanos::from_secs(3), &[task(1, 3000, 0, 2)]);
        totals.record_memory(JobId(0), &[memory(0, 4), memory(1, 60)]);
        totals.sample(Nanos::from_secs(4), &[task(1, 4000, 0, 2)]);
        let names = ["local memory, first half", "  second half"];
        assert_eq!(values(&totals, &names), [0.5, 60.0 / 128.0]);
        let names = ["periods with remote memory", "  seconds each", "MiB migrated"];
        assert_eq!(values(&totals, &names), [1.0, 2.0, 60.0]);
    }

    #[test]
    fn memory_samples_are_processed_in_time_order() {
        let mut totals = totals();
        let sample = |at_s, mib| NodePagesSample { at_s, pid: 1, nodes: vec![memory(0, mib)] };
        // The program started 10 s after boot and was first sampled after one second of the run.
        totals.memory_samples = [sample(9.5, 1), sample(10.5, 40), sample(12.0, 64)].into();
        let mut started = task(1, 1000, 0, 0);
        started.task.start_time_ticks = 1000;
        totals.sample(Nanos::from_secs(1), &[started.clone()]);
        assert_eq!(totals.memory[&JobId(0)].bytes, [1 << 20, 0], "the next sample is later");
        totals.sample(Nanos::from_secs(3), &[started]);
        assert_eq!(totals.memory[&JobId(0)].bytes, [64 << 20, 0]);
    }
}
