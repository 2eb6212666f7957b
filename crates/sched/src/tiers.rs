//! Which signal each figure stands on, and what somebody would rather have.
//!
//! ```text
//!   loads            of places              bandwidth, counters, declared, none
//!   llc-misses …     of tasks, by quantity  counters, bandwidth (misses only), declared, none
//! ```
//!
//! The engine takes the best signal that is really there for each; a wish overrides that for one
//! figure. A wish for a signal that is not there is not answered by another one: the figure stands on
//! nothing then, and says so.

use std::str::FromStr;

use crate::{CountedBy, LoadSource, Quantity, SignalTier};

/// What the figures of the last interval stand on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tiers {
    /// The loads of places.
    pub loads: SignalTier,
    of: [SignalTier; Quantity::N],
}

impl Tiers {
    /// What a quantity of tasks stands on.
    pub fn get(&self, quantity: Quantity) -> SignalTier {
        self.of[quantity as usize]
    }

    /// Says what a quantity of tasks stands on.
    pub fn set(&mut self, quantity: Quantity, tier: SignalTier) {
        self.of[quantity as usize] = tier;
    }

    /// The quantities of tasks that stand on something, in the order of the table.
    pub fn known(&self) -> impl Iterator<Item = (Quantity, SignalTier)> + '_ {
        let all = Quantity::ALL.iter().map(|&quantity| (quantity, self.get(quantity)));
        all.filter(|(_, tier)| *tier != SignalTier::None)
    }
}

/// What figures shall stand on, whatever else is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierWish {
    loads: Option<SignalTier>,
    of: [Option<SignalTier>; Quantity::N],
}

/// Why a text is no wish. Each message says what would be possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierWishError {
    /// No equals sign.
    #[error("{0:?} is no wish: write FIGURE=TIER, such as loads=declared")]
    Malformed(String),
    /// No such figure.
    #[error("there is no figure {found:?}: write loads, or one of {known}")]
    Figure {
        /// What was written.
        found: String,
        /// All quantities.
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

impl TierWish {
    /// What the loads of places shall stand on, of a policy that wants them from `source` too. The
    /// wish of the user comes before that of the policy.
    pub fn loads(&self, source: LoadSource) -> LoadWish {
        match (self.loads, source) {
            (Some(tier), _) => LoadWish::Only(tier),
            (None, LoadSource::Best) => LoadWish::Best,
            (None, LoadSource::Places) => LoadWish::Only(SignalTier::Bandwidth),
            (None, LoadSource::Tasks) => LoadWish::Tasks,
        }
    }

    /// What a quantity of tasks shall stand on.
    pub fn get(&self, quantity: Quantity) -> Option<SignalTier> {
        self.of[quantity as usize]
    }

    /// Adds one wish, as `loads=declared`.
    pub fn add(&mut self, text: &str) -> Result<(), TierWishError> {
        let malformed = || TierWishError::Malformed(text.to_owned());
        let (figure, tier) = text.split_once('=').ok_or_else(malformed)?;
        let place = match (figure, Quantity::of_name(figure)) {
            ("loads", _) => &mut self.loads,
            (_, Some(quantity)) => &mut self.of[quantity as usize],
            _ => return Err(unknown(figure)),
        };
        if place.is_some() {
            return Err(TierWishError::Twice(figure.to_owned()));
        }
        *place = Some(read(figure, tier)?);
        Ok(())
    }
}

/// What loads of places shall stand on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadWish {
    /// The best there is.
    #[default]
    Best,
    /// The best that is known of tasks: counted, or else declared.
    Tasks,
    /// This and nothing else.
    Only(SignalTier),
}

impl FromStr for TierWish {
    type Err = TierWishError;

    /// Wishes between commas: `loads=declared,llc-misses=counters`.
    fn from_str(text: &str) -> Result<Self, TierWishError> {
        let mut wish = TierWish::default();
        text.split(',').try_for_each(|part| wish.add(part.trim()))?;
        Ok(wish)
    }
}

fn unknown(found: &str) -> TierWishError {
    let names: Vec<&str> = Quantity::ALL.iter().map(|quantity| quantity.name()).collect();
    TierWishError::Figure { found: found.to_owned(), known: names.join(", ") }
}

fn read(figure: &str, tier: &str) -> Result<SignalTier, TierWishError> {
    use SignalTier::{Bandwidth, Counters, Declared, None};
    let (possible, tiers): (_, &[SignalTier]) = match Quantity::of_name(figure) {
        Option::None | Some(Quantity::LlcMisses) => {
            ("counters, bandwidth, declared or none", &[Counters, Bandwidth, Declared, None])
        }
        Some(quantity) if quantity.source() == CountedBy::Kernel => {
            ("counters or none", &[Counters, None])
        }
        Some(_) => ("counters, declared or none", &[Counters, Declared, None]),
    };
    let found = tiers.iter().copied().find(|possible| possible.to_string() == tier);
    let refuse =
        || TierWishError::Tier { figure: figure.to_owned(), found: tier.to_owned(), possible };
    found.ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        match text.parse::<TierWish>() {
            Ok(wish) => {
                let of = Quantity::ALL.iter().filter_map(|&q| Some((q.name(), wish.get(q)?)));
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
        let wish: TierWish = "loads=counters".parse().expect("a wish");
        assert_eq!(wish.loads(LoadSource::Places), LoadWish::Only(SignalTier::Counters));
        let none = TierWish::default();
        assert_eq!(none.loads(LoadSource::Places), LoadWish::Only(SignalTier::Bandwidth));
        assert_eq!(none.loads(LoadSource::Tasks), LoadWish::Tasks);
    }
}
