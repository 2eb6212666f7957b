//! Which signal each figure stands on, and what somebody would rather have.
//!
//! ```text
//!   loads            of places              bandwidth, counters, declared, none
//!   llc-misses …     of tasks, by event  counters, bandwidth (misses only), declared, none
//! ```
//!
//! The engine takes the best signal that is really there for each; a wish overrides that for one
//! figure. A wish for a signal that is not there is not answered by another one: the figure stands on
//! nothing then, and says so.

use std::str::FromStr;

use crate::{CounterEvent, EventKind, LoadSource, SignalTier};

/// What the figures of the last interval stand on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tiers {
    /// The loads of places.
    pub loads: SignalTier,
    of: [SignalTier; CounterEvent::N],
}

impl Tiers {
    /// What a event of tasks stands on.
    pub fn get(&self, event: CounterEvent) -> SignalTier {
        self.of[event as usize]
    }

    /// Says what a event of tasks stands on.
    pub fn set(&mut self, event: CounterEvent, tier: SignalTier) {
        self.of[event as usize] = tier;
    }

    /// The events of tasks that stand on something, in the order of the table.
    pub fn known(&self) -> impl Iterator<Item = (CounterEvent, SignalTier)> + '_ {
        let all = CounterEvent::ALL.iter().map(|&event| (event, self.get(event)));
        all.filter(|(_, tier)| *tier != SignalTier::None)
    }
}

/// What figures shall stand on, whatever else is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierOverride {
    loads: Option<SignalTier>,
    of: [Option<SignalTier>; CounterEvent::N],
}

/// Why a text is no wish. Each message says what would be possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierOverrideError {
    /// No equals sign.
    #[error("{0:?} is no wish: write FIGURE=TIER, such as loads=declared")]
    Malformed(String),
    /// No such figure.
    #[error("there is no figure {found:?}: write loads, or one of {known}")]
    Figure {
        /// What was written.
        found: String,
        /// All events.
        known: String,
    },
    /// No such tier, or none that this figure could stand on.
    #[error("{figure} cannot stand on {found:?}: write {possible}")]
    Tier {
        /// The figure.
        figure: String,
        /// What was written.
        found: String,
        /// What it can stand on.
        possible: &'static str,
    },
    /// The same figure again.
    #[error("{0} is wished for twice: keep one")]
    Twice(String),
}

impl TierOverride {
    /// What the loads of places shall stand on, of a policy that wants them from `source` too. The
    /// wish of the user comes before that of the policy.
    pub fn loads(&self, source: LoadSource) -> LoadPreference {
        match (self.loads, source) {
            (Some(tier), _) => LoadPreference::Only(tier),
            (None, LoadSource::Best) => LoadPreference::Best,
            (None, LoadSource::Places) => LoadPreference::Only(SignalTier::Bandwidth),
            (None, LoadSource::Tasks) => LoadPreference::Tasks,
        }
    }

    /// What a event of tasks shall stand on.
    pub fn get(&self, event: CounterEvent) -> Option<SignalTier> {
        self.of[event as usize]
    }

    /// Adds one wish, as `loads=declared`.
    pub fn add(&mut self, text: &str) -> Result<(), TierOverrideError> {
        let malformed = || TierOverrideError::Malformed(text.to_owned());
        let (figure, tier) = text.split_once('=').ok_or_else(malformed)?;
        let place = match (figure, CounterEvent::of_name(figure)) {
            ("loads", _) => &mut self.loads,
            (_, Some(event)) => &mut self.of[event as usize],
            _ => return Err(unknown(figure)),
        };
        if place.is_some() {
            return Err(TierOverrideError::Twice(figure.to_owned()));
        }
        *place = Some(read(figure, tier)?);
        Ok(())
    }
}

/// What loads of places shall stand on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadPreference {
    /// The best there is.
    #[default]
    Best,
    /// The best that is known of tasks: counted, or else declared.
    Tasks,
    /// This and nothing else.
    Only(SignalTier),
}

impl FromStr for TierOverride {
    type Err = TierOverrideError;

    /// Wishes between commas: `loads=declared,llc-misses=counters`.
    fn from_str(text: &str) -> Result<Self, TierOverrideError> {
        let mut wish = TierOverride::default();
        text.split(',').try_for_each(|part| wish.add(part.trim()))?;
        Ok(wish)
    }
}

fn unknown(found: &str) -> TierOverrideError {
    let names: Vec<&str> = CounterEvent::ALL.iter().map(|event| event.name()).collect();
    TierOverrideError::Figure { found: found.to_owned(), known: names.join(", ") }
}

fn read(figure: &str, tier: &str) -> Result<SignalTier, TierOverrideError> {
    use SignalTier::{Bandwidth, Counters, Declared, None};
    let (possible, tiers): (_, &[SignalTier]) = match CounterEvent::of_name(figure) {
        Option::None | Some(CounterEvent::LlcMisses) => {
            ("counters, bandwidth, declared or none", &[Counters, Bandwidth, Declared, None])
        }
        Some(event) if event.source() == EventKind::Software => {
            ("counters or none", &[Counters, None])
        }
        Some(_) => ("counters, declared or none", &[Counters, Declared, None]),
    };
    let found = tiers.iter().copied().find(|possible| possible.to_string() == tier);
    let refuse =
        || TierOverrideError::Tier { figure: figure.to_owned(), found: tier.to_owned(), possible };
    found.ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        match text.parse::<TierOverride>() {
            Ok(wish) => {
                let of = CounterEvent::ALL.iter().filter_map(|&q| Some((q.name(), wish.get(q)?)));
                let of = of.map(|(name, tier)| format!(" {name}={tier}"));
                format!("{:?}{}", wish.loads(LoadSource::Best), of.collect::<String>())
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_wish_names_a_figure_and_a_tier_that_it_can_stand_on() {
        assert_eq!(said("loads=declared"), "Only(Declared)");
        assert_eq!(
            said("llc-misses=bandwidth, cycles=none"),
            "Best cycles=none llc-misses=bandwidth"
        );
        assert_eq!(
            said("loads"),
            "\"loads\" is no wish: write FIGURE=TIER, such as loads=declared"
        );
        assert_eq!(
            said("cycles=bandwidth"),
            "cycles cannot stand on \"bandwidth\": write counters, declared or none"
        );
        assert_eq!(
            said("page-faults=declared"),
            "page-faults cannot stand on \"declared\": write counters or none"
        );
        assert_eq!(said("loads=none,loads=none"), "loads is wished for twice: keep one");
        assert!(
            said("heat=counters").starts_with("there is no figure \"heat\": write loads, or one")
        );
    }

    #[test]
    fn the_users_wish_comes_before_the_policys() {
        let wish: TierOverride = "loads=counters".parse().expect("a wish");
        assert_eq!(wish.loads(LoadSource::Places), LoadPreference::Only(SignalTier::Counters));
        let none = TierOverride::default();
        assert_eq!(none.loads(LoadSource::Places), LoadPreference::Only(SignalTier::Bandwidth));
        assert_eq!(none.loads(LoadSource::Tasks), LoadPreference::Tasks);
    }
}
