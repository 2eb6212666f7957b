//! `--signal FIGURE=TIER`: what figures shall stand on, whatever else is there.

use std::collections::BTreeMap;

use sched::{TierWish, TierWishError};

/// The option, for every command that decides.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SignalArgs {
    /// What a figure shall stand on instead of the best that is there: loads=declared,
    /// llc-misses=counters; the tiers are counters, bandwidth, declared and none
    #[arg(long, value_name = "FIGURE=TIER")]
    signal: Vec<String>,
}

/// The name in the options that a journal keeps.
const TOLD: &str = "signal";

impl SignalArgs {
    /// All wishes together.
    pub(crate) fn wish(&self) -> Result<TierWish, TierWishError> {
        let mut wish = TierWish::default();
        self.signal
            .iter()
            .flat_map(|text| text.split(','))
            .try_for_each(|text| wish.add(text.trim()))?;
        Ok(wish)
    }

    /// Keeps them with the other options of a run.
    pub(crate) fn tell(&self, told: &mut BTreeMap<String, String>) {
        if !self.signal.is_empty() {
            told.insert(TOLD.to_owned(), self.signal.join(","));
        }
    }

    /// Those of this command, or else those that a recorded run had.
    pub(crate) fn or_recorded(
        &self,
        options: &BTreeMap<String, String>,
    ) -> Result<TierWish, TierWishError> {
        match options.get(TOLD).filter(|_| self.signal.is_empty()) {
            Some(recorded) => recorded.parse(),
            None => self.wish(),
        }
    }
}
