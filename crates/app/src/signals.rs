//! `--signal FIGURE=TIER`: what figures shall stand on, whatever else is there.

use std::collections::BTreeMap;

use anyhow::anyhow;
use base::{LlcId, NodeId};
use linux::collectors::SystemCollectors;
use linux::source::Live;
use sched::{
    LoadPreference, Measured, Policy, Sample, SignalTier, TierOverride, TierOverrideError,
};
use topology::{Domains, Level, Machine};

/// The option, for every command that decides.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SignalArgs {
    /// What a figure shall stand on instead of the best that is there: loads=declared,
    /// llc-misses=counters; the tiers are counters, bandwidth, declared and none
    #[arg(long, value_name = "FIGURE=TIER")]
    signal: Vec<String>,
}

/// Loads that shall come from controllers or caches and nothing else are tried before anything is
/// started: where they cannot be read, that is known now and not after the first jobs ran.
pub(crate) fn check_readable(
    wish: &TierOverride,
    policy: &dyn Policy,
    machine: &Machine,
) -> anyhow::Result<()> {
    if wish.loads(policy.load_source()) != LoadPreference::Only(SignalTier::Bandwidth) {
        return Ok(());
    }
    let domains = Domains::of(machine, policy.domains(), machine.allowed());
    let mut source = Live::new("/".as_ref());
    let (mut around, said) = SystemCollectors::open(&mut source, machine);
    let mut sample = Sample::default();
    around.sample_traffic(&mut source, &mut sample);
    around.close(&mut source);
    if !domains.is_empty()
        && domains.iter().all(|(_, d)| is_counted(&sample, domains.level(), d.number))
    {
        return Ok(());
    }
    let why = match (domains.level(), said.first()) {
        (Level::Core, _) => "neither controllers nor caches count a single core".to_owned(),
        (Level::Node, Some(said)) => said.clone(),
        (level, _) => why_not(level),
    };
    Err(anyhow!(
        "loads shall be what is counted of places ({}), and that cannot be read here: {why}; wish \
         for loads=declared or none, or leave the wish out",
        domains.level()
    ))
}

fn is_counted(sample: &Sample, level: Level, number: u32) -> bool {
    let of_node = || sample.nodes.iter().find(|node| node.node == NodeId(number));
    let of_llc = || sample.llcs.iter().find(|llc| llc.llc == LlcId(number));
    match level {
        Level::Node => of_node().is_some_and(|node| node.controller_ops != Measured::Absent),
        Level::Llc => of_llc().is_some_and(|llc| llc.traffic.total_bytes != Measured::Absent),
        Level::Core => false,
    }
}

/// As `evenkeel machine` tells it.
fn why_not(level: Level) -> String {
    let event = match level {
        Level::Llc => "memory traffic of an LLC domain",
        Level::Node | Level::Core => "memory controller traffic of a node",
    };
    let signals = linux::metric_sources::read("/".as_ref());
    let signal = signals.into_iter().find(|signal| signal.name == event);
    signal.map_or_else(|| "nothing counts it".to_owned(), |signal| signal.why)
}

/// The name in the options that a journal keeps.
const TOLD: &str = "signal";

impl SignalArgs {
    /// All wishes together.
    pub(crate) fn wish(&self) -> Result<TierOverride, TierOverrideError> {
        let mut wish = TierOverride::default();
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
    ) -> Result<TierOverride, TierOverrideError> {
        match options.get(TOLD).filter(|_| self.signal.is_empty()) {
            Some(recorded) => recorded.parse(),
            None => self.wish(),
        }
    }
}
