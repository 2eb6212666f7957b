//! A map from job numbers to values, for jobs that were started and not yet freed.
//!
//! ```text
//!   job number   0  1  2  3  4  5        jobs are numbered from 0 in start order
//!   slot         ·  1  ·  0  2  ·        values are stored densely; free slots are reused
//! ```

/// A dense map. It uses four bytes per job number up to the largest.
#[derive(Clone, Debug)]
pub(super) struct JobMap<T> {
    slot_of: Vec<u32>,
    list: Vec<Option<T>>,
    free: Vec<u32>,
}

/// Marker of a job number without a slot.
const NONE: u32 = u32::MAX;

impl<T> Default for JobMap<T> {
    fn default() -> Self {
        JobMap { slot_of: Vec::new(), list: Vec::new(), free: Vec::new() }
    }
}

impl<T> JobMap<T> {
    /// Inserts a value. Replaces the previous value of the job.
    pub fn insert(&mut self, job: usize, value: T) {
        if self.slot_of.len() <= job {
            self.slot_of.resize(job + 1, NONE);
        }
        let slot = match (self.slot_of[job], self.free.pop()) {
            (NONE, Some(slot)) => slot,
            (NONE, None) => {
                self.list.push(None);
                self.list.len() as u32 - 1
            }
            (slot, unused) => {
                self.free.extend(unused);
                slot
            }
        };
        self.slot_of[job] = slot;
        self.list[slot as usize] = Some(value);
    }

    pub fn remove(&mut self, job: usize) -> Option<T> {
        let slot = std::mem::replace(self.slot_of.get_mut(job)?, NONE);
        let value = self.list.get_mut(slot as usize)?.take();
        self.free.push(slot);
        value
    }

    pub fn get(&self, job: usize) -> Option<&T> {
        self.list.get(*self.slot_of.get(job)? as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, job: usize) -> Option<&mut T> {
        self.list.get_mut(*self.slot_of.get(job)? as usize)?.as_mut()
    }

    /// Returns all values in arbitrary order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.list.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_slot_is_reused() {
        let mut by_job = JobMap::default();
        (0..3).for_each(|job| by_job.insert(job, job * 10));
        assert_eq!((by_job.remove(1), by_job.remove(1), by_job.get(1)), (Some(10), None, None));
        by_job.insert(7, 70);
        assert_eq!((by_job.get(0), by_job.get(2), by_job.get(7)), (Some(&0), Some(&20), Some(&70)));
        by_job.insert(7, 71);
        assert_eq!(by_job.values().sum::<usize>(), 20 + 71);
        assert_eq!(by_job.list.len(), 3);
    }
}
