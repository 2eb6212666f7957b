//! Sets of CPUs and nodes, and the kernel's two ways to write them.
//!
//! ```text
//!   list text   0-3,8          /sys/devices/system/cpu/online, cpuset.cpus
//!   mask text   00000001,000000ff   highest word first, 32 bits a word: shared_cpu_map, Cpus_allowed
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use crate::{CpuId, NodeId, SetId};

/// A set of CPUs.
pub type CpuSet = IdSet<CpuId>;
/// A set of nodes.
pub type NodeSet = IdSet<NodeId>;

/// A set of numbered things, kept as bits.
///
/// Iterates in rising order. Equal sets are equal whatever was removed from them before: there are
/// never zero words at the end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdSet<T> {
    words: Vec<u64>,
    kind: PhantomData<T>,
}

/// Why a text is no set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSetError {
    /// Neither a number nor a range stood between two commas.
    #[error("{0:?} is no number or range; write a list such as 0-3,8")]
    NotARange(String),
    /// A range whose end lies before its start.
    #[error("the range {0:?} ends before it starts")]
    Backwards(String),
    /// A number beyond anything that Linux supports.
    #[error("{0} is beyond the largest number possible ({max})", max = MAX_ID)]
    TooLarge(u64),
    /// A mask had something else than hexadecimal words of at most 32 bits.
    #[error("{0:?} is no hexadecimal mask")]
    NotAMask(String),
}

/// The kernel's own limit is 8192 CPUs and 1024 nodes; a larger number is a mistake, and would make
/// us reserve memory for it.
const MAX_ID: u64 = 65_535;

impl<T> Default for IdSet<T> {
    fn default() -> Self {
        IdSet { words: Vec::new(), kind: PhantomData }
    }
}

impl<T: SetId> IdSet<T> {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; says whether it was new.
    pub fn insert(&mut self, id: T) -> bool {
        let (word_idx, bit) = place(id);
        if self.words.len() <= word_idx {
            self.words.resize(word_idx + 1, 0);
        }
        let new = self.words[word_idx] & bit == 0;
        self.words[word_idx] |= bit;
        new
    }

    /// Takes one out; says whether it was in.
    pub fn remove(&mut self, id: T) -> bool {
        let (word_idx, bit) = place(id);
        let Some(word) = self.words.get_mut(word_idx) else { return false };
        let was_in = *word & bit != 0;
        *word &= !bit;
        self.trim();
        was_in
    }

    /// Whether it is in.
    pub fn contains(&self, id: T) -> bool {
        let (word_idx, bit) = place(id);
        self.words.get(word_idx).is_some_and(|word| word & bit != 0)
    }

    /// How many are in.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether none is in.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest.
    pub fn first(&self) -> Option<T> {
        let word_idx = self.words.iter().position(|word| *word != 0)?;
        Some(T::from(word_idx as u32 * 64 + self.words[word_idx].trailing_zeros()))
    }

    /// The highest.
    pub fn last(&self) -> Option<T> {
        let word = self.words.last()?;
        let number = (self.words.len() as u32 - 1) * 64 + 63 - word.leading_zeros();
        Some(T::from(number))
    }

    /// All, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        Members { words: self.words.iter(), n_words: 0, bits: Bits(0), kind: PhantomData }
    }

    /// Those in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        Self::trimmed(words)
    }

    /// Those in either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let (long, short) =
            if self.words.len() < other.words.len() { (other, self) } else { (self, other) };
        let mut words = long.words.clone();
        words.iter_mut().zip(&short.words).for_each(|(a, b)| *a |= b);
        Self::trimmed(words)
    }

    /// Those in this one and not in the other.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
        Self::trimmed(words)
    }

    /// Whether all of these are in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut words = self.words.iter().zip(&other.words);
        self.words.len() <= other.words.len() && words.all(|(a, b)| a & !b == 0)
    }

    /// Whether some are in both.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Reads the kernel's mask text, highest word first.
    pub fn from_mask_text(text: &str) -> Result<Self, ParseSetError> {
        let refuse = || ParseSetError::NotAMask(text.trim().to_owned());
        let mut set = Self::new();
        for (word_idx, word) in text.trim().rsplit(',').enumerate() {
            let digits = word.trim().trim_start_matches("0x");
            let well_formed =
                (1..=8).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_hexdigit());
            if !well_formed {
                return Err(refuse());
            }
            let bits = u32::from_str_radix(digits, 16).map_err(|_| refuse())?;
            for bit in Bits(u64::from(bits)) {
                set.insert_checked(word_idx as u64 * 32 + u64::from(bit))?;
            }
        }
        Ok(set)
    }

    /// The bits as 64-bit words, lowest first; none at the end is zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set that these words hold, lowest first.
    pub fn from_words(words: Vec<u64>) -> Self {
        Self::trimmed(words)
    }

    fn insert_checked(&mut self, number: u64) -> Result<(), ParseSetError> {
        let small = u32::try_from(number).ok().filter(|_| number <= MAX_ID);
        self.insert(T::from(small.ok_or(ParseSetError::TooLarge(number))?));
        Ok(())
    }

    fn trimmed(words: Vec<u64>) -> Self {
        let mut set = IdSet { words, kind: PhantomData };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn place<T: SetId>(id: T) -> (usize, u64) {
    let number = id.number();
    ((number / 64) as usize, 1u64 << (number % 64))
}

/// The members of a set: most words of most sets are zero, and are passed over.
struct Members<'a, T> {
    words: std::slice::Iter<'a, u64>,
    /// Words begun.
    n_words: u32,
    /// What is left of the last of them.
    bits: Bits,
    kind: PhantomData<T>,
}

impl<T: SetId> Iterator for Members<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        while self.bits.0 == 0 {
            self.bits = Bits(*self.words.next()?);
            self.n_words += 1;
        }
        self.bits.next().map(|bit| T::from((self.n_words - 1) * 64 + bit))
    }
}

/// The positions of the ones in a word, lowest first.
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

    /// Reads the kernel's list text. White space and an empty text (no member) are fine.
    fn from_str(text: &str) -> Result<Self, ParseSetError> {
        let mut set = Self::new();
        for part in text.trim().split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let (low, high) = range(part)?;
            if high < low {
                return Err(ParseSetError::Backwards(part.to_owned()));
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
        value.ok_or_else(|| ParseSetError::NotARange(part.to_owned()))
    };
    match part.split_once('-') {
        Some((low, high)) => Ok((number(low)?, number(high)?)),
        None => number(part).map(|only| (only, only)),
    }
}

impl<T: SetId> fmt::Display for IdSet<T> {
    /// The kernel's list text; nothing at all for the empty set.
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
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> CpuSet {
        text.parse().expect("a list")
    }

    #[test]
    fn list_text_is_read_and_written_as_the_kernel_does() {
        for text in ["", "0", "0-3,8", "5,7,9-11", "64-65,1023"] {
            assert_eq!(set(text).to_string(), text);
        }
        assert_eq!(set(" 3,1,2\n").to_string(), "1-3");
    }

    #[test]
    fn broken_lists_are_refused_with_the_part_at_fault() {
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
    fn a_set_forgets_how_it_was_made() {
        let mut made = set("0,900");
        assert!(made.remove(CpuId(900)));
        assert_eq!(made, set("0"));
        assert_eq!(made.last(), Some(CpuId(0)));
    }

    proptest! {
        #[test]
        fn any_set_survives_being_written_and_read(ids in proptest::collection::btree_set(0u32..2000, 0..60)) {
            let made: CpuSet = ids.iter().map(|&id| CpuId(id)).collect();
            prop_assert_eq!(&set(&made.to_string()), &made);
            prop_assert_eq!(made.len(), ids.len());
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
            let of = |ids: Vec<u32>| ids.into_iter().map(CpuId).collect::<CpuSet>();
            let (a, b) = (of(a), of(b));
            prop_assert_eq!(a.and(&b).or(&a.minus(&b)), a.clone());
            prop_assert_eq!(a.intersects(&b), !a.and(&b).is_empty());
            prop_assert!(a.and(&b).is_subset(&b));
            prop_assert_eq!(a.is_subset(&b), a.minus(&b).is_empty());
        }
    }
}
