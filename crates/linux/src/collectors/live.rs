//! Collectors of a live run: memory controllers, LLC domains, PSI, CPUs.
//!
//! Controllers and LLC domains are sampled in every turn, since loads are computed from them; PSI and the times of
//! CPUs once per second. Sources that cannot be read are reported once.

use std::io;

use sched::Sample;
use topology::Machine;

use super::stream::{paranoid, task_events};
use super::{SHUT_OUT, SystemCollectors};
use crate::perf::{self, PmuGroups};
use crate::source::Live;
use crate::tasks::CounterMode;

/// Collectors of a live run.
#[derive(Debug)]
pub struct LiveCollectors {
    system: SystemCollectors,
    source: Live,
    has_reported_refused: bool,
    has_reported_shut_out: bool,
}

impl LiveCollectors {
    /// Opens the available sources. Returns also the events to count of each task, and notes about sources
    /// that cannot be read.
    pub fn open(machine: &Machine, mode: CounterMode) -> (Self, Vec<PmuGroups>, Vec<String>) {
        let mut source = Live::new("/".as_ref());
        let (system, mut notes) = SystemCollectors::open(&mut source, machine);
        let events = match mode {
            CounterMode::Off => Vec::new(),
            CounterMode::Auto | CounterMode::All => task_events(&mut source, &mut notes),
        };
        let collectors = LiveCollectors {
            system,
            source,
            has_reported_refused: false,
            has_reported_shut_out: false,
        };
        (collectors, events, notes)
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
    pub fn notes(&mut self, refused: Option<&io::Error>, is_shut_out: bool) -> Vec<String> {
        let mut notes = Vec::new();
        let is_new = |reported: &mut bool| !std::mem::replace(reported, true);
        if let Some(error) = refused.filter(|_| is_new(&mut self.has_reported_refused)) {
            let paranoid = paranoid(&mut self.source);
            let why = perf::explain_refusal(error, paranoid, perf::CounterScope::Task);
            notes.push(format!("some tasks are not counted: {why}"));
        }
        if is_shut_out && is_new(&mut self.has_reported_shut_out) {
            notes.push(SHUT_OUT.to_owned());
        }
        notes
    }
}
