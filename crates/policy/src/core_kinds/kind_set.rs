//! Sets of core kinds.

/// Indexes of core kinds; a machine has at most 64 kinds. A bit mask, because each of thousands of jobs has a set in
/// each turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindSet(u64);

impl KindSet {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn contains(self, kind: usize) -> bool {
        self.0 >> kind & 1 == 1
    }

    /// Returns the fastest kind.
    pub fn first(self) -> Option<usize> {
        self.iter().next()
    }

    /// Returns the slowest kind.
    pub fn last(self) -> Option<usize> {
        self.0.checked_ilog2().map(|kind| kind as usize)
    }

    /// Returns the kinds, fastest first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let kinds = std::iter::successors(Some(self.0), |left| Some(left & left.wrapping_sub(1)));
        kinds.take_while(|left| *left != 0).map(|left| left.trailing_zeros() as usize)
    }
}

impl FromIterator<usize> for KindSet {
    fn from_iter<I: IntoIterator<Item = usize>>(kinds: I) -> Self {
        KindSet(kinds.into_iter().fold(0, |set, kind| set | 1 << kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_a_set_are_in_the_order_of_their_indexes() {
        for kinds in [&[][..], &[0], &[0, 2], &[1, 62, 63]] {
            let set: KindSet = kinds.iter().rev().copied().collect();
            assert_eq!(set.iter().collect::<Vec<_>>(), kinds);
            assert_eq!((set.len(), set.is_empty()), (kinds.len(), kinds.is_empty()));
            assert_eq!((set.first(), set.last()), (kinds.first().copied(), kinds.last().copied()));
            assert_eq!((0..64).filter(|kind| set.contains(*kind)).collect::<Vec<_>>(), kinds);
        }
    }
}
