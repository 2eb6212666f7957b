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
    pub fn empty(n_cpus: usize) -> Self {
        CpuOrder((0..n_cpus as u32).map(|nth| (0, nth)).collect())
    }

    /// Returns the smallest number of threads on a CPU, and the index of this CPU.
    pub fn first(&self) -> Option<(u32, u32)> {
        self.0.first().copied()
    }

    /// Returns whether the numbers of threads differ by at most one.
    pub fn are_even(&self) -> bool {
        let ends = self.0.first().zip(self.0.last());
        ends.is_none_or(|((least, _), (most, _))| *most <= least + 1)
    }

    /// Returns all CPUs, sorted by number of threads.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// Changes the number of threads on a CPU.
    pub fn change(&mut self, from: (u32, u32), n_on: u32) {
        let to = (n_on, from.1);
        let Ok(entry) = self.0.binary_search(&from) else { return };
        if from <= to {
            let end = self.0.partition_point(|one| *one <= to);
            self.0[entry..end].rotate_left(1);
            self.0[end - 1] = to;
        } else {
            let begin = self.0.partition_point(|one| *one < to);
            self.0[begin..=entry].rotate_right(1);
            self.0[begin] = to;
        }
    }
}

/// Sort key of a cache: fewest threads on a CPU, threads in the cache, number of the cache.
type CacheKey = (u32, u32, u32);

/// Key of a cache without CPUs.
const NO_CPUS: CacheKey = (u32::MAX, u32::MAX, u32::MAX);

/// Tournament tree over the keys of all caches.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheOrder {
    /// The root is entry 1; the children of entry `at` are `2 * at` and `2 * at + 1`.
    best: Vec<CacheKey>,
}

impl CacheOrder {
    /// Creates the tree from the keys of caches by number; `None`: a cache without CPUs.
    pub fn of(caches: impl Iterator<Item = Option<(u32, u32)>>) -> Self {
        let leaves: Vec<CacheKey> =
            caches.enumerate().map(|(cache, threads)| key(cache, threads)).collect();
        let n_leaves = leaves.len().next_power_of_two();
        let mut best = vec![NO_CPUS; 2 * n_leaves];
        best[n_leaves..n_leaves + leaves.len()].copy_from_slice(&leaves);
        for entry in (1..n_leaves).rev() {
            best[entry] = best[2 * entry].min(best[2 * entry + 1]);
        }
        CacheOrder { best }
    }

    /// Returns the cache with the smallest key.
    pub fn first(&self) -> Option<usize> {
        self.best.get(1).filter(|key| **key != NO_CPUS).map(|(_, _, cache)| *cache as usize)
    }

    /// Changes the key of a cache.
    pub fn set(&mut self, cache: usize, threads: Option<(u32, u32)>) {
        let mut entry = self.best.len() / 2 + cache;
        self.best[entry] = key(cache, threads);
        while 1 < entry {
            entry /= 2;
            self.best[entry] = self.best[2 * entry].min(self.best[2 * entry + 1]);
        }
    }
}

fn key(cache: usize, threads: Option<(u32, u32)>) -> CacheKey {
    threads.map_or(NO_CPUS, |(least, n_in)| (least, n_in, cache as u32))
}
