//! The open counter groups of a task.

use std::io;

use sched::{CounterEvent, Counters};

use crate::perf::{
    Attr, CounterGroup, CounterTarget, Flags, GROUP_BUFFER, GroupSpec, PmuGroups, add_group, named,
};
use crate::source::Source;

/// All groups of a task.
#[derive(Debug, Default)]
pub struct TaskGroups {
    groups: Vec<(CounterGroup, Vec<(CounterEvent, u64)>)>,
}

impl TaskGroups {
    /// Opens groups for a task. A group that is too large for the PMU is divided into two groups. Groups that the
    /// kernel rejects are omitted. Returns the open groups and the first error.
    pub fn open<'a>(
        source: &mut (impl Source + ?Sized),
        tid: u32,
        chosen: impl IntoIterator<Item = &'a PmuGroups>,
        inherit: bool,
    ) -> (Self, Option<io::Error>) {
        let mut opened = TaskGroups::default();
        let mut rejected = None;
        for group in chosen.into_iter().flat_map(|chosen| &chosen.groups) {
            opened.open_group(source, (tid, inherit), group, &mut rejected);
        }
        (opened, rejected)
    }

    fn open_group(
        &mut self,
        source: &mut (impl Source + ?Sized),
        (tid, inherit): (u32, bool),
        group: &[(CounterEvent, Attr)],
        rejected: &mut Option<io::Error>,
    ) {
        let inherited = |(event, attr): &(CounterEvent, Attr)| {
            (*event, Attr { flags: Flags { inherit, ..attr.flags }, ..*attr })
        };
        let events = named(&group.iter().map(inherited).collect::<Vec<_>>());
        match source.open(&GroupSpec { target: CounterTarget::Task(tid), events }) {
            Ok(opened) => {
                let events = group.iter().map(|(event, _)| *event);
                let events = events.zip(opened.ids.iter().copied()).collect();
                self.groups.push((opened, events));
            }
            // The group has more events than the PMU has counters.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && 1 < group.len() => {
                let (first, second) = group.split_at(group.len() / 2);
                self.open_group(source, (tid, inherit), first, rejected);
                self.open_group(source, (tid, inherit), second, rejected);
            }
            Err(error) => drop(rejected.get_or_insert(error)),
        }
    }

    /// Returns whether no group is open.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Reads all groups, one system call each. Events of a group that cannot be read are absent.
    pub fn read(&self, source: &mut (impl Source + ?Sized)) -> Counters {
        let mut buffer = GROUP_BUFFER;
        let mut counters = Counters::NONE;
        for (group, events) in &self.groups {
            if let Ok(bytes) = source.group(group, &mut buffer) {
                let _ = add_group(&mut counters, bytes, events); // The kernel never returns malformed bytes.
            }
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault;
    use crate::perf::software;
    use crate::source::Live;
    use crate::test_support::{n_open, run_isolated};

    #[test]
    fn this_thread_is_counted_if_permitted() {
        let source = &mut Live::default();
        let (groups, rejected) = TaskGroups::open(source, 0, [&software(Flags::default())], true);
        if let Some(error) = rejected {
            println!("not run: {error}");
            return;
        }
        let before = groups.read(source);
        // The allocation is large enough for a separate mapping.
        let mut memory = vec![0u8; 64 << 20];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&memory);
        let after = groups.read(source);
        for event in [CounterEvent::TaskClock, CounterEvent::PageFaults] {
            let value = |counters: &Counters| counters.get(event).expect("counted").value;
            assert!(value(&before) < value(&after), "{}", event.name());
        }
    }

    #[test]
    fn a_rejected_group_leaves_no_descriptor_open() {
        let test = "a_rejected_group_leaves_no_descriptor_open";
        run_isolated(module_path!(), test, || {
            open_and_read(0);
            let before = n_open();
            (1..200).for_each(open_and_read);
            assert_eq!(n_open(), before, "descriptors after and before");
        });
    }

    fn open_and_read(seed: u64) {
        fault::with_errors(fault::FaultPlan { seed, permille: 300 }, || {
            let source = &mut Live::default();
            let software = [&software(Flags::default())];
            let (groups, rejected) = TaskGroups::open(source, 0, software, false);
            assert!(rejected.is_some() || !groups.is_empty());
            let _ = groups.read(source);
        });
    }
}
