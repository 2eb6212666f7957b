//! Memory controllers: what they read and wrote, per node.
//!
//! ```text
//!   /sys/bus/event_source/devices/uncore_imc_2/
//!     type 14   cpumask 0,36   format/event config:0-7 …   events/cas_count_read event=0x04,umask=0x03
//!                  │                                       events/cas_count_read.scale 6.103515625e-5 (MiB)
//!                  └─ one CPU of each package: a counter is opened there, and counts for its node
//! ```
//!
//! A device stands for the controllers of that number in every package. Its counter belongs to the
//! node of the CPU that it is opened on. **Several nodes in one package** (sub-NUMA clustering, NPS
//! 2 or 4): all controllers of the package are read on one CPU, so all would count for that CPU's
//! node, and nothing tells which of them serves which node. Then nothing is told of any node of
//! that machine, rather than something wrong.
//!
//! The kernel extends the hardware's 48 bits to 64, so that what is read here wraps at 64.

use std::collections::BTreeMap;
use std::io;

use base::{CpuId, CpuSet, NodeId};
use sched::CounterReading;
use topology::Machine;

use crate::perf::{Attr, CounterTarget, DEVICES, Flags, GroupSpec, encode, format_of, read_group};
use crate::source::{Source, text};

/// What one operation of a controller moves: a cache line.
const LINE_BYTES: u64 = 64;

/// The controllers of a machine, open.
#[derive(Debug, Default)]
pub struct Uncore {
    units: Vec<Unit>,
    nodes: BTreeMap<NodeId, NodeTraffic>,
    /// What is counted, in words: `6 units, uncore_imc_0 to uncore_imc_5`.
    pub what: String,
}

/// One controller of one package.
#[derive(Debug)]
struct Unit {
    node: NodeId,
    nr: u32,
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

/// The controllers of a node: sums over its raw counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// Cache lines read and written.
    pub ops: Option<CounterReading>,
    /// Bytes read.
    pub read_bytes: Option<CounterReading>,
    /// Bytes written.
    pub written_bytes: Option<CounterReading>,
}

/// A way in which controllers count: devices by name, and their events for reads and writes.
struct Way {
    /// What devices are called; a number may follow.
    device: &'static str,
    /// Names of events in sysfs, or terms where the driver shows no events.
    reads: &'static [&'static str],
    writes: &'static [&'static str],
    /// Where reads and writes are counted together: the events of each channel, each on its own.
    channels: &'static [&'static str],
}

/// The first way that a machine has is taken: the others count the same lines again.
///
/// Sources: Documentation/ABI and the `events` folders of the Intel drivers; for AMD, whose driver
/// shows no events, tools/perf/pmu-events/arch/x86: amdzen4/memory-controller.json (`umc_cas_cmd`), and
/// before Zen 4 `dram_channel_data_controller_0` to `_7` of the data fabric (as built into perf 6.1).
const WAYS: &[Way] = &[
    Way {
        device: "uncore_imc_",
        reads: &["cas_count_read"],
        writes: &["cas_count_write"],
        channels: &[],
    },
    Way {
        device: "uncore_imc_free_running_",
        reads: &["data_read", "read"],
        writes: &["data_write", "write"],
        channels: &[],
    },
    Way { device: "uncore_imc", reads: &["data_reads"], writes: &["data_writes"], channels: &[] },
    Way {
        device: "amd_umc_",
        reads: &["event=0x0a,rdwrmask=0x1"],
        writes: &["event=0x0a,rdwrmask=0x2"],
        channels: &[],
    },
    Way {
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

/// Whether a data fabric is one from Zen 4 on, whose channels have other events: its unit mask has more than
/// eight bits there.
///
/// Source: arch/x86/events/amd/uncore.c of the kernel, `umask` as `config:8-15` and, from version 2 of the
/// performance monitors on, `config:8-15,24-27`.
fn has_wide_mask(source: &mut dyn Source, folder: &str) -> bool {
    text(source, &format!("{folder}/format/umask")).is_ok_and(|bits| bits.contains(','))
}

/// Units that the kernel shows and whose events we do not know.
const NOT_READ: &[&str] = &["arm_dmc620", "arm_cmn", "hisi_sccl", "ampere_mcu", "nvidia_scf"];

/// Why there is nothing of controllers.
#[derive(Debug, thiserror::Error)]
pub enum UncoreError {
    /// The kernel shows none that we know.
    #[error("the kernel knows no counter of memory controllers")]
    None,
    /// It shows some that we do not know.
    #[error(
        "evenkeel knows no event of {0} yet; resctrl tells the traffic of caches where it is mounted"
    )]
    Unknown(String),
    /// Controllers of several nodes are read in one place.
    #[error(
        "controllers of {package} are read on one CPU, though it has several nodes (sub-NUMA clustering): they are left out"
    )]
    SubNuma {
        /// Which CPU.
        package: CpuId,
    },
    /// The kernel refused.
    #[error("cannot count {unit} on cpu {cpu}")]
    Open {
        /// Which unit.
        unit: String,
        /// On which CPU.
        cpu: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// Its events are written in words that we do not know.
    #[error("{unit}: {what}")]
    Event {
        /// Which unit.
        unit: String,
        /// What is wrong.
        what: String,
    },
}

impl Uncore {
    /// Finds the controllers and begins to count.
    ///
    /// # Errors
    /// There are none, or they cannot be counted: then nothing stays open.
    pub fn open(source: &mut dyn Source, machine: &Machine) -> Result<Self, UncoreError> {
        let devices = source.list(DEVICES).unwrap_or_default();
        for way in WAYS {
            let mut uncore = Uncore::default();
            let named: Vec<&String> = devices.iter().filter(|name| way.is(name)).collect();
            let mut names = Vec::new();
            for device in &named {
                match uncore.open_device(source, device, way, machine) {
                    Ok(true) => names.push((*device).clone()),
                    Ok(false) => {}
                    Err(error) => {
                        uncore.close(source);
                        return Err(error);
                    }
                }
            }
            if !uncore.units.is_empty() {
                uncore.what = in_words(names);
                return uncore.checked(source, machine);
            }
        }
        let strange = devices.into_iter().find(|name| NOT_READ.iter().any(|s| name.starts_with(s)));
        Err(strange.map_or(UncoreError::None, UncoreError::Unknown))
    }

    /// Counts a device on each CPU of its mask; tells whether it has such events at all.
    fn open_device(
        &mut self,
        source: &mut dyn Source,
        device: &str,
        way: &Way,
        machine: &Machine,
    ) -> Result<bool, UncoreError> {
        let folder = format!("{DEVICES}/{device}");
        let told =
            |what: &str| UncoreError::Event { unit: device.to_owned(), what: what.to_owned() };
        let number = text(source, &format!("{folder}/type")).ok().and_then(|t| t.parse().ok());
        let kind = number.ok_or_else(|| told("it has no type"))?;
        let format = format_of(source, &folder);
        if !way.channels.is_empty() && has_wide_mask(source, &folder) {
            return Err(UncoreError::Unknown(format!("{device} from Zen 4 on")));
        }
        let mut events = Vec::new();
        for terms in way.channels {
            let config = encode(terms, &format).map_err(|error| told(&error.to_string()))?;
            let attr = Attr { kind, config, flags: Flags::default() };
            events.push((Direction::Both, ("channel".to_owned(), attr)));
        }
        let pairs: &[(Direction, &[&str])] = if way.channels.is_empty() {
            &[(Direction::Reads, way.reads), (Direction::Writes, way.writes)]
        } else {
            &[]
        };
        for &(sort, names) in pairs {
            let Some(terms) = terms(source, &folder, names) else { return Ok(false) };
            let config = encode(&terms, &format).map_err(|error| told(&error.to_string()))?;
            let attr = Attr { kind, config, flags: Flags::default() };
            let name = if sort == Direction::Reads { "reads" } else { "writes" };
            events.push((sort, (name.to_owned(), attr)));
        }
        let mask = text(source, &format!("{folder}/cpumask")).unwrap_or_default();
        let cpus: CpuSet = mask.parse().map_err(|_| told("its cpumask is no list"))?;
        for cpu in cpus.iter() {
            let Some(node) = machine.cpu(cpu).and_then(|cpu| cpu.node) else { continue };
            // Channels are more than the fabric can count at once: each is a group of its own, so that
            // they take turns.
            let size = if way.channels.is_empty() { events.len() } else { 1 };
            for together in events.chunks(size.max(1)) {
                let specs = together.iter().map(|(_, event)| event.clone()).collect();
                let spec = GroupSpec { target: CounterTarget::Cpu(cpu.0), events: specs };
                let opened = source.open(&spec).map_err(|refused| UncoreError::Open {
                    unit: device.to_owned(),
                    cpu: cpu.0,
                    source: refused,
                })?;
                let sorts = together.iter().map(|(sort, _)| *sort);
                let counters = opened.numbers.iter().copied().zip(sorts);
                let counters = counters.collect();
                self.units.push(Unit { node, nr: opened.nr, counters });
            }
        }
        Ok(true)
    }

    /// Where a package has nodes that no controller counts for, nothing is told of any.
    fn checked(mut self, source: &mut dyn Source, machine: &Machine) -> Result<Self, UncoreError> {
        let counted = |node: NodeId| self.units.iter().any(|unit| unit.node == node);
        let lone = machine.nodes().iter().find(|node| !node.cpus.is_empty() && !counted(node.id));
        match lone.and_then(|node| node.cpus.first()) {
            None => Ok(self),
            Some(package) => {
                self.close(source);
                Err(UncoreError::SubNuma { package })
            }
        }
    }

    /// Stops counting.
    pub fn close(&mut self, source: &mut dyn Source) {
        self.units.drain(..).for_each(|unit| source.close(unit.nr));
    }

    /// Reads all controllers; a node of which one cannot be read is absent.
    pub fn read(&mut self, source: &mut dyn Source) -> &BTreeMap<NodeId, NodeTraffic> {
        self.nodes.clear();
        let mut lost = Vec::new();
        for unit in &mut self.units {
            match unit.read(source) {
                Some(traffic) => {
                    let sum = self.nodes.entry(unit.node).or_default();
                    sum.ops = plus(sum.ops, traffic.ops);
                    sum.read_bytes = plus(sum.read_bytes, traffic.read_bytes);
                    sum.written_bytes = plus(sum.written_bytes, traffic.written_bytes);
                }
                None => lost.push(unit.node),
            }
        }
        for node in lost {
            self.nodes.insert(node, NodeTraffic::default());
        }
        &self.nodes
    }
}

impl Way {
    fn is(&self, device: &str) -> bool {
        let rest = device.strip_prefix(self.device);
        rest.is_some_and(|rest| {
            rest.bytes().all(|byte| byte.is_ascii_digit())
                && (rest.is_empty() != self.device.ends_with('_'))
        })
    }
}

/// The terms of the first event that the device has. A name with `=` stands for itself.
fn terms(source: &mut dyn Source, folder: &str, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match name.contains('=') {
        true => Some((*name).to_owned()),
        false => text(source, &format!("{folder}/events/{name}")).ok(),
    })
}

impl Unit {
    /// The sums of its counters; `None` if one of them cannot be read.
    fn read(&mut self, source: &mut dyn Source) -> Option<NodeTraffic> {
        let bytes = source.group(self.nr).ok()?;
        let group = read_group(&bytes).ok()?;
        let mut traffic = NodeTraffic::default();
        for (place, (number, direction)) in self.counters.iter().enumerate() {
            let lines = group.counter(*number, place).filter(|lines| !lines.never_ran())?;
            let bytes = CounterReading { value: lines.value.wrapping_mul(LINE_BYTES), ..lines };
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

fn plus(one: Option<CounterReading>, other: Option<CounterReading>) -> Option<CounterReading> {
    one.map_or(other, |one| Some(other.map_or(one, |other| one.plus(other))))
}

fn in_words(mut names: Vec<String>) -> String {
    names.sort_unstable_by_key(|name| (name.len(), name.clone())); // imc_2 before imc_10
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first, .., last] => format!("{} units, {first} to {last}", names.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Opened;

    /// A tree of files and counters that are always to be had.
    struct Tree {
        files: BTreeMap<String, String>,
        n_events: Vec<usize>,
        n_open: usize,
    }

    impl Tree {
        /// Units by name, each on these CPUs, with these files besides.
        fn new(units: &[&str], cpumask: &str, besides: &[(&str, &str)]) -> Self {
            let mut files = BTreeMap::new();
            for unit in units {
                let all = [("type", "14"), ("cpumask", cpumask)];
                for (name, text) in all.iter().chain(besides) {
                    files.insert(format!("{DEVICES}/{unit}/{name}"), (*text).to_owned());
                }
            }
            Tree { files, n_events: Vec::new(), n_open: 0 }
        }
    }

    impl Source for Tree {
        fn list(&mut self, folder: &str) -> io::Result<Vec<String>> {
            let below = self.files.keys().filter_map(|path| path.strip_prefix(folder));
            let names = below.filter_map(|rest| rest.strip_prefix('/')?.split('/').next());
            Ok(names
                .map(str::to_owned)
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect())
        }

        fn file(&mut self, path: &str) -> io::Result<Vec<u8>> {
            let text = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(text.clone().into_bytes())
        }

        fn open(&mut self, spec: &GroupSpec) -> io::Result<Opened> {
            self.n_events.push(spec.events.len());
            self.n_open += 1;
            let nr = self.n_events.len() as u32;
            Ok(Opened { nr, numbers: (0..spec.events.len() as u64).collect() })
        }

        fn group(&mut self, _nr: u32) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn close(&mut self, _nr: u32) {
            self.n_open -= 1;
        }
    }

    const IMC: &[(&str, &str)] = &[
        ("format/event", "config:0-7"),
        ("format/umask", "config:8-15"),
        ("events/cas_count_read", "event=0x04,umask=0x03"),
        ("events/cas_count_write", "event=0x04,umask=0x0c"),
    ];

    fn open(tree: &mut Tree) -> Result<String, String> {
        let machine = Machine::synthetic("nodes=2 llcs=1 cores=2").expect("two nodes");
        match Uncore::open(tree, &machine) {
            Ok(uncore) => Ok(uncore.what.clone()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn controllers_of_every_node_are_read_on_a_cpu_of_it() {
        let mut tree = Tree::new(&["uncore_imc_0", "uncore_imc_1"], "0,2", IMC);
        assert_eq!(open(&mut tree), Ok("2 units, uncore_imc_0 to uncore_imc_1".to_owned()));
        assert_eq!(tree.n_events, [2; 4]);
    }

    #[test]
    fn where_one_cpu_tells_of_several_nodes_nothing_is_told_and_nothing_stays_open() {
        let mut tree = Tree::new(&["uncore_imc_0"], "0", IMC);
        assert!(open(&mut tree).is_err_and(|error| error.contains("sub-NUMA clustering")));
        assert_eq!((tree.n_events.len(), tree.n_open), (1, 0));
    }

    #[test]
    fn channels_of_a_data_fabric_take_turns_and_those_from_zen_4_on_are_not_taken_for_older() {
        let with = |umask| [("format/event", "config:0-7,32-35,59-60"), ("format/umask", umask)];
        let mut tree = Tree::new(&["amd_df"], "0,2", &with("config:8-15"));
        assert_eq!(open(&mut tree), Ok("amd_df".to_owned()));
        assert_eq!(tree.n_events, [1; 16]);
        let mut tree = Tree::new(&["amd_df"], "0,2", &with("config:8-15,24-27"));
        assert!(open(&mut tree).is_err_and(|error| error.contains("Zen 4")));
        assert_eq!(tree.n_open, 0);
    }
}
