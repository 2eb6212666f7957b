//! Groups of counters: what belongs together, opened, and read with one call.
//!
//! ```text
//!   Choice      what this machine counts of a task: of each PMU its groups     once
//!   Spec        one group, of one task or CPU                                  value
//!   Group       the open descriptors of one; a read gives bytes                live
//!   TaskGroups  all groups of a task; a read gives `sched::Counters`           live or recorded
//! ```
//!
//! **Hybrid processors.** A PMU counts only on its own kind of core, and the time a task spends on
//! the other kind is enabled and not running. So the counts of both are added, and the sum is scaled
//! by the time in which neither ran: a task that spends half its time on either is counted exactly.
//!
//! **Children.** The first thread of a job has groups that its descendants inherit, so that those who
//! come and go unseen are counted too; every other thread that is found has groups of its own, which
//! nobody inherits. What the first thread did is what the inherited groups counted less what all
//! others' own ones did ([`less`]): nothing counts twice, and of a child that was found late what it
//! did before counts for the first thread. (Reading an inherited group as a whole works since Linux
//! 4.13; only samples of such groups had to wait for 6.12.)

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use sched::{CounterEvent, CounterReading, Counters};

use super::attr::{self, Attr, CounterTarget, Flags};
use super::format::{Format, encode};
use super::group_read::{COUNTERS_MAX, read_group};
use super::grouping::in_groups;
use super::uarch::{CpuIdentity, Uarch, uarch_of};
use crate::fault;
use crate::source::{Source, text};

/// Where the kernel tells of its PMUs.
pub(crate) const DEVICES: &str = "sys/bus/event_source/devices";

/// One group of one task or CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Who.
    pub target: CounterTarget,
    /// What, the leader first; a name for each, which is the counter_event's where it has one.
    pub events: Vec<(String, Attr)>,
}

/// What is counted of a task on this machine.
#[derive(Clone, Debug)]
pub struct EventChoice {
    /// The family that was found.
    pub family: &'static Uarch,
    /// The groups of each PMU.
    pub chosen: Vec<PmuGroups>,
    /// What is not counted, and why.
    pub absent: BTreeMap<CounterEvent, String>,
    /// How.
    pub flags: Flags,
}

/// The groups of one PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuGroups {
    /// Its name.
    pub pmu: String,
    /// What is counted together.
    pub groups: Vec<Vec<(CounterEvent, Attr)>>,
}

impl PmuGroups {
    /// Whether these are the kernel's own books, and no counters of a processor.
    pub fn is_kernels(&self) -> bool {
        self.pmu == KERNELS
    }
}

/// The name of the kernel's own books.
const KERNELS: &str = "software";

/// The kernel's numbers of the software events (`linux/perf_event.h`).
const SOFTWARE: [(CounterEvent, u64); 4] = [
    (CounterEvent::TaskClock, 1),
    (CounterEvent::PageFaults, 2),
    (CounterEvent::ContextSwitches, 3),
    (CounterEvent::CpuMigrations, 4),
];

/// The event of one of the kernel's own books; `None` for what the processor counts.
pub fn software_event(counter_event: CounterEvent, flags: Flags) -> Option<Attr> {
    let (_, number) = SOFTWARE.into_iter().find(|(known, _)| *known == counter_event)?;
    Some(Attr { kind: 1, config: [number, 0, 0], flags })
}

/// The group of the kernel's own books. Who may count a task only in its own code is not told of what
/// the kernel does with it: of the four, time and page faults are left.
pub fn software(flags: Flags) -> PmuGroups {
    let is_told = |counter_event| {
        !flags.user_only
            || matches!(counter_event, CounterEvent::TaskClock | CounterEvent::PageFaults)
    };
    let event = |(counter_event, number): (CounterEvent, u64)| {
        (counter_event, Attr { kind: 1, config: [number, 0, 0], flags })
    };
    let group =
        SOFTWARE.into_iter().filter(|(counter_event, _)| is_told(*counter_event)).map(event);
    PmuGroups { pmu: KERNELS.to_owned(), groups: vec![group.collect()] }
}

/// What this processor's counters count of a task, by its family and the PMUs that the kernel shows.
pub fn choose(source: &mut dyn Source, identity: &CpuIdentity, flags: Flags) -> EventChoice {
    let family = uarch_of(identity);
    let absent = CounterEvent::ALL.iter().filter_map(|&q| Some((q, family.why_absent(q)?)));
    let mut choice = EventChoice { family, chosen: Vec::new(), absent: absent.collect(), flags };
    let devices = source.list(DEVICES).unwrap_or_default();
    let mut n_missing = 0;
    for pmu in &family.pmus {
        let chosen = if family.is_generic() {
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
    if choice.chosen.is_empty() || n_missing != 0 && family.pmus.len() == 1 {
        choice.mark_hardware_absent(
            "the kernel shows no counters of this processor (a virtual machine?)",
        );
    }
    choice
}

/// Whether a device counts what cores do; a name for each architecture.
fn is_core(device: &str) -> bool {
    device == "cpu" || device.starts_with("cpu_") || device.starts_with("armv")
}

fn generic(pmu: &super::Pmu, flags: Flags) -> PmuGroups {
    let number = |terms: &str| terms.strip_prefix("generic=").and_then(|text| text.parse().ok());
    let events = pmu.events.iter().filter_map(|(&counter_event, event)| {
        Some((counter_event, Attr { kind: 0, config: [number(&event.terms)?, 0, 0], flags }))
    });
    PmuGroups { pmu: pmu.name.clone(), groups: in_groups(events.collect(), pmu) }
}

fn of_device(
    source: &mut dyn Source,
    device: &str,
    pmu: &super::Pmu,
    choice: &mut EventChoice,
) -> PmuGroups {
    let folder = format!("{DEVICES}/{device}");
    let kind = text(source, &format!("{folder}/type")).ok().and_then(|text| text.parse().ok());
    let format = format_of(source, &folder);
    let mut events = Vec::new();
    for (&counter_event, event) in &pmu.events {
        if choice.absent.contains_key(&counter_event) {
            continue;
        }
        match (kind, encode(&event.terms, &format)) {
            (Some(kind), Ok(config)) => {
                events.push((counter_event, Attr { kind, config, flags: choice.flags }));
            }
            (None, _) => drop(choice.absent.insert(counter_event, format!("{device} has no type"))),
            (_, Err(error)) => drop(choice.absent.insert(counter_event, error.to_string())),
        }
    }
    PmuGroups { pmu: device.to_owned(), groups: in_groups(events, pmu) }
}

/// The words of a PMU; what is in no form that we know is left out, and whoever needs it is told.
pub(crate) fn format_of(source: &mut dyn Source, folder: &str) -> Format {
    let mut format = Format::default();
    let terms = source.list(&format!("{folder}/format")).unwrap_or_default();
    for term in terms {
        if let Ok(line) = text(source, &format!("{folder}/format/{term}")) {
            let _ = format.add(&term, &line);
        }
    }
    format
}

impl EventChoice {
    /// Nothing of the processor is counted, for this reason.
    pub fn mark_hardware_absent(&mut self, why: &str) {
        self.chosen.clear();
        let by_processor = |q: &&CounterEvent| q.source() == sched::EventKind::Hardware;
        for &counter_event in CounterEvent::ALL.iter().filter(by_processor) {
            self.absent.entry(counter_event).or_insert_with(|| why.to_owned());
        }
    }
}

/// An open group of this machine.
#[derive(Debug)]
pub struct Group {
    /// The leader first. Members are kept only so that they go on counting.
    counters: Vec<OwnedFd>,
    numbers: Vec<u64>,
}

impl Group {
    /// Room for the largest.
    pub const BYTES_MAX: usize = 24 + 16 * COUNTERS_MAX;

    /// Opens a group as a whole or not at all.
    ///
    /// # Errors
    /// What the kernel said to the first counter that it refused.
    pub fn open(spec: &GroupSpec) -> io::Result<Self> {
        let mut group = Group { counters: Vec::new(), numbers: Vec::new() };
        for (_, attr) in &spec.events {
            let leader = group.counters.first().map(OwnedFd::as_fd);
            let counter = attr::open(attr, spec.target, leader)?;
            group.numbers.push(attr::number(counter.as_fd())?);
            group.counters.push(counter);
        }
        if group.counters.is_empty() { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(group) }
    }

    /// By which a read names each counter, in the order of the spec.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// How many descriptors it holds.
    pub fn n_descriptors(&self) -> usize {
        self.counters.len()
    }

    /// What all of them have counted, at one instant: one call.
    pub fn read<'a>(&self, buffer: &'a mut [u8; Self::BYTES_MAX]) -> io::Result<&'a [u8]> {
        fault::refuse("read")?;
        let leader = self.counters.first().ok_or(io::ErrorKind::NotFound)?;
        let n_read = rustix::io::read(leader, &mut buffer[..])?;
        Ok(&buffer[..n_read])
    }
}

/// Adds a read of one group to the counters of a task. `events` are its events with the ids of their
/// counters, in the order in which they were opened. An event that is counted on two PMUs is added up.
///
/// # Errors
/// The bytes are no read of a group.
pub fn add_group(
    counters: &mut Counters,
    bytes: &[u8],
    events: &[(CounterEvent, u64)],
) -> Result<(), super::ValuesError> {
    let group = read_group(bytes)?;
    for (place, (event, id)) in events.iter().enumerate() {
        if let Some(reading) = group.counter(*id, place) {
            let known = counters.get(*event);
            counters.set(*event, known.map_or(reading, |known| on_both_pmus(known, reading)));
        }
    }
    Ok(())
}

/// One event on the PMUs of two kinds of cores. The PMUs are read one after the other: the time enabled
/// of the first read holds for both, and the times running are added up to at most that time.
fn on_both_pmus(one: CounterReading, other: CounterReading) -> CounterReading {
    let enabled_ns = one.enabled_ns.min(other.enabled_ns);
    let running_ns = one.running_ns.saturating_add(other.running_ns).min(enabled_ns);
    CounterReading { value: one.value.saturating_add(other.value), enabled_ns, running_ns }
}

/// All groups of a task.
#[derive(Debug, Default)]
pub struct TaskGroups {
    groups: Vec<(Group, Vec<(CounterEvent, u64)>)>,
}

impl TaskGroups {
    /// Opens what was chosen. A group that the kernel does not take as a whole is cut in two; one
    /// that it refuses is left out, and the first refusal comes back beside what did open.
    pub fn open<'a>(
        tid: u32,
        chosen: impl IntoIterator<Item = &'a PmuGroups>,
        inherit: bool,
    ) -> (Self, Option<io::Error>) {
        let mut all = TaskGroups::default();
        let mut refused = None;
        for group in chosen.into_iter().flat_map(|chosen| &chosen.groups) {
            all.open_group(tid, group, inherit, &mut refused);
        }
        (all, refused)
    }

    fn open_group(
        &mut self,
        tid: u32,
        group: &[(CounterEvent, Attr)],
        inherit: bool,
        refused: &mut Option<io::Error>,
    ) {
        let event = |(counter_event, attr): &(CounterEvent, Attr)| {
            let flags = Flags { inherit, ..attr.flags };
            (counter_event.name().to_owned(), Attr { flags, ..*attr })
        };
        let spec = GroupSpec {
            target: CounterTarget::Task(tid),
            events: group.iter().map(event).collect(),
        };
        match Group::open(&spec) {
            Ok(open) => {
                let counter_events = group.iter().map(|(counter_event, _)| *counter_event);
                let events = counter_events.zip(open.numbers().iter().copied()).collect();
                self.groups.push((open, events));
            }
            // More than the core can count at once.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && 1 < group.len() => {
                let (one, other) = group.split_at(group.len() / 2);
                self.open_group(tid, one, inherit, refused);
                self.open_group(tid, other, inherit, refused);
            }
            Err(error) => drop(refused.get_or_insert(error)),
        }
    }

    /// Whether nothing opened.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// How many descriptors they hold.
    pub fn n_descriptors(&self) -> usize {
        self.groups.iter().map(|(group, _)| group.n_descriptors()).sum()
    }

    /// Reads all groups, one system call each. Events of a group that cannot be read are absent.
    pub fn read(&self) -> Counters {
        let mut buffer = [0; Group::BYTES_MAX];
        let mut counters = Counters::NONE;
        for (group, events) in &self.groups {
            if let Ok(bytes) = group.read(&mut buffer) {
                let _ = add_group(&mut counters, bytes, events); // A kernel returns no other bytes.
            }
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated_test::{n_open, run_isolated};

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    const CYCLES: &[(CounterEvent, u64)] = &[(CounterEvent::Cycles, 9)];

    /// The cycles over all PMUs, as value, time enabled and time running.
    fn cycles(groups: &[[u64; 5]]) -> (u64, u64, u64) {
        let mut counters = Counters::NONE;
        for group in groups {
            add_group(&mut counters, &bytes(group), CYCLES).expect("a group");
        }
        let cycles = counters.get(CounterEvent::Cycles).expect("counted");
        (cycles.value, cycles.enabled_ns, cycles.running_ns)
    }

    #[test]
    fn a_task_on_both_kinds_of_core_is_counted_exactly() {
        // 40 of 100 ns on one kind, 60 on the other.
        assert_eq!(cycles(&[[1, 100, 40, 500, 9], [1, 100, 60, 70, 9]]), (570, 100, 100));
        // Never on the second kind.
        assert_eq!(cycles(&[[1, 100, 100, 500, 9], [1, 100, 0, 0, 9]]), (500, 100, 100));
        // Multiplexed for half of the time.
        assert_eq!(cycles(&[[1, 100, 20, 500, 9], [1, 100, 30, 70, 9]]), (570, 100, 50));
        assert_eq!(cycles(&[[1, 100, 0, 0, 9], [1, 100, 0, 0, 9]]), (0, 100, 0));
        // The second PMU is read a moment later.
        assert_eq!(cycles(&[[1, 200, 100, 500, 9], [1, 201, 101, 70, 9]]), (570, 200, 200));
    }

    #[test]
    fn this_thread_is_counted_by_the_kernel_where_that_is_permitted() {
        let (groups, refused) = TaskGroups::open(0, [&software(Flags::default())], true);
        if let Some(error) = refused {
            println!("not run: {error}");
            return;
        }
        assert_eq!(groups.n_descriptors(), 4);
        let before = groups.read();
        // So large that it is mapped anew and not taken from what was freed.
        let mut memory = vec![0u8; 64 << 20];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&memory);
        let after = groups.read();
        for event in [CounterEvent::TaskClock, CounterEvent::PageFaults] {
            let value = |counters: &Counters| counters.get(event).expect("counted").value;
            assert!(value(&before) < value(&after), "{}", event.name());
        }
    }

    #[test]
    fn a_refused_group_is_an_outcome_and_leaves_no_descriptor_open() {
        let test = "a_refused_group_is_an_outcome_and_leaves_no_descriptor_open";
        run_isolated(module_path!(), test, || {
            open_and_read(0);
            let before = n_open();
            (1..200).for_each(open_and_read);
            assert_eq!(n_open(), before, "descriptors after and before");
        });
    }

    fn open_and_read(seed: u64) {
        fault::with_errors(fault::FaultPlan { seed, permille: 300 }, || {
            let (groups, refused) = TaskGroups::open(0, [&software(Flags::default())], false);
            assert!(refused.is_some() || !groups.is_empty());
            let _ = groups.read();
        });
    }
}
