//! Orders in which seats are taken, kept while threads sit down and get up.
//!
//! ```text
//!   Ranks   CPUs of one cache, the emptiest first: a short list in which one entry shifts at a time
//!   Need    caches, the best on top:          (0,3,c1)
//!                                        (0,4,c0)   (0,3,c1)      a tournament: who changes plays
//!                                      c0    c1    c2    c3       the games on its way up again
//! ```

/// CPUs of a cache by threads on them and place in its list.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks(Vec<(u32, u32)>);

impl Ranks {
    /// So many CPUs on which nobody sits.
    pub fn empty(n_cpus: usize) -> Self {
        Ranks((0..n_cpus as u32).map(|nth| (0, nth)).collect())
    }

    /// Threads on the emptiest, and its place.
    pub fn first(&self) -> Option<(u32, u32)> {
        self.0.first().copied()
    }

    /// Whether on none of them are two threads more than on another.
    pub fn are_even(&self) -> bool {
        let ends = self.0.first().zip(self.0.last());
        ends.is_none_or(|((least, _), (most, _))| *most <= least + 1)
    }

    /// All, the emptiest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// A CPU has another number of threads.
    pub fn change(&mut self, from: (u32, u32), n_on: u32) {
        let to = (n_on, from.1);
        let Ok(at) = self.0.binary_search(&from) else { return };
        if from <= to {
            let end = self.0.partition_point(|one| *one <= to);
            self.0[at..end].rotate_left(1);
            self.0[end - 1] = to;
        } else {
            let begin = self.0.partition_point(|one| *one < to);
            self.0[begin..=at].rotate_right(1);
            self.0[begin] = to;
        }
    }
}

/// What a cache is taken by: threads on its emptiest CPU, threads in all, number.
type Key = (u32, u32, u32);

/// A cache without CPUs is never taken.
const NEVER: Key = (u32::MAX, u32::MAX, u32::MAX);

/// Which of all caches is taken next: the best of each pair, of each pair of these, and so on.
#[derive(Clone, Debug, Default)]
pub(super) struct Need {
    /// From 1 on; the games of place `at` are between `2 * at` and `2 * at + 1`.
    best: Vec<Key>,
}

impl Need {
    /// Of these caches, by number; `None`: one without CPUs.
    pub fn of(caches: impl Iterator<Item = Option<(u32, u32)>>) -> Self {
        let leaves: Vec<Key> = caches.enumerate().map(|(at, its)| key(at, its)).collect();
        let n_leaves = leaves.len().next_power_of_two();
        let mut best = vec![NEVER; 2 * n_leaves];
        best[n_leaves..n_leaves + leaves.len()].copy_from_slice(&leaves);
        for at in (1..n_leaves).rev() {
            best[at] = best[2 * at].min(best[2 * at + 1]);
        }
        Need { best }
    }

    /// The best of all.
    pub fn first(&self) -> Option<usize> {
        self.best.get(1).filter(|key| **key != NEVER).map(|(_, _, cache)| *cache as usize)
    }

    /// A cache is taken by something else from here on.
    pub fn set(&mut self, cache: usize, its: Option<(u32, u32)>) {
        let mut at = self.best.len() / 2 + cache;
        self.best[at] = key(cache, its);
        while 1 < at {
            at /= 2;
            self.best[at] = self.best[2 * at].min(self.best[2 * at + 1]);
        }
    }
}

fn key(cache: usize, its: Option<(u32, u32)>) -> Key {
    its.map_or(NEVER, |(least, n_in)| (least, n_in, cache as u32))
}
