//! Task and memory placement metrics from the journal of a run, the same for a real and a simulated kernel.
//!
//! ```text
//!   between two samples, per task:  ran + waited = runnable time       on the CPU of the last sample
//!   over all tasks:                 Σ ran, Σ waited;  CPUs − Σ ran = idle
//! ```
//!
//! Metrics of an interval are weighted by its length. The location of a task that runs only between two samples is not
//! seen, and a task that moves away and back between two samples counts as not moved.
//!
//! The location of memory is that of the last sample: of the journal, or of the denser samples in [`super::node_pages`]
//! if there are any.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use anyhow::Context;
use base::{CpuId, JobId, Nanos, NodeId, TaskId};
use journal::RecordedTurn;
use sched::{Cause, JobEvent, JobExit, NodeMemory, TaskSample};
use topology::Machine;

use super::node_pages::{self, NodePagesSample};

/// Metrics of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Time until the last job ended, in seconds.
    pub makespan_s: f64,
    /// First kind of jobs: longest over shortest wall time.
    pub longest_over_shortest: f64,
    /// First kind of jobs: most over least CPU time.
    pub unfair: f64,
    /// Wait time over runnable time.
    pub waited: f64,
    /// Number of idle CPUs while at least as many tasks waited.
    pub lost_cpus: f64,
    /// Runnable tasks: maximum minus minimum over the nodes.
    pub uneven: f64,
    /// Migrations within a node per second of runnable time.
    pub within_s: f64,
    /// Migrations between nodes per second of runnable time.
    pub across_s: f64,
    /// Share of memory on the node of its program; first and second half of the run.
    pub local: [f64; 2],
    /// Share on nodes at the smallest remote distance.
    pub near: f64,
    /// Share on nodes at larger distances.
    pub far: f64,
    /// Mean duration of a period with less than 90 % local memory, in seconds.
    pub away_s: f64,
    /// Number of such periods over all programs.
    pub n_away: f64,
    /// Memory migrated between nodes, in MiB.
    pub moved_mib: f64,
}

/// A metric with its name.
pub type MetricRow = (&'static str, fn(&Metrics) -> f64);

/// Metrics of jobs that end.
pub const ENDING: &[MetricRow] =
    &[("makespan, s", |f| f.makespan_s), ("longest / shortest job", |f| f.longest_over_shortest)];

/// Metrics of endless jobs.
pub const ENDLESS: &[MetricRow] = &[("most / least CPU time", |f| f.unfair)];

/// Metrics of all jobs.
pub const ALWAYS: &[MetricRow] = &[
    ("wait time / runnable time", |f| f.waited),
    ("idle CPUs while tasks wait", |f| f.lost_cpus),
    ("tasks per node, max - min", |f| f.uneven),
    ("migrations/s within a node", |f| f.within_s),
    ("  between nodes", |f| f.across_s),
];

/// Metrics of jobs with memory.
pub const MEMORY: &[MetricRow] = &[
    ("local memory, first half", |f| f.local[0]),
    ("  second half", |f| f.local[1]),
    ("  on nearest remote nodes", |f| f.near),
    ("  on other remote nodes", |f| f.far),
    ("periods with remote memory", |f| f.n_away),
    ("  seconds each", |f| f.away_s),
    ("MiB moved", |f| f.moved_mib),
];

/// A run with the start time of each job.
pub struct GuestRun {
    /// Its metrics.
    pub metrics: Metrics,
    /// Job start times in seconds since the start of the run, by job number.
    pub starts_s: Vec<f64>,
    /// CPU of the first job in its first sample.
    pub first_cpu: Option<CpuId>,
    /// The machine at the start of the run.
    pub machine: Machine,
}

/// Reads a journal. With `from_s` above 0, samples before it do not count, nor those after the first end of a job.
pub fn of_journal(journal: &Path, from_s: f64, to_s: f64) -> anyhow::Result<GuestRun> {
    let mut recording =
        journal::read(journal).with_context(|| format!("cannot read {}", journal.display()))?;
    let header = recording.header();
    let name_of = |job: &program::Job| kind(&job.name).to_owned();
    let kinds: Vec<String> = header.jobs.iter().map(name_of).collect();
    let machine = header.machine.clone();
    let mut tally = RunTotals {
        from_s,
        half_s: (from_s + to_s) / 2.0,
        ..RunTotals::new(machine.clone(), kinds)
    };
    let run = journal.parent().context("a journal is in a folder")?;
    tally.samples = node_pages::read(run)?.into();
    tally.has_samples = !tally.samples.is_empty();
    for turn in recording.by_ref() {
        tally.turn(&turn.with_context(|| format!("in {}", journal.display()))?);
    }
    let (metrics, first_cpu) = (tally.metrics(), tally.first_cpu);
    Ok(GuestRun { metrics, starts_s: tally.starts_s, first_cpu, machine })
}

/// Kind of a job: copies are named `name-0`, `name-1`, `name-2`.
fn kind(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// Last sample of a task.
#[derive(Clone, Copy, Debug)]
struct TaskSampleTotals {
    ran: Nanos,
    waited: u64,
    on: Option<CpuId>,
}

/// Sums over a run.
struct RunTotals {
    machine: Machine,
    kinds: Vec<String>,
    tasks: BTreeMap<TaskId, TaskSampleTotals>,
    sampled_at: Nanos,
    /// Shortest and longest wall time of the first kind of jobs.
    jobs_s: Option<(f64, f64)>,
    starts_s: Vec<f64>,
    first_cpu: Option<CpuId>,
    end: Nanos,
    from_s: f64,
    /// An endless job has ended: later samples do not count.
    is_over: bool,
    /// CPU time of each job, by number.
    cpu_s: Vec<f64>,
    /// Middle of the counted time.
    half_s: f64,
    memory: BTreeMap<JobId, MemoryByNode>,
    /// Memory samples that are not processed yet.
    samples: VecDeque<NodePagesSample>,
    /// Job of each PID.
    jobs: BTreeMap<u32, JobId>,
    has_samples: bool,
    /// Offset from seconds since boot to seconds of the run, from start times of tasks.
    since_boot_s: f64,
    sums: Sums,
}

/// Sums over the counted intervals.
#[derive(Default)]
struct Sums {
    /// Duration of intervals with runnable tasks, in seconds.
    time_s: f64,
    ran_s: f64,
    waited_s: f64,
    lost_s: f64,
    uneven_s: f64,
    n_within: u32,
    n_across: u32,
    /// Seconds of programs with memory in both halves, and the same weighted by the share of memory at each distance.
    held_s: [f64; 2],
    own_s: [f64; 2],
    near_s: f64,
    far_s: f64,
    away_s: f64,
    n_away: u32,
    moved_bytes: u64,
}

/// Memory of a job.
#[derive(Clone, Debug, Default)]
struct MemoryByNode {
    /// Bytes by index of the node.
    on: Vec<u64>,
    is_away: bool,
}

impl RunTotals {
    fn new(machine: Machine, kinds: Vec<String>) -> Self {
        RunTotals {
            machine,
            starts_s: vec![0.0; kinds.len()],
            first_cpu: None,
            from_s: 0.0,
            is_over: false,
            cpu_s: vec![0.0; kinds.len()],
            kinds,
            tasks: BTreeMap::new(),
            sampled_at: Nanos::ZERO,
            jobs_s: None,
            end: Nanos::ZERO,
            half_s: f64::INFINITY,
            memory: BTreeMap::new(),
            samples: VecDeque::new(),
            jobs: BTreeMap::new(),
            has_samples: false,
            since_boot_s: f64::INFINITY,
            sums: Sums::default(),
        }
    }

    fn turn(&mut self, recorded: &RecordedTurn) {
        for event in &recorded.sample.jobs {
            if let JobEvent::Ended(job, end) = event {
                self.end = self.end.max(recorded.turn.at);
                self.ended(recorded.turn.at, *job, end);
            }
        }
        if !self.has_samples {
            recorded
                .sample
                .memory
                .iter()
                .for_each(|found| self.record_memory(found.job, &found.nodes));
        }
        if recorded.turn.causes.contains(&Cause::Interval) {
            self.sample(recorded.turn.at, &recorded.sample.tasks);
        }
    }

    fn ended(&mut self, at: Nanos, job: JobId, end: &JobExit) {
        self.is_over |= 0.0 < self.from_s;
        self.starts_s[job.index()] = at.saturating_sub(end.wall).as_secs_f64();
        if self.kinds[job.index()] == self.kinds[0] && !end.stopped_by_host {
            let wall_s = end.wall.as_secs_f64();
            let (shortest, longest) = self.jobs_s.unwrap_or((wall_s, wall_s));
            self.jobs_s = Some((shortest.min(wall_s), longest.max(wall_s)));
        }
    }

    fn sample(&mut self, at: Nanos, tasks: &[TaskSample]) {
        self.take_memory_samples(at, tasks);
        let passed_s = at.saturating_sub(std::mem::replace(&mut self.sampled_at, at)).as_secs_f64();
        let counts = self.from_s <= at.as_secs_f64() - passed_s && !self.is_over;
        let (mut ran_s, mut waited_s) = (0.0, 0.0);
        let mut by_node = vec![0.0; self.machine.nodes().len()];
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
        let most = by_node.iter().fold(0.0, |most: f64, sum| most.max(*sum));
        let fewest = by_node.iter().fold(f64::INFINITY, |fewest: f64, sum| fewest.min(*sum));
        self.sums.uneven_s += most - fewest;
        self.sums.lost_s += idle.min(waited_s / passed_s) * passed_s;
        self.sums.time_s += passed_s;
        self.sums.ran_s += ran_s;
        self.sums.waited_s += waited_s;
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
        let n_past = self.samples.iter().take_while(is_past).count();
        let past: Vec<NodePagesSample> = self.samples.drain(..n_past).collect();
        for sample in past {
            if let Some(&job) = self.jobs.get(&sample.pid) {
                self.record_memory(job, &sample.nodes);
            }
        }
    }

    /// Records the memory of a job; each job has one process.
    fn record_memory(&mut self, job: JobId, found: &[NodeMemory]) {
        let now: Vec<u64> =
            self.machine.nodes().iter().map(|node| own_on(found, node.id)).collect();
        let held = self.memory.entry(job).or_default();
        let before = std::mem::replace(&mut held.on, now);
        let gains = |from: &[u64], to: &[u64]| -> u64 {
            from.iter().zip(to).map(|(from, to)| to.saturating_sub(*from)).sum()
        };
        self.sums.moved_bytes += gains(&before, &held.on).min(gains(&held.on, &before));
    }

    /// Adds `passed_s` of a program on a node, up to `at_s`.
    fn add_memory_time(&mut self, job: JobId, node: usize, at_s: f64, passed_s: f64) {
        let distance = |from: usize, to: usize| {
            let nodes = self.machine.nodes();
            nodes[from].distances.get(&nodes[to].id).copied().unwrap_or(topology::DISTANCE_LOCAL)
        };
        let next = (0..self.machine.nodes().len()).filter(|&other| other != node);
        let next = next.map(|other| distance(node, other)).min();
        let Some(held) = self.memory.get_mut(&job) else { return };
        let total: u64 = held.on.iter().sum();
        if total < MEMORY_MIN {
            return; // The program has not allocated its memory.
        }
        let part = |bytes: u64| bytes as f64 / total as f64;
        let is_next = |other: &usize| Some(distance(node, *other)) == next && *other != node;
        let own = part(held.on[node]);
        let near = part((0..held.on.len()).filter(is_next).map(|other| held.on[other]).sum());
        let half = usize::from(self.half_s < at_s);
        self.sums.held_s[half] += passed_s;
        self.sums.own_s[half] += own * passed_s;
        self.sums.near_s += near * passed_s;
        self.sums.far_s += (1.0 - own - near) * passed_s;
        let is_away = own < LOCAL_SHARE_MIN;
        self.sums.n_away += u32::from(is_away && !held.is_away);
        held.is_away = is_away;
        self.sums.away_s += if is_away { passed_s } else { 0.0 };
    }

    /// Seconds that a task ran and waited since its last sample. Counts migrations.
    fn task_delta(&mut self, task: &TaskSample, counts: bool) -> (f64, f64) {
        let now = TaskSampleTotals {
            ran: task.cpu_time,
            waited: task.wait.map_or(0, |wait| wait.0),
            on: task.last_cpu,
        };
        let before = self.tasks.insert(task.task, now);
        let last = before.unwrap_or(TaskSampleTotals { ran: Nanos::ZERO, waited: 0, on: now.on });
        if let (Some(from), Some(to)) = (last.on, now.on)
            && from != to
            && counts
        {
            let is_near = self.node_of(from) == self.node_of(to);
            *(if is_near { &mut self.sums.n_within } else { &mut self.sums.n_across }) += 1;
        }
        let ran = now.ran.saturating_sub(last.ran).as_secs_f64();
        (ran, Nanos(now.waited.saturating_sub(last.waited)).as_secs_f64())
    }

    /// Index of a CPU's node.
    fn node_of(&self, cpu: CpuId) -> Option<usize> {
        let node = self.machine.cpu(cpu)?.node?;
        self.machine.nodes().iter().position(|known| known.id == node)
    }

    fn metrics(&self) -> Metrics {
        let sums = &self.sums;
        let runnable_s = sums.ran_s + sums.waited_s;
        let per = |sum: f64, of: f64| if 0.0 < of { sum / of } else { 0.0 };
        let first = self.kinds.iter().zip(&self.cpu_s).filter(|(kind, _)| **kind == self.kinds[0]);
        let got = first.map(|(_, cpu_s)| *cpu_s);
        let (least, most) = got.fold((f64::INFINITY, 0.0_f64), |(least, most), cpu_s| {
            (least.min(cpu_s), most.max(cpu_s))
        });
        Metrics {
            makespan_s: self.end.as_secs_f64(),
            longest_over_shortest: self
                .jobs_s
                .map_or(1.0, |(shortest, longest)| per(longest, shortest)),
            unfair: per(most, least),
            waited: per(sums.waited_s, runnable_s),
            lost_cpus: per(sums.lost_s, sums.time_s),
            uneven: per(sums.uneven_s, sums.time_s),
            within_s: per(f64::from(sums.n_within), runnable_s),
            across_s: per(f64::from(sums.n_across), runnable_s),
            local: [0, 1].map(|half| per(sums.own_s[half], sums.held_s[half])),
            near: per(sums.near_s, sums.held_s.iter().sum()),
            far: per(sums.far_s, sums.held_s.iter().sum()),
            away_s: per(sums.away_s, f64::from(sums.n_away)),
            n_away: f64::from(sums.n_away),
            moved_mib: sums.moved_bytes as f64 / 1_048_576.0,
        }
    }
}

/// Private bytes on a node.
fn own_on(found: &[NodeMemory], node: NodeId) -> u64 {
    found.iter().filter(|memory| memory.node == node).map(|memory| memory.private_bytes().0).sum()
}

/// Clock ticks per second of task start times.
const TICKS_PER_S: f64 = 100.0;
/// Share of local memory from which a program counts as local.
const LOCAL_SHARE_MIN: f64 = 0.9;
/// A program with less memory has not allocated its buffer yet.
const MEMORY_MIN: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32, ran_ms: u64, waited_ms: u64, on: u32) -> TaskSample {
        let task = TaskId { tid, start_time_ticks: 0 };
        TaskSample {
            process: tid,
            cpu_time: Nanos::from_millis(ran_ms),
            wait: Some(Nanos::from_millis(waited_ms)),
            last_cpu: Some(CpuId(on)),
            ..TaskSample::new(task, JobId(0))
        }
    }

    #[test]
    fn idle_cpus_and_node_imbalance_follow_from_run_and_wait_times() {
        let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
        let mut tally = RunTotals::new(machine, vec!["a".to_owned()]);
        // Two tasks share CPU 0 for a second, then one migrates to the other node.
        tally.sample(Nanos::from_secs(1), &[task(1, 500, 500, 0), task(2, 500, 500, 0)]);
        tally.sample(Nanos::from_secs(2), &[task(1, 1500, 500, 0), task(2, 1500, 500, 2)]);
        let metrics = tally.metrics();
        assert_eq!(metrics.lost_cpus, 0.5, "one of two seconds");
        assert_eq!((metrics.uneven, metrics.waited), (1.0, 0.25));
        assert_eq!((metrics.within_s, metrics.across_s), (0.0, 0.25));
    }

    #[test]
    fn a_program_is_remote_until_90_percent_of_its_memory_is_local() {
        let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
        let mut tally = RunTotals { half_s: 2.0, ..RunTotals::new(machine, vec!["a".to_owned()]) };
        let memory = |node: u32, mib: u64| NodeMemory {
            node: NodeId(node),
            small: base::Bytes::from_mib(mib),
            ..NodeMemory::default()
        };
        // One second local, two seconds remote (CPU 2 is on node 1), one second after most of it migrated.
        tally.record_memory(JobId(0), &[memory(0, 64)]);
        tally.sample(Nanos::from_secs(1), &[task(1, 1000, 0, 0)]);
        tally.sample(Nanos::from_secs(2), &[task(1, 2000, 0, 2)]);
        tally.sample(Nanos::from_secs(3), &[task(1, 3000, 0, 2)]);
        tally.record_memory(JobId(0), &[memory(0, 4), memory(1, 60)]);
        tally.sample(Nanos::from_secs(4), &[task(1, 4000, 0, 2)]);
        let metrics = tally.metrics();
        assert_eq!(metrics.local, [0.5, 60.0 / 128.0]);
        assert_eq!((metrics.n_away, metrics.away_s, metrics.moved_mib), (1.0, 2.0, 60.0));
    }

    #[test]
    fn memory_samples_are_processed_in_time_order() {
        let machine = Machine::synthetic("nodes=2 cores=2").expect("a machine");
        let mut tally = RunTotals::new(machine, vec!["a".to_owned()]);
        let memory = |at_s: f64, mib: u64| NodePagesSample {
            at_s,
            pid: 1,
            nodes: vec![NodeMemory {
                node: NodeId(0),
                small: base::Bytes::from_mib(mib),
                ..NodeMemory::default()
            }],
        };
        // Started 10 s after boot, first sampled after one second of the run.
        tally.samples = [memory(9.5, 1), memory(10.5, 40), memory(12.0, 64)].into();
        let mut started = task(1, 1000, 0, 0);
        started.task.start_time_ticks = 1000;
        tally.sample(Nanos::from_secs(1), &[started.clone()]);
        assert_eq!(tally.memory[&JobId(0)].on, [1 << 20, 0], "the next sample is later");
        tally.sample(Nanos::from_secs(3), &[started]);
        assert_eq!(tally.memory[&JobId(0)].on, [64 << 20, 0]);
    }
}
