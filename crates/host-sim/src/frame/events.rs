//! Event queues.
//!
//! The end of the first segment on a CPU is rescheduled often. CPUs are therefore the leaves of a tournament tree, in
//! which a change updates one path. All other events are in a heap. Events at one instant are ordered by kind and number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time of an event that does not take place. It is later than all other times.
pub(crate) const NEVER: u64 = u64::MAX;

/// One timer for each CPU: a tournament tree.
#[derive(Clone, Debug)]
pub(crate) struct CpuTimers {
    /// Node `at` (from 1) contains the earlier of its children `2 * at` and `2 * at + 1`. The second half of the nodes
    /// are the leaves.
    firsts: Vec<(u64, usize)>,
}

impl CpuTimers {
    pub fn new(n_cpus: usize) -> Self {
        CpuTimers { firsts: vec![(NEVER, 0); 2 * n_cpus.next_power_of_two()] }
    }

    /// Sets the timer of a CPU; `None`: no event.
    pub fn set(&mut self, cpu: usize, at: Option<u64>) {
        let mut node = self.firsts.len() / 2 + cpu;
        self.firsts[node] = (at.unwrap_or(NEVER), cpu);
        while 1 < node {
            node /= 2;
            let first = self.firsts[2 * node].min(self.firsts[2 * node + 1]);
            // Without a change, the nodes above do not change either.
            if std::mem::replace(&mut self.firsts[node], first) == first {
                break;
            }
        }
    }

    /// Returns the time of a CPU; [`NEVER`] if it has no event.
    pub fn of(&self, cpu: usize) -> u64 {
        self.firsts[self.firsts.len() / 2 + cpu].0
    }

    /// Returns the first time and its CPU; the time is [`NEVER`] if no timer is set.
    pub fn first(&self) -> (u64, usize) {
        self.firsts[1]
    }
}

/// Queue of future events of the kind `E`.
#[derive(Clone, Debug)]
pub(crate) struct EventQueue<E: Ord> {
    heap: BinaryHeap<Reverse<(u64, E, u64)>>,
    n_entries: u64,
}

impl<E: Ord> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { heap: BinaryHeap::new(), n_entries: 0 }
    }
}

impl<E: Ord> EventQueue<E> {
    pub fn add(&mut self, at: u64, event: E) {
        self.n_entries += 1;
        self.heap.push(Reverse((at, event, self.n_entries)));
    }

    /// Returns the first time; [`NEVER`] if the queue is empty.
    pub fn first_at(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse((at, ..))| *at)
    }

    /// Removes and returns the first event if its time is not after `at`.
    pub fn take_at(&mut self, at: u64) -> Option<E> {
        let is_due = self.first_at() <= at && !self.heap.is_empty();
        let Reverse((_, event, _)) = is_due.then(|| self.heap.pop()).flatten()?;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_timer_is_the_minimum(
            n_cpus in 1usize..40,
            changes in proptest::collection::vec((0usize..40, proptest::option::of(0u64..9)), 1..60),
        ) {
            let (mut timers, mut list) = (CpuTimers::new(n_cpus), vec![NEVER; n_cpus]);
            for (cpu, at) in changes {
                timers.set(cpu % n_cpus, at);
                list[cpu % n_cpus] = at.unwrap_or(NEVER);
                let first = list.iter().min().copied().unwrap_or(NEVER);
                prop_assert_eq!(timers.first().0, first);
                prop_assert!(first == NEVER || list[timers.first().1] == first);
            }
        }
    }
}
