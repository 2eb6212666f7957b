//! The fluid model of the machine: between two events, every task progresses at a constant rate.
//!
//! ```text
//!   events: a task's segment ends · a sleep ends · the kernel balances · pages were moved
//!      │
//!      ▼ update running tasks ─► change the run queues ─► solve the affected domains ─► next event
//! ```
//!
//! Tasks share a CPU by weight, a last-level cache by their insertion rates, and controllers and links by their demand
//! ([`crate::physics`]). Rates are solved again only for caches and controllers that an event affects, and for those
//! that share tasks with them.
//!
//! Times are whole nanoseconds. Events at one instant are ordered by kind and number.

mod by_job;
mod calm;
mod checks;
mod cpus;
mod events;
mod jobs;
mod numa;
mod pages;
mod rates;
mod tally;
mod tasks;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base::Rng;

use crate::chance::Causes;
use crate::hardware::Hardware;
use crate::kernel::{Kernel, Load, Version};

pub use jobs::{JobStart, MemoryRule};
pub use pages::PageMove;
pub use rates::HIT_NS;
pub use tally::{Tally, queue_full};
pub use tasks::{Task, TaskState};

use by_job::ByJob;
use cpus::{CpuState, Round};
use events::Events;
use jobs::JobState;
use pages::{Doomed, Pages};
use rates::Solver;

/// Settings of the simulated machine beyond its machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The modelled kernel.
    pub kernel: Version,
    /// Whether automatic NUMA balancing is enabled.
    pub numa_balancing: bool,
    /// Whether programs contend for caches and memory bandwidth. Without contention they only share CPU time.
    pub contention: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { kernel: Version::default(), numa_balancing: false, contention: true }
    }
}

/// An event that the host handles.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// The last thread of a job ended.
    JobEnded {
        /// The job.
        job: usize,
        /// It was OOM-killed.
        out_of_memory: bool,
    },
    /// A page migration ended.
    Moved(PageMove),
}

/// The machine with all its jobs.
#[derive(Debug)]
pub struct Fluid {
    hardware: Arc<Hardware>,
    settings: Settings,
    kernel: Kernel,
    load: Load,
    now: u64,
    cpus: Vec<CpuState>,
    tasks: Vec<Task>,
    free_tasks: Vec<usize>,
    jobs: ByJob<JobState>,
    pages: Pages,
    events: Events,
    solver: Solver,
    news: Vec<(u64, News)>,
    causes: Causes,
    fork_chance: Option<Rng>,
    next_tid: u32,
    /// Lines of each controller up to now, reads and writes.
    lines: Vec<[f64; 2]>,
    /// Remaining balancing attempts until the next change.
    balance_left: u32,
    /// Number of changes to run queues and affinities.
    n_changes: u64,
    /// That number and the kernel's count of failure changes when an attempt found nothing.
    even_at: Option<(u64, u64)>,
    rounds: Vec<Round>,
    /// The instant since which a task waits although a CPU that it may use is idle.
    waiting_since: Option<u64>,
    /// CPU time of all tasks so far, in nanoseconds.
    cpu_ns_given: f64,
    counts: Counts,
    /// Jobs with memory that could not be allocated.
    doomed: Vec<Doomed>,
    /// An OOM-killed job that still holds its memory.
    dying: Option<usize>,
    /// Reused buffer of tasks to update.
    settling: Vec<usize>,
    /// Reused buffer of tasks with segments that may have ended.
    stretching: Vec<usize>,
}

/// Work of the simulation, for reports and benchmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Number of times that rates were solved.
    pub solves: u64,
    /// Task migrations.
    pub migrations: u64,
    /// Bytes of migrated pages.
    pub pages_moved_bytes: u64,
}

impl Fluid {
    /// A machine without jobs.
    pub fn new(hardware: Arc<Hardware>, settings: Settings, causes: Causes) -> Self {
        let kernel = Kernel::new(settings.kernel, &hardware, causes.idle_choice());
        let n_nodes = hardware.nodes.len();
        Fluid {
            load: Load::new(&hardware),
            cpus: vec![CpuState::default(); hardware.cpus.len()],
            pages: Pages::new(&hardware, |node| causes.held(node)),
            events: Events::new(hardware.cpus.len()),
            solver: Solver::new(&hardware),
            fork_chance: causes.first_placement(),
            rounds: vec![Round::default(); kernel.n_domains()],
            kernel,
            settings,
            now: 0,
            tasks: Vec::new(),
            free_tasks: Vec::new(),
            jobs: ByJob::default(),
            news: Vec::new(),
            causes,
            next_tid: FIRST_TID,
            lines: vec![[0.0; 2]; n_nodes],
            balance_left: 0,
            n_changes: 0,
            even_at: None,
            waiting_since: None,
            cpu_ns_given: 0.0,
            counts: Counts::default(),
            doomed: Vec::new(),
            dying: None,
            settling: Vec::new(),
            stretching: Vec::new(),
            hardware,
        }
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The tables of the machine.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// Work done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The instant of the next event.
    pub fn next_event(&mut self) -> Option<u64> {
        self.solve();
        while self.reap() {
            self.solve();
        }
        self.events.next_at()
    }

    /// Advances to an instant, including its own events. Stops after the first instant with a notice for the host.
    pub fn advance(&mut self, until: u64) {
        self.advance_some(until, u64::MAX);
    }

    /// The same, but stops after `n_instants` instants with events, too.
    pub fn advance_some(&mut self, until: u64, mut n_instants: u64) {
        while let Some(at) = self.next_event().filter(|&at| at <= until) {
            if self.has_news() || n_instants == 0 {
                return;
            }
            n_instants -= 1;
            self.now = self.now.max(at);
            self.all_at_this_instant(at);
            if self.has_news() {
                return;
            }
        }
        self.now = self.now.max(until);
    }

    /// The notices for the host with their instants, in order.
    pub fn take_news(&mut self) -> Vec<(u64, News)> {
        std::mem::take(&mut self.news)
    }

    /// Whether there is a notice for the host.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    fn all_at_this_instant(&mut self, at: u64) {
        while let Some(event) = self.events.take_at(at) {
            self.counts.events += 1;
            match event {
                events::Event::Cpu(cpu) => self.stretch_ends(cpu),
                events::Event::Wake(task, life) => self.wakes(task, life),
                events::Event::Balance => self.even_out(),
                events::Event::CarryRound(domain) => self.carry_round(domain),
                events::Event::NumaScan(job, life) => self.numa_scan(job, life),
                events::Event::Mover => self.mover_step(),
            }
            self.reap();
        }
    }

    fn tell(&mut self, news: News) {
        self.news.push((self.now, news));
    }
}

/// The first thread id. Smaller ones belong to the system.
const FIRST_TID: u32 = 1000;
