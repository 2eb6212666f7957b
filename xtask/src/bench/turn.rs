//! What one turn costs to decide: from a sample to an approved plan, with `dfs`, for 10,000 tasks on
//! 512 CPUs and 16 nodes. Nothing is read from this machine. What
//! counts is the CPU time of this thread: on a busy machine the wall clock tells of the neighbours.
//!
//! ```text
//!   sample (every task has run) ─► rates ─► loads ─► snapshot ─► dfs ─► guard ─► plan     timed
//!   outcomes of the plan ─► settle                                                        timed too
//! ```
//!
//! Loads are uneven in every turn, so that every turn decides something. The two shapes are the two
//! ends of what runs: many programs of one thread, and fewer of ten. A target of 5 ms is checked
//! in release only: unoptimised code says nothing about it.

use std::time::Duration;

use anyhow::{Context, bail};
use base::{CpuId, JobId, Nanos, NodeId, TaskId};
use engine::{Engine, Step};
use program::{Class, Command, Job};
use rustix::time::{ClockId, clock_gettime};
use sched::{
    Action, Cause, Counters, JobEvent, Measured, NodeSample, NumaSettings, Outcome, OutcomeResult,
    Sample, Target, TaskSample, Turn,
};
use topology::Machine;

use super::stats::Spread;

const N_TASKS: u32 = 10_000;
const N_NODES: u32 = 16;
const MACHINE: &str = "nodes=16 llcs=2 cores=8 smt=2";
const N_STEPS: u64 = 200;
/// The most that a turn may take.
const TARGET_MS: f64 = 5.0;

/// What loads stand on in a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Declared,
    Bandwidth,
}

/// Measures and prints; fails when the median misses the target.
pub fn run() -> anyhow::Result<()> {
    println!(
        "A turn of dfs: {N_TASKS} tasks, {MACHINE} (512 CPUs), {N_STEPS} turns, ms of CPU time"
    );
    println!("{:<24} {:<10} {:<24} moves  all due", "shape", "tier", "median (low to high)");
    let mut worst: f64 = 0.0;
    for tasks_per_job in [1, 10] {
        for tier in [Tier::Declared, Tier::Bandwidth] {
            let Figures { spread, n_moves, start_ms } = measure(tasks_per_job, tier)?;
            let shape = format!("{} jobs of {tasks_per_job} tasks", N_TASKS / tasks_per_job);
            let tier = format!("{tier:?}").to_lowercase();
            let spread_text = format!("{spread:.3}");
            println!("{shape:<24} {tier:<10} {spread_text:<24} {n_moves:<6} {start_ms:.3}");
            worst = worst.max(spread.median);
        }
    }
    if cfg!(debug_assertions) {
        println!("not compared with the target of {TARGET_MS} ms: this is no release build");
    } else if TARGET_MS < worst {
        bail!("a turn takes {worst:.3} ms, and {TARGET_MS} ms are the most it may take");
    }
    Ok(())
}

/// What was measured of one shape.
struct Figures {
    spread: Spread,
    n_moves: usize,
    /// The first turn, in which every job is due and gets its CPU.
    start_ms: f64,
}

fn measure(tasks_per_job: u32, tier: Tier) -> anyhow::Result<Figures> {
    let machine = Machine::synthetic(MACHINE).context("the synthetic machine")?;
    let policy = policy::build("dfs", 1)?;
    let jobs: Vec<Job> = (0..N_TASKS / tasks_per_job).map(job).collect();
    let n_jobs = jobs.len() as u32;
    let mut engine = Engine::new(machine, jobs, policy);
    let before = cpu_time();
    start(&mut engine, n_jobs, tier);
    let start_ms = millis_since(before);
    let (mut times, mut n_moves) = (Vec::new(), 0);
    for number in 1..=N_STEPS {
        let (turn, sample) = interval(number, n_jobs, tasks_per_job, tier);
        let before = cpu_time();
        let step = engine.step(&turn, &sample);
        engine.record_outcomes(&outcomes(&step));
        times.push(millis_since(before));
        n_moves += step.approved.requests().len();
    }
    if n_moves == 0 {
        bail!("no turn decided anything: the benchmark measures the wrong thing");
    }
    Ok(Figures { spread: Spread::of(times), n_moves, start_ms })
}

/// CPU time that this thread has used.
pub(super) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

pub(super) fn millis_since(before: Duration) -> f64 {
    cpu_time().saturating_sub(before).as_secs_f64() * 1e3
}

/// All jobs are due at once and start.
fn start(engine: &mut Engine, n_jobs: u32, tier: Tier) {
    let sample = Sample {
        jobs: (0..n_jobs).map(|id| JobEvent::Due(JobId(id))).collect(),
        nodes: nodes(0, tier),
        usable_cpus: Some(engine.machine().allowed().clone()),
        numa_settings: Some(NumaSettings::default()),
        ..Sample::default()
    };
    let turn = Turn { number: 0, at: Nanos::ZERO, causes: vec![Cause::JobsDue] };
    let step = engine.step(&turn, &sample);
    let started = (0..n_jobs).map(|id| done(Target::Job(JobId(id)), None));
    let all: Vec<Outcome> = outcomes(&step).into_iter().chain(started).collect();
    engine.record_outcomes(&all);
}

/// An interval in which every task has run, and some nodes had far more to do than others.
fn interval(number: u64, n_jobs: u32, tasks_per_job: u32, tier: Tier) -> (Turn, Sample) {
    let tasks = (0..n_jobs).flat_map(|job| (0..tasks_per_job).map(move |nth| (job, nth)));
    let sample = Sample {
        tasks: tasks.map(|(job, nth)| task(number, job, job * tasks_per_job + nth)).collect(),
        nodes: nodes(number, tier),
        ..Sample::default()
    };
    let at = Nanos::from_millis(250 * number);
    (Turn { number, at, causes: vec![Cause::Interval] }, sample)
}

fn task(number: u64, job: u32, nth: u32) -> TaskSample {
    // Programs take turns at being busy, sixteenth by sixteenth: on one node more than on others.
    let busy_ms = 3 * number + 40 * turns_of(job % N_NODES, number);
    TaskSample {
        task: TaskId { tid: 1_000 + nth, start_time_ticks: 1 },
        process: 1_000 + nth,
        job: JobId(job),
        cpu_time: Nanos::from_millis(busy_ms),
        previous_sample_at: None,
        wait: Measured::Exact(number * 200_000_000),
        last_cpu: Some(CpuId(nth % 512)),
        counters: Counters::NONE,
    }
}

/// How often it has been somebody's turn to be busy.
fn turns_of(whose: u32, number: u64) -> u64 {
    (number + u64::from(N_NODES) - u64::from(whose)) / u64::from(N_NODES)
}

fn nodes(number: u64, tier: Tier) -> Vec<NodeSample> {
    let ops = |node: u32| match tier {
        Tier::Declared => Measured::Absent,
        Tier::Bandwidth => {
            Measured::Exact(number * 1_000_000 + 40_000_000 * turns_of(node, number))
        }
    };
    let node = |id| NodeSample {
        node: NodeId(id),
        memory_free: None,
        memory_reclaimable: None,
        controller_ops: ops(id),
        counter_bits: 48,
        read_bytes: Measured::Absent,
        written_bytes: Measured::Absent,
    };
    (0..N_NODES).map(node).collect()
}

fn outcomes(step: &Step) -> Vec<Outcome> {
    let asks = step.approved.requests().iter();
    asks.filter_map(|ask| match &ask.action {
        Action::Place(cpus) => Some(done(ask.target, Some(Action::Place(cpus.clone())))),
        Action::MemoryPolicy(_) | Action::Release | Action::MovePages { .. } => None,
    })
    .collect()
}

pub(super) fn done(target: Target, action: Option<Action>) -> Outcome {
    Outcome { target, action, result: OutcomeResult::Done { n: 1 } }
}

pub(super) fn job(id: u32) -> Job {
    Job {
        id: JobId(id),
        name: format!("job{id}"),
        command: Command::Load(vec!["hog".to_owned()]),
        start: Nanos::ZERO,
        class: Class::new((id % 7) as u8),
        sensitivity: None,
        profile: None,
        found: None,
        dir: None,
        env: Default::default(),
        input: None,
        output: None,
        threads: 1,
        ending: Default::default(),
        cpus: None,
        nodes: None,
        memory: None,
        origin: Default::default(),
    }
}
