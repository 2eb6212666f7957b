//! Queues of waiting tasks, and the fair queue: the task that has received the least weighted CPU time runs next.
//!
//! ```text
//!   vruntime   a 12 ms   b 14 ms   c 14 ms        a runs; after a slice of 3 ms with weight 1 it has 15 ms, and b runs
//!              └ clock: the smallest vruntime of the running and waiting tasks of the queue
//! ```
//!
//! The rules are those of the fair class of Linux: CPU time over weight is charged, a new task starts one slice behind
//! the clock (`START_DEBIT`), a task that slept is at most one slice ahead of it, and a task that migrates keeps its
//! distance from the clock. A task is at most two slices behind the clock: if affinities prevent a queue from being fair,
//! a task that has received more still waits only for a limited time.

use std::collections::BTreeSet;

/// Position of a task in virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct VirtualTask {
    /// The task.
    pub idx: usize,
    /// Weight of the task.
    pub weight: f64,
    /// Charged nanoseconds per unit of weight.
    pub vruntime: f64,
    /// Number of the last entry into the queue. Of tasks with equal vruntime, the first runs first.
    pub entry: u64,
}

/// How a task enters a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entry {
    /// The task is new.
    New,
    /// The task slept, or migrates from another queue: its distance from the clock of its queue.
    From(f64),
    /// The task was running, and its slice ended.
    Again,
}

/// The order in which the waiting tasks of some CPUs run. A queue with another virtual time, such as one that charges
/// more to tasks with many cache misses, implements the same operations.
pub(crate) trait TaskQueue: std::fmt::Debug + Send {
    /// Returns an empty queue with slices of this length.
    fn new(slice_ns: u64) -> Self;

    /// Returns the virtual time that every task of the queue has received at least.
    fn clock(&self) -> f64;

    /// Advances the clock: the running tasks have received at least `running` (infinite without running tasks).
    fn advance_clock(&mut self, running: f64);

    /// Adds a waiting task.
    fn add(&mut self, task: &mut VirtualTask, entry: Entry);

    /// Removes a waiting task.
    fn remove(&mut self, task: &VirtualTask);

    /// Returns the first waiting task that may run.
    fn first(&self, may_run: impl FnMut(usize) -> bool) -> Option<usize>;

    /// Returns the number of waiting tasks.
    fn n_waiting(&self) -> usize;

    /// Charges CPU time to a running task.
    fn charge(&self, task: &mut VirtualTask, cpu_ns: f64);

    /// Returns the length of the next slice of a task in nanoseconds.
    fn slice_ns(&self, task: &VirtualTask) -> u64;

    /// Returns whether a waiting task runs before a task whose slice has ended.
    fn is_before(&self, waiting: &VirtualTask, ended: &VirtualTask) -> bool;

    /// Returns whether a task that arrives preempts a running task.
    fn preempts(&self, arrived: &VirtualTask, running: &VirtualTask) -> bool;
}

/// The fair queue.
#[derive(Clone, Debug)]
pub(crate) struct FairQueue {
    slice_ns: u64,
    clock: f64,
    n_entries: u64,
    /// Waiting tasks by the bits of their vruntime, which is never negative, then by entry.
    waiting: BTreeSet<(u64, u64, usize)>,
}

/// Largest distance of a task that waits behind the clock, in slices.
const BEHIND_SLICES_MAX: f64 = 2.0;

fn key(task: &VirtualTask) -> (u64, u64, usize) {
    (task.vruntime.to_bits(), task.entry, task.idx)
}

impl FairQueue {
    /// Returns a slice in the virtual time of a task.
    fn slice_of(&self, task: &VirtualTask) -> f64 {
        self.slice_ns as f64 / task.weight
    }
}

impl TaskQueue for FairQueue {
    fn new(slice_ns: u64) -> Self {
        FairQueue { slice_ns, clock: 0.0, n_entries: 0, waiting: BTreeSet::new() }
    }

    fn clock(&self) -> f64 {
        self.clock
    }

    fn advance_clock(&mut self, running: f64) {
        let waiting = self.waiting.first().map_or(f64::INFINITY, |first| f64::from_bits(first.0));
        let least = running.min(waiting);
        if least.is_finite() {
            self.clock = self.clock.max(least);
        }
    }

    fn add(&mut self, task: &mut VirtualTask, entry: Entry) {
        let slice = self.slice_of(task);
        let vruntime = match entry {
            Entry::New => self.clock + slice,
            Entry::From(distance) => self.clock + distance.max(-slice),
            Entry::Again => task.vruntime,
        };
        task.vruntime = vruntime.clamp(0.0, self.clock + BEHIND_SLICES_MAX * slice);
        self.n_entries += 1;
        task.entry = self.n_entries;
        self.waiting.insert(key(task));
    }

    fn remove(&mut self, task: &VirtualTask) {
        self.waiting.remove(&key(task));
    }

    fn first(&self, mut may_run: impl FnMut(usize) -> bool) -> Option<usize> {
        self.waiting.iter().map(|&(.., idx)| idx).find(|&idx| may_run(idx))
    }

    fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    fn charge(&self, task: &mut VirtualTask, cpu_ns: f64) {
        task.vruntime += cpu_ns / task.weight;
    }

    fn slice_ns(&self, _: &VirtualTask) -> u64 {
        self.slice_ns
    }

    fn is_before(&self, waiting: &VirtualTask, ended: &VirtualTask) -> bool {
        waiting.vruntime <= ended.vruntime
    }

    fn preempts(&self, arrived: &VirtualTask, running: &VirtualTask) -> bool {
        arrived.vruntime < running.vruntime
    }
}
