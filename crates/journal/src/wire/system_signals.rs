//! Counters by event name, and the signals of the system: cache traffic, CPU times and pressure stalls.

use std::fmt;

use sched::{
    CounterEvent, Counters, CpuTimes, LlcSample, MonGroupSample, Pressure, StallTimes, Traffic,
};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::{Encoded, ReadingField, fields_of};
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
            map.serialize_entry(event.name(), &Encoded::<ReadingField>::encode(&reading))?;
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
                counters.set(event, Encoded::decode(field));
            }
        }
        Ok(CountersField(counters))
    }
}

fields_of! {
    LlcLine for LlcSample {
        llc: u32 = llc,
        #[serde(flatten)]
        traffic: TrafficField = traffic,
    }
}

fields_of! {
    MonGroupLine for MonGroupSample {
        job: u32 = job,
        llc: u32 = llc,
        #[serde(flatten)]
        traffic: TrafficField = traffic,
    }
}

fields_of! {
    TrafficField for Traffic {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        total_bytes: Option<ReadingField> = total_bytes,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        local_bytes: Option<ReadingField> = local_bytes,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        occupancy_bytes: Option<u64> = occupancy,
    }
}

fields_of! {
    CpuLine for CpuTimes {
        cpu: u32 = cpu,
        ran_ns: u64 = ran,
        waited_ns: u64 = waited,
    }
}

fields_of! {
    PressureField for Pressure {
        #[serde(skip_serializing_if = "is_default", default)]
        cpu: StallField = cpu,
        #[serde(skip_serializing_if = "is_default", default)]
        memory: StallField = memory,
        #[serde(skip_serializing_if = "is_default", default)]
        io: StallField = io,
    }
}

fields_of! {
    #[derive(Default)]
    StallField for StallTimes {
        #[serde(skip_serializing_if = "Option::is_none", default)]
        some_ns: Option<u64> = some,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        full_ns: Option<u64> = full,
    }
}
