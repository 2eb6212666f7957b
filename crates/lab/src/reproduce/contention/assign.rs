//! Every way to lay programs out over caches that are alike, each once.
//!
//! ```text
//!   8 programs, 2 caches of 4      8! ÷ (4! 4! 2!)      =  35
//!   8 programs, 4 caches of 2      8! ÷ (2! 2! 2! 2! 4!) = 105
//! ```
//!
//! Caches alike may be renamed, and so may the cores of one: what is left are the ways to split the programs
//! into groups of equal size. The lowest program that is left begins each group, so that no split comes twice.

/// The cache of each program, for every split of them into so many groups of equal size. There is none where
/// that leaves a rest.
pub(super) fn splits(n_programs: usize, n_caches: usize) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    if n_caches != 0 && n_programs.is_multiple_of(n_caches) {
        let mut begun = Begun { cache_of: vec![None; n_programs], n_caches, all: &mut all };
        begun.go_on(0, 0, 0);
    }
    all
}

/// A split that is being made.
struct Begun<'a> {
    cache_of: Vec<Option<usize>>,
    n_caches: usize,
    all: &'a mut Vec<Vec<usize>>,
}

impl Begun<'_> {
    /// `cache` has `n_in` programs; the next of it is `from` or a later one.
    fn go_on(&mut self, cache: usize, n_in: usize, from: usize) {
        let (n_programs, n_caches) = (self.cache_of.len(), self.n_caches);
        if cache == n_caches {
            self.all.push(self.cache_of.iter().flatten().copied().collect());
            return;
        }
        let is_free = |cache_of: &[Option<usize>], at: usize| cache_of[at].is_none();
        let mut next: Vec<usize> =
            (from..n_programs).filter(|&at| is_free(&self.cache_of, at)).collect();
        if n_in == 0 {
            next.truncate(1);
        }
        for at in next {
            self.cache_of[at] = Some(cache);
            match n_in + 1 == n_programs / n_caches {
                true => self.go_on(cache + 1, 0, 0),
                false => self.go_on(cache, n_in + 1, at + 1),
            }
            self.cache_of[at] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The groups themselves, without names of caches.
    fn groups(split: &[usize]) -> BTreeSet<Vec<usize>> {
        let of = |cache| (0..split.len()).filter(|&at| split[at] == cache).collect();
        (0..=split.iter().copied().max().unwrap_or(0)).map(of).collect()
    }

    #[test]
    fn eight_programs_split_in_35_ways_over_two_caches_and_105_over_four() {
        for (n_caches, n) in [(1, 1), (2, 35), (4, 105), (8, 1)] {
            let all = splits(8, n_caches);
            let unlike: BTreeSet<_> = all.iter().map(|split| groups(split)).collect();
            assert_eq!((all.len(), unlike.len()), (n, n), "{n_caches} caches");
            assert!(unlike.iter().flatten().all(|group| group.len() == 8 / n_caches));
        }
    }

    #[test]
    fn what_leaves_a_rest_cannot_be_split() {
        assert_eq!(splits(8, 3), Vec::<Vec<usize>>::new());
        assert_eq!(splits(8, 0), Vec::<Vec<usize>>::new());
    }
}
