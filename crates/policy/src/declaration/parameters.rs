//! Parameters in text: `dfs`, `dfs[]`, `dfs[cooldown=4,domains=llc]`.
//!
//! A parameter has the given value, else the default of the reading. [`Params::parse`] rejects what the
//! declaration of the policy does not accept, with one line that lists the accepted values.

use std::fmt;

use base::Nanos;
use topology::DomainChoice;

use super::PolicyInfo;

/// Why a text names no policy that can be built. Each message lists the accepted values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Neither a name nor a name with parameters in brackets.
    #[error("{0:?} is not a policy: write a name, or a name with parameters as in {EXAMPLE}")]
    Malformed(String),
    /// No such policy.
    #[error("there is no policy {found:?}{guess}: {known}", guess = Guess(.nearest))]
    UnknownPolicy {
        /// The given name.
        found: String,
        /// The most similar policy.
        nearest: Option<&'static str>,
        /// All policies.
        known: String,
    },
    /// No such parameter.
    #[error("policy {policy} has no parameter {found:?}{guess}: {known}", guess = Guess(.nearest))]
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// The given name.
        found: String,
        /// The most similar parameter.
        nearest: Option<&'static str>,
        /// All parameters of the policy.
        known: String,
    },
    /// A value out of range or of another type.
    #[error("policy {policy}: {key} cannot be {found:?}, write {values}")]
    BadValue {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        key: &'static str,
        /// The given value.
        found: String,
        /// The accepted values.
        values: String,
    },
    /// A parameter without effect beside the value of another, given or default.
    #[error("policy {policy}: {key} has no effect with {beside}: change one of them or omit {key}")]
    NoEffect {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        key: &'static str,
        /// The other parameter with its value.
        beside: String,
    },
    /// A value that requires another parameter.
    #[error("policy {policy}: {given} also requires {missing}")]
    Needs {
        /// The policy.
        policy: &'static str,
        /// The given parameter, as `key` or `key=value`.
        given: &'static str,
        /// The missing parameters.
        missing: &'static str,
    },
    /// A known value that no host can provide.
    #[error("policy {policy}: {given} {obstacle}")]
    Unavailable {
        /// The policy.
        policy: &'static str,
        /// The given parameter, as `key=value`.
        given: &'static str,
        /// The missing feature, and the values to write instead.
        obstacle: &'static str,
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
    /// Adds a policy that another crate builds to the list of policies; `when` is where it is available.
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

const EXAMPLE: &str = "dfs[cooldown=4,domains=llc]";

/// The most similar name, in a sentence.
struct Guess<'a>(&'a Option<&'static str>);

impl fmt::Display for Guess<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(nearest) => write!(f, " (did you mean {nearest}?)"),
            None => Ok(()),
        }
    }
}

/// Keys and values as given.
type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// Splits a text into a name and its parameters, in the given order.
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
        // An empty value is rejected later, with the accepted values.
        if key.is_empty() { Err(malformed()) } else { Ok((key, value)) }
    });
    Ok((name, pairs.collect::<Result<_, _>>()?))
}

/// An enum whose variants are the named values of a parameter; see [`names!`].
pub(crate) trait Named: Copy + 'static {
    /// Every value with its name.
    const ALL: &[(&str, Self)];
}

/// The parameters of a policy: given in text, validated, with defaults for the others.
pub struct Params<'a> {
    info: &'static PolicyInfo,
    given: Vec<(&'static str, &'a str)>,
    is_paper: bool,
}

impl<'a> Params<'a> {
    /// The parameters in the brackets after a policy's name.
    ///
    /// # Errors
    /// No such policy or parameter, a value outside its range, a parameter given twice or without effect.
    pub fn parse(info: &'static PolicyInfo, spec: &'a str) -> Result<Self, PolicyError> {
        let mut params = Params { info, given: Vec::new(), is_paper: false };
        for (key, value) in split(spec)?.1 {
            let param = info.params.iter().find(|param| param.name == key);
            let param = param.ok_or_else(|| unknown_parameter(info, key))?;
            if params.is_given(param.name) {
                return Err(PolicyError::Twice { policy: info.name, key: param.name });
            }
            if !param.values.accepts(value) {
                return Err(PolicyError::BadValue {
                    policy: info.name,
                    key: param.name,
                    found: value.to_owned(),
                    values: param.values.words(),
                });
            }
            params.given.push((param.name, value));
            params.is_paper |= (param.name, value) == ("reading", "paper");
        }
        params.check_effects()?;
        Ok(params)
    }

    /// Rejects a given parameter that has no effect beside another's value, given or default.
    fn check_effects(&self) -> Result<(), PolicyError> {
        for param in self.info.params.iter().filter(|param| self.is_given(param.name)) {
            let is_so = |other: &&(&str, &str)| self.text(other.0) == other.1;
            if let Some((other, value)) = param.no_effect_with.iter().find(is_so) {
                return Err(self.no_effect(param.name, format!("{other}={value}")));
            }
        }
        Ok(())
    }

    /// The error for a parameter without effect beside others.
    pub(crate) fn no_effect(&self, key: &'static str, beside: String) -> PolicyError {
        PolicyError::NoEffect { policy: self.info.name, key, beside }
    }

    /// Whether a parameter was given.
    pub fn is_given(&self, key: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == key)
    }

    /// The value of a parameter, given or default.
    pub fn text(&self, key: &str) -> &str {
        if let Some((_, value)) = self.given.iter().find(|(given, _)| *given == key) {
            return value;
        }
        let param = self.info.params.iter().find(|param| param.name == key);
        let param = param.unwrap_or_else(|| panic!("{} declares no {key}", self.info.name));
        param.default_paper.filter(|_| self.is_paper).unwrap_or(param.default)
    }

    /// The value, as a function reads it that accepts every accepted value.
    pub(crate) fn read<T>(&self, key: &str, read: impl FnOnce(&str) -> Option<T>) -> T {
        let text = self.text(key);
        read(text).unwrap_or_else(|| panic!("{}: {key}={text} was accepted", self.info.name))
    }

    /// The value of a whole number.
    pub fn whole(&self, key: &str) -> u64 {
        self.read(key, super::whole)
    }

    /// The value of a decimal number, in millionths.
    pub(crate) fn millionths(&self, key: &str) -> u64 {
        self.read(key, super::decimal)
    }

    /// The value of a decimal number, in thousandths, rounded down.
    pub(crate) fn permille(&self, key: &str) -> u64 {
        self.millionths(key) / 1000
    }

    /// The value of a time.
    pub(crate) fn time(&self, key: &str) -> Nanos {
        self.read(key, super::time)
    }

    /// The value unless it is the word that stands for no value.
    pub(crate) fn unless<T>(
        &self,
        key: &str,
        none: &str,
        read: fn(&str) -> Option<T>,
    ) -> Option<T> {
        (self.text(key) != none).then(|| self.read(key, read))
    }

    /// The named value.
    pub(crate) fn named<T: Named>(&self, key: &str) -> T {
        let of_name = |text: &str| T::ALL.iter().find(|(name, _)| *name == text).map(|(_, v)| *v);
        self.read(key, of_name)
    }

    /// The value of the parameter `domains`.
    pub(crate) fn domains(&self) -> DomainChoice {
        self.read("domains", |text| text.parse().ok())
    }

    /// The same for a policy about caches: `auto` prefers LLC domains.
    pub(crate) fn cache_domains(&self) -> DomainChoice {
        match self.domains() {
            DomainChoice::Auto => DomainChoice::Caches,
            choice => choice,
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

/// The error for an unknown policy.
pub(crate) fn unknown_policy(found: &str) -> PolicyError {
    let names = crate::registry().iter().map(|info| info.name);
    PolicyError::UnknownPolicy {
        found: found.to_owned(),
        nearest: nearest(found, names.clone()),
        known: format!("there are {}", names.collect::<Vec<_>>().join(", ")),
    }
}

/// The most similar name, if any is similar enough.
fn nearest(found: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    /// Least similarity, from 0 to 1, where swapped neighbours count as one edit. Guessed.
    const SIMILAR: f64 = 0.5;
    let similarity = |name: &str| strsim::normalized_damerau_levenshtein(found, name);
    let best = names.max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
    (SIMILAR <= similarity(best)).then_some(best)
}
