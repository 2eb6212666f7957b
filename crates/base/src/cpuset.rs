//! Sets of CPUs and nodes, and the two text formats of the kernel for these sets.
//!
//! ```text
//!   list format   0-3,8               /sys/devices/system/cpu/online, cpuset.cpus
//!   mask format   00000001,000000ff   shared_cpu_map, Cpus_allowed: 32-bit words, highest first
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::str::FromStr;

use crate::{CpuId, NodeId, SetId};

/// A set of CPUs.
pub type CpuSet = IdSet<CpuId>;
/// A set of nodes.
pub type NodeSet = IdSet<NodeId>;

/// A set of ids as a bitmap.
///
/// ```text
///   CPUs 320-327 of 1024      0  0  0  0  0  ff  0  0  …  0      64-bit words
///                             └─ not stored ─┘ └ stored
/// ```
///
/// Zero words before the first member and after the last member are not stored, and a single word is stored inline. The
/// memory of a set therefore depends on the distance between the first and the last member, not on the number of CPUs
/// of the machine.
///
/// The set iterates in increasing order. Sets with the same members are equal, independent of earlier insertions and
/// removals.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdSet<T> {
    /// Index of the first stored word; 0 for the empty set.
    first_word: usize,
    words: BitmapWords,
    kind: PhantomData<T>,
}

/// Adjacent words of the bitmap. The first and the last word are nonzero. The empty set has one zero word.
#[derive(Clone, PartialEq, Eq, Hash)]
enum BitmapWords {
    One(u64),
    /// Two or more words.
    Many(Vec<u64>),
}

/// Error of a text that is not a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ParseSetError {
    #[error("{0:?} is not a number or a range; write a list such as 0-3,8")]
    NotARange(String),
    #[error("the range {0:?} ends before it starts")]
    Backwards(String),
    #[error("{0} is above the largest possible number ({max})", max = MAX_ID)]
    TooLarge(u64),
    #[error("{0:?} is not a hexadecimal mask")]
    NotAMask(String),
}

/// The limits of the kernel are 8192 CPUs and 1024 nodes. A larger id is an error of the input, and its bitmap would
/// take too much memory.
const MAX_ID: u64 = 65_535;

impl<T> Default for IdSet<T> {
    fn default() -> Self {
        IdSet { first_word: 0, words: BitmapWords::One(0), kind: PhantomData }
    }
}

impl<T> IdSet<T> {
    /// Creates a set from the words with the indices `span`; `word` returns a word by its index.
    fn from_span(span: Range<usize>, word: impl Fn(usize) -> u64) -> Self {
        let is_used = |&at: &usize| word(at) != 0;
        let Some(first) = span.clone().find(is_used) else { return Self::default() };
        let last = span.rev().find(is_used).unwrap_or(first);
        let words = match first == last {
            true => BitmapWords::One(word(first)),
            false => BitmapWords::Many((first..=last).map(word).collect()),
        };
        IdSet { first_word: first, words, kind: PhantomData }
    }

    fn stored(&self) -> &[u64] {
        match &self.words {
            BitmapWords::One(word) => std::slice::from_ref(word),
            BitmapWords::Many(words) => words,
        }
    }

    fn stored_mut(&mut self) -> &mut [u64] {
        match &mut self.words {
            BitmapWords::One(word) => std::slice::from_mut(word),
            BitmapWords::Many(words) => words,
        }
    }

    /// Returns the indices of the stored words.
    fn span(&self) -> Range<usize> {
        self.first_word..self.first_word + self.stored().len()
    }

    fn word(&self, at: usize) -> u64 {
        let stored = at.checked_sub(self.first_word).and_then(|at| self.stored().get(at));
        stored.copied().unwrap_or(0)
    }

    /// Returns whether the set has no members.
    pub fn is_empty(&self) -> bool {
        matches!(self.words, BitmapWords::One(0))
    }

    /// Returns the bitmap as 64-bit words, lowest first, without trailing zero words.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let n_words = if self.is_empty() { 0 } else { self.span().end };
        (0..n_words).map(|at| self.word(at))
    }
}

impl<T: Eq> Ord for IdSet<T> {
    /// Compares the bitmaps word by word, lowest first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.words().cmp(other.words())
    }
}

impl<T: Eq> PartialOrd for IdSet<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: SetId> IdSet<T> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an id. Returns whether the id was absent before.
    pub fn insert(&mut self, id: T) -> bool {
        let (word_idx, bit) = word_and_bit(id);
        if self.word(word_idx) & bit != 0 {
            return false;
        }
        if self.is_empty() {
            self.first_word = word_idx;
        } else if !self.span().contains(&word_idx) {
            self.widen(word_idx);
        }
        let first = self.first_word;
        self.stored_mut()[word_idx - first] |= bit;
        true
    }

    /// Extends the stored words to word `at`.
    fn widen(&mut self, at: usize) {
        let Range { start, end } = self.span();
        let (start, end) = (start.min(at), end.max(at + 1));
        self.words = BitmapWords::Many((start..end).map(|at| self.word(at)).collect());
        self.first_word = start;
    }

    /// Removes an id. Returns whether the id was present.
    pub fn remove(&mut self, id: T) -> bool {
        let (word_idx, bit) = word_and_bit(id);
        if self.word(word_idx) & bit == 0 {
            return false;
        }
        let first = self.first_word;
        let word = &mut self.stored_mut()[word_idx - first];
        *word &= !bit;
        if *word == 0 {
            *self = Self::from_span(self.span(), |word_idx| self.word(word_idx));
        }
        true
    }

    /// Returns whether the id is a member.
    pub fn contains(&self, id: T) -> bool {
        let (word_idx, bit) = word_and_bit(id);
        self.word(word_idx) & bit != 0
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.stored().iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the lowest member, or `None` if the set is empty.
    pub fn first(&self) -> Option<T> {
        let word = self.stored().first().filter(|word| **word != 0)?;
        Some(T::from(self.first_word as u32 * 64 + word.trailing_zeros()))
    }

    /// Returns the member of a set with one member; `None` for other sets.
    pub fn only(&self) -> Option<T> {
        match self.words {
            BitmapWords::One(word) if word.is_power_of_two() => self.first(),
            _ => None,
        }
    }

    /// Returns the highest member, or `None` if the set is empty.
    pub fn last(&self) -> Option<T> {
        let word = self.stored().last().filter(|word| **word != 0)?;
        Some(T::from((self.span().end as u32 - 1) * 64 + 63 - word.leading_zeros()))
    }

    /// Returns all members in increasing order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let n_words = self.first_word as u32;
        IdSetIter { words: self.stored().iter(), n_words, bits: Bits(0), kind: PhantomData }
    }

    /// Returns the intersection.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::from_span(self.span(), |at| self.word(at) & other.word(at))
    }

    /// Returns the union.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let (ours, theirs) = (self.span(), other.span());
        let span = ours.start.min(theirs.start)..ours.end.max(theirs.end);
        Self::from_span(span, |at| self.word(at) | other.word(at))
    }

    /// Returns the difference: members of this set that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self::from_span(self.span(), |at| self.word(at) & !other.word(at))
    }

    /// Returns whether every member is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        if let (BitmapWords::One(own), BitmapWords::One(others)) = (&self.words, &other.words)
            && self.first_word == other.first_word
        {
            return own & !others == 0; // Fast path: policies compare sets of each job in each turn.
        }
        self.span().all(|at| self.word(at) & !other.word(at) == 0)
    }

    /// Returns whether the intersection is not empty.
    pub fn intersects(&self, other: &Self) -> bool {
        self.span().any(|at| self.word(at) & other.word(at) != 0)
    }

    /// Returns the number of members of the intersection.
    pub fn n_common(&self, other: &Self) -> usize {
        self.span().map(|at| (self.word(at) & other.word(at)).count_ones() as usize).sum()
    }

    /// Parses the mask format.
    pub fn from_mask_text(text: &str) -> Result<Self, ParseSetError> {
        let reject = || ParseSetError::NotAMask(text.trim().to_owned());
        let mut set = Self::new();
        for (word_idx, word) in text.trim().rsplit(',').enumerate() {
            let digits = word.trim().trim_start_matches("0x");
            let well_formed =
                (1..=8).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_hexdigit());
            if !well_formed {
                return Err(reject());
            }
            let bits = u32::from_str_radix(digits, 16).map_err(|_| reject())?;
            for bit in Bits(u64::from(bits)) {
                set.insert_checked(word_idx as u64 * 32 + u64::from(bit))?;
            }
        }
        Ok(set)
    }

    /// Creates a set from the words of its bitmap, lowest first.
    pub fn from_words(words: &[u64]) -> Self {
        Self::from_span(0..words.len(), |at| words[at])
    }

    fn insert_checked(&mut self, number: u64) -> Result<(), ParseSetError> {
        let small = u32::try_from(number).ok().filter(|_| number <= MAX_ID);
        self.insert(T::from(small.ok_or(ParseSetError::TooLarge(number))?));
        Ok(())
    }
}

fn word_and_bit<T: SetId>(id: T) -> (usize, u64) {
    let number = id.number();
    ((number / 64) as usize, 1u64 << (number % 64))
}

/// Iterator over the members, which skips zero words.
struct IdSetIter<'a, T> {
    words: std::slice::Iter<'a, u64>,
    /// Number of words that were read or skipped.
    n_words: u32,
    /// Remaining bits of the last word that was read.
    bits: Bits,
    kind: PhantomData<T>,
}

impl<T: SetId> Iterator for IdSetIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        while self.bits.0 == 0 {
            self.bits = Bits(*self.words.next()?);
            self.n_words += 1;
        }
        self.bits.next().map(|bit| T::from((self.n_words - 1) * 64 + bit))
    }
}

/// Iterator over the positions of the set bits of a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

impl<T: SetId> FromIterator<T> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        let mut set = Self::new();
        set.extend(ids);
        set
    }
}

impl<T: SetId> Extend<T> for IdSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, ids: I) {
        ids.into_iter().for_each(|id| {
            self.insert(id);
        });
    }
}

impl<T: SetId> FromStr for IdSet<T> {
    type Err = ParseSetError;

    /// Parses the list format. White space is ignored. An empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, ParseSetError> {
        let mut set = Self::new();
        for part in text.trim().split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let (low, high) = range(part)?;
            if high < low {
                return Err(ParseSetError::Backwards(crate::excerpt(part)));
            }
            if MAX_ID < high {
                return Err(ParseSetError::TooLarge(high));
            }
            (low..=high).try_for_each(|number| set.insert_checked(number))?;
        }
        Ok(set)
    }
}

fn range(part: &str) -> Result<(u64, u64), ParseSetError> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        let value = digits.then(|| text.parse().ok()).flatten();
        value.ok_or_else(|| ParseSetError::NotARange(crate::excerpt(part)))
    };
    match part.split_once('-') {
        Some((low, high)) => Ok((number(low)?, number(high)?)),
        None => number(part).map(|only| (only, only)),
    }
}

impl<T: SetId> fmt::Display for IdSet<T> {
    /// Writes the list format. The empty set is an empty text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut ids = self.iter().map(SetId::number).peekable();
        while let Some(low) = ids.next() {
            let mut high = low;
            while ids.next_if_eq(&(high + 1)).is_some() {
                high += 1;
            }
            if !text.is_empty() {
                text.push(',');
            }
            match high - low {
                0 => text.push_str(&low.to_string()),
                _ => text.push_str(&format!("{low}-{high}")),
            }
        }
        f.pad(&text)
    }
}

impl<T: SetId> fmt::Debug for IdSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    #[test]
    fn the_list_format_is_the_format_of_the_kernel() {
        for text in ["", "0", "0-3,8", "5,7,9-11", "64-65,1023"] {
            assert_eq!(set(text).to_string(), text);
        }
        assert_eq!(set(" 3,1,2\n").to_string(), "1-3");
    }

    #[test]
    fn invalid_lists_are_rejected_with_the_invalid_part() {
        for text in ["a", "1-", "-1", "1,,2", "3-1", "99999999", "1-99999999999", "1 2", "+1"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
        let error = "0-3,x".parse::<CpuSet>().expect_err("x is no number").to_string();
        assert!(error.contains("\"x\""), "{error}");
    }

    #[test]
    fn masks_have_their_highest_word_first() {
        let mask = |text| CpuSet::from_mask_text(text).map(|set| set.to_string());
        assert_eq!(mask("00000001,000000ff"), Ok("0-7,32".to_owned()));
        assert_eq!(mask("0\n"), Ok(String::new()));
        assert_eq!(mask("f"), Ok("0-3".to_owned()));
        for broken in ["", "xyz", "fffffffff", "1,,1", "-1"] {
            assert!(CpuSet::from_mask_text(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn n_common_counts_the_members_of_the_intersection() {
        for (one, other, n) in [
            ("0-7", "4-11", 4),
            ("0-3", "4-7", 0),
            ("", "0-3", 0),
            ("0-3,64-67,900", "2-65,900-901", 5),
            ("64-127", "0-63,128-191", 0),
        ] {
            assert_eq!(set(one).n_common(&set(other)), n, "{one} and {other}");
            assert_eq!(set(other).n_common(&set(one)), n, "{other} and {one}");
        }
    }

    #[test]
    fn equality_does_not_depend_on_the_history_of_a_set() {
        let mut made = set("0,900");
        assert!(made.remove(CpuId(900)));
        assert_eq!(made, set("0"));
        assert_eq!(made.last(), Some(CpuId(0)));
    }

    #[test]
    fn sets_are_ordered_by_their_words_lowest_first() {
        let rising = ["", "64", "64,128", "0", "0,128", "0,64", "1", "63", "0-63"];
        let sets: Vec<CpuSet> = rising.iter().map(|text| set(text)).collect();
        let by_words = |set: &CpuSet| set.words().collect::<Vec<_>>();
        assert!(sets.is_sorted_by_key(by_words) && sets.is_sorted(), "{sets:?}");
    }

    #[test]
    fn a_set_with_one_member_has_an_only_member() {
        let only = |text: &str| set(text).only().map(|id| id.0);
        assert_eq!(
            ["", "7", "64", "7,9", "7,64", "0-200"].map(only),
            [None, Some(7), Some(64), None, None, None]
        );
    }

    proptest! {
        #[test]
        fn a_set_has_the_inserted_members_without_the_removed_members(
            steps in proptest::collection::vec((any::<bool>(), 0u32..400), 0..80),
        ) {
            let (mut made, mut members) = (CpuSet::new(), BTreeSet::new());
            for (inserts, id) in steps {
                let (changed, expected) = match inserts {
                    true => (made.insert(CpuId(id)), members.insert(id)),
                    false => (made.remove(CpuId(id)), members.remove(&id)),
                };
                prop_assert_eq!(changed, expected);
                let fresh: CpuSet = members.iter().map(|&id| CpuId(id)).collect();
                prop_assert_eq!(&made, &fresh);
                prop_assert_eq!(&CpuSet::from_words(&made.words().collect::<Vec<_>>()), &fresh);
                prop_assert_eq!(made.first().map(|id| id.0), members.first().copied());
                prop_assert_eq!(made.last().map(|id| id.0), members.last().copied());
                prop_assert_eq!(made.is_empty(), members.is_empty());
            }
        }

        #[test]
        fn a_written_set_is_read_back_equal(ids in proptest::collection::btree_set(0u32..2000, 0..60)) {
            let made: CpuSet = ids.iter().map(|&id| CpuId(id)).collect();
            prop_assert_eq!(&set(&made.to_string()), &made);
            prop_assert_eq!(made.len(), ids.len());
            prop_assert_eq!(made.only(), made.first().filter(|_| ids.len() == 1));
            prop_assert!(made.iter().map(|id| id.0).eq(ids.iter().copied()));
        }

        #[test]
        fn any_text_is_a_set_or_an_error(text in "[0-9a-f,x -]{0,40}") {
            let _ = text.parse::<CpuSet>();
            let _ = CpuSet::from_mask_text(&text);
        }

        #[test]
        fn difference_and_intersection_split_a_set(a in proptest::collection::vec(0u32..300, 0..40),
                                                   b in proptest::collection::vec(0u32..300, 0..40)) {
            let set_of = |ids: Vec<u32>| ids.into_iter().map(CpuId).collect::<CpuSet>();
            let (a, b) = (set_of(a), set_of(b));
            prop_assert_eq!(a.and(&b).or(&a.minus(&b)), a.clone());
            prop_assert_eq!(a.intersects(&b), !a.and(&b).is_empty());
            prop_assert!(a.and(&b).is_subset(&b));
            prop_assert_eq!(a.is_subset(&b), a.minus(&b).is_empty());
        }
    }
}
