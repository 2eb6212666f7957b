//! Reasons for requests and notes: a code, and the values on which the decision is based.
//!
//! The crate that gives a reason declares its code and its sentence template with [`reasons!`]. A policy
//! lists its codes ([`crate::Policy::reasons`]). A journal stores the templates in its header and a code
//! with values in each turn, so that a reader needs no policy to print the sentences.
//!
//! ```text
//!   {name}      the value with this name, or `?` if the reason does not have it
//!   {unit}      unit of a load, chosen by the value `tier`: cache misses, declared memory operations, …
//!   [ … ]       printed if the reason has every value that the text names, and no such value is 0
//!   [a=b: … ]   printed if the value `a` is the text `b`
//! ```

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::SignalTier;

/// The reason of a policy for a request or a note.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The kind of reason.
    pub code: ReasonCode,
    /// Values by name, in the order in which the policy added them.
    pub values: Vec<(Cow<'static, str>, ReasonValue)>,
}

/// A value in a reason.
#[derive(Clone, Debug, PartialEq)]
pub enum ReasonValue {
    /// A whole number, printed without decimal places.
    Count(u64),
    /// A measure, printed with three decimal places.
    Number(f64),
    /// Text, such as the label of a domain.
    Text(Cow<'static, str>),
}

/// A kind of reason: its name in journals and its sentence template.
///
/// Codes are compared by name: a recorded code equals the declared code of that name, even if the templates differ.
#[derive(Clone)]
pub struct ReasonCode(TemplateSource);

#[derive(Clone)]
enum TemplateSource {
    Declared { name: &'static str, template: &'static str },
    Recorded(Arc<(String, String)>),
}

/// Declares reason codes as constants, and the list `REASONS` of these constants.
///
/// ```
/// sched::reasons! {
///     /// The task moves to the idle domain.
///     IDLE_DOMAIN = "idle-domain": "{domain} was idle";
/// }
/// let reason = sched::Reason::new(IDLE_DOMAIN).with("domain", "node 1");
/// assert_eq!(reason.to_string(), "node 1 was idle");
/// assert_eq!(REASONS, [IDLE_DOMAIN]);
/// ```
#[macro_export]
macro_rules! reasons {
    ($($(#[$doc:meta])* $constant:ident = $name:literal: $template:expr;)*) => {
        $($(#[$doc])* pub const $constant: $crate::ReasonCode =
            $crate::ReasonCode::new($name, $template);)*
        /// The reasons declared in this module.
        pub(crate) const REASONS: &[$crate::ReasonCode] = &[$($constant),*];
    };
}

impl ReasonCode {
    /// Returns a new code. The macro [`reasons!`] is the usual way to declare codes.
    pub const fn new(name: &'static str, template: &'static str) -> Self {
        ReasonCode(TemplateSource::Declared { name, template })
    }

    /// Returns a code that was read from the header of a journal.
    pub fn recorded(name: String, template: String) -> Self {
        ReasonCode(TemplateSource::Recorded(Arc::new((name, template))))
    }

    /// Returns the name of the code in journals, such as `least-load`.
    pub fn name(&self) -> &str {
        match &self.0 {
            TemplateSource::Declared { name, .. } => name,
            TemplateSource::Recorded(both) => &both.0,
        }
    }

    /// Returns the sentence template, in which `{name}` stands for a value.
    pub fn template(&self) -> &str {
        match &self.0 {
            TemplateSource::Declared { template, .. } => template,
            TemplateSource::Recorded(both) => &both.1,
        }
    }
}

impl fmt::Debug for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for ReasonCode {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ReasonCode {}

impl PartialOrd for ReasonCode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReasonCode {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl Reason {
    /// Returns a reason without values.
    pub fn new(code: ReasonCode) -> Self {
        // Most reasons have up to eight values. Without the capacity, reallocations took a tenth of the time of a turn
        // with many requests.
        Reason { code, values: Vec::with_capacity(8) }
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<ReasonValue>) -> Self {
        self.values.push((Cow::Borrowed(name), value.into()));
        self
    }

    /// Adds a value unless it is `None`.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl Into<ReasonValue>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Replaces a value; no effect if there is no value with this name.
    pub fn replace(&mut self, name: &str, value: impl Into<ReasonValue>) {
        if let Some((_, old)) = self.values.iter_mut().find(|(known, _)| known == name) {
            *old = value.into();
        }
    }

    /// Returns the value with this name.
    pub fn value(&self, name: &str) -> Option<&ReasonValue> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn fill(&self, text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            f.write_str(before)?;
            match self.value(name) {
                None if name == "unit" => f.write_str(self.unit())?,
                None => f.write_str("?")?,
                Some(value) => write!(f, "{value}")?,
            }
            rest = after;
        }
        f.write_str(rest)
    }

    /// Returns whether the reason has every value that `text` names, and no such value is 0.
    fn has_all(&self, text: &str) -> bool {
        let named = text.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        named
            .map(|name| self.value(name))
            .all(|value| value.is_some_and(|value| *value != ReasonValue::Count(0)))
    }

    /// Returns whether the value `name` is the text `word`.
    fn is_word(&self, name: &str, word: &str) -> bool {
        matches!(self.value(name), Some(ReasonValue::Text(text)) if text == word)
    }

    /// Returns the unit of loads for the signal tier of the reason.
    fn unit(&self) -> &'static str {
        let has_name = |tier: &SignalTier| self.is_word("tier", tier.name());
        SignalTier::ALL.into_iter().find(has_name).unwrap_or_default().load_unit()
    }
}

/// Splits a conditional part of a template, `name=word: text`, into name, word and text.
fn condition(inside: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = inside.split_once(": ")?;
    let (name, word) = head.split_once('=')?;
    (!head.contains([' ', '{'])).then_some((name, word, rest))
}

impl fmt::Display for Reason {
    /// Prints the sentence with its values, then the signal tier of the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.code.template();
        while let Some((before, after)) = rest.split_once('[') {
            let (inside, after) = after.split_once(']').unwrap_or((after, ""));
            self.fill(before, f)?;
            match condition(inside) {
                Some((name, word, inside)) if self.is_word(name, word) => self.fill(inside, f)?,
                None if self.has_all(inside) => self.fill(inside, f)?,
                _ => {}
            }
            rest = after;
        }
        self.fill(rest, f)?;
        match self.value("tier") {
            Some(tier) => write!(f, " (tier {tier})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ReasonValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReasonValue::Count(count) => write!(f, "{count}"),
            ReasonValue::Number(number) => write!(f, "{number:.3}"),
            ReasonValue::Text(text) => f.write_str(text),
        }
    }
}

impl From<u64> for ReasonValue {
    fn from(count: u64) -> Self {
        ReasonValue::Count(count)
    }
}

impl From<f64> for ReasonValue {
    fn from(number: f64) -> Self {
        ReasonValue::Number(number)
    }
}

impl From<String> for ReasonValue {
    fn from(text: String) -> Self {
        ReasonValue::Text(text.into())
    }
}

impl From<&'static str> for ReasonValue {
    fn from(text: &'static str) -> Self {
        ReasonValue::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    reasons! {
        LOAD = "load": "{domain} had {load} of {total} {unit}[, {expected} of the {total} expected]";
    }

    fn load() -> Reason {
        Reason::new(LOAD).with("domain", "core 1".to_owned()).with("load", 5).with("total", 9)
    }

    #[test]
    fn a_load_is_printed_in_the_unit_of_its_tier() {
        let of_tier = |tier: &str| load().with("tier", tier.to_owned()).to_string();
        for (tier, unit) in [
            ("bandwidth", "memory operations"),
            ("counters", "cache misses"),
            ("declared", "declared memory operations"),
            ("none", "memory operations"),
        ] {
            assert_eq!(of_tier(tier), format!("core 1 had 5 of 9 {unit} (tier {tier})"));
        }
    }

    #[test]
    fn text_in_brackets_is_printed_only_if_all_its_values_are_present_and_not_zero() {
        assert_eq!(load().to_string(), "core 1 had 5 of 9 memory operations");
        assert_eq!(load().with("expected", 0).to_string(), load().to_string());
        assert_eq!(
            load().with("expected", 7).to_string(),
            "core 1 had 5 of 9 memory operations, 7 of the 9 expected"
        );
    }

    #[test]
    fn a_conditional_text_is_printed_only_for_its_value() {
        let template = "it had {load}[by=class: , the highest class][by=load: , {load} at most]";
        let code = ReasonCode::new("phrases", template);
        let of = |by: &'static str| Reason::new(code.clone()).with("load", 0).with("by", by);
        assert_eq!(of("class").to_string(), "it had 0, the highest class");
        assert_eq!(of("load").to_string(), "it had 0, 0 at most");
        assert_eq!(of("number").to_string(), "it had 0");
    }

    #[test]
    fn a_recorded_code_equals_the_declared_code_and_keeps_its_template() {
        let recorded = ReasonCode::recorded("load".to_owned(), "{domain} was idle".to_owned());
        assert_eq!(REASONS, std::slice::from_ref(&recorded));
        let reason = Reason { code: recorded, ..load() };
        assert_eq!(reason.to_string(), "core 1 was idle");
    }
}
