//! The data source (signal tier) of each value, and the option `--signal` that overrides the tier.
//!
//! ```text
//!   value            of         possible tiers, best first
//!   loads            domains    bandwidth, counters, declared, none
//!   llc-misses       tasks      counters, bandwidth, declared, none
//!   other hardware   tasks      counters, declared, none
//!   software events  tasks      counters, none
//! ```
//!
//! The engine chooses the best available tier for each value. A [`TierOverride`] sets the tier of a value. If that
//! tier is not available, the value is absent and its tier is `none`; the engine does not fall back to another tier.

use std::fmt;
use std::str::FromStr;

use base::suggest::{did_you_mean, nearest, question};

use crate::{CounterEvent, EventKind, LoadSource};

named_enum! {
    /// The data source of a value.
    ///
    /// The engine tries the sources of a task's value in this order, because a memory controller does not report
    /// which task caused an access. For a node, `Bandwidth` comes before `Counters`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    SignalTier {
        /// Hardware counters per task.
        Counters "counters",
        /// Memory controllers or resctrl, per node or LLC domain.
        Bandwidth "bandwidth",
        /// Declared rates of a program, multiplied by its CPU time.
        Declared "declared",
        /// No source.
        #[default]
        None "none",
    }
}

impl SignalTier {
    /// Returns the unit of loads from this source in reasons and reports.
    pub fn load_unit(self) -> &'static str {
        match self {
            SignalTier::Counters => "cache misses",
            SignalTier::Declared => "declared memory operations",
            SignalTier::Bandwidth | SignalTier::None => "memory operations",
        }
    }
}

impl fmt::Display for SignalTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The tiers of the values of the last interval. Written by the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tiers {
    /// Tier of the loads of domains.
    pub loads: SignalTier,
    of: [SignalTier; CounterEvent::N],
}

impl Tiers {
    /// Returns the tier of an event of tasks.
    pub fn get(&self, event: CounterEvent) -> SignalTier {
        self.of[event as usize]
    }

    /// Sets the tier of an event of tasks.
    pub fn set(&mut self, event: CounterEvent, tier: SignalTier) {
        self.of[event as usize] = tier;
    }

    /// Returns the events that have a source, with their tiers, in the order of [`CounterEvent::ALL`].
    pub fn events_with_source(&self) -> impl Iterator<Item = (CounterEvent, SignalTier)> + '_ {
        let all = CounterEvent::ALL.iter().map(|&event| (event, self.get(event)));
        all.filter(|(_, tier)| *tier != SignalTier::None)
    }
}

/// Tiers that the user selected, such as `loads=declared,llc-misses=counters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierOverride {
    loads: Option<SignalTier>,
    of: [Option<SignalTier>; CounterEvent::N],
}

/// An invalid tier override. Each message names the valid input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum TierOverrideError {
    #[error("invalid signal {0:?}: write SIGNAL=TIER, such as loads=declared")]
    Malformed(String),
    #[error("unknown signal {found:?}: {hint}")]
    Value { found: String, hint: String },
    #[error("{value} cannot have tier {found:?}: {hint}")]
    Tier { value: String, found: String, hint: String },
    #[error("the tier of {0} is given twice: give it once")]
    Twice(String),
}

impl TierOverride {
    /// Returns the accepted tiers of domain loads for a policy with this load source. An override has precedence over
    /// the policy.
    pub fn loads(&self, source: LoadSource) -> LoadPreference {
        match (self.loads, source) {
            (Some(tier), _) => LoadPreference::Only(tier),
            (None, LoadSource::Best) => LoadPreference::Best,
            (None, LoadSource::Domains) => LoadPreference::Only(SignalTier::Bandwidth),
            (None, LoadSource::Tasks) => LoadPreference::Tasks,
        }
    }

    /// Returns the tier that the user selected for an event of tasks.
    pub fn get(&self, event: CounterEvent) -> Option<SignalTier> {
        self.of[event as usize]
    }

    /// Adds one override, such as `loads=declared`.
    pub fn add(&mut self, text: &str) -> Result<(), TierOverrideError> {
        let malformed = || TierOverrideError::Malformed(text.to_owned());
        let (value, tier) = text.split_once('=').ok_or_else(malformed)?;
        let slot = match (value, CounterEvent::of_name(value)) {
            ("loads", _) => &mut self.loads,
            (_, Some(event)) => &mut self.of[event as usize],
            _ => return Err(unknown(value)),
        };
        if slot.is_some() {
            return Err(TierOverrideError::Twice(value.to_owned()));
        }
        *slot = Some(parse_tier(value, tier)?);
        Ok(())
    }
}

/// Accepted tiers of the loads of domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadPreference {
    /// The best available tier.
    #[default]
    Best,
    /// The best available tier of tasks: `counters`, else `declared`.
    Tasks,
    /// Only this tier.
    Only(SignalTier),
}

impl FromStr for TierOverride {
    type Err = TierOverrideError;

    /// Parses overrides separated by commas: `loads=declared,llc-misses=counters`.
    fn from_str(text: &str) -> Result<Self, TierOverrideError> {
        let mut overrides = TierOverride::default();
        text.split(',').try_for_each(|part| overrides.add(part.trim()))?;
        Ok(overrides)
    }
}

fn unknown(found: &str) -> TierOverrideError {
    let events = CounterEvent::ALL.iter().map(|event| event.name());
    let hint = did_you_mean(found, std::iter::once("loads").chain(events));
    TierOverrideError::Value { found: found.to_owned(), hint }
}

fn parse_tier(value: &str, text: &str) -> Result<SignalTier, TierOverrideError> {
    use SignalTier::{Bandwidth, Counters, Declared, None};
    let (possible, tiers): (_, &[SignalTier]) = match CounterEvent::of_name(value) {
        Option::None | Some(CounterEvent::LlcMisses) => {
            ("counters, bandwidth, declared or none", &[Counters, Bandwidth, Declared, None])
        }
        Some(event) if event.source() == EventKind::Software => {
            ("counters or none", &[Counters, None])
        }
        Some(_) => ("counters, declared or none", &[Counters, Declared, None]),
    };
    let found = tiers.iter().copied().find(|tier| tier.name() == text);
    found.ok_or_else(|| {
        let nearest = nearest(text, tiers.iter().map(|tier| tier.name()));
        let hint = question(nearest.as_slice()).unwrap_or_else(|| format!("write {possible}"));
        TierOverrideError::Tier { value: value.to_owned(), found: text.to_owned(), hint }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match text.parse::<TierOverride>() {
            Ok(tiers) => {
                let of = CounterEvent::ALL.iter().filter_map(|&e| Some((e.name(), tiers.get(e)?)));
                let of = of.map(|(name, tier)| format!(" {name}={tier}"));
                format!("{:?}{}", tiers.loads(LoadSource::Best), of.collect::<String>())
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_override_names_a_value_and_one_of_its_possible_tiers() {
        for (text, expected) in [
            ("loads=declared", "Only(Declared)"),
            ("llc-misses=bandwidth, cycles=none", "Best cycles=none llc-misses=bandwidth"),
            ("loads", "invalid signal \"loads\": write SIGNAL=TIER, such as loads=declared"),
            (
                "cycles=bandwidth",
                "cycles cannot have tier \"bandwidth\": write counters, declared or none",
            ),
            (
                "page-faults=declared",
                "page-faults cannot have tier \"declared\": write counters or none",
            ),
            ("lods=declared", "unknown signal \"lods\": did you mean \"loads\"?"),
            ("loads=declard", "loads cannot have tier \"declard\": did you mean \"declared\"?"),
            ("loads=none,loads=none", "the tier of loads is given twice: give it once"),
        ] {
            assert_eq!(parsed(text), expected);
        }
        assert!(parsed("heat=counters").starts_with("unknown signal \"heat\": known are loads, "));
    }

    #[test]
    fn a_tier_override_has_precedence_over_the_load_source_of_the_policy() {
        let loads = |text: &str, source| {
            let overrides =
                if text.is_empty() { Ok(TierOverride::default()) } else { text.parse() };
            overrides.expect("a valid override").loads(source)
        };
        use LoadPreference::{Only, Tasks};
        assert_eq!(loads("loads=counters", LoadSource::Domains), Only(SignalTier::Counters));
        assert_eq!(loads("", LoadSource::Domains), Only(SignalTier::Bandwidth));
        assert_eq!(loads("", LoadSource::Tasks), Tasks);
    }
}
