//! The line of a turn.
//!
//! There are many of them, and in most turns nothing happened. So a line is written straight from the
//! record, without a copy of it in between; only what there is of samples, wishes and outcomes goes
//! through the types that it is read with. A test reads back what was written, whatever is in it.

use std::collections::BTreeMap;

use base::Nanos;
use engine::{LoadBasis, LoadSample, TurnRecord};
use sched::{Cause, CounterEvent, DomainLoads, Plan, Sample, Tiers, Turn};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::basic::tier;
use super::plan::{AskLine, OutcomeLine, ReasonLine, RefusalLine};
use super::sample::SampleLine;
use crate::{LineError, RecordedTurn};

/// As it is read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TurnLine {
    pub n: u64,
    pub at_ns: u64,
    pub causes: Vec<String>,
    #[serde(default)]
    pub sample: SampleLine,
    #[serde(default)]
    pub footing: Option<FootingField>,
    #[serde(default)]
    pub signals: Option<SignalsField>,
    #[serde(default)]
    pub loads: Option<LoadsLine>,
    #[serde(default)]
    pub asks: Vec<AskLine>,
    #[serde(default)]
    pub notes: Vec<ReasonLine>,
    #[serde(default)]
    pub gives_up: Option<ReasonLine>,
    #[serde(default)]
    pub refused: Vec<RefusalLine>,
    #[serde(default)]
    pub outcomes: Vec<OutcomeLine>,
}

/// As it is written.
pub(crate) struct TurnOut<'a>(pub &'a TurnRecord<'a>);

/// What loads stand on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FootingField {
    pub level: String,
    pub tier: String,
}

/// What figures stand on: `{"loads":"declared","llc-misses":"counters"}`. Those that are left out stand
/// on nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SignalsField(BTreeMap<String, String>);

/// The load of each domain: `numbers`, `loads` and `cpu_ns` belong together place by place.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct LoadsLine {
    pub level: String,
    pub tier: String,
    pub numbers: Vec<u32>,
    pub loads: Vec<u64>,
    pub cpu_ns: Vec<u64>,
    #[serde(default)]
    pub unreadable: bool,
}

struct LoadsOut<'a>(&'a LoadSample);
struct CausesOut<'a>(&'a [Cause]);
struct NanosOut<'a>(&'a [Nanos]);
/// Each entry by way of the type that it is read with.
struct Through<'a, T, L>(&'a [T], fn(&T) -> L);
/// What has a word for people, as that word.
struct Word<T>(T);

/// The names of causes in the file.
const CAUSES: [(Cause, &str); 7] = [
    (Cause::Interval, "interval"),
    (Cause::JobsDue, "jobs-due"),
    (Cause::Ended, "ended"),
    (Cause::CpusChanged, "cpus-changed"),
    (Cause::Stopping, "stopping"),
    (Cause::MemoryMoved, "memory-moved"),
    (Cause::Overflow, "overflow"),
];

fn cause_out(cause: &Cause) -> &'static str {
    let name = CAUSES.iter().find(|(known, _)| known == cause).map(|(_, name)| *name);
    name.expect("every cause is in the table; a test sees to it")
}

fn cause_in(name: &str) -> Result<Cause, LineError> {
    let known = CAUSES.iter().find(|(_, known)| *known == name).map(|(cause, _)| cause.clone());
    known.ok_or_else(|| LineError::value("causes", format!("{name:?}"), "known cause"))
}

impl Serialize for TurnOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TurnOut(record) = self;
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("n", &record.turn.number)?;
        line.serialize_entry("at_ns", &record.turn.at.0)?;
        line.serialize_entry("causes", &CausesOut(&record.turn.causes))?;
        if !is_empty(record.sample) {
            line.serialize_entry("sample", &SampleLine::from(record.sample))?;
        }
        if let Some(footing) = record.load_basis {
            line.serialize_entry("footing", &FootingField::from(footing))?;
        }
        if let Some(tiers) = &record.signals {
            line.serialize_entry("signals", &SignalsField::from(tiers))?;
        }
        if let Some(loads) = record.loads {
            line.serialize_entry("loads", &LoadsOut(loads))?;
        }
        let plan = record.plan;
        entries(&mut line, "asks", &plan.requests, |ask| AskLine::from(ask))?;
        entries(&mut line, "notes", &plan.notes, |note| ReasonLine::from(note))?;
        if let Some(reason) = &plan.abort {
            line.serialize_entry("gives_up", &ReasonLine::from(reason))?;
        }
        entries(&mut line, "refused", record.rejected, |refusal| RefusalLine::from(refusal))?;
        entries(&mut line, "outcomes", record.outcomes, |outcome| OutcomeLine::from(outcome))?;
        line.end()
    }
}

/// A list, left out when there is nothing in it.
fn entries<M: SerializeMap, T, L: Serialize>(
    line: &mut M,
    name: &'static str,
    list: &[T],
    of: fn(&T) -> L,
) -> Result<(), M::Error> {
    if list.is_empty() { Ok(()) } else { line.serialize_entry(name, &Through(list, of)) }
}

/// Whether nothing changed.
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

impl<T, L: Serialize> Serialize for Through<'_, T, L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

impl Serialize for CausesOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(cause_out))
    }
}

impl Serialize for NanosOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|time| time.0))
    }
}

impl<T: std::fmt::Display> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for LoadsOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LoadsOut(seen) = self;
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("level", &Word(seen.level))?;
        line.serialize_entry("tier", &Word(seen.loads.tier))?;
        line.serialize_entry("numbers", &seen.numbers)?;
        line.serialize_entry("loads", &seen.loads.loads)?;
        line.serialize_entry("cpu_ns", &NanosOut(&seen.cpu_time))?;
        if !seen.loads.readable {
            line.serialize_entry("unreadable", &true)?;
        }
        line.end()
    }
}

impl From<LoadBasis> for FootingField {
    fn from(footing: LoadBasis) -> Self {
        FootingField { level: footing.level.to_string(), tier: footing.tier.to_string() }
    }
}

impl FootingField {
    pub(crate) fn footing(self) -> Result<LoadBasis, LineError> {
        let level = self.level.parse();
        let level = level.map_err(|_| LineError::value("level", self.level, "level of domains"))?;
        Ok(LoadBasis { level, tier: tier(&self.tier)? })
    }
}

impl From<&Tiers> for SignalsField {
    fn from(tiers: &Tiers) -> Self {
        let of_tasks = tiers.known().map(|(event, tier)| (event.name(), tier));
        let all = of_tasks.chain([("loads", tiers.loads)]);
        SignalsField(all.map(|(name, tier)| (name.to_owned(), tier.to_string())).collect())
    }
}

impl SignalsField {
    /// A event that a later version knows is left out.
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
    fn seen(self) -> Result<LoadSample, LineError> {
        let LoadBasis { level, tier } =
            FootingField { level: self.level, tier: self.tier }.footing()?;
        let loads = DomainLoads { tier, loads: self.loads, readable: !self.unreadable };
        let cpu_time = self.cpu_ns.into_iter().map(Nanos).collect();
        Ok(LoadSample { level, numbers: self.numbers, loads, cpu_time })
    }
}

impl TurnLine {
    pub(crate) fn turn(self) -> Result<RecordedTurn, LineError> {
        let causes = all(self.causes, |name| cause_in(&name))?;
        Ok(RecordedTurn {
            turn: Turn { number: self.n, at: Nanos(self.at_ns), causes },
            sample: self.sample.sample()?,
            footing: self.footing.map(FootingField::footing).transpose()?,
            signals: self.signals.map(SignalsField::tiers).transpose()?,
            loads: self.loads.map(LoadsLine::seen).transpose()?,
            plan: Plan {
                requests: all(self.asks, AskLine::ask)?,
                notes: all(self.notes, ReasonLine::reason)?,
                abort: self.gives_up.map(ReasonLine::reason).transpose()?,
                quiescent: false, // Only a host wants to know, and which turns it left out can be seen.
            },
            refused: all(self.refused, RefusalLine::refusal)?,
            outcomes: all(self.outcomes, OutcomeLine::outcome)?,
        })
    }
}

fn all<L, T>(lines: Vec<L>, of: impl Fn(L) -> Result<T, LineError>) -> Result<Vec<T>, LineError> {
    lines.into_iter().map(of).collect()
}
