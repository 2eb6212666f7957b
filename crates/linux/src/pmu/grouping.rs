//! Division of the events of a PMU into counter groups.
//!
//! ```text
//!   cycles  instructions │ references  misses │ misses by type │ L1d │ stalls  full queue
//!   └── one event set ───┘
//!
//!   general-purpose counters     ▓ ▓ ▓ ░        a group uses all except one of them
//!   fixed counters               ▓ ▓            in addition
//! ```
//!
//! The kernel schedules a group as a whole. A group that needs every counter of a core is never scheduled while another
//! user of the PMU (for example perf) occupies a counter. On most machines the hard lockup detector of the kernel uses
//! a counter for cycles on every CPU (`kernel.nmi_watchdog`; kernel/watchdog_perf.c). One general-purpose counter is
//! therefore always left free, because the detector may be enabled at any time. If the detector uses the fixed counter
//! for cycles, the cycles of a task need a general-purpose counter.
//!
//! Two events are counted at the same times only if they are in one group. Cycles and instructions, and misses and
//! references, are therefore in one group. These events are separated only if a core has fewer counters than the
//! events need.

use std::collections::BTreeMap;

use sched::CounterEvent;

use super::Pmu;
use crate::perf::Attr;

/// Events that are counted together.
pub(super) type Events = Vec<(CounterEvent, Attr)>;

/// Divides the events of a PMU into groups that leave one general-purpose counter free.
pub(super) fn in_groups(events: Events, pmu: &Pmu) -> Vec<Events> {
    let n_available =
        usize::try_from(pmu.n_counters).unwrap_or(usize::MAX).saturating_sub(1).max(1);
    let is_fixed = |event| pmu.fixed.contains(&event);
    let mut groups: Vec<Events> = Vec::new();
    for event_set in event_sets(events) {
        for part in parts(event_set, n_available, is_fixed) {
            let n_needed = |events: &Events| events.iter().filter(|(q, _)| !is_fixed(*q)).count();
            let n_required = n_needed(&part);
            match groups.iter_mut().find(|group| n_needed(group) + n_required <= n_available) {
                Some(group) => group.extend(part),
                None => groups.push(part),
            }
        }
    }
    groups
}

/// Divides the events into event sets. The events of a set belong in one group.
fn event_sets(events: Events) -> Vec<Events> {
    let has_misses = events.iter().any(|(event, _)| *event == CounterEvent::LlcMisses);
    let kind = |event| match event {
        CounterEvent::Cycles | CounterEvent::Instructions => 0,
        CounterEvent::LlcReferences | CounterEvent::LlcMisses => 1,
        // Load misses replace misses if the PMU has no event for all misses.
        CounterEvent::LlcLoadMisses
        | CounterEvent::LlcStoreMisses
        | CounterEvent::LlcPrefetchMisses => {
            if has_misses {
                2
            } else {
                1
            }
        }
        CounterEvent::L1dMisses => 3,
        CounterEvent::MemoryStalls | CounterEvent::QueueFull => 4,
        CounterEvent::TaskClock
        | CounterEvent::ContextSwitches
        | CounterEvent::CpuMigrations
        | CounterEvent::PageFaults => 5,
    };
    let mut event_sets: BTreeMap<u8, Events> = BTreeMap::new();
    for event in events {
        event_sets.entry(kind(event.0)).or_default().push(event);
    }
    event_sets.into_values().collect()
}

/// Splits an event set into parts that need at most `n_available` general-purpose counters.
fn parts(
    event_set: Events,
    n_available: usize,
    is_fixed: impl Fn(CounterEvent) -> bool,
) -> Vec<Events> {
    let mut parts: Vec<Events> = Vec::new();
    let mut n_free = 0;
    for event in event_set {
        let n_needed = usize::from(!is_fixed(event.0));
        if parts.is_empty() || n_free < n_needed {
            parts.push(Vec::new());
            n_free = n_available;
        }
        n_free -= n_needed;
        parts.last_mut().expect("one was pushed").push(event);
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sched::EventKind;

    use super::*;
    use crate::pmu::uarchs;

    fn cut(
        n_counters: u32,
        fixed: &[CounterEvent],
        events: &[CounterEvent],
    ) -> Vec<Vec<CounterEvent>> {
        let attrs = events.iter().map(|&event| (event, Attr::default())).collect();
        let (name, fixed, events) = ("cpu".to_owned(), fixed.to_vec(), BTreeMap::new());
        let pmu = Pmu { name, n_counters, fixed, events };
        let names = |group: Events| group.into_iter().map(|(event, _)| event).collect();
        in_groups(attrs, &pmu).into_iter().map(names).collect()
    }

    /// Returns the groups of the PMUs of a microarchitecture, one line each.
    fn groups_of(file: &str) -> String {
        let uarch = uarchs().iter().find(|uarch| uarch.file == file).expect("an event file");
        let lines = uarch.pmus.iter().flat_map(|pmu| {
            let events: Vec<CounterEvent> = pmu.events.keys().copied().collect();
            cut(pmu.n_counters, &pmu.fixed, &events).into_iter().map(|group| {
                let names: Vec<&str> = group.into_iter().map(CounterEvent::name).collect();
                format!("{}: {}\n", pmu.name, names.join(" "))
            })
        });
        lines.collect()
    }

    #[test]
    fn values_that_are_compared_are_in_one_group() {
        let recorded = include_str!("../../cases/pmu_groups.txt");
        expect_test::expect_file!["../../cases/pmu_groups.txt"]
            .assert_eq(&base::transcript(recorded, groups_of));
    }

    #[test]
    fn every_group_leaves_a_counter_for_the_watchdog() {
        for uarch in uarchs() {
            for pmu in &uarch.pmus {
                let events: Vec<CounterEvent> = pmu.events.keys().copied().collect();
                for group in cut(pmu.n_counters, &pmu.fixed, &events) {
                    let general = group.iter().filter(|event| !pmu.fixed.contains(event));
                    let n_general = general.count();
                    assert!(n_general < pmu.n_counters as usize, "{}: {group:?}", uarch.file);
                }
            }
        }
    }

    #[test]
    fn no_events_give_no_group_and_with_one_counter_each_event_has_a_group() {
        assert_eq!(cut(4, &[], &[]), [[]; 0]);
        let both = [CounterEvent::Cycles, CounterEvent::Instructions];
        assert_eq!(cut(1, &[], &both), [[CounterEvent::Cycles], [CounterEvent::Instructions]]);
        assert_eq!(cut(0, &both, &both), [both.to_vec()]);
    }

    proptest! {
        #[test]
        fn each_event_is_in_one_group_that_fits(
            n_counters in 0u32..12,
            fixed in prop::sample::subsequence(CounterEvent::ALL, 0..4),
            events in prop::sample::subsequence(CounterEvent::ALL, 0..=CounterEvent::N),
        ) {
            let groups = cut(n_counters, &fixed, &events);
            let mut all = groups.concat();
            all.sort_unstable();
            prop_assert_eq!(all, events);
            let n_available = (n_counters as usize).saturating_sub(1).max(1);
            for group in groups {
                let n_general = group.iter().filter(|event| !fixed.contains(event)).count();
                prop_assert!(n_general <= n_available && !group.is_empty());
            }
        }
    }

    #[test]
    fn events_of_fixed_counters_are_hardware_events_of_the_pmu() {
        for pmu in uarchs().iter().flat_map(|uarch| &uarch.pmus) {
            for event in &pmu.fixed {
                assert_eq!(event.source(), EventKind::Hardware);
                assert!(pmu.events.contains_key(event), "{}: {event:?}", pmu.name);
            }
        }
    }
}
