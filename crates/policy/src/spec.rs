//! The text that names a policy: `dfs`, `dfs[]`, `dfs[cooldown=4,domains=llc]`.

use std::fmt;

use crate::PolicyInfo;

/// Why a text names no policy that can be built. Each message says what would be possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No name with parameters in brackets.
    #[error("{0:?} names no policy: write a name, or a name with parameters as in {EXAMPLE}")]
    Malformed(String),
    /// No such policy.
    #[error("there is no policy {found:?}{guess}: {known}", guess = Guess(.nearest))]
    UnknownPolicy {
        /// What was written.
        found: String,
        /// What was meant, perhaps.
        nearest: Option<&'static str>,
        /// All there are.
        known: String,
    },
    /// No such parameter.
    #[error("policy {policy} has no parameter {found:?}{guess}: {known}", guess = Guess(.nearest))]
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// What was written.
        found: String,
        /// What was meant, perhaps.
        nearest: Option<&'static str>,
        /// All that it has.
        known: String,
    },
    /// A value out of range or of another kind.
    #[error("policy {policy}: {key} cannot be {found:?}, write {takes}")]
    BadValue {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        key: &'static str,
        /// What was written.
        found: String,
        /// What is possible.
        takes: &'static str,
    },
    /// A parameter that does nothing beside the value of another.
    #[error("policy {policy}: {key} has no effect with {beside}, leave one of them out")]
    NoEffect {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        key: &'static str,
        /// The other one with its value.
        beside: &'static str,
    },
    /// A value that says nothing without another parameter.
    #[error("policy {policy}: {written} needs {missing} too")]
    Needs {
        /// The policy.
        policy: &'static str,
        /// What was written, as `key=value`.
        written: &'static str,
        /// What is missing.
        missing: &'static str,
    },
    /// A value that is known and cannot be had yet.
    #[error("policy {policy}: {written} {why}")]
    NotYet {
        /// The policy.
        policy: &'static str,
        /// What was written, as `key=value`.
        written: &'static str,
        /// What is in the way, when that will be otherwise, and what to write meanwhile.
        why: &'static str,
    },
    /// A parameter with two values.
    #[error("policy {policy}: {key} is given twice, keep one")]
    Twice {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        key: &'static str,
    },
}

impl PolicyError {
    /// The same where one more name is possible, of a policy that is built elsewhere; `when` says where it can be had.
    #[must_use]
    pub fn beside(self, name: &'static str, when: &str) -> Self {
        match self {
            PolicyError::UnknownPolicy { found, nearest: known_nearest, known } => {
                PolicyError::UnknownPolicy {
                    nearest: nearest(&found, known_nearest.into_iter().chain([name])),
                    known: format!("{known}, {name} ({when})"),
                    found,
                }
            }
            other => other,
        }
    }
}

/// What a text with parameters looks like.
const EXAMPLE: &str = "dfs[cooldown=4,domains=llc]";

/// The nearest known name, in a sentence.
struct Guess<'a>(&'a Option<&'static str>);

impl fmt::Display for Guess<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(nearest) => write!(f, " (did you mean {nearest}?)"),
            None => Ok(()),
        }
    }
}

/// Keys and values as they were written.
type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// Splits a text into a name and its parameters, in the order of writing.
pub(crate) fn split(text: &str) -> Result<(&str, Pairs<'_>), PolicyError> {
    let malformed = || PolicyError::Malformed(text.to_owned());
    let trimmed = text.trim();
    let (name, inside) = match trimmed.split_once('[') {
        None => (trimmed, ""),
        Some((name, rest)) => (name, rest.strip_suffix(']').ok_or_else(malformed)?),
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(malformed());
    }
    if inside.trim().is_empty() {
        return Ok((name, Vec::new()));
    }
    let pairs = inside.split(',').map(|part| {
        let (key, value) = part.split_once('=').ok_or_else(malformed)?;
        let (key, value) = (key.trim(), value.trim());
        // That a value is missing is said by the parameter, which knows what it takes.
        if key.is_empty() { Err(malformed()) } else { Ok((key, value)) }
    });
    Ok((name, pairs.collect::<Result<_, _>>()?))
}

/// The parameters that were written, checked against those that a policy has.
pub(crate) struct Given<'a> {
    info: &'static PolicyInfo,
    values: Vec<(&'static str, &'a str)>,
}

impl<'a> Given<'a> {
    /// Refuses what the policy does not know, and what stands twice.
    pub fn new(info: &'static PolicyInfo, pairs: Pairs<'a>) -> Result<Self, PolicyError> {
        let mut values: Vec<(&'static str, &'a str)> = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let known = info.params.iter().find(|param| param.name == key);
            let key = known.ok_or_else(|| unknown_parameter(info, key))?.name;
            if values.iter().any(|(before, _)| *before == key) {
                return Err(PolicyError::Twice { policy: info.name, key });
            }
            values.push((key, value));
        }
        Ok(Given { info, values })
    }

    /// The value of one parameter, or `default` when it was not written. `read` gives `None` for
    /// a text that is no value of it.
    pub fn get<T>(
        &self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, PolicyError> {
        let Some((_, text)) = self.values.iter().find(|(given, _)| *given == key) else {
            return Ok(default);
        };
        read(text).ok_or_else(|| PolicyError::BadValue {
            policy: self.info.name,
            key,
            found: (*text).to_owned(),
            takes: self.info.takes(key),
        })
    }

    /// The same for a parameter with a few named values.
    pub fn choice<T: Copy>(
        &self,
        key: &'static str,
        default: T,
        names: &[(&str, T)],
    ) -> Result<T, PolicyError> {
        let read = |text: &str| names.iter().find(|(name, _)| *name == text).map(|(_, v)| *v);
        self.get(key, default, read)
    }

    /// Refuses a parameter that was written although it has no effect beside another's value.
    pub fn forbid(&self, key: &'static str, beside: &'static str) -> Result<(), PolicyError> {
        match self.values.iter().any(|(given, _)| *given == key) {
            true => Err(PolicyError::NoEffect { policy: self.info.name, key, beside }),
            false => Ok(()),
        }
    }
}

fn unknown_parameter(info: &'static PolicyInfo, found: &str) -> PolicyError {
    let names = info.params.iter().map(|param| param.name);
    PolicyError::UnknownParameter {
        policy: info.name,
        found: found.to_owned(),
        nearest: nearest(found, names.clone()),
        known: match info.params.is_empty() {
            true => "it has none".to_owned(),
            false => format!("it has {}", names.collect::<Vec<_>>().join(", ")),
        },
    }
}

/// The error for a name that no policy has.
pub(crate) fn unknown_policy(found: &str) -> PolicyError {
    let names = crate::registry().iter().map(|info| info.name);
    PolicyError::UnknownPolicy {
        found: found.to_owned(),
        nearest: nearest(found, names.clone()),
        known: format!("there are {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// The name that is written most alike, if any is alike at all.
fn nearest(found: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    /// At least half of the letters stand where they should; swapped neighbours count as one slip.
    /// Guessed.
    const ALIKE: f64 = 0.5;
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(found, name);
    let best = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (ALIKE <= likeness(best)).then_some(best)
}
