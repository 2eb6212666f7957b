//! Which events are counted together.
//!
//! ```text
//!   cycles  instructions │ references  misses │ misses by sort │ first cache │ stalls  full queue
//!   └── belongs together ┘                                     one parcel after another
//!
//!   general counters     ▓ ▓ ▓ ░        a group fills all but one of them
//!   fixed counters       ▓ ▓            and whatever has a counter of its own comes on top
//! ```
//!
//! The kernel counts a group as a whole or not at all, so one that needs every counter of a core is
//! never counted while somebody else holds a single one. On most machines somebody does: the kernel's
//! watchdog against hard lock-ups keeps a counter of cycles on every CPU (`kernel.nmi_watchdog`;
//! kernel/watchdog_perf.c). One general counter is therefore left free, always: the watchdog may be
//! switched on at any time, and where it takes the fixed counter of cycles, ours takes a general one.
//!
//! Figures that are set against each other are counted at the same times only if they stand in one
//! group: cycles with instructions, misses with references. Such parcels are taken apart only
//! where a core has fewer counters than a parcel has events.

use sched::CounterEvent;

use super::{Attr, Pmu};

/// What is counted together.
pub(super) type Events = Vec<(CounterEvent, Attr)>;

/// Cuts the events of a PMU into groups that can be counted while somebody else holds a counter.
pub(super) fn in_groups(events: Events, pmu: &Pmu) -> Vec<Events> {
    let room = usize::try_from(pmu.n_counters).unwrap_or(usize::MAX).saturating_sub(1).max(1);
    let has_own = |event| pmu.fixed.contains(&event);
    let mut groups: Vec<Events> = Vec::new();
    for parcel in parcels(events) {
        for part in parts(parcel, room, has_own) {
            let n_needed = |events: &Events| events.iter().filter(|(q, _)| !has_own(*q)).count();
            let n_wanted = n_needed(&part);
            match groups.iter_mut().find(|group| n_needed(group) + n_wanted <= room) {
                Some(group) => group.extend(part),
                None => groups.push(part),
            }
        }
    }
    groups
}

/// Events that belong together, in the order of the events.
fn parcels(events: Events) -> Vec<Events> {
    let tells_misses = events.iter().any(|(event, _)| *event == CounterEvent::LlcMisses);
    let kind = |event| match event {
        CounterEvent::Cycles | CounterEvent::Instructions => 0,
        CounterEvent::LlcReferences | CounterEvent::LlcMisses => 1,
        // They are the misses where no event tells them as a whole.
        CounterEvent::LlcLoadMisses
        | CounterEvent::LlcStoreMisses
        | CounterEvent::LlcPrefetchMisses => {
            if tells_misses {
                2
            } else {
                1
            }
        }
        CounterEvent::L1dMisses => 3,
        CounterEvent::MemoryStalls | CounterEvent::QueueFull => 4,
        _ => 5,
    };
    let mut parcels: [Events; 6] = Default::default();
    events.into_iter().for_each(|event| parcels[kind(event.0)].push(event));
    parcels.into_iter().filter(|parcel| !parcel.is_empty()).collect()
}

/// A parcel in parts that need no more general counters than there is room for.
fn parts(parcel: Events, room: usize, has_own: impl Fn(CounterEvent) -> bool) -> Vec<Events> {
    let mut parts: Vec<Events> = Vec::new();
    let mut n_free = 0;
    for event in parcel {
        let n_needed = usize::from(!has_own(event.0));
        if parts.is_empty() || n_free < n_needed {
            parts.push(Vec::new());
            n_free = room;
        }
        n_free -= n_needed;
        parts.last_mut().expect("one was pushed").push(event);
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use sched::EventKind;

    use super::*;
    use crate::perf::uarchs;

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

    /// The groups of the PMUs of a family, a line each.
    fn check(file: &str, expected: Expect) {
        let family = uarchs().iter().find(|family| family.file == file).expect("a family");
        let told = family.pmus.iter().flat_map(|pmu| {
            let events: Vec<CounterEvent> = pmu.events.keys().copied().collect();
            cut(pmu.n_counters, &pmu.fixed, &events).into_iter().map(|group| {
                let names: Vec<&str> = group.into_iter().map(CounterEvent::name).collect();
                format!("{}: {}\n", pmu.name, names.join(" "))
            })
        });
        expected.assert_eq(&told.collect::<String>());
    }

    #[test]
    fn what_is_set_against_each_other_is_counted_together() {
        check(
            "amd-zen4",
            expect![[r#"
                cpu: cycles instructions llc-references llc-misses l1d-misses
                cpu: llc-load-misses llc-prefetch-misses
            "#]],
        );
        check(
            "intel-skylake-server",
            expect![[r#"
                cpu: cycles instructions llc-references llc-misses llc-load-misses
                cpu: l1d-misses memory-stalls queue-full
            "#]],
        );
        check(
            "intel-ice-lake-server",
            expect![[r#"
                cpu: cycles instructions llc-references llc-misses llc-load-misses l1d-misses memory-stalls
            "#]],
        );
        check(
            "arm-neoverse-v2",
            expect![[r#"
                armv8_*: cycles instructions llc-references llc-load-misses l1d-misses memory-stalls
            "#]],
        );
        check(
            "generic",
            expect![[r#"
                *: cycles instructions
                *: llc-references llc-misses
            "#]],
        );
    }

    #[test]
    fn every_group_of_every_family_leaves_a_counter_to_the_watchdog() {
        for family in uarchs() {
            for pmu in &family.pmus {
                let events: Vec<CounterEvent> = pmu.events.keys().copied().collect();
                for group in cut(pmu.n_counters, &pmu.fixed, &events) {
                    let general = group.iter().filter(|event| !pmu.fixed.contains(event));
                    let n_general = general.count();
                    assert!(n_general < pmu.n_counters as usize, "{}: {group:?}", family.file);
                }
            }
        }
    }

    #[test]
    fn nothing_to_count_is_no_group_and_one_counter_is_enough_for_groups_of_one() {
        assert_eq!(cut(4, &[], &[]), [[]; 0]);
        let both = [CounterEvent::Cycles, CounterEvent::Instructions];
        assert_eq!(cut(1, &[], &both), [[CounterEvent::Cycles], [CounterEvent::Instructions]]);
        assert_eq!(cut(0, &both, &both), [both.to_vec()]);
    }

    proptest! {
        #[test]
        fn each_event_stands_in_one_group_that_fits(
            n_counters in 0u32..12,
            fixed in prop::sample::subsequence(CounterEvent::ALL, 0..4),
            events in prop::sample::subsequence(CounterEvent::ALL, 0..=CounterEvent::N),
        ) {
            let groups = cut(n_counters, &fixed, &events);
            let mut all = groups.concat();
            all.sort_unstable();
            prop_assert_eq!(all, events);
            let room = (n_counters as usize).saturating_sub(1).max(1);
            for group in groups {
                let n_general = group.iter().filter(|event| !fixed.contains(event)).count();
                prop_assert!(n_general <= room && !group.is_empty());
            }
        }
    }

    #[test]
    fn what_has_a_counter_of_its_own_is_counted_by_the_processor() {
        for pmu in uarchs().iter().flat_map(|family| &family.pmus) {
            for event in &pmu.fixed {
                assert_eq!(event.source(), EventKind::Hardware);
                assert!(pmu.events.contains_key(event), "{}: {event:?}", pmu.name);
            }
        }
    }
}
