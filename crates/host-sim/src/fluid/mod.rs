//! The fluid machine: between two events every task progresses at a constant rate.
//!
//! ```text
//!   events: a stretch of a task ends · a sleep is over · the kernel evens out · pages were moved
//!      │
//!      ▼ settle what ran since ─► change who runs where ─► solve the domains that were touched ─► next
//! ```
//!
//! A CPU is shared by the tasks on it by weight; a last-level cache by the rate at which its tasks put
//! lines in; a controller and a link by what is asked of them ([`crate::physics`]). Rates are solved
//! again only for caches and controllers that an event touches, and for those that these are tied to by
//! tasks whose memory lies there.
//!
//! Times are whole nanoseconds; what happens at one instant happens in the order of kinds and numbers.

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

/// How the simulated machine behaves beyond its machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which kernel.
    pub kernel: Version,
    /// Whether it moves tasks and pages between nodes by itself.
    pub numa_balancing: bool,
    /// Whether programs slow each other down through caches and controllers; without, only CPU time is
    /// shared.
    pub contention: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { kernel: Version::default(), numa_balancing: false, contention: true }
    }
}

/// Something that the host is to be told.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// The last thread of a job ended, at this nanosecond.
    JobEnded {
        /// Which.
        job: usize,
        /// It was ended because no memory was left.
        out_of_memory: bool,
    },
    /// A move of pages is over.
    Moved(PageMove),
}

/// The machine with everything that runs on it.
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
    balance_left: u32,
    /// How often anything changed that an even-out looks at.
    n_changes: u64,
    /// What was so when an even-out found nothing: that count and the kernel's.
    even_at: Option<(u64, u64)>,
    rounds: Vec<Round>,
    /// Since when every even-out has left somebody waiting beside an idle CPU.
    waiting_since: Option<u64>,
    /// CPU time of all tasks up to now, in nanoseconds.
    cpu_ns_given: f64,
    counts: Counts,
    /// Jobs that found no room for memory that they touched.
    doomed: Vec<Doomed>,
    /// A job that was killed for want of memory and still holds its own.
    dying: Option<usize>,
    /// Room for those that are being settled.
    settling: Vec<usize>,
    /// And for those whose stretch may be over.
    stretching: Vec<usize>,
}

/// How much happened, for reports and benchmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Times that rates were solved.
    pub solves: u64,
    /// Tasks that came to another CPU.
    pub migrations: u64,
    /// Bytes of pages that came to another node.
    pub pages_moved_bytes: u64,
}

impl Fluid {
    /// A machine on which nothing runs.
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

    /// How much happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// When the next event is.
    pub fn next_event(&mut self) -> Option<u64> {
        self.solve();
        while self.reap() {
            self.solve();
        }
        self.events.next_at()
    }

    /// Goes on to an instant, through every event up to it, that instant's own included. It stops after
    /// the first instant at which something is to be told.
    pub fn advance(&mut self, until: u64) {
        self.advance_some(until, u64::MAX);
    }

    /// The same, but it stops after so many instants with events too.
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

    /// What happened that the host is to be told, with its instant, in order.
    pub fn take_news(&mut self) -> Vec<(u64, News)> {
        std::mem::take(&mut self.news)
    }

    /// Whether something is to be told.
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

/// Numbers of threads begin here: those below belong to the system.
const FIRST_TID: u32 = 1000;
