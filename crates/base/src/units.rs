//! Times in whole nanoseconds and sizes in whole bytes.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

/// A duration, or an instant since the start of a run, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// An amount of memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Size of a cache line, in bytes, on every supported processor. Each LLC miss transfers one line.
pub const LINE_BYTES: u64 = 64;

/// Error of a text that is not a time or a size, with an example of a valid text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a {quantity}; write {example}")]
pub struct ParseUnitError {
    quantity: &'static str,
    found: String,
    example: &'static str,
}

impl Nanos {
    /// Zero duration, or the start of a run.
    pub const ZERO: Nanos = Nanos(0);

    /// Converts whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Nanos(secs * 1_000_000_000)
    }

    /// Converts whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Nanos(millis * 1_000_000)
    }

    /// Converts seconds, rounded to the nanosecond. Returns `None` if `secs` is negative, not finite or beyond 570
    /// years.
    pub fn from_secs_f64(secs: f64) -> Option<Self> {
        let nanos = (secs * 1e9).round();
        let fits = nanos.is_finite() && (0.0..1.8e19).contains(&nanos);
        fits.then_some(Nanos(nanos as u64))
    }

    /// Converts to seconds, for output and models. Events must not be ordered by this value.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time since `earlier`, or zero if `earlier` is not before this time.
    pub fn saturating_sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the sum, or [`u64::MAX`] nanoseconds on overflow.
    pub fn saturating_add(self, more: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(more.0))
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Duration::from_nanos(nanos.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, more: Nanos) -> Nanos {
        Nanos(self.0 + more.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, more: Nanos) {
        self.0 += more.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0 - earlier.0)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(times: I) -> Nanos {
        times.fold(Nanos::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    /// Writes the time in a suitable unit: `17 ns`, `3.5 us`, `1.5 ms`, `12.25 s`, `3 min 20 s`, `5 h 2 min`, `2 d 4
    /// h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000_000;
        let seconds = self.0 / SECOND + u64::from(SECOND / 2 <= self.0 % SECOND);
        let text = match self.0 {
            0 => "0 s".to_owned(),
            n if n < 1_000 => format!("{n} ns"),
            n if n < 1_000_000 => format!("{:.1} us", n as f64 / 1e3),
            n if n < SECOND => format!("{:.1} ms", n as f64 / 1e6),
            n if n < 120 * SECOND => format!("{:.2} s", n as f64 / 1e9),
            _ if seconds < 7200 => format!("{} min {} s", seconds / 60, seconds % 60),
            _ if seconds < 172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
            _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
        };
        f.pad(&text)
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;

    /// Parses `250ms`, `1.5s`, `10us`, `3min`, `2h`, `1d` or `40ns`. A number without a unit is in seconds.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let nanos = exact_nanos(text).and_then(|nanos| u64::try_from(nanos).ok());
        nanos.map(Nanos).ok_or_else(|| ParseUnitError {
            quantity: "time",
            found: text.to_owned(),
            example: TIME_EXAMPLE,
        })
    }
}

/// Examples of valid times, for error messages.
pub const TIME_EXAMPLE: &str = "seconds such as 1.5, or 250ms, 10us, 3min, 2h, 1d";

/// Examples of valid sizes, for error messages.
pub const SIZE_EXAMPLE: &str = "bytes, or a number with K, M, G or T such as 64M";

/// Units of time in nanoseconds. A unit precedes all units that are its suffixes.
const TIME_UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("s", 1_000_000_000),
    ("", 1_000_000_000),
];

/// Parses a time: digits, at most one decimal point and an optional unit (default: seconds).
///
/// The computation uses integers only, so a long time keeps all of its digits. The place value of each digit
/// is truncated to whole nanoseconds. The result saturates on overflow.
pub fn exact_nanos(text: &str) -> Option<u128> {
    let text = text.trim();
    TIME_UNITS.iter().find_map(|&(unit, scale)| decimal(text.strip_suffix(unit)?.trim_end(), scale))
}

/// Multiplies a plain decimal number by a whole number. Returns `None` if the text is not a plain decimal number. The
/// result saturates on overflow.
fn decimal(text: &str, scale: u128) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let plain = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(part) || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let mut value = digits(whole).saturating_mul(scale);
    let mut digit_scale = scale;
    for digit in part.bytes() {
        digit_scale /= 10;
        value = value.saturating_add(u128::from(digit - b'0') * digit_scale);
    }
    Some(value)
}

fn digits(text: &str) -> u128 {
    let next = |value: u128, b: u8| value.saturating_mul(10).saturating_add(u128::from(b - b'0'));
    text.bytes().fold(0, next)
}

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// Converts whole kibibytes.
    pub const fn from_kib(kib: u64) -> Self {
        Bytes(kib << 10)
    }

    /// Converts whole mebibytes.
    pub const fn from_mib(mib: u64) -> Self {
        Bytes(mib << 20)
    }

    /// Returns the difference, or zero if `less` is larger.
    #[must_use]
    pub fn saturating_sub(self, less: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(less.0))
    }

    /// Returns the sum, or [`u64::MAX`] bytes on overflow.
    #[must_use]
    pub fn saturating_add(self, more: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(more.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, more: Bytes) -> Bytes {
        Bytes(self.0 + more.0)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(sizes: I) -> Bytes {
        sizes.fold(Bytes::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    /// Writes the size in the largest binary unit with a value of at least 1: `512 B`, `32.0 MiB`, `23.5 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit_idx = 0;
        while 1024.0 <= value && unit_idx + 1 < UNITS.len() {
            value /= 1024.0;
            unit_idx += 1;
        }
        f.pad(&format!("{value:.1} {}", UNITS[unit_idx]))
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;

    /// Parses `4096`, `64M`, `64MiB` or `1.5G`. Units are binary. A number without a unit is in bytes.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let reject =
            || ParseUnitError { quantity: "size", found: text.to_owned(), example: SIZE_EXAMPLE };
        let trimmed = text.trim();
        let bare = trimmed.strip_suffix("iB").or(trimmed.strip_suffix('B')).unwrap_or(trimmed);
        let (number, shift) = match bare.chars().last() {
            Some('K' | 'k') => (&bare[..bare.len() - 1], 10),
            Some('M') => (&bare[..bare.len() - 1], 20),
            Some('G') => (&bare[..bare.len() - 1], 30),
            Some('T') => (&bare[..bare.len() - 1], 40),
            _ => (bare, 0),
        };
        let value = plain_number(number).ok_or_else(reject)? * (1u64 << shift) as f64;
        (value < 1.8e19).then_some(Bytes(value as u64)).ok_or_else(reject)
    }
}

/// Parses digits with at most one decimal point, without a sign, exponent, infinity or NaN.
fn plain_number(text: &str) -> Option<f64> {
    let text = text.trim_end();
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    (plain && text.chars().any(|c| c.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Returns a bandwidth in GB/s without the unit: two decimals below 10, otherwise one decimal.
pub fn gb_per_s(bytes_per_s: f64) -> String {
    let value = bytes_per_s / 1e9;
    let digits = if value < 9.995 { 2 } else { 1 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_unit() {
        for (text, nanos) in [
            ("1.5", 1_500_000_000),
            ("250ms", 250_000_000),
            ("2 s", 2_000_000_000),
            ("3min", 180_000_000_000),
            ("2h", 7_200_000_000_000),
            ("1.5 d", 129_600_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn an_invalid_time_is_rejected_with_an_example() {
        for text in ["", "-1", "1e9", "inf", "NaN", "ms", "1..2", "99999999999999999999"] {
            let error = text.parse::<Nanos>().expect_err(text).to_string();
            assert!(error.contains("250ms"), "{error}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!("64M".parse(), Ok(Bytes::from_mib(64)));
        assert_eq!("1.5GiB".parse(), Ok(Bytes::from_mib(1536)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
        assert!("-4M".parse::<Bytes>().is_err());
        assert!("4X".parse::<Bytes>().is_err());
    }

    #[test]
    fn times_and_sizes_are_printed_with_a_unit() {
        for (time, text) in [
            (Nanos::ZERO, "0 s"),
            (Nanos(17), "17 ns"),
            (Nanos(3500), "3.5 us"),
            (Nanos(1_500_000), "1.5 ms"),
            (Nanos(61_240_000_000), "61.24 s"),
            (Nanos(200_000_000_000), "3 min 20 s"),
            (Nanos(7_200_000_000_000), "2 h 0 min"),
            (Nanos(187_200_000_000_000), "2 d 4 h"),
        ] {
            assert_eq!(time.to_string(), text);
        }
        assert_eq!(Bytes::from_mib(32).to_string(), "32.0 MiB");
        assert_eq!(Bytes(17).to_string(), "17 B");
    }

    #[test]
    fn a_bandwidth_has_three_significant_digits_from_1_to_100_gb_per_s() {
        let values = [0.04e9, 3.456e9, 9.994e9, 9.996e9, 12.8e9, 99.96e9];
        let texts = ["0.04", "3.46", "9.99", "10.0", "12.8", "100.0"];
        assert_eq!(values.map(gb_per_s), texts);
    }
}
