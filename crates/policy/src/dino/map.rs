//! Which class sits where, and who keeps its seat.
//!
//! ```text
//!   cache 0      cache 1      cache 2       to and fro: first all super-devils, then devils, then turtles
//!     S ──1──►     S ──2──►     D ──3─┐
//!     D ◄─6──      D ◄─5──      D ◄─4─┘
//!     T ──7──►     T …
//! ```
//!
//! Only classes decide, not exact rates. Whoever sits in a cache where the map wants one more of its class
//! stays; the rest fill what is left of their own class, in list order. So a thread moves only because
//! classes changed: its own, or how many there are of each.
//!
//! As printed a thread stays only on the very core that the map gives its class (`keep=core`), and only if
//! neither changed since the last time. That also moves threads about within a cache, which gains nothing; so
//! by default (`keep=cache`) seats of one cache trade their CPUs before that.

use std::collections::VecDeque;

use base::{CpuId, CpuSet};

use super::classes::Class;
use crate::intensity::seats::Seats;

/// One seat for a thread of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    cache: usize,
    cpu: CpuId,
    class: Class,
    is_taken: bool,
}

/// All seats that are needed, cache by cache.
#[derive(Debug)]
pub(super) struct Map {
    places: Vec<Place>,
    /// Where the places of each cache begin, and one more: where they end.
    begins: Vec<usize>,
    /// No place of a class is left before this one; the last is of any class.
    left_from: [usize; 4],
}

/// Caches to and fro: 0 1 2 2 1 0 0 1 …
struct Snake {
    n_caches: usize,
    at: usize,
}

impl Iterator for Snake {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let step = self.at % (2 * self.n_caches);
        self.at += 1;
        Some(step.min(2 * self.n_caches - 1 - step))
    }
}

impl Map {
    /// Lays out so many threads of each class, super-devils first, over seats on which others may sit
    /// already. Where CPUs are too few a further layer is laid over all of them.
    pub fn new(seats: &Seats, counts: [usize; 3]) -> Self {
        let mut classes =
            Class::ALL.iter().zip(counts).flat_map(|(&class, n)| std::iter::repeat_n(class, n));
        let n_caches = seats.n_caches();
        let mut snake = Snake { n_caches, at: 0 };
        let mut places = Vec::new();
        let mut class = classes.next();
        for layer in 0.. {
            let free = |cache: usize| {
                let cpus = seats.cpus_of(cache).iter().copied();
                cpus.filter(|&cpu| seats.n_on(cpu) <= layer).collect::<VecDeque<CpuId>>()
            };
            let mut free: Vec<VecDeque<CpuId>> = (0..n_caches).map(free).collect();
            while free.iter().any(|cpus| !cpus.is_empty()) {
                let Some(next) = class else { break };
                let Some(cache) = snake.next() else { break };
                if let Some(cpu) = free[cache].pop_front() {
                    places.push(Place { cache, cpu, class: next, is_taken: false });
                    class = classes.next();
                }
            }
            if class.is_none() || n_caches == 0 {
                break;
            }
        }
        places.sort_by_key(|place| place.cache); // As laid out within a cache.
        let begin = |cache: usize| places.partition_point(|place| place.cache < cache);
        let begins = (0..=n_caches).map(begin).collect();
        Map { places, begins, left_from: [0; 4] }
    }

    /// The first place of a cache of which something is true.
    fn find_in(&self, cache: usize, is_it: impl Fn(&Place) -> bool) -> Option<usize> {
        let (begin, end) = (self.begins[cache], self.begins[cache + 1]);
        self.places[begin..end].iter().position(is_it).map(|nth| begin + nth)
    }

    /// A thread that sits on a CPU keeps it, if the map wants its class in that cache.
    pub fn keep_in_cache(&mut self, seats: &Seats, cpu: CpuId, class: Class) -> bool {
        let Some(cache) = seats.cache_of(cpu) else { return false };
        let of_class = |place: &Place| !place.is_taken && place.class == class;
        let same = self.find_in(cache, |place| of_class(place) && place.cpu == cpu);
        if let Some(same) = same {
            self.places[same].is_taken = true;
            return true;
        }
        let Some(own) = self.find_in(cache, of_class) else { return false };
        match self.find_in(cache, |place| place.cpu == cpu) {
            Some(_) => {
                let trades = self.find_in(cache, |place| !place.is_taken && place.cpu == cpu);
                let Some(other) = trades else { return false }; // Somebody sits there already.
                self.places[other].cpu = self.places[own].cpu;
            }
            // Nobody is meant to sit there, but somebody who is not ours may.
            None if seats.n_on(self.places[own].cpu) < seats.n_on(cpu) => return false,
            None => {}
        }
        self.places[own].cpu = cpu;
        self.places[own].is_taken = true;
        true
    }

    /// The same as printed: only where the map has its class on this very CPU.
    pub fn keep_on_core(&mut self, seats: &Seats, cpu: CpuId, class: Class) -> bool {
        let Some(cache) = seats.cache_of(cpu) else { return false };
        let is_it = |place: &Place| place.cpu == cpu && place.class == class && !place.is_taken;
        let found = self.find_in(cache, is_it);
        found.map(|nth| self.places[nth].is_taken = true).is_some()
    }

    /// The first place that is left for a thread of a class, or of any class; taken from now on.
    pub fn fill(
        &mut self,
        class: Option<Class>,
        (allowed, own): (&CpuSet, &CpuSet),
        could: impl Fn(CpuId) -> bool,
    ) -> Option<CpuId> {
        let is_left =
            |place: &Place| class.is_none_or(|class| class == place.class) && !place.is_taken;
        let left_from = &mut self.left_from[class.map_or(Class::ALL.len(), |class| class as usize)];
        *left_from += self.places[*left_from..].iter().take_while(|place| !is_left(place)).count();
        let is_it = |place: &&mut Place| {
            is_left(place)
                && allowed.contains(place.cpu)
                && !own.contains(place.cpu)
                && could(place.cpu)
        };
        let place = self.places[*left_from..].iter_mut().find(is_it)?;
        place.is_taken = true;
        Some(place.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_gone_through_to_and_fro() {
        let order: Vec<usize> = Snake { n_caches: 3, at: 0 }.take(8).collect();
        assert_eq!(order, [0, 1, 2, 2, 1, 0, 0, 1]);
        assert_eq!(Snake { n_caches: 1, at: 0 }.take(3).collect::<Vec<_>>(), [0, 0, 0]);
    }
}
