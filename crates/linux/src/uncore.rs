//! Memory controller counters, per node.
//!
//! ```text
//!   /sys/bus/event_source/devices/uncore_imc_2/
//!     type 14   cpumask 0,36   format/event config:0-7 …   events/cas_count_read event=0x04,umask=0x03
//!                  │                                       events/cas_count_read.scale 6.103515625e-5 (MiB)
//!                  └─ one CPU of each package: its counter counts for its node
//! ```
//!
//! Device N represents controller N of every package. A counter is assigned to the node of the CPU on which it is
//! opened. If a package has several nodes (sub-NUMA clustering, NPS 2 or 4), all controllers of the package are read on
//! one CPU, and the node of each controller is unknown. On such a machine the controllers are not counted, because the
//! values of the nodes would be wrong.
//!
//! The kernel extends the 48 bits of the hardware to 64, so the values wrap at 64 bits.

use std::collections::BTreeMap;
use std::io;

use base::{CpuId, CpuSet, LINE_BYTES, NodeId};
use sched::RawCounter;
use topology::{Machine, Node};

use crate::perf::{Attr, CounterGroup, CounterTarget, Flags, GROUP_BUFFER, GroupSpec, read_group};
use crate::pmu::{DEVICES, encode, format_of};
use crate::source::{Source, text};

/// The open controllers of a machine.
#[derive(Debug, Default)]
pub struct Uncore {
    devices: Vec<ControllerDevice>,
    nodes: BTreeMap<NodeId, NodeTraffic>,
    /// The counted devices, for example `6 units, uncore_imc_0 to uncore_imc_5`.
    pub description: String,
}

/// One controller of one package.
#[derive(Debug)]
struct ControllerDevice {
    node: NodeId,
    group: CounterGroup,
    /// Id and direction of each counter.
    counters: Vec<(u64, Direction)>,
}

/// Direction of the transfers that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Reads,
    Writes,
    Both,
}

/// Traffic of the controllers of a node: sums of raw counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// Cache lines read and written.
    pub ops: Option<RawCounter>,
    /// Bytes read.
    pub read_bytes: Option<RawCounter>,
    /// Bytes written.
    pub written_bytes: Option<RawCounter>,
}

/// A type of controller: the name of its devices, and its events.
struct ControllerType {
    /// Name of a device, without a number.
    device: &'static str,
    /// Names of events in sysfs, or terms if the driver has no named events.
    reads: &'static [&'static str],
    writes: &'static [&'static str],
    /// Events that count reads and writes of one channel together.
    channels: &'static [&'static str],
}

/// Types of controllers. The first type that has a device on the machine is used. Further types would count the
/// same transfers again.
///
/// Sources: Documentation/ABI and the `events` directories of the Intel drivers. The AMD drivers have no named events.
/// The AMD events are from tools/perf/pmu-events/arch/x86/amdzen4/memory-controller.json (`umc_cas_cmd`), and before
/// Zen 4 `dram_channel_data_controller_0` to `_7` of the data fabric (as built into perf 6.1).
const CONTROLLER_TYPES: &[ControllerType] = &[
    ControllerType {
        device: "uncore_imc_",
        reads: &["cas_count_read"],
        writes: &["cas_count_write"],
        channels: &[],
    },
    ControllerType {
        device: "uncore_imc_free_running_",
        reads: &["data_read", "read"],
        writes: &["data_write", "write"],
        channels: &[],
    },
    ControllerType {
        device: "uncore_imc",
        reads: &["data_reads"],
        writes: &["data_writes"],
        channels: &[],
    },
    ControllerType {
        device: "amd_umc_",
        reads: &["event=0x0a,rdwrmask=0x1"],
        writes: &["event=0x0a,rdwrmask=0x2"],
        channels: &[],
    },
    ControllerType {
        device: "amd_df",
        reads: &[],
        writes: &[],
        channels: &[
            "event=0x7,umask=0x38",
            "event=0x47,umask=0x38",
            "event=0x87,umask=0x38",
            "event=0xc7,umask=0x38",
            "event=0x107,umask=0x38",
            "event=0x147,umask=0x38",
            "event=0x187,umask=0x38",
            "event=0x1c7,umask=0x38",
        ],
    },
];

/// Returns whether the unit mask of the data fabric has more than eight bits (Zen 4 and later). In this case its
/// channels have other events.
///
/// Source: arch/x86/events/amd/uncore.c of the kernel: `umask` is `config:8-15` and, from version 2 of the performance
/// monitors on, `config:8-15,24-27`.
fn has_wide_mask(source: &mut dyn Source, dir: &str) -> bool {
    text(source, &format!("{dir}/format/umask")).is_ok_and(|bits| bits.contains(','))
}

/// Devices of controllers without known events.
const UNSUPPORTED: &[&str] = &["arm_dmc620", "arm_cmn", "hisi_sccl", "ampere_mcu", "nvidia_scf"];

/// Cause why memory controllers are not counted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message is the documentation")]
pub enum UncoreError {
    #[error("the kernel has no PMU driver for memory controllers")]
    None,
    #[error(
        "the events of {0} are not supported; the traffic of LLC domains needs a mounted resctrl"
    )]
    Unsupported(String),
    #[error(
        "the controllers of a package with several nodes (sub-NUMA clustering) are read on one CPU, {cpu}: they \
         are not counted"
    )]
    SubNuma { cpu: CpuId },
    #[error("cannot count {unit} on CPU {cpu}")]
    Open { unit: String, cpu: u32, source: io::Error },
    #[error("{unit}: {problem}")]
    Format { unit: String, problem: String },
}

impl Uncore {
    /// Opens the controllers of the machine.
    ///
    /// # Errors
    /// The machine has no known controllers, or they cannot be counted. After an error, no
    /// descriptor remains open.
    pub fn open(source: &mut dyn Source, machine: &Machine) -> Result<Self, UncoreError> {
        let devices = source.list(DEVICES).unwrap_or_default();
        for kind in CONTROLLER_TYPES {
            let mut uncore = Uncore::default();
            let mut names = Vec::new();
            for device in devices.iter().filter(|name| kind.has(name)) {
                if uncore.open_device(source, device, kind, machine)? {
                    names.push(device.clone());
                }
            }
            if !uncore.devices.is_empty() {
                uncore.description = describe(names);
                return uncore.checked(machine);
            }
        }
        let is_unsupported = |name: &String| UNSUPPORTED.iter().any(|s| name.starts_with(s));
        let unsupported = devices.into_iter().find(is_unsupported);
        Err(unsupported.map_or(UncoreError::None, UncoreError::Unsupported))
    }

    /// Opens a device on each CPU of its `cpumask`. Returns whether the device has the events of the type.
    fn open_device(
        &mut self,
        source: &mut dyn Source,
        device: &str,
        kind: &ControllerType,
        machine: &Machine,
    ) -> Result<bool, UncoreError> {
        let Some(events) = device_events(source, device, kind)? else { return Ok(false) };
        let mask = text(source, &format!("{DEVICES}/{device}/cpumask")).unwrap_or_default();
        let cpus: CpuSet =
            mask.parse().map_err(|_| format_error(device, "the cpumask is not a CPU list"))?;
        for cpu in cpus.iter() {
            let Some(node) = machine.cpu(cpu).and_then(|cpu| cpu.node) else { continue };
            // The fabric has fewer counters than channels, so each channel is a separate group and the groups are
            // multiplexed.
            let size = if kind.channels.is_empty() { events.len() } else { 1 };
            for group in events.chunks(size.max(1)) {
                let attrs = group.iter().map(|(_, event)| event.clone()).collect();
                let spec = GroupSpec { target: CounterTarget::Cpu(cpu.0), events: attrs };
                let opened = source.open(&spec).map_err(|error| UncoreError::Open {
                    unit: device.to_owned(),
                    cpu: cpu.0,
                    source: error,
                })?;
                let directions = group.iter().map(|(direction, _)| *direction);
                let counters = opened.ids.iter().copied().zip(directions).collect();
                self.devices.push(ControllerDevice { node, group: opened, counters });
            }
        }
        Ok(true)
    }

    /// Fails if a node with CPUs has no controllers.
    fn checked(self, machine: &Machine) -> Result<Self, UncoreError> {
        let is_counted = |node: NodeId| self.devices.iter().any(|device| device.node == node);
        let is_missing = |node: &&Node| !node.cpus.is_empty() && !is_counted(node.id);
        match machine.nodes().iter().find(is_missing).and_then(|node| node.cpus.first()) {
            None => Ok(self),
            Some(cpu) => Err(UncoreError::SubNuma { cpu }),
        }
    }

    /// Reads all controllers. The traffic of a node is absent if one of its controllers cannot be read.
    pub fn read(&mut self, source: &mut dyn Source) -> &BTreeMap<NodeId, NodeTraffic> {
        self.nodes.clear();
        let mut unreadable = Vec::new();
        for device in &self.devices {
            match device.read(source) {
                Some(traffic) => {
                    let sum = self.nodes.entry(device.node).or_default();
                    sum.ops = plus(sum.ops, traffic.ops);
                    sum.read_bytes = plus(sum.read_bytes, traffic.read_bytes);
                    sum.written_bytes = plus(sum.written_bytes, traffic.written_bytes);
                }
                None => unreadable.push(device.node),
            }
        }
        for node in unreadable {
            self.nodes.insert(node, NodeTraffic::default());
        }
        &self.nodes
    }
}

/// The events of a device with their directions.
type DeviceEvents = Vec<(Direction, (String, Attr))>;

fn device_events(
    source: &mut dyn Source,
    device: &str,
    kind: &ControllerType,
) -> Result<Option<DeviceEvents>, UncoreError> {
    let dir = format!("{DEVICES}/{device}");
    let number = text(source, &format!("{dir}/type")).ok().and_then(|t| t.parse().ok());
    let number = number.ok_or_else(|| format_error(device, "the type is missing"))?;
    let format = format_of(source, &dir);
    if !kind.channels.is_empty() && has_wide_mask(source, &dir) {
        return Err(UncoreError::Unsupported(format!("{device} from Zen 4 on")));
    }
    let mut terms_of: Vec<(Direction, &str, String)> = Vec::new();
    terms_of.extend(kind.channels.iter().map(|t| (Direction::Both, "channel", (*t).to_owned())));
    if kind.channels.is_empty() {
        for (direction, name, names) in
            [(Direction::Reads, "reads", kind.reads), (Direction::Writes, "writes", kind.writes)]
        {
            let Some(terms) = terms(source, &dir, names) else { return Ok(None) };
            terms_of.push((direction, name, terms));
        }
    }
    let event = |(direction, name, terms): (Direction, &str, String)| {
        let config =
            encode(&terms, &format).map_err(|error| format_error(device, &error.to_string()))?;
        let attr = Attr { kind: number, config, flags: Flags::default() };
        Ok((direction, (name.to_owned(), attr)))
    };
    terms_of.into_iter().map(event).collect::<Result<_, _>>().map(Some)
}

fn format_error(device: &str, problem: &str) -> UncoreError {
    UncoreError::Format { unit: device.to_owned(), problem: problem.to_owned() }
}

impl ControllerType {
    fn has(&self, device: &str) -> bool {
        let suffix = device.strip_prefix(self.device);
        suffix.is_some_and(|suffix| {
            suffix.bytes().all(|byte| byte.is_ascii_digit())
                && (suffix.is_empty() != self.device.ends_with('_'))
        })
    }
}

/// Returns the terms of the first event that the device has. A name that contains `=` consists of terms.
fn terms(source: &mut dyn Source, dir: &str, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match name.contains('=') {
        true => Some((*name).to_owned()),
        false => text(source, &format!("{dir}/events/{name}")).ok(),
    })
}

impl ControllerDevice {
    /// Returns the sums of the counters of a controller; `None` if one of the counters cannot be read.
    fn read(&self, source: &mut dyn Source) -> Option<NodeTraffic> {
        let mut buffer = GROUP_BUFFER;
        let group = read_group(source.group(&self.group, &mut buffer).ok()?).ok()?;
        let mut traffic = NodeTraffic::default();
        for (idx, (id, direction)) in self.counters.iter().enumerate() {
            let lines = group.counter(*id, idx).filter(|lines| !lines.never_ran())?;
            let bytes = RawCounter { value: lines.value.wrapping_mul(LINE_BYTES), ..lines };
            traffic.ops = plus(traffic.ops, Some(lines));
            match direction {
                Direction::Reads => traffic.read_bytes = Some(bytes),
                Direction::Writes => traffic.written_bytes = Some(bytes),
                Direction::Both => {}
            }
        }
        Some(traffic)
    }
}

fn plus(one: Option<RawCounter>, other: Option<RawCounter>) -> Option<RawCounter> {
    one.map_or(other, |one| Some(other.map_or(one, |other| one.plus(other))))
}

/// Returns the devices of memory controllers, including devices without known events, for example `6 units,
/// uncore_imc_0 to uncore_imc_5`. Returns an empty text if there are no devices.
pub fn describe_devices(source: &mut dyn Source) -> String {
    let known = CONTROLLER_TYPES.iter().map(|kind| kind.device.trim_end_matches('_'));
    let prefixes: Vec<&str> = known.chain(UNSUPPORTED.iter().copied()).collect();
    let mut names = source.list(DEVICES).unwrap_or_default();
    names.retain(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
    // Only the DDR controllers of this interconnect access memory.
    names.retain(|name| !name.starts_with("hisi_sccl") || name.contains("ddrc"));
    describe(names)
}

fn describe(mut names: Vec<String>) -> String {
    names.sort_unstable_by_key(|name| (name.len(), name.clone())); // imc_2 is sorted before imc_10.
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first, .., last] => format!("{} units, {first} to {last}", names.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testing::FakeSource;

    /// Creates controllers with this cpumask and these further files.
    fn controllers(devices: &[&str], cpumask: &str, more: &[(&str, &str)]) -> FakeSource {
        let mut source = FakeSource::default();
        for device in devices {
            for (name, text) in [("type", "14"), ("cpumask", cpumask)].iter().chain(more) {
                source.write(format!("{DEVICES}/{device}/{name}"), *text);
            }
        }
        source
    }

    const IMC: &[(&str, &str)] = &[
        ("format/event", "config:0-7"),
        ("format/umask", "config:8-15"),
        ("events/cas_count_read", "event=0x04,umask=0x03"),
        ("events/cas_count_write", "event=0x04,umask=0x0c"),
    ];

    fn open(source: &mut FakeSource) -> Result<String, String> {
        let machine = Machine::synthetic("nodes=2 llcs=1 cores=2").expect("two nodes");
        match Uncore::open(source, &machine) {
            Ok(uncore) => Ok(uncore.description.clone()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn controllers_are_counted_on_a_cpu_of_their_node() {
        let mut source = controllers(&["uncore_imc_0", "uncore_imc_1"], "0,2", IMC);
        assert_eq!(open(&mut source), Ok("2 units, uncore_imc_0 to uncore_imc_1".to_owned()));
        assert_eq!(source.n_events, [2; 4]);
    }

    #[test]
    fn controllers_of_several_nodes_on_one_cpu_are_not_counted() {
        let mut source = controllers(&["uncore_imc_0"], "0", IMC);
        assert!(open(&mut source).is_err_and(|error| error.contains("sub-NUMA clustering")));
        assert_eq!(source.n_events.len(), 1);
    }

    #[test]
    fn data_fabric_channels_are_multiplexed_before_zen_4_and_unsupported_from_zen_4_on() {
        let with = |umask| [("format/event", "config:0-7,32-35,59-60"), ("format/umask", umask)];
        let mut source = controllers(&["amd_df"], "0,2", &with("config:8-15"));
        assert_eq!(open(&mut source), Ok("amd_df".to_owned()));
        assert_eq!(source.n_events, [1; 16]);
        let mut source = controllers(&["amd_df"], "0,2", &with("config:8-15,24-27"));
        assert!(open(&mut source).is_err_and(|error| error.contains("Zen 4")));
    }
}
