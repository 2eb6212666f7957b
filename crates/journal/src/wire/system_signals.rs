//! Counters by event name, and the signals of the system: cache traffic, CPU times and pressure stalls.

use std::fmt;

use base::{Bytes, CpuId, JobId, LlcId, Nanos};
use sched::{
    CounterEvent, Counters, CpuTimes, LlcSample, MonGroupSample, Pressure, StallTimes, Traffic,
};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::ReadingField;
use super::is_default;

/// `{"cycles": [7, 20], "llc-misses": [5, 20, 10]}`: raw counters by event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CountersField(pub Counters);

impl CountersField {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for CountersField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (event, reading) in self.0.iter() {
            map.serialize_entry(event.name(), &ReadingField::from(reading))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for CountersField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByName)
    }
}

struct ByName;

impl<'de> Visitor<'de> for ByName {
    type Value = CountersField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counters by event name")
    }

    /// An unknown event is ignored.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CountersField, A::Error> {
        let mut counters = Counters::NONE;
        while let Some((name, field)) = map.next_entry::<String, ReadingField>()? {
            if let Some(event) = CounterEvent::of_name(&name) {
                counters.set(event, field.into());
            }
        }
        Ok(CountersField(counters))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LlcLine {
    pub llc: u32,
    #[serde(flatten)]
    pub traffic: TrafficField,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MonGroupLine {
    pub job: u32,
    pub llc: u32,
    #[serde(flatten)]
    pub traffic: TrafficField,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrafficField {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total_bytes: Option<ReadingField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub local_bytes: Option<ReadingField>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub occupancy_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CpuLine {
    pub cpu: u32,
    pub ran_ns: u64,
    pub waited_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PressureField {
    #[serde(skip_serializing_if = "is_default", default)]
    pub cpu: StallField,
    #[serde(skip_serializing_if = "is_default", default)]
    pub memory: StallField,
    #[serde(skip_serializing_if = "is_default", default)]
    pub io: StallField,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StallField {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub some_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub full_ns: Option<u64>,
}

impl From<Traffic> for TrafficField {
    fn from(traffic: Traffic) -> Self {
        TrafficField {
            total_bytes: traffic.total_bytes.map(Into::into),
            local_bytes: traffic.local_bytes.map(Into::into),
            occupancy_bytes: traffic.occupancy.map(|bytes| bytes.0),
        }
    }
}

impl From<TrafficField> for Traffic {
    fn from(field: TrafficField) -> Self {
        Traffic {
            total_bytes: field.total_bytes.map(Into::into),
            local_bytes: field.local_bytes.map(Into::into),
            occupancy: field.occupancy_bytes.map(Bytes),
        }
    }
}

impl From<&LlcSample> for LlcLine {
    fn from(sample: &LlcSample) -> Self {
        LlcLine { llc: sample.llc.0, traffic: sample.traffic.into() }
    }
}

impl From<LlcLine> for LlcSample {
    fn from(line: LlcLine) -> Self {
        LlcSample { llc: LlcId(line.llc), traffic: line.traffic.into() }
    }
}

impl From<&MonGroupSample> for MonGroupLine {
    fn from(sample: &MonGroupSample) -> Self {
        MonGroupLine { job: sample.job.0, llc: sample.llc.0, traffic: sample.traffic.into() }
    }
}

impl From<MonGroupLine> for MonGroupSample {
    fn from(line: MonGroupLine) -> Self {
        MonGroupSample { job: JobId(line.job), llc: LlcId(line.llc), traffic: line.traffic.into() }
    }
}

impl From<&CpuTimes> for CpuLine {
    fn from(times: &CpuTimes) -> Self {
        CpuLine { cpu: times.cpu.0, ran_ns: times.ran.0, waited_ns: times.waited.0 }
    }
}

impl From<CpuLine> for CpuTimes {
    fn from(line: CpuLine) -> Self {
        CpuTimes { cpu: CpuId(line.cpu), ran: Nanos(line.ran_ns), waited: Nanos(line.waited_ns) }
    }
}

impl From<&Pressure> for PressureField {
    fn from(pressure: &Pressure) -> Self {
        let field = |times: StallTimes| StallField {
            some_ns: times.some.map(|time| time.0),
            full_ns: times.full.map(|time| time.0),
        };
        PressureField {
            cpu: field(pressure.cpu),
            memory: field(pressure.memory),
            io: field(pressure.io),
        }
    }
}

impl From<PressureField> for Pressure {
    fn from(field: PressureField) -> Self {
        let times = |field: StallField| StallTimes {
            some: field.some_ns.map(Nanos),
            full: field.full_ns.map(Nanos),
        };
        Pressure { cpu: times(field.cpu), memory: times(field.memory), io: times(field.io) }
    }
}
