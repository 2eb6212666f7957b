//! What can be counted of a task, and the counters of one task side by side.
//!
//! ```text
//!   Quantity      cycles  instructions  llc-misses  …  task-clock      one line of the table each
//!   Counters      total   total         absent         total           since the counter was opened
//!   Counted       growth  growth        absent         growth          in one interval
//! ```
//!
//! Both hold a place for every quantity, allocate nothing and are copied whole. Which event of the
//! processor stands behind a quantity is the host's business; what is absent was not counted there.

use crate::Measured;

macro_rules! quantities {
    ($($(#[$doc:meta])* $variant:ident $name:literal $unit:literal $source:ident $meaning:literal;)*) => {
        /// Something that is counted of a task; one line of the table each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Quantity {
            $($(#[$doc])* $variant,)*
        }

        impl Quantity {
            /// All, in the order of the table.
            pub const ALL: &[Quantity] = &[$(Quantity::$variant,)*];
            /// How many there are.
            pub const N: usize = Quantity::ALL.len();

            /// The name in journals, event files and tables.
            pub fn name(self) -> &'static str {
                match self { $(Quantity::$variant => $name,)* }
            }

            /// What it is counted in.
            pub fn unit(self) -> &'static str {
                match self { $(Quantity::$variant => $unit,)* }
            }

            /// Who counts it.
            pub fn source(self) -> CountedBy {
                match self { $(Quantity::$variant => CountedBy::$source,)* }
            }

            /// What it tells, in words.
            pub fn meaning(self) -> &'static str {
                match self { $(Quantity::$variant => $meaning,)* }
            }
        }
    };
}

quantities! {
    /// Processor cycles.
    Cycles "cycles" "cycles" Processor
        "cycles of the core while the task ran, at whatever speed that was";
    /// Instructions.
    Instructions "instructions" "instructions" Processor
        "instructions that were completed";
    /// Accesses to the last-level cache.
    LlcReferences "llc-references" "accesses" Processor
        "accesses to the last-level cache, those that missed too";
    /// Misses of the last-level cache.
    LlcMisses "llc-misses" "misses" Processor
        "accesses that the last-level cache could not serve";
    /// Misses by loads.
    LlcLoadMisses "llc-load-misses" "misses" Processor
        "those of them by reads that the program waited for";
    /// Misses by stores.
    LlcStoreMisses "llc-store-misses" "misses" Processor
        "those of them by writes, which ask for a line in order to own it";
    /// Misses by prefetches.
    LlcPrefetchMisses "llc-prefetch-misses" "misses" Processor
        "those of them by the prefetcher, which nobody waits for";
    /// Misses of the first data cache.
    L1dMisses "l1d-misses" "misses" Processor
        "data accesses that the first cache of the core could not serve";
    /// Cycles in which the core waited for memory.
    MemoryStalls "memory-stalls" "cycles" Processor
        "cycles in which nothing went on while a read was outstanding";
    /// Cycles in which the queue of requests to the outside was full.
    QueueFull "queue-full" "cycles" Processor
        "cycles in which the core could send no further request because the queue for them was full";
    /// CPU time by the kernel's clock.
    TaskClock "task-clock" "ns" Kernel
        "time that it ran, by the clock that its counters ran with";
    /// How often it left a CPU.
    ContextSwitches "context-switches" "switches" Kernel
        "how often it left a CPU, to wait or because another's turn came";
    /// Moves between CPUs.
    CpuMigrations "cpu-migrations" "moves" Kernel
        "how often it came to another CPU";
    /// Page faults.
    PageFaults "page-faults" "faults" Kernel
        "accesses to pages that were not mapped yet, first touches among them";
}

/// Who counts a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedBy {
    /// The processor's counters: not everywhere, and not every one on every processor.
    Processor,
    /// The kernel's own books: on every machine.
    Kernel,
}

impl Quantity {
    /// The quantity of that name.
    pub fn of_name(name: &str) -> Option<Quantity> {
        Quantity::ALL.iter().copied().find(|quantity| quantity.name() == name)
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The counters of a task, cumulative since each was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    values: [u64; Quantity::N],
    /// How much of the time each ran, in thousandths; only of those that are scaled.
    ran_permille: [u16; Quantity::N],
    present: u16,
    scaled: u16,
}

impl Counters {
    /// Nothing was counted.
    pub const NONE: Counters = Counters {
        values: [0; Quantity::N],
        ran_permille: [0; Quantity::N],
        present: 0,
        scaled: 0,
    };

    /// One of them.
    pub fn get(&self, quantity: Quantity) -> Measured {
        let (idx, bit) = (quantity as usize, quantity.bit());
        match (self.present & bit != 0, self.scaled & bit != 0) {
            (false, _) => Measured::Absent,
            (true, false) => Measured::Exact(self.values[idx]),
            (true, true) => {
                Measured::Scaled { value: self.values[idx], ran_permille: self.ran_permille[idx] }
            }
        }
    }

    /// Sets one of them.
    pub fn set(&mut self, quantity: Quantity, measured: Measured) {
        let (idx, bit) = (quantity as usize, quantity.bit());
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
    pub fn with(mut self, quantity: Quantity, measured: Measured) -> Counters {
        self.set(quantity, measured);
        self
    }

    /// Both together, each as [`Measured::plus`] adds it.
    #[must_use]
    pub fn plus(mut self, more: &Counters) -> Counters {
        for (quantity, measured) in more.iter() {
            self.set(quantity, self.get(quantity).plus(measured));
        }
        self
    }

    /// Those that are there in others too.
    #[must_use]
    pub fn where_in(mut self, others: &Counters) -> Counters {
        for &quantity in Quantity::ALL {
            if others.present & quantity.bit() == 0 {
                self.set(quantity, Measured::Absent);
            }
        }
        self
    }

    /// The same, with what is absent as it was before.
    #[must_use]
    pub fn or(mut self, before: &Counters) -> Counters {
        for (quantity, measured) in before.iter() {
            if self.present & quantity.bit() == 0 {
                self.set(quantity, measured);
            }
        }
        self
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Those that there are, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (Quantity, Measured)> + '_ {
        let there = |quantity: &Quantity| self.present & quantity.bit() != 0;
        Quantity::ALL.iter().copied().filter(there).map(|quantity| (quantity, self.get(quantity)))
    }

    /// Misses of the last-level cache, what loads of places stand on: the whole where the processor
    /// counts it, else the sum of the sorts of misses that it tells apart.
    pub fn misses(&self) -> Measured {
        let whole = self.get(Quantity::LlcMisses);
        if whole != Measured::Absent {
            return whole;
        }
        let parts =
            [Quantity::LlcLoadMisses, Quantity::LlcStoreMisses, Quantity::LlcPrefetchMisses];
        parts.into_iter().map(|quantity| self.get(quantity)).fold(Measured::Absent, Measured::plus)
    }
}

/// What the counters of a task grew by in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    values: [u64; Quantity::N],
    present: u16,
    /// What was counted before, and not in this interval.
    missed: u16,
}

impl Counted {
    /// Growth between two readings, of what stands in both.
    pub fn between(now: &Counters, before: &Counters) -> Counted {
        let (present, missed) = (now.present & before.present, before.present & !now.present);
        let mut counted = Counted { present, missed, ..Counted::default() };
        if counted.present != 0 {
            for (idx, grown) in counted.values.iter_mut().enumerate() {
                *grown = now.values[idx].saturating_sub(before.values[idx]);
            }
        }
        counted
    }

    /// Growth of a newborn: what it had not at the beginning was zero then.
    pub fn since_birth(now: &Counters, before: &Counters) -> Counted {
        Counted {
            present: now.present,
            missed: 0,
            ..Counted::between(
                &Counters { present: !0, ..*now },
                &Counters { present: !0, ..*before },
            )
        }
    }

    /// How much one of them grew.
    pub fn get(&self, quantity: Quantity) -> Option<u64> {
        (self.present & quantity.bit() != 0).then(|| self.values[quantity as usize])
    }

    /// Growth of the misses of the last-level cache, found as [`Counters::misses`] finds them. Where
    /// some of what they are found from was counted before and not in this interval they are absent:
    /// the rest would be less than there were.
    pub fn misses(&self) -> Option<u64> {
        let parts =
            [Quantity::LlcLoadMisses, Quantity::LlcStoreMisses, Quantity::LlcPrefetchMisses];
        let sum =
            || parts.into_iter().filter_map(|quantity| self.get(quantity)).reduce(|a, b| a + b);
        let is_partial = || self.has_missed_misses();
        self.get(Quantity::LlcMisses).or_else(|| if is_partial() { None } else { sum() })
    }

    /// Whether misses were counted before the interval, and in it not, or not all of them.
    pub fn has_missed_misses(&self) -> bool {
        let whole = Quantity::LlcMisses.bit();
        let parts = Quantity::LlcLoadMisses.bit()
            | Quantity::LlcStoreMisses.bit()
            | Quantity::LlcPrefetchMisses.bit();
        let has_whole = (self.present | self.missed) & whole != 0;
        self.missed & if has_whole { whole } else { parts } != 0
    }

    /// The same with one of them told, or told anew.
    #[must_use]
    pub fn with(mut self, quantity: Quantity, grown: u64) -> Counted {
        self.values[quantity as usize] = grown;
        self.present |= quantity.bit();
        self.missed &= !quantity.bit();
        self
    }

    /// The same without one of them.
    #[must_use]
    pub fn without(mut self, quantity: Quantity) -> Counted {
        self.values[quantity as usize] = 0;
        self.present &= !quantity.bit();
        self
    }

    /// Those that there are, as a set in which each quantity has the bit of its place in the table.
    pub fn present(&self) -> u16 {
        self.present
    }

    /// Those that there are, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = (Quantity, u64)> + '_ {
        let one = |&quantity: &Quantity| Some((quantity, self.get(quantity)?));
        Quantity::ALL.iter().filter_map(one)
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
            .with(Quantity::Cycles, Measured::Exact(7))
            .with(Quantity::PageFaults, scaled);
        let all: Vec<_> = counters.iter().collect();
        assert_eq!(all, [(Quantity::Cycles, Measured::Exact(7)), (Quantity::PageFaults, scaled)]);
        counters.set(Quantity::PageFaults, Measured::Absent);
        counters.set(Quantity::Cycles, Measured::Absent);
        assert_eq!(counters, Counters::NONE);
    }

    #[test]
    fn misses_are_the_whole_or_the_sum_of_its_parts() {
        let parts = Counters::NONE
            .with(Quantity::LlcLoadMisses, Measured::Exact(7))
            .with(Quantity::LlcPrefetchMisses, Measured::Scaled { value: 5, ran_permille: 300 });
        assert_eq!(parts.misses(), Measured::Scaled { value: 12, ran_permille: 300 });
        let whole = parts.with(Quantity::LlcMisses, Measured::Exact(40));
        assert_eq!(whole.misses(), Measured::Exact(40));
        assert_eq!(Counters::NONE.misses(), Measured::Absent);
        let grown =
            Counted::between(&parts, &parts.with(Quantity::LlcLoadMisses, Measured::Exact(4)));
        assert_eq!((grown.misses(), grown.get(Quantity::LlcPrefetchMisses)), (Some(3), Some(0)));
    }

    #[test]
    fn misses_of_which_some_were_not_counted_in_an_interval_are_not_told() {
        let whole = Counters::NONE
            .with(Quantity::LlcMisses, Measured::Exact(40))
            .with(Quantity::LlcLoadMisses, Measured::Exact(7));
        let without = |quantity| Counted::between(&whole.with(quantity, Measured::Absent), &whole);
        assert_eq!(without(Quantity::LlcMisses).misses(), None, "loads are not all misses");
        assert_eq!(without(Quantity::LlcLoadMisses).misses(), Some(0));
        let told = without(Quantity::LlcMisses).with(Quantity::LlcMisses, 3);
        assert_eq!(told.misses(), Some(3), "somebody else tells them");
        let parts = whole.with(Quantity::LlcMisses, Measured::Absent);
        let parts = parts.with(Quantity::LlcPrefetchMisses, Measured::Exact(2));
        let fewer = parts.with(Quantity::LlcPrefetchMisses, Measured::Absent);
        assert_eq!(Counted::between(&fewer, &parts).misses(), None);
    }

    #[test]
    fn what_is_absent_is_as_it_was_before() {
        let before = Counters::NONE.with(Quantity::Cycles, Measured::Exact(7));
        let now = Counters::NONE.with(Quantity::Instructions, Measured::Exact(5));
        let both = now.with(Quantity::Cycles, Measured::Exact(7));
        assert_eq!((now.or(&before), both.or(&before)), (both, both));
        assert_eq!(both.where_in(&now), now);
    }

    #[test]
    fn growth_needs_two_readings_and_never_goes_back() {
        let now = Counters::NONE.with(Quantity::Cycles, Measured::Exact(3));
        let more = now.with(Quantity::Instructions, Measured::Exact(5));
        assert_eq!(
            Counted::between(&more, &now).iter().collect::<Vec<_>>(),
            [(Quantity::Cycles, 0)]
        );
        let less =
            Counted::between(&Counters::NONE.with(Quantity::Cycles, Measured::Exact(1)), &now);
        assert_eq!(less.get(Quantity::Cycles), Some(0));
    }

    #[test]
    fn every_quantity_has_a_name_of_its_own_and_a_place() {
        const { assert!(Quantity::N <= 16, "the places are bits of a u16") };
        for &quantity in Quantity::ALL {
            assert_eq!(Quantity::of_name(quantity.name()), Some(quantity));
            assert!(!quantity.unit().is_empty() && !quantity.meaning().is_empty());
        }
    }
}
