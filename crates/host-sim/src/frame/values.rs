//! Values that the host and a machine exchange.

use std::sync::Arc;

use base::Nanos;

use crate::script::Script;
use crate::variation::RandomKey;

/// The parameters of a job start.
#[derive(Clone, Debug)]
pub struct JobStart {
    /// Number of the job.
    pub job: usize,
    /// Work of the job.
    pub script: Arc<Script>,
    /// CPUs that the job may use, by index; `None` for all.
    pub allowed: Option<Arc<Vec<bool>>>,
    /// Memory policy of the job.
    pub memory: MemoryPlacement,
    /// Weight of the job on shared CPUs.
    pub weight: f64,
    /// Owner of the random numbers of this run of the job.
    pub random_key: RandomKey,
}

impl JobStart {
    /// Returns the start of a job that may use all CPUs, allocates memory on first touch, and has the default weight.
    /// Its random numbers depend on the number of the job.
    pub fn new(job: usize, script: Arc<Script>) -> Self {
        let memory = MemoryPlacement::default();
        let random_key = RandomKey::default().part(job as u64);
        JobStart { job, script, allowed: None, memory, weight: 1.0, random_key }
    }
}

/// The memory policy of a job. Nodes are indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MemoryPlacement {
    /// Pages are allocated on the node of the CPU that touches them first. If this node is full, the next node in its
    /// fallback order is used.
    #[default]
    FirstTouch,
    /// Pages are interleaved over these nodes.
    Interleave(Vec<usize>),
    /// Pages are allocated on first touch among these nodes; if they are full, on other nodes.
    Preferred(Vec<usize>),
    /// Pages are allocated only on these nodes.
    Bind(Vec<usize>),
}

/// A page migration of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPageMigration {
    /// The job.
    pub job: usize,
    /// Share of the job's pages that are busy and do not migrate, in permille.
    pub busy_permille: u64,
    /// The source node; `None`: all nodes except the target.
    pub from: Option<usize>,
    /// The target node.
    pub to: usize,
    /// Maximum number of bytes to move.
    pub limit: u64,
    /// Number of attempted bytes, at most the limit.
    pub requested: u64,
    /// Number of moved bytes.
    pub moved: u64,
    /// Number of bytes that did not fit on the target node.
    pub no_memory: u64,
    /// Number of bytes of busy pages.
    pub busy: u64,
    /// Start in nanoseconds.
    pub started: u64,
    /// Time in the system calls, in nanoseconds.
    pub in_kernel: u64,
    /// Whether the job ended during the migration.
    pub job_ended: bool,
}

/// An event that a machine reports to the host.
#[derive(Clone, Debug, PartialEq)]
pub enum HostNotice {
    /// The last thread of a job ended.
    JobEnded {
        /// The job.
        job: usize,
        /// Whether the job was OOM-killed.
        out_of_memory: bool,
    },
    /// A page migration has ended.
    PagesMoved(JobPageMigration),
}

/// A thread of a simulated job, as the host reads it.
#[derive(Clone, Copy, Debug)]
pub struct SimThread {
    /// TID of the thread.
    pub tid: u32,
    /// Start time in nanoseconds.
    pub started: u64,
    /// The CPU of the thread; for a sleeping thread its last CPU.
    pub cpu: usize,
    /// Whether the thread runs or waits for a CPU; false if it sleeps, is blocked or has ended.
    pub is_runnable: bool,
    /// CPU time in nanoseconds.
    pub cpu_ns: f64,
    /// Wait time (runnable and not running) in nanoseconds.
    pub wait_ns: f64,
    /// Time in nanoseconds in which the thread waited for other threads of its job.
    pub blocked_ns: u64,
    /// Number of migrations to another CPU.
    pub n_migrations: u64,
    /// Cumulative counts.
    pub counts: TaskCounts,
    /// Owner of the random numbers of the thread.
    pub random_key: RandomKey,
}

/// Cumulative counts of a task, or counts per instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskCounts {
    /// Instructions.
    pub instructions: f64,
    /// Core cycles.
    pub cycles: f64,
    /// Accesses to the last-level cache.
    pub references: f64,
    /// Demand misses of the last-level cache.
    pub misses: f64,
    /// Lines that prefetchers read from memory.
    pub prefetches: f64,
    /// Misses of the first-level cache.
    pub l1_misses: f64,
    /// Requests that found the queue to the shared cache full.
    pub queue_full: f64,
    /// Stall cycles on memory.
    pub stalls: f64,
    /// Lines read from memory.
    pub reads: f64,
    /// Lines written to memory.
    pub writes: f64,
}

/// Amount of simulation work, for reports and benchmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulationWork {
    /// Number of events.
    pub events: u64,
    /// Number of solutions of the rates.
    pub solves: u64,
    /// Number of task migrations.
    pub migrations: u64,
    /// Bytes of migrated pages.
    pub pages_moved_bytes: u64,
}

/// An invariant that was violated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulator violated an invariant at {at}: {problem} (this is a bug of evenkeel)")]
pub struct InvariantViolation {
    /// Simulated time.
    pub at: Nanos,
    /// Description of the invariant and of the values that violate it.
    pub problem: String,
}
