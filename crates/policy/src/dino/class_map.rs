//! The map of classes to slots, and the threads that keep their slots.
//!
//! ```text
//!   cache 0      cache 1      cache 2       in alternating direction: all super-devils, then devils, turtles
//!     S ──1──►     S ──2──►     D ──3─┐
//!     D ◄─6──      D ◄─5──      D ◄─4─┘
//!     T ──7──►     T …
//! ```
//!
//! The map depends on classes, not on exact rates. A thread stays in a cache for which the map has another slot of its
//! class. The other threads fill the remaining slots of their class in list order. A thread therefore migrates only if
//! its class or the number of threads of a class changes.
//!
//! As published (`keep=core`), a thread stays only on a core that the map assigns to its class, and only if the class
//! of the thread and of the core did not change since the last assignment. This also migrates threads within a cache,
//! which has no benefit. By default (`keep=cache`), slots of one cache swap their CPUs to avoid such migrations.

use std::collections::VecDeque;

use base::{CpuId, CpuSet};

use super::classes::MissClass;
use crate::memory_intensity::cache_slots::CacheSlots;

/// A slot for a thread of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassSlot {
    cache: usize,
    cpu: CpuId,
    class: MissClass,
    is_taken: bool,
}

/// Slots for all threads, in the order of caches.
#[derive(Debug)]
pub(super) struct ClassMap {
    slots: Vec<ClassSlot>,
    /// Index of the first slot of each cache, and the number of slots.
    begins: Vec<usize>,
    /// Index before which no slot is free, for each class; the last entry applies to all classes.
    left_from: [usize; 4],
}

/// Caches in alternating direction: 0 1 2 2 1 0 0 1 …
struct AlternatingCaches {
    n_caches: usize,
    at: usize,
}

impl Iterator for AlternatingCaches {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let step = self.at % (2 * self.n_caches);
        self.at += 1;
        Some(step.min(2 * self.n_caches - 1 - step))
    }
}

impl ClassMap {
    /// Distributes the threads of each class over the slots, super-devils first. Slots may already have threads of
    /// other jobs. If there are fewer CPUs than threads, the CPUs get a further layer of slots.
    pub fn new(slots: &CacheSlots, counts: [usize; 3]) -> Self {
        let mut classes =
            MissClass::ALL.iter().zip(counts).flat_map(|(&class, n)| std::iter::repeat_n(class, n));
        let n_caches = slots.n_caches();
        let mut caches = AlternatingCaches { n_caches, at: 0 };
        let mut of_classes = Vec::new();
        let mut class = classes.next();
        for layer in 0.. {
            let free = |cache: usize| {
                let cpus = slots.cpus_of(cache).iter().copied();
                cpus.filter(|&cpu| slots.n_on(cpu) <= layer).collect::<VecDeque<CpuId>>()
            };
            let mut free: Vec<VecDeque<CpuId>> = (0..n_caches).map(free).collect();
            while free.iter().any(|cpus| !cpus.is_empty()) {
                let Some(next) = class else { break };
                let Some(cache) = caches.next() else { break };
                if let Some(cpu) = free[cache].pop_front() {
                    of_classes.push(ClassSlot { cache, cpu, class: next, is_taken: false });
                    class = classes.next();
                }
            }
            if class.is_none() || n_caches == 0 {
                break;
            }
        }
        of_classes.sort_by_key(|slot| slot.cache); // A stable sort keeps the order within a cache.
        let begin = |cache: usize| of_classes.partition_point(|slot| slot.cache < cache);
        let begins = (0..=n_caches).map(begin).collect();
        ClassMap { slots: of_classes, begins, left_from: [0; 4] }
    }

    /// Returns the first slot of a cache that satisfies a condition.
    fn find_in(&self, cache: usize, matches: impl Fn(&ClassSlot) -> bool) -> Option<usize> {
        let (begin, end) = (self.begins[cache], self.begins[cache + 1]);
        self.slots[begin..end].iter().position(matches).map(|nth| begin + nth)
    }

    /// Takes a slot of the class for a thread on its current CPU, if the cache of the CPU has such a slot
    /// (`keep=cache`). Returns whether the thread keeps its CPU.
    pub fn keep_in_cache(&mut self, slots: &CacheSlots, cpu: CpuId, class: MissClass) -> bool {
        let Some(cache) = slots.cache_of(cpu) else { return false };
        let of_class = |slot: &ClassSlot| !slot.is_taken && slot.class == class;
        let same = self.find_in(cache, |slot| of_class(slot) && slot.cpu == cpu);
        if let Some(same) = same {
            self.slots[same].is_taken = true;
            return true;
        }
        let Some(slot_idx) = self.find_in(cache, of_class) else { return false };
        match self.find_in(cache, |slot| slot.cpu == cpu) {
            Some(_) => {
                let swaps = self.find_in(cache, |slot| !slot.is_taken && slot.cpu == cpu);
                let Some(other) = swaps else { return false }; // The CPU is taken.
                self.slots[other].cpu = self.slots[slot_idx].cpu;
            }
            // The map has no slot on this CPU, but an unmanaged thread may run on the CPU.
            None if slots.n_on(self.slots[slot_idx].cpu) < slots.n_on(cpu) => return false,
            None => {}
        }
        self.slots[slot_idx].cpu = cpu;
        self.slots[slot_idx].is_taken = true;
        true
    }

    /// Takes the slot on the current CPU of a thread, if the slot has the class of the thread (`keep=core`). Returns
    /// whether the thread keeps its CPU.
    pub fn keep_on_core(&mut self, slots: &CacheSlots, cpu: CpuId, class: MissClass) -> bool {
        let Some(cache) = slots.cache_of(cpu) else { return false };
        let matches = |slot: &ClassSlot| slot.cpu == cpu && slot.class == class && !slot.is_taken;
        let found = self.find_in(cache, matches);
        found.map(|nth| self.slots[nth].is_taken = true).is_some()
    }

    /// Takes the first free slot of a class for a thread; `None`: of any class.
    pub fn fill(
        &mut self,
        class: Option<MissClass>,
        (allowed, job_cpus): (&CpuSet, &CpuSet),
        may_use: impl Fn(CpuId) -> bool,
    ) -> Option<CpuId> {
        let is_left =
            |slot: &ClassSlot| class.is_none_or(|class| class == slot.class) && !slot.is_taken;
        let left_from =
            &mut self.left_from[class.map_or(MissClass::ALL.len(), |class| class as usize)];
        *left_from += self.slots[*left_from..].iter().take_while(|slot| !is_left(slot)).count();
        let matches = |slot: &&mut ClassSlot| {
            is_left(slot)
                && allowed.contains(slot.cpu)
                && !job_cpus.contains(slot.cpu)
                && may_use(slot.cpu)
        };
        let slot = self.slots[*left_from..].iter_mut().find(matches)?;
        slot.is_taken = true;
        Some(slot.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_visited_in_alternating_direction() {
        let order: Vec<usize> = AlternatingCaches { n_caches: 3, at: 0 }.take(8).collect();
        assert_eq!(order, [0, 1, 2, 2, 1, 0, 0, 1]);
        assert_eq!(AlternatingCaches { n_caches: 1, at: 0 }.take(3).collect::<Vec<_>>(), [0, 0, 0]);
    }
}
