//! Groups of counters: specification, open descriptors, and reads.
//!
//! ```text
//!   GroupSpec      one group of a task or CPU                                value
//!   PmuGroups      the groups of a PMU that are opened for each task         value
//!   CounterGroup   an open group of a source; a read returns bytes           live or recorded
//! ```
//!
//! **Hybrid processors.** A PMU counts on one core kind only. While the task runs on the other core kind, the counter
//! is enabled and not running. Values and times running of both PMUs are therefore added: a task that spends half of
//! its time on each core kind is counted exactly.
//!
//! **Children.** The main thread of a job has inherited groups, which include its descendants. Every other thread has
//! its own groups. The engine subtracts the values of the other threads from the inherited values, so that no event is
//! counted twice. (Inherited groups can be read as a whole since Linux 4.13; sampling of such groups needs 6.12.)

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use sched::{CounterEvent, Counters, RawCounter};

use super::attr::{self, Attr, CounterTarget, Flags};
use super::group_read::{COUNTERS_MAX, read_group};
use crate::fault;

/// A group of counters of one task or CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// The task or CPU.
    pub target: CounterTarget,
    /// The events with their names, the leader first.
    pub events: Vec<(String, Attr)>,
}

/// The groups of one PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuGroups {
    /// Name of the PMU.
    pub pmu: String,
    /// Events of each group.
    pub groups: Vec<Vec<(CounterEvent, Attr)>>,
}

impl PmuGroups {
    /// Returns whether the events are software events.
    pub fn is_software(&self) -> bool {
        self.pmu == SOFTWARE_PMU
    }
}

const SOFTWARE_PMU: &str = "software";

/// Software events and their numbers in `linux/perf_event.h`.
const SOFTWARE: [(CounterEvent, u64); 4] = [
    (CounterEvent::TaskClock, 1),
    (CounterEvent::PageFaults, 2),
    (CounterEvent::ContextSwitches, 3),
    (CounterEvent::CpuMigrations, 4),
];

/// Returns the attribute of a software event; `None` for hardware events.
pub fn software_event(event: CounterEvent, flags: Flags) -> Option<Attr> {
    let (_, number) = SOFTWARE.into_iter().find(|(known, _)| *known == event)?;
    Some(Attr { kind: 1, config: [number, 0, 0], flags })
}

/// Returns the group of software events. With `user_only` the group contains only the task clock and page faults,
/// because the kernel counts no context switches and CPU migrations for events that exclude kernel mode.
pub fn software(flags: Flags) -> PmuGroups {
    let user_mode = [CounterEvent::TaskClock, CounterEvent::PageFaults];
    let is_counted = |event: &CounterEvent| !flags.user_only || user_mode.contains(event);
    let events = SOFTWARE.into_iter().map(|(event, _)| event).filter(is_counted);
    let group = events.filter_map(|event| Some((event, software_event(event, flags)?)));
    PmuGroups { pmu: SOFTWARE_PMU.to_owned(), groups: vec![group.collect()] }
}

/// Returns the events of a group with their names.
pub fn named(group: &[(CounterEvent, Attr)]) -> Vec<(String, Attr)> {
    group.iter().map(|(event, attr)| (event.name().to_owned(), *attr)).collect()
}

/// Buffer for a read of the largest group.
pub type GroupBuffer = [u8; 24 + 16 * COUNTERS_MAX];

/// An empty buffer.
pub const GROUP_BUFFER: GroupBuffer = [0; 24 + 16 * COUNTERS_MAX];

/// An open group. Drop closes the descriptors; a recorded group has no descriptors.
#[derive(Debug)]
pub struct CounterGroup {
    /// Number of the group in its source.
    pub nr: u32,
    /// Ids of the counters in a read, in the order of the specification.
    pub ids: Vec<u64>,
    /// Descriptors of the counters, the leader first.
    counters: Vec<OwnedFd>,
}

impl CounterGroup {
    /// Creates a group of a recording.
    pub fn recorded(nr: u32, ids: Vec<u64>) -> Self {
        CounterGroup { nr, ids, counters: Vec::new() }
    }

    /// Opens a group of this machine. If one counter cannot be opened, the whole group is closed.
    ///
    /// # Errors
    /// The kernel rejects a counter.
    pub fn open(spec: &GroupSpec, nr: u32) -> io::Result<Self> {
        let mut group = CounterGroup::recorded(nr, Vec::new());
        for (_, attr) in &spec.events {
            let leader = group.counters.first().map(OwnedFd::as_fd);
            let counter = attr::open(attr, spec.target, leader)?;
            group.ids.push(attr::id(counter.as_fd())?);
            group.counters.push(counter);
        }
        if group.counters.is_empty() { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(group) }
    }

    /// Reads all counters with one system call.
    pub fn read<'a>(&self, buffer: &'a mut GroupBuffer) -> io::Result<&'a [u8]> {
        fault::inject("read")?;
        let leader = self.counters.first().ok_or(io::ErrorKind::NotFound)?;
        let n_read = rustix::io::read(leader, &mut buffer[..])?;
        Ok(&buffer[..n_read])
    }
}

/// Adds a read of one group to the counters of a task. `events` has the events of the group with the ids of their
/// counters, in the order in which the counters were opened. The values of an event that is counted on two PMUs are
/// added.
///
/// # Errors
/// The bytes are not a valid read of a group.
pub fn add_group(
    counters: &mut Counters,
    bytes: &[u8],
    events: &[(CounterEvent, u64)],
) -> Result<(), super::ValuesError> {
    let group = read_group(bytes)?;
    for (idx, (event, id)) in events.iter().enumerate() {
        if let Some(raw) = group.counter(*id, idx) {
            let known = counters.get(*event);
            counters.set(*event, known.map_or(raw, |known| on_both_pmus(known, raw)));
        }
    }
    Ok(())
}

/// Adds the raw counters of one event on the PMUs of two core kinds. The PMUs are read one after the other, so the
/// times differ slightly: the smaller time enabled is used for both, and the sum of the times running is limited to
/// it.
fn on_both_pmus(one: RawCounter, other: RawCounter) -> RawCounter {
    let enabled_ns = one.enabled_ns.min(other.enabled_ns);
    let running_ns = one.running_ns.saturating_add(other.running_ns).min(enabled_ns);
    RawCounter { value: one.value.saturating_add(other.value), enabled_ns, running_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    const CYCLES: &[(CounterEvent, u64)] = &[(CounterEvent::Cycles, 9)];

    /// Returns the cycles over all PMUs as value, time enabled and time running.
    fn cycles(groups: &[[u64; 5]]) -> (u64, u64, u64) {
        let mut counters = Counters::NONE;
        for group in groups {
            add_group(&mut counters, &bytes(group), CYCLES).expect("a group");
        }
        let cycles = counters.get(CounterEvent::Cycles).expect("counted");
        (cycles.value, cycles.enabled_ns, cycles.running_ns)
    }

    #[test]
    fn a_task_on_both_core_kinds_is_counted_exactly() {
        // The task runs for 40 of 100 ns on one core kind and for 60 ns on the other.
        assert_eq!(cycles(&[[1, 100, 40, 500, 9], [1, 100, 60, 70, 9]]), (570, 100, 100));
        // The task never runs on the second core kind.
        assert_eq!(cycles(&[[1, 100, 100, 500, 9], [1, 100, 0, 0, 9]]), (500, 100, 100));
        // The group is multiplexed for half of the time.
        assert_eq!(cycles(&[[1, 100, 20, 500, 9], [1, 100, 30, 70, 9]]), (570, 100, 50));
        assert_eq!(cycles(&[[1, 100, 0, 0, 9], [1, 100, 0, 0, 9]]), (0, 100, 0));
        // The second PMU is read 1 ns later.
        assert_eq!(cycles(&[[1, 200, 100, 500, 9], [1, 201, 101, 70, 9]]), (570, 200, 200));
    }
}
