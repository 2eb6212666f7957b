//! The fluid model of the machine. Between two events, every task progresses at a constant rate, or at the mean of the
//! rates at the latencies of its memory.
//!
//! ```text
//!   events: end of a task's segment · end of a sleep · load balancing · end of a batch of pages
//!      │
//!      ▼ update running tasks ─► change the run queues ─► solve the affected domains ─► next event
//! ```
//!
//! Tasks share a CPU by weight, a last-level cache by their insertion rates, and memory controllers and links by
//! their demand ([`crate::physics`]). After an event, rates are solved again only for the affected caches and
//! controllers, and for caches and controllers that share tasks with them.
//!
//! Times are whole nanoseconds. Events at one instant are ordered by kind and number.

mod balancing;
#[cfg(test)]
mod bounds_tests;
mod cache_contents;
mod cache_solution;
mod channels;
mod cluster_contents;
#[cfg(test)]
mod cluster_tests;
mod cpus;
mod demand;
mod events;
mod invariants;
mod job_map;
mod jobs;
mod machine;
mod monitoring;
mod numa;
#[cfg(test)]
mod numa_tests;
mod pages;
mod queue_shares;
mod rates;
mod shared_contents;
mod solver;
mod switches;
mod tasks;
mod teamwork;
#[cfg(test)]
pub(crate) mod tests;
mod time_slices;
mod virtual_time;
mod waiting;
#[cfg(test)]
mod waiting_tests;

use std::sync::Arc;

use crate::frame::{
    CpuTimers, EventQueue, Grain, HostNotice, MachineSettings, NEVER, SimulationWork, advance,
};
use crate::hardware::Hardware;
use crate::kernel::KernelModel;
use crate::variation::VariationStreams;

pub use tasks::{Task, TaskState, queue_full};

use balancing::BusyBalancing;
use cpus::CpuState;
use events::FluidEvent;
use job_map::JobMap;
use jobs::FluidJob;
pub(crate) use machine::FluidGrain;
use monitoring::TrafficMonitor;
use pages::{FailedAllocation, MemoryState};
use solver::Solver;
pub(crate) use time_slices::{CpuSharing, QueueChange};

/// The simulated machine with all its jobs.
#[derive(Debug)]
pub struct Fluid {
    hardware: Arc<Hardware>,
    settings: MachineSettings,
    sharing: CpuSharing,
    /// Changes of run queues since the last call of [`Fluid::take_queue_changes`].
    queue_changes: Vec<QueueChange>,
    kernel: KernelModel,
    now: u64,
    cpus: Vec<CpuState>,
    tasks: Vec<Task>,
    free_tasks: Vec<usize>,
    jobs: JobMap<FluidJob>,
    pages: MemoryState,
    events: EventQueue<FluidEvent>,
    /// End of the first segment on each CPU.
    segment_ends: CpuTimers,
    solver: Solver,
    notices: Vec<(u64, HostNotice)>,
    variation: VariationStreams,
    next_tid: u32,
    /// Lines read and written by each memory controller since the start.
    lines: Vec<[f64; 2]>,
    /// Traffic of caches and jobs, if it is kept.
    traffic: Option<TrafficMonitor>,
    /// Number of remaining balancing attempts. A change resets it.
    balance_left: u32,
    /// Number of changes to run queues and affinities.
    n_changes: u64,
    /// Values of `n_changes` and of the kernel's number of failed changes at the last balancing attempt, if it
    /// migrated no task.
    balanced_at: Option<(u64, u64)>,
    busy_balancing: Vec<BusyBalancing>,
    /// Time since which a task waits although one of its allowed CPUs is idle.
    waiting_since: Option<u64>,
    counts: SimulationWork,
    /// Jobs with memory that could not be allocated.
    failed_allocations: Vec<FailedAllocation>,
    /// An OOM-killed job with memory that is not yet freed.
    oom_killed: Option<usize>,
    /// Buffer of tasks to update, which is reused.
    updating: Vec<usize>,
    /// Buffer of tasks with segments that may have ended, which is reused.
    ending: Vec<usize>,
}

impl Fluid {
    /// Returns a machine without jobs.
    pub fn new(
        hardware: Arc<Hardware>,
        settings: MachineSettings,
        variation: VariationStreams,
    ) -> Self {
        let kernel = KernelModel::new(settings.kernel, hardware.clone());
        let n_nodes = hardware.nodes.len();
        Fluid {
            cpus: vec![CpuState::default(); hardware.cpus.len()],
            pages: MemoryState::new(&hardware, |node| variation.used_share(node)),
            events: EventQueue::default(),
            segment_ends: CpuTimers::new(hardware.cpus.len()),
            solver: Solver::new(&hardware),
            busy_balancing: vec![BusyBalancing::default(); kernel.n_domains()],
            kernel,
            settings,
            sharing: CpuSharing::ByWeight,
            queue_changes: Vec::new(),
            now: 0,
            tasks: Vec::new(),
            free_tasks: Vec::new(),
            jobs: JobMap::default(),
            notices: Vec::new(),
            variation,
            next_tid: FIRST_TID,
            lines: vec![[0.0; 2]; n_nodes],
            traffic: None,
            balance_left: 0,
            n_changes: 0,
            balanced_at: None,
            waiting_since: None,
            counts: SimulationWork::default(),
            failed_allocations: Vec::new(),
            oom_killed: None,
            updating: Vec::new(),
            ending: Vec::new(),
            hardware,
        }
    }

    /// Returns the nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the hardware tables of the machine.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// Advances to the time `until` and handles the events at that time. Stops earlier after the first instant with a
    /// notice for the host.
    pub fn advance(&mut self, until: u64) {
        advance(self, until, u64::MAX);
    }

    /// Returns the time of the next event.
    pub fn next_event(&mut self) -> Option<u64> {
        Grain::next_event(self)
    }

    /// Removes and returns the notices for the host, with their times, in order.
    pub fn take_notices(&mut self) -> Vec<(u64, HostNotice)> {
        std::mem::take(&mut self.notices)
    }

    fn notify(&mut self, notice: HostNotice) {
        self.notices.push((self.now, notice));
    }
}

impl Fluid {
    /// Counts an event of this grain, or of a grain that contains it.
    pub fn count_event(&mut self) {
        self.counts.events += 1;
    }
}

impl Grain for Fluid {
    type Event = FluidEvent;

    fn now(&self) -> u64 {
        self.now
    }

    fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    fn next_event(&mut self) -> Option<u64> {
        self.solve();
        while self.oom_kill() {
            self.solve();
        }
        Some(self.segment_ends.first().0.min(self.events.first_at())).filter(|&at| at != NEVER)
    }

    fn take_event(&mut self, at: u64) -> Option<FluidEvent> {
        let (first, cpu) = self.segment_ends.first();
        if first <= at && first <= self.events.first_at() {
            self.segment_ends.set(cpu, None);
            return Some(FluidEvent::Cpu(cpu));
        }
        self.events.take_at(at)
    }

    fn handle(&mut self, event: FluidEvent) {
        self.count_event();
        match event {
            FluidEvent::Cpu(cpu) => self.segment_ends(cpu),
            FluidEvent::Threads(job, generation) => self.advance_threads(job, generation),
            FluidEvent::Wake(task, generation) => self.wakes(task, generation),
            FluidEvent::Balance => self.balance(),
            FluidEvent::BalanceBusy(domain) => self.balance_busy(domain),
            FluidEvent::NumaScan(job, generation) => self.handle_numa_scan(job, generation),
            FluidEvent::PagesMoved => self.batch_moved(),
        }
        self.oom_kill();
    }

    fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }
}

/// Smallest TID of a job. Smaller TIDs belong to the system.
const FIRST_TID: u32 = 1000;
