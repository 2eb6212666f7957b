//! The frame of simulated machines: what the host requires of a machine, and what machines of all grains share.
//!
//! ```text
//!   SimHost ── dyn SimMachine ── grain: fluid    tasks share a CPU by weight, at constant rates between two events
//!                                       quantum  one task runs on a CPU, for a slice
//!     frame: settings · clock · event queues · random numbers ([`crate::variation`]) · checks of page migrations
//!     grain: its own events, and the meaning of one of them
//! ```
//!
//! The host calls a machine once per turn, per action or per sampled job. The loop over events, [`advance`], is
//! instantiated for each grain, so that no event needs a virtual call.

mod clock;
mod events;
mod settings;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Nanos;

pub(crate) use clock::{Grain, advance};
pub(crate) use events::{CpuTimers, EventQueue, NEVER};
pub use settings::{
    GrainError, GrainKind, GrainSettings, MachineSettings, PRECISION, PRECISION_EXACT,
    QuantumSettings,
};
pub use values::{
    HostNotice, InvariantViolation, JobPageMigration, JobStart, MemoryPlacement, SimThread,
    SimulationWork, TaskCounts,
};

/// A simulated machine of any grain. Jobs, CPUs and nodes are indexes, times are nanoseconds since the start.
pub trait SimMachine: std::fmt::Debug + Send {
    /// Returns the current time.
    fn now(&self) -> u64;

    /// Returns the time of the next event.
    fn next_event(&mut self) -> Option<u64>;

    /// Advances to the time `until` and handles the events up to this time. Stops earlier after the first instant with
    /// a notice for the host, and after `n_instants` instants with events.
    fn advance(&mut self, until: u64, n_instants: u64);

    /// Removes and returns the notices for the host, with their times, in order.
    fn take_notices(&mut self) -> Vec<(u64, HostNotice)>;

    /// Returns the amount of work since the start.
    fn work(&self) -> SimulationWork;

    // Actions. Weight and memory policy of a job are part of its start. An action that changes the slice or the weight
    // of a running job, and a standing order (a rule that the machine applies between two turns), belong here: the host
    // calls the method, and the grain applies the rule at its own events.

    /// Starts a job, before or during the run, and returns the TID of its main thread. At least one CPU must be allowed.
    fn start(&mut self, start: JobStart) -> u32;

    /// Sets the affinity of a job; `None` for all CPUs. Returns the number of affected threads.
    fn bind(&mut self, job: usize, allowed: Option<Arc<Vec<bool>>>) -> u32;

    /// Sets the affinity of the thread with this TID. Returns the number of affected threads.
    fn bind_tid(&mut self, tid: u32, allowed: Option<Arc<Vec<bool>>>) -> u32;

    /// Queues a page migration.
    fn move_pages(&mut self, page_migration: JobPageMigration);

    /// Kills a job without delay.
    fn kill(&mut self, job: usize);

    /// Frees the memory and the threads of an ended job. Called after its counters were read.
    fn remove_job(&mut self, job: usize);

    /// Takes a CPU offline or online.
    fn set_online(&mut self, cpu: usize, online: bool);

    // Samples.

    /// Updates all counters to the current time.
    fn update_all(&mut self);

    /// Returns the n-th thread of a job that was started and not yet removed, at the last update.
    fn thread(&self, job: usize, nth: usize) -> Option<SimThread>;

    /// Returns the executed share of a running job, at the last update.
    fn done_share(&self, job: usize) -> Option<f64>;

    /// Returns the memory of a job on each node in bytes.
    fn memory_of(&self, job: usize) -> &[u64];

    /// Returns the free memory of a node in bytes.
    fn memory_free(&self, node: usize) -> u64;

    /// Returns the reclaimable memory of a node in bytes.
    fn memory_reclaimable(&self, node: usize) -> u64;

    /// Returns the lines that the controller of a node has read and written since the start.
    fn lines(&self, node: usize) -> [f64; 2];

    /// Counts the traffic of caches and jobs from now on. A grain without caches counts none.
    fn monitor_traffic(&mut self) {}

    /// Returns the bytes between a last-level cache and all memories, and those to the local memory, since the start;
    /// `None` if traffic is not counted.
    fn cache_traffic(&self, _cache: usize) -> Option<[f64; 2]> {
        None
    }

    /// Returns the bytes of a job through a last-level cache, as [`SimMachine::cache_traffic`].
    fn job_traffic(&self, _job: usize, _cache: usize) -> Option<[f64; 2]> {
        None
    }

    /// Returns the occupancy of each job in each last-level cache in bytes, by job and cache.
    fn occupancies(&self) -> BTreeMap<(usize, usize), f64> {
        BTreeMap::new()
    }

    // Checks.

    /// Checks the invariants of the current state; without a change since the last check, only those that time alone can
    /// violate.
    ///
    /// # Errors
    /// Returns the first violated invariant.
    fn check(&self, has_changed: bool) -> Result<(), InvariantViolation>;

    /// Checks that the threads of an ended job have executed the work of its script.
    ///
    /// # Errors
    /// Returns the difference.
    fn check_instructions(&self, job: usize) -> Result<(), InvariantViolation>;

    /// Checks the result of a page migration.
    ///
    /// # Errors
    /// Returns an error if the results do not add up, or if they exceed the limit.
    fn check_move(&self, done: &JobPageMigration) -> Result<(), InvariantViolation> {
        let JobPageMigration { requested, limit, moved, no_memory, busy, .. } = *done;
        if moved + no_memory + busy == requested && requested <= limit {
            return Ok(());
        }
        let failed = no_memory + busy;
        let problem = format!(
            "a page migration moved {moved} bytes and failed to move {failed}: the sum must be the requested {requested} bytes, which must not exceed the limit of {limit}"
        );
        Err(InvariantViolation { at: Nanos(self.now()), problem })
    }
}

impl dyn SimMachine + '_ {
    /// Returns the threads of a job that was started and not yet removed, at the last update.
    pub fn threads_of(&self, job: usize) -> impl Iterator<Item = SimThread> {
        (0..).map_while(move |nth| self.thread(job, nth))
    }
}
