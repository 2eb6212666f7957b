//! What is measured around the jobs of a live run: memory controllers, caches, pressure, CPUs.
//!
//! What the machine does not have is found out at the start and costs nothing from then on. Controllers
//! and caches are read in every look, since loads come from them; pressure and the times of CPUs once a
//! second, which is what they are good for. What is refused is said once.

use std::io;

use sched::Sample;
use topology::Machine;

use super::{SHUT_OUT, SystemCollectors, counting_rights, identity_of};
use crate::perf::{self, PmuGroups};
use crate::source::{Live, text};
use crate::tasks::CounterMode;

/// What is measured around jobs.
#[derive(Debug)]
pub struct LiveCollectors {
    around: SystemCollectors,
    source: Live,
    said_refused: bool,
    said_shut_out: bool,
}

impl LiveCollectors {
    /// Opens what there is; tells what is to be counted of each task, and what cannot be had.
    pub fn open(machine: &Machine, wish: CounterMode) -> (Self, Vec<PmuGroups>, Vec<String>) {
        let mut source = Live::new("/".as_ref());
        let (around, mut said) = SystemCollectors::open(&mut source, machine);
        let chosen = match wish {
            CounterMode::Off => Vec::new(),
            CounterMode::Auto | CounterMode::All => chosen(&mut source, &mut said),
        };
        let senses = LiveCollectors { around, source, said_refused: false, said_shut_out: false };
        (senses, chosen, said)
    }

    /// Reads what loads come from into a sample.
    pub fn sample(&mut self, sample: &mut Sample) {
        self.around.sample_traffic(&mut self.source, sample);
    }

    /// Reads the rest.
    pub fn sample_pressure(&mut self, sample: &mut Sample) {
        self.around.sample_pressure(&mut self.source, sample);
    }

    /// What is to be said of tasks that are not counted, once each.
    pub fn notes(&mut self, refused: Option<&io::Error>, is_shut_out: bool) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(error) = refused.filter(|_| !std::mem::replace(&mut self.said_refused, true)) {
            let paranoid = text(&mut self.source, "proc/sys/kernel/perf_event_paranoid");
            let paranoid = paranoid.ok().and_then(|text| text.parse().ok());
            let why = perf::explain_refusal(error, paranoid, perf::CounterScope::Task);
            said.push(format!("some tasks are not counted: {why}"));
        }
        if is_shut_out && !std::mem::replace(&mut self.said_shut_out, true) {
            said.push(SHUT_OUT.to_owned());
        }
        said
    }
}

/// What is counted of each task.
fn chosen(source: &mut Live, said: &mut Vec<String>) -> Vec<PmuGroups> {
    let flags = match counting_rights(source) {
        Ok(flags) => flags,
        Err(why) => {
            said.push(format!("tasks are not counted: {why}"));
            return Vec::new();
        }
    };
    let identity = identity_of(source);
    let mut chosen = perf::choose(source, &identity, flags).chosen;
    chosen.push(perf::software(flags));
    chosen
}
