//! What the figures of tasks stood on in the course of a run.

use std::collections::{BTreeMap, BTreeSet};

use sched::{CounterEvent, SignalTier, Tiers};

/// The tiers of each event, however often it changed.
#[derive(Debug, Default)]
pub(super) struct Signals(BTreeMap<CounterEvent, BTreeSet<SignalTier>>);

impl Signals {
    /// Takes in what is new.
    pub fn see(&mut self, tiers: Option<&Tiers>) {
        for (event, tier) in tiers.into_iter().flat_map(Tiers::known) {
            self.0.entry(event).or_default().insert(tier);
        }
    }

    /// In words: `llc-misses counters, cycles counters and declared`; `None` when none stood on anything.
    pub fn told(&self) -> Option<String> {
        let one = |(event, tiers): (&CounterEvent, &BTreeSet<SignalTier>)| {
            let tiers: Vec<String> = tiers.iter().map(ToString::to_string).collect();
            format!("{} {}", event.name(), tiers.join(" and "))
        };
        let all: Vec<String> = self.0.iter().map(one).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}
