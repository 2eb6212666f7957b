//! Counter events of tasks, their raw counters and the deltas of these counters.
//!
//! ```text
//!   CounterEvent      cycles   instructions  llc-misses  …  task-clock
//!   Counters          sample   sample        absent         sample       since the counter was opened
//!   CounterDeltas     delta    delta         absent         delta        in one interval, scaled
//! ```
//!
//! A [`RawCounter`] contains the values of one counter in a `read()` of a perf event: value, time
//! enabled, time running. Hosts and journals hold raw counters only. The engine computes the
//! [`CounterDeltas`]: it scales multiplexed counters and subtracts the counters of children.
//!
//! [`Counters`] and [`CounterDeltas`] have an entry for every event and are `Copy`. An event without a counter is
//! absent, never zero. Out of scope: the PMU event that counts a [`CounterEvent`] on a processor.

macro_rules! counter_events {
    ($($variant:ident $name:literal $unit:literal $source:ident $meaning:literal;)*) => {
        /// A counter event of tasks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum CounterEvent {
            $(#[doc = concat!($meaning, ".")] $variant,)*
        }

        impl CounterEvent {
            /// All events, in the order of their declaration.
            pub const ALL: &[CounterEvent] = &[$(CounterEvent::$variant,)*];
            /// Number of events.
            pub const N: usize = CounterEvent::ALL.len();

            /// Returns the name of the event in journals, event files and tables.
            pub fn name(self) -> &'static str {
                match self { $(CounterEvent::$variant => $name,)* }
            }

            /// Returns the unit of the event's values.
            pub fn unit(self) -> &'static str {
                match self { $(CounterEvent::$variant => $unit,)* }
            }

            /// Returns whether the event is counted by the PMU or by the kernel.
            pub fn source(self) -> EventKind {
                match self { $(CounterEvent::$variant => EventKind::$source,)* }
            }

            /// Returns the description of the event in help texts and tables.
            pub fn meaning(self) -> &'static str {
                match self { $(CounterEvent::$variant => $meaning,)* }
            }
        }
    };
}

counter_events! {
    Cycles "cycles" "cycles" Hardware
        "CPU cycles while the task was running, at the current frequency";
    Instructions "instructions" "instructions" Hardware
        "retired instructions";
    LlcReferences "llc-references" "accesses" Hardware
        "accesses to the last-level cache, misses included";
    LlcMisses "llc-misses" "misses" Hardware
        "misses of the last-level cache";
    LlcLoadMisses "llc-load-misses" "misses" Hardware
        "misses of the last-level cache by demand loads";
    LlcStoreMisses "llc-store-misses" "misses" Hardware
        "misses of the last-level cache by stores (reads for ownership)";
    LlcPrefetchMisses "llc-prefetch-misses" "misses" Hardware
        "misses of the last-level cache by the hardware prefetchers";
    L1dMisses "l1d-misses" "misses" Hardware
        "misses of the first-level data cache";
    MemoryStalls "memory-stalls" "cycles" Hardware
        "cycles in which the core is stalled on an outstanding load";
    QueueFull "queue-full" "cycles" Hardware
        "cycles in which the queue of offcore requests is full";
    TaskClock "task-clock" "ns" Software
        "CPU time of the task, measured by the kernel";
    ContextSwitches "context-switches" "switches" Software
        "context switches, voluntary and involuntary";
    CpuMigrations "cpu-migrations" "migrations" Software
        "migrations to another CPU";
    PageFaults "page-faults" "faults" Software
        "page faults, minor and major";
}

/// The component that counts an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The PMU of a core. Not every processor has every event.
    Hardware,
    /// The kernel. Available on every machine.
    Software,
}

impl CounterEvent {
    /// Returns the event with this name.
    pub fn of_name(name: &str) -> Option<CounterEvent> {
        CounterEvent::ALL.iter().copied().find(|event| event.name() == name)
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSet(u16);

impl EventSet {
    /// No event.
    pub const NONE: EventSet = EventSet(0);

    /// Returns whether the event is in the set.
    pub fn contains(self, event: CounterEvent) -> bool {
        self.0 & 1 << event as u16 != 0
    }

    /// Returns the set with the event added.
    #[must_use]
    pub fn with(self, event: CounterEvent) -> EventSet {
        EventSet(self.0 | 1 << event as u16)
    }

    /// Returns the set with the event removed.
    #[must_use]
    pub fn without(self, event: CounterEvent) -> EventSet {
        EventSet(self.0 & !(1 << event as u16))
    }

    /// Returns the union of two sets.
    #[must_use]
    pub fn or(self, other: EventSet) -> EventSet {
        EventSet(self.0 | other.0)
    }

    /// Returns the difference: the events of this set that are not in `other`.
    #[must_use]
    pub fn minus(self, other: EventSet) -> EventSet {
        EventSet(self.0 & !other.0)
    }

    /// Returns the intersection of two sets.
    #[must_use]
    pub fn and(self, other: EventSet) -> EventSet {
        EventSet(self.0 & other.0)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the events, in the order of [`CounterEvent::ALL`].
    pub fn iter(self) -> impl Iterator<Item = CounterEvent> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let event = CounterEvent::ALL.get(rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(*event)
        })
    }
}

/// One raw counter from the kernel, cumulative since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawCounter {
    /// Events counted while the counter was running.
    pub value: u64,
    /// Time in which the counter was enabled, in nanoseconds. A counter of a task is enabled only while the task is
    /// running.
    pub enabled_ns: u64,
    /// Time in which the counter was running on a hardware register, in nanoseconds. Less than
    /// `enabled_ns` if the counter was multiplexed.
    pub running_ns: u64,
}

impl RawCounter {
    /// Returns a counter of a source that never multiplexes and has no times (`/proc`, resctrl): time running equals
    /// time enabled.
    pub const fn unmultiplexed(value: u64) -> Self {
        RawCounter { value, enabled_ns: 0, running_ns: 0 }
    }

    /// Returns whether the counter was enabled but never running, because other events occupied the PMU.
    pub fn never_ran(self) -> bool {
        self.running_ns == 0 && self.enabled_ns != 0
    }

    /// Returns the sum of two counters of the same event, for example of two tasks. Values wrap at 64 bits.
    #[must_use]
    pub fn plus(self, other: RawCounter) -> Self {
        RawCounter {
            value: self.value.wrapping_add(other.value),
            enabled_ns: self.enabled_ns.saturating_add(other.enabled_ns),
            running_ns: self.running_ns.saturating_add(other.running_ns),
        }
    }
}

/// The raw counters of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Fields of the [`RawCounter`] of each event; zero for absent events.
    values: [u64; CounterEvent::N],
    enabled_ns: [u64; CounterEvent::N],
    running_ns: [u64; CounterEvent::N],
    present: EventSet,
    /// Events with times. All other events are never multiplexed.
    timed: EventSet,
}

impl Counters {
    /// No counter.
    pub const NONE: Counters = Counters {
        values: [0; CounterEvent::N],
        enabled_ns: [0; CounterEvent::N],
        running_ns: [0; CounterEvent::N],
        present: EventSet::NONE,
        timed: EventSet::NONE,
    };

    /// Returns the counter of an event.
    pub fn get(&self, event: CounterEvent) -> Option<RawCounter> {
        self.present.contains(event).then(|| self.raw(event))
    }

    fn raw(&self, event: CounterEvent) -> RawCounter {
        let idx = event as usize;
        let (enabled_ns, running_ns) = (self.enabled_ns[idx], self.running_ns[idx]);
        RawCounter { value: self.values[idx], enabled_ns, running_ns }
    }

    /// Sets the counter of an event.
    pub fn set(&mut self, event: CounterEvent, raw: RawCounter) {
        let (idx, RawCounter { value, enabled_ns, running_ns }) = (event as usize, raw);
        self.values[idx] = value;
        (self.enabled_ns[idx], self.running_ns[idx]) = (enabled_ns, running_ns);
        self.present = self.present.with(event);
        self.timed = match enabled_ns | running_ns {
            0 => self.timed.without(event),
            _ => self.timed.with(event),
        };
    }

    /// Returns the counters with this counter of one event.
    #[must_use]
    pub fn with(mut self, event: CounterEvent, raw: RawCounter) -> Counters {
        self.set(event, raw);
        self
    }

    /// Returns the sum of the counters of two tasks. If only one task counts an event, the sum is the counter of that
    /// task.
    #[must_use]
    pub fn plus(mut self, other: &Counters) -> Counters {
        for (event, raw) in other.iter() {
            self.set(event, self.get(event).map_or(raw, |known| known.plus(raw)));
        }
        self
    }

    /// Replaces counters by the counters of a later sample. An event without a counter in the later sample keeps its
    /// value.
    pub fn update(&mut self, now: &Counters) {
        if self.present.and(now.present) == self.present {
            *self = *now; // One copy is faster than one per event.
            return;
        }
        for (event, raw) in now.iter() {
            self.set(event, raw);
        }
    }

    /// Returns the deltas of all events since an earlier sample. `None` if a counter has times, as all perf counters
    /// have: it may be multiplexed, so that its delta must be scaled.
    pub fn unscaled_deltas_since(&self, before: &Counters) -> Option<CounterDeltas> {
        if !self.timed.or(before.timed).is_empty() {
            return None;
        }
        let mut deltas = CounterDeltas {
            present: before.present.and(self.present),
            uncounted: before.present.minus(self.present),
            ..CounterDeltas::default()
        };
        for &event in CounterEvent::ALL {
            let idx = event as usize;
            let delta = value_delta(self.values[idx], before.values[idx]);
            deltas.values[idx] = if deltas.present.contains(event) { delta } else { 0 };
        }
        Some(deltas)
    }

    /// Returns whether no event has a value.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Returns the counters, in the order of [`CounterEvent::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (CounterEvent, RawCounter)> + '_ {
        self.present.iter().map(|event| (event, self.raw(event)))
    }
}

/// Returns the delta of a counter's value since an earlier sample. A 64-bit value may wrap; any other value that
/// decreases has a delta of zero.
pub fn value_delta(now: u64, before: u64) -> u64 {
    now.wrapping_sub(before).cast_signed().max(0).cast_unsigned()
}

/// Delta of a counter. The delta of a counter that was not running is absent, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// The counter could not be read, or never ran.
    #[default]
    Absent,
    /// The counter was running whenever it was enabled.
    Exact(u64),
    /// The counter was multiplexed.
    Scaled {
        /// The estimate: counted value × time enabled ÷ time running.
        value: u64,
        /// Share of time the counter was running, in permille; 1 to 999.
        running_permille: u16,
    },
}

impl Measured {
    /// Returns the value, exact or estimated.
    pub fn value(self) -> Option<u64> {
        match self {
            Measured::Absent => None,
            Measured::Exact(value) | Measured::Scaled { value, .. } => Some(value),
        }
    }

    /// Returns the share of time the counter was running, in permille, if the counter was multiplexed.
    pub fn running_permille(self) -> Option<u16> {
        match self {
            Measured::Scaled { running_permille, .. } => Some(running_permille),
            Measured::Absent | Measured::Exact(_) => None,
        }
    }
}

/// Deltas of the counters of a task, scaled if they were multiplexed. Written by the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterDeltas {
    values: [u64; CounterEvent::N],
    /// Share of time the counter was running, in permille. Zero for counters that were not multiplexed.
    running_permille: [u16; CounterEvent::N],
    present: EventSet,
    uncounted: EventSet,
}

impl CounterDeltas {
    /// Sets the delta of one event.
    pub fn set(&mut self, event: CounterEvent, delta: Measured) {
        self.uncounted = self.uncounted.without(event);
        self.present = match delta {
            Measured::Absent => self.present.without(event),
            _ => self.present.with(event),
        };
        self.values[event as usize] = delta.value().unwrap_or(0);
        self.running_permille[event as usize] = delta.running_permille().unwrap_or(0);
    }

    /// Removes the delta of an event that was counted before the interval but not in the interval, and marks the
    /// event as uncounted.
    pub fn set_uncounted(&mut self, event: CounterEvent) {
        self.set(event, Measured::Absent);
        self.uncounted = self.uncounted.with(event);
    }

    /// Replaces the delta of one event by an exact value.
    #[must_use]
    pub fn with(mut self, event: CounterEvent, delta: u64) -> CounterDeltas {
        self.set(event, Measured::Exact(delta));
        self
    }

    /// Removes the deltas of these events.
    pub fn remove(&mut self, events: EventSet) {
        self.present.and(events).iter().for_each(|event| self.set(event, Measured::Absent));
    }

    /// Returns the delta of one event.
    pub fn get(&self, event: CounterEvent) -> Option<u64> {
        self.present.contains(event).then(|| self.values[event as usize])
    }

    /// Returns the delta of one event with the share of time the counter was running.
    pub fn measured(&self, event: CounterEvent) -> Measured {
        match (self.get(event), self.running_permille[event as usize]) {
            (None, _) => Measured::Absent,
            (Some(value), 0) => Measured::Exact(value),
            (Some(value), running_permille) => Measured::Scaled { value, running_permille },
        }
    }

    /// Returns the misses of the last-level cache in the interval: the delta of `LlcMisses`, else the sum of the
    /// misses by loads, stores and prefetches. The sum is absent if one of its events is uncounted, because the sum
    /// of the other events would be too low.
    pub fn misses(&self) -> Option<u64> {
        self.get(CounterEvent::LlcMisses).or_else(|| {
            let known = MISS_EVENTS.into_iter().filter_map(|event| self.get(event));
            known.reduce(u64::saturating_add).filter(|_| !self.has_uncounted_misses())
        })
    }

    /// Returns whether the misses are absent because an event was counted before the interval but not in the
    /// interval.
    pub fn has_uncounted_misses(&self) -> bool {
        match self.present.or(self.uncounted).contains(CounterEvent::LlcMisses) {
            true => self.uncounted.contains(CounterEvent::LlcMisses),
            false => MISS_EVENTS.into_iter().any(|event| self.uncounted.contains(event)),
        }
    }

    /// Returns the events that were counted before the interval but not in the interval.
    pub fn uncounted(&self) -> EventSet {
        self.uncounted
    }

    /// Returns the events with a delta.
    pub fn present(&self) -> EventSet {
        self.present
    }

    /// Returns the deltas by event, in the order of [`CounterEvent::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (CounterEvent, u64)> + '_ {
        self.present.iter().map(|event| (event, self.values[event as usize]))
    }

    /// Returns whether no event has a value.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty()
    }
}

/// Events that add up to the misses of the last-level cache.
const MISS_EVENTS: [CounterEvent; 3] =
    [CounterEvent::LlcLoadMisses, CounterEvent::LlcStoreMisses, CounterEvent::LlcPrefetchMisses];

#[cfg(test)]
mod tests {
    use super::*;
    use CounterEvent::{Cycles, Instructions, LlcLoadMisses, LlcMisses, LlcPrefetchMisses};

    const fn raw(value: u64, enabled_ns: u64, running_ns: u64) -> RawCounter {
        RawCounter { value, enabled_ns, running_ns }
    }

    #[test]
    fn counters_that_are_set_are_returned_and_all_others_are_absent() {
        let scaled = raw(9, 20, 10);
        let counters = Counters::NONE
            .with(Cycles, RawCounter::unmultiplexed(7))
            .with(CounterEvent::PageFaults, scaled);
        let all: Vec<_> = counters.iter().collect();
        assert_eq!(all, [(Cycles, raw(7, 0, 0)), (CounterEvent::PageFaults, scaled)]);
        assert_eq!(counters.get(Instructions), None);
    }

    #[test]
    fn an_update_keeps_counters_that_are_absent_now_and_a_sum_adds_all_three_fields() {
        let before = Counters::NONE.with(Cycles, raw(7, 2, 1));
        let now = Counters::NONE.with(Instructions, raw(5, 4, 4));
        let both = now.with(Cycles, raw(7, 2, 1));
        for later in [now, both] {
            let mut counters = before;
            counters.update(&later);
            assert_eq!(counters, both);
        }
        assert_eq!(both.plus(&now), both.with(Instructions, raw(10, 8, 8)));
        assert_eq!(raw(u64::MAX, 1, 1).plus(raw(3, 1, 0)), raw(2, 2, 1));
    }

    #[test]
    fn misses_are_the_event_llc_misses_or_the_sum_of_load_store_and_prefetch_misses() {
        let parts = CounterDeltas::default().with(LlcLoadMisses, 7).with(LlcPrefetchMisses, 5);
        assert_eq!(parts.misses(), Some(12));
        assert_eq!(parts.with(LlcMisses, 40).misses(), Some(40));
        assert_eq!(CounterDeltas::default().misses(), None);
    }

    #[test]
    fn the_sum_of_misses_is_absent_if_one_of_its_events_was_not_counted() {
        let uncounted = |deltas: CounterDeltas, event| {
            let mut deltas = deltas;
            deltas.set_uncounted(event);
            deltas
        };
        let whole = CounterDeltas::default().with(LlcMisses, 0).with(LlcLoadMisses, 0);
        assert_eq!(uncounted(whole, LlcMisses).misses(), None, "loads are not all misses");
        assert_eq!(uncounted(whole, LlcLoadMisses).misses(), Some(0));
        let mut removed = uncounted(whole, LlcMisses);
        removed.remove(EventSet::NONE.with(LlcMisses).with(LlcLoadMisses));
        assert_eq!(removed.present(), EventSet::NONE);
        assert!(removed.has_uncounted_misses(), "the event was uncounted before");
        let replaced = uncounted(whole, LlcMisses).with(LlcMisses, 3);
        assert_eq!(
            replaced.misses(),
            Some(3),
            "a value from another source replaces the uncounted event"
        );
        let parts = CounterDeltas::default().with(LlcLoadMisses, 0);
        assert_eq!(uncounted(parts, LlcPrefetchMisses).misses(), None);
    }

    #[test]
    fn every_event_has_a_unique_name_and_a_bit_in_a_set() {
        const { assert!(CounterEvent::N <= 16, "an EventSet has 16 bits") };
        for &event in CounterEvent::ALL {
            assert_eq!(CounterEvent::of_name(event.name()), Some(event));
            assert!(!event.unit().is_empty() && !event.meaning().is_empty());
            assert_eq!(EventSet::NONE.with(event).iter().collect::<Vec<_>>(), [event]);
        }
    }
}
