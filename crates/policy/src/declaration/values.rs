//! Types and texts of parameter values.
//!
//! ```text
//!   text ─► Values: accepted or not ─► ParamValue: u64, Nanos, Millionths, an enum of names!, …
//! ```
//!
//! [`params!`] declares parameters together with the struct of their typed values.

use base::Nanos;
use topology::DomainChoice;

/// The accepted values of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these names.
    Names(&'static [&'static str]),
    /// Level of the placement domains. The field defines the meaning of `auto`.
    Domains(DomainChoice),
    /// A whole number.
    Integer {
        /// Unit in the plural; empty for a number without a unit.
        unit: &'static str,
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// A number with up to six decimal places; read as millionths.
    Decimal {
        /// Unit; empty for a number without a unit.
        unit: &'static str,
        /// The smallest value, in millionths.
        min: u64,
        /// The largest value, in millionths.
        max: u64,
    },
    /// A percentage such as `5%` in steps of 0.0001 %; read as millionths.
    Percent,
    /// A time with its unit; the fields are the shortest and the longest time.
    Time(Nanos, Nanos),
    /// The word of the first field, or a value of the second field.
    Or(&'static str, &'static Values),
    /// A text that the function accepts; the first field describes the accepted texts.
    Other(&'static str, fn(&str) -> bool),
}

/// Number of millionths in 1.
pub(crate) const MILLION: u64 = 1_000_000;

/// Accepted intervals. A shorter interval would be busy waiting; a longer interval is probably a mistake.
pub(crate) const INTERVAL_TIMES: Values =
    Values::Time(Nanos::from_millis(1), Nanos::from_secs(3600));

/// A type of parameter values.
pub trait ParamValue: Sized {
    /// Accepted values of a parameter of this type, unless the parameter declares other values.
    const VALUES: Values;

    /// Converts a text that `values` accepts. `None`: the text is not of this type.
    fn read(text: &str, values: &Values) -> Option<Self>;
}

impl Values {
    /// Accepts a whole number from `min` to `max`.
    pub const fn integer(unit: &'static str, min: u64, max: u64) -> Self {
        Values::Integer { unit, min, max }
    }

    /// Accepts a decimal number from 0 to `max`.
    pub(crate) const fn decimal(unit: &'static str, max: u64) -> Self {
        Values::Decimal { unit, min: 0, max: max * MILLION }
    }

    /// Returns the accepted values in words, as the object of "write" in an error.
    pub fn words(&self) -> String {
        let suffix =
            |unit: &str| if unit.is_empty() { String::new() } else { format!(" of {unit}") };
        match self {
            Values::Names([all @ .., last]) if !all.is_empty() => {
                format!("{} or {last}", all.join(", "))
            }
            Values::Names(names) => names.concat(),
            Values::Domains(_) => "auto, node, llc or core".to_owned(),
            Values::Integer { unit, min, max } => {
                format!("a whole number{} from {min} to {max}", suffix(unit))
            }
            Values::Decimal { unit, min, max } => {
                let (min, max) = (*min as f64 / MILLION as f64, *max as f64 / MILLION as f64);
                format!("a decimal number{} from {min} to {max}", suffix(unit))
            }
            Values::Percent => "a percentage from 0% to 100% in steps of 0.0001%".to_owned(),
            Values::Time(Nanos::ZERO, max) => {
                format!("a time with its unit, up to {}", short(*max))
            }
            Values::Time(min, max) => {
                format!("a time with its unit, from {} to {}", short(*min), short(*max))
            }
            Values::Or(word, others) => format!("{word}, or {}", others.words()),
            Values::Other(words, _) => (*words).to_owned(),
        }
    }

    /// Returns whether a text is an accepted value.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        match self {
            Values::Names(names) => names.contains(&text),
            Values::Domains(_) => text.parse::<DomainChoice>().is_ok(),
            Values::Or(word, others) => text == *word || others.accepts(text),
            Values::Other(_, accepts) => accepts(text),
            _ => {
                let limits = self.limits().map(|(min, max)| min..=max);
                limits.zip(self.number(text)).is_some_and(|(limits, n)| limits.contains(&n))
            }
        }
    }

    /// Returns the smallest and the largest number: integers, millionths of decimal numbers and percentages, or
    /// nanoseconds. `None`: the values are not numbers of a range.
    pub fn limits(&self) -> Option<(u64, u64)> {
        match self {
            Values::Integer { min, max, .. } | Values::Decimal { min, max, .. } => {
                Some((*min, *max))
            }
            Values::Percent => Some((0, MILLION)),
            Values::Time(min, max) => Some((min.0, max.0)),
            Values::Or(_, others) => others.limits(),
            Values::Names(_) | Values::Domains(_) | Values::Other(..) => None,
        }
    }

    /// Parses a number in the unit of [`Values::limits`], inside or outside of the limits. For [`Values::Other`]: a
    /// decimal number.
    pub fn number(&self, text: &str) -> Option<u64> {
        match self {
            Values::Integer { .. } => parse_integer(text),
            Values::Decimal { .. } | Values::Other(..) => parse_decimal(text),
            Values::Percent => percent(text),
            Values::Time(..) => time(text).map(|time| time.0),
            Values::Or(_, others) => others.number(text),
            Values::Names(_) | Values::Domains(_) => None,
        }
    }

    /// Returns the text of a number in the unit of [`Values::limits`], which [`Values::number`] parses.
    pub fn number_text(&self, number: u64) -> String {
        match self {
            Values::Decimal { .. } | Values::Other(..) => decimal_text(number, MILLION, 6),
            // A millionth of 1 is a ten-thousandth of a percent.
            Values::Percent => decimal_text(number * 100, MILLION, 6) + "%",
            Values::Time(..) => {
                let units = [("s", 1_000_000_000, 9), ("ms", 1_000_000, 6), ("us", 1_000, 3)];
                let unit = units.into_iter().find(|(_, ns, _)| *ns <= number);
                let (unit, ns, n_places) = unit.unwrap_or(("ns", 1, 0));
                format!("{}{unit}", decimal_text(number, ns, n_places))
            }
            Values::Or(_, others) => others.number_text(number),
            Values::Integer { .. } | Values::Names(_) | Values::Domains(_) => number.to_string(),
        }
    }
}

/// Returns a number divided by a power of ten as a decimal number without trailing zeros.
fn decimal_text(number: u64, unit: u64, n_places: usize) -> String {
    let text = format!("{}.{:0n_places$}", number / unit, number % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn short(time: Nanos) -> String {
    match time.0 {
        ns if ns.is_multiple_of(60_000_000_000) => format!("{}min", ns / 60_000_000_000),
        ns if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
        ns => format!("{}ms", ns / 1_000_000),
    }
}

/// Parses a whole number that consists of digits only, without sign and spaces.
pub(crate) fn parse_integer(text: &str) -> Option<u64> {
    let is_digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten()
}

/// Parses a decimal number up to a million, in millionths. More than six decimal places are rejected.
pub(crate) fn parse_decimal(text: &str) -> Option<u64> {
    let (whole_part, places) = text.split_once('.').unwrap_or((text, "0"));
    let n_places = u32::try_from(places.len()).ok()?;
    let whole_part = parse_integer(whole_part).filter(|whole| *whole <= MILLION)?;
    Some(
        whole_part * MILLION
            + parse_integer(places)? * 10u64.checked_pow(6u32.checked_sub(n_places)?)?,
    )
}

/// Parses a percentage such as `5%`, in millionths. Steps below 0.0001 % are rejected, because rounding could change
/// them to 0.
pub(crate) fn percent(text: &str) -> Option<u64> {
    let percent = parse_decimal(text.strip_suffix('%')?)?;
    (percent <= 100 * MILLION && percent.is_multiple_of(100)).then_some(percent / 100)
}

/// Parses a time with its unit. A number without a unit is rejected: the user could mean seconds or milliseconds.
fn time(text: &str) -> Option<Nanos> {
    text.ends_with(|last: char| last.is_ascii_alphabetic()).then(|| text.parse().ok()).flatten()
}

/// A decimal number or a percentage, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Millionths(pub u64);

impl Millionths {
    /// Returns the value in thousandths, rounded down.
    pub fn permille(self) -> u64 {
        self.0 / 1000
    }
}

/// Implements [`ParamValue`] with the accepted values and a conversion function.
macro_rules! param_value {
    ($type:ty, $values:expr, |$text:ident, $accepted:pat_param| $read:expr) => {
        impl ParamValue for $type {
            const VALUES: Values = $values;
            fn read($text: &str, $accepted: &Values) -> Option<Self> {
                $read
            }
        }
    };
}

param_value!(u64, Values::integer("", 0, u64::MAX), |text, _| parse_integer(text));
param_value!(Nanos, INTERVAL_TIMES, |text, _| time(text));
param_value!(bool, Values::Names(&["yes", "no"]), |text, _| Some(text == "yes"));
param_value!(Millionths, Values::Percent, |text, values| Some(Millionths(match values {
    Values::Percent => percent(text)?,
    _ => parse_decimal(text)?,
})));
param_value!(DomainChoice, Values::Domains(DomainChoice::Auto), |text, values| {
    match (values, text.parse().ok()?) {
        (Values::Domains(auto), DomainChoice::Auto) => Some(*auto),
        (_, choice) => Some(choice),
    }
});

impl<T: ParamValue> ParamValue for Option<T> {
    const VALUES: Values = T::VALUES;
    fn read(text: &str, values: &Values) -> Option<Self> {
        match values {
            Values::Or(word, _) if text == *word => Some(None),
            Values::Or(_, others) => T::read(text, others).map(Some),
            others => T::read(text, others).map(Some),
        }
    }
}

/// Declares an enum whose variants are the named values of a parameter.
macro_rules! names {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $crate::declaration::ParamValue for $name {
            const VALUES: $crate::declaration::Values =
                $crate::declaration::Values::Names(&[$($text),+]);
            fn read(text: &str, _: &$crate::declaration::Values) -> Option<Self> {
                match text {
                    $($text => Some($name::$variant),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use names;

/// Declares parameters and the struct of their values. Each parameter is a field with a type, accepted values in
/// brackets (if they differ from the values of the type), a default, a help text, and calls of methods of [`Param`].
macro_rules! params {
    ($(#[$doc:meta])* $vis:vis struct $config:ident from $list:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty $([$values:expr])? = $default:literal, $help:literal
            $(.$method:ident($($arg:expr),*))*;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis struct $config { $($(#[$field_doc])* pub $field: $type,)+ }

        $vis const $list: &[$crate::declaration::Param] = &[$(
            $crate::declaration::Param::new(
                stringify!($field),
                $crate::declaration::params!(@values $type $(, $values)?),
                $default,
                $help,
            )$(.$method($($arg),*))*,
        )+];

        impl $config {
            pub fn new(params: &$crate::Params<'_>) -> Self {
                $config { $($field: params.get(stringify!($field)),)+ }
            }
        }
    };
    (@values $type:ty) => { <$type as $crate::declaration::ParamValue>::VALUES };
    (@values $type:ty, $values:expr) => { $values };
}
pub(crate) use params;
