//! What can be counted of a task, and the counters of one task side by side.
//!
//! ```text
//!   CounterEvent      cycles  instructions  llc-misses  …  task-clock      one line of the table each
//!   Counters      total   total         absent         total           since the counter was opened
//!   Counted       growth  growth        absent         growth          in one interval
//! ```
//!
//! Both hold a place for every event, allocate nothing and are copied whole. Which event of the
//! processor stands behind a event is the host's business; what is absent was not counted there.

use crate::Measured;

macro_rules! counter_events {
    ($($(#[$doc:meta])* $variant:ident $name:literal $unit:literal $source:ident $meaning:literal;)*) => {
        /// Something that is counted of a task; one line of the table each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum CounterEvent {
            $($(#[$doc])* $variant,)*
        }

        impl CounterEvent {
            /// All, in the order of the table.
            pub const ALL: &[CounterEvent] = &[$(CounterEvent::$variant,)*];
            /// How many there are.
            pub const N: usize = CounterEvent::ALL.len();

            /// The name in journals, event files and tables.
            pub fn name(self) -> &'static str {
                match self { $(CounterEvent::$variant => $name,)* }
            }

            /// What it is counted in.
            pub fn unit(self) -> &'static str {
                match self { $(CounterEvent::$variant => $unit,)* }
            }

            /// Who counts it.
            pub fn source(self) -> EventKind {
                match self { $(CounterEvent::$variant => EventKind::$source,)* }
            }

            /// What it tells, in words.
            pub fn meaning(self) -> &'static str {
                match self { $(CounterEvent::$variant => $meaning,)* }
            }
        }
    };
}

counter_events! {
    /// Processor cycles.
    Cycles "cycles" "cycles" Hardware
        "cycles of the core while the task ran, at whatever speed that was";
    /// Instructions.
    Instructions "instructions" "instructions" Hardware
        "instructions that were completed";
    /// Accesses to the last-level cache.
    LlcReferences "llc-references" "accesses" Hardware
        "accesses to the last-level cache, those that missed too";
    /// Misses of the last-level cache.
    LlcMisses "llc-misses" "misses" Hardware
        "accesses that the last-level cache could not serve";
    /// Misses by loads.
    LlcLoadMisses "llc-load-misses" "misses" Hardware
        "those of them by reads that the program waited for";
    /// Misses by stores.
    LlcStoreMisses "llc-store-misses" "misses" Hardware
        "those of them by writes, which ask for a line in order to own it";
    /// Misses by prefetches.
    LlcPrefetchMisses "llc-prefetch-misses" "misses" Hardware
        "those of them by the prefetcher, which nobody waits for";
    /// Misses of the first data cache.
    L1dMisses "l1d-misses" "misses" Hardware
        "data accesses that the first cache of the core could not serve";
    /// Cycles in which the core waited for memory.
    MemoryStalls "memory-stalls" "cycles" Hardware
        "cycles in which nothing went on while a read was outstanding";
    /// Cycles in which the queue of requests to the outside was full.
    QueueFull "queue-full" "cycles" Hardware
        "cycles in which the core could send no further request because the queue for them was full";
    /// CPU time by the kernel's clock.
    TaskClock "task-clock" "ns" Software
        "time that it ran, by the clock that its counters ran with";
    /// How often it left a CPU.
    ContextSwitches "context-switches" "switches" Software
        "how often it left a CPU, to wait or because another's turn came";
    /// Moves between CPUs.
    CpuMigrations "cpu-migrations" "moves" Software
        "how often it came to another CPU";
    /// Page faults.
    PageFaults "page-faults" "faults" Software
        "accesses to pages that were not mapped yet, first touches among them";
}

/// Who counts a event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The processor's counters: not everywhere, and not every one on every processor.
    Hardware,
    /// The kernel's own books: on every machine.
    Software,
}

impl CounterEvent {
    /// The event of that name.
    pub fn of_name(name: &str) -> Option<CounterEvent> {
        CounterEvent::ALL.iter().copied().find(|event| event.name() == name)
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The counters of a task, cumulative since each was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    values: [u64; CounterEvent::N],
    /// How much of the time each ran, in thousandths; only of those that are scaled.
    ran_permille: [u16; CounterEvent::N],
    present: u16,
    scaled: u16,
}

impl Counters {
    /// Nothing was counted.
    pub const NONE: Counters = Counters {
        values: [0; CounterEvent::N],
        ran_permille: [0; CounterEvent::N],
        present: 0,
        scaled: 0,
    };

    /// One of them.
    pub fn get(&self, event: CounterEvent) -> Measured {
        let (idx, bit) = (event as usize, event.bit());
        match (self.present & bit != 0, self.scaled & bit != 0) {
            (false, _) => Measured::Absent,
            (true, false) => Measured::Exact(self.values[idx]),
            (true, true) => {
                Measured::Scaled { value: self.values[idx], ran_permille: self.ran_permille[idx] }
            }
        }
    }

    /// Sets one of them.
    pub fn set(&mut self, event: CounterEvent, measured: Measured) {
        let (idx, bit) = (event as usize, event.bit());
        let (value, ran_permille) = match measured {
            Measured::Scaled { value, ran_permille } => (value, ran_permille),
            _ => (measured.value().unwrap_or(0), 0),
        };
        let put = |bits: u16, on: bool| if on { bits | bit } else { bits & !bit };
        (self.values[idx], self.ran_permille[idx]) = (value, ran_permille);
        self.present = put(self.present, measured != Measured::Absent);
        self.scaled = put(self.scaled, matches!(measured, Measured::Scaled { .. }));
    }

    /// The same with one of them set.
    pub fn with(mut self, event: CounterEvent, measured: Measured) -> Counters {
        self.set(event, measured);
        self
    }

    /// Both together, each as [`Measured::plus`] adds it.
    #[must_use]
    pub fn plus(mut self, more: &Counters) -> Counters {
        for (event, measured) in more.iter() {
            self.set(event, self.get(event).plus(measured));
        }
        self
    }

    /// Those that are there in others too.
    #[must_use]
    pub fn where_in(mut self, others: &Counters) -> Counters {
        for &event in CounterEvent::ALL {
            if others.present & event.bit() == 0 {
                self.set(event, Measured::Absent);
            }
        }
        self
    }

    /// The same, with what is absent as it was before.
    #[must_use]
    pub fn or(mut self, before: &Counters) -> Counters {
        for (event, measured) in before.iter() {
            if self.present & event.bit() == 0 {
                self.set(event, measured);
            }
        }
        self
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Those that there are, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (CounterEvent, Measured)> + '_ {
        let there = |event: &CounterEvent| self.present & event.bit() != 0;
        CounterEvent::ALL.iter().copied().filter(there).map(|event| (event, self.get(event)))
    }

    /// Misses of the last-level cache, what loads of places stand on: the whole where the processor
    /// counts it, else the sum of the sorts of misses that it tells apart.
    pub fn misses(&self) -> Measured {
        let whole = self.get(CounterEvent::LlcMisses);
        if whole != Measured::Absent {
            return whole;
        }
        let parts = [
            CounterEvent::LlcLoadMisses,
            CounterEvent::LlcStoreMisses,
            CounterEvent::LlcPrefetchMisses,
        ];
        parts.into_iter().map(|event| self.get(event)).fold(Measured::Absent, Measured::plus)
    }
}

/// What the counters of a task grew by in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterDeltas {
    values: [u64; CounterEvent::N],
    present: u16,
    /// What was counted before, and not in this interval.
    missed: u16,
}

impl CounterDeltas {
    /// Growth between two readings, of what stands in both.
    pub fn between(now: &Counters, before: &Counters) -> CounterDeltas {
        let (present, missed) = (now.present & before.present, before.present & !now.present);
        let mut counted = CounterDeltas { present, missed, ..CounterDeltas::default() };
        if counted.present != 0 {
            for (idx, grown) in counted.values.iter_mut().enumerate() {
                *grown = now.values[idx].saturating_sub(before.values[idx]);
            }
        }
        counted
    }

    /// Growth of a newborn: what it had not at the beginning was zero then.
    pub fn since_birth(now: &Counters, before: &Counters) -> CounterDeltas {
        CounterDeltas {
            present: now.present,
            missed: 0,
            ..CounterDeltas::between(
                &Counters { present: !0, ..*now },
                &Counters { present: !0, ..*before },
            )
        }
    }

    /// How much one of them grew.
    pub fn get(&self, event: CounterEvent) -> Option<u64> {
        (self.present & event.bit() != 0).then(|| self.values[event as usize])
    }

    /// Growth of the misses of the last-level cache, found as [`Counters::misses`] finds them. Where
    /// some of what they are found from was counted before and not in this interval they are absent:
    /// the rest would be less than there were.
    pub fn misses(&self) -> Option<u64> {
        let parts = [
            CounterEvent::LlcLoadMisses,
            CounterEvent::LlcStoreMisses,
            CounterEvent::LlcPrefetchMisses,
        ];
        let sum = || parts.into_iter().filter_map(|event| self.get(event)).reduce(|a, b| a + b);
        let is_partial = || self.has_missed_misses();
        self.get(CounterEvent::LlcMisses).or_else(|| if is_partial() { None } else { sum() })
    }

    /// Whether misses were counted before the interval, and in it not, or not all of them.
    pub fn has_missed_misses(&self) -> bool {
        let whole = CounterEvent::LlcMisses.bit();
        let parts = CounterEvent::LlcLoadMisses.bit()
            | CounterEvent::LlcStoreMisses.bit()
            | CounterEvent::LlcPrefetchMisses.bit();
        let has_whole = (self.present | self.missed) & whole != 0;
        self.missed & if has_whole { whole } else { parts } != 0
    }

    /// The same with one of them told, or told anew.
    #[must_use]
    pub fn with(mut self, event: CounterEvent, grown: u64) -> CounterDeltas {
        self.values[event as usize] = grown;
        self.present |= event.bit();
        self.missed &= !event.bit();
        self
    }

    /// The same without one of them.
    #[must_use]
    pub fn without(mut self, event: CounterEvent) -> CounterDeltas {
        self.values[event as usize] = 0;
        self.present &= !event.bit();
        self
    }

    /// Those that there are, as a set in which each event has the bit of its place in the table.
    pub fn present(&self) -> u16 {
        self.present
    }

    /// Those that there are, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (CounterEvent, u64)> + '_ {
        let one = |&event: &CounterEvent| Some((event, self.get(event)?));
        CounterEvent::ALL.iter().filter_map(one)
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_got_again_and_the_rest_is_absent() {
        let scaled = Measured::Scaled { value: 9, ran_permille: 500 };
        let mut counters = Counters::NONE
            .with(CounterEvent::Cycles, Measured::Exact(7))
            .with(CounterEvent::PageFaults, scaled);
        let all: Vec<_> = counters.iter().collect();
        assert_eq!(
            all,
            [(CounterEvent::Cycles, Measured::Exact(7)), (CounterEvent::PageFaults, scaled)]
        );
        counters.set(CounterEvent::PageFaults, Measured::Absent);
        counters.set(CounterEvent::Cycles, Measured::Absent);
        assert_eq!(counters, Counters::NONE);
    }

    #[test]
    fn misses_are_the_whole_or_the_sum_of_its_parts() {
        let parts = Counters::NONE.with(CounterEvent::LlcLoadMisses, Measured::Exact(7)).with(
            CounterEvent::LlcPrefetchMisses,
            Measured::Scaled { value: 5, ran_permille: 300 },
        );
        assert_eq!(parts.misses(), Measured::Scaled { value: 12, ran_permille: 300 });
        let whole = parts.with(CounterEvent::LlcMisses, Measured::Exact(40));
        assert_eq!(whole.misses(), Measured::Exact(40));
        assert_eq!(Counters::NONE.misses(), Measured::Absent);
        let grown = CounterDeltas::between(
            &parts,
            &parts.with(CounterEvent::LlcLoadMisses, Measured::Exact(4)),
        );
        assert_eq!(
            (grown.misses(), grown.get(CounterEvent::LlcPrefetchMisses)),
            (Some(3), Some(0))
        );
    }

    #[test]
    fn misses_of_which_some_were_not_counted_in_an_interval_are_not_told() {
        let whole = Counters::NONE
            .with(CounterEvent::LlcMisses, Measured::Exact(40))
            .with(CounterEvent::LlcLoadMisses, Measured::Exact(7));
        let without = |event| CounterDeltas::between(&whole.with(event, Measured::Absent), &whole);
        assert_eq!(without(CounterEvent::LlcMisses).misses(), None, "loads are not all misses");
        assert_eq!(without(CounterEvent::LlcLoadMisses).misses(), Some(0));
        let told = without(CounterEvent::LlcMisses).with(CounterEvent::LlcMisses, 3);
        assert_eq!(told.misses(), Some(3), "somebody else tells them");
        let parts = whole.with(CounterEvent::LlcMisses, Measured::Absent);
        let parts = parts.with(CounterEvent::LlcPrefetchMisses, Measured::Exact(2));
        let fewer = parts.with(CounterEvent::LlcPrefetchMisses, Measured::Absent);
        assert_eq!(CounterDeltas::between(&fewer, &parts).misses(), None);
    }

    #[test]
    fn what_is_absent_is_as_it_was_before() {
        let before = Counters::NONE.with(CounterEvent::Cycles, Measured::Exact(7));
        let now = Counters::NONE.with(CounterEvent::Instructions, Measured::Exact(5));
        let both = now.with(CounterEvent::Cycles, Measured::Exact(7));
        assert_eq!((now.or(&before), both.or(&before)), (both, both));
        assert_eq!(both.where_in(&now), now);
    }

    #[test]
    fn growth_needs_two_readings_and_never_goes_back() {
        let now = Counters::NONE.with(CounterEvent::Cycles, Measured::Exact(3));
        let more = now.with(CounterEvent::Instructions, Measured::Exact(5));
        assert_eq!(
            CounterDeltas::between(&more, &now).iter().collect::<Vec<_>>(),
            [(CounterEvent::Cycles, 0)]
        );
        let less = CounterDeltas::between(
            &Counters::NONE.with(CounterEvent::Cycles, Measured::Exact(1)),
            &now,
        );
        assert_eq!(less.get(CounterEvent::Cycles), Some(0));
    }

    #[test]
    fn every_quantity_has_a_name_of_its_own_and_a_place() {
        const { assert!(CounterEvent::N <= 16, "the places are bits of a u16") };
        for &event in CounterEvent::ALL {
            assert_eq!(CounterEvent::of_name(event.name()), Some(event));
            assert!(!event.unit().is_empty() && !event.meaning().is_empty());
        }
    }
}
