//! What the figures of tasks stood on in the course of a run.

use std::collections::{BTreeMap, BTreeSet};

use sched::{Quantity, SignalTier, Tiers};

/// The tiers of each quantity, however often it changed.
#[derive(Debug, Default)]
pub(super) struct Signals(BTreeMap<Quantity, BTreeSet<SignalTier>>);

impl Signals {
    /// Takes in what is new.
    pub fn see(&mut self, tiers: Option<&Tiers>) {
        for (quantity, tier) in tiers.into_iter().flat_map(Tiers::known) {
            self.0.entry(quantity).or_default().insert(tier);
        }
    }

    /// In words: `llc-misses counters, cycles counters and declared`; `None` when none stood on anything.
    pub fn told(&self) -> Option<String> {
        let one = |(quantity, tiers): (&Quantity, &BTreeSet<SignalTier>)| {
            let tiers: Vec<String> = tiers.iter().map(ToString::to_string).collect();
            format!("{} {}", quantity.name(), tiers.join(" and "))
        };
        let all: Vec<String> = self.0.iter().map(one).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}
