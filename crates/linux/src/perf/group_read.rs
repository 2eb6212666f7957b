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
//!
//! **Counters that take turns.** What is read is cumulative since the counter was opened, and so are both
//! times. Scaling those totals would spread a share of time over all of the past: a counter that ran all
//! of a minute and half of the last second has missed half of that second, not a hundredth of it. So
//! the growth between two readings is scaled, by the growth of the times ([`Growing`]):
//!
//! ```text
//!   reading      value   enabled   running      what is told        grew by
//!   first          100        10        10        100
//!   second         130        20        15        160               30 × 10 ÷ 5
//!   third          130        30        15        absent            nobody knows
//!   fourth         140        40        25        170               10
//! ```
//!
//! What was missed in the third interval is not made up for in the fourth. Times are in nanoseconds.

use sched::Measured;

/// No group of ours is larger.
pub const COUNTERS_MAX: usize = 16;

/// What a group has counted: a view of the bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// How long it could have counted, in nanoseconds.
    pub enabled_ns: u64,
    /// How long it did.
    pub running_ns: u64,
    pairs: &'a [[u8; PAIR_BYTES]],
}

/// A value and the number of its counter.
const PAIR_BYTES: usize = 16;
/// What stands before them.
const HEAD_BYTES: usize = 24;

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
pub fn read_group(bytes: &[u8]) -> Result<Reading<'_>, ValuesError> {
    let short = |wanted: usize| ValuesError::Length { found: bytes.len(), wanted };
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(|| short(HEAD_BYTES))?;
    let n_said = word(head, 0);
    let n_values = usize::try_from(n_said).ok().filter(|&n| n <= COUNTERS_MAX);
    let n_values = n_values.ok_or(ValuesError::TooMany(n_said))?;
    let (pairs, beyond) = rest.as_chunks::<PAIR_BYTES>();
    if pairs.len() != n_values || !beyond.is_empty() {
        return Err(short(HEAD_BYTES + PAIR_BYTES * n_values));
    }
    let (enabled_ns, running_ns) = (word(head, 1), word(head, 2));
    if enabled_ns < running_ns {
        return Err(ValuesError::Times { enabled_ns, running_ns });
    }
    Ok(Reading { enabled_ns, running_ns, pairs })
}

/// A word of bytes that are long enough.
fn word(bytes: &[u8], idx: usize) -> u64 {
    let of_word = bytes[idx * 8..idx * 8 + 8].try_into().expect("eight bytes");
    u64::from_ne_bytes(of_word)
}

impl Reading<'_> {
    /// Values with the numbers of their counters.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pairs.iter().map(|pair| (word(pair, 0), word(pair, 1)))
    }

    /// One counter by number; it is looked for first in the place where it usually stands.
    pub fn counter(&self, number: u64, place: usize) -> Option<Counter> {
        let usual = self.pairs.get(place).filter(|pair| word(&pair[..], 1) == number);
        let pair = usual.or_else(|| self.pairs.iter().find(|pair| word(&pair[..], 1) == number))?;
        let value = word(pair, 0);
        Some(Counter { value, enabled_ns: self.enabled_ns, running_ns: self.running_ns })
    }

    /// Whether the group could have counted for a while and never did: somebody else has the
    /// counters.
    pub fn is_shut_out(&self) -> bool {
        self.enabled_ns != 0 && self.running_ns == 0
    }
}

/// One counter at one instant, as the kernel tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// What was counted.
    pub value: u64,
    /// How long it could have been, in nanoseconds.
    pub enabled_ns: u64,
    /// How long it was.
    pub running_ns: u64,
}

impl Counter {
    /// Scaled up by the time in which it was not counted since it was opened.
    pub fn since_opened(&self) -> Measured {
        match scaled(self.value, self.enabled_ns, self.running_ns) {
            Some(value) if self.running_ns < self.enabled_ns => {
                Measured::Scaled { value, ran_permille: self.ran_permille() }
            }
            // That it could not have counted yet is no loss: the task has not run since it was opened.
            Some(value) => Measured::Exact(value),
            None => Measured::Absent,
        }
    }

    /// How much of the time it was counted, for one of which some was missed.
    fn ran_permille(&self) -> u16 {
        let (enabled, running) = (u128::from(self.enabled_ns), u128::from(self.running_ns));
        (running * 1000 / enabled.max(1)).clamp(1, 999) as u16
    }
}

/// A value scaled up by the time in which it was not counted; `None` if it never was and could have been.
fn scaled(value: u64, enabled_ns: u64, running_ns: u64) -> Option<u64> {
    if enabled_ns <= running_ns {
        return Some(value);
    }
    let scaled =
        (u128::from(value) * u128::from(enabled_ns)).checked_div(u128::from(running_ns))?;
    Some(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// A counter from reading to reading: the sum of what it grew by, each growth scaled by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growing {
    last: Option<Counter>,
    total: u64,
    /// Some of it was scaled or missed.
    is_estimate: bool,
    /// It did not run since the reading before, and could have.
    is_missed: bool,
}

impl Growing {
    /// Takes the next reading in. Values wrap at 64 bits, as those of controllers do; whatever goes
    /// back otherwise has not grown.
    pub fn take(&mut self, now: Counter) {
        let before = self.last.unwrap_or_default();
        let grown = now.value.wrapping_sub(before.value);
        let is_back = self.last.is_some() && grown.cast_signed() < 0;
        let enabled_ns = now.enabled_ns.saturating_sub(before.enabled_ns);
        let running_ns = now.running_ns.saturating_sub(before.running_ns);
        let growth = scaled(if is_back { 0 } else { grown }, enabled_ns, running_ns);
        self.is_estimate |= running_ns < enabled_ns;
        self.is_missed = growth.is_none();
        let growth = growth.unwrap_or(0);
        self.total = match self.is_estimate {
            true => self.total.saturating_add(growth),
            false => self.total.wrapping_add(growth),
        };
        self.last = Some(now);
    }

    /// Whether it had its turn before, and none from then up to this reading, though it could have.
    pub fn would_miss(&self, now: Counter) -> bool {
        self.last.is_some_and(|last| {
            let had_a_turn = last.running_ns != 0;
            had_a_turn && last.enabled_ns < now.enabled_ns && now.running_ns <= last.running_ns
        })
    }

    /// What it came to; absent as long as it never ran and could have.
    pub fn total(&self) -> Measured {
        match self.last {
            None => Measured::Absent,
            Some(last) if last.running_ns == 0 && last.enabled_ns != 0 => Measured::Absent,
            Some(last) if self.is_estimate => {
                Measured::Scaled { value: self.total, ran_permille: last.ran_permille() }
            }
            Some(_) => Measured::Exact(self.total),
        }
    }

    /// The same, absent too when what it grew by since the reading before is not known.
    pub fn now(&self) -> Measured {
        if self.is_missed { Measured::Absent } else { self.total() }
    }

    /// What it came to by the share of all the time in which it ran; that of an interval in which it
    /// did not run is in it.
    pub fn since_opened(&self) -> Measured {
        self.last.map_or(Measured::Absent, |last| last.since_opened())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn measured(words: &[u64]) -> Vec<Measured> {
        let bytes = bytes(words);
        let reading = read_group(&bytes).expect("a group");
        let measured = |(_, number)| reading.counter(number, 0).expect("one of it").since_opened();
        reading.values().map(measured).collect()
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

    /// What is told after each reading of value, time enabled, and time running.
    fn told(readings: &[[u64; 3]]) -> Vec<Measured> {
        let mut growing = Growing::default();
        let mut tell = |&[value, enabled_ns, running_ns]: &[u64; 3]| {
            growing.take(Counter { value, enabled_ns, running_ns });
            growing.now()
        };
        readings.iter().map(&mut tell).collect()
    }

    #[test]
    fn the_growth_of_an_interval_is_scaled_by_the_times_of_that_interval() {
        // A minute in full, and half of a second: 5 counted of the 10 that happened.
        let told = told(&[[600, 60_000, 60_000], [605, 61_000, 60_500], [615, 62_000, 61_500]]);
        let scaled = |value| Measured::Scaled { value, ran_permille: 991 };
        assert_eq!(told, [Measured::Exact(600), scaled(610), scaled(620)]);
    }

    #[test]
    fn an_interval_in_which_it_did_not_run_is_absent_and_not_made_up_for_later() {
        let told = told(&[[100, 10, 10], [100, 20, 10], [107, 30, 20], [107, 30, 20]]);
        let later = Measured::Scaled { value: 107, ran_permille: 666 };
        assert_eq!(told, [Measured::Exact(100), Measured::Absent, later, later]);
    }

    #[test]
    fn what_goes_back_has_not_grown_and_what_wraps_has() {
        let back = told(&[[100, 10, 10], [40, 20, 20], [50, 30, 30]]);
        assert_eq!(back, [100, 100, 110].map(Measured::Exact));
        let wrapped = told(&[[u64::MAX - 4, 10, 10], [5, 20, 20]]);
        assert_eq!(wrapped[1].since(wrapped[0], 64), Some(10));
        // Times that go back: the counter was opened anew, or somebody lies.
        assert_eq!(told(&[[100, 10, 10], [100, 5, 2]]), [100, 100].map(Measured::Exact));
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
        fn totals_never_go_back(readings in prop::collection::vec(prop::array::uniform3(any::<u32>()), 1..9)) {
            let readings: Vec<_> = readings.into_iter().map(|three| three.map(u64::from)).collect();
            let totals: Vec<u64> = told(&readings).into_iter().filter_map(Measured::value).collect();
            prop_assert!(totals.windows(2).all(|pair| pair[0] <= pair[1]), "{totals:?}");
        }

        #[test]
        fn no_readings_panic(readings in prop::collection::vec(prop::array::uniform3(any::<u64>()), 1..9)) {
            prop_assert_eq!(told(&readings).len(), readings.len());
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read_group(&bytes);
        }

        #[test]
        fn no_values_panic(words in prop::collection::vec(any::<u64>(), 5)) {
            let [_, enabled, running, value, number] = words[..] else { unreachable!() };
            let (running, enabled) = (running.min(enabled), running.max(enabled));
            let bytes = bytes(&[1, enabled, running, value, number]);
            let reading = read_group(&bytes).expect("a group");
            let measured = reading.counter(number, 0).expect("it is there").since_opened();
            prop_assert_eq!(measured == Measured::Absent, running == 0 && enabled != 0);
            prop_assert!(measured.value().is_none_or(|scaled| value <= scaled));
        }
    }
}
