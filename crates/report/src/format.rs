//! Formatting of values for text and HTML. An absent value is a dash, never a zero.

use base::gb_per_s;

/// The text of an absent value.
pub const ABSENT: &str = "-";

/// Formats nanoseconds as seconds with three digits, rounded: `12.250`.
pub fn seconds(nanos: u64) -> String {
    let millis = nanos / 1_000_000 + u64::from(500_000 <= nanos % 1_000_000);
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// Formats nanoseconds in a suitable unit, as [`base::Nanos`] prints them: `12.25 s`, `3 min 20 s`, `1.5 ms`.
pub fn duration(nanos: u64) -> String {
    base::Nanos(nanos).to_string()
}

/// Formats bytes in a binary unit: `32.0 MiB`.
pub fn bytes(bytes: u64) -> String {
    base::Bytes(bytes).to_string()
}

/// Formats a count in groups of three: `12 345`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (idx, digit) in digits.chars().enumerate() {
        if idx != 0 && (digits.len() - idx).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun, as [`base::counted_noun`], but in groups of three: `1 234 policies`.
pub fn counted(n: usize, one: &str) -> String {
    format!("{} {}", count(n as u64), base::noun(n == 1, one))
}

/// Formats a rate with a prefix: `1.2 k`, `3.4 M`, `12 G`.
pub fn rate(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", " k", " M", " G", " T"];
    let mut value = value;
    let mut idx = 0;
    while 999.5 <= value && idx + 1 < PREFIXES.len() {
        value /= 1000.0;
        idx += 1;
    }
    let digits = if value < 9.95 && value != 0.0 { 1 } else { 0 };
    format!("{value:.digits$}{}", PREFIXES[idx])
}

/// Formats a share of 1 in percent, with enough digits to distinguish it from zero.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        p if p < 0.001 => "< 0.001 %".to_owned(),
        p if p < 0.1 => format!("{p:.3} %"),
        p if p < 10.0 => format!("{p:.2} %"),
        p => format!("{p:.0} %"),
    }
}

/// Formats a value; for `None`, returns the text of an absent value.
pub fn or_absent<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), format)
}

/// Formats a number with this many digits after the point.
pub fn fixed(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// Formats a difference with its sign and this many digits after the point: `+1.2`.
pub fn signed(value: f64, digits: usize) -> String {
    format!("{value:+.digits$}")
}

/// Formats a ratio, such as a slowdown: three digits after the point.
pub fn ratio(value: f64) -> String {
    fixed(value, 3)
}

/// Formats a value per instruction or per thousand instructions: two digits after the point.
pub fn per_instruction(value: f64) -> String {
    fixed(value, 2)
}

/// Formats a bandwidth: `12.3 GB/s`.
pub fn bandwidth(bytes_per_s: f64) -> String {
    format!("{} GB/s", gb_per_s(bytes_per_s))
}

/// Formats a number with four significant digits, three of them if it is below 1, at most five after the point.
pub fn four_digits(value: f64) -> String {
    fixed(value, n_decimals(value))
}

/// Returns the number of digits after the point for four significant digits, three if the value is below 1, at most
/// five.
pub fn n_decimals(value: f64) -> usize {
    match value {
        value if 0.0 < value && value < 0.01 => 5,
        value if 0.0 < value && value < 0.1 => 4,
        value if value < 10.0 => 3,
        value if value < 100.0 => 2,
        value if value < 1000.0 => 1,
        _ => 0,
    }
}

/// Formats the two ends of a confidence interval: `0.953-1.237`.
pub fn ci(ends: Option<&[f64]>, digits: usize, separator: &str) -> Option<String> {
    match ends {
        Some([low, high]) => Some(format!("{low:.digits$}{separator}{high:.digits$}")),
        _ => None,
    }
}

/// Formats a relative difference in percent with its sign: `+3.1 %`.
pub fn signed_percent(share: f64) -> String {
    format!("{} %", signed(100.0 * share, 1))
}

/// Formats seconds since 1970 as `2026-11-21 21:03:17 UTC`.
fn wall_clock(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

/// Formats the start time of a run. 0 is a simulated run, which has no wall clock.
pub fn started(unix_s: u64) -> String {
    match unix_s {
        0 => "in simulated time".to_owned(),
        _ => wall_clock(unix_s),
    }
}

/// Returns the year, month and day that is `days` after 1970-01-01. Years are counted from March, so that the leap day
/// is the last day of a year.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468; // Days from 0000-03-01 to 1970-01-01.
    const DAYS_IN_ERA: u64 = 146_097; // Days in 400 years.
    let days = days + DAYS_TO_1970;
    let (era, day) = (days / DAYS_IN_ERA, days % DAYS_IN_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_wall_clock_has_no_date() {
        assert_eq!(started(0), "in simulated time");
        assert_eq!(started(951_782_399), "2000-02-28 23:59:59 UTC");
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_294_997, "2026-11-21 21:03:17 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(wall_clock(unix_s), text);
        }
    }

    #[test]
    fn values_have_suitable_units() {
        assert_eq!(seconds(12_250_400_000), "12.250");
        let rounded = [719_000, 499_999, 3_171_970_000, 999_999_999, u64::MAX].map(seconds);
        assert_eq!(rounded, ["0.001", "0.000", "3.172", "1.000", "18446744073.710"]);
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(999.6), "1.0 k");
        assert_eq!(rate(12_345_678.0), "12 M");
        assert_eq!(percent(0.000_12), "0.012 %");
        let times = [0.0, 0.006_21, 0.0534, 0.534, 12.345, 123.45].map(four_digits);
        assert_eq!(times, ["0.000", "0.00621", "0.0534", "0.534", "12.35", "123.5"]);
        assert_eq!(percent(0.5), "50 %");
    }
}
