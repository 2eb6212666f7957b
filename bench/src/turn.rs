//! CPU time of one turn: from a sample to an approved plan.
//!
//! ```text
//!   sample (every task has run) ─► rates ─► loads ─► snapshot ─► policy ─► guard ─► plan     timed
//!   outcomes of the plan ─► record                                                            timed
//! ```
//!
//! `bench turn` measures dfs for 10,000 tasks on 512 CPUs, once with many single-threaded programs and once with fewer
//! programs of ten threads. `bench policies` measures every policy for 10,000 tasks with counters on 1,024 CPUs. The
//! load changes during the run, so that the policies request moves. The turn in which all jobs are due is printed too,
//! although a live host starts at most 64 jobs per turn.
//!
//! The unit is CPU time of this thread, because wall time depends on other load. The benchmark reads no data of this
//! machine. The targets are checked in release builds only.

use std::time::Duration;

use anyhow::{Context, bail};
use base::{Bytes, CpuId, JobId, Nanos, NodeId, TaskId};
use engine::{Engine, PageMigrationLimits, Step};
use program::{Class, Command, Job};
use sched::{
    Action, Cause, CounterEvent, Counters, JobEvent, NodeMemory, NodeSample, NumaSettings, Outcome,
    OutcomeResult, Policy, ProcessMemory, RawCounter, Sample, Target, TaskSample, Turn,
};
use topology::Machine;

use crate::stats::{MedianRange, thread_cpu_time};

const N_TASKS: u32 = 10_000;
const N_NODES: u32 = 16;

/// Source of the loads in `bench turn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Declared,
    Bandwidth,
}

/// Jobs with equal numbers of tasks.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub n_jobs: u32,
    pub tasks_per_job: u32,
}

impl Shape {
    pub fn n_tasks(self) -> u32 {
        self.n_jobs * self.tasks_per_job
    }
}

/// Measured turns of one case.
pub struct Measurement {
    pub ms: MedianRange,
    n_requests: usize,
    /// Time of the first turn, in which every job is due.
    start_ms: f64,
}

/// Measures dfs. Fails if a median exceeds the target.
pub fn dfs() -> anyhow::Result<()> {
    const MACHINE: &str = "nodes=16 llcs=2 cores=8 smt=2";
    const N_TURNS: u64 = 200;
    println!(
        "A turn of dfs: {N_TASKS} tasks, {MACHINE} (512 CPUs), {N_TURNS} turns, ms of CPU time"
    );
    println!("{:<24} {:<10} {:<24} moves  all jobs due", "shape", "tier", "median (low to high)");
    let mut worst: f64 = 0.0;
    for tasks_per_job in [1, 10] {
        for tier in [Tier::Declared, Tier::Bandwidth] {
            let n_jobs = N_TASKS / tasks_per_job;
            let shape = Shape { n_jobs, tasks_per_job };
            let mut engine = engine(policy::build("dfs", 1)?, MACHINE, jobs(n_jobs))?;
            let result = measure(&mut engine, shape, N_TURNS, nodes(0, Some(tier)), |number, _| {
                (Nanos::from_millis(250), dfs_sample(number, n_jobs, tasks_per_job, tier))
            });
            if result.n_requests == 0 {
                bail!("no turn has a request: the benchmark measures nothing");
            }
            let shape = format!("{n_jobs} jobs of {tasks_per_job} tasks");
            let tier = format!("{tier:?}").to_lowercase();
            let ms = format!("{:.3}", result.ms);
            println!(
                "{shape:<24} {tier:<10} {ms:<24} {:<6} {:.3}",
                result.n_requests, result.start_ms
            );
            worst = worst.max(result.ms.median);
        }
    }
    check_target(worst, 5.0)
}

/// Options of `bench policies`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PolicyArgs {
    /// Measure only this policy (default: all)
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
}

/// Measures every policy. Fails if a median exceeds the target.
pub fn policies(args: &PolicyArgs) -> anyhow::Result<()> {
    const MACHINE: &str = "nodes=16 llcs=8 cores=8 mem=1T";
    /// For policies that need core kinds.
    const KINDS_MACHINE: &str = "nodes=16 llcs=8 cores=8 mem=1T kinds=1024x4+512x4";
    const N_CPUS: u32 = 1024;
    const N_TURNS: u64 = 60;
    println!(
        "A turn of every policy: {N_TASKS} jobs of one task, {N_CPUS} CPUs ({MACHINE}), {N_TURNS} turns, ms of CPU time"
    );
    println!("{:<15} {:<26} {:>8}  all jobs due", "policy", "median (low to high)", "requests");
    let mut worst: f64 = 0.0;
    let is_selected =
        |info: &&&policy::PolicyInfo| args.policy.as_ref().is_none_or(|name| info.name == name);
    for info in policy::registry().iter().filter(is_selected) {
        let machine = if info.needs_core_kinds { KINDS_MACHINE } else { MACHINE };
        let policy = policy::build(info.name, 1)?;
        let interval = policy.interval().unwrap_or(Nanos::from_secs(1));
        let mut engine = engine(policy, machine, jobs(N_TASKS))?
            .with_page_migration_limits(PageMigrationLimits::default());
        let mut counters = vec![Counters::NONE; N_TASKS as usize];
        let shape = Shape { n_jobs: N_TASKS, tasks_per_job: 1 };
        let result = measure(&mut engine, shape, N_TURNS, nodes(0, None), |number, cpus| {
            let sample = policy_sample(number, interval, (shape, N_CPUS), cpus, &mut counters);
            let memory = memory(number, Nanos(interval.0 * number), N_TASKS);
            (interval, Sample { nodes: nodes(number, None), memory, ..sample })
        });
        let ms = format!("{:.3}", result.ms);
        println!("{:<15} {ms:<26} {:>8}  {:.1}", info.name, result.n_requests, result.start_ms);
        worst = worst.max(result.ms.median);
    }
    check_target(worst, 10.0)
}

fn check_target(worst_ms: f64, target_ms: f64) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        println!("the target of {target_ms} ms is not checked: this is not a release build");
    } else if target_ms < worst_ms {
        bail!("a turn takes {worst_ms:.3} ms; the target is {target_ms} ms");
    }
    Ok(())
}

/// Creates an engine on a synthetic machine.
pub fn engine(policy: Box<dyn Policy>, machine: &str, jobs: Vec<Job>) -> anyhow::Result<Engine> {
    let machine = Machine::synthetic(machine).context("the synthetic machine")?;
    Ok(Engine::new(machine, jobs, policy))
}

/// Starts all jobs, then measures turns of these samples. `sample` receives the CPU of each task.
pub fn measure(
    engine: &mut Engine,
    shape: Shape,
    n_turns: u64,
    nodes_at_start: Vec<NodeSample>,
    mut sample: impl FnMut(u64, &[CpuId]) -> (Nanos, Sample),
) -> Measurement {
    let n_cpus = engine.machine().online().len() as u32;
    let mut cpus: Vec<CpuId> = (0..shape.n_tasks()).map(|nth| CpuId(nth % n_cpus)).collect();
    let before = thread_cpu_time();
    start(engine, shape, nodes_at_start, &mut cpus);
    let start_ms = millis_since(before);
    let (mut ms, mut n_requests) = (Vec::new(), 0);
    for number in 1..=n_turns {
        let (interval, sample) = sample(number, &cpus);
        let turn = Turn { number, at: Nanos(interval.0 * number), causes: vec![Cause::Interval] };
        let before = thread_cpu_time();
        let step = engine.step(&turn, &sample);
        let outcomes = outcomes(&step, shape, &mut cpus);
        engine.record_outcomes(&outcomes);
        ms.push(millis_since(before));
        n_requests += step.approved.requests().len();
    }
    Measurement { ms: MedianRange::of(ms), n_requests, start_ms }
}

fn millis_since(before: Duration) -> f64 {
    thread_cpu_time().saturating_sub(before).as_secs_f64() * 1e3
}

/// Starts all jobs in one turn.
fn start(engine: &mut Engine, shape: Shape, nodes: Vec<NodeSample>, cpus: &mut [CpuId]) {
    let sample = Sample {
        jobs: (0..shape.n_jobs).map(|id| JobEvent::Due(JobId(id))).collect(),
        nodes,
        usable_cpus: Some(engine.machine().allowed().clone()),
        numa_settings: Some(NumaSettings::default()),
        ..Sample::default()
    };
    let turn = Turn { number: 0, at: Nanos::ZERO, causes: vec![Cause::JobsDue] };
    let step = engine.step(&turn, &sample);
    let started = (0..shape.n_jobs).map(|id| done_outcome(Target::Job(JobId(id)), None));
    let all: Vec<Outcome> = outcomes(&step, shape, cpus).into_iter().chain(started).collect();
    engine.record_outcomes(&all);
}

/// Returns an interval in which every task ran, with more load on some nodes.
fn dfs_sample(number: u64, n_jobs: u32, tasks_per_job: u32, tier: Tier) -> Sample {
    let tasks = (0..n_jobs).flat_map(|job| (0..tasks_per_job).map(move |nth| (job, nth)));
    let task = |(job, nth): (u32, u32)| {
        let nth = job * tasks_per_job + nth;
        // In each turn one sixteenth of the programs is busy; most of the busy programs run on one node.
        let busy_ms = 3 * number + 40 * n_busy_turns(job % N_NODES, number);
        TaskSample {
            cpu_time: Nanos::from_millis(busy_ms),
            wait: Some(Nanos(number * 200_000_000)),
            last_cpu: Some(CpuId(nth % 512)),
            ..TaskSample::new(TaskId { tid: 1_000 + nth, start_time_ticks: 1 }, JobId(job))
        }
    };
    Sample {
        tasks: tasks.map(task).collect(),
        nodes: nodes(number, Some(tier)),
        ..Sample::default()
    }
}

/// Returns the number of turns in which group `group` of 16 was busy.
fn n_busy_turns(group: u32, number: u64) -> u64 {
    (number + u64::from(N_NODES) - u64::from(group)) / u64::from(N_NODES)
}

/// Thread id of the first task.
const FIRST_TID: u32 = 10_000;
/// Intervals of a round of a job with several tasks, and of the serial part of the round, in which only its first task runs.
const ROUND: (u64, u64) = (10, 4);

/// Returns an interval in which every task ran a part of the time with counters.
pub fn policy_sample(
    number: u64,
    interval: Nanos,
    (shape, n_cpus): (Shape, u32),
    cpus: &[CpuId],
    counters: &mut [Counters],
) -> Sample {
    let ran_ns = interval.0 / u64::from(shape.n_tasks() / n_cpus + 1);
    let tasks = (0..).zip(cpus).zip(counters).map(|((nth, cpu), counters)| {
        let (job, is_first) = (nth / shape.tasks_per_job, nth % shape.tasks_per_job == 0);
        if is_first || ROUND.1 <= (u64::from(job) + number) % ROUND.0 {
            count(counters, number, nth, ran_ns);
        }
        let ran = counters.get(CounterEvent::Cycles).map_or(0, |counter| counter.enabled_ns);
        TaskSample {
            cpu_time: Nanos(ran),
            wait: Some(Nanos(ran / ran_ns * (interval.0 - ran_ns))),
            last_cpu: Some(*cpu),
            counters: *counters,
            ..TaskSample::new(TaskId { tid: FIRST_TID + nth, start_time_ticks: 1 }, JobId(job))
        }
    });
    Sample { tasks: tasks.collect(), ..Sample::default() }
}

/// Computes the counters of a program. Every 7 turns, programs alternate between streaming, cache-resident and
/// compute-bound.
fn count(counters: &mut Counters, number: u64, nth: u32, ran_ns: u64) {
    let kind = (u64::from(nth) + number / 7 * u64::from(nth % 5)) % 3;
    let instructions = ran_ns * [1, 2, 3][kind as usize];
    let per_1000 = |n: u64| instructions * n / 1000;
    let misses = per_1000([30, 4, 0][kind as usize]);
    let deltas = [
        (CounterEvent::Cycles, ran_ns * 3),
        (CounterEvent::Instructions, instructions),
        (CounterEvent::LlcReferences, per_1000([35, 30, 1][kind as usize])),
        (CounterEvent::LlcMisses, misses),
        (CounterEvent::LlcLoadMisses, misses / 2),
        (CounterEvent::LlcStoreMisses, misses / 8),
        (CounterEvent::LlcPrefetchMisses, misses / 3),
        (CounterEvent::L1dMisses, per_1000(50)),
        (CounterEvent::MemoryStalls, ran_ns),
        (CounterEvent::QueueFull, ran_ns * [1, 0, 0][kind as usize]),
    ];
    for (event, delta) in deltas {
        let before = counters.get(event).unwrap_or_default();
        let (value, ns) = (before.value + delta, before.enabled_ns + ran_ns);
        counters.set(event, RawCounter { value, enabled_ns: ns, running_ns: ns });
    }
}

/// Samples the memory of a few hundred processes per turn, as on a live host. The memory of each process is on one
/// node.
fn memory(number: u64, at: Nanos, n_tasks: u32) -> Vec<ProcessMemory> {
    let is_sampled = |nth: &u32| number == 1 || u64::from(nth % 50) == number % 50;
    let process = |nth: u32| ProcessMemory {
        job: JobId(nth),
        process: TaskId { tid: FIRST_TID + nth, start_time_ticks: 1 },
        nodes: vec![NodeMemory {
            node: NodeId(nth % N_NODES),
            small: Bytes(64 << 20),
            ..NodeMemory::default()
        }],
        sampled_permille: 1000,
        at,
    };
    (0..n_tasks).filter(is_sampled).map(process).collect()
}

/// Returns the samples of the memory controllers: for `bench turn` with a tier, for `bench policies` with `None`.
fn nodes(number: u64, tier: Option<Tier>) -> Vec<NodeSample> {
    let ops = |node: u32| {
        let ops = match tier {
            Some(Tier::Declared) => return None,
            Some(Tier::Bandwidth) => number * 1_000_000 + 40_000_000 * n_busy_turns(node, number),
            None => number * (1_000_000 + 40_000_000 * u64::from(node % 4)),
        };
        Some(RawCounter::unmultiplexed(ops))
    };
    let node = |id| NodeSample {
        controller_ops: ops(id),
        counter_bits: 48,
        ..NodeSample::new(NodeId(id))
    };
    (0..N_NODES).map(node).collect()
}

/// Carries out placements and releases.
fn outcomes(step: &Step, shape: Shape, cpus: &mut [CpuId]) -> Vec<Outcome> {
    let requests = step.approved.requests().iter();
    requests
        .filter_map(|request| {
            if let Action::Place(set) = &request.action {
                let n = shape.tasks_per_job as usize;
                let placed = match request.target {
                    Target::Job(job) => job.index() * n..(job.index() + 1) * n,
                    Target::Task(task) => {
                        let nth = (task.tid - FIRST_TID) as usize;
                        nth..nth + 1
                    }
                };
                cpus[placed].fill(set.iter().next().unwrap_or(CpuId(0)));
            }
            matches!(request.action, Action::Place(_) | Action::Release)
                .then(|| done_outcome(request.target, Some(request.action.clone())))
        })
        .collect()
}

fn done_outcome(target: Target, action: Option<Action>) -> Outcome {
    Outcome { target, action, result: OutcomeResult::Done { n: 1 } }
}

/// Returns single-threaded jobs.
pub fn jobs(n: u32) -> Vec<Job> {
    let job = |id: u32| Job {
        class: Class::new((id % 7) as u8),
        ..Job::new(JobId(id), format!("job{id}"), Command::Load(vec!["hog".to_owned()]))
    };
    (0..n).map(job).collect()
}
