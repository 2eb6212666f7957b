//! Times in workload files, with distinct errors for invalid, negative and too long times.

use base::{Nanos, exact_nanos};

use crate::error::WorkloadFault;

/// The longest time, 366 days. A longer time probably has a wrong unit.
pub const TIME_MAX: Nanos = Nanos::from_secs(366 * 86_400);

/// Parses a time of a command line option in the format of workload files.
///
/// # Errors
/// Returns an error if the time is invalid, negative, or above [`TIME_MAX`].
pub fn parse_time(text: &str) -> Result<Nanos, WorkloadFault> {
    read("the time", text)
}

/// Parses a time from 0 to [`TIME_MAX`]. `key` is used only in errors.
pub(crate) fn read(key: &'static str, text: &str) -> Result<Nanos, WorkloadFault> {
    let found = || text.trim().to_owned();
    let (negative, size) = match text.trim().strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.trim().strip_prefix("+").unwrap_or(text.trim())),
    };
    let Some(nanos) = exact_nanos(size) else {
        // 1e30 is not a valid time, but the error that is printed is about its size.
        let is_huge =
            size.parse::<f64>().is_ok_and(|n| n.is_finite() && TIME_MAX.as_secs_f64() < n);
        return Err(match is_huge && !negative {
            true => WorkloadFault::TimeTooLong { key, found: found() },
            false => WorkloadFault::Time(found()),
        });
    };
    match u64::try_from(nanos) {
        _ if negative && nanos != 0 => Err(WorkloadFault::NegativeTime { key, found: found() }),
        Ok(nanos) if nanos <= TIME_MAX.0 => Ok(Nanos(nanos)),
        _ => Err(WorkloadFault::TimeTooLong { key, found: found() }),
    }
}

/// Returns seconds as an exact decimal number without trailing zeros: `0`, `1.5`, `0.000000001`.
pub(crate) fn seconds(time: Nanos) -> String {
    let text = format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_with_and_without_a_unit() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("1.5", 1_500_000_000),
            (".5s", 500_000_000),
            ("250ms", 250_000_000),
            ("2 s", 2_000_000_000),
            ("3min", 180_000_000_000),
            ("1h", 3_600_000_000_000),
            ("2 d", 172_800_000_000_000),
            ("7ns", 7),
            ("0.0000000019", 1),
        ] {
            assert_eq!(read("start", text), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn invalid_negative_and_too_long_times_have_distinct_errors() {
        let fault = |text| read("start", text).expect_err(text);
        for text in
            ["", ".", "s", "ms", "1e3", "inf", "nan", "1..2", "--1", "1 2", "0x10", "1w", "h"]
        {
            assert!(matches!(fault(text), WorkloadFault::Time(..)), "{text}");
        }
        assert!(matches!(fault("-1"), WorkloadFault::NegativeTime { .. }));
        assert!(matches!(fault("-0.5 ms"), WorkloadFault::NegativeTime { .. }));
        for text in ["31622401", "367d", &"9".repeat(60)] {
            assert!(matches!(fault(text), WorkloadFault::TimeTooLong { .. }), "{text}");
        }
        assert_eq!(read("start", "31622400"), Ok(TIME_MAX));
        assert_eq!(read("start", "366d"), Ok(TIME_MAX));
    }

    proptest! {
        #[test]
        fn a_written_time_is_read_back_equal(nanos in 0..=TIME_MAX.0) {
            prop_assert_eq!(read("start", &seconds(Nanos(nanos))), Ok(Nanos(nanos)));
        }
    }
}
