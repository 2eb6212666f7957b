//! Parameters in text: `dfs`, `dfs[]`, `dfs[cooldown=4,domains=llc]`.
//!
//! A parameter has the value in the text, else the default of the reading. [`Params::parse`] rejects a text that the
//! declaration of the policy does not accept. The error is one line with the accepted values.

use base::suggest::did_you_mean;

use super::{Param, ParamValue, PolicyInfo, parse_integer};

/// An error in a text that names a policy and its parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum PolicyError {
    #[error("{0:?} is not a policy: write a name, or a name with parameters as in {EXAMPLE}")]
    Malformed(String),
    #[error("{found:?} has parameters; write only the name {name}")]
    NotAName { found: String, name: String },
    #[error("there is no policy {found:?}; {}", did_you_mean(found, known.iter().copied()))]
    UnknownPolicy { found: String, known: Vec<&'static str> },
    #[error(
        "policy {policy} has no parameter {found:?}; {}",
        did_you_mean(found, known.iter().copied())
    )]
    UnknownParameter { policy: &'static str, found: String, known: Vec<&'static str> },
    #[error("policy {policy}: {key} cannot be {found:?}, write {values}")]
    BadValue { policy: &'static str, key: &'static str, found: String, values: String },
    #[error("policy {policy}: {key}={value} requires {missing}: write {values}")]
    Unavailable {
        policy: &'static str,
        key: &'static str,
        value: &'static str,
        missing: &'static str,
        values: String,
    },
    #[error(
        "policy {policy}: {setting} has no effect with {conditions}: change one of them or omit {key}"
    )]
    NoEffect { policy: &'static str, key: &'static str, setting: String, conditions: String },
    #[error(
        "policy {policy}: {key}={lower} is not below {upper_key}={upper}: decrease {key} or increase {upper_key}"
    )]
    NotBelow {
        policy: &'static str,
        key: &'static str,
        lower: String,
        upper_key: &'static str,
        upper: String,
    },
    #[error("policy {policy}: {setting} also requires {missing}")]
    MissingParameter { policy: &'static str, setting: String, missing: String },
    #[error("policy {policy}: {key} is given twice, keep one")]
    Duplicate { policy: &'static str, key: &'static str },
}

impl PolicyError {
    /// Adds a policy that another crate builds to the list of policies.
    #[must_use]
    pub fn with_policy(mut self, name: &'static str) -> Self {
        if let PolicyError::UnknownPolicy { known, .. } = &mut self {
            known.push(name);
        }
        self.or_not_a_name()
    }

    /// Returns [`PolicyError::NotAName`] if the unknown name is a known name with parameters.
    fn or_not_a_name(self) -> Self {
        match &self {
            PolicyError::UnknownPolicy { found, known } => match found.split_once('[') {
                Some((name, _)) if known.contains(&name) => {
                    PolicyError::NotAName { found: found.clone(), name: name.to_owned() }
                }
                _ => self,
            },
            _ => self,
        }
    }
}

const EXAMPLE: &str = "dfs[cooldown=4,domains=llc]";

/// Keys and values in the order of the text.
type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// Splits a text into the name of a policy and the parameters, in the order of the text.
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

/// The validated parameters of a policy. Parameters that the text omits have their defaults.
pub struct Params<'a> {
    info: &'static PolicyInfo,
    explicit: Vec<(&'static str, &'a str)>,
    is_paper: bool,
}

impl<'a> Params<'a> {
    /// Parses the parameters in the brackets after a policy's name.
    ///
    /// # Errors
    /// The text is malformed; a parameter is unknown, occurs twice, has no effect, or requires another parameter that
    /// is missing; a value is out of range or not available.
    pub fn parse(info: &'static PolicyInfo, spec: &'a str) -> Result<Self, PolicyError> {
        let policy = info.name;
        let mut params = Params { info, explicit: Vec::new(), is_paper: false };
        for (key, value) in split(spec)?.1 {
            let unknown = || {
                let known = info.params().map(|param| param.name).collect();
                PolicyError::UnknownParameter { policy, found: key.to_owned(), known }
            };
            let param = info.param(key).ok_or_else(unknown)?;
            let (key, values) = (param.name, || param.values.words());
            if params.is_explicit(key) {
                return Err(PolicyError::Duplicate { policy, key });
            }
            if let Some((value, missing)) = param.unavailable.filter(|(name, _)| *name == value) {
                return Err(PolicyError::Unavailable {
                    policy,
                    key,
                    value,
                    missing,
                    values: values(),
                });
            }
            if !param.values.accepts(value) {
                let found = value.to_owned();
                return Err(PolicyError::BadValue { policy, key, found, values: values() });
            }
            params.explicit.push((key, value));
            params.is_paper |= (key, value) == ("reading", "paper");
        }
        params.check_effects()?;
        params.check_requirements()?;
        params.check_order()?;
        Ok(params)
    }

    /// Rejects a parameter of the text that has no effect with the values of the other parameters.
    fn check_effects(&self) -> Result<(), PolicyError> {
        for param in self.info.params().filter(|param| self.is_explicit(param.name)) {
            let holds = |condition: &&&str| {
                terms(condition).all(|(key, is_equal, value)| (self.text(key) == value) == is_equal)
            };
            if let Some(condition) = param.no_effect_with.iter().find(holds) {
                let key = param.name;
                let value = |(key, ..): (&str, _, _)| format!("{key}={}", self.text(key));
                let own_term = terms(condition).find(|(term, ..)| *term == key);
                let others = terms(condition).filter(|(term, ..)| *term != key).map(value);
                return Err(PolicyError::NoEffect {
                    policy: self.info.name,
                    key,
                    setting: own_term.map_or(key.to_owned(), value),
                    conditions: others.collect::<Vec<_>>().join(" and "),
                });
            }
        }
        Ok(())
    }

    /// Rejects a parameter of the text if a parameter that it requires is missing.
    fn check_requirements(&self) -> Result<(), PolicyError> {
        let is_default = |name: &str| {
            self.info.param(name).is_some_and(|param| self.text(name) == param.default)
        };
        for param in self.info.params().filter(|param| !is_default(param.name)) {
            let Some(required) = param.requires else { continue };
            let applies = required.value.is_none_or(|value| self.text(param.name) == value);
            if applies && required.params.iter().any(|name| is_default(name)) {
                let setting = match required.value {
                    Some(value) => format!("{}={value}", param.name),
                    None => param.name.to_owned(),
                };
                let missing = required.params.join(" and ");
                return Err(PolicyError::MissingParameter {
                    policy: self.info.name,
                    setting,
                    missing,
                });
            }
        }
        Ok(())
    }

    /// Rejects a parameter that is not below the parameter that limits it.
    fn check_order(&self) -> Result<(), PolicyError> {
        for param in self.info.params() {
            let Some(upper_key) = param.below else { continue };
            let (lower, upper) = (self.text(param.name), self.text(upper_key));
            if parse_integer(upper) <= parse_integer(lower) {
                return Err(PolicyError::NotBelow {
                    policy: self.info.name,
                    key: param.name,
                    lower: lower.to_owned(),
                    upper_key,
                    upper: upper.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Returns whether the text contains a parameter.
    pub fn is_explicit(&self, key: &str) -> bool {
        self.explicit.iter().any(|(name, _)| *name == key)
    }

    /// Returns the declaration of a parameter.
    fn declared(&self, key: &str) -> &'static Param {
        self.info.param(key).unwrap_or_else(|| panic!("{} declares no {key}", self.info.name))
    }

    /// Returns the value of a parameter: from the text, or the default.
    pub fn text(&self, key: &str) -> &str {
        if let Some((_, value)) = self.explicit.iter().find(|(name, _)| *name == key) {
            return value;
        }
        let param = self.declared(key);
        param.default_paper.filter(|_| self.is_paper).unwrap_or(param.default)
    }

    /// Returns the typed value of a parameter: from the text, or the default.
    ///
    /// # Panics
    /// If the policy does not declare the parameter, or declares it with values of another type.
    pub fn get<T: ParamValue>(&self, key: &str) -> T {
        let text = self.text(key);
        T::read(text, &self.declared(key).values)
            .unwrap_or_else(|| panic!("{}: {key}={text} has another type", self.info.name))
    }
}

/// Returns the terms of a condition: the key, whether the values must be equal, and the value.
pub(crate) fn terms(condition: &str) -> impl Iterator<Item = (&str, bool, &str)> {
    condition.split(" and ").map(|term| {
        let unequal = term.split_once("!=").map(|(key, value)| (key, false, value));
        let equal = || term.split_once('=').map(|(key, value)| (key, true, value));
        unequal.or_else(equal).expect("a declared condition is key=value or key!=value")
    })
}

/// Returns the error for an unknown policy.
pub(crate) fn unknown_policy(found: &str) -> PolicyError {
    let known = crate::registry().iter().map(|info| info.name).collect();
    PolicyError::UnknownPolicy { found: found.to_owned(), known }.or_not_a_name()
}
