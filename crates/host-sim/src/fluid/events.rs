//! What will happen when.
//!
//! One entry for each CPU (the end of the first stretch of a task on it) can be moved; all others stay
//! until they come. Of those at one instant CPUs come first, then wake-ups, then the kernel, then the mover.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The first stretch on a CPU ends.
    Cpu(usize),
    /// A task's sleep is over; its life, so that one that was given to another task is none.
    Wake(usize, u64),
    /// The kernel evens out.
    Balance,
    /// The busy CPUs of a domain look at each other.
    CarryRound(usize),
    /// The kernel looks at a job's pages; its life as above.
    NumaScan(usize, u64),
    /// A batch of pages has been moved.
    Mover,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(u64, Event, u64)>>,
    /// Which entry of each CPU holds.
    current: Vec<u64>,
    n_entries: u64,
}

impl Events {
    pub fn new(n_cpus: usize) -> Self {
        Events { current: vec![0; n_cpus], ..Events::default() }
    }

    /// The first stretch on a CPU ends then; `None`: nothing runs there.
    pub fn set_cpu(&mut self, cpu: usize, at: Option<u64>) {
        self.n_entries += 1;
        self.current[cpu] = self.n_entries;
        if let Some(at) = at {
            self.heap.push(Reverse((at, Event::Cpu(cpu), self.n_entries)));
        }
    }

    pub fn add(&mut self, at: u64, event: Event) {
        self.n_entries += 1;
        self.heap.push(Reverse((at, event, self.n_entries)));
    }

    pub fn next_at(&mut self) -> Option<u64> {
        self.drop_stale();
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next event if it is not after an instant.
    pub fn take_at(&mut self, at: u64) -> Option<Event> {
        self.drop_stale();
        let is_now = self.heap.peek().is_some_and(|Reverse((when, ..))| *when <= at);
        let Reverse((_, event, _)) = is_now.then(|| self.heap.pop()).flatten()?;
        Some(event)
    }

    fn drop_stale(&mut self) {
        while let Some(Reverse((_, Event::Cpu(cpu), entry))) = self.heap.peek() {
            if self.current[*cpu] == *entry {
                return;
            }
            self.heap.pop();
        }
    }
}
