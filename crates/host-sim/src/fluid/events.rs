//! What will happen when.
//!
//! The end of the first stretch of a task on a CPU can be moved, and mostly is: so CPUs play a tournament, in which
//! the one that changes plays its games anew. All others stay in a heap until they come. Of those at one instant CPUs come first, then wake-ups, then the kernel, then the mover.

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
    /// The first of each pair of CPUs, of each pair of these, and so on: from 1 on, place `at` is the first of
    /// places `2 * at` and `2 * at + 1`. The second half are the CPUs themselves.
    firsts: Vec<(u64, usize)>,
    n_entries: u64,
}

/// When nothing ends on a CPU: after everything else.
const NEVER: u64 = u64::MAX;

impl Events {
    pub fn new(n_cpus: usize) -> Self {
        let n_leaves = n_cpus.next_power_of_two();
        Events { firsts: vec![(NEVER, 0); 2 * n_leaves], ..Events::default() }
    }

    /// The first stretch on a CPU ends then; `None`: nothing runs there.
    pub fn set_cpu(&mut self, cpu: usize, at: Option<u64>) {
        let mut place = self.firsts.len() / 2 + cpu;
        self.firsts[place] = (at.unwrap_or(NEVER), cpu);
        while 1 < place {
            place /= 2;
            self.firsts[place] = self.firsts[2 * place].min(self.firsts[2 * place + 1]);
        }
    }

    pub fn add(&mut self, at: u64, event: Event) {
        self.n_entries += 1;
        self.heap.push(Reverse((at, event, self.n_entries)));
    }

    pub fn next_at(&self) -> Option<u64> {
        let other = self.heap.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        Some(self.firsts[1].0.min(other)).filter(|&at| at != NEVER)
    }

    /// The next event if it is not after an instant.
    pub fn take_at(&mut self, at: u64) -> Option<Event> {
        let other = self.heap.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        let (first, cpu) = self.firsts[1];
        if first <= at && first <= other {
            self.set_cpu(cpu, None);
            return Some(Event::Cpu(cpu));
        }
        let Reverse((_, event, _)) = (other <= at).then(|| self.heap.pop()).flatten()?;
        Some(event)
    }
}
