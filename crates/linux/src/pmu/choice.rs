//! Choice of the hardware events that are counted for each task on a machine.

use std::collections::BTreeMap;

use sched::{CounterEvent, EventKind};

use super::format::{Format, encode};
use super::grouping::in_groups;
use super::uarch::{CpuIdentity, Pmu, Uarch, uarch_of};
use crate::perf::{Attr, Flags, PmuGroups};
use crate::source::{Source, text};

/// Directory of the PMUs in sysfs.
pub(crate) const DEVICES: &str = "sys/bus/event_source/devices";

/// The events that are counted for a task on a machine.
#[derive(Clone, Debug)]
pub struct EventChoice {
    /// The microarchitecture of the processor.
    pub uarch: &'static Uarch,
    /// The groups of each PMU.
    pub chosen: Vec<PmuGroups>,
    /// Events that are not counted, with the reason.
    pub absent: BTreeMap<CounterEvent, String>,
    /// Mode of counting.
    pub flags: Flags,
}

/// Chooses the events of a processor from its microarchitecture and the PMUs in sysfs.
pub fn choose(source: &mut dyn Source, identity: &CpuIdentity, flags: Flags) -> EventChoice {
    let uarch = uarch_of(identity);
    let absent = CounterEvent::ALL.iter().filter_map(|&q| Some((q, uarch.absence_reason(q)?)));
    let mut choice = EventChoice { uarch, chosen: Vec::new(), absent: absent.collect(), flags };
    let devices = source.list(DEVICES).unwrap_or_default();
    let mut n_missing = 0;
    for pmu in &uarch.pmus {
        let chosen = if uarch.is_generic() {
            devices.iter().any(|device| is_core(device)).then(|| generic(pmu, flags))
        } else {
            let device = devices.iter().find(|device| pmu.is_named(device));
            device.map(|device| of_device(source, device, pmu, &mut choice))
        };
        match chosen {
            Some(chosen) => choice.chosen.push(chosen),
            None => n_missing += 1,
        }
    }
    if choice.chosen.is_empty() || n_missing != 0 && uarch.pmus.len() == 1 {
        let reason = "the kernel has no PMU driver for this processor (a virtual machine?)";
        choice.chosen.clear();
        for &event in CounterEvent::ALL.iter().filter(|e| e.source() == EventKind::Hardware) {
            choice.absent.entry(event).or_insert_with(|| reason.to_owned());
        }
    }
    choice
}

/// Returns whether a device is a PMU of cores. The name of this PMU depends on the architecture.
fn is_core(device: &str) -> bool {
    device == "cpu" || device.starts_with("cpu_") || device.starts_with("armv")
}

/// Returns the generic hardware events of the kernel (PERF_TYPE_HARDWARE).
fn generic(pmu: &Pmu, flags: Flags) -> PmuGroups {
    let number = |terms: &str| terms.strip_prefix("generic=").and_then(|text| text.parse().ok());
    let events = pmu.events.iter().filter_map(|(&counted, event)| {
        Some((counted, Attr { kind: 0, config: [number(&event.terms)?, 0, 0], flags }))
    });
    PmuGroups { pmu: pmu.name.clone(), groups: in_groups(events.collect(), pmu) }
}

fn of_device(
    source: &mut dyn Source,
    device: &str,
    pmu: &Pmu,
    choice: &mut EventChoice,
) -> PmuGroups {
    let dir = format!("{DEVICES}/{device}");
    let kind = text(source, &format!("{dir}/type")).ok().and_then(|text| text.parse().ok());
    let format = format_of(source, &dir);
    let mut events = Vec::new();
    for (&counted, event) in &pmu.events {
        if choice.absent.contains_key(&counted) {
            continue;
        }
        match (kind, encode(&event.terms, &format)) {
            (Some(kind), Ok(config)) => {
                events.push((counted, Attr { kind, config, flags: choice.flags }));
            }
            (None, _) => drop(choice.absent.insert(counted, format!("{device} has no type"))),
            (_, Err(error)) => drop(choice.absent.insert(counted, error.to_string())),
        }
    }
    PmuGroups { pmu: device.to_owned(), groups: in_groups(events, pmu) }
}

/// Reads the format of a PMU. Omits malformed terms; [`encode`] rejects events that need these terms.
pub(crate) fn format_of(source: &mut dyn Source, dir: &str) -> Format {
    let mut format = Format::default();
    for term in source.list(&format!("{dir}/format")).unwrap_or_default() {
        if let Ok(line) = text(source, &format!("{dir}/format/{term}")) {
            let _ = format.add(&term, &line);
        }
    }
    format
}
