//! The declaration of a policy: one constant from which everything else about it is derived.
//!
//! ```text
//!   PolicyInfo ─┬─► registry, `name[key=value]`: parsing, ranges, defaults, conflicts   (parameters.rs)
//!               ├─► typed values for the policy's own configuration                      (Params)
//!               ├─► `evenkeel policies`, as text and JSON; the tables of the book        (app)
//!               └─► sentence templates in the header of a journal                        (Policy::reasons)
//! ```
//!
//! A small policy as an example; its file holds this, `impl Policy` and the reasons:
//!
//! ```ignore
//! reasons! {
//!     /// The job starts on the domain with the fewest jobs.
//!     FEWEST = "fewest": "{domain} had the fewest jobs";
//! }
//!
//! pub(crate) const INFO: PolicyInfo = PolicyInfo {
//!     name: "fewest",
//!     summary: "Starts each job on the domain with the fewest jobs.",
//!     source: "common practice",
//!     signals: &[],
//!     params: &[
//!         DOMAINS,
//!         INTERVAL,
//!         Param::new("limit", Values::whole("jobs", 1, 1000), "8", "maximum number of jobs per domain"),
//!     ],
//!     reasons: &[notes::REASONS, REASONS],
//!     build: Some(|params, _seed| Ok(Box::new(Fewest { limit: params.whole("limit") }))),
//! };
//! ```

use base::Nanos;
use sched::{Policy, ReasonCode};

mod parameters;
mod required_signals;

pub(crate) use parameters::{Named, split, unknown_policy};
pub use parameters::{Params, PolicyError};
pub use required_signals::{IfMissing, MissingSignal, RequiredSignal, Signal, missing};

/// The declaration of a policy.
#[derive(Debug)]
pub struct PolicyInfo {
    /// The name in `--policy`.
    pub name: &'static str,
    /// The behaviour, in one sentence.
    pub summary: &'static str,
    /// The publication with its section, or where else the policy comes from.
    pub source: &'static str,
    /// The signals that decisions are based on.
    pub signals: &'static [RequiredSignal],
    /// Its parameters, in the order of the documentation.
    pub params: &'static [Param],
    /// Its reasons, in groups, since several policies share some.
    pub reasons: &'static [&'static [ReasonCode]],
    /// The constructor; `None` for a policy that another crate builds.
    pub build: Option<Build>,
}

/// Builds a policy from its parameters and a seed.
///
/// # Errors
/// A combination of values that the declaration cannot express.
pub type Build = fn(&Params<'_>, u64) -> Result<Box<dyn Policy>, PolicyError>;

/// A parameter of a policy. All values are text; [`Values`] gives the type.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The name in the brackets.
    pub name: &'static str,
    /// The accepted values.
    pub values: Values,
    /// The value when none is given.
    pub default: &'static str,
    /// The value with `reading=paper`, if different.
    pub default_paper: Option<&'static str>,
    /// Effect of the value, and its unit.
    pub help: &'static str,
    /// Source of the default.
    pub origin: Origin,
    /// Values of other parameters beside which this one has no effect, as (parameter, value).
    pub no_effect_with: &'static [(&'static str, &'static str)],
}

/// Source of the default of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The source gives the value.
    Published,
    /// The source leaves it open.
    OurChoice,
}

/// The accepted values of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these names.
    Names(&'static [&'static str]),
    /// A whole number.
    Whole {
        /// The counted things, in the plural; empty for a bare number.
        unit: &'static str,
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
    },
    /// A number with up to six decimal places; read as millionths.
    Decimal {
        /// The unit; empty for a bare number.
        unit: &'static str,
        /// The smallest value, in millionths.
        min: u64,
        /// The largest value, in millionths.
        max: u64,
    },
    /// A percentage such as `5%` in steps of 0.0001 %; read as millionths.
    Percent,
    /// A time with its unit.
    Time {
        /// The shortest.
        min: Nanos,
        /// The longest.
        max: Nanos,
    },
    /// This word, or other values.
    Or(&'static str, &'static Values),
    /// Anything that the function accepts.
    Other {
        /// The accepted values in words.
        words: &'static str,
        /// Whether a text is accepted.
        accepts: fn(&str) -> bool,
    },
}

/// Millionths in one.
pub(crate) const MILLION: u64 = 1_000_000;

impl Origin {
    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Published => "published",
            Origin::OurChoice => "our choice",
        }
    }
}

impl Param {
    /// A parameter whose default is our choice and the same in every reading.
    pub const fn new(
        name: &'static str,
        values: Values,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        let (default_paper, origin) = (None, Origin::OurChoice);
        Param { name, values, default, default_paper, help, origin, no_effect_with: &[] }
    }

    /// The source gives the default.
    pub(crate) const fn published(self) -> Self {
        Param { origin: Origin::Published, ..self }
    }

    /// The default with `reading=paper`.
    pub(crate) const fn paper(self, default: &'static str) -> Self {
        Param { default_paper: Some(default), ..self }
    }

    /// The parameter has no effect beside any of these values of other parameters.
    pub(crate) const fn no_effect_with(
        self,
        others: &'static [(&'static str, &'static str)],
    ) -> Self {
        Param { no_effect_with: others, ..self }
    }

    /// The same parameter with another help text.
    pub(crate) const fn help(self, help: &'static str) -> Self {
        Param { help, ..self }
    }

    /// The same parameter with another default.
    pub(crate) const fn default(self, default: &'static str) -> Self {
        Param { default, ..self }
    }
}

impl Values {
    /// A whole number from `min` to `max`.
    pub const fn whole(unit: &'static str, min: u64, max: u64) -> Self {
        Values::Whole { unit, min, max }
    }

    /// A number with decimal places, from 0 to a whole `max`.
    pub(crate) const fn decimal(unit: &'static str, max: u64) -> Self {
        Values::Decimal { unit, min: 0, max: max * MILLION }
    }

    /// The accepted values in words, to follow "write".
    pub fn words(&self) -> String {
        let of = |unit: &str| if unit.is_empty() { String::new() } else { format!(" of {unit}") };
        match self {
            Values::Names([all @ .., last]) if !all.is_empty() => {
                format!("{} or {last}", all.join(", "))
            }
            Values::Names(names) => names.concat(),
            Values::Whole { unit, min, max } => {
                format!("a whole number{} from {min} to {max}", of(unit))
            }
            Values::Decimal { unit, min, max } => {
                let (min, max) = (*min as f64 / MILLION as f64, *max as f64 / MILLION as f64);
                format!("a decimal number{} from {min} to {max}", of(unit))
            }
            Values::Percent => "a percentage from 0% to 100% in steps of 0.0001%".to_owned(),
            Values::Time { min: Nanos::ZERO, max } => {
                format!("a time with its unit, up to {}", short(*max))
            }
            Values::Time { min, max } => {
                format!("a time with its unit, from {} to {}", short(*min), short(*max))
            }
            Values::Or(word, others) => format!("{word}, or {}", others.words()),
            Values::Other { words, .. } => (*words).to_owned(),
        }
    }

    /// Whether a text is one of the values.
    pub(crate) fn accepts(&self, text: &str) -> bool {
        let within = |value: Option<u64>, min: &u64, max: &u64| {
            value.is_some_and(|value| (*min..=*max).contains(&value))
        };
        match self {
            Values::Names(names) => names.contains(&text),
            Values::Whole { min, max, .. } => within(whole(text), min, max),
            Values::Decimal { min, max, .. } => within(decimal(text), min, max),
            Values::Percent => percent(text).is_some(),
            Values::Time { min, max } => within(time(text).map(|time| time.0), &min.0, &max.0),
            Values::Or(word, others) => text == *word || others.accepts(text),
            Values::Other { accepts, .. } => accepts(text),
        }
    }
}

fn short(time: Nanos) -> String {
    match time.0 {
        ns if ns.is_multiple_of(60_000_000_000) => format!("{}min", ns / 60_000_000_000),
        ns if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
        ns => format!("{}ms", ns / 1_000_000),
    }
}

/// A whole number of digits alone: no sign, no blank.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let is_digits = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    is_digits.then(|| text.parse().ok()).flatten()
}

/// A decimal number up to a million, in millionths; more than six decimal places are refused.
pub(crate) fn decimal(text: &str) -> Option<u64> {
    let (whole_part, places) = text.split_once('.').unwrap_or((text, "0"));
    let n_places = u32::try_from(places.len()).ok()?;
    let whole_part = whole(whole_part).filter(|whole| *whole <= MILLION)?;
    Some(whole_part * MILLION + whole(places)? * 10u64.checked_pow(6u32.checked_sub(n_places)?)?)
}

/// A percentage with its sign, in millionths. Finer steps would be rounded, perhaps to 0.
pub(crate) fn percent(text: &str) -> Option<u64> {
    let percent = decimal(text.strip_suffix('%')?)?;
    (percent <= 100 * MILLION && percent.is_multiple_of(100)).then_some(percent / 100)
}

/// A time. A bare number is refused: elsewhere it means seconds, here readers expect milliseconds.
pub(crate) fn time(text: &str) -> Option<Nanos> {
    text.ends_with(|last: char| last.is_ascii_alphabetic()).then(|| text.parse().ok()).flatten()
}

/// Declares an enum whose variants are the named values of a parameter.
macro_rules! names {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            pub const VALUES: $crate::declaration::Values =
                $crate::declaration::Values::Names(&[$($text),+]);
        }

        impl $crate::declaration::Named for $name {
            const ALL: &[(&str, Self)] = &[$(($text, $name::$variant)),+];
        }
    };
}
pub(crate) use names;

names! {
    /// Which reading of a published description the defaults follow.
    pub(crate) enum Reading {
        /// As printed, with corrections.
        Ours = "ours",
        /// As printed.
        Paper = "paper",
    }
}

/// The parameter `reading`: it changes defaults and nothing else.
pub(crate) const READING: Param = Param::new(
    "reading",
    Reading::VALUES,
    "ours",
    "defaults: the published rules with our corrections, or as printed",
);

/// The parameter `domains`.
pub(crate) const DOMAINS: Param = Param::new(
    "domains",
    Values::Names(&["auto", "node", "llc", "core"]),
    "auto",
    "level of the placement domains; auto is the coarsest level with at least two domains",
);

/// Less than a millisecond would be busy waiting; more than an hour is probably a mistake.
pub(crate) const INTERVAL_TIMES: Values =
    Values::Time { min: Nanos::from_millis(1), max: Nanos::from_secs(3600) };

/// The parameter `interval`: four turns a second, as in the scheduler that `dfs` is based on.
pub(crate) const INTERVAL: Param =
    Param::new("interval", INTERVAL_TIMES, "250ms", "time between two samples");
