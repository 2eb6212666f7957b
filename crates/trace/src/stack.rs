//! How many other lines were used since a line's last use, exactly and fast.
//!
//! Each use takes the next slot of a long row and leaves its former one empty; the reuse distance is the
//! number of taken slots behind the former one. A binary indexed tree over the row counts them in
//! logarithmic time (Bennett and Kruskal, IBM Journal of Research and Development 19(4), 1975; with
//! balanced trees Olken, LBL-12370, 1981).
//!
//! ```text
//!   slots  a · c d · b e        use of c: d, b, e lie behind it: distance 3
//!          a · · d · b e c
//! ```
//!
//! When the row is full, taken slots move together at its begin.

use crate::table::{Entry, Table};

/// The row is so many times as long as what stands in it, at least.
const SPARE: usize = 4;
const N_SLOTS_MIN: usize = 1 << 12;
const EMPTY: u64 = u64::MAX;

/// Lines by when they were last used.
#[derive(Clone, Debug)]
pub struct LruStack {
    pub(crate) table: Table,
    /// The line that took each slot.
    slots: Vec<u64>,
    /// The binary indexed tree: how many slots are taken.
    sums: Vec<u32>,
    next: usize,
}

impl Default for LruStack {
    fn default() -> Self {
        LruStack {
            table: Table::new(),
            slots: vec![EMPTY; N_SLOTS_MIN],
            sums: vec![0; N_SLOTS_MIN + 1],
            next: 0,
        }
    }
}

impl LruStack {
    /// Uses a line: how many other lines were used since its last use, or `None` the first time.
    pub fn touch(&mut self, line: u64) -> Option<u64> {
        self.touch_entry(line).1
    }

    /// Lines in it.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no line was used yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn touch_entry(&mut self, line: u64) -> (&mut Entry, Option<u64>) {
        if self.next == self.slots.len() {
            self.close_up();
        }
        let slot = self.next;
        self.next += 1;
        let n_lines = self.table.len() as u64;
        let distance = match self.table.get_mut(line) {
            None => {
                self.table.add(Entry { line, dirty_above: u64::MAX, ..Entry::default() });
                None
            }
            Some(entry) => {
                let former = entry.slot as usize;
                // The newest of all is used again: it may keep its slot.
                if former + 1 == slot {
                    self.next = slot;
                    let entry = self.table.get_mut(line).expect("found just above");
                    return (entry, Some(0));
                }
                let behind = n_lines - u64::from(self.n_taken_up_to(former));
                self.leave(former);
                Some(behind)
            }
        };
        self.slots[slot] = line;
        self.add(slot, 1);
        let entry = self.table.get_mut(line).expect("found or added just above");
        entry.slot = slot as u32;
        (entry, distance)
    }

    /// Forgets a line.
    pub(crate) fn remove(&mut self, line: u64) {
        if let Some(slot) = self.table.get(line).map(|entry| entry.slot as usize) {
            self.leave(slot);
            self.table.remove(line);
        }
    }

    /// Lines from the one used last to the one not used for longest.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        let taken = self.slots[..self.next].iter().rev().filter(|line| **line != EMPTY);
        taken.filter_map(|line| self.table.get(*line))
    }

    fn leave(&mut self, slot: usize) {
        self.slots[slot] = EMPTY;
        self.add(slot, -1);
    }

    /// Moves taken slots together; doubles the row if they fill too much of it.
    fn close_up(&mut self) {
        let taken: Vec<u64> = self.slots.iter().copied().filter(|line| *line != EMPTY).collect();
        let n_slots = (taken.len() * SPARE).max(N_SLOTS_MIN);
        self.slots = vec![EMPTY; n_slots];
        self.sums = vec![0; n_slots + 1];
        self.next = taken.len();
        for (slot, line) in taken.into_iter().enumerate() {
            self.slots[slot] = line;
            self.add(slot, 1);
            if let Some(entry) = self.table.get_mut(line) {
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

    /// Taken slots up to this one, itself included.
    fn n_taken_up_to(&self, slot: usize) -> u32 {
        let (mut idx, mut sum) = (slot + 1, 0u32);
        while 0 < idx {
            sum = sum.wrapping_add(self.sums[idx]);
            idx &= idx - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Mattson's stack as it is told: a list that is searched from its begin.
    #[derive(Default)]
    struct List(Vec<u64>);

    impl List {
        fn touch(&mut self, line: u64) -> Option<u64> {
            let place = self.0.iter().position(|&other| other == line);
            place.map(|place| self.0.remove(place));
            self.0.insert(0, line);
            place.map(|place| place as u64)
        }
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_list_that_is_searched(
            lines in proptest::collection::vec(0u64..90, 0..12_000),
        ) {
            let (mut stack, mut list) = (LruStack::default(), List::default());
            for line in lines {
                prop_assert_eq!(stack.touch(line), list.touch(line));
            }
            let order: Vec<u64> = stack.newest_first().map(|entry| entry.line).collect();
            prop_assert_eq!(order, list.0);
        }
    }
}
