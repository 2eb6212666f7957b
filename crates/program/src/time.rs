//! Times as people write them, read exactly: digits, at most one point, and a unit.
//!
//! No float stands between the text and the nanoseconds, so what is written is read back equal. A
//! part finer than a nanosecond is cut off.

use base::Nanos;

use crate::error::Fault;

/// Times beyond this are a mistake of the unit: 366 days.
pub const TIME_MAX: Nanos = Nanos::from_secs(366 * 86_400);

/// The units, longest first where one ends like another, with their nanoseconds.
const UNITS: [(&str, u128); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("", 1_000_000_000),
];

/// Reads a time as workload files hold it, for a command's options.
///
/// # Errors
/// It is none, negative, or beyond [`TIME_MAX`].
pub fn parse_time(text: &str) -> Result<Nanos, Fault> {
    read("the time", text)
}

/// Reads a time for the key `key`: not negative, at most [`TIME_MAX`].
pub(crate) fn read(key: &'static str, text: &str) -> Result<Nanos, Fault> {
    let found = || text.trim().to_owned();
    let (negative, size) = match text.trim().strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.trim().strip_prefix("+").unwrap_or(text.trim())),
    };
    let Some(nanos) =
        UNITS.iter().find_map(|&(unit, scale)| decimal(size.strip_suffix(unit)?.trim_end(), scale))
    else {
        // 1e30 is no way to write a time, but a number, and what is wrong with it is its size.
        let is_huge =
            size.parse::<f64>().is_ok_and(|n| n.is_finite() && TIME_MAX.as_secs_f64() < n);
        return Err(match is_huge && !negative {
            true => Fault::AbsurdTime { key, found: found() },
            false => Fault::NoTime { found: found() },
        });
    };
    match u64::try_from(nanos) {
        _ if negative && nanos != 0 => Err(Fault::NegativeTime { key, found: found() }),
        Ok(nanos) if nanos <= TIME_MAX.0 => Ok(Nanos(nanos)),
        _ => Err(Fault::AbsurdTime { key, found: found() }),
    }
}

/// A plain decimal times a whole number; `None` if the text is no plain decimal. Saturates.
fn decimal(text: &str, scale: u128) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let plain = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(part) || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let mut value = digits(whole).saturating_mul(scale);
    let mut place = scale;
    for digit in part.bytes() {
        place /= 10;
        value = value.saturating_add(u128::from(digit - b'0') * place);
    }
    Some(value)
}

fn digits(text: &str) -> u128 {
    let next = |value: u128, b: u8| value.saturating_mul(10).saturating_add(u128::from(b - b'0'));
    text.bytes().fold(0, next)
}

/// Seconds as an exact decimal without zeros at its end: `0`, `1.5`, `0.000000001`.
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
            ("7ns", 7),
            ("0.0000000019", 1),
        ] {
            assert_eq!(read("start", text), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn every_way_to_be_wrong_is_told_apart() {
        let fault = |text| read("start", text).expect_err(text);
        for text in ["", ".", "s", "ms", "1e3", "inf", "nan", "1..2", "--1", "1 2", "0x10", "1h"] {
            assert!(matches!(fault(text), Fault::NoTime { .. }), "{text}");
        }
        assert!(matches!(fault("-1"), Fault::NegativeTime { .. }));
        assert!(matches!(fault("-0.5 ms"), Fault::NegativeTime { .. }));
        for text in ["31622401", &"9".repeat(60)] {
            assert!(matches!(fault(text), Fault::AbsurdTime { .. }), "{text}");
        }
        assert_eq!(read("start", "31622400"), Ok(TIME_MAX));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_equal(nanos in 0..=TIME_MAX.0) {
            prop_assert_eq!(read("start", &seconds(Nanos(nanos))), Ok(Nanos(nanos)));
        }
    }
}
