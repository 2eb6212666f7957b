//! The map of classes to slots, and the threads that keep their slots.
//!
//! ```text
//!   cache 0      cache 1      cache 2       back and forth: all super-devils, then devils, then turtles
//!     S ──1──►     S ──2──►     D ──3─┐
//!     D ◄─6──      D ◄─5──      D ◄─4─┘
//!     T ──7──►     T …
//! ```
//!
//! Only classes decide, not exact rates. A thread stays in a cache for which the map has another slot of its class;
//! the other threads fill the remaining slots of their class in list order. So a thread migrates only because
//! classes changed: its own, or the number of threads of each.
//!
//! As printed, a thread stays only on the core that the map assigns to its class (`keep=core`), and only if neither
//! changed since the last assignment. That also migrates threads within a cache, which gains nothing. So by default
//! (`keep=cache`) slots of one cache swap their CPUs first.

use std::collections::VecDeque;

use base::{CpuId, CpuSet};

use super::classes::Class;
use crate::memory_intensity::cache_slots::CacheSlots;

/// A slot for a thread of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassSlot {
    cache: usize,
    cpu: CpuId,
    class: Class,
    is_taken: bool,
}

/// The needed slots, by cache.
#[derive(Debug)]
pub(super) struct ClassMap {
    slots: Vec<ClassSlot>,
    /// First index of each cache, and the end of the last.
    begins: Vec<usize>,
    /// Index before which no slot of a class is free; the last entry is for any class.
    left_from: [usize; 4],
}

/// Caches back and forth: 0 1 2 2 1 0 0 1 …
struct BackAndForth {
    n_caches: usize,
    at: usize,
}

impl Iterator for BackAndForth {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let step = self.at % (2 * self.n_caches);
        self.at += 1;
        Some(step.min(2 * self.n_caches - 1 - step))
    }
}

impl ClassMap {
    /// Distributes these numbers of threads of each class, super-devils first, over slots that may have other
    /// threads already. If CPUs are too few, a further layer follows.
    pub fn new(slots: &CacheSlots, counts: [usize; 3]) -> Self {
        let mut classes =
            Class::ALL.iter().zip(counts).flat_map(|(&class, n)| std::iter::repeat_n(class, n));
        let n_caches = slots.n_caches();
        let mut caches = BackAndForth { n_caches, at: 0 };
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
        of_classes.sort_by_key(|slot| slot.cache); // The order within a cache stays.
        let begin = |cache: usize| of_classes.partition_point(|slot| slot.cache < cache);
        let begins = (0..=n_caches).map(begin).collect();
        ClassMap { slots: of_classes, begins, left_from: [0; 4] }
    }

    /// The first slot of a cache that satisfies a condition.
    fn find_in(&self, cache: usize, is_it: impl Fn(&ClassSlot) -> bool) -> Option<usize> {
        let (begin, end) = (self.begins[cache], self.begins[cache + 1]);
        self.slots[begin..end].iter().position(is_it).map(|nth| begin + nth)
    }

    /// A thread keeps its CPU if the map has a slot of its class in that cache.
    pub fn keep_in_cache(&mut self, slots: &CacheSlots, cpu: CpuId, class: Class) -> bool {
        let Some(cache) = slots.cache_of(cpu) else { return false };
        let of_class = |slot: &ClassSlot| !slot.is_taken && slot.class == class;
        let same = self.find_in(cache, |slot| of_class(slot) && slot.cpu == cpu);
        if let Some(same) = same {
            self.slots[same].is_taken = true;
            return true;
        }
        let Some(own) = self.find_in(cache, of_class) else { return false };
        match self.find_in(cache, |slot| slot.cpu == cpu) {
            Some(_) => {
                let swaps = self.find_in(cache, |slot| !slot.is_taken && slot.cpu == cpu);
                let Some(other) = swaps else { return false }; // The CPU is taken.
                self.slots[other].cpu = self.slots[own].cpu;
            }
            // The map has no slot there, but an unmanaged thread may be there.
            None if slots.n_on(self.slots[own].cpu) < slots.n_on(cpu) => return false,
            None => {}
        }
        self.slots[own].cpu = cpu;
        self.slots[own].is_taken = true;
        true
    }

    /// The same as printed: only if the map has its class on this CPU.
    pub fn keep_on_core(&mut self, slots: &CacheSlots, cpu: CpuId, class: Class) -> bool {
        let Some(cache) = slots.cache_of(cpu) else { return false };
        let is_it = |slot: &ClassSlot| slot.cpu == cpu && slot.class == class && !slot.is_taken;
        let found = self.find_in(cache, is_it);
        found.map(|nth| self.slots[nth].is_taken = true).is_some()
    }

    /// Takes the first free slot for a thread of a class, or of any class.
    pub fn fill(
        &mut self,
        class: Option<Class>,
        (allowed, own): (&CpuSet, &CpuSet),
        could: impl Fn(CpuId) -> bool,
    ) -> Option<CpuId> {
        let is_left =
            |slot: &ClassSlot| class.is_none_or(|class| class == slot.class) && !slot.is_taken;
        let left_from = &mut self.left_from[class.map_or(Class::ALL.len(), |class| class as usize)];
        *left_from += self.slots[*left_from..].iter().take_while(|slot| !is_left(slot)).count();
        let is_it = |slot: &&mut ClassSlot| {
            is_left(slot)
                && allowed.contains(slot.cpu)
                && !own.contains(slot.cpu)
                && could(slot.cpu)
        };
        let slot = self.slots[*left_from..].iter_mut().find(is_it)?;
        slot.is_taken = true;
        Some(slot.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_visited_back_and_forth() {
        let order: Vec<usize> = BackAndForth { n_caches: 3, at: 0 }.take(8).collect();
        assert_eq!(order, [0, 1, 2, 2, 1, 0, 0, 1]);
        assert_eq!(BackAndForth { n_caches: 1, at: 0 }.take(3).collect::<Vec<_>>(), [0, 0, 0]);
    }
}
