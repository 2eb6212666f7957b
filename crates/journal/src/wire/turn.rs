//! The line of a turn.
//!
//! Most lines belong to turns in which nothing happened. So [`TurnWriter`] writes a line directly from
//! the record; only the entries of samples, plans and outcomes are converted to the types that the
//! reader uses. A test reads back random turns.

use std::collections::BTreeMap;

use base::Nanos;
use engine::{LoadBasis, LoadSample, TurnRecord};
use sched::{Cause, CounterEvent, DomainLoads, Plan, ReasonCode, Sample, Tiers, Turn};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::fields::tier;
use super::plan::{OutcomeLine, ReasonField, RejectionLine, RequestLine};
use super::sample::SampleLine;
use crate::{LineError, RecordedTurn};

/// The line as it is read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TurnLine {
    pub turn: u64,
    pub at_ns: u64,
    pub causes: Vec<String>,
    #[serde(default)]
    pub sample: SampleLine,
    #[serde(default)]
    pub load_basis: Option<LoadBasisField>,
    #[serde(default)]
    pub signal_tiers: Option<SignalTiersField>,
    #[serde(default)]
    pub loads: Option<LoadsLine>,
    #[serde(default)]
    pub requests: Vec<RequestLine>,
    #[serde(default)]
    pub notes: Vec<ReasonField>,
    #[serde(default)]
    pub abort: Option<ReasonField>,
    #[serde(default)]
    pub rejected: Vec<RejectionLine>,
    #[serde(default)]
    pub outcomes: Vec<OutcomeLine>,
}

/// Writes the line.
pub(crate) struct TurnWriter<'a>(pub &'a TurnRecord<'a>);

/// Level and signal tier of the loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadBasisField {
    pub level: String,
    pub tier: String,
}

/// Signal tier of each value: `{"loads":"declared","llc-misses":"counters"}`. Values without a source are
/// omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SignalTiersField(BTreeMap<String, String>);

/// The loads of an interval. `domains`, `loads` and `cpu_ns` have one entry per domain, in the same order.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct LoadsLine {
    pub level: String,
    pub tier: String,
    pub domains: Vec<u32>,
    pub loads: Vec<u64>,
    pub cpu_ns: Vec<u64>,
    #[serde(default)]
    pub unreadable: bool,
}

struct LoadsWriter<'a>(&'a LoadSample);
struct CausesWriter<'a>(&'a [Cause]);
struct NanosWriter<'a>(&'a [Nanos]);
/// A list whose entries are converted to the types that the reader uses.
struct ConvertedList<'a, T, L>(&'a [T], fn(&T) -> L);
/// A value written as its `Display` text.
struct DisplayText<T>(T);

/// Names of the causes.
const CAUSES: [(Cause, &str); 7] = [
    (Cause::Interval, "interval"),
    (Cause::JobsDue, "jobs-due"),
    (Cause::Ended, "ended"),
    (Cause::CpusChanged, "cpus-changed"),
    (Cause::Stopping, "stopping"),
    (Cause::MemoryMoved, "page-move-completed"),
    (Cause::Overflow, "counter-overflow"),
];

fn cause_out(cause: &Cause) -> &'static str {
    let name = CAUSES.iter().find(|(known, _)| known == cause).map(|(_, name)| *name);
    name.expect("the table has every cause; a test checks it")
}

fn cause_in(name: &str) -> Result<Cause, LineError> {
    let known = CAUSES.iter().find(|(_, known)| *known == name).map(|(cause, _)| cause.clone());
    known.ok_or_else(|| LineError::value("causes", format!("{name:?}"), "a known cause"))
}

impl Serialize for TurnWriter<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TurnWriter(record) = self;
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("turn", &record.turn.number)?;
        line.serialize_entry("at_ns", &record.turn.at.0)?;
        line.serialize_entry("causes", &CausesWriter(&record.turn.causes))?;
        if !is_empty(record.sample) {
            line.serialize_entry("sample", &SampleLine::from(record.sample))?;
        }
        if let Some(basis) = record.load_basis {
            line.serialize_entry("load_basis", &LoadBasisField::from(basis))?;
        }
        if let Some(tiers) = &record.signals {
            line.serialize_entry("signal_tiers", &SignalTiersField::from(tiers))?;
        }
        if let Some(loads) = record.loads {
            line.serialize_entry("loads", &LoadsWriter(loads))?;
        }
        let plan = record.plan;
        entries(&mut line, "requests", &plan.requests, |request| RequestLine::from(request))?;
        entries(&mut line, "notes", &plan.notes, |note| ReasonField::from(note))?;
        if let Some(reason) = &plan.abort {
            line.serialize_entry("abort", &ReasonField::from(reason))?;
        }
        entries(&mut line, "rejected", record.rejected, |rejection| {
            RejectionLine::from(rejection)
        })?;
        entries(&mut line, "outcomes", record.outcomes, |outcome| OutcomeLine::from(outcome))?;
        line.end()
    }
}

/// Writes a list; an empty one is omitted.
fn entries<M: SerializeMap, T, L: Serialize>(
    line: &mut M,
    name: &'static str,
    list: &[T],
    of: fn(&T) -> L,
) -> Result<(), M::Error> {
    if list.is_empty() { Ok(()) } else { line.serialize_entry(name, &ConvertedList(list, of)) }
}

/// Whether a sample has no change.
fn is_empty(sample: &Sample) -> bool {
    sample.jobs.is_empty()
        && sample.tasks.is_empty()
        && sample.exited.is_empty()
        && sample.nodes.is_empty()
        && sample.llcs.is_empty()
        && sample.mon_groups.is_empty()
        && sample.cpus.is_empty()
        && sample.pressure.is_none()
        && sample.usable_cpus.is_none()
        && sample.numa_settings.is_none()
        && sample.degraded.is_empty()
        && sample.memory.is_empty()
        && sample.page_moves_completed.is_empty()
}

impl<T, L: Serialize> Serialize for ConvertedList<'_, T, L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

impl Serialize for CausesWriter<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(cause_out))
    }
}

impl Serialize for NanosWriter<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|time| time.0))
    }
}

impl<T: std::fmt::Display> Serialize for DisplayText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for LoadsWriter<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LoadsWriter(sample) = self;
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("level", &DisplayText(sample.level))?;
        line.serialize_entry("tier", &DisplayText(sample.loads.tier))?;
        line.serialize_entry("domains", &sample.numbers)?;
        line.serialize_entry("loads", &sample.loads.loads)?;
        line.serialize_entry("cpu_ns", &NanosWriter(&sample.cpu_time))?;
        if !sample.loads.readable {
            line.serialize_entry("unreadable", &true)?;
        }
        line.end()
    }
}

impl From<LoadBasis> for LoadBasisField {
    fn from(basis: LoadBasis) -> Self {
        LoadBasisField { level: basis.level.to_string(), tier: basis.tier.to_string() }
    }
}

impl LoadBasisField {
    pub(crate) fn load_basis(self) -> Result<LoadBasis, LineError> {
        let level = self.level.parse();
        let level = level.map_err(|_| LineError::value("level", self.level, "a domain level"))?;
        Ok(LoadBasis { level, tier: tier(&self.tier)? })
    }
}

impl From<&Tiers> for SignalTiersField {
    fn from(tiers: &Tiers) -> Self {
        let events = tiers.known().map(|(event, tier)| (event.name(), tier));
        let all = events.chain([("loads", tiers.loads)]);
        SignalTiersField(all.map(|(name, tier)| (name.to_owned(), tier.to_string())).collect())
    }
}

impl SignalTiersField {
    /// An unknown event is ignored.
    pub(crate) fn tiers(self) -> Result<Tiers, LineError> {
        let mut tiers = Tiers::default();
        for (name, word) in &self.0 {
            let tier = tier(word)?;
            match CounterEvent::of_name(name) {
                Some(event) => tiers.set(event, tier),
                None if name == "loads" => tiers.loads = tier,
                None => {}
            }
        }
        Ok(tiers)
    }
}

impl LoadsLine {
    fn load_sample(self) -> Result<LoadSample, LineError> {
        let basis = LoadBasisField { level: self.level, tier: self.tier }.load_basis()?;
        let LoadBasis { level, tier } = basis;
        let loads = DomainLoads { tier, loads: self.loads, readable: !self.unreadable };
        let cpu_time = self.cpu_ns.into_iter().map(Nanos).collect();
        Ok(LoadSample { level, numbers: self.domains, loads, cpu_time })
    }
}

impl TurnLine {
    pub(crate) fn turn(self, codes: &[ReasonCode]) -> Result<RecordedTurn, LineError> {
        let causes = all(self.causes, |name| cause_in(&name))?;
        Ok(RecordedTurn {
            turn: Turn { number: self.turn, at: Nanos(self.at_ns), causes },
            sample: self.sample.sample()?,
            load_basis: self.load_basis.map(LoadBasisField::load_basis).transpose()?,
            signals: self.signal_tiers.map(SignalTiersField::tiers).transpose()?,
            loads: self.loads.map(LoadsLine::load_sample).transpose()?,
            plan: Plan {
                requests: all(self.requests, |line| line.request(codes))?,
                notes: all(self.notes, |line| line.reason(codes))?,
                abort: self.abort.map(|line| line.reason(codes)).transpose()?,
                quiescent: false, // Not recorded: it only concerns the host.
            },
            rejected: all(self.rejected, |line| line.rejection(codes))?,
            outcomes: all(self.outcomes, OutcomeLine::outcome)?,
        })
    }
}

fn all<L, T>(lines: Vec<L>, of: impl Fn(L) -> Result<T, LineError>) -> Result<Vec<T>, LineError> {
    lines.into_iter().map(of).collect()
}
