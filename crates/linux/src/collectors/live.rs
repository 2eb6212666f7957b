//! Collectors of a live run: memory controllers, LLC domains, PSI, CPUs.
//!
//! Controllers and LLC domains are sampled in every turn, because loads are computed from them; PSI and the times of
//! CPUs once per second. Sources that cannot be read are reported once.

use sched::Sample;
use topology::Machine;

use super::stream::task_events;
use super::{CounterNotes, SystemCollectors};
use crate::perf::PmuGroups;
use crate::source::Live;
use crate::tasks::{CounterMode, TaskCounters};

/// Collectors of a live run.
#[derive(Debug)]
pub struct LiveCollectors {
    system: SystemCollectors,
    source: Live,
    counter_notes: CounterNotes,
}

impl LiveCollectors {
    /// Opens the available sources. Returns also the events to count of each task, and notes about sources
    /// that cannot be read.
    pub fn open(machine: &Machine, mode: CounterMode) -> (Self, Vec<PmuGroups>, Vec<String>) {
        let mut source = Live::default();
        let (system, mut notes) = SystemCollectors::open(&mut source, machine);
        let events = match mode {
            CounterMode::Off => Vec::new(),
            CounterMode::Auto | CounterMode::All => task_events(&mut source, &mut notes),
        };
        let counter_notes = CounterNotes::default();
        (LiveCollectors { system, source, counter_notes }, events, notes)
    }

    /// Adds the traffic of memory controllers and LLC domains to a sample.
    pub fn sample(&mut self, sample: &mut Sample) {
        self.system.sample_traffic(&mut self.source, sample);
    }

    /// Adds PSI and the times of CPUs to a sample.
    pub fn sample_pressure(&mut self, sample: &mut Sample) {
        self.system.sample_pressure(&mut self.source, sample);
    }

    /// Notes about tasks that are not counted, once each.
    pub fn notes(&mut self, counters: &mut TaskCounters) -> Vec<String> {
        self.counter_notes.take(&mut self.source, counters)
    }
}
