//! What places are called at each time.
//!
//! The level of the placement domains can change while a run goes on, when CPUs come and go. `llc 1` of
//! one turn then is no place of the next. So whatever is told of a turn remembers its era, and is
//! given names at the end, by the domains of that era.

use base::CpuSet;
use engine::TurnRecord;
use topology::{Level, Machine};

use crate::places::PlaceNames;

/// The eras of a run: different ones only.
#[derive(Debug)]
pub(crate) struct Eras {
    list: Vec<(Option<Level>, CpuSet)>,
    now: Era,
}

/// Which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Era(usize);

/// What places are called in each.
#[derive(Debug)]
pub(crate) struct EraNames(Vec<PlaceNames>);

impl Eras {
    pub fn new(machine: &Machine) -> Self {
        Eras { list: vec![(None, machine.allowed().clone())], now: Era(0) }
    }

    pub fn now(&self) -> Era {
        self.now
    }

    /// Takes in what a turn tells of its places; mostly nothing.
    pub fn see(&mut self, record: &TurnRecord<'_>) {
        let level = record.current_load_basis().map(|footing| footing.level);
        self.set(level, record.sample.usable_cpus.as_ref());
    }

    /// What is not told is as it was.
    pub fn set(&mut self, level: Option<Level>, usable: Option<&CpuSet>) {
        let (level_now, usable_now) = &self.list[self.now.0];
        let (level, usable) = (level.or(*level_now), usable.unwrap_or(usable_now));
        if (level, usable) == (*level_now, usable_now) {
            return;
        }
        let known = self.list.iter().position(|(one, cpus)| (*one, cpus) == (level, usable));
        let usable = usable.clone();
        self.now = Era(known.unwrap_or(self.list.len()));
        if known.is_none() {
            self.list.push((level, usable));
        }
    }

    /// An older journal tells the level with the first loads only: before them it was the same.
    pub fn names(&self, machine: &Machine) -> EraNames {
        let first = self.list.iter().find_map(|(level, _)| *level);
        let names = |(level, usable): &(Option<Level>, CpuSet)| {
            PlaceNames::new(machine, level.or(first), usable)
        };
        EraNames(self.list.iter().map(names).collect())
    }
}

impl EraNames {
    pub fn of(&self, era: Era) -> &PlaceNames {
        &self.0[era.0]
    }
}
