//! What one `read()` of a group gives, as values. Pure: bytes in, values out.
//!
//! ```text
//!   u64 number of counters
//!   u64 time enabled, ns       how long the group could have counted
//!   u64 time running, ns       how long it did
//!   u64 value, u64 number      of each counter
//! ```
//!
//! That is the format of perf_event_open(2) with the bits GROUP, TOTAL_TIME_ENABLED,
//! TOTAL_TIME_RUNNING and ID, in the byte order of the machine.

use sched::Measured;

/// No group of ours is larger.
pub const COUNTERS_MAX: usize = 16;

/// What a group has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// How long it could have counted, in nanoseconds.
    pub enabled_ns: u64,
    /// How long it did.
    pub running_ns: u64,
    values: [(u64, u64); COUNTERS_MAX],
    n_values: usize,
}

/// What is wrong with the bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// Shorter than it says.
    #[error("{found} bytes of a group where {wanted} belong: the recording is damaged")]
    Length {
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// A number of counters that no group has.
    #[error("a group of {0} counters, where {COUNTERS_MAX} is the most: this is no group")]
    TooMany(u64),
    /// Time that went backward.
    #[error("a group that ran {running_ns} ns of {enabled_ns} ns: the recording is damaged")]
    Times {
        /// How long it could have counted.
        enabled_ns: u64,
        /// How long it is said to have counted.
        running_ns: u64,
    },
}

/// Reads the bytes of a group.
///
/// # Errors
/// They are no such bytes, which a kernel never gives.
pub fn read_group(bytes: &[u8]) -> Result<Reading, ValuesError> {
    let short = |wanted: usize| ValuesError::Length { found: bytes.len(), wanted };
    let word = |idx: usize| -> Option<u64> {
        let of_word = bytes.get(idx * 8..idx * 8 + 8)?;
        Some(u64::from_ne_bytes(of_word.try_into().expect("eight bytes")))
    };
    let n_said = word(0).ok_or_else(|| short(24))?;
    let n_values = usize::try_from(n_said).ok().filter(|&n| n <= COUNTERS_MAX);
    let n_values = n_values.ok_or(ValuesError::TooMany(n_said))?;
    let wanted = 24 + 16 * n_values;
    if bytes.len() != wanted {
        return Err(short(wanted));
    }
    let at = |idx: usize| word(idx).expect("the length was checked");
    let mut reading =
        Reading { enabled_ns: at(1), running_ns: at(2), n_values, ..Reading::default() };
    if reading.enabled_ns < reading.running_ns {
        let Reading { enabled_ns, running_ns, .. } = reading;
        return Err(ValuesError::Times { enabled_ns, running_ns });
    }
    for (idx, value) in reading.values[..n_values].iter_mut().enumerate() {
        *value = (at(3 + 2 * idx), at(4 + 2 * idx));
    }
    Ok(reading)
}

impl Reading {
    /// Values with the numbers of their counters.
    pub fn values(&self) -> &[(u64, u64)] {
        &self.values[..self.n_values]
    }

    /// One counter by number: absent when the group could have run and never did, scaled when it ran part of the time.
    pub fn measured(&self, number: u64) -> Measured {
        let found = self.values().iter().find(|(_, of)| *of == number);
        found
            .map_or(Measured::Absent, |(value, _)| scaled(*value, self.enabled_ns, self.running_ns))
    }

    /// Whether the group could have counted for a while and never did: somebody else has the
    /// counters.
    pub fn is_shut_out(&self) -> bool {
        self.enabled_ns != 0 && self.running_ns == 0
    }
}

/// A value scaled up by the time in which it was not counted.
pub(super) fn scaled(value: u64, enabled_ns: u64, running_ns: u64) -> Measured {
    let (enabled, running) = (u128::from(enabled_ns), u128::from(running_ns));
    // That it could not have counted yet is no loss: the task has not run since it was opened.
    if running == enabled {
        return Measured::Exact(value);
    }
    if running == 0 {
        return Measured::Absent;
    }
    let scaled = u128::from(value) * enabled / running;
    let ran_permille = (running * 1000 / enabled).clamp(1, 999) as u16;
    Measured::Scaled { value: u64::try_from(scaled).unwrap_or(u64::MAX), ran_permille }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn measured(words: &[u64]) -> Vec<Measured> {
        let reading = read_group(&bytes(words)).expect("a group");
        reading.values().iter().map(|(_, number)| reading.measured(*number)).collect()
    }

    #[test]
    fn a_group_that_ran_all_the_time_is_exact_and_a_part_of_it_is_scaled() {
        assert_eq!(measured(&[2, 100, 100, 7, 1, 9, 2]), [Measured::Exact(7), Measured::Exact(9)]);
        let third = Measured::Scaled { value: 21, ran_permille: 333 };
        assert_eq!(measured(&[1, 300, 100, 7, 1]), [third]);
    }

    #[test]
    fn a_group_that_never_ran_is_absent_and_not_zero() {
        assert_eq!(measured(&[1, 300, 0, 0, 1]), [Measured::Absent]);
        // A task that has not run yet has nothing to count.
        assert_eq!(measured(&[1, 0, 0, 0, 1]), [Measured::Exact(0)]);
        assert!(read_group(&bytes(&[1, 300, 0, 0, 1])).expect("a group").is_shut_out());
        assert!(!read_group(&bytes(&[1, 0, 0, 0, 1])).expect("a group").is_shut_out());
    }

    #[test]
    fn huge_counts_do_not_overflow() {
        let most = u64::MAX;
        let scaled = Measured::Scaled { value: most, ran_permille: 1 };
        assert_eq!(measured(&[1, most, 1, most, 1]), [scaled]);
    }

    #[test]
    fn bytes_that_no_kernel_gives_are_refused() {
        let length = |found, wanted| Err(ValuesError::Length { found, wanted });
        assert_eq!(read_group(&[0; 7]), length(7, 24));
        assert_eq!(read_group(&bytes(&[1, 5, 5, 7])), length(32, 40));
        assert_eq!(read_group(&bytes(&[99, 5, 5])), Err(ValuesError::TooMany(99)));
        let times = ValuesError::Times { enabled_ns: 5, running_ns: 6 };
        assert_eq!(read_group(&bytes(&[0, 5, 6])), Err(times));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read_group(&bytes);
        }

        #[test]
        fn no_values_panic(words in prop::collection::vec(any::<u64>(), 5)) {
            let [_, enabled, running, value, number] = words[..] else { unreachable!() };
            let (running, enabled) = (running.min(enabled), running.max(enabled));
            let reading = read_group(&bytes(&[1, enabled, running, value, number])).expect("a group");
            let measured = reading.measured(number);
            prop_assert_eq!(measured == Measured::Absent, running == 0 && enabled != 0);
            prop_assert!(measured.value().is_none_or(|scaled| value <= scaled));
        }
    }
}
