//! From a line to what is known of it: a hash table of fixed seed, since one look-up a reference is too
//! many for a tree, and order never hangs on it.
//!
//! Open addressing with linear probing; a removed entry is closed up by moving later ones back (Knuth,
//! The Art of Computer Programming 3, 6.4, algorithm R), so there are no graves.

/// What is known of a line that was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its number.
    pub line: u64,
    /// Its place in the stack's order.
    pub slot: u32,
    /// Caches that hold more lines than this have it changed; `u64::MAX` if none has.
    pub dirty_above: u64,
    /// The window of its last use, from 1.
    pub window: u32,
    /// Whether it was used again in that window after many others.
    pub again: bool,
}

/// Lines in use are at most half of the places.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    places: Vec<Option<Entry>>,
    n_entries: usize,
}

/// A number that looks random for every line, and is the same in every run: the finisher of splitmix64
/// (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) fn hash(line: u64) -> u64 {
    let mut mixed = line.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

impl Table {
    pub fn new() -> Self {
        Table { places: vec![None; 1024], n_entries: 0 }
    }

    pub fn len(&self) -> usize {
        self.n_entries
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.places.iter().flatten()
    }

    pub fn get_mut(&mut self, line: u64) -> Option<&mut Entry> {
        let place = self.find(line);
        self.places[place].as_mut()
    }

    pub fn get(&self, line: u64) -> Option<&Entry> {
        self.places[self.find(line)].as_ref()
    }

    /// Adds a line that is not there.
    pub fn add(&mut self, entry: Entry) {
        if self.places.len() <= 2 * (self.n_entries + 1) {
            self.grow();
        }
        let place = self.find(entry.line);
        self.places[place] = Some(entry);
        self.n_entries += 1;
    }

    pub fn remove(&mut self, line: u64) {
        let mut hole = self.find(line);
        if self.places[hole].take().is_none() {
            return;
        }
        self.n_entries -= 1;
        let mask = self.places.len() - 1;
        let mut next = (hole + 1) & mask;
        while let Some(entry) = self.places[next] {
            let home = self.home(entry.line);
            // It may move back unless its home lies behind the hole.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[next].take();
                hole = next;
            }
            next = (next + 1) & mask;
        }
    }

    /// The place of a line, or where it would stand.
    fn find(&self, line: u64) -> usize {
        let mut place = self.home(line);
        while self.places[place].is_some_and(|entry| entry.line != line) {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    fn home(&self, line: u64) -> usize {
        // The upper bits are alike for all that a sample keeps.
        hash(line) as usize & (self.places.len() - 1)
    }

    fn grow(&mut self) {
        let bigger = vec![None; self.places.len() * 2];
        let before = std::mem::replace(&mut self.places, bigger);
        for entry in before.into_iter().flatten() {
            let place = self.find(entry.line);
            self.places[place] = Some(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_keeps_what_a_tree_keeps(steps in proptest::collection::vec((0u64..600, any::<bool>()), 0..4000)) {
            let (mut table, mut tree) = (Table::new(), BTreeMap::new());
            for (nr, (line, remove)) in steps.into_iter().enumerate() {
                if remove {
                    table.remove(line);
                    tree.remove(&line);
                } else if tree.insert(line, nr as u32).is_none() {
                    table.add(Entry { line, slot: nr as u32, ..Entry::default() });
                } else if let Some(entry) = table.get_mut(line) {
                    entry.slot = nr as u32;
                }
            }
            prop_assert_eq!(table.len(), tree.len());
            for line in 0..600 {
                prop_assert_eq!(table.get(line).map(|entry| entry.slot), tree.get(&line).copied());
            }
        }
    }
}
