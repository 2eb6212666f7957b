//! Lists of `KEY=VALUE` pairs in options, separated by commas: `pages=0.1,idle=off`.

use std::fmt::Display;
use std::str::FromStr;

use crate::suggest;

/// A part of a list. Without an equals sign, the key is the whole text and the value is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValue<'a> {
    /// The part as the user wrote it.
    pub text: &'a str,
    /// The text before the equals sign.
    pub key: &'a str,
    /// The text after the equals sign.
    pub value: &'a str,
}

/// Error of a pair. The message contains the accepted values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum KeyValueError {
    #[error("{found:?} is not {list}: {remedy}")]
    Key { found: String, list: &'static str, remedy: String },
    #[error("{key} cannot be {found:?}: write {accepted}")]
    Value { key: String, found: String, accepted: String },
}

/// Splits a list into its parts.
pub fn key_values(list: &str) -> impl Iterator<Item = KeyValue<'_>> {
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|text| {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        KeyValue { text, key: key.trim(), value: value.trim() }
    })
}

impl KeyValue<'_> {
    /// Parses the value. In the error message, `accepted` completes "write …".
    ///
    /// # Errors
    /// [`KeyValueError::Value`] if the value has another type or does not meet the condition.
    pub fn parse<T: FromStr>(
        &self,
        accepted: impl Display,
        is_valid: impl Fn(&T) -> bool,
    ) -> Result<T, KeyValueError> {
        let (key, found) = (self.key.to_owned(), self.value.to_owned());
        let value = self.value.parse().ok().filter(is_valid);
        value.ok_or_else(|| KeyValueError::Value { key, found, accepted: accepted.to_string() })
    }

    /// Returns the error of a part that is neither a pair with a known key nor one of the alternatives.
    pub fn unknown(
        &self,
        list: &'static str,
        alternative: &'static str,
        keys: &[&str],
    ) -> KeyValueError {
        let near = suggest::nearest(self.key, keys.iter().copied());
        let remedy = suggest::question(near.as_slice()).unwrap_or_else(|| {
            format!("write {alternative}KEY=VALUE with one of {}", keys.join(", "))
        });
        KeyValueError::Key { found: self.text.to_owned(), list, remedy }
    }
}
