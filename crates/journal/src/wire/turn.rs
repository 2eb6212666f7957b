//! The line of a turn.

use std::collections::BTreeMap;

use engine::{LoadBasis, LoadSample, TurnRecord};
use sched::{Cause, CounterEvent, DomainLoads, Plan, ReasonCode, SignalTier, Tiers, Turn};
use serde::{Deserialize, Serialize};

use super::fields::{Encoded, Name, is_default, line_types};
use super::plan::{ObservationLine, OutcomeLine, ReasonField, RejectionLine, RequestLine};
use super::sample::SampleLine;
use crate::{LineError, RecordedTurn};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TurnLine {
    pub turn: u64,
    pub at_ns: u64,
    pub causes: Vec<Name>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub sample: SampleLine,
    #[serde(skip_serializing_if = "is_default", default)]
    pub load_basis: Option<LoadBasisField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub signal_tiers: Option<SignalTiersField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub loads: Option<LoadsLine>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub requests: Vec<RequestLine>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub notes: Vec<ReasonField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub observations: Vec<ObservationLine>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub abort: Option<ReasonField>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub rejected: Vec<RejectionLine>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub outcomes: Vec<OutcomeLine>,
}

line_types! {
    /// Level and signal tier of the loads.
    LoadBasisField for LoadBasis {
        level: Name = level,
        tier: Name = tier,
    }
}

/// Signal tier of each value: `{"loads":"declared","llc-misses":"counters"}`. Events without a source are
/// omitted.
pub(crate) type SignalTiersField = BTreeMap<Name, Name>;

/// The loads of an interval. `domains`, `loads` and `cpu_ns` have one entry per domain, in the same order.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadsLine {
    pub level: Name,
    pub tier: Name,
    pub domains: Vec<u32>,
    pub loads: Vec<u64>,
    pub cpu_ns: Vec<u64>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub unattributed_ns: u64,
    #[serde(skip_serializing_if = "is_default", default)]
    pub interval_ns: Option<u64>,
    #[serde(skip_serializing_if = "is_default", default)]
    pub unreadable: bool,
}

/// Names of the causes.
const CAUSES: [(Cause, &str); 7] = [
    (Cause::Interval, "interval"),
    (Cause::JobsDue, "jobs-due"),
    (Cause::Ended, "ended"),
    (Cause::CpusChanged, "cpus-changed"),
    (Cause::Stopping, "stopping"),
    (Cause::PageMigrationCompleted, "page-migration-completed"),
    (Cause::Overflow, "counter-overflow"),
];

impl Encoded<Name> for Cause {
    fn encode(&self) -> Name {
        let name = CAUSES.iter().find(|(known, _)| known == self).map(|(_, name)| *name);
        name.expect("the table has every cause").into()
    }

    fn decode(name: Name, _: &[ReasonCode]) -> Result<Self, LineError> {
        let known = CAUSES.iter().find(|(_, known)| *known == name).map(|(cause, _)| cause.clone());
        known.ok_or_else(|| LineError::value("", format!("{name:?}"), "a known cause"))
    }
}

#[cfg(test)]
impl crate::tests::Random for Cause {
    fn random(rng: &mut base::Rng) -> Self {
        crate::tests::one_of(&CAUSES, rng).0
    }
}

impl Encoded<SignalTiersField> for Tiers {
    fn encode(&self) -> SignalTiersField {
        let events = self.events_with_source().map(|(event, tier)| (event.name(), tier));
        let all = events.chain([("loads", self.loads)]);
        all.map(|(name, tier)| (name.into(), tier.encode())).collect()
    }

    /// Decodes the tiers. Ignores unknown events.
    fn decode(field: SignalTiersField, codes: &[ReasonCode]) -> Result<Self, LineError> {
        let mut tiers = Tiers::default();
        for (name, tier) in field {
            let tier = SignalTier::decode(tier, codes)?;
            match CounterEvent::of_name(&name) {
                Some(event) => tiers.set(event, tier),
                None if name == "loads" => tiers.loads = tier,
                None => {}
            }
        }
        Ok(tiers)
    }
}

impl Encoded<LoadsLine> for LoadSample {
    fn encode(&self) -> LoadsLine {
        LoadsLine {
            level: self.level.encode(),
            tier: self.loads.tier.encode(),
            domains: self.numbers.clone(),
            loads: self.loads.loads.clone(),
            cpu_ns: self.cpu_time.encode(),
            unattributed_ns: self.unattributed.encode(),
            interval_ns: self.interval.encode(),
            unreadable: !self.loads.readable,
        }
    }

    fn decode(line: LoadsLine, codes: &[ReasonCode]) -> Result<Self, LineError> {
        let basis = LoadBasisField { level: line.level, tier: line.tier };
        let LoadBasis { level, tier } = Encoded::decode(basis, codes)?;
        let loads = DomainLoads { tier, loads: line.loads, readable: !line.unreadable };
        let cpu_time = Encoded::decode(line.cpu_ns, codes)
            .map_err(|error: LineError| error.of_field("cpu_ns"))?;
        let unattributed = Encoded::decode(line.unattributed_ns, codes)
            .map_err(|error: LineError| error.of_field("unattributed_ns"))?;
        let interval = Encoded::decode(line.interval_ns, codes)
            .map_err(|error: LineError| error.of_field("interval_ns"))?;
        Ok(LoadSample { level, numbers: line.domains, loads, cpu_time, unattributed, interval })
    }
}

impl From<&TurnRecord<'_>> for TurnLine {
    fn from(record: &TurnRecord<'_>) -> Self {
        TurnLine {
            turn: record.turn.number,
            at_ns: record.turn.at.0,
            causes: record.turn.causes.encode(),
            sample: record.sample.encode(),
            load_basis: record.load_basis.encode(),
            signal_tiers: record.signals.encode(),
            loads: record.loads.map(LoadSample::encode),
            requests: record.plan.requests.encode(),
            notes: record.plan.notes.encode(),
            observations: record.plan.observations.encode(),
            abort: record.plan.abort.encode(),
            rejected: record.rejected.iter().map(Encoded::encode).collect(),
            outcomes: record.outcomes.iter().map(Encoded::encode).collect(),
        }
    }
}

impl TurnLine {
    pub(crate) fn turn(self, codes: &[ReasonCode]) -> Result<RecordedTurn, LineError> {
        let causes = Encoded::decode(self.causes, codes);
        let causes = causes.map_err(|error: LineError| error.of_field("causes"))?;
        let at = Encoded::decode(self.at_ns, codes);
        let at = at.map_err(|error: LineError| error.of_field("at_ns"))?;
        let signals = Encoded::decode(self.signal_tiers, codes);
        Ok(RecordedTurn {
            turn: Turn { number: self.turn, at, causes },
            sample: Encoded::decode(self.sample, codes)?,
            load_basis: Encoded::decode(self.load_basis, codes)?,
            signals: signals.map_err(|error: LineError| error.of_field("signal_tiers"))?,
            loads: Encoded::decode(self.loads, codes)?,
            plan: Plan {
                requests: Encoded::decode(self.requests, codes)?,
                notes: Encoded::decode(self.notes, codes)?,
                observations: Encoded::decode(self.observations, codes)?,
                abort: Encoded::decode(self.abort, codes)?,
                quiescent: false, // `quiescent` is not recorded, because only the host uses it.
            },
            rejected: Encoded::decode(self.rejected, codes)?,
            outcomes: Encoded::decode(self.outcomes, codes)?,
        })
    }
}
