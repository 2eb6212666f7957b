//! Encoding of an event into the words of `perf_event_attr`, according to the `format` directory of its PMU.
//!
//! ```text
//!   format/event   config:0-7,32-35          event=0x1c4,umask=0x3
//!   format/umask   config:8-15        ──►    config = 0x1_0000_03c4
//! ```
//!
//! The value of a term fills its bit ranges in their order, from the lowest bit on. The value of a term without a value
//! is 1. A value that does not fit into its bits is an error, because truncated bits would select another event. A term
//! that the PMU does not have is an error too.

use std::collections::BTreeMap;

/// The terms of a PMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format(BTreeMap<String, BitRanges>);

/// The bits of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BitRanges {
    /// Index among `config`, `config1`, `config2`.
    word: usize,
    /// First and last bit of each range.
    ranges: Vec<(u8, u8)>,
}

/// Error in the encoding of an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum FormatError {
    #[error("unknown format {text:?} of the term {term}: update evenkeel for this kernel")]
    Line { term: String, text: String },
    #[error("the PMU has no term {term}, which the event {event:?} needs")]
    NoTerm { term: String, event: String },
    #[error("{value} does not fit the term {term} in {event:?}")]
    TooLarge { value: String, term: String, event: String },
    #[error("the value {value:?} of the term {term} in {event:?} is not a number")]
    NoNumber { value: String, term: String, event: String },
}

impl Format {
    /// Adds a term with the content of its file, such as `config1:0-15`.
    ///
    /// # Errors
    /// The content is malformed.
    pub fn add(&mut self, term: &str, text: &str) -> Result<(), FormatError> {
        let bit_ranges = bit_ranges(text.trim());
        let wrong = || FormatError::Line { term: term.to_owned(), text: text.trim().to_owned() };
        self.0.insert(term.to_owned(), bit_ranges.ok_or_else(wrong)?);
        Ok(())
    }

    /// Returns whether the PMU has no terms.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn bit_ranges(text: &str) -> Option<BitRanges> {
    let (word, ranges) = text.split_once(':')?;
    let word = ["config", "config1", "config2"].iter().position(|known| *known == word)?;
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse::<u8>().ok()?, last.parse::<u8>().ok()?);
        (first <= last && last < 64).then_some((first, last))
    };
    let ranges: Option<Vec<(u8, u8)>> = ranges.split(',').map(range).collect();
    Some(BitRanges { word, ranges: ranges? })
}

/// Computes the config words of an event.
///
/// # Errors
/// The event does not fit the format of the PMU.
pub fn encode(event: &str, format: &Format) -> Result<[u64; 3], FormatError> {
    let mut config = [0u64; 3];
    for pair in event.trim().split(',').filter(|pair| !pair.trim().is_empty()) {
        let (term, value) = pair.trim().split_once('=').unwrap_or((pair.trim(), "1"));
        let value = number(value).ok_or_else(|| FormatError::NoNumber {
            value: value.to_owned(),
            term: term.to_owned(),
            event: event.trim().to_owned(),
        })?;
        put(&mut config, term, value, format, event.trim())?;
    }
    Ok(config)
}

fn put(
    config: &mut [u64; 3],
    term: &str,
    mut value: u64,
    format: &Format,
    event: &str,
) -> Result<(), FormatError> {
    let (original, event) = (value, event.to_owned());
    // A term may also be a whole config word.
    let whole = ["config", "config1", "config2"].iter().position(|known| *known == term);
    if let Some(word) = whole {
        config[word] |= value;
        return Ok(());
    }
    let Some(bit_ranges) = format.0.get(term) else {
        return Err(FormatError::NoTerm { term: term.to_owned(), event });
    };
    for (first, last) in &bit_ranges.ranges {
        let n_bits = u32::from(last - first) + 1;
        let mask = if n_bits == 64 { u64::MAX } else { (1 << n_bits) - 1 };
        config[bit_ranges.word] |= (value & mask) << first;
        value = value.checked_shr(n_bits).unwrap_or(0);
    }
    if value != 0 {
        let value = format!("{original:#x}");
        return Err(FormatError::TooLarge { value, term: term.to_owned(), event });
    }
    Ok(())
}

fn number(text: &str) -> Option<u64> {
    match text.trim().strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn format(lines: &[(&str, &str)]) -> Format {
        let mut format = Format::default();
        lines.iter().for_each(|(term, text)| format.add(term, text).expect("a format"));
        format
    }

    fn amd() -> Format {
        format(&[("event", "config:0-7,32-35"), ("umask", "config:8-15"), ("inv", "config:23")])
    }

    #[test]
    fn a_value_fills_its_ranges_from_the_lowest_bit() {
        assert_eq!(encode("event=0x1c4,umask=0x3\n", &amd()), Ok([0x1_0000_03c4, 0, 0]));
        assert_eq!(encode("event=0x76,inv", &amd()), Ok([0x80_0076, 0, 0]));
        let second = format(&[("offcore_rsp", "config1:0-63")]);
        assert_eq!(encode("offcore_rsp=0x10,config=5", &second), Ok([5, 16, 0]));
    }

    #[test]
    fn an_event_that_does_not_fit_is_an_error_and_not_truncated() {
        let error = |event: &str| encode(event, &amd()).expect_err("rejected").to_string();
        expect_test::expect![[r#"
            the PMU has no term cmask, which the event "event=1,cmask=6" needs
            0x103 does not fit the term umask in "umask=0x103"
            the value "?" of the term event in "event=?" is not a number"#]]
        .assert_eq(&[error("event=1,cmask=6"), error("umask=0x103"), error("event=?")].join("\n"));
        for wrong in ["", "config", "config3:0", "config:8-7", "config:0-64", "config:a"] {
            assert!(Format::default().add("event", wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(event in "[a-z0-9=,x?-]{0,30}", line in "(config[12]?:)?[0-9,-]{0,12}") {
            let mut format = amd();
            let _ = format.add("a", &line);
            let _ = encode(&event, &format);
        }
    }
}
