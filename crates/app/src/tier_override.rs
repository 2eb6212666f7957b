//! `--signal SIGNAL=TIER`: overrides the data source of a signal.

use std::collections::BTreeMap;

use anyhow::anyhow;
use base::{LlcId, NodeId};
use linux::collectors::SystemCollectors;
use linux::source::Live;
use sched::{LoadPreference, Policy, Sample, SignalTier, TierOverride, TierOverrideError};
use topology::{Domains, Level, Machine};

/// The option, for all commands with a policy.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SignalArgs {
    /// Override the data source of a signal: loads=declared, llc-misses=counters; tiers are counters,
    /// bandwidth, declared and none (default: the best available)
    #[arg(long, value_name = "SIGNAL=TIER")]
    signal: Vec<String>,
}

/// Checks that loads from memory controllers or caches can be read if `--signal loads=bandwidth` requires it. Called before
/// any job starts.
pub(crate) fn check_readable(
    overrides: &TierOverride,
    policy: &dyn Policy,
    machine: &Machine,
) -> anyhow::Result<()> {
    if overrides.loads(policy.load_source()) != LoadPreference::Only(SignalTier::Bandwidth) {
        return Ok(());
    }
    let domains = Domains::select(machine, policy.domains(), machine.allowed());
    let mut source = Live::new("/".as_ref());
    let (mut collectors, notes) = SystemCollectors::open(&mut source, machine);
    let mut sample = Sample::default();
    collectors.sample_traffic(&mut source, &mut sample);
    if !domains.is_empty()
        && domains.iter().all(|(_, d)| is_counted(&sample, domains.level(), d.number))
    {
        return Ok(());
    }
    let cause = match (domains.level(), notes.first()) {
        (Level::Core, _) => "neither memory controllers nor caches count per core".to_owned(),
        (Level::Node, Some(note)) => note.clone(),
        (level, _) => unreadable_reason(level),
    };
    Err(anyhow!(
        "the loads need memory traffic per {}, which cannot be read: {cause}; use --signal \
         loads=declared or loads=none",
        domains.level()
    ))
}

fn is_counted(sample: &Sample, level: Level, number: u32) -> bool {
    let of_node = || sample.nodes.iter().find(|node| node.node == NodeId(number));
    let of_llc = || sample.llcs.iter().find(|llc| llc.llc == LlcId(number));
    match level {
        Level::Node => of_node().is_some_and(|node| node.controller_ops.is_some()),
        Level::Llc => of_llc().is_some_and(|llc| llc.traffic.total_bytes.is_some()),
        Level::Core => false,
    }
}

/// Returns the reason why a signal is unreadable, in the words of `evenkeel machine`.
fn unreadable_reason(level: Level) -> String {
    let event = match level {
        Level::Llc => "memory traffic of an LLC domain",
        Level::Node | Level::Core => "memory controller traffic of a node",
    };
    let signals = linux::signal_sources::read("/".as_ref());
    let signal = signals.into_iter().find(|signal| signal.name == event);
    signal.map_or_else(|| "no counter is available".to_owned(), |signal| signal.reason)
}

/// Key in the options of a journal.
const OPTION_KEY: &str = "signal";

impl SignalArgs {
    pub(crate) fn overrides(&self) -> Result<TierOverride, TierOverrideError> {
        let mut overrides = TierOverride::default();
        self.signal
            .iter()
            .flat_map(|text| text.split(','))
            .try_for_each(|text| overrides.add(text.trim()))?;
        Ok(overrides)
    }

    /// Adds the overrides to the options in the header of a journal.
    pub(crate) fn add_to_options(&self, options: &mut BTreeMap<String, String>) {
        if !self.signal.is_empty() {
            options.insert(OPTION_KEY.to_owned(), self.signal.join(","));
        }
    }

    /// Returns the overrides of this command, or else the overrides of the recorded run.
    pub(crate) fn or_recorded(
        &self,
        options: &BTreeMap<String, String>,
    ) -> Result<TierOverride, TierOverrideError> {
        match options.get(OPTION_KEY).filter(|_| self.signal.is_empty()) {
            Some(recorded) => recorded.parse(),
            None => self.overrides(),
        }
    }
}
