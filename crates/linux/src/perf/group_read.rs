//! Decoding of one `read()` of a group of counters. The functions are pure: bytes in, raw counters out.
//!
//! ```text
//!   u64 number of counters
//!   u64 time enabled, ns
//!   u64 time running, ns
//!   u64 value, u64 id          for each counter
//! ```
//!
//! This is the format of perf_event_open(2) with PERF_FORMAT_GROUP, TOTAL_TIME_ENABLED,
//! TOTAL_TIME_RUNNING and ID, in the byte order of the machine. Values and times are cumulative since the
//! group was opened. Out of scope: scaling of multiplexed counters (`engine::derive`).

use sched::RawCounter;

/// Largest number of counters in a group.
pub const COUNTERS_MAX: usize = 16;

/// A decoded read of a group: a view of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawGroup<'a> {
    /// Time in which the group was enabled, in nanoseconds.
    pub enabled_ns: u64,
    /// Time in which the group was running, in nanoseconds.
    pub running_ns: u64,
    pairs: &'a [[u8; PAIR_BYTES]],
}

/// Size of a value and the id of its counter in bytes.
const PAIR_BYTES: usize = 16;
/// Size of the fields before the pairs in bytes.
const HEAD_BYTES: usize = 24;

/// Format error in a read of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum ValuesError {
    #[error("{found} bytes of a group instead of {required}: the recording is damaged")]
    Length { found: usize, required: usize },
    #[error(
        "{0} counters in a group, at most {COUNTERS_MAX} are possible: the recording is damaged"
    )]
    TooMany(u64),
    #[error("a group was running for {running_ns} ns of {enabled_ns} ns: the recording is damaged")]
    Times { enabled_ns: u64, running_ns: u64 },
}

/// Decodes the bytes of a group.
///
/// # Errors
/// The bytes are not a valid read of a group. The kernel never returns such bytes.
pub fn read_group(bytes: &[u8]) -> Result<RawGroup<'_>, ValuesError> {
    let short = |required: usize| ValuesError::Length { found: bytes.len(), required };
    let (head, body) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(|| short(HEAD_BYTES))?;
    let n_declared = word(head, 0);
    let n_values = usize::try_from(n_declared).ok().filter(|&n| n <= COUNTERS_MAX);
    let n_values = n_values.ok_or(ValuesError::TooMany(n_declared))?;
    let (pairs, beyond) = body.as_chunks::<PAIR_BYTES>();
    if pairs.len() != n_values || !beyond.is_empty() {
        return Err(short(HEAD_BYTES + PAIR_BYTES * n_values));
    }
    let (enabled_ns, running_ns) = (word(head, 1), word(head, 2));
    if enabled_ns < running_ns {
        return Err(ValuesError::Times { enabled_ns, running_ns });
    }
    Ok(RawGroup { enabled_ns, running_ns, pairs })
}

/// Returns a 64-bit word. `bytes` must be long enough.
fn word(bytes: &[u8], idx: usize) -> u64 {
    let of_word = bytes[idx * 8..idx * 8 + 8].try_into().expect("eight bytes");
    u64::from_ne_bytes(of_word)
}

impl RawGroup<'_> {
    /// Returns the values with the ids of their counters.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pairs.iter().map(|pair| (word(pair, 0), word(pair, 1)))
    }

    /// Returns the counter with this id. The counter is usually at position `idx`, which is tried first.
    pub fn counter(&self, id: u64, idx: usize) -> Option<RawCounter> {
        let usual = self.pairs.get(idx).filter(|pair| word(&pair[..], 1) == id);
        let pair = usual.or_else(|| self.pairs.iter().find(|pair| word(&pair[..], 1) == id))?;
        let (enabled_ns, running_ns) = (self.enabled_ns, self.running_ns);
        Some(RawCounter { value: word(pair, 0), enabled_ns, running_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn every_counter_of_a_group_has_the_times_of_the_group() {
        let bytes = bytes(&[2, 300, 100, 7, 1, 9, 2]);
        let group = read_group(&bytes).expect("a group");
        let raw = |value| RawCounter { value, enabled_ns: 300, running_ns: 100 };
        assert_eq!(group.counter(1, 0), Some(raw(7)));
        assert_eq!(group.counter(2, 0), Some(raw(9)), "not at its usual position");
        assert_eq!(group.counter(3, 0), None);
        assert_eq!(group.values().collect::<Vec<_>>(), [(7, 1), (9, 2)]);
    }

    #[test]
    fn bytes_of_another_format_are_rejected() {
        let length = |found, required| Err(ValuesError::Length { found, required });
        assert_eq!(read_group(&[0; 7]), length(7, 24));
        assert_eq!(read_group(&bytes(&[1, 5, 5, 7])), length(32, 40));
        assert_eq!(read_group(&bytes(&[99, 5, 5])), Err(ValuesError::TooMany(99)));
        let times = ValuesError::Times { enabled_ns: 5, running_ns: 6 };
        assert_eq!(read_group(&bytes(&[0, 5, 6])), Err(times));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(group) = read_group(&bytes) {
                group.values().for_each(|(_, id)| assert!(group.counter(id, 0).is_some()));
            }
        }
    }
}
