//! Orders in which slots are assigned, updated when a thread gets or releases a slot.
//!
//! ```text
//!   CpuOrder     CPUs of one cache by number of threads: a sorted list in which one entry shifts at a time
//!   CacheOrder   caches by key, the smallest on top:   (0,3,c1)
//!                                                 (0,4,c0)   (0,3,c1)      a tournament tree: a change of a
//!                                               c0    c1    c2    c3       leaf updates the path to the root
//! ```

/// CPUs of a cache by number of threads and index in its list.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuOrder(Vec<(u32, u32)>);

impl CpuOrder {
    /// CPUs without threads.
    pub fn empty(n_cpus: usize) -> Self {
        CpuOrder((0..n_cpus as u32).map(|nth| (0, nth)).collect())
    }

    /// Number of threads on the emptiest CPU, and its index.
    pub fn first(&self) -> Option<(u32, u32)> {
        self.0.first().copied()
    }

    /// Whether the numbers of threads differ by at most one.
    pub fn are_even(&self) -> bool {
        let ends = self.0.first().zip(self.0.last());
        ends.is_none_or(|((least, _), (most, _))| *most <= least + 1)
    }

    /// All CPUs, the emptiest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// Changes the number of threads on a CPU.
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

/// Threads on the emptiest CPU of a cache, threads in the cache, number of the cache.
type Key = (u32, u32, u32);

/// Key of a cache without CPUs.
const NEVER: Key = (u32::MAX, u32::MAX, u32::MAX);

/// Tournament tree over the keys of all caches.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheOrder {
    /// The root is entry 1; the children of entry `at` are `2 * at` and `2 * at + 1`.
    best: Vec<Key>,
}

impl CacheOrder {
    /// The keys of caches by number; `None`: a cache without CPUs.
    pub fn of(caches: impl Iterator<Item = Option<(u32, u32)>>) -> Self {
        let leaves: Vec<Key> = caches.enumerate().map(|(at, its)| key(at, its)).collect();
        let n_leaves = leaves.len().next_power_of_two();
        let mut best = vec![NEVER; 2 * n_leaves];
        best[n_leaves..n_leaves + leaves.len()].copy_from_slice(&leaves);
        for at in (1..n_leaves).rev() {
            best[at] = best[2 * at].min(best[2 * at + 1]);
        }
        CacheOrder { best }
    }

    /// The cache with the smallest key.
    pub fn first(&self) -> Option<usize> {
        self.best.get(1).filter(|key| **key != NEVER).map(|(_, _, cache)| *cache as usize)
    }

    /// Changes the key of a cache.
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
