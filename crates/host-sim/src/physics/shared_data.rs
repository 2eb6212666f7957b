//! Data that the threads of a program share.
//!
//! A share `s` of the data of each thread is common to all threads of the program. Threads in one cache have one copy of
//! it, and all of them keep it there:
//!
//! ```text
//!   one thread   │ private: (1 - s) × filled(T)      │ common: s × filled(T)      │   T: residence time
//!   k threads    │ private │ private │ … one for each │ common: s × filled(T of k) │   filled by all k together
//! ```
//!
//! Each thread has the misses of its private part plus the whole common part. Threads in different caches have a copy
//! each. Out of scope: the traffic that keeps copies coherent, and a common part whose misses differ from those of the
//! private part.

use super::FillTable;

/// Tables of a phase whose threads share data, for each cache size of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedFills {
    /// Share of the data that is common, above 0 and at most 1.
    pub share: f64,
    private: Vec<FillTable>,
    common: Vec<FillTable>,
}

impl SharedFills {
    /// Returns the tables for a share of common data; `None` without common data.
    pub fn new(share: f64, fills: &[FillTable]) -> Option<Self> {
        let scaled =
            |by: f64| -> Vec<FillTable> { fills.iter().map(|table| table.scaled(by)).collect() };
        let [private, common] = [1.0 - share, share].map(scaled);
        (0.0 < share).then_some(SharedFills { share, private, common })
    }
}

/// Entries of a cache for [`super::occupancies_with`].
#[derive(Debug, Default)]
pub struct CacheEntries<'a> {
    /// Table and time per instruction of each entry.
    entries: Vec<(&'a FillTable, f64)>,
    members: Vec<Member>,
    /// Program of each common part, and the index of its entry.
    commons: Vec<((usize, usize), usize)>,
}

/// A thread in the cache.
#[derive(Clone, Copy, Debug)]
struct Member {
    entry: usize,
    /// Index in [`CacheEntries::commons`].
    common: Option<usize>,
}

impl<'a> CacheEntries<'a> {
    /// Adds a thread with the tables for the cache size `kind`. Threads with equal `program`, a job and its phase, share the
    /// common part.
    pub fn add(
        &mut self,
        fills: &'a [FillTable],
        shared: Option<&'a SharedFills>,
        kind: usize,
        program: (usize, usize),
    ) {
        let entry = self.entries.len();
        self.entries.push((shared.map_or(&fills[kind], |shared| &shared.private[kind]), 0.0));
        let common = shared.map(|shared| {
            let known = self.commons.iter().position(|(owner, _)| *owner == program);
            known.unwrap_or_else(|| {
                self.commons.push((program, self.entries.len()));
                self.entries.push((&shared.common[kind], 0.0));
                self.commons.len() - 1
            })
        });
        self.members.push(Member { entry, common });
    }

    /// Sets the time per instruction of each thread. Threads fill their common part together.
    pub fn set_times(&mut self, times: impl Iterator<Item = f64>) {
        for (_, entry) in &self.commons {
            self.entries[*entry].1 = 0.0;
        }
        for (member, time) in self.members.iter().zip(times) {
            self.entries[member.entry].1 = time;
            if let Some(common) = member.common {
                self.entries[self.commons[common].1].1 += 1.0 / time;
            }
        }
        for (_, entry) in &self.commons {
            self.entries[*entry].1 = 1.0 / self.entries[*entry].1;
        }
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[(&'a FillTable, f64)] {
        &self.entries
    }

    /// Returns the bytes of a thread's data in the cache, and the share of them that is counted for other threads.
    pub fn bytes_of(&self, thread: usize, occupancies: &[f64]) -> (f64, f64) {
        let Member { entry, common } = self.members[thread];
        let Some(common) = common else { return (occupancies[entry], 0.0) };
        let n_sharing = self.members.iter().filter(|member| member.common == Some(common)).count();
        let of_common = occupancies[self.commons[common].1];
        let bytes = occupancies[entry] + of_common;
        let elsewhere = of_common * (1.0 - 1.0 / n_sharing as f64);
        (bytes, if 0.0 < bytes { elsewhere / bytes } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physics::replacement::tests::table;
    use crate::physics::{occupancies, occupancies_with};
    use topology::Replacement;

    const MIB: f64 = 1048576.0;

    /// Returns the bytes of two threads of a program that share data, and of a stream beside them.
    fn beside_a_stream(share: f64) -> [f64; 3] {
        let (fills, stream) = ([table(&[2.0, 10.0, 30.0])], [table(&[20.0])]);
        let shared = SharedFills::new(share, &fills);
        let mut entries = CacheEntries::default();
        entries.add(&fills, shared.as_ref(), 0, (7, 0));
        entries.add(&fills, shared.as_ref(), 0, (7, 0));
        entries.add(&stream, None, 0, (8, 0));
        entries.set_times([1.0, 1.0, 1.0].into_iter());
        let mut occupied = vec![0.0; entries.entries().len()];
        occupancies_with(Replacement::Lru, entries.entries(), MIB, 0.0, &mut occupied);
        let each = [0, 1, 2].map(|thread| entries.bytes_of(thread, &occupied));
        let counted: f64 = each.iter().map(|(bytes, elsewhere)| bytes * (1.0 - elsewhere)).sum();
        assert!((counted - MIB).abs() < 2.0, "{counted}");
        each.map(|(bytes, _)| bytes)
    }

    #[test]
    fn threads_without_common_data_are_two_programs() {
        let (own, stream) = (table(&[2.0, 10.0, 30.0]), table(&[20.0]));
        let apart = occupancies(&[(&own, 1.0), (&own, 1.0), (&stream, 1.0)], MIB);
        assert_eq!(beside_a_stream(0.0).to_vec(), apart);
    }

    #[test]
    fn threads_with_all_data_in_common_are_one_program_of_double_speed() {
        let (own, stream) = (table(&[2.0, 10.0, 30.0]), table(&[20.0]));
        let one = occupancies(&[(&own, 0.5), (&stream, 1.0)], MIB);
        let [first, second, stream] = beside_a_stream(1.0);
        assert_eq!(first, second);
        assert!((first - one[0]).abs() < 1.0 && (stream - one[1]).abs() < 1.0, "{first} {one:?}");
    }

    #[test]
    fn more_common_data_leaves_more_cache_for_each_thread() {
        let found = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| beside_a_stream(share)[0]);
        assert!(found.is_sorted(), "{found:?}");
        assert!(1.2 * found[0] < found[4], "{found:?}");
    }
}
