//! Everything that is measured around tasks, and of tasks, as one look at a source.
//!
//! ```text
//!   Around   controllers, LLC domains, pressure, CPUs     ─┐
//!   Tasks    CPU time, waiting and counters of processes  ─┴─► sched::Sample
//! ```
//!
//! What a machine does not have is found out once, said once, and costs nothing from then on. The
//! same look works on the live kernel and on a recording ([`crate::source::Source`]).

mod live;
mod stream;
mod tasks;

pub use live::LiveCollectors;
pub use stream::{StreamCollectors, choice, counting_rights, identity_of};
pub use tasks::{SHUT_OUT, Tasks};

use base::Bytes;
use sched::{LlcSample, NodeSample, Sample};
use topology::Machine;

use crate::resctrl::MonitoredDomains;
use crate::source::Source;
use crate::uncore::{Uncore, UncoreError};
use crate::{perf, pressure, procfs, schedstat};

/// What is measured around tasks.
#[derive(Debug, Default)]
pub struct SystemCollectors {
    uncore: Option<Uncore>,
    /// The LLC domains that resctrl monitors.
    pub monitored: Option<MonitoredDomains>,
    has_pressure: bool,
    has_schedstat: bool,
    /// Nodes whose free memory is told.
    nodes: Vec<base::NodeId>,
}

impl SystemCollectors {
    /// Finds out what there is. What should be there and cannot be read comes back in words; what
    /// the machine simply does not have does not.
    pub fn open(source: &mut dyn Source, machine: &Machine) -> (Self, Vec<String>) {
        let mut said = Vec::new();
        let uncore = match Uncore::open(source, machine) {
            Ok(uncore) => Some(uncore),
            Err(UncoreError::None) => None,
            Err(error) => {
                said.push(not_counted(source, &error));
                None
            }
        };
        let around = SystemCollectors {
            uncore,
            monitored: MonitoredDomains::find(source, machine),
            has_pressure: pressure::read(source).is_ok(),
            has_schedstat: schedstat::read(source).is_ok_and(|cpus| !cpus.is_empty()),
            nodes: machine.nodes().iter().map(|node| node.id).collect(),
        };
        (around, said)
    }

    /// Whether memory controllers are counted.
    pub fn has_controllers(&self) -> bool {
        self.uncore.is_some()
    }

    /// Reads what loads come from, controllers and caches, into a sample; nodes that the sample has
    /// already get the figures of their controllers.
    pub fn sample_traffic(&mut self, source: &mut dyn Source, sample: &mut Sample) {
        self.controllers(source, sample);
        if let Some(monitored) = &self.monitored {
            let sampled = |(llc, traffic)| LlcSample { llc, traffic };
            sample.llcs = monitored.read(source).into_iter().map(sampled).collect();
        }
    }

    /// Reads pressure and the times of CPUs into a sample.
    pub fn sample_pressure(&mut self, source: &mut dyn Source, sample: &mut Sample) {
        if self.has_pressure {
            sample.pressure = pressure::read(source).ok();
        }
        if self.has_schedstat {
            sample.cpus = schedstat::read(source).unwrap_or_default();
        }
    }

    /// Reads the free memory of every node.
    pub fn free_memory(&self, source: &mut dyn Source, sample: &mut Sample) {
        for &node in &self.nodes {
            let path = format!("sys/devices/system/node/node{}/meminfo", node.0);
            let free = source.file(&path).ok().and_then(|text| procfs::parse_node_free(&text));
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
            of_node.read_bytes = traffic.read_bytes;
            of_node.written_bytes = traffic.written_bytes;
        }
    }

    /// Closes what is open.
    pub fn close(&mut self, source: &mut dyn Source) {
        if let Some(mut uncore) = self.uncore.take() {
            uncore.close(source);
        }
    }
}

/// A node's place in a sample.
fn of_node(sample: &mut Sample, node: base::NodeId) -> &mut NodeSample {
    let idx = sample.nodes.iter().position(|known| known.node == node);
    let idx = idx.unwrap_or_else(|| {
        sample.nodes.push(NodeSample {
            node,
            memory_free: None,
            memory_reclaimable: None,
            controller_ops: None,
            counter_bits: 64,
            read_bytes: None,
            written_bytes: None,
        });
        sample.nodes.len() - 1
    });
    &mut sample.nodes[idx]
}

/// In one line, with what would help.
fn not_counted(source: &mut dyn Source, error: &UncoreError) -> String {
    let UncoreError::Open { unit, cpu, source: refused } = error else {
        return format!("memory controllers are not counted: {error}");
    };
    let paranoid = crate::source::text(source, "proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.ok().and_then(|text| text.parse().ok());
    let why = perf::explain_refusal(refused, paranoid, perf::CounterScope::Cpu);
    format!("memory controllers are not counted ({unit} on cpu {cpu}): {why}")
}
