//! Exact reuse distance: the number of other lines used since a line's last use.
//!
//! Each use of a line takes the next slot of an array and frees the previous slot of the line. The reuse distance is
//! the number of used slots after the previous slot. A binary indexed tree counts used slots in logarithmic time (B. T.
//! Bennett, V. J. Kruskal, *LRU stack processing*, IBM Journal of Research and Development 19(4), 1975; with balanced
//! trees F. Olken, *Efficient methods for calculating the success function of fixed space replacement policies*,
//! Technical Report LBL-12370, 1981).
//!
//! ```text
//!   slots  a · c d · b e        use of c: d, b, e are after it: distance 3
//!          a · · d · b e c
//! ```
//!
//! A full array is compacted. The state of each line is in a hash table with a fixed hash, because a search tree is too
//! slow for one lookup per reference.

use std::hash::{BuildHasherDefault, Hasher};

/// Minimum ratio of slots to lines after compaction.
const SPARE: usize = 4;
const N_SLOTS_MIN: usize = 1 << 12;
const EMPTY: u64 = u64::MAX;

/// Lines ordered by their last use.
#[derive(Clone, Debug)]
pub struct LruStack {
    pub(crate) table: LineTable,
    /// Number of the line in each slot.
    slots: Vec<u64>,
    /// Binary indexed tree: number of used slots.
    sums: Vec<u32>,
    next: usize,
}

impl Default for LruStack {
    fn default() -> Self {
        LruStack {
            table: LineTable::default(),
            slots: vec![EMPTY; N_SLOTS_MIN],
            sums: vec![0; N_SLOTS_MIN + 1],
            next: 0,
        }
    }
}

impl LruStack {
    /// Records a use of a line. Returns the reuse distance, or `None` for a first use.
    pub fn touch(&mut self, line: u64) -> Option<u64> {
        self.touch_entry(line).1
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no line has been used.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn touch_entry(&mut self, line: u64) -> (&mut LineEntry, Option<u64>) {
        if self.next == self.slots.len() {
            self.compact();
        }
        let slot = self.next;
        self.next += 1;
        let n_lines = self.table.len() as u64;
        let distance = match self.table.get_mut(&line) {
            None => {
                let entry = LineEntry { line, dirty_above: u64::MAX, ..LineEntry::default() };
                self.table.insert(line, entry);
                None
            }
            Some(entry) => {
                let old_slot = entry.slot as usize;
                // A repeated use of the most recent line does not change the slot of the line.
                if old_slot + 1 == slot {
                    self.next = slot;
                    let entry = self.table.get_mut(&line).expect("found just above");
                    return (entry, Some(0));
                }
                let distance = n_lines - u64::from(self.n_taken_up_to(old_slot));
                self.free_slot(old_slot);
                Some(distance)
            }
        };
        self.slots[slot] = line;
        self.add(slot, 1);
        let entry = self.table.get_mut(&line).expect("found or added just above");
        entry.slot = slot as u32;
        (entry, distance)
    }

    /// Removes a line.
    pub(crate) fn remove(&mut self, line: u64) {
        if let Some(entry) = self.table.remove(&line) {
            self.free_slot(entry.slot as usize);
        }
    }

    /// Returns the lines from the most to the least recently used.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &LineEntry> {
        let taken = self.slots[..self.next].iter().rev().filter(|line| **line != EMPTY);
        taken.filter_map(|line| self.table.get(line))
    }

    fn free_slot(&mut self, slot: usize) {
        self.slots[slot] = EMPTY;
        self.add(slot, -1);
    }

    /// Moves the used slots to the start of a new array, which has at least [`SPARE`] times as many slots.
    fn compact(&mut self) {
        let taken: Vec<u64> = self.slots.iter().copied().filter(|line| *line != EMPTY).collect();
        let n_slots = (taken.len() * SPARE).max(N_SLOTS_MIN);
        self.slots = vec![EMPTY; n_slots];
        self.sums = vec![0; n_slots + 1];
        self.next = taken.len();
        for (slot, line) in taken.into_iter().enumerate() {
            self.slots[slot] = line;
            self.add(slot, 1);
            if let Some(entry) = self.table.get_mut(&line) {
                entry.slot = slot as u32;
            }
        }
    }

    fn add(&mut self, slot: usize, change: i32) {
        let mut idx = slot + 1;
        while idx < self.sums.len() {
            self.sums[idx] = self.sums[idx].wrapping_add_signed(change);
            idx += idx & idx.wrapping_neg();
        }
    }

    /// Returns the number of used slots up to and including this slot.
    fn n_taken_up_to(&self, slot: usize) -> u32 {
        let (mut idx, mut sum) = (slot + 1, 0u32);
        while 0 < idx {
            sum = sum.wrapping_add(self.sums[idx]);
            idx &= idx - 1;
        }
        sum
    }
}

/// State of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineEntry {
    /// Line number.
    pub line: u64,
    /// Slot in the LRU stack.
    pub slot: u32,
    /// The line is dirty in caches with more lines than this number; `u64::MAX` if the line is dirty in no cache.
    pub dirty_above: u64,
    /// Window of the last use, from 1.
    pub window: u32,
    /// Whether the line was used again in this window at a distance of at least `REUSE_DISTANCE_MIN_LINES`.
    pub is_reused: bool,
}

/// State of each line by line number. The order of the table is never used.
#[expect(clippy::disallowed_types, reason = "the order is never used")]
pub(crate) type LineTable =
    std::collections::HashMap<u64, LineEntry, BuildHasherDefault<LineHasher>>;

/// Hasher of line numbers. The complement is hashed, because the high bits of [`hash`] are equal for all sampled lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are line numbers")
    }

    fn write_u64(&mut self, line: u64) {
        self.0 = hash(!line);
    }
}

/// Returns the hash of a line number, which is equal in every run: the finalizer of splitmix64 (G. L. Steele, D. Lea,
/// C. H. Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014).
pub(crate) fn hash(line: u64) -> u64 {
    let mut mixed = line.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference model: Mattson's stack as a list.
    #[derive(Default)]
    struct ListStack(Vec<u64>);

    impl ListStack {
        fn touch(&mut self, line: u64) -> Option<u64> {
            let place = self.0.iter().position(|&other| other == line);
            place.map(|place| self.0.remove(place));
            self.0.insert(0, line);
            place.map(|place| place as u64)
        }
    }

    proptest! {
        #[test]
        fn distances_equal_those_of_a_linear_search(
            lines in proptest::collection::vec(0u64..90, 0..12_000),
        ) {
            let (mut stack, mut list) = (LruStack::default(), ListStack::default());
            for line in lines {
                prop_assert_eq!(stack.touch(line), list.touch(line));
            }
            let order: Vec<u64> = stack.newest_first().map(|entry| entry.line).collect();
            prop_assert_eq!(order, list.0);
        }
    }
}
