//! The event queue.
//!
//! The end of the first segment on a CPU is rescheduled often. CPUs are therefore the leaves of a tournament tree, in
//! which a change updates one path. All other events are in a heap. Events at one instant have this order: CPUs,
//! threads that wait for each other, wake-ups, events of the kernel, page migration.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FluidEvent {
    /// The first segment on a CPU ends.
    Cpu(usize),
    /// Threads of a job that wait for each other have executed a part. The generation shows whether the job has ended.
    Threads(usize, u64),
    /// The sleep of a task ends. The generation shows whether the slot of the task was reused.
    Wake(usize, u64),
    /// Load balancing of the whole machine.
    Balance,
    /// Load balancing among the busy CPUs of a domain.
    BalanceBusy(usize),
    /// NUMA balancing scans the pages of a job. The generation has the same purpose as in `Wake`.
    NumaScan(usize, u64),
    /// A batch of a page migration ended.
    PagesMoved,
}

/// Queue of all future events.
#[derive(Clone, Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, FluidEvent, u64)>>,
    /// Tournament tree of CPUs. Node `at` (from 1) contains the earlier of its children `2 * at` and `2 * at + 1`.
    /// The second half of the nodes are the leaves.
    firsts: Vec<(u64, usize)>,
    n_entries: u64,
}

/// Time of a CPU without an event. It is later than all other times.
const NEVER: u64 = u64::MAX;

impl EventQueue {
    pub fn new(n_cpus: usize) -> Self {
        let n_leaves = n_cpus.next_power_of_two();
        EventQueue { firsts: vec![(NEVER, 0); 2 * n_leaves], ..EventQueue::default() }
    }

    /// Reschedules the end of the first segment on a CPU; `None`: no segment ends.
    pub fn set_cpu(&mut self, cpu: usize, at: Option<u64>) {
        let mut node = self.firsts.len() / 2 + cpu;
        self.firsts[node] = (at.unwrap_or(NEVER), cpu);
        while 1 < node {
            node /= 2;
            self.firsts[node] = self.firsts[2 * node].min(self.firsts[2 * node + 1]);
        }
    }

    pub fn add(&mut self, at: u64, event: FluidEvent) {
        self.n_entries += 1;
        self.heap.push(Reverse((at, event, self.n_entries)));
    }

    pub fn next_at(&self) -> Option<u64> {
        let other = self.heap.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        Some(self.firsts[1].0.min(other)).filter(|&at| at != NEVER)
    }

    /// Removes and returns the next event if its time is not after `at`.
    pub fn take_at(&mut self, at: u64) -> Option<FluidEvent> {
        let other = self.heap.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        let (first, cpu) = self.firsts[1];
        if first <= at && first <= other {
            self.set_cpu(cpu, None);
            return Some(FluidEvent::Cpu(cpu));
        }
        let Reverse((_, event, _)) = (other <= at).then(|| self.heap.pop()).flatten()?;
        Some(event)
    }
}
