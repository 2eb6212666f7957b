//! Samples of the system and of tasks, through a [`Source`].
//!
//! ```text
//!   SystemCollectors   memory controllers, LLC domains, PSI, CPUs    ─┐
//!   TaskReader         CPU time, wait time and counters of tasks     ─┴─► sched::Sample
//! ```
//!
//! A missing source is detected and reported once, and is not read again. The same code reads the live kernel and
//! recordings.

mod stream;

pub(crate) use stream::paranoid;
use stream::task_events;
pub use stream::{StreamCollectors, choice, counting_rights, identity_of};

use base::Bytes;
use sched::{LlcSample, NodeSample, Sample};
use topology::Machine;

use crate::memory::parse_node_meminfo;
use crate::perf::PmuGroups;
use crate::resctrl::MonitoredDomains;
use crate::source::{Live, Source};
use crate::tasks::{CounterMode, TaskCounters};
use crate::uncore::{Uncore, UncoreError};
use crate::{perf, pressure, schedstat};

/// Collectors of system-wide signals.
#[derive(Debug, Default)]
pub struct SystemCollectors {
    uncore: Option<Uncore>,
    /// The LLC domains that resctrl monitors.
    pub monitored: Option<MonitoredDomains>,
    has_pressure: bool,
    has_schedstat: bool,
    /// Nodes whose free memory is sampled.
    nodes: Vec<base::NodeId>,
}

impl SystemCollectors {
    /// Detects the available sources. Returns a note for each source that exists but cannot be read.
    pub fn open(source: &mut dyn Source, machine: &Machine) -> (Self, Vec<String>) {
        let mut notes = Vec::new();
        let uncore = match Uncore::open(source, machine) {
            Ok(uncore) => Some(uncore),
            Err(UncoreError::None) => None,
            Err(error) => {
                notes.push(not_counted(source, &error));
                None
            }
        };
        let system = SystemCollectors {
            uncore,
            monitored: MonitoredDomains::find(source, machine),
            has_pressure: pressure::read(source).is_ok(),
            has_schedstat: schedstat::read(source).is_ok_and(|cpus| !cpus.is_empty()),
            nodes: machine.nodes().iter().map(|node| node.id).collect(),
        };
        (system, notes)
    }

    /// Adds the traffic of memory controllers and LLC domains to a sample.
    pub fn sample_traffic(&mut self, source: &mut dyn Source, sample: &mut Sample) {
        self.controllers(source, sample);
        if let Some(monitored) = &self.monitored {
            let sampled = |(llc, traffic)| LlcSample { llc, traffic };
            sample.llcs = monitored.read(source).into_iter().map(sampled).collect();
        }
    }

    /// Adds PSI and the times of CPUs to a sample.
    pub fn sample_pressure(&mut self, source: &mut dyn Source, sample: &mut Sample) {
        if self.has_pressure {
            sample.pressure = pressure::read(source).ok();
        }
        if self.has_schedstat {
            sample.cpus = schedstat::read(source).unwrap_or_default();
        }
    }

    /// Adds the free memory of every node to a sample.
    pub fn free_memory(&self, source: &mut dyn Source, sample: &mut Sample) {
        for &node in &self.nodes {
            let path = format!("sys/devices/system/node/node{}/meminfo", node.0);
            let meminfo = source.file(&path).ok();
            let free = meminfo.and_then(|text| parse_node_meminfo(&text)).map(|node| node.free);
            if let Some(free) = free {
                of_node(sample, node).memory_free = Some(Bytes(free));
            }
        }
    }

    fn controllers(&mut self, source: &mut dyn Source, sample: &mut Sample) {
        let Some(uncore) = &mut self.uncore else { return };
        for (&node, traffic) in uncore.read(source) {
            let of_node = of_node(sample, node);
            of_node.controller_ops = traffic.ops;
            of_node.counter_bits = if traffic.ops.is_some() { 64 } else { 0 };
            of_node.read_bytes = traffic.read_bytes;
            of_node.written_bytes = traffic.written_bytes;
        }
    }
}

/// Collectors of a live run. Controllers and LLC domains are sampled in every turn, because loads are computed from
/// these samples. PSI and the times of CPUs are sampled once per second.
#[derive(Debug)]
pub struct LiveCollectors {
    system: SystemCollectors,
    source: Live,
    counter_notes: CounterNotes,
}

impl LiveCollectors {
    /// Opens the available sources. Also returns the events to count for each task, and notes about unreadable sources.
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

    /// Returns the new notes about tasks that are not counted. Each note is returned once.
    pub fn notes(&mut self, counters: &mut TaskCounters) -> Vec<String> {
        self.counter_notes.take(&mut self.source, counters)
    }
}

/// The kinds of notes that were returned before.
#[derive(Debug, Default)]
struct CounterNotes {
    has_reported_rejection: bool,
    has_reported_occupied: bool,
}

/// The note about a counter group that was enabled but that the kernel never scheduled.
const OCCUPIED: &str = "another profiler occupies the hardware counters: the signals that need them are absent; \
    stop the profiler, or free one counter with sysctl kernel.nmi_watchdog=0";

impl CounterNotes {
    /// Returns the notes that were not returned before.
    fn take(&mut self, source: &mut dyn Source, counters: &mut TaskCounters) -> Vec<String> {
        let mut notes = Vec::new();
        let is_new = |reported: &mut bool| !std::mem::replace(reported, true);
        let rejected = counters.rejected.take();
        if let Some(error) = rejected.filter(|_| is_new(&mut self.has_reported_rejection)) {
            let cause =
                perf::explain_open_error(&error, paranoid(source), perf::CounterScope::Task);
            notes.push(format!("some tasks are not counted: {cause}"));
        }
        if std::mem::take(&mut counters.is_occupied) && is_new(&mut self.has_reported_occupied) {
            notes.push(OCCUPIED.to_owned());
        }
        notes
    }
}

/// Returns the entry of a node in a sample. Adds a missing entry.
fn of_node(sample: &mut Sample, node: base::NodeId) -> &mut NodeSample {
    let idx = sample.nodes.iter().position(|known| known.node == node);
    let idx = idx.unwrap_or_else(|| {
        sample.nodes.push(NodeSample::new(node));
        sample.nodes.len() - 1
    });
    &mut sample.nodes[idx]
}

/// Returns the note about memory controllers that are not counted, with the remedy.
fn not_counted(source: &mut dyn Source, error: &UncoreError) -> String {
    let UncoreError::Open { unit, cpu, source: rejected } = error else {
        return format!("memory controllers are not counted: {error}");
    };
    let cause = perf::explain_open_error(rejected, paranoid(source), perf::CounterScope::Cpu);
    format!("memory controllers are not counted ({unit} on CPU {cpu}): {cause}")
}
